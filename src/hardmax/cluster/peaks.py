"""How many clusters there are: peaks of the density, beyond those that chance makes in a cloud without clusters.

The density around a point falls like s^-D with the distance s of its last neighbour, D the dimension of the cloud. A
peak is higher than its neighbours; its prominence is how far one has to go down from it, in the logarithm, on the way
to a higher one (Chazal, Guibas, Oudot and Skraba 2013). With k neighbours the logarithm is off by about 1 / sqrt(k), so
clouds without clusters have peaks, too, and how prominent is known from simulations (`CHANCE`).
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from hardmax._types import FloatArray, IntArray
from hardmax.cluster.graph import Graph


def dimension(near: sparse.csr_array) -> float:
    """The dimension of the cloud, from how distances of neighbours grow (Levina and Bickel 2004).

    1/D is the median over points of the mean of log(s / distance) over their neighbours but the last, corrected for
    their number; the median, because points that are nearly equal would make the mean anything.
    """
    counts = np.diff(near.indptr)
    k = int(counts.max(initial=0))
    if k < 3:
        return 1.0
    full = np.flatnonzero(counts == k)
    logs = np.log(near.data[near.indptr[full][:, None] + np.arange(k)])  # (points, k)
    inverse = float(np.median((logs.max(axis=1, keepdims=True) - logs).sum(axis=1) / (k - 2)))
    return 1.0 / inverse if inverse > 0 else 1.0


def prominences(graph: Graph) -> tuple[IntArray, FloatArray]:
    """The peaks of the density and their prominences, the largest first: the highest peak's is infinite."""
    peaks, _, found, _ = _persistence(graph)
    falling = np.argsort(-found, kind="stable")
    return peaks[falling], found[falling]


def watershed(graph: Graph, count: int) -> IntArray | None:
    """Return (n,) the basins of the `count` most prominent peaks as integers from 0; None if there are fewer peaks.

    The basin of each other peak belongs to the peak that ended it, which is more prominent.
    """
    peaks, basin, found, joins = _persistence(graph)
    if len(peaks) < count:
        return None
    number = np.empty(len(peaks), np.intp)
    number[np.argsort(-found, kind="stable")] = np.arange(len(peaks))
    top = np.where(number < count, np.arange(len(peaks)), joins)
    while (top[top] != top).any():
        top = top[top]
    return number[top[basin]]


def _persistence(graph: Graph) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return the peaks, the basin of each point, and the prominence of each peak and the peak that ends it."""
    assert graph.near is not None
    assert graph.scales is not None
    density = -dimension(graph.near) * np.log(graph.scales)  # (n,)
    n = len(density)
    order = np.argsort(density, kind="stable")
    rank = np.empty(n, np.intp)
    rank[order] = np.arange(n)
    near = sparse.csr_array(graph.near + graph.near.T)
    top = _climb(near, rank, order)
    peaks, basin = np.unique(top, return_inverse=True)
    i, j = np.repeat(np.arange(n), np.diff(near.indptr)), near.indices
    level = np.minimum(density[i], density[j])
    a, b, far = graph.joined  # between them the density is that of a ball as large as the gap
    gap = np.minimum(np.minimum(density[a], density[b]), -dimension(graph.near) * np.log(far))
    passes = _passes(basin[np.r_[i, a]], basin[np.r_[j, b]], np.r_[level, gap], len(peaks))
    return peaks, basin, *_fallen(passes, density[peaks], rank[peaks])


def _climb(near: sparse.csr_array, rank: IntArray, order: IntArray) -> IntArray:
    """(n,) the peak that is reached from each point by going to the highest neighbour."""
    up = rank.copy()
    filled = np.flatnonzero(np.diff(near.indptr))
    if len(filled):
        up[filled] = np.maximum(up[filled], np.maximum.reduceat(rank[near.indices], near.indptr[filled]))
    up = order[up]
    while (up[up] != up).any():
        up = up[up]
    return up


def _passes(a: IntArray, b: IntArray, level: FloatArray, count: int) -> sparse.coo_array:
    """The tree of highest passes between basins, as how deep each lies below the highest one, and 1."""
    apart = a != b
    a, b, level = np.minimum(a, b)[apart], np.maximum(a, b)[apart], level[apart]
    order = np.lexsort([-level, b, a])
    a, b, level = a[order], b[order], level[order]
    first = np.flatnonzero(np.r_[True, (a[1:] != a[:-1]) | (b[1:] != b[:-1])] if len(a) else [])
    depth = level.max(initial=0.0) - level[first] + 1.0
    depth = np.where(np.isfinite(depth), depth, np.finfo(np.float64).max)
    tree = minimum_spanning_tree(sparse.csr_array((depth, (a[first], b[first])), shape=(count, count))).tocoo()
    tree.data = level.max(initial=0.0) + 1.0 - tree.data
    return tree


def _fallen(passes: sparse.coo_array, height: FloatArray, rank: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the prominence of each peak, and the peak that ends it, which is itself for the highest.

    At each pass, from the highest down, the lower of two peaks ends.
    """
    parent = list(range(len(height)))

    def root(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    found, joins = np.full(len(height), np.inf), np.arange(len(height))
    for e in np.lexsort([passes.col, passes.row, -passes.data]):
        x, y = root(int(passes.row[e])), root(int(passes.col[e]))
        if rank[x] < rank[y]:
            x, y = y, x
        found[y] = height[y] - passes.data[e]
        parent[y] = joins[y] = x
    return found, joins
