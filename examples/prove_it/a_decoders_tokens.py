"""
A decoder's tokens
==================

In a decoder token :math:`i` attends only to tokens 0 to :math:`i`. Its set becomes

.. math:: C_i = \\arg\\max_{j \\le i} \\langle A z_i, z_j \\rangle,

so the first token always leads, and early tokens lead more often than late ones. This
project proves that causal tokens converge (C0), that almost every input is decided at a
finite layer (C2), and by which test (C1). A sequence that grows keeps the limits of its
prefix, because earlier tokens do not see later ones.
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
# The same sixty tokens after twenty layers. With a mask there are more clusters, and
# some of their leaders lie inside the hull: few tokens precede them in the sequence.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
view = Projection.of_trajectory(full)
for ax, run, name in zip(
    axes, (full, causal), ("every token sees all", "token i sees 0 to i"), strict=True
):
    plot_tokens(run, 20, ax=ax, projection=view)
    ax.set_title(f"{name}: {len(run.leaders)} leaders", fontsize=12)
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
plt.show()
assert len(causal.leaders) > len(full.leaders)

# %%
# How often the token at each position of the sequence leads, over 200 random token
# sets. Without a mask the position does not matter. With a mask it matters most.

token_sets = np.stack(
    [hm.configuration("gaussian", n=32, seed=seed) for seed in range(200)]
)
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
shares = {}
for name, masked, colour in (("causal", True, ORANGE), ("full", False, BLUE)):
    runs = hm.simulate(token_sets, hm.Hardmax(alpha=0.5, causal=masked), layers=20)
    shares[name] = np.bincount(np.concatenate(runs.leaders), minlength=32) / len(
        token_sets
    )
    ax.plot(shares[name], color=colour, marker="o", ms=4, label=name)
ax.axhline(0, color=GREY, lw=0.6)
ax.set(
    xlabel="position in the sequence", ylabel="share of token sets in which it leads"
)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
for name, share in shares.items():
    found = ", ".join(f"{share[i]:.0%}" for i in (0, 1, 7, 31))
    print(f"{name}: positions 0, 1, 7 and 31 lead in {found} of the token sets")
assert shares["causal"][0] == 1
assert shares["causal"][:8].mean() > 2 * shares["causal"][-8:].mean()

# %%
# Where all tokens end is proved. The tokens arrive one by one, as in a decoder that
# writes a text. Limits of earlier tokens do not change, and only the new token is
# searched for.

stream, sizes = hm.CausalLimit(causal.rule), []
for token in tokens:
    stream.append(token)
    sizes.append(len(stream.limit().leaders))
limit = stream.limit()
print(limit)
assert limit.certified
assert limit == hm.limit(tokens, causal.rule)
unmasked = hm.limit(tokens, full.rule)
same = (limit.tokens == unmasked.tokens).all(axis=1)
print(f"{same.sum()} of {len(tokens)} tokens end where they end without the mask")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
hm.draw.plot_limit(limit, ax=left)
right.step(range(1, len(sizes) + 1), sizes, where="post", color=ORANGE)
right.set(xlabel="tokens so far", ylabel="leaders", title="a limit after each token")
right.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The proof is a document, which a program of 250 lines checks without this library.

document = limit.certificate()
print(hm.check_certificate(document))
assert hm.check_certificate(document).accepted

# %%
# What to try
# -----------
# Put the tokens in another order, ``tokens[::-1]``: other tokens lead. Give a tree of
# tokens, each of which sees its ancestors, as ``attention_mask=``. A sliding window is
# refused: look at the two tokens that the error names.
