"""
Second experiment
=================

Second experiment: leaders stand still from the layer at which they emerge, and are the vertices of K.

"""

import numpy as np
from scipy.spatial import ConvexHull

import hardmax as hm

tokens = hm.configuration("ball", n=300, d=3, seed=2)
rule = hm.Hardmax(alpha=0.5)
trajectory = hm.simulate(tokens, rule, layers=40)
print(trajectory)

for leader in hm.leader_table(trajectory)[:5]:
    print(leader)
moved = max(
    np.abs(trajectory.tokens[trajectory.emerged[i] :, i] - trajectory.tokens[-1, i]).max() for i in trajectory.leaders
)
print(f"After emerging, leaders move by {moved}.")
assert moved == 0

limit = hm.limit(tokens, rule)
hull = ConvexHull(limit.points)  # Qhull knows nothing of leaders
print(f"{len(limit.leaders)} leaders; the hull of all limits has {len(hull.vertices)} vertices.")
assert sorted(hull.vertices) == list(range(len(limit.leaders)))
