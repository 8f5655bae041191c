"""
Figure 5: near a leader, a token no longer sees the others
==========================================================

Once tokens are close to the finite set :math:`\\mathcal{S}`, why does none of them ever change its mind? The answer
of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ is Figure 5: around a leader :math:`s_0` there is a ball so
small that for every x in it the hyperplane through x with normal :math:`A x` has the balls around all other points
behind it,

.. math:: \\langle A x, x - y \\rangle > 0 \\quad \\text{for }
   |x - s_0| \\le \\delta,\\ |y - s_i| \\le \\delta,\\ i \\ne 0.

Then y has a smaller product with x than x itself, and x cannot follow it. How small must :math:`\\delta` be? Here the
largest one is computed. ``hardmax reproduce fig5`` draws the same figure.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle
from scipy.optimize import brentq

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

points = np.array([[0.0, 1.5], [-1.4, 0.3], [1.3, 0.45]])  # s0, s1, s2, with A = I
angles = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
circle = np.column_stack([np.cos(angles), np.sin(angles)])

# %%
# For given x the worst y of a ball is known: the smallest :math:`\langle x, x - y \rangle` is :math:`\langle x, x - s_i
# \rangle - \delta |x|`. The worst x is on the boundary of its ball, where we look finely.


def gap(delta: float) -> float:
    """The smallest product over both balls, with the nearer of the other points."""
    x = points[0] + delta * circle  # (2000, 2)
    return min(((x * (x - s)).sum(axis=1) - delta * np.linalg.norm(x, axis=1)).min() for s in points[1:])


largest = brentq(gap, 0, 1)
delta = 2 / 3 * largest
print(f"Separated for every radius below {largest:.4f}; drawn is {delta:.4f}.")
assert gap(delta) > 0 > gap(1.05 * largest)

# %%
# Eight positions x near :math:`s_0`, each with its hyperplane: all of them pass above the two balls below.

samples = points[0] + 0.95 * delta * circle[64::250]
figure, ax = plt.subplots(figsize=(7.4, 5), layout="constrained")
for x in samples:
    ax.axline(x, x + np.array([-x[1], x[0]]), color=COLOURS[2], lw=0.9, alpha=0.8, zorder=1)
    ax.plot(*np.stack([np.zeros(2), x]).T, color=GREY, lw=0.6, zorder=0)
ax.scatter(*samples.T, s=16, color=COLOURS[2], zorder=3)
for i, s in enumerate(points):
    colour = COLOURS[1] if i == 0 else COLOURS[0]
    ax.add_patch(Circle(tuple(s), delta, color=colour, alpha=0.3, lw=0))
    ax.scatter(*s, s=220 if i == 0 else 60, marker="*" if i == 0 else "o", color=colour, edgecolors=EDGE, zorder=4)
    ax.annotate(f"$s_{i}$", s, (9, 8), textcoords="offset points", fontsize=13, zorder=5)
ax.scatter(0, 0, s=12, color=EDGE)
ax.annotate("0", (0, 0), (5, -12), textcoords="offset points")
ax.set(xlim=(-2.1, 2.1), ylim=(-0.35, 2.35), aspect="equal", xticks=[], yticks=[])
ax.set_title(rf"every hyperplane through the upper ball leaves the others behind, $\delta$ = {delta:.3f}", fontsize=10)
plt.show()

# %%
# What this means for the dynamics: fill the three balls with tokens at random. Whatever stands in the upper ball
# follows a token of the upper ball, in every one of a thousand clouds. That is why clusters, once formed, do not mix.

rng = np.random.default_rng(0)
for _ in range(1000):
    radii, turns = delta * np.sqrt(rng.uniform(size=(3, 4, 1))), rng.integers(0, len(circle), (3, 4))
    cloud = (points[:, None] + radii * circle[turns]).reshape(12, 2)  # four tokens in each ball
    sets = hm.simulate(np.vstack([cloud, points]), hm.Hardmax(0.5), layers=0).sets(0)
    upper = {0, 1, 2, 3, 12}
    assert all(set(sets[i].tolist()) <= upper for i in upper)
print("1000 clouds: no token of the upper ball follows one outside of it.")

# %%
# What to try
# -----------
# Bring :math:`s_1` closer to :math:`s_0`, to (-0.7, 1), and the radius shrinks. It is 0 if :math:`s_1` is on the line
# through :math:`s_0` at a right angle to it, where a token would follow both: such a point is no leader.
