"""
Figure 4: every token enters a neighbourhood of a finite set and stays
======================================================================

The convergence proof in `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ first
shows that they come close to a finite set :math:`\\mathcal{S}`: for every
:math:`\\delta > 0` there is a layer from which on every token is in one of the balls

.. math:: B_\\delta(s) = \\{z : |z - s| < \\delta\\}, \\qquad s \\in \\mathcal{S}.

Figure 4 of the paper is a sketch of these balls around a polytope :math:`\\mathcal{K}`.
Here they belong to an input whose limit is computed and proved. ``hardmax reproduce
fig4`` writes this figure to a file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, GREY
from hardmax.figures.hardmax_rule import (
    DELTA,
    compute_attracting_set,
    draw_attracting_set,
)

trajectory, limit, inside = compute_attracting_set()
print(limit)
print(f"Every token is within {DELTA} of the set S from layer {inside} on.")
figure = draw_attracting_set((trajectory, limit, inside))
plt.show()

# %%
# The distance of every token to the nearest point of :math:`\mathcal{S}`, layer by
# layer.

distances = np.linalg.norm(trajectory.array[:, :, None] - limit.points, axis=-1).min(
    axis=2
)  # (layers + 1, n)
assert (distances[inside:] < DELTA).all()
assert (distances[inside - 1] >= DELTA).any()
moving = distances[:, distances[0] > 0]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.semilogy(moving, color=COLOURS[0], lw=1, marker=".", ms=4)
ax.axhline(DELTA, color=COLOURS[5], lw=1.5)
ax.text(29.5, 1.15 * DELTA, r"$\delta$", ha="right", fontsize=12)
ax.axvline(inside, color=GREY, ls="--", lw=1)
ax.set(xlabel="layer", ylabel=r"distance to $\mathcal{S}$")
plt.show()

# %%
# The lines become straight and parallel. Inside the balls the argmax sets are constant,
# and each layer shrinks the distance by the same factor, 1/(1 + alpha): Theorem 1 of
# this project says so of tokens with one leader, Theorem 4 of those in the middle of an
# edge.

rates = moving[inside + 1 :] / moving[inside:-1]
print(f"distances shrink by {rates.min():.9f} to {rates.max():.9f} a layer")
assert np.allclose(rates, 2 / 3)
for verdict in (
    hm.theorems.limit(trajectory),
    hm.theorems.theorem1(trajectory),
    hm.theorems.theorem4(trajectory),
):
    print(verdict)
    assert verdict.holds

# %%
# What to try
# -----------
# A smaller ``DELTA`` only needs more layers, about log(1/delta)/log(1 + alpha) of them.
# The input "emerging-leader" has a leader that emerges only after layer 0.
