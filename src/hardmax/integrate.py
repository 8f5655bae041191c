"""Flows in time: SciPy's integrators with error control, and forward Euler and RK4 with fixed steps.

An adaptive run integrates each cloud by itself, so that the answer does not depend on the batch. A fixed-step run moves
all clouds at once, for arrays and tensors alike, and carries gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import integrate as scipy_integrate

from hardmax._types import AnyArray, FloatArray
from hardmax.frames import Frame
from hardmax.motions import Motion

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
    states = np.full((len(times), start.size), np.nan)
    problem, reached, evaluations, held_from, seen = "", 0, 0, np.inf, 0.0
    sizes = motion.sizes(start)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        solver = _solver(motion, SimpleNamespace(t=0.0, y=start), times, method, sizes)
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
            if steps % PATIENCE == 0 and reached < len(times):
                noise = motion.noise(solver.t, solver.y) if solver.t - seen < motion.least_progress else 0.0
                if noise > MOST_NOISE and motion.hold_attention(solver.t, solver.y):
                    held_from = min(held_from, float(solver.t))
                    evaluations, solver = evaluations + int(solver.nfev), _solver(motion, solver, times, method, sizes)
                elif noise > 0.01 * method.rtol and method.rtol < LOOSEST:
                    method = replace(
                        method,
                        rtol=min(max(10 * noise, 10 * method.rtol), LOOSEST),
                        atol=max(method.atol, min(noise, LOOSEST)),
                    )
                    evaluations, solver = evaluations + int(solver.nfev), _solver(motion, solver, times, method, sizes)
                seen = float(solver.t)
            if steps >= method.max_steps and reached < len(times):
                problem = (
                    f"The integrator stopped at t = {solver.t:.4g} after {steps} steps, the most allowed. "
                    "Raise max_steps, loosen rtol, or use a method for stiff problems such as Radau."
                )
                break
    return Solution(states, problem, steps, evaluations + int(solver.nfev), held_from, motion.held, method.rtol)


def _solver(motion: Motion, here: Any, times: FloatArray, method: Method, sizes: FloatArray) -> Any:
    """A solver that starts where another one is."""
    make: Any = getattr(scipy_integrate, method.name)
    return make(motion.rate, here.t, here.y, float(times[-1]), rtol=method.rtol, atol=method.atol * sizes)


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
