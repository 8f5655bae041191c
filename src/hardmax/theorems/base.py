"""What a verdict is, and what the checks share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from hardmax._display import draw
from hardmax._types import FloatArray
from hardmax.exact.run import Run
from hardmax.search.sets import Sets
from hardmax.trajectories.hardmax import HardmaxTrajectory

PAPER = "arXiv 2407.01602"
PROJECT = "hardmax, docs/theorems.md"


class Outcome(StrEnum):
    """What a check can find; all but the first two are no answer. Each equals its text.

    Attributes
    ----------
    HOLDS : "holds"
        The statement holds of this trajectory.
    FAILS : "fails"
        It does not: of a theorem a bug, of a conjecture a discovery.
    NOT_MET : "hypotheses not met"
        The statement does not speak of this trajectory.
    NOTHING : "nothing to check"
        No token meets the premise.
    UNDECIDED : "undecided"
        Too little was kept or computed to tell.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.theorems.Outcome.HOLDS == "holds"
    True
    """

    HOLDS = "holds"
    FAILS = "fails"
    NOT_MET = "hypotheses not met"
    NOTHING = "nothing to check"
    UNDECIDED = "undecided"


@dataclass(frozen=True, repr=False)
class Verdict:
    """One statement, tested on one trajectory. It prints as a sentence.

    Attributes
    ----------
    outcome : Outcome
        "holds", "fails", "hypotheses not met", "nothing to check" (no token meets the premise) or "undecided".
    reason : str
        What was found, as a sentence.
    margin : float
        By how much it holds (or, negative, fails), in the unit that `reason` names; NaN where there is none.
    witness : object
        Where the margin is smallest: usually a dict with the layer and the token.
    name, statement, reference : str
        What it is called, what it says, and where it is proved or conjectured.
    conjecture : bool
        True where the statement is not proved, so that a failure is a discovery.
    applies : bool
        False where the statement is about other spectra of V than that of the rule.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=5)
    >>> verdict = hm.theorems.leaders(trajectory)
    >>> verdict
    F4 leaders: holds. 3 of 15 tokens lead; after that they move by 0 of the largest token.
    >>> verdict.holds, verdict.reference
    (True, 'arXiv 2407.01602, Lemma 5.1')
    """

    outcome: Outcome
    reason: str
    margin: float = np.nan
    witness: Any = None
    name: str = ""
    statement: str = ""
    reference: str = ""
    conjecture: bool = False
    applies: bool = True

    @property
    def holds(self) -> bool | None:
        """True or False, or None where there is no answer; `outcome` says why."""
        return {Outcome.HOLDS: True, Outcome.FAILS: False}.get(self.outcome)

    def __repr__(self) -> str:
        return f"{self.name}: {self.outcome}. {self.reason}"

    def _repr_html_(self) -> str:
        return str(draw("verdicts_card", [self]))

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON: what the command `hardmax verify --json` writes of it."""
        names = ("name", "statement", "reference", "outcome", "holds", "margin", "witness", "reason", "conjecture")
        data = {name: getattr(self, name) for name in names}
        return data | {"margin": float(self.margin) if np.isfinite(self.margin) else None}


class Verdicts(list[Verdict]):
    """What `check` returns: a list of verdicts, which a notebook shows as a table.

    Examples
    --------
    >>> import hardmax as hm
    >>> verdicts = hm.theorems.check(hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=5))
    >>> len(verdicts), all(verdict.holds in (True, None) for verdict in verdicts)
    (9, True)
    """

    def _repr_html_(self) -> str:
        return str(draw("verdicts_card", self))


def verdict(holds: bool | None, reason: str, *, margin: float = np.nan, witness: Any = None) -> Verdict:
    """What a check found; its `Statement` adds the words."""
    outcome = Outcome.UNDECIDED if holds is None else Outcome.HOLDS if holds else Outcome.FAILS
    return Verdict(outcome, reason, margin, witness)


def not_met(*reasons: str, applies: bool = True) -> Verdict:
    """The verdict where hypotheses do not hold."""
    why = "; ".join(reasons)
    return Verdict(Outcome.NOT_MET, f"{why[0].upper()}{why[1:]}.", applies=applies)


def nothing(reason: str) -> Verdict:
    """The verdict where no token meets the premise."""
    return Verdict(Outcome.NOTHING, reason)


SECTIONS = """\
Parameters
----------
trajectory : {kind}
    {which}

Returns
-------
Verdict

Raises
------
InputError
    If it is the trajectory of a batch: take one cloud of it, `trajectory[b]`.
"""
WHICH = {
    "HardmaxTrajectory": 'Of one cloud, simulated with `save="all"`; else the verdict is "undecided".',
    "Trajectory": "Of one cloud.",
    "SmoothTrajectory": "Of one cloud. Under another rule or spectrum the verdict is that hypotheses are not met.",
}
T = TypeVar("T")
Check: TypeAlias = Callable[[HardmaxTrajectory], Verdict]


@dataclass(frozen=True)
class Statement:
    """A theorem in words: decorates the function from a trajectory to a `Verdict` that tests it.

    Parameters
    ----------
    name : str
        What verdicts call it.
    text : str
        What it says.
    reference : str
        Where it is proved or conjectured.
    conjecture : bool
        Whether it is not proved.

    Examples
    --------
    >>> import hardmax as hm
    >>> @hm.theorems.Statement("few leaders", "At most half of the tokens lead.", "a guess", conjecture=True)
    ... def few_leaders(trajectory: hm.HardmaxTrajectory) -> hm.theorems.Verdict:
    ...     '''Count them.'''
    ...     few = 2 * len(trajectory.leaders) <= trajectory.n
    ...     outcome = hm.theorems.Outcome.HOLDS if few else hm.theorems.Outcome.FAILS
    ...     return hm.theorems.Verdict(outcome, f"{len(trajectory.leaders)} of {trajectory.n} tokens lead.")
    >>> few_leaders(hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=5))
    few leaders: holds. 3 of 15 tokens lead.
    """

    name: str
    text: str
    reference: str
    conjecture: bool = False

    def __call__(self, check: Callable[[T], Verdict]) -> Callable[[T], Verdict]:
        words = {"name": self.name, "statement": self.text, "reference": self.reference, "conjecture": self.conjecture}

        @wraps(check)
        def worded(asked: T) -> Verdict:
            return replace(check(asked), **words)  # type: ignore[arg-type]

        worded.__doc__ = self._described(check)
        return worded

    def _described(self, check: Callable[[T], Verdict]) -> str:
        """The docstring of a check, with the statement and what all checks take and return."""
        (asked,) = signature(check).parameters.values()
        kind = getattr(asked.annotation, "__name__", "")
        kind = kind if kind in WHICH else "Trajectory"
        head, examples, shown = cleandoc(check.__doc__ or "").partition("Examples\n")
        said = "\n".join([head.rstrip(), "", f"The statement: {self.text} ({self.reference})"])
        return f"{said}\n\n{SECTIONS.format(kind=kind, which=WHICH[kind])}\n{examples}{shown}"


def given(hypotheses: Callable[[HardmaxTrajectory], list[str]]) -> Callable[[Check], Check]:
    """Decorate a check so that it runs only where all layers are known and no hypothesis is missing."""

    def decorate(check: Check) -> Check:
        @wraps(check)
        def guarded(trajectory: HardmaxTrajectory) -> Verdict:
            trajectory.only_token_set("hm.theorems.check(trajectory[b])")
            if len(trajectory.saved) <= trajectory.layers:
                return verdict(None, 'Only the last layer was kept; simulate with `save="all"`.')
            missing = hypotheses(trajectory)
            return not_met(*missing) if missing else check(trajectory)

        return guarded

    return decorate


def missing_hypotheses(trajectory: HardmaxTrajectory) -> list[str]:
    """Which hypotheses of the paper this trajectory misses: A SPD, tokens distinct and nonzero, exact ties."""
    cloud = trajectory.token_sets[0]
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


_evidence: "WeakKeyDictionary[HardmaxTrajectory, tuple[list[Sets], Run]]" = WeakKeyDictionary()


def evidence(trajectory: HardmaxTrajectory) -> tuple[list[Sets], Run]:
    """Run the input again, once for all checks, asking every token at every layer: no theorem finds these sets."""
    if trajectory not in _evidence:
        classes = trajectory.token_sets[0].classes
        run = Run(trajectory.rule, classes.rows[classes.labels], shortcuts=False)
        sets = [run.choose()]
        for _ in range(trajectory.layers):
            run.advance()
            sets.append(run.choose())
        _evidence[trajectory] = sets, run
    return _evidence[trajectory]


def rounding(trajectory: HardmaxTrajectory) -> float:
    """What a coordinate may be off by after one layer, relative to the largest one."""
    members = max(int(sets.sizes.max()) for sets in trajectory.token_sets[0].sets)
    info = np.finfo(trajectory.array.dtype)
    coarse = float(info.smallest_subnormal) / largest(trajectory)  # the grid of the dtype near zero
    return (16 + 4 * members) * float(info.eps) + 4 * coarse


def largest(trajectory: HardmaxTrajectory) -> float:
    """The largest coordinate of any real token at any layer; 1 if all are zero."""
    return float(np.abs(trajectory.array[:, trajectory.mask]).max()) or 1.0


def unit_tokens(trajectory: HardmaxTrajectory) -> FloatArray:
    """Tokens by classes at every layer, divided by the largest coordinate: (layers + 1, m, d)."""
    cloud = trajectory.token_sets[0]
    return trajectory.array[:, cloud.real[cloud.classes.first]].astype(np.float64) / largest(trajectory)


def misses(trajectory: HardmaxTrajectory) -> FloatArray:
    """How far each class is from (1 - b) z_i + b mean(C_i) of the layer before, relative to all: (layers, m)."""
    Z, cloud = unit_tokens(trajectory), trajectory.token_sets[0]
    residuals = np.empty((trajectory.layers, len(cloud.classes)))
    for k in range(trajectory.layers):
        alpha = trajectory.rule.step(k)
        b = float(alpha / (1 + alpha))
        expected = (1 - b) * Z[k] + b * cloud.sets[k].mean(Z[k], cloud.classes.counts)  # (m, d)
        residuals[k] = np.abs(Z[k + 1] - expected).max(axis=1)
    return residuals


def largest_at(trajectory: HardmaxTrajectory, values: FloatArray) -> tuple[float, dict[str, int]]:
    """The largest of (layers, m) values, with the layer and the token; 0 where none is 0 or more."""
    if values.max(initial=-1.0) < 0:
        return 0.0, {}
    k, i = divmod(int(values.argmax()), values.shape[1])
    return float(values[k, i]), {"layer": k, "token": token_of(trajectory, i)}


def token_of(trajectory: HardmaxTrajectory, i: int) -> int:
    """Index in the input of a class."""
    cloud = trajectory.token_sets[0]
    return int(cloud.real[cloud.classes.first[i]])
