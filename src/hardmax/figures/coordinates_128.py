"""arXiv 2305.05465, d = 128: coordinates of positive eigenvalue converge, those of negative eigenvalue diverge."""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from hardmax import SelfAttention, simulate
from hardmax._types import FloatArray
from hardmax.draw.style import BLUE, EDGE, ORANGE

TITLE = (
    "arXiv 2305.05465: coordinates in the eigenbasis of V converge or diverge by the sign of the eigenvalue, d = 128"
)
D = 128
TIMES = np.linspace(0, 4, 81)  # 4 is about 27 / lambda_1
DENSITY = 0.1  # part of the entries of V that are not 0, before its eigenvalues are changed
SHOWN = 3  # coordinates of each sign that are drawn token by token
SIGNS = {1: ("positive", BLUE), -1: ("negative", ORANGE)}


class Coordinates(NamedTuple):
    """Rescaled tokens in the eigenbasis of V."""

    eigenvalues: FloatArray  # (d,)
    values: FloatArray  # (times, n, d)


def compute() -> Coordinates:
    """Simulate 128 tokens uniform in [-1/2, 1/2]^128 under a sparse random symmetric V with |eigenvalues| above 1."""
    rng = np.random.default_rng(0)
    sparse = rng.uniform(size=(D, D)) * (rng.uniform(size=(D, D)) < DENSITY)
    eigenvalues, vectors = np.linalg.eigh((sparse + sparse.T) / 2)
    small = np.abs(eigenvalues) <= 1
    eigenvalues[small] = np.sign(eigenvalues[small]) * rng.uniform(1, 2, int(small.sum()))
    V = (vectors * eigenvalues) @ vectors.T
    tokens = rng.uniform(-0.5, 0.5, (D, D))
    trajectory = simulate(tokens, SelfAttention(V=(V + V.T) / 2), times=TIMES, rtol=1e-6, atol=1e-8)
    return Coordinates(eigenvalues, trajectory.rescaled @ vectors)


def choose_coordinates(result: Coordinates, sign: int) -> list[int]:
    """Return the coordinates of this sign to draw: eigenvalues of largest, median and smallest modulus."""
    rows = np.flatnonzero(sign * result.eigenvalues > 0)
    order = rows[np.argsort(-np.abs(result.eigenvalues[rows]))]
    return order[np.linspace(0, len(order) - 1, SHOWN).round().astype(int)].tolist()


def draw(result: Coordinates) -> Figure:
    """Draw some coordinates of every token in time, and on the right the final size of all 128 coordinates."""
    figure = plt.figure(figsize=(13.5, 6.2), layout="constrained")
    grid = figure.add_gridspec(2, SHOWN + 2)
    for row, (sign, (name, colour)) in enumerate(SIGNS.items()):
        for column, r in enumerate(choose_coordinates(result, sign)):
            ax = figure.add_subplot(grid[row, column])
            _draw_tokens(ax, result.values[..., r], colour)
            ax.set_title(rf"$\lambda_r$ = {result.eigenvalues[r]:.2f}", fontsize=11)
            if column == 0:
                ax.set_ylabel(rf"$\varphi_r \cdot z_i$, {name} $\lambda_r$", fontsize=11)
    _draw_sizes(figure.add_subplot(grid[:, SHOWN:]), result)
    return figure


def _draw_tokens(ax: Any, values: FloatArray, colour: str) -> None:
    """Draw one coordinate of every token, (times, n)."""
    lines = np.stack(np.broadcast_arrays(TIMES[:, None], values), axis=-1).swapaxes(0, 1)  # (n, times, 2)
    ax.add_collection(LineCollection(list(lines), colors=colour, linewidths=0.6, alpha=0.35))
    ax.set(xlabel="t", xlim=(0, TIMES[-1]), ylim=np.array([-1.05, 1.05]) * np.abs(values).max())
    ax.spines[["top", "right"]].set_visible(False)


def _draw_sizes(ax: Any, result: Coordinates) -> None:
    """Draw the mean modulus of each coordinate over the tokens, at the start and at the end, by eigenvalue."""
    sizes = np.abs(result.values[[0, -1]]).mean(axis=1)  # (2, d)
    ax.scatter(result.eigenvalues, sizes[0], s=14, c="white", edgecolors=EDGE, linewidths=0.6, label="t = 0, all alike")
    for sign, (name, colour) in SIGNS.items():
        rows = sign * result.eigenvalues > 0
        label = f"t = {TIMES[-1]:g}, the {rows.sum()} with {name} eigenvalue"
        ax.scatter(
            result.eigenvalues[rows], sizes[1, rows], s=26, c=colour, edgecolors=EDGE, linewidths=0.4, label=label
        )
    ax.set_yscale("log")
    ax.set(xlabel=r"eigenvalue $\lambda_r$", ylabel=r"mean over tokens of $|\varphi_r \cdot z_i|$")
    ax.set_title(f"all {len(result.eigenvalues)} coordinates: the negative grow", fontsize=11)
    ax.legend(frameon=False, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
