"""
One layer of 10,000 tokens: search methods and their times
==========================================================

The fastest search for the largest product depends on the shape of the tokens. Four
methods have one contract: the same sets :math:`\\mathcal{C}_i = \\arg\\max_j \\langle
z_i, z_j \\rangle`, exact, ties included, and never an array of n by n numbers.
``"auto"`` takes the fastest for the shape, and ``stats`` names the method that ran.
This example runs one layer of 10,000 tokens in 2, 3, 32 and 384 dimensions, times the
kernels on this machine, and compares sets with those of the definition.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS

N, DIMENSIONS, rule = 10_000, (2, 3, 32, 384), hm.Hardmax(alpha=0.5)
token_sets = {d: hm.configuration("gaussian", n=N, d=d, seed=1) for d in DIMENSIONS}


# %%
# In the plane the hull is fastest, from three dimensions on "scan", from 16 on
# "symmetric". The definition, "numpy", is timed with the first thousand tokens as
# queries and all 10,000 as keys. Times are of this machine.

runs, micros, names = {}, {"numpy": [], "auto": []}, []
for d, tokens in token_sets.items():
    kernel = "hull" if d == 2 else "scan" if d < 16 else "symmetric"
    hm.simulate(
        tokens[:2000], rule, layers=0, kernel=kernel
    )  # compiles, or loads what is compiled
    start = time.perf_counter()
    runs[d] = hm.simulate(tokens, rule, layers=0)
    middle = time.perf_counter()
    defined = hm.argmax_sets(tokens[:1000], tokens, kernel="numpy")
    end = time.perf_counter()
    micros["auto"].append((middle - start) / N * 1e6)
    micros["numpy"].append((end - middle) / 1000 * 1e6)
    names.append(runs[d].stats["kernel"])
    print(
        f"d = {d:3d}: {names[-1]!r} takes {micros['auto'][-1]:.1f} microseconds a token"
        " here"
    )
    assert all(
        np.array_equal(one, other)
        for one, other in zip(defined, runs[d].sets(0), strict=False)
    )
print("4,000 sets compared with those of the definition: all the same.")
assert names[:2] == ["hull", "scan"]

# %%
# Right: the number of tokens that are followed by some token, themselves included. In
# the plane a handful leads all others; in 384 dimensions each of the 10,000 follows
# itself, and nothing moves.

followed = [
    len({int(j) for members in runs[d].sets(0) for j in members}) for d in DIMENSIONS
]
print("tokens that are followed:", dict(zip(DIMENSIONS, followed, strict=True)))
assert followed == sorted(followed)
assert followed[-1] == N
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
at = np.arange(len(DIMENSIONS))
for shift, kind, colour in ((-0.2, "numpy", COLOURS[5]), (0.2, "auto", COLOURS[0])):
    bars = left.bar(at + shift, micros[kind], 0.38, color=colour, label=f'"{kind}"')
    left.bar_label(
        bars, names if kind == "auto" else ["numpy"] * len(names), fontsize=8
    )
left.set(
    yscale="log",
    ylabel="microseconds a token",
    title="one of 10,000 tokens against all",
)
left.margins(y=0.15)
left.legend(frameon=False, loc="upper left")
bars = right.bar(at, followed, color=COLOURS[1])
right.bar_label(bars, [f"{number:,}" for number in followed], fontsize=9)
right.set(yscale="log", title="tokens with followers", ylim=(1, 4e4))
for ax in (left, right):
    ax.set(xticks=at, xticklabels=[f"d = {d}" for d in DIMENSIONS])
plt.show()

# %%
# What to try
# -----------
# ``kernel="scan"`` in the plane, or tokens on a sphere, where all keys are equally far
# and the bounds of "scan" exclude no key. ``python -m benchmarks`` measures more
# carefully, against FAISS and others.
