"""Theorems and conjectures of arXiv 2305.05465 about the limit of self-attention, and
the energy on the sphere.

A limit is tested at the end of the trajectory, and if need be of longer second
integrations: see `theorems.check`. The tolerances are those of docs/theorems.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy  # submodules load on first use

from hardmax._exact import format_down, format_up
from hardmax._simulate import simulate
from hardmax._types import FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.flows.classify import Expectation, classify_rule
from hardmax.flows.coordinates import find_growth
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.theorems.verdict import (
    Outcome,
    Statement,
    Verdict,
    find_rounding,
    report,
    report_not_met,
)
from hardmax.trajectories.smooth import SmoothTrajectory, label_clusters

PAPER = "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2305.05465"
EPS = float(np.finfo(np.float64).eps)
MAX_PLAIN_LOG = 600.0  # e^600 is far below the largest float
HORIZONS = (15.0, 30.0, 60.0)  # lambda T
MAX_STEPS = 4000  # of a second integration
MAX_CLUSTERS = 3  # of coordinates in the leading eigenspace
MIN_PACE = 0.5  # of 1/c, in units of 2t, where 1 is expected: see docs/theorems.md
MIN_SHARPNESS = 0.99  # below it a test that does not pass leaves the question open
MIN_SIZE = (
    1e-9  # of the start: the error control does not resolve smaller rescaled tokens
)
MAX_MEAN = 1e-3  # of a collapse, relative to the largest norm at the start
MAX_FAIL_RTOL = (
    1e-6  # a trajectory with a larger rtol may miss a limit because of its error
)
MAX_DIFFERENCE = (
    1e-2  # of the largest coordinate, between the trajectory and a second integration
)
MAX_FACET_DIMENSION = 4  # above it the facets of a hull are too many
MAX_DIRECTIONS = 1000
# global error of a trajectory, in units of its rtol, that error control may leave
ERROR_PER_RTOL = 100
BOOLEAN_TOL = 1e-6  # distance of a row from a unit vector
GAIN_TOL = 1e-4  # relative to |B| R^2
SCATTER_TOL = 1e-3  # relative to the spread
MOVE_TOL = 1e-4  # from lambda t - 3 to lambda t, relative to the spread
HULL_TOL = 1e-4  # relative to the largest initial coordinate


@dataclass(frozen=True, eq=False)
class Problem:
    """A trajectory to test, in float64 and without padding, under a rule with constant
    matrices.
    """

    trajectory: SmoothTrajectory
    rule: SelfAttention
    expected: Expectation
    start: FloatArray  # (n, d), the tokens at time 0
    rate: float  # |lambda|
    end: float  # lambda t at the last saved time with finite tokens
    B: FloatArray  # Q^T K
    eps: float  # of the dtype of the trajectory

    @classmethod
    def of(cls, trajectory: SmoothTrajectory) -> "Problem":
        """Drop padding and convert tensors and narrow floats."""
        rule, real, rescaled = trajectory.rule, trajectory.real, trajectory.rescaled
        assert isinstance(rule, SelfAttention)
        plain = replace(
            trajectory,
            tokens=trajectory.array[:, real].astype(np.float64),
            rescaled=(
                None
                if rescaled is None
                else np.asarray(to_numpy(rescaled), np.float64)[:, real]
            ),
            start=np.asarray(trajectory.start, np.float64)[real],
            real=np.ones(int(real.sum()), bool),
            powers=tuple(
                (np.asarray(to_numpy(power), np.float64), log)
                for power, log in trajectory.powers
            ),
        )
        expected, reached = classify_rule(rule, plain.start.shape[1]), plain.reached
        rate = abs(float(expected.eigenvalues[0].real))
        end = rate * float(plain.saved[reached - 1]) if reached else 0.0
        return cls(
            plain,
            rule,
            expected,
            np.asarray(plain.start),
            rate,
            end,
            rule.form(plain.start.shape[1]),
            find_rounding(trajectory)[0],
        )

    def tests(self, horizons: Sequence[float] = HORIZONS) -> "Iterator[LimitTest]":
        """Yield the trajectory if it is long enough for the first horizon, then second
        integrations in float64.

        Also to horizons before the end of the trajectory: tokens that meet are equal in
        floats at last, and their attention is then split.
        """
        why = f"because the trajectory ends at lambda t = {self.end:.4g}"
        if self.end >= horizons[0] * (1 - 1e-9):
            at = f"at lambda t = {self.end:.4g}, the end of the trajectory"
            yield LimitTest(
                self.trajectory,
                at,
                accurate=find_rtol(self.trajectory) <= MAX_FAIL_RTOL,
                eps=self.eps,
            )
            why = f"because the test does not pass {at}"
        difference = None
        for horizon in horizons:
            if abs(horizon - self.end) > horizon * 1e-9 or self.eps > EPS:
                end, saved = (
                    horizon / self.rate,
                    self.trajectory.saved[: self.trajectory.reached],
                )
                times = np.union1d(np.linspace(0, end, 61), saved[saved <= end])
                second = simulate(
                    self.start, self.rule, times=times, max_steps=MAX_STEPS
                )
                difference = self._compare(second) if difference is None else difference
                where = (
                    f"at lambda t = {horizon:g} of a second integration from the same"
                    f" tokens, {why}"
                )
                yield LimitTest(second, where, second.problem or difference)

    def _compare(self, second: SmoothTrajectory) -> str:
        """Return how the trajectory differs from a second integration; empty if it does
        not, and for fixed steps.
        """
        given, saved = self.trajectory, self.trajectory.saved[: self.trajectory.reached]
        places = np.searchsorted(second.saved, saved[saved <= second.saved[-1]])
        places = places[places < second.reached]
        if not given.stats["adaptive"] or not len(places):
            return ""
        with np.errstate(invalid="ignore"):  # of tokens at later times
            here, there = given.gathering[: len(places)], second.gathering[places]
        sizes = np.abs(there).max(axis=(1, 2))
        apart = float(
            (
                np.abs(here - there).max(axis=(1, 2)) / np.where(sizes > 0, sizes, 1.0)
            ).max()
        )
        if apart <= max(MAX_DIFFERENCE, 8 * self.eps):
            return ""
        return (
            "The trajectory differs from a second integration with rtol"
            f" {second.stats['rtol']:g} by {format_up(apart, 2)} of the largest"
            f" coordinate (tolerance {MAX_DIFFERENCE:g}). Simulate it with a smaller"
            " `rtol`."
        )


@dataclass(frozen=True, eq=False)
class LimitTest:
    """A trajectory at the end of which a limit is tested."""

    trajectory: SmoothTrajectory
    where: str  # words for the reason of a verdict
    problem: str = ""  # why nothing can be tested
    accurate: bool = (
        True  # False if the integrator's error may be the cause of a failure
    )
    eps: float = EPS  # of the dtype of the trajectory

    @property
    def last(self) -> int:  # index of the last saved time with finite tokens
        return self.trajectory.reached - 1

    @property
    def tokens(self) -> FloatArray:  # rescaled tokens at that time
        return np.asarray(self.trajectory.drawn[self.last])

    def components(
        self, problem: Problem, dual: FloatArray, at: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return components of the rescaled tokens at a saved time, and a bound of
        their errors: (n, k) each.

        Where V has negative eigenvalues, other components of z grow, and products with
        z cancel. For vectors of the leading eigenspace the components are e^{-lambda t}
        times those of x, in which the leading ones dominate.
        """
        z = np.asarray(self.trajectory.drawn[at], np.float64)
        found = z @ dual
        rounding = (len(dual) + 2) * self.eps * (np.abs(z) @ np.abs(dual))
        rtol = find_rtol(self.trajectory)
        if not np.isfinite(rtol):  # fixed steps, where a failure is not reported
            return found, rounding
        rtol = min(rtol, MAX_FAIL_RTOL)  # the same holds for a larger one

        x = np.asarray(self.trajectory.array[at], np.float64)
        log = problem.rate * float(self.trajectory.saved[at])
        leads = dual is problem.expected.dual
        real = problem.expected.eigenvalues[0].imag == 0
        if leads and real and log < MAX_PLAIN_LOG and np.isfinite(x).all():
            unit = x * float(np.exp(-log))
            sizes = np.abs(unit) @ np.abs(dual)
            other = ((len(dual) + 2) * self.eps + log * EPS) * sizes
            if other.max() < rounding.max():
                found, rounding = unit @ dual, other

        # The integrator's error is relative to components in an eigenbasis
        growth = find_growth(problem.rule, len(dual))
        separate = growth.imaginary is not None
        sizes = np.abs(found) if separate else np.abs(z) @ np.abs(dual)
        start = float(np.abs(problem.start).max()) * np.abs(dual).sum(axis=0)
        atol = self.trajectory.stats["atol"]
        return found, rounding + ERROR_PER_RTOL * (
            rtol * sizes.max(axis=0) + atol * start
        )


Measure: TypeAlias = Callable[
    [LimitTest], tuple[float, str, object]
]  # distance from the limit, its name, a witness


def find_rtol(trajectory: SmoothTrajectory) -> float:
    """Return the rtol at the end of the error control; infinite for fixed steps, which
    have no error control.
    """
    stats = trajectory.stats
    return (
        float(stats.get("rtol_reached", stats["rtol"])) if stats["adaptive"] else np.inf
    )


def require_kind(kind: str, trajectory: SmoothTrajectory) -> Verdict | None:
    """Return the verdict if V does not have a spectrum of this kind, or other
    hypotheses are not met.
    """
    rule: Any = trajectory.rule
    uncovered = (
        ["Q, K or V depends on time"] if any(map(callable, rule.weights)) else []
    )
    uncovered += ["attention is causal"] if rule.causal else []
    if uncovered:
        return report_not_met(*uncovered)
    expected = classify_rule(rule, trajectory.array.shape[-1])
    if expected.kind != kind:
        return report_not_met(
            f"the spectrum of V belongs to another statement ({expected.kind})",
            applies=False,
        )
    return report_not_met(*expected.missing) if expected.missing else None


def cover(kind: str, V: str, hypotheses: str, d: int = 2) -> dict[str, Any]:
    """Return the hypotheses and the example of a statement about one kind of spectrum,
    for `Statement`.
    """
    tokens = (
        "[[1.0], [-0.5], [0.2]]"
        if d == 1
        else f'hm.configuration("gaussian", n=8, d={d})'
    )
    example = f"{tokens}, hm.SelfAttention(V={V}), times=10"
    unmet = partial(require_kind, kind)
    return {
        "rule": SelfAttention,
        "require": unmet,
        "example": example,
        "hypotheses": hypotheses,
    }


def check_limit(
    problem: Problem,
    measure: Measure,
    tolerance: float,
    *,
    dual: FloatArray | None = None,
    reader: FloatArray | None = None,
    hull: bool = False,
) -> Verdict:
    """Test the hull at every saved time, then the limit until its distance is within
    the tolerance.

    `dual` maps tokens to their components in the leading eigenspace, if only these are
    measured: some token must have one beyond rounding, and if other directions decay
    too slowly, a test that does not pass leaves the question open. `reader` maps tokens
    to what is measured, if not to these components. `hull` tests that
    these components (without `dual` all coordinates) stay in their initial hull.
    """
    # between the real parts of the leading and the next eigenvalue, relative to the
    # leading one
    gap = 1.0
    if dual is not None:
        values, others = (
            problem.expected.eigenvalues.real,
            problem.expected.multiplicity,
        )
        gap = (
            float(values[0] - values[others]) / problem.rate
            if others < len(values)
            else 1.0
        )
        size = float(np.abs(problem.start).max()) * float(np.linalg.norm(dual))
        if float(np.abs(problem.start @ dual).max()) <= 1e-12 * size:
            return Verdict(
                Outcome.NOTHING, "No token has a component in the leading eigenspace."
            )
    if hull and (outside := _check_hull(problem, dual)) is not None:
        return outside
    for test in problem.tests():
        if test.problem:
            return report(None, test.problem)
        distance, phrase, witness = measure(test)
        if not np.isfinite(distance):
            return report(None, f"{phrase} leaves the range of floats {test.where}.")
        found = (
            f"{phrase} is {format_up(distance, 2)} {test.where} (tolerance"
            f" {tolerance:g})."
        )
        about: dict[str, Any] = {"margin": tolerance - distance, "witness": witness}
        if distance < tolerance:
            return report(True, found, **about)
    # Sharpness: the least attention that a row gives to one cluster at the end, 1 if
    # every token has chosen
    P, points = (
        np.asarray(test.trajectory.attention(test.last)),
        test.trajectory.gathering[test.last],
    )
    labels = label_clusters(
        points, points, test.trajectory.real
    )  # at the present spread, maybe far below the first
    sharpness = float(
        (P @ (labels[:, None] == np.arange(labels.max() + 1))).max(axis=1).min()
    )
    small = float(np.abs(test.tokens).max()) < MIN_SIZE * float(
        np.abs(problem.start).max()
    )
    if small or sharpness < MIN_SHARPNESS:
        found += (
            " Attention is not sharp by then: such tokens need longer, or rest in a"
            " balance."
        )
        return report(None, found, **about)
    if reader is None:
        reader = np.eye(problem.start.shape[1]) if dual is None else dual
    components, errors = test.components(problem, reader, test.last)
    noise = float(errors.max()) / (float(np.abs(components).max()) or 1.0)
    if noise > tolerance:
        found += (
            " Rounding and the integrator may change the components by"
            f" {format_up(noise, 2)} of the largest."
        )
        return report(None, found, **about)
    met = len(np.unique(test.tokens, axis=0)) < len(problem.start)
    if problem.expected.kind == "boolean" and met:
        found += " Tokens are equal in floats by then, and share their attention."
        return report(None, found, **about)
    if gap * HORIZONS[-1] < HORIZONS[0]:
        found += (
            f" The next eigenvalue is within {gap:.2g} of the leading one, too close"
            " for these horizons."
        )
        return report(None, found, **about)
    return _report_failure(test.accurate, found, **about)


def _report_failure(accurate: bool, found: str, **about: Any) -> Verdict:
    """Return a failure, or an open question if the integrator's error may be the cause."""
    doubt = (
        ""
        if accurate
        else " The integrator's error may be the cause: use a smaller `rtol` or `dt`."
    )
    return report(False if accurate else None, f"{found}{doubt}", **about)


def _check_hull(problem: Problem, dual: FloatArray | None) -> Verdict | None:
    """Return the verdict for a trajectory that leaves the initial hull of its tokens,
    None if it stays inside.
    """
    # Components along left eigenvectors of lambda > 0 obey y_i' = lambda sum_j P_ij
    # (y_j - y_i): no maximum grows
    trajectory = problem.trajectory
    reader = np.eye(problem.start.shape[1]) if dual is None else dual
    size = float(np.abs(problem.start @ reader).max()) or 1.0
    start = problem.start @ reader / size  # (n, k)
    normals = outer_normals(start)  # (m, k)
    supports = (start @ normals.T).max(axis=0)
    test = LimitTest(trajectory, "", eps=problem.eps)
    worst, k, token, noise = -np.inf, 0, 0, 0.0
    certain = False  # whether some token is outside beyond all errors
    for at in range(trajectory.reached):
        components, errors = test.components(problem, reader, at)
        excess = (components / size @ normals.T - supports).max(axis=1)
        allowed = HULL_TOL + np.linalg.norm(errors / size, axis=1)
        certain |= bool((excess > allowed).any())
        if excess.max() > worst:
            worst, k, token = float(excess.max()), at, int(excess.argmax())
            noise = float(allowed[token]) - HULL_TOL
    if worst <= HULL_TOL:
        return None
    found = (
        f"At {trajectory.label(k)} token {token} is outside the initial hull by"
        f" {format_up(worst, 2)} of the largest coordinate"
        f" {'' if dual is None else 'in the leading eigenspace '}(tolerance"
        f" {HULL_TOL:g})."
    )
    about: dict[str, Any] = {
        "margin": HULL_TOL - worst,
        "witness": {"time": float(trajectory.saved[k]), "token": token},
    }
    if not certain:
        found += (
            f" Rounding and the integrator may cause {format_up(noise, 2)}: use a"
            " smaller `rtol`, or float64."
        )
        return report(None, found, **about)
    return _report_failure(
        worst > ERROR_PER_RTOL * find_rtol(trajectory), found, **about
    )


def outer_normals(points: FloatArray) -> FloatArray:
    """Return unit normals (m, k) of half-spaces around the hull of points (n, k): of
    its facets if these are few.
    """
    n, k = points.shape
    if k == 1:
        return np.array([[1.0], [-1.0]])
    if n > k and k <= MAX_FACET_DIMENSION:
        try:
            return np.unique(scipy.spatial.ConvexHull(points).equations[:, :-1], axis=0)
        except scipy.spatial.QhullError:  # all points lie in a subspace
            pass
    centred = points - points.mean(
        axis=0
    )  # else principal axes, and directions from the mean to the farthest points
    lengths = np.linalg.norm(centred, axis=1)
    farthest = np.argsort(-lengths, kind="stable")[:MAX_DIRECTIONS]
    farthest = farthest[lengths[farthest] > 0]
    axes = np.linalg.eigh(centred.T @ centred)[1].T
    return np.concatenate([axes, -axes, centred[farthest] / lengths[farthest, None]])


@Statement(
    "Boolean limit",
    "For d = 1, V > 0 and QK > 0, rescaled tokens stay between the smallest and the"
    " largest one, and P tends to a Boolean matrix: all rows but at most one tend to"
    " the unit vector of the smallest or of the largest token.",
    f"{PAPER}, Theorem 2.1",
    **cover("boolean", "[[1.0]]", "d = 1, V > 0, QK > 0, tokens distinct", d=1),
)
def boolean(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the second largest distance of a row from the unit vectors of the extreme
    tokens.
    """
    problem = Problem.of(trajectory)
    if len(np.unique(problem.start)) < len(problem.start):
        return report_not_met("two tokens are equal")
    if len(problem.start) == 1:
        return Verdict(Outcome.NOTHING, "There is one token, which attends to itself.")
    return check_limit(problem, _boolean_distance, BOOLEAN_TOL, hull=True)


def _boolean_distance(test: LimitTest) -> tuple[float, str, object]:
    P, z = test.trajectory.attention(test.last), test.tokens[:, 0]
    off = 1 - np.maximum(P[:, z.argmin()], P[:, z.argmax()])
    order = np.argsort(off)
    return (
        float(off[order[-2]]),
        "The distance of the second farthest row from Boolean",
        {"token": int(order[-2])},
    )


@Statement(
    "polytope",
    "For V = I (or a positive multiple) and Q^T K symmetric positive definite, rescaled"
    " tokens stay in their initial hull, and each tends to a point of the limit's hull"
    " that follows itself: max_j ⟨B z_i, z_j - z_i⟩ = 0, with B = Q^T K.",
    f"{PAPER}, Theorem 3.1",
    **cover("polytope", "[[1, 0], [0, 1]]", "V = I, Q^T K symmetric positive definite"),
)
def polytope(trajectory: SmoothTrajectory) -> Verdict:
    """Measure max_ij ⟨B z_i, z_j - z_i⟩ / (|B| R^2), with R the largest norm."""
    problem = Problem.of(trajectory)
    return check_limit(problem, partial(_measure_gain, problem), GAIN_TOL, hull=True)


@Statement(
    "polytope times subspace",
    "Where the leading eigenvalue of V is positive and multiple with its whole"
    " eigenspace, and larger than the modulus of all others, and Q^T K is symmetric"
    " positive definite, the components in that eigenspace stay in their initial hull"
    " and approach points that follow themselves; the others are free.",
    f"{PAPER}, Theorem 5.2",
    **cover(
        "product",
        'hm.matrix("paper-product")',
        "leading eigenvalue positive, multiple, semisimple, larger than the modulus of"
        " all others; Q^T K symmetric positive definite",
        d=3,
    ),
)
def product(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the same as for the polytope for the components in the leading
    eigenspace.
    """
    problem = Problem.of(trajectory)
    return check_limit(
        problem,
        partial(_measure_gain, problem),
        GAIN_TOL,
        dual=problem.expected.dual,
        hull=True,
    )


def _measure_gain(problem: Problem, test: LimitTest) -> tuple[float, str, object]:
    B, expected = problem.B, problem.expected
    points = (
        test.tokens
        if expected.kind == "polytope"
        else test.components(problem, expected.dual, test.last)[0] @ expected.leading.T
    )
    points = points / (
        float(np.abs(points).max()) or 1.0
    )  # squares must neither overflow nor underflow
    points = points / (float(np.linalg.norm(points, axis=1).max()) or 1.0)
    products = points @ B @ points.T  # ⟨B^T z_i, z_j⟩: B is symmetric
    gains = (products - np.diag(products)[:, None]).max(axis=1) / float(
        np.linalg.norm(B, 2)
    )
    worst = int(gains.argmax())
    return (
        float(gains[worst]),
        "The most that a token would gain by following another",
        {"token": worst},
    )


@Statement(
    "hyperplanes",
    "Where the leading eigenvalue of V is simple, positive and larger than the modulus"
    " of all others, and ⟨Q phi, K phi⟩ > 0 for its eigenvector phi, the coordinates of"
    " z_i along phi stay between the first smallest and largest one, and tend to at"
    " most three values.",
    f"{PAPER}, Theorem 4.2",
    **cover(
        "hyperplanes", 'hm.matrix("paper-2d")', "leading eigenvalue simple and positive"
    ),
)
def hyperplanes(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the distance of coordinates from the nearest of at most three values."""
    problem = Problem.of(trajectory)
    dual = problem.expected.dual
    measure = partial(_measure_scatter, problem, dual)
    return check_limit(problem, measure, SCATTER_TOL, dual=dual, hull=True)


@Statement(
    "codimension k",
    "CONJECTURE: if, besides, k eigenvalues of V have a positive real part, the"
    " components of z in their k-dimensional eigenspace settle, and there are at most"
    " three of them: parallel subspaces of codimension k.",
    f"{PAPER}, section 4, open",
    conjecture=True,
    **cover(
        "hyperplanes", "[[2, 0], [0, 1]]", "several eigenvalues with positive real part"
    ),
)
def codimension(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the same as for the hyperplanes for all coordinates of eigenvalues with
    positive real part.
    """
    problem = Problem.of(trajectory)
    positive = problem.expected.eigenvalues.real[: problem.expected.positive]
    if len(positive) < 2:
        return Verdict(
            Outcome.NOTHING,
            "Only the leading eigenvalue has a positive real part: see the"
            " hyperplanes.",
        )
    slowest, threshold = float(positive[-1]) / problem.rate, positive[-1] / 2
    if slowest * HORIZONS[-1] < HORIZONS[0]:
        slow = f"The smallest positive real part is {slowest:.2g} of the leading one"
        return report(
            None, f"{slow}: rounding decides attention before that direction settles."
        )

    def is_positive(real: float, imaginary: float = 0.0) -> bool:
        return bool(real > threshold)

    # Left invariant vectors of these eigenvalues, from a real Schur form of V^T
    V = problem.rule.value_matrix(problem.start.shape[1])
    _, vectors, _ = scipy.linalg.schur(V.T, output="real", sort=is_positive)
    dual = vectors[:, : len(positive)]
    return check_limit(
        problem, partial(_measure_scatter, problem, dual), SCATTER_TOL, reader=dual
    )


def _measure_scatter(
    problem: Problem, dual: FloatArray, test: LimitTest
) -> tuple[float, str, object]:
    components, _ = test.components(problem, dual, test.last)
    scale = float(np.abs(components).max()) or 1.0
    coordinates = components / scale  # (n, k)
    labels = label_values(coordinates)
    values = np.stack(
        [coordinates[labels == c].mean(axis=0) for c in range(int(labels.max()) + 1)]
    )
    off = float(np.abs(coordinates - values[labels]).max()) / max(
        float(np.ptp(coordinates, axis=0).max()), 1.0
    )
    phrase = (
        f"The scatter around {len(values)} value{'s' if len(values) > 1 else ''},"
        " relative to their size,"
    )
    return off, phrase, {"values": (values * scale).round(6).tolist()}


def label_values(coordinates: FloatArray) -> IntArray:
    """Label the clusters of coordinates (n, k), at most three: the largest gaps
    separate them.
    """
    labels = label_clusters(
        coordinates, coordinates, np.ones(len(coordinates), bool), tol=0.05
    )
    if (
        labels.max() >= MAX_CLUSTERS
    ):  # keep the three with most tokens; the others join the nearest
        kept = np.argsort(-np.bincount(labels), kind="stable")[:MAX_CLUSTERS]
        centres = np.stack([coordinates[labels == c].mean(axis=0) for c in kept])
        labels = np.linalg.norm(coordinates[:, None] - centres, axis=-1).argmin(axis=1)
    return np.asarray(labels)


@Statement(
    "complex pair",
    "CONJECTURE: where the leading eigenvalues of V are a complex pair with positive"
    " real part, the components of z in their plane settle.",
    f"{PAPER}, open",
    conjecture=True,
    **cover("complex", "[[1, -1], [1, 1]]", "leading eigenvalues a complex pair"),
)
def complex_pair(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the last move of the components in the leading plane."""
    problem = Problem.of(trajectory)

    def measure(test: LimitTest) -> tuple[float, str, object]:
        saved, dual = test.trajectory.saved, problem.expected.dual
        back = (
            int(
                np.searchsorted(
                    saved, saved[test.last] - 3 / problem.rate, side="right"
                )
            )
            - 1
        )
        earlier = (
            test.trajectory.drawn[back] if back >= 0 else problem.start
        )  # z = x at time 0
        now, then = test.tokens @ dual, earlier @ dual
        moved = np.abs(now - then).max(axis=1) / (float(np.abs(now).max()) or 1.0)
        return (
            float(moved.max()),
            "The last move in the leading plane",
            {"token": int(moved.argmax())},
        )

    return check_limit(problem, measure, MOVE_TOL, reader=problem.expected.dual)


@Statement(
    "collapse",
    "For V = -I (or a negative multiple) and Q^T K symmetric positive definite, every"
    " token tends to 0.",
    f"{PAPER}, on V = -I",
    proof="proved in the paper; rate derived here",
    **cover("collapse", "[[-1, 0], [0, -1]]", "V = -I"),
)
def collapse(trajectory: SmoothTrajectory) -> Verdict:
    """Measure how fast 1/c grows, with c the largest eigenvalue of the covariance of
    B^{1/2} x, and the last mean.

    c falls as 1/(2t), too slowly to test it against 0; for small tokens it hardly falls
    at first, but 1/c always grows by 2t.
    """
    problem = Problem.of(trajectory)
    first = float(np.linalg.norm(problem.start, axis=1).max())
    if first == 0:
        return Verdict(Outcome.NOTHING, "All tokens are at 0.")
    root = np.real(scipy.linalg.sqrtm(problem.B))
    doubtful, noise = False, 0.0
    for test in problem.tests([2 * horizon for horizon in HORIZONS]):
        if test.problem:
            return report(None, test.problem)
        tokens, times, last = test.trajectory.array, test.trajectory.saved, test.last
        half = int(np.searchsorted(times, times[last] / 2, side="right")) - 1
        earlier, since = (
            (tokens[half], times[half]) if half >= 0 else (problem.start, 0.0)
        )
        middle, end = (
            _largest_variance(earlier @ root.T),
            _largest_variance(tokens[last] @ root.T),
        )
        mean = float(np.linalg.norm(tokens[last].mean(axis=0))) / first
        elapsed = problem.rate * float(times[last] - since)
        pace = (1 / end - 1 / middle) / (2 * elapsed) if end > 0 else np.inf
        if end > 0 and np.finfo(np.float64).eps / end > 0.1 * elapsed:
            return report(
                None, "The tokens are so small that floats cannot see how 1/c grows."
            )
        found = (
            f"1/c grew by {format_down(pace, 3)} of 2t since lambda t ="
            f" {problem.rate * since:.4g} (at least {MIN_PACE:g}), and the mean is"
            f" {format_up(mean, 2)} of the first norm, {test.where}."
        )
        if pace > MIN_PACE and mean < MAX_MEAN:
            return report(True, found, margin=min(pace, 1e300) - MIN_PACE)
        noise = (
            _inverse_error(problem, root, test, earlier, middle)
            + _inverse_error(problem, root, test, tokens[last], end)
        ) / (2 * elapsed)
        doubtful = not noise < abs(pace - MIN_PACE) and mean < MAX_MEAN
    if doubtful:
        found += f" Errors may change 1/c by {format_up(noise, 2)} of 2t."
        return report(None, found, margin=pace - MIN_PACE)
    return _report_failure(test.accurate, found, margin=pace - MIN_PACE)


def _inverse_error(
    problem: Problem, root: FloatArray, test: LimitTest, tokens: FloatArray, c: float
) -> float:
    """Bound the error of 1/c at a saved time: of rounding, and of the integrator.

    Tokens off by e change c by at most 2 e sqrt(c) + e^2.
    """
    stats, rtol = test.trajectory.stats, find_rtol(test.trajectory)
    if not np.isfinite(rtol):
        return 0.0  # fixed steps: a failure is not reported
    size = float(np.abs(tokens).max())
    relative = size * (test.eps + ERROR_PER_RTOL * rtol)
    absolute = ERROR_PER_RTOL * stats["atol"] * float(np.abs(problem.start).max())
    error = (relative + absolute) * float(np.linalg.norm(root))
    if c <= 0:
        return np.inf
    change = 2 * error * np.sqrt(c) + error**2
    return change / (c * (c - change)) if change < c else np.inf


def _largest_variance(tokens: FloatArray) -> float:
    """Return c; 0 if all tokens are equal up to rounding."""
    centred = tokens - tokens.mean(axis=0)
    c = float(np.linalg.norm(centred, 2)) ** 2 / len(tokens)
    return c if c > (1e-12 * float(np.abs(tokens).max())) ** 2 else 0.0


@Statement(
    "energy",
    "On the unit sphere E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩) never decreases,"
    " with softmax or without it.",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2312.10794, section 3",
    rule=Sphere,
    example='hm.configuration("sphere", n=8, d=3), hm.Sphere(beta=2), times=5',
    hypotheses="tokens on the sphere, no causal mask",
)
def energy(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the smallest growth of E between consecutive saved times, relative to E."""
    rule: Any = trajectory.rule
    if rule.causal:
        return report_not_met("attention is causal")
    if not rule.has_constant_beta:
        return report_not_met("beta depends on time")
    values = trajectory.energy[: trajectory.reached]
    if len(values) < 2:
        return Verdict(Outcome.NOTHING, "One saved time shows no growth.")
    if not np.isfinite(values).all():
        return report(
            None, "The energy leaves the range of floats; use a smaller beta."
        )
    growth = np.diff(values) / np.abs(values[1:])
    worst = int(growth.argmin())
    # An error of size rtol in a token changes E by a factor of about 1 + beta rtol.
    # With a loose rtol or long fixed steps E may fall although that of the flow does
    # not: this leaves the question open.
    sensitivity = 1 + float(rule.find_beta(0.0))
    rtol = max(find_rtol(trajectory), find_rounding(trajectory)[0])
    tolerance = (
        sensitivity * 10 * min(rtol, MAX_FAIL_RTOL) if np.isfinite(rtol) else 1e-12
    )
    holds = bool(growth[worst] >= -tolerance)
    answer = (
        None
        if not holds and growth[worst] >= -sensitivity * ERROR_PER_RTOL * rtol
        else holds
    )
    smallest, where = (
        format_down(growth[worst], 2),
        {"time": float(trajectory.saved[worst])},
    )
    reason = (
        f"The smallest relative growth between saved times is {smallest} (tolerance"
        f" {tolerance:.0e})."
    )
    return report(
        answer, reason, margin=float(growth[worst] + tolerance), witness=where
    )


SELF_ATTENTION = (
    boolean,
    polytope,
    hyperplanes,
    product,
    collapse,
    codimension,
    complex_pair,
)
