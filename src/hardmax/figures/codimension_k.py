"""arXiv 2305.05465, a conjecture: k eigenvalues of positive real part give subspaces of codimension k. Here k = 2."""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.flow_pictures import group_colours
from hardmax.plotting import EDGE, GREY, SIZE

TITLE = "arXiv 2305.05465: conjecture, two positive eigenvalues of three give lines (codimension 2)"
V = np.array([
    [0.92761287, 0.94333073, 0.3827744],
    [0.94333073, 0.59991396, 0.47825472],
    [0.3827744, 0.47825472, 0.46668605],
])  # fmt: skip
TIMES = np.linspace(0, 16, 161)  # later, rounding would decide attention
FILMED = 8.0  # until when a movie runs
NEAR = 0.05  # of the spread at the start: points of the plane closer than that are one


@dataclass(frozen=True, eq=False)
class Numbers:
    """A trajectory, its tokens in the eigenbasis of V from the largest eigenvalue down, and who ends on one line."""

    trajectory: SmoothTrajectory
    eigenvalues: FloatArray  # (3,)
    coordinates: FloatArray  # (times, n, 3), phi_r . z
    groups: IntArray  # (n,)


def compute() -> Numbers:
    """Twenty tokens uniform in [-5, 5]^3 under the paper's V, with Q^T K = I."""
    trajectory = simulate(np.random.default_rng(1).uniform(-5, 5, (20, 3)), SelfAttention(V=V), times=TIMES)
    eigenvalues, vectors = np.linalg.eigh(V)
    coordinates = trajectory.rescaled @ vectors[:, ::-1]
    plane = coordinates[..., :2]
    reach = NEAR * np.ptp(plane[0], axis=0).max()
    near = np.linalg.norm(plane[-1][:, None] - plane[-1], axis=-1) < reach  # (n, n)
    groups = np.unique(near.argmax(axis=1), return_inverse=True)[1]
    return Numbers(trajectory, eigenvalues[::-1], coordinates, groups)


def movie_of(numbers: Numbers) -> SmoothTrajectory:
    """The trajectory to film, while the third coordinate is near."""
    return simulate(numbers.trajectory.tokens[0], numbers.trajectory.rule, times=TIMES[TIMES <= FILMED])


def draw(numbers: Numbers) -> Figure:
    """Tokens in the eigenbasis: all three coordinates, then those of positive eigenvalues, at the start and the end."""
    figure = plt.figure(figsize=(13.5, 4.9), layout="constrained")
    figure.suptitle(
        "Conjecture: tokens gather on parallel lines when two of three eigenvalues are positive", fontsize=13
    )
    names = [rf"$\varphi_{r + 1} \cdot z$  ($\lambda_{r + 1}$ = {x:.2f})" for r, x in enumerate(numbers.eigenvalues)]
    colours, end = group_colours(numbers.groups), numbers.coordinates[-1]
    style: dict[str, Any] = {"s": SIZE, "c": colours, "edgecolors": EDGE, "linewidths": 0.6}
    ax: Any = figure.add_subplot(1, 3, 1, projection="3d")
    reach = 1.15 * np.abs(end[:, 2]).max()
    for g in range(numbers.groups.max() + 1):
        foot = end[numbers.groups == g, :2].mean(axis=0)
        ax.plot(*np.repeat(foot[:, None], 2, axis=1), [-reach, reach], color=GREY, lw=1.2)
    ax.scatter(*end.T, depthshade=False, **style)
    ax.set(xlabel=names[0], ylabel=names[1], zlabel=names[2], zlim=(-reach, reach))
    ax.locator_params(nbins=5)
    ax.zaxis.labelpad = 9
    ax.tick_params(axis="z", pad=5)
    ax.set_title(f"t = {TIMES[-1]:g}", fontsize=12)
    ax.view_init(elev=18, azim=-60)
    ax.set_box_aspect((1, 1, 1), zoom=0.88)
    for place, k in ((2, 0), (3, -1)):
        ax = figure.add_subplot(1, 3, place)
        for i, colour in enumerate(colours if k else []):
            ax.plot(*numbers.coordinates[:, i, :2].T, color=colour, lw=0.8, alpha=0.6)
        ax.scatter(*numbers.coordinates[k, :, :2].T, zorder=3, **style)
        ax.set(xlabel=names[0], ylabel=names[1])
        ax.set_title(f"t = {TIMES[k]:g}", fontsize=12)
        points = numbers.coordinates[..., :2].reshape(-1, 2)
        pad = 0.06 * np.ptp(points)
        ax.set(xlim=(points[:, 0].min() - pad, points[:, 0].max() + pad))
        ax.set(ylim=(points[:, 1].min() - pad, points[:, 1].max() + pad), aspect="equal")
    return figure
