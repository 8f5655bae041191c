"""Pictures of control: the same tokens with A = I and with the chosen A."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from hardmax._display import count
from hardmax._errors import InputError
from hardmax._simulate import simulate
from hardmax._types import FloatArray
from hardmax.draw import style
from hardmax.draw.projection import Projection
from hardmax.draw.style import shows_once
from hardmax.draw.tokens import Palette, plot_tokens
from hardmax.rules.hardmax import Hardmax

if TYPE_CHECKING:
    from hardmax.control.request import ControlResult

LAYERS = 60  # of the simulation that shows the final leaders
ELLIPSE_SIZE = 0.6  # half of its length, as a part of the largest coordinate


@shows_once
def plot_control(
    result: "ControlResult",
    *,
    alpha: float | Fraction | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw the tokens with A = I and with the chosen A.

    Stars lead at layer 0; circles have the colour of the token they follow. A ring
    marks the requested leaders. The dashed ellipse is a level set of ⟨Az, z⟩, for d > 3
    its projection. The lines (d = 2) and planes (d = 3) are {z : ⟨A z_i, z - z_i⟩ = 0}
    for the requested leaders i: i leads if no token lies beyond.

    Parameters
    ----------
    result : ControlResult
        A result that has an A.
    alpha : number, optional
        Step size of the simulation that shows the final leaders; by default that of the
        result, or 1.
    names : sequence of str, optional
        A name per token, such as its word, written at leaders. Leaders are then neither
        blue nor orange, which stand for evidence in pictures of texts.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import hardmax as hm
    >>> result = hm.control.choose_A([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], leaders=[1])
    >>> figure = hm.draw.plot_control(result)
    >>> len(figure.axes)
    2
    """
    if result.A is None:
        raise InputError(f"`result` must have an A to be drawn. Got: {result.status}")
    tokens = result.tokens.astype(np.float64)
    step = alpha if alpha is not None else result.alpha or 1
    matrices, projection = (np.eye(len(result.A)), result.A), Projection.of(tokens)
    has_ellipse = projection.source > 1 and projection.dimension == 2
    ellipses = [_find_level_set(tokens, A, projection) for A in matrices if has_ellipse]
    for size, vectors in ellipses:
        reach = 1.05 * np.linalg.norm(vectors * size, axis=1)
        low, high = (
            np.minimum(projection.low, -reach),
            np.maximum(projection.high, reach),
        )
        projection = replace(projection, low=low, high=high)
    figure, axes = style.panels(projection, 2)
    figure.set_size_inches(9.2, 4.2 if projection.dimension == 3 else 5.0)
    before, after = (
        simulate(result.tokens, Hardmax(step, A), layers=LAYERS) for A in matrices
    )
    colours = style.COLOURS if names is None else style.BESIDE_WORDS
    palette = Palette(after, before, first=result.leaders, colours=colours)
    for ax, A, run, when in zip(
        axes, matrices, (before, after), ("before: A = I", "after"), strict=True
    ):
        plot_tokens(
            run, 0, ax=ax, projection=projection, palette=palette, polytope=False
        )
        span, line = (
            0.3 * float(np.ptp(ax.get_xlim())),
            {"color": style.EDGE, "lw": 0.8, "alpha": 0.8, "zorder": 1},
        )
        for z in tokens[list(result.leaders)] / projection.unit:
            style.draw_hyperplane(
                ax,
                z,
                A @ z,
                span=span,
                line=line,
                plane={"facecolors": style.GREY, "alpha": 0.2},
            )
        ringed = projection(tokens[list(result.leaders)])
        style.scatter(
            ax,
            ringed,
            s=5 * style.SIZE,
            facecolors="none",
            edgecolors=style.EDGE,
            linewidths=1.4,
            zorder=5,
        )
        early = count(int((run.emerged[run.leaders] == 0).sum()), "leader")
        ax.set_title(
            f"{when}, {early} at layer 0, {len(run.leaders)} at layer {LAYERS}",
            fontsize=10,
        )
        if names is not None:
            _write_names(
                ax,
                names,
                sorted({*run.leaders.tolist(), *result.leaders}),
                projection(tokens),
            )
    for ax, (size, vectors) in zip(axes, ellipses, strict=False):
        angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
        dashed: dict[str, Any] = {
            "fill": False,
            "ls": "--",
            "ec": style.GREY,
            "lw": 1.2,
            "zorder": 1,
        }
        ax.add_patch(Ellipse((0, 0), *(2 * size), angle=angle, **dashed))
    if projection.dimension == 2:  # the legend is below the panels
        figure.supxlabel("")
        for ax in axes:
            ax.set_xlabel(projection.labels[0], fontsize=9)
            ax.set_ylabel("")
    _legend(figure, len(result.A), palette)
    return figure


def _write_names(
    ax: Any, names: Sequence[str], leaders: list[int], points: FloatArray
) -> None:
    """Write the names of leaders at their points (n, 2 or 3)."""
    look: dict[str, Any] = {
        "zorder": 6,
        "parse_math": False,
        "ha": "center",
        "va": "center",
        "fontsize": 9,
    }
    if points.shape[1] == 3:
        for i in leaders:
            ax.text(*points[i], f"{names[i]}\n\n", **look)  # a line above the star
        return
    low, high = ax.get_ylim()
    ax.set_ylim(
        low - 0.1 * (high - low), high + 0.1 * (high - low)
    )  # room for the names
    for place, i in enumerate(sorted(leaders, key=lambda i: float(points[i, 0]))):
        offset = (
            0,
            17 if place % 2 else -17,
        )  # in turn above and below, so that neighbours do not overlap
        ax.annotate(names[i], points[i], offset, textcoords="offset points", **look)


def _find_level_set(
    tokens: FloatArray, A: FloatArray, projection: Projection
) -> tuple[FloatArray, FloatArray]:
    """Return half-axes and directions of an ellipse ⟨Az, z⟩ = c, for d > 3 its
    projection, as large as the tokens.
    """
    basis = np.eye(len(A)) if projection.basis is None else projection.basis
    values, vectors = np.linalg.eigh(
        basis.T @ np.linalg.inv(A) @ basis
    )  # inverse matrix of the projection
    return ELLIPSE_SIZE * np.abs(projection(tokens)).max() * np.sqrt(
        values / values.max()
    ), vectors


def _legend(figure: Figure, d: int, palette: Palette) -> None:
    mark: dict[str, Any] = {"ls": "", "color": style.EDGE}
    handles = [
        Line2D([], [], marker="*", ms=12, mfc="white", label="leads", **mark),
        Line2D(
            [],
            [],
            marker="o",
            ms=7,
            mfc="white",
            label="follows the token of its colour",
            **mark,
        ),
        Line2D(
            [], [], marker="o", ms=14, mfc="none", label="requested to lead", **mark
        ),
    ]
    if palette.has_rest:
        label = "follows a token without a colour"
        handles.append(
            Line2D([], [], marker="o", ms=7, mfc=style.REST, label=label, **mark)
        )
    handles += (
        [Line2D([], [], color=style.EDGE, lw=0.8, label="no token beyond: it leads")]
        if d == 2
        else []
    )
    handles += (
        [Line2D([], [], color=style.GREY, ls="--", label="level of ⟨Az, z⟩")]
        if d not in (1, 3)
        else []
    )
    figure.legend(
        handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
