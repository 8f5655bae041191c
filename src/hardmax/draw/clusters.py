"""Points by their clusters, with the leaders."""

from typing import cast

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.projection import Projection


def plot_clusters(X: FloatArray, labels: IntArray, leaders: IntArray) -> Figure:
    """Draw clustered points (n, d) by their labels, as a point and a star for each leader.

    Points of more than three coordinates are seen along their principal axes.
    """
    projection = Projection.of(X, letter="x")
    ax = style.new_axes(projection)
    projection.label(ax)
    points, colours = projection(X), np.array(style.cluster_colours(labels), object)
    style.scatter(ax, points, s=0.4 * style.marker_size(len(X)), c=list(colours), linewidths=0, zorder=2)
    size = style.STAR * style.marker_size(len(leaders))
    star = {"marker": "*", "edgecolors": style.EDGE, "linewidths": 0.7, "zorder": 4}
    style.scatter(ax, points[leaders], s=size, c=list(colours[leaders]), **star)
    ax.set_title(f"{len(leaders)} clusters; stars lead", fontsize=10)
    return cast(Figure, ax.figure)
