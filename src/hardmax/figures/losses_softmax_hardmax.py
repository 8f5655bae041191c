"""arXiv 2407.01602: one network served with softmax at a low temperature and with hardmax has the same loss."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax.figures.accuracy_by_dimension import COLOUR, alphas_reached
from hardmax.sentiment.recorded_studies import by_start, read_results

TITLE = "arXiv 2407.01602: validation loss on IMDb with softmax at temperature 0.001 and with hardmax, by epoch"


def compute() -> dict[str, list[dict[str, Any]]]:
    """The recorded runs, by the alpha that training started from."""
    return by_start(read_results("paper"))


def gaps(row: dict[str, Any]) -> Any:
    """Softmax loss less hardmax loss after each epoch."""
    return np.array([epoch["softmax_loss"] - epoch["loss"] for epoch in row["epochs"]])


def draw(starts: dict[str, list[dict[str, Any]]]) -> Figure:
    """Above the losses, below the size of their difference; a column for each start of alpha."""
    figure, axes = plt.subplots(
        2,
        len(starts),
        figsize=(2.2 + 4.8 * len(starts), 6),
        height_ratios=(1.7, 1),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey="row",
    )
    for (above, below), (start, rows) in zip(axes.T, starts.items(), strict=True):
        for row in rows:
            epochs = [epoch["number"] + 1 for epoch in row["epochs"]]
            losses = np.array([[epoch["loss"], epoch["softmax_loss"]] for epoch in row["epochs"]]).T
            above.plot(epochs, losses[0], color=COLOUR[row["d"]], lw=1.8)
            above.plot(epochs, losses[1], "o", ms=7, mfc="none", mec=COLOUR[row["d"]], mew=1.4)
            below.plot(epochs, np.abs(gaps(row)), color=COLOUR[row["d"]], marker="o", ms=4, lw=1.4)
        above.set_title(f"{start}; {alphas_reached(rows)}", fontsize=11)
        below.set(xlabel="epoch", yscale="log")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        for ax in (above, below):
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylabel("validation loss")
    axes[1, 0].set_ylabel("|softmax - hardmax|")
    shown = sorted({row["d"] for rows in starts.values() for row in rows})
    handles = [Line2D([], [], color=COLOUR[d], label=f"d = {d}") for d in shown]
    handles.append(Line2D([], [], color="#444", label="hardmax"))
    handles.append(Line2D([], [], color="#444", marker="o", ms=7, mfc="none", linestyle="", label="softmax"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)
    return figure
