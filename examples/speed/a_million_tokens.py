"""
The certified limit of a million tokens
=======================================

By the definition a layer takes :math:`n^2` products, which is :math:`10^{12}` for a
million tokens. In the plane most of them need not be computed: the token with the
largest projection on a direction is a vertex of the convex hull, which has few, and is
found by its angle. So a layer costs :math:`n \\log h` for a hull of h tokens, and
decided tokens need no search. The method changes the time, not the result.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

rule = hm.Hardmax(alpha=0.5)
tokens = hm.configuration("gaussian", n=1_000_000)
hm.limit(tokens[:1000], rule, kernel="hull")  # compiles, or loads what is compiled

start = time.perf_counter()
limit = hm.limit(tokens, rule)
print(
    f"{time.perf_counter() - start:.1f} s for {len(tokens):,} tokens, by"
    f" {limit.stats['kernel']!r}"
)
print(limit)
assert limit.certified
assert len(limit.leaders) == 13

# %%
# Left: the density of the tokens, and the leaders. Right: the number of tokens that end
# at each leader.

sizes = np.bincount(limit.clusters)
order = np.argsort(np.arctan2(*limit.points.T[::-1]))
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.7), layout="constrained")
left.hexbin(*tokens.T, gridsize=90, bins="log", cmap="Greys", linewidths=0)
corners = limit.points[: len(limit.leaders)]
left.plot(
    *corners[np.append(limit.polytope.outline, limit.polytope.outline[0])].T,
    color=GREY,
    lw=1,
)
left.scatter(*corners.T, s=160, marker="*", color=COLOURS[1], edgecolors=EDGE, zorder=3)
for place, p in enumerate(order, 1):
    outwards = 14 * limit.points[p] / np.linalg.norm(limit.points[p])
    left.annotate(
        str(place),
        limit.points[p],
        outwards,
        textcoords="offset points",
        ha="center",
        va="center",
    )
left.margins(0.1)
left.set(aspect="equal", xlabel="$z_1$", ylabel="$z_2$")
right.bar(range(1, len(order) + 1), sizes[order] / 1000, color=COLOURS[0])
right.set(
    xlabel="leader",
    ylabel="thousands of tokens that end there",
    xticks=range(1, len(order) + 1),
)
plt.show()

# %%
# With another kernel the limit is the same to the last bit. "numpy" is the definition,
# as it is written.

few = tokens[:3000]
one, other = (hm.limit(few, rule, kernel=kernel) for kernel in ("numpy", "hull"))
assert np.array_equal(one.tokens, other.tokens)
assert np.array_equal(one.leaders, other.leaders)
print(
    f"{len(few):,} tokens: the same limit to the last bit by {one.stats['kernel']!r}"
    f" and {other.stats['kernel']!r}"
)

# %%
# What to try
# -----------
# Ten million tokens, if you have the memory. A uniform ball instead of a Gaussian has
# more corners, and so more leaders. In three dimensions "scan" runs, with bounds that
# exclude other tokens: start with 100,000.
