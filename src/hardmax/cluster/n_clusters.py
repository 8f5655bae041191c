"""Estimate the number of clusters: density peaks that are more prominent than chance
produces without clusters.

The density at a point falls like s^-D with the distance s of its last neighbour, D the
dimension of the data. A peak is denser than its neighbours; its prominence is the
descent in the logarithm on the way to a higher peak (Chazal, Guibas, Oudot and Skraba
2013). With k neighbours the logarithm has an error of about 1 / sqrt(k), so data
without clusters have peaks, too. `chance_prominence` bounds their prominence; its
constants come from simulations.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import DisjointSet

from hardmax._types import FloatArray, IntArray, Matrix
from hardmax.cluster.graph import Graph, NeighbourSearch
from hardmax.cluster.spectral import MAX_COMPONENTS, SpectralEmbedding

BASE, GROWTH = (
    1.0,
    0.58,
)  # prominence of the second peak by chance, times sqrt(neighbours): BASE + GROWTH log n
FLAT_DIMENSION, MIN_FACTOR = (
    2.0,
    0.7,
)  # in more dimensions it falls like sqrt(FLAT_DIMENSION / D), to MIN_FACTOR
STEEP_DIMENSION = 20.0  # towards which it rises again: D log s has a large error
MIN_SPECTRAL_DIMENSION = (
    3.0  # from which slow modes are counted: curves have some without clusters
)
MAX_RATE_RATIO = 0.8  # of a slow mode to the slowest one without clusters
N_DRAWS, MAX_DRAWN = 5, 1000  # simulated data sets without clusters, and their points
MAX_SAMPLED = 2000  # points from which principal axes are computed


def count_clusters(graph: Graph, Y: Matrix | None) -> int:
    """Return the number of peaks beyond chance; where it is one, the number of slow
    modes. 1 means no clusters.
    """
    n_peaks, lengths, n = (
        _count_peaks(graph, Y),
        _principal_lengths(Y),
        len(graph.scales),
    )
    if (
        n_peaks > 1
        or graph.dimension < MIN_SPECTRAL_DIMENSION
        or lengths is None
        or n <= MAX_COMPONENTS
    ):
        return max(1, n_peaks)
    return _count_slow_modes(graph, lengths[: max(1, round(graph.dimension))])


def has_one_peak(graph: Graph, Y: Matrix | None) -> bool:
    """Return whether the density has one peak beyond chance, in so few dimensions that
    clusters would make more.
    """
    if (
        not graph.has_distances
        or len(graph.scales) <= MAX_COMPONENTS
        or graph.dimension >= MIN_SPECTRAL_DIMENSION
    ):
        return False
    return _count_peaks(graph, Y) <= 1


def chance_prominence(n: int, k: int, dimension: float, width: float = np.inf) -> float:
    """Return the prominence that the second peak of n points without clusters rarely
    exceeds, with k neighbours.

    `width` is the dimension of the whole. `python -m studies.measure chance` prints how
    often the number is exceeded.
    """
    factor = np.clip(
        max(
            np.sqrt(FLAT_DIMENSION / min(dimension, width)), dimension / STEEP_DIMENSION
        ),
        MIN_FACTOR,
        1.0,
    )
    return float((BASE + GROWTH * np.log(n)) * factor / np.sqrt(k))


def _count_peaks(graph: Graph, Y: Matrix | None) -> int:
    lengths = _principal_lengths(Y)
    width = np.inf if lengths is None else _effective_width(lengths)
    bound = chance_prominence(
        len(graph.scales), graph.n_neighbors, graph.dimension, width
    )
    return int((Peaks.of(graph).prominences > bound).sum())


def _count_slow_modes(graph: Graph, lengths: FloatArray) -> int:
    """Return 1 plus the number of eigenvectors with rates clearly below those of
    Gaussian samples of that shape.
    """
    # In many dimensions few points make no density peaks, but heat still stays in
    # clusters. The rate at which it leaves a set without clusters falls like n^(-2/D)
    # (Weyl).
    n = len(graph.scales)
    random, rates = np.random.default_rng(0), []
    for _ in range(N_DRAWS):
        sample = random.standard_normal((min(n, MAX_DRAWN), len(lengths))) * lengths
        sampled = Graph.of_points(NeighbourSearch(sample, graph.n_neighbors))
        rates.append(1 - SpectralEmbedding.of(sampled.weights, 3).values[1])
    bound = (
        MAX_RATE_RATIO * min(rates) * (min(n, MAX_DRAWN) / n) ** (2 / graph.dimension)
    )
    return 1 + int(
        (
            1 - SpectralEmbedding.of(graph.weights, MAX_COMPONENTS).values[1:] < bound
        ).sum()
    )


def _principal_lengths(Y: Matrix | None) -> FloatArray | None:
    """Return the singular values of the centred points, falling, where there are dense
    ones; of many, of a sample.
    """
    if not isinstance(Y, np.ndarray):
        return None
    some = np.asarray(Y[:: -(-len(Y) // MAX_SAMPLED)], np.float64)
    return np.linalg.svd(some - some.mean(axis=0), compute_uv=False)


def _effective_width(lengths: FloatArray) -> float:
    """Return the effective number of principal axes: (sum of variances)^2 / sum of
    their squares.
    """
    variances = (lengths / max(lengths.max(), np.finfo(np.float64).tiny)) ** 2
    return float(
        variances.sum() ** 2 / max((variances**2).sum(), np.finfo(np.float64).tiny)
    )


class Peaks(NamedTuple):
    """The peaks of the density, the most prominent first."""

    points: IntArray  # (peaks,)
    prominences: FloatArray  # (peaks,) that of the highest peak is infinite
    # (peaks,) the more prominent peak whose basin its basin joins; the highest ends
    # itself
    ended_by: IntArray
    basin: IntArray  # (n,) the peak that is reached by moving to the densest neighbour

    @classmethod
    def of(cls, graph: Graph) -> "Peaks":
        density = -graph.dimension * np.log(graph.scales)  # (n,)
        order = np.argsort(density, kind="stable")
        rank = np.argsort(order)
        near = sparse.csr_array(graph.distances + graph.distances.T)
        ranks = sparse.csr_array(
            (rank[near.indices], near.indices, near.indptr), shape=near.shape
        )
        densest = order[np.maximum(rank, ranks.max(axis=1).toarray().ravel())]
        points, basin = np.unique(_follow(densest), return_inverse=True)
        i, j = np.repeat(np.arange(len(rank)), np.diff(near.indptr)), near.indices
        level = np.minimum(density[i], density[j])
        a, b, lengths = (
            graph.bridges
        )  # along them the density is that of a ball as large as the gap
        gap = np.minimum(
            np.minimum(density[a], density[b]), -graph.dimension * np.log(lengths)
        )
        ends = basin[np.stack([np.r_[i, a], np.r_[j, b]])]  # (2, passes)
        prominences, ended_by = _merge_peaks(
            ends, np.r_[level, gap], density[points], rank[points]
        )
        falling = np.argsort(-prominences, kind="stable")
        number = np.argsort(falling)
        return cls(
            points[falling],
            prominences[falling],
            number[ended_by[falling]],
            number[basin],
        )


def assign_basins(graph: Graph, count: int) -> IntArray | None:
    """Return (n,) the basins of the `count` most prominent peaks as integers from 0;
    None if there are fewer peaks.
    """
    peaks = Peaks.of(graph)
    each = np.arange(len(peaks.points))
    return (
        None
        if len(each) < count
        else _follow(np.where(each < count, each, peaks.ended_by))[peaks.basin]
    )


def _follow(pointers: IntArray) -> IntArray:
    """Replace each pointer by the end of its chain."""
    while (pointers[pointers] != pointers).any():
        pointers = pointers[pointers]
    return pointers


def _merge_peaks(
    ends: IntArray, level: FloatArray, height: FloatArray, rank: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return prominences and the peak that ends each: at a pass, from the highest down,
    the lower of two peaks ends.
    """
    each = np.arange(len(height))
    joined, highest = (
        DisjointSet(each.tolist()),
        each.copy(),
    )  # highest: peak of a set, at the index of its root
    prominences, ended_by = np.full(len(height), np.inf), each.copy()
    apart = ends[0] != ends[1]
    (low, high), level = np.sort(ends[:, apart], axis=0), level[apart]
    order = np.lexsort([high, low, -level])
    first = np.unique((low * len(height) + high)[order], return_index=True)[
        1
    ]  # the highest pass of each pair
    for e in order[np.sort(first)]:
        a, b = int(low[e]), int(high[e])
        y, x = sorted(
            (highest[joined[a]], highest[joined[b]]), key=lambda peak: rank[peak]
        )
        if joined.merge(a, b):
            prominences[y], ended_by[y] = (
                height[y] - max(level[e], np.finfo(np.float64).min),
                x,
            )
            highest[joined[x]] = x
    return prominences, ended_by
