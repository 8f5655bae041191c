"""
The attention matrix loses its rank as leaders emerge
=====================================================

The attention matrix of forty tokens in eighty dimensions starts with full rank: every
token attends to itself. In time its rows become equal to a few unit vectors, because
all tokens attend to the few leaders. In one dimension this is Theorem 2.1 of `arXiv
2305.05465 <https://arxiv.org/abs/2305.05465>`_:

.. math:: P_{ij}(t) = \\frac{e^{\\langle Q x_i(t), K x_j(t)\\rangle}}{\\sum_l
   e^{\\langle Q x_i(t), K x_l(t)\\rangle}}

tends to a Boolean matrix of rank at most three. In many dimensions the paper shows it
by a figure, which is made here again (``hardmax reproduce attention``). Attention
matrices of low rank can be compressed.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.attention_in_time import (
    RANK_UNITS,
    compute_rank,
    draw_rank,
    find_ranks,
)

run = compute_rank()

# %%
# The rank is the number of singular values above a millionth of the largest. Times are
# in units of :math:`1 / \lambda_1`.

rank = find_ranks(run)
print(
    "rank of P:",
    ", ".join(f"{rank[k]} at {RANK_UNITS[k]:g}" for k in (0, 8, 12, 16, 32)),
)
figure = draw_rank(run)
plt.show()

# %%
# At the end few tokens receive attention: the columns that are not dark.

seen = (run.attention(-1) > 0.5).any(axis=0)
print(
    f"{seen.sum()} of {run.n} tokens receive more than half of the attention of some"
    " token at the end."
)
assert rank[0] == run.n
assert rank[-1] <= 4
assert seen.sum() <= 4

# %%
# The theorem itself, on a line: the limit is Boolean, all rows but at most one equal to
# a unit vector.

line = hm.simulate(
    np.random.default_rng(0).normal(size=(12, 1)),
    hm.SelfAttention(),
    times=np.linspace(0, 10, 51),
)
(verdict,) = (v for v in hm.theorems.check(line) if v.name == "Boolean limit")
print(verdict)
assert verdict.holds

# %%
# What to try
# -----------
# ``hm.simulate(run.tokens[0], hm.SelfAttention(), times=1.0)`` has V = I, and the rank
# stays high, because in eighty dimensions nearly every one of forty tokens is a vertex
# and leads. The one leading direction of the ``V`` above makes the rank fall.
