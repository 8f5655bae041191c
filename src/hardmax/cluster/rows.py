"""Equal rows of arrays, dense or sparse: found by a number that each row has, and compared to the last bit."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from hardmax._types import BoolArray, IntArray, Matrix
from hardmax.search.sets import Classes

MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)  # of splitmix64


def is_sparse(X: Matrix) -> bool:
    """Whether it is a sparse matrix; SciPy's own answer would tell type checkers that it has no attributes."""
    return bool(sparse.issparse(X))


class Distinct(NamedTuple):
    """The distinct rows of an array, in an order that does not depend on theirs."""

    rows: Matrix  # (m, d)
    labels: IntArray  # (n,) which of them each row is
    counts: IntArray  # (m,)

    @classmethod
    def of(cls, X: Matrix) -> "Distinct":
        if not is_sparse(X):
            classes = Classes.of(X)
            return cls(classes.rows, classes.labels, classes.counts)
        X = canonical(X)
        order = np.argsort(_numbers(X), kind="stable")
        ranked = X[order]
        starts = np.r_[True, ~_equal(ranked[1:], ranked[:-1])]
        labels = np.empty(len(order), np.intp)
        labels[order] = np.cumsum(starts) - 1
        return cls(ranked[starts], labels, np.bincount(labels))


class Known:
    """Rows that were seen, to find them again."""

    def __init__(self, X: Matrix) -> None:
        self.X = canonical(X)
        numbers = _numbers(self.X)
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def find(self, X: Matrix) -> IntArray:
        """(queries,) the first row that equals each, or -1."""
        X = canonical(X).astype(self.X.dtype)
        at = np.minimum(np.searchsorted(self._numbers, _numbers(X)), len(self._numbers) - 1)
        found = self._order[at]
        return np.where(_equal(X, self.X[found]), found, -1)


def canonical(X: Matrix) -> Matrix:
    """Sparse rows without zeros, in order; others as they are."""
    if not is_sparse(X):
        return X
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _numbers(X: Matrix) -> Matrix:
    """(n,) whole numbers of 64 bits that equal rows share and others hardly ever."""
    with np.errstate(over="ignore"):
        places = (np.arange(X.shape[1], dtype=np.uint64) + np.uint64(1)) * MIX[0]
        if not is_sparse(X):
            numbers = np.zeros(len(X), np.uint64)
            for column, place in zip(X.T, places, strict=True):
                numbers += _mixed(_bits(column + 0.0) ^ place)  # zeros have no sign
            return numbers
        sums = np.r_[np.uint64(0), np.cumsum(_mixed(_bits(X.data) ^ places[X.indices]))]
        return sums[X.indptr[1:]] - sums[X.indptr[:-1]]


def _bits(values: Matrix) -> Matrix:
    return np.ascontiguousarray(values, np.float64).view(np.uint64)


def _mixed(x: Matrix) -> Matrix:
    x = (x ^ (x >> np.uint64(30))) * MIX[1]
    x = (x ^ (x >> np.uint64(27))) * MIX[2]
    return x ^ (x >> np.uint64(31))


def _equal(A: Matrix, B: Matrix) -> BoolArray:
    """(n,) whether rows are equal."""
    if not is_sparse(A):
        return np.asarray((A == B).all(axis=1))
    unlike = A != B
    return np.asarray(unlike.sum(axis=1)).ravel() == 0
