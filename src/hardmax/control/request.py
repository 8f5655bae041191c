"""What is wanted of a cloud: who shall lead, and who shall follow whom. Every check of it stands here."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._errors import InputError, ParameterError, ParameterTypeError
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.control.demands import Demands, scaled
from hardmax.kernels.classes import Classes


@dataclass(frozen=True, eq=False)
class Wish:
    """Leaders and followers, checked; equal tokens count as one, so the numbers below `given` are classes."""

    given: AnyArray  # (n, d) the tokens as they came
    classes: Classes
    rows: FloatArray  # (m, d) distinct tokens, the largest entry 1, so that no product overflows
    leaders: tuple[int, ...]
    followers: dict[int, int]

    @property
    def leading(self) -> IntArray:
        """Classes of the leaders."""
        return self.classes.labels[list(self.leaders)]

    @property
    def free(self) -> IntArray:
        """Classes that are neither leaders nor followers, and not zero: these may be told whom to follow."""
        taken = np.r_[self.leading, self.classes.labels[list(self.followers)]]
        nonzero = np.flatnonzero(self.rows.any(axis=1))
        return np.setdiff1d(nonzero, taken)

    def demands(self, who: IntArray | None = None, target: IntArray | None = None) -> Demands:
        """The demands on layer 0, with those of more classes if given."""
        labels = self.classes.labels
        followers = np.array(list(self.followers.items()), np.intp).reshape(-1, 2)
        more = np.zeros(0, np.intp) if who is None else who
        aims = np.zeros(0, np.intp) if target is None else target
        return Demands(
            self.classes.rows,
            self.rows,
            np.r_[self.leading, labels[followers[:, 0]], more],
            np.r_[self.leading, labels[followers[:, 1]], aims],
        )

    def token(self, number: int) -> int:
        """The token that stands for a class: the one that was named, else the first."""
        named = {int(self.classes.labels[i]): i for i in (*self.followers, *self.leaders)}
        return named.get(int(number), int(self.classes.first[number]))


def check_wish(tokens: Any, leaders: Any, followers: Any) -> Wish:
    """Return the wish, or say what is wrong with it."""
    array, _ = _checks.check_tokens(tokens)
    if array.ndim == 3:
        raise ParameterError(
            "tokens", "be one cloud of shape (n, d)", f"a batch of shape {array.shape}", "Choose A cloud by cloud."
        )
    chosen = _check_leaders(leaders, len(array))
    following = _check_followers(followers, chosen, len(array))
    classes = Classes.of(array)
    wish = Wish(array, classes, scaled(classes.rows), chosen, following)
    _check_zero(wish)
    _check_equal(wish)
    _check_parallel(wish)
    return wish


def _check_leaders(leaders: Any, n: int) -> tuple[int, ...]:
    values = [leaders] if isinstance(leaders, Integral) else np.atleast_1d(leaders).tolist()
    if isinstance(leaders, str | Mapping) or leaders is None:
        raise ParameterTypeError("leaders", "be token numbers, such as [0, 3]", f"{leaders!r}")
    chosen = tuple(_index(value, "leaders", n) for value in values)
    if not chosen:
        raise ParameterError("leaders", "name at least one token", "none", "Pass its number, such as [0].")
    twice = sorted({i for i in chosen if chosen.count(i) > 1})
    if twice:
        raise ParameterError("leaders", "name each token once", f"token {twice[0]} twice", "Drop one.")
    return chosen


def _check_followers(followers: Any, leaders: tuple[int, ...], n: int) -> dict[int, int]:
    if followers is None:
        return {}
    if not isinstance(followers, Mapping):
        raise ParameterTypeError(
            "followers", "map a token to the leader it shall follow, such as {5: 0}", f"{followers!r}"
        )
    found = {_index(i, "followers", n): _index(t, "followers", n) for i, t in followers.items()}
    for i, t in found.items():
        if i in leaders:
            raise InputError(f"A token must lead or follow. Got token {i} in `leaders` and in `followers`. Drop one.")
        if t not in leaders:
            raise ParameterError(
                "followers",
                "follow tokens in `leaders`",
                f"{i}: {t}, and {t} does not lead",
                f"Add {t} to `leaders`, or choose another target.",
            )
    return found


def _index(value: Any, name: str, n: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterTypeError(name, "hold whole numbers, counted from 0", f"{value!r}")
    if not 0 <= int(value) < n:
        raise ParameterError(name, f"be tokens between 0 and {n - 1}", int(value), "The first token is 0.")
    return int(value)


def _check_zero(wish: Wish) -> None:
    if len(wish.classes) == 1:  # nobody else is there to be seen
        return
    for i in (*wish.leaders, *wish.followers):
        if not wish.rows[wish.classes.labels[i]].any():
            role = "lead" if i in wish.leaders else "follow one token"
            raise InputError(
                f"Token {i} must not be zero to {role}: all its products are 0, so it sees every token alike. "
                "Got a zero row. Choose another token, or shift the cloud."
            )


def _check_equal(wish: Wish) -> None:
    seen: dict[int, int] = {}
    for i in wish.leaders:
        other = seen.setdefault(int(wish.classes.labels[i]), i)
        if other != i:
            raise ParameterError(
                "leaders",
                "be distinct tokens",
                f"tokens {other} and {i}, which are equal: they lead as one or not at all",
                "Name one of them.",
            )


def _check_parallel(wish: Wish) -> None:
    """Tokens on one ray have the same maximisers for every A, so they cannot have different targets."""
    targets = {i: i for i in wish.leaders} | wish.followers
    seen: dict[tuple[Fraction, ...], int] = {}
    for i in sorted(targets):
        other = seen.setdefault(_ray(wish.given[i]), i)
        if wish.classes.labels[targets[i]] != wish.classes.labels[targets[other]]:
            raise InputError(_contradiction(other, i, targets))


def _ray(token: AnyArray) -> tuple[Fraction, ...]:
    """The same for all positive multiples: exact entries, divided by the size of the first that is not 0."""
    exact = [Fraction(x) for x in token.tolist()]
    size = abs(next((x for x in exact if x), Fraction(1)))
    return tuple(x / size for x in exact)


def _contradiction(i: int, j: int, targets: dict[int, int]) -> str:
    alike = f"Tokens {i} and {j} must have one target: one is a positive multiple of the other, so for every A they see"
    if targets[i] == i and targets[j] == j:
        return f"{alike} the same token, the longer of them or another. Got both as leaders. Drop the shorter one."
    return f"{alike} the same token. Got the targets {targets[i]} and {targets[j]}. Make them equal."
