"""Figure 4 of arXiv 2407.01602: a neighbourhood of the attracting set S, here from a computed limit."""

from fractions import Fraction
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hardmax import Hardmax, HardmaxTrajectory, Limit, configuration, limit, simulate
from hardmax.draw.style import COLOURS, EDGE, SIZE, shade_polytope

TITLE = "Figure 4: the delta-neighbourhood of the attracting set S"
DELTA = 0.22


def compute() -> tuple[HardmaxTrajectory, Limit, int]:
    """Return the run of "edge-clusters", its limit, and the first layer at which every token is within delta of S."""
    tokens, rule = configuration("edge-clusters"), Hardmax(Fraction(1, 2))
    end, trajectory = limit(tokens, rule), simulate(tokens, rule, layers=30)
    distances = np.linalg.norm(trajectory.array[:, :, None] - end.points, axis=-1).min(axis=2)  # (layers + 1, n)
    inside = int(np.argmax((distances < DELTA).all(axis=1)))
    return trajectory, end, inside


def draw(data: tuple[HardmaxTrajectory, Limit, int]) -> Figure:
    """Draw K shaded, the balls around the points of S, and the paths of the tokens into them."""
    trajectory, end, inside = data
    ax: Any
    figure, ax = plt.subplots(figsize=(5.8, 6), layout="constrained")
    shade_polytope(ax, end.polytope)
    for point in end.points:
        ax.add_patch(Circle(tuple(point), DELTA, color=COLOURS[5], alpha=0.35, lw=0))
    leads = len(end.leaders)
    for points, marker, size, colour, label in (
        (end.points[:leads], "*", 3 * SIZE, COLOURS[1], "leaders"),
        (end.points[leads:], "D", SIZE, COLOURS[2], "other points of S"),
    ):
        ax.scatter(*points.T, s=size, marker=marker, color=colour, edgecolors=EDGE, label=label, zorder=4)
    for i in range(trajectory.n):
        ax.plot(*trajectory.array[: inside + 1, i].T, color="#777777", lw=0.9, marker=".", ms=4, zorder=2)
    ax.scatter(*trajectory.array[inside].T, s=28, color=COLOURS[0], zorder=3, label=f"tokens at layer {inside}")
    ax.annotate(r"$\mathcal{K}$", (0, 0), fontsize=18, ha="center", va="center")
    ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.75), aspect="equal")
    title = rf"$\mathcal{{S}}$ and balls of radius $\delta$ = {DELTA}: every token is inside from layer {inside} on"
    ax.set_title(title, fontsize=9)
    ax.legend(loc="upper center", ncols=3, fontsize=8, frameon=False)
    return figure
