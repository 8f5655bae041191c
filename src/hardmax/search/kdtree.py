"""Few dimensions, keys that are nearly equally far from their centre: SciPy's k-d tree
on lifted keys.

With M the largest |k|, the keys (k, sqrt(M^2 - |k|^2)) all have length M, and for a
query p of length M

    |(p, 0) - (k, sqrt(M^2 - |k|^2))|^2 = 2 M^2 - 2 <p, k>,

so the largest product belongs to the nearest key. On a sphere `scan` must compute all
products; for n = 100,000 and d = 3 the tree is 40 times as fast. Where lengths differ,
or no key is near the direction of a query, a tree visits nearly all keys: `pays` finds
out by a sample, which decides about time alone.
"""

import numpy as np
from scipy.spatial import cKDTree

from hardmax._exact import UNIT
from hardmax._types import FloatArray
from hardmax.search.sets import MAX_MEMBERS, Sets, TooMany

MIN_DIMENSIONS, MAX_DIMENSIONS = 3, 6
MIN_PRODUCTS = 1 << 28  # n times m below which the scan is done first
MIN_LENGTH = (
    1e-100  # shorter queries, and keys closer to their centre, are left to the scan
)
SAMPLED_QUERIES, SAMPLED_KEYS = 8, 1 << 13
MIN_LENGTH_RATIO, MIN_COSINE = (
    0.9,
    0.8,
)  # of sampled keys, and of sampled queries with the best of these


def pays(queries: FloatArray, keys: FloatArray) -> bool:
    """Return whether the tree is expected to be faster than a scan."""
    (n, d), m = queries.shape, len(keys)
    if not MIN_DIMENSIONS <= d <= MAX_DIMENSIONS or n * m < MIN_PRODUCTS:
        return False
    some, asked = keys[:: -(-m // SAMPLED_KEYS)], queries[:: -(-n // SAMPLED_QUERIES)]
    some = some - _centre(some)
    lengths = np.sqrt(np.einsum("ij,ij->i", some, some))
    if lengths.min() < max(MIN_LENGTH_RATIO * lengths.max(), MIN_LENGTH):
        return False
    best = np.einsum("ir,jr->ij", asked, some).max(
        axis=1
    )  # without BLAS, whose threads would spin for a while
    size = np.sqrt(np.einsum("ij,ij->i", asked, asked)) * lengths.max()
    return bool(np.median(best - MIN_COSINE * size) >= 0)


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray) -> Sets:
    """Return `reference.near_maxima`; empty sets for queries near zero, or for all
    where keys are near one point.

    Computed squares of distances are off by less than 8 (d + 8) units of rounding of
    M^2, an additive constant per query apart. A key within the slack by some order of
    the float64 sum is within twice the slack exactly.
    """
    (n, d), sizes = queries.shape, np.zeros(len(queries), np.intp)
    points = keys - _centre(keys)
    squares = np.einsum("ij,ij->i", points, points)
    M = float(np.sqrt(squares.max()))
    lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries))
    rows = (
        np.flatnonzero(lengths > MIN_LENGTH) if M > MIN_LENGTH else np.empty(0, np.intp)
    )
    if not len(rows):
        return Sets(np.zeros(n + 1, np.intp), np.empty(0, np.intp))
    lift = np.sqrt(np.maximum(M * M - squares, 0.0))
    tree = cKDTree(np.c_[points, lift], balanced_tree=False)
    scale = M / lengths[rows]
    lifted = np.c_[queries[rows] * scale[:, None], np.zeros(len(rows))]
    distances, nearest = tree.query(lifted, workers=-1)
    radii = np.sqrt(
        distances**2 + 4 * scale * slack[rows] + 16 * (d + 8) * UNIT * M * M
    )
    sizes[rows] = tree.query_ball_point(lifted, radii, return_length=True, workers=-1)
    several = np.flatnonzero(sizes[rows] > 1)
    if sizes.sum() > MAX_MEMBERS and n > 1:
        raise TooMany
    first = np.full(n, -1)
    first[rows] = nearest
    members: list[np.ndarray[tuple[int], np.dtype[np.intp]]] = []
    for i, near in zip(
        several, tree.query_ball_point(lifted[several], radii[several]), strict=True
    ):
        row, found = rows[i], np.sort(np.asarray(near, np.intp))
        products = keys[found] @ queries[row]
        found = found[products >= products.max() - slack[row]]
        first[row], sizes[row] = found[0], len(found)
        members += [found] if len(found) > 1 else []
    return Sets.from_first(
        first, sizes, np.concatenate(members) if members else np.empty(0, np.intp)
    )


def _centre(keys: FloatArray) -> FloatArray:
    """Return the middle of the box around the keys: (d,)."""
    low, high = keys.min(axis=0), keys.max(axis=0)
    return np.asarray(low + 0.5 * (high - low))
