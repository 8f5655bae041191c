"""The playground in a browser: a person drags a token, and the leaders change."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("panel")
pytest.importorskip("playwright")

from tests import browser

pytestmark = browser.needed


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with browser.served() as address:
        yield f"{address}/playground"


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    with browser.opened() as page:
        page.goto(address)
        page.locator(".hm-status").wait_for()
        yield page
        assert page.problems == []


def leaders(page: Any) -> list[int]:
    return page.locator(".hm-plane").evaluate("plane => plane.leaders()")


def drag(page: Any, token: int, dx: float, dy: float) -> None:
    canvas = page.locator(".hm-plane canvas").bounding_box()
    x, y = page.locator(".hm-plane").evaluate("(plane, i) => plane.pixelsOf(i)", token)
    x, y = x + canvas["x"], y + canvas["y"]
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(1, 13):
        page.mouse.move(x + dx * k / 12, y + dy * k / 12)
    seen = page.locator(".hm-plane").evaluate("(plane, i) => plane.pixelsOf(i)", token)
    assert seen == pytest.approx([x + dx - canvas["x"], y + dy - canvas["y"]], abs=1)  # under the pointer at once
    page.mouse.up()


def until(page: Any, condition: str) -> None:
    page.wait_for_function(f"() => {{ const plane = window.hmPlane; return plane && ({condition}); }}")


def test_a_dragged_token_changes_who_leads_and_a_link_shows_it_again(page: Any, address: str) -> None:
    assert leaders(page) == [0, 1, 2]
    page.wait_for_function("() => location.search.includes('s=')")
    before = page.url
    drag(page, 0, -230, 230)
    until(page, "plane.leaders().join() === '1,2,5'")
    page.wait_for_function("before => location.href !== before", arg=before)
    link = page.url
    page.get_by_role("button", name="Undo").click()
    until(page, "plane.leaders().join() === '0,1,2'")
    page.goto("about:blank")
    page.goto(link)
    page.locator(".hm-status").wait_for()
    assert leaders(page) == [1, 2, 5]
    page.go_back()
    page.go_forward()
    page.locator(".hm-status").wait_for()
    assert leaders(page) == [1, 2, 5]


def test_rules_and_their_parameters(page: Any) -> None:
    page.get_by_role("button", name="softmax", exact=True).click()
    page.get_by_text("Ran 30 layers on 15 tokens").first.wait_for()
    slider = page.get_by_role("slider", name="Temperature")
    slider.focus()
    page.keyboard.press("Home")
    page.get_by_text("Certified at layer 0").first.wait_for()
    assert leaders(page) == [0, 1, 2]


def test_layers_are_played(page: Any) -> None:
    page.get_by_role("button", name="One layer ahead").click()
    until(page, "plane.shown() === 1")
    page.get_by_role("button", name="Play through the layers").click()
    until(page, "plane.shown() > 4")
    page.get_by_role("button", name="Play through the layers").click()


def test_the_keyboard_alone(page: Any) -> None:
    page.locator(".hm-plane canvas").focus()
    page.keyboard.press("n")
    until(page, "plane.selected() === 0")
    page.keyboard.press("Delete")
    until(page, "plane.count() === 14")
    page.keyboard.press("Control+z")
    until(page, "plane.count() === 15")
    page.keyboard.press("Insert")
    until(page, "plane.count() === 16")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    page.keyboard.press(".")
    until(page, "plane.shown() === 1")


def test_control_finds_A(page: Any) -> None:
    pytest.importorskip("cvxpy")
    page.get_by_role("button", name="5. Choose A").click()
    until(page, "plane.count() === 50")
    page.get_by_text("Choose who leads").click()
    canvas = page.locator(".hm-plane canvas").bounding_box()
    x, y = page.locator(".hm-plane").evaluate("plane => plane.pixelsOf(47)")
    page.mouse.click(canvas["x"] + x, canvas["y"] + y)
    until(page, "plane.selected() === 47")
    page.get_by_role("button", name="Selected token shall lead").click()
    page.get_by_text("so far: 47").wait_for()
    page.get_by_role("button", name="Find A").click()
    page.get_by_text("Found: token 47 leads").wait_for()
    until(page, "plane.leaders().includes(47)")


def test_bad_input_gets_a_sentence_and_is_not_run(page: Any) -> None:
    page.get_by_text("Tokens", exact=True).click()
    area = page.get_by_label("Or paste rows of numbers")
    area.fill("<img src=x onerror=alert(1)>,2")
    page.get_by_role("button", name="Use these").click()
    page.get_by_role("alert").get_by_text("must hold").wait_for()
    assert page.locator("img").count() == 0
    area.fill("0.6,0.8\n1,0\n-0.7,-0.7\n0.2,0.1")
    page.get_by_role("button", name="Use these").click()
    until(page, "plane.count() === 4")


def test_a_link_that_was_cut_says_so(address: str) -> None:
    with browser.opened() as page:
        page.goto(f"{address}?s=eNo")
        page.get_by_role("alert").get_by_text("This link does not hold what it should").wait_for()
        assert page.problems == []


def test_a_link_to_reviews_shows_them_again(address: str) -> None:
    with browser.opened() as page:
        page.goto(address.replace("playground", "reviews"))
        page.get_by_role("textbox", name="Text 1").fill("A dull story, but a wonderful ending.")
        page.wait_for_function("() => location.search.includes('r=')")
        link = page.url
        page.goto("about:blank")
        page.goto(link)
        area = page.get_by_role("textbox", name="Text 1")
        area.wait_for()
        assert area.input_value() == "A dull story, but a wonderful ending."
        assert page.problems == []
