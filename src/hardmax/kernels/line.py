"""Clouds on a line: q k_j is largest at the largest k_j for q > 0, at the smallest for q < 0, and everywhere for q = 0.

No product is taken, so nothing is rounded: the sets are exact.
"""

import numpy as np

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.kernels.chosen import Chosen


def choose(queries: AnyArray, keys: AnyArray, mask: BoolArray | None = None) -> Chosen:
    """C_i = argmax_j q_i k_j for clouds of queries (batch, n, 1) and keys (batch, m, 1); see `batched.choose`."""
    q, k = queries[..., 0], keys[..., 0]
    seen = np.ones(k.shape, bool) if mask is None else mask
    # (batch, 3, m) members of the set for negative, zero and positive queries
    low, high = (np.where(seen, k, edge) for edge in (np.inf, -np.inf))
    ends = [seen & (k == low.min(axis=1, keepdims=True)), seen, seen & (k == high.max(axis=1, keepdims=True))]
    table = np.stack(ends, axis=1)
    which = (np.arange(len(q))[:, None] * 3 + 1 + np.sign(q).astype(np.intp)).reshape(-1)  # row of the table
    counts = table.sum(axis=2).reshape(-1)
    first = np.where(counts > 0, table.argmax(axis=2).reshape(-1), -1)
    sizes = counts[which]
    tied = np.flatnonzero(sizes > 1)
    starts, members = _written_out(table.reshape(len(counts), -1), counts, which[tied])
    return Chosen(first[which], sizes, tied, starts, members)


def _written_out(table: BoolArray, counts: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Members of some rows of a table, one after another."""
    begins = np.concatenate([[0], np.cumsum(counts)])
    places = np.nonzero(table)[1]
    starts = np.concatenate([[0], np.cumsum(counts[rows])])
    at = np.repeat(begins[rows] - starts[:-1], counts[rows]) + np.arange(starts[-1])
    return starts, places[at]
