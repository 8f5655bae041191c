"""Preprocessing of points: they are centred, scaled and mapped to the plain inner product."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import issymmetric

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, Matrix
from hardmax._validation import is_positive_definite
from hardmax.cluster.rows import is_sparse

LOST = 1e-10  # of the largest variance: directions with less are left out by "whiten"
LIFT = 2.0  # the constant coordinate, in units of the longest point


class Preprocessing(NamedTuple):
    """x -> L^T (x - origin) in units of a power of two, which rounds nothing and changes no set."""

    exponent: int  # of the largest number that came: so that no mean overflows
    origin: FloatArray  # (d,) in those units
    unit: int  # exponent of the largest number after centring
    L: FloatArray | None  # (d, r) with A = L L^T, or the identity

    @classmethod
    def fit(cls, X: Matrix, A: Any, *, center: bool) -> "Preprocessing":
        if is_sparse(X):  # to centre them would fill them, and changes no distance
            return cls(_exponent(X.data), np.zeros(0), 0, None)
        exponent = _exponent(X)
        scaled = np.ldexp(X, -exponent)
        origin = (scaled.mean(axis=0, dtype=np.float64) if center else np.zeros(X.shape[1])).astype(X.dtype)
        unit = _exponent(scaled - origin)
        return cls(exponent, origin, unit, None if A is None else _root(A, np.ldexp(scaled - origin, -unit)))

    def transform(self, X: Matrix) -> Matrix:
        """(n, d) points as (n, r) points of the plain inner product."""
        if is_sparse(X):
            return sparse.csr_array((np.ldexp(X.data, -self.exponent), X.indices, X.indptr), shape=X.shape)
        Y = np.ldexp(np.ldexp(X, -self.exponent) - self.origin, -self.unit)
        return Y if self.L is None else Y @ self.L


def lift(Y: FloatArray, height: float) -> FloatArray:
    """Append a constant coordinate: (n, d + 1).

    It adds the same number to every product ⟨y_i, y_j⟩, and a mean of constants is that constant, so the plain model
    (tau = 1) is the same with it. For other tau it makes directions of distinct points distinct, and with `height`
    above the longest point every cosine positive, so that any number of leaders can be reached.
    """
    return np.column_stack([Y, np.full(len(Y), height)])


def height_of(Y: FloatArray) -> float:
    """How far to lift: a multiple of the longest point, or 1 where all are 0."""
    return LIFT * float(np.sqrt((Y**2).sum(axis=1).max())) or 1.0


def _exponent(X: FloatArray) -> int:
    return int(np.frexp(max(X.max(initial=0.0), -X.min(initial=0.0)))[1])


def _root(A: Any, Y: FloatArray) -> FloatArray:
    """(d, r) L with A = L L^T."""
    d = Y.shape[1]
    if isinstance(A, str):  # the inverse root of the covariance, without directions in which the points do not vary
        variances, axes = np.linalg.eigh(np.cov(Y.T, bias=True).reshape(d, -1))
        kept = variances > LOST * max(variances[-1], np.finfo(np.float64).tiny)
        return np.asarray(axes[:, kept] / np.sqrt(variances[kept]) if kept.any() else axes[:, -1:])
    try:
        matrix = np.asarray(A, np.float64)
        got = f"shape {matrix.shape}"
    except (ValueError, TypeError):
        matrix, got = np.empty(0), "rows of different lengths, or text"
    if matrix.shape != (d, d):
        must = f"be a matrix of shape ({d}, {d}), as X has {d} features"
        raise ParameterError("A", must, got, 'Pass one number for each pair of features, or "whiten".')
    matrix = np.ldexp(matrix, -_exponent(matrix))  # one factor for all changes no set, and A + A^T may not overflow
    symmetric = (matrix + matrix.T) / 2
    finite = np.isfinite(matrix).all()
    if not finite or not is_positive_definite(symmetric) or not issymmetric(matrix, atol=1e-12 * np.abs(matrix).max()):
        advice = "Use B @ B.T + eps * np.eye(d), or drop features that depend on others."
        raise ParameterError("A", "be symmetric positive definite", f"a {d} by {d} matrix that is not", advice)
    return np.asarray(np.linalg.cholesky(symmetric))
