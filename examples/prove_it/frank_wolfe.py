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
limit = hm.limit(tokens, hm.FrankWolfe(steps=0.5))
run = hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=6)
print(limit)
for verdict in hm.theorems.check(run):
    print(verdict)

# %%
# Paths of the tokens. From layer 2 on the targets are final, and positions known in
# closed form.

figure, ax = plt.subplots(figsize=(5.5, 4.4), layout="constrained")
ax.plot(*run.array.transpose(2, 0, 1), color=BLUE, lw=0.7, alpha=0.7)
ax.scatter(*tokens.T, s=12, color="0.4", zorder=3)
ax.scatter(*limit.points.T, s=130, marker="*", color=BLUE, zorder=4)
ax.set(aspect="equal", title=f"{len(limit.leaders)} vertices lead")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The limits are those of ``Hardmax`` wherever no token is tied. Equal tokens, or a
# token inside a face, change that: the mean of ``Hardmax`` counts them, the vertices do
# not.

assert (limit.exact() == hm.limit(tokens, hm.Hardmax(1)).exact()).all()
tied = [[1, 1], [1, 0.5], [1, -1], [-1, 0], [0.5, 0]]
print("Frank-Wolfe:", hm.limit(tied, hm.FrankWolfe(steps=0.5)).tokens[4])
print("Hardmax:    ", hm.limit(tied, hm.Hardmax(1)).tokens[4])

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
# What to try ----------- ``hm.FrankWolfe()`` takes the steps 2/(t+2), of which the
# first is 1: every token is at a vertex after one layer. With ``hm.FrankWolfe([[0, 1],
# [-1, 0]], 0.5)`` tokens chase each other around the hull, and no certificate exists.
