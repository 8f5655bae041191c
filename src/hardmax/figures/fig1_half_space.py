"""Figure 1 of arXiv 2407.01602: the geometry of the rule, for A = I and for A = (2 1; 1 1)."""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import Hardmax, HardmaxTrajectory, simulate
from hardmax.draw.style import COLOURS, EDGE
from hardmax.draw.tokens import plot_half_space

TITLE = "Figure 1: tokens that attract z1 have the largest projection on A z1"

# z2 and z3 project equally far on z1; z4 is farthest along A z1 for the second A. In tenths, so that the tie is exact.
TENTHS = [(10, 5), (13, 12), (19, 0), (5, 27), (-16, 10), (-6, -12)]
MATRICES = {"(a) A = I": None, "(b) A = (2 1; 1 1)": [[2, 1], [1, 1]]}


def compute() -> dict[str, HardmaxTrajectory]:
    """Simulate one layer for each of the two matrices, on exact tenths."""
    tokens = [[Fraction(x, 10) for x in row] for row in TENTHS]
    return {title: simulate(tokens, Hardmax(Fraction(1, 2), A), layers=1) for title, A in MATRICES.items()}


def draw(panels: dict[str, HardmaxTrajectory]) -> Figure:
    """Draw the half-space H_1, the direction A z_1, the projections on it, and in colour the tokens attracting z_1."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    for ax, (title, trajectory) in zip(axes, panels.items(), strict=True):
        Z = trajectory.array[0]
        A = np.eye(2) if trajectory.rule.matrix is None else trajectory.rule.matrix
        ax.set(xlim=(-2.2, 3), ylim=(-2.2, 3), aspect="equal", title=title, xticks=[], yticks=[])
        plot_half_space(ax, Z[0], A)
        members = trajectory.sets(0)[0].tolist()
        direction = A @ Z[0] / np.linalg.norm(A @ Z[0])
        ax.plot(*np.outer([-5, 5], direction).T, color="#999999", lw=0.8, ls="--", zorder=0)
        for j, z in enumerate(Z):
            foot = (z @ direction) * direction
            ax.plot(*np.stack([z, foot]).T, color="#999999", lw=0.8, ls=":", zorder=1)
            colour = EDGE if j == 0 else COLOURS[1] if j in members else COLOURS[0]
            ax.scatter(*z, s=60, color=colour, zorder=3)
            ax.annotate(f"$z_{j + 1}$", z, (-10, 10) if j == 0 else (7, 5), textcoords="offset points", fontsize=12)
        ax.scatter(0, 0, s=14, color=EDGE, zorder=3)
        ax.annotate("0", (0, 0), (4, -12), textcoords="offset points", fontsize=11)
        names = ", ".join(str(j + 1) for j in members)
        ax.text(0.03, 0.03, rf"$\mathcal{{C}}_1(Z) = \{{{names}\}}$", transform=ax.transAxes, fontsize=13)
        ax.text(0.97, 0.93, r"$\mathcal{H}_1$", transform=ax.transAxes, fontsize=14, ha="right", color=COLOURS[0])
    return figure
