"""
Figure 2: four inputs gather around their leaders
=================================================

Figure 2 of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ shows what its main
theorem is about. As the depth grows every token converges to a point of a finite set
:math:`\\mathcal{S}`. The leaders are the vertices of a polytope :math:`\\mathcal{K}`;
every other point of :math:`\\mathcal{S}` lies on its boundary and is a convex
combination of leaders,

.. math:: \\lim_{k \\to \\infty} z_i^k = \\sum_{\\ell} w_{i\\ell}\\, z_\\ell, \\qquad
   w_{i\\ell} \\ge 0, \\quad \\sum_\\ell w_{i\\ell} = 1.

Four small inputs show four cases. ``hardmax reproduce fig2`` writes this figure to a
file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.hardmax_rule import compute_clusters, draw_clusters

rule = hm.Hardmax(alpha=0.5)
runs = compute_clusters()

# %%
# Stars lead, circles have the colour of the token they follow, and two colours in one
# circle are a tie. Shaded in the last column is :math:`\mathcal{K}`.
#
# 1. *triangle*: three leaders from the start, and every other token converges to one of
#    them.
# 2. *emerging-leader*: the token in the middle becomes a leader once the tokens in
#    front of it have moved away.
# 3. *square*: four leaders, the corners of a square.
# 4. *edge-clusters*: two tokens follow two leaders at once, and end in the middle of an
#    edge.

figure = draw_clusters(runs)
plt.show()

# %%
# ``hm.limit`` proves the limit at a finite layer, and returns the weights of every
# limit on the leaders.

for name, run in runs.items():
    limit, verdict = hm.limit(run.array[0], rule), hm.theorems.limit(run)
    print(f"{name}: {limit}")
    assert limit.certified
    assert verdict.holds
    assert np.allclose(limit.weights.sum(axis=1), 1)
    assert np.allclose(limit.weights @ limit.points[: len(limit.leaders)], limit.tokens)

late = hm.limit(hm.configuration("emerging-leader"), rule)
tied = hm.limit(hm.configuration("edge-clusters"), rule)
assert late.emerged.max() > 0
assert len(tied.points) > len(tied.leaders)
print(
    "In the last input, tokens 4 and 5 end at",
    *tied.exact()[[4, 5]].astype(str).tolist(),
)

# %%
# The second row as a movie: its last leader emerges after layer 0.

movie = hm.draw.movie(hm.simulate(hm.configuration("emerging-leader"), rule, layers=8))

# %%
# What to try
# -----------
# Move one of the two tokens of *edge-clusters* by a millionth: it ends in a corner.
# That is Theorem 3 of this project, for almost every input every limit is a leader.
# ``hm.configuration("square", seed=1)`` has other tokens inside.
