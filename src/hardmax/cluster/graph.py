"""The connected graph of nearest neighbours, with weights that adapt to the local scale."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from hardmax._types import AnyArray, FloatArray, IntArray, Matrix
from hardmax.cluster import neighbours
from hardmax.cluster.neighbours import MIN_DISTANCE, NeighbourSearch
from hardmax.cluster.preprocessing import is_sparse

MIN_BRIDGE_WEIGHT = 1e-5  # between components
MIN_WEIGHT = 1e-12  # smaller ones are 0: eigenvectors could not resolve them
MAX_EXACT_BRIDGES = 2048  # points up to which bridges are the nearest pairs of components
N_BRIDGE_QUERIES = 512  # points that search for a bridge where there are more
TILE = 4096  # points compared with at a time


class Graph(NamedTuple):
    """Similarities of points, and what they were computed from."""

    weights: sparse.csr_array  # (n, n) symmetric, connected
    distances: sparse.csr_array | None  # (n, n) of each point to its nearest ones; None for given similarities
    scales: FloatArray | None  # (n,) the largest distance of each row
    bridges: tuple[IntArray, IntArray, FloatArray]  # pairs that connect the components, and their distances

    @classmethod
    def of_points(cls, search: NeighbourSearch, transformer: Any = None) -> "Graph":
        """Build the graph of distinct points, with neighbours from a search or from a transformer of the user."""
        if transformer is None:
            near = search.neighbour_graph()
        else:
            near = neighbours.transform_neighbours(search.Y, search.k, transformer)
        return cls._of_distances(near, Metric.of_points(search.Y))

    @classmethod
    def of_distances(cls, D: Matrix, n_neighbors: int) -> "Graph":
        """Build the graph of given distances, (n, n): the nearest ones of each row, of those a sparse matrix stores."""
        if is_sparse(D):
            return cls._of_distances(neighbours.keep_nearest(sparse.csr_array(D), n_neighbors), None)
        return cls._of_distances(neighbours.keep_smallest(D, n_neighbors), Metric(D, None))

    @classmethod
    def of_similarities(cls, S: Matrix, n_neighbors: int) -> "Graph":
        """Build the graph of given similarities, (n, n): the largest of each row, or all those of a sparse matrix."""
        if is_sparse(S):
            W: Any = sparse.csr_array(S, dtype=np.float64, copy=True)
            W.setdiag(0)
        else:
            W = -neighbours.keep_smallest(-np.asarray(S, np.float64), n_neighbors, floor=-np.inf)
        W = W.maximum(W.T)
        W.eliminate_zeros()
        i, j = find_star(W)
        w = np.full(len(i), MIN_BRIDGE_WEIGHT * W.data.max(initial=0.0) or 1.0)
        return cls(_add_edges(W, i, j, w), None, None, (i, j, np.full(len(i), np.inf)))

    @classmethod
    def _of_distances(cls, near: sparse.csr_array, metric: "Metric | None") -> "Graph":
        """Compute w_ij = exp(-|y_i - y_j|^2 / (s_i s_j)) if one of i, j is among the nearest of the other.

        s_i is the distance of the last neighbour of i (Zelnik-Manor and Perona 2004). Components are joined by the
        weight sqrt(s_i s_j) / |y_i - y_j|, which falls slowly and not below MIN_BRIDGE_WEIGHT. Otherwise eigenvalue 1
        would have several eigenvectors, and a choice among them would be arbitrary.
        """
        n = near.shape[0]
        scales = near.max(axis=1).toarray().ravel()
        scales[scales == 0] = scales.max(initial=MIN_DISTANCE)  # points without neighbours
        rows = np.repeat(np.arange(n), np.diff(near.indptr))
        weights = np.exp(-(near.data / scales[rows]) * (near.data / scales[near.indices]))
        W = sparse.csr_array((np.where(weights < MIN_WEIGHT, 0.0, weights), near.indices, near.indptr), shape=(n, n))
        W = W.maximum(W.T)
        W.eliminate_zeros()
        if metric is None:
            i, j = find_star(W)
            lengths = np.full(len(i), np.inf)
        else:
            i, j = find_bridges(W, metric)
            lengths = np.maximum(metric.lengths(i, j), MIN_DISTANCE)
        joined = np.clip(np.sqrt(scales[i]) * np.sqrt(scales[j]) / lengths, MIN_BRIDGE_WEIGHT, 1.0)
        return cls(_add_edges(W, i, j, joined), near, scales, (i, j, lengths))


def _add_edges(W: sparse.csr_array, i: IntArray, j: IntArray, w: FloatArray) -> sparse.csr_array:
    return sparse.csr_array(W + sparse.csr_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=W.shape))


class Metric(NamedTuple):
    """Distances of points with coordinates, or given distances."""

    Y: Matrix  # (n, d) points, or (n, n) distances
    halves: AnyArray | None  # (n,) |y|^2 / 2; None for given distances

    @classmethod
    def of_points(cls, Y: Matrix) -> "Metric":
        return cls(Y, Y.multiply(Y).sum(axis=1) / 2 if is_sparse(Y) else np.einsum("nd,nd->n", Y, Y) / 2)

    def scores(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return numbers that grow with the distance within each row: |b|^2 / 2 - ⟨a, b⟩, or the distances."""
        if self.halves is None:
            return np.array(self.Y[np.ix_(rows, columns)], np.float64)
        products = self.Y[rows] @ self.Y[columns].T
        return np.asarray(self.halves[columns] - (products.toarray() if is_sparse(products) else products))

    def lengths(self, i: IntArray, j: IntArray) -> FloatArray:
        """Return the distances of pairs."""
        if self.halves is None:
            return np.asarray(self.Y[i, j], np.float64)
        difference = self.Y[i] - self.Y[j]
        if is_sparse(difference):
            return np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)))
        return np.linalg.norm(np.asarray(difference, np.float64), axis=1)


def find_star(graph: sparse.csr_array) -> tuple[IntArray, IntArray]:
    """Return pairs that connect the components where no distances between them are known.

    The largest component is joined with each other one, at the points with the largest sums of weights.
    """
    labels = connected_components(graph, directed=False)[1]
    order = np.lexsort((-np.asarray(graph.sum(axis=1)), labels))
    first = order[np.r_[0, np.cumsum(np.bincount(labels))[:-1]]]
    largest = int(np.bincount(labels).argmax())
    return np.full(len(first) - 1, first[largest]), np.delete(first, largest)


def find_bridges(graph: sparse.csr_array, metric: Metric) -> tuple[IntArray, IntArray]:
    """Return pairs that connect the components: each is joined with the nearest other one (Boruvka)."""
    i, j = np.empty(0, np.intp), np.empty(0, np.intp)
    while (found := connected_components(graph, directed=False))[0] > 1:
        a, b = np.array(sorted(find_nearest_pairs(metric, found[1].astype(np.intp)))).T
        graph = graph + sparse.csr_array((np.ones(len(a)), (a, b)), shape=graph.shape)
        i, j = np.r_[i, a], np.r_[j, b]
    return i, j


def find_nearest_pairs(metric: Metric, labels: IntArray) -> set[tuple[int, int]]:
    """Return, for each component but the largest, its nearest pair of a point inside and one outside.

    Up to MAX_EXACT_BRIDGES points all points are compared. Of more, some points of each component are, evenly chosen;
    then the ends of the best pair are replaced by nearer ones as long as that shortens it.
    """
    n = len(labels)
    order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
    starts = np.r_[0, np.cumsum(sizes)]
    smaller = np.sort(np.argsort(sizes, kind="stable")[:-1])
    members = [order[starts[c] : starts[c + 1]] for c in smaller]
    most = n if n <= MAX_EXACT_BRIDGES else max(1, N_BRIDGE_QUERIES // len(smaller))
    queries = [part[:: -(-len(part) // most)] for part in members]
    ends, lengths = _find_nearest_outside(metric, labels, order, starts, np.concatenate(queries))
    firsts = np.cumsum([0] + [len(part) for part in queries])
    best = np.array([a + lengths[a:b].argmin() for a, b in pairwise(firsts)])
    i, j, lengths = np.concatenate(queries)[best], ends[best], lengths[best]
    active = np.arange(len(smaller) if n > MAX_EXACT_BRIDGES else 0)
    while len(active):
        nearest = [members[c][metric.scores(j[[c]], members[c])[0].argmin()] for c in active]
        inner = np.array(nearest, np.intp)
        outer, shorter = _find_nearest_outside(metric, labels, order, starts, inner)
        better = shorter < lengths[active]
        active, inner, outer, shorter = active[better], inner[better], outer[better], shorter[better]
        i[active], j[active], lengths[active] = inner, outer, shorter
    return {(min(pair), max(pair)) for pair in zip(i.tolist(), j.tolist(), strict=True)}


def _find_nearest_outside(
    metric: Metric, labels: IntArray, order: IntArray, starts: IntArray, queries: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the nearest point of another component for each query, and its distance.

    `order` sorts the points by component, component c is order[starts[c]:starts[c + 1]], and queries are so sorted.
    """
    own = labels[queries]
    lowest, nearest = np.full(len(queries), np.inf), np.zeros(len(queries), np.intp)
    for start in range(0, len(order), TILE):
        tile = order[start : start + TILE]
        scores = metric.scores(queries, tile)
        for component in range(labels[tile[0]], labels[tile[-1]] + 1):
            rows = slice(*np.searchsorted(own, [component, component + 1]))
            columns = slice(max(starts[component] - start, 0), starts[component + 1] - start)
            scores[rows, columns] = np.inf
        best = scores.argmin(axis=1)
        score = scores[np.arange(len(queries)), best]
        lower = score < lowest
        lowest[lower], nearest[lower] = score[lower], tile[best[lower]]
    return nearest, metric.lengths(queries, nearest)
