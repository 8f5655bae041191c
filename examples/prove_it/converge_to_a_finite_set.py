"""
Convergence to a finite set at a known rate
===========================================

Distinct tokens, A = I and a small step: the theorem of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ states that the limits are a finite set, but
neither their number nor the rate. A certificate gives both. At a finite layer it is
proved where each token ends, and from there on the distance to the limit is known
exactly,

.. math:: |z_i^{k+m} - z_\\ell| = (1 + \\alpha)^{-m}\\, |z_i^k - z_\\ell|

(Theorem 1 of this project). So the rate of convergence can be measured.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

tokens = hm.configuration("gaussian", n=200, d=2, seed=1)
rule = hm.Hardmax(alpha=0.1)
limit = hm.limit(tokens, rule)
print(limit)
print(f"200 tokens end at {len(limit.points)} points.")

# %%
# Left: every token with its limit. Right: the distance to it, for all tokens, on a
# logarithmic scale. Before the certificate, in grey, some argmax sets still change;
# after it all lines have one slope.

layers = limit.layer + 60
trajectory = hm.simulate(tokens, rule, layers=layers)
distances = np.linalg.norm(trajectory.array - limit.tokens, axis=-1)  # (layers + 1, n)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.8), layout="constrained")
hm.draw.plot_limit(limit, ax=left)
moving = distances[:, distances[-1] > 0]
right.axvspan(0, limit.layer, color=GREY, alpha=0.25, lw=0)
right.semilogy(moving, color=COLOURS[0], lw=0.5, alpha=0.5)
steps = np.arange(limit.layer, layers + 1)
right.semilogy(
    steps,
    4 * 1.1 ** (limit.layer - steps),
    "--",
    color=EDGE,
    lw=1.5,
    label=r"slope $\log 1/(1 + \alpha)$",
)
right.set(
    xlabel="layer",
    ylabel="distance to the limit",
    title=f"certified at layer {limit.layer}",
)
right.legend(frameon=False)
plt.show()

# %%
# The rate, to nine digits, for every token and layer after the certificate.

rates = moving[limit.layer + 1 :] / moving[limit.layer : -1]
print(
    f"rate a layer after the certificate: {rates.min():.9f} to {rates.max():.9f}; 1/1.1"
    f" = {1 / 1.1:.9f}"
)
assert np.allclose(rates, 1 / 1.1, rtol=1e-9)
verdicts = hm.theorems.check(trajectory)
for verdict in verdicts:
    print(f"{verdict.name}: {verdict.outcome}")
assert all(verdict.holds for verdict in verdicts if verdict.holds is not None)

# %%
# What to try
# -----------
# ``alpha=5``: the certificate comes after a layer or two, and the rate is 1/6. In
# ``d=8`` most tokens lead, so most distances are 0 from the start. ``limit.exact()``
# has the limits as Fractions.
