"""arXiv 2305.05465, a conjecture: k eigenvalues of positive real part give subspaces of codimension k. Here k = 2."""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, matrix, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.draw.style import EDGE, GREY, SIZE, add_legend, cluster_colours
from hardmax.figures.shared import label_near_points

TITLE = "arXiv 2305.05465: conjecture, two positive eigenvalues of three give lines (codimension 2)"
V = matrix("paper-codimension")
TIMES = np.linspace(0, 12, 121)  # later, rounding would decide attention
MERGE_DISTANCE = 0.2  # points of the plane closer than this part of the initial spread count as one


class Codimension(NamedTuple):
    """A trajectory, its tokens in the eigenbasis of V (largest eigenvalue first), and the line each token ends on."""

    trajectory: SmoothTrajectory
    eigenvalues: FloatArray  # (3,)
    coordinates: FloatArray  # (times, n, 3), phi_r . z
    lines: IntArray  # (n,) number of the line of each token

    @property
    def scatter(self) -> float:
        """The largest range of phi_2 . z among the tokens of one line at the end."""
        return max(float(np.ptp(self.coordinates[-1, self.lines == g, 1])) for g in range(int(self.lines.max()) + 1))

    @property
    def unsettled(self) -> str:
        return rf"not yet settled: scatter of $\varphi_2 \cdot z$ within a group up to {self.scatter:.2g}"

    @property
    def names(self) -> list[str]:
        return [rf"$\varphi_{r} \cdot z$  ($\lambda_{r}$ = {x:.2f})" for r, x in enumerate(self.eigenvalues, 1)]


def compute() -> Codimension:
    """Simulate twenty tokens uniform in [-5, 5]^3 under the paper's V, with Q^T K = I."""
    trajectory = simulate(np.random.default_rng(1).uniform(-5, 5, (20, 3)), SelfAttention(V=V), times=TIMES)
    eigenvalues, vectors = np.linalg.eigh(V)
    coordinates = trajectory.rescaled @ vectors[:, ::-1]
    plane = coordinates[..., :2]
    lines = label_near_points(plane[-1], MERGE_DISTANCE * np.ptp(plane[0], axis=0).max())
    return Codimension(trajectory, eigenvalues[::-1], coordinates, lines)


def draw(result: Codimension) -> Figure:
    """Draw the coordinates of the positive eigenvalues at the start and at the end, then all three."""
    figure = plt.figure(figsize=(13.5, 5.6))
    figure.subplots_adjust(left=0.05, right=0.94, bottom=0.15, top=0.81, wspace=0.2)
    figure.suptitle(
        "Conjecture: tokens gather on parallel lines when two of three eigenvalues are positive\n"
        f"t = {TIMES[-1]:g}, {result.unsettled}",
        fontsize=13,
    )
    for place, k in ((1, 0), (2, len(TIMES) - 1)):
        _draw_plane(figure.add_subplot(1, 3, place), result, k)
    _draw_lines(figure.add_subplot(1, 3, 3, projection="3d"), result)
    add_legend(figure, "colours: who ends on one line", fontsize=11)
    return figure


def _draw_plane(ax: Any, result: Codimension, k: int) -> None:
    """Draw the coordinates of the positive eigenvalues at saved time k, and the paths up to it."""
    plane, colours = result.coordinates[..., :2], cluster_colours(result.lines)
    for i, colour in enumerate(colours):
        ax.plot(*plane[: k + 1, i].T, color=colour, lw=0.8, alpha=0.6)
    ax.scatter(*plane[k].T, zorder=3, s=SIZE, c=colours, edgecolors=EDGE, linewidths=0.6)
    low, high, pad = plane.min(axis=(0, 1)), plane.max(axis=(0, 1)), 0.06 * np.ptp(plane)
    ax.set(xlim=(low[0] - pad, high[0] + pad), ylim=(low[1] - pad, high[1] + pad), aspect="equal")
    ax.set(xlabel=result.names[0], ylabel=result.names[1])
    ax.set_title(f"t = {TIMES[k]:g}", fontsize=12)


def _draw_lines(ax: Any, result: Codimension) -> None:
    """Draw all three coordinates at the end, and the lines along the third that tokens gather on."""
    end, (first, second, third) = result.coordinates[-1], result.names
    reach = 1.15 * np.abs(end[:, 2]).max()
    for g in range(result.lines.max() + 1):
        foot = end[result.lines == g, :2].mean(axis=0)
        ax.plot(*np.repeat(foot[:, None], 2, axis=1), [-reach, reach], color=GREY, lw=1.2)
    colours = cluster_colours(result.lines)
    ax.scatter(*end.T, depthshade=False, s=SIZE, c=colours, edgecolors=EDGE, linewidths=0.6)
    ax.set(xlabel=first, ylabel=second, zlabel=third, zlim=(-reach, reach))
    ax.locator_params(nbins=4)
    ax.xaxis.labelpad, ax.yaxis.labelpad, ax.zaxis.labelpad = 8, 10, 12
    ax.tick_params(axis="z", pad=5)
    ax.set_title(f"t = {TIMES[-1]:g}", fontsize=12)
    ax.view_init(elev=18, azim=-60)
    ax.set_box_aspect((1, 1, 1), zoom=1.05)
