"""Flows in time: SciPy's integrators with error control, and forward Euler and RK4 with fixed steps.

An adaptive integration handles each batch element separately, so that its result does not depend on the batch. Fixed
steps move the whole batch at once, for arrays and tensors alike, with gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy  # submodules load on first use

from hardmax import _validation
from hardmax._arrays import stack
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, Array, FloatArray
from hardmax._validation import check_range, to_numpy
from hardmax.flows.coordinates import Coordinates, Rescaled

ADAPTIVE = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")
FIXED = ("euler", "rk4")
MAX_STEPS, MAX_FIXED_STEPS = 10_000, 1_000_000  # defaults of `max_steps`
MIN_RTOL, MIN_ATOL, MAX_TOLERANCE = 1e-13, 1e-300, 0.1  # float64 cannot deliver less; more would control no error
SCIPY_MIN_RTOL = 100 * float(np.finfo(np.float64).eps)  # SciPy raises smaller values to this one, with a warning
STEPS_PER_CHECK = 100  # steps between two checks of progress
MAX_NOISE = 1e-3  # rounding error of attention above which Boolean attention is held
MAX_LOOSENED_RTOL = 1e-2
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
        cls, method: str | None, rtol: float | None, atol: float | None, dt: float | None, max_steps: int | None
    ) -> "Method":
        """Validate the arguments of `simulate`; None stands for the default."""
        name = "DOP853" if method is None else method
        if name not in (*ADAPTIVE, *FIXED):
            must = f"be one of {', '.join((*ADAPTIVE, *FIXED))}"
            raise ParameterError("method", must, repr(name), "DOP853 suits nearly everything.")
        fixed = name in FIXED
        for setting, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and fixed:
                got = f"{value!r} with {name!r}, whose steps have the length `dt`"
                raise ParameterError(setting, "go with a method that controls its error", got, "Leave it out.")
        rtol = check_range(1e-8 if rtol is None else rtol, "rtol", MIN_RTOL, MAX_TOLERANCE, "1e-8 is usual.")
        atol = check_range(1e-13 if atol is None else atol, "atol", MIN_ATOL, MAX_TOLERANCE, "1e-13 is usual.")
        if (dt is None) == fixed:
            need = "needs `dt`, the length of its steps" if fixed else "chooses its own steps"
            got = f'{"none" if fixed else dt}: "{name}" {need}'
            raise ParameterError("dt", f"go with the methods {' and '.join(FIXED)}", got)
        if dt is not None:
            dt = float(_validation.check_positive(dt, "dt", "0.1 is usual."))
        default = MAX_FIXED_STEPS if fixed else MAX_STEPS
        most = default if max_steps is None else _validation.check_count(max_steps, "max_steps", least=1)
        return cls(name, rtol, atol, dt, most)

    def check_times(self, times: Times) -> AnyArray:
        """Return increasing times to save, from 0 or later; a number T means 0 to T in 100 steps, or in steps `dt`."""
        _validation.refuse_gaps(times, "times")
        try:
            array = np.asarray(to_numpy(times))
            good = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size > 0 and np.isfinite(array).all()
        except ValueError:
            good = False
        end_alone = good and array.ndim == 0
        if good:
            array = np.linspace(0, array, 101) if end_alone else array.astype(np.float64)
        if not good or array[0] < 0 or (np.diff(array) <= 0).any():
            must = "be a positive number, or numbers that start at 0 or later and increase"
            raise ParameterError("times", must, _validation.shortened(times), "Try `times=np.linspace(0, 15, 101)`.")
        if self.dt is None:
            return array
        array = array[-1:] if end_alone else array
        steps = array / self.dt
        if not _divides(self.dt, array):
            worst = float(array[int(np.abs(steps - np.rint(steps)).argmax())])
            must, got = "be multiples of `dt`, which steps of one length meet", f"{worst:.6g} with `dt={self.dt:g}`"
            counts = max(1, int(np.ceil(steps[-1]))) + np.arange(MAX_SUGGESTIONS)
            fitting = [f"`dt={x:.6g}`, or " for x in array[-1] / counts if _divides(float(f"{x:.6g}"), array)]
            raise ParameterError("times", must, got, f"Use {''.join(fitting[:1])}multiples of `dt` for `times`.")
        if steps[-1] > self.max_steps:
            must = f"need at most `max_steps={self.max_steps}` steps"
            got = f"{steps[-1]:.3g} steps of {self.dt:g} to {array[-1]:g}"
            raise ParameterError("dt", must, got, "Use a larger `dt`, or raise `max_steps`.")
        return self.dt * np.arange(int(np.rint(steps[-1])) + 1) if end_alone else array


def _divides(dt: float, times: FloatArray) -> bool:
    steps = times / dt
    return bool(np.abs(steps - np.rint(steps)).max() <= 1e-6 * max(1.0, float(steps[-1]) * 1e-3))


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of an integration. Times that were not reached have NaN."""

    tokens: Array  # (times, ..., n, d), x
    rescaled: Array | None  # the same shape, z
    steps: int
    evaluations: int = 0
    problem: str = ""  # why it stopped early, if it did
    held: tuple[float, FloatArray] | None = None  # the time from which attention was held, and that attention
    rtol: float = 0.0  # bound on the relative error of a coordinate in one step: larger than requested if loosened
    powers: tuple[tuple[Array, float], ...] = ()  # R^k at each time: see `Coordinates.power`


class AdaptiveIntegration:
    """SciPy's solver for one token set (n, d) from time 0, the states read so far, and changes to keep it going."""

    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def __init__(
        self, coordinates: Coordinates, tokens: FloatArray, times: FloatArray, method: Method, tick: Callable[[], None]
    ) -> None:
        self._coordinates, self._times, self._method, self._tick = coordinates, times, method, tick
        start = coordinates.start(tokens)
        self._shape, self._sizes = start.shape, coordinates.sizes(start).ravel()
        # One token between two clusters may carry the whole error, which a mean over N coordinates hides (LSODA takes
        # the maximum). A mean of at most tolerance / sqrt(N) keeps every coordinate within the tolerance.
        self._norm_ratio = 1.0 if method.name == "LSODA" else float(np.sqrt(start.size))
        self._rtol, self._atol = max(method.rtol / self._norm_ratio, SCIPY_MIN_RTOL), method.atol / self._norm_ratio
        self._loosened = False
        x, z = coordinates.read(start, 0.0)
        self._lost = np.full_like(x, np.nan), None if z is None else np.full_like(z, np.nan)
        self._read: list[tuple[FloatArray, FloatArray | None]] = []  # x and z at the first of `times`
        self._steps = self._evaluations = 0
        self._held: tuple[float, FloatArray] | None = None
        self._checked_at = 0.0
        self._start_at(0.0, start.ravel())
        if times[0] == 0:
            self._save(start.ravel()[None])

    def _start_at(self, t: float, state: FloatArray) -> None:
        make: Any = getattr(scipy.integrate, self._method.name)
        end, atol = float(self._times[-1]), self._atol * self._sizes

        def find_rate(t: float, state: FloatArray) -> FloatArray:
            return np.asarray(self._coordinates.rate(state.reshape(self._shape), t)).ravel()

        self._solver = make(find_rate, t, state, end, rtol=self._rtol, atol=atol)

    def _save(self, states: FloatArray) -> None:
        for flat in states:
            t, state = float(self._times[len(self._read)]), self._coordinates.after_step(flat.reshape(self._shape))
            self._read.append(self._coordinates.read(state, t) if np.isfinite(flat).all() else self._lost)
            self._tick()

    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def solve(self) -> Solution:
        """Step until the last time is reached or the solver stops."""
        problem = ""
        while len(self._read) < len(self._times) and not problem:
            message = _step(self._solver)
            self._steps += 1
            if message or not np.isfinite(self._solver.y).all():
                why = message or "tokens left the range of floats"
                problem = f"The integrator stopped at t = {self._solver.t:.4g}: {why}."
            else:
                problem = self._after_step()
        evaluations = self._evaluations + int(self._solver.nfev)
        read = self._read + [self._lost] * (len(self._times) - len(self._read))
        rtol = self._norm_ratio * self._rtol if self._loosened else self._method.rtol
        return Solution(*_stack_read(read), self._steps, evaluations, problem, self._held, rtol)

    def _after_step(self) -> str:
        """Save the times that the step has passed and check progress; return why the integration stops, or ""."""
        ahead = self._times[len(self._read) :]
        passed = int(np.searchsorted(ahead, self._solver.t, side="right"))
        if passed:
            self._save(self._solver.dense_output()(ahead[:passed]).T)
        if passed < len(ahead) and self._steps % STEPS_PER_CHECK == 0:
            self._ensure_progress()
        if passed == len(ahead) or self._steps < self._method.max_steps:
            return ""
        return (
            f"The integrator stopped at t = {self._solver.t:.4g} after {self._steps} steps, the most allowed. "
            "Raise `max_steps`, loosen `rtol`, or use a `method` for stiff problems such as Radau."
        )

    def _ensure_progress(self) -> None:
        """Hold attention or loosen the error control if sharp attention stopped the progress of the last steps."""
        t, since, coordinates = float(self._solver.t), self._checked_at, self._coordinates
        self._checked_at = t
        if not isinstance(coordinates, Rescaled) or t - since >= coordinates.min_progress:
            return
        state = self._solver.y.reshape(self._shape)
        noise = coordinates.noise(state, t)
        P = coordinates.hold_attention(state, t) if noise > MAX_NOISE else None
        if P is not None:
            self._held = t, P
        elif noise > 0.01 * max(self._rtol, self._method.rtol) and self._rtol < MAX_LOOSENED_RTOL:
            # Drop the bound on each coordinate first, then raise the bound on the mean above the rounding noise
            if not self._loosened and self._rtol < self._method.rtol:
                self._rtol, self._atol = self._method.rtol, self._method.atol
            else:
                self._rtol = min(10 * max(noise, self._rtol), MAX_LOOSENED_RTOL)
                self._atol = max(self._atol, self._rtol / 10)
            self._loosened = True
        else:
            return
        self._evaluations += int(self._solver.nfev)
        self._start_at(t, self._solver.y)


def _step(solver: Any) -> str:
    """Do one step; return why it failed, or ""."""
    if not np.isfinite(getattr(solver, "h_abs", 0.0)):  # SciPy would search for a first step forever
        return "the velocity is not finite"
    try:
        message = solver.step()
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:  # implicit methods find NaN in a matrix
        return str(error).rstrip(".")
    return (message or "the step became too small").rstrip(".").lower() if solver.status == "failed" else ""


def integrate_fixed(
    coordinates: Coordinates, tokens: Array, times: FloatArray, method: Method, tick: Callable[[], None]
) -> Solution:
    """Integrate tokens (..., n, d) from time 0 in steps of length `dt`, and read the state at `times`."""
    assert method.dt is not None
    stepper, state = STEPPERS[method.name], coordinates.start(tokens)
    read, powers, done = [], [], 0
    for end in np.rint(times / method.dt).astype(int).tolist():
        for step in range(done, end):
            state = coordinates.after_step(stepper(coordinates.rate, state, step * method.dt, method.dt))
        done = end
        read.append(coordinates.read(state, end * method.dt))
        powers += [] if coordinates.power is None else [coordinates.power]
        tick()
    return Solution(*_stack_read(read), done, powers=tuple(powers))


def _stack_read(read: Sequence[tuple[Array, Array | None]]) -> tuple[Array, Array | None]:
    """Stack x and z of all times; z is None if the coordinates have none."""
    x, z = zip(*read, strict=True)
    return stack(list(x)), None if z[0] is None else stack(list(z))


def step_euler(rate: Rate, state: Array, t: float, h: float) -> Array:
    """Do a step of forward Euler: one evaluation, order 1."""
    return state + h * rate(state, t)


def step_rk4(rate: Rate, state: Array, t: float, h: float) -> Array:
    """Do a step of the classical Runge-Kutta method, order 4: each stage has its own attention."""
    k1 = rate(state, t)
    k2 = rate(state + h / 2 * k1, t + h / 2)
    k3 = rate(state + h / 2 * k2, t + h / 2)
    k4 = rate(state + h * k3, t + h)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


STEPPERS = {"euler": step_euler, "rk4": step_rk4}
