"""Pictures of trajectories and limits, in the style of Figures 1 and 2 of arXiv
2407.01602.

Stars are tokens with C_i = {i}, circles all others. The face of a circle has the colour
of the token it follows, with one sector per token if it follows several; its edge has
its own colour if others follow it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from hardmax._errors import ParameterTypeError
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.draw import flows, style
from hardmax.draw.projection import Projection
from hardmax.draw.style import choose_rows, describe_thinning, shows_once
from hardmax.polytope import Polytope
from hardmax.run import Record
from hardmax.sets import Sets
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.limit import Limit
from hardmax.trajectories.smooth import SmoothTrajectory

MAX_SECTORS = 6  # a token that follows more tokens is drawn white


class Palette:
    """Colours of tokens: first of leaders, then of other tokens that are followed.

    Leaders get colours in the order of their indices. If there are more leaders than
    colours, those in `first` and those with most followers at the last layer get one,
    and the others the hue of their angle at the start; with other `colours` they are
    grey. Equal tokens have one colour.

    Parameters
    ----------
    trajectory, *more : HardmaxTrajectory
        Trajectories of one token set; several share the colours.
    first : sequence of int
        Tokens that get a colour before others.
    colours : sequence of str
        The available colours.
    chosen : mapping of int to str
        Colours of tokens that are given.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> palette = hm.draw.Palette(trajectory)
    >>> ax = hm.draw.plot_tokens(trajectory, 0, palette=palette)
    """

    def __init__(
        self,
        trajectory: HardmaxTrajectory,
        *more: HardmaxTrajectory,
        first: Sequence[int] = (),
        colours: Sequence[str] = style.COLOURS,
        chosen: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        record = trajectory.only_record("Palette(trajectory[b])")
        first_tokens = record.classes.first
        self._label = trajectory.spread(np.arange(len(first_tokens)))
        sizes = np.zeros(len(first_tokens))
        seen = np.zeros(len(first_tokens))
        leaders: dict[int, None] = {}
        for run in (trajectory, *more):
            one = run.records[0]
            sizes += _count_followers(one, one.sets(run.layers), alone=True)
            for k in run.saved.tolist():
                seen += _count_followers(one, one.sets(k))
            leading = np.flatnonzero(one.emerged >= 0)
            in_order = leading[np.argsort(first_tokens[leading])]
            leaders |= dict.fromkeys(in_order.tolist())
        sizes[self._label[list(first)]] = np.inf
        others = np.setdiff1d(np.flatnonzero(seen), list(leaders))
        both = [*leaders, *others.tolist()]
        tokens = record.real[first_tokens[both]]
        start = np.asarray(trajectory.array[0, tokens], np.float64)
        points = start if colours is style.COLOURS else None
        named = style.point_colours(sizes[[*leaders]], seen[others], colours, points)
        # White: not followed.
        self.of_class = np.full(len(first_tokens), "#FFFFFF", object)
        self.of_class[both] = named
        for token, colour in chosen.items():
            self.of_class[self._label[token]] = colour
        self.has_rest = style.REST in named

    def __call__(self, j: int) -> str:
        """Return the colour of token j; white if no token follows it."""
        return str(self.of_class[self._label[j]])

    def faces(self, sets: Sets) -> AnyArray:
        """Return the colour of the token that each class follows, (m,); white if it
        follows several.
        """
        return np.where(sets.sizes == 1, self.of_class[sets.targets], "#FFFFFF")

    def edges(self, record: Record, sets: Sets) -> AnyArray:
        """Return the own colour of each class that others follow, (m,), and EDGE for
        the other classes.
        """
        return np.where(_count_followers(record, sets) > 0, self.of_class, style.EDGE)


def _count_followers(record: Record, sets: Sets, *, alone: bool = False) -> FloatArray:
    """Count the followers of each class, (m,), copies included; with `alone` those that
    follow only it, and itself.
    """
    counts = record.classes.counts
    rows = np.repeat(np.arange(len(sets)), sets.sizes)
    weights = np.where(rows == sets.members, counts[rows] - 1, counts[rows])
    if alone:
        weights = np.where(sets.sizes[rows] == 1, counts[rows], 0)
    return np.bincount(sets.members, weights, minlength=len(counts)).astype(np.float64)


def plot_tokens(
    trajectory: Trajectory,
    k: int = -1,
    *,
    ax: Axes | None = None,
    tails: bool = True,
    polytope: bool | None = None,
    palette: Palette | None = None,
    clusters: AnyArray | None = None,
    projection: Projection | None = None,
) -> Axes:
    """Draw the tokens of one trajectory at layer k, or at saved time k of a flow.

    Stars are leaders. Under hardmax a circle has the colour of the token that it
    follows, under other rules that of its final cluster.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of one token set.
    k : int
        Layer; for rules other than `Hardmax` the index of a saved layer or time.
        Negative counts from the last with finite tokens.
    ax : matplotlib.axes.Axes, optional
        3-D axes for d = 3; new axes by default.
    tails : bool
        Draw the path from the start.
    polytope : bool, optional
        Shade the hull of the leaders, for other rules that of the tokens. By default at
        the last layer, for other rules only if the hull never grows.
    palette : Palette, optional
        Colours under hardmax, to share them between panels.
    clusters : (n,) array of int or str, optional
        Under other rules the colours of tokens, or labels: 0 for the first colour, -1
        for grey. By default by cluster.
    projection : Projection, optional
        To share axes between panels.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> ax = hm.draw.plot_tokens(trajectory, 3)
    >>> ax.get_title()
    'layer 3'
    """
    trajectory = check_trajectory(trajectory)
    trajectory.refuse_batch("plot_tokens(trajectory[b], k)")
    at = (
        trajectory.index(k)
        if isinstance(trajectory, HardmaxTrajectory)
        else flows.find_index(trajectory, k)
    )
    projection = projection or Projection.of_trajectory(trajectory)
    alone, ax = ax is None, style.prepare_axes(projection, ax)
    if isinstance(trajectory, HardmaxTrajectory):
        palette, shown = (
            palette or Palette(trajectory),
            choose_shown_rows(trajectory, projection),
        )
        Z = projection(
            trajectory.array[: at + 1, np.flatnonzero(trajectory.mask)[shown]].astype(
                np.float64
            )
        )
        shaded = (
            at == len(trajectory.saved) - 1 if polytope is None else polytope
        ) and len(trajectory.leaders) > 0
        if shaded:
            leaders = trajectory.array[at, trajectory.leaders].astype(np.float64)
            style.shade_polytope(ax, Polytope(projection(leaders)))
        if tails and at > 0:
            style.draw_tails(ax, Z, style.GREY, 0.7)
        _scatter_tokens(ax, Z[at], shown, trajectory, at, palette)
        legend = make_tokens_legend(trajectory, palette, len(shown), shaded=shaded)
    else:
        legend = flows.draw_flow(
            ax,
            trajectory,
            at,
            projection,
            tails=tails,
            hull=polytope,
            clusters=clusters,
        )
    ax.set_title(trajectory.label(at), fontsize=10)
    if alone:
        style.add_legend(ax.figure, legend)
    return ax


def choose_shown_rows(
    trajectory: Trajectory, projection: Projection, most: int | None = None
) -> IntArray:
    """Choose the tokens to draw: if there are too many, the leaders, the extreme tokens
    at the start, and a sample.
    """
    real = np.flatnonzero(trajectory.mask)
    points = projection(trajectory.drawn[0, real].astype(np.float64))
    return choose_rows(points, np.searchsorted(real, trajectory.leaders), most)


def make_tokens_legend(
    trajectory: HardmaxTrajectory, palette: Palette, shown: int, *, shaded: bool
) -> str:
    """Return a legend of markers, colours and shading, in one line."""
    parts = ["stars lead", "colours: the token followed"]
    parts += ["grey: without a colour"] if palette.has_rest else []
    parts += ["shaded: hull of the leaders"] if shaded else []
    return "; ".join([*parts, *describe_thinning(shown, int(trajectory.mask.sum()))])


@shows_once
def plot_layers(
    trajectory: Trajectory,
    layers: Sequence[int] | None = None,
    *,
    projection: Projection | None = None,
) -> Figure:
    """Draw several layers of one trajectory side by side, and always the last.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of one token set.
    layers : sequence of int, optional
        Layers, or for a flow indices of saved times. By default the layers of Figure 2
        of arXiv 2407.01602, for a flow five times that divide the path of the tokens
        into equal lengths. Layers beyond the last are ignored.
    projection : Projection, optional
        To share axes with other pictures.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=8)
    >>> figure = hm.draw.plot_layers(trajectory, [0, 2, 4])
    >>> [ax.get_title() for ax in figure.axes]
    ['layer 0', 'layer 2', 'layer 4', 'layer 8']
    """
    trajectory = check_trajectory(trajectory)
    trajectory.refuse_batch("plot_layers(trajectory[b])")
    view = projection or Projection.of_trajectory(trajectory)
    if isinstance(trajectory, HardmaxTrajectory):
        wanted = style.LAYERS if layers is None else layers
        kept = [
            k for k in wanted if k < trajectory.layers and k in trajectory.saved
        ] + [trajectory.layers]
    else:
        kept = flows.choose_positions(trajectory, layers)
    shared, legend = share_colours(trajectory, kept, view)
    figure, axes = style.panels(view, len(kept))
    for ax, k in zip(axes, kept, strict=True):
        plot_tokens(trajectory, k, ax=ax, projection=view, **shared)
        if view.dimension == 2:  # one pair of labels for the row
            ax.set(xlabel="", ylabel="")
    style.add_legend(figure, legend)
    return figure


def share_colours(
    trajectory: HardmaxTrajectory | SmoothTrajectory,
    positions: Sequence[Any],
    projection: Projection,
    palette: Any = None,
) -> tuple[dict[str, Any], str]:
    """Return options of `plot_tokens` for pictures at several layers or times, and one
    legend for all of them.
    """
    if isinstance(trajectory, SmoothTrajectory):
        colours, real = flows.choose_flow_colours(trajectory, palette), trajectory.mask
        stars = any(flows.is_leader(trajectory, k)[real].any() for k in positions)
        legend = flows.make_flow_legend(
            colours[real], stars=stars, hull=flows.has_hull_at_end(trajectory)
        )
        return {"clusters": colours}, legend
    palette, shown = (
        palette or Palette(trajectory),
        len(choose_shown_rows(trajectory, projection)),
    )
    legend = make_tokens_legend(
        trajectory, palette, shown, shaded=len(trajectory.leaders) > 0
    )
    return {"palette": palette}, legend


def is_leading_class(trajectory: HardmaxTrajectory, at: int) -> BoolArray:
    """Return which classes of equal tokens lead at a saved layer, (m,)."""
    emerged = trajectory.records[0].emerged
    return (emerged >= 0) & (emerged <= int(trajectory.saved[at]))


def _scatter_tokens(
    ax: Axes,
    Z: FloatArray,
    shown: IntArray,
    trajectory: HardmaxTrajectory,
    at: int,
    palette: Palette,
) -> None:
    """Draw markers at Z (shown, 2 or 3) for the shown tokens."""
    record = trajectory.records[0]
    own = record.classes.labels[shown]  # class of each token
    sets = record.sets(int(trajectory.saved[at]))
    stars, parts, edges = (
        is_leading_class(trajectory, at)[own],
        sets.sizes[own],
        palette.edges(record, sets)[own],
    )
    widths = np.where(edges == style.EDGE, 0.6, 1.8)
    size = style.marker_size(int(trajectory.mask.sum()))
    whole = np.flatnonzero(~stars & (parts == 1))
    colours = palette.faces(sets)[own[whole]].tolist()
    style.scatter(
        ax,
        Z[whole],
        s=size,
        c=colours,
        edgecolors=list(edges[whole]),
        linewidths=widths[whole],
        zorder=3,
    )
    for p in np.flatnonzero(~stars & (parts > 1)):
        members = sets[own[p]][
            np.argsort(record.classes.first[sets[own[p]]])
        ]  # in the order of tokens
        sectors = palette.of_class[members].tolist() if parts[p] <= MAX_SECTORS else []
        for part, colour in enumerate(sectors):
            marker = _make_sector(part, len(sectors))
            style.scatter(
                ax, Z[[p]], s=size, c=[colour], marker=marker, linewidths=0, zorder=3
            )
        face = "none" if sectors else "white"
        style.scatter(
            ax,
            Z[[p]],
            s=size,
            facecolors=face,
            edgecolors=edges[p],
            linewidths=widths[p],
            zorder=3,
        )
    lead = np.flatnonzero(stars)
    style.draw_stars(ax, Z[lead], palette.of_class[own[lead]].tolist())


def _make_sector(part: int, parts: int) -> Path:
    """Return a marker: one of several equal sectors of a disk."""
    angles = (
        np.linspace(0, 2 * np.pi / parts, 32) + 2 * np.pi * part / parts + np.pi / 2
    )
    arc = np.column_stack([np.cos(angles), np.sin(angles)])
    corners = [
        [-1, -1],
        [1, 1],
    ]  # moves without a line, so that the marker has the extent of the whole disk
    vertices = np.vstack([corners, [[0, 0]], arc, [[0, 0]]])
    codes = [
        Path.MOVETO,
        Path.MOVETO,
        Path.MOVETO,
        *[Path.LINETO] * len(arc),
        Path.CLOSEPOLY,
    ]
    return Path(vertices, codes)


def plot_limit(
    limit: Limit,
    *,
    ax: Axes | None = None,
    projection: Projection | None = None,
    palette: Palette | None = None,
) -> Axes:
    """Draw a limit: a line from each token to its limit, leaders as stars, other points
    as squares, K shaded.

    Parameters
    ----------
    limit : Limit
        Certified or not.
    ax : matplotlib.axes.Axes, optional
        3-D axes for d = 3; new axes by default.
    projection : Projection, optional
        To share axes with other pictures.
    palette : Palette, optional
        To share the colours of leaders with other pictures.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> ax = hm.draw.plot_limit(hm.limit(hm.configuration("square"), hm.Hardmax(0.5)))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('$z_{1}$', '$z_{2}$')
    """
    if not isinstance(limit, Limit):
        advice = (
            "A trajectory is drawn by plot_layers(trajectory)."
            if isinstance(limit, Trajectory)
            else ""
        )
        raise ParameterTypeError(
            "limit", "be a Limit from hm.limit", type(limit).__name__, advice
        )
    start, end = limit.start, np.asarray(to_numpy(limit.tokens)).astype(np.float64)
    projection = projection or Projection.of(np.stack([start, end]))
    alone, ax = ax is None, style.prepare_axes(projection, ax)
    if len(limit.leaders):
        style.shade_polytope(
            ax, Polytope(projection(limit.points[: len(limit.leaders)]))
        )
    colours, points = choose_limit_colours(limit, palette), projection(limit.points)
    shown = choose_rows(projection(start), limit.leaders)
    before, after = projection(start[shown]), projection(end[shown])
    faces = np.array([*colours, style.REST], object)[
        limit.clusters[shown]
    ].tolist()  # undecided tokens have -1
    style.draw_lines(
        ax, np.stack([before, after], axis=1), faces, linewidths=0.7, alpha=0.5
    )
    style.scatter(
        ax,
        before,
        s=0.2 * style.marker_size(len(start)),
        c=faces,
        alpha=0.8,
        linewidths=0,
        zorder=2,
    )
    n_leaders = len(limit.leaders)
    style.draw_stars(ax, points[:n_leaders], colours[:n_leaders], zorder=4)
    others, size = (
        points[n_leaders:],
        style.marker_size(max(len(points) - n_leaders, 1)),
    )
    square = {"marker": "s", "edgecolors": style.EDGE, "linewidths": 0.7, "zorder": 4}
    style.scatter(ax, others, s=size, c=colours[n_leaders:], **square)
    proved = (
        f"certified at layer {limit.layer}"
        if limit.certified
        else f"not certified within {limit.layer} layers"
    )
    ax.set_title(f"limit: {proved}", fontsize=10)
    parts = ["grey: undecided"] if (limit.clusters < 0).any() else []
    if alone:
        style.add_legend(
            ax.figure, "; ".join([*parts, *describe_thinning(len(shown), len(start))])
        )
    return ax


def choose_limit_colours(limit: Limit, palette: Palette | None = None) -> list[str]:
    """Return the colour of each point of a limit, as in pictures of layers: leaders
    first, then other points.
    """
    sizes, number = (
        np.bincount(limit.clusters[limit.clusters >= 0], minlength=len(limit.points)),
        len(limit.leaders),
    )
    start = np.asarray(limit.start, np.float64)[limit.leaders]
    leaders = (
        style.rank_colours(sizes[:number], points=start)
        if palette is None
        else list(map(palette, limit.leaders))
    )
    free = [colour for colour in style.COLOURS if colour not in leaders]
    return leaders + style.rank_colours(
        sizes[number:], free, np.asarray(limit.points, np.float64)[number:]
    )


def check_trajectory(trajectory: object) -> HardmaxTrajectory | SmoothTrajectory:
    """Return the trajectory, or raise an error if it is something else."""
    if not isinstance(trajectory, HardmaxTrajectory | SmoothTrajectory):
        advice = (
            "A limit is drawn by limit.plot()." if isinstance(trajectory, Limit) else ""
        )
        got = type(trajectory).__name__
        raise ParameterTypeError(
            "trajectory", "be a Trajectory from hm.simulate", got, advice
        )
    return trajectory
