"""
In 128 dimensions the sign of an eigenvalue decides over its coordinate
=======================================================================

Pictures in the plane convince nobody about real models. Here are 128 tokens in 128 dimensions under a sparse random
symmetric :math:`V`, as in a figure of `arXiv 2305.05465 <https://arxiv.org/abs/2305.05465>`_. In the eigenbasis
:math:`\\varphi_1, \\ldots, \\varphi_{128}` of :math:`V` the rescaled tokens obey

.. math::

   \\frac{d}{dt} \\langle \\varphi_r, z_i \\rangle = \\lambda_r \\sum_j P_{ij} \\langle \\varphi_r, z_j - z_i \\rangle,

so for :math:`\\lambda_r > 0` each coordinate is drawn to a mean of others, and for :math:`\\lambda_r < 0` driven away
from it. Positive directions gather, negative ones part. ``hardmax reproduce coordinates`` draws the figure of the
paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

import hardmax as hm
from hardmax.draw.style import BLUE, EDGE, ORANGE

rng, d = np.random.default_rng(0), 128
sparse = rng.uniform(size=(d, d)) * (rng.uniform(size=(d, d)) < 0.1)
eigenvalues, phi = np.linalg.eigh((sparse + sparse.T) / 2)
small = np.abs(eigenvalues) <= 1  # these would take long to show what they do
eigenvalues[small] = np.sign(eigenvalues[small]) * rng.uniform(1, 2, small.sum())
V = (phi * eigenvalues) @ phi.T
tokens = rng.uniform(-0.5, 0.5, (d, d))
times = np.linspace(0, 4, 41)
with threadpool_limits(1):  # thousands of small products: where others compute, threads would wait for each other
    run = hm.simulate(tokens, hm.SelfAttention(V=(V + V.T) / 2), times=times, rtol=1e-6, atol=1e-8)
values = run.rescaled @ phi  # (times, tokens, coordinates)

# %%
# On the left one coordinate of every token in time: above of the largest eigenvalue, below of the smallest. On the
# right how wide each of the 128 coordinates is, from the lowest token to the highest, at the start and at the end.

figure = plt.figure(figsize=(12, 5.4), layout="constrained")
grid = figure.add_gridspec(2, 3)
for row, (r, colour) in enumerate(((d - 1, BLUE), (0, ORANGE))):
    ax = figure.add_subplot(grid[row, 0])
    ax.plot(times, values[..., r], color=colour, lw=0.6, alpha=0.4)
    ax.set(xlabel="t", ylabel=r"$\langle\varphi_r, z_i\rangle$")
    ax.set_title(rf"$\lambda_r$ = {eigenvalues[r]:.2f}", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
ax, widths = figure.add_subplot(grid[:, 1:]), np.ptp(values, axis=1)  # widths: (times, coordinates)
colours = np.where(eigenvalues > 0, BLUE, ORANGE)
ax.scatter(eigenvalues, widths[0], s=14, c="white", edgecolors=EDGE, linewidths=0.6, label="t = 0")
for name, colour in (("positive", BLUE), ("negative", ORANGE)):
    rows = colours == colour
    label = f"t = 4, the {rows.sum()} with {name} eigenvalue"
    ax.scatter(eigenvalues[rows], widths[-1, rows], s=26, c=colour, edgecolors=EDGE, linewidths=0.4, label=label)
ax.set(
    yscale="log", xlabel=r"eigenvalue $\lambda_r$", ylabel=r"width of $\langle\varphi_r, z_i\rangle$ over the tokens"
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The equation says more than the picture: where :math:`\lambda_r > 0`, the highest token can only fall and the lowest
# only rise, so the width never grows; where :math:`\lambda_r < 0`, it never shrinks. No exception among the 128.

growth = widths[-1] / widths[0]
print(f"positive eigenvalues: widths between {growth[eigenvalues > 0].min():.2f} and 1 times those at the start")
print(f"negative eigenvalues: widths at least {growth[eigenvalues < 0].min():.0f} times those at the start")
steps = np.diff(widths, axis=0) * np.sign(eigenvalues)
assert (steps < 1e-4 * widths[1:]).all()  # but for the tolerance of the integrator
assert (growth[eigenvalues < 0] > 10).all()

# %%
# The leading direction has a theorem of its own, 4.2: its coordinate tends to at most three values. Here there are two.

assert eigenvalues[-1] > 2 * np.abs(eigenvalues[:-1]).max()  # simple, positive, larger than all others
levels = np.unique(values[-1, :, -1].round(2))
print(f"the leading coordinate ends at {len(levels)} values")
assert len(levels) <= 3

# %%
# What to try
# -----------
# Leave out the line with ``small``: eigenvalues near 0 hardly move their coordinates. Or make ``V`` not symmetric, and
# look at real and imaginary parts: with a complex pair the coordinate turns while it gathers.
