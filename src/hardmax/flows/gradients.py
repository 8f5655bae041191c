"""Gradients through adaptive integration: the steps are found without gradients, held
fixed, and repeated in torch.

Each step keeps its first state alone for the way back, and is computed again there. A
saved time within a step divides it. The derivative of x(t) with respect to t is the
velocity at t.
"""

import numpy as np

from hardmax._arrays import needs_gradient, stack
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import to_numpy
from hardmax.flows.adaptive import Element, Integration
from hardmax.flows.coordinates import (
    Coordinates,
    Decaying,
    Reading,
    Rescaled,
    RescaledByTensor,
    choose_coordinates,
)
from hardmax.flows.integrate import Method, Solution, stack_readings
from hardmax.flows.runge_kutta import RungeKutta
from hardmax.flows.steps import Pair, find_pair
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention

# logarithm of a growth of rounding errors that leaves four digits of gradients
MAX_GROWTH = 22.0


def integrate_with_gradients(
    rule: Flow | MultiHead,
    tokens: Array,
    times: FloatArray,
    given: Array,
    method: Method,
) -> Solution:
    """Integrate a tensor of tokens (n, d) from time 0; `given` may be `times` as a
    tensor that requires gradients.
    """
    from torch.utils.checkpoint import checkpoint

    coordinates = choose_coordinates(rule, tokens)
    if isinstance(rule, SelfAttention) and needs_gradient(rule.V):
        coordinates = RescaledByTensor(rule, tokens.shape[-1])
    pair = find_pair(method.name)
    start = np.asarray(to_numpy(tokens), np.float64)
    last_time = float(times[-1])
    ends, element = _find_steps(coordinates, start, last_time, method)
    _check_growth(coordinates, start, element.y, last_time)
    state = coordinates.start(tokens.double())
    t = 0.0
    readings = []
    for k, end in enumerate(times.tolist()):
        while t < end:
            step_end = ends[int(np.searchsorted(ends, t, side="right"))]
            next_t = min(end, step_end)
            state = checkpoint(
                _step, coordinates, pair, state, t, next_t - t, use_reentrant=False
            )
            t = next_t
        saved = coordinates.after_step(state)
        # 0 with the gradient of the time
        shift = 0.0
        if needs_gradient(given):
            shift = given[k] - given[k].detach()
            saved = saved + shift * coordinates.rate(saved, t)
        x, z = coordinates.read(saved, t)
        if isinstance(coordinates, Rescaled):
            x = x + shift * coordinates.values(x)  # x = e^{tV} z
        elif isinstance(coordinates, Decaying):
            z = z - shift * coordinates.values(z)  # z = e^{-tV} x
        x = x.to(tokens.dtype)
        readings.append(Reading(x, None if z is None else z.to(tokens.dtype)))
    solution = stack_readings(readings)
    counts = element.counts
    return Solution(
        solution.tokens,
        solution.rescaled,
        steps=counts.steps,
        evaluations=counts.evaluations,
        rejected=counts.rejected,
        rtol=method.rtol,
    )


def _find_steps(
    coordinates: Coordinates, tokens: FloatArray, end: float, method: Method
) -> tuple[FloatArray, Element]:
    """Return the ends of all steps that the error control accepts."""
    run = RungeKutta([coordinates], [tokens], method.name, end, method.max_steps)
    element = Element(run, 0, method)
    stop = np.array([end])
    integration = Integration(coordinates, stop, method, lambda: None, element)
    ends = [0.0]
    while not integration.is_done:
        run.advance([0], stop, np.array([element.counts.steps + 1]))
        integration.go_on()
        if element.t > ends[-1]:
            ends.append(element.t)
        if integration.is_changed:
            _refuse(f"attention that rounding errors decide at t = {element.t:.4g}")
    problem = integration.solution.problem
    if problem:
        _refuse(f'"{problem}"')
    return np.array(ends), element


def _check_growth(
    coordinates: Coordinates, tokens: FloatArray, last: FloatArray, end: float
) -> None:
    """Raise an error where rounding errors of tokens that grow would spoil gradients."""
    growth = 0.0  # its logarithm
    if isinstance(coordinates, RescaledByTensor):
        growth = coordinates.spread * end
    elif isinstance(coordinates, Rescaled):
        if coordinates.differs_in_clusters and coordinates.is_blurred(last, end):
            growth = np.inf
    else:
        first_size = np.abs(coordinates.start(tokens)).max() or 1.0
        last_size = np.abs(last).max()
        if last_size:
            growth = np.log(last_size / first_size)
    if growth > MAX_GROWTH:
        _refuse("tokens that grow until rounding errors decide the attention")


def _refuse(got: str) -> None:
    raise ParameterError(
        "times", "be reached where gradients are needed", got, "End earlier."
    )


def _step(
    coordinates: Coordinates, pair: Pair, state: Array, t: float, h: float
) -> Array:
    """Return the state after a step."""
    slopes = [coordinates.rate(state, t)]
    for s in range(1, pair.last + 1):
        weights = state.new_tensor(h * pair.A[s, :s])
        point = state + (weights[:, None, None] * stack(slopes)).sum(0)
        if s < pair.last:
            slopes.append(coordinates.rate(point, t + float(pair.C[s]) * h))
    return point
