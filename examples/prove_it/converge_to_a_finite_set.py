"""
First experiment
================

First experiment: distinct tokens, A = I, a small step. They converge to a finite set.

Distances to the certified limit shrink by 1/(1 + alpha) a layer once every token is decided, so the convergence is seen
and not only claimed.
"""

import numpy as np

import hardmax as hm

tokens = hm.configuration("gaussian", n=200, d=2, seed=1)
rule = hm.Hardmax(alpha=0.1)

limit = hm.limit(tokens, rule)
print(limit)
print(f"200 tokens end at {len(limit.points)} points.")

layers = limit.layer + 60
trajectory = hm.simulate(tokens, rule, layers=layers)
distances = np.linalg.norm(trajectory.tokens - limit.tokens, axis=-1).max(axis=1)  # (layers + 1,)
for k in range(0, layers + 1, 20):
    print(f"layer {k:3d}: the farthest token is {distances[k]:.3g} from its limit")

rates = distances[limit.layer + 1 :] / distances[limit.layer : -1]
print(f"rate a layer after the certificate: {rates.min():.12f} to {rates.max():.12f}; 1/1.1 = {1 / 1.1:.12f}")
assert np.allclose(rates, 1 / 1.1, rtol=1e-9)
