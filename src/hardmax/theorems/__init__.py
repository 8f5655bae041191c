"""Every statement as a function from a trajectory to a `Verdict`; `check` runs them all."""

from hardmax.hardmax_trajectory import HardmaxTrajectory
from hardmax.theorems.base import Check, Statement, Verdict, limit_of
from hardmax.theorems.decided import theorem1, theorem4
from hardmax.theorems.finite import theorem2, theorem3
from hardmax.theorems.half_space import half_space
from hardmax.theorems.hull import hull
from hardmax.theorems.leaders import leaders
from hardmax.theorems.limit import limit
from hardmax.theorems.norm import norm

STATEMENTS: tuple[Check, ...] = (
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


def check(trajectory: HardmaxTrajectory) -> list[Verdict]:
    """Test every statement of the theory on one trajectory.

    Parameters
    ----------
    trajectory : HardmaxTrajectory
        Of one cloud, simulated with save="all".

    Returns
    -------
    list of Verdict
        One for each statement, in the order of `STATEMENTS`.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate([[1.0, 1.0], [-1.0, -1.0], [0.5, 0.25]], hm.Hardmax(0.5), layers=5)
    >>> for verdict in hm.theorems.check(trajectory):
    ...     print(f"{verdict.name}: {verdict.outcome}")
    F1 hull: holds
    F2 norm: holds
    F3 half-space: holds
    F4 leaders: holds
    F5 limit: holds
    Theorem 1: holds
    Theorem 2: holds
    Theorem 3: holds
    Theorem 4: nothing to check
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        raise TypeError(f"`check` must get a Trajectory from hm.simulate. Got {type(trajectory).__name__}.")
    return [statement(trajectory) for statement in STATEMENTS]


__all__ = [
    "STATEMENTS",
    "Statement",
    "Verdict",
    "check",
    "half_space",
    "hull",
    "leaders",
    "limit",
    "limit_of",
    "norm",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
]
