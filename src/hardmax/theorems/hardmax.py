"""Statements about `Hardmax`: F1 to F5 of arXiv 2407.01602, Theorems 1 to 4 and, with a
causal mask, C0 to C2.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hardmax._exact import (
    apply,
    as_floats,
    dot,
    format_down,
    format_up,
    over_one_denominator,
)
from hardmax._types import FloatArray, IntArray, Row
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Proof, Record, Run
from hardmax.theorems.verdict import (
    Outcome,
    Statement,
    Verdict,
    find_rounding,
    report,
    report_not_met,
)
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.limit import Limit, quick_radius

PAPER = "arXiv 2407.01602"
PROJECT, CAUSAL_PAGE = "hardmax, docs/theorems.md", "hardmax, docs/causal-limits.md"
EXAMPLE = 'hm.configuration("{}"), hm.Hardmax(0.5), layers=10'
CAUSAL_EXAMPLE = 'hm.configuration("triangle"), hm.Hardmax(0.5, causal=True), layers=10'
# smaller leads are computed exactly; weights must reproduce the limits this well
CLOSE_TOL = 1e-9
MAX_LAYERS = (
    1000  # in which Theorem 1 must decide every token if every limit is a leader
)
TINY = 1e-300  # stands for a number of which only the sign is known

WORDS = {"causal": "causal mask", "distinct": "tokens distinct and nonzero"}


def require(
    trajectory: HardmaxTrajectory,
    *,
    causal: bool = False,
    any_A: bool = False,
    distinct: bool = False,
    limited: bool = False,
) -> Verdict | None:
    """Return the verdict if hypotheses are not met; `limited` needs a certified limit."""
    record, rule, missing = trajectory.records[0], trajectory.rule, list[str]()
    classes = record.classes
    if not rule.normalize:
        missing.append("tokens are not normalised")
    if rule.causal != causal:
        missing.append(
            "attention is causal" if rule.causal else "attention is not causal"
        )
    if not (any_A or rule.positive_definite):
        missing.append("A is not symmetric positive definite")
    zero = np.flatnonzero(
        ~(classes.rows != 0).any(axis=1)
    )  # the exact input: floats may round a token to zero
    if distinct and len(zero):
        missing.append(f"token {_token(trajectory, int(zero[0]))} is zero")
    if distinct and not classes.distinct:
        label = int(np.flatnonzero(classes.counts > 1)[0])
        i, j = record.real[np.flatnonzero(classes.labels == label)[:2]]
        missing.append(f"tokens {i} and {j} are equal")
    if missing:
        return report_not_met(*missing)
    return (
        None
        if not limited or trajectory.limit().certified
        else report(None, trajectory.limit().status)
    )


def _statements(example: str, **hypotheses: Any) -> "partial[Statement]":
    words = ["any A" if hypotheses.get("any_A") else "A symmetric positive definite"]
    words += [text for name, text in WORDS.items() if hypotheses.get(name)]
    unmet = partial(require, **hypotheses)
    return partial(
        Statement,
        rule=Hardmax,
        require=unmet,
        example=example,
        hypotheses=", ".join(words),
    )


paper_statement = _statements(EXAMPLE.format("square"), distinct=True)
limit_statement = _statements(EXAMPLE.format("square"), distinct=True, limited=True)
model_statement = _statements(EXAMPLE.format("edge-clusters"), any_A=True)
causal_statement = _statements(CAUSAL_EXAMPLE, causal=True, any_A=True)
causal_limit_statement = _statements(CAUSAL_EXAMPLE, causal=True, limited=True)


@paper_statement(
    "F1 hull",
    "The convex hull of the tokens of a layer lies inside that of the layer before.",
    f"{PAPER}, section 3.3",
)
def hull(trajectory: HardmaxTrajectory) -> Verdict:
    """Show each new token as the convex combination (1 - b) z_i + b mean(C_i) of old
    ones, up to rounding.
    """
    if trajectory.layers == 0:
        return report(True, "No layer was run.")
    (worst, witness), allowed = _largest_residual(trajectory), _rounding(trajectory)
    up_to = f"up to {format_up(worst, 2)} of the largest one (rounding: {allowed:.2g})"
    reason = f"Every token is a convex combination of tokens a layer before, {up_to}."
    return report(worst <= allowed, reason, margin=allowed - worst, witness=witness)


@paper_statement(
    "F2 norm",
    "|z_i|_A never decreases, and grows strictly unless the token stands still: unless"
    " z_i is the mean of C_i.",
    f"{PAPER}, section 3; a leader stands still, and so does a token in the middle of"
    " those it follows",
)
def norm(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare squared norms of consecutive layers, in exact arithmetic where floats
    cannot decide.
    """
    record, A = trajectory.records[0], trajectory.rule.metric.rows
    exact = record.exact
    Z, AZ, uncertain = _images(trajectory)
    growth = np.diff((AZ * Z).sum(axis=-1), axis=0)  # (layers, m)
    for k in range(trajectory.layers):
        sets = record.sets(k)
        stays = (sets.sizes == 1) & (sets.targets == np.arange(len(sets)))
        for i in np.flatnonzero(~stays & (np.abs(growth[k]) <= uncertain)).tolist():
            (old,), (new,) = exact.at(k, [i]), exact.at(k + 1, [i])
            scale = exact.denominator(k + 1) // exact.denominator(k)
            change = dot(apply(A, new), new) - dot(apply(A, old), old) * scale**2
            moves = new != tuple(scale * x for x in old)
            growth[k, i] = TINY * ((change > 0) - (change < 0)) if moves else np.inf
        growth[k, stays] = np.inf  # F4 tests that leaders stand still
    smallest = float(growth.min(initial=np.inf))
    if smallest == np.inf:
        return report(True, "No token moves.")
    k, i = divmod(int(growth.argmin()), growth.shape[1])
    reason = (
        "The smallest growth of a squared norm, relative to the largest token, is"
        f" {format_down(smallest, 2)}."
    )
    return report(
        smallest > 0,
        reason,
        margin=smallest,
        witness={"layer": k, "token": _token(trajectory, i)},
    )


@paper_statement(
    "F3 half-space",
    "Tokens that attract z_i lie in the closed half-space {z : <A z_i, z - z_i> >= 0}.",
    f"{PAPER}, Figure 1",
)
def half_space(trajectory: HardmaxTrajectory) -> Verdict:
    """Compute <A z_i, z_j - z_i> for every j in C_i at every layer; exactly where it is
    too close to 0 for floats.
    """
    Z, AZ, uncertain = _images(trajectory)
    smallest, witness = np.inf, None
    record = trajectory.records[0]
    for k in range(trajectory.layers + 1):
        sets = record.sets(k)
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        ahead = (AZ[k, owner] * (Z[k, sets.members] - Z[k, owner])).sum(axis=1)
        ahead[owner == sets.members] = (
            np.inf
        )  # z_i itself lies on the boundary, whatever A is
        for p in np.flatnonzero(np.abs(ahead) <= uncertain):
            here, there = record.exact.at(k, [int(owner[p]), int(sets.members[p])])
            Az = apply(trajectory.rule.metric.rows, here)
            product = dot(Az, there) - dot(Az, here)
            ahead[p] = TINY * ((product > 0) - (product < 0))
        least = int(ahead.argmin())
        if ahead[least] < smallest:
            smallest = float(ahead[least])
            i, j = (
                _token(trajectory, int(side[least])) for side in (owner, sets.members)
            )
            witness = {"layer": k, "token": i, "attracted by": j}
    if witness is None:
        return report(True, "Every token leads, so none attracts another.")
    smallest_of = (
        "The smallest <A z_i, z_j - z_i> over j in C_i, relative to the largest token,"
    )
    return report(
        smallest >= 0,
        f"{smallest_of} is {format_down(smallest, 2)}.",
        margin=smallest,
        witness=witness,
    )


@paper_statement(
    "F4 leaders",
    "A token with C_i = {i} at some layer never moves again, and at least one token"
    " leads.",
    f"{PAPER}, Lemma 5.1",
)
def leaders(trajectory: HardmaxTrajectory) -> Verdict:
    """Measure how far each leader moves after it emerged, and test whether C_i = {i} at
    every later layer.
    """
    Z, emerged = _unit_tokens(trajectory), trajectory.records[0].emerged
    found = np.flatnonzero(emerged >= 0)
    if not len(found):
        return report(False, "No token leads.")
    moved = [float(np.abs(Z[emerged[i] :, i] - Z[emerged[i], i]).max()) for i in found]
    sets = trajectory.records[0].independent_sets
    for i in found:
        lost = [
            k
            for k in range(emerged[i], trajectory.layers + 1)
            if sets[k][i].tolist() != [i]
        ]
        if lost:
            where = {"layer": lost[0], "token": _token(trajectory, int(i))}
            return report(
                False,
                f"Token {where['token']} stops leading at layer {lost[0]}.",
                witness=where,
            )
    worst, lead = max(moved), f"{len(found)} of {len(emerged)} tokens lead"
    reason = (
        f"{lead}; after that they move by {format_up(worst, 2)} of the largest token."
    )
    witness = {"token": _token(trajectory, int(found[moved.index(worst)]))}
    return report(worst == 0, reason, margin=-worst if worst else 0.0, witness=witness)


@limit_statement(
    "F5 limit",
    "Every token converges to a point of a finite set S on the boundary of a polytope"
    " K; the vertices of K are the leaders, and every point of S is a leader or a"
    " convex combination of leaders.",
    f"{PAPER}, Theorem 1.1",
)
def limit(trajectory: HardmaxTrajectory) -> Verdict:
    """Certify the limit, then test that leaders are exposed, that S is on the boundary,
    and that weights are convex.
    """
    found = trajectory.limit()
    leads, A = len(found.leaders), trajectory.rule.metric.rows
    rows, _ = over_one_denominator(found.exact_points)  # leaders first
    exposed = _smallest_lead(rows[:leads], rows[:leads], A, strict=True)
    supported = _smallest_lead(rows[leads:], rows[:leads], A, strict=False)
    convex, residual = _convex_weights(found)
    holds = exposed > 0 and supported >= 0 and convex
    reason = (
        f"{len(rows)} limit points, {leads} vertices; each leader is ahead of the"
        f" others by at least {format_down(exposed, 2)} along A z (relative), and"
        f" convex weights reproduce the limits to {format_up(residual, 2)}."
    )
    return report(
        bool(holds),
        reason,
        margin=min(exposed, supported),
        witness={"layer": found.layer},
    )


def _convex_weights(found: Limit) -> tuple[bool, float]:
    """Return whether weights are convex and reproduce the limits, and by how much they
    miss them, relatively.
    """
    weights = found.sparse_weights
    limits = found.points[found.clusters]
    size = float(np.abs(limits).max()) or 1.0
    leaders = found.points[: len(found.leaders)]
    residual = float(np.abs(weights @ (leaders / size) - limits / size).max())
    # Subnormals are a coarse grid.
    allowed = CLOSE_TOL + 4 * float(np.finfo(np.float64).smallest_subnormal) / size
    sums = np.abs(weights.sum(axis=1) - 1).max()
    is_convex = weights.data.min() >= 0 and sums < CLOSE_TOL
    return bool(is_convex and residual < allowed), residual


def _smallest_lead(
    points: list[Row], vertices: list[Row], A: list[Row] | None, *, strict: bool
) -> float:
    """Return the smallest <A s, s - v> / <A s, s> over points s and vertices v (not s
    if `strict`), exact in sign.
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
        leads = (
            level - V @ as_floats([direction], length)[0]
        )  # (vertices,), in units of length * size
        close = np.flatnonzero(
            leads < CLOSE_TOL * (level + len(s))
        )  # to be compared exactly
        leads /= level or 1.0
        for v in close:
            lead = own - dot(direction, vertices[v])
            leads[v] = lead / own if abs(lead) < own else np.sign(float(lead > 0) - 0.5)
            if lead and not leads[v]:
                leads[v] = TINY if lead > 0 else -TINY
        if strict:
            leads[p] = np.inf
        smallest = min(smallest, float(leads.min()))
    return smallest


@model_statement(
    "Theorem 1",
    "If C_i = {l} and C_l = {l} at one layer, then C_i = {l} at every later layer, and"
    " the distance from z_i to z_l shrinks by exactly 1/(1 + alpha) a layer. For"
    " any A.",
    f"{PROJECT}, Theorem 1",
)
def theorem1(trajectory: HardmaxTrajectory) -> Verdict:
    """Test every later layer of each token that follows one leader."""
    return _check_decided(
        trajectory, Proof.ONE_LEADER, "No token follows a single leader."
    )


@limit_statement(
    "Theorem 2",
    "Theorem 1 decides every token at a finite layer if and only if every limit is a"
    " leader.",
    f"{PROJECT}, Theorem 2",
)
def theorem2(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare the limits with the tokens that Theorem 1 decides."""
    found = trajectory.limit()
    all_leaders = bool((found.clusters < len(found.leaders)).all())
    layers = MAX_LAYERS if all_leaders else found.layer
    run = _run_without_closed_forms(found.record, layers)
    left = int((run.proof != Proof.ONE_LEADER).sum())
    if all_leaders and left and run.layer == MAX_LAYERS:
        return report(
            None,
            f"Every limit is a leader; Theorem 1 has not decided all in {MAX_LAYERS}"
            " layers.",
        )
    reason = (
        "Every limit is a leader, and Theorem 1 has decided every token at layer"
        f" {run.layer}."
    )
    if not all_leaders:
        others = len(found.points) - len(found.leaders)
        reason = (
            f"{others} limit(s) are no leader, and Theorem 1 leaves {left} token(s)"
            " open."
        )
    return report((left == 0) == all_leaders, reason, witness={"layer": run.layer})


@limit_statement(
    "Theorem 3",
    "For almost every input every limit is a leader.",
    f"{PROJECT}, Theorem 3",
)
def theorem3(trajectory: HardmaxTrajectory) -> Verdict:
    """Look for a tie: an input whose limits are not all leaders must have one."""
    found = trajectory.limit()
    others = np.flatnonzero(found.clusters >= len(found.leaders))
    if not len(others):
        return report(
            True,
            "Every limit is a leader here, as it is almost always.",
            margin=quick_radius(found),
        )
    if any(len(layer.sets.tied) for layer in trajectory.records[0].layers):
        return report_not_met(
            f"token {others[0]} ends between leaders, by a tie: one of the exceptional"
            " inputs"
        )
    if trajectory.layers < found.layer:
        return report(
            None,
            f"Token {others[0]} ends at no leader; its tie comes after the last layer"
            " kept.",
        )
    return report(
        False, f"Token {others[0]} ends at no leader although no tie was met."
    )


@model_statement(
    "Theorem 4",
    "If C_i holds leaders alone and a token at their centroid c_i would still see all"
    " of them, then C_i is final and z_i tends to c_i. For any A.",
    f"{PROJECT}, Theorem 4",
)
def theorem4(trajectory: HardmaxTrajectory) -> Verdict:
    """Test every later layer of each token that follows several leaders at once."""
    none = (
        "No token follows several leaders to which it would still attend at their"
        " centroid."
    )
    return _check_decided(trajectory, Proof.LEADERS, none)


@causal_limit_statement(
    "C0 limit",
    "With a causal mask every token converges, and its limit is a convex combination of"
    " leaders.",
    f"{CAUSAL_PAGE}, C0",
)
def c0(trajectory: HardmaxTrajectory) -> Verdict:
    """Certify the limit, then test that convex weights on the leaders reproduce it."""
    found = trajectory.limit()
    convex, residual = _convex_weights(found)
    points = f"{len(found.points)} limit points of {len(found.leaders)} leaders"
    reason = (
        f"{points}; convex weights reproduce the limits to {format_up(residual, 2)}."
    )
    return report(
        convex, reason, margin=CLOSE_TOL - residual, witness={"layer": found.layer}
    )


@causal_statement(
    "C1",
    "With a causal mask: if C_i holds leaders alone, and a token at their centroid c_i"
    " would still choose all of them among the tokens that i sees, then C_i is final"
    " and z_i tends to c_i. For any A.",
    f"{CAUSAL_PAGE}, C1",
)
def c1(trajectory: HardmaxTrajectory) -> Verdict:
    """Test every later layer of each token that C1 decides."""
    return _check_decided(trajectory, Proof.SEEN_LEADERS, "C1 decides no token.")


@causal_limit_statement(
    "C2",
    "With a causal mask C1 decides every token of almost every input at a finite"
    " layer.",
    f"{CAUSAL_PAGE}, C2",
)
def c2(trajectory: HardmaxTrajectory) -> Verdict:
    """Look for a tie, or for two leaders with equal products: an input that C1 does not
    decide must have one.
    """
    found = trajectory.limit()
    if found.proofs.keys() == {"C1"}:
        reason = (
            f"C1 decides every token by layer {found.layer}, as it does almost always."
        )
        return report(True, reason, margin=quick_radius(found))
    if any(len(layer.sets.tied) for layer in trajectory.records[0].layers):
        return report_not_met("tokens are tied: one of the exceptional inputs")
    rows, _ = over_one_denominator(found.exact_points[: len(found.leaders)])
    A = trajectory.rule.metric.rows
    for i, row in enumerate(rows):
        for j, other in enumerate(rows):
            if i != j and dot(apply(A, row), row) == dot(apply(A, row), other):
                pair = f"{found.leaders[i]} and {found.leaders[j]}"
                return report_not_met(
                    f"leaders {pair} have equal products: one of the exceptional inputs"
                )
    return report(False, "C1 does not decide all tokens, although no tie was met.")


def _check_decided(trajectory: HardmaxTrajectory, proof: Proof, none: str) -> Verdict:
    """Compare the layers after a decision with sets that were found without using the
    theorem.
    """
    record = trajectory.records[0]
    searched = trajectory.records[0].independent_sets
    rows = np.flatnonzero(record.proof == proof)
    if not len(rows):
        return Verdict(Outcome.NOTHING, none)
    for since in np.unique(record.settled[rows]).tolist():
        some = rows[record.settled[rows] == since]
        decided = searched[since].take(some)
        for k in range(since, trajectory.layers + 1):
            for sets in (
                searched[k].take(some),
                record.sets(k).take(some),
            ):  # searched, and recorded
                if sets != decided:
                    changed = next(
                        r
                        for r in range(len(some))
                        if not np.array_equal(sets[r], decided[r])
                    )
                    where = {
                        "layer": k,
                        "token": _token(trajectory, int(some[changed])),
                    }
                    return report(
                        False,
                        f"C_i of token {where['token']} changes at layer {k}.",
                        witness=where,
                    )
    # z_i^{k+1} - c = (z_i^k - c)/(1 + alpha), c the centroid of C_i, after the
    # decision: the layer with that C_i
    since = np.where(record.proof == proof, record.settled, trajectory.layers)
    (worst, where), allowed = (
        _largest_residual(trajectory, since),
        _rounding(trajectory),
    )
    reason = (
        f"{len(rows)} tokens, sets computed again at every layer and constant;"
        f" distances shrink as stated up to {format_up(worst, 2)} of the largest token"
        f" (rounding: {allowed:.2g})."
    )
    return report(worst <= allowed, reason, margin=allowed - worst, witness=where)


def _run_without_closed_forms(record: Record, layers: int) -> Run:
    """Return a run in which only single theorems decide tokens, until they have decided
    all, or `layers`; layers that are known are not searched again.
    """
    closed_form = record.proof > Proof.SEEN_LEADERS
    known = replace(
        record,
        settled=np.where(closed_form, -1, record.settled),
        proof=np.where(closed_form, Proof.NONE, record.proof),
        limits={},
    )
    tokens = record.classes.rows[record.classes.labels]
    run = Run(record.rule, tokens, known=known)
    run.choose()
    while run.layer < layers and not run.decided.all():
        run.advance()
        run.choose()
    return run


def _rounding(trajectory: HardmaxTrajectory) -> float:
    """Bound the rounding error of a coordinate after one layer, relative to the largest
    one.
    """
    layers = trajectory.records[0].layers
    members = max(int(layer.sets.sizes.max(initial=1)) for layer in layers)
    eps, subnormal = find_rounding(trajectory)
    coarse = subnormal / _largest(trajectory)  # the grid of the dtype near zero
    return (16 + 4 * members) * eps + 4 * coarse


def _largest(trajectory: HardmaxTrajectory) -> float:
    return float(np.abs(trajectory.array[:, trajectory.mask]).max()) or 1.0


def _unit_tokens(trajectory: HardmaxTrajectory) -> FloatArray:
    """Return distinct tokens at every layer, divided by the largest coordinate: (layers
    + 1, m, d).
    """
    record = trajectory.records[0]
    return trajectory.array[:, record.real[record.classes.first]].astype(
        np.float64
    ) / _largest(trajectory)


def _images(trajectory: HardmaxTrajectory) -> tuple[FloatArray, FloatArray, float]:
    """Return unit tokens z, A z with A scaled to at most 1, and an error bound of <A z,
    z'>.
    """
    A, Z = trajectory.rule.metric.A, _unit_tokens(trajectory)
    d = Z.shape[-1]
    size = d if A is None else float(np.abs(A).sum())
    return Z, trajectory.rule.images(Z), 4 * d * size * _rounding(trajectory)


def _largest_residual(
    trajectory: HardmaxTrajectory, since: IntArray | int = 0
) -> tuple[float, dict[str, int]]:
    """Return the largest relative distance of a token, from layer `since` on, from (1 -
    b) z_i + b mean(C_i).
    """
    Z, record = _unit_tokens(trajectory), trajectory.records[0]
    residuals = np.empty((trajectory.layers, len(record.classes)))
    for k in range(trajectory.layers):
        alpha = trajectory.rule.step(k)
        b = float(alpha / (1 + alpha))
        expected = (1 - b) * Z[k] + b * record.sets(k).mean(
            Z[k], record.classes.counts
        )  # (m, d)
        residuals[k] = np.where(
            k >= since, np.abs(Z[k + 1] - expected).max(axis=1), -1.0
        )
    if residuals.max(initial=-1.0) < 0:
        return 0.0, {}
    k, i = divmod(int(residuals.argmax()), residuals.shape[1])
    return float(residuals[k, i]), {"layer": k, "token": _token(trajectory, i)}


def _token(trajectory: HardmaxTrajectory, i: int) -> int:
    record = trajectory.records[0]
    return int(record.real[record.classes.first[i]])


STATEMENTS = (
    hull,
    norm,
    half_space,
    leaders,
    limit,
    theorem1,
    theorem2,
    theorem3,
    theorem4,
)
CAUSAL = (c0, c1, c2)
