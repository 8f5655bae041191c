"""arXiv 2305.05465, Theorem 3.1: with V = I, rescaled tokens converge to the vertices of a convex polytope."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax.draw.flows import make_flow_legend, plot_flow, rank_clusters
from hardmax.draw.projection import Projection
from hardmax.draw.style import add_legend

TITLE = "arXiv 2305.05465: tokens converge to the vertices of a convex polytope, V = I, d = 2 and 3"
TOKENS = {2: 40, 3: 25}  # number of tokens by dimension
TIMES = np.linspace(0, 10, 201)
SHOWN = (0.0, 0.5, 1.5, 10.0)


def compute() -> dict[int, SmoothTrajectory]:
    """Simulate tokens uniform in [-5, 5]^d under V = I, Q^T K = I, for each d."""
    starts = {d: np.random.default_rng(1).uniform(-5, 5, (n, d)) for d, n in TOKENS.items()}
    return {d: simulate(tokens, SelfAttention(), times=TIMES) for d, tokens in starts.items()}


def draw(rows: dict[int, SmoothTrajectory]) -> Figure:
    """Draw a row per dimension and a column per time, with the hull of the tokens in the last column."""
    figure = plt.figure(figsize=(13, 7.2))
    figure.subplots_adjust(left=0.04, right=0.955, bottom=0.08, top=0.94, wspace=0.16, hspace=0.18)
    for row, (d, trajectory) in enumerate(rows.items()):
        projection, clusters = Projection.of_trajectory(trajectory), rank_clusters(trajectory)
        for column, t in enumerate(SHOWN):
            place = row * len(SHOWN) + column + 1
            ax: Any = figure.add_subplot(len(rows), len(SHOWN), place, projection="3d" if d == 3 else None)
            k = int(np.abs(trajectory.times - t).argmin())
            plot_flow(trajectory, k, ax=ax, projection=projection, clusters=clusters)
            ax.set_title(f"t = {t:g}" if row == 0 else "", fontsize=13)
            ax.tick_params(labelsize=8)
            if d == 2 and column:
                ax.set_ylabel("")
    clusters = np.concatenate([rank_clusters(trajectory) for trajectory in rows.values()])
    add_legend(figure, make_flow_legend(clusters, stars=True, hull=True), fontsize=11)
    return figure
