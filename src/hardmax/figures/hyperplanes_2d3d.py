"""arXiv 2305.05465, Theorem 4.2: with a simple positive leading eigenvalue, tokens converge to parallel hyperplanes."""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from hardmax import SelfAttention, SmoothTrajectory, matrix, simulate
from hardmax._types import FloatArray, IntArray
from hardmax.draw.flows import make_flow_legend, plot_flow
from hardmax.draw.style import COLOURS, add_legend, cluster_colours, padded_layout

TITLE = (
    "arXiv 2305.05465: tokens converge to at most three parallel hyperplanes, leading eigenvalue simple and positive"
)
MATRICES = {
    "d = 2": matrix("paper-2d"),
    "d = 3, other eigenvalues with negative real part": matrix("paper-3d"),
    "d = 3, other eigenvalues with positive real part": matrix("paper-3d-positive"),
}
SEEDS = (5, 2, 2)
TIMES = np.linspace(0, 10, 201)
LEGEND = f"{make_flow_legend(np.zeros(1, np.intp), stars=True, hull=False)}; planes and lines: where they tend to"
MERGE_DISTANCE = 1e-3  # values closer than this part of the spread count as one


class Panel(NamedTuple):
    """A trajectory, the functional phi_1 with phi_1 V = lambda_1 phi_1, its values, and groups of equal values."""

    trajectory: SmoothTrajectory
    phi: FloatArray  # (d,), of length 1, with positive sum
    values: FloatArray  # (times, n)
    planes: IntArray  # (n,) number of the plane of each token, from the lowest value up

    @property
    def levels(self) -> FloatArray:
        """The values at the end, one for each plane."""
        return np.array([self.values[-1, self.planes == g].mean() for g in range(self.planes.max() + 1)])


def compute() -> dict[str, Panel]:
    """Simulate twenty tokens uniform in [-5, 5]^d for each V, with Q^T K = I."""
    panels = {}
    for (name, V), seed in zip(MATRICES.items(), SEEDS, strict=True):
        tokens = np.random.default_rng(seed).uniform(-5, 5, (20, len(V)))
        trajectory = simulate(tokens, SelfAttention(V=V), times=TIMES)
        eigenvalues, left = np.linalg.eig(np.array(V).T)
        phi = left[:, eigenvalues.real.argmax()].real
        phi = np.asarray(phi / np.linalg.norm(phi) * np.sign(phi.sum()))
        values = trajectory.rescaled @ phi
        order = np.argsort(values[-1])
        steps = np.diff(values[-1, order]) > MERGE_DISTANCE * np.ptp(values[-1])
        planes = np.empty(20, np.intp)
        planes[order] = np.concatenate([[0], np.cumsum(steps)])
        panels[name] = Panel(trajectory, phi, values, planes)
    return panels


def draw(panels: dict[str, Panel]) -> Figure:
    """Draw tokens at the end on their hyperplanes, and below phi_1 . z_i in time."""
    layout = padded_layout()
    layout.set(rect=(0, 0, 0.97, 1))  # constrained layout does not measure the label of the z axis
    figure = plt.figure(figsize=(13, 7.8), layout=layout)
    grid = figure.add_gridspec(2, len(panels), height_ratios=(1.75, 1))
    for column, (name, panel) in enumerate(panels.items()):
        d = len(panel.phi)
        ax: Any = figure.add_subplot(grid[0, column], projection="3d" if d == 3 else None)
        plot_flow(panel.trajectory, ax=ax, clusters=panel.planes)
        ax.set_title(f"{name}, t = {TIMES[-1]:g}".replace(" with ", "\nwith "), fontsize=12)
        _draw_hyperplanes(ax, panel)
        if d == 2:
            ax.locator_params(axis="x", nbins=4)
        below = figure.add_subplot(grid[1, column])
        for curve, colour in zip(panel.values.T, cluster_colours(panel.planes), strict=True):
            below.plot(TIMES, curve, color=colour, lw=1.1)
        below.set(xlabel="t", xlim=(0, TIMES[-1]))
        below.set_ylabel(r"$\varphi_1 \cdot z_i(t)$" if column == 0 else "", fontsize=12)
        below.spines[["top", "right"]].set_visible(False)
    add_legend(figure, LEGEND, fontsize=11)
    return figure


def _draw_hyperplanes(ax: Any, panel: Panel) -> None:
    """Draw each hyperplane in the colour of its tokens, seen from the side."""
    for level, colour in zip(panel.levels, COLOURS, strict=False):
        _draw_hyperplane(ax, panel.phi, level, panel.trajectory.drawn[-1], colour)
    if len(panel.phi) == 3:
        limits = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()])
        ax.set_box_aspect(np.ptp(limits, axis=1), zoom=1.0)  # from the side there is more room
        side = np.cross(panel.phi, [0, 0, 1.0])
        side /= np.linalg.norm(side)
        view = side + 0.3 * np.cross(side, panel.phi) + 0.12 * panel.phi  # nearly from the side
        view /= np.linalg.norm(view)
        ax.set_proj_type("ortho")  # parallel planes look parallel
        ax.view_init(elev=np.degrees(np.arcsin(view[2])), azim=np.degrees(np.arctan2(view[1], view[0])))


def _draw_hyperplane(ax: Any, phi: FloatArray, level: float, Z: FloatArray, colour: str) -> None:
    """Draw {z : phi . z = level}, as a line, or as a piece of a plane around the tokens."""
    middle = Z.mean(axis=0)
    foot = middle + (level - middle @ phi) * phi
    across = np.linalg.svd(phi[None])[2][1:]  # (d - 1, d)
    if len(phi) == 2:
        limits = ax.axis()
        ax.plot(*(foot + np.outer([-1, 1], 2 * np.ptp(Z) * across[0])).T, color=colour, alpha=0.25, lw=6, zorder=0)
        ax.axis(limits)
        return
    offsets = (Z - middle) @ across.T
    low, high = offsets.min(axis=0) - 0.5, offsets.max(axis=0) + 0.5
    corners = [(low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1])]
    piece = [foot + a * across[0] + b * across[1] for a, b in corners]
    ax.add_collection3d(Poly3DCollection([piece], facecolors=colour, edgecolors=colour, alpha=0.16, linewidths=0.6))
