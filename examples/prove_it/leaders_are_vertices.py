"""
Leaders never move, and are the vertices of the limiting polytope
=================================================================

Two statements of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ are central. A
token that follows itself alone, :math:`\\mathcal{C}_i = \\{i\\}`, stands still from
that layer on. And the tokens that do so are exactly the vertices of the convex hull of
all limits. The second is checked independently: Qhull computes the vertices from the
limits alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.draw.style import COLOURS

# %%
# Tokens on a sphere, and a matrix for which not all of them lead.

tokens = hm.configuration("sphere", n=200, d=3, seed=2)
rule = hm.Hardmax(alpha=0.5, A=np.diag([1, 0.5, 0.25]))
trajectory = hm.simulate(tokens, rule, layers=40)
assert trajectory.emerged.max() > 0
print(trajectory)
for leader in hm.leader_table(trajectory)[:3]:
    print(leader)

# %%
# Left the limit in space: lines join tokens with their leaders, shaded is the hull.
# Right, for each layer, how many leaders have emerged and how many tokens are decided.
# Most leaders are there from the start; some emerge later, when the tokens in front of
# them have left.

figure = plt.figure(figsize=(10.5, 4.8))
space = figure.add_axes((0.0, 0.02, 0.5, 0.92), projection="3d")
limit = hm.limit(tokens, rule)
hm.draw.plot_limit(limit, ax=space)
ax = figure.add_axes((0.6, 0.14, 0.37, 0.76))
at = np.arange(limit.layer + 3)
emerged = [(trajectory.emerged[trajectory.leaders] <= k).sum() for k in at]
decided = [((trajectory.decided >= 0) & (trajectory.decided <= k)).sum() for k in at]
ax.step(
    at,
    decided,
    where="post",
    color=COLOURS[0],
    lw=2,
    label="tokens whose limit is proved",
)
ax.step(
    at, emerged, where="post", color=COLOURS[1], lw=2, label="leaders that have emerged"
)
ax.set(xlabel="layer", ylim=(0, 210), title="200 tokens")
ax.legend(frameon=False, loc="center right")
plt.show()

# %%
# Both statements, as numbers.

emergence = zip(trajectory.leaders, trajectory.emerged[trajectory.leaders], strict=True)
moved = max(
    np.abs(trajectory.array[k:, i] - trajectory.array[-1, i]).max()
    for i, k in emergence
)
print(f"After emerging, leaders move by {moved}.")
assert moved == 0

hull = ConvexHull(limit.points)  # computed from the limits alone
print(
    f"{len(limit.leaders)} leaders; the hull of all limits has {len(hull.vertices)}"
    " vertices."
)
assert sorted(hull.vertices) == list(
    range(len(limit.leaders))
)  # the leaders' points come first
assert hm.theorems.leaders(trajectory).holds

# %%
# What to try
# -----------
# In ``d=2`` leaders can be counted by eye. Put a token halfway between two leaders and
# the limits have one more point, which is no vertex: see Figure 4 in this gallery.
