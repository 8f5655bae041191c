"""Labelled texts from a file: CSV, JSONL, Parquet, or one text a line.

Each becomes a pandas table. CSV and JSON lines are parsed by Python's own modules: pandas fills short rows and mends
quotes without a word, counts rows instead of lines, and writes numbers anew.
"""

import csv
import gzip
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardmax._errors import InputError, ParameterError, did_you_mean, needed_for

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_NAMES = ("text", "review", "sentence", "content", "comment", "body")
LABEL_NAMES = ("label", "sentiment", "class", "target", "category", "y")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_ENDINGS = (".jsonl", ".ndjson")
PACKED = tuple(f"{ending}.gz" for ending in (*DELIMITERS, *JSON_ENDINGS))
ENDINGS = (*DELIMITERS, *JSON_ENDINGS, *PACKED, ".parquet", ".txt")

MANY_CLASSES = 20  # fewer classes than this are always believed, however few the rows
EVEN_ENOUGH = 0.1  # of an even share: below it, accuracy alone misleads
FIELD_LIMIT = 2**31 - 1  # the largest that the csv module takes on every platform
MOST_NAMED = 20  # columns or classes in a sentence


class Table(NamedTuple):
    """Texts and their labels, as a file holds them: as they are written, labels without spaces around them."""

    texts: list[str]
    labels: list[str] | None  # None where none were asked for
    text_column: str | None = None
    label_column: str | None = None
    skipped: int = 0  # rows left out because they had no text or no label
    blank: int = 0  # rows without labels that had no text: empty texts, so that rows keep their numbers

    @property
    def note(self) -> str:
        """A sentence about the rows without text or label, or nothing."""
        rows = len(self.texts) + self.skipped
        if self.blank:
            return f"{self.blank} of {rows} rows have no text; they count as empty texts."
        return f"Skipped {self.skipped} of {rows} rows without text or label." if self.skipped else ""


def read_texts(
    path: str | PathLike[str],
    *,
    text: str | None = None,
    label: str | None = None,
    labelled: bool = True,
    encoding: str = "utf-8",
) -> Table:
    """Read texts, and their labels, from a file, or say in a sentence where it does not hold them.

    Empty texts are kept. Rows whose text or label is missing are skipped and counted; without labels a missing text is
    an empty one.

    Parameters
    ----------
    path : str or path
        A .csv, .tsv, .jsonl or .ndjson file, each also with .gz, or a .parquet file. A .txt file, or "-" for standard
        input, holds one text a line and no labels.
    text, label : str, optional
        Names of the columns. Unless said, the only column with a usual name (`TEXT_NAMES`, `LABEL_NAMES`), or the
        only column left.
    labelled : bool
        Whether to read labels.
    encoding : str
        Of anything but Parquet.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "films.csv")
    >>> _ = path.write_text("review,stars,label\\na moving film,5,good\\ntoo long,2,bad\\nmy ticket,3,\\n")
    >>> table = read_texts(path)
    >>> table.texts, table.labels, table.note
    (['a moving film', 'too long'], ['good', 'bad'], 'Skipped 1 of 3 rows without text or label.')
    """
    path = Path(path)
    ending = ".txt" if str(path) == "-" else _ending(path)
    if ending == ".txt":
        return _read_lines(path, text, label, labelled, encoding)
    frame = _frame(path, ending, encoding)
    if labelled and text is not None and text == label:
        advice = f"The columns are: {_listed(list(frame))}."
        raise ParameterError(("text", "label"), "name two columns", f"{text!r} for both", advice)
    first = _choose(list(frame), text, "text", TEXT_NAMES, label if labelled else None, path)
    texts = [_written(value, path, row, "text") for row, value in enumerate(frame[first], 1)]
    if not labelled:
        return Table([found or "" for found in texts], None, first, blank=sum(found is None for found in texts))
    second = _choose(list(frame), label, "label", LABEL_NAMES, first, path)
    labels = [_label(value, path, row) for row, value in enumerate(frame[second], 1)]
    pairs = [(a, b) for a, b in zip(texts, labels, strict=True) if a is not None and b is not None]
    if not pairs:
        must = "hold at least one row with a text and a label"
        raise ParameterError(path, must, f"{len(texts)}, all without", "Check the columns.")
    return Table([a for a, _ in pairs], [b for _, b in pairs], first, second, len(texts) - len(pairs))


def _ending(path: Path) -> str:
    ending = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()
    if ending not in ENDINGS:
        advice = "Rename or convert it; - reads one text a line from standard input."
        raise ParameterError("path", f"be a file that ends in {', '.join(ENDINGS)}", f"{str(path)!r}", advice)
    return ending


def _read_lines(path: Path, text: str | None, label: str | None, labelled: bool, encoding: str) -> Table:
    if labelled:
        must, got = "be a table with a column of labels, such as a .csv file", f"{str(path)!r}, which holds one text a"
        raise ParameterError("path", must, f"{got} line", "Make one. Or pass `labelled=False` to read the texts alone.")
    if text is not None or label is not None:
        raise ParameterError(("text", "label"), "name columns of a table", f"{str(path)!r}", "Leave them out.")
    lines = io.StringIO(_read_text(path, "", encoding), newline=None)
    return Table([line.removesuffix("\n") for line in lines], None)


def _read_bytes(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"`{path}` must be a file. Got nothing at that path. Check the spelling.") from None
    except OSError as error:
        reason = "It is a folder" if path.is_dir() else error.strerror
        raise OSError(f"`{path}` must be a file that can be read. Got: {reason}. Choose another path.") from None


def _read_text(path: Path, ending: str, encoding: str) -> str:
    data = _read_bytes(path)
    if ending.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"`{path}` must be a whole gzip file. Got: {error}. Download or write it again.") from None
    plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    try:
        text = data.decode("utf-8-sig" if plain else encoding)  # drops the mark that spreadsheets put in front
    except LookupError:
        advice = "Try utf-8, latin-1 or utf-16."
        raise ParameterError("encoding", "name a text encoding", f"{encoding!r}", advice) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        other = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        got = f"a byte that is not, at offset {start} in line {data.count(10, 0, start) + 1}"
        advice = f"Pass its encoding, such as `encoding={other!r}`."
        raise ParameterError(path, f"be text in {encoding}", got, advice) from None
    if not text.strip():
        raise ParameterError(path, "hold texts", "an empty file", "Check how it was written.")
    return text


def _frame(path: Path, ending: str, encoding: str) -> "DataFrame":
    with needed_for("Reading a table", "pandas", "text"):
        import pandas
    if ending == ".parquet":
        return read_parquet(path)
    content = _read_text(path, ending, encoding)
    delimiter = DELIMITERS.get(ending.removesuffix(".gz"))
    if delimiter is None:
        lines = enumerate(content.split("\n"), 1)  # not splitlines: JSON strings may hold other line separators
        rows = [_json_object(path, number, line) for number, line in lines if line.strip()]
        return pandas.DataFrame.from_records(rows).astype(object)
    names, *cells = _csv_rows(path, content, delimiter)
    if not cells:
        raise ParameterError(path, "hold rows", "a header alone", "Add a row for each text.")
    return pandas.DataFrame(cells, columns=[name.strip() for name in names], dtype=object)


def _csv_rows(path: Path, content: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    line = 1  # a quoted field may hold line breaks, so a row is named by the line where it starts
    previous = csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row and rows and len(row) != len(rows[0]):
                must, advice = f"have {len(rows[0])} fields in each row, as in its header", "Put quotes around a text"
                raise ParameterError(path, must, f"{len(row)} in line {line}", f"{advice} that holds the delimiter.")
            rows += [row] if row else []
            line = reader.line_num + 1
    except csv.Error as error:
        got = f"the row that starts in line {line}: {error}"
        advice = "Close each quote, and write a quote inside a quoted text twice."
        raise ParameterError(path, "be CSV", got, advice) from None
    finally:
        csv.field_size_limit(previous)
    return rows


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_int=str, parse_float=str)  # numbers stay as they are written
    except (ValueError, RecursionError) as error:
        got, advice = f"line {number}: {error}", "Mend or remove that line."
    else:
        if isinstance(found, dict):
            return found
        got, advice = f"{_listed([line.strip()])} in line {number}", 'Write {"text": ..., "label": ...}.'
    raise ParameterError(path, "hold one JSON object a line", got, advice)


def read_parquet(path: Path) -> "DataFrame":
    """A Parquet file that has rows."""
    import pandas

    data = io.BytesIO(_read_bytes(path))
    try:
        with needed_for("Reading Parquet", "pyarrow", "text"):
            frame = pandas.read_parquet(data, dtype_backend="pyarrow")  # whole numbers stay whole beside missing ones
    except (ValueError, NotImplementedError, OSError) as error:  # all that Arrow raises
        raise InputError(f"`{path}` must be a Parquet file. Got: {error} Download or write it again.") from None
    if not len(frame):
        raise ParameterError(path, "hold rows", "columns without any", "Add a row for each text.")
    return frame


def _choose(
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
    raise ParameterError(what, f"name one column of {path}", got, f"{advice} The columns are: {_listed(columns)}.")


def _listed(names: Sequence[str]) -> str:
    cut = [name if len(name) <= 40 else f"{name[:37]}..." for name in names[:MOST_NAMED]]
    return ", ".join(cut) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _written(value: Any, path: Path, row: int, column: str) -> str | None:
    """A text or number as it is written; None where it is missing."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ == "NAType" or value != value:  # pandas' missing value, or NaN
        return None
    if isinstance(value, Number):
        return str(value)
    raise InputError(
        f"The {column} column of `{path}` must hold texts or numbers. Got a {type(value).__name__} in row {row}. "
        f"Choose another column with `{column}`, or flatten it."
    )


def _label(value: Any, path: Path, row: int) -> str | None:
    written = (_written(value, path, row, "label") or "").strip()
    return written if written and written.casefold() != "nan" else None


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
    shares = _listed([f"{name} {counts[name] / rows:.1%}".replace("%", " %") for name in ranked])
    best = f"{counts[ranked[0]] / rows:.1%}".replace("%", " %")
    return f"The classes are uneven: {shares}. Always answering {ranked[0]!r} would be right in {best} of the rows."
