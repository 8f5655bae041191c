"""Table 1 of arXiv 2407.01602: accuracy of the sentiment model and leaders of a review, by d."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from hardmax.figures.shared import PAPER_BEST, recorded_runs, start_title

TITLE = "arXiv 2407.01602: Table 1, accuracy on IMDb and leaders of a review, by d"
COLUMNS = ("d", "accuracy", "paper's best", "average", "deviation", "min", "max", "since layer 0")
WIDTHS = (0.06, 0.14, 0.17, 0.14, 0.14, 0.09, 0.09, 0.17)
LINE = 0.3  # height of a line in inches
compute = recorded_runs


def format_row(row: dict[str, Any]) -> list[str]:
    """Return one line of the table."""
    led = row["leaders"]
    accuracy = [f"{row['accuracy']:.4f}", f"{PAPER_BEST[row['d']]:.3f}"]
    spread = [f"{led['average']:.1f}", f"{led['deviation']:.1f}", f"{led['min']:.0f}", f"{led['max']:.0f}"]
    return [str(row["d"]), *accuracy, *spread, f"{led['initial']:.1%}"]


def draw(starts: dict[str, list[dict[str, Any]]]) -> Figure:
    """Draw the table with horizontal rules: one block of rows per initial alpha."""
    count = 2 + sum(1 + len(rows) for rows in starts.values())
    figure, ax = plt.subplots(figsize=(8.4, LINE * (count + 0.6)), layout="constrained")
    ax.set(xlim=(0, 1), ylim=(count, 0))
    ax.axis("off")
    edges = [sum(WIDTHS[: i + 1]) - 0.01 for i in range(len(WIDTHS))]  # right aligned

    def write(at: float, words: list[str], **style: Any) -> None:
        for edge, word in zip(edges, words, strict=True):
            ax.text(edge, at, word, ha="right", va="center", fontsize=11, **style)

    def rule(at: float, width: float, left: float = 0.0) -> None:
        ax.plot([left, 1], [at, at], color="#222", lw=width, clip_on=False)

    ax.text((edges[2] + 0.03 + edges[7]) / 2, 0.45, "leaders of a review", ha="center", va="center", fontsize=11)
    rule(0.9, 0.6, edges[2] + 0.03)
    write(1.4, list(COLUMNS), weight="bold")
    rule(0, 1.4)
    at = 2
    for start, rows in starts.items():
        rule(at, 0.8)
        ax.text(0.015, at + 0.5, start_title(start, rows), va="center", fontsize=10, style="italic", color="#444")
        for k, row in enumerate(rows, 1):
            write(at + k + 0.5, format_row(row))
        at += 1 + len(rows)
    rule(count, 1.4)
    return figure
