"""Samples that say whether a tree pays, and whether queries may go in the order of the keys."""

import numpy as np

from hardmax._types import FloatArray

FEWEST, MOST = 3, 6  # dimensions in which a tree can pay
LEAST = 1 << 28  # products below which both are done before the choice is
LOOKED_AT = 5000  # keys of a query, in three dimensions, whose scan takes as long as a tree; twice as many in the next
ASKED, KEYS = 8, 1 << 13  # a sample
GLANCE = 1 << 12  # keys by which a shell is known


def pays(queries: FloatArray, keys: FloatArray) -> bool:
    """Whether a tree is expected to be faster: where the scan by falling distance, of `fused`, looks at many keys.

    A sample of keys tells how many are as far as the best of sampled queries.
    """
    (n, d), m = queries.shape, len(keys)
    if not FEWEST <= d <= MOST or n * m < LEAST:
        return False
    some, asked = np.ascontiguousarray(keys[:: -(-m // KEYS)].T), queries[:: -(-n // ASKED)]  # (d, some), (some, d)
    some = some - 0.5 * (some.min(axis=1) + some.max(axis=1))[:, None]
    best = np.einsum("ir,rj->ij", asked, some).max(axis=1)  # without BLAS, whose threads would wait for more
    far, lengths = (np.sqrt(np.einsum("rj,rj->j", x, x)) for x in (some, asked.T))
    share = np.median((far * lengths[:, None] >= best[:, None]).mean(axis=1))
    # A tree is made of all keys and asked by all queries, which takes about the same time.
    return bool(2 * n * m * share > LOOKED_AT * 2 ** (d - FEWEST) * (n + m))


def is_shell(keys: FloatArray) -> bool:
    """Whether some keys are about equally far from zero: then neighbours are seen in about the same direction."""
    squares = np.square(keys[:: -(-len(keys) // GLANCE)]).sum(axis=1)
    return bool(squares.min() > 0.25 * squares.max())
