"""Tables in files: texts with their labels, and rows of exact numbers."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import AnyArray
from hardmax.text import files
from hardmax.text.files import How, ending_of, exact_number, is_number, listed, read_frame, read_text

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_NAMES = ("text", "review", "sentence", "content", "comment", "body")
LABEL_NAMES = ("label", "sentiment", "class", "target", "category", "y")

INTEGER_AS_FLOAT = re.compile(r"-?\d+\.0")
MIN_SUSPICIOUS_CLASSES = 20  # at most this many classes are accepted for any number of rows
MIN_CLASS_SHARE = 0.1  # of an equal share: below it, accuracy alone is misleading
INDEX_NAMES = ("", "index", "unnamed: 0", "id", "token", "point", "row")  # of a first column that numbers the rows


@dataclass(frozen=True)
class TextTable:
    """Texts of a file and their labels, as they are written; labels without spaces around them."""

    texts: list[str]
    labels: list[str] | None  # None if no labels were requested
    text_column: str | None = None
    label_column: str | None = None
    skipped: int = 0  # number of rows left out because the text or the label is missing
    blank: int = 0  # number of rows without text in a table without labels, kept as empty texts
    guessed: str = ""  # a sentence about a guess that was made to read the file
    groups: list[str | None] | None = None  # the group of each text, if a column of groups was requested
    rows: list[int] = field(default_factory=list, compare=False, repr=False)  # of labelled texts in the file, from 1
    frame: "DataFrame | None" = field(default=None, compare=False, repr=False)  # every row and column of the file

    @property
    def note(self) -> str:
        """Sentences about guesses and about rows without text or label, or an empty text."""
        rows = len(self.texts) + self.skipped
        left_out = left_out_note(self.skipped, rows) if self.skipped else ""
        blank = f"{self.blank} of {rows} rows have no text; they count as empty texts." if self.blank else ""
        return " ".join(filter(None, (self.guessed, left_out, blank)))


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NA or NaT of pandas, or a text of spaces alone."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def left_out_note(count: int, rows: int) -> str:
    """Return the sentence about rows that are left out of training."""
    return f"Left out {count} of {rows} rows without text or label."


def read_texts(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    group: str | None = None,
    labelled: bool = True,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> TextTable:
    """Read texts and their labels from a file.

    Rows whose text or label is missing or blank are left out and counted. Without labels a missing text is read as an
    empty text, so that rows keep their numbers.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .jsonl or .ndjson file, each also with .gz, or a .parquet or .xlsx file. A .txt file, or "-" for
        standard input, holds one text per line and no labels.
    text, label : str, optional
        Names of the columns. The default is the only column with a usual name (`TEXT_NAMES`, `LABEL_NAMES`), or the
        only column left.
    group : str, optional
        Name of a column of groups, such as authors, which becomes `groups`.
    labelled : bool
        Whether to read labels.
    delimiter : str, optional
        Delimiter of CSV: one character, or "tab". The default is detected from the header: a comma, a semicolon, a tab
        or a vertical bar.
    encoding : str, optional
        Encoding of a text file. The default is UTF-8, or UTF-16 with a byte order mark; a file that is neither is read
        as Latin-1, and `note` mentions it.
    sheet : str, optional
        Sheet of an Excel file; the default is the first.

    Returns
    -------
    TextTable

    Raises
    ------
    ParameterError
        If a column cannot be found, the file has no usable row, or an option does not go with the format.
    InputError
        If the file cannot be read in its format.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "films.csv")
    >>> _ = path.write_text("review,stars,label\\na moving film,5,good\\ntoo long,2,bad\\nmy ticket,3,\\n")
    >>> table = read_texts(path)
    >>> table.texts, table.labels, table.note
    (['a moving film', 'too long'], ['good', 'bad'], 'Left out 1 of 3 rows without text or label.')
    """
    path, how = Path(path), How(delimiter, encoding, sheet)
    ending = ".txt" if str(path) == "-" else ending_of(path)
    if ending == ".txt":
        return _read_lines(path, text, label or group, labelled, how)
    frame, guessed = read_frame(path, ending, how)
    if labelled and text is not None and text == label:
        advice = f"The columns are: {listed(list(frame))}."
        raise ParameterError(("text", "label"), "name two columns", f"{text!r} for both", advice)
    first = choose_column(list(frame), text, "text", TEXT_NAMES, label if labelled else None, path)
    texts = [text_of(value, path, row) for row, value in enumerate(frame[first], 1)]
    if not labelled:
        blank = sum(map(is_missing, texts))
        return TextTable([found or "" for found in texts], None, first, blank=blank, guessed=guessed, frame=frame)
    second = choose_column(list(frame), label, "label", LABEL_NAMES, first, path)
    labels = [_label(value, path, row) for row, value in enumerate(frame[second], 1)]
    _refuse_mixed(frame[second], labels, path)
    if None in labels and all(label is None or INTEGER_AS_FLOAT.fullmatch(label) for label in labels):
        # Programs write integers beside missing values as floats.
        labels = [None if label is None else label.removesuffix(".0") for label in labels]
    rows = [i for i, (a, b) in enumerate(zip(texts, labels, strict=True)) if a is not None and b is not None]
    if not rows:
        must = "hold at least one row with a text and a label"
        raise ParameterError(path, must, f"{len(texts)}, all without", "Check the columns.")
    found: dict[str, Any] = {"guessed": guessed, "frame": frame, "rows": [i + 1 for i in rows]}
    if group is not None:
        third = choose_column(list(frame), group, "group", (), None, path)
        values = [text_of(value, path, row, "group") for row, value in enumerate(frame[third], 1)]
        found["groups"] = [values[i] for i in rows]
    kept, their = [texts[i] or "" for i in rows], [labels[i] or "" for i in rows]
    return TextTable(kept, their, first, second, len(texts) - len(rows), **found)


def _read_lines(path: Path, text: str | None, label: str | None, labelled: bool, how: How) -> TextTable:
    if labelled:
        must, got = (
            "be a table with a column of labels, such as a .csv file",
            f"{str(path)!r}, which holds one text per",
        )
        raise ParameterError("path", must, f"{got} line", "Make one. Or pass `labelled=False` to read the texts alone.")
    if text is not None or label is not None:
        raise ParameterError(("text", "label"), "name columns of a table", f"{str(path)!r}", "Leave them out.")
    content, guessed = read_text(path, "", how.encoding)
    lines = [line.removesuffix("\n") for line in io.StringIO(content, newline=None)]
    return TextTable(lines, None, guessed=guessed)


def choose_column(
    columns: list[str], wanted: str | None, what: str, usual: tuple[str, ...], taken: str | None, path: Path
) -> str:
    """Return the column `wanted`, or else the only column with a usual name, or the only one left."""
    free = [name for name in columns if name != taken]
    named = [name for name in free if name.casefold() in usual]
    hits = [name for name in columns if name == wanted] if wanted is not None else named or free
    if len(hits) == 1:
        return hits[0]
    if wanted is None:
        got, advice = "no name", f"Name one, or add a header line with a column called {usual[0]}."
    else:
        got = f"{wanted!r}, which names {len(hits)}" if hits else repr(wanted)
        advice = "Rename them." if hits else did_you_mean(wanted, columns)
    raise ParameterError(what, f"name one column of {path}", got, f"{advice} The columns are: {listed(columns)}.")


def text_of(value: Any, path: Path, row: int, column: str = "text") -> str | None:
    """Return a text or number as it is written; None if it is missing."""
    if is_missing(value):
        return None
    if isinstance(value, str | Number):
        return str(value)
    raise InputError(
        f"The {column} column of `{path}` must hold texts or numbers. Got a {type(value).__name__} in row {row}. "
        f"Choose another column with `{column}`, or flatten it."
    )


def _label(value: Any, path: Path, row: int) -> str | None:
    written = (text_of(value, path, row, "label") or "").strip()
    return written if written and written.casefold() != "nan" else None


def _refuse_mixed(values: Sequence[Any], labels: Sequence[str | None], path: Path) -> None:
    """Raise an error for labels that are texts in some rows and numbers in others."""
    rows: dict[str, int] = {}
    for row, (value, label) in enumerate(zip(values, labels, strict=True), 1):
        if label is not None:
            rows.setdefault(_kind(value), row)
    if len(rows) > 1:
        got = " and ".join(f"{kind} in row {row}" for kind, row in rows.items())
        raise ParameterError(path, "hold labels of one kind: text, numbers or booleans", got, "Write them alike.")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "a number" if isinstance(value, Number | files.Number) else "a text"


def class_counts(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of rows of each class, in sorted order; raise an error unless a model can be trained on them.

    Examples
    --------
    >>> class_counts(["pos", "neg", "pos"])
    {'neg': 1, 'pos': 2}
    """
    counts = dict(sorted(Counter(labels).items()))
    if len(counts) < 2:
        got = f"only {next(iter(counts))!r} in {len(labels)} rows" if counts else "no rows"
        advice = "Check the label column, and that the file was not cut while sorted by it."
        raise ParameterError("label", "hold at least two classes", got, advice)
    if len(counts) > max(MIN_SUSPICIOUS_CLASSES, len(labels) / 2):
        got = f"{len(counts)} classes in {len(labels)} rows, so it is probably the wrong column"
        advice = "Name the column of classes with `label`."
        raise ParameterError("label", "hold the same class many times", got, advice)
    return counts


def imbalance_note(counts: dict[str, int]) -> str:
    """Return a sentence if the rarest class has less than a tenth of an equal share of the rows, else an empty text.

    Examples
    --------
    >>> imbalance_note({"ham": 970, "spam": 30})
    "The classes are uneven: ham 97.0 %, spam 3.0 %. Always answering 'ham' would be right in 97.0 % of the rows."
    """
    rows = sum(counts.values())
    if not rows or min(counts.values()) >= MIN_CLASS_SHARE * rows / len(counts):
        return ""
    ranked = sorted(counts, key=lambda name: -counts[name])
    shares = listed([f"{name} {counts[name] / rows:.1%}".replace("%", " %") for name in ranked])
    best = f"{counts[ranked[0]] / rows:.1%}".replace("%", " %")
    return f"The classes are uneven: {shares}. Always answering {ranked[0]!r} would be right in {best} of the rows."


def parse_table(text: str, name: str) -> tuple[AnyArray, str]:
    """Return rows of numbers, and a sentence on a column that was left out, or an empty text.

    The numbers are Fractions if a cell is not exactly a float, such as 0.1 or 1/3; else floats. Empty lines and lines
    that begin with # are skipped, then a header without any number.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise ParameterError(name, "hold one token per row", "an empty file", "Check how it was written.")
    mark = next((mark for mark in (";", "\t", ",") if mark in lines[0][1]), None)
    rows = [(number, next(csv.reader([line], delimiter=mark)) if mark else line.split()) for number, line in lines]
    header: list[str] = []
    if not any(is_number(cell) or _has_decimal_comma(cell) for cell in rows[0][1]):
        header = rows.pop(0)[1]
    if not rows:
        raise ParameterError(name, "hold one token per row", "a header or text alone", "Add rows of numbers.")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            got = f"{len(row)} in line {number}, {width} before it"
            raise ParameterError(name, "have the same number of columns in each row", got, "Fill the gaps.")
    note = ""
    if _has_row_numbers(header, [row for _, row in rows]):
        rows = [(number, row[1:]) for number, row in rows]
        note = f"Left out the first column of {name}, which numbers the rows."
    table = [[_number(cell, name, n, c) for c, cell in enumerate(row, 1)] for n, row in rows]
    return np.array(table, np.float64 if all(isinstance(x, float) for row in table for x in row) else object), note


def _has_row_numbers(header: list[str], rows: list[list[str]]) -> bool:
    """Return whether the first column numbers the rows: named as an index, and 0, 1, 2, ... or 1, 2, 3, ..."""
    named = len(header) > 1 and header[0].strip().lower() in INDEX_NAMES
    numbers = [row[0].strip() for row in rows]
    return named and any(numbers == [str(i + first) for i in range(len(rows))] for first in (0, 1))


def _has_decimal_comma(cell: str) -> bool:
    return "," in cell and cell.replace(",", "", 1).strip().lstrip("+-").isdecimal()


def _number(cell: str, name: str, line: int, column: int) -> Fraction | float:
    try:
        return exact_number(cell)
    except ValueError:
        must, got = "hold numbers, after an optional header", repr(cell) if cell.strip() else "an empty cell"
        text, comma = "Drop columns of text, and fill or drop missing values.", "Write decimals with a point."
        advice = comma if _has_decimal_comma(cell) else text
        raise ParameterError(name, must, f"{got} in line {line}, column {column}", advice) from None
