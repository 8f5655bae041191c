"""Pictures of trajectories and limits, in the manner of Figures 1 and 2 of arXiv 2407.01602.

Stars are tokens with C_i = {i}, circles all others. A circle's inside has the colour of the token it follows, in as
many parts as it follows tokens; its edge has its own colour if others follow it.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.path import Path
from mpl_toolkits.mplot3d import Axes3D
from numpy.typing import ArrayLike

from hardmax._tensors import to_numpy
from hardmax._types import FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.flows import plot_flow, plot_times
from hardmax.draw.projection import Projection
from hardmax.limits import Limit
from hardmax.polytope import Polytope
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

SKY = style.COLOURS[5]
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
        firsts = cloud.real[cloud.classes.first[cloud.classes.labels]]
        self._first = dict(zip(cloud.real.tolist(), firsts.tolist(), strict=True))
        others = sorted({self._first[j] for j in followed} - set(leaders))
        free = style.COLOURS[len(leaders) :] + [style.GREY] * len(others)
        self._colours = dict(zip([*leaders, *others], style.point_colours(len(leaders)) + free, strict=False))

    def __call__(self, j: int) -> str:
        """Colour of token j; white for one that nobody follows. Equal tokens have one colour."""
        return self._colours.get(self._first[j], "#FFFFFF")

    def distinct(self, members: IntArray) -> list[int]:
        return sorted({self._first[j] for j in members.tolist()})


def plot_tokens(
    trajectory: Trajectory,
    k: int = -1,
    *,
    ax: Axes | None = None,
    tails: bool = True,
    polytope: bool | None = None,
    palette: Palette | None = None,
    projection: Projection | None = None,
) -> Axes:
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
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        return plot_flow(
            cast(SmoothTrajectory, trajectory), k, ax=ax, tails=tails, hull=polytope, projection=projection
        )
    trajectory.only_cloud("plot_tokens(trajectory[b], k)")
    projection = projection or Projection.of_trajectory(trajectory)
    ax = style.new_axes(projection) if ax is None else ax
    palette = palette or Palette(trajectory)
    at = trajectory.index(k)
    real = np.flatnonzero(trajectory.mask)
    Z = projection(trajectory.array[:, real].astype(np.float64))  # (saved layers, tokens, 2 or 3)
    projection.label(ax)
    if (at == len(trajectory.saved) - 1 if polytope is None else polytope) and len(trajectory.leaders):
        style.shade_polytope(ax, Polytope(projection(trajectory.array[at, trajectory.leaders].astype(np.float64))))
    if tails and at > 0:
        style.draw_tails(ax, Z[: at + 1], style.GREY, 0.7)
    _scatter_tokens(ax, Z[at], trajectory, k, palette)
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
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        return plot_times(cast(SmoothTrajectory, trajectory), layers, projection=projection)
    trajectory.only_cloud("plot_layers(trajectory[b])")
    wanted = style.LAYERS if layers is None else layers
    kept = [k for k in wanted if k < trajectory.layers and k in trajectory.saved] + [trajectory.layers]
    view, palette = projection or Projection.of_trajectory(trajectory), Palette(trajectory)
    return style.draw_row(view, kept, lambda ax, k: plot_tokens(trajectory, k, ax=ax, palette=palette, projection=view))


def _scatter_tokens(ax: Axes, Z: FloatArray, trajectory: HardmaxTrajectory, k: int, palette: Palette) -> None:
    real, sets, followers = np.flatnonzero(trajectory.mask), trajectory.sets(k), trajectory.followers(k)
    if trajectory.rule.ties == "exact":
        emerged, layer = trajectory.emerged[real], int(trajectory.saved[trajectory.index(k)])
        stars = (emerged >= 0) & (emerged <= layer)
    else:
        stars = np.array([sets[i].tolist() == [i] for i in real])
    followed = [palette.distinct(sets[i]) for i in real]
    parts = np.array([len(members) for members in followed])
    edges = np.array([palette(i) if i in followers else style.EDGE for i in real.tolist()], object)
    widths = np.array([1.8 if i in followers else 0.6 for i in real.tolist()])
    size = style.marker_size(len(real))
    whole = np.flatnonzero(~stars & (parts == 1))
    colours = [palette(followed[p][0]) for p in whole]
    style.scatter(ax, Z[whole], s=size, c=colours, edgecolors=list(edges[whole]), linewidths=widths[whole], zorder=3)
    for p in np.flatnonzero(~stars & (parts > 1)):
        slices = followed[p] if parts[p] <= MOST_PARTS else []
        for part, j in enumerate(slices):
            style.scatter(ax, Z[[p]], s=size, c=[palette(j)], marker=_slice(part, len(slices)), linewidths=0, zorder=3)
        face = "none" if len(slices) else "white"
        style.scatter(ax, Z[[p]], s=size, facecolors=face, edgecolors=edges[p], linewidths=widths[p], zorder=3)
    lead = np.flatnonzero(stars)
    colours, size = [palette(int(i)) for i in real[lead]], style.STAR * style.marker_size(max(len(lead), 1))
    style.scatter(ax, Z[lead], s=size, c=colours, marker="*", edgecolors=style.EDGE, linewidths=0.7, zorder=3)


def _slice(part: int, parts: int) -> Path:
    """One of several equal parts of a disk, as a marker of the disk's size."""
    angles = np.linspace(0, 2 * np.pi / parts, 32) + 2 * np.pi * part / parts + np.pi / 2
    arc = np.column_stack([np.cos(angles), np.sin(angles)])
    corners = [[-1, -1], [1, 1]]  # bare moves: a marker is scaled by its extent, which must be the whole disk's
    vertices = np.vstack([corners, [[0, 0]], arc, [[0, 0]]])
    codes = [Path.MOVETO, Path.MOVETO, Path.MOVETO, *[Path.LINETO] * len(arc), Path.CLOSEPOLY]
    return Path(vertices, codes)


def plot_limit(
    limit: Limit, tokens: ArrayLike, *, ax: Axes | None = None, projection: Projection | None = None
) -> Axes:
    """Draw where tokens end: from each token a line to its limit, leaders as stars, K shaded.

    Parameters
    ----------
    limit : Limit
    tokens : (n, d) array
        The input.
    ax : matplotlib Axes, optional
    projection : Projection, optional
        To share axes with other pictures.
    """
    start, end = (np.asarray(to_numpy(x)).astype(np.float64) for x in (tokens, limit.tokens))
    projection = projection or Projection.of(np.stack([start, end]))
    ax = style.new_axes(projection) if ax is None else ax
    projection.label(ax)
    if len(limit.leaders):
        style.shade_polytope(ax, Polytope(projection(limit.points[: len(limit.leaders)])))
    colours = style.point_colours(len(limit.points))
    before, after, points = projection(start), projection(end), projection(limit.points)
    faces = [colours[c] if c >= 0 else style.GREY for c in limit.clusters.tolist()]
    style.draw_lines(ax, np.stack([before, after], axis=1), faces, linewidths=0.7, alpha=0.5)
    style.scatter(ax, before, s=0.2 * style.marker_size(len(start)), c=faces, alpha=0.8, linewidths=0, zorder=2)
    n_leaders = len(limit.leaders)
    for rows, marker, scale in ((slice(n_leaders), "*", style.STAR), (slice(n_leaders, None), "D", 1)):
        faces, size = colours[rows], scale * style.marker_size(max(len(points[rows]), 1))
        style.scatter(ax, points[rows], s=size, marker=marker, c=faces, edgecolors=style.EDGE, linewidths=0.7, zorder=4)
    proved = f"certified at layer {limit.layer}" if limit.certified else f"not certified within {limit.layer} layers"
    ax.set_title(f"limit: {proved}", fontsize=10)
    return ax


def plot_half_space(ax: Axes, token: FloatArray, A: FloatArray | None = None, *, reach: float = 10.0) -> None:
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
        ax.add_patch(Polygon(corners, closed=True, color=SKY, alpha=0.25, lw=0, zorder=0))
        ax.plot(*np.stack(corners[:2]).T, color=style.BLUE, lw=1, zorder=1)
        arrow = {"arrowstyle": "-|>", "color": style.EDGE, "lw": 1.3}
        ax.annotate("", tuple(token + 0.45 * normal), tuple(token), arrowprops=arrow)
        ax.set(xlim=limits[0], ylim=limits[1])
    elif isinstance(ax, Axes3D):
        span = 0.5 * min(reach, float(np.diff(ax.get_xlim3d())[0]))
        style.draw_plane(ax, token, normal, span, facecolors=SKY, alpha=0.25)
        ax.quiver(*token, *(0.45 * span * normal), color=style.EDGE, lw=1.3)
