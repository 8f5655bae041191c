"""Pictures of explanations: bars, the plane with its decision line, movies, leaders of
a collection.

Each of two classes has one colour, whatever the prediction; leaders have others.
"""

from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.draw import style
from hardmax.draw.movies import Movie, movie
from hardmax.draw.projection import Projection
from hardmax.draw.style import shows_once
from hardmax.draw.text_page import class_colours, percent
from hardmax.draw.tokens import Palette, plot_tokens

if TYPE_CHECKING:
    from hardmax.text.explanation import Explanation
    from hardmax.text.statistics import LeaderStatistics

MAX_WORDS, MAX_NAMES = 20, 12
KINDS = ("auto", "words", "plane")


@shows_once
def plot_explanation(
    explanation: "Explanation", *, kind: str = "auto", ax: Axes | None = None
) -> Figure:
    """Draw the figure of `Explanation.plot`."""
    if kind not in KINDS:
        raise ParameterError("kind", f"be one of {', '.join(KINDS)}", f"{kind!r}")
    model, weights = explanation.model, explanation.model.weights
    drawable = (
        weights.d == 2
        and weights.outputs == 1
        and explanation.known > 0
        and model.reads_ngrams_alone
    )
    if kind == "plane" and not drawable:
        got = (
            f"d = {weights.d}, {len(explanation.classes)} classes,"
            f" {len(explanation.ids)} words"
        )
        must = "go with d = 2, two classes and a text with known words"
        raise ParameterError('kind="plane"', must, got, 'Use `kind="words"`.')
    if kind == "plane" or (
        kind == "auto" and drawable and weights.heads == 1 and ax is None
    ):
        return plot_plane(explanation)
    return plot_words(explanation, ax=ax)


def plot_words(explanation: "Explanation", *, ax: Axes | None = None) -> Figure:
    """Draw bars of the largest contributions: to the logit of the second class, of more
    classes to the prediction.
    """
    values = explanation.as_shown(explanation.contributions)
    order = np.argsort(-np.abs(values), kind="stable")[:MAX_WORDS]
    values, written = values[order], explanation.as_written
    (right, left), (favour, against) = explanation.sides, class_colours(explanation)
    if ax is None:
        height = 1.2 + 0.27 * max(1, len(order))
        ax = plt.subplots(figsize=(6.4, height), layout="constrained")[1]
    ax.barh(
        range(len(order)),
        values,
        color=[favour if value > 0 else against for value in values],
    )
    ax.set_yticks(
        range(len(order)),
        [written[explanation.words[i]] for i in order],
        parse_math=False,
    )
    ax.invert_yaxis()
    ax.axvline(0, color="#444", linewidth=0.8)
    ax.set_xlabel(f"{left} ← contribution to the logit → {right}", parse_math=False)
    ax.set_title(
        f"{explanation.prediction}, probability {percent(explanation.probability)}",
        fontsize=11,
        parse_math=False,
    )
    return cast(Figure, ax.figure)


def plot_plane(explanation: "Explanation") -> Figure:
    """Draw the tokens of the first head at some layers, the names of leaders, and the
    line where the logit is 0.
    """
    trajectory = explanation.trajectory[0]
    layers = sorted({0, 1, trajectory.layers // 2, trajectory.layers})
    size = (3.3 * len(layers), 4.1)
    figure, axes = plt.subplots(
        1, len(layers), figsize=size, layout=style.padded_layout(), squeeze=False
    )
    palette, projection = (
        Palette(trajectory, colours=style.BESIDE_WORDS),
        Projection.of_trajectory(trajectory),
    )
    for k, ax in zip(layers, axes[0], strict=True):
        plot_tokens(
            trajectory, k, ax=ax, palette=palette, projection=projection, tails=False
        )
        low, high = ax.get_ylim()
        ax.set_ylim(
            low - 0.09 * (high - low), high + 0.3 * (high - low)
        )  # room for the names
        draw_decision(
            explanation, ax, trajectory.array[trajectory.index(k)].mean(axis=0)
        )
        name_leaders(explanation, ax, layer=k)
    figure.suptitle(
        f"{explanation.prediction}, probability {percent(explanation.probability)}",
        parse_math=False,
    )
    figure.legend(
        handles=plane_legend(explanation),
        loc="outside lower center",
        ncols=6,
        fontsize=9.5,
        frameon=False,
    )
    return figure


def plane_legend(explanation: "Explanation") -> list[Any]:
    """Return legend handles for a picture of `draw_decision`."""
    dot: dict[str, Any] = {"linestyle": "", "markeredgecolor": style.EDGE}
    return [
        Line2D([], [], marker="*", ms=13, color=style.REST, label="leader", **dot),
        Line2D(
            [],
            [],
            marker="o",
            ms=8,
            color=style.REST,
            label="word, in the colour of the word it follows",
            **dot,
        ),
        Line2D(
            [],
            [],
            marker="X",
            ms=9,
            color="black",
            linestyle="",
            label="mean, which decides",
        ),
        Line2D([], [], color="#444", linestyle="--", label="decision line"),
        *(
            Patch(color=c, alpha=0.2, label=str(k))
            for c, k in zip(style.CLASSES, explanation.classes, strict=True)
        ),
    ]


def draw_decision(
    explanation: "Explanation",
    ax: Axes,
    mean: FloatArray | None = None,
    *,
    head: int = 0,
) -> None:
    """Draw the line v . z + beta = 0 of one head between the sides of two classes, and
    a cross at the mean.
    """
    weights = explanation.model.weights
    v = weights.decoder[0, head] * weights.pooling_factor(explanation.counts.sum())
    shares, tokens = explanation.shares[head], weights.tokens(explanation.ids)[:, head]
    beta = float(
        explanation.logits[0] - shares @ tokens @ v
    )  # with the other heads: the side of the mean decides
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    x, y = np.meshgrid(np.linspace(x0, x1, 200), np.linspace(y0, y1, 200))
    side = v[0] * x + v[1] * y + beta  # positive on the side of the second class
    if side.min() < 0 < side.max():
        ax.contour(x, y, side, levels=[0], colors="#444", linestyles="--", linewidths=1)
    ax.contourf(
        x,
        y,
        side > 0,
        levels=[-0.5, 0.5, 1.5],
        colors=style.CLASSES,
        alpha=0.08,
        zorder=0,
    )
    if mean is not None:
        ax.plot(
            *mean,
            marker="X",
            color="black",
            markersize=8,
            markeredgecolor="white",
            zorder=6,
        )
    ax.set(xlim=(x0, x1), ylim=(y0, y1))


def name_leaders(
    explanation: "Explanation", ax: Axes, *, head: int = 0, layer: int = -1
) -> None:
    """Write the words of the leaders beside their positions at a layer, away from the
    mean.
    """
    trajectory = explanation.trajectory[head]
    tokens = trajectory.array[trajectory.index(layer)]
    place = {
        str(explanation.words[row]): i for i, row in enumerate(explanation.rows)
    }  # equal tokens have one position
    (x0, x1), middle, rises = ax.get_xlim(), tokens[:, 1].mean(), 0
    for leader in sorted(
        explanation.leaders[head][:MAX_NAMES],
        key=lambda one: float(tokens[place[one.word], 0]),
    ):
        at = tokens[place[leader.word]]
        above, across = at[1] >= middle, (at[0] - x0) / (x1 - x0)
        rises += above  # every second name is higher, so that neighbours do not overlap
        offset = 8 + 14 * (rises % 2) if above else -8
        beside: dict[str, Any] = {"xytext": (0, offset), "textcoords": "offset points"}
        beside["ha"] = (
            "left" if across < 0.15 else "right" if across > 0.85 else "center"
        )
        beside["va"] = "bottom" if above else "top"
        halo = [withStroke(linewidth=2.5, foreground="white")]
        ax.annotate(
            leader.word,
            at,
            fontsize=9,
            path_effects=halo,
            parse_math=False,
            zorder=7,
            **beside,
        )


def explanation_movie(
    explanation: "Explanation",
    path: str | PathLike[str] | None,
    *,
    head: int = 0,
    **options: Any,
) -> Movie:
    """Make a movie of a head with d = 2 and its decision line."""
    weights = explanation.model.weights
    if (
        weights.d != 2
        or weights.outputs != 1
        or not explanation.model.reads_ngrams_alone
    ):
        raise InputError(
            f"A movie must have d = 2 and two classes. Got d = {weights.d} and"
            f" {len(explanation.classes)} classes. Use the model imdb-2d, or train one"
            " with d = 2."
        )

    def overlay(ax: Axes) -> None:
        draw_decision(explanation, ax, head=head)
        name_leaders(explanation, ax, head=head)
        ax.set_xlabel(
            f"{ax.get_xlabel()}, orange: {explanation.classes[0]}, blue:"
            f" {explanation.classes[1]}"
        )

    palette = Palette(explanation.trajectory[head], colours=style.BESIDE_WORDS)
    return movie(
        explanation.trajectory[head], path, palette=palette, overlay=overlay, **options
    )


@shows_once
def plot_leaders(
    statistics: "LeaderStatistics", *, count: int = 20, ax: Axes | None = None
) -> Figure:
    """Draw bars of the words that lead in most texts; of two classes, in the colour of
    the one each supports.
    """
    if ax is None:
        ax = plt.subplots(figsize=(8, 4.2), layout="constrained")[1]
    count = min(count, len(statistics.words))
    scores = statistics.scores[:count]
    colours = (
        [style.CLASSES[int(score > 0)] for score in scores]
        if scores.ndim == 1
        else style.GREY
    )
    ax.bar(range(count), statistics.texts_led[:count], color=colours)
    if scores.ndim == 1:
        names = zip(style.CLASSES, ("first", "second"), strict=True)
        ax.legend(
            handles=[
                Patch(color=c, label=f"evidence for the {name} class")
                for c, name in names
            ],
            frameon=False,
        )
    ax.set_xticks(
        range(count),
        statistics.words[:count].tolist(),
        rotation=60,
        ha="right",
        parse_math=False,
    )
    ax.set_ylabel("texts in which it leads")
    return cast(Figure, ax.figure)
