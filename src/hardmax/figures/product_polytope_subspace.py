"""arXiv 2305.05465, Theorem 5.2: a multiple leading eigenvalue gives a polytope times a subspace."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import Polytope, SelfAttention, SmoothTrajectory, simulate
from hardmax._types import IntArray
from hardmax.draw.flows import is_leader, plot_flow
from hardmax.draw.projection import Projection
from hardmax.draw.style import EDGE, SHADE, SIZE, add_legend, cluster_colours, shade_polytope
from hardmax.figures.shared import label_near_points

TITLE = "arXiv 2305.05465: tokens converge to a polytope times a subspace, V = diag(1, 1, -1/2)"
V = np.diag([1.0, 1.0, -0.5])
TIMES = np.linspace(0, 10, 201)
SOLID = 3.0  # the time of the picture in 3-D: later the third coordinate is far away
LAST = int(np.abs(TIMES - SOLID).argmin())
LEGEND = "stars lead at the end; colours: who is together in $(z_1, z_2)$ then; shaded: hull of $(z_1, z_2)$ then"
MERGE_DISTANCE = 1e-2  # points of the plane closer than this part of the spread count as one


def compute() -> tuple[SmoothTrajectory, IntArray]:
    """Simulate 25 tokens uniform in [-5, 5]^3, and label those that share (z_1, z_2) at the end."""
    trajectory = simulate(np.random.default_rng(3).uniform(-5, 5, (25, 3)), SelfAttention(V=V), times=TIMES)
    plane = trajectory.rescaled[-1, :, :2]
    return trajectory, label_near_points(plane, MERGE_DISTANCE * np.ptp(plane))


def draw(data: tuple[SmoothTrajectory, IntArray]) -> Figure:
    """Draw the prism in 3-D while it forms, and its base polygon at the end, with the final leaders as stars."""
    trajectory, corners = data
    figure = plt.figure(figsize=(11.5, 6.4))
    figure.subplots_adjust(left=0.0, right=0.97, bottom=0.13, top=0.93, wspace=0.12)
    plane = trajectory.rescaled[..., :2]
    solid: Any = figure.add_subplot(1, 2, 1, projection="3d")
    _draw_solid(solid, trajectory, corners)
    solid.set_title(f"t = {SOLID:g}", fontsize=12)

    ax: Any = figure.add_subplot(1, 2, 2)
    Projection.of(plane).label(ax)
    shade_polytope(ax, Polytope(plane[-1]))
    colours = np.array(cluster_colours(corners))
    for i, colour in enumerate(colours):
        ax.plot(*plane[:, i].T, color=colour, lw=0.8, alpha=0.6)
    stars = is_leader(trajectory, len(TIMES) - 1)  # one per vertex, drawn above the others
    style = {"s": 3.2 * SIZE, "c": colours[stars], "marker": "*", "edgecolors": EDGE, "linewidths": 0.6}
    ax.scatter(*plane[-1, stars].T, zorder=3, **style)
    ax.set_title(f"the leading eigenspace, t = {TIMES[-1]:g}", fontsize=12)
    add_legend(figure, LEGEND, fontsize=11)
    return figure


def _draw_solid(ax: Any, trajectory: SmoothTrajectory, corners: IntArray) -> None:
    """Draw tokens at time SOLID, and the walls above and below the polygon that they tend to."""
    plot_flow(trajectory, LAST, ax=ax, clusters=corners, projection=Projection.of(trajectory.rescaled[: LAST + 1]))
    base = Polytope(trajectory.rescaled[-1, :, :2])
    outline, reach = base.vertices[base.outline], 1.05 * np.abs(trajectory.rescaled[LAST, :, 2]).max()
    walls = [
        [(*a, -reach), (*b, -reach), (*b, reach), (*a, reach)]
        for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True)
    ]
    ax.add_collection3d(Poly3DCollection(walls, facecolors=SHADE, edgecolors="#8899AA", alpha=0.15, linewidths=0.6))
    ax.set_zlim(-reach, reach)
    ax.view_init(elev=22, azim=-58)
    ax.set_box_aspect((1, 1, 1.25), zoom=1.05)
