"""
A million tokens to their certified limit, and what the choice of a kernel changes
==================================================================================

A million tokens to their certified limit, and what the choice of a kernel changes: the time, and nothing else.

In the plane the token with the largest projection is a vertex of the convex hull, so a layer costs n log h for a hull
of h tokens, where the definition takes n^2 products.
"""

import time

import numpy as np

import hardmax as hm

rule = hm.Hardmax(alpha=0.5)
tokens = hm.configuration("gaussian", n=1_000_000)
hm.limit(tokens[:1000], rule, kernel="hull")  # compiles, or loads what is compiled

start = time.perf_counter()
limit = hm.limit(tokens, rule)
print(f"{time.perf_counter() - start:.1f} s for {len(tokens):,} tokens, by {limit.stats['kernel']!r}")
print(limit)
assert limit.certified

few = tokens[:3000]
one, other = (hm.limit(few, rule, kernel=kernel) for kernel in ("numpy", "hull"))
assert np.array_equal(one.tokens, other.tokens)
assert np.array_equal(one.leaders, other.leaders)
print(f"{len(few):,} tokens: the same limit to the last bit by {one.stats['kernel']!r} and {other.stats['kernel']!r}")
