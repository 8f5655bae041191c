"""Eigenvalues of a matrix of floats, with exact multiplicities and signs or with an
error bound.

Floats are rational numbers. Up to `MAX_EXACT_DIMENSION` the characteristic polynomial
is computed over the integers with python-flint: its irreducible factors give
multiplicities, their certified roots the values, independent of how LAPACK rounds. In
higher dimensions, and without python-flint, LAPACK's result is used with an error
bound: with computed eigenvectors X and Y near X^{-1}, the eigenvalues of V are those of
D + X^{-1} R, R = V X - X D, so they lie within |X^{-1} R| <= |Y R| / (1 - |I - Y X|) of
the computed ones, and each group of overlapping discs contains as many eigenvalues as
discs (Bauer and Fike).
"""

from dataclasses import dataclass
from importlib.util import find_spec
from math import hypot
from threading import Lock
from typing import Any

import numpy as np

from hardmax._exact import UNIT, over_one_denominator
from hardmax._types import AnyArray, FloatArray

MAX_EXACT_DIMENSION = 64  # some tenths of a second
# bits of an entry, as an integer over the common denominator, times the dimension
MAX_EXACT_BITS = 1 << 13
EQUAL_TOL = 1e-7  # eigenvalues that differ by less, relative to |V|, may be equal
# smaller singular values of V - lambda I, relative to |V|, count as zero
NULL_TOL = 1e-10
ROOT_BITS = 192  # precision of certified eigenvalues
# precisions to try in turn for the sign of a number
SIGN_BITS = (1 << 8, 1 << 9, 1 << 10, 1 << 11)
# a form counts as positive if it exceeds this many rounding errors of B
MIN_FORM_ROUNDINGS = 8.0
MAX_PAIRING_CONDITION = 1e12  # of left and right eigenvectors; defective beyond it
_flint_precision = Lock()  # flint's precision is shared by all threads


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """All eigenvalues of a matrix; multiplicities and numbers of eigenvectors are
    exact, or None if found in floats.
    """

    # (d,) complex, the largest real part first; of a pair, the positive imaginary part
    values: AnyArray
    size: float  # the Frobenius norm of the matrix
    # bound of the distance of `values` from the true ones; infinite if unknown
    error: float
    multiplicities: AnyArray | None = None  # (d,)
    # (d,), the number of independent eigenvectors of each value
    eigenvectors: AnyArray | None = None
    # (d,), a unit eigenvector of the first value, in floats
    first: AnyArray | None = None


def find_eigenvalues(V: FloatArray) -> Eigenvalues:
    """Find all eigenvalues of V, exactly where that is possible, else with an error
    bound.
    """
    return _find_exact(V) if is_exact(V) else bound_eigenvalues(V)


def frobenius_norm(V: FloatArray) -> float:
    """Return the Frobenius norm, the same on every machine: `hypot` sums with extended
    precision.
    """
    return hypot(*V.ravel().tolist())


def is_exact(V: FloatArray) -> bool:
    """Return whether eigenvalues of V are found over the integers: V has few rows, and
    its integers few bits.
    """
    if len(V) > MAX_EXACT_DIMENSION or not has_flint():
        return False
    bits = max(abs(x) for row in over_one_denominator(V)[0] for x in row).bit_length()
    return len(V) * bits <= MAX_EXACT_BITS


def has_flint() -> bool:
    """Return whether python-flint is installed."""
    return find_spec("flint") is not None


def _find_exact(V: FloatArray) -> Eigenvalues:
    from flint import ctx, fmpz_mat

    rows, denominator = over_one_denominator(V)
    N: Any = fmpz_mat(rows)
    identity = fmpz_mat(np.eye(len(V), dtype=int).tolist())
    roots: list[tuple[complex, int, int]] = []
    with _flint_precision, ctx.workprec(ROOT_BITS):
        for factor, multiplicity in N.charpoly().factor()[1]:
            vectors = 1
            if multiplicity > 1:
                value = identity * 0  # of the factor at N, by Horner's rule
                for coefficient in reversed(factor.coeffs()):
                    value = value * N + identity * coefficient
                vectors = (len(V) - value.rank()) // factor.degree()
            for root, _ in factor.complex_roots():
                eigenvalue = complex(root / denominator)
                roots += [(eigenvalue, multiplicity, vectors)] * multiplicity
    roots.sort(key=lambda root: (-root[0].real, -root[0].imag))
    values, multiplicities, eigenvectors = map(np.array, zip(*roots, strict=True))
    size = frobenius_norm(V)
    return Eigenvalues(values, size, 4 * UNIT * size, multiplicities, eigenvectors)


def bound_eigenvalues(V: FloatArray) -> Eigenvalues:
    """Find all eigenvalues of V in floats, with an error bound."""
    d = len(V)
    size = frobenius_norm(V)
    if np.array_equal(V, V.T):
        # an orthonormal basis, also for multiple eigenvalues
        values, X = np.linalg.eigh(V)
    else:
        values, X = np.linalg.eig(V)
    order = np.lexsort((-values.imag, -values.real))
    values = values[order].astype(complex)
    X = X[:, order]
    try:
        Y = np.linalg.inv(X)
    except np.linalg.LinAlgError:
        return Eigenvalues(values, size, np.inf)
    # of each product of two matrices, relative to the norms of its factors
    rounding = 8 * d * UNIT
    norms = float(np.linalg.norm(X) * np.linalg.norm(Y))
    residual = float(np.linalg.norm(np.eye(d) - Y @ X)) + rounding * norms
    if not residual < 0.5:  # also NaN
        return Eigenvalues(values, size, np.inf, first=X[:, 0])
    off = float(np.linalg.norm(Y @ (V @ X - X * values)))
    off += 4 * rounding * norms * size
    return Eigenvalues(values, size, off / (1 - residual), first=X[:, 0])


def examine_simple_eigenvalue(
    V: FloatArray, value: complex, B: AnyArray
) -> tuple[float, bool]:
    """Return the condition number of a simple eigenvalue, and whether ⟨phi, B phi⟩ > 0
    for a real eigenvector phi.

    With a certified lambda the system (N - lambda) x + mu b = 0, ⟨c, x⟩ = 1 has one
    solution, x = phi / ⟨c, phi⟩ and mu = 0, unless b or c is orthogonal to an
    eigenvector. It is solved in interval arithmetic, and so is the transposed one, for
    psi. The condition number is |phi| |psi| / |⟨psi, phi⟩|.
    """
    from flint import acb_mat, arb, ctx, fmpz_mat

    rows, denominator = over_one_denominator(V)
    N: Any = fmpz_mat(rows)
    form = over_one_denominator(B)[0]
    d = len(V)
    largest = d * max(abs(x) for row in form for x in row)
    border = [(7 * i * i + 3 * i) % 11 + 1 for i in range(d)]  # arbitrary numbers
    scale = max(max(abs(x) for row in rows for x in row), 1)
    condition = np.inf
    for bits in SIGN_BITS:
        with _flint_precision, ctx.workprec(bits):
            roots = [root for root, _ in N.charpoly().complex_roots()]
            root = min(roots, key=lambda root: abs(complex(root / denominator) - value))
            try:
                phi = _solve_eigenvector(N, root, border, scale)
                psi = _solve_eigenvector(N.transpose(), root, border, scale)
            except ZeroDivisionError:  # too few bits to show that the system is regular
                continue
            phi_size = _find_length(phi)
            psi_size = _find_length(psi)
            pairing = abs((psi.transpose() * phi)[0, 0])
            form_value = (phi.transpose() * acb_mat(fmpz_mat(form)) * phi)[0, 0].real
            rounding = largest * arb(MIN_FORM_ROUNDINGS * UNIT)
            form_value -= phi_size * phi_size * rounding
            if pairing > 0:
                condition = float(phi_size * psi_size / pairing)
            has_sign = form_value > 0 or form_value < 0 or value.imag != 0
            if condition < np.inf and has_sign:
                return condition, bool(form_value > 0)
    return condition, False


def _find_length(vector: Any) -> Any:
    """Return the Euclidean length of a column of intervals, as an interval."""
    from flint import arb

    return sum((abs(x) * abs(x) for x in vector.entries()), arb(0)).sqrt()


def _solve_eigenvector(N: Any, root: Any, border: list[int], scale: int) -> Any:
    """Return the eigenvector x of an eigenvalue with ⟨border, x⟩ = 1, as a column of
    intervals.
    """
    from flint import acb_mat

    d = N.nrows()
    entries = [
        [N[i, j] - (root if i == j else 0) for j in range(d)] + [scale * border[i]]
        for i in range(d)
    ]
    system = acb_mat([*entries, [*(scale * b for b in border), 0]])
    solution = system.solve(acb_mat([[0]] * d + [[scale]]))
    return acb_mat([[solution[i, 0]] for i in range(d)])


def find_eigenspace(
    V: FloatArray, top: complex, multiplicity: int
) -> tuple[FloatArray, FloatArray]:
    """Return a real basis of the leading eigenspace (the plane of a complex pair), and
    the dual one, 0 on the rest.
    """
    is_complex = abs(np.imag(top)) > EQUAL_TOL * frobenius_norm(V)
    shift = top if is_complex else np.real(top)
    null_size = NULL_TOL * float(np.linalg.norm(V, 2))
    bases = []
    for M in (V, V.T):
        _, sizes, rows = np.linalg.svd(M - shift * np.eye(len(V)))
        # the null space; a defective eigenvalue has fewer columns
        count = max(1, min(multiplicity, int((sizes <= null_size).sum())))
        basis = rows[-count:].conj().T
        if is_complex:
            basis = np.linalg.qr(np.hstack([basis.real, basis.imag]))[0]
        bases.append(basis)
    right, left = bases
    pairing = left.T @ right
    # left and right vectors of a defective eigenvalue are orthogonal
    defective = right.shape != left.shape
    if defective or np.linalg.cond(pairing) > MAX_PAIRING_CONDITION:
        return right, left
    return right, np.asarray(left @ np.linalg.inv(pairing).T)
