"""
Attention in the plane concentrates on a few leaders
====================================================

Draw each key :math:`x_j` as a circle and each query :math:`B^\\top x_i`, with :math:`B
= Q^\\top K`, as a square, and join them by a line as wide as :math:`P_{ij}`. At first
every token attends to every other. Then lines vanish, and the remaining ones end at a
few tokens, the leaders of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_; the
figure is one of that paper's (``hardmax reproduce connections``).
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.attention_in_time import (
    UNITS,
    compute_connections,
    count_seen,
    draw_connections,
)

run = compute_connections()
print(run)

# %%
# Tokens are shown as they are, not rescaled, so each panel has axes of its own. A token
# is seen if some token gives it a weight above 1/100. Times are in units of :math:`1 /
# \lambda_1`.

figure = draw_connections(run)
plt.show()

# %%
# The count only falls here, and the tokens that remain are the leaders.

seen = {k: count_seen(run, k) for k in (0, 40, 60, 80)}
print(
    "tokens seen:", ", ".join(f"{count} at {UNITS[k]:g}" for k, count in seen.items())
)
counts = list(seen.values())
assert counts == sorted(counts, reverse=True)
assert counts[0] == run.n
assert set(run.leaders) <= set(np.flatnonzero((run.attention(-1) > 0.01).any(axis=0)))

# %%
# Both eigenvalues of :math:`V` are positive. The theorem on the leading direction holds
# on this run, and so does the conjecture on both.

print(hm.classify(V=run.rule.V))
for verdict in hm.theorems.check(run):
    if verdict.name in ("hyperplanes", "codimension k"):
        print(verdict)
        assert verdict.holds

# %%
# What to try
# -----------
# ``V=np.eye(2)`` keeps more leaders, one for each vertex of a polygon. ``Q=-B``
# reverses every query: each token attends to opposite tokens, and no theorem covers
# this case.
