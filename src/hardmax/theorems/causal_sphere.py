"""Statements about causal attention on the sphere (arXiv 2411.04990)."""

from typing import Any

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._arrays import unit_rows
from hardmax._exact import format_up
from hardmax.sphere_clusters import renyi_centres
from hardmax.theorems.verdict import Outcome, Statement, Verdict, report, report_not_met
from hardmax.trajectories.smooth import SmoothTrajectory

PAPER = "arXiv 2411.04990, read in excerpt"
EXAMPLE = 'hm.configuration("sphere", n=40, d=2), hm.Sphere(100, causal=True), times=20'
SEPARATION = 2.0  # c: centres are separated by c beta^{-1/2}


def require_causal_sphere(trajectory: SmoothTrajectory) -> Verdict | None:
    """Return the verdict unless attention is causal and normalised, with beta above 0."""
    trajectory.refuse_batch("hm.theorems.check(trajectory[b])")
    rule: Any = trajectory.rule
    if type(rule).__name__ != "Sphere" or not rule.causal or not rule.normalized or float(rule.beta) == 0:
        return report_not_met("the rule is not Sphere(beta, causal=True) with beta > 0")
    return None


@Statement(
    "Renyi displacement",
    "While all tokens before token s keep an angle of at least delta from it, with delta beyond the largest value of "
    "h(x) = e^{beta (cos x - 1)} sin x, it moves by at most t s h(delta).",
    f"{PAPER}; stated there for d = 2 and separated centres, here for each centre with its hypothesis (proved here)",
    require=require_causal_sphere,
    example=EXAMPLE,
)
def renyi_displacement(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the displacement of each Renyi centre while the angle at saved times is at least 2 beta^{-1/2}."""
    x, beta = unit_rows(trajectory.array[: trajectory.reached][:, trajectory.mask]), float(trajectory.rule.beta)  # type: ignore[attr-defined]
    delta = SEPARATION * beta**-0.5
    peak = scipy.optimize.brentq(lambda a: beta * np.sin(a) ** 2 - np.cos(a), 0, np.pi)
    if not peak <= delta <= np.pi:
        return report_not_met(f"{delta:.2g} is not between the largest value of h and pi")
    h = float(np.exp(beta * (np.cos(delta) - 1)) * np.sin(delta))
    worst, witness, tested = np.inf, None, 0
    for s in renyi_centres(x[0], delta, strong=True).tolist():
        near = np.arccos(np.clip(np.einsum("kd,kjd->kj", x[:, s], x[:, :s]), -1, 1)).min(axis=1, initial=np.pi) < delta
        last = len(near) if not near.any() else int(near.argmax())
        moved = np.arccos(np.clip(x[:last, s] @ x[0, s], -1, 1)) - 1e-6
        lead = trajectory.saved[:last] * s * h - moved
        tested += 1
        if lead.min() < worst:
            k = int(lead.argmin())
            worst, witness = float(lead[k]), {"token": s, "time": float(trajectory.saved[k])}
    return report(worst >= 0, f"{tested} centres move by no more than t s h(delta).", margin=worst, witness=witness)


@Statement(
    "Renyi capture",
    "CHECKED ONLY: at a time of order beta tokens are within 2 beta^{-1/2} of the start of a Renyi centre.",
    PAPER,
    conjecture=True,
    require=require_causal_sphere,
    example=EXAMPLE,
)
def renyi_capture(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the largest angle from a token at the last time to the nearest start of a Renyi centre."""
    if not trajectory.reached:
        return Verdict(Outcome.UNDECIDED, "No time was reached.")
    x, beta = unit_rows(trajectory.array[:, trajectory.mask]), float(trajectory.rule.beta)  # type: ignore[attr-defined]
    delta = SEPARATION * beta**-0.5
    centres = x[0, renyi_centres(x[0], delta)]
    angles = np.arccos(np.clip(x[trajectory.reached - 1] @ centres.T, -1, 1)).min(axis=1)
    worst, captured = float(angles.max()), float((angles <= delta).mean())
    reason = (
        f"{captured:.0%} of the tokens are captured by {len(centres)} centres; the farthest is {format_up(worst, 2)}"
    )
    return report(worst <= delta, f"{reason} away.", margin=delta - worst, witness={"token": int(angles.argmax())})


CAUSAL_SPHERE = (renyi_displacement, renyi_capture)
