"""Embedded Runge-Kutta pairs: their coefficients, the state of an integration, and the
control of its steps.

The coefficients are those of SciPy's RK45 (Dormand and Prince, order 5) and DOP853
(Hairer, Norsett and Wanner, order 8). `compiled.py` compiles the functions of this
file; `runge_kutta.py` also runs them as they are.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from hardmax._types import Array, FloatArray, IntArray

PAIRS = ("DOP853", "RK45")
MIN_FACTOR, MAX_FACTOR, SAFETY = 0.2, 10.0, 0.8  # change of a step length


class Pair(NamedTuple):
    """The coefficients of a pair with `last` stages beside the first; later rows are
    for dense output.
    """

    last: int
    A: FloatArray  # (1 + last + extra, the same) row `last` is the step itself
    C: FloatArray  # (1 + last + extra,)
    # (2, last + 1) of the error, and of a second one that bounds it where the first may
    # vanish
    E: FloatArray
    exponent: float  # error^exponent is the change of the step length
    dense: FloatArray  # of the polynomial between two steps


@cache
def find_pair(name: str) -> Pair:
    """Return the coefficients of a method."""
    method = getattr(scipy.integrate, name)
    last, C = len(method.B), np.r_[method.C, 1.0]
    extra_A, extra_C = (
        getattr(method, "A_EXTRA", np.empty((0, 0))),
        getattr(method, "C_EXTRA", np.empty(0)),
    )
    A = np.zeros((last + 1 + len(extra_C),) * 2)
    A[:last, : method.A.shape[1]], A[last, :last] = method.A, method.B
    A[last + 1 :, : extra_A.shape[1]] = extra_A
    if name == "RK45":
        E, dense = np.array([method.E, np.zeros(last + 1)]), method.P
    else:
        E, dense = np.array([method.E5, method.E3]), method.D
    return Pair(
        last, A, np.r_[C, extra_C], E, -1 / (method.error_estimator_order + 1), dense
    )


class Terms(NamedTuple):
    """The derivative of a state (`Coordinates.terms`). The first two axes of `forms`
    and `values` may have size 1.
    """

    # (d,) real parts of the eigenvalues, minus lambda; (0,) if the scores only grow
    decay: FloatArray
    turn: FloatArray  # (d,) imaginary parts
    # (k, d, d) (D - lambda I)^k / k! where V has no eigenbasis, else (0, d, d)
    powers: FloatArray
    rate: float  # lambda
    forms: FloatArray  # (batch, stages, d, d) S^T Q^T K S
    values: FloatArray  # (batch, stages, d, d) D or V
    offset: float  # 1 for means minus the token itself, else 0
    sphere: int  # 1 on the sphere, 2 without normalisation, else 0
    causal: bool


class State(NamedTuple):
    """Batch elements in the course of an integration; `settle` changes them. On a GPU
    four are tensors.
    """

    # (batch,) number of tokens; rows below them are multiplied by `values` alone
    tokens: IntArray
    rows: IntArray  # (batch,)
    units: Array  # (batch, rows, d) absolute tolerance
    rtol: FloatArray  # (batch,)
    y: Array  # (batch, rows, d)
    old: Array  # (batch, rows, d) before the last step
    new: Array  # (batch, rows, d) after the step that is tried
    K: Array  # (batch, stages + 1 + extra, rows, d)
    times: FloatArray  # (batch, 3) t, t before the last step, and its end
    h: FloatArray  # (batch,) length of the next step
    # (batch, 4) steps, evaluations, rejected steps, and whether the last attempt was
    # rejected
    flags: IntArray


def find_error(state: State, E: FloatArray, b: int) -> float:
    """Return the largest error of a coordinate of `new`, in units of what is allowed; 1
    or more is too large.

    A coordinate may be off by its absolute tolerance plus rtol times its size, or times
    the mean size of that coordinate over all tokens, whichever is larger.
    """
    n, rows = state.tokens[b], state.rows[b]
    sizes, new = abs(state.y[b, :rows]), abs(state.new[b, :rows])
    for part in (slice(0, n), slice(n, rows)):
        if part.start < part.stop:
            mean = (sizes[part] / (part.stop - part.start)).sum(0)  # a sum overflows
            sizes[part] = np.maximum(sizes[part], mean)
    unit = (state.units[b, :rows] + state.rtol[b] * np.maximum(sizes, new)).ravel()
    # The step length goes first: products of coefficients and derivatives overflow
    h = state.times[b, 2] - state.times[b, 0]
    errors = (h * E) @ state.K[b, : E.shape[1], :rows].reshape(E.shape[1], -1)
    largest, other = np.abs(errors / unit).max(1)
    return combine_errors(float(largest), float(other))


def combine_errors(largest: float, other: float) -> float:
    """Return the error from the two rows of `Pair.E`."""
    if not (largest > 0 and other > 0):  # also NaN
        return largest
    ratio = 0.1 * other / largest  # squares of small errors would underflow
    return largest / math.sqrt(1.0 + ratio * ratio)


def settle(state: State, error: float, exponent: float, b: int) -> bool:
    """Accept or reject the step that was tried, and choose the length of the next;
    return whether it was accepted.
    """
    factor = MAX_FACTOR if error == 0 else SAFETY * error**exponent
    h = state.times[b, 2] - state.times[b, 0]
    if error < 1:
        if state.flags[b, 3]:
            factor = min(factor, 1.0)
        state.h[b] = h * min(factor, MAX_FACTOR)
        state.old[b], state.y[b] = state.y[b], state.new[b]
        state.times[b, 1], state.times[b, 0] = state.times[b, 0], state.times[b, 2]
        state.flags[b, 0] += 1
        state.flags[b, 3] = 0
        return True
    state.h[b] = h * (factor if factor > MIN_FACTOR else MIN_FACTOR)  # also for NaN
    state.flags[b, 2] += 1
    state.flags[b, 3] = 1
    return False


def choose_end(state: State, end: float, last: int, b: int) -> bool:
    """Choose the end of the next step, and take its first stage from the last one;
    return False if it is too short.
    """
    t = state.times[b, 0]
    least = 10 * abs(np.nextafter(t, np.inf) - t)
    if not state.h[b] >= least:
        if state.flags[b, 3] or not state.h[b] >= 0:
            return False
        state.h[b] = least
    state.times[b, 2] = min(t + state.h[b], end)
    if state.flags[b, 0] and not state.flags[b, 3]:
        state.K[b, 0] = state.K[b, last]
    return True
