"""What control returns: the matrix, whether it was found, and the sentence that says so."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.control.conflicts import Clash
from hardmax.control.vertices import can_lead

MOST_NAMED = 8  # tokens that a sentence lists


@dataclass(frozen=True, eq=False, repr=False)
class ControlResult:
    """The answer of `choose_A` and `steer`.

    Attributes
    ----------
    A : (d, d) array or None
        Symmetric positive definite with trace d; None where none was found.
    found : bool
        True when the simulation with this A does what was asked, by exact sets.
    margin : float
        The smallest ⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|) over what was asked of layer 0, computed in NumPy; where
        nothing was found, the largest that the solver saw.
    proved : bool
        True when nothing was found because nothing exists, with a proof.
    status : str
        All this as a sentence.
    leaders, followers
        What was asked.
    only : bool
        Whether no other token was to lead.
    alpha : float or None
        The step that was found together with A, by `steer`.
    conflict : tuple of Clash
        The products that cannot all be positive, with their Farkas weights, the largest first.
    cannot_lead : tuple of int
        Those of `leaders` that lead for no A at all (Theorem 5).
    tokens : (n, d) array
        The cloud.
    stats : dict
        Rounds of cutting planes, rows used of rows in all, the solver's bound on the margin, limits computed.
    """

    A: FloatArray | None
    found: bool
    margin: float
    proved: bool
    status: str
    leaders: tuple[int, ...]
    followers: dict[int, int]
    only: bool
    tokens: AnyArray
    alpha: float | None = None
    conflict: tuple[Clash, ...] = ()
    cannot_lead: tuple[int, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def condition(self) -> float:
        """Largest eigenvalue of A over the smallest."""
        return np.nan if self.A is None else float(np.linalg.cond(self.A))

    @cached_property
    def can_lead(self) -> IntArray:
        """Tokens that lead for some A, whoever leads beside them (Theorem 5): found when first asked for."""
        return np.flatnonzero(can_lead(self.tokens))

    def to_json(self) -> str:
        """Everything above but the tokens, as JSON."""
        fields = {name: getattr(self, name) for name in ("found", "proved", "status", "leaders", "only", "alpha")}
        fields |= {"followers": {str(i): t for i, t in self.followers.items()}, "stats": self.stats}
        fields |= {"A": None if self.A is None else self.A.tolist(), "cannot_lead": self.cannot_lead}
        fields |= {"margin": finite(self.margin), "condition": finite(self.condition)}
        fields |= {"conflict": [vars(clash) for clash in self.conflict]}
        return json.dumps(fields, indent=2)


def finite(value: float) -> float | None:
    """A number that JSON has a word for, or None."""
    return float(value) if np.isfinite(value) else None


def listed(tokens: Iterable[int]) -> str:
    """ "token 3", or "tokens 1, 2 and 5"."""
    names = [str(i) for i in tokens]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    if len(names) == 1:
        return f"token {names[0]}"
    return f"tokens {', '.join(names[:-1])} and {names[-1]}"


def asked(leaders: tuple[int, ...], followers: dict[int, int], only: bool, at: str = "") -> str:
    """What was asked, as words: "tokens 0 and 5 lead, and no others; token 7 follows 0"."""
    verb = "leads" if len(leaders) == 1 else "lead"
    words = f"{listed(leaders)} {verb}{at}{', and no others' if only else ''}"
    if len(followers) > MOST_NAMED:
        return f"{words}; {len(followers)} tokens follow as asked"
    return "; ".join([words, *(f"token {i} follows {t}" for i, t in followers.items())])
