"""Checks and conversions of arguments. Each error says what must hold, what was given,
and what to do.
"""

import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from importlib import import_module
from numbers import Integral, Rational
from typing import Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._exact import has_positive_pivots, to_fraction, to_fractions
from hardmax._types import AnyArray, Array, BoolArray

SYMMETRY_TOL = 1e-12  # rounding of B @ B.T stays below it
# dimensions; exact elimination of a matrix close to singular takes a second there
MAX_ELIMINATED = 64
MAX_EXACT_INTEGER = 2**53  # float64 holds every integer up to this
MAX_FLOAT = Fraction(float(np.finfo(np.float64).max))
ADVICE = {
    "tokens": (
        "Turn words into vectors first, drop or fill rows with gaps. For padding pass"
        " `mask`."
    ),
    **dict.fromkeys(
        ("A", "B", "keys", "points", "queries", "values"), "Check how it was computed."
    ),
}


def is_tensor(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(
        value, "detach"
    )


def to_numpy(value: Any) -> Any:
    """Return a tensor of any device as an array, without its gradient; other values
    unchanged.
    """
    if not is_tensor(value):
        return value
    plain = value.detach().cpu()
    return (
        plain.float() if str(plain.dtype) == "torch.bfloat16" else plain
    ).numpy()  # NumPy has no bfloat16


def is_time(value: object) -> bool:
    """Return whether the value is a date or duration of NumPy, which its functions turn
    into integers.
    """
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "mM"


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NA or NaT of pandas, or a text of
    spaces alone.
    """
    if isinstance(value, str):
        return not value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    differs = value != value
    return isinstance(differs, bool | np.bool_) and bool(
        differs
    )  # an array in place of a cell is not missing


def like(array: AnyArray, value: Array) -> Array:
    """Return the array as a tensor with the dtype and device of `value`, if that is
    one; else the array itself.
    """
    if not is_tensor(value):
        return array
    tensor = library_of(value).from_numpy(np.ascontiguousarray(array)).to(value.device)
    return tensor.to(value.dtype) if value.dtype.is_floating_point else tensor


def library_of(value: Array) -> Any:
    """Return torch for a tensor, else NumPy: the functions used here have the same
    arguments in both.
    """
    return import_module("torch") if is_tensor(value) else np


def check_tokens(tokens: Array, mask: Array = None) -> tuple[AnyArray, BoolArray]:
    """Return tokens as floats, or as Fractions where floats could not hold them, and
    which of them are real.
    """
    advice = "Pad them to one length and pass `mask`, True for the real tokens."
    array = as_array(tokens, "tokens", "have rows of equal length", advice)
    if array.ndim not in (2, 3):
        on_a_line = (
            " For tokens on a line, pass `tokens.reshape(-1, 1)`."
            if array.ndim == 1
            else ""
        )
        must, got = "have shape (n, d) or (batch, n, d)", f"shape {array.shape}"
        raise ParameterError("tokens", must, got, f"Use one token per row.{on_a_line}")
    if 0 in array.shape:
        must = "hold at least one token of at least one dimension"
        advice = "Check that the file or the filter before this step is not empty."
        raise ParameterError("tokens", must, f"shape {array.shape}", advice)
    shape = array.shape[:-1]
    real = (
        np.ones(shape, bool)
        if mask is None
        else as_array(mask, "mask", f"have shape {shape}")
    )
    if real.dtype != bool or real.shape != shape:
        must, got = (
            f"be boolean of shape {shape}, True for real tokens",
            f"{real.dtype} of shape {real.shape}",
        )
        raise ParameterError(
            "mask",
            must,
            got,
            "Use mask.astype(bool), without the last axis of `tokens`.",
        )
    if not real.any(axis=-1).all():
        must, got = (
            "leave at least one real token in each token set",
            "a token set that is padding alone",
        )
        raise ParameterError("mask", must, got, "Drop it from the batch.")
    return exact_numbers(array, "tokens", real), real


def as_array(
    value: Array, name: str, must: str, advice: str = "Fill them up."
) -> AnyArray:
    """Return `value` as an array; refuse rows of different lengths, masked values and
    sparse arrays.
    """
    refuse_gaps(value, name)
    try:
        array = np.asarray(to_numpy(value))
    except ValueError:
        raise ParameterError(name, must, "rows of different lengths", advice) from None
    # Keep the integers of a list or table that NumPy may have rounded to float64.
    if (
        isinstance(value, np.ndarray)
        or is_tensor(value)
        or array.dtype.kind != "f"
        or not array.size
    ):
        return array
    large = np.argwhere(np.abs(array) >= MAX_EXACT_INTEGER)
    if not len(large):
        return array
    frame = (
        type(value).__module__.partition(".")[0] == "pandas"
    )  # which would convert to one type first
    given, exact = (
        np.asarray(value.astype(object) if frame else value, object),
        array.astype(object),
    )
    if given.shape != array.shape:
        return array
    for where in map(tuple, large):
        if isinstance(given[where], Integral):
            exact[where] = int(given[where])
    return exact if (exact != array).any() else array


def refuse_gaps(value: object, name: str, *, sparse: bool = False) -> None:
    """Refuse arrays that NumPy would misread: masked ones, and, unless `sparse`, sparse
    ones.
    """
    hidden = (
        int(np.ma.getmaskarray(value).sum())
        if isinstance(value, np.ma.MaskedArray)
        else 0
    )
    if hidden:
        padding = (
            " For padding, pass `tokens.data` and `mask`, True for the real tokens."
            if name == "tokens"
            else ""
        )
        advice = f"Fill them, or leave their rows out.{padding}"
        raise ParameterError(
            name, "have all its values", f"a masked array with {hidden} masked", advice
        )
    is_sparse = "scipy.sparse" in sys.modules and scipy.sparse.issparse(
        value
    )  # there is none before it is loaded
    if (is_sparse and not sparse) or (
        is_tensor(value) and "sparse" in str(getattr(value, "layout", ""))
    ):
        advice = (
            "Use its method to_dense()."
            if is_tensor(value)
            else "Use its method toarray()."
        )
        raise ParameterTypeError(
            name, "be a dense array", f"a sparse one, {type(value).__name__}", advice
        )


def exact_numbers(
    array: AnyArray, name: str, real: BoolArray | None = None
) -> AnyArray:
    """Return an array of finite floats, or of Fractions where float64 could not hold
    the values, except in padding.
    """
    if array.dtype.kind not in "fiubO":
        raise ParameterTypeError(
            name,
            "hold real numbers",
            f"values of type {array.dtype}",
            ADVICE.get(name, ""),
        )
    real = np.ones(array.shape[:-1], bool) if real is None else real
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        bad = ~np.isfinite(array) & real[..., None]
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            more = f", {int(bad.sum())} such values in all" if bad.sum() > 1 else ""
            raise ParameterError(
                name,
                "be finite",
                f"{array[where]} at index {where}{more}",
                ADVICE.get(name, ""),
            )
        return array
    integers = array.dtype.kind in "iub"
    if (
        integers
        and max(int(array.max(initial=0)), -int(array.min(initial=0)))
        <= MAX_EXACT_INTEGER
    ):
        return array.astype(np.float64)
    fractions = np.empty(array.shape, object)
    for where in np.ndindex(array.shape):
        try:
            fractions[where] = _fraction(array[where], name, where)
        except ValueError:
            if real[where[:-1]]:
                raise
            fractions[where] = Fraction(
                0
            )  # padding may hold anything; what is no number becomes 0
    floats = fractions.astype(np.float64)
    return floats if (floats.astype(object) == fractions).all() else fractions


def _fraction(value: Any, name: str, index: tuple[int, ...]) -> Fraction:
    try:
        fraction = to_fraction(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            name,
            "hold finite real numbers",
            f"{shortened(value)} at index {index}",
            ADVICE.get(name, ""),
        ) from None
    if abs(fraction) > MAX_FLOAT:
        advice = "Divide all of it by one constant: leaders and sets stay the same."
        must, got = (
            "lie within float64's range, 1.8e308",
            f"a larger number at index {index}",
        )
        raise ParameterError(name, must, got, advice)
    return fraction


def check_alpha(
    alpha: object, name: str = "alpha", *, most: Fraction | None = None
) -> tuple[Fraction, ...]:
    """Return the step sizes as exact Fractions, one per layer; the last one is used for
    all later layers.
    """
    plain = alpha.tolist() if hasattr(alpha, "tolist") else alpha
    values = (
        plain
        if isinstance(plain, Sequence) and not isinstance(plain, str | bytes)
        else [plain]
    )
    if not len(values):
        raise ParameterError(
            name,
            "hold at least one value",
            "an empty sequence",
            "Pass one number, such as 0.5.",
        )
    steps: list[Any] = [
        value.item() if isinstance(value, np.generic) else value for value in values
    ]
    for given, value in zip(values, steps, strict=True):
        good = isinstance(value, Rational | float) and not isinstance(value, bool)
        good &= not (is_time(alpha) or is_time(given))
        if not good or not 0 < value < np.inf:
            must = "be a positive finite number, or a sequence of such, one per layer"
            advice = "Typical values lie between 0.1 and 5."
            raise ParameterError(name, must, shortened(value), advice)
    exact = tuple(map(to_fraction, steps))
    if most is not None and max(exact) > most:
        got = shortened(max(exact))
        raise ParameterError(name, f"be at most {float(most):g}", got)
    return exact


def check_matrix(A: Array, *, any_A: bool, name: str = "A") -> AnyArray:
    """Return A as a square array; unless `any_A`, symmetric and positive definite."""
    array = as_array(A, name, "be a square matrix")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        advice = f"With queries Q and keys K of another width, pass {name} = K.T @ Q."
        raise ParameterError(name, "be a square matrix", f"shape {array.shape}", advice)
    array = exact_numbers(array, name)
    array = array.copy() if array.dtype == object else array.astype(np.float64)
    array = array if any_A else _check_positive_definite(array)
    array.setflags(write=False)
    return array


def _check_positive_definite(A: AnyArray) -> AnyArray:
    size = np.abs(A).max() or 1
    unit = (A / size).astype(
        np.float64
    )  # entries at most 1, so that nothing below overflows
    must, kind = "be symmetric positive definite", f"a {len(A)} by {len(A)} matrix"
    skew = float(np.abs(unit - unit.T).max())
    if skew > SYMMETRY_TOL:
        got = f"{kind} that differs from its transpose by {skew * float(size):.3g}"
        advice = (
            "Use (A + A.T) / 2, or pass `any_A=True` to leave the hypotheses of the"
            " theorems."
        )
        raise ParameterError("A", must, got, advice)
    symmetric = A if (A == A.T).all() else A / 2 + A.T / 2
    if not is_positive_definite(symmetric):
        smallest, least = (
            float(size * np.linalg.eigvalsh((unit + unit.T) / 2)[0]),
            len(A) * np.finfo(np.float64).eps,
        )
        is_zero = abs(smallest) <= 10 * least * float(size)
        got = (
            f"{kind} whose smallest eigenvalue is"
            f" {'0 up to rounding' if is_zero else f'{smallest:.3g}'}"
        )
        advice = (
            "Pass `any_A=True` to run it all the same, outside the hypotheses of the"
            " theorems."
        )
        raise ParameterError("A", must, got, advice)
    return symmetric


def is_positive_definite(A: AnyArray) -> bool:
    """Return whether A is exactly symmetric, and definite beyond rounding: A - tau I
    is, with tau = d eps max |a_rs|.

    Floats decide where their error cannot matter, elimination over the integers where
    it can, so that the result does not depend on how LAPACK rounds. It is False for a
    larger A that close to singular.
    """
    size, d = np.abs(A).max(), len(A)
    if not size or not (A == A.T).all():
        return False
    eps = float(np.finfo(np.float64).eps)
    values, tau = np.linalg.eigvalsh((A / size).astype(np.float64)), d * eps
    noise = 8 * d * eps * float(np.abs(values).max())
    if abs(values[0] - tau) > noise or d > MAX_ELIMINATED:
        return bool(values[0] > tau + noise)
    exact = to_fractions(A)
    exact[np.diag_indices(d)] -= Fraction(tau) * Fraction(size)
    return has_positive_pivots(exact)


def check_weight(
    weight: Array, name: str, *, square: bool = False, size: int | None = None
) -> Array:
    """Return a matrix, or with `size` a vector, of finite numbers: a read-only float64
    array, or the given tensor.
    """
    must, advice = (
        "be a square matrix" if square else "be a matrix",
        "Pass an array with two axes.",
    )
    if size is not None:
        must, advice = f"have shape ({size},)", "Pass one number for each."
    array = as_array(weight, name, "be a matrix" if size is None else must)
    is_matrix = (
        array.ndim == 2
        and array.size > 0
        and (not square or array.shape[0] == array.shape[1])
    )
    if isinstance(weight, str):
        raise ParameterError(
            name, must, f"the text {weight!r}", "hm.matrix(name) makes a named one."
        )
    if not is_matrix if size is None else array.shape != (size,):
        raise ParameterError(name, must, f"shape {array.shape}", advice)
    try:
        with np.errstate(over="ignore"):  # a long double may become infinite
            floats = array.astype(
                np.float64, casting="unsafe" if array.dtype.kind in "fiubO" else "no"
            )
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            name, "hold finite real numbers", array.dtype, "Convert it to floats."
        ) from None
    if not np.isfinite(floats).all():
        raise ParameterError(
            name, "hold finite real numbers", "NaN or infinite ones", "Clean it first."
        )
    floats.setflags(write=False)
    return weight if is_tensor(weight) else floats


def check_count(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    is_integer = isinstance(value, Integral) and not isinstance(
        value, bool | np.timedelta64
    )
    if not is_integer or value < least or (most is not None and value > most):
        must = f"be an integer of at least {least}"
        if most is not None:
            must += f" and at most {most:,}"
        raise ParameterError(name, must, shortened(value), "Pass an int.")
    return int(value)


def check_flag(value: object, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(name, "be True or False", shortened(value))
    return bool(value)


def is_one_of(value: object, names: Iterable[str]) -> bool:
    """Return whether the value is one of some texts; any object may be given."""
    return isinstance(value, str) and value in names


def check_progress(progress: Any) -> Any:
    """Return a function of (done, total), which does nothing for None."""
    if progress is not None and not callable(progress):
        must = "be a function of (done, total), or None"
        raise ParameterError("progress", must, shortened(progress))
    return progress or (lambda done, total: None)


def check_positive(value: Any, name: str, advice: str, *, zero: bool = False) -> Any:
    """Return one finite positive number, or zero where that is allowed: a float, or the
    given tensor.
    """
    number = _number(value)
    if not (0 < number < np.inf and 1 / number < np.inf) and not (zero and number == 0):
        least = "a finite number, 0 or larger" if zero else "a positive finite number"
        raise ParameterError(name, f"be {least}", shortened(value), advice)
    return value if is_tensor(value) else number


def check_range(
    value: object, name: str, low: float, high: float, advice: str
) -> float:
    number = _number(value)
    if not low <= number <= high:
        raise ParameterError(
            name, f"lie between {low:g} and {high:g}", shortened(value), advice
        )
    return number


def check_number(value: object, name: str) -> float:
    number = _number(value)
    if not np.isfinite(number):
        raise ParameterError(
            name, "be a finite number", shortened(value), "Use 1 to leave it as it is."
        )
    return number


def _number(value: object) -> float:
    """Return the value as a float; NaN if it is not one number."""
    plain = to_numpy(value)
    if isinstance(plain, np.ndarray) and plain.ndim == 0:
        plain = plain.item()
    good = isinstance(plain, int | float | Rational | np.number) and not isinstance(
        plain, bool | np.complexfloating | np.timedelta64
    )
    try:
        with np.errstate(over="ignore"):
            return float(plain) if good else np.nan
    except OverflowError:
        return np.inf if plain > 0 else -np.inf


def shortened(value: object) -> str:
    """Return the value as Python prints it, on one line of at most 60 characters."""
    try:
        text = repr(value.item() if isinstance(value, np.number) else value)
    except ValueError:  # Python prints integers of at most 4,300 digits
        return "a number of too many digits to print"
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
