"""
The attention matrix loses its rank as leaders emerge
=====================================================

The attention matrix of forty tokens in eighty dimensions starts with full rank: every token attends to itself. In time
its rows become equal to a few unit vectors, because all look at the few tokens that lead. In one dimension this is
Theorem 2.1 of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_:

.. math:: P_{ij}(t) = \\frac{e^{\\langle Q x_i(t), K x_j(t)\\rangle}}{\\sum_l e^{\\langle Q x_i(t), K x_l(t)\\rangle}}

tends to a Boolean matrix of rank at most three. In many dimensions the paper shows it by a figure, which is made here
again (``hardmax reproduce attention``). Low rank is what makes attention compressible, so one would like to know when
it comes.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

rng = np.random.default_rng(0)
W = rng.uniform(-1, 1, (80, 80))
V, tokens = W @ W.T, rng.uniform(-1, 1, (40, 80))
units = np.linspace(0, 16, 33)  # times in units of 1 / lambda_1
times = units / np.linalg.eigvalsh(V)[-1]
run = hm.simulate(tokens, hm.SelfAttention(V=V), times=times, rtol=1e-6, atol=1e-8)

# %%
# Rank is counted as the number of singular values above a millionth of the largest.

ranks = np.array([np.linalg.matrix_rank(run.attention(k), rtol=1e-6) for k in range(len(units))])
print("rank of P:", ", ".join(f"{ranks[k]} at {units[k]:g}" for k in (0, 8, 12, 16, 32)))

figure = plt.figure(figsize=(12, 5.4), layout="constrained")
grid = figure.add_gridspec(2, 4, height_ratios=(1.5, 1))
for column, k in enumerate((0, 8, 12, 32)):
    ax = figure.add_subplot(grid[0, column])
    hm.draw.plot_attention(run, k, ax=ax)
    ax.set_title(rf"$\lambda_1 t$ = {units[k]:g}: rank {ranks[k]}", fontsize=12)
    ax.set(xlabel="token $j$", ylabel="" if column else "token $i$", xticks=[0, 20, 39], yticks=[0, 20, 39])
below = figure.add_subplot(grid[1, :])
below.plot(units, ranks, color=COLOURS[0], lw=2, marker="o", ms=4)
below.set(xlabel=r"$\lambda_1 t$", ylabel="rank of $P$", ylim=(0, 42))
below.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# At the end few tokens are seen at all: the columns that are not dark.

seen = (run.attention(-1) > 0.5).any(axis=0)
print(f"{seen.sum()} of {run.n} tokens get more than half of somebody's attention at the end.")
assert ranks[0] == run.n
assert ranks[-1] <= 4
assert seen.sum() <= 4

# %%
# The theorem itself, on a line: the limit is Boolean, all rows but at most one equal to a unit vector.

line = hm.simulate(rng.normal(size=(12, 1)), hm.SelfAttention(), times=np.linspace(0, 10, 51))
(verdict,) = (v for v in hm.theorems.check(line) if v.name == "Boolean limit")
print(verdict)
assert verdict.holds

# %%
# What to try
# -----------
# ``V = np.eye(80)``: now the rank stays high, because in eighty dimensions nearly every one of forty tokens is a vertex
# and leads. It is the one leading direction of this ``V`` that makes the rank fall.
