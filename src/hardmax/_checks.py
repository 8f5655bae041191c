"""Every check used at a public boundary. Each error says what must hold, what came, and what to do."""

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

from hardmax._types import AnyArray, BoolArray, FloatArray

SYMMETRY_TOL = 1e-12  # an A built as B @ B.T may miss symmetry by rounding; more than that is meant


def check_tokens(tokens: Any, mask: BoolArray | None = None) -> AnyArray:
    """Return tokens as an array of floats, or of Fractions where floats could not hold the values.

    Integers beyond 2**53 and Fractions stay exact; float16, float32 and float64 keep their dtype.
    """
    try:
        array = np.asarray(tokens)
    except ValueError:
        raise ValueError(
            "`tokens` must have rows of equal length. Got rows of different lengths. "
            "Pad them to one length and pass `mask`, True for the real tokens."
        ) from None
    if array.dtype.kind not in "fiubO":
        raise TypeError(
            f"`tokens` must be real numbers. Got values of type {array.dtype}. "
            "Turn words into vectors first, and complex numbers into pairs."
        )
    if array.ndim not in (2, 3):
        hint = "For tokens on a line, pass `tokens.reshape(-1, 1)`." if array.ndim == 1 else ""
        raise ValueError(f"`tokens` must have shape (n, d) or (batch, n, d). Got shape {array.shape}. {hint}".rstrip())
    if 0 in array.shape:
        raise ValueError(
            f"`tokens` must hold at least one token of at least one dimension. Got shape {array.shape}. "
            "Check that the file or the filter before this step is not empty."
        )
    real = np.ones(array.shape[:-1], bool) if mask is None else mask
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return _check_finite(array, real)
    return _as_exact(array, real)


def _check_finite(array: AnyArray, real: BoolArray) -> AnyArray:
    bad = ~np.isfinite(array) & real[..., None]
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"`tokens` must be finite. Got {array[where]} at index {where}, {int(bad.sum())} such value(s) in all. "
            "Drop or fill these rows; for padding, pass `mask`."
        )
    return array


def _as_exact(array: AnyArray, real: BoolArray) -> AnyArray:
    """Integers and objects: float64 where that is exact, Fractions where it is not."""
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and max(int(array.max()), -int(array.min())) <= 2**53):
        return array.astype(np.float64)
    fractions = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        if real[index[:-1]]:
            fractions[index] = _as_fraction(array[index], index)
        else:
            fractions[index] = Fraction(0)
    floats = fractions.astype(np.float64)
    same = all(f == x for f, x in zip(fractions.flat, floats.flat, strict=True))
    return floats if same else fractions


def _as_fraction(value: Any, index: tuple[int, ...]) -> Fraction:
    if isinstance(value, np.generic):
        value = value.item() if not isinstance(value, np.longdouble) else Fraction(*value.as_integer_ratio())
    try:
        fraction = Fraction(value) if not isinstance(value, str) else None
    except (TypeError, ValueError, OverflowError):
        fraction = None
    if fraction is None:
        raise ValueError(
            f"`tokens` must be finite real numbers. Got {value!r} at index {index}. "
            "Use floats, integers or Fractions; turn words into vectors first."
        )
    if abs(fraction) > np.finfo(np.float64).max:
        raise ValueError(
            f"`tokens` must lie within float64's range, 1.8e308. Got a larger number at index {index}. "
            "Divide all tokens by one constant: leaders and sets stay the same."
        )
    return fraction


def check_mask(mask: Any, shape: tuple[int, ...]) -> BoolArray:
    """Return a mask of shape `shape`, True for real tokens, with at least one real token in each cloud."""
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != shape:
        raise ValueError(
            f"`mask` must be boolean of shape {shape}, True for real tokens. "
            f"Got {array.dtype} of shape {array.shape}. Use `mask.astype(bool)`, without the last axis of `tokens`."
        )
    if not array.any(axis=-1).all():
        raise ValueError(
            "`mask` must leave at least one real token in each cloud. "
            "Got a cloud that is padding alone. Drop it from the batch."
        )
    return array


def check_alpha(alpha: Any) -> tuple[Fraction, ...]:
    """Return the step sizes as exact Fractions, one a layer; the last one goes on."""
    values = alpha if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) else [alpha]
    exact = []
    for value in values:
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, bool) or not isinstance(number, Real) or not np.isfinite(float(number)) or number <= 0:
            raise ValueError(
                f"`alpha` must be a positive finite number, or a sequence of such, one a layer. Got {value!r}. "
                "Typical values lie between 0.1 and 5."
            )
        exact.append(Fraction(number) if isinstance(number, Rational | float) else Fraction(float(number)))
    if not exact:
        raise ValueError("`alpha` must hold at least one value. Got an empty sequence. Pass one number, such as 0.5.")
    return tuple(exact)


def check_matrix(A: Any, *, any_A: bool) -> AnyArray:
    """Return A as a square array; unless `any_A`, symmetric and positive definite."""
    try:
        array = np.asarray(A)
        floats = np.asarray(array, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`A` must be a square matrix of real numbers. Got {type(A).__name__}. Use a nested list or an array."
        ) from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ValueError(
            f"`A` must be a square matrix. Got shape {array.shape}. "
            "With queries Q and keys K of another width, pass A = K.T @ Q."
        )
    if not np.isfinite(floats).all():
        raise ValueError("`A` must be finite. Got NaN or infinity in it. Check how it was computed.")
    array = np.vectorize(Fraction, otypes=[object])(array) if array.dtype == object else floats
    if not any_A:
        array = _check_positive_definite(array, floats)
    array = array.copy()
    array.setflags(write=False)
    return array


def _check_positive_definite(A: AnyArray, floats: FloatArray) -> AnyArray:
    largest = float(np.abs(floats).max())
    skew = float(np.abs(floats - floats.T).max())
    if skew > SYMMETRY_TOL * largest:
        raise ValueError(
            f"`A` must be symmetric positive definite. Got a {len(A)} by {len(A)} matrix that differs from its "
            f"transpose by {skew:.3g}. Use (A + A.T) / 2, or pass any_A=True to leave the hypotheses of the theorems."
        )
    smallest = smallest_eigenvalue(floats)
    if smallest <= 0:
        raise ValueError(
            f"`A` must be symmetric positive definite. Got a {len(A)} by {len(A)} matrix whose smallest eigenvalue is "
            f"{smallest:.3g}. Pass any_A=True to run it all the same, outside the hypotheses of the theorems."
        )
    return A if (A == A.T).all() else (A + A.T) / 2


def smallest_eigenvalue(A: FloatArray) -> float:
    """Smallest eigenvalue of the symmetric part of A; 0 where rounding cannot tell it from 0."""
    eigenvalues = np.linalg.eigvalsh((A + A.T) / 2)
    noise = len(A) * np.finfo(np.float64).eps * float(np.abs(eigenvalues).max())
    return 0.0 if abs(eigenvalues[0]) <= noise else float(eigenvalues[0])


def check_ties(ties: Any) -> str | float:
    """Return "exact", or the tolerance as a float in [0, 1)."""
    if isinstance(ties, str) and ties == "exact":
        return ties
    if isinstance(ties, int | float | np.number) and not isinstance(ties, bool) and 0 <= ties < 1:
        return float(ties)
    raise ValueError(
        f'`ties` must be "exact" or a relative tolerance in [0, 1). Got {ties!r}. '
        'Use "exact" unless near-ties are meant to count as ties.'
    )


def check_count(value: Any, name: str, *, least: int) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}. Got {value!r}. Pass an int.")
    return int(value)


def check_dimension(A: AnyArray | None, shape: tuple[int, ...]) -> None:
    """A and the tokens must live in the same space."""
    if A is not None and len(A) != shape[-1]:
        raise ValueError(
            f"`tokens` must have shape (n, d) or (batch, n, d) with d = {len(A)}, the size of `A`. Got {shape}. "
            f"Use tokens of dimension {len(A)}, or an A of size {shape[-1]}."
        )


def missing_extra(feature: str, package: str, extra: str) -> ImportError:
    """Build the error for an optional dependency that is not installed."""
    return ImportError(f"{feature} needs {package}: pip install 'hardmax[{extra}]'.")
