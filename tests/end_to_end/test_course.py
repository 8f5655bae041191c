"""The live pictures of the course draw and move in a browser."""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardmax.draw.pages import Page
from tests import browser

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "docs" / "course"
PICTURES = sorted(
    path.stem for path in (COURSE / "pictures").glob("*.py") if path.stem != "shared"
)
MAX_BYTES = 500_000  # of a page


def test_every_picture_is_shown_once() -> None:
    pages = [path.read_text(encoding="utf-8") for path in COURSE.glob("[0-9]-*.md")]
    assert (
        sorted(re.findall(r"```\{live\} (\w+)\n:title: .{40}", "".join(pages)))
        == PICTURES
    )  # a title to read aloud


@pytest.fixture(scope="module")
def docs() -> Iterator[None]:
    """What the build of the site can import: pictures share a module, and extensions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield
    for name in [
        name for name in sys.modules if name.split(".")[0] in ("course", "extensions")
    ]:
        del sys.modules[name]


def _page(name: str) -> Page:
    return runpy.run_path(str(COURSE / "pictures" / f"{name}.py"))["page"]()


@browser.needed
@pytest.mark.usefixtures("docs")
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_moves_in_a_browser(name: str, chromium: Any, tmp_path: Path) -> None:
    picture, file = _page(name), tmp_path / f"{name}.html"
    picture.save(file)
    assert len(picture) < MAX_BYTES
    with browser.opened(chromium, (760, 1100)) as page:
        page.goto(file.as_uri())
        player, slider = page.locator(".hm-player"), page.get_by_role("slider")
        first = page.screenshot()
        slider.focus()
        page.keyboard.press(
            "Home" if int(player.get_attribute("data-frame")) else "End"
        )
        assert page.screenshot() != first
        page.keyboard.press("Home")
        page.get_by_role("button", name="Play").click()
        page.wait_for_function(
            "() => document.querySelector('.hm-player').dataset.frame > 0"
        )
        assert not page.problems


@pytest.mark.usefixtures("docs")
def test_a_picture_of_the_site_begins_with_its_mark(tmp_path: Path) -> None:
    pytest.importorskip(
        "sphinx", reason="Sphinx is not installed: pip install '.[docs]'"
    )
    from extensions import live

    live.write(_page("three_tokens"), tmp_path / "live.html", "<!-- mark -->\n")
    assert (
        (tmp_path / "live.html")
        .read_text(encoding="utf-8")
        .startswith("<!-- mark -->\n<!doctype html>")
    )
