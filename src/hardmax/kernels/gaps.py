"""By how much each maximum leads all other keys, without all products.

The keys that win somewhere are numbered. Two different numbers differ in some binary digit, so the best of the other
winners is the best among those that differ from the own in the first digit, or in the second, and so on: for w winners
log2 w searches on each side of a digit, and one among the keys that never win. In the plane w is the number of vertices
of the hull at most. Nothing is assumed of where keys lie, so what the search promises is all that the gaps rest on.
"""

import numpy as np

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.kernels.search import Search
from hardmax.kernels.sets import Sets, TooMany


def gaps_of(queries: FloatArray, keys: FloatArray, slack: FloatArray, winners: IntArray) -> FloatArray:
    """From each maximum, at `winners` (rows,), down to the best other key: (rows,), infinite where there is none."""
    won, number = np.unique(winners, return_inverse=True)
    never = np.ones(len(keys), bool)
    never[won] = False
    second = _best(queries, keys[never], slack)
    for digit in range((len(won) - 1).bit_length()):
        upper = (np.arange(len(won)) >> digit & 1).astype(bool)
        for side in (upper, ~upper):
            _raise(second, side[number], queries, keys[won[~side]], slack)
    return np.asarray(np.einsum("ij,ij->i", queries, keys[winners]) - second)


def _raise(second: FloatArray, rows: BoolArray, queries: FloatArray, keys: FloatArray, slack: FloatArray) -> None:
    """Let some rows know these keys, too."""
    second[rows] = np.maximum(second[rows], _best(queries[rows], keys, slack[rows]))


def _best(queries: FloatArray, keys: FloatArray, slack: FloatArray) -> FloatArray:
    """The largest product of each query: (rows,). It is among the near-maxima, whoever finds these."""
    if not (len(queries) and len(keys)):
        return np.full(len(queries), -np.inf)
    try:
        near: Sets = Search().near_maxima(queries, keys, slack)[0]
    except TooMany:
        half = len(queries) // 2
        return np.r_[_best(queries[:half], keys, slack[:half]), _best(queries[half:], keys, slack[half:])]
    owners = np.repeat(np.arange(len(queries)), near.sizes)
    products = np.einsum("ij,ij->i", queries[owners], keys[near.members])
    return np.asarray(np.maximum.reduceat(products, near.starts[:-1]))
