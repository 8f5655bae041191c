"""
An exact limit, its weights on the leaders, and its radius
==========================================================

A long simulation approximates a limit. A certificate gives the limit as a fraction, a
proof, and its stability under perturbations of the input. If the sets
:math:`\\mathcal{C}_i` are proved to be final, the limits solve a linear system over the
rationals,

.. math:: z_i^\\infty = \\sum_\\ell w_{i\\ell}\\, z_\\ell \\quad \\text{with convex
   weights } w \\text{ on the leaders},

and if no two products were closer than a gap, any perturbation of the input that
changes products by less than the gap has the same history at every layer (a theorem of
this project).
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE

rule = hm.Hardmax(Fraction(1, 2))

# %%
# Ten tokens in mirror pairs, and three on the plane between them. The last one, (0, 3,
# 1), follows two tokens that are not leaders, at every layer. They move, and it moves
# with them, to a point between the two leaders that they follow. Only exact arithmetic
# can prove that the tie lasts.

half = [(-3, 4, -2), (-1, 4, -1), (-4, 1, 1), (-4, 3, -3), (-3, -1, -2)]
tokens = [*half, *((-x, y, z) for x, y, z in half), (0, -2, 2), (0, -3, -2), (0, 3, 1)]
limit = hm.limit(tokens, rule)
print(limit)
print("token 12 ends at", [str(x) for x in limit.exact()[12]])
for leader, weight in zip(limit.leaders, limit.weights[12], strict=True):
    if weight:
        print(f"  = {Fraction(weight)} of token {leader} {tokens[leader]}")
assert limit.exact()[12].tolist() == [0, 3, -3]
followed = hm.simulate(tokens, rule, layers=60).sets(60)[12].tolist()
assert followed == [0, 5]
assert not set(followed) & set(limit.leaders.tolist())
weights, corners = (
    np.vectorize(Fraction, otypes=[object])(limit.weights),
    np.array(tokens, object)[limit.leaders],
)
assert (weights @ corners == limit.exact()).all()

# %%
# A tie ends as soon as one of its tokens is moved, so its radius is 0. A token set
# without ties, such as the one on the left, has a positive one. Right: the share of
# perturbed inputs that have another history, for perturbations of growing size. Below
# one radius there is none, which is proved; it takes some more until the first one
# appears, so the radius is safe and not sharp.

assert limit.radius == 0
tokens = hm.configuration("ball", n=12, seed=2)
stable = hm.limit(tokens, rule)
print(stable)
print(f"radius {stable.radius:.5f}")
layers = stable.layer + 1
history = [
    sets.tolist()
    for k in range(layers)
    for sets in hm.simulate(tokens, rule, layers=layers).sets(k)
]

rng = np.random.default_rng(0)
sizes, shares = np.geomspace(0.2, 300, 14), []
for size in sizes:
    turns = rng.normal(size=(60, *tokens.shape))
    moves = size * stable.radius * turns / np.linalg.norm(turns, axis=-1, keepdims=True)
    runs = [hm.simulate(tokens + move, rule, layers=layers) for move in moves]
    shares.append(
        np.mean(
            [
                history != [s.tolist() for k in range(layers) for s in run.sets(k)]
                for run in runs
            ]
        )
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
hm.draw.plot_limit(stable, ax=left)
right.axvspan(sizes[0], 1, color=COLOURS[2], alpha=0.2, lw=0)
right.semilogx(sizes, shares, "o-", color=COLOURS[0])
right.axvline(1, color=EDGE, lw=1)
right.text(
    0.95,
    0.5,
    "proved: nothing changes",
    rotation=90,
    ha="right",
    va="center",
    color=EDGE,
)
right.set(
    xlabel="size of the perturbation, in radii",
    ylabel="share with another history",
    ylim=(-0.03, 1.03),
)
plt.show()
assert all(share == 0 for size, share in zip(sizes, shares, strict=True) if size < 1)
assert shares[-1] > 0

# %%
# What to try
# -----------
# ``Fraction(1, 3)`` as alpha changes nothing in where token 12 ends: check it. Move it
# to (0, 3, 2). Compute ``stable.radius`` for more tokens: the more tokens there are,
# the closer some products are, and the smaller it is.
