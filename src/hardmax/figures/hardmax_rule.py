"""Figures 1, 2, 4 and 5 of arXiv 2407.01602: the rule, clusters, the attracting set,
separation of leaders.
"""

from fractions import Fraction
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon
from scipy.optimize import brentq

from hardmax import Hardmax, HardmaxTrajectory, Limit, configuration, limit, simulate
from hardmax._types import FloatArray
from hardmax.configurations import PAPER_CONFIGURATIONS
from hardmax.draw.projection import Projection
from hardmax.draw.style import BLUE, COLOURS, EDGE, LAYERS, SIZE, shade_polytope
from hardmax.draw.tokens import Palette, plot_tokens
from hardmax.figures.shared import paper_figure

# z2 and z3 project equally far on z1; z4 is farthest along A z1 for the second A. In
# tenths, so that the tie is exact.
TENTHS = [(10, 5), (13, 12), (19, 0), (5, 27), (-16, 10), (-6, -12)]
HALF_SPACE_MATRICES = {"(a) A = I": None, "(b) A = (2 1; 1 1)": [[2, 1], [1, 1]]}
FAR = 10.0  # beyond the limits of the axes
DELTA = 0.22
SEPARATED = np.array(
    [[0.0, 1.5], [-1.4, 0.3], [1.3, 0.45]]
)  # s0, s1, s2; S' = {s1, s2}


def compute_half_space() -> dict[str, HardmaxTrajectory]:
    """Simulate one layer for each of the two matrices, on exact tenths."""
    tokens = [[Fraction(x, 10) for x in row] for row in TENTHS]
    return {
        title: simulate(tokens, Hardmax(Fraction(1, 2), A), layers=1)
        for title, A in HALF_SPACE_MATRICES.items()
    }


def plot_half_space(ax: Any, token: FloatArray, A: FloatArray) -> None:
    """Shade {z : ⟨A z_i, z - z_i⟩ >= 0}, which contains all tokens that attract z_i,
    and draw the direction A z_i.
    """
    normal = A @ token / np.linalg.norm(A @ token)
    along = FAR * np.array([-normal[1], normal[0]])
    corners = [
        token - along,
        token + along,
        token + along + 2 * FAR * normal,
        token - along + 2 * FAR * normal,
    ]
    ax.axline(token, token + along, color=BLUE, lw=1, zorder=1)
    ax.add_patch(
        Polygon(corners, closed=True, color=COLOURS[5], alpha=0.25, lw=0, zorder=0)
    )
    arrow = {"arrowstyle": "-|>", "color": EDGE, "lw": 1.3}
    ax.annotate("", tuple(token + 0.45 * normal), tuple(token), arrowprops=arrow)


@paper_figure(
    "fig1_half_space",
    "Figure 1: the tokens with the largest projection attract z1",
    compute_half_space,
)
def draw_half_space(panels: dict[str, HardmaxTrajectory]) -> Figure:
    """Draw the half-space H_1, the direction A z_1, the projections on it, and in
    colour the tokens attracting z_1.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    for ax, (title, trajectory) in zip(axes, panels.items(), strict=True):
        Z = trajectory.array[0]
        A = np.eye(2) if trajectory.rule.matrix is None else trajectory.rule.matrix
        plot_half_space(ax, Z[0], A)
        members = trajectory.sets(0)[0].tolist()
        direction = A @ Z[0] / np.linalg.norm(A @ Z[0])
        ax.plot(
            *np.outer([-5, 5], direction).T, color="#999999", lw=0.8, ls="--", zorder=0
        )
        for j, z in enumerate(Z):
            foot = (z @ direction) * direction
            ax.plot(*np.stack([z, foot]).T, color="#999999", lw=0.8, ls=":", zorder=1)
            colour = EDGE if j == 0 else COLOURS[1] if j in members else COLOURS[0]
            ax.scatter(*z, s=60, color=colour, zorder=3)
            ax.annotate(
                f"$z_{j + 1}$",
                z,
                (-10, 10) if j == 0 else (7, 5),
                textcoords="offset points",
                fontsize=12,
            )
        ax.set(
            xlim=(-2.2, 3),
            ylim=(-2.2, 3),
            aspect="equal",
            title=title,
            xticks=[],
            yticks=[],
        )
        ax.scatter(0, 0, s=14, color=EDGE, zorder=3)
        ax.annotate("0", (0, 0), (4, -12), textcoords="offset points", fontsize=11)
        names = ", ".join(str(j + 1) for j in members)
        ax.text(
            0.03,
            0.03,
            rf"$\mathcal{{C}}_1(Z) = \{{{names}\}}$",
            transform=ax.transAxes,
            fontsize=13,
        )
        ax.text(
            0.97,
            0.93,
            r"$\mathcal{H}_1$",
            transform=ax.transAxes,
            fontsize=14,
            ha="right",
            color=COLOURS[0],
        )
    return figure


def compute_clusters() -> dict[str, HardmaxTrajectory]:
    """Simulate the four configurations through 30 layers."""
    rule = Hardmax(Fraction(1, 2))
    return {
        name: simulate(configuration(name), rule, layers=LAYERS[-1])
        for name in PAPER_CONFIGURATIONS
    }


@paper_figure(
    "fig2_clusters",
    "Figure 2: layers of four inputs, alpha = 0.5, A = I",
    compute_clusters,
)
def draw_clusters(rows: dict[str, HardmaxTrajectory]) -> Figure:
    """Draw a row per configuration and a column per layer, with the hull of the leaders
    in the last column.
    """
    figure, axes = plt.subplots(
        len(rows), len(LAYERS), figsize=(13, 10.6), layout="constrained"
    )
    for row, (line, (name, trajectory)) in enumerate(
        zip(axes, rows.items(), strict=True)
    ):
        palette, projection = Palette(trajectory), Projection.of_trajectory(trajectory)
        for ax, k in zip(line, LAYERS, strict=True):
            plot_tokens(
                trajectory,
                k,
                ax=ax,
                palette=palette,
                projection=projection,
                tails=False,
            )
            ax.set(xlabel="", ylabel="", title=f"layer {k}" if row == 0 else "")
            ax.tick_params(labelsize=7)
        line[0].set_ylabel(name)
    return figure


def compute_attracting_set() -> tuple[HardmaxTrajectory, Limit, int]:
    """Return the run of "edge-clusters", its limit, and the first layer at which every
    token is within delta of S.
    """
    tokens, rule = configuration("edge-clusters"), Hardmax(Fraction(1, 2))
    end, trajectory = limit(tokens, rule), simulate(tokens, rule, layers=30)
    distances = np.linalg.norm(trajectory.array[:, :, None] - end.points, axis=-1).min(
        axis=2
    )  # (layers + 1, n)
    inside = int(np.argmax((distances < DELTA).all(axis=1)))
    return trajectory, end, inside


@paper_figure(
    "fig4_attracting_set",
    "Figure 4: a neighbourhood of the attracting set S",
    compute_attracting_set,
)
def draw_attracting_set(data: tuple[HardmaxTrajectory, Limit, int]) -> Figure:
    """Draw K shaded, the balls around the points of S, and the paths of the tokens into
    them.
    """
    trajectory, end, inside = data
    ax: Any
    figure, ax = plt.subplots(figsize=(5.8, 6), layout="constrained")
    shade_polytope(ax, end.polytope)
    for point in end.points:
        ax.add_patch(Circle(tuple(point), DELTA, color=COLOURS[5], alpha=0.35, lw=0))
    leads = len(end.leaders)
    for points, marker, size, colour, label in (
        (end.points[:leads], "*", 3 * SIZE, COLOURS[1], "leaders"),
        (end.points[leads:], "D", SIZE, COLOURS[2], "other points of S"),
    ):
        ax.scatter(
            *points.T,
            s=size,
            marker=marker,
            color=colour,
            edgecolors=EDGE,
            label=label,
            zorder=4,
        )
    for i in range(trajectory.n):
        ax.plot(
            *trajectory.array[: inside + 1, i].T,
            color="#777777",
            lw=0.9,
            marker=".",
            ms=4,
            zorder=2,
        )
    ax.scatter(
        *trajectory.array[inside].T,
        s=28,
        color=COLOURS[0],
        zorder=3,
        label=f"tokens at layer {inside}",
    )
    ax.annotate(r"$\mathcal{K}$", (0, 0), fontsize=18, ha="center", va="center")
    ax.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.75), aspect="equal")
    title = (
        rf"$\mathcal{{S}}$ and balls of radius $\delta$ = {DELTA}: every token is"
        rf" inside from layer {inside} on"
    )
    ax.set_title(title, fontsize=9)
    ax.legend(loc="upper center", ncols=3, fontsize=8, frameon=False)
    return figure


def compute_separation() -> tuple[float, float]:
    """Return the largest delta with <x, x - y> > 0 for all |x - s0| <= delta, |y - s_i|
    <= delta, and the one drawn.
    """
    circle = _sample_circle(2000)

    def gap(
        delta: float,
    ) -> (
        float
    ):  # the smallest value: over y in closed form, over x on the boundary of the ball
        x = SEPARATED[0] + delta * circle  # (2000, 2)
        return min(
            ((x * (x - s)).sum(axis=1) - delta * np.linalg.norm(x, axis=1)).min()
            for s in SEPARATED[1:]
        )

    delta = brentq(gap, 0, 1)
    return delta, 2 / 3 * delta


def _sample_circle(number: int, first: float = 0.0) -> FloatArray:
    angles = first + np.linspace(0, 2 * np.pi, number, endpoint=False)
    return np.column_stack([np.cos(angles), np.sin(angles)])


@paper_figure(
    "fig5_separation",
    "Figure 5: hyperplanes near s0 separate s1 and s2",
    compute_separation,
)
def draw_separation(deltas: tuple[float, float]) -> Figure:
    """Draw balls around s0, s1, s2, and the hyperplane through each sample x with
    normal x.
    """
    largest, delta = deltas
    ax: Any
    figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    samples = SEPARATED[0] + 0.95 * delta * _sample_circle(8, first=0.2)
    for x in samples:
        ax.axline(
            x,
            x + np.array([-x[1], x[0]]),
            color=COLOURS[2],
            lw=0.9,
            alpha=0.8,
            zorder=1,
        )
        ax.plot(*np.stack([np.zeros(2), x]).T, color="#AAAAAA", lw=0.6, zorder=0)
    ax.scatter(*samples.T, s=16, color=COLOURS[2], zorder=3)
    for i, s in enumerate(SEPARATED):
        size, marker, colour = (
            (220, "*", COLOURS[1]) if i == 0 else (60, "o", COLOURS[0])
        )
        ax.add_patch(Circle(tuple(s), delta, color=colour, alpha=0.3, lw=0))
        ax.scatter(*s, s=size, marker=marker, color=colour, edgecolors=EDGE, zorder=4)
        ax.annotate(
            f"$s_{i}$", s, (9, 8), textcoords="offset points", fontsize=13, zorder=5
        )
    ax.scatter(0, 0, s=12, color=EDGE)
    ax.annotate("0", (0, 0), (5, -12), textcoords="offset points")
    ax.set(xlim=(-2.1, 2.1), ylim=(-0.3, 2.3), aspect="equal", xticks=[], yticks=[])
    ax.set_title(
        rf"$\delta$ = {delta:.2f}; it works for every $\delta$ below {largest:.3f}",
        fontsize=10,
    )
    return figure
