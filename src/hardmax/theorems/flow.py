"""Shared parts of the statements on self-attention flows: hypotheses, the initial hull, and when a limit is tested.

Statements are tested on the given trajectory. A limit is tested at its end T if lambda T >= 15, where lambda is the
leading real part of V. If the trajectory is shorter, or the test does not pass there, the same tokens are integrated a
second time to lambda T = 15, 30 and 60 before a verdict fails; the reason of the verdict then says so. The tolerances
are those of docs/theorems.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeAlias

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._arrays import to_numpy
from hardmax._rounding import format_up
from hardmax._types import FloatArray
from hardmax.flows.classify import Expectation, classify_rule
from hardmax.rules.self_attention import SelfAttention
from hardmax.simulate import simulate
from hardmax.theorems.base import Verdict, not_met, nothing, verdict
from hardmax.trajectories.smooth import SmoothTrajectory, label_clusters

PAPER = "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2305.05465"
HORIZONS = (15.0, 30.0, 60.0)  # lambda T
MOST_STEPS = 4000
GONE = 1e-9  # of the start: where all rescaled tokens have shrunk below that, the error control sees nothing
SHARP = 0.99  # of `sharpness`: below it a test that does not pass leaves the question open
HULL_TOL = 1e-4  # of the largest initial coordinate
ERROR_PER_RTOL = 100  # global error of a trajectory, in units of its rtol, that error control may leave
MAX_FAIL_RTOL = 1e-6  # a trajectory with a larger rtol may miss a limit because of its error
MAX_DIFFERENCE = 1e-2  # of the largest coordinate, between the trajectory and a second integration
MAX_FACET_DIMENSION = 4  # above it the facets of a hull are too many
MAX_DIRECTIONS = 1000


@dataclass(frozen=True, eq=False)
class Tested:
    """A trajectory on which a limit is tested at lambda t = `horizon`."""

    trajectory: SmoothTrajectory
    horizon: float
    where: str  # words for the reason of a verdict
    problem: str = ""  # why nothing can be tested
    accurate: bool = True  # False where a test that does not pass may be the integrator's error

    @property
    def last(self) -> int:
        """Index of the last saved time with finite tokens."""
        return self.trajectory.reached - 1

    @property
    def tokens(self) -> FloatArray:
        """Rescaled tokens at that time."""
        return np.asarray(self.trajectory.drawn[self.last])


@dataclass(frozen=True, eq=False)
class GivenFlow:
    """The trajectory to test, in float64 and without padding, under a rule with constant matrices."""

    trajectory: SmoothTrajectory

    @classmethod
    def of(cls, trajectory: SmoothTrajectory) -> "GivenFlow":
        """Drop padding and convert tensors and narrow floats."""
        real = trajectory.real
        rescaled = trajectory.rescaled
        plain = replace(
            trajectory,
            tokens=trajectory.array[:, real].astype(np.float64),
            rescaled=None if rescaled is None else np.asarray(to_numpy(rescaled), np.float64)[:, real],
            start=np.asarray(trajectory.start, np.float64)[real],
            real=np.ones(int(real.sum()), bool),
            powers=tuple((np.asarray(to_numpy(power), np.float64), log) for power, log in trajectory.powers),
        )
        return cls(plain)

    @property
    def rule(self) -> SelfAttention:
        rule = self.trajectory.rule
        assert isinstance(rule, SelfAttention)
        return rule

    @property
    def start(self) -> FloatArray:
        """The tokens at time 0, (n, d)."""
        return np.asarray(self.trajectory.start)

    @cached_property
    def expected(self) -> Expectation:
        return classify_rule(self.rule, self.start.shape[1])

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

    @cached_property
    def end(self) -> float:
        """Lambda t at the last saved time with finite tokens."""
        reached = self.trajectory.reached
        return self.rate * float(self.trajectory.saved[reached - 1]) if reached else 0.0

    @cached_property
    def rtol(self) -> float:
        """The rtol that the error control ended with; infinite for fixed steps, whose error nothing controls."""
        stats = self.trajectory.stats
        return float(stats.get("rtol_reached", stats["rtol"])) if stats["adaptive"] else np.inf

    def runs(self, horizons: Sequence[float] = HORIZONS) -> Iterator[Tested]:
        """Yield the trajectory if it is long enough for the first horizon, then second integrations to later ones."""
        why = f"because the trajectory ends at lambda t = {self.end:.4g}"
        if self.end >= horizons[0] * (1 - 1e-9):
            at = f"at lambda t = {self.end:.4g}, the end of the trajectory"
            yield Tested(self.trajectory, self.end, at, accurate=self.rtol <= MAX_FAIL_RTOL)
            why = f"because the test does not pass {at}"
        problem = None
        for horizon in horizons:
            if horizon > self.end * (1 + 1e-9):
                second = self._integrate(horizon)
                problem = self._difference(second) if problem is None else problem
                where = f"at lambda t = {horizon:g} of a second integration from the same tokens, {why}"
                yield Tested(second, horizon, where, second.problem or problem)

    def _integrate(self, horizon: float) -> SmoothTrajectory:
        """Integrate the same tokens to lambda T = horizon with the default settings, or as far as these come."""
        end, saved = horizon / self.rate, self.trajectory.saved[: self.trajectory.reached]
        times = np.union1d(np.linspace(0, end, 61), saved[saved <= end])
        return simulate(self.start, self.rule, times=times, max_steps=MOST_STEPS)

    def _difference(self, second: SmoothTrajectory) -> str:
        """Say if the trajectory is not the one that a second integration describes; empty for fixed steps."""
        given, saved = self.trajectory, self.trajectory.saved[: self.trajectory.reached]
        places = np.searchsorted(second.saved, saved[saved <= second.saved[-1]])
        places = places[places < second.reached]
        if not given.stats["adaptive"] or not len(places):
            return ""
        here, there = given.gathering[: len(places)], second.gathering[places]
        sizes = np.abs(there).max(axis=(1, 2))
        apart = float((np.abs(here - there).max(axis=(1, 2)) / np.where(sizes > 0, sizes, 1.0)).max())
        if apart <= MAX_DIFFERENCE:
            return ""
        return (
            f"The trajectory differs from a second integration with rtol {second.stats['rtol']:g} by "
            f"{format_up(apart, 2)} of the largest coordinate (tolerance {MAX_DIFFERENCE:g}). Simulate it with a "
            "smaller `rtol`."
        )


FlowCheck: TypeAlias = Callable[[SmoothTrajectory], Verdict]
Measure: TypeAlias = Callable[[Tested], tuple[float, str, object]]


def given_kind(kind: str) -> Callable[[Callable[[GivenFlow], Verdict]], FlowCheck]:
    """Decorate a test so that it runs only on self-attention whose spectrum is of this kind."""

    def decorate(test: Callable[[GivenFlow], Verdict]) -> FlowCheck:
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
            given = GivenFlow.of(trajectory)
            if given.expected.kind != kind:
                other = f"the spectrum of V belongs to another statement ({given.expected.kind})"
                return not_met(other, applies=False)
            return not_met(*given.expected.missing) if given.expected.missing else test(given)

        del guarded.__wrapped__  # whose argument is another
        return guarded

    return decorate


def settle(
    given: GivenFlow, measure: Measure, tolerance: float, *, dual: FloatArray | None = None, hull: bool = False
) -> Verdict:
    """Test the hull at every saved time, then the limit until it is within the tolerance.

    `measure` returns the distance from what is claimed, what it is as a phrase, and a witness. `dual` reads the
    components in the leading eigenspace, if only these are measured: some token must have one beyond rounding, and
    where other directions fall behind too slowly, a test that does not pass leaves the question open. `hull` tests that
    these components (without `dual` all coordinates) stay in their initial hull.
    """
    gap = 1.0
    if dual is not None:
        gap, size = given.gap, float(np.abs(given.start).max()) * float(np.linalg.norm(dual))
        if float(np.abs(given.start @ dual).max()) <= 1e-12 * size:
            return nothing("No token has a component in the leading eigenspace.")
    outside = left_hull(given, dual) if hull else None
    if outside is not None:
        return outside
    for tested in given.runs():
        if tested.problem:
            return verdict(None, tested.problem)
        distance, phrase, witness = measure(tested)
        found = f"{phrase} is {format_up(distance, 2)} {tested.where} (tolerance {tolerance:g})."
        about: dict[str, Any] = {"margin": tolerance - distance, "witness": witness}
        if distance < tolerance:
            return verdict(True, found, **about)
    gone = float(np.abs(tested.tokens).max()) < GONE * float(np.abs(given.start).max())
    if gone or sharpness(tested) < SHARP:
        open_ = "Attention is not sharp by then: such tokens need longer, or rest in a balance."
        return verdict(None, f"{found} {open_}", **about)
    if gap * HORIZONS[-1] < HORIZONS[0]:
        close = f"The next eigenvalue is within {gap:.2g} of the leading one, too close to be waited for."
        return verdict(None, f"{found} {close}", **about)
    return fail(tested, found, **about)


def fail(tested: Tested, found: str, **about: Any) -> Verdict:
    """Return the verdict where no test passes: a failure, unless the integrator's error may be the cause."""
    if tested.accurate:
        return verdict(False, found, **about)
    return verdict(None, f"{found} The integrator's error may be the cause: use a smaller `rtol` or `dt`.", **about)


def sharpness(tested: Tested) -> float:
    """Return the least that a row of the last attention gives to one cluster: 1 when every token has chosen."""
    trajectory, k = tested.trajectory, tested.last
    P, points = np.asarray(trajectory.attention(k)), trajectory.gathering[k]
    labels = label_clusters(points, points, trajectory.real)  # at their present scale, which may be far below the first
    return float((P @ (labels[:, None] == np.arange(labels.max() + 1))).max(axis=1).min())


def left_hull(given: GivenFlow, dual: FloatArray | None) -> Verdict | None:
    """Return the verdict for a trajectory that leaves the initial hull of its tokens, None where it stays inside.

    The components along left eigenvectors of a positive eigenvalue obey y_i' = lambda sum_j P_ij (y_j - y_i): no
    maximum over the tokens grows.
    """
    trajectory = given.trajectory
    reader = np.eye(given.start.shape[1]) if dual is None else dual
    size = float(np.abs(given.start @ reader).max()) or 1.0
    start, worst, witness = given.start @ reader / size, -np.inf, (0, 0)  # (n, k)
    normals = outer_normals(start)  # (m, k)
    supports = (start @ normals.T).max(axis=0)
    for k in range(trajectory.reached):
        excess = (trajectory.drawn[k] @ reader / size @ normals.T - supports).max(axis=1)
        if excess.max() > worst:
            worst, witness = float(excess.max()), (k, int(excess.argmax()))
    if worst <= HULL_TOL:
        return None
    k, token = witness
    found = (
        f"At {trajectory.label(k)} token {token} is outside the initial hull by {format_up(worst, 2)} of the "
        f"largest coordinate {'' if dual is None else 'in the leading eigenspace '}(tolerance {HULL_TOL:g})."
    )
    about: dict[str, Any] = {
        "margin": HULL_TOL - worst,
        "witness": {"time": float(trajectory.saved[k]), "token": token},
    }
    explained = worst <= ERROR_PER_RTOL * given.rtol
    return fail(Tested(trajectory, given.end, "", accurate=not explained), found, **about)


def outer_normals(points: FloatArray) -> FloatArray:
    """Return unit normals (m, k) of half-spaces around the hull of points (n, k).

    These are the normals of its facets. Where the facets are too many or the hull is flat, they are the principal axes
    and the directions from the mean to the farthest points.
    """
    n, k = points.shape
    if k == 1:
        return np.array([[1.0], [-1.0]])
    if n > k and k <= MAX_FACET_DIMENSION:
        try:
            return np.unique(scipy.spatial.ConvexHull(points).equations[:, :-1], axis=0)
        except scipy.spatial.QhullError:  # all points lie in a subspace
            pass
    centred = points - points.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    farthest = np.argsort(-lengths, kind="stable")[:MAX_DIRECTIONS]
    farthest = farthest[lengths[farthest] > 0]
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    return np.concatenate([axes, -axes, centred[farthest] / lengths[farthest, None]])
