"""Flows in time: the methods by name, and forward Euler and RK4 with fixed steps.

Fixed steps move the whole batch at once, for arrays and tensors alike, with gradients.
`adaptive.py` controls errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from hardmax import _validation
from hardmax._arrays import stack
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, FloatArray
from hardmax._validation import check_range, to_numpy
from hardmax.flows.coordinates import Coordinates, Power, Reading

ADAPTIVE = ("DOP853", "RK45", "LSODA")
FIXED = ("euler", "rk4")
MAX_COUNTED = 2**62  # compiled code counts steps as int64
MAX_STEPS = 10_000  # the default of `max_steps` of adaptive methods
MAX_FIXED_STEPS = 1_000_000  # the default of the others
# from here on RK45 needs fewer evaluations than DOP853: `studies.flow_accuracy`
MIN_RTOL_OF_ORDER_5 = 1e-7
MIN_RTOL = 1e-13  # float64 cannot deliver less
MIN_ATOL = 1e-300
MAX_TOLERANCE = 0.1  # more would control no error
MAX_SUGGESTIONS = 1000  # step counts to try for a `dt` with six digits

Times: TypeAlias = float | Sequence[float] | Array
Rate: TypeAlias = Callable[[Array, float], Array]


@dataclass(frozen=True)
class Method:
    """The name of an integrator, with tolerances or a step length."""

    name: str
    rtol: float
    atol: float
    dt: float | None
    max_steps: int

    @property
    def is_adaptive(self) -> bool:
        return self.name in ADAPTIVE

    @classmethod
    def from_arguments(
        cls,
        method: str | None,
        rtol: float | None,
        atol: float | None,
        dt: float | None,
        max_steps: int | None,
    ) -> "Method":
        """Validate the arguments of `simulate`; None stands for the default."""
        name = "DOP853" if method is None else method
        if not _validation.is_one_of(name, (*ADAPTIVE, *FIXED)):
            must = f"be one of {', '.join((*ADAPTIVE, *FIXED))}"
            got = _validation.shortened(name)
            advice = "DOP853 suits nearly everything."
            raise ParameterError("method", must, got, advice)
        fixed = name in FIXED
        for setting, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and fixed:
                must = "go with a method that controls its error"
                given = _validation.shortened(value)
                got = f"{given} with {name!r}, whose steps have the length `dt`"
                raise ParameterError(setting, must, got, "Leave it out.")
        rtol = 1e-8 if rtol is None else rtol
        rtol = check_range(rtol, "rtol", MIN_RTOL, MAX_TOLERANCE, "1e-8 is usual.")
        atol = 1e-13 if atol is None else atol
        atol = check_range(atol, "atol", MIN_ATOL, MAX_TOLERANCE, "1e-13 is usual.")
        if method is None and rtol >= MIN_RTOL_OF_ORDER_5:
            name = "RK45"
        must = f"go with the methods {' and '.join(FIXED)}"
        if fixed and dt is None:
            got = f'none: "{name}" needs `dt`, the length of its steps'
            raise ParameterError("dt", must, got)
        if dt is not None:
            if not fixed:
                got = f'{_validation.shortened(dt)}: "{name}" chooses its own steps'
                raise ParameterError("dt", must, got)
            dt = float(_validation.check_positive(dt, "dt", "0.1 is usual."))
        if max_steps is None:
            max_steps = MAX_FIXED_STEPS if fixed else MAX_STEPS
        max_steps = _validation.check_count(
            max_steps, "max_steps", least=1, most=MAX_COUNTED
        )
        return cls(name, rtol, atol, dt, max_steps)

    def check_times(self, times: Times) -> AnyArray:
        """Return increasing times to save, from 0 or later; a number T means 0 to T in
        100 steps, or in steps `dt`.
        """
        _validation.refuse_gaps(times, "times")
        try:
            array = np.asarray(to_numpy(times))
            good = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size > 0
            if good:
                with np.errstate(over="ignore"):  # a long double may become infinite
                    array = array.astype(np.float64)
                good = bool(np.isfinite(array).all())
        except ValueError:
            good = False
        end_alone = good and array.ndim == 0
        if end_alone:
            array = np.linspace(0, array, 101)
        if not good or array[0] < 0 or (np.diff(array) <= 0).any():
            must = (
                "be a positive number, or numbers that start at 0 or later and increase"
            )
            got = _validation.shortened(times)
            advice = "Try `times=np.linspace(0, 15, 101)`."
            raise ParameterError("times", must, got, advice)
        if self.dt is None:
            return array
        if end_alone:
            array = array[-1:]
        with np.errstate(over="ignore"):
            steps = array / self.dt
        if np.isfinite(steps[-1]) and not _divides(self.dt, array):
            worst = float(array[int(np.abs(steps - np.rint(steps)).argmax())])
            must = "be multiples of `dt`, which steps of one length meet"
            got = f"{worst:.6g} with `dt={self.dt:g}`"
            advice = f"Use {_suggest_step(array, steps)}multiples of `dt` for `times`."
            raise ParameterError("times", must, got, advice)
        if steps[-1] > self.max_steps:
            must = f"need at most `max_steps={self.max_steps}` steps"
            got = f"{steps[-1]:.3g} steps of {self.dt:g} to {array[-1]:g}"
            advice = "Use a larger `dt`, or raise `max_steps`."
            raise ParameterError("dt", must, got, advice)
        if end_alone:
            return self.dt * np.arange(int(np.rint(steps[-1])) + 1)
        return array


def _divides(dt: float, times: FloatArray) -> bool:
    steps = times / dt
    tolerance = 1e-6 * max(1.0, float(steps[-1]) * 1e-3)
    return bool(np.abs(steps - np.rint(steps)).max() <= tolerance)


def _suggest_step(times: FloatArray, steps: FloatArray) -> str:
    """Return the largest `dt` of six digits that divides the times, or no text."""
    counts = max(1, int(np.ceil(steps[-1]))) + np.arange(MAX_SUGGESTIONS)
    for dt in times[-1] / counts:
        if _divides(float(f"{dt:.6g}"), times):
            return f"`dt={dt:.6g}`, or "
    return ""


class Held(NamedTuple):
    """Attention that was held constant."""

    since: float  # time
    attention: FloatArray  # (n, n)


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of an integration. Times that were not reached have NaN."""

    tokens: Array  # (times, ..., n, d), x
    rescaled: Array | None  # the same shape, z
    steps: int
    evaluations: int = 0
    rejected: int = 0
    problem: str = ""  # why it stopped early, if it did
    held: Held | None = None
    # bound on the relative error of a coordinate in one step: larger than requested if
    # loosened
    rtol: float = 0.0
    powers: tuple[Power, ...] = ()  # R^k at each time, with fixed steps


def integrate_fixed(
    coordinates: Coordinates,
    tokens: Array,
    times: FloatArray,
    method: Method,
    tick: Callable[[], None],
) -> Solution:
    """Integrate tokens (..., n, d) from time 0 in steps of length `dt`, and read the
    state at `times`.
    """
    dt = method.dt
    assert dt is not None
    take_step = STEPPERS[method.name]
    state = coordinates.start(tokens)
    readings = []
    powers = []
    done = 0
    for count in np.rint(times / dt).astype(int).tolist():
        for k in range(done, count):
            state = take_step(coordinates.rate, state, k * dt, dt)
            state = coordinates.after_step(state)
        done = count
        readings.append(coordinates.read(state, count * dt))
        if coordinates.power is not None:
            powers.append(coordinates.power)
        tick()
    saved = stack_readings(readings)
    return Solution(saved.tokens, saved.rescaled, done, powers=tuple(powers))


def stack_readings(readings: Sequence[Reading]) -> Reading:
    """Stack x and z of all times; z is None if the coordinates have none."""
    tokens = stack([reading.tokens for reading in readings])
    if readings[0].rescaled is None:
        return Reading(tokens, None)
    return Reading(tokens, stack([reading.rescaled for reading in readings]))


def step_euler(rate: Rate, state: Array, t: float, h: float) -> Array:
    """Do a step of forward Euler: one evaluation, order 1."""
    return state + h * rate(state, t)


def step_rk4(rate: Rate, state: Array, t: float, h: float) -> Array:
    """Do a step of the classical Runge-Kutta method, order 4: each stage has its own
    attention.
    """
    k1 = rate(state, t)
    k2 = rate(state + h / 2 * k1, t + h / 2)
    k3 = rate(state + h / 2 * k2, t + h / 2)
    k4 = rate(state + h * k3, t + h)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


STEPPERS = {"euler": step_euler, "rk4": step_rk4}
