"""Whether a tree pays: only where the scan by falling distance, of `fused`, would look at many keys."""

import numpy as np

from hardmax._types import FloatArray

FEWEST, MOST = 3, 6  # dimensions in which a tree can pay
LEAST = 1 << 28  # products below which both are done before the choice is
LOOKED_AT = 5000  # keys of a query, in three dimensions, whose scan takes as long as a tree; twice as many in the next
ASKED, KEYS = 8, 1 << 13  # a sample


def pays(queries: FloatArray, keys: FloatArray) -> bool:
    """Whether a tree is expected to be faster: a sample of keys that are as far as the best of sampled queries."""
    (n, d), m = queries.shape, len(keys)
    if not FEWEST <= d <= MOST or n * m < LEAST:
        return False
    some, asked = keys[:: -(-m // KEYS)], queries[:: -(-n // ASKED)]
    some = some - 0.5 * (some.min(axis=0) + some.max(axis=0))
    best = (asked @ some.T).max(axis=1)
    far, lengths = (np.sqrt(np.einsum("ij,ij->i", x, x)) for x in (some, asked))
    share = np.median((far * lengths[:, None] >= best[:, None]).mean(axis=1))
    # A tree is made of all keys and asked by all queries, which takes about the same time.
    return bool(2 * n * m * share > LOOKED_AT * 2 ** (d - FEWEST) * (n + m))
