"""Tables in files: texts with their labels, and rows of exact numbers."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import AnyArray
from hardmax._validation import is_missing
from hardmax.text import files
from hardmax.text.columns import join_columns
from hardmax.text.files import (
    How,
    exact_number,
    find_ending,
    is_number,
    join_names,
    read_frame,
)

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_NAMES = ("text", "review", "sentence", "content", "comment", "body")
LABEL_NAMES = ("label", "sentiment", "class", "target", "category", "y")

INDICATORS = {
    "0": False,
    "0.0": False,
    "false": False,
    "1": True,
    "1.0": True,
    "true": True,
}
INTEGER_AS_FLOAT = re.compile(r"-?\d+\.0")
MIN_SUSPICIOUS_CLASSES = (
    20  # at most this many classes are accepted for any number of rows
)
GUESS_ROWS = 1000  # that are read to guess the column of texts
MIN_LONGER = 2  # the longest texts are so much longer than those of other columns
MIN_ROWS_OF_LABEL = 3  # average rows of a label, to guess the column of labels
MIN_CLASS_SHARE = 0.1  # of an equal share: below it, accuracy alone is misleading
INDEX_NAMES = (
    "",
    "index",
    "unnamed: 0",
    "id",
    "token",
    "point",
    "row",
)  # of a first column that numbers the rows


@dataclass(frozen=True)
class TextTable:
    """Texts of a file and their labels, as they are written; labels without spaces
    around them.
    """

    texts: list[str]
    labels: (
        list[Any] | None
    )  # a text, or a tuple of several, for each; None if no labels were requested
    text_column: str | None = None
    label_column: str | None = None
    skipped: int = 0  # number of rows left out because the text or the label is missing
    blank: int = (
        0  # number of rows without text in a table without labels, kept as empty texts
    )
    guessed: str = ""  # a sentence about a guess that was made to read the file
    groups: list[str | None] | None = (
        None  # the group of each text, if a column of groups was requested
    )
    rows: list[int] = field(
        default_factory=list, compare=False, repr=False
    )  # of labelled texts in the file, from 1
    frame: "DataFrame | None" = field(
        default=None, compare=False, repr=False
    )  # every row and column of the file

    @property
    def note(self) -> str:
        """Sentences about guesses and about rows without text or label, or an empty
        text.
        """
        rows = len(self.texts) + self.skipped
        left_out = left_out_note(self.skipped, rows) if self.skipped else ""
        blank = (
            f"{self.blank} of {rows} rows have no text; they count as empty texts."
            if self.blank
            else ""
        )
        return " ".join(filter(None, (self.guessed, left_out, blank)))


def left_out_note(count: int, rows: int) -> str:
    """Return the sentence about rows that are left out of training."""
    return f"Left out {count} of {rows} rows without text or label."


def read_texts(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    labels: Collection[str] = (),
    separator: str | None = None,
    group: str | None = None,
    labelled: bool = True,
    values: Collection[str] = (),
    **how: str | None,
) -> TextTable:
    """Read texts and their labels from a file of `ENDINGS`, or "-" for standard input,
    as they are written.

    Rows whose text or label is missing or blank are left out and counted. Unless
    `labelled`, a missing text is read as an empty text, so that rows keep their
    numbers. A .txt file has one text per line and no labels.

    `text`, `label` and `group` name columns; texts have the values of the columns
    `values`. By default the texts and labels are the only column with a usual name
    (`TEXT_NAMES`, `LABEL_NAMES`), or the only column left, or they are guessed by their
    content: texts are the longest strings, labels have few distinct values. `how` are fields of `How`.
    Several labels per text are columns `labels` of 0 and 1, or divided by `separator`
    in one column.
    """
    path = Path(path)
    if labelled and find_ending(path) == ".txt":
        must = "be a table with a column of labels, such as a .csv file"
        advice = "Make one. Or pass `labelled=False` to read the texts alone."
        raise ParameterError(
            "path", must, f"{str(path)!r}, which holds one text per line", advice
        )
    frame, guessed = read_frame(path, How(**how))
    columns = list(frame)
    if labelled and text is not None and text == label:
        advice = f"The columns are: {join_names(columns)}."
        raise ParameterError(
            ("text", "label"), "name two columns", f"{text!r} for both", advice
        )
    if twice := [name for name in values if name in (text, label, *labels)]:
        must, advice = (
            "name other columns than those of texts and labels",
            "Leave it out.",
        )
        raise ParameterError("columns", must, repr(twice[0]), advice)
    if labels and (label or separator):
        raise ParameterError(
            "labels", "be used without `label` and `separator`", "both", "Leave it out."
        )
    asks_label = labelled and not labels
    first, second, sentence = _find_columns(
        frame, path, text, label if asks_label else "", [*values, *labels], group
    )
    guessed = f"{guessed} {sentence}".strip()
    texts = _read_values(frame, first, "text", path)
    if not labelled:
        blank, own = (
            texts.count(None),
            join_columns([found or "" for found in texts], frame, values),
        )
        return TextTable(own, None, first, blank=blank, guessed=guessed, frame=frame)
    if labels:
        second, found = ", ".join(labels), _read_indicators(frame, labels, path)
    else:
        found = _read_labels(frame, second, path, separator)
    kept = [
        i for i, pair in enumerate(zip(texts, found, strict=True)) if None not in pair
    ]
    if not kept:
        must = "hold at least one row with a text and a label"
        raise ParameterError(
            path, must, f"{len(texts)}, all without", "Check the columns."
        )
    groups = None
    if group is not None:
        of_rows = _read_values(
            frame, choose_column(columns, group, path, "group", ()), "group", path
        )
        groups = [of_rows[i] for i in kept]
    own = join_columns([texts[i] or "" for i in kept], frame.iloc[kept], values)
    pairs = own, [found[i] for i in kept]
    rows, skipped = [i + 1 for i in kept], len(texts) - len(kept)
    return TextTable(
        *pairs,
        first,
        second,
        skipped,
        guessed=guessed,
        groups=groups,
        rows=rows,
        frame=frame,
    )


def _find_columns(
    frame: "DataFrame",
    path: Path,
    text: str | None,
    label: str | None,
    others: Collection[str],
    group: str | None,
) -> tuple[str, str, str]:
    """Return the columns of texts and labels, and a sentence if one was guessed by its
    content; the label "" is not read.
    """
    columns, guesses = list(frame), list[str]()
    single = [name for name in columns if columns.count(name) == 1]
    try:
        first = choose_column(columns, text, path, taken=[*others, label])
        texts = [first]
    except ParameterError:
        if text is not None:
            raise
        free = [name for name in single if name not in (*others, label, group)]
        texts = _like_texts(frame, _with_name(free, TEXT_NAMES) or free)
        guesses.append(f"texts from column {texts[0]!r}" if len(texts) == 1 else "")
    labels, own = [label or ""], [*others, *texts]
    if label != "":
        try:
            labels = [choose_column(columns, label, path, "label", LABEL_NAMES, own)]
        except ParameterError:
            if label is not None:
                raise
            free = [name for name in single if name not in (*own, group)]
            labels = _like_labels(frame, _with_name(free, LABEL_NAMES) or free)
            guesses.append(
                f"labels from column {labels[0]!r}" if len(labels) == 1 else ""
            )
    unclear = {
        name: found
        for name, found in (("text", texts), ("label", labels))
        if len(found) != 1
    }
    if unclear:
        advice = " ".join(
            f"Columns that may hold {name}s: {join_names(found) if found else 'none'}."
            for name, found in unclear.items()
        )
        raise ParameterError(
            list(unclear),
            f"name one column of {path}",
            "no name",
            f"{advice} All columns: {join_names(columns)}.",
        )
    sentence = ""
    if guesses:
        sentence = (
            f"Guessed by content: {' and '.join(guesses)}. Else name the columns."
        )
    return texts[0], labels[0], sentence


def _with_name(columns: list[str], usual: Collection[str]) -> list[str]:
    return [name for name in columns if name.casefold() in usual]


def _like_texts(frame: "DataFrame", columns: list[str]) -> list[str]:
    """Return the columns that may hold texts; one alone if its values are by far the
    longest.
    """
    lengths = {}
    for name in columns:
        cells = frame[name].head(GUESS_ROWS)
        known = [
            str(x).strip() for x in cells if isinstance(x, str) and not is_missing(x)
        ]
        # Words, or a script without spaces: no number, date, name or key.
        spaced = [x for x in known if " " in x or not x.isascii()]
        if len(spaced) > len(known) / 2 and len(known) > len(cells) / 2:
            lengths[name] = sum(map(len, known)) / len(known)
    found = sorted(lengths, key=lambda name: -lengths[name])
    if len(found) > 1 and lengths[found[0]] >= MIN_LONGER * lengths[found[1]]:
        return found[:1]
    return found


def _like_labels(frame: "DataFrame", columns: list[str]) -> list[str]:
    """Return the columns with few distinct values, each in several rows on average."""
    found = []
    for name in columns:
        known = [str(x).strip() for x in frame[name] if not is_missing(x)]
        most = min(MIN_SUSPICIOUS_CLASSES, len(known) // MIN_ROWS_OF_LABEL)
        if 2 <= len(set(known)) <= max(2, most) < len(known):
            found.append(name)
    return found


def choose_column(
    columns: list[str],
    wanted: str | None,
    source: Path | str,
    what: str = "text",
    usual: Collection[str] = TEXT_NAMES,
    taken: Collection[str | None] = (),
) -> str:
    """Return the column `wanted`, or else the only column with a usual name, or the
    only one that is not taken.
    """
    free = [name for name in columns if name not in taken]
    named = [name for name in free if name.casefold() in usual]
    hits = (
        [name for name in columns if name == wanted]
        if wanted is not None
        else named or free
    )
    if len(hits) == 1:
        return hits[0]
    if wanted is None:
        got, advice = (
            "no name",
            (
                f"Name one, such as a column called {what}."
                if usual
                else f"Name one with `{what}`."
            ),
        )
    else:
        got = f"{wanted!r}, which names {len(hits)}" if hits else repr(wanted)
        advice = "Rename them." if hits else did_you_mean(wanted, columns)
    raise ParameterError(
        what,
        f"name one column of {source}",
        got,
        f"{advice} The columns are: {join_names(columns)}.",
    )


def to_text(value: Any, path: Path, row: int, column: str = "text") -> str | None:
    """Return a text or number as it is written; None if it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, str | Number):
        return str(value)
    raise InputError(
        f"The {column} column of `{path}` must hold texts or numbers. Got a"
        f" {type(value).__name__} in row {row}. Choose another column with `{column}`,"
        " or flatten it."
    )


def _read_values(
    frame: "DataFrame", name: str, column: str, path: Path
) -> list[str | None]:
    return [
        to_text(value, path, row, column) for row, value in enumerate(frame[name], 1)
    ]


def _read_labels(
    frame: "DataFrame", name: str, path: Path, separator: str | None
) -> list[Any]:
    """Return the label of each row, or a tuple of them if cells hold several; None if
    it is missing.
    """
    written = _read_values(frame, name, "label", path)
    labels = [
        None if found is None or found.strip().casefold() == "nan" else found.strip()
        for found in written
    ]
    if separator:
        parts = (
            None if label is None else map(str.strip, label.split(separator))
            for label in labels
        )
        return [
            None if own is None else tuple(dict.fromkeys(filter(None, own)))
            for own in parts
        ]
    _refuse_mixed(frame[name], labels, path)
    if None in labels and all(
        label is None or INTEGER_AS_FLOAT.fullmatch(label) for label in labels
    ):
        # Programs write integers beside missing values as floats.
        labels = [
            None if label is None else label.removesuffix(".0") for label in labels
        ]
    return labels


def _read_indicators(
    frame: "DataFrame", names: Collection[str], path: Path
) -> list[tuple[str, ...] | None]:
    """Return the names of the columns that hold 1 in each row; None if a cell is
    missing.
    """
    columns = list(frame)
    cells = [
        _read_values(
            frame, choose_column(columns, name, path, "labels"), "labels", path
        )
        for name in names
    ]
    rows: list[tuple[str, ...] | None] = []
    for row, written in enumerate(zip(*cells, strict=True), 1):
        known = [
            None if cell is None else INDICATORS.get(cell.strip().casefold(), cell)
            for cell in written
        ]
        if wrong := [cell for cell in known if isinstance(cell, str)]:
            raise ParameterError(
                "labels",
                "name columns of 0 and 1",
                f"{wrong[0]!r} in row {row} of {path}",
            )
        rows.append(
            None
            if None in known
            else tuple(name for name, has in zip(names, known, strict=True) if has)
        )
    return rows


def _refuse_mixed(
    values: Sequence[Any], labels: Sequence[str | None], path: Path
) -> None:
    """Raise an error for labels that are texts in some rows and numbers in others."""
    rows: dict[str, int] = {}
    for row, (value, label) in enumerate(zip(values, labels, strict=True), 1):
        kind = "a number" if isinstance(value, Number | files.Number) else "a text"
        if label is not None:
            rows.setdefault("a boolean" if isinstance(value, bool) else kind, row)
    if len(rows) > 1:
        got = " and ".join(f"{kind} in row {row}" for kind, row in rows.items())
        raise ParameterError(
            path,
            "hold labels of one kind: text, numbers or booleans",
            got,
            "Write them alike.",
        )


def class_counts(labels: Sequence[Any]) -> dict[str, int]:
    """Return the number of rows by class, sorted by class; raise an error unless a
    model can be trained on them.
    """
    several = bool(labels) and isinstance(labels[0], tuple)
    counts = dict(
        sorted(Counter(chain.from_iterable(labels) if several else labels).items())
    )
    if len(counts) < 2:
        got = (
            f"only {next(iter(counts))!r} in {len(labels)} rows"
            if counts
            else "no rows"
        )
        advice = (
            "Check the label column, and that the file was not cut while sorted by it."
        )
        raise ParameterError("label", "hold at least two classes", got, advice)
    if not several and len(counts) > max(MIN_SUSPICIOUS_CLASSES, len(labels) / 2):
        got = (
            f"{len(counts)} classes in {len(labels)} rows, so it is probably the wrong"
            " column"
        )
        advice = "Name the column of classes with `label`."
        raise ParameterError("label", "hold the same class many times", got, advice)
    return counts


def imbalance_note(counts: dict[str, int]) -> str:
    """Return a sentence if the rarest class has less than a tenth of an equal share of
    the rows, else an empty text.
    """
    rows = sum(counts.values())
    if not rows or min(counts.values()) >= MIN_CLASS_SHARE * rows / len(counts):
        return ""
    shares = {
        name: f"{100 * count / rows:.1f} %"
        for name, count in Counter(counts).most_common()
    }
    listing, first = (
        join_names([f"{name} {share}" for name, share in shares.items()]),
        next(iter(shares)),
    )
    best = f"Always answering {first!r} would be right in {shares[first]} of the rows."
    return f"The classes are uneven: {listing}. {best}"


def parse_table(text: str, name: str, unit: str = "line") -> tuple[AnyArray, str]:
    """Return rows of numbers, and a sentence on a column that was left out; errors
    count each `unit` of the text.

    The numbers are Fractions if a cell is not exactly a float, such as 0.1 or 1/3; else
    floats. Empty lines and lines that begin with # are skipped, then a header without
    any number.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [
        (number, line) for number, line in lines if line and not line.startswith("#")
    ]
    if not lines:
        raise ParameterError(
            name, "hold one token per row", "an empty file", "Check how it was written."
        )
    mark = next((mark for mark in (";", "\t", ",") if mark in lines[0][1]), None)
    rows = [
        (number, next(csv.reader([line], delimiter=mark)) if mark else line.split())
        for number, line in lines
    ]
    header: list[str] = []
    if not any(is_number(cell) or _has_decimal_comma(cell) for cell in rows[0][1]):
        header = rows.pop(0)[1]
    if not rows:
        raise ParameterError(
            name,
            "hold one token per row",
            "a header or text alone",
            "Add rows of numbers.",
        )
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            got = f"{len(row)} in {unit} {number}, {width} before it"
            raise ParameterError(
                name,
                "have the same number of columns in each row",
                got,
                "Fill the gaps.",
            )
    note = ""
    if _has_row_numbers(header, [row for _, row in rows]):
        rows = [(number, row[1:]) for number, row in rows]
        note = f"Left out the first column of {name}, which numbers the rows."
    table = [
        [
            _parse_number(cell, name, f"{unit} {n}, column {c}")
            for c, cell in enumerate(row, 1)
        ]
        for n, row in rows
    ]
    return (
        np.array(
            table,
            (
                np.float64
                if all(isinstance(x, float) for row in table for x in row)
                else object
            ),
        ),
        note,
    )


def _has_row_numbers(header: list[str], rows: list[list[str]]) -> bool:
    """Return whether the first column numbers the rows: named as an index, and 0, 1, 2,
    ... or 1, 2, 3, ...
    """
    named = len(header) > 1 and header[0].strip().lower() in INDEX_NAMES
    numbers = [row[0].strip() for row in rows]
    return named and any(
        numbers == [str(i + first) for i in range(len(rows))] for first in (0, 1)
    )


def _has_decimal_comma(cell: str) -> bool:
    return "," in cell and cell.replace(",", "", 1).strip().lstrip("+-").isdecimal()


def _parse_number(cell: str, name: str, place: str) -> Fraction | float:
    try:
        return exact_number(cell)
    except ValueError:
        must, got = (
            "hold numbers, after an optional header",
            repr(cell) if cell.strip() else "an empty cell",
        )
        text, comma = (
            "Drop columns of text, and fill or drop missing values.",
            "Write decimals with a point.",
        )
        advice = comma if _has_decimal_comma(cell) else text
        raise ParameterError(name, must, f"{got} in {place}", advice) from None
