"""What users give: points, distances or similarities, each checked, and how new ones are compared with them."""

from typing import Any

import numpy as np
from scipy import sparse

from hardmax._errors import ParameterError
from hardmax._types import FloatArray, Matrix
from hardmax.cluster.graph import Graph, shepard, weighted
from hardmax.cluster.rows import is_sparse

SYMMETRIC = 1e-8  # parts of the largest entry by which a matrix may differ from its mirror


def check_distances(D: Matrix) -> None:
    """Refuse what are no distances between points."""
    _check_square(D, "distances", 'metric="precomputed"')
    if _entries(D).min(initial=0.0) < 0:
        got = f"{float(_entries(D).min()):.3g}"
        advice = 'Pass similarities with `affinity="precomputed"`, or the root of negated squared distances.'
        raise ParameterError("X", "hold distances, none below 0", got, advice)
    _check_symmetric(D, "distances")


def check_similarities(S: Matrix) -> None:
    """Refuse what are no similarities of points."""
    _check_square(S, "similarities", 'affinity="precomputed"')
    if _entries(S).min(initial=0.0) < 0:
        got = f"{float(_entries(S).min()):.3g}"
        advice = 'Use np.maximum(S, 0), or distances with `metric="precomputed"`, such as np.sqrt(-S) of squares.'
        raise ParameterError("X", "hold similarities, none below 0", got, advice)
    _check_symmetric(S, "similarities")


def check_directions(X: Matrix) -> FloatArray:
    """(n,) lengths of points, none 0: what has no direction has no cosine."""
    squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("nd,nd->n", X, X, dtype=np.float64)
    lengths = np.sqrt(np.asarray(squares, np.float64))
    if not lengths.all():
        zero = int(np.flatnonzero(lengths == 0)[0])
        advice = 'Leave such points out, or use `metric="euclidean"`.'
        raise ParameterError("X", 'have no row of zeros for `metric="cosine"`', f"zeros in row {zero}", advice)
    return lengths


def directions(X: Matrix) -> Matrix:
    """Points as unit vectors, of the same type: cosines are what distances between them say."""
    lengths = check_directions(X)
    if is_sparse(X):
        return sparse.csr_array(sparse.diags_array(1 / lengths) @ X).astype(X.dtype)
    return X / lengths[:, None].astype(X.dtype)


def graph_of(X: Matrix, metric: str, n_neighbors: int) -> Graph:
    """The graph of given distances, or else of given similarities."""
    if metric == "precomputed":
        return Graph.of_distances(X, n_neighbors)
    return Graph.of_similarities(X, n_neighbors)


def tokens_beside(X: Matrix, metric: str, n_neighbors: int, tokens: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(queries, m) tokens of new points from their distances or similarities to fitted ones, and their scales."""
    dense = np.asarray(X.toarray() if is_sparse(X) else X, np.float64)
    if is_sparse(X) and metric == "precomputed":
        stored = sparse.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape).toarray() > 0
        dense = np.where(stored, dense, np.inf)
    k = min(n_neighbors, dense.shape[1])
    if metric == "precomputed":
        near = np.argpartition(dense, k - 1, axis=1)[:, :k]
        far = np.maximum(np.take_along_axis(dense, near, 1), np.finfo(np.float64).tiny ** 0.5)
        _refuse_lonely(np.isfinite(far).any(axis=1))
        return shepard(far, near, tokens), far.max(axis=1)
    near = np.argpartition(-dense, k - 1, axis=1)[:, :k]
    weights = np.take_along_axis(dense, near, 1)
    _refuse_lonely(weights.any(axis=1))
    return weighted(weights, near, tokens), np.full(len(dense), np.nan)


def _refuse_lonely(known: Any) -> None:
    if not known.all():
        must, row = "say something of each point", int(np.flatnonzero(~known)[0])
        raise ParameterError("X", must, f"nothing in row {row}", "Give it a distance or similarity to a fitted point.")


def _check_square(X: Matrix, what: str, setting: str) -> None:
    if X.shape[0] != X.shape[1]:
        advice = "Leave `metric` and `affinity` as they are for points."
        raise ParameterError("X", f"be a square matrix of {what} for `{setting}`", f"shape {X.shape}", advice)


def _check_symmetric(X: Matrix, what: str) -> None:
    if is_sparse(X):  # a graph of nearest neighbours is not, and need not be
        return
    rows = max(1, (1 << 22) // len(X))
    size = float(np.abs(X).max(initial=0.0))
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        if np.abs(X[part] - X[:, part].T).max(initial=0.0) > SYMMETRIC * size:
            advice = "Use (X + X.T) / 2, or pass a sparse graph of neighbours."
            raise ParameterError("X", f"be a symmetric matrix of {what}", "one that is not", advice)


def _entries(X: Matrix) -> Matrix:
    return np.asarray(X.data) if is_sparse(X) else X
