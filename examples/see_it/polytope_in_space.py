"""
An interactive polytope of leaders in three dimensions
======================================================

In three dimensions, as in the plane, every token converges to a point of a polytope
whose vertices are the leaders of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_. The share of leaders grows with the dimension. The
interactive plot below can be rotated, and played layer by layer.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

tokens = hm.configuration("gaussian", n=60, d=3, seed=4)
rule = hm.Hardmax(alpha=0.5)
trajectory = hm.simulate(tokens, rule, layers=12)
limit = hm.limit(tokens, rule)
print(limit)
assert limit.certified
assert len(limit.leaders) == 8

# %%
# Layers 0 and 2, and the limit. Each of the eight leaders has a colour.

figure = hm.draw.plot_layers(trajectory, layers=(0, 2))
plt.show()

# %%
# The interactive plot: drag to rotate; the slider selects the layer.

page = hm.interactive(trajectory, title="60 tokens in space")

# %%
# The share of leaders grows with the dimension. All of 120 Gaussian tokens in 64
# dimensions lead at layer 0, and no token moves.

shares = {}
for d in (2, 3, 4, 8, 16, 64):
    leaders = [
        len(hm.limit(hm.configuration("gaussian", n=120, d=d, seed=s), rule).leaders)
        for s in range(5)
    ]
    shares[d] = np.mean(leaders) / 120
    print(f"d = {d:2d}: {shares[d]:.0%} of the tokens lead")
assert list(shares.values()) == sorted(shares.values())
assert shares[64] == 1

# %%
# What to try
# -----------
# ``hm.configuration("sphere", n=60, d=3)`` with A = I: every token leads. With
# ``A=np.diag([1, 1, 0.2])`` in the rule tokens near the poles do not.
