"""
Two positive eigenvalues: tokens gather on lines, if a conjecture holds
=======================================================================

Theorem 4.2 of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_ settles the
leading direction of :math:`V` and says nothing of the second. The paper conjectures
that if :math:`k` eigenvalues have a positive real part, the components

.. math:: \\langle \\varphi_r, z_i(t) \\rangle, \\quad r = 1, \\ldots, k, \\qquad z_i(t)
   = e^{-tV} x_i(t),

settle at a few points, so that tokens end on parallel subspaces of codimension
:math:`k`: in three dimensions, with :math:`k = 2`, on lines. The conjecture is open,
and floating-point numbers cannot decide it here. This example shows how far they reach.
``hardmax reproduce codimension`` writes the figure to a file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.value_spectrum import (
    CODIMENSION_V,
    compute_codimension,
    draw_codimension,
)

result = compute_codimension()
run = result.trajectory
assert (result.eigenvalues > 0).sum() == 2
print(hm.classify(V=CODIMENSION_V))

# %%
# Tokens in the plane of the two growing directions, at the start and at the end, then
# in all three coordinates. They gather at two points of the plane, each the foot of a
# line along the third direction. Along :math:`\varphi_2` they have not yet come
# together.

figure = draw_codimension(result)
plt.show()

# %%
# How far do the tokens of one line still differ? In the first coordinate hardly at all,
# as the theorem says. In the second by much: its eigenvalue is a small part of the
# first, so attention becomes too sharp for floats long before that direction settles.
# The verdict is therefore undecided.

end, lines = result.coordinates[-1], result.lines
scatter = np.array(
    [max(np.ptp(end[lines == g, r]) for g in set(lines)) for r in (0, 1)]
)
print(
    f"scatter within a line: {scatter[0]:.0e} along phi_1, {scatter[1]:.1f} along phi_2"
)
assert scatter[0] < 1e-2 < scatter[1]
verdicts = {verdict.name: verdict for verdict in hm.theorems.check(run)}
for name in ("hyperplanes", "codimension k"):
    print(verdicts[name])
assert verdicts["hyperplanes"].holds
assert verdicts["codimension k"].outcome == "undecided"
assert verdicts["codimension k"].conjecture

# %%
# Where the two eigenvalues are closer to each other, floats reach the end, and the
# conjecture passes its test.

close = hm.SelfAttention(V=np.diag([1.0, 0.9, -0.5]))
passes = hm.simulate(run.tokens[0], close, times=np.linspace(0, 8, 81))
verdict = next(v for v in hm.theorems.check(passes) if v.name == "codimension k")
print(verdict)
assert verdict.holds

# %%
# What to try
# -----------
# Other eigenvalues in ``np.diag([1.0, 0.9, -0.5])``: find the ratio from which on the
# verdict is *undecided*. A run on which it *fails* would be a discovery; ``hardmax
# verify`` then still ends well, because a conjecture is no theorem.
