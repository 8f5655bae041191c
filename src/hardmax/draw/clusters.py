"""Points by their clusters, with the leaders."""

from typing import cast

import numpy as np
from matplotlib.figure import Figure

from hardmax._types import FloatArray, IntArray
from hardmax.draw import style
from hardmax.draw.projection import Projection
from hardmax.draw.thinning import drawn_rows, thinned_line


def plot_clusters(X: FloatArray, labels: IntArray, leaders: IntArray) -> Figure:
    """Draw clustered points (n, d) by their labels, as a point and a star for each leader.

    Points of more than three coordinates are seen along their principal axes.
    """
    projection = Projection.of(X, letter="x")
    ax = style.new_axes(projection)
    projection.label(ax)
    points, named = projection(X), style.ranked_colours(np.bincount(labels))
    colours, shown = np.array(named, object)[labels], drawn_rows(points, leaders)
    small = 0.4 * style.marker_size(len(X))
    style.scatter(ax, points[shown], s=small, c=list(colours[shown]), linewidths=0, zorder=2)
    style.draw_stars(ax, points[leaders], list(colours[leaders]), zorder=4)
    ax.set_title(f"{len(leaders)} clusters; stars lead", fontsize=10)
    grey = "grey: the smaller clusters" if style.REST in named else ""
    line = "; ".join(filter(None, [grey, thinned_line(len(shown), len(X), "points")]))
    if line:
        style.add_legend(cast(Figure, ax.figure), line)
    return cast(Figure, ax.figure)
