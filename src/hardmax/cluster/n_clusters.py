"""Estimate the number of clusters: density peaks that are more prominent than chance produces without clusters.

The density at a point falls like s^-D with the distance s of its last neighbour, D the dimension of the data. A peak is
denser than its neighbours; its prominence is the descent in the logarithm on the way to a higher peak (Chazal, Guibas,
Oudot and Skraba 2013). With k neighbours the logarithm has an error of about 1 / sqrt(k), so data without clusters have
peaks, too. `chance_prominence` bounds their prominence; its constants come from simulations.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from hardmax._types import AnyArray, FloatArray, IntArray, Matrix
from hardmax.cluster.graph import Graph
from hardmax.cluster.neighbours import NeighbourSearch
from hardmax.cluster.spectral import MAX_COMPONENTS, SpectralEmbedding

BASE, GROWTH = 1.0, 0.58  # prominence of the second peak by chance, times sqrt(neighbours): BASE + GROWTH log n
FLAT_DIMENSION, MIN_FACTOR = 2.0, 0.7  # in more dimensions it falls like sqrt(FLAT_DIMENSION / D), to MIN_FACTOR
STEEP_DIMENSION = 20.0  # towards which it rises again: D log s has a large error
MIN_SPECTRAL_DIMENSION = 3.0  # from which slow modes are counted: curves have some without clusters
MAX_RATE_RATIO = 0.8  # of a slow mode to the slowest one without clusters
N_DRAWS, MAX_DRAWN = 5, 1000  # simulated data sets without clusters, and their points
MAX_SAMPLED = 2000  # points from which principal axes are computed


def count_clusters(graph: Graph, Y: Matrix | None) -> int:
    """Return the number of peaks beyond chance; where it is one, the number of slow modes.

    1 means no clusters. `Y` are the points, where there are coordinates.
    """
    assert graph.distances is not None
    dimension = estimate_dimension(graph.distances)
    lengths = _principal_lengths(Y) if isinstance(Y, np.ndarray) else None
    n_peaks = _count_peaks(graph, lengths)
    n = graph.distances.shape[0]
    if n_peaks > 1 or dimension < MIN_SPECTRAL_DIMENSION or lengths is None or n <= MAX_COMPONENTS:
        return max(1, n_peaks)
    return _count_slow_modes(graph, lengths[: max(1, round(dimension))], dimension)


def has_one_peak(graph: Graph, Y: Matrix | None) -> bool:
    """Return whether the density has one peak beyond chance, in so few dimensions that clusters would make more."""
    if graph.distances is None or graph.distances.shape[0] <= MAX_COMPONENTS:
        return False
    if estimate_dimension(graph.distances) >= MIN_SPECTRAL_DIMENSION:
        return False
    return _count_peaks(graph, _principal_lengths(Y) if isinstance(Y, np.ndarray) else None) <= 1


def chance_prominence(n: int, k: int, dimension: float, width: float = np.inf) -> float:
    """Return the prominence that the second peak of n points without clusters rarely exceeds, with k neighbours.

    `dimension` is the local one, and `width` that of the whole: a valley of a long point set has no way around it.
    `python -m benchmarks chance` prints how often it is exceeded.
    """
    factor = np.clip(max(np.sqrt(FLAT_DIMENSION / min(dimension, width)), dimension / STEEP_DIMENSION), MIN_FACTOR, 1.0)
    return float((BASE + GROWTH * np.log(n)) * factor / np.sqrt(k))


def _count_peaks(graph: Graph, lengths: FloatArray | None) -> int:
    assert graph.distances is not None
    n, k = graph.distances.shape[0], int(np.diff(graph.distances.indptr).max())
    width = np.inf if lengths is None else _effective_width(lengths)
    bound = chance_prominence(n, k, estimate_dimension(graph.distances), width)
    return int((find_peaks(graph)[1] > bound).sum())


def _count_slow_modes(graph: Graph, lengths: FloatArray, dimension: float) -> int:
    """Return 1 plus the number of eigenvectors with rates clearly below those of Gaussian samples of that shape.

    In many dimensions few points make no density peaks, as all neighbours are at about the same distance. Heat still
    stays in clusters. The rate at which it leaves a set without clusters falls like n^(-2/D) (Weyl).
    """
    assert graph.distances is not None
    n, k = graph.weights.shape[0], int(np.diff(graph.distances.indptr).max())
    random, rates = np.random.default_rng(0), []
    for _ in range(N_DRAWS):
        sample = random.standard_normal((min(n, MAX_DRAWN), len(lengths))) * lengths
        sampled = Graph.of_points(NeighbourSearch(sample, k))
        rates.append(1 - SpectralEmbedding.of(sampled.weights, 3).values[1])
    bound = MAX_RATE_RATIO * min(rates) * (min(n, MAX_DRAWN) / n) ** (2 / dimension)
    return 1 + int((1 - SpectralEmbedding.of(graph.weights, MAX_COMPONENTS).values[1:] < bound).sum())


def _principal_lengths(Y: AnyArray) -> FloatArray:
    """Return the singular values of the centred points, falling; of many points, from an even sample."""
    some = np.asarray(Y[:: -(-len(Y) // MAX_SAMPLED)], np.float64)
    return np.linalg.svd(some - some.mean(axis=0), compute_uv=False)


def _effective_width(lengths: FloatArray) -> float:
    """Return the effective number of principal axes: (sum of variances)^2 / sum of their squares."""
    variances = (lengths / max(lengths.max(), np.finfo(np.float64).tiny)) ** 2
    return float(variances.sum() ** 2 / max((variances**2).sum(), np.finfo(np.float64).tiny))


def estimate_dimension(distances: sparse.csr_array) -> float:
    """Return the dimension of the data, from the growth of the distances of neighbours (Levina and Bickel 2004).

    1/D is the median over points of the mean of log(s / distance) over all neighbours but the last, corrected for their
    number. The median is robust against nearly equal points.
    """
    counts = np.diff(distances.indptr)
    k = int(counts.max(initial=0))
    if k < 3:
        return 1.0
    full = np.flatnonzero(counts == k)
    logs = np.log(distances.data[distances.indptr[full][:, None] + np.arange(k)])  # (points, k)
    inverse = float(np.median((logs.max(axis=1, keepdims=True) - logs).sum(axis=1) / (k - 2)))
    return 1.0 / inverse if inverse > 0 else 1.0


def find_peaks(graph: Graph) -> tuple[IntArray, FloatArray]:
    """Return the density peaks and their prominences, the largest first; that of the highest peak is infinite."""
    peaks, _, prominences, _ = _compute_persistence(graph)
    falling = np.argsort(-prominences, kind="stable")
    return peaks[falling], prominences[falling]


def assign_basins(graph: Graph, count: int) -> IntArray | None:
    """Return (n,) the basins of the `count` most prominent peaks as integers from 0; None if there are fewer peaks.

    The basin of each other peak belongs to the peak that ends it, which is more prominent.
    """
    peaks, basin, prominences, ended_by = _compute_persistence(graph)
    if len(peaks) < count:
        return None
    number = np.empty(len(peaks), np.intp)
    number[np.argsort(-prominences, kind="stable")] = np.arange(len(peaks))
    top = _follow(np.where(number < count, np.arange(len(peaks)), ended_by))
    return number[top[basin]]


def _compute_persistence(graph: Graph) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return the peaks, the basin of each point, and for each peak its prominence and the peak that ends it."""
    assert graph.distances is not None
    assert graph.scales is not None
    dimension = estimate_dimension(graph.distances)
    density = -dimension * np.log(graph.scales)  # (n,)
    n = len(density)
    order = np.argsort(density, kind="stable")
    rank = np.empty(n, np.intp)
    rank[order] = np.arange(n)
    near = sparse.csr_array(graph.distances + graph.distances.T)
    peaks, basin = np.unique(_climb(near, rank, order), return_inverse=True)
    i, j = np.repeat(np.arange(n), np.diff(near.indptr)), near.indices
    level = np.minimum(density[i], density[j])
    a, b, lengths = graph.bridges  # along them the density is that of a ball as large as the gap
    gap = np.minimum(np.minimum(density[a], density[b]), -dimension * np.log(lengths))
    passes = _find_passes(basin[np.r_[i, a]], basin[np.r_[j, b]], np.r_[level, gap], len(peaks))
    return peaks, basin, *_merge_peaks(passes, density[peaks], rank[peaks])


def _climb(near: sparse.csr_array, rank: IntArray, order: IntArray) -> IntArray:
    """Return (n,) the peak that is reached from each point by moving to the densest neighbour."""
    up = rank.copy()
    filled = np.flatnonzero(np.diff(near.indptr))
    if len(filled):
        up[filled] = np.maximum(up[filled], np.maximum.reduceat(rank[near.indices], near.indptr[filled]))
    return _follow(order[up])


def _follow(pointers: IntArray) -> IntArray:
    """Replace each pointer by the end of its chain."""
    while (pointers[pointers] != pointers).any():
        pointers = pointers[pointers]
    return pointers


def _find_passes(a: IntArray, b: IntArray, level: FloatArray, count: int) -> sparse.coo_array:
    """Return the spanning tree of highest passes between basins, with the height of each plus 1."""
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


def _merge_peaks(passes: sparse.coo_array, height: FloatArray, rank: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the prominence of each peak and the peak that ends it; the highest peak ends itself.

    At each pass, from the highest down, the lower of two peaks ends (union-find).
    """
    parent = list(range(len(height)))

    def find_root(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    prominences, ended_by = np.full(len(height), np.inf), np.arange(len(height))
    for e in np.lexsort([passes.col, passes.row, -passes.data]):
        x, y = find_root(int(passes.row[e])), find_root(int(passes.col[e]))
        if rank[x] < rank[y]:
            x, y = y, x
        prominences[y] = height[y] - passes.data[e]
        parent[y] = ended_by[y] = x
    return prominences, ended_by
