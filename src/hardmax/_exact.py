"""Exact numbers as rows of integers over one denominator, rounding units of floats, and
bounds as text.
"""

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isfinite, lcm
from numbers import Integral
from operator import mul
from typing import Any

import numpy as np

from hardmax._errors import InputError
from hardmax._types import AnyArray, FloatArray, Row

UNIT = 2.0**-53  # rounding of one float64 operation, relative
TINY = 2.0**-1022  # and absolute, below the smallest normal number
LEAST = 5e-324  # the smallest positive number
MAX_ELIMINATION_BITS = 1 << 13  # bits of an integer times dimensions, in an elimination


def check_subnormals() -> None:
    """Raise an error if this thread counts numbers below `TINY` as 0."""
    if LEAST * 1.0 == 0.0:
        raise InputError(
            "Exact sets need floating-point numbers below 2.2e-308. This thread replaces"
            " them by 0, for example after `torch.set_flush_denormal(True)`. Call"
            " `torch.set_flush_denormal(False)`."
        )


def over_one_denominator(values: AnyArray) -> tuple[list[Row], int]:
    """Write the rows of an array of floats or Fractions as integers over one
    denominator.
    """
    ratios = [[x.as_integer_ratio() for x in row] for row in values.tolist()]
    denominator = lcm(*{q for row in ratios for _, q in row})
    return [
        tuple(p * (denominator // q) for p, q in row) for row in ratios
    ], denominator


def common_denominator(values: AnyArray) -> int:
    """Return the least common denominator of an array of floats or Fractions."""
    if values.dtype == object:
        return lcm(*{x.denominator for x in values.flat})
    mantissas, exponents = np.frexp(values.astype(np.float64))
    whole = np.ldexp(mantissas, 53).astype(np.int64)  # x = whole * 2^(exponent - 53)
    zeros = (
        np.frexp((whole & -whole).astype(np.float64))[1] - 1
    )  # at the end of `whole`; -1 for 0
    return 1 << max(0, int(np.where(whole == 0, 0, 53 - exponents - zeros).max()))


def to_fraction(value: Any) -> Fraction:
    """Return the exact value of a finite real number as a Fraction of Python integers.

    Every exact number that enters passes here: `Fraction` keeps NumPy integers as its
    parts, and their products overflow without an error. A `TypeError` for what is no
    real number, a `ValueError` or `OverflowError` for NaN and infinity.
    """
    is_time = isinstance(value, np.timedelta64)  # NumPy counts it among the integers
    if isinstance(value, Integral | np.bool_) and not is_time:
        return Fraction(int(value))
    if not hasattr(value, "as_integer_ratio"):
        raise TypeError(f"{type(value).__name__} is no real number")
    p, q = value.as_integer_ratio()
    return Fraction(int(p), int(q))


def to_fractions(values: AnyArray) -> AnyArray:
    return np.array([to_fraction(x) for x in values.ravel().tolist()], object).reshape(
        values.shape
    )


def dot(x: Iterable[int], y: Iterable[int]) -> int:
    return sum(map(mul, x, y))


def apply(A: list[Row] | None, x: Row) -> Row:
    """Return A x for an integer matrix given by its rows; None is the identity."""
    return x if A is None else tuple(dot(row, x) for row in A)


def combine(weights: Iterable[int], rows: Iterable[Row]) -> Row:
    """Return sum_j w_j N_j."""
    return tuple(dot(weights, column) for column in zip(*rows, strict=True))


def as_floats(rows: list[Row], denominator: int) -> FloatArray:
    """Return each entry divided by the denominator and rounded once."""
    return np.array([[x / denominator for x in row] for row in rows], np.float64)


def has_positive_pivots(matrix: AnyArray) -> bool:
    """Return whether a symmetric matrix is positive definite: all pivots of
    fraction-free elimination are positive.

    False where its integers are so long that elimination would be slow: exponents
    spread over hundreds of digits.
    """
    M = [list(row) for row in over_one_denominator(matrix)[0]]
    if (
        len(M) * max(abs(x) for row in M for x in row).bit_length()
        > MAX_ELIMINATION_BITS
    ):
        return False
    last = 1
    for k, pivoting in enumerate(M):  # the part above the diagonal is enough
        pivot = pivoting[k]
        if pivot <= 0:
            return False
        for i in range(k + 1, len(M)):
            row, factor = M[i], pivoting[i]
            for j in range(i, len(M)):
                row[j] = (
                    pivot * row[j] - factor * pivoting[j]
                ) // last  # without remainder (Bareiss)
        last = pivot
    return True


def format_down(bound: float, digits: int) -> str:
    """Return a lower bound with some significant digits: the printed number is never
    larger.
    """
    return _format(bound, digits, ROUND_FLOOR)


def format_up(bound: float, digits: int) -> str:
    """Return an upper bound with some significant digits: the printed number is never
    smaller.
    """
    return _format(bound, digits, ROUND_CEILING)


def _format(bound: float, digits: int, rounding: str) -> str:
    if not isfinite(bound):
        return str(bound)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(bound))))):.{digits}g}"
