"""Proofs that no A meets the demands: Farkas weights, checked in rational arithmetic.

If weights λ >= 0, not all 0, make S = Σ λ sym(z gᵀ) with z = z_i, g = z_t - z_j negative semidefinite, then
Σ λ ⟨A z, g⟩ = ⟨S, A⟩ <= 0 for every positive semidefinite A, so not all of these products are positive: a proof.

Let P be the span of the z that make demands, and N its complement. S vanishes on N, so S ⪯ 0 needs S_PN = 0 and
S_PP ⪯ 0. The programme that has these weights as its dual is

    maximise m   over A_PP ⪰ 0 with trace 1, and A_PN with entries between -R and R,

where A_NN does not matter: it can always be made large enough for A to be definite.

For an exact proof, look for rational weights near those of the solver. S ⪯ 0 needs S x = 0 for every x orthogonal to
all z, which is linear in λ; if rows depend on each other S may be 0 altogether; and on lattices it may vanish along
simple directions. Such equations are solved exactly, and the result is checked exactly.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from hardmax._arrays import unit_rows
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.control.programme import Demands, Solution, add_cuts, as_fractions, load_cvxpy, solve

MAX_CROSS = 1e3  # R
SPAN_TOL = 1e-10  # smaller singular values, relative to the largest, belong to directions without demands
NOISE = (1e-6, 1e-4, 1e-2)  # weights below these parts of the largest one may be the solver's noise
MIN_MARGIN = 1e-6  # a larger margin is certainly positive
MIN_WEIGHT = 1e-3  # relative to the largest: demands with smaller weights have no part in a conflict
NULL_TOL = 1e-6  # smaller eigenvalues of S, relative to the largest, may be 0
MAX_DENOMINATOR = 1000  # of vectors that S maps to 0


class Existence(NamedTuple):
    """The solution of the programme above for some of the demands: a positive margin, or weights."""

    demands: Demands
    solved: Solution
    is_refuted: bool  # weights near these prove that no positive definite A meets the demands


def decide_existence(demands: Demands, options: Mapping[str, Any] | None = None) -> Existence:
    """Decide whether some symmetric positive definite A, of any condition number, meets the demands."""
    while True:  # if only some demands conflict, weights are vague: drop demands without weight and decide again
        _, values, axes = np.linalg.svd(unit_rows(demands.tokens[demands.chooser]), full_matrices=False)
        basis = axes[values > SPAN_TOL * values[0]].T  # (d, p)
        solved = add_cuts(demands, partial(_solve, demands, basis, options))
        refuted = solved.A is not None and solved.margin <= MIN_MARGIN and _is_refuted(demands, solved)
        kept = np.unique(solved.pairs[solved.weights > MIN_WEIGHT * solved.weights.max(initial=0.0), 0])
        if solved.A is None or solved.margin > MIN_MARGIN or refuted or len(kept) in (0, len(demands)):
            return Existence(demands, solved, refuted)
        demands = demands.subset(kept)


def _is_refuted(demands: Demands, solved: Solution) -> bool:
    for part in NOISE if solved.weights.any() else ():
        kept = solved.weights > part * solved.weights.max()
        pairs = solved.pairs[kept]
        lengths = [np.hypot.reduce(np.abs(vectors), axis=1) for vectors in demands.vectors(pairs)]  # of z and g
        z, g = demands.vectors(pairs, exact=True)
        if refutes(z, g, as_fractions(solved.weights[kept] / np.prod(lengths, axis=0))):
            return True
    return False


def _solve(demands: Demands, basis: FloatArray, options: Mapping[str, Any] | None, pairs: IntArray) -> Solution:
    cp = load_cvxpy()
    N = np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :]  # the complement of P
    p, k = basis.shape[1], N.shape[1]
    z, ahead = demands.units(pairs)
    z, onto, beside = z @ basis, ahead @ basis, ahead @ N  # (rows, p), (rows, p), (rows, k)
    B, m = cp.Variable((p, p), symmetric=True), cp.Variable()
    gaps = np.einsum("ri,rj->rij", z, onto).reshape(-1, p * p) @ cp.vec(B, order="C")
    F = cp.Variable((p, k)) if k else None
    if F is not None:
        gaps = gaps + np.einsum("ri,rj->rij", z, beside).reshape(-1, p * k) @ cp.vec(F, order="C")
    limits = [B >> 0, cp.trace(B) == 1, *([cp.abs(F) <= MAX_CROSS] if F is not None else [])]

    def read_A() -> FloatArray:
        half = basis @ F.value @ N.T if F is not None else np.zeros((len(N), len(N)))
        return np.asarray(basis @ B.value @ basis.T + half + half.T)

    return solve(cp.Problem(cp.Maximize(m), [gaps >= m, *limits]), m, read_A, options)


def refutes(z: AnyArray, g: AnyArray, weights: AnyArray) -> bool:
    """Return whether Fractions near `weights` prove that ⟨A z_r, g_r⟩ > 0 for all r has no positive definite A."""
    a, b = np.triu_indices(z.shape[1])
    zero = (z[:, a] * g[:, b] + z[:, b] * g[:, a]).T  # S = 0, entry by entry
    for equations in (_orthogonal_equations(z, g), zero, _kernel_equations(z, g, weights)):
        exact = _solve_exactly(np.array(list(equations)).reshape(-1, len(z)), weights)
        if exact is not None and _is_negative_semidefinite(_sum(z, g, exact)):
            return True
    return False


def _orthogonal_equations(z: AnyArray, g: AnyArray) -> Iterator[AnyArray]:
    """Yield S x = 0 for x orthogonal to all z: Σ λ z ⟨g, x⟩ = 0, in coordinates that span the z."""
    reduced, pivots = rref(z)
    for free in np.setdiff1d(np.arange(z.shape[1]), pivots):
        x = as_fractions(np.arange(z.shape[1]) == free)
        x[pivots] = -reduced[:, free]
        yield from (z[:, pivots] * (g @ x)[:, None]).T


def _kernel_equations(z: AnyArray, g: AnyArray, weights: AnyArray) -> Iterator[AnyArray]:
    """Yield S x = 0 for x that S nearly maps to 0: on lattices these are simple fractions."""
    values, vectors = np.linalg.eigh(_sum(z, g, weights).astype(np.float64))
    near = vectors[:, np.abs(values) <= NULL_TOL * np.abs(values).max()].T
    if not len(near):
        return
    columns = qr(near, mode="r", pivoting=True)[1][: len(near)]  # the same span, with the identity where that is stable
    for row in np.linalg.solve(near[:, columns], near).tolist():
        x = np.array([Fraction(entry).limit_denominator(MAX_DENOMINATOR) for entry in row])
        yield from (z * (g @ x)[:, None] + g * (z @ x)[:, None]).T


def _solve_exactly(equations: AnyArray, weights: AnyArray) -> AnyArray | None:
    """Return weights at least 0, not all 0, that solve the equations: the others determine the largest ones."""
    order = np.argsort(-weights, kind="stable")
    ranked, (reduced, pivots) = weights[order], rref(equations[:, order])
    others = np.setdiff1d(np.arange(len(order)), pivots)
    ranked[pivots] = -reduced[:, others] @ ranked[others]
    if min(ranked) < 0 or not any(ranked):
        return None
    return ranked[np.argsort(order)]


def _sum(z: AnyArray, g: AnyArray, weights: AnyArray) -> AnyArray:
    half = (z * weights[:, None]).T @ g
    return np.asarray(half + half.T)


def _is_negative_semidefinite(S: AnyArray) -> bool:
    """Eliminate -S symmetrically: pivots must be at least 0, and the row of a zero pivot must be 0."""
    M = -S
    for k, row in enumerate(M):
        if row[k] < 0 or (row[k] == 0 and any(row[k:])):
            return False
        if row[k]:
            M[k + 1 :, k:] -= np.outer(M[k + 1 :, k] / row[k], row[k:])
    return True


def rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    """Return the reduced row echelon form, without its zero rows, and its pivot columns."""
    try:  # 55 rows of 120 floats take 0.7 s instead of 18 s
        from flint import fmpq, fmpq_mat
    except ImportError:
        return _rref(rows)
    n, columns = rows.shape
    reduced, rank = fmpq_mat(n, columns, [fmpq(x.numerator, x.denominator) for x in rows.flat]).rref()
    found = np.array([Fraction(int(x.p), int(x.q)) for x in reduced.entries()], object).reshape(n, columns)[:rank]
    return found, [int(np.flatnonzero(row)[0]) for row in found]


def _rref(rows: AnyArray) -> tuple[AnyArray, list[int]]:
    rows, pivots = rows.copy(), list[int]()
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
