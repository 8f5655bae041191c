"""Every Python block of the README and the docs runs and prints what it says."""

import doctest
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import hardmax as hm

ROOT = Path(__file__).parents[1]
MADE = ("gallery", "command-line.md")  # by the build of the site
SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not {*page.parts} & {*MADE}]
PAGES = [ROOT / "README.md", *SITE]
PAGES = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_blocks_run(page: Path) -> None:
    mpl.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    test = parser.get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert test.examples
    report: list[str] = []
    runner.run(test, out=report.append)
    plt.close("all")
    assert runner.failures == 0, "".join(report)


def test_the_page_of_theorems_names_every_function_that_tests_one() -> None:
    text = (ROOT / "docs" / "theorems.md").read_text(encoding="utf-8")
    rows = re.search(r"\| statements \| functions \|\n(.*?)\n\n(.*?)\n\n", text, re.DOTALL)
    assert rows is not None
    cells = [line.split("|")[2] for line in rows[1].splitlines()[1:]]
    checks = (*hm.theorems.STATEMENTS, *hm.theorems.SELF_ATTENTION, hm.theorems.energy)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == {check.__name__ for check in checks}
    assert "no function" in rows[2]


@pytest.mark.parametrize("page", SITE, ids=_name)
def test_no_formula_looks_like_a_tag(page: Path) -> None:
    """Markdown passes <A z, x> on as HTML, and the browser swallows it; code keeps it."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert not [line for line in prose if re.search(r"<[A-Za-z]", line)]
