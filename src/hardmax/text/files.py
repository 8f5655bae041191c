"""Read and write tables: CSV and Parquet with pyarrow, Excel with pandas, JSON lines with json.

Numbers of CSV and JSON lines stay as they are written, because texts and labels may look like numbers.
"""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np

from hardmax._errors import InputError, ParameterError, did_you_mean, needed_for
from hardmax._files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import WriteableBuffer
    from pandas import DataFrame, Series

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # defaults; a header may show another one
OTHER_DELIMITERS = (",", ";", "\t", "|")
JSON_ENDINGS = (".jsonl", ".ndjson")
PACKED = tuple(f"{ending}.gz" for ending in (*DELIMITERS, *JSON_ENDINGS))
ENDINGS = (*DELIMITERS, *JSON_ENDINGS, *PACKED, ".parquet", ".xlsx", ".txt")
SEPARATOR_LINE = re.compile(r"\"?sep=(.)\"?\r?\n")  # Excel writes the delimiter in a first line
WRITABLE = (".csv", ".jsonl", ".parquet", ".xlsx")
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

MAX_ROW_BYTES = 16 << 20  # of CSV, in UTF-8
HEAD_CHARACTERS = 1 << 20  # of CSV, in which the header ends
LAST_ROW = "hardmax: end of file"  # every field of a row that is appended to CSV
WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # pyarrow counts the header as row 1
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that a spreadsheet may run
MAX_DIGITS = 4000  # before or after the decimal point
PLAIN_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,14})?")  # a number that a float represents as written
MAX_LISTED = 20  # columns, sheets or classes in a sentence


class How(NamedTuple):
    """Options for reading a file; None stands for detection."""

    delimiter: str | None = None  # of CSV
    encoding: str | None = None  # of text formats
    sheet: str | None = None  # of Excel


class Number(str):
    """A number in JSON lines, as it is written."""

    __slots__ = ()


def ending_of(path: Path) -> str:
    """Return the suffix of a readable file in lower case, together with .gz."""
    ending = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()
    if ending not in ENDINGS:
        advice = "Rename or convert it, or pass - to read one text per line from standard input."
        raise ParameterError("path", f"be a file that ends in {', '.join(ENDINGS)}", f"{str(path)!r}", advice)
    return ending


def read_frame(path: Path, ending: str, how: How) -> tuple["DataFrame", str]:
    """Return the rows of a file, and a sentence about a guess that was made to read it, or an empty text."""
    with needed_for("Reading a table", "pandas", "text"):
        import pandas
    _check_options(path, ending, how)
    if ending == ".parquet":
        return read_parquet(path), ""
    if ending == ".xlsx":
        return _read_excel(path, how.sheet)
    content, guessed = read_text(path, ending, how.encoding)
    default = DELIMITERS.get(ending.removesuffix(".gz"))
    if default is None:
        lines = enumerate(content.split("\n"), 1)  # not splitlines: JSON strings may hold other line separators
        rows = [json_object(path, number, line) for number, line in lines if line.strip()]
        return pandas.DataFrame(rows, dtype=object), guessed
    file = CsvFile(path, io.StringIO(content, newline=""), default, how.delimiter)
    block_bytes = max(MAX_ROW_BYTES, min(4 * len(content), 2**31 - 1))
    frames = [batch.to_pandas() for batch in file.batches(block_bytes=block_bytes)]
    frame = pandas.concat(frames, ignore_index=True).astype(object)
    if not len(frame):
        raise ParameterError(path, "hold rows", "a header alone", "Add a row for each text.")
    return frame.set_axis(file.names, axis=1), guessed


def _check_options(path: Path, ending: str, how: How) -> None:
    """Raise an error for an option that has no effect on a file of this format."""
    plain = ending.removesuffix(".gz")
    fits = {"delimiter": plain in DELIMITERS, "encoding": plain not in (".parquet", ".xlsx"), "sheet": plain == ".xlsx"}
    for name, value in how._asdict().items():
        if value is not None and not fits[name]:
            kind = {"delimiter": "a .csv or .tsv file", "encoding": "a file of text", "sheet": "an .xlsx file"}[name]
            raise ParameterError(name, f"go with {kind}", f"it with {str(path)!r}", "Leave it out.")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, or of standard input for the path -."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"`{path}` must be a file. Got nothing at that path. Check the spelling.") from None
    except OSError as error:
        reason = "It is a folder" if path.is_dir() else error.strerror
        raise OSError(f"`{path}` must be a file that can be read. Got: {reason}. Choose another path.") from None


def read_text(path: Path, ending: str, encoding: str | None) -> tuple[str, str]:
    """Return the characters of a file, and a sentence if the encoding was guessed, or an empty text.

    The default encoding is UTF-8, or UTF-16 if the file begins with a byte order mark. Files that are neither are read
    as Windows-1252, a superset of Latin-1.
    """
    data, guessed = read_bytes(path), ""
    if ending.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"`{path}` must be a whole gzip file. Got: {error}. Download or write it again.") from None
    used = BYTE_ORDER_MARKS.get(data[:2], "utf-8") if encoding is None else encoding
    is_utf8 = used.lower().replace("_", "-") in ("utf-8", "utf8")
    try:
        text = data.decode("utf-8-sig" if is_utf8 else used)  # utf-8-sig drops the byte order mark
    except LookupError:
        advice = "Try utf-8, latin-1 or utf-16."
        raise ParameterError("encoding", "name a text encoding", f"{encoding!r}", advice) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        where = f"at offset {start} in line {data.count(10, 0, start) + 1}"
        if encoding is not None or used != "utf-8" or b"\0" in data:
            other = BYTE_ORDER_MARKS.get(data[:2], "latin-1")
            advice = f"Pass its encoding, such as `encoding={other!r}`."
            raise ParameterError(path, f"be text in {used}", f"a byte that is not, {where}", advice) from None
        text = _as_latin(data)
        guessed = (
            f"{path} is not UTF-8 (a byte {where}), and was read as Latin-1. If characters look wrong, pass `encoding`."
        )
    if "\0" in text:  # UTF-16 without a byte order mark
        advice = "Pass its encoding, such as `encoding='utf-16'`."
        raise ParameterError(path, f"be text in {used}", "null bytes", advice)
    if not text.strip():
        raise ParameterError(path, "hold texts", "an empty file", "Check how it was written.")
    return text, guessed


def _as_latin(data: bytes) -> str:
    try:
        return data.decode("cp1252")  # Latin-1 and the quotes, dashes and euros of Windows
    except UnicodeError:
        return data.decode("latin-1")


class CsvFile:
    """A CSV file whose delimiter and header are known; `names` are its columns.

    Rows of another width than the header, and a quote that is not closed, are errors.
    """

    def __init__(self, path: Path, text: TextIO, default: str, delimiter: str | None) -> None:
        """Read the header of a text file that was opened with newline=""; `default` is the delimiter of its suffix."""
        self.path, self.text = path, text
        start = text.tell()
        head = text.read(HEAD_CHARACTERS)
        separator = SEPARATOR_LINE.match(head)
        skipped = separator.end() if separator else 0
        text.seek(start)
        text.read(skipped)
        default = separator[1] if separator else default
        self.delimiter = _find_delimiter(head[skipped:], default) if delimiter is None else _one_character(delimiter)
        try:
            rows = csv.reader(io.StringIO(head[skipped:], newline=""), delimiter=self.delimiter)
            self.names = [name.strip() for name in next(filter(None, rows), [])]
        except csv.Error as error:
            raise ParameterError(
                path, "be CSV", f"a header that cannot be read: {error}", "Close each quote."
            ) from None

    def batches(self, columns: list[int] | None = None, block_bytes: int = MAX_ROW_BYTES) -> "Iterator[pa.RecordBatch]":
        """Yield the rows in blocks of about `block_bytes`; the columns are texts, named by their index."""
        with needed_for("Reading CSV", "pyarrow", "text"):
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        if not self.names:
            return
        keys = [str(index) for index in range(len(self.names))]
        stream = io.BufferedReader(_CsvBytes(self.text, self.delimiter.join([LAST_ROW] * len(keys))))
        held = None  # the last batch so far: the appended row is its last one
        try:
            for batch in arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=block_bytes, column_names=keys, skip_rows_after_names=1
                ),
                arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(keys, pa.string()),
                    include_columns=keys if columns is None else [keys[index] for index in columns],
                    strings_can_be_null=False,
                ),
            ):
                if batch.num_rows:
                    if held is not None:
                        yield held
                    held = batch
        except pa.ArrowInvalid as error:
            raise self._problem(str(error)) from None
        if held is None or held.column(0)[-1].as_py() != LAST_ROW:
            raise ParameterError(self.path, "be CSV", "a quote that is not closed in the last row", "Close each quote.")
        yield held.slice(0, held.num_rows - 1)

    def _problem(self, error: str) -> ParameterError:
        """Return the error for a message of pyarrow."""
        if found := WRONG_WIDTH.search(error):
            row, width, fields = map(int, found.groups())
            must = f"have {width} field{'s' * (width > 1)} in each row, as in its header"
            advice = "Put quotes around a text that holds the delimiter, and close each quote."
            return ParameterError(self.path, must, f"{fields} in row {row - 1}", advice)
        if "straddl" in error:
            must, got = f"have rows of at most {MAX_ROW_BYTES:,} bytes", "a longer one"
            return ParameterError(self.path, must, got, "Close each quote, and put each row on a line of its own.")
        return ParameterError(self.path, "be CSV", error, "Write it again as CSV in UTF-8.")


class _CsvBytes(io.RawIOBase):
    """The characters of a CSV file as UTF-8, and one more row, which becomes part of a quote that is not closed."""

    def __init__(self, text: TextIO, last_row: str) -> None:
        self.text, self.rest = text, f"\n{last_row}\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        data = self.text.read(max(min(len(view), 1 << 20) // 4, 1))  # a character has at most 4 bytes
        if not data:
            data, self.rest = self.rest, ""
        encoded = data.encode()
        view[: len(encoded)] = encoded
        return len(encoded)


def _find_delimiter(content: str, default: str) -> str:
    """Return the delimiter that gives the most fields in the header; the default one if no other gives more."""
    header = next((line for line in content.splitlines() if line.strip()), "")
    marks = (default, *(mark for mark in OTHER_DELIMITERS if mark != default))
    return max(marks, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))  # max returns the first


def _one_character(delimiter: str) -> str:
    mark = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(mark) != 1 or mark in '"\r\n':
        raise ParameterError("delimiter", "be one character, or tab", f"{delimiter!r}", "Try ';'.")
    return mark


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """Return a line of JSON as a dict, with numbers as they are written."""
    try:
        found = json.loads(line, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError) as error:
        got, advice = f"line {number}: {error}", "Correct or remove that line."
    else:
        if isinstance(found, dict):
            return found
        got, advice = f"{listed([line.strip()])} in line {number}", 'Write {"text": ..., "label": ...}.'
    raise ParameterError(path, "hold one JSON object per line", got, advice)


def _read_excel(path: Path, sheet: str | None) -> tuple["DataFrame", str]:
    import pandas

    data = io.BytesIO(read_bytes(path))
    with needed_for("Reading Excel", "openpyxl", "excel"):
        import openpyxl  # noqa: F401
    try:
        with pandas.ExcelFile(data, engine="openpyxl") as book:
            names = [str(name) for name in book.sheet_names]
            chosen = names[0] if sheet is None else sheet
            found = chosen in names
            cells = pandas.read_excel(
                book, sheet_name=chosen if found else 0, header=None, dtype=object, na_filter=False
            )
    except Exception as error:  # of zipfile, of openpyxl, and of Python
        raise InputError(f"`{path}` must be an Excel file. Got: {error}. Save it again as .xlsx.") from None
    if not found:
        advice = f"{did_you_mean(chosen, names)} The sheets are: {listed(names)}."
        raise ParameterError("sheet", f"name a sheet of {path}", f"{sheet!r}", advice)
    filled = cells[(cells != "").any(axis=1)]
    if len(filled) < 2:
        raise ParameterError(path, "hold rows", f"none below a header in sheet {chosen!r}", "Add a row for each text.")
    names_row = [str(name).strip() for name in filled.iloc[0]]
    frame = filled.iloc[1:].where(filled != "", None).reset_index(drop=True).set_axis(names_row, axis=1)
    others = [name for name in names if name != chosen] if sheet is None else []
    guessed = f"Read sheet {chosen!r} of {path}; for {listed(others)} pass `sheet`." if others else ""
    return frame, guessed


def read_parquet(path: Path) -> "DataFrame":
    """Return the rows of a Parquet file that has at least one."""
    import pandas

    data = io.BytesIO(read_bytes(path))
    try:
        with needed_for("Reading Parquet", "pyarrow", "text"):
            frame = pandas.read_parquet(data, dtype_backend="pyarrow")  # keeps integers beside missing values
    except (ValueError, NotImplementedError, OSError) as error:  # the errors of Arrow
        raise InputError(f"`{path}` must be a Parquet file. Got: {error} Download or write it again.") from None
    if not len(frame):
        raise ParameterError(path, "hold rows", "columns without any", "Add a row for each text.")
    return frame


def as_numbers(column: "Series[Any]") -> "Series[Any]":
    """Return a column of texts that are all numbers as numbers; a column with anything else, such as 007, unchanged."""
    import pandas

    is_number = column.map(lambda cell: isinstance(cell, str) and bool(PLAIN_NUMBER.fullmatch(cell)))
    return pandas.to_numeric(column) if column.dtype == object and is_number.all() else column


def write_frame(frame: "DataFrame", path: Path) -> None:
    """Write a table atomically in the format of its suffix, one of `WRITABLE`."""
    ending = path.suffix.lower()
    with written_whole(path) as temporary:
        if ending == ".xlsx":
            _write_excel(frame, temporary)
        elif ending == ".parquet":
            with needed_for("Writing Parquet", "pyarrow", "text"):
                plain(frame).to_parquet(temporary, index=False)
        elif ending == ".jsonl":
            temporary.write_text(as_json_lines(frame), encoding="utf-8", errors="replace")
        else:
            escape_formulas(frame).to_csv(temporary, index=False, lineterminator="\n")


def plain(frame: "DataFrame") -> "DataFrame":
    """Return the table with columns of Arrow types as columns of objects."""
    nested = [name for name, kind in frame.dtypes.items() if "[pyarrow]" in str(kind)]
    return frame.astype(dict.fromkeys(nested, object))


def as_json_lines(frame: "DataFrame") -> str:
    """Return one JSON object per row; missing values are null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(f"{json.dumps(row, ensure_ascii=False, default=_for_json)}\n" for row in rows)


def _for_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def exact_number(text: str) -> float | Fraction:
    """Return a decimal or a ratio without rounding: a float if that is exact, else a Fraction."""
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
    """Return a cell of CSV that no spreadsheet runs as a formula: a text that may be one begins with an apostrophe.

    Examples
    --------
    >>> escape_formula("=1+2"), escape_formula("-0.5"), escape_formula("a film")
    ("'=1+2", '-0.5', 'a film')
    """
    is_risky = isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not is_number(cell)
    return f"'{cell}" if is_risky else cell


def escape_formulas(frame: "DataFrame") -> "DataFrame":
    """Return the table with `escape_formula` of its texts and of the names of its columns."""
    safe = frame.copy()
    for i, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") not in "biuf":
            cells = np.empty(len(frame), object)  # as Series.map would turn integers beside gaps into floats
            cells[:] = [escape_formula(cell) for cell in frame.iloc[:, i]]
            safe.isetitem(i, cells)
    return safe.set_axis([escape_formula(name) for name in frame.columns], axis=1)


def _write_excel(frame: "DataFrame", path: Path) -> None:
    import pandas

    with needed_for("Writing Excel", "openpyxl", "excel"):
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("hardmax")

    def cell(value: Any) -> Any:
        if not isinstance(value, str) and hasattr(value, "__len__"):  # a list
            value = str(getattr(value, "tolist", lambda: value)())
        if not isinstance(value, str):
            return None if pandas.isna(value) else getattr(value, "item", lambda: value)()
        made = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub(" ", value))
        made.data_type = "s"  # also a text that begins with =
        return made

    for row in (frame.columns.tolist(), *frame.astype(object).itertuples(index=False)):
        sheet.append([cell(value) for value in row])
    book.save(path)


def listed(names: list[str]) -> str:
    """Return names for a sentence, shortened, at most `MAX_LISTED` of them."""
    cut = [name if len(name) <= 40 else f"{name[:37]}..." for name in names[:MAX_LISTED]]
    return ", ".join(cut) + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")
