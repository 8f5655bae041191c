"""arXiv 2305.05465: who attends to whom in the plane; queries connect to fewer and fewer keys, the leaders."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax.draw.flows import LEAST_WEIGHT, plot_connections
from hardmax.draw.movies import Scene, even_frames
from hardmax.draw.style import padded_layout

TITLE = "arXiv 2305.05465: queries connect to fewer and fewer tokens, the leaders, n = 20, d = 2"
UNITS = np.linspace(0, 4, 81)  # times in units of 1 / lambda_1
SHOWN = (0, 2, 3, 4)


def compute() -> SmoothTrajectory:
    """Tokens uniform in [-1, 1]^2; Q^T K and V each W W^T with W uniform in [-1, 1]."""
    rng = np.random.default_rng(3)
    B, V = (W @ W.T for W in rng.uniform(-1, 1, (2, 2, 2)))
    times = UNITS / np.linalg.eigvalsh(V)[-1]
    return simulate(rng.uniform(-1, 1, (20, 2)), SelfAttention(Q=B, V=V), times=times)


def followed(trajectory: SmoothTrajectory, k: int) -> int:
    """How many tokens get weight above 1/100 from some token."""
    return int((trajectory.attention(k) > LEAST_WEIGHT).any(axis=0).sum())


def scene(trajectory: SmoothTrajectory) -> Scene:
    """Keys, queries and connections in time; the axes grow with the tokens."""
    figure, ax = plt.subplots(figsize=(6.4, 5.8), layout=padded_layout())
    _draw_panel(ax, trajectory, 0)
    _add_legend(figure, ax)
    return Scene(figure, lambda k: _draw_panel(ax, trajectory, k), even_frames(len(UNITS) - 1))


def draw(trajectory: SmoothTrajectory) -> Figure:
    """Keys and queries at four times, each with axes of its own, for tokens x grow."""
    axes: Any
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.8), layout=padded_layout())
    for ax, unit in zip(axes.flat, SHOWN, strict=True):
        _draw_panel(ax, trajectory, int(np.abs(UNITS - unit).argmin()))
    _add_legend(figure, axes.flat[0])
    return figure


def _draw_panel(ax: Any, trajectory: SmoothTrajectory, k: int) -> None:
    plot_connections(trajectory, k, ax=ax, legend=False)
    ax.set_title(rf"$\lambda_1 t$ = {UNITS[k]:.2g}: {followed(trajectory, k)} tokens seen", fontsize=12)
    ax.locator_params(nbins=6)
    ax.tick_params(labelsize=8)


def _add_legend(figure: Figure, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    title = rf"lines: $P_{{ij}}$ > {LEAST_WEIGHT:g}; seen: $P_{{ij}}$ > {LEAST_WEIGHT:g} for some $i$"
    style: dict[str, Any] = {"loc": "outside lower center", "ncols": 2, "fontsize": 11, "title_fontsize": 10}
    figure.legend(handles, labels, title=title, frameon=False, **style)
