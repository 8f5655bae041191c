"""The eigenvalues of a matrix of floats, decided and not guessed.

Floats are rational numbers. Up to `EXACT_UP_TO` dimensions the characteristic polynomial is computed over the integers
with python-flint: its irreducible factors tell multiplicities, their certified roots the rest, so that nothing depends
on how LAPACK rounds. Beyond that, and without python-flint, LAPACK's answer is used with a bound of its error: with
computed eigenvectors X and Y near X^{-1}, the eigenvalues of V are those of D + X^{-1} R, R = V X - X D, so they lie
within |X^{-1} R| <= |Y R| / (1 - |I - Y X|) of the computed ones, and as many in each group of overlapping discs as it
has discs (Bauer and Fike). What the bound cannot decide stays undecided.
"""

from dataclasses import dataclass
from math import fsum, sqrt
from threading import Lock
from typing import Any

import numpy as np

from hardmax._types import AnyArray, FloatArray
from hardmax.exact import UNIT, over_one_denominator

EXACT_UP_TO = 64  # dimensions: a tenth of a second there
DIGITS = 192  # bits of certified eigenvalues
NEARBY = 2.0**-100  # of |V|: how far from an eigenvalue its projector is read off the resolvent
MOST_BITS = 1 << 14
_flint_precision = Lock()  # it is one for all threads


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """All eigenvalues of a matrix.

    Parameters
    ----------
    values : (d,) array of complex
        The largest real part first; of a pair, the positive imaginary part.
    size : float
        The norm of the matrix: `size_of`.
    error : float
        A bound of the distance of `values` from the truth; infinite where there is none.
    multiplicities : (d,) array or None
        Exactly, of each; None where floats alone were asked, which cannot tell.
    eigenvectors : (d,) array or None
        How many independent ones each has, exactly.
    """

    values: AnyArray
    size: float
    error: float
    multiplicities: AnyArray | None = None
    eigenvectors: AnyArray | None = None

    @classmethod
    def of(cls, V: FloatArray) -> "Eigenvalues":
        """Decide them exactly where that is possible, else with a bound of the error."""
        return _exact(V) if is_exact(V) else _bounded(V)


def size_of(V: FloatArray) -> float:
    """The Frobenius norm, summed without rounding: the same on every machine."""
    exponent = int(np.frexp(np.abs(V).max())[1])
    unit = np.ldexp(V, -exponent).ravel().tolist()
    return float(np.ldexp(sqrt(fsum(x * x for x in unit)), exponent))


def is_exact(V: FloatArray) -> bool:
    """Whether eigenvalues of such a matrix are decided over the integers."""
    if len(V) > EXACT_UP_TO:
        return False
    try:
        import flint  # noqa: F401
    except ImportError:
        return False
    return True


def _exact(V: FloatArray) -> Eigenvalues:
    from flint import ctx

    rows, denominator = over_one_denominator(V)
    N, size = _integers(rows), size_of(V)
    found: list[tuple[complex, int, int]] = []
    with _flint_precision, ctx.workprec(DIGITS):
        for factor, multiplicity in N.charpoly().factor()[1]:
            vectors = multiplicity if multiplicity == 1 else (len(V) - _at(factor, N).rank()) // factor.degree()
            for root, _ in factor.complex_roots():
                found += [(_as_complex(root / denominator), multiplicity, vectors)] * multiplicity
    found.sort(key=lambda each: (-each[0].real, -each[0].imag))
    values, multiplicities, vectors = map(np.array, zip(*found, strict=True))
    return Eigenvalues(values, size, 4 * UNIT * size, multiplicities, vectors)


def _integers(rows: list[tuple[int, ...]]) -> Any:
    from flint import fmpz_mat

    return fmpz_mat([list(row) for row in rows])


def _at(polynomial: Any, N: Any) -> Any:
    """A polynomial of an integer matrix, by Horner's rule."""
    from flint import fmpz_mat

    identity = fmpz_mat([[int(i == j) for j in range(N.ncols())] for i in range(N.nrows())])
    value = identity * 0
    for coefficient in reversed(polynomial.coeffs()):
        value = value * N + identity * coefficient
    return value


def _bounded(V: FloatArray) -> Eigenvalues:
    d, size = len(V), size_of(V)
    values, X = np.linalg.eig(V)
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
    return Eigenvalues(values, size, off / (1 - missed) if missed < 0.5 else np.inf)


def simple_eigenvector(V: FloatArray, value: complex, B: AnyArray) -> tuple[float, float]:
    """The condition number of a simple eigenvalue, and ⟨phi, B phi⟩ / (d max |b|) of its unit eigenvector phi, if real.

    Both come from the projector P = phi psi^T / ⟨psi, phi⟩ onto phi along all other eigenspaces, which is read off the
    resolvent in interval arithmetic: P = -eps (V - (lambda + eps) I)^{-1} + O(eps). B may hold large integers.
    """
    from flint import acb_mat, arb, ctx

    rows, denominator = over_one_denominator(V)
    form, _ = over_one_denominator(B)
    largest = len(V) * max(abs(x) for row in form for x in row) or 1
    N, bits = _integers(rows), 512
    while bits <= MOST_BITS:
        with _flint_precision, ctx.workprec(bits):
            roots = [root for root, _ in N.charpoly().complex_roots()]
            distances = [abs(_as_complex(root / denominator) - value) for root in roots]
            shift = arb(size_of(V)) * denominator * arb(NEARBY)
            identity = acb_mat(len(V), len(V), [int(i == j) for i in range(len(V)) for j in range(len(V))])
            try:
                P = (acb_mat(N) - identity * (roots[int(np.argmin(distances))] + shift)).inv() * (-shift)
            except ZeroDivisionError:  # too few bits to see that it is regular
                P = identity * 0
            square = sum((x.real * x.real + x.imag * x.imag for x in P.entries()), arb(0))  # |P|^2
            seen = (P.transpose() * acb_mat(_integers(form)) * P).trace().real / square / largest
            if square.rel_accuracy_bits() > 60 and float(seen.rad()) < 2.0**-60:
                return float(square.sqrt()), float(seen)
        bits *= 2
    return np.inf, 0.0


def _as_complex(ball: Any) -> complex:
    return complex(float(ball.real), float(ball.imag))
