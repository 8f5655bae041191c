"""The type of a figure, recorded results of the classifier, and a helper of several
figures.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import FloatArray, IntArray

RESULTS = Path(__file__).with_name("results")
PAPER_BEST = {
    2: 0.791,
    4: 0.823,
    8: 0.851,
    16: 0.882,
}  # accuracy by d: Table 1 of arXiv 2407.01602

Row = dict[str, Any]
Draw = TypeVar("Draw", bound=Callable[..., Figure])


@dataclass
class PaperFigure:
    """A figure or table of a paper."""

    file: str  # without ending
    title: str
    compute: Callable[[], Any]
    draw: Callable[[Any], Figure]


FIGURES: dict[str, PaperFigure] = {}


def paper_figure(
    file: str, title: str, compute: Callable[[], Any]
) -> Callable[[Draw], Draw]:
    """Register the decorated function in FIGURES, under the part of the file name
    before the first underscore.
    """

    def register(draw: Draw) -> Draw:
        FIGURES[file.split("_")[0]] = PaperFigure(file, title, compute, draw)
        return draw

    return register


def label_near_points(points: FloatArray, reach: float) -> IntArray:
    """Label points: each gets the label of the first point within `reach` of it."""
    near = np.linalg.norm(points[:, None] - points, axis=-1) < reach  # (n, n)
    return np.unique(near.argmax(axis=1), return_inverse=True)[1]


def read_results(name: str) -> Any:
    """Read recorded results: "paper" and "ablations" are lists of rows, "leaders" is a
    dictionary.
    """
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def by_start(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group the rows of the paper's model by initial alpha, each group ordered by d."""
    starts = dict.fromkeys(
        row["start"] for row in sorted(rows, key=lambda row: row["alpha"])
    )
    return {
        start: sorted((r for r in rows if r["start"] == start), key=lambda r: r["d"])
        for start in starts
    }
