"""arXiv 2305.05465: attention matrices in time lose their rank as leaders emerge, n = 40, d = 80."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax._types import FloatArray
from hardmax.draw.flows import RANK_TOL, plot_attention
from hardmax.draw.style import COLOURS

TITLE = "arXiv 2305.05465: the rank of the attention matrix falls as leaders emerge, n = 40, d = 80"
UNITS = np.linspace(0, 16, 33)  # times in units of 1 / lambda_1
SHOWN = (0, 4, 6, 8, 16)


def compute() -> SmoothTrajectory:
    """Simulate tokens uniform in [-1, 1]^80, V = W W^T with W uniform in [-1, 1], Q^T K = I."""
    rng = np.random.default_rng(0)
    W = rng.uniform(-1, 1, (80, 80))
    V = W @ W.T
    times = UNITS / np.linalg.eigvalsh(V)[-1]
    return simulate(rng.uniform(-1, 1, (40, 80)), SelfAttention(V=V), times=times, rtol=1e-6, atol=1e-8)


def ranks(trajectory: SmoothTrajectory) -> FloatArray:
    """Return the rank of the attention matrix at each saved time: singular values above 1e-6 of the largest."""
    return np.linalg.matrix_rank([trajectory.attention(k) for k in range(len(trajectory.saved))], rtol=RANK_TOL)


def draw(trajectory: SmoothTrajectory) -> Figure:
    """Draw the matrix at five times, and below its rank in time."""
    figure = plt.figure(figsize=(13, 5.8), layout="constrained")
    grid = figure.add_gridspec(2, len(SHOWN), height_ratios=(1.5, 1))
    axes: list[Any] = [figure.add_subplot(grid[0, column]) for column in range(len(SHOWN))]
    rank = ranks(trajectory)
    positions = [int(np.abs(UNITS - unit).argmin()) for unit in SHOWN]
    for ax, k in zip(axes, positions, strict=True):
        _draw_matrix(ax, trajectory, k, rank)
        ax.set_ylabel("token $i$" if k == 0 else "")
    figure.colorbar(axes[-1].images[0], ax=axes, shrink=0.8, pad=0.01).set_label("$P_{ij}$")
    below = figure.add_subplot(grid[1, :])
    _draw_ranks(below, rank)
    below.plot(UNITS[positions], rank[positions], "o", color=COLOURS[1], ms=8)
    return figure


def _draw_matrix(ax: Any, trajectory: SmoothTrajectory, k: int, rank: FloatArray) -> None:
    plot_attention(trajectory, k, ax=ax)
    ax.set_title(rf"$\lambda_1 t$ = {UNITS[k]:g}: rank {rank[k]}", fontsize=12)
    ax.set(xlabel="token $j$", ylabel="token $i$", xticks=[0, 20, 39], yticks=[0, 20, 39])


def _draw_ranks(ax: Any, rank: FloatArray) -> None:
    ax.plot(UNITS[: len(rank)], rank, color=COLOURS[0], lw=2, marker="o", ms=4)
    ax.set(xlabel=r"$\lambda_1 t$", ylabel="rank of $P$", ylim=(0, 42), xlim=(-0.2, UNITS[-1] + 0.2))
    ax.set_title(rf"rank: singular values above $10^{{{np.log10(RANK_TOL):.0f}}}$ times the largest", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
