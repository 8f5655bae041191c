"""Labelled texts from a file: which columns hold them, which rows can be learned from, and which classes there are."""

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax.text import files
from hardmax.text.files import How, ending_of, listed, read_frame, read_text

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_NAMES = ("text", "review", "sentence", "content", "comment", "body")
LABEL_NAMES = ("label", "sentiment", "class", "target", "category", "y")

WHOLE = re.compile(r"-?\d+\.0")
MANY_CLASSES = 20  # fewer classes than this are always believed, however few the rows
EVEN_ENOUGH = 0.1  # of an even share: below it, accuracy alone misleads


@dataclass(frozen=True)
class Table:
    """Texts and their labels, as a file holds them: as they are written, labels without spaces around them."""

    texts: list[str]
    labels: list[str] | None  # None where none were asked for
    text_column: str | None = None
    label_column: str | None = None
    skipped: int = 0  # rows left out because they had no text or no label
    blank: int = 0  # rows without labels that had no text: empty texts, so that rows keep their numbers
    guessed: str = ""  # a sentence on what was guessed to read the file
    groups: list[str | None] | None = None  # of each text, where a column of groups was asked for
    rows: list[int] = field(default_factory=list, compare=False, repr=False)  # of labelled texts in the file, from 1
    frame: "DataFrame | None" = field(default=None, compare=False, repr=False)  # every row and column of the file

    @property
    def note(self) -> str:
        """Sentences about what was guessed, and about the rows without text or label, or nothing."""
        rows = len(self.texts) + self.skipped
        left_out = left_out_note(self.skipped, rows) if self.skipped else ""
        blank = f"{self.blank} of {rows} rows have no text; they count as empty texts." if self.blank else ""
        return " ".join(filter(None, (self.guessed, left_out, blank)))


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, what pandas has for them, or a text of spaces alone."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def left_out_note(count: int, rows: int) -> str:
    """What is said of rows that cannot be learned from."""
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
) -> Table:
    """Read texts, and their labels, from a file, or say in a sentence where it does not hold them.

    Rows whose text or label is missing or blank are left out and counted; without labels a missing text is an empty
    one, so that rows keep their numbers.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .jsonl or .ndjson file, each also with .gz, or a .parquet or .xlsx file. A .txt file, or "-" for
        standard input, holds one text a line and no labels.
    text, label : str, optional
        Names of the columns. Unless said, the only column with a usual name (`TEXT_NAMES`, `LABEL_NAMES`), or the
        only column left.
    group : str, optional
        Name of a column of groups, such as authors, which becomes `groups`.
    labelled : bool
        Whether to read labels.
    delimiter : str, optional
        What separates the fields of CSV: one sign, or "tab". Unless said, it is found in the header: a comma, a
        semicolon, a tab or a bar.
    encoding : str, optional
        Of a file of text. Unless said, UTF-8, or UTF-16 where the file says so; bytes that are neither are read as
        Latin-1, and `note` says so.
    sheet : str, optional
        Of an Excel file, the first unless said.

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
        return Table([found or "" for found in texts], None, first, blank=blank, guessed=guessed, frame=frame)
    second = choose_column(list(frame), label, "label", LABEL_NAMES, first, path)
    labels = [_label(value, path, row) for row, value in enumerate(frame[second], 1)]
    _refuse_mixed(frame[second], labels, path)
    if None in labels and all(label is None or WHOLE.fullmatch(label) for label in labels):
        labels = [None if label is None else label.removesuffix(".0") for label in labels]  # what gaps make of 0 and 1
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
    return Table(kept, their, first, second, len(texts) - len(rows), **found)


def _read_lines(path: Path, text: str | None, label: str | None, labelled: bool, how: How) -> Table:
    if labelled:
        must, got = "be a table with a column of labels, such as a .csv file", f"{str(path)!r}, which holds one text a"
        raise ParameterError("path", must, f"{got} line", "Make one. Or pass `labelled=False` to read the texts alone.")
    if text is not None or label is not None:
        raise ParameterError(("text", "label"), "name columns of a table", f"{str(path)!r}", "Leave them out.")
    content, guessed = read_text(path, "", how.encoding)
    lines = [line.removesuffix("\n") for line in io.StringIO(content, newline=None)]
    return Table(lines, None, guessed=guessed)


def choose_column(
    columns: list[str], wanted: str | None, what: str, usual: tuple[str, ...], taken: str | None, path: Path
) -> str:
    """The column that is wanted, or else the only one with a usual name, or the only one left."""
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
    """A text or number as it is written; None where it is missing."""
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
    """Labels that a file keeps as numbers here and as text there are two columns in one."""
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
    """The classes in sorted order, each with its number of rows, where there is something to learn.

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
    if len(counts) > max(MANY_CLASSES, len(labels) / 2):
        got = f"{len(counts)} classes in {len(labels)} rows, so it is probably the wrong column"
        advice = "Name the column of classes with `label`."
        raise ParameterError("label", "hold the same class many times", got, advice)
    return counts


def imbalance_note(counts: dict[str, int]) -> str:
    """A sentence where the rarest class has less than a tenth of an even share of the rows, or nothing.

    Examples
    --------
    >>> imbalance_note({"ham": 970, "spam": 30})
    "The classes are uneven: ham 97.0 %, spam 3.0 %. Always answering 'ham' would be right in 97.0 % of the rows."
    """
    rows = sum(counts.values())
    if not rows or min(counts.values()) >= EVEN_ENOUGH * rows / len(counts):
        return ""
    ranked = sorted(counts, key=lambda name: -counts[name])
    shares = listed([f"{name} {counts[name] / rows:.1%}".replace("%", " %") for name in ranked])
    best = f"{counts[ranked[0]] / rows:.1%}".replace("%", " %")
    return f"The classes are uneven: {shares}. Always answering {ranked[0]!r} would be right in {best} of the rows."
