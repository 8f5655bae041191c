"""arXiv 2305.05465, Theorem 5.2: a multiple leading eigenvalue gives a polytope times a subspace."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import Polytope, SelfAttention, SmoothTrajectory, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.flow_pictures import group_colours, plot_flow
from hardmax.plotting import SHADE, shade_polytope
from hardmax.projection import Projection

TITLE = "arXiv 2305.05465: tokens converge to a polytope times a subspace, V = diag(1, 1, -1/2)"
V = np.diag([1.0, 1.0, -0.5])
TIMES = np.linspace(0, 10, 201)
SOLID = 3.0  # the time of the picture in 3-D: later the third coordinate is far away
NEAR = 1e-2  # of the spread: points of the plane closer than that are one


def compute() -> tuple[SmoothTrajectory, IntArray]:
    """Twenty-five tokens uniform in [-5, 5]^3, and which of them share (z_1, z_2) at the end."""
    trajectory = simulate(np.random.default_rng(3).uniform(-5, 5, (25, 3)), SelfAttention(V=V), times=TIMES)
    plane = trajectory.rescaled[-1, :, :2]
    near = np.linalg.norm(plane[:, None] - plane, axis=-1) < NEAR * np.ptp(plane)  # (n, n)
    return trajectory, np.unique(near.argmax(axis=1), return_inverse=True)[1]


def movie_of(numbers: tuple[SmoothTrajectory, IntArray]) -> SmoothTrajectory:
    """The trajectory to film."""
    return numbers[0]


def draw(numbers: tuple[SmoothTrajectory, IntArray]) -> Figure:
    """The prism in 3-D while it forms, and the polygon that it stands on, at the end."""
    trajectory, groups = numbers
    figure = plt.figure(figsize=(11.5, 5.8), layout="constrained")
    k = int(np.abs(TIMES - SOLID).argmin())
    Z, plane = trajectory.rescaled, trajectory.rescaled[..., :2]
    solid: Any = figure.add_subplot(1, 2, 1, projection="3d")
    plot_flow(trajectory, k, ax=solid, groups=groups, projection=Projection.of(Z[: k + 1]))
    solid.set_title(f"t = {SOLID:g}", fontsize=12)
    base = Polytope(plane[-1])
    _draw_prism(solid, base.vertices[base.outline], 1.05 * np.abs(Z[k, :, 2]).max())
    solid.view_init(elev=22, azim=-58)
    solid.set_box_aspect((1, 1, 1.25))

    ax: Any = figure.add_subplot(1, 2, 2)
    Projection.of(plane).label(ax)
    shade_polytope(ax, base)
    colours = group_colours(groups)
    for i, colour in enumerate(colours):
        ax.plot(*plane[:, i].T, color=colour, lw=0.8, alpha=0.6)
    ax.scatter(*plane[-1].T, s=70, c=colours, edgecolors="#222222", linewidths=0.6, zorder=3)
    ax.set_title(f"the leading eigenspace, t = {TIMES[-1]:g}", fontsize=12)
    return figure


def _draw_prism(ax: Any, outline: FloatArray, reach: float) -> None:
    """The walls above and below a polygon."""
    walls = [
        [(*a, -reach), (*b, -reach), (*b, reach), (*a, reach)]
        for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True)
    ]
    ax.add_collection3d(Poly3DCollection(walls, facecolors=SHADE, edgecolors="#8899AA", alpha=0.15, linewidths=0.6))
    ax.set_zlim(-reach, reach)
