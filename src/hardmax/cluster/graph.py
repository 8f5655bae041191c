"""Nearest neighbours, exact or approximate, and their connected graph, with weights
that adapt to the local scale.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # a dependency of scikit-learn

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray, Matrix
from hardmax.cluster.preprocessing import BLOCK, is_sparse, squared_lengths

MAX_EXACT = 30_000  # points up to which the search is exact in any dimension
MAX_TREE_DIMENSION = 10  # up to which trees are fast for any number of points
MIN_DISTANCE = np.sqrt(np.finfo(np.float64).tiny)  # products of distances must not be 0
CELL_SIZE = 400  # mean number of points in a cell of the approximate search
N_PROBES = 12  # cells that are searched for each query
N_TRAINING = 40  # points per cell from which the centres are computed
N_ROUNDS = 4  # of k-means
MIN_BRIDGE_WEIGHT = 1e-5  # between components
MIN_WEIGHT = 1e-12  # smaller ones are 0: eigenvectors could not resolve them
MAX_EXACT_BRIDGES = (
    2048  # points up to which bridges are the nearest pairs of components
)
N_BRIDGE_QUERIES = 512  # points that search for a bridge where there are more
TILE = 4096  # points compared with at a time


class NeighbourSearch:
    """Find the nearest of these points, for themselves and for other points."""

    def __init__(self, Y: Matrix, k: int) -> None:
        self.Y, self.k = Y, min(k, Y.shape[0] - 1)
        is_large = (
            Y.shape[0] > MAX_EXACT
            and Y.shape[1] > MAX_TREE_DIMENSION
            and not is_sparse(Y)
        )
        self._find: Callable[[Any, int], IntArray] = (
            InvertedFile(Y).find_nearest if is_large else _exact_search(Y)
        )

    def neighbour_graph(self, transformer: Any = None) -> sparse.csr_array:
        """Return the distances of each point to its k nearest others, (n, n); those
        that a transformer finds.
        """
        if transformer is None:
            near = self._find(None, self.k)
            return _as_graph(self._distances(self.Y, near), near)
        found = clone(transformer).fit_transform(self.Y)
        if not is_sparse(found) or found.shape != (self.Y.shape[0],) * 2:
            got = (
                f"{'a sparse' if is_sparse(found) else 'a dense'} result of shape"
                f" {np.shape(found)}"
            )
            must = (
                "be a transformer whose `fit_transform` returns a sparse matrix of"
                " distances between the points"
            )
            raise ParameterError(
                "search",
                must,
                got,
                "Use sklearn.neighbors.KNeighborsTransformer, or one like it.",
            )
        return keep_nearest(found, self.k)

    def query(self, Z: Matrix, k: int) -> tuple[FloatArray, IntArray]:
        """Return the distances and indices of the points nearest to the rows of Z:
        (queries, k).
        """
        near = self._find(Z, min(k, self.Y.shape[0]))
        return self._distances(Z, near), near

    def _distances(self, Z: Matrix, near: IntArray) -> FloatArray:
        """Return distances from differences. Those from inner products may be 0 for
        distinct points.
        """
        found, k = np.empty(near.shape), near.shape[1]
        step = max(
            1, BLOCK // max(1, k * Z.size // len(near))
        )  # `size` of a sparse matrix is what it stores
        for part in gen_batches(len(near), step):
            rows = np.repeat(np.arange(part.start, part.stop), k)
            found[part] = np.sqrt(
                squared_lengths(self.Y[near[part].ravel()] - Z[rows])
            ).reshape(-1, k)
        return np.maximum(found, MIN_DISTANCE)


def _exact_search(Y: Matrix) -> Callable[[Any, int], IntArray]:
    return partial(NearestNeighbors().fit(Y).kneighbors, return_distance=False)


class InvertedFile:
    """Approximate neighbours: search the cells of k-means whose centres are nearest
    (Jegou, Douze and Schmid 2011).
    """

    def __init__(self, Y: AnyArray) -> None:
        self.Y = Y
        centres = _compute_centres(Y, max(N_PROBES, len(Y) // CELL_SIZE))
        filled, labels = np.unique(
            pairwise_distances_argmin(Y, centres), return_inverse=True
        )
        self.members = [
            members for _, members in group_by_label(labels)
        ]  # of each cell
        self.centres = NearestNeighbors(
            n_neighbors=min(N_PROBES, len(filled)), algorithm="brute"
        ).fit(centres[filled])

    def find_nearest(self, Z: AnyArray | None, k: int) -> IntArray:
        """Return the k nearest points of each query, the nearest first, or of each
        point but itself: (queries, k).
        """
        if Z is None:
            found = self.find_nearest(self.Y, k + 1)
            is_self = found == np.arange(len(found))[:, None]
            return np.take_along_axis(
                found, np.argsort(is_self, axis=1, kind="stable")[:, :k], 1
            )
        distance = np.full((len(Z), k), np.inf, np.float32)
        near = np.zeros((len(Z), k), np.intp)
        probes = self.centres.kneighbors(
            Z, return_distance=False
        )  # (queries, N_PROBES)
        for cell, positions in group_by_label(probes.ravel()):
            members = self.members[cell]
            queries = positions // probes.shape[1]
            search = NearestNeighbors(
                n_neighbors=min(k, len(members)), algorithm="brute"
            ).fit(self.Y[members])
            with threadpool_limits(1):  # small products, which threads would slow down
                distances, found = search.kneighbors(Z[queries])
            both = np.concatenate([distance[queries], distances], axis=1)
            best = np.argsort(both, axis=1, kind="stable")[:, :k]
            distance[queries] = np.take_along_axis(both, best, 1)
            near[queries] = np.take_along_axis(
                np.concatenate([near[queries], members[found]], axis=1), best, 1
            )
        incomplete = np.flatnonzero(
            np.isinf(distance[:, -1])
        )  # the searched cells hold fewer than k points
        if len(incomplete):
            near[incomplete] = _exact_search(self.Y)(Z[incomplete], k)
        return near


def _compute_centres(Y: AnyArray, count: int) -> AnyArray:
    """Return the centres of k-means on evenly chosen points: (count, d)."""
    some = Y[:: max(1, len(Y) // (N_TRAINING * count))][: N_TRAINING * count]
    centres = some[:: len(some) // count][:count].copy()
    for _ in range(N_ROUNDS):
        for label, rows in group_by_label(pairwise_distances_argmin(some, centres)):
            centres[label] = some[rows].mean(axis=0)
    return centres


def group_by_label(labels: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Return each label that occurs, rising, with its positions."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    return zip(names.tolist(), np.split(order, starts[1:]), strict=True)


def keep_nearest(distances: Matrix, k: int) -> sparse.csr_array:
    """Return the k smallest off-diagonal entries of each row; a stored zero is a point
    at the same position.
    """
    entries = sparse.coo_array(distances)
    others = (entries.row != entries.col) & np.isfinite(entries.data)
    row, col, data = (
        entries.row[others],
        entries.col[others],
        np.maximum(entries.data[others], MIN_DISTANCE),
    )
    order = np.lexsort([col, data, row])
    row, col, data = row[order], col[order], data[order]
    kept = np.arange(len(row)) - np.searchsorted(row, row) < k
    return sparse.csr_array(
        (data[kept].astype(np.float64), (row[kept], col[kept])), shape=distances.shape
    )


def keep_smallest(D: AnyArray, k: int, floor: float = MIN_DISTANCE) -> sparse.csr_array:
    """Return the k smallest off-diagonal entries of each row of a dense matrix, at
    least `floor`.
    """
    n = len(D)
    k = min(k, n - 1)
    near, data = np.empty((n, k), np.intp), np.empty((n, k))
    for i in range(n):
        row = np.array(D[i], np.float64)
        row[i] = np.inf
        near[i] = np.sort(np.argpartition(row, k - 1)[:k])
        data[i] = np.maximum(row[near[i]], floor)
    return _as_graph(data, near)


def _as_graph(distances: FloatArray, near: IntArray) -> sparse.csr_array:
    n, k = near.shape
    return sparse.csr_array(
        (distances.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n)
    )


@dataclass(frozen=True, eq=False)
class Graph:
    """Similarities of points, and what they were computed from."""

    weights: sparse.csr_array  # (n, n) symmetric, connected
    # (n, n) of each point to its nearest ones; without entries for given similarities
    distances: sparse.csr_array
    scales: FloatArray  # (n,) the largest distance of each row
    bridges: tuple[
        IntArray, IntArray, FloatArray
    ]  # pairs that connect the components, and their distances

    @property
    def n_neighbors(self) -> int:
        return int(np.diff(self.distances.indptr).max(initial=0))

    @property
    def has_distances(self) -> bool:
        return len(self.scales) > 0

    @cached_property
    def dimension(self) -> float:
        """1 / the median over points of the mean of log(s / distance) over neighbours
        (Levina and Bickel 2004).
        """
        k = self.n_neighbors
        if k < 3:
            return 1.0
        full = np.flatnonzero(np.diff(self.distances.indptr) == k)
        logs = np.log(
            self.distances.data[self.distances.indptr[full][:, None] + np.arange(k)]
        )  # (points, k)
        inverse = float(
            np.median((logs.max(axis=1, keepdims=True) - logs).sum(axis=1) / (k - 2))
        )
        return 1.0 / inverse if inverse > 0 else 1.0

    @classmethod
    def of_points(cls, search: NeighbourSearch, transformer: Any = None) -> "Graph":
        """Build the graph of distinct points, with neighbours from a search or from a
        transformer of the user.
        """
        metric = Metric(search.Y, squared_lengths(search.Y) / 2)
        return cls._of_neighbours(search.neighbour_graph(transformer), metric)

    @classmethod
    def of_distances(cls, D: Matrix, n_neighbors: int) -> "Graph":
        """Build the graph of given distances, (n, n): the nearest ones of each row, of
        those a sparse matrix stores.
        """
        if is_sparse(D):
            return cls._of_neighbours(keep_nearest(D, n_neighbors), None)
        return cls._of_neighbours(keep_smallest(D, n_neighbors), Metric(D, None))

    @classmethod
    def of_similarities(cls, S: Matrix, n_neighbors: int) -> "Graph":
        """Build the graph of given similarities, (n, n): the largest of each row, or
        all those of a sparse matrix.
        """
        if is_sparse(S):
            W: Any = sparse.csr_array(S, dtype=np.float64, copy=True)
            W.setdiag(0)
        else:
            W = -keep_smallest(-np.asarray(S, np.float64), n_neighbors, floor=-np.inf)
        W = W.maximum(W.T)
        W.eliminate_zeros()
        i, j = find_star(W)
        w = np.full(len(i), MIN_BRIDGE_WEIGHT * W.data.max(initial=0.0) or 1.0)
        return cls(
            _add_edges(W, i, j, w),
            sparse.csr_array(W.shape),
            np.zeros(0),
            (i, j, np.full(len(i), np.inf)),
        )

    @classmethod
    def _of_neighbours(cls, near: sparse.csr_array, metric: "Metric | None") -> "Graph":
        """Compute w_ij = exp(-|y_i - y_j|^2 / (s_i s_j)) if one of i, j is among the
        nearest of the other.

        s_i is the distance of the last neighbour of i (Zelnik-Manor and Perona 2004).
        Components are joined by the weight sqrt(s_i s_j) / |y_i - y_j|, which falls
        slowly and not below MIN_BRIDGE_WEIGHT. Otherwise eigenvalue 1 would have
        several eigenvectors, and a choice among them would be arbitrary.
        """
        n = near.shape[0]
        scales = near.max(axis=1).toarray().ravel()
        scales[scales == 0] = scales.max(
            initial=MIN_DISTANCE
        )  # points without neighbours
        rows = np.repeat(np.arange(n), np.diff(near.indptr))
        weights = np.exp(
            -(near.data / scales[rows]) * (near.data / scales[near.indices])
        )
        W = sparse.csr_array(
            (np.where(weights < MIN_WEIGHT, 0.0, weights), near.indices, near.indptr),
            shape=(n, n),
        )
        W = W.maximum(W.T)
        W.eliminate_zeros()
        if metric is None:
            i, j = find_star(W)
            lengths = np.full(len(i), np.inf)
        else:
            i, j = find_bridges(W, metric)
            lengths = np.maximum(metric.lengths(i, j), MIN_DISTANCE)
        joined = np.clip(
            np.sqrt(scales[i]) * np.sqrt(scales[j]) / lengths, MIN_BRIDGE_WEIGHT, 1.0
        )
        return cls(_add_edges(W, i, j, joined), near, scales, (i, j, lengths))


def _add_edges(
    W: sparse.csr_array, i: IntArray, j: IntArray, w: FloatArray
) -> sparse.csr_array:
    return sparse.csr_array(
        W + sparse.csr_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=W.shape)
    )


class Metric(NamedTuple):
    """Distances of points with coordinates, or given distances."""

    Y: Matrix  # (n, d) points, or (n, n) distances
    halves: FloatArray | None  # (n,) |y|^2 / 2; None for given distances

    def scores(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return numbers that grow with the distance within each row: |b|^2 / 2 - ⟨a,
        b⟩, or the distances.
        """
        if self.halves is None:
            return np.array(self.Y[np.ix_(rows, columns)], np.float64)
        products = self.Y[rows] @ self.Y[columns].T
        return np.asarray(
            self.halves[columns]
            - (products.toarray() if is_sparse(products) else products)
        )

    def lengths(self, i: IntArray, j: IntArray) -> FloatArray:
        """Return the distances of pairs."""
        if self.halves is None:
            return np.asarray(self.Y[i, j], np.float64)
        return np.sqrt(squared_lengths(self.Y[i] - self.Y[j]))


def find_star(graph: sparse.csr_array) -> tuple[IntArray, IntArray]:
    """Return pairs that join the largest component with each other one, at the points
    of largest degree.
    """
    labels = connected_components(graph, directed=False)[1]
    order = np.lexsort((-np.asarray(graph.sum(axis=1)), labels))
    first = order[np.unique(labels[order], return_index=True)[1]]
    largest = int(np.bincount(labels).argmax())
    return np.full(len(first) - 1, first[largest]), np.delete(first, largest)


def find_bridges(graph: sparse.csr_array, metric: Metric) -> tuple[IntArray, IntArray]:
    """Return pairs that connect the components: each is joined with the nearest other
    one (Boruvka).
    """
    i, j = np.empty(0, np.intp), np.empty(0, np.intp)
    while (found := connected_components(graph, directed=False))[0] > 1:
        a, b = np.array(sorted(find_nearest_pairs(metric, found[1].astype(np.intp)))).T
        graph = graph + sparse.csr_array((np.ones(len(a)), (a, b)), shape=graph.shape)
        i, j = np.r_[i, a], np.r_[j, b]
    return i, j


def find_nearest_pairs(metric: Metric, labels: IntArray) -> set[tuple[int, int]]:
    """Return, for each component but the largest, its nearest pair of a point inside
    and one outside.
    """
    # Beyond MAX_EXACT_BRIDGES points some points of each component are compared, evenly
    # chosen; then the ends of the best pair are replaced by nearer ones as long as that
    # shortens it.
    n = len(labels)
    largest = np.argsort(np.bincount(labels), kind="stable")[-1]
    members = [part for label, part in group_by_label(labels) if label != largest]
    most = n if n <= MAX_EXACT_BRIDGES else max(1, N_BRIDGE_QUERIES // len(members))
    queries = np.concatenate([part[:: -(-len(part) // most)] for part in members])
    ends, lengths = _find_nearest_outside(metric, labels, queries)
    best = np.array(
        [part[lengths[part].argmin()] for _, part in group_by_label(labels[queries])]
    )
    i, j, lengths = queries[best], ends[best], lengths[best]
    active = np.arange(len(members) if n > MAX_EXACT_BRIDGES else 0)
    while len(active):
        inner = np.array(
            [members[c][metric.scores(j[[c]], members[c])[0].argmin()] for c in active],
            np.intp,
        )
        outer, shorter = _find_nearest_outside(metric, labels, inner)
        better = shorter < lengths[active]
        active = active[better]
        i[active], j[active], lengths[active] = (
            inner[better],
            outer[better],
            shorter[better],
        )
    return {(min(pair), max(pair)) for pair in zip(i.tolist(), j.tolist(), strict=True)}


def _find_nearest_outside(
    metric: Metric, labels: IntArray, queries: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the nearest point of another component for each query, and its distance."""
    lowest, nearest = np.full(len(queries), np.inf), np.zeros(len(queries), np.intp)
    for part in gen_batches(len(labels), TILE):
        tile = np.arange(part.start, part.stop)
        scores = metric.scores(queries, tile)
        scores[labels[queries, None] == labels[tile]] = np.inf
        best = scores.argmin(axis=1)
        score = scores[np.arange(len(queries)), best]
        lower = score < lowest
        lowest[lower], nearest[lower] = score[lower], tile[best[lower]]
    return nearest, metric.lengths(queries, nearest)
