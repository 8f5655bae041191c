"""
With V = I tokens end on the vertices of a polytope
===================================================

The simplest case of self-attention is :math:`V = I`. Theorem 3.1 of `arXiv 2305.05465
<https://arxiv.org/abs/2305.05465>`_: if :math:`Q^\\top K` is symmetric positive
definite, every rescaled token

.. math:: z_i(t) = e^{-t} x_i(t)

tends to a point of the boundary of a convex polytope, as a rule to one of its vertices.
So deep attention forms clusters. ``hardmax reproduce polytope`` writes the figure to a
file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.value_spectrum import compute_polytope, draw_polytope

runs = compute_polytope()  # by dimension
flat, solid = runs[2], runs[3]
print(flat, solid, sep="\n")

# %%
# Forty tokens in the plane and 25 in space, at four times. Stars lead at the end: they
# attend to themselves more than to all others together. Tokens of one colour are
# together at the end. Shaded is the hull of the tokens at the end.

figure = draw_polytope(runs)
plt.show()

# %%
# The paper calls the final points those that follow themselves: no other token reaches
# farther in their direction, :math:`\langle z_i, z_j\rangle \le |z_i|^2` for all
# :math:`j`. The verdict tests this on the run.

assert hm.classify(V=np.eye(3)).proved
for trajectory in (flat, solid):
    (verdict,) = (v for v in hm.theorems.check(trajectory) if v.name == "polytope")
    print(verdict)
    assert verdict.holds
    Z = trajectory.rescaled[-1]
    gain = (Z @ Z.T).max(axis=1) - (Z**2).sum(
        axis=1
    )  # of following another than oneself
    assert gain.max() < 1e-3 * (Z**2).sum(axis=1).max()
    corners = {trajectory.clusters[i] for i in trajectory.leaders}
    print(
        f"{len(Z)} tokens in {len(set(trajectory.clusters))} places, each with a leader"
    )
    assert corners == set(trajectory.clusters)

# %%
# The tokens in space as a movie.

movie = hm.draw.movie(
    hm.simulate(solid.tokens[0], solid.rule, times=np.linspace(0, 10, 61))
)

# %%
# What to try
# -----------
# ``hm.SelfAttention(Q=[[2, 1], [1, 1]])`` has other leaders. With more tokens, ``(400,
# 2)``, the polytope hardly has more vertices. ``V=2 * np.eye(2)`` is the same at half
# the time.
