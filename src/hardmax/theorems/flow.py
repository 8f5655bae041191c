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
from hardmax.flows.clusters import labels_of
from hardmax.flows.expectation import Expectation
from hardmax.flows.spectrum import expectation_of
from hardmax.rules.self_attention import SelfAttention
from hardmax.simulate import simulate
from hardmax.theorems.base import Statement, Verdict
from hardmax.trajectories.smooth import SmoothTrajectory

PAPER = "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2305.05465"
HORIZONS = (15.0, 30.0, 60.0)  # lambda T
MOST_STEPS = 4000
GONE = 1e-9  # of the start: where all rescaled tokens have shrunk below that, the error control sees nothing
SHARP = 0.99  # of `sharpness`: below it a test that does not pass leaves the question open
OUTSIDE = "No token has a component in the leading eigenspace."


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
            expected = expectation_of(rule, d)
            if expected.kind not in kinds:
                return statement.not_met([f"the spectrum of V belongs to another statement ({expected.kind})"])
            if expected.missing:
                return statement.not_met(expected.missing)
            start = _input(trajectory)
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
    return missing


def _input(trajectory: SmoothTrajectory) -> FloatArray:
    """The tokens at time 0."""
    return np.asarray(trajectory.start[trajectory.real], np.float64)


def settle(statement: Statement, scene: Scene, measure: Measure, tolerance: float, *, gap: float = 1.0) -> Verdict:
    """Measure how far the limit is from what is claimed at each horizon, until it is within the tolerance.

    `measure` takes the rescaled tokens and returns the distance, what it is as a phrase, and a witness. `gap` is how
    fast other directions fall behind the leading ones, relative to lambda; where it is too small to be waited for, a
    test that does not pass leaves the question open.
    """
    for horizon in HORIZONS:
        trajectory = scene.at(horizon)
        if trajectory.problem:
            return statement.verdict(None, trajectory.problem)
        distance, phrase, witness = measure(trajectory.drawn[-1], trajectory)
        found = f"{phrase} is {distance:.2g} at lambda t = {horizon:g} (tolerance {tolerance:g})."
        margin = tolerance - distance
        if distance < tolerance:
            return statement.verdict(True, found, margin=margin, witness=witness)
    gone = float(np.abs(trajectory.drawn[-1]).max()) < GONE * float(np.abs(scene.start).max())
    if gone or sharpness(trajectory) < SHARP:
        slow = f"{found} Attention is not sharp by then: such tokens need longer, or rest in a balance."
        return statement.verdict(None, slow, margin=margin, witness=witness)
    if gap * HORIZONS[-1] < HORIZONS[0]:
        slow = f"{found} The next eigenvalue is within {gap:.2g} of the leading one, too close to be waited for."
        return statement.verdict(None, slow, margin=margin, witness=witness)
    return statement.verdict(False, found, margin=margin, witness=witness)


def sharpness(trajectory: SmoothTrajectory) -> float:
    """The least that a row of the last attention gives to one cluster: 1 when every token has chosen."""
    P, points = np.asarray(trajectory.attention(-1)), trajectory.gathering[-1]
    labels = labels_of(points, points, trajectory.real)  # at their present scale, which may be far below the first
    return float((P @ (labels[:, None] == np.arange(labels.max() + 1))).max(axis=1).min())


def is_outside(scene: Scene, dual: FloatArray) -> bool:
    """Whether no token has a component that these coordinates see, beyond rounding."""
    size = float(np.abs(scene.start).max()) * float(np.linalg.norm(dual))
    return float(np.abs(scene.start @ dual).max()) <= 1e-12 * size


def gap_of(scene: Scene) -> float:
    """How far the real parts of other eigenvalues are below the leading one, relative to it; 1 if there are none."""
    values = scene.expected.eigenvalues.real
    others = values[scene.expected.multiplicity :]
    return 1.0 if not len(others) else float(values[0] - others[0]) / scene.rate


def unit_size(points: FloatArray) -> FloatArray:
    """Points divided by their largest coordinate, so that squares neither overflow nor underflow."""
    return np.asarray(points / (float(np.abs(points).max()) or 1.0))
