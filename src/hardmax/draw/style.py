"""Colours, sizes, panels, legends and thinning of all pictures, in 2-D and 3-D.

Colours are Okabe and Ito's, which can be distinguished with colour blindness. If there
are more leaders or clusters than colours, the largest have one, and the others the hue
of their angle. In pictures and pages of texts each class has one colour, whatever the
prediction: of two classes the first is orange and the second blue.
"""

from collections.abc import Callable, Sequence
from colorsys import hls_to_rgb
from functools import partial, wraps
from textwrap import fill
from typing import Any, ParamSpec

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Polygon
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from hardmax._types import FloatArray, IntArray
from hardmax.draw.projection import Projection
from hardmax.polytope import Polytope

# Okabe and Ito, "Color Universal Design", 2008, without black, which edges have; the
# last is from Tol's "muted", 2021.
COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
    "#882255",
]
BLUE, ORANGE = COLOURS[:2]
CLASSES = (
    ORANGE,
    BLUE,
)  # of two classes of texts; nothing else in these pictures has their colours
BESIDE_WORDS = [
    COLOURS[2],
    COLOURS[3],
    COLOURS[7],
    COLOURS[6],
    "#332288",
]  # colours of leaders that are words
# colour of noise, and of leaders beyond a list of colours that has no hues
REST = "#BBBBBB"
EDGE = "#222222"
GREY = "#999999"  # of lines
SHADE = "#B8C4D6"
SIZE = 70  # area of a circle in points
STAR = 3.2  # times the area of a circle
MAX_FULL_SIZE = 80  # tokens; with more, markers shrink
SIDE_3D = 3.7  # inches of a panel in 3-D
LAYERS = (0, 1, 2, 5, 30)  # those of Figure 2 of arXiv 2407.01602
MAX_DRAWN = (
    20_000  # tokens of a picture: a million markers take minutes and hide each other
)
Parameters = ParamSpec("Parameters")


def find_hue(point: Sequence[float]) -> int:
    """Return the angle of the first two coordinates of a point, in degrees."""
    x, y = [*point, 0.0][:2]
    return round(np.degrees(np.arctan2(y, x))) % 360


def hue_colour(degrees: int) -> str:
    """Return the colour of a hue, of medium lightness."""
    return to_hex(hls_to_rgb(degrees / 360, 0.55, 0.55))


def rank_colours(
    sizes: ArrayLike, colours: Sequence[str] = COLOURS, points: FloatArray | None = None
) -> list[str]:
    """Return a colour for each; if there are too few, for the largest, and hues of
    `points` or REST for the others.
    """
    order = np.argsort(-np.asarray(sizes, np.float64), kind="stable")
    rest = (
        [REST] * len(order)
        if points is None
        else [hue_colour(find_hue(point)) for point in points.tolist()]
    )
    named = np.array(rest, object)
    named[np.sort(order[: len(colours)])] = colours[: len(order)]
    return named.tolist()


def point_colours(
    leaders: ArrayLike,
    others: ArrayLike,
    colours: Sequence[str] = COLOURS,
    points: FloatArray | None = None,
) -> list[str]:
    """Return colours of leaders by size, then of other points, which get the remaining
    colours; see `rank_colours`.
    """
    number = len(np.asarray(leaders))
    before, after = (
        (None, None) if points is None else (points[:number], points[number:])
    )
    return rank_colours(leaders, colours, before) + rank_colours(
        others, colours[number:], after
    )


def cluster_colours(clusters: IntArray, points: FloatArray | None = None) -> list[str]:
    """Return the colour of each token by cluster label; beyond the list the hue of the
    mean of `points`, or REST.
    """
    named = dict(enumerate(COLOURS)) | {-1: REST}
    if points is not None:
        for c in set(clusters.tolist()) - set(named):
            named[c] = hue_colour(find_hue(points[clusters == c].mean(axis=0).tolist()))
    return [named.get(c, REST) for c in clusters.tolist()]


def marker_size(n: int) -> float:
    """Return the area of a circle in points, smaller for many tokens."""
    return SIZE * min(1.0, max(MAX_FULL_SIZE / n, 0.15))


def scatter(ax: Any, points: FloatArray, **style: Any) -> None:
    """Draw markers at points (n, 2 or 3), if there are any."""
    flat = (
        {"depthshade": False} if isinstance(ax, Axes3D) else {}
    )  # depth shading would change the colours
    if len(points):
        ax.scatter(*points.T, **flat, **style)


def draw_stars(
    ax: Any, points: FloatArray, colours: Sequence[str], *, zorder: float = 3
) -> None:
    """Draw stars at points (n, 2 or 3), coloured ones above grey ones."""
    order = np.argsort([colour != REST for colour in colours], kind="stable")
    faces, size = [colours[p] for p in order], STAR * marker_size(max(len(order), 1))
    look = {"marker": "*", "edgecolors": EDGE, "linewidths": 0.7, "zorder": zorder}
    scatter(ax, points[order], s=size, c=faces, **look)


def draw_lines(
    ax: Axes, lines: FloatArray, colours: Sequence[Any] | str, **style: Any
) -> None:
    """Draw lines through points (lines, points, 2 or 3), below all markers."""
    collection: Any = Line3DCollection if lines.shape[-1] == 3 else LineCollection
    ax.add_collection(collection(lines, colors=colours, zorder=1, **style))


def draw_tails(
    ax: Axes, Z: FloatArray, colours: Sequence[str] | str, width: float
) -> None:
    """Draw the path of each token, (times, n, 2 or 3), more transparent for many
    tokens.
    """
    opacity = max(0.6 * min(1.0, MAX_FULL_SIZE / max(Z.shape[1], 1)), 0.08)
    draw_lines(ax, Z.swapaxes(0, 1), colours, linewidths=width, alpha=opacity)


def draw_hyperplane(
    ax: Any,
    point: FloatArray,
    normal: FloatArray,
    *,
    span: float,
    line: dict[str, Any],
    plane: dict[str, Any],
) -> None:
    """Draw {z : ⟨normal, z - point⟩ = 0}: in 2-D a line, in 3-D a square of side 2 span
    around the point.
    """
    across = np.linalg.svd(normal[None])[2][1:]  # (d - 1, d)
    if len(point) == 2:
        ax.axline(point, point + across[0], **line)
    elif len(point) == 3:
        corners = point + span * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) @ across
        ax.add_collection3d(Poly3DCollection([corners], **plane))


def shade_polytope(ax: Axes, polytope: Polytope) -> None:
    """Shade a polytope of dimension at most 3 in the coordinates of the axes."""
    vertices = polytope.vertices
    if polytope.dimension == 1:
        ax.plot(
            *vertices[polytope.facets[:, 0]].T,
            color=SHADE,
            lw=5,
            alpha=0.7,
            solid_capstyle="round",
            zorder=0,
        )
    elif polytope.dimension == 2 and vertices.shape[1] == 2:
        ax.add_patch(
            Polygon(
                vertices[polytope.outline],
                closed=True,
                color=SHADE,
                alpha=0.45,
                lw=0,
                zorder=0,
            )
        )
    elif polytope.dimension >= 2 and isinstance(ax, Axes3D):
        faces = (
            [vertices[polytope.outline]]
            if polytope.dimension == 2
            else list(vertices[polytope.facets])
        )
        ax.add_collection3d(
            Poly3DCollection(
                faces,
                facecolors=SHADE,
                edgecolors="#8899AA",
                alpha=0.18,
                linewidths=0.4,
            )
        )


def prepare_axes(projection: Projection, ax: Any = None) -> Any:
    """Return the axes, by default those of a new figure, with labels and limits of a
    projection.
    """
    if ax is None and projection.dimension == 2:
        size = (5.2, 5) if projection.source != 1 else (5.2, 1.8)
        ax = plt.figure(figsize=size, layout=padded_layout()).add_subplot()
    elif ax is None:
        figure = plt.figure(figsize=(5.2, 5.2))
        _place_3d(figure)
        ax = figure.add_subplot(projection="3d")
    projection.label(ax)
    return ax


def panels(projection: Projection, number: int) -> tuple[Figure, list[Any]]:
    """Return a figure and a row of axes with common labels; in 3-D, four or more axes
    make two rows.
    """
    if projection.dimension == 3:
        rows = 1 if number < 4 else 2
        columns = -(-number // rows)
        figure = plt.figure(figsize=(SIDE_3D * columns + 0.4, SIDE_3D * rows + 0.4))
        row = [
            figure.add_subplot(rows, columns, place, projection="3d")
            for place in range(1, number + 1)
        ]
        for ax in row:
            ax.tick_params(labelsize=8)
            ax.patch.set_visible(
                False
            )  # it would cover the z label of the axes beside it
        _place_3d(figure)
        return figure, row
    width, height = (2.6, 3.1) if projection.source != 1 else (2.6, 1.8)
    size = (width * number + 0.4, height)
    figure, axes = plt.subplots(
        1, number, figsize=size, layout=padded_layout(), squeeze=False
    )
    for ax in axes[0]:
        ax.tick_params(labelsize=7)
    figure.supxlabel(projection.labels[0], fontsize=9)
    figure.supylabel(projection.labels[1], fontsize=9)
    return figure, list(axes[0])


def padded_layout() -> ConstrainedLayoutEngine:
    """Return a layout that keeps titles away from the edges of the figure."""
    return ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.1)


def _place_3d(figure: Figure) -> None:
    """Place 3-D axes by hand, as constrained layout does not measure the label of the z
    axis.
    """
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        0.02, 0.5 / height, 1 - 0.55 / width, 1 - 0.3 / height, wspace=0.16, hspace=0.16
    )


def add_legend(figure: Any, line: str, *, fontsize: float = 9) -> None:
    """Write a legend, if it is not empty, below a figure and the common x label of its
    panels.
    """
    wrapped = fill(line, int(130 * figure.get_figwidth() / fontsize))
    figure.supxlabel(
        "\n".join(filter(None, (figure.get_supxlabel(), wrapped))), fontsize=fontsize
    )


def choose_rows(
    points: FloatArray, always: IntArray, most: int | None = None
) -> IntArray:
    """Choose the rows of points to draw: all up to MAX_DRAWN, else a sample with the
    rows `always` and the extremes.
    """
    n, most = len(points), most or MAX_DRAWN
    if n <= most:
        return np.arange(n)
    sample = np.random.default_rng(0).choice(n, most, replace=False)
    kept = np.unique(np.concatenate([always, find_extreme_rows(points)]))
    return np.union1d(kept, sample[: max(most - len(kept), 0)])


def find_extreme_rows(points: FloatArray) -> IntArray:
    """Return the rows that are extreme along an axis, and the vertices of the hull
    unless it is flat.
    """
    ends = np.concatenate([points.argmin(axis=0), points.argmax(axis=0)])
    try:
        return np.union1d(ends, ConvexHull(points).vertices)
    except QhullError:  # all on a line or in a plane
        return np.unique(ends)


def describe_thinning(shown: int, n: int, what: str = "tokens") -> list[str]:
    """Return the legend "20,000 of 50,000 tokens drawn"; none if all are drawn."""
    return [f"{shown:,} of {n:,} {what} drawn"] if shown < n else []


def shows_once(plot: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Decorate a function whose figure a notebook would show twice: as a value, and as
    an open figure of Matplotlib.
    """

    @wraps(plot)
    def once(*arguments: Parameters.args, **options: Parameters.kwargs) -> Figure:
        figure = plot(*arguments, **options)
        figure._ipython_display_ = partial(_show, figure)  # type: ignore[attr-defined]
        return figure

    return once


def _show(figure: Any) -> None:
    """Show a figure as the value of a cell, and close it where open figures are shown
    after the cell.
    """
    from IPython.display import display

    hook = figure.__dict__.pop("_ipython_display_")
    try:
        display(figure)
    finally:
        figure._ipython_display_ = hook
    if "inline" in plt.get_backend():
        plt.close(figure)
