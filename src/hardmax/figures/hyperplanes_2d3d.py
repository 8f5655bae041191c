"""arXiv 2305.05465, Theorem 4.2: with a simple positive leading eigenvalue, tokens converge to parallel hyperplanes."""

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import SelfAttention, SmoothTrajectory, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.flow_pictures import group_colours, plot_flow
from hardmax.plotting import COLOURS, SHADE

TITLE = (
    "arXiv 2305.05465: tokens converge to at most three parallel hyperplanes, leading eigenvalue simple and positive"
)
MATRICES = {
    "d = 2": [[0.64709742, 0.81911926], [0.61210449, 0.63263484]],
    "d = 3, others with negative real part": [
        [0.2362413, 0.0599536, 0.40506019],
        [0.81321448, 0.49948705, 0.33754772],
        [0.2160645, 0.38505272, 0.14588075],
    ],
    "d = 3, others with positive real part": [
        [0.18608476, 0.34391026, 0.13905949],
        [0.35244288, 0.6694859, 0.39992145],
        [0.46685606, 0.17094454, 0.42092308],
    ],
}
SEEDS = (5, 2, 2)
TIMES = np.linspace(0, 10, 201)
NEAR = 1e-3  # of the spread: values closer than that are one


@dataclass(frozen=True, eq=False)
class Panel:
    """A trajectory, the functional phi_1 with phi_1 V = lambda_1 phi_1, its values in time, and who shares one."""

    trajectory: SmoothTrajectory
    phi: FloatArray  # (d,), of length 1
    values: FloatArray  # (times, n)
    groups: IntArray  # (n,) from the lowest value up

    @property
    def levels(self) -> FloatArray:
        """The values at the end, one for each group."""
        return np.array([self.values[-1, self.groups == g].mean() for g in range(self.groups.max() + 1)])


def compute() -> dict[str, Panel]:
    """Twenty tokens uniform in [-5, 5]^d for each V, with Q^T K = I."""
    panels = {}
    for (name, V), seed in zip(MATRICES.items(), SEEDS, strict=True):
        tokens = np.random.default_rng(seed).uniform(-5, 5, (20, len(V)))
        trajectory = simulate(tokens, SelfAttention(V=V), times=TIMES)
        phi = leading_functional(np.array(V))
        values = trajectory.rescaled @ phi
        order = np.argsort(values[-1])
        steps = np.diff(values[-1, order]) > NEAR * np.ptp(values[-1])
        groups = np.empty(20, np.intp)
        groups[order] = np.concatenate([[0], np.cumsum(steps)])
        panels[name] = Panel(trajectory, phi, values, groups)
    return panels


def leading_functional(V: FloatArray) -> FloatArray:
    """The left eigenvector of the eigenvalue with the largest real part; its sum is positive."""
    values, left = np.linalg.eig(V.T)
    phi = left[:, values.real.argmax()].real
    return np.asarray(phi / np.linalg.norm(phi) * np.sign(phi.sum()))


def movie_of(panels: dict[str, Panel]) -> SmoothTrajectory:
    """The trajectory to film."""
    return panels["d = 3, others with negative real part"].trajectory


def draw(panels: dict[str, Panel]) -> Figure:
    """Above: tokens at the end on their hyperplanes. Below: phi_1 . z_i in time."""
    figure = plt.figure(figsize=(13, 7.4), layout="constrained")
    grid = figure.add_gridspec(2, len(panels), height_ratios=(1.75, 1))
    for column, (name, panel) in enumerate(panels.items()):
        d = len(panel.phi)
        ax: Any = figure.add_subplot(grid[0, column], projection="3d" if d == 3 else None)
        plot_flow(panel.trajectory, ax=ax, groups=panel.groups)
        ax.set_title(f"{name}\nt = {TIMES[-1]:g}", fontsize=12)
        for level in panel.levels:
            _draw_hyperplane(ax, panel.phi, level, panel.trajectory.drawn[-1])
        if d == 3:
            _look_along(ax, panel.phi)
        below = figure.add_subplot(grid[1, column])
        for curve, colour in zip(panel.values.T, group_colours(panel.groups), strict=True):
            below.plot(TIMES, curve, color=colour, lw=1.1)
        below.set(xlabel="t", xlim=(0, TIMES[-1]))
        below.set_ylabel(r"$\varphi_1 \cdot z_i(t)$" if column == 0 else "", fontsize=12)
        below.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_hyperplane(ax: Any, phi: FloatArray, level: float, Z: FloatArray) -> None:
    """{z : phi . z = level}, as a line, or as a piece of a plane around the tokens."""
    middle = Z.mean(axis=0)
    foot = middle + (level - middle @ phi) * phi
    across = np.linalg.svd(phi[None])[2][1:]  # (d - 1, d)
    if len(phi) == 2:
        reach = 2 * np.ptp(Z)
        limits = ax.axis()
        ax.plot(*np.stack([foot - reach * across[0], foot + reach * across[0]]).T, color=SHADE, lw=5, zorder=0)
        ax.axis(limits)
        return
    offsets = (Z - middle) @ across.T
    low, high = offsets.min(axis=0) - 0.5, offsets.max(axis=0) + 0.5
    corners = [(low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1])]
    piece = [foot + a * across[0] + b * across[1] for a, b in corners]
    ax.add_collection3d(Poly3DCollection([piece], facecolors=SHADE, edgecolors=COLOURS[0], alpha=0.22, linewidths=0.6))


def _look_along(ax: Any, phi: FloatArray) -> None:
    """Turn the camera so that hyperplanes are seen nearly from the side."""
    side = np.cross(phi, [0, 0, 1.0])
    side /= np.linalg.norm(side)
    view = side + 0.3 * np.cross(side, phi) + 0.12 * phi
    view /= np.linalg.norm(view)
    ax.set_proj_type("ortho")  # what is parallel looks so
    ax.view_init(elev=np.degrees(np.arcsin(view[2])), azim=np.degrees(np.arctan2(view[1], view[0])))
