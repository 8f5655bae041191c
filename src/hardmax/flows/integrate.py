"""Flows in time: SciPy's integrators with error control, and forward Euler and RK4 with fixed steps.

An adaptive run integrates each cloud by itself, so that the answer does not depend on the batch. A fixed-step run moves
all clouds at once, for arrays and tensors alike, and carries gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import integrate as scipy_integrate

from hardmax._types import AnyArray, FloatArray
from hardmax.flows.frames import Frame
from hardmax.flows.motions import Motion

ADAPTIVE = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")
FIXED = ("euler", "rk4")
PATIENCE = 100  # steps between looks at how far they came
MOST_NOISE = 1e-3  # of attention by rounding: above it attention that is Boolean is held
LOOSEST = 1e-2  # what rtol is loosened to at the most


@dataclass(frozen=True)
class Method:
    """How to integrate: a method by name, with tolerances or a step length."""

    name: str
    rtol: float
    atol: float
    dt: float | None
    max_steps: int

    @property
    def adaptive(self) -> bool:
        """Whether the method controls its error."""
        return self.name in ADAPTIVE


@dataclass(frozen=True, eq=False)
class Solution:
    """What an integration gives: states at the times reached, the rest NaN, and why it stopped early if it did."""

    states: FloatArray  # (times, size of the state)
    problem: str
    steps: int
    evaluations: int
    held_from: float  # the time from which attention was held, or infinity
    held: FloatArray | None  # that attention
    rtol: float  # what the error control ended with: larger than asked where rounding stood in its way


def adaptive(
    motion: Motion, start: FloatArray, times: FloatArray, method: Method, tick: Callable[[], None]
) -> Solution:
    """Integrate one cloud from time 0 with error control, and read its state off at `times`."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return _Integration(motion, start, times, method, tick).solve()


class _Integration:
    """One cloud under way: SciPy's solver, what it has reached, and what was done to keep it going."""

    def __init__(
        self, motion: Motion, start: FloatArray, times: FloatArray, method: Method, tick: Callable[[], None]
    ) -> None:
        self._motion, self._times, self._method, self._tick = motion, times, method, tick
        self._sizes = motion.sizes(start)
        self._states = np.full((len(times), start.size), np.nan)
        self._reached = self._steps = self._evaluations = 0
        self._held_from, self._seen = np.inf, 0.0
        self._start_at(0.0, start)
        if times[0] == 0:
            self._save(start[None], 1)

    def _start_at(self, t: float, state: FloatArray) -> None:
        make: Any = getattr(scipy_integrate, self._method.name)
        tolerances = {"rtol": self._method.rtol, "atol": self._method.atol * self._sizes}
        self._solver = make(self._motion.rate, t, state, float(self._times[-1]), **tolerances)

    def _save(self, states: FloatArray, count: int) -> None:
        self._states[self._reached : self._reached + count] = states
        self._reached += count
        for _ in range(count):
            self._tick()

    def solve(self) -> Solution:
        """Step until the last time is reached, or no further."""
        problem = ""
        while self._reached < len(self._times) and not problem:
            message = _step(self._solver)
            self._steps += 1
            if message or not np.isfinite(self._solver.y).all():
                why = message or "tokens left the range of floats"
                problem = f"The integrator stopped at t = {self._solver.t:.4g}: {why}."
            else:
                problem = self._after_step()
        evaluations = self._evaluations + int(self._solver.nfev)
        held = (self._held_from, self._motion.held)
        return Solution(self._states, problem, self._steps, evaluations, *held, self._method.rtol)

    def _after_step(self) -> str:
        """Save what the step has passed, and see to it that the next ones make headway; what went wrong, or nothing."""
        ahead = self._times[self._reached :]
        passed = int(np.searchsorted(ahead, self._solver.t, side="right"))
        if passed:
            self._save(self._solver.dense_output()(ahead[:passed]).T, passed)
        if self._reached == len(self._times):
            return ""
        if self._steps % PATIENCE == 0:
            self._keep_going()
        if self._steps < self._method.max_steps:
            return ""
        return (
            f"The integrator stopped at t = {self._solver.t:.4g} after {self._steps} steps, the most allowed. "
            "Raise `max_steps`, loosen `rtol`, or use a method for stiff problems such as Radau."
        )

    def _keep_going(self) -> None:
        """Where the last steps made no headway because attention is too sharp: hold it, or loosen the error control."""
        t, state = float(self._solver.t), self._solver.y
        slow, self._seen = t - self._seen < self._motion.least_progress, t
        noise = self._motion.noise(t, state) if slow else 0.0
        if noise > MOST_NOISE and self._motion.hold_attention(t, state):
            self._held_from = t
        elif noise > 0.01 * self._method.rtol and self._method.rtol < LOOSEST:
            rtol = min(10 * max(noise, self._method.rtol), LOOSEST)
            self._method = replace(self._method, rtol=rtol, atol=max(self._method.atol, rtol / 10))
        else:
            return
        self._evaluations += int(self._solver.nfev)
        self._start_at(t, state)


def _step(solver: Any) -> str:
    """One step; what went wrong, or nothing."""
    if not np.isfinite(getattr(solver, "h_abs", 0.0)):  # SciPy would look for a first step for ever
        return "the velocity is not finite"
    try:
        message = solver.step()
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:  # implicit methods meet NaN in a matrix
        return str(error).rstrip(".")
    failed = solver.status == "failed"
    return (message or "the step became too small").rstrip(".").lower() if failed else ""


def fixed(
    frame: Frame, start: Any, times: FloatArray, method: Method, tick: Callable[[], None]
) -> tuple[list[Any], int]:
    """Steps of length `dt` to each time: x, z and the frame's snapshot there, and how many steps."""
    assert method.dt is not None
    shown, done, state = [], 0, frame.start(start)
    for end in np.rint(times / method.dt).astype(int).tolist():
        for step in range(done, end):
            state = frame.step(state, step * method.dt, method.dt)
        done = end
        shown.append((*frame.show(state), frame.snapshot()))
        tick()
    return shown, done


def euler(rate: Callable[[Any, float], Any], state: Any, t: float, h: float) -> Any:
    """Forward Euler: one evaluation, order 1."""
    return state + h * rate(state, t)


def rk4(rate: Callable[[Any, float], Any], state: Any, t: float, h: float) -> Any:
    """The classical Runge-Kutta method: each stage sees its own attention. Order 4."""
    k1 = rate(state, t)
    k2 = rate(state + h / 2 * k1, t + h / 2)
    k3 = rate(state + h / 2 * k2, t + h / 2)
    k4 = rate(state + h * k3, t + h)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def cast(array: AnyArray, dtype: Any) -> AnyArray:
    """To another dtype, where what does not fit becomes infinite without a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)
