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

from hardmax._types import Array, BoolArray, FloatArray, IntArray

PAIRS = ("DOP853", "RK45")
# change of a step length; the bounds are those of SciPy, whose safety is 0.9
MIN_FACTOR = 0.2
MAX_FACTOR = 10.0
SAFETY = 0.8


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
    last = len(method.B)
    C = np.r_[method.C, 1.0, getattr(method, "C_EXTRA", [])]
    A = np.zeros((len(C), len(C)))
    A[:last, : method.A.shape[1]] = method.A
    A[last, :last] = method.B
    if name == "DOP853":
        A[last + 1 :, : method.A_EXTRA.shape[1]] = method.A_EXTRA
        E = np.array([method.E5, method.E3])
        dense = method.D
    else:
        E = np.array([method.E, np.zeros(last + 1)])
        dense = method.P
    return Pair(
        last,
        A,
        C,
        E,
        exponent=-1 / (method.error_estimator_order + 1),
        dense=dense,
    )


class Terms(NamedTuple):
    """The derivative of a state (`Coordinates.terms`). The first two axes of `forms`
    and `values` may have size 1.
    """

    forms: FloatArray  # (batch, stages, d, d) S^T Q^T K S
    values: FloatArray  # (batch, stages, d, d) D or V
    causal: bool
    # (d,) real parts of the eigenvalues, minus lambda; (0,) if the scores only grow
    decay: FloatArray
    turn: FloatArray  # (d,) imaginary parts
    # (k, d, d) (D - lambda I)^k / k! where V has no eigenbasis, else (0, d, d)
    powers: FloatArray
    rate: float = 0.0  # lambda
    offset: float = 0.0  # 1 for means minus the token itself, else 0
    sphere: int = 0  # 1 on the sphere, 2 without normalisation, else 0

    @classmethod
    def of(cls, form: FloatArray, values: FloatArray, causal: bool) -> "Terms":
        """Return the terms of x_i' = V sum_j P_ij x_j for matrices (d, d).

        They are copied: numba would compile all steps once more for arrays that are
        read only or not contiguous.
        """
        return cls(
            np.array(form, order="C")[None, None],
            np.array(values, order="C")[None, None],
            causal,
            decay=np.empty(0),
            turn=np.empty(0),
            powers=np.empty((0, *form.shape)),
        )


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
    t: FloatArray  # (batch,)
    old_t: FloatArray  # (batch,) before the last step
    end: FloatArray  # (batch,) of the step that is tried
    h: FloatArray  # (batch,) length of the next step
    steps: IntArray  # (batch,)
    evaluations: IntArray  # (batch,)
    rejected: IntArray  # (batch,) number of rejected steps
    was_rejected: BoolArray  # (batch,) whether the last step that was tried was

    @classmethod
    def empty(cls, tokens: IntArray, rows: IntArray, stages: int, d: int) -> "State":
        """Return zeros for batch elements with numbers of tokens and of rows."""
        batch = len(rows)
        shape = (batch, int(rows.max()), d)
        return cls(
            tokens,
            rows,
            units=np.zeros(shape),
            rtol=np.zeros(batch),
            y=np.zeros(shape),
            old=np.zeros(shape),
            new=np.zeros(shape),
            K=np.zeros((batch, stages, *shape[1:])),
            t=np.zeros(batch),
            old_t=np.zeros(batch),
            end=np.zeros(batch),
            h=np.zeros(batch),
            steps=np.zeros(batch, np.intp),
            evaluations=np.zeros(batch, np.intp),
            rejected=np.zeros(batch, np.intp),
            was_rejected=np.zeros(batch, np.bool_),
        )


def find_error(state: State, E: FloatArray, b: int) -> float:
    """Return the largest error of a coordinate of `new`, in units of what is allowed; 1
    or more is too large.

    A coordinate may be off by its absolute tolerance plus rtol times its size, or times
    the mean size of that coordinate over all tokens, whichever is larger.
    """
    n = state.tokens[b]
    rows = state.rows[b]
    sizes = abs(state.y[b, :rows])
    new = abs(state.new[b, :rows])
    for part in (sizes[:n], sizes[n:]):
        if len(part):
            mean = (part / len(part)).sum(0)  # a sum overflows
            np.maximum(part, mean, out=part)
    unit = (state.units[b, :rows] + state.rtol[b] * np.maximum(sizes, new)).ravel()
    # The step length goes first: products of coefficients and derivatives overflow
    h = state.end[b] - state.t[b]
    stages = E.shape[1]
    errors = (h * E) @ state.K[b, :stages, :rows].reshape(stages, -1)
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
    h = state.end[b] - state.t[b]
    factor = MAX_FACTOR if error == 0 else SAFETY * error**exponent
    if error < 1:
        if state.was_rejected[b]:
            factor = min(factor, 1.0)
        state.h[b] = h * min(factor, MAX_FACTOR)
        state.old[b] = state.y[b]
        state.y[b] = state.new[b]
        state.old_t[b] = state.t[b]
        state.t[b] = state.end[b]
        state.steps[b] += 1
        state.was_rejected[b] = False
        return True
    state.h[b] = h * (factor if factor > MIN_FACTOR else MIN_FACTOR)  # also for NaN
    state.rejected[b] += 1
    state.was_rejected[b] = True
    return False


def choose_end(state: State, end: float, last: int, b: int) -> bool:
    """Choose the end of the next step, and take its first stage from the last one;
    return False if it is too short.
    """
    t = state.t[b]
    least = 10 * abs(np.nextafter(t, np.inf) - t)
    if not state.h[b] >= least:
        if state.was_rejected[b] or not state.h[b] >= 0:
            return False
        state.h[b] = least
    state.end[b] = min(t + state.h[b], end)
    if state.steps[b] and not state.was_rejected[b]:
        state.K[b, 0] = state.K[b, last]
    return True
