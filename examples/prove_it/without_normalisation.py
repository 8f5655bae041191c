"""
Without normalisation tokens grow, and the argmax sets stay the same
====================================================================

One layer of attention is :math:`z_i + \\alpha\\, c_i` with :math:`c_i` the mean of the
tokens that i follows; the model of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ divides by :math:`1 + \\alpha`. Without this
division, by induction every token is

.. math:: (1 + \\alpha)^k \\text{ times larger at layer } k, \\text{ exactly,}

while sets, leaders and directions stay the same: scaling all tokens changes no argmax.
So norms explode, and the theory applies to directions. Rational arithmetic verifies
this exactly.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

tokens, alpha = hm.configuration("triangle"), Fraction(1, 2)
bounded = hm.simulate(tokens, hm.Hardmax(alpha), layers=60)
growing = hm.simulate(tokens, hm.Hardmax(alpha, normalize=False), layers=60)

# %%
# The same tokens for five layers with and without normalisation, and the size of the
# largest coordinate for sixty.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for ax, run, title in zip(
    axes, (bounded, growing), ("with normalisation", "without"), strict=False
):
    short = hm.simulate(tokens, run.rule, layers=5)
    hm.draw.plot_tokens(short, ax=ax, polytope=False)
    ax.set(
        title=f"{title}, layer 5",
        xlabel="$z_1$",
        ylabel="$z_2$" if run is bounded else "",
    )
sizes = [np.abs(run.array).max(axis=(1, 2)) for run in (bounded, growing)]
axes[2].semilogy(sizes[1], color=COLOURS[1], lw=2, label="without")
axes[2].semilogy(sizes[0], color=COLOURS[0], lw=2, label="with normalisation")
axes[2].set(xlabel="layer", title="largest coordinate")
axes[2].legend(frameon=False)
plt.show()

# %%
# In Fractions, at all layers, for all tokens.

assert all(
    (growing.exact(k) == bounded.exact(k) * (1 + alpha) ** k).all() for k in range(61)
)
same = all(
    np.array_equal(bounded.attention(k), growing.attention(k)) for k in range(61)
)
print(f"Exactly (1 + alpha)^k times larger at every layer; the same attention: {same}.")
assert same

# %%
# Floats end at about 1e308, which 1.5 to the power of k passes at layer 1751. The sets
# go on, since they are found from the normalised tokens.

endless = hm.simulate(tokens, hm.Hardmax(alpha, normalize=False), layers=2000)
print(endless)
assert np.array_equal(endless.leaders, bounded.leaders)

# %%
# What to try
# -----------
# A sequence of steps, ``alpha=[1, 0.5, 0.25]``: the growth is then the product of the
# factors 1 + alpha. ``hm.limit`` raises an error for ``normalize=False``.
