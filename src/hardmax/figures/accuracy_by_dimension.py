"""arXiv 2407.01602: validation accuracy of the sentiment model by epoch, for d = 2, 4, 8 and 16."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hardmax.figures.shared import COLOUR_OF, PAPER_BEST, epoch_legend, epoch_panels, recorded_runs

TITLE = "arXiv 2407.01602: validation accuracy on IMDb by epoch, d = 2, 4, 8 and 16"
compute = recorded_runs


def draw(starts: dict[str, list[dict[str, Any]]]) -> Figure:
    """Draw one panel per initial alpha; dashed is the best accuracy that the paper reports for the same d."""
    figure, axes = epoch_panels(starts, 4.6, {"validation accuracy": 1})
    for ax, rows in zip(axes[0], starts.values(), strict=True):
        for row in rows:
            epochs = [epoch["number"] + 1 for epoch in row["epochs"]]
            accuracy = [epoch["accuracy"] for epoch in row["epochs"]]
            ax.plot(epochs, accuracy, color=COLOUR_OF[row["d"]], marker="o", ms=4, lw=1.8)
            ax.axhline(PAPER_BEST[row["d"]], color=COLOUR_OF[row["d"]], lw=1.2, linestyle="--")
    dashed = Line2D([], [], color="#444", linestyle="--", label="best of the\npaper, same d")
    epoch_legend(figure, starts, dashed, marker="o", ms=4)
    return figure
