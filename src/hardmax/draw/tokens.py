"""Pictures of trajectories and limits, in the manner of Figures 1 and 2 of arXiv 2407.01602.

Stars are tokens with C_i = {i}, circles all others. A circle's inside has the colour of the token it follows, in as
many parts as it follows tokens; its edge has its own colour if others follow it. Colours are Okabe and Ito's, which
people with colour-blindness can tell apart.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Polygon
from matplotlib.path import Path
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from hardmax._tensors import to_numpy
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.draw.projection import Projection
from hardmax.limits import Limit
from hardmax.polytope import Polytope
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory

# Okabe and Ito, "Color Universal Design", 2008, without black, which is for edges; then Tol's "muted", 2021.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
COLOURS += ["#332288", "#882255", "#999933", "#44AA99", "#F0E442", "#666666"]
EDGE = "#222222"
GREY = "#999999"
SHADE = "#B8C4D6"
SIZE = 70
LAYERS = (0, 1, 2, 5, 30)  # those of Figure 2
CROWD = 80  # tokens beyond which markers shrink
MOST_PARTS = 6  # a disk in more parts than that is drawn white


class Palette:
    """Colours of tokens: leaders by their number, the same in every picture; other followed ones next; then grey.

    Several runs of the same tokens share one palette.
    """

    def __init__(self, trajectory: HardmaxTrajectory, *more: HardmaxTrajectory) -> None:
        cloud = trajectory.only_cloud("Palette(trajectory[b])")
        runs = (trajectory, *more)
        leaders = list(dict.fromkeys(i for run in runs for i in run.leaders.tolist()))
        followed = {j for run in runs for k in run.saved for j in run.followers(int(k))}
        self._first = dict(
            zip(cloud.real.tolist(), cloud.real[cloud.classes.first[cloud.classes.labels]].tolist(), strict=True)
        )
        others = sorted({self._first[j] for j in followed} - set(leaders))
        free = COLOURS[len(leaders) :] + [GREY] * len(others)
        self._colours = dict(zip(leaders, point_colours(len(leaders)), strict=True)) | dict(
            zip(others, free, strict=False)
        )

    def __call__(self, j: int) -> str:
        """Colour of token j; white for one that nobody follows. Equal tokens have one colour."""
        return self._colours.get(self._first[j], "#FFFFFF")

    def distinct(self, members: IntArray) -> list[int]:
        """These tokens, the first of each set of equal ones."""
        return sorted({self._first[j] for j in members.tolist()})


def point_colours(number: int) -> list[str]:
    """Colours of leaders and cluster points, by their number; beyond twelve they come round again."""
    return [COLOURS[p % len(COLOURS)] for p in range(number)]


def plot_tokens(
    trajectory: Trajectory,
    k: int = -1,
    *,
    ax: Any = None,
    tails: bool = True,
    polytope: bool | None = None,
    palette: Palette | None = None,
    projection: Projection | None = None,
) -> Any:
    """Draw the tokens of one cloud at layer k.

    A `SmoothTrajectory` is drawn by `hardmax.draw.flows.plot_flow`.

    Parameters
    ----------
    trajectory : Trajectory
    k : int
        Layer, for a flow position among the saved times; negative counts from the last.
    ax : matplotlib Axes, optional
        3-D axes for d = 3; made if not given.
    tails : bool
        Draw the way from layer 0.
    polytope : bool, optional
        Shade the hull of the leaders, for a flow of the tokens; by default at the last layer.
    palette, projection : optional
        To share colours and axes between panels; a flow has colours by its clusters.

    Returns
    -------
    matplotlib Axes
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        return _flows().plot_flow(trajectory, k, ax=ax, tails=tails, hull=polytope, projection=projection)
    trajectory.only_cloud("plot_tokens(trajectory[b], k)")
    projection = projection or Projection.of_trajectory(trajectory)
    ax = new_axes(projection) if ax is None else ax
    palette = palette or Palette(trajectory)
    at = trajectory.index(k)
    real = np.flatnonzero(trajectory.mask)
    Z = projection(trajectory.array[:, real].astype(np.float64))  # (saved layers, tokens, 2 or 3)
    projection.label(ax)
    if (at == len(trajectory.saved) - 1 if polytope is None else polytope) and len(trajectory.leaders):
        shade_polytope(ax, Polytope(projection(trajectory.array[at, trajectory.leaders].astype(np.float64))))
    if tails and at > 0:
        lines: Any = Line3DCollection if projection.dimension == 3 else LineCollection
        faint = max(0.6 * min(1.0, CROWD / len(real)), 0.08)
        ax.add_collection(lines(Z[: at + 1].swapaxes(0, 1), colors=GREY, linewidths=0.7, alpha=faint, zorder=1))
    layer, sets = int(trajectory.saved[at]), trajectory.sets(k)
    if trajectory.rule.ties == "exact":
        stars = (trajectory.emerged[real] >= 0) & (trajectory.emerged[real] <= layer)
    else:
        stars = np.array([sets[i].tolist() == [i] for i in real])
    _scatter_tokens(ax, Z[at], real, stars, sets, trajectory.followers(k), palette)
    ax.set_title(trajectory.label(at), fontsize=10)
    return ax


def plot_layers(
    trajectory: Trajectory, layers: Sequence[int] | None = None, *, projection: Projection | None = None
) -> Figure:
    """Draw several layers of one cloud side by side, and always the last.

    Parameters
    ----------
    trajectory : Trajectory
    layers : sequence of int, optional
        Which, by default those of Figure 2, for a flow some positions among its saved times; those beyond the last are
        left out.
    projection : Projection, optional
        To share axes with other pictures.

    Returns
    -------
    matplotlib Figure
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        return _flows().plot_times(trajectory, layers, projection=projection)
    trajectory.only_cloud("plot_layers(trajectory[b])")
    wanted = LAYERS if layers is None else layers
    kept = [k for k in wanted if k < trajectory.layers and k in trajectory.saved] + [trajectory.layers]
    projection = projection or Projection.of_trajectory(trajectory)
    figure, axes = panels(projection, len(kept))
    palette = Palette(trajectory)
    for ax, k in zip(axes, kept, strict=True):
        plot_tokens(trajectory, k, ax=ax, palette=palette, projection=projection)
        if projection.dimension == 2:  # one pair of labels for the row
            ax.set(xlabel="", ylabel="")
    return figure


def panels(projection: Projection, number: int) -> tuple[Figure, list[Any]]:
    """A figure with a row of axes for one projection, named once for all of them."""
    width, height = (3.1, 3.5) if projection.source != 1 else (3.1, 1.5)
    figure, axes = plt.subplots(
        1,
        number,
        figsize=(width * number + 0.4, height),
        layout=None if projection.dimension == 3 else "constrained",
        squeeze=False,
        subplot_kw={"projection": "3d"} if projection.dimension == 3 else {},
    )
    for ax in axes[0]:
        ax.tick_params(labelsize=7)
    if projection.dimension == 3:
        _leave_room(figure, right=1 - 0.35 / figure.get_figwidth())
    else:
        figure.supxlabel(projection.labels[0], fontsize=9)
        figure.supylabel(projection.labels[1], fontsize=9)
    return figure, list(axes[0])


def _flows() -> Any:
    """Pictures of flows, which draw with the functions of this file."""
    from hardmax.draw import flows as flow_pictures

    return flow_pictures


def _scatter_tokens(
    ax: Any,
    Z: FloatArray,
    real: IntArray,
    stars: BoolArray,
    sets: list[IntArray],
    followers: dict[int, IntArray],
    palette: Palette,
) -> None:
    chosen = [palette.distinct(sets[i]) for i in real]
    parts = np.array([len(members) for members in chosen])
    edges = np.array([palette(i) if i in followers else EDGE for i in real.tolist()], object)
    widths = np.array([1.8 if i in followers else 0.6 for i in real.tolist()])

    size = marker_size(len(real))
    flat = {"depthshade": False} if isinstance(ax, Axes3D) else {}  # shading by depth would change the colours

    def draw(rows: IntArray, colours: list[Any], scale: float = 1, **options: Any) -> None:
        if len(rows):
            ax.scatter(*Z[rows].T, s=scale * size, c=colours, zorder=3, **flat, **options)

    plain = np.flatnonzero(~stars & (parts == 1))
    colours = [palette(chosen[p][0]) for p in plain]
    draw(plain, colours, edgecolors=list(edges[plain]), linewidths=widths[plain])
    for p in np.flatnonzero(~stars & (parts > 1)):
        shown = chosen[p] if parts[p] <= MOST_PARTS else []
        for part, j in enumerate(shown):
            draw(np.array([p]), [palette(j)], marker=_slice(part, len(shown)), linewidths=0)
        face = "none" if len(shown) else "white"
        ax.scatter(*Z[[p]].T, s=size, facecolors=face, edgecolors=edges[p], linewidths=widths[p], zorder=3, **flat)
    lead = np.flatnonzero(stars)
    scale = 3.2 * marker_size(len(lead)) / size if len(lead) else 0
    draw(lead, [palette(int(i)) for i in real[lead]], scale, marker="*", edgecolors=EDGE, linewidths=0.7)


def marker_size(n: int) -> float:
    """Area of a circle in points: smaller in a crowd, so that it can be seen through."""
    return SIZE * min(1.0, max(CROWD / n, 0.15))


def _slice(part: int, parts: int) -> Path:
    """One of several equal parts of a disk, as a marker of the disk's size."""
    angles = np.linspace(0, 2 * np.pi / parts, 32) + 2 * np.pi * part / parts + np.pi / 2
    arc = np.column_stack([np.cos(angles), np.sin(angles)])
    corners = [[-1, -1], [1, 1]]  # bare moves: a marker is scaled by its extent, which must be the whole disk's
    vertices = np.vstack([corners, [[0, 0]], arc, [[0, 0]]])
    codes = [Path.MOVETO, Path.MOVETO, Path.MOVETO, *[Path.LINETO] * len(arc), Path.CLOSEPOLY]
    return Path(vertices, codes)


def plot_limit(limit: Limit, tokens: Any, *, ax: Any = None, projection: Projection | None = None) -> Any:
    """Draw where tokens end: from each token a line to its limit, leaders as stars, K shaded.

    Parameters
    ----------
    limit : Limit
    tokens : (n, d) array
        The input.
    ax : matplotlib Axes, optional
    projection : Projection, optional
        To share axes with other pictures.

    Returns
    -------
    matplotlib Axes
    """
    start, end = (np.asarray(to_numpy(x)).astype(np.float64) for x in (tokens, limit.tokens))
    projection = projection or Projection.of(np.stack([start, end]))
    ax = new_axes(projection) if ax is None else ax
    projection.label(ax)
    if len(limit.leaders):
        shade_polytope(ax, Polytope(projection(limit.points[: len(limit.leaders)])))
    colours = point_colours(len(limit.points))
    before, after, points = projection(start), projection(end), projection(limit.points)
    own = [colours[c] if c >= 0 else GREY for c in limit.clusters.tolist()]
    flat = {"depthshade": False} if isinstance(ax, Axes3D) else {}
    lines: Any = Line3DCollection if projection.dimension == 3 else LineCollection
    ax.add_collection(lines(np.stack([before, after], axis=1), colors=own, linewidths=0.7, alpha=0.5, zorder=1))
    ax.scatter(*before.T, s=0.2 * marker_size(len(start)), c=own, alpha=0.8, linewidths=0, zorder=2, **flat)
    leads = len(limit.leaders)
    for chosen, marker, scale in ((slice(leads), "*", 3.2), (slice(leads, None), "D", 1)):
        if len(points[chosen]):
            own, edge = colours[chosen], {"edgecolors": EDGE, "linewidths": 0.7, **flat}
            size = scale * marker_size(len(points[chosen]))
            ax.scatter(*points[chosen].T, s=size, marker=marker, c=own, zorder=4, **edge)
    proved = f"certified at layer {limit.layer}" if limit.certified else f"not certified within {limit.layer} layers"
    ax.set_title(f"limit: {proved}", fontsize=10)
    return ax


def shade_polytope(ax: Any, polytope: Polytope) -> None:
    """Shade a polytope of dimension at most 3 in the axes' own coordinates."""
    vertices = polytope.vertices
    if polytope.dimension == 1:
        ax.plot(*vertices[polytope.facets[:, 0]].T, color=SHADE, lw=5, alpha=0.7, solid_capstyle="round", zorder=0)
    elif polytope.dimension == 2 and vertices.shape[1] == 2:
        ax.add_patch(Polygon(vertices[polytope.outline], closed=True, color=SHADE, alpha=0.45, lw=0, zorder=0))
    elif polytope.dimension >= 2 and isinstance(ax, Axes3D):
        faces = [vertices[polytope.outline]] if polytope.dimension == 2 else list(vertices[polytope.facets])
        ax.add_collection3d(Poly3DCollection(faces, facecolors=SHADE, edgecolors="#8899AA", alpha=0.18, linewidths=0.4))


def plot_half_space(ax: Any, token: FloatArray, A: FloatArray | None = None, *, reach: float = 10.0) -> None:
    """Shade {z : ⟨A z_i, z - z_i⟩ >= 0}, where everything that attracts z_i lies, and draw the direction A z_i.

    In 3-D the bounding plane is drawn instead of the half-space.
    """
    normal = token if A is None else A @ token
    normal = normal / np.linalg.norm(normal)
    if len(token) == 2:
        along = np.array([-normal[1], normal[0]])
        corners = [token - reach * along, token + reach * along]
        corners += [corners[1] + 2 * reach * normal, corners[0] + 2 * reach * normal]
        limits = ax.get_xlim(), ax.get_ylim()
        ax.add_patch(Polygon(corners, closed=True, color="#56B4E9", alpha=0.25, lw=0, zorder=0))
        ax.plot(*np.stack(corners[:2]).T, color="#0072B2", lw=1, zorder=1)
        ax.annotate("", token + 0.45 * normal, token, arrowprops={"arrowstyle": "-|>", "color": EDGE, "lw": 1.3})
        ax.set_xlim(limits[0])
        ax.set_ylim(limits[1])
    elif isinstance(ax, Axes3D):
        u, v = np.linalg.svd(normal[None])[2][1:]
        span = 0.5 * min(reach, float(np.diff(ax.get_xlim3d())[0]))
        plane = [token + span * (a * u + b * v) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        ax.add_collection3d(Poly3DCollection([plane], facecolors="#56B4E9", alpha=0.25))
        ax.quiver(*token, *(0.45 * span * normal), color=EDGE, lw=1.3)


def new_axes(projection: Projection) -> Any:
    """Axes for a projection, in a figure of their own."""
    if projection.dimension == 2:
        size = (5.2, 5) if projection.source != 1 else (5.2, 1.6)
        return plt.figure(figsize=size, layout="constrained").add_subplot()
    figure = plt.figure(figsize=(5.2, 5))
    _leave_room(figure, right=0.93)
    return figure.add_subplot(projection="3d")


def roomy() -> ConstrainedLayoutEngine:
    """A layout whose titles keep off the edges of the figure."""
    return ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.1)


def _leave_room(figure: Figure, right: float) -> None:
    """Place 3-D axes by hand: an automatic layout does not know how far the name of the third axis reaches."""
    figure.subplots_adjust(left=0.0, right=right, bottom=0.09, top=0.92, wspace=0.05)
