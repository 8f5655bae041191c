"""Clouds on a line: q k_j is largest at the largest k_j for q > 0, at the smallest for q < 0, and everywhere for q = 0.

No product is taken, so nothing is rounded: the sets are exact.
"""

import numpy as np

from hardmax._types import AnyArray, BoolArray
from hardmax.kernels.sets import Sets


def exact_sets(queries: AnyArray, keys: AnyArray, mask: BoolArray | None = None) -> Sets:
    """C_i = argmax_j q_i k_j for clouds of queries (batch, n, 1) and keys (batch, m, 1); see `batched.exact_sets`."""
    q, k = queries[..., 0], keys[..., 0]
    seen = np.ones(k.shape, bool) if mask is None else mask
    low, high = (np.where(seen, k, edge) for edge in (np.inf, -np.inf))
    # (batch, 3, m) members of the set for negative, zero and positive queries
    table = np.stack([k == low.min(axis=1, keepdims=True), seen, k == high.max(axis=1, keepdims=True)], axis=1)
    table &= seen[:, None]
    kinds = Sets(np.r_[0, np.cumsum(table.sum(axis=2))], np.nonzero(table)[2])
    return kinds.take((np.arange(len(q))[:, None] * 3 + 1 + np.sign(q).astype(np.intp)).reshape(-1))
