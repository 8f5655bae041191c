"""Figures of clustered points and of the tree of clusters."""

from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram

from hardmax._display import count
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.pages import Section, Table, render
from hardmax.draw.player import (
    CIRCLE,
    RINGED,
    STAR,
    describe_axes,
    embed,
    encode,
    encode_tokens,
)
from hardmax.draw.projection import Projection
from hardmax.draw.style import choose_rows, describe_thinning, shows_once

MAX_BRANCHES = 40  # clusters of a drawn tree
MAX_PAGE_POINTS = 1_500
MAX_CUTS = 30
MAX_ROWS = 40
COLUMNS = ("cluster", "points", "leader", "mean strength", "exemplars")


@shows_once
def plot_clusters(
    X: FloatArray, labels: IntArray, leaders: IntArray, *, letter: str = "x"
) -> Figure:
    """Draw the figure of `HardmaxClustering.plot`: points in the colours of their
    clusters, -1 for noise.
    """
    projection = Projection.of(X, letter=letter)
    ax = style.prepare_axes(projection)
    points = projection(X)
    colours = _colour_points(labels, points[leaders] - points.mean(axis=0))
    shown = choose_rows(points, leaders)
    small = 0.4 * style.marker_size(len(X))
    is_noise = labels[shown] < 0
    members = shown[~is_noise]
    style.scatter(
        ax, points[members], s=small, c=list(colours[members]), linewidths=0, zorder=2
    )
    if is_noise.any():
        style.scatter(
            ax,
            points[shown[is_noise]],
            s=small,
            c=style.REST,
            marker="x",
            linewidths=0.7,
            zorder=1,
        )
    style.draw_stars(ax, points[leaders], list(colours[leaders]), zorder=4)
    ax.set_title(f"{len(leaders)} clusters; stars: leaders", fontsize=10)
    parts = ["crosses: noise"] if is_noise.any() else []
    style.add_legend(
        ax.figure, "; ".join([*parts, *describe_thinning(len(shown), len(X), "points")])
    )
    return cast(Figure, ax.figure)


def _colour_points(labels: IntArray, leaders: FloatArray) -> AnyArray:
    """Return the colour of each point: that of its cluster, of small clusters by the
    angle of the leader; or REST.
    """
    return np.array(
        [
            *style.rank_colours(np.bincount(labels[labels >= 0]), points=leaders),
            style.REST,
        ],
        object,
    )[labels]


@shows_once
def plot_tree(tree: Any, n_clusters: int | None = None) -> Figure:
    """Draw the figure of `ClusterTree.plot`: a dendrogram of the 40 clusters with the
    largest thresholds.
    """
    shown = min(MAX_BRANCHES, len(tree))
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    if shown < 2:
        ax.text(
            0.5, 0.5, "one cluster", ha="center", va="center", transform=ax.transAxes
        )
        ax.set_axis_off()
        return figure
    links, colours = tree.linkage(), [style.REST] * (2 * len(tree) - 1)
    if n_clusters is not None and 1 < n_clusters <= shown:
        ax.axhline(
            _find_level(links, n_clusters), color="black", linestyle=":", linewidth=1
        )
        colours = _branch_colours(tree, n_clusters, links)
    look: dict[str, Any] = {
        "truncate_mode": "lastp",
        "no_labels": shown > 25,
        "leaf_font_size": 8,
    }
    dendrogram(
        links, p=shown, ax=ax, link_color_func=lambda node: colours[node], **look
    )
    ax.set_ylabel("log(1 + tau) at which clusters join")
    ax.set_title(
        f"{len(tree.labels)} points: the {shown} clusters with the largest thresholds",
        fontsize=10,
    )
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _find_level(links: FloatArray, k: int) -> float:
    """Return the height of a cut into k clusters: halfway between the merges above and
    below it.
    """
    heights = [
        *links[::-1, 2],
        0.0,
    ]  # from the top: above heights[k - 1] there are k clusters
    return float(heights[k - 2] + heights[k - 1]) / 2


def _branch_colours(tree: Any, n_clusters: int, links: FloatArray) -> list[str]:
    """Return a colour for each node of SciPy's tree: that of its cluster in
    `plot_clusters`, REST above the cut.
    """
    labels, _ = tree.cut(n_clusters)
    named = style.rank_colours(np.bincount(labels))
    colours = [named[label] for label in labels[tree.leaders]]
    for row, (one, other) in enumerate(links[:, :2].astype(int)):
        joined = row < len(links) - (
            n_clusters - 1
        )  # the last joins are those above the cut
        colours.append(colours[min(one, other)] if joined else style.REST)
    return colours


def clusters_page(clustering: Any, points: FloatArray, title: str) -> str:
    """Return a page of a fitted `HardmaxClustering`, with the tree of clusters and a
    slider that cuts it.
    """
    fitted, tree = int(clustering.n_clusters_), clustering.tree_
    projection = Projection.of(points, letter="x")
    shown = choose_rows(projection(points), clustering.leaders_, MAX_PAGE_POINTS)
    cuts = {
        k: tree.cut(k)
        for k in range(int(np.isinf(tree.heights).sum()), min(len(tree), MAX_CUTS) + 1)
    }
    cuts = dict(
        sorted((cuts | {fitted: (clustering.labels_, clustering.leaders_)}).items())
    )
    exemplars = np.concatenate(clustering.exemplars_)
    ringed = (
        list(cuts).index(fitted),
        np.isin(shown, exemplars) & ~np.isin(shown, clustering.leaders_),
    )
    tokens = _encode_cuts(projection(points), shown, list(cuts.values()), ringed)
    tokens |= {
        "texts": _describe_points(clustering, shown),
        "hull": None,
        "trail_step": 0,
        "star": 1.5,
    }
    axes = {"axes": describe_axes(projection), "equal": projection.equal}
    panels, drawn = _describe_tree(tree, list(cuts))
    data = {
        "panels": [{"kind": "picture", **axes, "label": "points"}, *panels],
        "frames": [
            {"label": str(k), "panels": each}
            for k, each in zip(cuts, drawn, strict=True)
        ],
        "tokens": tokens,
        "start": list(cuts).index(fitted),
        "slider": "Number of clusters: ",
        "interval": 700,
    }
    thinned = "".join(
        f"{line}. " for line in describe_thinning(len(shown), len(points), "points")
    )
    cut = "Drag the square on the tree, or the slider, to cut it. " if panels else ""
    legend = (
        f"Stars lead; colours: clusters; rings: exemplars of the {fitted} fitted"
        f" clusters. {cut}{thinned}"
    )
    tooltip = "its cluster, leader, strength and members"
    player = {"plot": embed(data), "legend": legend, "drag": "pan", "tooltip": tooltip}
    proof = (
        "The limit of every point is proved."
        if clustering.certified_
        else "Not every limit is proved."
    )
    status = f"{count(fitted, 'cluster')} of {len(points):,} points. {proof}"
    section = Section(
        title, "", status, player, table=Table(COLUMNS, _list_clusters(clustering))
    )
    return render("report", title=f"hardmax: {title}", intro="", sections=[section])


def _encode_cuts(
    Z: FloatArray,
    shown: IntArray,
    cuts: list[tuple[IntArray, IntArray]],
    ringed: tuple[int, BoolArray],
) -> dict[str, Any]:
    """Return points that keep their positions and change colours and stars from cut to
    cut; one cut has exemplars.
    """
    middle = Z.mean(axis=0)
    faces = [
        _colour_points(labels, Z[leaders] - middle)[shown] for labels, leaders in cuts
    ]
    marks = np.array(
        [np.where(np.isin(shown, leaders), STAR, CIRCLE) for _, leaders in cuts]
    )
    marks[ringed[0], ringed[1]] = RINGED
    edges = np.full((len(cuts), len(shown)), style.EDGE, object)
    encoded = encode_tokens(
        np.broadcast_to(Z[shown], (len(cuts), len(shown), Z.shape[1])),
        faces,
        edges,
        marks,
    )
    groups = [
        np.unique(labels[shown], return_inverse=True)[1] + min(labels[shown].min(), 0)
        for labels, _ in cuts
    ]
    encoded["groups"] = encode(np.array(groups, np.int16))  # -1 for noise
    return encoded | {
        "size": float(np.sqrt(style.marker_size(len(shown)) / style.SIZE))
    }


def _describe_points(clustering: Any, shown: IntArray) -> list[str]:
    texts, strengths = [], clustering.strengths_
    for i, label in zip(shown, clustering.labels_[shown], strict=True):
        number = f"{label} of the {clustering.n_clusters_} fitted"
        leader = (
            f"cluster {number}, led by point {clustering.leaders_[label]}"
            if label >= 0
            else "noise"
        )
        texts.append(f"point {i}\n{leader}\nstrength {strengths[i]:.2f}")
    return texts


def _list_clusters(clustering: Any) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    strengths = clustering.strengths_
    for c, exemplars in enumerate(clustering.exemplars_[:MAX_ROWS]):
        members, named = clustering.labels_ == c, ", ".join(map(str, exemplars))
        strength = f"{strengths[members].mean():.2f}"
        rows.append(
            (str(c), str(members.sum()), str(clustering.leaders_[c]), strength, named)
        )
    return rows


def _describe_tree(
    tree: Any, cuts: list[int]
) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """Return the panel of a dendrogram, and its content for each cut; nothing for a
    single cluster.
    """
    if len(tree) < 2:
        return [], [[] for _ in cuts]
    links, leaves = tree.linkage(), min(MAX_CUTS, len(tree))
    found = dendrogram(links, p=leaves, truncate_mode="lastp", no_plot=True)
    corners = np.stack([found["icoord"], found["dcoord"]], axis=-1).round(
        4
    )  # (joins, 4, 2)
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    axes = [
        {"label": "clusters", "low": low[0] - 5, "high": high[0] + 5, "ticks": []},
        {
            "label": "log(1 + tau) at which clusters join",
            "low": 0.0,
            "high": 1.05 * high[1],
        },
    ]
    levels = [_find_level(links, k) if 1 < k <= len(tree) else None for k in cuts]
    lines, drawn = (
        {"kind": "lines", "paths": corners.tolist(), "colour": "ink", "alpha": 0.8},
        [],
    )
    for level in levels:
        content: list[Any] = [lines]
        if level is not None:
            path, middle = (
                [[-1e4, level], [1e4, level]],
                [5.0 * leaves, level],
            )  # SciPy draws a leaf every 10 units
            look = {"colour": "focus", "dash": [6, 5], "alpha": 1, "width": 2}
            content += [{"kind": "lines", "paths": [path], **look}]
            content += [{"kind": "handles", "points": [middle], "colour": "focus"}]
        drawn.append([content])
    return [
        {
            "kind": "picture",
            "axes": axes,
            "equal": False,
            "label": "tree of clusters",
            "cuts": levels,
        }
    ], drawn
