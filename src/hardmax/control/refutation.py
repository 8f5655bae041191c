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

from hardmax._types import FloatArray

NULL_TOL = 1e-6  # eigenvalues of S that may be 0, as a part of the largest
SIMPLE = 1000  # denominators of vectors that S maps to 0

Vector = list[Fraction]
Matrix = list[Vector]


def refutes(z: Matrix, g: Matrix, weights: Vector) -> bool:
    """Whether weights near the given ones prove that ⟨A z_r, g_r⟩ > 0 for all r has no positive definite solution A."""
    for equations in (_beside(z, g), _all_of(z, g), _vanishing(z, g, weights)):
        exact = _solution(list(equations), weights)
        if exact is not None and _is_negative_semidefinite(_sum(z, g, exact)):
            return True
    return False


def _beside(z: Matrix, g: Matrix) -> Iterator[Vector]:
    """S x = 0 for x at right angles to all z: Σ λ z ⟨g, x⟩ = 0, in coordinates that tell the z apart."""
    reduced, pivots = rref(z)
    d = len(z[0])
    for free in (c for c in range(d) if c not in pivots):
        x = [Fraction(0)] * d
        x[free] = Fraction(1)
        for row, pivot in enumerate(pivots):
            x[pivot] = -reduced[row][free]
        along = [_dot(v, x) for v in g]
        yield from ([u[a] * s for u, s in zip(z, along, strict=True)] for a in pivots)


def _all_of(z: Matrix, g: Matrix) -> Iterator[Vector]:
    """S = 0, entry by entry."""
    d = len(z[0])
    for a in range(d):
        for b in range(a, d):
            yield [u[a] * v[b] + u[b] * v[a] for u, v in zip(z, g, strict=True)]


def _vanishing(z: Matrix, g: Matrix, weights: Vector) -> Iterator[Vector]:
    """S x = 0 for x that S nearly maps to 0: on lattices these are simple fractions."""
    values, vectors = np.linalg.eigh(np.array(_sum(z, g, weights), np.float64))
    near = vectors[:, np.abs(values) <= NULL_TOL * np.abs(values).max()].T
    rough = [[Fraction(float(x)).limit_denominator(SIMPLE) for x in row] for row in _reduced(near)]
    for x in rough:
        pairs = [(_dot(u, x), _dot(v, x)) for u, v in zip(z, g, strict=True)]
        for a in range(len(x)):
            yield [u[a] * s + v[a] * t for u, v, (t, s) in zip(z, g, pairs, strict=True)]


def _reduced(rows: FloatArray) -> FloatArray:
    """The same span, with the identity in the columns where that is most stable."""
    if not len(rows):
        return rows
    columns = qr(rows, mode="r", pivoting=True)[1][: len(rows)]
    return np.asarray(np.linalg.solve(rows[:, columns], rows))


def _solution(equations: Matrix, weights: Vector) -> Vector | None:
    """Weights at least 0, not all 0, that solve the equations: the largest are determined by the others."""
    order = sorted(range(len(weights)), key=lambda r: -weights[r])
    reduced, pivots = rref([[row[r] for r in order] for row in equations])
    ranked = [weights[r] for r in order]
    for row, pivot in enumerate(pivots):
        ranked[pivot] = -sum((reduced[row][c] * ranked[c] for c in range(len(order)) if c not in pivots), Fraction(0))
    if min(ranked) < 0 or not any(ranked):
        return None
    exact = [Fraction(0)] * len(weights)
    for place, r in enumerate(order):
        exact[r] = ranked[place]
    return exact


def _sum(z: Matrix, g: Matrix, weights: Vector) -> Matrix:
    """2 S."""
    d = len(z[0])
    S = [[Fraction(0)] * d for _ in range(d)]
    for u, v, w in zip(z, g, weights, strict=True):
        for a in range(d):
            for b in range(d):
                S[a][b] += w * (u[a] * v[b] + u[b] * v[a])
    return S


def _is_negative_semidefinite(S: Matrix) -> bool:
    """By symmetric elimination of -S: pivots at least 0, and where one is 0 its row is."""
    M = [[-x for x in row] for row in S]
    for k, row in enumerate(M):
        if row[k] < 0 or (row[k] == 0 and any(row[k:])):
            return False
        for below in M[k + 1 :]:
            if below[k]:
                factor = below[k] / row[k]
                below[k:] = [x - factor * y for x, y in zip(below[k:], row[k:], strict=True)]
    return True


def rref(rows: Matrix) -> tuple[Matrix, list[int]]:
    """Reduced row echelon form, without its zero rows, and the columns of its pivots."""
    if not rows:
        return [], []
    try:
        from flint import fmpq, fmpq_mat
    except ImportError:
        return _rref(rows)
    entries = [fmpq(x.numerator, x.denominator) for row in rows for x in row]
    reduced, rank = fmpq_mat(len(rows), len(rows[0]), entries).rref()
    found = [[Fraction(int(x.p), int(x.q)) for x in row] for row in reduced.tolist()[:rank]]
    return found, [next(c for c, x in enumerate(row) if x) for row in found]


def _rref(rows: Matrix) -> tuple[Matrix, list[int]]:
    """The same without python-flint, which is faster for many rows."""
    pivots: list[int] = []
    rows = [list(row) for row in rows]
    for column in range(len(rows[0])):
        at = next((r for r in range(len(pivots), len(rows)) if rows[r][column]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        lead = rows[top][column]
        rows[top] = [x / lead for x in rows[top]]
        for r, row in enumerate(rows):
            if r != top and row[column]:
                factor = row[column]
                rows[r] = [x - factor * y for x, y in zip(row, rows[top], strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def _dot(x: Vector, y: Vector) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))
