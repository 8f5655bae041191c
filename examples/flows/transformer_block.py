"""
Random transformer blocks align all tokens
==========================================

A transformer block is a composition of rules: attention, a norm, a feed-forward part, a
norm. The theorems are about attention alone. Here random blocks of two softmax heads
and a feed-forward part run without a norm, with RMS norm and with layer norm. The mean
cosine between tokens is measured by depth: 1 means that all tokens have one direction.
No theorem covers such blocks, so this is an example of an **open** question.
"""

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

N, D, DEPTH = 24, 16, 32
rng = np.random.default_rng(0)
tokens = rng.normal(size=(N, D))
heads = [hm.SelfAttention(*rng.normal(size=(3, D, D)) / D**0.5) for _ in range(2)]
attention, forward = hm.MultiHead(heads, shared=True), hm.FeedForward.random(D, seed=1)

# %%
# ``Compose`` puts rules one after another. Flows among them take one Euler step of
# length ``dt``, which is what a residual connection does.

runs = {}
for name, norm in (
    ("no norm", []),
    ("RMS norm", [hm.Normalize("rms")]),
    ("layer norm", [hm.Normalize("layer")]),
):
    block = hm.Compose([attention, *norm, forward, *norm], dt=0.5)
    runs[name] = hm.simulate(tokens, block, layers=DEPTH)
    print(f"{name}: {runs[name]}")

# %%
# Left: the mean cosine by depth. Right: the mean length of the tokens.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for (name, run), colour in zip(runs.items(), COLOURS, strict=False):
    left.plot(run.similarity, color=colour, lw=2, label=name)
    right.plot(
        np.linalg.norm(run.array, axis=-1).mean(axis=1), color=colour, lw=2, label=name
    )
left.set(xlabel="layer", ylabel="mean cosine between tokens", ylim=(-0.02, 1.02))
right.set(xlabel="layer", ylabel="mean length of a token", yscale="log")
left.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# With any norm, and with none, the tokens of these blocks end up in one direction; the
# norm changes how fast, and without one they grow by orders of magnitude on the way.
# After 32 layers tokens hardly differ in direction.

for name, run in runs.items():
    print(
        f"{name:10s} "
        + "  ".join(f"{run.similarity[k]:.2f} at {k}" for k in (0, 2, 8, 32))
    )
    assert run.similarity[-1] > 0.99
lengths = {
    name: np.linalg.norm(run.array[-1], axis=-1).mean() for name, run in runs.items()
}
assert lengths["no norm"] > 1000 * lengths["RMS norm"]

# %%
# What to try
# -----------
# Other seeds, more heads, ``hm.Hardmax`` in place of ``hm.SelfAttention``; a norm
# before each part instead of after it, ``hm.Compose([*norm, attention, *norm,
# forward])``; ``causal=True`` in the heads.
