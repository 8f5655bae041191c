"""Proofs in rational arithmetic that no A exists.

Given rows sym(z gᵀ), look for weights λ >= 0, not all 0, near those of a solver, with S = Σ λ sym(z gᵀ) negative
semidefinite. Where the z span less than the space, S ⪯ 0 needs S x = 0 for every x at right angles to all z, which is
linear in λ; where rows depend on each other S may be 0 altogether; and on lattices it may vanish along simple
directions. Such equations are solved exactly, and what comes out is checked exactly.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.linalg import qr

from hardmax._types import AnyArray

NULL_TOL = 1e-6  # eigenvalues of S that may be 0, as a part of the largest
SIMPLE = 1000  # denominators of vectors that S maps to 0

as_fractions = np.vectorize(Fraction, otypes=[object])


def refutes(z: AnyArray, g: AnyArray, weights: AnyArray) -> bool:
    """Whether weights near the given ones prove that ⟨A z_r, g_r⟩ > 0 for all r has no positive definite solution A.

    All are arrays of Fractions: z and g of shape (r, d), weights of shape (r,).
    """
    for equations in (_orthogonal_equations(z, g), _zero_equations(z, g), _kernel_equations(z, g, weights)):
        exact = _solution(np.array(list(equations)).reshape(-1, len(z)), weights)
        if exact is not None and _is_negative_semidefinite(_sum(z, g, exact)):
            return True
    return False


def _orthogonal_equations(z: AnyArray, g: AnyArray) -> Iterator[AnyArray]:
    """S x = 0 for x at right angles to all z: Σ λ z ⟨g, x⟩ = 0, in coordinates that tell the z apart."""
    reduced, pivots = rref(z)
    for free in np.setdiff1d(np.arange(z.shape[1]), pivots):
        x = as_fractions(np.arange(z.shape[1]) == free)
        x[pivots] = -reduced[:, free]
        yield from (z[:, pivots] * (g @ x)[:, None]).T


def _zero_equations(z: AnyArray, g: AnyArray) -> Iterator[AnyArray]:
    for a, b in zip(*np.triu_indices(z.shape[1]), strict=True):
        yield z[:, a] * g[:, b] + z[:, b] * g[:, a]


def _kernel_equations(z: AnyArray, g: AnyArray, weights: AnyArray) -> Iterator[AnyArray]:
    """S x = 0 for x that S nearly maps to 0: on lattices these are simple fractions."""
    values, vectors = np.linalg.eigh(_sum(z, g, weights).astype(np.float64))
    near = vectors[:, np.abs(values) <= NULL_TOL * np.abs(values).max()].T
    if not len(near):
        return
    columns = qr(near, mode="r", pivoting=True)[1][: len(near)]  # the same span, with the identity where that is stable
    for row in np.linalg.solve(near[:, columns], near).tolist():
        x = np.array([Fraction(entry).limit_denominator(SIMPLE) for entry in row])
        yield from (z * (g @ x)[:, None] + g * (z @ x)[:, None]).T


def _solution(equations: AnyArray, weights: AnyArray) -> AnyArray | None:
    """Weights at least 0, not all 0, that solve the equations: the largest are determined by the others."""
    order = np.argsort(-weights, kind="stable")
    reduced, pivots = rref(equations[:, order])
    ranked = weights[order]
    others = np.setdiff1d(np.arange(len(order)), pivots)
    ranked[pivots] = -reduced[:, others] @ ranked[others]
    if min(ranked) < 0 or not any(ranked):
        return None
    return ranked[np.argsort(order)]


def _sum(z: AnyArray, g: AnyArray, weights: AnyArray) -> AnyArray:
    half = (z * weights[:, None]).T @ g
    return np.asarray(half + half.T)


def _is_negative_semidefinite(S: AnyArray) -> bool:
    """By symmetric elimination of -S: pivots at least 0, and where one is 0 its row is."""
    M = -S
    for k, row in enumerate(M):
        if row[k] < 0 or (row[k] == 0 and any(row[k:])):
            return False
        if row[k]:
            M[k + 1 :, k:] -= np.outer(M[k + 1 :, k] / row[k], row[k:])
    return True


def rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    """Reduced row echelon form, without its zero rows, and the columns of its pivots."""
    try:
        from flint import fmpq, fmpq_mat
    except ImportError:
        return _rref(rows)
    n, columns = rows.shape
    reduced, rank = fmpq_mat(n, columns, [fmpq(x.numerator, x.denominator) for x in rows.flat]).rref()
    found = np.array([Fraction(int(x.p), int(x.q)) for x in reduced.entries()], object).reshape(n, columns)[:rank]
    return found, [int(np.flatnonzero(row)[0]) for row in found]


def _rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    """The same without python-flint, which is faster for many rows."""
    rows = rows.copy()
    pivots: list[int] = []
    for column in range(rows.shape[1]):
        top = len(pivots)
        if not rows[top:, column].any():
            continue
        at = top + int(np.flatnonzero(rows[top:, column])[0])
        rows[[top, at]] = rows[[at, top]]
        rows[top] /= rows[top, column]
        others = np.setdiff1d(np.flatnonzero(rows[:, column]), top)
        rows[others] -= np.outer(rows[others, column], rows[top])
        pivots.append(column)
    return rows[: len(pivots)], pivots
