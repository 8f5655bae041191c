"""Columns of a table beside its texts: a linear term for each number, and one for each
category.

A number is standardised with the mean and the deviation of the training rows, and a
category has one feature, 1 where it occurs. A missing value and a category that no
training row has contribute 0.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import FloatArray
from hardmax._validation import is_missing

MIN_CATEGORIES, MAX_CATEGORY_SHARE = (
    20,
    0.5,
)  # more categories than both, the second times the rows, are refused
MAX_SHOWN = 5  # categories in a sentence


class RowText(str):
    """A text with the values of further columns of its row."""

    values: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Return a key of the row."""
        return f"{self}\0{sorted(self.values.items())!r}"

    @classmethod
    def of(cls, text: str, values: Mapping[str, Any]) -> "RowText":
        made = cls(text)
        made.values = values
        return made


def replace_text(row: str, text: str) -> str:
    """Return a text with the values of the columns of `row`, if it has any."""
    return RowText.of(text, row.values) if isinstance(row, RowText) else text


def join_columns(texts: Sequence[Any], frame: Any, names: Collection[str]) -> list[str]:
    """Return texts with the values of columns of a table; a missing text is then an
    empty one.
    """
    if not names:
        return list(texts)
    known = [str(name) for name in frame.columns]
    for name in names:
        if known.count(name) != 1:
            advice = f"{did_you_mean(name, known)} The columns are: {', '.join(known)}."
            got = f"{name!r}, which names {known.count(name)}"
            raise ParameterError("columns", "name columns of the table", got, advice)
    rows = zip(
        *(frame.iloc[:, known.index(name)].tolist() for name in names), strict=True
    )
    found = (dict(zip(names, row, strict=True)) for row in rows)
    return [
        RowText.of(text if isinstance(text, str) else "", row)
        for text, row in zip(texts, found, strict=True)
    ]


def _to_number(value: Any) -> float | None:
    """Return a number, also if it is written as one; None for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | Real):
        return None
    try:
        return float(value)
    except ValueError:
        return None


MAX_FLOAT = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of categories."""

    name: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()  # none for numbers
    low: float = -MAX_FLOAT  # range of the training rows, of numbers
    high: float = MAX_FLOAT

    @classmethod
    def of(cls, name: str, values: Sequence[Any]) -> "Column":
        """Return the column of training rows: numbers if all its values are, else
        categories.
        """
        known = [value for value in values if not is_missing(value)]
        if not known:
            raise ParameterError(
                "columns",
                "name columns with values",
                f"{name!r}, which has none",
                "Leave it out.",
            )
        numbers = [number for number in map(_to_number, known) if number is not None]
        if len(numbers) == len(known):
            column = cls(
                name,
                float(np.mean(numbers)),
                float(np.std(numbers)) or 1.0,
                low=float(min(numbers)),
                high=float(max(numbers)),
            )
            if not np.isfinite([column.mean, column.scale]).all():
                raise ParameterError(
                    "columns",
                    "hold finite numbers",
                    f"others in {name!r}",
                    "Leave these rows out.",
                )
            return column
        wrong = next(
            (
                value
                for value in known
                if not isinstance(value, str | bool | np.bool_ | Real)
            ),
            None,
        )
        categories = sorted({str(value).strip() for value in known})
        if wrong is not None or len(categories) > max(
            MIN_CATEGORIES, MAX_CATEGORY_SHARE * len(known)
        ):
            must = "hold numbers, or categories that occur in several rows"
            got = (
                type(wrong).__name__
                if wrong is not None
                else f"{len(categories)} values"
            )
            raise ParameterError(
                "columns",
                must,
                f"{got} in {name!r}",
                "Convert that column, or leave it out.",
            )
        return cls(name, categories=tuple(categories))

    @property
    def width(self) -> int:
        return len(self.categories) or 1

    def features(self, values: Sequence[Any]) -> FloatArray:
        """Return (rows, width) features."""
        result = np.zeros((len(values), self.width))
        place = {name: i for i, name in enumerate(self.categories)}
        for row, value in enumerate(values):
            if is_missing(value):
                continue
            if self.categories:
                name = str(value).strip()
                if name in place:
                    result[row, place[name]] = 1
                else:
                    self._check_category(value, row)
                continue
            number = _to_number(value)
            if number is None or not np.isfinite(number):
                got = f"{str(value)[:40]!r} in row {row + 1}"
                raise ParameterError(
                    "columns",
                    f"hold finite numbers in {self.name!r}, as in training",
                    got,
                )
            result[row] = (number - self.mean) / self.scale
        return result

    def _check_category(self, value: Any, row: int) -> None:
        """Raise an error for a number or a boolean where training rows had texts."""
        if isinstance(value, str):
            return  # a category that no training row has
        is_number = _to_number(value) is not None
        if is_number and any(_to_number(name) is not None for name in self.categories):
            return  # the training rows had numbers beside texts
        names = ", ".join(map(repr, self.categories[:MAX_SHOWN]))
        raise ParameterError(
            "columns",
            f"hold categories in {self.name!r}, as in training, such as {names}",
            f"{type(value).__name__} {value!r} in row {row + 1}",
            "Convert that column as for training.",
        )

    def find_note(self, values: Sequence[Any]) -> str:
        """Return a sentence about values unlike those of the training rows, or nothing."""
        known = [(i, x) for i, x in enumerate(values, 1) if not is_missing(x)]
        if self.categories:
            texts = [x.strip() for _, x in known if isinstance(x, str)]
            has_others = len(texts) < len(known)  # which `features` refuses, or knows
            if len(known) < 2 or has_others or set(texts) & set(self.categories):
                return ""
            names = ", ".join(map(repr, self.categories[:MAX_SHOWN]))
            return (
                f"No value of column {self.name!r} is a category of the training rows,"
                f" such as {names}: it has no effect."
            )
        # Linear in the number, so that a value in another unit decides alone.
        width = max(self.high - self.low, self.scale)
        numbers = [
            (i, number) for i, x in known if (number := _to_number(x)) is not None
        ]
        far = [(i, x) for i, x in numbers if max(x - self.high, self.low - x) > width]
        if not far:
            return ""
        row, number = far[0]
        return (
            f"Column {self.name!r} is far outside of its range in training,"
            f" {self.low:g} to {self.high:g}, in {len(far)} of {len(values)} rows:"
            f" {number:g} in row {row}. Its contribution grows with the number."
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a model with their weights."""

    every: tuple[Column, ...] = ()
    linear: FloatArray = field(
        default_factory=lambda: np.zeros((1, 0))
    )  # (outputs, features)

    def __len__(self) -> int:
        return len(self.every)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.every]

    @classmethod
    def of(cls, names: Collection[str], texts: Sequence[str]) -> "Columns":
        """Return columns of training rows, without weights."""
        return cls(tuple(Column.of(name, _list_values(texts, name)) for name in names))

    def features(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, features); a text without values has zeros."""
        return np.hstack(
            [column.features(_list_values(texts, column.name)) for column in self.every]
        )

    def find_notes(self, texts: Sequence[str]) -> list[str]:
        """Return sentences about values unlike those of the training rows."""
        notes = (
            column.find_note(_list_values(texts, column.name)) for column in self.every
        )
        return [note for note in notes if note]

    def terms(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, columns, outputs) contributions."""
        parts = (
            self.features(texts)[:, :, None] * self.linear.T
        )  # (texts, features, outputs)
        starts = np.cumsum([0, *(column.width for column in self.every[:-1])])
        return np.asarray(np.add.reduceat(parts, starts, axis=1))


def _list_values(texts: Sequence[str], name: str) -> list[Any]:
    return [
        text.values.get(name) if isinstance(text, RowText) else None for text in texts
    ]
