"""Checks of the matrices and vectors that rules are made of."""

from contextlib import suppress

import numpy as np

from hardmax._checks import as_array
from hardmax._errors import ParameterError
from hardmax._tensors import is_tensor
from hardmax._types import AnyArray, Array


def check_weight(weight: Array, name: str, *, square: bool) -> Array:
    """Return a matrix of finite numbers: a read-only float64 array, or the tensor that came."""
    array = as_array(weight, name, "be a matrix")
    if array.ndim != 2 or array.size == 0 or (square and array.shape[0] != array.shape[1]):
        kind = "a square matrix" if square else "a matrix"
        got = f"the text {weight!r}" if isinstance(weight, str) else f"shape {array.shape}"
        advice = "hm.matrix(name) makes a named one." if isinstance(weight, str) else "Pass an array with two axes."
        raise ParameterError(name, f"be {kind}", got, advice)
    return _finite_weight(weight, array, name)


def check_bias(bias: Array, name: str, size: int) -> Array:
    """Return a vector of `size` finite numbers: a read-only float64 array, or the tensor that came."""
    must = f"have shape ({size},)"
    array = as_array(bias, name, must, "Flatten it.")
    if array.shape != (size,):
        raise ParameterError(name, must, f"shape {array.shape}", "Pass one number for each.")
    return _finite_weight(bias, array, name)


def _finite_weight(weight: Array, array: AnyArray, name: str) -> Array:
    must, floats = "hold finite real numbers", None
    if array.dtype.kind in "fiubO":
        with suppress(TypeError, ValueError, OverflowError):
            floats = array.astype(np.float64)
    if floats is None:
        raise ParameterError(name, must, array.dtype, "Convert it to floats.")
    if not np.isfinite(floats).all():
        raise ParameterError(name, must, "NaN or infinite ones", "Clean it first.")
    if is_tensor(weight):
        return weight
    floats.setflags(write=False)
    return floats


def check_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    """Q and K must have one shape, and all must act on tokens of one dimension."""
    widths = {shape[1] for shape in shapes.values()}
    heights = {shapes[name][0] if name in shapes else min(widths, default=0) for name in "QK"}  # None is the identity
    if len(widths) > 1 or len(heights) > 1:
        must = "have one shape (k, d), and `V` the shape (d, d)"
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ParameterError(("Q", "K"), must, got, "A head of width k has Q and K of shape (k, d).")
