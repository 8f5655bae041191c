"""Adaptive integration: our Runge-Kutta pairs or SciPy's LSODA, states at the saved
times, and a loosened control.

The result of a token set does not depend on the batch: each has its own steps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy  # submodules load on first use

from hardmax._types import FloatArray
from hardmax._validation import to_numpy
from hardmax.flows.coordinates import Coordinates, Rescaled
from hardmax.flows.integrate import Method, Solution, stack_read
from hardmax.flows.runge_kutta import FAILURES, MIN_UNIT, RungeKutta
from hardmax.flows.steps import PAIRS

SCIPY_MIN_RTOL = 100 * float(
    np.finfo(np.float64).eps
)  # SciPy raises smaller values to this one, with a warning
STEPS_PER_CHECK = 100  # steps between two checks of progress
MAX_NOISE = 1e-3  # rounding error of attention above which Boolean attention is held
MAX_LOOSENED_RTOL = 1e-2


@np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore")
def integrate_adaptive(
    coordinates: Sequence[Coordinates],
    tokens: Sequence[FloatArray],
    times: FloatArray,
    method: Method,
    tick: Callable[[], None],
) -> list[Solution]:
    """Integrate token sets (n, d) from time 0, and read the states at `times`."""
    if method.name not in PAIRS:
        return [
            Integration(
                one, times, method, tick, SciPySolver(one, x, times[-1], method)
            ).solve()
            for one, x in zip(coordinates, tokens, strict=True)
        ]
    run = RungeKutta(
        coordinates, tokens, method.name, float(times[-1]), method.max_steps
    )
    return integrate_run(run, times, method, tick)


def integrate_run(
    run: RungeKutta, times: FloatArray, method: Method, tick: Callable[[], None]
) -> list[Solution]:
    """Take the steps of a run, and read the states at `times`."""
    each = [
        Integration(one, times, method, tick, Element(run, b, method))
        for b, one in enumerate(run.coordinates)
    ]
    left = [b for b, one in enumerate(each) if not one.is_done]
    while left:
        stops = np.array([one.next_time for one in each])
        run.advance(left, stops, np.array([one.next_check for one in each]))
        left = [b for b in left if not each[b].go_on()]
    return [one.solution for one in each]


class Element:
    """One token set of a `RungeKutta`."""

    def __init__(self, run: RungeKutta, b: int, method: Method) -> None:
        self._run, self._b, self._state = run, b, run.state
        self._rows = slice(0, int(run.state.rows[b]))
        self.rtol, self.atol, self.norm_ratio = method.rtol, method.atol, 1.0
        self.restart()

    @property
    def t(self) -> float:
        return float(self._state.times[self._b, 0])

    @property
    def y(self) -> FloatArray:
        return np.array(to_numpy(self._state.y[self._b, self._rows]))

    @property
    def is_finite(self) -> bool:
        return self._run.is_finite(self._b)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Steps, evaluations and rejected steps."""
        steps, evaluations, rejected, _ = self._state.flags[self._b].tolist()
        return steps, evaluations, rejected

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


class SciPySolver:
    """A solver of SciPy for one token set, with the methods of `Element`.

    One token between two clusters may carry the whole error, which a mean over N
    coordinates hides (LSODA takes the maximum). A mean of at most tolerance / sqrt(N)
    keeps every coordinate within the tolerance.
    """

    def __init__(
        self, coordinates: Coordinates, tokens: FloatArray, end: float, method: Method
    ) -> None:
        self._coordinates, self._end, self._name = coordinates, float(end), method.name
        start = coordinates.start(tokens)
        self._shape, self._sizes = start.shape, coordinates.sizes(start).ravel()
        self.norm_ratio = 1.0 if method.name == "LSODA" else float(np.sqrt(start.size))
        self.rtol, self.atol = (
            max(method.rtol / self.norm_ratio, SCIPY_MIN_RTOL),
            method.atol / self.norm_ratio,
        )
        self._steps = self._evaluations = 0
        self.failure = ""
        self._start_at(0.0, start.ravel())

    def _start_at(self, t: float, state: FloatArray) -> None:
        make: Any = getattr(scipy.integrate, self._name)

        def find_rate(t: float, state: FloatArray) -> FloatArray:
            return np.asarray(
                self._coordinates.rate(state.reshape(self._shape), t)
            ).ravel()

        atol = np.maximum(self.atol * self._sizes, MIN_UNIT)
        self._solver = make(find_rate, t, state, self._end, rtol=self.rtol, atol=atol)

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
    def counts(self) -> tuple[int, int, int]:
        """Steps, evaluations and rejected steps, which SciPy does not count."""
        return self._steps, self._evaluations + int(self._solver.nfev), 0

    def advance(self) -> None:
        """Do one step."""
        self._steps += 1
        if not np.isfinite(
            getattr(self._solver, "h_abs", 0.0)
        ):  # SciPy would search for a first step forever
            self.failure = "the velocity is not finite"
            return
        try:
            message = self._solver.step()
        except FAILURES as error:  # implicit methods find NaN in a matrix
            self.failure = str(error).rstrip(".")
            return
        if self._solver.status == "failed":
            self.failure = (message or "the step became too small").rstrip(".").lower()

    def interpolate(self, times: FloatArray) -> FloatArray:
        """Return the states at times within the last step."""
        return np.asarray(
            self._solver.dense_output()(times).T.reshape(-1, *self._shape)
        )

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
        solver: Any,
    ) -> None:
        self._coordinates, self._times, self._method, self._tick = (
            coordinates,
            times,
            method,
            tick,
        )
        self._solver: Element | SciPySolver = solver
        x, z = coordinates.read(solver.y, 0.0)
        self._lost = (
            np.full_like(x, np.nan),
            None if z is None else np.full_like(z, np.nan),
        )
        self._read: list[
            tuple[FloatArray, FloatArray | None]
        ] = []  # x and z at the first of `times`
        self._problem, self._checked_at = "", 0.0
        self._held: tuple[float, FloatArray] | None = None
        self._loosened = False
        if times[0] == 0:
            self._save(solver.y[None])

    @property
    def is_done(self) -> bool:
        return bool(self._problem) or len(self._read) == len(self._times)

    @property
    def is_changed(self) -> bool:
        """Whether attention is held, or the error control was loosened."""
        return self._held is not None or self._loosened

    @property
    def next_time(self) -> float:
        return np.inf if self.is_done else float(self._times[len(self._read)])

    @property
    def next_check(self) -> int:
        """The number of steps at which progress is checked next, or the largest allowed
        one.
        """
        return min(
            (self._solver.counts[0] // STEPS_PER_CHECK + 1) * STEPS_PER_CHECK,
            self._method.max_steps,
        )

    def _save(self, states: FloatArray) -> None:
        for y in states:
            t, state = (
                float(self._times[len(self._read)]),
                self._coordinates.after_step(y),
            )
            self._read.append(
                self._coordinates.read(state, t) if np.isfinite(y).all() else self._lost
            )
            self._tick()

    def solve(self) -> Solution:
        """Step until the last time is reached or the solver stops."""
        assert isinstance(self._solver, SciPySolver)
        while not self.is_done:
            self._solver.advance()
            self.go_on()
        return self.solution

    @property
    def solution(self) -> Solution:
        steps, evaluations, rejected = self._solver.counts
        read = self._read + [self._lost] * (len(self._times) - len(self._read))
        rtol = (
            self._solver.norm_ratio * self._solver.rtol
            if self._loosened
            else self._method.rtol
        )
        return Solution(
            *stack_read(read),
            steps,
            evaluations,
            rejected,
            self._problem,
            self._held,
            rtol,
        )

    def go_on(self) -> bool:
        """Save the times that the last step has passed and check progress; return
        whether the integration is done.
        """
        solver, steps = self._solver, self._solver.counts[0]
        if solver.failure or not solver.is_finite:
            why = solver.failure or "tokens left the range of floats"
            self._problem = f"The integrator stopped at t = {solver.t:.4g}: {why}."
            return True
        ahead = self._times[len(self._read) :]
        passed = int(np.searchsorted(ahead, solver.t, side="right"))
        if passed:
            self._save(solver.interpolate(ahead[:passed]))
        if passed == len(ahead):
            return True
        if steps and steps % STEPS_PER_CHECK == 0:
            self._ensure_progress()
        if steps >= self._method.max_steps:
            # Where tokens are nearly at rest, explicit steps stay short for stability,
            # whatever rtol is; LSODA then changes to implicit ones
            advice = (
                "Raise `max_steps`, or loosen `rtol`."
                if self._method.name == "LSODA"
                else "Raise `max_steps`, loosen `rtol`, or use"
                ' `method="LSODA"`, which takes longer steps where tokens hardly move.'
            )
            self._problem = (
                f"The integrator stopped at t = {solver.t:.4g} after {steps} steps, the"
                f" most allowed, of mean length {solver.t / steps:.2g}. {advice}"
            )
        return self.is_done

    def _ensure_progress(self) -> None:
        """Hold attention or loosen the error control if sharp attention stopped the
        progress of the last steps.
        """
        solver, since, coordinates = self._solver, self._checked_at, self._coordinates
        t = self._checked_at = solver.t
        if (
            not isinstance(coordinates, Rescaled)
            or not 0 < t - since < coordinates.min_progress
        ):
            return
        noise = coordinates.noise(solver.y, t)
        P = coordinates.hold_attention(solver.y, t) if noise > MAX_NOISE else None
        if P is not None:
            self._held = t, P
        elif (
            noise > 0.01 * max(solver.rtol, self._method.rtol)
            and solver.rtol < MAX_LOOSENED_RTOL
        ):
            # Drop the bound on each coordinate first, then raise the bound on the mean
            # above the rounding noise
            if not self._loosened and solver.rtol < self._method.rtol:
                solver.rtol, solver.atol = self._method.rtol, self._method.atol
            else:
                solver.rtol = min(10 * max(noise, solver.rtol), MAX_LOOSENED_RTOL)
                solver.atol = max(solver.atol, solver.rtol / 10)
            self._loosened = True
        else:
            return
        solver.restart()
