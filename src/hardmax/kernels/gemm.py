"""Very many dimensions: tiles of a float32 matrix product, and float64 where those are too close to call.

A tile of products is reduced at once to the maxima of blocks of 64 keys, and each query keeps its few best blocks. With
e a bound of the float32 error, a key within `slack` of the largest product lies in a block whose maximum is at least
best - slack - 2 e. Those blocks, nearly always one, are computed again in float64.

It is for tokens that are their own keys, as they are at first unless there is a matrix A: then products are symmetric,
a tile above the diagonal serves its rows and its columns, and half the arithmetic is enough. Tokens are scaled by the
caller so that no coordinate exceeds 1, and products stay in the range of float32.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.kernels.compiled import entry, share
from hardmax.kernels.sets import Sets

TILE = 1024  # queries, and keys, of a tile: 4 MB of products
BLOCK = 64  # keys that share a maximum, and queries in a part of the work
KEPT = 8  # best blocks of a query
PASS = 8  # multiplications that take as long as a look at a product
FLAGS = {"nnan", "ninf", "nsz"}  # all numbers are finite
SINGLE = 2.0**-24  # rounding of one float32 operation, relative
LOWEST = -3e38  # finite, so that the compiler may assume that all is
TINY = 2.0**-125  # and absolute, with a factor to spare


class Best(NamedTuple):
    """The blocks of keys with the largest maxima, for every query."""

    values: AnyArray  # (n, KEPT) float32 maxima, falling
    blocks: AnyArray  # (n, KEPT) which block


def near_maxima(tokens: FloatArray, slack: FloatArray) -> Sets:
    """As `reference.near_maxima`, for tokens that are their own keys; empty where a row has no clear winner."""
    (n, d), Z = tokens.shape, tokens.astype(np.float32)
    best = Best(np.full((n, KEPT), LOWEST, np.float32), np.zeros((n, KEPT), np.int32))
    buffer = np.empty(TILE * TILE, np.float32)
    for top in range(0, n, TILE):
        for left in range(top, n, TILE):  # tiles on and above the diagonal
            Q, K = Z[top : top + TILE], Z[left : left + TILE]
            tile = np.matmul(Q, K.T, out=buffer[: len(Q) * len(K)].reshape(len(Q), len(K)))
            share(partial(_along_rows, tile, top, left, best), -(-len(Q) // BLOCK), float(PASS * tile.size))
            if left > top:
                share(partial(_along_columns, tile, top, left, best), -(-len(K) // BLOCK), float(PASS * tile.size))
    members = np.empty(n, np.intp)
    look = partial(_look_again, tokens, slack, slack + _error(tokens), best, members)
    share(look, -(-n // BLOCK), float(n * BLOCK * d))
    clear = members >= 0
    return Sets(np.r_[0, np.cumsum(clear)], members[clear])


def _error(tokens: FloatArray) -> FloatArray:
    """Twice how far a float32 product of rounded numbers may be off, and a bit, for each query.

    |fl(q k) - q k| <= (d + 3) u |q|_2 |k|_2 in any order of the sum: d for the sum, two for the rounded numbers, and
    one for what is left of higher order.
    """
    d = tokens.shape[1]
    lengths = np.sqrt(np.einsum("ij,ij->i", tokens, tokens))
    return np.asarray(2.02 * ((d + 3) * SINGLE * lengths.max() * lengths + d * TINY))


@njit(inline="always")
def _keep(value: float, block: int, best: Best, i: int) -> None:
    """Insert a maximum into the falling list of one query."""
    values, blocks, at = best.values[i], best.blocks[i], KEPT - 1
    while at > 0 and values[at - 1] < value:
        values[at], blocks[at] = values[at - 1], blocks[at - 1]
        at -= 1
    values[at], blocks[at] = value, block


@entry(fastmath=FLAGS)
def _along_rows(tile: AnyArray, top: int, left: int, best: Best, parts: IntArray) -> None:
    """Reduce a tile of products to the maxima of blocks of keys, for the queries of 64 rows at a time."""
    height, width = tile.shape
    for part in parts:
        for r in range(part * BLOCK, min(height, (part + 1) * BLOCK)):
            row, i = tile[r], top + r
            for start in range(0, width, BLOCK):
                value = row[start]
                if start + BLOCK <= width:  # a constant length, which the compiler unrolls
                    for c in range(BLOCK):
                        value = max(value, row[start + c])
                else:
                    for c in range(start, width):
                        value = max(value, row[c])
                if value > best.values[i, KEPT - 1]:
                    _keep(value, (left + start) // BLOCK, best, i)


@entry(fastmath=FLAGS)
def _along_columns(tile: AnyArray, top: int, left: int, best: Best, parts: IntArray) -> None:
    """The same for the queries of its columns, whose keys are the rows."""
    height, width = tile.shape
    maxima = np.empty(BLOCK, np.float32)
    for part in parts:
        first, last = part * BLOCK, min(width, (part + 1) * BLOCK)
        for start in range(0, height, BLOCK):
            for c in range(first, last):
                maxima[c - first] = tile[start, c]
            for r in range(start + 1, min(start + BLOCK, height)):
                for c in range(first, last):
                    maxima[c - first] = max(maxima[c - first], tile[r, c])
            for c in range(first, last):
                if maxima[c - first] > best.values[left + c, KEPT - 1]:
                    _keep(maxima[c - first], (top + start) // BLOCK, best, left + c)


@entry(fastmath={"reassoc", "contract", "nsz"})  # the bound holds for any order of summing
def _look_again(
    tokens: FloatArray, slack: FloatArray, unsure: FloatArray, best: Best, members: IntArray, parts: IntArray
) -> None:
    """Float64 in the blocks that may matter: the key that wins by more than the slack, or -1; 64 queries at a time."""
    n, d = tokens.shape
    for part in parts:
        for i in range(part * BLOCK, min(n, (part + 1) * BLOCK)):
            largest, second, winner, count = -np.inf, -np.inf, -1, 0
            while count < KEPT and best.values[i, count] >= best.values[i, 0] - unsure[i]:
                start = best.blocks[i, count] * BLOCK
                for j in range(start, min(start + BLOCK, n)):
                    product, x, y = 0.0, tokens[i], tokens[j]
                    for r in range(d):
                        product += x[r] * y[r]
                    if product > largest:
                        largest, second, winner = product, largest, j
                    else:
                        second = max(second, product)
                count += 1
            complete = count < KEPT or n <= KEPT * BLOCK  # else there may be more blocks than were kept
            members[i] = winner if complete and second < largest - slack[i] else -1
