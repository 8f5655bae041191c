"""Every Python block and command of the README and the docs runs and prints what its
page shows.

In a how-to page, a block ```{code-block} python with a caption is a file of that name.
A line of a ```console block that begins with `$` is a command, and the lines below it
are its output. Commands in ```sh blocks are not run.
"""

import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import hardmax as hm
from hardmax.cli.main import main

ROOT = Path(__file__).parents[1]
MADE = ("gallery", "command-line.md")  # by the build of the site
PATHS = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {*page.parts} & {*MADE}
]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *PATHS]
}
WITH_PYTHON = [name for name, page in PAGES.items() if "```python" in page]
HOW_TO = {
    Path(name).stem: page
    for name, page in PAGES.items()
    if name.startswith("docs/how-to/")
}
HOME = "/home/ada"  # stands in pages for the folder in which commands run
FILE = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
WRITTEN = {
    "answers": {"answers.csv", "tokens.csv", "mistakes.html", "why.html"},
    "words-in-a-corpus": {"scored", "tokens.csv"},
}
LONG = "cluster-machine", "words-in-a-corpus"  # start clusters, or read large files


def run_examples(text: str, name: str) -> None:
    """Run the doctests of a text."""
    mpl.use("Agg")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=flags, verbose=False),
    )
    test = parser.get_doctest(text, {}, name, name, 0)
    assert test.examples
    report: list[str] = []
    runner.run(test, out=report.append)
    plt.close("all")
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_blocks_run(name: str) -> None:
    run_examples(
        "\n".join(re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)), name
    )


@pytest.mark.parametrize("name", PAGES)
def test_no_formula_looks_like_a_tag(name: str) -> None:
    """Markdown passes <A z, x> on as HTML, which browsers do not show; code keeps it."""
    text = re.sub(r"```.*?```|`[^`]*`", "", PAGES[name], flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert name == "README.md" or not [
        line for line in prose if re.search(r"<[A-Za-z]", line)
    ]


def split_commands(page: str) -> list[tuple[str, list[str]]]:
    """Return each command of a page, and the lines below it."""
    parts = [
        part
        for block in SESSION.findall(page)
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


def run(
    line: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    """Return the exit code and the output of `hardmax`, of `echo` into it, or of
    `python`, run in a folder.
    """
    *before, line = line.split(" | ", 1)
    if before:
        monkeypatch.setattr(
            sys, "stdin", io.StringIO("\n".join(shlex.split(before[0])[1:]) + "\n")
        )
    program, *arguments = shlex.split(line)
    assert program in ("hardmax", "python"), f"tests do not run {program}"
    if program == "hardmax":
        code, printed = main(arguments), capsys.readouterr()
        out = printed.out + printed.err
    else:
        command, environment = (
            [sys.executable, *arguments],
            os.environ | {"MPLBACKEND": "Agg"},
        )
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        code, out = done.returncode, done.stdout + done.stderr
    return code, out.replace(str(folder), HOME)


def agrees(printed: str, shown: list[str]) -> bool:
    """Return whether every shown line is printed, but for numbers and bars; the order
    may differ between machines.
    """

    def without_numbers(line: str) -> str:
        return re.sub(r"[-+]?[\d.,]*\d[\d.,]*", "#", line.replace("█", "")).rstrip()

    lines = [without_numbers(line) for line in printed.splitlines()]
    return all(
        without_numbers(line) in lines
        for line in shown
        if line.strip() not in ("", "...")
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name, page in HOW_TO.items()
        if split_commands(page)
    ],
)
def test_the_commands_of_a_how_to_page_run(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, content in FILE.findall(HOW_TO[name]):
        (tmp_path / file).write_text(content, encoding="utf-8")
    for command, shown in split_commands(HOW_TO[name]):
        code, printed = run(command, tmp_path, monkeypatch, capsys)
        assert code == (2 if shown and shown[0].startswith("Error: ") else 0), (
            f"$ {command}\n{printed}"
        )
        assert agrees(printed, shown), f"$ {command}\n{printed}"
    assert {path.name for path in tmp_path.iterdir()} >= WRITTEN.get(name, set())


def test_shown_output_is_compared() -> None:
    page = (
        "```console\n$ hardmax x\nWrote 3 files\n...\nword   +0.5 ██\n$ python"
        " a.py\na\n```\n```sh\nls\n```"
    )
    first, second = split_commands(page)
    assert (first, second) == (
        ("hardmax x", ["Wrote 3 files", "...", "word   +0.5 ██"]),
        ("python a.py", ["a"]),
    )
    assert agrees("word   -0.7 █████\nother\nWrote 12 files", first[1])
    assert not agrees("Wrote 12 pages", ["Wrote 3 files"])


def test_the_atlas_is_written_from_the_theorems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`python docs/extensions/atlas.py` writes it; every function that tests a
    statement has a row.
    """
    monkeypatch.syspath_prepend(ROOT / "docs")
    atlas = importlib.import_module("extensions.atlas")
    assert PAGES["docs/atlas.md"] == atlas.make()
    rows = {name for section in atlas.TESTED.values() for name, *_ in section}
    checks = (
        *hm.theorems.STATEMENTS,
        *hm.theorems.CAUSAL,
        *hm.theorems.SELF_ATTENTION,
        hm.theorems.energy,
    )
    checks += (
        *hm.theorems.FRANK_WOLFE,
        *hm.theorems.CAUSAL_SPHERE,
    )
    assert rows == {check.__name__ for check in checks}
