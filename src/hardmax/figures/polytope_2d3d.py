"""arXiv 2305.05465, Theorem 3.1: with V = I, rescaled tokens converge to the vertices of a convex polytope."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax.flow_pictures import color_groups, plot_flow
from hardmax.projection import Projection

TITLE = "arXiv 2305.05465: tokens converge to the vertices of a convex polytope, V = I, d = 2 and 3"
TOKENS = {2: 40, 3: 25}  # how many for each dimension
TIMES = np.linspace(0, 10, 201)
SHOWN = (0.0, 0.5, 1.5, 10.0)


def compute() -> dict[int, SmoothTrajectory]:
    """Tokens uniform in [-5, 5]^d under V = I, Q^T K = I, for each d."""
    starts = {d: np.random.default_rng(1).uniform(-5, 5, (n, d)) for d, n in TOKENS.items()}
    return {d: simulate(tokens, SelfAttention(), times=TIMES) for d, tokens in starts.items()}


def movie_of(rows: dict[int, SmoothTrajectory]) -> SmoothTrajectory:
    """The trajectory to film."""
    return rows[3]


def draw(rows: dict[int, SmoothTrajectory]) -> Figure:
    """A row for each dimension, a column for each time; the hull of the tokens in the last column."""
    figure = plt.figure(figsize=(13, 7.2), layout="constrained")
    for row, (d, trajectory) in enumerate(rows.items()):
        projection, groups = Projection.of_trajectory(trajectory), color_groups(trajectory)
        for column, t in enumerate(SHOWN):
            place = row * len(SHOWN) + column + 1
            ax: Any = figure.add_subplot(len(rows), len(SHOWN), place, projection="3d" if d == 3 else None)
            k = int(np.abs(trajectory.times - t).argmin())
            plot_flow(trajectory, k, ax=ax, projection=projection, groups=groups)
            ax.set_title(f"t = {t:g}" if row == 0 else "", fontsize=13)
            ax.tick_params(labelsize=8)
            if d == 3:
                ax.set_box_aspect(projection.high - projection.low, zoom=1.03)
            if d == 2 and column:
                ax.set_ylabel("")
    return figure
