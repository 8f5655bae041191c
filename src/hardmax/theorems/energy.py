"""On the sphere the energy never decreases."""

import numpy as np

from hardmax._exact import format_down
from hardmax.rules.sphere import Sphere
from hardmax.theorems.base import Statement, Verdict, not_met, nothing, verdict
from hardmax.theorems.flow import ERROR_PER_RTOL
from hardmax.trajectories.smooth import SmoothTrajectory

MAX_RTOL = 1e-6  # what a looser trajectory is held to


@Statement(
    "energy",
    "On the unit sphere E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩) never decreases, with softmax or without it.",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2312.10794, section 3",
)
def energy(trajectory: SmoothTrajectory) -> Verdict:
    """The smallest growth of E between neighbouring saved times, relative to E.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("sphere", n=8, d=3), hm.Sphere(beta=2), times=5)
    >>> hm.theorems.energy(trajectory).outcome.value
    'holds'
    """
    trajectory.refuse_batch("hm.theorems.check(trajectory[b])")
    rule = trajectory.rule
    if not isinstance(rule, Sphere):
        return not_met(f"the rule is {type(rule).__name__}, not Sphere")
    if rule.causal:
        return not_met("attention is causal")
    values = trajectory.energy[: trajectory.reached]
    if len(values) < 2:
        return nothing("One saved time shows no growth.")
    if not np.isfinite(values).all():
        return verdict(None, "The energy leaves the range of floats; use a smaller beta.")
    growth = np.diff(values) / np.abs(values[1:])
    worst = int(growth.argmin())
    # An error of size rtol in a token changes E by a factor of about 1 + beta rtol. With a loose rtol or long fixed
    # steps E may fall although that of the flow does not: this leaves the question open.
    stats, sensitivity = trajectory.stats, 1 + float(rule.beta)
    rtol = float(stats.get("rtol_reached", stats["rtol"])) if stats["adaptive"] else np.inf
    tolerance = sensitivity * 10 * min(rtol, MAX_RTOL) if stats["adaptive"] else 1e-12
    holds = bool(growth[worst] >= -tolerance)
    answer = None if not holds and growth[worst] >= -sensitivity * ERROR_PER_RTOL * rtol else holds
    smallest = format_down(growth[worst], 2)
    reason = f"The smallest relative growth between saved times is {smallest} (tolerance {tolerance:.0e})."
    witness = {"time": float(trajectory.saved[worst])}
    return verdict(answer, reason, margin=float(growth[worst] + tolerance), witness=witness)
