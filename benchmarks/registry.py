"""What a case is: methods that must agree on the answer before a ratio is printed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.results import Row

SMALLER = 20  # by how much --quick divides the number of tokens
Answer = dict[str, Any]  # arrays and numbers, by name


def wall(seconds: float, result: Any) -> float:
    """Seconds as the clock has them."""
    return seconds


def _no_facts(result: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Target:
    """What was aimed at: so many times as fast, or at most so many seconds."""

    value: float
    unit: str = "times"

    def __str__(self) -> str:
        return f"{self.value:g} times" if self.unit == "times" else f"at most {self.value:g} {self.unit}".rstrip()

    def reached(self, measured: float) -> bool:
        """Whether a measured ratio is large enough, or a measured amount small enough."""
        return measured >= self.value if self.unit == "times" else measured <= self.value


@dataclass(frozen=True)
class Method:
    """One row of a table: how to prepare it, what is timed, and what it answers."""

    name: str
    prepare: Callable[[], Callable[[], Any]]  # imports, data in its own type, small runs; what it returns is timed
    answer: Callable[[Any], Answer]  # read off the result after the clock has stopped
    target: Target | None = None
    package: str = ""  # what it needs beyond hardmax
    slow: bool = False  # measured with --slow alone
    alone: bool = False  # a row without a ratio, such as ours at another size
    compared: bool = True  # False where another model is timed, whose answer is meant to differ
    seconds: Callable[[float, Any], float] = wall  # from wall seconds and result, where they are not the same
    peak: Callable[[Any], float | None] | None = None  # MB, read off the result where another process did the work
    facts: Callable[[Any], dict[str, Any]] = field(default=_no_facts)  # such as which kernel ran


@dataclass(frozen=True)
class Case:
    """A question, the methods that answer it (the first is ours, which the others are compared with), and a check."""

    name: str
    title: str
    methods: Callable[[bool], list[Method]]  # given whether sizes are small
    agrees: Callable[[Answer, Answer], bool]  # whether an answer is as good as ours
    why: str  # what is wrong where it is not
    finish: Callable[[list[Row]], list[Row]] = lambda rows: []  # more rows, from those measured


def size(n: int, quick: bool) -> int:
    """How many tokens there are."""
    return max(n // SMALLER, 8) if quick else n


def equal(ours: Answer, theirs: Answer) -> bool:
    """Whether all arrays of two answers are the same."""
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[key], theirs[key]) for key in ours)
