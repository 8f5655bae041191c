"""The documentation and the code have none of the phrases that readers had to read twice, and are short."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
BANNED = (  # phrases, and nouns for which a common technical term exists
    *("who(?:m?ever|m)", "nobody", "everybody", "somebody", "anybody", "so many", "unless said", "told", "at hand"),
    *("crowd", "whole numbers?", "speaks", "hears", "believes?", "nowhere", "is asked", "asks for", "in the end"),
    *("tells", "lies about", "goes on", "this and that", "as one would", "by chance alone", "token clouds?"),
)
PATTERN = re.compile(rf"\b({'|'.join(BANNED)})\b".replace(" ", r"\s+"), re.IGNORECASE)
GENERATED = "gallery", "command-line.md"
RECORDED = re.compile(r"<!-- made by .*?<!-- end -->", re.DOTALL)  # parts of pages that commands write
MAX_LINES = 4800  # of Markdown, without generated text
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not {*page.parts} & {*GENERATED}]
PAGES += [
    ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
]
DATA = "studies/topics.py"  # sentences of a data set
FOLDERS = "src/hardmax", "examples", "studies", "benchmarks", "docs/course", "docs/extensions"
CODE = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if not path.match(DATA)]
CODE += [path for path in sorted((ROOT / "src/hardmax").rglob("*")) if path.suffix in (".js", ".html", ".j2", ".md")]


def name(path: Path) -> str:
    """Return the path of a file in the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(page: str) -> str:
    """Return a page without code, formulas and addresses."""
    return re.sub(r"```(?!\{).*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", " ", page, flags=re.DOTALL)


def text_of(path: Path) -> str:
    """Return the strings and comments of a Python file, and the whole text of another file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return source
    strings = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*filter(lambda value: isinstance(value, str), strings), *comments])


def test_pages_code_and_help_avoid_banned_words() -> None:
    texts = {name(path): text_of(path) for path in [*CODE, ROOT / "tests" / "end_to_end" / "help.txt"]}
    texts |= {name(page): prose(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {file: found for file, text in texts.items() if (found := PATTERN.findall(text))} == {}


def test_markdown_is_short() -> None:
    """Not counted: what the build writes, the atlas, the cards of the models, and recorded parts."""
    folders = [ROOT / name for name in ("benchmarks", "docs", "proofs", "src", "studies")]
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    pages = [page for page in pages if not {*page.parts} & {*GENERATED, "atlas.md", "models"}]
    lines = {name(page): len(RECORDED.sub("", page.read_text(encoding="utf-8")).splitlines()) for page in pages}
    assert sum(lines.values()) <= MAX_LINES, lines
