"""Figures of clustered points and of the tree of clusters."""

from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram

from hardmax._types import FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.projection import Projection
from hardmax.draw.style import drawn_rows, shows_once, thinned_line


@shows_once
def plot_clusters(X: FloatArray, labels: IntArray, leaders: IntArray, *, letter: str = "x") -> Figure:
    """Draw clustered points, each in the colour of its cluster, with a star for each leader.

    Points with more than three coordinates are projected to their principal axes; noise, label -1, is drawn as crosses.

    Parameters
    ----------
    X : (n, d) array
        The points.
    labels : (n,) array of int
        The cluster of each point; -1 is noise.
    leaders : (n_clusters,) array of int
        The index of the point that leads each cluster.
    letter : str
        Letter of the coordinates in the axis labels.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        If points are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hardmax as hm
    >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]])
    >>> figure = hm.draw.plot_clusters(points, np.array([0, 0, 1, 1]), np.array([0, 2]))
    """
    projection = Projection.of(X, letter=letter)
    ax = style.new_axes(projection)
    projection.label(ax)
    points, named = projection(X), style.ranked_colours(np.bincount(labels[labels >= 0]))
    colours, shown = np.array([*named, style.REST], object)[labels], drawn_rows(points, leaders)
    small = 0.4 * style.marker_size(len(X))
    is_noise = labels[shown] < 0
    members = shown[~is_noise]
    style.scatter(ax, points[members], s=small, c=list(colours[members]), linewidths=0, zorder=2)
    if is_noise.any():
        style.scatter(ax, points[shown[is_noise]], s=small, c=style.REST, marker="x", linewidths=0.7, zorder=1)
    style.draw_stars(ax, points[leaders], list(colours[leaders]), zorder=4)
    ax.set_title(f"{len(leaders)} clusters; stars: leaders", fontsize=10)
    grey = "grey: the smaller clusters" if style.REST in named else ""
    noise = "crosses: noise" if is_noise.any() else ""
    line = "; ".join(filter(None, [grey, noise, thinned_line(len(shown), len(X), "points")]))
    if line:
        style.add_legend(cast(Figure, ax.figure), line)
    return cast(Figure, ax.figure)


@shows_once
def plot_tree(tree: Any, n_clusters: int | None = None, *, most: int = 40) -> Figure:
    """Draw a `ClusterTree` as a dendrogram over tau.

    Parameters
    ----------
    tree : ClusterTree
        `HardmaxClustering.tree_`.
    n_clusters : int, optional
        Draw a line where this number of clusters remains, and colour each of them.
    most : int
        Number of clusters that are drawn, those with the largest thresholds.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If the tree does not have `n_clusters` clusters.

    Examples
    --------
    >>> import hardmax as hm
    >>> from sklearn.datasets import make_moons
    >>> points, _ = make_moons(100, noise=0.05, random_state=0)
    >>> tree = hm.HardmaxClustering(n_clusters=2).fit(points).tree_
    >>> figure = hm.draw.plot_tree(tree, n_clusters=2)
    """
    shown = min(most, len(tree))
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    if shown < 2:
        ax.text(0.5, 0.5, "one cluster", ha="center", va="center", transform=ax.transAxes)
        ax.set_axis_off()
        return figure
    links = tree.linkage()
    heights = [*links[::-1, 2], 0.0]  # of merges, from the top: above heights[k - 1] there are k clusters
    level, colours = 0.0, [style.REST] * (2 * len(tree) - 1)
    if n_clusters is not None and 1 < n_clusters <= shown:
        level = float(heights[n_clusters - 2] + heights[n_clusters - 1]) / 2
        ax.axhline(level, color="black", linestyle=":", linewidth=1)
        colours = _branch_colours(tree, n_clusters, links)
    dendrogram(
        links,
        p=shown,
        truncate_mode="lastp",
        ax=ax,
        link_color_func=lambda node: colours[node],
        no_labels=shown > 25,
        leaf_font_size=8,
    )
    ax.set_ylabel("log(1 + tau) at which clusters join")
    ax.set_title(f"{len(tree.labels)} points: the {shown} clusters with the largest thresholds", fontsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure


def _branch_colours(tree: Any, n_clusters: int, links: FloatArray) -> list[str]:
    """Return a colour for each node of SciPy's tree: that of its cluster in `plot_clusters`, REST above the cut."""
    labels, _ = tree.cut(n_clusters)
    named = style.ranked_colours(np.bincount(labels))
    colours = [named[label] for label in labels[tree.leaders]]
    for row, (one, other) in enumerate(links[:, :2].astype(int)):
        joined = row < len(links) - (n_clusters - 1)  # the last joins are those above the cut
        colours.append(colours[min(one, other)] if joined else style.REST)
    return colours
