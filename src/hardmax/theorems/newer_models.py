"""Statements about `FrankWolfe` (arXiv 2508.09628) and causal spheres (2411.04990)."""

from fractions import Fraction
from functools import partial
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._arrays import unit_rows
from hardmax._exact import format_up, to_fractions
from hardmax._types import FloatArray
from hardmax.polytope import is_in_hull
from hardmax.rules.frank_wolfe import OPEN_LOOP, FrankWolfe
from hardmax.rules.sphere import Sphere
from hardmax.search.sets import Classes
from hardmax.sphere_clusters import renyi_centres
from hardmax.theorems.verdict import Outcome, Statement, Verdict, report, report_not_met
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
TOL = 1e-13  # of a position after one layer, relative to the largest token


def require_negative(trajectory: SmoothTrajectory) -> Verdict | None:
    """Return the verdict unless B is negative definite with steps 2/(t+2)."""
    rule: Any = trajectory.rule
    B = rule.B
    symmetric = B is not None and bool((np.asarray(B) == np.asarray(B).T).all())
    if not symmetric or np.linalg.eigvalsh(np.asarray(B, float)).max() >= 0:
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
    if rule.B is not None and np.linalg.matrix_rank(np.asarray(rule.B, float)) < len(
        rule.B
    ):
        return report_not_met("B is singular")
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
    allowed = TOL * (1 + trajectory.saved[-1]) * float(np.abs(start).max())
    reason = (
        f"Positions differ from the closed form by {format_up(off, 2)} (rounding:"
        f" {allowed:.2g})."
    )
    return report(bool(off <= allowed), reason, margin=float(allowed - off))


def _rate(trajectory: SmoothTrajectory) -> Verdict:
    rule: Any = trajectory.rule
    B, x = np.asarray(rule.B, float), _layers(trajectory)
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
        f"J is {format_up(J[t + 1].max(), 3)} at layer {t + 1}, where the bound is"
        f" {bound[t + 1]:.3g}."
    )
    witness = {"layer": t + 1, "token": int(J[t + 1].argmax())}
    return report(bool(lead[t] >= 0), reason, margin=float(lead[t]), witness=witness)


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
    x, beta = (
        unit_rows(trajectory.array[: trajectory.reached][:, trajectory.mask]),
        float(trajectory.rule.beta),  # type: ignore[attr-defined]
    )
    delta = SEPARATION * beta**-0.5
    peak = scipy.optimize.brentq(lambda a: beta * np.sin(a) ** 2 - np.cos(a), 0, np.pi)
    if not peak <= delta <= np.pi:
        return report_not_met(
            f"{delta:.2g} is not between the largest value of h and pi"
        )
    h = float(np.exp(beta * (np.cos(delta) - 1)) * np.sin(delta))
    worst, witness, tested = np.inf, None, 0
    for s in renyi_centres(x[0], delta, strong=True).tolist():
        near = (
            np.arccos(np.clip(np.einsum("kd,kjd->kj", x[:, s], x[:, :s]), -1, 1)).min(
                axis=1, initial=np.pi
            )
            < delta
        )
        last = len(near) if not near.any() else int(near.argmax())
        moved = np.arccos(np.clip(x[:last, s] @ x[0, s], -1, 1)) - 1e-6
        lead = trajectory.saved[:last] * s * h - moved
        tested += 1
        if lead.min() < worst:
            k = int(lead.argmin())
            worst, witness = (
                float(lead[k]),
                {"token": s, "time": float(trajectory.saved[k])},
            )
    return report(
        worst >= 0,
        f"{tested} centres move by no more than t s h(delta).",
        margin=worst,
        witness=witness,
    )


FRANK_WOLFE = (
    frank_wolfe_targets,
    frank_wolfe_closed_form,
    frank_wolfe_rate_printed,
    frank_wolfe_rate,
)
CAUSAL_SPHERE = (renyi_displacement,)
