"""Numbers as they were meant: floats where these hold them exactly, Fractions where they do not."""

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import AnyArray, BoolArray

LARGEST = Fraction(float(np.finfo(np.float64).max))
MOST_DIGITS = 1 << 13  # bits of an integer times dimensions, in an elimination


ADVICE = {
    "tokens": "Turn words into vectors first, drop or fill rows with gaps. For padding pass `mask`.",
    "A": "Check how it was computed.",
}


def exact_numbers(array: AnyArray, name: str, real: BoolArray | None = None) -> AnyArray:
    """Return an array of finite floats, or of Fractions where float64 could not hold the values.

    float16, float32 and float64 keep their dtype. Rows where `real` is False may hold anything.
    """
    if array.dtype.kind not in "fiubO":
        raise ParameterTypeError(name, "hold real numbers", f"values of type {array.dtype}", ADVICE[name])
    real = np.ones(array.shape[:-1], bool) if real is None else real
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return _finite(array, name, real)
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and max(int(array.max()), -int(array.min())) <= 2**53):
        return array.astype(np.float64)
    fractions = np.empty(array.shape, object)
    for where in np.ndindex(array.shape):
        try:
            fractions[where] = _fraction(array[where], name, where)
        except ValueError:
            if real[where[:-1]]:
                raise
            fractions[where] = Fraction(0)  # padding may hold anything; what is no number becomes 0
    floats = fractions.astype(np.float64)
    return floats if (floats.astype(object) == fractions).all() else fractions


def _finite(array: AnyArray, name: str, real: BoolArray) -> AnyArray:
    bad = ~np.isfinite(array) & real[..., None]
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        more = f", {int(bad.sum())} such values in all" if bad.sum() > 1 else ""
        raise ParameterError(name, "be finite", f"{array[where]} at index {where}{more}", ADVICE[name])
    return array


def _fraction(value: Any, name: str, index: tuple[int, ...]) -> Fraction:
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        exact = value.as_integer_ratio() if hasattr(value, "as_integer_ratio") else (value, 1)
        fraction = Fraction(int(exact[0]), int(exact[1])) if value == value else None
    except (TypeError, ValueError, OverflowError, AttributeError):
        fraction = None
    if fraction is None:
        raise ParameterError(name, "hold finite real numbers", f"{value!r} at index {index}", ADVICE[name])
    if abs(fraction) > LARGEST:
        raise ParameterError(
            name,
            "lie within float64's range, 1.8e308",
            f"a larger number at index {index}",
            "Divide all of it by one constant: leaders and sets stay the same.",
        )
    return fraction


def has_positive_pivots(rows: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix is positive definite: elimination without fractions meets positive pivots alone.

    No, where its integers are so long that this would take long: exponents are spread over hundreds of digits.
    """
    common = lcm(*{x.denominator for row in rows for x in row})
    M = [[int(x * common) for x in row] for row in rows]
    if len(M) * max(abs(x) for row in M for x in row).bit_length() > MOST_DIGITS:
        return False
    last = 1
    for k, pivoting in enumerate(M):  # the part above the diagonal is enough
        pivot = pivoting[k]
        if pivot <= 0:
            return False
        for i in range(k + 1, len(M)):
            row, factor = M[i], pivoting[i]
            for j in range(i, len(M)):
                row[j] = (pivot * row[j] - factor * pivoting[j]) // last  # without remainder (Bareiss)
        last = pivot
    return True
