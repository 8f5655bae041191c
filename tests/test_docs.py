"""Every Python block of the README and the docs runs and prints what it says."""

import doctest
import re
from pathlib import Path
from pkgutil import resolve_name

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_formula_looks_like_a_tag(page: Path) -> None:
    """Markdown passes <A z, x> on as HTML, and the browser swallows it; code keeps it."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert not [line for line in prose if re.search(r"<[A-Za-z]", line)]


def test_docstrings_on_the_api_page_have_no_tags() -> None:
    names = re.findall(r"::: hardmax\.(\S+)", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    for name in names:
        thing = resolve_name(f"hardmax.{name}")
        members = vars(thing).values() if isinstance(thing, type) else [thing]
        for member in [thing, *members]:
            assert not re.search(r"<[A-Z]", getattr(member, "__doc__", None) or ""), name
