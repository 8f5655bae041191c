"""What the statements on self-attention flows share: the hypotheses, and how long to wait before saying no.

A limit is tested at a finite time T with lambda T = 15, where lambda is the leading real part of V; if the test does
not pass there, at 30 and at 60. Only then does a verdict fail. The tolerances are those of docs/theorems.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeAlias

import numpy as np

from hardmax._types import FloatArray
from hardmax.rules.self_attention import SelfAttention
from hardmax.simulate import simulate
from hardmax.smooth_trajectory import SmoothTrajectory
from hardmax.spectrum import Expectation, expectation
from hardmax.theorems.base import Statement, Verdict

PAPER = "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2305.05465"
HORIZONS = (15.0, 30.0, 60.0)  # lambda T
MOST_STEPS = 4000


@dataclass(frozen=True, eq=False)
class Scene:
    """The rule's matrices and the tokens from which the trajectory began."""

    rule: SelfAttention
    start: FloatArray  # (n, d)
    V: FloatArray
    B: FloatArray
    expected: Expectation

    @property
    def rate(self) -> float:
        """|lambda|, in which times are measured."""
        return abs(float(self.expected.eigenvalues[0].real))

    def at(self, horizon: float) -> SmoothTrajectory:
        """The tokens at lambda T = horizon, or as far as the integrator comes."""
        times = np.linspace(0, horizon / self.rate, 61)
        return simulate(self.start, self.rule, times=times, max_steps=MOST_STEPS)


FlowCheck: TypeAlias = Callable[[SmoothTrajectory], Verdict]
Test: TypeAlias = Callable[[Scene], Verdict]
Measure: TypeAlias = Callable[[FloatArray, SmoothTrajectory], tuple[float, str, object]]


def given_kind(statement: Statement, *kinds: str) -> Callable[[Test], FlowCheck]:
    """Decorate a test so that it runs only on self-attention whose spectrum is of one of these kinds."""

    def decorate(test: Test) -> FlowCheck:
        @wraps(test)
        def guarded(trajectory: SmoothTrajectory) -> Verdict:
            trajectory.single("hm.theorems.check(trajectory[b])")
            rule = trajectory.rule
            missing = _general(trajectory)
            if missing:
                return statement.not_met(missing)
            assert isinstance(rule, SelfAttention)
            d = trajectory.array.shape[-1]
            V, B = rule.value_matrix(d), rule.form(d)
            expected = expectation(V, B)
            if expected.kind not in kinds:
                return statement.not_met([f"the spectrum of V leads to another limit ({expected.kind})"])
            if expected.missing:
                return statement.not_met(expected.missing)
            start = trajectory.array[0, trajectory.real].astype(np.float64)
            return test(Scene(rule, start, V, B, expected))

        return guarded

    return decorate


def _general(trajectory: SmoothTrajectory) -> list[str]:
    """What no statement of the paper covers."""
    rule = trajectory.rule
    if not isinstance(rule, SelfAttention):
        return [f"the rule is {type(rule).__name__}, not SelfAttention"]
    missing = []
    if any(callable(getattr(rule, name)) for name in ("Q", "K", "V")):
        missing.append("Q, K or V depends on time")
    if rule.causal:
        missing.append("attention is causal")
    if not np.isfinite(trajectory.array[0, trajectory.real]).all():
        missing.append("the first tokens saved are not finite")
    return missing


def settle(statement: Statement, scene: Scene, measure: Measure, tolerance: float) -> Verdict:
    """Measure how far the limit is from what is claimed at each horizon, until it is within the tolerance.

    `measure` takes the rescaled tokens and returns the distance, what it is as a phrase, and a witness.
    """
    for horizon in HORIZONS:
        trajectory = scene.at(horizon)
        last = trajectory.reached - 1
        distance, phrase, witness = measure(trajectory.drawn[last], trajectory)
        reached = scene.rate * float(trajectory.saved[last])
        found = f"{phrase} is {distance:.2g} at lambda t = {reached:.3g} (tolerance {tolerance:g})."
        if distance < tolerance:
            return statement.verdict(True, found, margin=tolerance - distance, witness=witness)
        if trajectory.problem:
            return statement.verdict(
                None, f"{found} {trajectory.problem}", margin=tolerance - distance, witness=witness
            )
    return statement.verdict(False, found, margin=tolerance - distance, witness=witness)
