"""docs/developers.md shows the house as it is: its rooms in their layers, and the files of five calls."""

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
MAX_FILES = 12  # of one call
MAX_FILES_OF_FIT = 19  # half of them in text/


def rows() -> list[str]:
    """The first cells of the table of rooms."""
    table = MAP[MAP.index("| room |") : MAP.index("## Five calls")]
    return re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)


def test_every_room_is_on_the_map() -> None:
    named = set(re.findall(r"`([\w./]+)`", " ".join(rows())))
    package = ROOT / "src" / "hardmax"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("[a-z]*.py")}
    assert rooms <= named
    assert {name for name in named if not name.startswith("_")} <= rooms


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
    told = re.findall(r"`([\w/]+\.py)`", section)
    assert set(walked[call]) == set(told)
    assert len(told) == len(set(told)) <= (MAX_FILES_OF_FIT if call == "fit" else MAX_FILES)
