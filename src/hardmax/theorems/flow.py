"""What the statements on self-attention flows share: the hypotheses, and how long to wait before saying no.

A limit is tested at a finite time T with lambda T = 15, where lambda is the leading real part of V; if the test does
not pass there, at 30 and at 60. Only then does a verdict fail. The tolerances are those of docs/theorems.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from typing import TypeAlias

import numpy as np

from hardmax._types import FloatArray
from hardmax.flows.clusters import labels_of
from hardmax.flows.spectrum import Expectation, expectation_of
from hardmax.rules.self_attention import SelfAttention
from hardmax.simulate import simulate
from hardmax.theorems.base import Verdict, not_met, nothing, verdict
from hardmax.trajectories.smooth import SmoothTrajectory

PAPER = "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2305.05465"
HORIZONS = (15.0, 30.0, 60.0)  # lambda T
MOST_STEPS = 4000
GONE = 1e-9  # of the start: where all rescaled tokens have shrunk below that, the error control sees nothing
SHARP = 0.99  # of `sharpness`: below it a test that does not pass leaves the question open


@dataclass(frozen=True, eq=False)
class Beginning:
    """A rule with constant matrices, and the tokens from which the trajectory began."""

    rule: SelfAttention
    start: FloatArray  # (n, d)

    @cached_property
    def expected(self) -> Expectation:
        return expectation_of(self.rule, self.start.shape[1])

    @property
    def B(self) -> FloatArray:
        return self.rule.form(self.start.shape[1])

    @property
    def rate(self) -> float:
        """|lambda|, in which times are measured."""
        return abs(float(self.expected.eigenvalues[0].real))

    @property
    def gap(self) -> float:
        """How far the real parts of other eigenvalues are below the leading one, relative to it; 1 without others."""
        values = self.expected.eigenvalues.real
        others = values[self.expected.multiplicity :]
        return 1.0 if not len(others) else float(values[0] - others[0]) / self.rate

    def at(self, horizon: float) -> SmoothTrajectory:
        """The tokens at lambda T = horizon, or as far as the integrator comes."""
        times = np.linspace(0, horizon / self.rate, 61)
        return simulate(self.start, self.rule, times=times, max_steps=MOST_STEPS)


FlowCheck: TypeAlias = Callable[[SmoothTrajectory], Verdict]
Measure: TypeAlias = Callable[[FloatArray, SmoothTrajectory], tuple[float, str, object]]


def given_kind(kind: str) -> Callable[[Callable[[Beginning], Verdict]], FlowCheck]:
    """Decorate a test so that it runs only on self-attention whose spectrum is of this kind."""

    def decorate(test: Callable[[Beginning], Verdict]) -> FlowCheck:
        @wraps(test, assigned=("__module__", "__name__", "__qualname__", "__doc__"))  # its own argument stays
        def guarded(trajectory: SmoothTrajectory) -> Verdict:
            trajectory.single("hm.theorems.check(trajectory[b])")
            rule = trajectory.rule
            if not isinstance(rule, SelfAttention):
                return not_met(f"the rule is {type(rule).__name__}, not SelfAttention")
            uncovered = ["Q, K or V depends on time"] if any(map(callable, rule.weights)) else []
            uncovered += ["attention is causal"] if rule.causal else []
            if uncovered:
                return not_met(*uncovered)
            start = trajectory.array[0] if trajectory.start is None else np.asarray(trajectory.start)
            began = Beginning(rule, np.asarray(start[trajectory.real], np.float64))
            if began.expected.kind != kind:
                other = f"the spectrum of V belongs to another statement ({began.expected.kind})"
                return not_met(other, applies=False)
            return not_met(*began.expected.missing) if began.expected.missing else test(began)

        del guarded.__wrapped__  # whose argument is another
        return guarded

    return decorate


def settle(began: Beginning, measure: Measure, tolerance: float, *, dual: FloatArray | None = None) -> Verdict:
    """Measure how far the limit is from what is claimed at each horizon, until it is within the tolerance.

    `measure` takes the rescaled tokens and returns the distance, what it is as a phrase, and a witness. `dual` reads
    the components in the leading eigenspace, if it is these alone that are measured: some token must have one beyond
    rounding, and where other directions fall behind too slowly to be waited for, a test that does not pass leaves the
    question open.
    """
    gap = 1.0
    if dual is not None:
        gap, size = began.gap, float(np.abs(began.start).max()) * float(np.linalg.norm(dual))
        if float(np.abs(began.start @ dual).max()) <= 1e-12 * size:
            return nothing("No token has a component in the leading eigenspace.")
    for horizon in HORIZONS:
        trajectory = began.at(horizon)
        if trajectory.problem:
            return verdict(None, trajectory.problem)
        distance, phrase, witness = measure(trajectory.drawn[-1], trajectory)
        found = f"{phrase} is {distance:.2g} at lambda t = {horizon:g} (tolerance {tolerance:g})."
        judged = partial(verdict, margin=tolerance - distance, witness=witness)
        if distance < tolerance:
            return judged(True, found)
    gone = float(np.abs(trajectory.drawn[-1]).max()) < GONE * float(np.abs(began.start).max())
    if gone or sharpness(trajectory) < SHARP:
        return judged(None, f"{found} Attention is not sharp by then: such tokens need longer, or rest in a balance.")
    if gap * HORIZONS[-1] < HORIZONS[0]:
        close = f"The next eigenvalue is within {gap:.2g} of the leading one, too close to be waited for."
        return judged(None, f"{found} {close}")
    return judged(False, found)


def sharpness(trajectory: SmoothTrajectory) -> float:
    """The least that a row of the last attention gives to one cluster: 1 when every token has chosen."""
    P, points = np.asarray(trajectory.attention(-1)), trajectory.gathering[-1]
    labels = labels_of(points, points, trajectory.real)  # at their present scale, which may be far below the first
    return float((P @ (labels[:, None] == np.arange(labels.max() + 1))).max(axis=1).min())
