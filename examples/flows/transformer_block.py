"""
A transformer block is a composition of rules; what depth does to tokens depends on the norm
============================================================================================

A transformer block is a composition of rules; what depth does to tokens depends on the norm.

Random blocks (two softmax heads, feed-forward), with no norm, RMS norm and layer norm after each part: the mean cosine
between tokens by depth. OPEN: no theorem speaks of these; the numbers are one example.
"""

import numpy as np

import hardmax as hm

N, D = 24, 16
rng = np.random.default_rng(0)
tokens = rng.normal(size=(N, D))
heads = [hm.SelfAttention(*rng.normal(size=(3, D, D)) / D**0.5) for _ in range(2)]
attention, forward = hm.MultiHead(heads, shared=True), hm.FeedForward.random(D, seed=1)

depths = [0, 1, 2, 4, 8, 16, 32]
print(f"{'norm':10s}" + "".join(f"{f'layer {k}':>10s}" for k in depths))
for name, norm in (("none", []), ("rms", [hm.Normalize("rms")]), ("layer", [hm.Normalize("layer")])):
    block = hm.Compose([attention, *norm, forward, *norm], dt=0.5)
    trajectory = hm.simulate(tokens, block, layers=depths[-1])
    print(f"{name:10s}" + "".join(f"{trajectory.similarity[k]:10.3f}" for k in depths))
    print(f"{'':10s}{trajectory}")
