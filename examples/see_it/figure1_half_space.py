"""
Figure 1: a token follows the tokens with the largest projection
================================================================

In a hardmax transformer, token :math:`z_i` follows the tokens with the largest
projection on the direction :math:`A z_i`. Figure 1 of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ draws the consequence: the tokens that attract
:math:`z_i` lie in the half-space

.. math:: \\mathcal{H}_i = \\{z : \\langle A z_i, z - z_i \\rangle \\ge 0\\}.

The other statements start from here: a token moves into its half-space, so its norm
grows, and a token whose half-space contains no other token leads. ``hardmax reproduce
fig1`` writes this figure to a file.
"""

import matplotlib.pyplot as plt

import hardmax as hm
from hardmax.figures.hardmax_rule import compute_half_space, draw_half_space

# %%
# Six tokens, in exact tenths: the second and the third project equally far on the
# first, and that tie is meant.

runs = compute_half_space()
for name, run in runs.items():
    print(f"{name}: z1 follows", " and ".join(f"z{j + 1}" for j in run.sets(0)[0]))

# %%
# Shaded is the half-space of the first token. The dotted lines project all tokens onto
# the direction :math:`A z_1`, the arrow; those with the largest projection are orange.
# Another A gives another direction, and other tokens to follow.

figure = draw_half_space(runs)
plt.show()

# %%
# The statement as a verdict: for every token and every layer, the smallest
# :math:`\langle A z_i, z_j - z_i \rangle` over the tokens j that i follows. It is never
# negative, because j maximises the projection over all tokens and i is one of them.

assert [run.sets(0)[0].tolist() for run in runs.values()] == [[1, 2], [3]]
for run in runs.values():
    verdict = hm.theorems.half_space(run)
    print(verdict)
    assert verdict.holds

# %%
# What to try
# -----------
# Make the tie a near miss, ``(13, 11)`` instead of ``(13, 12)``, and one of the two is
# left. Give A a second eigenvalue close to 0: the direction A z then hardly depends on
# z. In ``hardmax app`` the half-space of a token moves with it.
