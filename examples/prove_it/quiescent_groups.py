"""
Quiescent groups under localmax attention
=========================================

Localmax attention (after `arXiv 2509.15958 <https://arxiv.org/abs/2509.15958>`_, of
which the abstract was read) averages all tokens within a tolerance of the largest
product. Groups of tokens that see exactly each other then take the place of leaders:
once every product inside a group leads those outside by more than the tolerance, the
sets are final, and each token tends to the mean of its group. ``hm.limit`` finds such
groups and proves them, in rational arithmetic.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

tokens, alpha = hm.configuration("gaussian", n=30, seed=11).round(2), 0.5
tolerances = (0, 0.3)
limits = [hm.limit(tokens, hm.Localmax(alpha, eps)) for eps in tolerances]
for eps, limit in zip(tolerances, limits, strict=True):
    print(f"eps = {eps}: {limit}")
    assert limit.certified

# %%
# Left and middle: paths of 30 tokens without a tolerance, which is hardmax, and with
# one. Each group has a colour, and the hull of its start is shaded; a star is its
# limit. With hardmax a group is a leader and its followers, and the leader stands
# still; with a tolerance all of a group move to its mean. Right: distances from that
# mean by layer. From the layer of the certificate on they fall by exactly 2/3 per
# layer.

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(12, 4.2), layout="constrained"
)
for ax, eps, limit in zip((left, middle), tolerances, limits, strict=True):
    run = hm.simulate(tokens, hm.Localmax(alpha, eps), layers=36).array
    for group in range(len(limit.points)):
        members, colour = (
            np.flatnonzero(limit.clusters == group),
            COLOURS[group % len(COLOURS)],
        )
        ax.plot(*run[:, members].transpose(2, 0, 1), color=colour, lw=0.8, alpha=0.8)
        if len(members) > 2:
            ax.fill(
                *tokens[members][ConvexHull(tokens[members]).vertices].T,
                color=colour,
                alpha=0.15,
                lw=0,
            )
        if eps:
            distances = np.linalg.norm(run[:, members] - limit.points[group], axis=2)
            right.semilogy(np.maximum(distances, 1e-16), color=colour, lw=0.8)
    ax.scatter(*tokens.T, s=10, color=GREY, zorder=3)
    ax.scatter(
        *limit.points.T,
        s=130,
        marker="*",
        color=COLOURS[: len(limit.points)],
        edgecolor=EDGE,
        zorder=4,
    )
    ax.set(aspect="equal", title=f"eps = {eps}: {len(limit.points)} groups")
right.axvline(
    limits[1].layer,
    color="k",
    ls="--",
    lw=1,
    label=f"certificate, layer {limits[1].layer}",
)
right.set(xlabel="layer", ylim=(1e-7, 5), title="distance from the group's mean")
right.legend(frameon=False, loc="lower left")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The statement on which the proof rests, tested on a run of 30 layers.

verdict = hm.theorems.quiescent(hm.simulate(tokens, hm.Localmax(alpha, 0.3), layers=30))
print(verdict)
assert verdict.holds

# %%
# What to try ----------- A large tolerance, ``eps=20``, leaves one group of all tokens.
# With ``decay=0.7`` the tolerance shrinks, still no faster than groups do; with
# ``decay=0.5`` it shrinks faster, and no theorem covers it.
