"""The request (which tokens shall lead, which shall follow which), its checks, and the
result that answers it.

The vertices of the hull of all tokens and 0 can lead (Theorem 5, docs/control.md). Each
linear programme has the vertices known so far as its rows, not all tokens, and a token
that it cannot rule out gives a new vertex (Clarkson, "More output-sensitive geometric
algorithms", 1994).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from scipy.optimize import linprog

from hardmax._arrays import unit_rows
from hardmax._errors import InputError, ParameterError, ParameterTypeError
from hardmax._exact import to_fraction
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax._validation import (
    as_array,
    check_progress,
    check_tokens,
    is_time,
    shortened,
)
from hardmax.control.programme import Demands
from hardmax.exact.argmax import Scaled, argmax_sets
from hardmax.sets import Classes
from hardmax.trajectories.storage import to_json

MAX_NAMED = 8  # tokens that a sentence lists
# the smallest ⟨p, v⟩ / |v| that counts as positive: programmes are solved to about 1e-9
FORWARD_TOL = 1e-8
NO_CLASSES = np.zeros(0, np.intp)


@dataclass(frozen=True)
class Clash:
    """One inner product that would have to be positive: `token` attends to `target`
    rather than `rival`.

    Attributes
    ----------
    token, target, rival : int
        The token that makes the demand, the token that it shall follow, and the one
        that it must not follow.
    weight : float
        Its Farkas weight: with these weights the products of a conflict, each divided
        by the lengths of the two vectors in it, have a sum that is never positive.

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
        return (
            f"token {self.token} would {wanted}, not follow {self.rival} (weight"
            f" {self.weight:.3g})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ControlResult:
    """The answer of `choose_A` and `steer`. It prints as a sentence.

    Attributes
    ----------
    A : (d, d) array or None
        Symmetric positive definite with trace d; None if none was found.
    found : bool
        True if the simulation with this A meets the request, by exact sets.
    margin : float
        The smallest ⟨A z_i, z_t - z_j⟩ / (|z_i| |z_t - z_j|) over the demands on layer
        0, computed in NumPy; if nothing was found, the largest one that the solver
        found.
    proved : bool
        True if nothing was found because nothing exists, with a proof.
    status : str
        All this as a sentence.
    leaders, followers, only : tuple of int, dict of int to int, bool
        The request; `only` is True if no other token was to lead.
    alpha : float or None
        The step size that `steer` found together with A.
    conflict : tuple of Clash
        The products that cannot all be positive, with their Farkas weights, the largest
        first.
    cannot_lead : tuple of int
        Those of `leaders` that lead for no A at all (Theorem 5).
    tokens : (n, d) array
        The tokens.
    stats : dict
        Rounds of cutting planes, rows used of rows in all, the solver's bound on the
        margin, limits computed.

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
        """Tokens that lead for some A, whichever tokens lead beside them (Theorem 5):
        computed on first access.
        """
        return np.flatnonzero(can_lead(self.tokens))

    def to_json(self) -> str:
        """Return everything above but the tokens as JSON."""
        fields = asdict(self) | {"condition": self.condition}
        del fields["tokens"]
        return to_json("hardmax-control-1", fields)


@dataclass(frozen=True, eq=False)
class Request:
    """Checked leaders and followers. Equal tokens are one class; `leading` and `free`
    hold class indices.
    """

    given: AnyArray  # (n, d) the tokens as given
    classes: Classes
    tokens: FloatArray  # (m, d) distinct tokens, scaled by `check_token_set`
    leaders: tuple[int, ...]
    followers: dict[int, int]

    @property
    def leading(self) -> IntArray:
        return self.classes.labels[list(self.leaders)]

    @property
    def free(self) -> IntArray:
        """Classes without a role that are not zero: their targets may be chosen."""
        taken = np.r_[self.leading, self.classes.labels[list(self.followers)]]
        return np.setdiff1d(np.flatnonzero(self.tokens.any(axis=1)), taken)

    def demands(
        self, more: IntArray = NO_CLASSES, targets: IntArray = NO_CLASSES
    ) -> Demands:
        """Return the demands on layer 0, with targets for more classes if given."""
        following, followed = (
            self.classes.labels[list(who)]
            for who in (self.followers, self.followers.values())
        )
        choosers, chosen = (
            np.r_[self.leading, following, more],
            np.r_[self.leading, followed, targets],
        )
        return Demands(self.classes.rows, self.tokens, choosers, chosen)

    def name_token(self, label: int) -> int:
        """Return the token that stands for a class: a requested one, else the first."""
        requested = {
            int(self.classes.labels[i]): i for i in (*self.followers, *self.leaders)
        }
        return requested.get(int(label), int(self.classes.first[label]))

    def describe(self, only: bool, at: str = "") -> str:
        """Return the request in words, such as "tokens 0 and 5 lead, and no others;
        token 7 follows 0".
        """
        verb = "leads" if len(self.leaders) == 1 else "lead"
        words = (
            f"{list_tokens(self.leaders)} {verb}{at}{', and no others' if only else ''}"
        )
        if len(self.followers) > MAX_NAMED:
            return f"{words}; {len(self.followers)} tokens follow as requested"
        return "; ".join(
            [words, *(f"token {i} follows {t}" for i, t in self.followers.items())]
        )

    def answer(self, **fields: Any) -> ControlResult:
        """Return the result with these fields; by default nothing is found."""
        request = {
            "leaders": self.leaders,
            "followers": self.followers,
            "tokens": self.given,
        }
        return ControlResult(
            **{"A": None, "found": False, "proved": False} | request | fields
        )


def check_token_set(tokens: Array, advice: str) -> tuple[AnyArray, Classes, FloatArray]:
    """Return one token set, its classes of equal tokens, and these as floats of at most
    1: no product overflows.
    """
    array, _ = check_tokens(tokens)
    if array.ndim == 3:
        raise ParameterError(
            "tokens",
            "be one token set of shape (n, d)",
            f"a batch of shape {array.shape}",
            advice,
        )
    classes = Classes.of(array)
    floats = Scaled.of(classes.rows).values  # scaled by a power of two
    lost = (floats == 0).all(axis=1) != (classes.rows == 0).all(axis=1)
    if lost.any() or len(np.unique(floats, axis=0)) < len(floats):
        must = (
            "differ from each other and from 0 when they are divided by the largest"
            " entry and rounded to floats"
        )
        advice = (
            "Leave out tokens that are equal but for rounding, or those that are tiny."
        )
        raise ParameterError("tokens", must, "some that do not", advice)
    return array, classes, floats


def can_lead(
    tokens: Any, *, progress: Callable[[int, int], None] | None = None
) -> BoolArray:
    """Find the tokens that lead at layer 0 for some symmetric positive definite A.

    Parameters
    ----------
    tokens : (n, d) array
    progress : callable, optional
        Called with (tokens tested, tokens in all).

    Returns
    -------
    (n,) bool array
        Equal tokens have equal answers: they lead as one, and if all tokens are equal
        they do. A token whose distance from the hull of the others is below 1e-8 of its
        distance to them counts as inside.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.control.can_lead([[1, 1], [1, -1], [-1, 0], [0.9, 0], [0, 0]])
    array([ True,  True,  True, False, False])

    Theorem 5 of this project (docs/control.md).
    """
    check_progress(progress)
    array, classes, floats = check_token_set(tokens, "Pass one token set at a time.")
    if len(classes) == 1:
        return np.ones(len(array), bool)
    hull, answers = Vertices(floats), list[bool]()
    for i in range(len(classes)):
        answers.append(hull.has(i))
        if progress:
            progress(i + 1, len(classes))
    return np.array(answers)[classes.labels]


class Vertices:
    """The vertices of conv(tokens and 0), found one by one on demand."""

    def __init__(self, tokens: FloatArray) -> None:
        self.tokens = tokens  # (m, d) distinct
        sets = argmax_sets(
            tokens
        )  # leaders for A = I are vertices; the longest token is one of them
        self.known = {
            int(i)
            for i in np.flatnonzero(sets.sizes == 1)
            if sets[int(i)][0] == i and tokens[i].any()
        }

    def has(self, i: int) -> bool:
        """Return whether token i is a vertex."""
        if not self.tokens[i].any():
            return False
        while i not in self.known:
            ahead = np.vstack(
                [self.tokens[i], self.tokens[i] - self.tokens[sorted(self.known)]]
            )
            p = find_direction(
                ahead
            )  # in which z_i is ahead of 0 and of every known vertex
            if (
                p is None or (vertex := self._farthest(p)) in self.known
            ):  # none, or by rounding one that is known
                return False
            self.known.add(vertex)
        return True

    def _farthest(self, p: FloatArray) -> int:
        """Return the token farthest along p; of several on one face, a vertex of that
        face.
        """
        values = self.tokens @ p
        face = np.flatnonzero(
            values >= values.max() - 1e-12 * (np.abs(values).max() or 1.0)
        )
        return int(face[np.lexsort(self.tokens[face].T)[-1]])


def find_direction(vectors: FloatArray) -> FloatArray | None:
    """Find the p, |p| <= 1 in each coordinate, with the largest min ⟨p, v⟩ / |v|; None
    if that is not positive.
    """
    units = unit_rows(vectors)
    d = units.shape[1]
    found = linprog(  # maximise s such that <p, unit> >= s for all
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-units, np.ones(len(units))]),
        b_ub=np.zeros(len(units)),
        bounds=[(-1, 1)] * d + [(0, None)],
    )
    return (
        None
        if found.x is None or found.x[d] <= FORWARD_TOL
        else np.asarray(found.x[:d])
    )


def list_tokens(tokens: Iterable[int]) -> str:
    """Return "token 3", or "tokens 1, 2 and 5"."""
    names = [str(i) for i in tokens]
    if len(names) > MAX_NAMED:
        names = [*names[:MAX_NAMED], f"{len(names) - MAX_NAMED} more"]
    return (
        f"token {names[0]}"
        if len(names) == 1
        else f"tokens {', '.join(names[:-1])} and {names[-1]}"
    )


def check_request(tokens: Any, leaders: Any, followers: Any) -> Request:
    """Validate the arguments of `choose_A` and `steer`."""
    array, classes, floats = check_token_set(
        tokens, "Choose A for one token set at a time."
    )
    leading, following = _check_roles(leaders, followers, len(array))
    request = Request(array, classes, floats, leading, following)
    for i in (*leading, *following) if len(classes) > 1 else ():
        if not request.tokens[classes.labels[i]].any():
            role = "lead" if i in leading else "follow one token"
            raise InputError(
                f"Token {i} must not be zero to {role}: all its products are 0, so it"
                " attends to every token. Got a zero row. Choose another token, or"
                " shift all tokens."
            )
    labels, leader_of, seen = (
        classes.labels,
        dict[int, int](),
        dict[tuple[Fraction, ...], int](),
    )
    for i in leading:
        other = leader_of.setdefault(int(labels[i]), i)
        if other != i:
            got = (
                f"tokens {other} and {i}, which are equal: they lead as one or not"
                " at all"
            )
            raise ParameterError(
                "leaders", "be distinct tokens", got, "Name one of them."
            )
    targets = {i: i for i in leading} | following
    for j in sorted(
        targets
        # tokens on one ray have the same maximisers for every A, so they need one
        # target
    ):
        exact = [to_fraction(x) for x in array[j].tolist()]
        size = abs(next((x for x in exact if x), Fraction(1)))
        i = seen.setdefault(
            tuple(x / size for x in exact), j
        )  # positive multiples have the same key
        if labels[targets[j]] != labels[targets[i]]:
            alike = (
                "one is a positive multiple of the other, so for every A they see the"
                " same token"
            )
            got = f". Got the targets {targets[i]} and {targets[j]}. Make them equal."
            if targets[i] == i and targets[j] == j:
                got = (
                    ", the longer of them or another. Got both as leaders. Drop the"
                    " shorter one."
                )
            raise InputError(f"Tokens {i} and {j} must have one target: {alike}{got}")
    return request


def _check_roles(
    leaders: Any, followers: Any, n: int
) -> tuple[tuple[int, ...], dict[int, int]]:
    if isinstance(leaders, str | Mapping) or leaders is None:
        raise ParameterTypeError(
            "leaders", "be token numbers, such as [0, 3]", shortened(leaders)
        )
    must = "be token numbers, such as [0, 3]"
    given = as_array(leaders, "leaders", must, "")
    if is_time(given):
        raise ParameterTypeError("leaders", must, shortened(leaders))
    listed = np.atleast_1d(given).tolist()
    numbers = tuple(_check_index(value, "leaders", n) for value in listed)
    if not numbers:
        raise ParameterError(
            "leaders",
            "name at least one token",
            "none",
            "Pass its number, such as [0].",
        )
    twice = sorted({i for i in numbers if numbers.count(i) > 1})
    if twice:
        raise ParameterError(
            "leaders", "name each token once", f"token {twice[0]} twice", "Drop one."
        )
    followers = {} if followers is None else followers
    if not isinstance(followers, Mapping):
        must = "map a token to the leader it shall follow, such as {5: 0}"
        raise ParameterTypeError("followers", must, shortened(followers))
    found = {
        _check_index(i, "followers", n): _check_index(t, "followers", n)
        for i, t in followers.items()
    }
    for i, t in found.items():
        if i in numbers:
            must = "name different tokens, as a token leads or follows"
            raise ParameterError(
                ("leaders", "followers"), must, f"token {i} in both", "Drop one."
            )
        if t not in numbers:
            got, advice = (
                f"{i}: {t}, and {t} does not lead",
                f"Add {t} to `leaders`, or choose another target.",
            )
            raise ParameterError("followers", "follow tokens in `leaders`", got, advice)
    return numbers, found


def _check_index(value: Any, name: str, n: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool | np.timedelta64):
        must = "hold integers, counted from 0"
        raise ParameterTypeError(name, must, shortened(value))
    if not 0 <= int(value) < n:
        raise ParameterError(
            name,
            f"be tokens between 0 and {n - 1}",
            int(value),
            "The first token is 0.",
        )
    return int(value)
