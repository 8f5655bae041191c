"""The definition, in NumPy: all products of a tile of queries with all keys, and those near the maximum."""

import numpy as np

from hardmax._types import FloatArray
from hardmax.sets import Sets

TILE = 1 << 19  # products held at a time: 4 MB in float64, so that the passes over them stay in cache


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray) -> tuple[Sets, FloatArray]:
    """Find, for each query, every key whose product is within `slack` of the largest.

    C_i = {j : <q_i, k_j> >= max_l <q_i, k_l> - slack_i}

    Parameters
    ----------
    queries : (rows, d) array
    keys : (m, d) array
    slack : (rows,) array, not negative

    Returns
    -------
    sets : Sets
        The near-maximal keys of each row.
    gaps : (rows,) array
        From the maximum down to the best key outside the set; infinite where the set holds every key.
    """
    rows, m = len(queries), len(keys)
    height = max(1, TILE // m)
    sizes = np.empty(rows, np.intp)
    gaps = np.empty(rows)
    members = []
    for top in range(0, rows, height):
        tile = slice(top, min(top + height, rows))
        products = queries[tile] @ keys.T  # (height, m)
        best = products.max(axis=1)  # (height,)
        near = products >= (best - slack[tile])[:, None]  # (height, m)
        sizes[tile] = near.sum(axis=1)
        members.append(np.flatnonzero(near) % m)
        products[near] = -np.inf
        gaps[tile] = best - products.max(axis=1)
    starts = np.r_[0, np.cumsum(sizes)].astype(np.intp)
    return Sets(starts, np.concatenate(members) if members else np.empty(0, np.intp)), gaps
