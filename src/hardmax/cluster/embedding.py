"""Spectral embedding: rows of the leading eigenvectors of a graph, the features of a heat kernel."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

from hardmax._types import FloatArray

DENSE = 400  # points up to which all eigenvectors are found at once
MOST = 30  # eigenvectors among which the gap is sought
EIGEN_TOL = 1e-10  # of eigenvalues up to 1; clusters that are far apart have eigenvalues that differ by 1e-8
SHIFT = 1 + 1e-4  # beyond the largest eigenvalue, which is 1
THIN = 3.0  # times sqrt(n): the band of a graph in the plane has less, in three dimensions more
SAME = 1e-9  # eigenvalues that near are one, and are not cut apart


class SpectralEmbedding(NamedTuple):
    """Leading eigenvalues and eigenvectors of S = D^-1/2 W D^-1/2."""

    values: FloatArray  # (M,) from 1 down
    vectors: FloatArray  # (n, M)

    @classmethod
    def of(cls, W: sparse.csr_array, count: int) -> "SpectralEmbedding":
        n = W.shape[0]
        root = 1 / np.sqrt(W.sum(axis=1))
        S = sparse.csc_array(W, copy=True)
        S.data *= root[S.indices] * np.repeat(root, np.diff(S.indptr))
        if n <= DENSE or 3 * count >= n:
            values, vectors = np.linalg.eigh(S.toarray())
        else:
            start = np.random.default_rng(0).standard_normal(n)  # any will do: inner products of rows alone matter
            with threadpool_limits(1, "blas"):  # hundreds of small products, in which threads would wait for each other
                if is_thin(S):
                    values, vectors = _by_factors(S, count, start)
                else:
                    ncv = min(n, 2 * count + 20)
                    values, vectors = eigsh(S.tocsr(), k=count, which="LA", v0=start, ncv=ncv, tol=EIGEN_TOL)
        order = np.argsort(-values)[:count]
        return cls(values[order], vectors[:, order])

    def features(self, m: int) -> FloatArray:
        """(n, m) rows of the first m eigenvectors, in units that make their mean square 1 a column."""
        return np.ascontiguousarray(self.vectors[:, :m]) * np.sqrt(len(self.vectors))

    def whole(self, m: int) -> int:
        """The least number from m on that cuts between eigenvalues that differ; all where there is none."""
        gaps = self.values[:-1] - self.values[1:] > SAME
        after = np.flatnonzero(gaps[m - 1 :])
        return m + int(after[0]) if len(after) else len(self.values)

    def gap(self, m: int) -> float:
        """Return (1 - value_(m+1)) / (1 - value_m), at least 1; infinite if there are no more than m eigenvalues."""
        rates = np.maximum(1 - self.values, SAME)
        return float(rates[m] / rates[m - 1]) if m < len(rates) else np.inf

    def components(self) -> int:
        """The m from 2 to MOST with the largest sqrt(m) log((1 - value_(m+1)) / (1 - value_m)).

        1 - value is the rate at which heat leaves. The plain ratio prefers few. In a cloud of dimension D without
        clusters rates grow like m^(2/D) (Weyl), whose log ratio falls like 1/m: weighing by m prefers many.
        """
        rates = np.maximum(1 - self.values[1 : MOST + 1], SAME)  # of m = 2, ..., MOST + 1
        if len(rates) < 2:
            return len(self.values)
        m = np.arange(2, len(rates) + 1)
        return 2 + int(np.argmax(np.sqrt(m) * np.diff(np.log(rates))))


def is_thin(S: sparse.csc_array) -> bool:
    """Whether the graph is like one of a curve or a plane: in a good order, rows reach back by sqrt(n) or so."""
    n = S.shape[0]
    place = np.empty(n, np.intp)
    place[reverse_cuthill_mckee(S, symmetric_mode=True)] = np.arange(n)
    first, entries = np.arange(n), S.tocoo()
    np.minimum.at(first, place[entries.row], place[entries.col])
    return bool((np.arange(n) - first).mean() <= THIN * np.sqrt(n))


def _by_factors(S: sparse.csc_array, count: int, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lanczos with the inverse of SHIFT - S: ten times as fast on thin graphs, whose eigenvalues crowd below 1.

    On others the factors fill up, and the eigenvalues do not crowd.
    """
    shifted = sparse.csc_array(SHIFT * sparse.eye_array(len(start)) - S)
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator(S.shape, matvec=factors.solve, dtype=np.float64)
    values, vectors = eigsh(inverse, k=count, which="LA", v0=start)
    return SHIFT - 1 / values, vectors
