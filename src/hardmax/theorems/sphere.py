"""The statement about `Sphere`: the energy never decreases."""

import numpy as np

from hardmax._exact import format_down
from hardmax.rules.sphere import Sphere
from hardmax.theorems.self_attention import ERROR_PER_RTOL, MAX_FAIL_RTOL, reached_rtol
from hardmax.theorems.verdict import Outcome, Statement, Verdict, report, report_not_met
from hardmax.trajectories.smooth import SmoothTrajectory


@Statement(
    "energy",
    "On the unit sphere E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩) never decreases, with softmax or without it.",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2312.10794, section 3",
    example='hm.configuration("sphere", n=8, d=3), hm.Sphere(beta=2), times=5',
)
def energy(trajectory: SmoothTrajectory) -> Verdict:
    """Measure the smallest growth of E between consecutive saved times, relative to E."""
    trajectory.refuse_batch("hm.theorems.check(trajectory[b])")
    rule = trajectory.rule
    if not isinstance(rule, Sphere):
        return report_not_met(f"the rule is {type(rule).__name__}, not Sphere")
    if rule.causal:
        return report_not_met("attention is causal")
    values = trajectory.energy[: trajectory.reached]
    if len(values) < 2:
        return Verdict(Outcome.NOTHING, "One saved time shows no growth.")
    if not np.isfinite(values).all():
        return report(None, "The energy leaves the range of floats; use a smaller beta.")
    growth = np.diff(values) / np.abs(values[1:])
    worst = int(growth.argmin())
    # An error of size rtol in a token changes E by a factor of about 1 + beta rtol. With a loose rtol or long fixed
    # steps E may fall although that of the flow does not: this leaves the question open.
    sensitivity, rtol = 1 + float(rule.beta), reached_rtol(trajectory)
    tolerance = sensitivity * 10 * min(rtol, MAX_FAIL_RTOL) if np.isfinite(rtol) else 1e-12
    holds = bool(growth[worst] >= -tolerance)
    answer = None if not holds and growth[worst] >= -sensitivity * ERROR_PER_RTOL * rtol else holds
    smallest, where = format_down(growth[worst], 2), {"time": float(trajectory.saved[worst])}
    reason = f"The smallest relative growth between saved times is {smallest} (tolerance {tolerance:.0e})."
    return report(answer, reason, margin=float(growth[worst] + tolerance), witness=where)
