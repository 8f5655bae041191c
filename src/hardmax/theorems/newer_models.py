"""Statements about `FrankWolfe` (arXiv 2508.09628) and causal spheres (2411.04990)."""

from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._arrays import unit_rows
from hardmax._exact import format_up, has_positive_pivots, to_fractions
from hardmax._types import FloatArray
from hardmax.polytope import is_in_hull
from hardmax.rules.frank_wolfe import OPEN_LOOP, FrankWolfe
from hardmax.rules.sphere import Sphere
from hardmax.sets import Classes
from hardmax.sphere_clusters import renyi_centres
from hardmax.theorems.self_attention import ERROR_PER_RTOL, find_rtol
from hardmax.theorems.verdict import (
    Outcome,
    Statement,
    Verdict,
    find_rounding,
    report,
    report_not_met,
)
from hardmax.trajectories.smooth import SmoothTrajectory

FRANK_WOLFE_PAPER = "arXiv 2508.09628, as transcribed in a public Lean 4 development"
EXAMPLE = "[[1, 1], [1, -1], [-1, 0], [0.5, 0.25]], hm.FrankWolfe(steps=0.5), layers=10"
NEGATIVE = (
    "[[1, 1], [-1, -1], [2, -1], [-2, 1]], hm.FrankWolfe([[-1, 0], [0, -2]]), layers=20"
)
RENYI_PAPER = "arXiv 2411.04990, read in excerpt"
RENYI_EXAMPLE = (
    'hm.configuration("sphere", n=40, d=2), hm.Sphere(100, causal=True), times=100'
)
SEPARATION = 2.0  # c: centres are separated by c beta^{-1/2}


def require_negative(trajectory: SmoothTrajectory) -> Verdict | None:
    """Return the verdict unless B is negative definite with steps 2/(t+2)."""
    rule: Any = trajectory.rule
    B = None if rule.B is None else to_fractions(np.asarray(rule.B))
    if B is None or (B != B.T).any() or not has_positive_pivots(-B):
        return report_not_met("B is not symmetric negative definite")
    return (
        None
        if rule.steps == OPEN_LOOP
        else report_not_met(f"the steps are not {OPEN_LOOP}")
    )


def require_causal_sphere(trajectory: SmoothTrajectory) -> Verdict | None:
    """Return the verdict unless attention is causal and normalised, with beta above 0."""
    rule: Any = trajectory.rule
    is_causal_sphere = (
        isinstance(rule, Sphere)
        and rule.causal
        and rule.normalized
        and rule.has_constant_beta
    )
    if not is_causal_sphere or float(rule.beta) == 0:
        return report_not_met(
            "the rule is not Sphere(beta, causal=True) with a constant beta > 0"
        )
    return None


frank_wolfe_statement = partial(Statement, rule=FrankWolfe, example=EXAMPLE)
negative_statement = partial(
    Statement, rule=FrankWolfe, require=require_negative, example=NEGATIVE
)
renyi_statement = partial(
    Statement, require=require_causal_sphere, example=RENYI_EXAMPLE
)


@frank_wolfe_statement(
    "Frank-Wolfe (a)",
    "For an invertible B and almost every start each token has a single target at every"
    " layer.",
    FRANK_WOLFE_PAPER,
    hypotheses="B invertible, almost every start",
)
def frank_wolfe_targets(trajectory: SmoothTrajectory) -> Verdict:
    """Count the targets of each token at each layer, as points."""
    rule: Any = trajectory.rule
    B = None if rule.B is None else to_fractions(np.asarray(rule.B))
    if B is not None and not has_positive_pivots(B.T @ B):
        return report_not_met("B is singular, or too long to decide that it is not")
    for k, tokens in enumerate(_layers(trajectory)):
        classes = Classes.of(tokens)
        tied = np.flatnonzero(rule.sets(classes.rows).sum(axis=1) > 1)
        if len(tied):
            witness = {"layer": k, "token": int(classes.first[tied[0]])}
            reason = (
                f"Token {witness['token']} has several targets at layer {k}: this start"
                " is an exception."
            )
            return Verdict(Outcome.NOTHING, reason, witness=witness)
    return report(
        True, f"Every token has one target at each of {len(trajectory.saved)} layers."
    )


@frank_wolfe_statement(
    "Frank-Wolfe (b)",
    "If every token has one target at layer 0, and that target is its own, then for any"
    " B the targets stay and x_i^t = Pi_t x_i + (1 - Pi_t) v_i with Pi_t the product of"
    " 1 - gamma.",
    f"{FRANK_WOLFE_PAPER}; a case of Theorem 1",
    hypotheses="any B; each token's target is its own",
    proof="proved in the paper and by Theorem 1",
)
def frank_wolfe_closed_form(trajectory: SmoothTrajectory) -> Verdict:
    """Compare every saved position with the closed form."""
    rule: Any = trajectory.rule
    start = _layers(trajectory)[0]
    classes = Classes.of(start)
    sets = rule.sets(classes.rows)
    targets = sets.argmax(axis=1)
    own = sets[targets, targets] & (sets[targets].sum(axis=1) == 1)
    if (sets.sum(axis=1) > 1).any() or not own.all():
        return report_not_met(
            "a token has several targets at layer 0, or a target that moves"
        )
    goal = classes.rows[targets[classes.labels]].astype(float)
    left = accumulate(
        (1 - rule.step(k) for k in range(len(trajectory.saved) - 1)),
        mul,
        initial=Fraction(1),
    )
    shares = np.array([float(share) for share in left])[:, None, None]  # Pi_t
    off = np.abs(_layers(trajectory) - shares * start - (1 - shares) * goal).max()
    allowed = _rounding(trajectory) * (1 + trajectory.saved[-1])
    reason = (
        f"Positions differ from the closed form by {format_up(off, 2)} (rounding:"
        f" {allowed:.2g})."
    )
    return _report_positions(trajectory, float(off), float(allowed), reason)


def _rounding(trajectory: SmoothTrajectory) -> float:
    """Bound the rounding error of a coordinate after one layer: a mean of n tokens and
    a step towards it, in the dtype of the trajectory.
    """
    eps, subnormal = find_rounding(trajectory)
    terms = 8 + 2 * trajectory.n
    return terms * (eps * float(np.abs(_layers(trajectory)).max()) + subnormal)


def _report_positions(
    trajectory: SmoothTrajectory, off: float, allowed: float, reason: str, **about: Any
) -> Verdict:
    """Compare the distance from a closed form with rounding.

    Where tokens are nearly tied, rounding may change a set, and positions then leave
    the closed form although every layer is right: this leaves the question open.
    """
    rule: Any = trajectory.rule
    x = _layers(trajectory)
    holds: bool | None = off <= allowed
    if not holds and np.isfinite(x).all():
        steps = [
            np.abs(rule.layer(tokens, k) - after).max()
            for k, (tokens, after) in enumerate(pairwise(x))
        ]
        if max(steps) <= _rounding(trajectory):
            holds = None
            reason += " Each layer is right, so rounding has changed a set."
    return report(holds, reason, margin=allowed - off, **about)


def _rate(trajectory: SmoothTrajectory) -> Verdict:
    rule: Any = trajectory.rule
    B, x = np.asarray(rule.B, float), _layers(trajectory)
    # Squares of scaled numbers neither overflow nor underflow
    size, factor = float(np.abs(x).max()) or 1.0, float(np.abs(B).max())
    x = x / size
    B = B / factor
    unit = min(factor * size * size, 1e300)  # of what is printed
    J = -np.einsum("kis,st,kit->ki", x, B, x) / 2
    diameter = np.linalg.norm(x[0][:, None] - x[0], axis=-1).max()
    bound = (
        2
        * float(-np.linalg.eigvalsh(B)[0])
        * diameter**2
        / np.maximum(trajectory.saved, 1)
    )
    lead = (bound - J.max(axis=1))[1:]
    if not len(lead):
        return Verdict(Outcome.NOTHING, "No layer was run.")
    t = int(lead.argmin())
    reason = (
        f"J is {format_up(unit * J[t + 1].max(), 3)} at layer {t + 1}, where the bound"
        f" is {unit * bound[t + 1]:.3g}."
    )
    witness = {"layer": t + 1, "token": int(J[t + 1].argmax())}
    # of d^2 products of numbers of at most 1, and of layers
    noise = (4 + x.shape[2]) ** 2 * find_rounding(trajectory)[0] * len(x)
    answer = None if -noise <= lead[t] < 0 else bool(lead[t] >= 0)
    return report(answer, reason, margin=unit * float(lead[t]), witness=witness)


@negative_statement(
    "Frank-Wolfe (c), printed",
    "For B negative definite and steps 2/(t+2), J(x) = -⟨B x, x⟩/2 is at most 2"
    " lambda_max diam^2/(t+1) at layer t+1.",
    f"{FRANK_WOLFE_PAPER}; REFUTED: the tokens 1 and 2 with B = -1 stay at J >= 1/2",
    conjecture=True,
    hypotheses="B negative definite, steps 2/(t+2)",
    proof="refuted",
)
def frank_wolfe_rate_printed(trajectory: SmoothTrajectory) -> Verdict:
    """Compare J with the bound at every layer."""
    return _rate(trajectory)


@negative_statement(
    "Frank-Wolfe (c), repaired",
    "The same if 0 lies in the hull of the tokens at every layer.",
    "hardmax, docs/newer-models.md",
    hypotheses="also 0 in the hull at every layer",
    proof="repaired, proved here",
)
def frank_wolfe_rate(trajectory: SmoothTrajectory) -> Verdict:
    """Decide the hypothesis exactly for the saved positions, and compare J with the
    bound.
    """
    for k, tokens in enumerate(_layers(trajectory)):
        if not is_in_hull([0] * tokens.shape[1], Classes.of(to_fractions(tokens)).rows):
            return report_not_met(f"0 is outside the hull at layer {k}")
    return _rate(trajectory)


def _layers(trajectory: SmoothTrajectory) -> FloatArray:
    return trajectory.array[:, trajectory.mask].astype(np.float64)


@renyi_statement(
    "Renyi displacement",
    "While all tokens before token s keep an angle of at least delta from it, with"
    " delta beyond the largest value of h(x) = e^{beta (cos x - 1)} sin x, it moves by"
    " at most t s h(delta).",
    f"{RENYI_PAPER}; stated there for d = 2 and separated centres, here for each centre"
    " (proved here)",
    hypotheses="causal, earlier tokens stay away",
    proof="repaired, proved here",
)
def renyi_displacement(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the displacement of each Renyi centre while the angle at saved times is
    at least 2 beta^{-1/2}.
    """
    x, times = _sphere_positions(trajectory)
    beta = float(trajectory.rule.beta)  # type: ignore[attr-defined]
    delta = SEPARATION * beta**-0.5
    peak = scipy.optimize.brentq(lambda a: beta * np.sin(a) ** 2 - np.cos(a), 0, np.pi)
    if not peak <= delta <= np.pi:
        return report_not_met(
            f"{delta:.2g} is not between the largest value of h and pi"
        )
    h = float(np.exp(beta * (np.cos(delta) - 1)) * np.sin(delta))
    error = _angle_error(trajectory)
    holds: bool | None = True
    worst, witness, tested = np.inf, None, 0
    for s in renyi_centres(x[0], delta, strong=True).tolist():
        nearest = _angles(x[:, s, None], x[:, :s]).min(axis=1, initial=np.pi)
        near = nearest < delta + error
        last = len(near) if not near.any() else int(near.argmax())
        if last == 0:
            continue
        lead = times[:last] * s * h - _angles(x[:last, s], x[0, s])
        tested += 1
        # Two tokens approach each other with a speed of at most 2: how near they may
        # have come between two saved times
        between = (nearest[: last - 1] + nearest[1:last]) / 2 - np.diff(times[:last])
        sure = np.r_[True, np.logical_and.accumulate(between >= delta + error)]
        beyond = lead < -error
        if (beyond & sure).any():
            holds = False
        elif beyond.any() and holds:
            holds = None
        if lead.min() < worst:
            k = int(lead.argmin())
            worst = float(lead[k])
            witness = {"token": s, "time": float(times[k])}
    if not tested:
        return Verdict(Outcome.NOTHING, "No centre stays apart from earlier tokens.")
    reason = f"{tested} centres move by no more than t s h(delta), up to {error:.2g}."
    if not holds:
        reason = (
            f"Token {witness['token']} moves by {format_up(-worst, 2)} more than t s"  # type: ignore[index]
            f" h(delta) (rounding and the integrator's error: {error:.2g})."
        )
    if holds is None:
        reason += (
            " Earlier tokens may have come near between the saved times: save more."
        )
    return report(holds, reason, margin=worst + error, witness=witness)


def _sphere_positions(trajectory: SmoothTrajectory) -> tuple[FloatArray, FloatArray]:
    """Return unit tokens (times, n, d) in float64 and the times, from time 0 on."""
    x = trajectory.array[: trajectory.reached][:, trajectory.mask].astype(np.float64)
    times = np.asarray(trajectory.saved[: trajectory.reached], np.float64)
    if not len(times) or times[0] > 0:
        start = np.asarray(trajectory.start, np.float64)[trajectory.mask]
        x = np.concatenate([start[None], x])
        times = np.r_[0.0, times]
    return unit_rows(x), times


def _angles(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return angles of unit vectors, accurate also near 0 and pi, where arccos of the
    product is not.
    """
    apart = np.linalg.norm(x - y, axis=-1)
    together = np.linalg.norm(x + y, axis=-1)
    return np.asarray(2 * np.arctan2(apart, together))


def _angle_error(trajectory: SmoothTrajectory) -> float:
    """Bound the error of an angle: of rounding in the dtype of the tokens, and of the
    integrator.
    """
    eps, _ = find_rounding(trajectory)
    rtol = find_rtol(trajectory)
    d = trajectory.array.shape[-1]
    if not np.isfinite(rtol):  # fixed steps have no error control
        return np.pi
    return 4 * d * eps + ERROR_PER_RTOL * (rtol + float(trajectory.stats["atol"]))


FRANK_WOLFE = (
    frank_wolfe_targets,
    frank_wolfe_closed_form,
    frank_wolfe_rate_printed,
    frank_wolfe_rate,
)
CAUSAL_SPHERE = (renyi_displacement,)
