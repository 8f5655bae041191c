"""The how-to pages from start to end: their files are made, their commands run, and print what the pages show."""

import re
from pathlib import Path

import pytest

from tests.shell_pages import agrees, commands, files, run

ROOT = Path(__file__).parents[1]
HOW_TO = ROOT / "docs" / "how-to"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(HOW_TO.glob("*.md"))}
WITH_COMMANDS = [name for name, page in PAGES.items() if list(commands(page))]
WRITTEN = {
    "answers": {"answers.csv", "tokens.csv", "mistakes.html", "why.html"},
    "words-in-a-corpus": {"scored", "tokens.csv"},
}


LONG = "cluster-machine", "words-in-a-corpus"  # which start clusters, or read much


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in WITH_COMMANDS]
)
def test_a_page_from_start_to_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGES[name]
    for file, content in files(page).items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    for command, shown in commands(page):
        code, printed = run(command, tmp_path, monkeypatch, capsys)
        assert code == (2 if shown and shown[0].startswith("Error: ") else 0), f"$ {command}\n{printed}"
        assert agrees(printed, shown), f"$ {command}\n{printed}"
    assert {path.name for path in tmp_path.iterdir()} >= WRITTEN.get(name, set())


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_in_the_index_and_no_longer_than_one_task(name: str) -> None:
    if name != "index":
        assert re.search(rf"^{name}$", PAGES["index"], re.MULTILINE)
        assert len(PAGES[name].splitlines()) <= 180


def test_what_a_page_shows_is_compared() -> None:
    page = "```console\n$ hardmax x\nWrote 3 files\n...\nword   +0.5 ██\n$ python a.py\na\n```\n```sh\nls\n```"
    assert list(commands(page)) == [("hardmax x", ["Wrote 3 files", "...", "word   +0.5 ██"]), ("python a.py", ["a"])]
    assert agrees("word   -0.7 █████\nother\nWrote 12 files", ["Wrote 3 files", "...", "word   +0.5 ██"])
    assert not agrees("Wrote 12 pages", ["Wrote 3 files"])
