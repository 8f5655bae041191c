"""Figures of arXiv 2305.05465 on attention in time: its rank falls, and it concentrates
on the leaders.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax._types import FloatArray
from hardmax.draw import style
from hardmax.draw.flows import RANK_TOL, plot_attention
from hardmax.draw.projection import Projection
from hardmax.draw.style import COLOURS, EDGE, padded_layout
from hardmax.figures.shared import paper_figure

RANK_UNITS = np.linspace(0, 16, 33)  # times in units of 1 / lambda_1
RANK_SHOWN = (0, 8, 12, 16, 32)  # indices of RANK_UNITS
UNITS = np.linspace(0, 4, 81)  # times in units of 1 / lambda_1
SHOWN = (0, 40, 60, 80)  # indices of UNITS
MIN_WEIGHT = 1e-2  # smallest attention weight that is drawn as a line


def compute_rank() -> SmoothTrajectory:
    """Simulate tokens uniform in [-1, 1]^80, V = W W^T with W uniform in [-1, 1], Q^T K
    = I.
    """
    rng = np.random.default_rng(0)
    W = rng.uniform(-1, 1, (80, 80))
    V = W @ W.T
    times = RANK_UNITS / np.linalg.eigvalsh(V)[-1]
    return simulate(
        rng.uniform(-1, 1, (40, 80)),
        SelfAttention(V=V),
        times=times,
        rtol=1e-6,
        atol=1e-8,
    )


def find_ranks(trajectory: SmoothTrajectory) -> FloatArray:
    """Return the rank of the attention matrix at each saved time: singular values above
    1e-6 of the largest.
    """
    return np.linalg.matrix_rank(
        [trajectory.attention(k) for k in range(len(trajectory.saved))], rtol=RANK_TOL
    )


@paper_figure(
    "attention_rank",
    "arXiv 2305.05465: rank of the attention matrix in time, n = 40, d = 80",
    compute_rank,
)
def draw_rank(trajectory: SmoothTrajectory) -> Figure:
    """Draw the matrix at five times, and below its rank in time."""
    figure = plt.figure(figsize=(13, 5.8), layout="constrained")
    grid = figure.add_gridspec(2, len(RANK_SHOWN), height_ratios=(1.5, 1))
    axes: list[Any] = [
        figure.add_subplot(grid[0, column]) for column in range(len(RANK_SHOWN))
    ]
    ranks = find_ranks(trajectory)
    for ax, k in zip(axes, RANK_SHOWN, strict=True):
        plot_attention(trajectory, k, ax=ax)
        ax.set_title(
            rf"$\lambda_1 t$ = {RANK_UNITS[k]:g}: rank {ranks[k]}", fontsize=12
        )
        ylabel = "token $i$" if k == 0 else ""
        ax.set(
            xlabel="token $j$", ylabel=ylabel, xticks=[0, 20, 39], yticks=[0, 20, 39]
        )
    figure.colorbar(axes[-1].images[0], ax=axes, shrink=0.8, pad=0.01).set_label(
        "$P_{ij}$"
    )
    below = figure.add_subplot(grid[1, :])
    below.plot(RANK_UNITS, ranks, color=COLOURS[0], lw=2, marker="o", ms=4)
    below.plot(
        RANK_UNITS[list(RANK_SHOWN)],
        ranks[list(RANK_SHOWN)],
        "o",
        color=COLOURS[1],
        ms=8,
    )
    below.set(
        xlabel=r"$\lambda_1 t$",
        ylabel="rank of $P$",
        ylim=(0, 42),
        xlim=(-0.2, RANK_UNITS[-1] + 0.2),
    )
    below.set_title(
        rf"rank: singular values above $10^{{{np.log10(RANK_TOL):.0f}}}$ times the"
        r" largest",
        fontsize=11,
    )
    below.spines[["top", "right"]].set_visible(False)
    return figure


def compute_connections() -> SmoothTrajectory:
    """Simulate tokens uniform in [-1, 1]^2; Q^T K and V each W W^T with W uniform in
    [-1, 1].
    """
    rng = np.random.default_rng(3)
    B, V = (W @ W.T for W in rng.uniform(-1, 1, (2, 2, 2)))
    times = UNITS / np.linalg.eigvalsh(V)[-1]
    return simulate(rng.uniform(-1, 1, (20, 2)), SelfAttention(Q=B, V=V), times=times)


def count_seen(trajectory: SmoothTrajectory, k: int) -> int:
    """Count the tokens that receive a weight above 1/100 from some token."""
    return int((trajectory.attention(k) > MIN_WEIGHT).any(axis=0).sum())


def plot_connections(trajectory: SmoothTrajectory, k: int, ax: Axes) -> None:
    """Draw keys x_j and queries B x_i with B = (Q^T K)^T, and from each query to each
    key a line as wide as P_ij.
    """
    rule: Any = trajectory.rule
    X, P = trajectory.array[k], trajectory.attention(k)  # (n, 2), (n, n)
    queries = X @ rule.form(2)
    projection = Projection.of(np.stack([X, queries]), letter="x")
    projection.label(ax)
    ax.set(xlabel="$x_{1}$, $(Bx)_{1}$", ylabel="$x_{2}$, $(Bx)_{2}$")
    rows, columns = np.nonzero(P > MIN_WEIGHT)
    weights, segments = P[rows, columns], np.stack([queries[rows], X[columns]], axis=1)
    greys = [to_rgba(EDGE, 0.12 + 0.5 * w) for w in weights]
    style.draw_lines(ax, segments, greys, linewidths=0.2 + 1.6 * weights)
    marks: dict[str, Any] = {
        "s": 0.6 * style.SIZE,
        "edgecolors": EDGE,
        "linewidths": 0.6,
    }
    style.scatter(
        ax, queries, c=COLOURS[5], marker="s", label="queries $Bx_i$", zorder=2, **marks
    )
    style.scatter(ax, X, c=COLOURS[1], label="keys $x_j$", zorder=3, **marks)


@paper_figure(
    "connections_leaders",
    "arXiv 2305.05465: attention between tokens of the plane",
    compute_connections,
)
def draw_connections(trajectory: SmoothTrajectory) -> Figure:
    """Draw keys and queries at four times, each panel with its own limits, because
    tokens x grow.
    """
    axes: Any
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.8), layout=padded_layout())
    for ax, k in zip(axes.flat, SHOWN, strict=True):
        plot_connections(trajectory, k, ax)
        ax.set_title(
            rf"$\lambda_1 t$ = {UNITS[k]:.2g}: {count_seen(trajectory, k)} tokens seen",
            fontsize=12,
        )
        ax.locator_params(nbins=6)
        ax.tick_params(labelsize=8)
    title = (
        rf"lines: $P_{{ij}}$ > {MIN_WEIGHT:g}; seen: $P_{{ij}}$ > {MIN_WEIGHT:g} for"
        r" some $i$"
    )
    style: dict[str, Any] = {
        "loc": "outside lower center",
        "ncols": 2,
        "fontsize": 11,
        "title_fontsize": 10,
    }
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(), title=title, frameon=False, **style
    )
    return figure
