"""The definition, in NumPy: all products of a tile of queries with all keys, and those near the maximum."""

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.kernels.sets import Sets

TILE = 1 << 18  # products held at a time: 2 MB in float64, so that the passes over them stay in cache


def near_maxima(
    queries: FloatArray, keys: FloatArray, slack: FloatArray, limits: IntArray | None = None
) -> tuple[Sets, FloatArray]:
    """Find, for each query, every key whose product is within `slack`, (rows,) and not negative, of the largest.

    C_i = {j : <q_i, k_j> >= max_l <q_i, k_l> - slack_i}

    With `limits` (rows,) query i sees the first limits[i] keys alone, at least one. Returns the sets, and the gaps
    (rows,) from each maximum down to the best key outside the set; infinite where the set holds every key.
    """
    rows, m = len(queries), len(keys)
    height = max(1, min(rows, TILE // m))
    sizes = np.empty(rows, np.intp)
    gaps = np.empty(rows)
    members = [np.empty(0, np.intp)]
    tile, near_tile = np.empty((height, m)), np.empty((height, m), bool)  # filled anew for each tile of queries
    for top in range(0, rows, height):
        these = slice(top, min(top + height, rows))
        products = np.matmul(queries[these], keys.T, out=tile[: these.stop - top])  # (height, m)
        if limits is not None:
            products[np.arange(m) >= limits[these, None]] = -np.inf
        best = products.max(axis=1)  # (height,)
        near = np.greater_equal(products, (best - slack[these])[:, None], out=near_tile[: len(best)])
        found = np.flatnonzero(near)
        owners = found // m
        sizes[these] = np.bincount(owners, minlength=len(best))
        members.append(found - owners * m)
        products.reshape(-1)[found] = -np.inf
        gaps[these] = best - products.max(axis=1)
    starts = np.r_[0, np.cumsum(sizes)].astype(np.intp)
    return Sets(starts, np.concatenate(members)), gaps
