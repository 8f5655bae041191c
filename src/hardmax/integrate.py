"""Flows in time: SciPy's integrators with error control, and forward Euler and RK4 with fixed steps.

An adaptive run integrates each cloud by itself, so that the answer does not depend on the batch. A fixed-step run moves
all clouds at once, for arrays and tensors alike, and carries gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate as scipy_integrate

from hardmax._types import AnyArray, FloatArray
from hardmax.frames import Frame
from hardmax.motions import Motion

ADAPTIVE = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")
FIXED = ("euler", "rk4")


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


def adaptive(
    motion: Motion, start: FloatArray, times: FloatArray, method: Method, tick: Callable[[], None]
) -> Solution:
    """Integrate one cloud from time 0 with error control, and read its state off at `times`."""
    states = np.full((len(times), start.size), np.nan)
    solver_class: Any = getattr(scipy_integrate, method.name)
    problem, reached = "", 0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        solver = solver_class(motion.rate, 0.0, start, float(times[-1]), rtol=method.rtol, atol=method.atol)
        while reached < len(times) and times[reached] == 0:
            states[reached], reached = start, reached + 1
            tick()
        steps = 0
        while reached < len(times):
            message = _step(solver)
            steps += 1
            if message or not np.isfinite(solver.y).all():
                why = message or "tokens left the range of floats"
                problem = f"The integrator stopped at t = {solver.t:.4g}: {why}."
                break
            within = reached + int(np.searchsorted(times[reached:], solver.t, side="right"))
            if within > reached:
                states[reached:within] = solver.dense_output()(times[reached:within]).T
                for _ in range(reached, within):
                    tick()
                reached = within
            if steps >= method.max_steps and reached < len(times):
                problem = (
                    f"The integrator stopped at t = {solver.t:.4g} after {steps} steps, the most allowed. "
                    "Raise max_steps, loosen rtol, or use a method for stiff problems such as Radau."
                )
                break
    return Solution(states, problem, steps, int(solver.nfev))


def _step(solver: Any) -> str:
    """One step; what went wrong, or nothing."""
    try:
        message = solver.step()
    except (ValueError, FloatingPointError, np.linalg.LinAlgError) as error:  # implicit methods meet NaN in a matrix
        return str(error).rstrip(".").lower()
    failed = solver.status == "failed"
    return (message or "the step became too small").rstrip(".").lower() if failed else ""


def fixed(
    frame: Frame, start: Any, times: FloatArray, method: Method, tick: Callable[[], None]
) -> tuple[list[Any], int]:
    """Steps of at most `dt` from time to time: what the frame shows at each, and how many steps."""
    shown, steps, t, state = [], 0, 0.0, start
    for end in times:
        span = float(end) - t
        assert method.dt is not None
        count = max(1, int(np.ceil(span / method.dt - 1e-9))) if span > 0 else 0
        for s in range(count):
            h = span / count
            state = frame.step(state, t + s * h, h)
            steps += 1
        t = float(end)
        shown.append(frame.show(state))
        tick()
    return shown, steps


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
