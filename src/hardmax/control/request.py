"""What is asked of a cloud: who shall lead, and who shall follow whom. Every check of it stands here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError, ParameterTypeError
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.control.demands import Demands, check_token_set, scaled
from hardmax.control.result import ControlResult
from hardmax.search.sets import Classes

MOST_NAMED = 8  # tokens that a sentence lists
NOBODY = np.zeros(0, np.intp)


@dataclass(frozen=True, eq=False)
class Request:
    """Leaders and followers, checked; equal tokens count as one, so `leading` and `free` number classes."""

    given: AnyArray  # (n, d) the tokens as they came
    classes: Classes
    tokens: FloatArray  # (m, d) distinct tokens, the largest entry 1, so that no product overflows
    leaders: tuple[int, ...]
    followers: dict[int, int]

    @property
    def leading(self) -> IntArray:
        return self.classes.labels[list(self.leaders)]

    @property
    def free(self) -> IntArray:
        """Classes that are neither leaders nor followers, and not zero: whom they follow may be chosen."""
        taken = np.r_[self.leading, self.classes.labels[list(self.followers)]]
        return np.setdiff1d(np.flatnonzero(self.tokens.any(axis=1)), taken)

    def demands(self, more: IntArray = NOBODY, targets: IntArray = NOBODY) -> Demands:
        """The demands on layer 0, with targets for more classes if given."""
        following, followed = (self.classes.labels[list(who)] for who in (self.followers, self.followers.values()))
        choosers, chosen = np.r_[self.leading, following, more], np.r_[self.leading, followed, targets]
        return Demands(self.classes.rows, self.tokens, choosers, chosen)

    def token(self, number: int) -> int:
        """The token that stands for a class: the one that was named, else the first."""
        named = {int(self.classes.labels[i]): i for i in (*self.followers, *self.leaders)}
        return named.get(int(number), int(self.classes.first[number]))

    def words(self, only: bool, at: str = "") -> str:
        """What is asked, such as "tokens 0 and 5 lead, and no others; token 7 follows 0"."""
        verb = "leads" if len(self.leaders) == 1 else "lead"
        words = f"{listed(self.leaders)} {verb}{at}{', and no others' if only else ''}"
        if len(self.followers) > MOST_NAMED:
            return f"{words}; {len(self.followers)} tokens follow as asked"
        return "; ".join([words, *(f"token {i} follows {t}" for i, t in self.followers.items())])

    def result(self, **fields: Any) -> ControlResult:
        """The answer to this request: not found, unless the fields say so."""
        asked = {"leaders": self.leaders, "followers": self.followers, "tokens": self.given}
        return ControlResult(**{"A": None, "found": False, "proved": False} | asked | fields)


def listed(tokens: Iterable[int]) -> str:
    """ "token 3", or "tokens 1, 2 and 5"."""
    names = [str(i) for i in tokens]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return f"token {names[0]}" if len(names) == 1 else f"tokens {', '.join(names[:-1])} and {names[-1]}"


def check_request(tokens: Any, leaders: Any, followers: Any) -> Request:
    """Return the request, or say what is wrong with it."""
    array = check_token_set(tokens, "Choose A cloud by cloud.")
    leading = _check_leaders(leaders, len(array))
    following = _check_followers(followers, leading, len(array))
    classes = Classes.of(array)
    request = Request(array, classes, scaled(classes.rows), leading, following)
    _check_not_zero(request)
    _check_distinct(request)
    _check_rays(request)
    return request


def _check_leaders(leaders: Any, n: int) -> tuple[int, ...]:
    if isinstance(leaders, str | Mapping) or leaders is None:
        raise ParameterTypeError("leaders", "be token numbers, such as [0, 3]", f"{leaders!r}")
    values = [leaders] if isinstance(leaders, Integral) else np.atleast_1d(leaders).tolist()
    numbers = tuple(_index(value, "leaders", n) for value in values)
    if not numbers:
        raise ParameterError("leaders", "name at least one token", "none", "Pass its number, such as [0].")
    twice = sorted({i for i in numbers if numbers.count(i) > 1})
    if twice:
        raise ParameterError("leaders", "name each token once", f"token {twice[0]} twice", "Drop one.")
    return numbers


def _check_followers(followers: Any, leaders: tuple[int, ...], n: int) -> dict[int, int]:
    if followers is None:
        return {}
    if not isinstance(followers, Mapping):
        must = "map a token to the leader it shall follow, such as {5: 0}"
        raise ParameterTypeError("followers", must, f"{followers!r}")
    found = {_index(i, "followers", n): _index(t, "followers", n) for i, t in followers.items()}
    for i, t in found.items():
        if i in leaders:
            must = "name different tokens, as a token leads or follows"
            raise ParameterError(("leaders", "followers"), must, f"token {i} in both", "Drop one.")
        if t not in leaders:
            got, advice = f"{i}: {t}, and {t} does not lead", f"Add {t} to `leaders`, or choose another target."
            raise ParameterError("followers", "follow tokens in `leaders`", got, advice)
    return found


def _index(value: Any, name: str, n: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterTypeError(name, "hold whole numbers, counted from 0", f"{value!r}")
    if not 0 <= int(value) < n:
        raise ParameterError(name, f"be tokens between 0 and {n - 1}", int(value), "The first token is 0.")
    return int(value)


def _check_not_zero(request: Request) -> None:
    if len(request.classes) == 1:  # nobody else is there to be seen
        return
    for i in (*request.leaders, *request.followers):
        if not request.tokens[request.classes.labels[i]].any():
            role = "lead" if i in request.leaders else "follow one token"
            raise InputError(
                f"Token {i} must not be zero to {role}: all its products are 0, so it sees every token alike. "
                "Got a zero row. Choose another token, or shift the cloud."
            )


def _check_distinct(request: Request) -> None:
    seen: dict[int, int] = {}
    for i in request.leaders:
        other = seen.setdefault(int(request.classes.labels[i]), i)
        if other != i:
            got = f"tokens {other} and {i}, which are equal: they lead as one or not at all"
            raise ParameterError("leaders", "be distinct tokens", got, "Name one of them.")


def _check_rays(request: Request) -> None:
    """Tokens on one ray have the same maximisers for every A, so they cannot have different targets."""
    targets = {i: i for i in request.leaders} | request.followers
    seen: dict[tuple[Fraction, ...], int] = {}
    for j in sorted(targets):
        i = seen.setdefault(_ray(request.given[j]), j)
        if request.classes.labels[targets[j]] != request.classes.labels[targets[i]]:
            alike = "one is a positive multiple of the other, so for every A they see the same token"
            got = f". Got the targets {targets[i]} and {targets[j]}. Make them equal."
            if targets[i] == i and targets[j] == j:
                got = ", the longer of them or another. Got both as leaders. Drop the shorter one."
            raise InputError(f"Tokens {i} and {j} must have one target: {alike}{got}")


def _ray(token: AnyArray) -> tuple[Fraction, ...]:
    """The same for all positive multiples: exact entries, divided by the size of the first that is not 0."""
    exact = [Fraction(x) for x in token.tolist()]
    size = abs(next((x for x in exact if x), Fraction(1)))
    return tuple(x / size for x in exact)
