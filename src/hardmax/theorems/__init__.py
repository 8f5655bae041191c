"""Every statement as a function from a trajectory to a `Verdict`; `check` runs those
about its rule.
"""

from collections.abc import Callable
from typing import Any

from hardmax._errors import ParameterTypeError
from hardmax._types import Progress
from hardmax.rules.frank_wolfe import FrankWolfe
from hardmax.rules.hardmax import Hardmax
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.theorems.hardmax import CAUSAL, STATEMENTS
from hardmax.theorems.newer_models import CAUSAL_SPHERE, FRANK_WOLFE
from hardmax.theorems.self_attention import SELF_ATTENTION, energy
from hardmax.theorems.verdict import Outcome, Statement, Verdict, Verdicts
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.hardmax import HardmaxTrajectory
from hardmax.trajectories.smooth import SmoothTrajectory

hull, norm, half_space, leaders, limit, theorem1, theorem2, theorem3, theorem4 = (
    STATEMENTS
)
c0, c1, c2 = CAUSAL
boolean, polytope, hyperplanes, product, collapse, codimension, complex_pair = (
    SELF_ATTENTION
)
(
    frank_wolfe_targets,
    frank_wolfe_closed_form,
    frank_wolfe_rate_printed,
    frank_wolfe_rate,
) = FRANK_WOLFE
(renyi_displacement,) = CAUSAL_SPHERE
BY_RULE: dict[type, tuple[Callable[[Any], Verdict], ...]]
BY_RULE = {Hardmax: STATEMENTS, SelfAttention: SELF_ATTENTION, Sphere: (energy,)}
BY_RULE |= {FrankWolfe: FRANK_WOLFE}


def check(trajectory: Trajectory, *, progress: Progress | None = None) -> list[Verdict]:
    """Test every statement about the rule of a trajectory.

    Parameters
    ----------
    trajectory : Trajectory
        Of one batch element. Under `Hardmax`, simulated with save="all". Under
        `SelfAttention` a limit is tested at the end of the trajectory if lambda t >= 15
        there, with lambda the leading real part of V. If it is shorter or the test does
        not pass, the same tokens are integrated a second time, to lambda t = 15, 30 or
        60, and the verdict says so.
    progress : callable, optional
        Called with (statements done, statements in all); if it raises, the work ends.

    Returns
    -------
    list of Verdict
        One for each statement: `STATEMENTS` for `Hardmax`, `CAUSAL` if it is causal,
        `SELF_ATTENTION`, `FRANK_WOLFE`, or the energy on the sphere. Empty
        for rules of which nothing is proved.

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
    if not isinstance(trajectory, HardmaxTrajectory | SmoothTrajectory):
        raise ParameterTypeError(
            "check", "get a Trajectory from hm.simulate", type(trajectory).__name__
        )
    statements = BY_RULE.get(type(trajectory.rule), ())
    if isinstance(trajectory.rule, Hardmax) and trajectory.rule.causal:
        statements = CAUSAL
    if isinstance(trajectory.rule, Sphere) and trajectory.rule.causal:
        statements = (energy, *CAUSAL_SPHERE)
    found = Verdicts()
    for statement in statements:
        found.append(statement(trajectory))
        if progress is not None:
            progress(len(found), len(statements))
    return found


__all__ = [
    "CAUSAL",
    "CAUSAL_SPHERE",
    "FRANK_WOLFE",
    "SELF_ATTENTION",
    "STATEMENTS",
    "Outcome",
    "Statement",
    "Verdict",
    "check",
]
__all__ += ["c0", "c1", "c2", "renyi_displacement"]
__all__ += [
    "frank_wolfe_closed_form",
    "frank_wolfe_rate",
    "frank_wolfe_rate_printed",
    "frank_wolfe_targets",
]
__all__ += [
    "half_space",
    "hull",
    "leaders",
    "limit",
    "norm",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem4",
]
__all__ += [
    "boolean",
    "codimension",
    "collapse",
    "complex_pair",
    "energy",
    "hyperplanes",
    "polytope",
    "product",
]
