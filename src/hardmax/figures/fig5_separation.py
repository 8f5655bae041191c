"""Figure 5 of arXiv 2407.01602: hyperplanes through points near a leader s0 leave the other points of S behind."""

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from scipy.optimize import brentq

from hardmax._types import FloatArray
from hardmax.draw.style import COLOURS, EDGE

TITLE = "Figure 5: for x near s0, the hyperplane through x with normal x leaves the balls around s1 and s2 behind"
POINTS = np.array([[0.0, 1.5], [-1.4, 0.3], [1.3, 0.45]])  # s0, s1, s2; S' = {s1, s2}


class Separation(NamedTuple):
    """The largest radius at which every hyperplane separates the balls, the radius drawn, and points x to draw."""

    points: FloatArray
    delta: float
    inner: float
    samples: FloatArray


def compute() -> Separation:
    """Solve for the largest delta such that <x, x - y> > 0 for all |x - s0| <= delta and |y - s_i| <= delta.

    The smallest value over y is <x, x - s_i> - delta |x|; over x it is on the boundary of the ball, sampled finely.
    """
    circle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    directions = np.column_stack([np.cos(circle), np.sin(circle)])

    def gap(delta: float) -> float:
        x = POINTS[0] + delta * directions  # (2000, 2)
        return min(((x * (x - s)).sum(axis=1) - delta * np.linalg.norm(x, axis=1)).min() for s in POINTS[1:])

    delta = brentq(gap, 0, 1)
    inner = 2 / 3 * delta
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False) + 0.2
    samples = POINTS[0] + 0.95 * inner * np.column_stack([np.cos(angles), np.sin(angles)])
    return Separation(POINTS, delta, inner, samples)


def draw(result: Separation) -> Figure:
    """Draw balls around s0, s1, s2, and the hyperplane through each sample x with normal x."""
    ax: Any
    figure, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    for x in result.samples:
        along = np.array([-x[1], x[0]]) / np.linalg.norm(x)
        ax.plot(*np.stack([x - 4 * along, x + 4 * along]).T, color=COLOURS[2], lw=0.9, alpha=0.8, zorder=1)
        ax.plot(*np.stack([np.zeros(2), x]).T, color="#AAAAAA", lw=0.6, zorder=0)
    ax.scatter(*result.samples.T, s=16, color=COLOURS[2], zorder=3, label="x")
    for i, s in enumerate(result.points):
        colour = COLOURS[1] if i == 0 else COLOURS[0]
        ax.add_patch(Circle(tuple(s), result.inner, color=colour, alpha=0.3, lw=0))
        ax.scatter(*s, s=220 if i == 0 else 60, marker="*" if i == 0 else "o", color=colour, edgecolors=EDGE, zorder=4)
        ax.annotate(f"$s_{i}$", s, (9, 8), textcoords="offset points", fontsize=13, zorder=5)
    ax.scatter(0, 0, s=12, color=EDGE)
    ax.annotate("0", (0, 0), (5, -12), textcoords="offset points")
    ax.set(xlim=(-2.1, 2.1), ylim=(-0.3, 2.3), aspect="equal", xticks=[], yticks=[])
    ax.set_title(rf"$\delta$ = {result.inner:.2f}; it works for every $\delta$ below {result.delta:.3f}", fontsize=10)
    return figure
