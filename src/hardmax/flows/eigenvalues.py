"""The eigenvalues of a matrix of floats: exact multiplicities and signs, or a bound of the error.

Floats are rational numbers. Up to `EXACT_UP_TO` dimensions the characteristic polynomial is computed over the integers
with python-flint: its irreducible factors tell multiplicities, their certified roots the rest, so that nothing depends
on how LAPACK rounds. Beyond that, and without python-flint, LAPACK's answer is used with a bound of its error: with
computed eigenvectors X and Y near X^{-1}, the eigenvalues of V are those of D + X^{-1} R, R = V X - X D, so they lie
within |X^{-1} R| <= |Y R| / (1 - |I - Y X|) of the computed ones, and as many in each group of overlapping discs as it
has discs (Bauer and Fike). What the bound cannot decide stays undecided.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from math import fsum, sqrt
from threading import Lock
from typing import Any

import numpy as np

from hardmax._exact import UNIT, over_one_denominator
from hardmax._types import AnyArray, FloatArray

EXACT_UP_TO = 64  # dimensions: some tenths of a second there
EQUAL = 1e-7  # eigenvalues that close, relative to |V|, are the same or cannot be told apart
NULL = 1e-10  # singular values of V - lambda I below that, relative to |V|, are zero
MOST_DIGITS = 1 << 13  # bits of an entry, as an integer over the common denominator, times dimensions: the same time
DIGITS = 192  # bits of certified eigenvalues
BITS = (1 << 8, 1 << 9, 1 << 10, 1 << 11)  # that are tried in turn for the sign of a number, which may be zero
ROUNDINGS = 8.0  # of B, relative to its largest entry, that its form must bear
_flint_precision = Lock()  # it is one for all threads


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """All eigenvalues of a matrix; multiplicities and eigenvectors are exact, or None where floats alone were asked."""

    values: AnyArray  # (d,) complex, the largest real part first; of a pair, the positive imaginary part
    size: float  # the norm of the matrix: `size_of`
    error: float  # a bound of the distance of `values` from the truth; infinite where there is none
    multiplicities: AnyArray | None = None  # (d,)
    eigenvectors: AnyArray | None = None  # (d,), how many independent ones each has
    first: AnyArray | None = None  # (d,), a unit eigenvector of the first value, as floats have it


def decide(V: FloatArray) -> Eigenvalues:
    """All eigenvalues of V, decided exactly where that is possible, else with a bound of the error."""
    return _exact(V) if is_exact(V) else bounded(V)


def size_of(V: FloatArray) -> float:
    """The Frobenius norm, summed without rounding: the same on every machine."""
    exponent = int(np.frexp(np.abs(V).max())[1])
    unit = np.ldexp(V, -exponent).ravel().tolist()
    return float(np.ldexp(sqrt(fsum(x * x for x in unit)), exponent))


def is_exact(V: FloatArray) -> bool:
    """Whether eigenvalues of such a matrix are decided over the integers: it is small, and so are these."""
    if len(V) > EXACT_UP_TO or not has_flint():
        return False
    digits = max(abs(x) for row in over_one_denominator(V)[0] for x in row).bit_length()
    return len(V) * digits <= MOST_DIGITS


def has_flint() -> bool:
    """Whether python-flint is installed."""
    return find_spec("flint") is not None


def _exact(V: FloatArray) -> Eigenvalues:
    from flint import ctx, fmpz_mat

    rows, denominator = over_one_denominator(V)
    N: Any = fmpz_mat(rows)
    size = size_of(V)
    found: list[tuple[complex, int, int]] = []
    with _flint_precision, ctx.workprec(DIGITS):
        for factor, multiplicity in N.charpoly().factor()[1]:
            vectors = multiplicity if multiplicity == 1 else (len(V) - _at(factor, N).rank()) // factor.degree()
            for root, _ in factor.complex_roots():
                found += [(complex(root / denominator), multiplicity, vectors)] * multiplicity
    found.sort(key=lambda each: (-each[0].real, -each[0].imag))
    values, multiplicities, vectors = map(np.array, zip(*found, strict=True))
    return Eigenvalues(values, size, 4 * UNIT * size, multiplicities, vectors)


def _at(polynomial: Any, N: Any) -> Any:
    """A polynomial of an integer matrix, by Horner's rule."""
    from flint import fmpz_mat

    identity = fmpz_mat([[int(i == j) for j in range(N.ncols())] for i in range(N.nrows())])
    value = identity * 0
    for coefficient in reversed(polynomial.coeffs()):
        value = value * N + identity * coefficient
    return value


def bounded(V: FloatArray) -> Eigenvalues:
    """All eigenvalues of V as floats have them, with a bound of the error."""
    d, size = len(V), size_of(V)
    symmetric = np.array_equal(V, V.T)  # then there is an orthonormal basis, also for multiple eigenvalues
    values, X = np.linalg.eigh(V) if symmetric else np.linalg.eig(V)
    order = np.lexsort((-values.imag, -values.real))
    values, X = values[order].astype(complex), X[:, order]
    try:
        Y = np.linalg.inv(X)
    except np.linalg.LinAlgError:
        return Eigenvalues(values, size, np.inf)
    both = float(np.linalg.norm(X) * np.linalg.norm(Y))
    rounding = 8 * d * UNIT  # of each product of two matrices, relative to the norms of its factors
    missed = float(np.linalg.norm(np.eye(d) - Y @ X)) + rounding * both
    off = float(np.linalg.norm(Y @ (V @ X - X * values))) + 4 * rounding * both * size
    return Eigenvalues(values, size, off / (1 - missed) if missed < 0.5 else np.inf, first=X[:, 0])


def simple_eigenvector(V: FloatArray, value: complex, B: AnyArray) -> tuple[float, bool]:
    """The condition number of a simple eigenvalue, and whether ⟨phi, B phi⟩ > 0 for its eigenvector phi, if it is real.

    Positive means by more than `ROUNDINGS` units of rounding of B.

    With a certified lambda the system (N - lambda) x + mu b = 0, ⟨c, x⟩ = 1 has one solution, x = phi / ⟨c, phi⟩ and
    mu = 0, unless b or c is at right angles to an eigenvector. It is solved in interval arithmetic, and so is the
    transposed one, for psi. The condition number is |phi| |psi| / |⟨psi, phi⟩|. B may hold large integers.
    """
    from flint import acb_mat, arb, ctx, fmpz_mat

    rows, denominator = over_one_denominator(V)
    N: Any = fmpz_mat(rows)
    d, form = len(V), over_one_denominator(B)[0]
    largest = d * max(abs(x) for row in form for x in row)
    border = [(7 * i * i + 3 * i) % 11 + 1 for i in range(d)]  # any numbers without a pattern
    scale = max(max(abs(x) for row in rows for x in row), 1)
    condition = np.inf
    for bits in BITS:
        with _flint_precision, ctx.workprec(bits):
            roots = [root for root, _ in N.charpoly().complex_roots()]
            root = roots[int(np.argmin([abs(complex(root / denominator) - value) for root in roots]))]
            try:
                phi, psi = (_null_vector(M, root, border, scale) for M in (N, N.transpose()))
            except ZeroDivisionError:  # too few bits to see that the system is regular
                continue
            sizes = [sum((abs(x) * abs(x) for x in vector.entries()), arb(0)).sqrt() for vector in (phi, psi)]
            pairing = abs((psi.transpose() * phi)[0, 0])
            seen = (phi.transpose() * acb_mat(fmpz_mat(form)) * phi)[0, 0].real
            seen -= sizes[0] * sizes[0] * largest * arb(ROUNDINGS * UNIT)
            if pairing > 0:
                condition = float(sizes[0] * sizes[1] / pairing)
            if condition < np.inf and (seen > 0 or seen < 0 or value.imag != 0):
                return condition, bool(seen > 0)
    return condition, False


def _null_vector(N: Any, root: Any, border: list[int], scale: int) -> Any:
    """The eigenvector x of an eigenvalue with ⟨border, x⟩ = 1, as a column of intervals."""
    from flint import acb_mat

    d = N.nrows()
    entries = [[N[i, j] - (root if i == j else 0) for j in range(d)] + [scale * border[i]] for i in range(d)]
    system = acb_mat([*entries, [*(scale * b for b in border), 0]])
    solution = system.solve(acb_mat([[0]] * d + [[scale]]))
    return acb_mat([[solution[i, 0]] for i in range(d)])


def eigenspace(V: FloatArray, top: complex, multiplicity: int) -> tuple[FloatArray, FloatArray]:
    """A real basis of the leading eigenspace (of a complex pair, its plane), and the dual one, zero on the rest.

    Found from the null spaces of V - lambda I and its transpose; fewer columns where eigenvectors are missing.
    """
    right, left = _null(V, top, multiplicity), _null(V.T, top, multiplicity)
    if abs(np.imag(top)) > EQUAL * size_of(V):
        right, left = (np.linalg.qr(np.hstack([M.real, M.imag]))[0] for M in (right, left))
    right, left = right.real, left.real
    pairing = left.T @ right
    if right.shape != left.shape or np.linalg.cond(pairing) > 1e12:  # defective: left and right are orthogonal
        return right, left
    return right, np.asarray(left @ np.linalg.inv(pairing).T)


def _null(V: FloatArray, top: complex, most: int) -> AnyArray:
    shift = top if abs(np.imag(top)) > EQUAL * size_of(V) else np.real(top)
    _, sizes, rows = np.linalg.svd(V - shift * np.eye(len(V)))
    count = max(1, min(most, int((sizes <= NULL * float(np.linalg.norm(V, 2))).sum())))
    return np.asarray(rows[-count:].conj().T)
