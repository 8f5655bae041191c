"""The graph of nearest neighbours, with weights that know the local scale, and connected."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hardmax._types import FloatArray, IntArray, Matrix
from hardmax.cluster.joining import Coordinates, Distances, Places, bridges, spokes
from hardmax.cluster.neighbours import LEAST, Search, nearest, own_search
from hardmax.cluster.rows import is_sparse

FAR = 1e-5  # the least weight between components
FAINT = 1e-12  # weights below this do not connect: the eigenvectors could not see them


class Graph(NamedTuple):
    """Points and how near they are to each other."""

    weights: sparse.csr_array  # (n, n) symmetric, connected
    near: sparse.csr_array | None  # (n, n) distances of each point to its nearest ones; None if weights were given
    scales: FloatArray | None  # (n,) the largest of them
    joined: tuple[IntArray, IntArray, FloatArray]  # pairs that connect the pieces, and their distances

    @classmethod
    def of_points(cls, search: Search, transformer: Any = None) -> "Graph":
        """Of distinct points, by this search, or one of the user's own."""
        near = search.own() if transformer is None else own_search(search.Y, search.k, transformer)
        return cls._of(near, Coordinates.of(search.Y))

    @classmethod
    def of_distances(cls, D: Matrix, n_neighbors: int) -> "Graph":
        """Of distances, shape (n, n): each point's nearest ones, of those that a sparse matrix holds."""
        if is_sparse(D):
            return cls._of(nearest(sparse.csr_array(D), n_neighbors), None)
        return cls._of(least(D, n_neighbors), Distances(D))

    @classmethod
    def of_similarities(cls, S: Matrix, n_neighbors: int) -> "Graph":
        """Of similarities, shape (n, n): the largest of each row, or all that a sparse matrix holds."""
        if is_sparse(S):
            W: Any = sparse.csr_array(S, dtype=np.float64, copy=True)
            W.setdiag(0)
        else:
            found = least(-np.asarray(S, np.float64), n_neighbors, floor=-np.inf)
            W = sparse.csr_array((-found.data, found.indices, found.indptr), shape=found.shape)
        W = W.maximum(W.T)
        W.eliminate_zeros()
        i, j = spokes(W)
        w = np.full(len(i), FAR * W.data.max(initial=0.0) or 1.0)
        return cls(_with(W, i, j, w), None, None, (i, j, np.full(len(i), np.inf)))

    @classmethod
    def _of(cls, near: sparse.csr_array, places: Places | None) -> "Graph":
        """w_ij = exp(-|y_i - y_j|^2 / (s_i s_j)) if one of i, j is among the nearest of the other.

        s_i is the distance of the last neighbour of i (Zelnik-Manor and Perona 2004). Pieces are joined by the weight
        sqrt(s_i s_j) / |y_i - y_j|, which falls slowly, and not below FAR, so that eigenvalues differ however far they
        are apart: without it eigenvalue 1 has several eigenvectors, and a cut among them would be arbitrary.
        """
        n = near.shape[0]
        scales = near.max(axis=1).toarray().ravel()
        scales[scales == 0] = scales.max(initial=LEAST)  # points without neighbours
        rows = np.repeat(np.arange(n), np.diff(near.indptr))
        weights = np.exp(-(near.data / scales[rows]) * (near.data / scales[near.indices]))
        W = sparse.csr_array((np.where(weights < FAINT, 0.0, weights), near.indices, near.indptr), shape=(n, n))
        W = W.maximum(W.T)
        W.eliminate_zeros()
        if places is None:
            i, j = spokes(W)
            far = np.full(len(i), np.inf)
        else:
            i, j = bridges(W, places)
            far = np.maximum(places.distances(i, j), LEAST)
        joined = np.clip(np.sqrt(scales[i]) * np.sqrt(scales[j]) / far, FAR, 1.0)
        return cls(_with(W, i, j, joined), near, scales, (i, j, far))


def _with(W: sparse.csr_array, i: IntArray, j: IntArray, w: FloatArray) -> sparse.csr_array:
    """Weights with some more, in both directions."""
    return sparse.csr_array(W + sparse.csr_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=W.shape))


def least(D: Matrix, k: int, floor: float = LEAST) -> sparse.csr_array:
    """The k least entries of each row but the diagonal ones, a row at a time of a dense matrix."""
    n = len(D)
    k = min(k, n - 1)
    near, data = np.empty((n, k), np.intp), np.empty((n, k))
    for i in range(n):
        row = np.array(D[i], np.float64)
        row[i] = np.inf
        near[i] = np.sort(np.argpartition(row, k - 1)[:k])
        data[i] = np.maximum(row[near[i]], floor)
    return sparse.csr_array((data.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def shepard(distances: FloatArray, near: IntArray, values: FloatArray) -> FloatArray:
    """(queries, m) means of the values of the nearest fitted points, weighted by 1 / distance^2 (Shepard 1968)."""
    weights = (distances.min(axis=1, keepdims=True) / distances) ** 2  # 1 for the nearest
    return weighted(weights, near, values)


def weighted(weights: FloatArray, near: IntArray, values: FloatArray) -> FloatArray:
    """(queries, m) means of the values of some points."""
    weights = weights / weights.sum(axis=1, keepdims=True)
    mean = np.zeros((len(near), values.shape[1]))
    for weight, neighbour in zip(weights.T, near.T, strict=True):  # one after the other, to hold no (queries, k, m)
        mean += weight[:, None] * values[neighbour]
    return mean
