"""The documentation and the code have none of the phrases that readers had to read
twice, and are short.

docs/developers.md lists every folder in the order of the layers, and the files of five
calls.
"""

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

import pytest

from tests.walks import walks

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
BANNED = (  # phrases, and nouns for which a common technical term exists
    *(
        "who(?:m?ever|m)",
        "nobody",
        "everybody",
        "somebody",
        "anybody",
        "so many",
        "unless said",
        "told",
        "at hand",
    ),
    *(
        "crowd",
        "whole numbers?",
        "speaks",
        "hears",
        "believes?",
        "nowhere",
        "is asked",
        "asks for",
        "in the end",
    ),
    *(
        "tells",
        "lies about",
        "goes on",
        "this and that",
        "as one would",
        "by chance alone",
        "token clouds?",
    ),
)
PATTERN = re.compile(rf"\b({'|'.join(BANNED)})\b".replace(" ", r"\s+"), re.IGNORECASE)
GENERATED = "gallery", "command-line.md"
RECORDED = re.compile(
    r"<!-- made by .*?<!-- end -->", re.DOTALL
)  # parts of pages that commands write
MAX_LINES = 4800  # of Markdown, without generated text
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {*page.parts} & {*GENERATED}
]
PAGES += [
    ROOT / name
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "benchmarks/README.md",
    )
]
DATA = "studies/topics.py"  # sentences of a data set
FOLDERS = (
    "src/hardmax",
    "examples",
    "studies",
    "benchmarks",
    "docs/course",
    "docs/extensions",
)
CODE = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.match(DATA)
]
CODE += [
    path
    for path in sorted((ROOT / "src/hardmax").rglob("*"))
    if path.suffix in (".js", ".html", ".j2", ".md")
]


def name(path: Path) -> str:
    """Return the path of a file in the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(page: str) -> str:
    """Return a page without code, formulas and addresses."""
    return re.sub(
        r"```(?!\{).*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", " ", page, flags=re.DOTALL
    )


def text_of(path: Path) -> str:
    """Return the strings and comments of a Python file, and the whole text of another
    file.
    """
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return source
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [
        token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT
    ]
    return "\n".join(
        [*filter(lambda value: isinstance(value, str), strings), *comments]
    )


def test_pages_code_and_help_avoid_banned_words() -> None:
    texts = {
        name(path): text_of(path)
        for path in [*CODE, ROOT / "tests" / "end_to_end" / "help.txt"]
    }
    texts |= {name(page): prose(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {
        file: found for file, text in texts.items() if (found := PATTERN.findall(text))
    } == {}


def test_markdown_is_short() -> None:
    """Not counted: what the build writes, the atlas, the cards of the models, and
    recorded parts.
    """
    folders = [
        ROOT / name for name in ("benchmarks", "docs", "proofs", "src", "studies")
    ]
    pages = [
        *ROOT.glob("*.md"),
        *(page for folder in folders for page in folder.rglob("*.md")),
    ]
    pages = [
        page for page in pages if not {*page.parts} & {*GENERATED, "atlas.md", "models"}
    ]
    lines = {
        name(page): len(RECORDED.sub("", page.read_text(encoding="utf-8")).splitlines())
        for page in pages
    }
    assert sum(lines.values()) <= MAX_LINES, lines


MAP = (ROOT / "docs" / "developers.md").read_text(encoding="utf-8")
CALLS = {
    "limit": "hm.limit(",
    "simulate": "hm.simulate(tokens, rule, layers",
    "attention": "hm.hardmax_attention(",
    "flow": "hm.simulate(tokens, hm.SelfAttention()",
    "fit": "hm.HardmaxClassifier().fit(",
}


def test_the_map_has_the_order_of_the_layers() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    layers = [
        {name.strip() for name in layer.split("|")} for layer in contracts[0]["layers"]
    ]
    height = {name: place for place, names in enumerate(layers) for name in names}
    rows = re.findall(
        r"^\| (`.*?) \|",
        MAP[MAP.index("| package |") : MAP.index("## Five calls")],
        re.MULTILINE,
    )
    cells = [re.findall(r"`(\w+)(?:/|\.py)`", cell) for cell in rows]
    base = {name for names in layers[-5:] for name in names}
    assert {name for cell in cells[:-1] for name in cell} == height.keys() - base
    heights = [
        height[name] for cell in cells[:-1] for name in cell
    ]  # the private base is one row
    assert heights == sorted(heights)


def test_the_walks_are_those_of_the_code() -> None:
    for call, files in walks().items():
        section = MAP[MAP.index(f"### `{CALLS[call]}") :]
        section = section[: re.search(r"\n##", section[3:]).start()]
        listed = re.findall(r"`([\w/]+\.py)`", section)
        assert sorted(files) == sorted(listed)
        assert len(listed) <= 14
