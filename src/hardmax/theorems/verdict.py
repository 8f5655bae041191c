"""The verdict of a check, and the statement that it tests."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, TypeVar

import numpy as np

from hardmax._display import draw
from hardmax._validation import is_tensor, library_of
from hardmax.rules.base import Layered, Rule


class Outcome(StrEnum):
    """The outcome of a check. Each equals its text.

    "holds" or "fails" (of a theorem a bug, of a conjecture a discovery); "hypotheses
    not met" if the statement does not cover the trajectory; "nothing to check" if no
    token meets the premise; "undecided" if too little was saved or computed to decide.

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
    """The result of testing one statement on one trajectory. It prints as a sentence.

    Attributes
    ----------
    outcome : Outcome
        "holds", "fails", "hypotheses not met", "nothing to check" or "undecided".
    reason : str
        The finding, as a sentence.
    margin : float
        The distance from failing (negative if it fails), in the unit that `reason`
        names; NaN if there is none.
    witness : object
        The place where the margin is smallest: usually a dict with the layer and the
        token.
    name, statement, reference : str
        Its name, its text, and where it is proved or conjectured.
    conjecture : bool
        True if the statement is not proved, so that a failure is a discovery.
    applies : bool
        False if the statement is about other spectra of V than that of the rule.

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
        """True or False, or None if the question is open; `outcome` says why."""
        return {Outcome.HOLDS: True, Outcome.FAILS: False}.get(self.outcome)

    def __repr__(self) -> str:
        return f"{self.name}: {self.outcome}. {self.reason}"

    def _repr_html_(self) -> str:
        return str(draw("card", verdicts=[self]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, as `hardmax verify --json` prints it."""
        names = (
            "name",
            "statement",
            "reference",
            "outcome",
            "holds",
            "margin",
            "witness",
            "reason",
            "conjecture",
        )
        data = {name: getattr(self, name) for name in names}
        return data | {
            "margin": float(self.margin) if np.isfinite(self.margin) else None
        }


class Verdicts(list[Verdict]):
    """The list of verdicts that `check` returns; notebooks show it as a table.

    Examples
    --------
    >>> import hardmax as hm
    >>> verdicts = hm.theorems.check(hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=5))
    >>> len(verdicts), all(verdict.holds in (True, None) for verdict in verdicts)
    (9, True)
    """

    def _repr_html_(self) -> str:
        return str(draw("card", verdicts=self))


def find_rounding(trajectory: Any) -> tuple[float, float]:
    """Return eps and the smallest subnormal number of the dtype in which tokens are
    stored: a bfloat16 tensor becomes a float32 array, which hides its own.
    """
    tokens = trajectory.tokens
    if not is_tensor(tokens):
        info = np.finfo(trajectory.array.dtype)
        return float(info.eps), float(info.smallest_subnormal)
    torch_info = library_of(tokens).finfo(tokens.dtype)
    return torch_info.eps, torch_info.eps * torch_info.tiny


def report(
    holds: bool | None, reason: str, *, margin: float = np.nan, witness: Any = None
) -> Verdict:
    """Return the verdict of a check, without the words that its `Statement` adds; None
    means undecided.
    """
    outcome = (
        Outcome.UNDECIDED
        if holds is None
        else Outcome.HOLDS
        if holds
        else Outcome.FAILS
    )
    return Verdict(outcome, reason, margin, witness)


def report_not_met(*reasons: str, applies: bool = True) -> Verdict:
    """Return the verdict if hypotheses do not hold."""
    why = "; ".join(reasons)
    return Verdict(Outcome.NOT_MET, f"{why[0].upper()}{why[1:]}.", applies=applies)


SECTIONS = """
Parameters
----------
trajectory : {kind}
    Of one batch element.{requirement}

Returns
-------
Verdict
"""
EXAMPLE = """
Examples
--------
>>> import hardmax as hm
>>> trajectory = hm.simulate({example})
>>> hm.theorems.{name}(trajectory).outcome.value
'holds'
"""
ALL_LAYERS = ' Simulate it with `save="all"`; else the verdict is "undecided".'
T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """A theorem in words: a decorator for the function from a trajectory to a `Verdict`
    that tests it.

    Parameters
    ----------
    name, text, reference : str
        Its name, its text, and where it is proved or conjectured.
    conjecture : bool
        Whether it is not proved.
    rule : type
        The rule that it is about. If that has layers, the test needs all of them.
    require : callable, optional
        A function from a trajectory to the verdict if further hypotheses are not met,
        or None if the test can run.
    example : str
        Arguments of `hm.simulate` for a trajectory on which it holds: an example in the
        docstring of the function.
    hypotheses : str
        What `require` and the check test of a trajectory, in words.
    proof : str
        Who proved or refuted it, if the reference does not tell.

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
    rule: type = Rule
    require: Callable[[Any], Verdict | None] | None = None
    example: str = ""
    hypotheses: str = ""
    proof: str = ""

    @property
    def status(self) -> str:
        """In words: proved here or in the paper, repaired, refuted, checked, or open."""
        proved = (
            "proved here"
            if self.reference.startswith("hardmax")
            else "proved in the paper"
        )
        return self.proof or ("open (conjecture)" if self.conjecture else proved)

    def __call__(self, check: Callable[[T], Verdict]) -> Callable[[T], Verdict]:
        @wraps(check)
        def check_in_words(trajectory: T) -> Verdict:
            verdict = self._refuse(trajectory) or check(trajectory)
            words = {
                "name": self.name,
                "statement": self.text,
                "reference": self.reference,
            }
            return replace(verdict, conjecture=self.conjecture, **words)  # type: ignore[arg-type]

        (parameter,) = signature(check).parameters.values()
        kind = getattr(parameter.annotation, "__name__", "")
        kind = kind if kind.endswith("Trajectory") else "Trajectory"
        text = (
            f"{cleandoc(check.__doc__ or '')}\n\nThe statement: {self.text}"
            f" ({self.reference})\n"
        )
        text += SECTIONS.format(
            kind=kind, requirement=ALL_LAYERS if issubclass(self.rule, Layered) else ""
        )
        text += (
            EXAMPLE.format(example=self.example, name=check.__name__)
            if self.example
            else ""
        )
        check_in_words.__doc__, check_in_words.statement = text, self  # type: ignore[attr-defined]
        return check_in_words

    def _refuse(self, trajectory: Any) -> Verdict | None:
        """Return the verdict if the test cannot run on a trajectory; raise an error for
        a batch.
        """
        trajectory.refuse_batch("hm.theorems.check(trajectory[b])")
        if not isinstance(trajectory.rule, self.rule):
            return report_not_met(
                f"the rule is {type(trajectory.rule).__name__}, not"
                f" {self.rule.__name__}"
            )
        if (
            issubclass(self.rule, Layered)
            and len(trajectory.saved) <= trajectory.saved[-1]
        ):
            return report(
                None, 'Only the last layer was kept; simulate with `save="all"`.'
            )
        return self.require(trajectory) if self.require else None
