"""arXiv 2407.01602: one network served with softmax at a low temperature and with hardmax has the same loss."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hardmax.figures.shared import COLOUR_OF, epoch_legend, epoch_panels, recorded_runs

TITLE = "arXiv 2407.01602: validation loss on IMDb with softmax at temperature 0.001 and with hardmax, by epoch"
compute = recorded_runs


def draw(starts: dict[str, list[dict[str, Any]]]) -> Figure:
    """Draw the losses, and below the absolute difference; one column per initial alpha."""
    figure, axes = epoch_panels(starts, 6, {"validation loss": 1.7, "|softmax - hardmax|": 1})
    for (above, below), rows in zip(axes.T, starts.values(), strict=True):
        for row in rows:
            epochs = [epoch["number"] + 1 for epoch in row["epochs"]]
            hardmax, softmax = np.array([[epoch["loss"], epoch["softmax_loss"]] for epoch in row["epochs"]]).T
            above.plot(epochs, hardmax, color=COLOUR_OF[row["d"]], lw=1.8)
            above.plot(epochs, softmax, "o", ms=7, mfc="none", mec=COLOUR_OF[row["d"]], mew=1.4)
            below.plot(epochs, np.abs(softmax - hardmax), color=COLOUR_OF[row["d"]], marker="o", ms=4, lw=1.4)
        below.set_yscale("log")
    ring = Line2D([], [], color="#444", marker="o", ms=7, mfc="none", linestyle="", label="softmax")
    epoch_legend(figure, starts, Line2D([], [], color="#444", label="hardmax"), ring)
    return figure
