"""arXiv 2305.05465, d = 128: coordinates of positive eigenvalue converge, those of negative eigenvalue diverge."""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from hardmax import SelfAttention, simulate
from hardmax._types import FloatArray

TITLE = (
    "arXiv 2305.05465: coordinates in the eigenbasis of V converge or diverge by the sign of the eigenvalue, d = 128"
)
D = 128
TIMES = np.linspace(0, 4, 81)  # 4 is about 27 / lambda_1
DENSITY = 0.1  # of the entries of V before its eigenvalues are changed
DRAWN = 14  # coordinates that converge; more hide each other


class Coordinates(NamedTuple):
    """Rescaled tokens in the eigenbasis of V."""

    eigenvalues: FloatArray  # (d,)
    values: FloatArray  # (times, n, d)


def compute() -> Coordinates:
    """128 tokens uniform in [-1/2, 1/2]^128 under a sparse random symmetric V, all eigenvalues of modulus above 1."""
    rng = np.random.default_rng(0)
    sparse = rng.uniform(size=(D, D)) * (rng.uniform(size=(D, D)) < DENSITY)
    eigenvalues, vectors = np.linalg.eigh((sparse + sparse.T) / 2)
    small = np.abs(eigenvalues) <= 1
    eigenvalues[small] = np.sign(eigenvalues[small]) * rng.uniform(1, 2, int(small.sum()))
    V = (vectors * eigenvalues) @ vectors.T
    tokens = rng.uniform(-0.5, 0.5, (D, D))
    trajectory = simulate(tokens, SelfAttention(V=(V + V.T) / 2), times=TIMES, rtol=1e-6, atol=1e-8)
    return Coordinates(eigenvalues, trajectory.rescaled @ vectors)


def draw(result: Coordinates) -> Figure:
    """Mean and standard deviation of each coordinate, over tokens with positive limit and with negative limit."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    scale = ScalarMappable(Normalize(1, 3), "cividis")
    growing, falling = (np.flatnonzero(sign * result.eigenvalues > 0) for sign in (1, -1))
    converging = growing[np.linspace(len(growing) - 1, 0, DRAWN).round().astype(int)]  # the largest eigenvalue first
    for ax, sign, name in ((axes[0], 1, "positive"), (axes[1], -1, "negative")):
        for r in converging:
            rows = sign * result.values[-1, :, r] > 0
            _draw_band(ax, result.values[:, rows, r], scale.to_rgba(result.eigenvalues[r]))
        title = f"{DRAWN} of the {len(growing)} coordinates with positive eigenvalue,\ntokens with {name} limit"
        ax.set_title(title, fontsize=11)
        ax.set_ylabel(r"$\varphi_r \cdot z_i$, mean $\pm$ std" if sign > 0 else "", fontsize=11)
    for r in falling:
        _draw_band(axes[2], np.abs(result.values[..., r]), scale.to_rgba(-result.eigenvalues[r]), spread=False)
    axes[2].set_yscale("log")
    axes[2].set_title(f"all {len(falling)} coordinates with negative eigenvalue,\nall tokens", fontsize=11)
    axes[2].set_ylabel(r"mean of $|\varphi_r \cdot z_i|$", fontsize=11)
    for ax in axes:
        ax.set(xlabel="t", xlim=(0, TIMES[-1]))
        ax.spines[["top", "right"]].set_visible(False)
    figure.colorbar(scale, ax=axes, extend="max", pad=0.01).set_label("modulus of the eigenvalue")
    return figure


def _draw_band(ax: Any, values: FloatArray, colour: Any, *, spread: bool = True) -> None:
    if not values.shape[1]:
        return
    mean, std = values.mean(axis=1), values.std(axis=1)
    ax.plot(TIMES, mean, color=colour, lw=1.1)
    if spread:
        ax.fill_between(TIMES, mean - std, mean + std, color=colour, alpha=0.13, lw=0)
