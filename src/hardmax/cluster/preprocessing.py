"""Check the input of `HardmaxClustering`, centre and scale points, and find equal rows."""

from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import issymmetric
from sklearn.utils import gen_batches

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray, Matrix
from hardmax._validation import is_positive_definite
from hardmax.sets import Classes

BLOCK = 1 << 22  # entries held at a time
MAX_ASYMMETRY = 1e-8  # relative to the largest entry
MIN_VARIANCE = (
    1e-10  # relative to the largest variance: "whiten" removes directions with less
)
CONSTANT = 2.0  # constant coordinate of tokens, in units of the longest point


def is_sparse(X: Matrix) -> bool:
    """Return whether X is a sparse matrix; with SciPy's predicate type checkers would
    lose its methods.
    """
    return bool(sparse.issparse(X))


def check_precomputed(X: Matrix, kind: str) -> None:
    """Raise unless X is a square matrix of non-negative "distances" or "similarities",
    symmetric where it is dense.
    """
    if X.shape[0] != X.shape[1]:
        advice = "To cluster points, leave `metric` and `affinity` at their defaults."
        raise ParameterError(
            "X", f"be a square matrix of {kind}", f"shape {X.shape}", advice
        )
    smallest = float((X.data if is_sparse(X) else X).min(initial=0.0))
    if smallest < 0:
        advice = 'Pass similarities with `affinity="precomputed"`.'
        if kind == "similarities":
            advice = (
                'Use np.maximum(X, 0), or pass distances with `metric="precomputed"`.'
            )
        raise ParameterError(
            "X", f"hold non-negative {kind}", f"{smallest:.3g}", advice
        )
    if is_sparse(X):  # a graph of nearest neighbours need not be symmetric
        if X.shape[0] > 1 and not X.nnz:
            raise ParameterError(
                "X", f"store {kind} of neighbours", "a sparse matrix without entries"
            )
        return
    tolerance = MAX_ASYMMETRY * float(np.abs(X).max(initial=0.0))
    for part in gen_batches(len(X), max(1, BLOCK // len(X))):
        if np.abs(X[part] - X[:, part].T).max(initial=0.0) > tolerance:
            advice = "Use (X + X.T) / 2, or pass a sparse graph of neighbours."
            raise ParameterError(
                "X", f"be a symmetric matrix of {kind}", "an asymmetric one", advice
            )


def squared_lengths(X: Matrix) -> FloatArray:
    """Return |x|^2 of each row, summed in float64: (n,)."""
    squares = (
        X.multiply(X).sum(axis=1)
        if is_sparse(X)
        else np.einsum("nd,nd->n", X, X, dtype=np.float64)
    )
    return np.asarray(squares, np.float64)


def normalize_rows(X: Matrix) -> Matrix:
    """Divide rows by their lengths; the type of X stays. Refuse rows of zeros."""
    lengths = np.sqrt(squared_lengths(X))
    if not lengths.all():
        zero = int(np.flatnonzero(lengths == 0)[0])
        advice = 'Remove such points, or use `metric="euclidean"`.'
        raise ParameterError(
            "X",
            'have no row of zeros for `metric="cosine"`',
            f"zeros in row {zero}",
            advice,
        )
    if is_sparse(X):
        return sparse.csr_array(sparse.diags_array(1 / lengths) @ X).astype(X.dtype)
    return X / lengths[:, None].astype(X.dtype)


class Preprocessing(NamedTuple):
    """The map x -> L^T (x - origin), scaled by powers of two, which round nothing and
    change no argmax set.
    """

    exponent: int  # of the largest input: no mean overflows
    origin: FloatArray  # (d,) after scaling by `exponent`
    unit: int  # exponent of the largest number after centring
    L: FloatArray | None  # (d, r) with A = L L^T; None for the identity

    @classmethod
    def fit(cls, X: Matrix, A: Any, *, center: bool) -> "Preprocessing":
        if is_sparse(X):  # centring would fill the matrix, and changes no distance
            return cls(_exponent(X.data), np.zeros(0), 0, None)
        exponent = _exponent(X)
        scaled = np.ldexp(X, -exponent)
        origin = (
            scaled.mean(axis=0, dtype=np.float64) if center else np.zeros(X.shape[1])
        ).astype(X.dtype)
        unit = _exponent(scaled - origin)
        return cls(
            exponent,
            origin,
            unit,
            None if A is None else _factor(A, np.ldexp(scaled - origin, -unit)),
        )

    def transform(self, X: Matrix) -> Matrix:
        """Map points of shape (n, d) to (n, r), with the plain inner product."""
        if is_sparse(X):
            return sparse.csr_array(
                (np.ldexp(X.data, -self.exponent), X.indices, X.indptr), shape=X.shape
            )
        Y = np.ldexp(np.ldexp(X, -self.exponent) - self.origin, -self.unit)
        return Y if self.L is None else Y @ self.L


def append_constant(Y: FloatArray, fitted: FloatArray) -> FloatArray:
    """Append a constant coordinate, CONSTANT times the longest fitted point: (n, d +
    1).
    """
    # The plain model (tau = 1) does not change. For other tau distinct points get
    # distinct directions and all cosines are positive, so that any number of leaders
    # can be reached.
    height = CONSTANT * float(np.sqrt((fitted**2).sum(axis=1).max())) or 1.0
    return np.column_stack([Y, np.full(len(Y), height)])


def _exponent(X: FloatArray) -> int:
    return int(np.frexp(max(X.max(initial=0.0), -X.min(initial=0.0)))[1])


def _factor(A: Any, Y: FloatArray) -> FloatArray:
    """Return L of shape (d, r) with A = L L^T."""
    d = Y.shape[1]
    if isinstance(A, str):  # "whiten": the inverse root of the covariance
        variances, axes = np.linalg.eigh(np.cov(Y.T, bias=True).reshape(d, -1))
        kept = variances > MIN_VARIANCE * max(variances[-1], np.finfo(np.float64).tiny)
        return np.asarray(
            axes[:, kept] / np.sqrt(variances[kept]) if kept.any() else axes[:, -1:]
        )
    try:
        matrix = np.asarray(A, np.float64)
        got = f"shape {matrix.shape}"
    except (ValueError, TypeError):
        matrix, got = np.empty(0), "rows of different lengths, or text"
    if matrix.shape != (d, d):
        must = f"be a matrix of shape ({d}, {d}), as X has {d} features"
        raise ParameterError(
            "A", must, got, 'Pass one number for each pair of features, or "whiten".'
        )
    matrix = np.ldexp(
        matrix, -_exponent(matrix)
    )  # a factor changes no argmax set; A + A^T must not overflow
    symmetric = (matrix + matrix.T) / 2
    finite = np.isfinite(matrix).all()
    if (
        not finite
        or not is_positive_definite(symmetric)
        or not issymmetric(matrix, atol=1e-12 * np.abs(matrix).max())
    ):
        advice = "Use B @ B.T + eps * np.eye(d), or remove linearly dependent features."
        raise ParameterError(
            "A",
            "be symmetric positive definite",
            f"a {d} by {d} matrix that is not",
            advice,
        )
    return np.asarray(np.linalg.cholesky(symmetric))


def find_distinct_rows(X: Matrix) -> tuple[Matrix, IntArray]:
    """Return the distinct rows, (m, d), in an order that does not depend on the order
    of X, and each row's index.
    """
    if not is_sparse(X):
        classes = Classes.of(X)
        return classes.rows, classes.labels
    _, first, labels = np.unique(
        np.array(row_keys(X)), return_index=True, return_inverse=True
    )
    return X[first], labels


def row_keys(X: Matrix) -> list[bytes]:
    """Return bytes for each row that are equal for equal rows: its numbers, or a hash
    of a sparse row.
    """
    if not is_sparse(X):
        X = np.ascontiguousarray(X + 0.0)  # turns -0.0 into 0.0
        keys: list[bytes] = X.view(np.dtype((np.void, X[0].nbytes))).ravel().tolist()
        return keys
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    indices = X.indices.astype(np.int64)
    rows = (
        indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in pairwise(X.indptr)
    )
    return [blake2b(row, digest_size=16).digest() for row in rows]
