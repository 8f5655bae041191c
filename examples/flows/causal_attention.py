"""
Causal attention: the first token cannot follow anyone
======================================================

Language models let token :math:`i` see tokens 0 to :math:`i` alone. Who leads then? The set of token :math:`i` becomes

.. math:: C_i = \\arg\\max_{j \\le i} \\langle A z_i, z_j \\rangle,

so the first token leads whatever it is, and early tokens lead more often than late ones. A token that leads still leads
for ever, because what it sees stays in the hull of what it saw. But the theorems of `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ on where followers end do not hold, and where causal tokens end is open.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.projection import Projection
from hardmax.draw.style import BLUE, GREY, ORANGE
from hardmax.draw.tokens import plot_tokens

tokens = hm.configuration("ball", n=60, seed=54) * [1.3, 1.0]
full = hm.simulate(tokens, hm.Hardmax(alpha=0.5), layers=20)
causal = hm.simulate(tokens, hm.Hardmax(alpha=0.5, causal=True), layers=20)
print(f"full:   {full}", f"causal: {causal}", sep="\n")
assert 0 in causal.leaders
assert 0 not in full.leaders

# %%
# The same sixty tokens after twenty layers. With a mask tokens gather around more places, and some of these lie inside
# the cloud: they led when few others were there to be seen.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
view = Projection.of_trajectory(full)
for ax, run, name in zip(axes, (full, causal), ("every token sees all", "token i sees 0 to i"), strict=True):
    plot_tokens(run, 20, ax=ax, projection=view)
    ax.set_title(f"{name}: {len(run.leaders)} leaders", fontsize=12)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
plt.show()
assert len(causal.leaders) > len(full.leaders)

# %%
# Over 200 random clouds: how often does the token at each place of the sequence lead? Without a mask the place does
# not matter. With one it is nearly all that matters.

clouds = np.stack([hm.configuration("gaussian", n=32, seed=seed) for seed in range(200)])
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
shares = {}
for name, masked, colour in (("causal", True, ORANGE), ("full", False, BLUE)):
    runs = hm.simulate(clouds, hm.Hardmax(alpha=0.5, causal=masked), layers=20)
    shares[name] = np.bincount(np.concatenate(runs.leaders), minlength=32) / len(clouds)
    ax.plot(shares[name], color=colour, marker="o", ms=4, label=name)
ax.axhline(0, color=GREY, lw=0.6)
ax.set(xlabel="place in the sequence", ylabel="share of clouds in which it leads")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
for name, share in shares.items():
    print(f"{name}: places 0, 1, 7 and 31 lead in {', '.join(f'{share[i]:.0%}' for i in (0, 1, 7, 31))} of the clouds")
assert shares["causal"][0] == 1
assert shares["causal"][:8].mean() > 2 * shares["causal"][-8:].mean()

# %%
# Leaders never move, with or without a mask. But nothing is decided under a mask, and ``hm.limit`` says why it refuses.

Z = causal.array
assert all((Z[causal.emerged[i] :, i] == Z[-1, i]).all() for i in causal.leaders)
try:
    hm.limit(tokens, hm.Hardmax(alpha=0.5, causal=True))
except hm.InputError as problem:
    print(problem)

# %%
# What to try
# -----------
# Put the tokens in another order, ``tokens[::-1]``: other tokens lead. ``hm.SelfAttention(causal=True)`` and
# ``hm.Sphere(9, causal=True)`` mask the flows. Look for a pattern in where causal followers end: it would be new.
