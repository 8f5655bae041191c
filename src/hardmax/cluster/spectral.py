"""Spectral features of a graph: rows of its leading eigenvectors, rescaled where
clusters have unequal sizes.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # a dependency of scikit-learn

from hardmax._types import FloatArray, IntArray

MAX_DENSE = 400  # points up to which all eigenvectors are computed
MAX_COMPONENTS = 30  # eigenvectors among which the largest gap is searched
EIGENVALUE_TOL = 1e-10  # clusters far apart have eigenvalues that differ by 1e-8
SHIFT = 1 + 1e-4  # above the largest eigenvalue, which is 1
# mean bandwidth over sqrt(n): below for graphs of curves and planes, above in three
# dimensions
MAX_BAND = 3.0
MIN_GAP = 1e-9  # eigenvalues closer than this count as equal
MAX_ROUNDS = 10  # updates of a frame


class SpectralEmbedding(NamedTuple):
    """Leading eigenvalues and eigenvectors of S = D^-1/2 W D^-1/2."""

    values: FloatArray  # (M,) falling from 1
    vectors: FloatArray  # (n, M)

    @classmethod
    def of(cls, W: sparse.csr_array, count: int) -> "SpectralEmbedding":
        n = W.shape[0]
        root = 1 / np.sqrt(W.sum(axis=1))
        S = sparse.csc_array(W, copy=True)
        S.data *= root[S.indices] * np.repeat(root, np.diff(S.indptr))
        if n <= MAX_DENSE or 3 * count >= n:
            values, vectors = np.linalg.eigh(S.toarray())
        else:
            start = np.random.default_rng(0).standard_normal(
                n
            )  # fixed, so that results are reproducible
            with threadpool_limits(
                1, "blas"
            ):  # hundreds of small products, which threads would slow down
                if is_narrow(S):
                    values, vectors = _shift_invert(S, count, start)
                else:
                    ncv = min(n, 2 * count + 20)
                    values, vectors = eigsh(
                        S.tocsr(),
                        k=count,
                        which="LA",
                        v0=start,
                        ncv=ncv,
                        tol=EIGENVALUE_TOL,
                    )
        order = np.argsort(-values)[:count]
        return cls(values[order], vectors[:, order])

    def features(self, m: int) -> FloatArray:
        """Return the rows of the first m eigenvectors, (n, m), scaled so that each
        column has mean square 1.
        """
        return np.ascontiguousarray(self.vectors[:, :m]) * np.sqrt(len(self.vectors))

    def round_up(self, m: int) -> int:
        """Return the least number from m on that separates unequal eigenvalues, or the
        number of all.
        """
        gaps = self.values[:-1] - self.values[1:] > MIN_GAP
        after = np.flatnonzero(gaps[m - 1 :])
        return m + int(after[0]) if len(after) else len(self.values)

    def gap(self, m: int) -> float:
        """Return (1 - value_(m+1)) / (1 - value_m), at least 1; infinite if there are
        no more than m eigenvalues.
        """
        rates = np.maximum(1 - self.values, MIN_GAP)
        return float(rates[m] / rates[m - 1]) if m < len(rates) else np.inf

    def choose_components(self) -> int:
        """Return the m from 2 to MAX_COMPONENTS with the largest sqrt(m) log((1 -
        value_(m+1)) / (1 - value_m)).

        1 - value is the rate at which heat leaves. The plain ratio prefers small m.
        Without clusters, in dimension D, rates grow like m^(2/D) (Weyl), whose log
        ratio falls like 1/m: a weight m would prefer large m.
        """
        rates = np.maximum(
            1 - self.values[1 : MAX_COMPONENTS + 1], MIN_GAP
        )  # of m = 2, ..., MAX_COMPONENTS + 1
        if len(rates) < 2:
            return len(self.values)
        m = np.arange(2, len(rates) + 1)
        return 2 + int(np.argmax(np.sqrt(m) * np.diff(np.log(rates))))


def is_narrow(S: sparse.csc_array) -> bool:
    """Return whether the graph resembles one of a curve or plane: its mean bandwidth is
    of the order sqrt(n).
    """
    n = S.shape[0]
    position = np.argsort(reverse_cuthill_mckee(S, symmetric_mode=True))
    first, entries = np.arange(n), S.tocoo()
    np.minimum.at(first, position[entries.row], position[entries.col])
    return bool((np.arange(n) - first).mean() <= MAX_BAND * np.sqrt(n))


def _shift_invert(
    S: sparse.csc_array, count: int, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Apply Lanczos to the inverse of SHIFT - S: ten times as fast on narrow graphs,
    with eigenvalues near 1.
    """
    shifted = sparse.csc_array(SHIFT * sparse.eye_array(len(start)) - S)
    factors = splu(
        shifted,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    inverse = LinearOperator(S.shape, matvec=factors.solve, dtype=np.float64)
    values, vectors = eigsh(inverse, k=count, which="LA", v0=start)
    return SHIFT - 1 / values, vectors


class Frame(NamedTuple):
    """Features with one axis per group of points, scaled so that groups of any size
    have rays of equal length.

    The rows of a cluster with volume v (the sum of its degrees) have lengths like 1 /
    sqrt(v), so that outer points of a large cluster would join a small one. Multiplying
    axis c by sqrt(v_c) corrects it.
    """

    features: FloatArray  # (n, m)
    groups: IntArray  # (n,) no group is empty

    @classmethod
    def of_groups(
        cls, vectors: FloatArray, roots: FloatArray, groups: IntArray
    ) -> "Frame":
        """Rotate eigenvectors nearest to the means of groups (Yu and Shi 2003), and
        multiply axis c by sqrt(v_c).

        `roots` are the square roots of the degrees.
        """
        members = sparse.csr_array((roots, (groups, np.arange(len(groups)))))  # (m, n)
        lengths = np.sqrt(np.bincount(groups, roots**2))  # (m,) sqrt(v_c)
        left, _, right = np.linalg.svd(
            (members @ vectors) / lengths[:, None], full_matrices=False
        )
        return cls(vectors @ ((left @ right).T * lengths), groups)

    @classmethod
    def of_rays(cls, vectors: FloatArray, roots: FloatArray) -> "Frame":
        """Return a frame of m eigenvectors whose groups have their largest coordinate
        on their own axis.
        """
        m = vectors.shape[1]
        rows = vectors[
            qr(vectors.T, mode="r", pivoting=True)[1][:m]
        ]  # the most different ones, to start from
        frame = cls.of_groups(
            vectors, roots, np.linalg.solve(rows.T, vectors.T).argmax(axis=0)
        )
        for _ in range(MAX_ROUNDS):
            groups = frame.features.argmax(axis=1)
            if (groups == frame.groups).all() or len(np.unique(groups)) < m:
                break
            frame = cls.of_groups(vectors, roots, groups)
        return frame


def normalised_cut(W: sparse.csr_array, groups: IntArray, count: int) -> float:
    """Return the sum over groups of (weight of the edges that leave it) / volume; an
    empty group adds 1.

    Rounded to ten digits, so that equal partitions have equal cuts whatever the order
    of the sums.
    """
    own = np.repeat(groups, np.diff(W.indptr))
    outer = own != groups[W.indices]
    volumes, leaving = (
        np.bincount(own, W.data, count),
        np.bincount(own[outer], W.data[outer], count),
    )
    return float(
        f"{np.divide(leaving, volumes, out=np.ones(count), where=volumes > 0).sum():.10g}"
    )
