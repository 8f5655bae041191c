"""The public names that have a place in the reference, and how docstrings mention them."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

from . import reference as pages

PLACE = re.compile(r"^ *\.\. (?:auto\w+|py:data):: (hardmax\.\S+)", re.MULTILINE)
ELSEWHERE = (
    *(
        "matplotlib.figure.Figure",
        "matplotlib.axes.Axes",
        "pandas.DataFrame",
        "scipy.sparse.csr_array",
    ),
    *("numpy.ndarray", "numpy.random.Generator"),
)
WORDS = {
    "limit",
    "matrix",
    "sweep",
    "movie",
    "check",
    "embed",
    "inspect",
    "reviews",
    "configuration",
    "interactive",
}


@cache
def documented(reference: Path) -> tuple[str, ...]:
    """Every name with a place on a page, by its public path."""
    return tuple(
        name
        for page in sorted(reference.glob("*.md"))
        for name in PLACE.findall(pages.read(page))
    )


@cache
def mentions(reference: Path) -> dict[str, str]:
    """How a name may be written in backticks: in full, with `hm.`, or by its last part
    if that means nothing else.
    """
    full = documented(reference)
    last = Counter(name.rpartition(".")[2] for name in full)
    short = {
        name.rpartition(".")[2]: name
        for name in full
        if not name.startswith("hardmax.theorems.")
    }
    short = {
        word: name
        for word, name in short.items()
        if last[word] == 1 and word not in WORDS
    }
    return (
        short
        | {name: name for name in full}
        | {name.replace("hardmax.", "hm.", 1): name for name in full}
    )


def types(reference: Path) -> dict[str, str]:
    """Words in the types of parameters that are links: classes, which begin with a
    capital, of here and elsewhere.
    """
    classes = {name.rpartition(".")[2]: name for name in documented(reference)}
    classes = {
        word: name
        for word, name in classes.items()
        if word[0].isupper() and not word.isupper()
    }
    return (
        classes | {name: name for name in ELSEWHERE} | {"DataFrame": "pandas.DataFrame"}
    )
