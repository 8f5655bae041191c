"""arXiv 2305.05465: attention between tokens of the plane; queries connect to fewer and fewer keys, the leaders."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax.draw.flows import LEAST_WEIGHT, plot_connections
from hardmax.draw.style import padded_layout

TITLE = "arXiv 2305.05465: queries connect to fewer and fewer tokens, the leaders, n = 20, d = 2"
UNITS = np.linspace(0, 4, 81)  # times in units of 1 / lambda_1
SHOWN = (0, 2, 3, 4)


def compute() -> SmoothTrajectory:
    """Simulate tokens uniform in [-1, 1]^2; Q^T K and V each W W^T with W uniform in [-1, 1]."""
    rng = np.random.default_rng(3)
    B, V = (W @ W.T for W in rng.uniform(-1, 1, (2, 2, 2)))
    times = UNITS / np.linalg.eigvalsh(V)[-1]
    return simulate(rng.uniform(-1, 1, (20, 2)), SelfAttention(Q=B, V=V), times=times)


def count_seen(trajectory: SmoothTrajectory, k: int) -> int:
    """Count the tokens that receive a weight above 1/100 from some token."""
    return int((trajectory.attention(k) > LEAST_WEIGHT).any(axis=0).sum())


def draw(trajectory: SmoothTrajectory) -> Figure:
    """Draw keys and queries at four times, each panel with its own limits, because tokens x grow."""
    axes: Any
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.8), layout=padded_layout())
    for ax, unit in zip(axes.flat, SHOWN, strict=True):
        k = int(np.abs(UNITS - unit).argmin())
        plot_connections(trajectory, k, ax=ax, legend=False)
        ax.set_title(rf"$\lambda_1 t$ = {UNITS[k]:.2g}: {count_seen(trajectory, k)} tokens seen", fontsize=12)
        ax.locator_params(nbins=6)
        ax.tick_params(labelsize=8)
    title = rf"lines: $P_{{ij}}$ > {LEAST_WEIGHT:g}; seen: $P_{{ij}}$ > {LEAST_WEIGHT:g} for some $i$"
    style: dict[str, Any] = {"loc": "outside lower center", "ncols": 2, "fontsize": 11, "title_fontsize": 10}
    figure.legend(*axes.flat[0].get_legend_handles_labels(), title=title, frameon=False, **style)
    return figure
