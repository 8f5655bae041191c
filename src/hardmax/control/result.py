"""What control returns: the matrix, whether it was found, and the sentence that says so."""

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.control.vertices import can_lead


@dataclass(frozen=True)
class Clash:
    """One product that would have to be positive: `token` sees `target` before `rival`.

    Attributes
    ----------
    token : int
        Who looks.
    target : int
        Whom it is to follow.
    rival : int
        Whom it would have to leave behind.
    weight : float
        Its Farkas weight: with these weights the products of a conflict, each divided by the lengths of the two vectors
        in it, sum to something that is never positive.

    Examples
    --------
    >>> import hardmax as hm
    >>> result = hm.control.choose_A([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]], leaders=[0])
    >>> result.found, result.proved, result.cannot_lead
    (False, True, (0,))
    >>> clash = result.conflict[0]
    >>> clash.token, clash.target, clash.rival
    (0, 0, 1)
    """

    token: int
    target: int
    rival: int
    weight: float

    def __str__(self) -> str:
        wanted = "lead" if self.token == self.target else f"follow {self.target}"
        return f"token {self.token} would {wanted}, not follow {self.rival} (weight {self.weight:.3g})"


@dataclass(frozen=True, eq=False, repr=False)
class ControlResult:
    """The answer of `choose_A` and `steer`. It prints as a sentence.

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
    leaders : tuple of int
        Who was asked to lead.
    followers : dict of int to int
        Who was asked to follow whom.
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

    Examples
    --------
    >>> import hardmax as hm
    >>> result = hm.control.choose_A([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], leaders=[1])
    >>> result.found, result.A.shape, bool(result.margin > 0)
    (True, (2, 2), True)
    >>> result.can_lead
    array([0, 1, 2])
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
        fields = asdict(self) | {"A": None if self.A is None else self.A.tolist()}
        del fields["tokens"]
        for name in ("margin", "condition"):  # JSON has no word for infinity
            fields[name] = float(getattr(self, name)) if np.isfinite(getattr(self, name)) else None
        return json.dumps(fields, indent=2)
