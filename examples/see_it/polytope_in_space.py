"""
In three dimensions the leaders span a polytope that one can turn
=================================================================

In the plane one sees where tokens go. Is the picture of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ the
same in space? Every token still ends at a corner of a polytope, but there are more corners: leaders are tokens with
nothing in front of them, and the more directions there are, the more tokens find one that is free. This page can be
turned, and played layer by layer.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm

tokens = hm.configuration("ball", n=120, d=3, seed=3)
rule = hm.Hardmax(alpha=0.5)
trajectory = hm.simulate(tokens, rule, layers=12)
limit = hm.limit(tokens, rule)
print(limit)
assert limit.certified

# %%
# Before and after. In grey are the leaders beyond eight colours.

figure = hm.draw.plot_layers(trajectory, layers=(0, 2))
plt.show()

# %%
# The same, to turn with the mouse. The slider goes through the layers.

page = hm.interactive(trajectory, title="120 tokens in space")

# %%
# With the dimension the share of leaders grows: in few dimensions a token is behind somebody, in many everybody is in
# front. For 120 tokens of a Gaussian in 64 dimensions all of them lead at once, and nothing moves.

shares = {}
for d in (2, 3, 4, 8, 16, 64):
    leaders = [len(hm.limit(hm.configuration("gaussian", n=120, d=d, seed=s), rule).leaders) for s in range(5)]
    shares[d] = np.mean(leaders) / 120
    print(f"d = {d:2d}: {shares[d]:.0%} of the tokens lead")
assert list(shares.values()) == sorted(shares.values())
assert shares[64] == 1

# %%
# What to try
# -----------
# ``hm.configuration("sphere", n=120, d=3)`` with A = I: every token leads. With ``A=np.diag([1, 1, 0.2])`` in the rule
# the tokens near the poles give way.
