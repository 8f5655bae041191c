"""
The sign of an eigenvalue of V decides its coordinate, d = 128
==============================================================

Real models have many dimensions. Here are 128 tokens in 128 dimensions under a sparse
random symmetric :math:`V`, as in a figure of `arXiv 2305.05465
<https://arxiv.org/abs/2305.05465>`_. In the eigenbasis :math:`\\varphi_1, \\ldots,
\\varphi_{128}` of :math:`V` the rescaled tokens obey

.. math::

   \\frac{d}{dt} \\langle \\varphi_r, z_i \\rangle = \\lambda_r \\sum_j P_{ij} \\langle \\varphi_r, z_j - z_i \\rangle,

so for :math:`\\lambda_r > 0` each coordinate is drawn to a mean of others, and for
:math:`\\lambda_r < 0` driven away from it. Positive directions gather, negative ones
part. ``hardmax reproduce coordinates`` draws the figure of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from hardmax.figures.value_spectrum import compute_coordinates, draw_coordinates

with threadpool_limits(
    1
):  # many small matrix products: threads would cost more than they gain
    result = compute_coordinates()
eigenvalues, values = result  # (128,), (times, tokens, coordinates)

# %%
# On the left some coordinates of every token in time: above for positive eigenvalues,
# below for negative ones. On the right the mean modulus of each of the 128 coordinates,
# at the start and at the end.

figure = draw_coordinates(result)
plt.show()

# %%
# The equation says more than the picture: where :math:`\lambda_r > 0`, the highest
# token can only fall and the lowest only rise, so the width never grows; where
# :math:`\lambda_r < 0`, it never shrinks. No exception among the 128.

widths = np.ptp(
    values, axis=1
)  # from the lowest token to the highest: (times, coordinates)
growth = widths[-1] / widths[0]
print(
    f"positive eigenvalues: widths between {growth[eigenvalues > 0].min():.2f} and 1"
    " times those at the start"
)
print(
    f"negative eigenvalues: widths at least {growth[eigenvalues < 0].min():.0f} times"
    " those at the start"
)
steps = np.diff(widths, axis=0) * np.sign(eigenvalues)
assert (steps < 1e-4 * widths[1:]).all()  # but for the tolerance of the integrator
assert (growth[eigenvalues < 0] > 10).all()

# %%
# The leading direction has a theorem of its own, 4.2: its coordinate tends to at most
# three values. Here there are two.

assert (
    eigenvalues[-1] > 2 * np.abs(eigenvalues[:-1]).max()
)  # simple, positive, larger than all others
levels = np.unique(values[-1, :, -1].round(2))
print(f"the leading coordinate ends at {len(levels)} values")
assert len(levels) <= 3

# %%
# What to try
# -----------
# The same equation with a matrix of your own: ``hm.simulate(tokens,
# hm.SelfAttention(V=V), times=4.0)``. Eigenvalues near 0 hardly move their coordinates.
# With a complex pair of eigenvalues the coordinates rotate while they converge.
