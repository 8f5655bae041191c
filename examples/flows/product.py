"""
A double leading eigenvalue: a polygon times a line
===================================================

Between :math:`V = I`, where tokens end on the vertices of a polytope, and a simple
leading eigenvalue, where they end on planes, there is a whole family. Theorem 5.2 of
`arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_: if the leading eigenvalue of
:math:`V` is positive and has a whole eigenspace :math:`F`,

.. math:: \\mathbb{R}^d = F \\oplus G, \\qquad V|_F = \\lambda I,

then the parts of the tokens in :math:`F` tend to points of a polytope, while their
parts in :math:`G` stay free. With :math:`V = \\mathrm{diag}(1, 1, -1/2)` this is a
polygon times a line, a prism without ends. ``hardmax reproduce product`` draws the
figure of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.value_spectrum import PRODUCT_V, compute_product, draw_product

expected = hm.classify(V=PRODUCT_V)
print(expected)
assert expected.kind == "product"
assert expected.proved

run, corners = compute_product()
print(run)

# %%
# On the left the prism at time 3, while it forms: later the third coordinate, which
# grows like :math:`e^{t/2}`, is far away. On the right the two coordinates in
# :math:`F`, from the start to the end.

figure = draw_product((run, corners))
plt.show()

# %%
# The verdict, and what is left of twenty-five tokens in the plane.

(verdict,) = (v for v in hm.theorems.check(run) if v.name == "polytope times subspace")
print(verdict)
assert verdict.holds
places = len(set(corners))
print(
    f"{run.n} tokens are at {places} places of the plane, and at {run.n} different"
    " heights."
)
assert places == len(hm.Polytope(run.rescaled[-1, run.leaders, :2]).vertices)
assert len(np.unique(run.rescaled[-1, :, 2].round(6))) == run.n

# %%
# What to try
# -----------
# ``V = np.diag([1, 1, 0.5])``: is the height still free? Or part the double eigenvalue,
# ``np.diag([1.1, 1, -0.5])``, and see the polygon become two lines: the theorem of the
# simple eigenvalue takes over.
