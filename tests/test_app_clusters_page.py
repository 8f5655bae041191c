"""The clusters in a browser: a person moves the slider, clicks a point, and sends points of their own."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("panel")
pytest.importorskip("sklearn")
pytest.importorskip("playwright")

from tests import browser

pytestmark = browser.needed

PLACE = """row => {
  const plot = Bokeh.documents[0].get_model_by_name("clusters"), view = Bokeh.index.find_one_by_id(plot.id);
  const source = plot.renderers[0].data_source, box = view.canvas_view.el.getBoundingClientRect();
  const at = (row + source.data.x.length) % source.data.x.length;
  const x = view.frame.x_scale.compute(source.data.x[at]), y = view.frame.y_scale.compute(source.data.y[at]);
  return isFinite(x + y) && [box.x + x, box.y + y]; // the scales have no numbers before the first drawing
}"""
LINES = "() => Bokeh.documents[0].get_model_by_name('clusters').renderers[1].data_source.data.x0.length"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with browser.served() as address:
        yield f"{address}/clusters"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.started() as chromium:
        yield chromium


@pytest.fixture
def page(chromium: Any, address: str) -> Iterator[Any]:
    with browser.opened(chromium) as page:
        page.goto(address)
        status(page, "2 clusters of 500 points, found.")
        yield page
        assert page.problems == []


def place(page: Any, row: int) -> list[float]:
    """Where a point stands on the screen, once it is drawn."""
    return page.wait_for_function(PLACE, arg=row).json_value()


def point_at(page: Any, row: int, words: str) -> None:
    """Hold the pointer over a point until it says so: a page that is still loading may move it away or not hear."""
    from playwright.sync_api import TimeoutError as TooLate

    until = time.monotonic() + browser.LATE
    while True:
        page.mouse.move(0, 0)
        page.mouse.move(*place(page, row))
        try:
            return page.get_by_text(words).wait_for(timeout=1000)
        except TooLate:
            if time.monotonic() > until:
                raise


def status(page: Any, words: str) -> None:
    page.locator(".hm-status", has_text=words).wait_for()


def test_the_slider_changes_the_number_and_a_link_shows_it_again(page: Any) -> None:
    page.get_by_role("button", name="Cut the tree").click()
    status(page, "4 clusters of 500 points, cut from the tree of the 2 that were found")
    page.get_by_role("slider", name="Number of clusters").focus()
    page.keyboard.press("ArrowRight")
    status(page, "5 clusters of 500 points")
    assert page.locator("tbody tr").count() == 5
    page.get_by_role("img", name="cut where 5 are left").wait_for()
    page.wait_for_function("() => location.search.includes('c=')")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    status(page, "5 clusters of 500 points")


def test_a_click_shows_who_follows(page: Any) -> None:
    page.wait_for_function(f"({LINES})() === 0")
    point_at(page, -1, "strength 1.00")
    page.mouse.click(*place(page, -1))
    page.get_by_text("with 249 followers").wait_for()
    page.wait_for_function(f"({LINES})() === 250")
    page.get_by_label("Show who follows").select_option("nobody")
    page.wait_for_function(f"({LINES})() === 0")


def test_bad_points_get_a_sentence_and_good_ones_are_taken(page: Any, tmp_path: Path) -> None:
    page.get_by_text("Points of your own").click()
    area = page.get_by_label("Or paste rows of numbers")
    area.fill("a,1,<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Use these").click()
    page.get_by_text("what you pasted must hold numbers").wait_for()
    path = tmp_path / "points.csv"
    many = np.random.default_rng(0).normal(size=(1600, 4))  # numbers
    path.write_text("\n".join(",".join(map(str, row)) for row in many.round(3)))
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_text("These points are too many for a link").wait_for()
    page.wait_for_function("() => !location.search.includes('c=')")
    near = [f"<b>{i}</b>,{i % 7},{i % 5},{i % 3}" for i in range(40)]
    far = [f"far {i},{90 + i % 7},{i % 5},{i % 3}" for i in range(40)]
    path.write_text("\n".join(["who,a,b,c", *near, *far]))
    page.locator("input[type=file]").set_input_files(path)
    status(page, "of 80 points")
    page.get_by_text("drawn along their two principal axes").wait_for()
    assert page.locator("td b").count() == 0
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_text("CSV", exact=True).click()
    assert download.value.path().read_text().startswith("point,a,b,c,cluster,leader,leads,strength\n<b>0</b>,0.0,")


@pytest.mark.parametrize("theme", ["", pytest.param("?theme=dark", marks=pytest.mark.slow)])
def test_nobody_is_kept_out(chromium: Any, address: str, theme: str) -> None:
    with browser.opened(chromium, (800, 900)) as page:
        page.goto(address + theme)
        status(page, "2 clusters of 500 points")
        for title in ("Points of your own", "Axes", "Export"):
            page.get_by_text(title, exact=True).first.click()
        page.get_by_role("img", name="cut where 2 are left").wait_for()
        assert browser.unfriendly(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 800
        assert page.problems == []


def test_a_link_that_was_cut_says_so(chromium: Any, address: str) -> None:
    with browser.opened(chromium) as page:
        page.goto(f"{address}?c=eNo")
        page.get_by_text("This link does not hold what it should").wait_for()
        status(page, "2 clusters of 500 points")
        assert page.problems == []
