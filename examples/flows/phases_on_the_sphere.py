"""
Clusters on the circle are metastable
=====================================

Layer norm keeps tokens on a sphere. There, by `arXiv 2312.10794
<https://arxiv.org/abs/2312.10794>`_, attention obeys

.. math::

   \\dot x_i = \\Pi_{x_i} \\Big( \\sum_j P_{ij} x_j \\Big), \\qquad
   P_{ij} \\propto e^{\\beta \\langle x_i, x_j\\rangle},

with :math:`\\Pi_x` the projection on the tangent at :math:`x`, and the energy

.. math:: E = \\frac{1}{2 \\beta n^2} \\sum_{ij} e^{\\beta \\langle x_i, x_j \\rangle}

never falls. It is largest where all tokens are one. With a large :math:`\\beta` they
first stay in several clusters for a very long time, longer than any network is deep.
``hardmax reproduce phase`` draws the map below on a finer grid.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import BLUE
from hardmax.figures.phase_sphere import compute, draw

TIMES = np.geomspace(0.1, 3000, 61)
tokens = hm.configuration("sphere", n=32, d=2)
run = hm.simulate(tokens, hm.Sphere(4), times=TIMES)
print(run)

# %%
# 32 tokens at beta = 4. Left: angles in time; clusters form early and persist. Right:
# the energy rises in steps, when clusters merge.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
angles = np.unwrap(np.arctan2(run.array[..., 1], run.array[..., 0]), axis=0)
left.plot(TIMES, angles, color=BLUE, lw=0.8, alpha=0.7)
left.set(xscale="log", xlabel="t", ylabel="angle of a token")
right.plot(TIMES, run.energy, color=BLUE, lw=2)
right.set(xscale="log", xlabel="t", ylabel="energy")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
(verdict,) = hm.theorems.check(run)
print(verdict)
assert verdict.holds

# %%
# The map: mean number of clusters over four token sets, by beta and time, on a coarse
# grid. Neighbours farther apart than 0.05 radians count as different clusters.

betas = np.geomspace(0.1, 200, 13)
result = compute(betas, np.geomspace(0.1, 1000, 25), seeds=4)
counts = result.clusters  # (betas, times)
figure = draw(result)
plt.show()

# %%
# Below beta = 1 all tokens have merged at time 1000. Above, the number of clusters
# grows with beta.

print(
    f"at t = 1000: {counts[0, -1]:g} cluster at beta = {betas[0]:g}, {counts[-1, -1]:g}"
    f" at beta = {betas[-1]:g}"
)
assert (counts[betas < 1, -1] == 1).all()
assert counts[-1, -1] > 4

# %%
# What to try
# -----------
# ``d=3`` and a movie, ``hm.draw.movie(hm.simulate(hm.configuration("sphere", n=32,
# d=3), hm.Sphere(9), times=TIMES))``. With ``hm.Sphere(beta, normalized=False)`` the
# weights are not divided by their sum, and time runs otherwise.
