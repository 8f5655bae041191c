"""
Attention as a Frank-Wolfe step
===============================

`arXiv 2508.09628 <https://arxiv.org/abs/2508.09628>`_ reads hard attention as a step of
the Frank-Wolfe method: each token moves towards the vertex of the hull of all tokens
that maximises :math:`\\langle B x_i, v \\rangle`. (The statements are those of a
public formal transcription of the paper; the paper itself was not read.)
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.draw.style import BLUE

tokens = hm.configuration("gaussian", n=40, seed=2)
run = hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=60)
for verdict in hm.theorems.check(run):
    print(verdict)

# %%
# Where no token is tied, a step is one of ``Hardmax``, so that the limits are those
# that ``hm.limit`` proves for it.

limit = hm.limit(tokens, hm.Hardmax(1))
print(limit)
assert abs(run.array[-1] - limit.tokens).max() < 1e-12
figure, ax = plt.subplots(figsize=(5.5, 4.4), layout="constrained")
ax.plot(*run.array.transpose(2, 0, 1), color=BLUE, lw=0.7, alpha=0.7)
ax.scatter(*tokens.T, s=12, color="0.4", zorder=3)
ax.scatter(*limit.points.T, s=130, marker="*", color=BLUE, zorder=4)
ax.set(aspect="equal", title=f"{len(limit.leaders)} vertices lead")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Equal tokens, or a token inside a face, change that: the mean of ``Hardmax`` counts
# them, the vertices do not.

tied = [[1, 1], [1, 0.5], [1, -1], [-1, 0], [0.5, 0]]
for rule in (hm.FrankWolfe(steps=0.5), hm.Hardmax(1)):
    print(rule, hm.simulate(tied, rule, layers=60).array[-1, 4])

# %%
# For a negative definite B tokens go to the opposite side, and a rate of 1/t is stated
# for :math:`J(x) = -\langle B x, x\rangle/2`. As transcribed it is false: the tokens 1
# and 2 with B = -1 stay at J of at least 1/2. It is true if 0 lies in the hull of the
# tokens at every layer.

for verdict in hm.theorems.check(
    hm.simulate([[1], [2]], hm.FrankWolfe([[-1]]), layers=10)
)[2:]:
    print(verdict)

# %%
# What to try
# -----------
# ``hm.FrankWolfe()`` takes the steps 2/(t+2), of which the first is 1: every token is
# at a vertex after one layer. With ``hm.FrankWolfe([[0, 1], [-1, 0]], 0.5)`` tokens
# chase each other around the hull.
