"""Nearest neighbours: found exactly, nearly where there are very many points, or by a search of the user's own."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray, Matrix
from hardmax.cluster.lists import Lists
from hardmax.cluster.rows import is_sparse

BLOCK = 1 << 22  # numbers that are held at a time
EXACT = 30_000  # points up to which all distances are compared, or more in few dimensions, where trees do it
FEW = 10  # dimensions
LEAST = np.sqrt(np.finfo(np.float64).tiny)  # distances: their products must not be 0


class Search:
    """Where the nearest of these points are, for themselves and for others."""

    def __init__(self, Y: Matrix, k: int) -> None:
        self.Y, self.k = Y, min(k, Y.shape[0] - 1)
        self._index = Lists(Y) if is_large(Y) else NearestNeighbors(n_neighbors=max(1, self.k)).fit(Y)

    def own(self) -> sparse.csr_array:
        """(n, n) distances of each point to its k nearest others."""
        if isinstance(self._index, Lists):
            near = self._index.own(self.k)
            return _rows(self._exact(self.Y, None, near), near)
        distances, near = self._index.kneighbors()
        return _rows(self._exact(self.Y, distances, near), near)

    def of(self, Z: Matrix, k: int) -> tuple[FloatArray, IntArray]:
        """(queries, k) distances and indices of the points that are nearest to others."""
        if isinstance(self._index, Lists):
            near = self._index.of(Z, k)
            return self._exact(Z, None, near), near
        distances, near = self._index.kneighbors(Z, n_neighbors=min(k, self.Y.shape[0]))
        return self._exact(Z, distances, near), near

    def _exact(self, Z: Matrix, distances: FloatArray | None, near: IntArray) -> FloatArray:
        """Distances from differences: those from products, which searches use, may be 0 for distinct points."""
        if is_sparse(Z):
            return np.maximum(np.asarray(distances, np.float64), LEAST)
        found = np.empty(near.shape)
        rows = max(1, BLOCK // max(1, near.shape[1] * Z.shape[1]))
        for start in range(0, len(Z), rows):
            part = slice(start, start + rows)
            difference = self.Y[near[part]] - Z[part, None]
            found[part] = np.sqrt(np.einsum("qkd,qkd->qk", difference, difference, dtype=np.float64))
        return np.maximum(found, LEAST)


def is_large(Y: Matrix) -> bool:
    """Whether neighbours are found nearly: there are many points, in many dimensions."""
    return Y.shape[0] > EXACT and Y.shape[1] > FEW and not is_sparse(Y)


def own_search(Y: Matrix, k: int, transformer: Any) -> sparse.csr_array:
    """(n, n) distances to at most k nearest others, as a neighbour transformer of scikit-learn's kind finds them."""
    n = Y.shape[0]
    found = clone(transformer).fit_transform(Y)
    if not is_sparse(found) or found.shape != (n, n):
        got = f"an answer of shape {np.shape(found)}" if not is_sparse(found) else f"shape {found.shape}"
        must = "be a transformer whose `fit_transform` returns a sparse matrix of distances, points by points"
        raise ParameterError("search", must, got, "Use sklearn.neighbors.KNeighborsTransformer, or one like it.")
    return nearest(sparse.csr_array(found), k)


def nearest(distances: sparse.csr_array, k: int) -> sparse.csr_array:
    """The k least of each row that are of other points; explicit zeros are points at the same place."""
    entries = distances.tocoo()
    others = (entries.row != entries.col) & np.isfinite(entries.data)
    row, col, data = entries.row[others], entries.col[others], np.maximum(entries.data[others], LEAST)
    order = np.lexsort([col, data, row])
    row, col, data = row[order], col[order], data[order]
    starts = np.searchsorted(row, np.arange(distances.shape[0] + 1))
    kept = np.arange(len(row)) - starts[row] < k
    return sparse.csr_array((data[kept].astype(np.float64), (row[kept], col[kept])), shape=distances.shape)


def _rows(distances: FloatArray, near: IntArray) -> sparse.csr_array:
    """(n, n) matrix of the distances that were found."""
    n, k = near.shape
    return sparse.csr_array((distances.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
