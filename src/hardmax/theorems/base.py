"""What a verdict is, and what the checks share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._types import FloatArray
from hardmax.engine.run import Run
from hardmax.kernels.sets import Sets
from hardmax.limits import Limit, limit
from hardmax.trajectories.hardmax import HardmaxTrajectory

PAPER = "arXiv 2407.01602"
PROJECT = "hardmax, docs/theorems.md"


@dataclass(frozen=True)
class Verdict:
    """One statement, tested on one trajectory.

    Attributes
    ----------
    name, statement, reference : str
    holds : bool or None
        None where there is no answer; `outcome` says why.
    margin : float
        By how much it holds (or, negative, fails), in the unit that `reason` names; NaN where there is none.
    witness : object
        Where the margin is smallest: usually a dict with the layer and the token.
    reason : str
        What was found, as a sentence.
    unanswered : str
        Why there is no answer, if there is none: "hypotheses not met", "nothing to check" or "undecided".
    conjecture : bool
        True where the statement is not proved, so that a failure is a discovery.
    """

    name: str
    statement: str
    reference: str
    holds: bool | None
    margin: float
    witness: Any
    reason: str
    unanswered: str = "undecided"
    conjecture: bool = False

    @property
    def outcome(self) -> str:
        """One of "holds", "fails", "hypotheses not met", "nothing to check", "undecided"."""
        return self.unanswered if self.holds is None else "holds" if self.holds else "fails"

    def __repr__(self) -> str:
        return f"{self.name}: {self.outcome}. {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        margin = float(self.margin) if np.isfinite(self.margin) else None
        return {
            "name": self.name,
            "statement": self.statement,
            "reference": self.reference,
            "outcome": self.outcome,
            "holds": self.holds,
            "margin": margin,
            "witness": self.witness,
            "reason": self.reason,
            "conjecture": self.conjecture,
        }


Check: TypeAlias = Callable[[HardmaxTrajectory], Verdict]


@dataclass(frozen=True)
class Statement:
    """A theorem in words; its methods make verdicts of it."""

    name: str
    text: str
    reference: str
    conjecture: bool = False

    def verdict(self, holds: bool | None, reason: str, *, margin: float = np.nan, witness: Any = None) -> Verdict:
        """Make the verdict that was found."""
        found = Verdict(self.name, self.text, self.reference, holds, margin, witness, reason)
        return replace(found, conjecture=self.conjecture)

    def given(self, hypotheses: Callable[[HardmaxTrajectory], list[str]]) -> Callable[[Check], Check]:
        """Decorate a check so that it runs only where no hypothesis is missing."""

        def decorate(check: Check) -> Check:
            @wraps(check)
            def guarded(trajectory: HardmaxTrajectory) -> Verdict:
                trajectory.only_cloud("hm.theorems.check(trajectory[b])")
                if len(trajectory.saved) <= trajectory.layers:
                    return self.verdict(None, 'Only the last layer was kept; simulate with save="all".')
                missing = hypotheses(trajectory)
                return self.not_met(missing) if missing else check(trajectory)

            return guarded

        return decorate

    def not_met(self, reasons: list[str]) -> Verdict:
        """Make the verdict for hypotheses that do not hold."""
        why = "; ".join(reasons)
        return self._unanswered("hypotheses not met", f"{why[0].upper()}{why[1:]}.")

    def nothing(self, reason: str) -> Verdict:
        """Make the verdict where no token meets the premise."""
        return self._unanswered("nothing to check", reason)

    def _unanswered(self, kind: str, reason: str) -> Verdict:
        return Verdict(self.name, self.text, self.reference, None, np.nan, None, reason, kind, self.conjecture)


def missing_hypotheses(trajectory: HardmaxTrajectory) -> list[str]:
    """Which hypotheses of the paper this trajectory misses: A SPD, tokens distinct and nonzero, exact ties."""
    cloud = trajectory.clouds[0]
    classes = cloud.classes
    missing = computed_otherwise(trajectory)
    if not trajectory.rule.positive_definite:
        missing.append("A is not symmetric positive definite")
    zero = np.flatnonzero(~(classes.rows != 0).any(axis=1))  # the exact input: floats may round a token to zero
    if len(zero):
        missing.append(f"token {token_of(trajectory, int(zero[0]))} is zero")
    if not classes.distinct:
        label = int(np.flatnonzero(classes.counts > 1)[0])
        i, j = cloud.real[np.flatnonzero(classes.labels == label)[:2]]
        missing.append(f"tokens {i} and {j} are equal")
    return missing


def computed_otherwise(trajectory: HardmaxTrajectory) -> list[str]:
    """What puts a trajectory outside every statement, those for any A too."""
    missing = []
    if trajectory.rule.ties != "exact":
        missing.append(f"products within {trajectory.rule.ties:g} count as ties")
    if not trajectory.rule.normalize:
        missing.append("tokens are not normalised")
    if trajectory.rule.causal:
        missing.append("attention is causal")
    return missing


@dataclass(frozen=True, eq=False)
class Evidence:
    """The same run again, asking every token at every layer: no theorem was used to find these sets."""

    sets: tuple[Sets, ...]
    run: Run


_evidence: "WeakKeyDictionary[HardmaxTrajectory, Evidence]" = WeakKeyDictionary()
_limits: "WeakKeyDictionary[HardmaxTrajectory, Limit]" = WeakKeyDictionary()


def evidence(trajectory: HardmaxTrajectory) -> Evidence:
    """Run the input again without shortcuts, once for all checks."""
    if trajectory not in _evidence:
        classes = trajectory.clouds[0].classes
        run = Run.of(trajectory.rule, classes.rows[classes.labels], shortcuts=False)
        sets = []
        for k in range(trajectory.layers + 1):
            sets.append(run.choose())
            if k < trajectory.layers:
                run.advance()
        _evidence[trajectory] = Evidence(tuple(sets), run)
    return _evidence[trajectory]


def limit_of(trajectory: HardmaxTrajectory) -> Limit:
    """The limit of the trajectory's input, once for all checks."""
    if trajectory not in _limits:
        classes = trajectory.clouds[0].classes
        _limits[trajectory] = limit(classes.rows[classes.labels], trajectory.rule)
    return _limits[trajectory]


def rounding(trajectory: HardmaxTrajectory) -> float:
    """What a coordinate may be off by after one layer, relative to the largest one."""
    members = max(int(sets.sizes.max()) for sets in trajectory.clouds[0].sets)
    info = np.finfo(trajectory.array.dtype)
    coarse = float(info.smallest_subnormal) / largest(trajectory)  # the grid of the dtype near zero
    return (16 + 4 * members) * float(info.eps) + 4 * coarse


def largest(trajectory: HardmaxTrajectory) -> float:
    """The largest coordinate of any real token at any layer; 1 if all are zero."""
    return float(np.abs(trajectory.array[:, trajectory.mask]).max()) or 1.0


def unit_tokens(trajectory: HardmaxTrajectory) -> FloatArray:
    """Tokens by classes at every layer, divided by the largest coordinate: (layers + 1, m, d)."""
    cloud = trajectory.clouds[0]
    return trajectory.array[:, cloud.real[cloud.classes.first]].astype(np.float64) / largest(trajectory)


def images(trajectory: HardmaxTrajectory, tokens: FloatArray) -> tuple[FloatArray, float]:
    """A z for every token with A scaled to at most 1, and what <A z, z'> may be off by for unit tokens."""
    A, d = trajectory.rule.metric.A, tokens.shape[-1]
    size = d if A is None else float(np.abs(A).sum())
    return trajectory.images(tokens), 4 * d * size * rounding(trajectory)


def token_of(trajectory: HardmaxTrajectory, i: int) -> int:
    """Index in the input of a class."""
    cloud = trajectory.clouds[0]
    return int(cloud.real[cloud.classes.first[i]])
