"""Pictures of flows and other smooth rules, in the style of arXiv 2305.05465.

Tokens have the colour of their final cluster, the largest cluster the first colour.
Clusters of one token that does not lead are grey. Stars are tokens that lead at the
drawn time and at the end. Self-attention is drawn in rescaled tokens z = e^{-tV} x,
except where x itself has a limit.
"""

from collections.abc import Collection, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from mpl_toolkits.mplot3d import Axes3D

from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.draw import style
from hardmax.draw.projection import Projection
from hardmax.flows.classify import classify_rule
from hardmax.polytope import Polytope
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.softmax import Softmax
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.smooth import SmoothTrajectory

RANK_TOL = 1e-6  # singular values below this part of the largest count as zero
# where the median of the saved times is below this part of the last, their axis is
# logarithmic
LOG_SHARE = 0.1
PANELS = 5  # of a row of times
COVERED = 0.01  # circles closer than this part of the view to a star are not drawn


def draw_flow(
    ax: Axes,
    trajectory: SmoothTrajectory,
    at: int,
    projection: Projection,
    *,
    tails: bool = True,
    hull: bool | None = None,
    clusters: AnyArray | None = None,
) -> str:
    """Draw the tokens at a saved index into labelled axes, and return the legend."""
    real = trajectory.mask
    Z = projection(
        trajectory.drawn[: at + 1, real].astype(np.float64)
    )  # (saved until k, tokens, 2 or 3)
    colours = choose_flow_colours(trajectory, clusters)[real]
    if isinstance(trajectory.rule, Sphere):
        draw_sphere(ax, projection.source)
    at_end = at == trajectory.reached - 1
    shaded = bool(
        (at_end and has_hull_at_end(trajectory) if hull is None else hull)
        and len(Z[at])
    )
    if shaded:
        style.shade_polytope(ax, Polytope(Z[at]))
    if tails and at > 0:
        style.draw_tails(ax, Z, colours.tolist(), 0.8)
    stars = is_leader(trajectory, at)[real]
    seen = ~stars & ~is_covered(Z[at], stars, projection)
    for rows, marker, scale in ((seen, "o", 1.0), (stars, "*", style.STAR)):
        size = scale * style.marker_size(max(int(rows.sum()), 1))
        faces = colours[rows].tolist()
        style.scatter(
            ax,
            Z[at, rows],
            s=size,
            c=faces,
            marker=marker,
            edgecolors=style.EDGE,
            linewidths=0.6,
            zorder=3,
        )
    return make_flow_legend(colours.tolist(), stars=bool(stars.any()), hull=shaded)


@style.shows_once
def plot_n_clusters(trajectory: SmoothTrajectory, tols: Sequence[float]) -> Figure:
    """Draw the number of clusters over layers or times for several tolerances;
    metastable clusters are plateaus.
    """
    if np.ndim(tols) != 1 or not len(tols):
        raise ParameterError(
            "tols",
            "be a list of at least one tolerance",
            repr(tols),
            "Use `tols=[1e-3]`.",
        )
    saved = trajectory.saved[: find_index(trajectory, -1) + 1]
    figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for tol in tols:
        counts = [int(trajectory.clusters_at(t, tol=tol).max()) + 1 for t in saved]
        ax.step(saved, counts, where="post", label=f"tolerance {tol:g}")
    spaced = (
        np.median(trajectory.saved) < LOG_SHARE * trajectory.saved[-1]
    )  # as by `np.geomspace`
    ax.set(
        xlabel="t" if trajectory.rule.continuous else "layer",
        ylabel="clusters",
        yscale="log",
    )
    ax.set_xscale("log" if spaced else "linear")
    ticks = FixedLocator([k * 10**e for e in range(7) for k in (1, 2, 5)])
    ax.yaxis.set(
        major_locator=ticks, major_formatter="{x:g}", minor_locator=NullLocator()
    )
    ax.set_ylim(0.9, 1.1 * ax.dataLim.y1)
    ax.legend()
    return figure


def choose_positions(
    trajectory: SmoothTrajectory, positions: Sequence[int] | None
) -> list[int]:
    """Return saved indices for a row of panels, with the last; by default of equal path
    lengths, or of Figure 2.
    """
    last = find_index(trajectory, -1)
    if positions is None and trajectory.rule.continuous:
        Z = trajectory.gathering[: last + 1, trajectory.mask].astype(
            np.float64
        )  # others may grow without bound
        lengths = np.linalg.norm(np.diff(Z, axis=0), axis=-1).sum(
            axis=-1
        )  # of all tokens, between saved times
        path = np.concatenate([[0.0], np.cumsum(lengths)])
        positions = np.searchsorted(
            path, np.linspace(0, path[-1], PANELS)[:-1]
        ).tolist()
    elif positions is None:
        positions = [at for at in range(last) if trajectory.saved[at] in style.LAYERS]
    kept = dict.fromkeys(find_index(trajectory, k) for k in positions if k <= last)
    return [k for k in kept if k != last] + [last]


def choose_flow_colours(
    trajectory: SmoothTrajectory, clusters: AnyArray | None = None
) -> AnyArray:
    """Return the colour of each token, (n,): that of its label, by default of its
    cluster; given colours stay.
    """
    labels = rank_clusters(trajectory) if clusters is None else np.asarray(clusters)
    if labels.dtype.kind not in "iu":
        return labels
    return np.array(
        style.cluster_colours(
            labels, trajectory.drawn[find_index(trajectory, -1)].astype(np.float64)
        )
    )


def make_flow_legend(colours: Collection[str], *, stars: bool, hull: bool) -> str:
    """Return a legend of the markers, colours and shading that are present, in one
    line.
    """
    parts = ["stars lead at the end"] if stars else []
    parts += (
        ["colours: clusters at the end of the run"] if {*colours} - {style.REST} else []
    )
    parts += ["grey: alone"] if style.REST in colours else []
    parts += ["shaded: hull"] if hull else []
    return "; ".join(parts)


def plot_attention(
    trajectory: Trajectory, k: int = -1, *, ax: Axes | None = None
) -> Axes:
    """Draw the attention matrix at layer k, or at saved index k of a flow, with its
    rank.

    The rank counts singular values above 1e-6 times the largest. For several heads the
    mean is drawn.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of one token set, under any rule with attention.
    k : int
        Layer, or index of a saved time; negative counts from the last.
    ax : matplotlib.axes.Axes, optional
        New axes by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import hardmax as hm
    >>> flow = hm.simulate(hm.configuration("gaussian", n=12), hm.SelfAttention(), times=8)
    >>> ax = hm.draw.plot_attention(flow, 0)
    >>> ax.get_title()
    't = 0: rank 12'
    """
    trajectory.refuse_batch("plot_attention(trajectory[b], k)")
    if isinstance(trajectory, SmoothTrajectory):
        k = find_index(trajectory, k)
    at, real = trajectory.index(k), trajectory.mask
    P = np.asarray(to_numpy(trajectory.attention(k)), np.float64)[..., real, :][
        ..., real
    ]
    heads = f", mean of {len(P)} heads" if P.ndim == 3 else ""
    P = P.mean(axis=0) if P.ndim == 3 else P
    alone, ax = (
        ax is None,
        ax or plt.figure(figsize=(5, 4.4), layout="constrained").add_subplot(),
    )
    image = ax.imshow(P, cmap="cividis", vmin=0, vmax=1)
    if alone:
        ax.figure.colorbar(image, ax=ax, shrink=0.85).set_label("$P_{ij}$")
    ax.set(xlabel="attends to token $j$", ylabel="token $i$")
    ax.set_title(
        f"{trajectory.label(at)}: rank"
        f" {np.linalg.matrix_rank(P, rtol=RANK_TOL)}{heads}",
        fontsize=10,
    )
    return ax


def find_index(trajectory: SmoothTrajectory, k: int) -> int:
    """Return the saved index k; negative counts from the last with finite tokens, so
    that -1 can always be drawn.
    """
    reached = trajectory.reached
    at = (
        reached + k
        if -reached <= trajectory.check_index(k) < 0
        else trajectory.index(k)
    )
    if at >= reached:
        advice = f"Use an index below {reached}." if reached else "Save earlier times."
        raise InputError(
            f"Tokens must be finite to be drawn. Got {trajectory.label(at)}, beyond the"
            f" last finite time. {advice}"
        )
    return at


def rank_clusters(trajectory: SmoothTrajectory) -> IntArray:
    """Return the final clusters, numbered by size from the largest; -1 for single
    tokens that do not lead.
    """
    labels = trajectory.clusters
    sizes = np.bincount(labels[labels >= 0])
    coloured = np.union1d(np.flatnonzero(sizes > 1), labels[trajectory.leaders])
    order = coloured[np.argsort(-sizes[coloured], kind="stable")]
    numbers = np.full(
        len(sizes) + 1, -1
    )  # the last stands for padding, whose label is -1
    numbers[order] = np.arange(len(order))
    return np.asarray(numbers[labels])


def is_leader(trajectory: SmoothTrajectory, at: int) -> BoolArray:
    """Return which tokens lead both at a saved index and at the end."""
    last = find_index(trajectory, -1)
    lasting = trajectory.leaders_at(last)
    found = (
        lasting if at == last else np.intersect1d(lasting, trajectory.leaders_at(at))
    )
    return np.isin(np.arange(trajectory.n), found)


def has_shrinking_hull(trajectory: SmoothTrajectory) -> bool:
    """Return whether the hull never grows: V is a positive multiple of I, or softmax is
    rescaled.
    """
    rule = trajectory.rule
    if isinstance(rule, SelfAttention) and rule.has_constant_values:
        V = rule.value_matrix(trajectory.array.shape[-1])
        return bool(V[0, 0] > 0 and np.array_equal(V, V[0, 0] * np.eye(len(V))))
    return isinstance(rule, Softmax) and rule.normalize == "rescaling"


def has_hull_at_end(trajectory: SmoothTrajectory) -> bool:
    """Return whether the hull never grows and is more than a point at the end."""
    return (
        has_shrinking_hull(trajectory)
        and len(np.unique(trajectory.clusters[trajectory.mask])) > 1
    )


def describe_expected_limit(trajectory: Trajectory) -> str:
    """Return the limit expected from the spectrum of V, for self-attention with
    constant matrices; else empty.
    """
    rule = trajectory.rule
    if not isinstance(rule, SelfAttention) or any(map(callable, rule.weights)):
        return ""
    return repr(classify_rule(rule, trajectory.array.shape[-1]))


def draw_sphere(ax: Axes, d: int) -> None:
    """Draw the unit circle or sphere in light grey."""
    if d == 2:
        angles = np.linspace(0, 2 * np.pi, 200)
        ax.plot(
            np.cos(angles),
            np.sin(angles),
            color=style.GREY,
            lw=0.6,
            alpha=0.6,
            zorder=0,
        )
    elif isinstance(ax, Axes3D):
        u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
        round_ = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
        ax.plot_wireframe(
            *round_,
            color=style.GREY,
            lw=0.4,
            alpha=0.35,
            rcount=13,
            ccount=25,
            zorder=0,
        )


def is_covered(Z: FloatArray, stars: BoolArray, projection: Projection) -> BoolArray:
    """Return which tokens are covered by a star in the picture."""
    unit = np.where(
        projection.high > projection.low, projection.high - projection.low, 1.0
    )
    gaps = np.linalg.norm((Z[:, None] - Z[stars]) / unit, axis=-1)
    return np.asarray(gaps.min(axis=1, initial=np.inf) < COVERED)
