"""Helpers of several figures, and the recorded results of the classifier."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax._types import FloatArray, IntArray
from hardmax.draw.style import COLOURS

RESULTS = Path(__file__).with_name("results")
PAPER_BEST = {2: 0.791, 4: 0.823, 8: 0.851, 16: 0.882}  # Table 1 of arXiv 2407.01602
COLOUR_OF = dict(zip(PAPER_BEST, COLOURS, strict=False))  # by dimension d

Row = dict[str, Any]


def label_near_points(points: FloatArray, reach: float) -> IntArray:
    """Label points: each gets the label of the first point within `reach` of it."""
    near = np.linalg.norm(points[:, None] - points, axis=-1) < reach  # (n, n)
    return np.unique(near.argmax(axis=1), return_inverse=True)[1]


def read_results(name: str) -> Any:
    """Read recorded results: "paper" and "ablations" are lists of rows, "leaders" is a dictionary."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"The results must be in {path.name}, beside the models. It is missing. Reinstall hardmax."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def by_start(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group the rows of the paper's model by initial alpha, each group ordered by d."""
    starts = dict.fromkeys(row["start"] for row in sorted(rows, key=lambda row: row["alpha"]))
    return {start: sorted((r for r in rows if r["start"] == start), key=lambda r: r["d"]) for start in starts}


def recorded_runs() -> dict[str, list[Row]]:
    """Read the recorded runs of the paper's model, grouped by initial alpha."""
    return by_start(read_results("paper"))


def start_title(start: str, rows: list[Row]) -> str:
    """Return a title with the initial and the final alpha."""
    alphas = sorted({f"{row['alpha']:.2g}" for row in rows}, key=float)
    return f"{start}; alpha ends at {' to '.join(dict.fromkeys([alphas[0], alphas[-1]]))}"


def epoch_panels(starts: dict[str, list[Row]], height: float, ylabels: dict[str, float]) -> tuple[Figure, Any]:
    """Make axes over epochs: a column per initial alpha, a row per label with its relative height."""
    shape, size = (len(ylabels), len(starts)), (2.2 + 4.8 * len(starts), height)
    shared: dict[str, Any] = {"squeeze": False, "sharex": True, "sharey": "row"}
    figure, axes = plt.subplots(
        *shape, figsize=size, height_ratios=list(ylabels.values()), layout="constrained", **shared
    )
    for column, (start, rows) in zip(axes.T, starts.items(), strict=True):
        column[0].set_title(start_title(start, rows), fontsize=11)
        column[-1].set_xlabel("epoch")
        column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.3)
    for ax, label in zip(axes[:, 0], ylabels, strict=True):
        ax.set_ylabel(label)
    return figure, axes


def epoch_legend(figure: Figure, starts: dict[str, list[Row]], *others: Line2D, **style: Any) -> None:
    """Add a legend with the colour of each dimension, then other lines."""
    dimensions = sorted({row["d"] for rows in starts.values() for row in rows})
    handles = [Line2D([], [], color=COLOUR_OF[d], label=f"d = {d}", **style) for d in dimensions]
    figure.legend(handles=[*handles, *others], loc="outside right center", frameon=False)
