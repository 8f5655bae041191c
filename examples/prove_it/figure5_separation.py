"""
Figure 5: near a leader, a token follows no other token
=======================================================

Once tokens are close to the finite set :math:`\\mathcal{S}`, why do their argmax sets
no longer change? The answer of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_
is Figure 5: around a leader :math:`s_0` there is a ball so small that for every x in it
the hyperplane through x with normal :math:`A x` has the balls around all other points
behind it,

.. math:: \\langle A x, x - y \\rangle > 0 \\quad \\text{for }
   |x - s_0| \\le \\delta,\\ |y - s_i| \\le \\delta,\\ i \\ne 0.

Then y has a smaller product with x than x itself, and x cannot follow it. How small
must :math:`\\delta` be? Here the largest one is computed. ``hardmax reproduce fig5``
writes this figure to a file.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.figures.hardmax_rule import SEPARATED, compute_separation, draw_separation

# %%
# For given x the worst y of a ball is known: the smallest :math:`\langle x, x - y
# \rangle` is :math:`\langle x, x - s_i \rangle - \delta |x|`. The worst x is on the
# boundary of its ball, which ``compute_separation`` samples finely.

points, (largest, delta) = SEPARATED, compute_separation()
print(f"Separated for every radius below {largest:.4f}; drawn is {delta:.4f}.")

# %%
# Eight positions x near :math:`s_0`, each with its hyperplane: all of them pass above
# the two balls below.

figure = draw_separation((largest, delta))
plt.show()

# %%
# The consequence for the dynamics: fill the three balls with random tokens. In each of
# 1000 samples, every token of the upper ball follows a token of the upper ball. So
# clusters, once formed, do not mix.

rng = np.random.default_rng(0)
angles = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
circle = np.column_stack([np.cos(angles), np.sin(angles)])
for _ in range(1000):
    radii, turns = (
        delta * np.sqrt(rng.uniform(size=(3, 4, 1))),
        rng.integers(0, len(circle), (3, 4)),
    )
    tokens = (points[:, None] + radii * circle[turns]).reshape(
        12, 2
    )  # four tokens in each ball
    sets = hm.simulate(np.vstack([tokens, points]), hm.Hardmax(0.5), layers=0).sets(0)
    upper = {0, 1, 2, 3, 12}
    assert all(set(sets[i].tolist()) <= upper for i in upper)
print("1000 samples: no token of the upper ball follows one outside of it.")

# %%
# What to try
# -----------
# Bring :math:`s_1` closer to :math:`s_0`, to (-0.7, 1), and the radius shrinks. It is 0
# if :math:`s_1` is on the line through :math:`s_0` at a right angle to it, where a
# token would follow both: such a point is no leader.
