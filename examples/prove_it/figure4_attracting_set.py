"""
Figure 4: every token enters the neighbourhood of a finite set, and stays
=========================================================================

How does one prove that tokens converge? The proof in `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ first
shows that they come close to a finite set :math:`\\mathcal{S}`: for every :math:`\\delta > 0` there is a layer from
which on every token is in one of the balls

.. math:: B_\\delta(s) = \\{z : |z - s| < \\delta\\}, \\qquad s \\in \\mathcal{S}.

Figure 4 of the paper is a sketch of these balls around a polytope :math:`\\mathcal{K}`. Here they belong to a cloud
whose limit is computed and proved. ``hardmax reproduce fig4`` draws the same figure.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY, shade_polytope

tokens, rule, delta = hm.configuration("edge-clusters"), hm.Hardmax(Fraction(1, 2)), 0.22
limit = hm.limit(tokens, rule)
trajectory = hm.simulate(tokens, rule, layers=30)
print(limit)

# %%
# The distance of every token to the nearest point of :math:`\mathcal{S}`, layer by layer, says when the last one
# enters.

distances = np.linalg.norm(trajectory.array[:, :, None] - limit.points, axis=-1).min(axis=2)  # (layers + 1, n)
inside = int(np.argmax((distances < delta).all(axis=1)))
print(f"Every token is within {delta} of the set S from layer {inside} on.")
assert (distances[inside:] < delta).all()
assert (distances[inside - 1] >= delta).any()

figure, (ax, beside) = plt.subplots(1, 2, figsize=(10.5, 5.2), layout="constrained", width_ratios=(1, 1))
shade_polytope(ax, limit.polytope)
for point in limit.points:
    ax.add_patch(Circle(tuple(point), delta, color=COLOURS[5], alpha=0.35, lw=0))
leads = len(limit.leaders)
look = {"edgecolors": EDGE, "zorder": 4}
ax.scatter(*limit.points[:leads].T, s=210, marker="*", color=COLOURS[1], label="leaders", **look)
ax.scatter(*limit.points[leads:].T, s=60, marker="D", color=COLOURS[2], label=r"other points of $\mathcal{S}$", **look)
ax.plot(*np.moveaxis(trajectory.array[: inside + 1], -1, 0), color=GREY, lw=0.9, marker=".", ms=4, zorder=2)
ax.scatter(*trajectory.array[inside].T, s=26, color=COLOURS[0], zorder=3, label=f"tokens at layer {inside}")
ax.annotate(r"$\mathcal{K}$", (0, 0.05), fontsize=18, ha="center")
ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.75), aspect="equal", xlabel="$z_1$", ylabel="$z_2$")
ax.legend(loc="upper center", ncols=3, fontsize=8, frameon=False)
moving = distances[:, distances[0] > 0]
beside.semilogy(moving, color=COLOURS[0], lw=1, marker=".", ms=4)
beside.axhline(delta, color=COLOURS[5], lw=1.5)
beside.text(29.5, 1.15 * delta, r"$\delta$", ha="right", fontsize=12)
beside.axvline(inside, color=GREY, ls="--", lw=1)
beside.set(xlabel="layer", ylabel=r"distance to $\mathcal{S}$")
plt.show()

# %%
# On the right the lines become straight and parallel. Inside the balls nothing is left to decide, and each layer
# shrinks the distance by the same factor, 1/(1 + alpha): Theorem 1 of this project says so of tokens with one leader,
# Theorem 4 of those in the middle of an edge.

rates = moving[inside + 1 :] / moving[inside:-1]
print(f"distances shrink by {rates.min():.9f} to {rates.max():.9f} a layer")
assert np.allclose(rates, 2 / 3)
for verdict in (hm.theorems.limit(trajectory), hm.theorems.theorem1(trajectory), hm.theorems.theorem4(trajectory)):
    print(verdict)
    assert verdict.holds

# %%
# What to try
# -----------
# A smaller ``delta`` only needs more layers, about log(1/delta)/log(1 + alpha) of them. The cloud "emerging-leader" has
# one point of the set in the middle of the others, which nobody knew at layer 0.
