"""arXiv 2407.01602: validation accuracy of the sentiment model by epoch, for d = 2, 4, 8 and 16."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hardmax.draw.style import COLOURS
from hardmax.sentiment.recorded_studies import PAPER_BEST, by_start, read_results

TITLE = "arXiv 2407.01602: validation accuracy on IMDb by epoch, d = 2, 4, 8 and 16"
COLOUR = dict(zip(PAPER_BEST, COLOURS, strict=False))


def compute() -> dict[str, list[dict[str, Any]]]:
    """The recorded runs, by the alpha that training started from."""
    return by_start(read_results("paper"))


def alphas_reached(rows: list[dict[str, Any]]) -> str:
    """The alphas after training, in words."""
    ends = sorted({f"{row['alpha']:.2g}" for row in rows}, key=float)
    return f"alpha ends at {' to '.join(dict.fromkeys([ends[0], ends[-1]]))}"


def draw(starts: dict[str, list[dict[str, Any]]]) -> Figure:
    """A panel for each alpha to start from; dashed is the best accuracy that the paper reports for that d."""
    width = 2.2 + 4.8 * len(starts)
    figure, axes = plt.subplots(
        1, len(starts), figsize=(width, 4.6), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    for ax, (start, rows) in zip(axes[0], starts.items(), strict=True):
        for row in rows:
            epochs = [epoch["number"] + 1 for epoch in row["epochs"]]
            accuracy = [epoch["accuracy"] for epoch in row["epochs"]]
            ax.plot(epochs, accuracy, color=COLOUR[row["d"]], marker="o", ms=4, lw=1.8)
            ax.axhline(PAPER_BEST[row["d"]], color=COLOUR[row["d"]], lw=1.2, linestyle="--")
        ax.set_title(f"{start}; {alphas_reached(rows)}", fontsize=11)
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylabel("validation accuracy")
    shown = sorted({row["d"] for rows in starts.values() for row in rows})
    handles = [Line2D([], [], color=COLOUR[d], marker="o", ms=4, label=f"d = {d}") for d in shown]
    handles.append(Line2D([], [], color="#444", linestyle="--", label="best of the\npaper, same d"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)
    return figure
