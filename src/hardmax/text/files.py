"""Tables of texts in files: CSV, JSON lines, Excel, Parquet. Each is read into a pandas frame, and written from one.

CSV and JSON lines are parsed by Python's own modules: pandas fills short rows and mends quotes without a word, counts
rows instead of lines, and writes numbers anew.
"""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardmax._errors import InputError, ParameterError, did_you_mean, needed_for
from hardmax._files import written_whole
from hardmax.text.table_files import escape_formulas

if TYPE_CHECKING:
    from pandas import DataFrame, Series

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # unless the header says otherwise
OTHERS = (",", ";", "\t", "|")
JSON_ENDINGS = (".jsonl", ".ndjson")
PACKED = tuple(f"{ending}.gz" for ending in (*DELIMITERS, *JSON_ENDINGS))
ENDINGS = (*DELIMITERS, *JSON_ENDINGS, *PACKED, ".parquet", ".xlsx", ".txt")
SAID = re.compile(r"\"?sep=(.)\"?\r?\n")  # a first line that says the delimiter
WRITABLE = (".csv", ".jsonl", ".parquet", ".xlsx")
MARKED = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # what spreadsheets put in front

FIELD_LIMIT = 2**31 - 1  # the largest that the csv module takes on every platform
PLAIN = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,14})?")  # a number that a float keeps
MOST_NAMED = 20  # columns, sheets or classes in a sentence


class How(NamedTuple):
    """How a file is read, where it is not to be found out."""

    delimiter: str | None = None  # of CSV
    encoding: str | None = None  # of anything but Excel and Parquet
    sheet: str | None = None  # of Excel


class Number(str):
    """A number of a JSON line, as it is written."""

    __slots__ = ()


def ending_of(path: Path) -> str:
    """The ending of a file that can be read, with that of its packing."""
    ending = "".join(path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]).lower()
    if ending not in ENDINGS:
        advice = "Rename or convert it; - reads one text a line from standard input."
        raise ParameterError("path", f"be a file that ends in {', '.join(ENDINGS)}", f"{str(path)!r}", advice)
    return ending


def read_frame(path: Path, ending: str, how: How) -> tuple["DataFrame", str]:
    """The rows of a file, and a sentence on what was guessed to read them, or nothing."""
    with needed_for("Reading a table", "pandas", "text"):
        import pandas
    _refuse_what_does_nothing(path, ending, how)
    if ending == ".parquet":
        return read_parquet(path), ""
    if ending == ".xlsx":
        return _read_excel(path, how.sheet)
    content, guessed = read_text(path, ending, how.encoding)
    usual = DELIMITERS.get(ending.removesuffix(".gz"))
    if usual is None:
        lines = enumerate(content.split("\n"), 1)  # not splitlines: JSON strings may hold other line separators
        rows = [json_object(path, number, line) for number, line in lines if line.strip()]
        return pandas.DataFrame(rows, dtype=object), guessed
    said, delimiter = csv_opening(content, usual, how.delimiter)
    names, *cells = [row for _, row in csv_records(path, io.StringIO(content[said:], newline=""), delimiter)]
    if not cells:
        raise header_alone(path)
    return pandas.DataFrame(cells, columns=[name.strip() for name in names], dtype=object), guessed


def _refuse_what_does_nothing(path: Path, ending: str, how: How) -> None:
    plain = ending.removesuffix(".gz")
    fits = {"delimiter": plain in DELIMITERS, "encoding": plain not in (".parquet", ".xlsx"), "sheet": plain == ".xlsx"}
    for name, value in how._asdict().items():
        if value is not None and not fits[name]:
            kind = {"delimiter": "a .csv or .tsv file", "encoding": "a file of text", "sheet": "an .xlsx file"}[name]
            raise ParameterError(name, f"go with {kind}", f"it with {str(path)!r}", "Leave it out.")


def read_bytes(path: Path) -> bytes:
    """A file, or standard input, or a sentence."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"`{path}` must be a file. Got nothing at that path. Check the spelling.") from None
    except OSError as error:
        reason = "It is a folder" if path.is_dir() else error.strerror
        raise OSError(f"`{path}` must be a file that can be read. Got: {reason}. Choose another path.") from None


def read_text(path: Path, ending: str, encoding: str | None) -> tuple[str, str]:
    """The letters of a file, and a sentence where their encoding was guessed.

    Unless it is said, that is UTF-8, or UTF-16 if the file begins with its mark; bytes that are neither are Latin-1 as
    Windows has it.
    """
    data, guessed = read_bytes(path), ""
    if ending.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"`{path}` must be a whole gzip file. Got: {error}. Download or write it again.") from None
    said = MARKED.get(data[:2], "utf-8") if encoding is None else encoding
    plain = said.lower().replace("_", "-") in ("utf-8", "utf8")
    try:
        text = data.decode("utf-8-sig" if plain else said)  # drops the mark
    except LookupError:
        advice = "Try utf-8, latin-1 or utf-16."
        raise ParameterError("encoding", "name a text encoding", f"{encoding!r}", advice) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        where = f"at offset {start} in line {data.count(10, 0, start) + 1}"
        if encoding is not None or said != "utf-8" or b"\0" in data:
            other = MARKED.get(data[:2], "latin-1")
            advice = f"Pass its encoding, such as `encoding={other!r}`."
            raise ParameterError(path, f"be text in {said}", f"a byte that is not, {where}", advice) from None
        text = _as_latin(data)
        guessed = (
            f"{path} is not UTF-8 (a byte {where}), and was read as Latin-1. If letters look wrong, pass `encoding`."
        )
    if "\0" in text:  # UTF-16 without its mark: half of its bytes are 0
        advice = "Pass its encoding, such as `encoding='utf-16'`."
        raise ParameterError(path, f"be text in {said}", "bytes that are 0", advice)
    if not text.strip():
        raise ParameterError(path, "hold texts", "an empty file", "Check how it was written.")
    return text, guessed


def _as_latin(data: bytes) -> str:
    try:
        return data.decode("cp1252")  # Latin-1 and the quotes, dashes and euros of Windows
    except UnicodeError:
        return data.decode("latin-1")


def csv_opening(content: str, usual: str, wanted: str | None) -> tuple[int, str]:
    """How many letters a first line has that says the delimiter, as Excel writes it; and the delimiter."""
    found = SAID.match(content)
    said = found.end() if found else 0
    usual = found[1] if found else usual
    return said, _delimiter(content[said:], usual) if wanted is None else _one_sign(wanted)


def _delimiter(content: str, usual: str) -> str:
    """What separates the most fields in the header; the usual sign of the ending, if no other separates more."""
    header = next((line for line in content.splitlines() if line.strip()), "")
    signs = (usual, *(sign for sign in OTHERS if sign != usual))
    return max(signs, key=lambda sign: len(next(csv.reader([header], delimiter=sign))))  # max takes the first


def _one_sign(delimiter: str) -> str:
    sign = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    if len(sign) != 1 or sign in '"\r\n':
        raise ParameterError("delimiter", "be one sign, or tab", f"{delimiter!r}", "Try ';'.")
    return sign


def csv_records(
    path: Path, lines: Iterable[str], delimiter: str, *, longest: int = FIELD_LIMIT, line: int = 1, width: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Rows of CSV, each with the number of the line where it starts: a quoted field may hold line breaks.

    `line` is the number of the first line, `longest` the most letters of a field; every row has `width` fields, or
    without it as many as the first one.
    """
    before = line - 1
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        previous = csv.field_size_limit(longest)  # of the whole process, so not while others may parse
        try:
            row = next(reader, None)
        except csv.Error as error:
            got = f"the row that starts in line {line}: {error}"
            advice = "Close each quote, and write a quote inside a quoted text twice."
            raise ParameterError(path, "be CSV", got, advice) from None
        finally:
            csv.field_size_limit(previous)
        if row is None:
            return
        width = width or len(row)
        if row and len(row) != width:
            must, advice = (
                f"have {width} field{'s' * (width > 1)} in each row, as in its header",
                "Put quotes around a text",
            )
            raise ParameterError(path, must, f"{len(row)} in line {line}", f"{advice} that holds the delimiter.")
        if row:
            yield line, row
        line = before + reader.line_num + 1


def header_alone(path: Path) -> ParameterError:
    """What is said of a table without rows."""
    return ParameterError(path, "hold rows", "a header alone", "Add a row for each text.")


def json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    """A line of JSON as a dict, numbers as they are written."""
    try:
        found = json.loads(line, parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError) as error:
        got, advice = f"line {number}: {error}", "Mend or remove that line."
    else:
        if isinstance(found, dict):
            return found
        got, advice = f"{listed([line.strip()])} in line {number}", 'Write {"text": ..., "label": ...}.'
    raise ParameterError(path, "hold one JSON object a line", got, advice)


def _read_excel(path: Path, sheet: str | None) -> tuple["DataFrame", str]:
    import pandas

    data = io.BytesIO(read_bytes(path))
    with needed_for("Reading Excel", "openpyxl", "excel"):
        from openpyxl import load_workbook
    try:
        book = load_workbook(data, read_only=True, data_only=True)  # what formulas gave
    except Exception as error:  # zipfile's, openpyxl's, and what they leave to Python
        raise InputError(f"`{path}` must be an Excel file. Got: {error}. Save it again as .xlsx.") from None
    names = [found.title for found in book.worksheets]
    chosen = names[0] if sheet is None else sheet
    if chosen not in names:
        advice = f"{did_you_mean(chosen, names)} The sheets are: {listed(names)}."
        raise ParameterError("sheet", f"name a sheet of {path}", f"{sheet!r}", advice)
    filled = (row for row in book[chosen].iter_rows(values_only=True) if any(cell is not None for cell in row))
    header, *rows = [*filled] or [()]
    if not rows:
        raise ParameterError(path, "hold rows", f"none below a header in sheet {chosen!r}", "Add a row for each text.")
    columns = ["" if name is None else str(name).strip() for name in header]
    others = [name for name in names if name != chosen] if sheet is None else []
    guessed = f"Read sheet {chosen!r} of {path}; for {listed(others)} pass `sheet`." if others else ""
    return pandas.DataFrame(rows, columns=columns, dtype=object), guessed


def read_parquet(path: Path) -> "DataFrame":
    """A Parquet file that has rows."""
    import pandas

    data = io.BytesIO(read_bytes(path))
    try:
        with needed_for("Reading Parquet", "pyarrow", "text"):
            frame = pandas.read_parquet(data, dtype_backend="pyarrow")  # whole numbers stay whole beside missing ones
    except (ValueError, NotImplementedError, OSError) as error:  # all that Arrow raises
        raise InputError(f"`{path}` must be a Parquet file. Got: {error} Download or write it again.") from None
    if not len(frame):
        raise ParameterError(path, "hold rows", "columns without any", "Add a row for each text.")
    return frame


def as_numbers(column: "Series[Any]") -> "Series[Any]":
    """A column of texts that are all numbers, as numbers; 007 and a column with anything else stay texts."""
    import pandas

    if column.dtype == object and column.map(lambda cell: isinstance(cell, str) and bool(PLAIN.fullmatch(cell))).all():
        return pandas.to_numeric(column)
    return column


def write_frame(frame: "DataFrame", path: Path) -> None:
    """Write a table as its ending says, one of `WRITABLE`, whole or not at all."""
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
    """A table that every program reads: types of Arrow as those of pandas."""
    nested = [name for name, kind in frame.dtypes.items() if "[pyarrow]" in str(kind)]
    return frame.astype(dict.fromkeys(nested, object))


def as_json_lines(frame: "DataFrame") -> str:
    """A JSON object a row; what is missing is null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return "".join(f"{json.dumps(row, ensure_ascii=False, default=_for_json)}\n" for row in rows)


def _for_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _write_excel(frame: "DataFrame", path: Path) -> None:
    import pandas

    with needed_for("Writing Excel", "openpyxl", "excel"):
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("hardmax")

    def cell(value: Any) -> Any:
        if not isinstance(value, str) and hasattr(value, "__len__"):  # a list in a cell
            value = str(getattr(value, "tolist", lambda: value)())
        if not isinstance(value, str):
            return None if pandas.isna(value) else getattr(value, "item", lambda: value)()
        made = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub(" ", value))
        made.data_type = "s"  # a text that begins with = is none of a formula's
        return made

    for row in (frame.columns.tolist(), *frame.astype(object).itertuples(index=False)):
        sheet.append([cell(value) for value in row])
    book.save(path)


def listed(names: list[str]) -> str:
    """Names in a sentence: short ones, and not too many."""
    cut = [name if len(name) <= 40 else f"{name[:37]}..." for name in names[:MOST_NAMED]]
    return ", ".join(cut) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
