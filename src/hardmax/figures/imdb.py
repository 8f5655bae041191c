"""Figures of arXiv 2407.01602 on film reviews of IMDb: recorded training runs, leaders,
and two reviews by layer.
"""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from hardmax.draw.projection import Projection
from hardmax.draw.style import BESIDE_WORDS, CLASSES, COLOURS
from hardmax.draw.texts import draw_decision, name_leaders, plane_legend
from hardmax.draw.tokens import Palette, plot_tokens
from hardmax.figures.shared import PAPER_BEST, Row, by_start, paper_figure, read_results
from hardmax.text import pretrained

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation

COLOUR_OF = dict(zip(PAPER_BEST, COLOURS, strict=False))  # by dimension d
COLUMNS = (
    "d",
    "accuracy",
    "paper's best",
    "leaders",
    "deviation",
    "min",
    "max",
    "since layer 0",
)
WIDTHS = (0.06, 0.14, 0.17, 0.14, 0.14, 0.09, 0.09, 0.17)
LINE = 0.3  # height of a line of the table in inches
SHOWN = 30  # words of the histogram
LAYERS = (0, 1, 2, 8)
REVIEWS = (
    (
        "A wonderful film, beautiful and moving. The story of a teacher in a small"
        " village is simple, the acting is excellent, and the music stays with you. I"
        " loved the quiet ending and would see it again."
    ),
    (
        "A terrible film, dull and far too long. The plot makes no sense, the acting is"
        " awful, and the jokes are stupid. I wanted to leave after an hour, and the"
        " boring ending is a waste of time."
    ),
)
Starts = dict[str, list[Row]]  # rows by initial alpha


def read_runs() -> Starts:
    """Read the recorded runs of the paper's model, grouped by initial alpha."""
    return by_start(read_results("paper"))


@paper_figure(
    "accuracy_by_dimension",
    "arXiv 2407.01602: validation accuracy on IMDb by epoch and d",
    read_runs,
)
def draw_accuracy(starts: Starts) -> Figure:
    """Draw one panel per initial alpha; dashed is the best accuracy that the paper
    reports for the same d.
    """
    figure, axes = _make_epoch_axes(starts, 4.6, {"validation accuracy": 1})
    for ax, rows in zip(axes[0], starts.values(), strict=True):
        for row in rows:
            accuracy, colour = (
                [epoch["accuracy"] for epoch in row["epochs"]],
                COLOUR_OF[row["d"]],
            )
            ax.plot(
                _number_epochs(row), accuracy, color=colour, marker="o", ms=4, lw=1.8
            )
            ax.axhline(PAPER_BEST[row["d"]], color=colour, lw=1.2, linestyle="--")
    dashed = Line2D(
        [], [], color="#444", linestyle="--", label="best of the\npaper, same d"
    )
    _add_epoch_legend(figure, starts, dashed, marker="o", ms=4)
    return figure


@paper_figure(
    "losses_softmax_hardmax",
    "arXiv 2407.01602: validation loss with softmax and with hardmax",
    read_runs,
)
def draw_losses(starts: Starts) -> Figure:
    """Draw the losses, and below the absolute difference; one column per initial alpha."""
    figure, axes = _make_epoch_axes(
        starts, 6, {"validation loss": 1.7, "|softmax - hardmax|": 1}
    )
    for (above, below), rows in zip(axes.T, starts.values(), strict=True):
        for row in rows:
            epochs, colour = _number_epochs(row), COLOUR_OF[row["d"]]
            hardmax, softmax = np.array(
                [[epoch["loss"], epoch["softmax_loss"]] for epoch in row["epochs"]]
            ).T
            above.plot(epochs, hardmax, color=colour, lw=1.8)
            above.plot(epochs, softmax, "o", ms=7, mfc="none", mec=colour, mew=1.4)
            below.plot(
                epochs,
                np.abs(softmax - hardmax),
                color=colour,
                marker="o",
                ms=4,
                lw=1.4,
            )
        below.set_yscale("log")
    ring = Line2D(
        [],
        [],
        color="#444",
        marker="o",
        ms=7,
        mfc="none",
        linestyle="",
        label="softmax",
    )
    _add_epoch_legend(
        figure, starts, Line2D([], [], color="#444", label="hardmax"), ring
    )
    return figure


def _number_epochs(row: Row) -> list[int]:
    return [epoch["number"] + 1 for epoch in row["epochs"]]


def _make_epoch_axes(
    starts: Starts, height: float, ylabels: dict[str, float]
) -> tuple[Figure, Any]:
    """Make axes over epochs: a column per initial alpha, a row per label with its
    relative height.
    """
    shape, size = (len(ylabels), len(starts)), (2.2 + 4.8 * len(starts), height)
    shared: dict[str, Any] = {
        "squeeze": False,
        "sharex": True,
        "sharey": "row",
        "layout": "constrained",
    }
    figure, axes = plt.subplots(
        *shape, figsize=size, height_ratios=list(ylabels.values()), **shared
    )
    for column, (start, rows) in zip(axes.T, starts.items(), strict=True):
        column[0].set_title(_title_start(start, rows), fontsize=11)
        column[-1].set_xlabel("epoch")
        column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.3)
    for ax, label in zip(axes[:, 0], ylabels, strict=True):
        ax.set_ylabel(label)
    return figure, axes


def _title_start(start: str, rows: list[Row]) -> str:
    """Return a title with the initial and the final alpha."""
    alphas = sorted({f"{row['alpha']:.2g}" for row in rows}, key=float)
    return (
        f"{start}; alpha ends at {' to '.join(dict.fromkeys([alphas[0], alphas[-1]]))}"
    )


def _add_epoch_legend(
    figure: Figure, starts: Starts, *others: Line2D, **style: Any
) -> None:
    dimensions = sorted({row["d"] for rows in starts.values() for row in rows})
    handles = [
        Line2D([], [], color=COLOUR_OF[d], label=f"d = {d}", **style)
        for d in dimensions
    ]
    figure.legend(
        handles=[*handles, *others], loc="outside right center", frameon=False
    )


@paper_figure(
    "table1_leaders",
    "arXiv 2407.01602: Table 1, accuracy on IMDb and leaders of a review, by d",
    read_runs,
)
def draw_table(starts: Starts) -> Figure:
    """Draw Table 1 with a line above each block of rows, one per initial alpha."""
    titles, lines = {}, [list(COLUMNS)]
    for start, rows in starts.items():
        titles[len(lines)] = _title_start(start, rows)
        lines += [[""] * len(COLUMNS), *map(_format_row, rows)]
    ax: Any
    figure, ax = plt.subplots(figsize=(8.4, LINE * len(lines)), layout="constrained")
    ax.axis("off")
    table = ax.table(lines, colWidths=WIDTHS, bbox=[0, 0, 1, 1], edges="")
    table.auto_set_font_size(False)
    table.set_fontsize(11)
    for column in range(len(COLUMNS)):
        table[0, column].get_text().set_weight("bold")
    for line, title in titles.items():
        ax.axhline(1 - line / len(lines), color="#222", lw=0.8)
        at = 1 - (line + 0.5) / len(lines)
        ax.text(
            0.015,
            at,
            title,
            va="center",
            style="italic",
            color="#444",
            transform=ax.transAxes,
        )
    return figure


def _format_row(row: Row) -> list[str]:
    led = row["leaders"]
    accuracy = [f"{row['accuracy']:.4f}", f"{PAPER_BEST[row['d']]:.3f}"]
    spread = [
        f"{led['average']:.1f}",
        f"{led['deviation']:.1f}",
        f"{led['min']:.0f}",
        f"{led['max']:.0f}",
    ]
    return [str(row["d"]), *accuracy, *spread, f"{led['initial']:.1%}"]


def explain_reviews() -> list["Explanation"]:
    """Explain both reviews with the model of dimension 2."""
    classifier = pretrained("imdb-2d")
    return [classifier.explain(text) for text in REVIEWS]


@paper_figure(
    "reviews_evolution",
    "arXiv 2407.01602: layers of a positive and a negative review",
    explain_reviews,
)
def draw_reviews(explanations: list["Explanation"]) -> Figure:
    """Draw a row per review and a column per layer, with leaders named and the mean as
    a cross.
    """
    shape, size = (
        (len(explanations), len(LAYERS)),
        (13.6, 3.3 * len(explanations) + 0.6),
    )
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained")
    for row, (line, explanation) in enumerate(zip(axes, explanations, strict=True)):
        (trajectory,) = explanation.trajectory
        palette, projection = (
            Palette(trajectory, colours=BESIDE_WORDS),
            Projection.of_trajectory(trajectory),
        )
        for ax, k in zip(line, LAYERS, strict=True):
            plot_tokens(
                trajectory,
                k,
                ax=ax,
                palette=palette,
                projection=projection,
                tails=False,
            )
            reach = 0.56 * max(
                np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
            )  # equal lengths, and room for the names
            x, y = np.mean(ax.get_xlim()), np.mean(ax.get_ylim())
            ax.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach))
            draw_decision(
                explanation, ax, trajectory.array[trajectory.index(k)].mean(axis=0)
            )
            name_leaders(explanation, ax, layer=k)
            ax.set(xlabel="", ylabel="", title=f"layer {k}" if row == 0 else "")
            ax.tick_params(labelsize=7)
        line[0].set_ylabel(
            f"{explanation.prediction}, probability {explanation.probability:.3f}",
            fontsize=11,
        )
    figure.legend(
        handles=plane_legend(explanations[0]),
        loc="outside lower center",
        ncols=6,
        frameon=False,
    )
    return figure


def read_leaders() -> dict[str, Any]:
    """Read the recorded counts of `pretrained("imdb-2d").leaders(texts)` on the test
    reviews of IMDb.
    """
    return read_results("leaders")


@paper_figure(
    "leaders_histogram",
    "arXiv 2407.01602: the words that lead in most reviews of IMDb",
    read_leaders,
)
def draw_leaders(counts: dict[str, Any]) -> Figure:
    """Draw one bar per word: the part of the reviews in which it leads, in the colour
    of the sign of its score.
    """
    words, scores = counts["words"][:SHOWN], counts["scores"][:SHOWN]
    shares = [100 * led / counts["texts"] for led in counts["texts_led"][:SHOWN]]
    figure, ax = plt.subplots(figsize=(10.5, 4.6), layout="constrained")
    ax.bar(
        range(len(words)), shares, color=[CLASSES[int(score > 0)] for score in scores]
    )
    ax.set_xticks(
        range(len(words)),
        words,
        rotation=55,
        ha="right",
        rotation_mode="anchor",
        parse_math=False,
    )
    ax.set(ylabel="reviews in which it leads (%)", xlim=(-0.7, len(words) - 0.3))
    title = (
        f"the {len(words)} most frequent leaders of {counts['texts']:,} reviews, model"
        f" {counts['model']}"
    )
    ax.set_title(title, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    names = zip(CLASSES[::-1], ("positive", "negative"), strict=True)
    ax.legend(
        handles=[
            Patch(color=colour, label=f"evidence for {name}") for colour, name in names
        ],
        frameon=False,
    )
    return figure
