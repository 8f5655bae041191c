"""Where files of texts are cut: into slices that fit in memory, found without holding more than one.

CSV is cut by the parser that reads it, so that a line break within quotes ends no row, and a file that is no CSV is
refused before any work. Of Parquet only the footer is read.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from hardmax._errors import InputError, ParameterError
from hardmax.text.files import (
    DELIMITERS,
    ENDINGS,
    JSON_ENDINGS,
    MARKED,
    How,
    csv_opening,
    csv_records,
    ending_of,
    json_object,
)
from hardmax.text.tables import TEXT_NAMES, choose_column

ROWS = 20_000  # of a slice: some seconds of short texts
SIZE = 8 << 20  # bytes of a slice: some seconds of long ones
LONGEST = 64 << 20  # bytes of a line, and letters of a field
HEAD = 1000  # lines that tell the columns of a file
CUT = (*DELIMITERS, *JSON_ENDINGS, ".parquet", ".txt")
GUESSES = ("utf-8", "cp1252", "latin-1")  # one after the other, as `files.read_text` has them


@dataclass(frozen=True)
class Slice:
    """Rows of a file that lie together, and all that reading them needs. JSON can hold it."""

    file: str
    name: str | None  # of the file in the answers; None where there is only one
    size: int  # of the file, which is not to change while it is read
    changed: int  # when it was written last, in ns
    column: str | int | None = None  # name, or place in CSV; None where a line is a text
    encoding: str | None = None
    delimiter: str | None = None
    width: int = 0  # fields of CSV
    number: int = 0  # of the slice
    start: int = 0  # bytes from here to `stop`; of Parquet, rows of the file
    stop: int = 0
    line: int = 1  # number of its first line
    first: int = 1  # number of its first row
    rows: int = 0

    @property
    def where(self) -> str:
        """Its rows in words."""
        return f"rows {self.first:,} to {self.first + self.rows - 1:,} of `{self.file}`"


def slices_of(found: list[tuple[Path, str | None]], text: str | None, how: How) -> list[Slice]:
    """The slices of files, which come with their names in the answers, in their order."""
    cut = [part for path, name in found for part in _cut_file(path, name, text, how)]
    if not cut:
        raise ParameterError("files", "hold rows", "none", "Add a row for each text.")
    return [replace(part, number=number) for number, part in enumerate(cut)]


def files_of(given: Any, out: Path) -> list[tuple[Path, str | None]]:
    """The files of a path, a folder or a list of them, in order; with names where there may be several."""
    if not isinstance(given, str | PathLike):
        return [(path, name or str(each)) for each in given for path, name in files_of(each, out)]
    path = Path(given)
    if not path.exists():
        raise FileNotFoundError(f"`{path}` must be a file or a folder. Got nothing at that path. Check the spelling.")
    if not path.is_dir():
        return [(path, None)]
    if out.resolve().is_relative_to(path.resolve()):
        raise ParameterError("out", "be outside of the folder that is read", f"{str(out)!r}", "Choose another folder.")
    within = sorted(each for each in path.rglob("*") if each.is_file())
    names = [each.relative_to(path) for each in within]
    seen = [name for name in names if not any(part[0] in "._" for part in name.parts)]  # as Spark and Arrow have it
    found: list[tuple[Path, str | None]] = [
        (path / name, name.as_posix()) for name in seen if name.name.lower().endswith(ENDINGS)
    ]
    if not found:
        raise ParameterError("files", f"hold files that end in {', '.join(CUT)}", f"none in {str(path)!r}")
    return found


def _cut_file(path: Path, name: str | None, text: str | None, how: How) -> list[Slice]:
    ending = ending_of(path)
    if ending not in CUT:
        packed = ending.endswith(".gz")
        advice = "Unpack it: gunzip." if packed else "Save it as .csv or .parquet."
        raise ParameterError(path, "be a file that can be cut", f"{ending}, which can be read as a whole only", advice)
    if ending == ".parquet":
        about = path.stat()
        return list(_cut_parquet(Slice(str(path.resolve()), name, about.st_size, about.st_mtime_ns), path, text))
    for encoding in GUESSES if how.encoding is None else (how.encoding,):
        _check_encoding(encoding)
        try:
            return list(_cut_text(path, name, ending, text, how._replace(encoding=encoding)))
        except UnicodeError:
            continue
    raise ParameterError(path, f"be text in {how.encoding}", "bytes that are not", "Pass its `encoding`.")


def _check_encoding(encoding: str) -> None:
    plain = bytes(range(128))
    try:
        fits = plain.decode(encoding) == plain.decode("ascii")
    except (LookupError, UnicodeError):
        fits = False
    if not fits:
        must = "name an encoding in which the letters of ASCII are single bytes, so that files can be cut"
        raise ParameterError("encoding", must, repr(encoding), "Write the file as UTF-8: iconv -t utf-8.")


class _Lines:
    """Lines of a file one by one, and where they end; with `split` also a lone carriage return ends one."""

    def __init__(self, file: BinaryIO, path: Path, encoding: str, *, split: bool) -> None:
        self.file, self.path, self.encoding, self.split = file, path, encoding, split
        self.offset, self.count = file.tell(), 0  # of what was given out

    def __iter__(self) -> Iterator[str]:
        while raw := self.file.readline(LONGEST + 1):
            if len(raw) > LONGEST:
                must, got = f"have lines of at most {LONGEST:,} bytes", f"a longer one, line {self.count + 1:,}"
                raise ParameterError(self.path, must, got, "Put each row on a line of its own.")
            text = raw.decode(self.encoding)
            if "\0" in text:
                raise ParameterError(self.path, f"be text in {self.encoding}", "bytes that are 0", "Convert it.")
            if not self.split or "\r" not in text[:-2]:
                self.count, self.offset = self.count + 1, self.offset + len(raw)
                yield text
                continue
            for piece in io.StringIO(text, newline=""):
                self.count, self.offset = self.count + 1, self.offset + len(piece.encode(self.encoding))
                yield piece


def _cut_text(path: Path, name: str | None, ending: str, text: str | None, how: How) -> Iterator[Slice]:
    about, encoding = path.stat(), str(how.encoding)
    known = Slice(str(path.resolve()), name, about.st_size, about.st_mtime_ns, encoding=encoding)
    with path.open("rb") as file:
        begins = file.read(3)
        if begins[:2] in MARKED:
            raise ParameterError(path, "be a file that can be cut", "UTF-16", "Write it as UTF-8: iconv -t utf-8.")
        file.seek(3 if begins == b"\xef\xbb\xbf" else 0)
        lines = _Lines(file, path, encoding, split=ending not in JSON_ENDINGS)
        rows: Iterable[object] = lines
        if ending in JSON_ENDINGS:
            columns = _json_columns(path, encoding, file)
            column = choose_column(columns, text, "text", TEXT_NAMES, None, path) if columns else None
            known, rows = replace(known, column=column), (line for line in lines if line.strip())
        elif ending != ".txt":
            known, rows = _csv_rows(known, path, lines, text, how.delimiter or "", DELIMITERS[ending])
        elif text is not None:
            raise ParameterError("text", "name a column of a table", f"{str(path)!r}", "Leave it out.")
        yield from _cut(known, lines, rows)


def _csv_rows(
    known: Slice, path: Path, lines: _Lines, text: str | None, wanted: str, usual: str
) -> tuple[Slice, Iterable[object]]:
    """What the header of CSV says, and the rows below it."""
    start = lines.offset
    opening = "".join(_head(lines))
    lines.file.seek(start)
    said, delimiter = csv_opening(opening, usual, wanted or None)
    lines.offset, lines.count = start, 0
    if said:
        next(iter(lines))
        lines.count = 0  # as in `files.read_frame`, the line that says the delimiter is none
    records = csv_records(path, lines, delimiter, longest=LONGEST)
    _, header = next(records, (0, []))
    if not header:
        return known, ()
    names = [each.strip() for each in header]
    column = names.index(choose_column(names, text, "text", TEXT_NAMES, None, path))
    return replace(known, column=column, delimiter=delimiter, width=len(names)), records


def _head(lines: _Lines) -> Iterator[str]:
    """The first lines, as many as tell of the others."""
    start = lines.offset
    for line in islice(lines, HEAD):
        yield line
        if lines.offset - start >= SIZE:
            return


def _json_columns(path: Path, encoding: str, file: BinaryIO) -> list[str]:
    """Columns of the first lines, in the order in which they come."""
    start = file.tell()
    some = [(n, line) for n, line in enumerate(_head(_Lines(file, path, encoding, split=False)), 1) if line.strip()]
    file.seek(start)
    return list(dict.fromkeys(key for number, line in some for key in json_object(path, number, line)))


def _cut(known: Slice, lines: _Lines, rows: Iterable[object]) -> Iterator[Slice]:
    first, count = 1, 0
    start, line = lines.offset, lines.count + 1
    for _ in rows:
        count += 1
        if count >= ROWS or lines.offset - start >= SIZE:
            yield replace(known, start=start, stop=lines.offset, line=line, first=first, rows=count)
            start, line, first, count = lines.offset, lines.count + 1, first + count, 0
    if count:
        yield replace(known, start=start, stop=lines.offset, line=line, first=first, rows=count)


def _cut_parquet(known: Slice, path: Path, text: str | None) -> Iterator[Slice]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            about, schema = file.metadata, file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"`{path}` must be a Parquet file. Got: {error} Download or write it again.") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    columns = [column for column in schema.names if column not in index]
    known = replace(known, column=choose_column(columns, text, "text", TEXT_NAMES, None, path))
    start = count = size = 0
    for group in map(about.row_group, range(about.num_row_groups)):
        leaves = map(group.column, range(group.num_columns))
        texts = sum(leaf.total_uncompressed_size for leaf in leaves if leaf.path_in_schema == known.column)
        left, each = group.num_rows, texts / max(group.num_rows, 1)
        while left:
            room = min(ROWS - count, int((SIZE - size) / max(each, 1e-9)))
            if room < 1 and count:
                yield replace(known, start=start, stop=start + count, first=start + 1, rows=count)
                start, count, size = start + count, 0, 0
                continue
            taken = min(max(room, 1), left)
            left, count, size = left - taken, count + taken, size + int(taken * each)
    if count:
        yield replace(known, start=start, stop=start + count, first=start + 1, rows=count)


def guessed(cut: Iterable[Slice], encoding: str | None) -> list[str]:
    """Sentences on files whose encoding was guessed."""
    other = dict.fromkeys(part.file for part in cut if part.encoding not in (None, GUESSES[0]))
    said = "is not UTF-8, and was read as Latin-1. If letters look wrong, pass `encoding`."
    return [f"{file} {said}" for file in other] if encoding is None else []


def as_cells(cut: Iterable[Slice]) -> list[dict[str, Any]]:
    """Slices as the cells of a sweep."""
    return [asdict(part) for part in cut]
