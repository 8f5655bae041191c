"""What was measured, as nouns and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One method: best seconds, peak memory, and how many times as fast ours is."""

    method: str
    seconds: float | None = None
    peak: float | None = None  # MB beyond what the process held before
    ratio: float | None = None  # its seconds / ours
    measured: str = ""  # what stands in place of a ratio
    target: str = ""
    reached: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The method, and what is to be said of it."""
        note = ", ".join(f"{value} {key}" if isinstance(value, int) else value for key, value in self.facts.items())
        return self.method + (f" ({note})" if note else "")

    @property
    def milliseconds(self) -> str:
        """Of the best run."""
        return "" if self.seconds is None else number(1e3 * self.seconds)

    @property
    def times(self) -> str:
        """How many times as fast ours is, or what stands in place of it."""
        return self.measured or ("" if self.ratio is None else number(self.ratio))

    @property
    def cells(self) -> list[str]:
        """Method, best ms, peak MB, times as fast, target, reached?"""
        peak = "" if self.peak is None else f"{self.peak:.0f}"
        return [self.label, self.milliseconds, peak, self.times, self.target, verdict({"": self.reached})]


COLUMNS = ("method", "best ms", "peak MB", "times as fast", "target", "reached?")


@dataclass(frozen=True)
class Result:
    """One case measured, or the sentence why there is no ratio."""

    name: str
    title: str
    date: str
    rows: list[Row]
    refused: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Result":
        """What `to_dict` wrote."""
        return cls(**values | {"rows": [Row(**row) for row in values["rows"]]})


def verdict(reached: Mapping[str, bool | None]) -> str:
    """Whether a target was reached: on every kind of machine, or on which of them."""
    words = {True: "reached", False: "missed", None: "not measured"}
    found = list(dict.fromkeys(reached.values()))
    if found == [None]:
        return ""
    if len(found) == 1:
        return words[found[0]]
    return ", ".join(f"{words[each]} with {kind}" for kind, each in reached.items())


def number(value: float) -> str:
    """Three digits, without an exponent: 0.0123, 1.23, 12,300."""
    if value == 0:
        return "0"
    digits = f"{float(f'{value:.3g}'):,.10f}".rstrip("0").rstrip(".")
    return digits if abs(value) >= 1e-9 else f"{value:.3g}"
