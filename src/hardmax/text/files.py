"""Read and write tables: Parquet and Excel with pandas, CSV with csv, JSON lines with
json.

Numbers of CSV and JSON lines stay as they are written, because texts and labels may
look like numbers.
"""

import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

import numpy as np

from hardmax._errors import InputError, ParameterError, did_you_mean, needed_for
from hardmax._files import written_whole

if TYPE_CHECKING:
    from pandas import DataFrame, Series

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # defaults; a header may show another one
OTHER_DELIMITERS = (",", ";", "\t", "|")
JSON_ENDINGS = (".jsonl", ".ndjson")
TEXT_ENDINGS = (*DELIMITERS, *JSON_ENDINGS, ".txt")
ENDINGS = (
    *TEXT_ENDINGS,
    *(f"{ending}.gz" for ending in (*DELIMITERS, *JSON_ENDINGS)),
    ".parquet",
    ".xlsx",
)
WRITABLE = (".csv", ".jsonl", ".parquet", ".xlsx")
SEPARATOR_LINE = re.compile(
    r"\"?sep=(.)\"?[\r\n]+"
)  # Excel writes the delimiter in a first line

MAX_LINE_CHARACTERS = 16 << 20
# of CSV, JSON lines and text; the keys of the first block are the columns of a file
# read in parts
BLOCK_ROWS = 1000
CHUNK_BYTES = 1 << 20  # decoded together to find the encoding
NULL_BYTES = "null bytes"  # a problem of text that is probably UTF-16
LAST_LINE = "\0"  # appended to CSV; it is a row of its own unless a quote is open
FORMULA_STARTS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # first characters of cells that a spreadsheet may run
MAX_DIGITS = 4000  # before or after the decimal point
PLAIN_NUMBER = re.compile(
    r"-?(0|[1-9]\d{0,14})(\.\d{1,14})?"
)  # a number that a float represents as written
MAX_LISTED = 20  # columns, sheets or classes in a sentence

csv.field_size_limit(
    max(csv.field_size_limit(), MAX_LINE_CHARACTERS)
)  # a text may be longer than 128 KiB


class How(NamedTuple):
    """Options for reading a file."""

    delimiter: str | None = (
        None  # of CSV, one character or "tab"; by default that of the header
    )
    encoding: str | None = (
        # of text; UTF-8, UTF-16 with a byte order mark, or else Latin-1 by default
        None
    )
    sheet: str | None = None  # of Excel; the first one by default


class Number(str):
    """A number in JSON lines, as it is written."""

    __slots__ = ()


def find_ending(path: Path) -> str:
    """Return the suffix of a readable file in lower case, together with .gz; "-" is a
    .txt file.
    """
    for ending in ENDINGS:
        if path.name.lower().endswith(ending):
            return ending
    if str(path) == "-":
        return ".txt"
    advice = (
        "Rename or convert it, or pass - to read one text per line from standard input."
    )
    raise ParameterError(
        "path", f"be a file that ends in {', '.join(ENDINGS)}", f"{str(path)!r}", advice
    )


def read_frame(path: Path, how: How) -> tuple["DataFrame", str]:
    """Return the rows of a file, and a sentence about a guess that was made to read it,
    or an empty text.
    """
    with needed_for("Reading a table", "pandas", "text"):
        import pandas
    ending = find_ending(path)
    _check_options(path, ending, how)
    if ending == ".parquet":
        frame, guessed = read_parquet(path), ""
    elif ending == ".xlsx":
        frame, guessed = _read_excel(path, how.sheet)
    else:
        with open_blocks(path, ending, how) as (blocks, guessed):
            frame = pandas.concat(
                list(blocks) or [pandas.DataFrame()], ignore_index=True
            ).astype(object)
    if not len(frame):
        got = "a header alone" if len(frame.columns) else "an empty file"
        raise ParameterError(path, "hold rows", got, "Add a row for each text.")
    return frame, guessed


def _check_options(path: Path, ending: str, how: How) -> None:
    """Raise an error for an option that has no effect on a file of this format."""
    plain = ending.removesuffix(".gz")
    for name, value, fits, kind in (
        ("delimiter", how.delimiter, plain in DELIMITERS, "a .csv or .tsv file"),
        (
            "encoding",
            how.encoding,
            plain not in (".parquet", ".xlsx"),
            "a file of text",
        ),
        ("sheet", how.sheet, plain == ".xlsx", "an .xlsx file"),
    ):
        if value is not None and not fits:
            raise ParameterError(
                name, f"go with {kind}", f"it with {str(path)!r}", "Leave it out."
            )


def _open_bytes(path: Path, ending: str) -> BinaryIO:
    """Open a file, or standard input for the path -, so that it can be read more than
    once.
    """
    try:
        if str(path) == "-":
            return io.BytesIO(sys.stdin.buffer.read())
        return (
            io.BytesIO(gzip.decompress(path.read_bytes()))
            if ending.endswith(".gz")
            else path.open("rb")
        )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"`{path}` must be a whole gzip file. Got: {error}. Download or write it"
            " again."
        ) from None
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`{path}` must be a file. Got nothing at that path. Check the spelling."
        ) from None
    except OSError as error:
        reason = "It is a folder" if path.is_dir() else error.strerror
        raise OSError(
            f"`{path}` must be a file that can be read. Got: {reason}. Choose another"
            " path."
        ) from None


@contextmanager
def open_blocks(
    path: Path, ending: str, how: How
) -> "Iterator[tuple[Iterator[DataFrame], str]]":
    """Open CSV, JSON lines or text (column "text") as blocks of rows, and a sentence if
    the encoding was guessed.
    """
    kind = ending.removesuffix(".gz")
    newline = (
        "" if kind in DELIMITERS else "\n" if kind in JSON_ENDINGS else None
    )  # JSON may hold other line breaks
    with _open_bytes(path, ending) as data:
        encoding, guessed = _find_encoding(path, data, how.encoding)
        data.seek(0)
        with io.TextIOWrapper(data, encoding, newline=newline) as text:
            if kind in DELIMITERS:
                yield _read_csv(path, text, DELIMITERS[kind], how.delimiter), guessed
            else:
                yield (
                    _read_line_blocks(path, text, is_json=kind in JSON_ENDINGS),
                    guessed,
                )


def _find_encoding(path: Path, data: BinaryIO, wanted: str | None) -> tuple[str, str]:
    """Return the encoding of a file, and a sentence if it was guessed.

    The default is UTF-8, or UTF-16 with a byte order mark, else Windows-1252, a
    superset of Latin-1, or Latin-1.
    """
    mark = (
        "utf-16" if data.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None
    )
    used = wanted or mark or "utf-8"
    try:
        "".encode(used)
        used = (
            "utf-8-sig" if codecs.lookup(used).name == "utf-8" else used
        )  # drops the byte order mark
    except LookupError:
        advice = "Try utf-8, latin-1 or utf-16."
        raise ParameterError(
            "encoding", "name a text encoding", f"{wanted!r}", advice
        ) from None
    problem = _find_undecodable(data, used)
    if not problem:
        return used, ""
    if wanted or mark or problem == NULL_BYTES:
        other = mark or ("utf-16" if problem == NULL_BYTES else "latin-1")
        advice = f"Pass its encoding, such as `encoding={other!r}`."
        raise ParameterError(
            path,
            f"be text in {wanted or mark or 'utf-8'}",
            f"other bytes: {problem}",
            advice,
        )
    note = (
        f"{path} is not UTF-8 ({problem}), and was read as Latin-1. If characters look"
        " wrong, pass `encoding`."
    )
    return "latin-1" if _find_undecodable(data, "cp1252") else "cp1252", note


def _find_undecodable(data: BinaryIO, encoding: str) -> str:
    """Return the place of the first byte that is not text in an encoding, or an empty
    text.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    offset, line = data.seek(0), 1
    while True:
        chunk, pending = data.read(CHUNK_BYTES), len(decoder.getstate()[0])
        try:
            has_null = "\0" in decoder.decode(chunk, final=not chunk)
        except UnicodeError as error:
            start = getattr(error, "start", 0) - pending
            where = (
                f"a byte at offset {offset + start} in line"
                f" {line + chunk.count(10, 0, max(start, 0))}"
            )
            return NULL_BYTES if b"\0" in chunk else where
        if has_null or not chunk:
            return NULL_BYTES if has_null else ""
        offset, line = offset + len(chunk), line + chunk.count(10)


def _read_csv(
    path: Path, text: TextIO, default: str, delimiter: str | None
) -> "Iterator[DataFrame]":
    """Yield the rows of CSV that was opened with newline=""; `default` is the delimiter
    of its suffix.
    """
    import pandas

    lines = _read_lines(path, text)
    line = next(lines, "")
    if separator := SEPARATOR_LINE.fullmatch(line):
        default, line = separator[1], next(lines, "")
    while line.isspace():
        line = next(lines, "")
    mark = {"tab": "\t", "\\t": "\t", None: _find_delimiter(line, default)}.get(
        delimiter, delimiter
    )
    if mark is None or len(mark) != 1 or mark in '"\r\n':
        raise ParameterError(
            "delimiter", "be one character, or tab", f"{delimiter!r}", "Try ';'."
        )
    rows = _split_rows(path, chain([line], lines), mark)
    names = [name.strip() for name in next(rows, [])]
    yield pandas.DataFrame(columns=names, dtype=object)
    numbered = enumerate(rows, 1)
    while block := list(islice(numbered, BLOCK_ROWS)):
        for number, row in block:
            if len(row) != len(names):
                must = (
                    f"have {len(names)} field{'s' * (len(names) > 1)} in each row, as"
                    " in its header"
                )
                advice = "Put quotes around a text that holds the delimiter."
                raise ParameterError(path, must, f"{len(row)} in row {number}", advice)
        yield pandas.DataFrame([row for _, row in block], columns=names, dtype=object)


def _split_rows(path: Path, lines: Iterable[str], mark: str) -> Iterator[list[str]]:
    """Yield the rows of CSV but empty ones; `csv` accepts a quote that is not closed,
    hence a last line.
    """
    row, got = [LAST_LINE], "a quote that is not closed"
    try:
        for row in filter(None, csv.reader(chain(lines, [LAST_LINE]), delimiter=mark)):
            if not row[-1].endswith(LAST_LINE):
                yield row
    except csv.Error as error:
        row, got = [], str(error)
    if row != [LAST_LINE]:
        raise ParameterError(path, "be CSV", got, "Close each quote.")


def _find_delimiter(header: str, default: str) -> str:
    """Return the delimiter that gives the most fields in the header; the default one if
    no other gives more.
    """
    marks = (default, *(mark for mark in OTHER_DELIMITERS if mark != default))
    return max(
        marks, key=lambda mark: len(next(csv.reader([header], delimiter=mark), []))
    )  # max returns the first


def _read_line_blocks(
    path: Path, text: TextIO, *, is_json: bool
) -> "Iterator[DataFrame]":
    """Yield the rows of a file with one JSON object or one text per line."""
    import pandas

    numbered = enumerate(_read_lines(path, text), 1)
    rows: Iterable[dict[str, Any]] = (
        {"text": line.removesuffix("\n")} for _, line in numbered
    )
    if is_json:
        rows = (
            _parse_json(path, number, line) for number, line in numbered if line.strip()
        )
    while block := list(islice(rows, BLOCK_ROWS)):
        yield pandas.DataFrame(block, dtype=object)


def _read_lines(path: Path, text: TextIO) -> Iterator[str]:
    for number in count(1):
        if not (line := text.readline(MAX_LINE_CHARACTERS + 1)):
            return
        if len(line) > MAX_LINE_CHARACTERS:
            must, got = (
                f"have lines of at most {MAX_LINE_CHARACTERS:,} characters",
                f"a longer one, line {number:,}",
            )
            raise ParameterError(path, must, got, "Put each row on a line of its own.")
        yield line


def _parse_json(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError) as error:
        got, advice = f"line {number}: {error}", "Correct or remove that line."
    else:
        if isinstance(found, dict):
            return found
        got, advice = (
            f"{join_names([line.strip()])} in line {number}",
            'Write {"text": ..., "label": ...}.',
        )
    raise ParameterError(path, "hold one JSON object per line", got, advice)


def _read_excel(path: Path, sheet: str | None) -> tuple["DataFrame", str]:
    import pandas

    with needed_for("Reading Excel", "openpyxl", "excel"):
        import openpyxl  # noqa: F401
    with _open_bytes(path, ".xlsx") as data:
        try:
            book = pandas.ExcelFile(data, engine="openpyxl")
            names = [str(name) for name in book.sheet_names]
            chosen = names[0] if sheet is None else sheet
            cells = pandas.read_excel(
                book,
                sheet_name=chosen if chosen in names else 0,
                header=None,
                dtype=object,
                na_filter=False,
            )
        except Exception as error:  # of zipfile, of openpyxl, and of Python
            raise InputError(
                f"`{path}` must be an Excel file. Got: {error}. Save it again as .xlsx."
            ) from None
    if chosen not in names:
        advice = f"{did_you_mean(chosen, names)} The sheets are: {join_names(names)}."
        raise ParameterError("sheet", f"name a sheet of {path}", f"{sheet!r}", advice)
    filled = cells[(cells != "").any(axis=1)]
    header = [str(name).strip() for name in filled.iloc[0]] if len(filled) else []
    others = [name for name in names if name != chosen] if sheet is None else []
    guessed = (
        f"Read sheet {chosen!r} of {path}; for {join_names(others)} pass `sheet`."
        if others
        else ""
    )
    return (
        filled.iloc[1:]
        .where(filled != "", None)
        .reset_index(drop=True)
        .set_axis(header, axis=1),
        guessed,
    )


def read_parquet(path: Path) -> "DataFrame":
    """Return the rows of a Parquet file."""
    import pandas

    with (
        _open_bytes(path, ".parquet") as data,
        needed_for("Reading Parquet", "pyarrow", "text"),
    ):
        try:
            return pandas.read_parquet(
                data, dtype_backend="pyarrow"
            )  # keeps integers beside missing values
        except (
            ValueError,
            NotImplementedError,
            OSError,
        ) as error:  # the errors of Arrow
            raise InputError(
                f"`{path}` must be a Parquet file. Got: {error} Download or write it"
                " again."
            ) from None


def as_numbers(column: "Series[Any]") -> "Series[Any]":
    """Return a column of texts that are all numbers as numbers; a column with anything
    else, such as 007, unchanged.
    """
    import pandas

    is_number = column.map(
        lambda cell: isinstance(cell, str) and bool(PLAIN_NUMBER.fullmatch(cell))
    )
    return (
        pandas.to_numeric(column)
        if column.dtype == object and is_number.all()
        else column
    )


def write_frame(frame: "DataFrame", path: Path) -> None:
    """Write a table atomically in the format of its suffix, one of `WRITABLE`."""
    ending = path.suffix.lower()
    with written_whole(path) as temporary:
        if ending == ".xlsx":
            _write_excel(frame, temporary)
        elif ending == ".parquet":
            nested = [
                name for name, kind in frame.dtypes.items() if "[pyarrow]" in str(kind)
            ]
            with needed_for("Writing Parquet", "pyarrow", "text"):
                frame.astype(dict.fromkeys(nested, object)).to_parquet(
                    temporary, index=False
                )
        elif ending == ".jsonl":
            temporary.write_text(
                as_json_lines(frame), encoding="utf-8", errors="replace"
            )
        else:
            escape_formulas(frame).to_csv(temporary, index=False, lineterminator="\n")


def as_json_lines(frame: "DataFrame") -> str:
    """Return one JSON object per row; missing values are null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(
        f"{json.dumps(row, ensure_ascii=False, default=_for_json)}\n" for row in rows
    )


def _for_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def exact_number(text: str) -> float | Fraction:
    """Return a decimal or a ratio without rounding: a float if that is exact, else a
    Fraction.
    """
    try:
        decimal = Decimal(text.strip()) if "/" not in text else None
        if decimal is not None and not decimal.is_finite():
            return float(decimal)
        if decimal is not None and abs(decimal.adjusted()) > MAX_DIGITS:
            raise ValueError(f"too many digits to be written out: {text!r}")
        number = Fraction(text if decimal is None else decimal)
    except ArithmeticError:  # not a number of Decimal, or division by 0
        raise ValueError(f"not a number: {text!r}") from None
    try:
        return float(number) if float(number) == number else number
    except OverflowError:
        return number


def is_number(cell: str) -> bool:
    """Return whether `exact_number` reads a cell."""
    try:
        exact_number(cell)
    except ValueError:
        return False
    return True


def escape_formula(cell: Any) -> Any:
    """Return a cell of CSV that no spreadsheet runs as a formula: a text that may be
    one begins with an apostrophe.
    """
    is_risky = (
        isinstance(cell, str)
        and cell.startswith(FORMULA_STARTS)
        and not is_number(cell)
    )
    return f"'{cell}" if is_risky else cell


def escape_formulas(frame: "DataFrame") -> "DataFrame":
    """Return the table with `escape_formula` of its texts and of the names of its
    columns.
    """
    safe = frame.copy()
    for i, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") not in "biuf":
            cells = np.empty(
                len(frame), object
            )  # as Series.map would turn integers beside gaps into floats
            cells[:] = [escape_formula(cell) for cell in frame.iloc[:, i]]
            safe.isetitem(i, cells)
    return safe.set_axis([escape_formula(name) for name in frame.columns], axis=1)


def _write_excel(frame: "DataFrame", path: Path) -> None:
    import pandas

    with needed_for("Writing Excel", "openpyxl", "excel"):
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    def clean(cell: Any) -> Any:
        return ILLEGAL_CHARACTERS_RE.sub(" ", cell) if isinstance(cell, str) else cell

    with pandas.ExcelWriter(path, engine="openpyxl") as book:
        frame.rename(columns=clean).astype(object).map(clean).to_excel(
            book, sheet_name="hardmax", index=False
        )
        for row in book.sheets["hardmax"].iter_rows():
            for cell in row:
                cell.data_type = (
                    "s" if cell.data_type == "f" else cell.data_type
                )  # a text that begins with =


def join_names(names: list[str]) -> str:
    """Return names for a sentence, shortened, at most `MAX_LISTED` of them."""
    cut = [
        name if len(name) <= 40 else f"{name[:37]}..." for name in names[:MAX_LISTED]
    ]
    return ", ".join(cut) + (
        f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    )
