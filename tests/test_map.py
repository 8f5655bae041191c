"""docs/developers.md lists every folder in the order of the layers, and the files of five calls."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.walks import walks

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
MAP = (ROOT / "docs" / "developers.md").read_text(encoding="utf-8")
CALLS = {
    "limit": "hm.limit(",
    "simulate": "hm.simulate(tokens, rule, layers",
    "attention": "hm.hardmax_attention(",
    "flow": "hm.simulate(tokens, hm.SelfAttention()",
    "fit": "hm.HardmaxClassifier().fit(",
}
MAX_FILES = 13  # of one call


def rows() -> list[str]:
    """Return the first cells of the table of folders."""
    table = MAP[MAP.index("| package |") : MAP.index("## Five calls")]
    return re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)


def test_every_package_is_in_the_table() -> None:
    named = set(re.findall(r"`([\w./]+)`", " ".join(rows())))
    package = ROOT / "src" / "hardmax"
    packages = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    packages |= {path.name for path in package.glob("[a-z]*.py")}
    assert packages <= named
    assert {name for name in named if not name.startswith("_")} <= packages


def test_the_map_has_the_order_of_the_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [{name.strip() for name in layer.split("|")} for layer in contracts[0]["layers"]]
    height = {name: place for place, names in enumerate(layers) for name in names}
    cells = [re.findall(r"`(\w+)(?:/|\.py)`", cell) for cell in rows()]
    heights = [height[name] for cell in cells[:-1] for name in cell]  # the private base is one row
    assert heights == sorted(heights)


def test_contributors_find_the_map() -> None:
    assert "docs/developers.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def walked() -> dict[str, list[str]]:
    return walks()


@pytest.mark.parametrize("call", CALLS)
def test_the_walks_are_those_of_the_code(call: str, walked: dict[str, list[str]]) -> None:
    section = MAP[MAP.index(f"### `{CALLS[call]}") :]
    section = section[: re.search(r"\n##", section[3:]).start()]
    listed = re.findall(r"`([\w/]+\.py)`", section)
    assert set(walked[call]) == set(listed)
    assert len(listed) == len(set(listed)) <= MAX_FILES
