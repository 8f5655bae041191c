"""Adaptive integration: our Runge-Kutta pairs or SciPy's LSODA, states at the saved
times, and a loosened control.

The result of a token set does not depend on the batch: each has its own steps.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from hardmax._types import FloatArray
from hardmax._validation import to_numpy
from hardmax.flows.coordinates import Coordinates, Reading, Rescaled
from hardmax.flows.integrate import Held, Method, Solution, stack_readings
from hardmax.flows.runge_kutta import FAILURES, MIN_UNIT, RungeKutta
from hardmax.flows.steps import PAIRS

# SciPy raises smaller values to this one, with a warning
SCIPY_MIN_RTOL = 100 * float(np.finfo(np.float64).eps)
STEPS_PER_CHECK = 100  # steps between two checks of progress
MAX_NOISE = 1e-3  # rounding error of attention above which Boolean attention is held
MAX_LOOSENED_RTOL = 1e-2


class Counts(NamedTuple):
    """What an integration took."""

    steps: int
    evaluations: int
    rejected: int


@np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")
def integrate_adaptive(
    coordinates: Sequence[Coordinates],
    tokens: Sequence[FloatArray],
    times: FloatArray,
    method: Method,
    tick: Callable[[], None],
) -> list[Solution]:
    """Integrate token sets (n, d) from time 0, and read the states at `times`."""
    end = float(times[-1])
    if method.name in PAIRS:
        run = RungeKutta(coordinates, tokens, method.name, end, method.max_steps)
        return integrate_run(run, times, method, tick)
    solutions = []
    for chart, token_set in zip(coordinates, tokens, strict=True):
        solver = LSODA(chart, token_set, end, method)
        integration = Integration(chart, times, method, tick, solver)
        while not integration.is_done:
            solver.advance()
            integration.go_on()
        solutions.append(integration.solution)
    return solutions


def integrate_run(
    run: RungeKutta, times: FloatArray, method: Method, tick: Callable[[], None]
) -> list[Solution]:
    """Take the steps of a run, and read the states at `times`."""
    integrations = [
        Integration(chart, times, method, tick, Element(run, b, method))
        for b, chart in enumerate(run.coordinates)
    ]
    active = [b for b, element in enumerate(integrations) if not element.is_done]
    while active:
        stops = np.array([element.next_time for element in integrations])
        checks = np.array([element.next_check for element in integrations])
        run.advance(active, stops, checks)
        active = [b for b in active if not integrations[b].go_on()]
    return [element.solution for element in integrations]


class Element:
    """One token set of a `RungeKutta`."""

    norm_ratio = 1.0  # the error is that of the worst coordinate

    def __init__(self, run: RungeKutta, b: int, method: Method) -> None:
        self._run = run
        self._b = b
        self._state = run.state
        self._rows = slice(0, int(run.state.rows[b]))
        self.rtol = method.rtol
        self.atol = method.atol
        self.restart()

    @property
    def t(self) -> float:
        return float(self._state.t[self._b])

    @property
    def y(self) -> FloatArray:
        return np.array(to_numpy(self._state.y[self._b, self._rows]))

    @property
    def is_finite(self) -> bool:
        return self._run.is_finite(self._b)

    @property
    def counts(self) -> Counts:
        return Counts(
            int(self._state.steps[self._b]),
            int(self._state.evaluations[self._b]),
            int(self._state.rejected[self._b]),
        )

    @property
    def failure(self) -> str:
        return self._run.failed[self._b]

    def interpolate(self, times: FloatArray) -> FloatArray:
        """Return the states at times within the last step."""
        return np.asarray(to_numpy(self._run.interpolate(self._b, times)))

    def restart(self) -> None:
        """Go on with the present tolerances and attention."""
        self._run.allow(self._b, self.rtol, self.atol)
        self._run.begin(self._b)


class LSODA:
    """SciPy's LSODA for one token set, with the methods of `Element`.

    Its error is that of the worst coordinate, too.
    """

    def __init__(
        self, coordinates: Coordinates, tokens: FloatArray, end: float, method: Method
    ) -> None:
        self._coordinates = coordinates
        self._end = end
        start = coordinates.start(tokens)
        self._shape = start.shape
        self._sizes = coordinates.sizes(start).ravel()
        self.rtol = max(method.rtol, SCIPY_MIN_RTOL)
        self.atol = method.atol
        self._steps = 0
        self._evaluations = 0  # of solvers before the present one
        self.failure = ""
        self._start_at(0.0, start.ravel())

    def _start_at(self, t: float, state: FloatArray) -> None:
        atol = np.maximum(self.atol * self._sizes, MIN_UNIT)
        self._solver = scipy.integrate.LSODA(
            self._find_rate, t, state, self._end, rtol=self.rtol, atol=atol
        )

    def _find_rate(self, t: float, state: FloatArray) -> FloatArray:
        rate = self._coordinates.rate(state.reshape(self._shape), t)
        return np.asarray(rate).ravel()

    @property
    def t(self) -> float:
        return float(self._solver.t)

    @property
    def y(self) -> FloatArray:
        return np.asarray(self._solver.y.reshape(self._shape))

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self._solver.y).all())

    @property
    def counts(self) -> Counts:
        """LSODA does not count rejected steps."""
        evaluations = self._evaluations + int(self._solver.nfev)
        return Counts(self._steps, evaluations, 0)

    def advance(self) -> None:
        """Do one step."""
        self._steps += 1
        try:
            message = self._solver.step()
        except FAILURES as error:  # implicit methods find NaN in a matrix
            self.failure = str(error).rstrip(".")
            return
        if self._solver.status == "failed":
            self.failure = (message or "the step became too small").rstrip(".").lower()

    def interpolate(self, times: FloatArray) -> FloatArray:
        """Return the states at times within the last step."""
        states = self._solver.dense_output()(times).T
        return np.asarray(states.reshape(-1, *self._shape))

    def restart(self) -> None:
        """Go on with the present tolerances and attention."""
        self._evaluations += int(self._solver.nfev)
        self._start_at(self.t, self._solver.y)


class Integration:
    """The states of one token set read so far, and changes to keep its solver going."""

    def __init__(
        self,
        coordinates: Coordinates,
        times: FloatArray,
        method: Method,
        tick: Callable[[], None],
        solver: Element | LSODA,
    ) -> None:
        self._coordinates = coordinates
        self._times = times
        self._method = method
        self._tick = tick
        self._solver = solver
        self._readings: list[Reading] = []  # at the first of `times`
        self._problem = ""
        self._checked_at = 0.0
        self._held: Held | None = None
        self._loosened = False
        if times[0] == 0:
            self._save(solver.y[None])

    @property
    def is_done(self) -> bool:
        return bool(self._problem) or len(self._readings) == len(self._times)

    @property
    def is_changed(self) -> bool:
        """Whether attention is held, or the error control was loosened."""
        return self._held is not None or self._loosened

    @property
    def next_time(self) -> float:
        return np.inf if self.is_done else float(self._times[len(self._readings)])

    @property
    def next_check(self) -> int:
        """The number of steps at which progress is checked next, or the largest allowed
        one.
        """
        checks = self._solver.counts.steps // STEPS_PER_CHECK
        return min((checks + 1) * STEPS_PER_CHECK, self._method.max_steps)

    def _save(self, states: FloatArray) -> None:
        for y in states:
            if np.isfinite(y).all():
                t = float(self._times[len(self._readings)])
                state = self._coordinates.after_step(y)
                self._readings.append(self._coordinates.read(state, t))
            else:
                self._readings.append(self._lost)
            self._tick()

    @property
    def _lost(self) -> Reading:
        """NaN for a time that was not reached."""
        x, z = self._coordinates.read(self._solver.y, 0.0)
        lost = np.full_like(x, np.nan)
        return Reading(lost, None if z is None else lost)

    @property
    def solution(self) -> Solution:
        missing = len(self._times) - len(self._readings)
        readings = stack_readings(self._readings + [self._lost] * missing)
        counts = self._solver.counts
        return Solution(
            readings.tokens,
            readings.rescaled,
            steps=counts.steps,
            evaluations=counts.evaluations,
            rejected=counts.rejected,
            problem=self._problem,
            held=self._held,
            rtol=self._solver.rtol if self._loosened else self._method.rtol,
        )

    def go_on(self) -> bool:
        """Save the times that the last step has passed and check progress; return
        whether the integration is done.
        """
        solver = self._solver
        if solver.failure or not solver.is_finite:
            why = solver.failure or "tokens left the range of floats"
            self._problem = f"The integrator stopped at t = {solver.t:.4g}: {why}."
            return True
        ahead = self._times[len(self._readings) :]
        passed = int(np.searchsorted(ahead, solver.t, side="right"))
        if passed:
            self._save(solver.interpolate(ahead[:passed]))
        if passed == len(ahead):
            return True
        steps = solver.counts.steps
        if steps and steps % STEPS_PER_CHECK == 0:
            self._ensure_progress()
        if steps >= self._method.max_steps:
            self._problem = self._describe_stop(steps)
        return self.is_done

    def _describe_stop(self, steps: int) -> str:
        # Where tokens are nearly at rest, explicit steps stay short for stability,
        # whatever rtol is; LSODA then changes to implicit ones
        advice = "Raise `max_steps`, or loosen `rtol`."
        if self._method.name != "LSODA":
            advice = (
                "Raise `max_steps`, loosen `rtol`, or use"
                ' `method="LSODA"`, which takes longer steps where tokens hardly move.'
            )
        t = self._solver.t
        return (
            f"The integrator stopped at t = {t:.4g} after {steps} steps, the"
            f" most allowed, of mean length {t / steps:.2g}. {advice}"
        )

    def _ensure_progress(self) -> None:
        """Hold attention or loosen the error control if sharp attention stopped the
        progress of the last steps.
        """
        solver = self._solver
        coordinates = self._coordinates
        t = solver.t
        progress = t - self._checked_at
        self._checked_at = t
        if not isinstance(coordinates, Rescaled):
            return
        if not 0 < progress < coordinates.min_progress:
            return
        noise = coordinates.noise(solver.y, t)
        P = None
        if noise > MAX_NOISE:
            P = coordinates.hold_attention(solver.y, t)
        if P is not None:
            self._held = Held(t, P)
            solver.restart()
        elif noise > 0.01 * solver.rtol and solver.rtol < MAX_LOOSENED_RTOL:
            # Raise the bound on the error above the rounding noise
            solver.rtol = min(10 * max(noise, solver.rtol), MAX_LOOSENED_RTOL)
            solver.atol = max(solver.atol, solver.rtol / 10)
            self._loosened = True
            solver.restart()
