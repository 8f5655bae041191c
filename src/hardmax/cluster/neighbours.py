"""Nearest neighbours: exact, approximate for very many points, or by a transformer of the user."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # a dependency of scikit-learn

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, FloatArray, IntArray, Matrix
from hardmax.cluster.preprocessing import BLOCK, is_sparse

MAX_EXACT = 30_000  # points up to which the search is exact in any dimension
MAX_TREE_DIMENSION = 10  # up to which trees are fast for any number of points
MIN_DISTANCE = np.sqrt(np.finfo(np.float64).tiny)  # products of distances must not be 0
CELL_SIZE = 400  # mean number of points in a cell of the approximate search
N_PROBES = 12  # cells that are searched for each query
N_TRAINING = 40  # points per cell from which the centres are computed
N_ROUNDS = 4  # of k-means


class NeighbourSearch:
    """Find the nearest of these points, for themselves and for other points."""

    def __init__(self, Y: Matrix, k: int) -> None:
        self.Y, self.k = Y, min(k, Y.shape[0] - 1)
        is_large = Y.shape[0] > MAX_EXACT and Y.shape[1] > MAX_TREE_DIMENSION and not is_sparse(Y)
        self._index = InvertedFile(Y) if is_large else NearestNeighbors(n_neighbors=max(1, self.k)).fit(Y)

    def neighbour_graph(self) -> sparse.csr_array:
        """Return the distances of each point to its k nearest others: (n, n)."""
        if isinstance(self._index, InvertedFile):
            distances, near = None, self._index.nearest_others(self.k)
        else:
            distances, near = self._index.kneighbors()
        return _as_graph(self._recompute(self.Y, distances, near), near)

    def query(self, Z: Matrix, k: int) -> tuple[FloatArray, IntArray]:
        """Return the distances and indices of the points nearest to the rows of Z: (queries, k)."""
        if isinstance(self._index, InvertedFile):
            distances, near = None, self._index.nearest(Z, k)
        else:
            distances, near = self._index.kneighbors(Z, n_neighbors=min(k, self.Y.shape[0]))
        return self._recompute(Z, distances, near), near

    def _recompute(self, Z: Matrix, distances: FloatArray | None, near: IntArray) -> FloatArray:
        """Return distances from differences. Those from inner products may be 0 for distinct points."""
        if is_sparse(Z):
            return np.maximum(np.asarray(distances, np.float64), MIN_DISTANCE)
        found = np.empty(near.shape)
        rows = max(1, BLOCK // max(1, near.shape[1] * Z.shape[1]))
        for start in range(0, len(Z), rows):
            part = slice(start, start + rows)
            difference = self.Y[near[part]] - Z[part, None]
            found[part] = np.sqrt(np.einsum("qkd,qkd->qk", difference, difference, dtype=np.float64))
        return np.maximum(found, MIN_DISTANCE)


class InvertedFile:
    """Approximate neighbours: search the cells of k-means whose centres are nearest (Jegou, Douze and Schmid 2011).

    All queries of a cell are searched together, by one matrix product. The result is deterministic. Of ten neighbours
    about nine are found, in a small part of the time of an exact search.
    """

    def __init__(self, Y: AnyArray) -> None:
        self.Y = Y
        centres = _compute_centres(Y, max(N_PROBES, len(Y) // CELL_SIZE))
        filled, labels = np.unique(pairwise_distances_argmin(Y, centres), return_inverse=True)
        self.order = np.argsort(labels, kind="stable")
        self.starts = np.r_[0, np.cumsum(np.bincount(labels))]
        self.centres = NearestNeighbors(n_neighbors=min(N_PROBES, len(filled)), algorithm="brute").fit(centres[filled])

    def nearest_others(self, k: int) -> IntArray:
        """Return the k nearest other points of each point: (n, k)."""
        found = self.nearest(self.Y, k + 1)
        is_self = found == np.arange(len(found))[:, None]
        return np.take_along_axis(found, np.argsort(is_self, axis=1, kind="stable")[:, :k], 1)

    def nearest(self, Z: AnyArray, k: int) -> IntArray:
        """Return the k nearest points of each query, the nearest first: (queries, k)."""
        distance = np.full((len(Z), k), np.inf, np.float32)
        near = np.zeros((len(Z), k), np.intp)
        probes = self.centres.kneighbors(Z, return_distance=False)  # (queries, N_PROBES)
        for cell, positions in _group_by_label(probes.ravel()):
            members = self.order[self.starts[cell] : self.starts[cell + 1]]
            queries = positions // probes.shape[1]
            search = NearestNeighbors(n_neighbors=min(k, len(members)), algorithm="brute").fit(self.Y[members])
            with threadpool_limits(1):  # small products, which threads would slow down
                distances, found = search.kneighbors(Z[queries])
            both = np.concatenate([distance[queries], distances], axis=1)
            best = np.argsort(both, axis=1, kind="stable")[:, :k]
            distance[queries] = np.take_along_axis(both, best, 1)
            near[queries] = np.take_along_axis(np.concatenate([near[queries], members[found]], axis=1), best, 1)
        incomplete = np.flatnonzero(np.isinf(distance[:, -1]))  # the searched cells hold fewer than k points
        if len(incomplete):
            exact = NearestNeighbors(n_neighbors=k).fit(self.Y)
            near[incomplete] = exact.kneighbors(Z[incomplete], return_distance=False)
        return near


def _compute_centres(Y: AnyArray, count: int) -> AnyArray:
    """Return the centres of k-means on evenly chosen points: (count, d)."""
    some = Y[:: max(1, len(Y) // (N_TRAINING * count))][: N_TRAINING * count]
    centres = some[:: len(some) // count][:count].copy()
    for _ in range(N_ROUNDS):
        for label, rows in _group_by_label(pairwise_distances_argmin(some, centres)):
            centres[label] = some[rows].mean(axis=0)
    return centres


def _group_by_label(labels: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Return each label that occurs, with its positions."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    return zip(names.tolist(), np.split(order, starts[1:]), strict=True)


def transform_neighbours(Y: Matrix, k: int, transformer: Any) -> sparse.csr_array:
    """Return distances to at most k nearest others, (n, n), as a neighbour transformer of the user finds them."""
    n = Y.shape[0]
    found = clone(transformer).fit_transform(Y)
    if not is_sparse(found) or found.shape != (n, n):
        got = f"{'a sparse' if is_sparse(found) else 'a dense'} result of shape {np.shape(found)}"
        must = "be a transformer whose `fit_transform` returns a sparse matrix of distances between the points"
        raise ParameterError("search", must, got, "Use sklearn.neighbors.KNeighborsTransformer, or one like it.")
    return keep_nearest(sparse.csr_array(found), k)


def keep_nearest(distances: sparse.csr_array, k: int) -> sparse.csr_array:
    """Return the k smallest off-diagonal entries of each row; a stored zero is a point at the same position."""
    entries = distances.tocoo()
    others = (entries.row != entries.col) & np.isfinite(entries.data)
    row, col, data = entries.row[others], entries.col[others], np.maximum(entries.data[others], MIN_DISTANCE)
    order = np.lexsort([col, data, row])
    row, col, data = row[order], col[order], data[order]
    starts = np.searchsorted(row, np.arange(distances.shape[0] + 1))
    kept = np.arange(len(row)) - starts[row] < k
    return sparse.csr_array((data[kept].astype(np.float64), (row[kept], col[kept])), shape=distances.shape)


def keep_smallest(D: AnyArray, k: int, floor: float = MIN_DISTANCE) -> sparse.csr_array:
    """Return the k smallest off-diagonal entries of each row of a dense matrix, at least `floor`."""
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
    return sparse.csr_array((distances.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
