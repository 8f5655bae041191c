"""Every check used at a public boundary. Each error says what must hold, what came, and what to do."""

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._numbers import exact_numbers, has_positive_pivots
from hardmax._tensors import is_tensor, to_numpy
from hardmax._types import AnyArray, BoolArray, FloatArray

SYMMETRY_TOL = 1e-12  # an A built as B @ B.T may miss symmetry by rounding; more than that is meant
ELIMINATED = 64  # dimensions up to which a matrix close to singular is eliminated exactly: a second there


def check_tokens(tokens: Any, mask: Any = None) -> tuple[AnyArray, BoolArray]:
    """Return tokens as floats, or as Fractions where floats could not hold them, and which of them are real."""
    try:
        array = np.asarray(to_numpy(tokens))
    except ValueError:
        raise ParameterError(
            "tokens",
            "have rows of equal length",
            "rows of different lengths",
            "Pad them to one length and pass `mask`, True for the real tokens.",
        ) from None
    if array.ndim not in (2, 3):
        on_a_line = " For tokens on a line, pass `tokens.reshape(-1, 1)`." if array.ndim == 1 else ""
        hint = f"Use one token a row.{on_a_line}"
        raise ParameterError("tokens", "have shape (n, d) or (batch, n, d)", f"shape {array.shape}", hint)
    if 0 in array.shape:
        raise ParameterError(
            "tokens",
            "hold at least one token of at least one dimension",
            f"shape {array.shape}",
            "Check that the file or the filter before this step is not empty.",
        )
    real = np.ones(array.shape[:-1], bool) if mask is None else check_mask(mask, array.shape[:-1])
    return exact_numbers(array, "tokens", real), real


def check_mask(mask: Any, shape: tuple[int, ...]) -> BoolArray:
    """Return a mask of shape `shape`, True for real tokens, with at least one real token in each cloud."""
    array = np.asarray(to_numpy(mask))
    if array.dtype != bool or array.shape != shape:
        raise ParameterError(
            "mask",
            f"be boolean of shape {shape}, True for real tokens",
            f"{array.dtype} of shape {array.shape}",
            "Use `mask.astype(bool)`, without the last axis of `tokens`.",
        )
    if not array.any(axis=-1).all():
        raise ParameterError(
            "mask",
            "leave at least one real token in each cloud",
            "a cloud that is padding alone",
            "Drop it from the batch.",
        )
    return array


def check_alpha(alpha: Any) -> tuple[Fraction, ...]:
    """Return the step sizes as exact Fractions, one a layer; the last one goes on."""
    plain = alpha.tolist() if isinstance(alpha, np.ndarray | np.generic) else alpha
    values = plain if isinstance(plain, Sequence) and not isinstance(plain, str) else [plain]
    if not len(values):
        raise ParameterError("alpha", "hold at least one value", "an empty sequence", "Pass one number, such as 0.5.")
    return tuple(_step(value.item() if isinstance(value, np.generic) else value) for value in values)


def _step(value: Any) -> Fraction:
    good = isinstance(value, Rational | float) and not isinstance(value, bool)
    if not good or not 0 < value < np.inf:
        raise ParameterError(
            "alpha",
            "be a positive finite number, or a sequence of such, one a layer",
            f"{value!r}",
            "Typical values lie between 0.1 and 5.",
        )
    return Fraction(value)


def check_matrix(A: Any, *, any_A: bool) -> AnyArray:
    """Return A as a square array; unless `any_A`, symmetric and positive definite."""
    try:
        array = np.asarray(to_numpy(A))
    except ValueError:
        raise ParameterError("A", "be a square matrix", "rows of different lengths", "Fill them up.") from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise ParameterError(
            "A",
            "be a square matrix",
            f"shape {array.shape}",
            "With queries Q and keys K of another width, pass A = K.T @ Q.",
        )
    array = exact_numbers(array, "A")
    array = array if array.dtype == object else array.astype(np.float64)
    if not any_A:
        array = _check_positive_definite(array)
    array = array.copy()
    array.setflags(write=False)
    return array


def _check_positive_definite(A: AnyArray) -> AnyArray:
    size = np.abs(A).max() or 1
    unit = (A / size).astype(np.float64)  # entries at most 1, so that nothing below overflows
    skew = float(np.abs(unit - unit.T).max())
    if skew > SYMMETRY_TOL:
        raise ParameterError(
            "A",
            "be symmetric positive definite",
            f"a {len(A)} by {len(A)} matrix that differs from its transpose by {skew * float(size):.3g}",
            "Use (A + A.T) / 2, or pass `any_A=True` to leave the hypotheses of the theorems.",
        )
    symmetric = A if (A == A.T).all() else A / 2 + A.T / 2
    if not is_positive_definite(symmetric):
        smallest = smallest_eigenvalue(unit)
        smallest = 0.0 if abs(smallest) <= len(A) * np.finfo(np.float64).eps * len(A) else smallest
        raise ParameterError(
            "A",
            "be symmetric positive definite",
            f"a {len(A)} by {len(A)} matrix whose smallest eigenvalue is {smallest * float(size):.3g}",
            "Pass `any_A=True` to run it all the same, outside the hypotheses of the theorems.",
        )
    return symmetric


def is_positive_definite(A: AnyArray) -> bool:
    """Whether A is exactly symmetric, and definite beyond rounding: A - tau I is, with tau = d eps max |a_rs|.

    Floats answer where their error cannot matter, elimination over the integers where it can, so that the answer does
    not depend on how LAPACK rounds. It is no for a larger A that close to singular.
    """
    size, d = np.abs(A).max(), len(A)
    if not size or not (A == A.T).all():
        return False
    eps = float(np.finfo(np.float64).eps)
    values, tau = np.linalg.eigvalsh((A / size).astype(np.float64)), d * eps
    noise = 8 * d * eps * float(np.abs(values).max())
    if abs(values[0] - tau) > noise or d > ELIMINATED:
        return bool(values[0] > tau + noise)
    shifted = [[Fraction(x) for x in row] for row in A.tolist()]
    for r in range(d):
        shifted[r][r] -= Fraction(tau) * Fraction(size)
    return has_positive_pivots(shifted)


def smallest_eigenvalue(A: FloatArray) -> float:
    """Smallest eigenvalue of the symmetric part of A, as floats have it."""
    return float(np.linalg.eigvalsh((A + A.T) / 2)[0])


def check_ties(ties: Any) -> str | float:
    """Return "exact", or the tolerance as a float in [0, 1)."""
    if isinstance(ties, str) and ties == "exact":
        return ties
    if isinstance(ties, int | float | np.number) and not isinstance(ties, bool) and 0 <= ties < 1:
        return float(ties)
    raise ParameterError(
        "ties",
        'be "exact" or a relative tolerance in [0, 1)',
        f"{ties!r}",
        'Use "exact" unless near-ties are meant to count as ties.',
    )


def check_count(value: Any, name: str, *, least: int) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(name, f"be a whole number of at least {least}", f"{value!r}", "Pass an int.")
    return int(value)


def check_dimension(A: AnyArray | None, shape: tuple[int, ...]) -> None:
    """A and the tokens must live in the same space."""
    if A is not None and len(A) != shape[-1]:
        raise ParameterError(
            "tokens",
            f"have shape (n, d) or (batch, n, d) with d = {len(A)}, the size of `A`",
            shape,
            f"Use tokens of dimension {len(A)}, or an A of size {shape[-1]}.",
        )


def check_positive(value: Any, name: str, advice: str, *, zero: bool = False) -> Any:
    """Return one finite positive number, or zero where that is allowed: a float, or the tensor that came."""
    number = _number(value)
    if not (0 < number < np.inf and 1 / number < np.inf) and not (zero and number == 0):
        least = "a finite number, 0 or larger" if zero else "a positive finite number"
        raise ParameterError(name, f"be {least}", _short(value), advice)
    return value if is_tensor(value) else number


def check_number(value: Any, name: str) -> float:
    """Return one finite number."""
    number = _number(value)
    if not np.isfinite(number):
        raise ParameterError(name, "be a finite number", _short(value), "Use 1 to leave it as it is.")
    return number


def _number(value: Any) -> float:
    """The value as a float; NaN for whatever is not one number."""
    plain = to_numpy(value)
    if isinstance(plain, np.ndarray) and plain.ndim == 0:
        plain = plain.item()
    good = isinstance(plain, int | float | Rational | np.number) and not isinstance(plain, bool | np.complexfloating)
    return float(plain) if good else np.nan


def check_weight(weight: Any, name: str, *, square: bool) -> Any:
    """Return a matrix of finite numbers: a read-only float64 array, or the tensor that came."""
    try:
        array = np.asarray(to_numpy(weight))
    except ValueError:
        raise ParameterError(name, "be a matrix", "rows of different lengths", "Fill them up.") from None
    if array.ndim != 2 or array.size == 0 or (square and array.shape[0] != array.shape[1]):
        kind = "a square matrix" if square else "a matrix"
        got = f"the text {weight!r}" if isinstance(weight, str) else f"shape {array.shape}"
        advice = "hm.matrix(name) makes a named one." if isinstance(weight, str) else "Pass an array with two axes."
        raise ParameterError(name, f"be {kind}", got, advice)
    return _finite_weight(weight, array, name)


def check_bias(bias: Any, name: str, size: int) -> Any:
    """Return a vector of `size` finite numbers: a read-only float64 array, or the tensor that came."""
    try:
        array = np.asarray(to_numpy(bias))
    except ValueError:
        raise ParameterError(name, f"have shape ({size},)", "rows of different lengths", "Flatten it.") from None
    if array.shape != (size,):
        raise ParameterError(name, f"have shape ({size},)", f"shape {array.shape}", "Pass one number for each.")
    return _finite_weight(bias, array, name)


def _finite_weight(weight: Any, array: AnyArray, name: str) -> Any:
    must = "hold finite real numbers"
    if np.iscomplexobj(array) or array.dtype.kind in "USmM":
        raise ParameterError(name, must, array.dtype, "Convert it to floats.")
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError(name, must, array.dtype, "Convert it to floats.") from None
    if not np.isfinite(floats).all():
        raise ParameterError(name, must, "NaN or infinite ones", "Clean it first.")
    if is_tensor(weight):
        return weight
    floats.setflags(write=False)
    return floats


def check_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    """Q and K must have one shape, and all must act on tokens of one dimension."""
    widths = {name: shape[1] for name, shape in shapes.items()}
    heights = {shapes[name][0] if name in shapes else None for name in ("Q", "K")}
    lone = len(heights) == 2 and None in heights  # the identity stands for the other one
    bad_pair = len(heights - {None}) == 2 or (lone and next(iter(heights - {None})) not in set(widths.values()))
    if len(set(widths.values())) > 1 or bad_pair:
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ParameterError(
            ("Q", "K"),
            "have one shape (k, d), and `V` the shape (d, d)",
            got,
            "A head of width k has Q and K of shape (k, d).",
        )


def check_rules(rules: Any, name: str) -> tuple[Any, ...]:
    """Return rules as a tuple with at least one."""
    from hardmax.rules.base import Rule

    try:
        found = tuple(rules)
    except TypeError:
        found = ()
    wrong = [rule for rule in found if not isinstance(rule, Rule)]
    if not found or wrong:
        got = repr(wrong[0]) if wrong else repr(rules)
        raise ParameterError(name, "be a list of rules, at least one", got, "Try [hm.Softmax(0.5)].")
    return found


def check_times(times: Any) -> FloatArray:
    """Return times as an array that starts at 0 or later and increases; a number T is 0 to T in 100 steps."""
    try:
        array = np.asarray(to_numpy(times))
    except ValueError:
        array = np.full(1, np.nan)
    good = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size > 0
    array = array.astype(np.float64) if good else np.full(1, np.nan)
    if array.ndim == 0:
        array = np.linspace(0, array, 101) if np.isfinite(array) else np.full(1, np.nan)
    if not np.isfinite(array).all() or array[0] < 0 or (np.diff(array) <= 0).any():
        raise ParameterError(
            "times",
            "be a positive number, or numbers that start at 0 or later and increase",
            _short(times),
            "Try times=np.linspace(0, 15, 101).",
        )
    return array


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
