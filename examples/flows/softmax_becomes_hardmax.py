"""
Softmax becomes hardmax as the temperature falls
================================================

Transformers use softmax, the theorems of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ are about hardmax. With weights

.. math:: P_{ij} = \\frac{e^{\\langle A z_i, z_j \\rangle / T}}{\\sum_l e^{\\langle A
   z_i, z_l \\rangle / T}}

the set of maximisers gets all weight as :math:`T \\to 0`. So on a fixed number of
layers the two agree in the limit. This example compares both on the same tokens, from
:math:`T = 1` down.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, cluster_colours

tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
LAYERS, WARM, COLD = 12, 0.3, 0.001
hard = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=LAYERS)
warm, cold = (
    hm.simulate(tokens, hm.Softmax(alpha=0.5, temperature=T), layers=LAYERS)
    for T in (WARM, COLD)
)
print(f"hardmax: {hard}", f"T = {COLD}: {cold}", f"T = {WARM}: {warm}", sep="\n")

# %%
# After twelve layers: warm tokens have nearly met, cold ones are where hardmax puts
# them. Colours: the cluster that hardmax proves for each token.

figure, axes = plt.subplots(
    1, 3, figsize=(12, 3.2), layout="constrained", sharex=True, sharey=True
)
colours = cluster_colours(hm.limit(tokens, hard.rule).clusters)
for ax, run, name in zip(
    axes, (warm, cold, hard), (f"T = {WARM}", f"T = {COLD}", "hardmax"), strict=True
):
    for way, colour in zip(run.array.swapaxes(0, 1), colours, strict=True):
        ax.plot(*way.T, color=colour, lw=0.8, alpha=0.6)
    ax.scatter(
        *run.array[-1].T, c=colours, s=50, edgecolors=EDGE, linewidths=0.6, zorder=3
    )
    ax.set_title(name, fontsize=12)
    ax.set(xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# The largest distance of a token from its position under hardmax, layer by layer.

temperatures = (1, 0.1, 0.01, 0.001, 0.0001)
gaps = {}
for T in temperatures:
    run = hm.simulate(tokens, hm.Softmax(alpha=0.5, temperature=T), layers=LAYERS)
    gaps[T] = np.linalg.norm(run.array - hard.array, axis=-1)  # (layers + 1, n)
figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for T, colour in zip(temperatures, COLOURS, strict=False):
    ax.plot(gaps[T].mean(axis=1), color=colour, marker="o", ms=4, label=f"T = {T:g}")
ax.set(
    xlabel="layer",
    ylabel="mean distance to the token under hardmax",
    xticks=range(0, LAYERS + 1, 2),
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# Colder is nearer. A token between two leaders is the last to agree: its margin, by
# which the chosen token beats the next, must be large against :math:`T`.

final = [gaps[T][-1].mean() for T in temperatures]
print(
    "mean distance at the end:",
    ", ".join(
        f"{gap:.3f} at T = {T:g}" for T, gap in zip(temperatures, final, strict=True)
    ),
)
assert final == sorted(final, reverse=True)
assert final[-1] < 0.05 * final[0]
margins = hard.margins(0)
late = gaps[0.01][-1] > 0.1
print(f"{late.sum()} tokens are more than 0.1 away at T = 0.01")
print(
    f"their mean margin at layer 0 is {margins[late].mean():.3f}, that of the others"
    f" {margins[~late].mean():.3f}"
)
assert margins[late].mean() < margins[~late].mean()

# %%
# What to try
# -----------
# A thousand layers at ``T = 0.01``: there are three places left, where hardmax keeps
# seven for ever. Softmax never stops to mix, and what is final for hardmax lasts for a
# long time only.
