"""The course: eight lessons of one build, and live pictures that draw and move in a browser."""

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
LESSONS = sorted(COURSE.glob("[0-9]-*.md"))
PICTURES = sorted(path.stem for path in (COURSE / "pictures").glob("*.py") if path.stem != "shared")
MAX_BYTES = 500_000  # of a page
ANSWER = re.compile(r":::\{dropdown\} Answer\n(.*?)\n:::\n", re.DOTALL)
LIVE = re.compile(r"```\{live\} (\w+)\n:title: (.+)\n")


def _stem(path: Path) -> str:
    return path.stem


def test_eight_lessons_in_the_order_of_their_numbers() -> None:
    index = (COURSE / "index.md").read_text(encoding="utf-8")
    listed = re.search(r"```\{toctree\}\n.*?\n\n(.*?)\n```", index, re.DOTALL)
    assert listed is not None
    assert listed[1].split() == [path.stem for path in LESSONS]
    assert [path.stem[0] for path in LESSONS] == list("12345678")


def test_every_picture_is_shown_once() -> None:
    shown = [name for path in LESSONS for name, _ in LIVE.findall(path.read_text(encoding="utf-8"))]
    assert sorted(shown) == PICTURES


@pytest.mark.parametrize("path", LESSONS, ids=_stem)
def test_a_lesson_has_all_its_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert 60 <= len(text.splitlines()) <= 140
    (picture,) = LIVE.findall(text)
    assert len(picture[1]) > 40  # for those who cannot see it
    assert "hardmax app" in text or "hm.interactive(" in text or "hardmax inspect" in text  # to play with it oneself
    before, claim, after = text.partition("\n## Claim: ")
    assert claim
    assert "You will see" in before
    claimed, exercises, tasks = after.partition("\n## Exercises\n")
    assert exercises
    assert "\n> " in claimed  # the statement itself
    assert "*Proof.*" in claimed or "The proofs are in" in claimed
    assert "arXiv" in claimed or "Proved here" in claimed or ".md" in claimed  # whose it is
    assert "```python\n>>> " in claimed  # and lines that check it
    answers = ANSWER.findall(tasks)
    assert re.findall(r"^\*\*(\d)\.\*\* ", tasks, re.MULTILINE) == ["1", "2", "3"][: len(answers)]
    assert len(answers) >= 2
    for answer in answers:
        assert "```python\n>>> " in answer  # run by test_docs.py
    assert re.search(r"^\*\*\d\.\*\* .*?Prove\b", tasks, re.MULTILINE)
    assert any("∎" in answer for answer in answers)
    assert "../gallery/" in tasks
    later = [each.name for each in LESSONS if each.name > path.name]
    assert not later or f"({later[0]})" in tasks


@pytest.fixture(scope="module")
def docs() -> Iterator[None]:
    """What the build of the site can import: pictures share a module, and extensions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("course", "extensions")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.started() as chromium:
        yield chromium


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
        page.keyboard.press("Home" if int(player.get_attribute("data-frame")) else "End")
        assert page.screenshot() != first
        page.keyboard.press("Home")
        page.get_by_role("button", name="Play").click()
        page.wait_for_function("() => document.querySelector('.hm-player').dataset.frame > 0")
        assert not page.problems


@pytest.mark.usefixtures("docs")
def test_a_picture_of_the_site_begins_with_its_mark(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install '.[docs]'")
    from extensions import live

    live.write(_page("three_tokens"), tmp_path / "live.html", "<!-- mark -->\n")
    assert (tmp_path / "live.html").read_text(encoding="utf-8").startswith("<!-- mark -->\n<!doctype html>")
