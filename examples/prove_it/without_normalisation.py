"""
Third experiment
================

Third experiment: without normalisation tokens grow without bound, exactly by 1 + alpha a layer.

Nothing else changes: the sets C_i, the leaders and the directions are the same.
"""

from fractions import Fraction

import numpy as np

import hardmax as hm

tokens = hm.configuration("triangle")
alpha = Fraction(1, 2)
bounded = hm.simulate(tokens, hm.Hardmax(alpha), layers=60)
growing = hm.simulate(tokens, hm.Hardmax(alpha, normalize=False), layers=60)

for k in (0, 1, 2, 10, 30, 60):
    sizes = [np.abs(run.tokens[k]).max() for run in (bounded, growing)]
    print(f"layer {k:2d}: largest coordinate {sizes[0]:.4f} with normalisation, {sizes[1]:.6g} without")

assert all((growing.exact(k) == bounded.exact(k) * (1 + alpha) ** k).all() for k in range(61))
same = all(np.array_equal(bounded.attention(k), growing.attention(k)) for k in range(61))
print(f"Exactly (1 + alpha)^k times larger at every layer; the same attention: {same}.")
assert same

endless = hm.simulate(tokens, hm.Hardmax(alpha, normalize=False), layers=2000)
print(endless)
