"""Expand blocks in the pages of the reference.

A block ```{names} lists public names, one per line; each gets a section, whose entry is
folded below its summary. A block ```{pages} lists pages; each is in the hidden table of
contents and gets a section with its first paragraph and its names, folded.
"""

import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```\{(names|pages)\}\n(.*?)```$", re.MULTILINE | re.DOTALL)
CALLABLE = re.compile(r"^ *\.\. auto\w+:: (hardmax\.\S+)", re.MULTILINE)
CODE = re.compile(r"(`[^`]*`)")
SIGNS = re.compile(r"\||(?<=\w)_(?=\W|$)")  # |z| is a norm, and labels_ is an attribute


def read(page: Path) -> str:
    """Return the text of a page with its blocks expanded."""
    return expand(page.read_text(encoding="utf-8"), page.parent)


def expand(text: str, folder: Path) -> str:
    """Expand the blocks of a page."""
    parts = []
    done = 0
    for block in BLOCK.finditer(text):
        parts.append(text[done : block.start()])
        lines = block[2].split()
        if block[1] == "names":
            depth = max(
                2, len(re.findall(r"^(#+) ", "".join(parts), re.MULTILINE)[-1]) + 1
            )
            parts.append("\n\n".join(_name(name, depth) for name in lines))
        else:
            contents = "\n".join(("```{toctree}", ":hidden:", "", *lines, "```"))
            existing = [
                page for line in lines if (page := folder / f"{line}.md").exists()
            ]  # one is generated
            parts.append("\n\n".join((contents, *map(_page, existing))))
        done = block.end()
    return "".join((*parts, text[done:]))


def _name(name: str, depth: int) -> str:
    """Return the section of a class, which begins with a capital, of a constant in
    capitals, or of a function.
    """
    last = name.rpartition(".")[2]
    directive = (
        f".. autoclass:: {name}\n        :members:"
        if last[0].isupper()
        else f".. autofunction:: {name}"
    )
    if last.isupper():
        return (
            f"{'#' * depth} {last}\n\n```{{eval-rst}}\n.. py:data:: {name}\n\n.."
            f" minigallery:: {name}\n```"
        )
    summary = escape(
        " ".join((inspect.getdoc(_find(name)) or last).split("\n\n")[0].split())
    )
    entry = f".. dropdown:: {summary}\n\n    {directive}\n\n    .. minigallery:: {name}"
    return f"{'#' * depth} {last}\n\n```{{eval-rst}}\n{entry}\n```"


def _find(name: str) -> Any:
    """Return the object of a public path; functions come before modules of the same
    name.
    """
    module, _, rest = name.partition(".")
    path = [module]

    def step(thing: Any, part: str) -> Any:
        path.append(part)
        return getattr(thing, part, None) or import_module(".".join(path))

    return reduce(step, rest.split("."), import_module(module))


def escape(line: str) -> str:
    """Escape characters outside of code that mean something else to reStructuredText."""
    parts = CODE.split(line)
    parts[::2] = [SIGNS.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def _page(page: Path) -> str:
    """Return the section of a page: title, first paragraph and a table of its names."""
    text = read(page)
    title, intro = text.removeprefix("# ").split("\n\n")[:2]
    section = f"## [{title}]({page.name})\n\n{intro}"
    if names := CALLABLE.findall(text):
        rows = "\n".join(f"        {name}" for name in names)
        table = f"    .. autosummary::\n        :nosignatures:\n\n{rows}"
        section += (
            f"\n\n```{{eval-rst}}\n.. dropdown:: {len(names)} names\n\n{table}\n```"
        )
    return section


def setup(app: Any) -> dict[str, bool]:
    """Expand the blocks when Sphinx reads a page of the reference."""

    def expand_source(app: Any, docname: str, source: list[str]) -> None:
        if docname.startswith("reference/"):
            source[0] = expand(source[0], Path(app.srcdir) / "reference")

    app.connect("source-read", expand_source)
    return {"parallel_read_safe": True}
