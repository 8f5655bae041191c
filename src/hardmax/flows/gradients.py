"""Gradients through adaptive integration: the steps are found without gradients, held
fixed, and repeated in torch.

Each step keeps its first state alone for the way back, and is computed again there. A
saved time within a step divides it. The derivative of x(t) with respect to t is the
velocity at t.
"""

from typing import Any

import numpy as np

from hardmax._arrays import needs_gradient, stack
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import to_numpy
from hardmax.flows.adaptive import Element, Integration
from hardmax.flows.coordinates import (
    Coordinates,
    Decaying,
    Rescaled,
    RescaledByTensor,
    choose_coordinates,
)
from hardmax.flows.integrate import Method, Solution, stack_read
from hardmax.flows.runge_kutta import RungeKutta
from hardmax.flows.steps import find_pair
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention

# logarithm of a growth of rounding errors that leaves four digits of gradients
MAX_GROWTH = 22.0


def choose_differentiable(rule: Flow | MultiHead, tokens: Array) -> Coordinates:
    """Choose coordinates in which every weight may require gradients."""
    if isinstance(rule, SelfAttention) and needs_gradient(rule.V):
        return RescaledByTensor(rule, tokens.shape[-1])
    return choose_coordinates(rule, tokens)


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
    coordinates, pair = choose_differentiable(rule, tokens), find_pair(method.name)
    state = coordinates.start(tokens.double())
    start = np.asarray(to_numpy(tokens), np.float64)
    ends, element = _find_steps(coordinates, start, float(times[-1]), method)
    _check_growth(coordinates, start, element.y, float(times[-1]))
    t, read = 0.0, list[tuple[Array, Array]]()
    checkpoint = _load_checkpoint()
    for k, end in enumerate(times.tolist()):
        while t < end:
            to = min(end, ends[int(np.searchsorted(ends, t, side="right"))])
            state, t = (
                checkpoint(
                    _step, coordinates, pair, state, t, to - t, use_reentrant=False
                ),
                to,
            )
        saved, shift = coordinates.after_step(state), 0.0
        if needs_gradient(given):
            shift = given[k] - given[k].detach()
            saved = saved + shift * coordinates.rate(saved, t)
        x, z = coordinates.read(saved, t)
        if isinstance(coordinates, Rescaled):
            x = x + shift * coordinates.values(x)  # x = e^{tV} z
        elif isinstance(coordinates, Decaying):
            z = z - shift * coordinates.values(z)  # z = e^{-tV} x
        read.append((x, z))
    found = stack_read(
        [
            (a.to(tokens.dtype), None if z is None else z.to(tokens.dtype))
            for a, z in read
        ]
    )
    steps, evaluations, rejected = element.counts
    return Solution(*found, steps, evaluations, rejected, rtol=method.rtol)


def _load_checkpoint() -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint


def _find_steps(
    coordinates: Coordinates, tokens: FloatArray, end: float, method: Method
) -> tuple[FloatArray, Element]:
    """Return the ends of all steps that the error control accepts."""
    run = RungeKutta([coordinates], [tokens], method.name, end, method.max_steps)
    element, ends = Element(run, 0, method), [0.0]
    whole = Integration(coordinates, np.array([end]), method, lambda: None, element)
    while not whole.is_done:
        run.advance([0], np.array([end]), np.array([element.counts[0] + 1]))
        whole.go_on()
        if element.t > ends[-1]:
            ends.append(element.t)
        if whole.is_changed:
            _refuse(f"attention that rounding errors decide at t = {element.t:.4g}")
    if whole.solution.problem:
        _refuse(f'"{whole.solution.problem}"')
    return np.array(ends), element


def _check_growth(
    coordinates: Coordinates, tokens: FloatArray, last: FloatArray, end: float
) -> None:
    """Raise an error where rounding errors of tokens that grow would spoil gradients."""
    if isinstance(coordinates, RescaledByTensor):
        growth = coordinates.spread * end
    elif isinstance(coordinates, Rescaled):
        growth = (
            np.inf
            if coordinates.differs_in_clusters and coordinates.is_blurred(last, end)
            else 0.0
        )
    else:
        sizes = np.abs(last).max(), np.abs(coordinates.start(tokens)).max() or 1.0
        growth = np.log(sizes[0] / sizes[1]) if sizes[0] else 0.0
    if growth > MAX_GROWTH:
        _refuse("tokens that grow until rounding errors decide the attention")


def _refuse(got: str) -> None:
    raise ParameterError(
        "times", "be reached where gradients are needed", got, "End earlier."
    )


def _step(
    coordinates: Coordinates, pair: Any, state: Array, t: float, h: float
) -> Array:
    """Return the state after a step."""
    slopes = [coordinates.rate(state, t)]
    for s in range(1, pair.last + 1):
        weights = state.new_tensor(h * pair.A[s, :s])
        point = state + (weights[:, None, None] * stack(slopes)).sum(0)
        if s < pair.last:
            slopes.append(coordinates.rate(point, t + float(pair.C[s]) * h))
    return point
