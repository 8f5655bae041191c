"""Gradients through adaptive integration: the steps are found without gradients, held fixed, and repeated in torch.

Each step keeps its first state alone for the way back, and is computed again there. A saved time within a step divides
it. The derivative of x(t) with respect to t is the velocity at t.
"""

from typing import Any

import numpy as np

from hardmax._arrays import needs_gradient, stack
from hardmax._errors import ParameterError
from hardmax._types import Array, FloatArray
from hardmax._validation import library_of, to_numpy
from hardmax.flows.adaptive import Element
from hardmax.flows.coordinates import Attending, Coordinates, TokensAndGrowth
from hardmax.flows.integrate import Method, Solution, stack_read
from hardmax.flows.runge_kutta import RungeKutta
from hardmax.flows.steps import find_pair
from hardmax.rules.base import Flow
from hardmax.rules.compose import MultiHead
from hardmax.rules.self_attention import SelfAttention


class Plain(Attending):
    """x itself for a constant V, and z = e^{-tV} x."""

    def read(self, state: Array, t: float) -> tuple[Array, Array]:
        identity = library_of(state).eye(state.shape[-1], dtype=state.dtype, device=state.device)
        V = self._rule.values(identity, 0.0).T
        return state, state @ library_of(state).matrix_exp(-t * V).T


def choose_differentiable(rule: Flow | MultiHead) -> Coordinates:
    """Choose coordinates in which every weight may require gradients."""
    if not isinstance(rule, SelfAttention):
        return Coordinates(rule)
    return Plain(rule) if rule.has_constant_values else TokensAndGrowth(rule)


def integrate_with_gradients(
    rule: Flow | MultiHead, tokens: Array, times: FloatArray, given: Array, method: Method
) -> Solution:
    """Integrate a tensor of tokens (n, d) from time 0; `given` may be `times` as a tensor that requires gradients."""
    coordinates, pair = choose_differentiable(rule), find_pair(method.name)
    state = coordinates.start(tokens.double())
    x = np.asarray(to_numpy(tokens), np.float64)
    ends, element = _find_steps(coordinates, x, float(times[-1]), method)
    t, read = 0.0, []
    checkpoint = _load_checkpoint()
    for k, end in enumerate(times.tolist()):
        while t < end:
            to = min(end, ends[int(np.searchsorted(ends, t, side="right"))])
            state, t = checkpoint(_step, coordinates, pair, state, t, to - t, use_reentrant=False), to
        saved = coordinates.after_step(state)
        if needs_gradient(given):
            saved = saved + (given[k] - given[k].detach()) * coordinates.rate(saved, t)
        read.append(coordinates.read(saved, t))
    found = stack_read([(a.to(tokens.dtype), None if z is None else z.to(tokens.dtype)) for a, z in read])
    steps, evaluations, rejected = element.counts
    return Solution(*found, steps, evaluations, rejected, rtol=method.rtol)


def _load_checkpoint() -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint


def _find_steps(coordinates: Coordinates, tokens: FloatArray, end: float, method: Method) -> tuple[FloatArray, Element]:
    """Return the ends of all steps that the error control accepts."""
    run = RungeKutta([coordinates], [tokens], method.name, end, method.max_steps)
    element, ends = Element(run, 0, method), [0.0]
    while element.t < end:
        run.advance([0], np.array([end]), np.array([element.counts[0] + 1]))
        if element.failure or element.counts[0] >= method.max_steps:
            why = element.failure or f"{method.max_steps} steps were not enough"
            advice = "Loosen `rtol`, raise `max_steps`, or end earlier."
            raise ParameterError("times", "be reached where gradients are needed", f"{why} at {element.t:.4g}", advice)
        if element.t > ends[-1]:
            ends.append(element.t)
    return np.array(ends), element


def _step(coordinates: Coordinates, pair: Any, state: Array, t: float, h: float) -> Array:
    """Return the state after a step."""
    slopes = [coordinates.rate(state, t)]
    for s in range(1, pair.last + 1):
        weights = state.new_tensor(h * pair.A[s, :s])
        point = state + (weights[:, None, None] * stack(slopes)).sum(0)
        if s < pair.last:
            slopes.append(coordinates.rate(point, t + float(pair.C[s]) * h))
    return point
