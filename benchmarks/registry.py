"""What a case and its result are.

A case is a list of methods that answer the same question: ours first, then peers. A
ratio is formed only if the answers agree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

QUICK_DIVISOR = 20  # by which --quick divides the number of tokens
Answer = dict[str, Any]  # arrays and numbers, by name
Progress = Callable[[str], None]


def wall_seconds(seconds: float, result: Any) -> float:
    """Return the seconds that the clock shows."""
    return seconds


@dataclass(frozen=True)
class Target:
    """A ratio to reach, or an amount not to exceed."""

    value: float
    unit: str = "times"

    def __str__(self) -> str:
        return (
            f"{self.value:g} times"
            if self.unit == "times"
            else f"at most {self.value:g} {self.unit}".rstrip()
        )

    def is_reached(self, measured: float) -> bool:
        return (
            measured >= self.value if self.unit == "times" else measured <= self.value
        )


@dataclass(frozen=True)
class Method:
    """One row of a case: how to prepare it, what is timed, and how to read the answer."""

    name: str
    prepare: Callable[
        [], Callable[[], Any]
    ]  # imports, data and small runs; the function it returns is timed
    answer: Callable[[Any], Answer]  # read from the result after timing
    target: Target | None = None
    package: str = ""  # required beyond hardmax
    slow: bool = False  # measured with --slow only
    alone: bool = False  # a row without a ratio, such as ours at another size
    compared: bool = True  # False for another model, whose answer differs
    seconds: Callable[[float, Any], float] = (
        wall_seconds  # from wall seconds and result
    )
    peak: Callable[[Any], float | None] | None = (
        None  # MB, read from the result if another process did the work
    )
    facts: Callable[[Any], dict[str, Any]] = (
        lambda result: {}
    )  # such as the kernel that ran


@dataclass(frozen=True)
class Row:
    """The measurement of one method."""

    method: str
    seconds: float | None = None
    peak: float | None = None  # MB beyond the size of the process before the run
    ratio: float | None = None  # its seconds / ours
    measured: str = ""  # text shown in place of a ratio
    target: str = ""
    reached: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        note = ", ".join(
            f"{value} {key}" if isinstance(value, int) else value
            for key, value in self.facts.items()
        )
        return self.method + (f" ({note})" if note else "")


@dataclass(frozen=True)
class Result:
    """A measured case, or the reason why there is no ratio."""

    name: str
    title: str
    date: str
    rows: list[Row]
    refused: str = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Result":
        return cls(**values | {"rows": [Row(**row) for row in values["rows"]]})


@dataclass(frozen=True)
class Case:
    """A question, the methods that answer it (ours first), and a check that an answer
    agrees with ours.
    """

    name: str
    title: str
    methods: Callable[[bool], list[Method]]  # given whether sizes are small
    agrees: Callable[[Answer, Answer], bool]
    why: str  # the reason for refusing an answer that does not agree
    finish: Callable[[list[Row]], list[Row]] = (
        lambda rows: []
    )  # more rows, computed from the measured ones
    in_one_process: bool = False  # with fewer turns


def size(n: int, quick: bool) -> int:
    """Return the number of tokens, smaller with --quick."""
    return max(n // QUICK_DIVISOR, 8) if quick else n


def equal(ours: Answer, theirs: Answer) -> bool:
    """Return True if all arrays of two answers are equal."""
    return ours.keys() == theirs.keys() and all(
        np.array_equal(ours[key], theirs[key]) for key in ours
    )


def growth(sizes: list[int], seconds: list[float]) -> float:
    """Return the exponent p of the fit seconds ~ n**p."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
