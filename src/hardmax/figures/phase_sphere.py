"""arXiv 2312.10794: metastable clusters on the circle, by inverse temperature beta and
time t.
"""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from hardmax import Sphere, configuration, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.figures.shared import paper_figure

BETAS = np.geomspace(0.1, 200, 25)
TIMES = np.geomspace(0.1, 1000, 41)
N, SEEDS = 32, 8
MIN_GAP = 0.05  # radians: neighbours farther apart are in different clusters


class Phases(NamedTuple):
    """Means over token sets, by beta and time: (betas, times)."""

    betas: FloatArray
    times: FloatArray
    seeds: int
    clusters: FloatArray
    similarity: FloatArray  # mean of ⟨x_i, x_j⟩ over all pairs


def compute(
    betas: FloatArray = BETAS, times: FloatArray = TIMES, seeds: int = SEEDS
) -> Phases:
    """Simulate the same token sets on the circle for every beta."""
    tokens = np.stack(
        [configuration("sphere", n=N, d=2, seed=seed) for seed in range(seeds)]
    )
    runs = [
        simulate(
            tokens, Sphere(beta), times=times, method="LSODA", rtol=1e-5, atol=1e-7
        )
        for beta in betas
    ]
    clusters = [count_clusters(run.array).mean(axis=1) for run in runs]
    similarity = [run.similarity.mean(axis=1) for run in runs]
    return Phases(betas, times, seeds, np.array(clusters), np.array(similarity))


def count_clusters(tokens: FloatArray) -> IntArray:
    """Count the gaps above 0.05 radians between neighbours on the circle, tokens (...,
    n, 2); at least 1.
    """
    angles = np.sort(np.arctan2(tokens[..., 1], tokens[..., 0]), axis=-1)
    gaps = np.diff(angles, axis=-1, append=angles[..., :1] + 2 * np.pi)
    return np.maximum((gaps > MIN_GAP).sum(axis=-1), 1)


@paper_figure(
    "phase_sphere",
    "arXiv 2312.10794: number of clusters on the circle by beta and t, n = 32",
    compute,
)
def draw(result: Phases) -> Figure:
    """Draw two maps with beta upwards and t to the right, both logarithmic."""
    betas, times = result.betas, result.times
    axes: Any
    figure, axes = plt.subplots(
        1, 2, figsize=(12.5, 5), layout="constrained", sharey=True
    )
    mesh = axes[0].pcolormesh(
        times,
        betas,
        result.clusters,
        norm=LogNorm(1, N),
        cmap="cividis",
        shading="gouraud",
    )
    bar = figure.colorbar(mesh, ax=axes[0], ticks=[1, 2, 4, 8, 16, 32], format="%d")
    bar.minorticks_off()
    levels = [1.5, 2.5, 4.5, 8.5, 16.5]
    lines = axes[0].contour(
        times, betas, result.clusters, levels=levels, colors="white", linewidths=0.8
    )
    axes[0].clabel(
        lines, fmt="%g", fontsize=9, manual=[(200, beta) for beta in (3.5, 8, 24, 105)]
    )
    row = int(
        np.abs(betas - 60).argmin()
    )  # the outermost contour is too steep for `clabel`
    crossed = times[int((result.clusters[row] < levels[-1]).argmax())]
    axes[0].text(
        1.1 * crossed,
        betas[row],
        f"{levels[-1]:g}",
        color="white",
        fontsize=9,
        va="center",
    )
    axes[0].set_title(
        f"mean number of clusters (gaps above {MIN_GAP:g} rad), {result.seeds} token"
        " sets",
        fontsize=12,
    )
    mesh = axes[1].pcolormesh(
        times,
        betas,
        result.similarity,
        vmin=0,
        vmax=1,
        cmap="cividis",
        shading="gouraud",
    )
    figure.colorbar(mesh, ax=axes[1])
    axes[1].set_title(r"mean similarity $\langle x_i, x_j \rangle$", fontsize=12)
    for ax in axes:
        ax.set(xscale="log", yscale="log", xlabel="t")
    axes[0].set_ylabel(r"$\beta$", fontsize=13)
    return figure
