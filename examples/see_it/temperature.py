"""
Softmax becomes hardmax as the temperature falls, at a known rate
=================================================================

Transformers use softmax, the theorems of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ are about hardmax. Softmax with temperature T gives
token j the weight :math:`\\exp(\\langle A z_i, z_j \\rangle / T)` up to normalisation.
If the chosen tokens lead all others by at least a gap g, one layer differs from the
hardmax layer by

.. math:: \\text{const} \\cdot e^{-g / T},

so a small gap needs a low temperature. The example shows the difference after many
layers, and measures the rate in one.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
hard = hm.simulate(tokens, hm.Hardmax(0.5), layers=12)

# %%
# The same tokens after twelve layers. At high temperature all tokens come together. At
# lower ones clusters appear, first two, then more; the last ones to part are those
# whose leaders are close to each other. Stars are the leaders of hardmax, for
# comparison.

figure, axes = plt.subplots(
    2, 2, figsize=(8.4, 6.6), layout="constrained", sharex=True, sharey=True
)
stars, spreads = hard.array[-1, hard.leaders], []
for ax, temperature in zip(axes.flat, (1.0, 0.2, 0.02, None), strict=True):
    soft = (
        None
        if temperature is None
        else hm.simulate(tokens, hm.Softmax(0.5, temperature=temperature), layers=12)
    )
    run = hard if soft is None else soft
    ax.plot(*np.moveaxis(run.array, -1, 0), color=GREY, lw=0.5, alpha=0.6, zorder=1)
    ax.scatter(
        *run.array[-1].T,
        s=30,
        color=COLOURS[0],
        edgecolors=EDGE,
        linewidths=0.5,
        zorder=3,
    )
    ax.scatter(
        *stars.T,
        s=130,
        marker="*",
        color=COLOURS[1],
        edgecolors=EDGE,
        linewidths=0.6,
        zorder=2,
    )
    ax.set(
        title="hardmax" if temperature is None else f"softmax, T = {temperature:g}",
        aspect="equal",
    )
    ax.set(xticks=[], yticks=[])
    spreads.append(float(np.ptp(run.array[-1], axis=0).max()))
plt.show()
print("extent after twelve layers:", *(f"{spread:.2f}" for spread in spreads))
assert spreads == sorted(spreads)

# %%
# The rate, in one layer of forty tokens in three dimensions. On a logarithmic scale the
# difference is a line in 1/T, and its slope is the gap, with the opposite sign.

tokens = hm.configuration("gaussian", n=40, d=3, seed=1)
products = np.sort(tokens @ tokens.T, axis=1)
gap = (products[:, -1] - products[:, -2]).min()
target = hm.simulate(tokens, hm.Hardmax(0.5), layers=1).array[1]
temperatures = gap / np.array([0.5, 1, 2, 4, 8, 12, 16, 20, 24])
moved = [
    hm.simulate(tokens, hm.Softmax(0.5, temperature=T), layers=1).array[1]
    for T in temperatures
]
differences = np.array([np.abs(array - target).max() for array in moved])
slope = np.diff(np.log(differences[-2:]))[0] / np.diff(1 / temperatures[-2:])[0]
print(f"smallest gap {gap:.4f}, slope of the logarithm against 1/T {slope:.4f}")
assert abs(slope + gap) < 0.05 * gap

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.semilogy(
    gap / temperatures,
    differences,
    "o",
    color=COLOURS[0],
    label="one softmax layer against one hardmax layer",
)
line = differences[-1] * np.exp(-gap * (1 / temperatures - 1 / temperatures[-1]))
ax.semilogy(gap / temperatures, line, color=COLOURS[1], lw=1.2, label="slope $-g$")
ax.set(
    xlabel="gap over temperature, $g / T$", ylabel="largest difference of a coordinate"
)
ax.legend(frameon=False)
plt.show()

# %%
# What to try
# -----------
# ``hm.sweep("temperature", ...)`` measures the same over temperature and depth, with
# its bounds. On a lattice gaps are 0: softmax then tends to the mean of the tied
# tokens, as hardmax does.
