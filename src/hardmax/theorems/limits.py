"""F5 and Theorems 1 to 4: what the limit is, and by which theorem each token is decided.

Theorems 1 and 4 are tested against sets that were found without using either.
"""

from weakref import WeakKeyDictionary

import numpy as np

from hardmax._exact import apply, as_floats, dot, format_down, format_up, over_one_denominator
from hardmax._types import Row
from hardmax.exact.run import Proof, Run
from hardmax.limit import Limit, quick_radius
from hardmax.limit import limit as find_limit
from hardmax.theorems import base
from hardmax.theorems.base import PAPER, PROJECT, Statement, Verdict, given, not_met, nothing, verdict
from hardmax.trajectories.hardmax import HardmaxTrajectory

CLOSE = 1e-9  # leads below this are computed exactly; weights must reproduce the limits this well
PATIENCE = 1000  # layers within which Theorem 1 must have decided what the limit says it will

_limits: "WeakKeyDictionary[HardmaxTrajectory, Limit]" = WeakKeyDictionary()


def limit_of(trajectory: HardmaxTrajectory) -> Limit:
    """The limit of the input of a trajectory; found once, and kept for every check of it.

    Parameters
    ----------
    trajectory : HardmaxTrajectory
        Of one cloud.

    Returns
    -------
    Limit

    Raises
    ------
    ParameterError
        If the rule of the trajectory has no limit: without normalisation, or causal.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=3)
    >>> hm.theorems.limit_of(trajectory).certified
    True
    """
    if trajectory not in _limits:
        classes = trajectory.token_sets[0].classes
        _limits[trajectory] = find_limit(classes.rows[classes.labels], trajectory.rule)
    return _limits[trajectory]


@Statement(
    "F5 limit",
    "Every token converges to a point of a finite set S on the boundary of a polytope K; the vertices of K are the "
    "leaders, and every point of S is a leader or a convex combination of leaders.",
    f"{PAPER}, Theorem 1.1",
)
@given(base.missing_hypotheses)
def limit(trajectory: HardmaxTrajectory) -> Verdict:
    """Certify the limit, then test that leaders are exposed, that S is on the boundary, and that weights are convex.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.limit(trajectory).outcome.value
    'holds'
    """
    found = limit_of(trajectory)
    if not found.certified:
        return verdict(None, found.status)
    leads = len(found.leaders)
    rows, _ = over_one_denominator(found.exact_points)  # leaders first
    exposed = _smallest_lead(rows[:leads], rows[:leads], trajectory.rule.metric.rows, strict=True)
    supported = _smallest_lead(rows[leads:], rows[:leads], trajectory.rule.metric.rows, strict=False)
    weights = found.sparse_weights
    size = float(np.abs(found.tokens).max()) or 1.0
    residual = float(np.abs(weights @ (found.points[: len(found.leaders)] / size) - found.tokens / size).max())
    allowed = CLOSE + 4 * float(np.finfo(np.float64).smallest_subnormal) / size  # floats near zero lie on a coarse grid
    convex = weights.data.min() >= 0 and np.abs(weights.sum(axis=1) - 1).max() < CLOSE and residual < allowed
    holds = exposed > 0 and supported >= 0 and convex
    reason = (
        f"{len(rows)} limit points, {leads} vertices; each leader is ahead of the others by at least "
        f"{format_down(exposed, 2)} along A z (relative), and convex weights reproduce the limits to "
        f"{format_up(residual, 2)}."
    )
    return verdict(bool(holds), reason, margin=min(exposed, supported), witness={"layer": found.layer})


def _smallest_lead(points: list[Row], vertices: list[Row], A: list[Row] | None, *, strict: bool) -> float:
    """Smallest <A s, s - v> / <A s, s> over points s and vertices v, s itself left out if `strict`; exact in sign.

    Floats show which vertices come close; only those are compared exactly.
    """
    size = max((abs(x) for row in vertices for x in row), default=1)
    V = as_floats(vertices, size)
    smallest = np.inf
    for p, s in enumerate(points):
        direction = apply(A, s)
        own = dot(direction, s)
        if own <= 0:
            return -np.inf
        length = max(map(abs, direction))
        level = own / (length * size)
        leads = level - V @ as_floats([direction], length)[0]  # (vertices,), in units of length * size
        close = np.flatnonzero(leads < CLOSE * (level + len(s)))
        leads /= level or 1.0
        for v in close:
            lead = own - dot(direction, vertices[v])
            leads[v] = lead / own if abs(lead) < own else np.sign(float(lead > 0) - 0.5)
            if lead and not leads[v]:
                leads[v] = 1e-300 if lead > 0 else -1e-300
        if strict:
            leads[p] = np.inf
        smallest = min(smallest, float(leads.min()))
    return smallest


@Statement(
    "Theorem 1",
    "If C_i = {l} and C_l = {l} at one layer, then C_i = {l} at every later layer, and the distance from z_i to z_l "
    "shrinks by exactly 1/(1 + alpha) a layer. For any A.",
    f"{PROJECT}, Theorem 1",
)
@given(base.computed_otherwise)
def theorem1(trajectory: HardmaxTrajectory) -> Verdict:
    """Follow each token that follows one leader.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.theorem1(trajectory).outcome.value
    'holds'
    """
    return _check_decided(trajectory, Proof.THEOREM_1, "No token follows a single leader.")


@Statement(
    "Theorem 2",
    "Theorem 1 decides every token at a finite layer if and only if every limit is a leader.",
    f"{PROJECT}, Theorem 2",
)
@given(base.missing_hypotheses)
def theorem2(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare where the limit says tokens end with which tokens Theorem 1 decides.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.theorem2(trajectory).outcome.value
    'holds'
    """
    found = limit_of(trajectory)
    if not found.certified:
        return verdict(None, found.status)
    all_leaders = bool((found.clusters < len(found.leaders)).all())
    run = Run(trajectory.rule, trajectory.token_sets[0].classes.rows)
    run.choose()
    while run.layer < (PATIENCE if all_leaders else found.layer) and not run.decided.all():
        run.advance()
        run.choose()
    by_theorem_1 = bool((run.proof == Proof.THEOREM_1).all())
    if all_leaders and not by_theorem_1 and run.layer == PATIENCE:
        return verdict(None, f"Every limit is a leader; Theorem 1 has not decided all in {PATIENCE} layers.")
    reason = (
        f"Every limit is a leader, and Theorem 1 has decided every token at layer {run.layer}."
        if all_leaders
        else f"{len(found.points) - len(found.leaders)} limit(s) are no leader, and Theorem 1 leaves "
        f"{int((run.proof != Proof.THEOREM_1).sum())} token(s) open."
    )
    return verdict(by_theorem_1 == all_leaders, reason, witness={"layer": run.layer})


@Statement("Theorem 3", "For almost every input every limit is a leader.", f"{PROJECT}, Theorem 3")
@given(base.missing_hypotheses)
def theorem3(trajectory: HardmaxTrajectory) -> Verdict:
    """Look for a tie: an input whose limits are not all leaders must have one.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("square"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.theorem3(trajectory).outcome.value
    'holds'
    """
    found = limit_of(trajectory)
    if not found.certified:
        return verdict(None, found.status)
    others = np.flatnonzero(found.clusters >= len(found.leaders))
    if not len(others):
        return verdict(True, "Every limit is a leader here, as it is almost always.", margin=quick_radius(found))
    tied = any(len(sets.tied) for sets in trajectory.token_sets[0].sets)
    if tied:
        return not_met(f"token {others[0]} ends between leaders, by a tie: one of the exceptional inputs")
    if trajectory.layers < found.layer:
        return verdict(None, f"Token {others[0]} ends at no leader; its tie comes after the last layer kept.")
    return verdict(False, f"Token {others[0]} ends at no leader although no tie was met.")


@Statement(
    "Theorem 4",
    "If C_i holds leaders alone and a token at their centroid c_i would still see all of them, then C_i is final and "
    "z_i tends to c_i. For any A.",
    f"{PROJECT}, Theorem 4",
)
@given(base.computed_otherwise)
def theorem4(trajectory: HardmaxTrajectory) -> Verdict:
    """Follow each token that follows several leaders at once.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("edge-clusters"), hm.Hardmax(0.5), layers=10)
    >>> hm.theorems.theorem4(trajectory).outcome.value
    'holds'
    """
    none = "No token follows several leaders that it still sees from their centroid."
    return _check_decided(trajectory, Proof.THEOREM_4, none)


def _check_decided(trajectory: HardmaxTrajectory, proof: Proof, none: str) -> Verdict:
    seen, run = base.evidence(trajectory)
    rows = np.flatnonzero(run.proof == proof)
    if not len(rows):
        return nothing(none)
    for since in np.unique(run.settled[rows]).tolist():
        some = rows[run.settled[rows] == since]
        decided = seen[since].take(some)
        for k in range(since, trajectory.layers + 1):
            for sets in (
                seen[k].take(some),
                trajectory.token_sets[0].sets[k].take(some),
            ):  # again, and recorded
                if sets != decided:
                    changed = next(r for r in range(len(some)) if not np.array_equal(sets[r], decided[r]))
                    where = {"layer": k, "token": base.token_of(trajectory, int(some[changed]))}
                    return verdict(False, f"C_i of token {where['token']} changes at layer {k}.", witness=where)
    # z_i^{k+1} - c = (z_i^k - c)/(1 + alpha), c the centroid of C_i, after the decision: the layer with that C_i
    since = np.where(run.proof == proof, run.settled, trajectory.layers)
    after = np.arange(trajectory.layers)[:, None] >= since  # (layers, m)
    worst, where = base.largest_at(trajectory, np.where(after, base.misses(trajectory), -1.0))
    allowed = base.rounding(trajectory)
    reason = (
        f"{len(rows)} tokens, sets asked again at every layer and constant; distances shrink as claimed up to "
        f"{format_up(worst, 2)} of the largest token (rounding: {allowed:.2g})."
    )
    return verdict(worst <= allowed, reason, margin=allowed - worst, witness=where)
