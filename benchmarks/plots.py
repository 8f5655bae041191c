"""Pictures of the two studies, from their JSON."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from benchmarks.scaling import LIMIT
from hardmax.draw.style import COLOURS, GREY

COLOUR_OF = dict(zip(("hull", "scan", "symmetric", "numpy", "kdtree"), COLOURS, strict=False)) | {"FAISS": GREY}
DASHES = {"gaussian": "-", "sphere": "--"}


def draw_scaling(data: dict[str, Any]) -> Figure:
    """Seconds against n, a panel for each d; dashed on the sphere."""
    rows = data["rows"]
    dimensions = sorted({row["d"] for row in rows})
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 7), layout="constrained", sharey=True)
    for ax, d in zip(axes.flat, dimensions, strict=False):
        here = [row for row in rows if row["d"] == d]
        for method in COLOUR_OF:
            for kind, dashes in DASHES.items():
                curve = [row for row in here if (row["method"], row["tokens"]) == (method, kind)]
                if curve:
                    points = [row["n"] for row in curve], [row["seconds"] for row in curve]
                    label = method if kind == "gaussian" else None
                    ax.loglog(*points, dashes, marker="o", ms=3, lw=1.4, color=COLOUR_OF[method], label=label)
        ax.axhline(LIMIT, color=GREY, lw=0.6)
        ax.set_title(f"d = {d}", fontsize=10)
        ax.tick_params(labelsize=8)
        ax.legend(fontsize=8, frameon=False)
    figure.supxlabel("tokens n (solid: Gaussian, dashed: on a sphere)", fontsize=9)
    figure.supylabel("seconds for one layer", fontsize=9)
    return figure


def draw_decided(data: dict[str, Any]) -> Figure:
    """Layers until every token is decided against n, a panel for each d; median and range."""
    rows = data["rows"]
    dimensions, alphas = sorted({row["d"] for row in rows}), sorted({row["alpha"] for row in rows})
    figure, axes = plt.subplots(1, len(dimensions), figsize=(9, 3.2), layout="constrained", sharey=True, squeeze=False)
    for ax, d in zip(axes[0], dimensions, strict=True):
        for colour, alpha in zip(COLOURS, alphas, strict=False):
            curve = [row for row in rows if (row["d"], row["alpha"]) == (d, alpha)]
            n = [row["n"] for row in curve]
            ax.fill_between(
                n, [row["least"] for row in curve], [row["most"] for row in curve], color=colour, alpha=0.2, lw=0
            )
            ax.plot(n, [row["median"] for row in curve], marker="o", ms=3, color=colour, label=f"alpha = {alpha:g}")
        ax.set_xscale("log")
        ax.set_title(f"d = {d}", fontsize=10)
        ax.tick_params(labelsize=8)
    axes[0][-1].legend(fontsize=8, frameon=False)  # where tokens are decided at once and there is room
    figure.supxlabel("Gaussian tokens n", fontsize=9)
    axes[0][0].set_ylabel("layers until all are decided", fontsize=9)
    return figure
