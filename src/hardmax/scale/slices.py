"""Slices of input files: consecutive rows that fit in memory, read from Parquet.

CSV, JSON lines and text files are first copied to Parquet, one row group per slice, so that a file that cannot be read
is refused before any prediction, and so that workers read all formats alike.
"""

import codecs
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax.text.files import (
    BYTE_ORDER_MARKS,
    DELIMITERS,
    ENDINGS,
    JSON_ENDINGS,
    MAX_ROW_BYTES,
    CsvFile,
    How,
    ending_of,
    json_object,
)
from hardmax.text.tables import TEXT_NAMES, choose_column, text_of

MAX_ROWS = 20_000  # per slice: a few seconds of work for short texts
MAX_BYTES = 8 << 20  # per slice: a few seconds of work for long texts
HEAD_LINES = 1000  # of JSON lines, whose keys are the columns
BATCH_ROWS = 1000  # of Parquet that are decoded together
BUFFER_BYTES = 1 << 20  # of Parquet that are read together
COPIED = (*DELIMITERS, *JSON_ENDINGS, ".txt")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")  # tried in this order
COLUMN = "text"  # of a copy


@dataclass(frozen=True)
class Slice:
    """Rows `start` to `stop` - 1 of a file, counted from 0. All fields can be written as JSON."""

    number: int
    file: str
    name: str | None  # of the file in the predictions; None for a single file
    size: int  # of the file in bytes, which must not change while it is read
    modified_ns: int
    parquet: str  # the file itself, or its copy
    column: str
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def where(self) -> str:
        return f"rows {self.start + 1:,} to {self.stop:,} of `{self.file}`"


def find_files(given: Any, out: Path) -> list[tuple[Path, str | None]]:
    """Return the files of a path, a folder or a list of them, in order, with names if there may be several."""
    if not isinstance(given, str | PathLike):
        return [(path, name or str(each)) for each in given for path, name in find_files(each, out)]
    path = Path(given)
    if not path.exists():
        raise FileNotFoundError(f"`{path}` must be a file or a folder. Got nothing at that path. Check the spelling.")
    if not path.is_dir():
        return [(path, None)]
    if out.resolve().is_relative_to(path.resolve()):
        raise ParameterError("out", "be outside of the folder that is read", f"{str(out)!r}", "Choose another folder.")
    names = [each.relative_to(path) for each in sorted(path.rglob("*")) if each.is_file()]
    visible = [name for name in names if not any(part[0] in "._" for part in name.parts)]  # as in Spark and Arrow
    found: list[tuple[Path, str | None]] = [
        (path / name, name.as_posix()) for name in visible if name.name.lower().endswith(ENDINGS)
    ]
    if not found:
        must = f"hold files that end in {', '.join((*COPIED, '.parquet'))}"
        raise ParameterError("files", must, f"none in {str(path)!r}")
    return found


def make_slices(
    found: list[tuple[Path, str | None]], text: str | None, how: How, copies: Path
) -> tuple[list[Slice], list[str]]:
    """Return the slices of files with their names, and a sentence for each file whose encoding was guessed.

    Copies of files in other formats than Parquet are written to the folder `copies`.
    """
    slices: list[Slice] = []
    notes: list[str] = []
    for index, (path, name) in enumerate(found):
        ending, about = ending_of(path), path.stat()
        if ending == ".parquet":
            parquet, (column, sizes) = path.resolve(), _cut_parquet(path, text)
        elif ending in COPIED:
            parquet, column = copies / f"{index:06d}.parquet", COLUMN
            sizes, encoding = _copy(path, ending, text, how, parquet)
            if how.encoding is None and encoding != ENCODINGS[0]:
                notes.append(
                    f"{path} is not UTF-8, and was read as Latin-1. If characters look wrong, pass `encoding`."
                )
        else:
            advice = "Unpack it: gunzip." if ending.endswith(".gz") else "Save it as .csv or .parquet."
            raise ParameterError(path, "be a file that is read in parts", f"a {ending} file", advice)
        start, now = 0, path.stat()
        if (now.st_size, now.st_mtime_ns) != (about.st_size, about.st_mtime_ns):
            raise _changed(path)
        for size in sizes:
            known = (len(slices), str(path.resolve()), name, about.st_size, about.st_mtime_ns, str(parquet), column)
            slices.append(Slice(*known, start, start + size))
            start += size
    if not slices:
        raise ParameterError("files", "hold rows", "none", "Add a row for each text.")
    return slices, notes


def _changed(path: Path) -> InputError:
    return InputError(f"`{path}` must not change while it is read. Got another size or time. Call it again.")


def _cut_parquet(path: Path, text: str | None) -> tuple[str, list[int]]:
    """Return the column of texts, and the number of rows of each slice, from the footer of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            footer, schema = file.metadata, file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"`{path}` must be a Parquet file. Got: {error} Download or write it again.") from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    columns = [column for column in schema.names if column not in index]
    column, pieces = choose_column(columns, text, "text", TEXT_NAMES, None, path), list[tuple[int, int]]()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)
        slices = max(-(-group.num_rows // MAX_ROWS), -(-size // MAX_BYTES), 1)
        bounds = [group.num_rows * i // slices for i in range(slices + 1)]
        for start, stop in pairwise(bounds):  # large row groups are cut, small ones joined
            rows, length = pieces.pop() if pieces else (0, 0)
            whole = rows + stop - start, length + size // slices
            pieces += (
                [whole]
                if whole[0] <= MAX_ROWS and whole[1] <= MAX_BYTES
                else [(rows, length), (stop - start, size // slices)]
            )
    return column, [rows for rows, _ in pieces if rows]


def _copy(path: Path, ending: str, text: str | None, how: How, target: Path) -> tuple[list[int], str]:
    """Write the texts of a file to Parquet; return the number of rows of each row group, and the encoding."""
    with path.open("rb") as file:
        mark = BYTE_ORDER_MARKS.get(file.read(2))
    for encoding in ENCODINGS if how.encoding is None and mark is None else (how.encoding or mark,):
        try:
            utf8 = codecs.lookup(str(encoding)).name == "utf-8"
        except LookupError:
            advice = "Try utf-8, latin-1 or utf-16."
            raise ParameterError("encoding", "name a text encoding", f"{encoding!r}", advice) from None
        try:
            newline = {".txt": None, ".jsonl": "\n", ".ndjson": "\n"}.get(ending, "")
            with path.open(encoding="utf-8-sig" if utf8 else encoding, newline=newline) as opened:
                return _write_groups(_texts(path, ending, opened, text, how.delimiter), target), str(encoding)
        except UnicodeError:
            continue
    raise ParameterError(path, f"be text in {how.encoding or mark}", "other bytes", "Pass its `encoding`.")


def _texts(path: Path, ending: str, file: TextIO, text: str | None, delimiter: str | None) -> Iterator[str]:
    """Yield the text of each row, an empty one if it is missing."""
    values: Iterable[Any]
    if ending in DELIMITERS:
        table = CsvFile(path, file, DELIMITERS[ending], delimiter)
        names = table.names
        column = names.index(choose_column(names, text, "text", TEXT_NAMES, None, path)) if names else 0
        values = (value for batch in table.batches([column]) for value in batch.column(0).to_pylist())
    elif ending in JSON_ENDINGS:
        rows = ((number, line) for number, line in enumerate(_lines(path, file), 1) if line.strip())
        head = [json_object(path, *row) for row in islice(rows, HEAD_LINES)]
        keys = list(dict.fromkeys(key for row in head for key in row))
        key = choose_column(keys, text, "text", TEXT_NAMES, None, path) if keys else None
        file.seek(0)
        rows = ((number, line) for number, line in enumerate(_lines(path, file), 1) if line.strip())
        values = (json_object(path, *row).get(key or "") for row in rows)
    else:
        if text is not None:
            raise ParameterError("text", "name a column of a table", f"{str(path)!r}", "Leave it out.")
        values = (line.removesuffix("\n") for line in _lines(path, file))
    for row, value in enumerate(values, 1):
        found = text_of(value, path, row) or ""
        if "\0" in found:
            advice = "Pass its encoding, such as `encoding='utf-16'`."
            raise ParameterError(path, "be text", f"null bytes in row {row}", advice)
        yield found


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    for number in count(1):
        if not (line := file.readline(MAX_ROW_BYTES + 1)):
            return
        if len(line) > MAX_ROW_BYTES:
            must, got = f"have lines of at most {MAX_ROW_BYTES:,} characters", f"a longer one, line {number:,}"
            raise ParameterError(path, must, got, "Put each row on a line of its own.")
        yield line


def _write_groups(texts: Iterator[str], target: Path) -> list[int]:
    """Write texts as row groups of at most MAX_ROWS rows and about MAX_BYTES; return their numbers of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, sizes = pa.schema([(COLUMN, pa.string())]), list[int]()
    with written_whole(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        group, size = list[str](), 0
        for text in texts:
            group.append(text)
            size += len(text)
            if len(group) >= MAX_ROWS or size >= MAX_BYTES:
                writer.write_table(pa.table([group], schema=schema))
                sizes.append(len(group))
                group, size = [], 0
        if group:
            writer.write_table(pa.table([group], schema=schema))
            sizes.append(len(group))
    return sizes


def read_slice(part: Slice) -> list[str]:
    """Return the texts of a slice; a missing one is an empty text."""
    path = Path(part.file)
    if part.parquet == part.file:
        now = path.stat()
        if (now.st_size, now.st_mtime_ns) != (part.size, part.modified_ns):
            raise _changed(path)
    reader = _readers.pop() if _readers else _Reader(part)
    if not reader.is_just_before(part):
        reader = _Reader(part)
    values = reader.read(part.start, part.stop)
    _readers.append(reader)
    return [text_of(value, path, row) or "" for row, value in enumerate(values, part.start + 1)]


class _Reader:
    """A column of a Parquet file, read forwards: a process usually reads slices of one row group in their order."""

    def __init__(self, part: Slice) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.source = part.parquet, part.modified_ns, part.column
        file = pq.ParquetFile(part.parquet, buffer_size=BUFFER_BYTES, pre_buffer=False)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self.group_starts = list(accumulate(sizes, initial=0))[:-1]
        group = bisect(self.group_starts, part.start) - 1
        groups = list(range(group, len(sizes)))
        self.batches = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=[part.column])
        self.first, self.batch = self.group_starts[group], pa.array([])  # the last batch and its first row

    def is_just_before(self, part: Slice) -> bool:
        """Return whether reading on leads to the slice, and no row group starts between."""
        same = self.source == (part.parquet, part.modified_ns, part.column)
        return same and self.group_starts[bisect(self.group_starts, part.start) - 1] <= self.first <= part.start

    def read(self, start: int, stop: int) -> list[Any]:
        """Return the values of rows `start` to `stop` - 1."""
        values: list[Any] = []
        while True:
            end = self.first + len(self.batch)
            if end > start:
                values += self.batch[max(start - self.first, 0) : stop - self.first].to_pylist()
            if end >= stop:
                return values
            self.first, self.batch = end, next(self.batches).column(0)


_readers: list[_Reader] = []  # of this process, at most one
