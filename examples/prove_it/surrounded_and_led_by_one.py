"""
Tokens all around 0 with a single leader
========================================

If 0 lies inside the convex hull of the tokens, one might expect at least two leaders,
one on each side. This is false, and four tokens are a counterexample: a token may first
follow a token that is not a leader, move, and then follow the leader. `arXiv 2407.01602
<https://arxiv.org/abs/2407.01602>`_ proves that there is at least one leader. The hull
alone does not imply more.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import hardmax as hm
from hardmax.draw.style import COLOURS, EDGE, GREY

tokens = [(-1, 10), (Fraction(-1, 2), -5), (100, 30), (50, -20)]
rule = hm.Hardmax(Fraction(1, 2))
trajectory = hm.simulate(tokens, rule, layers=12)
limit = hm.limit(tokens, rule)
print(limit)
print(
    "argmax sets at layer 0:",
    {i: members.tolist() for i, members in enumerate(trajectory.sets(0))},
)
print(
    "and at layer 1:             ",
    {i: members.tolist() for i, members in enumerate(trajectory.sets(1))},
)

# %%
# Exact positive weights whose mean of the tokens is 0 prove that 0 is inside.

weights = np.linalg.solve(
    np.vstack([np.array(tokens[:3], float).T, np.ones(3)]), [0, 0, 1]
)
exact = [Fraction(float(w)).limit_denominator(10_000) for w in weights]
mean = [sum(w * z[r] for w, z in zip(exact, tokens, strict=False)) for r in range(2)]
print("weights of tokens 0, 1 and 2 with mean 0:", *exact)
assert mean == [0, 0]
assert min(exact) > 0
assert sum(exact) == 1
assert limit.certified
assert limit.leaders.tolist() == [2]

# %%
# Arrows point to the followed token, the cross is 0. Token 1 points down, away from the
# leader. At layer 0 it follows token 3, which reaches farther down. That pulls it over
# to the right, and from layer 1 on it follows the leader.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), layout="constrained")
for ax, k in zip(axes, (0, 1, 12), strict=True):
    Z = trajectory.array[k]
    for i, members in enumerate(trajectory.sets(k)):
        target = Z[members].mean(axis=0)
        if i not in members:
            ax.annotate(
                "",
                target,
                Z[i],
                arrowprops={"arrowstyle": "->", "color": GREY, "lw": 1.2},
            )
        if k < 12 or i == 2:
            ax.annotate(str(i), Z[i], (6, -13), textcoords="offset points", fontsize=11)
    ax.scatter(*Z.T, s=60, color=COLOURS[0], edgecolors=EDGE, zorder=3)
    ax.scatter(*Z[2], s=230, marker="*", color=COLOURS[1], edgecolors=EDGE, zorder=4)
    ax.scatter(0, 0, marker="+", s=90, color=EDGE, zorder=4)
    ax.set(title=f"layer {k}", xlim=(-12, 118), ylim=(-32, 42), xlabel="$z_1$")
axes[0].set_ylabel("$z_2$")
plt.show()

# %%
# The radius is the distance by which all four tokens may move without any change.

print(f"radius {limit.radius:.3f}")
assert limit.radius > 0.1

# %%
# What to try
# -----------
# Move token 1 to (-0.5, -4) or (-2, -5). With a small step, ``Fraction(1, 100)``, it
# takes longer; does it still end at token 2? Look for three tokens with the same
# property, or for a reason why there are none.
