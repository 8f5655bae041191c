"""Slices of input files: consecutive rows that fit in memory, read from Parquet.

CSV, JSON lines and text files are first copied to Parquet, one row group per slice, so that a file that cannot be read
is refused before any prediction, and so that workers read all formats alike.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax.text.files import ENDINGS, TEXT_ENDINGS, How, find_ending, open_blocks
from hardmax.text.tables import choose_column, to_text

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_ROWS = 20_000  # per slice: a few seconds of work for short texts
MAX_BYTES = 8 << 20  # per slice: a few seconds of work for long texts
BATCH_ROWS = 1000  # of Parquet that are decoded together
BUFFER_BYTES = 1 << 20  # of Parquet that are read together
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


def find_files(paths: Any, out: Path) -> list[tuple[Path, str | None]]:
    """Return the files of a path, a folder or a list of them, in order, with names if there may be several."""
    if not isinstance(paths, str | PathLike):
        return [(path, name or str(each)) for each in paths for path, name in find_files(each, out)]
    path = Path(paths)
    if not path.exists():
        raise FileNotFoundError(f"`{path}` must be a file or a folder. Got nothing at that path. Check the spelling.")
    if not path.is_dir():
        return [(path, None)]
    if out.resolve().is_relative_to(path.resolve()):
        raise ParameterError("out", "be outside of the folder that is read", f"{str(out)!r}", "Choose another folder.")
    names = [each.relative_to(path) for each in sorted(path.rglob("*")) if each.is_file()]
    visible = [name for name in names if not any(part[0] in "._" for part in name.parts)]  # as in Spark and Arrow
    readable = [name for name in visible if name.name.lower().endswith(ENDINGS)]
    if not readable:
        must = f"hold files that end in {', '.join((*TEXT_ENDINGS, '.parquet'))}"
        raise ParameterError("files", must, f"none in {str(path)!r}")
    return [(path / name, name.as_posix()) for name in readable]


def make_slices(
    found: list[tuple[Path, str | None]], text: str | None, how: How, copies: Path
) -> tuple[list[Slice], list[str]]:
    """Return the slices of files, copied to `copies` if they are not Parquet, and a sentence for each guess."""
    slices, notes = list[Slice](), list[str]()
    for index, (path, name) in enumerate(found):
        ending, about = find_ending(path), path.stat()
        if ending == ".parquet":
            parquet, (column, sizes) = path.resolve(), _cut_parquet(path, text)
        elif ending in TEXT_ENDINGS:
            parquet, column = copies / f"{index:06d}.parquet", COLUMN
            with open_blocks(path, ending, how) as (blocks, guessed):
                sizes = _write_groups(_read_texts(blocks, text, path), parquet)
            notes += [guessed] if guessed else []
        else:
            advice = "Unpack it: gunzip." if ending.endswith(".gz") else "Save it as .csv or .parquet."
            raise ParameterError(path, "be a file that is read in parts", f"a {ending} file", advice)
        _check_unchanged(path, about.st_size, about.st_mtime_ns)
        start = 0
        for size in sizes:
            known = (len(slices), str(path.resolve()), name, about.st_size, about.st_mtime_ns, str(parquet), column)
            slices.append(Slice(*known, start, start + size))
            start += size
    if not slices:
        raise ParameterError("files", "hold rows", "none", "Add a row for each text.")
    return slices, notes


def _check_unchanged(path: Path, size: int, modified_ns: int) -> None:
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (size, modified_ns):
        raise InputError(f"`{path}` must not change while it is read. Got another size or time. Call it again.")


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
    column, sizes, length = choose_column(columns, text, path), [0], 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)
        parts = max(-(-group.num_rows // MAX_ROWS), -(-size // MAX_BYTES), 1)
        for start, stop in pairwise(group.num_rows * i // parts for i in range(parts + 1)):
            if sizes[-1] + stop - start > MAX_ROWS or length + size // parts > MAX_BYTES:
                sizes.append(0)
                length = 0
            sizes[-1] += stop - start
            length += size // parts
    return column, [rows for rows in sizes if rows]


def _read_texts(blocks: "Iterator[DataFrame]", text: str | None, path: Path) -> Iterator[str]:
    """Yield the text of each row, an empty one if it is missing; the first block has the columns."""
    column, rows = None, count(1)
    for block in blocks:
        column = column or choose_column(list(block), text, path)
        values = block[column].astype(object) if column in block else [None] * len(block)
        yield from (to_text(value, path, next(rows)) or "" for value in values)


def _write_groups(texts: Iterator[str], target: Path) -> list[int]:
    """Write texts as row groups of at most MAX_ROWS rows and about MAX_BYTES; return their numbers of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, sizes = pa.schema([(COLUMN, pa.string())]), list[int]()
    with written_whole(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while group := list(_next_group(texts)):
            writer.write_table(pa.table([group], schema=schema))
            sizes.append(len(group))
    return sizes


def _next_group(texts: Iterator[str]) -> Iterator[str]:
    size = 0
    for text in islice(texts, MAX_ROWS):
        yield text
        size += len(text)
        if size >= MAX_BYTES:
            return


def read_slice(part: Slice) -> list[str]:
    """Return the texts of a slice; a missing one is an empty text."""
    import pyarrow.parquet as pq

    path, source = Path(part.file), (part.parquet, part.modified_ns, part.column)
    if part.parquet == part.file:
        _check_unchanged(path, part.size, part.modified_ns)
    footer = pq.read_metadata(part.parquet)
    starts = np.cumsum([0, *(footer.row_group(i).num_rows for i in range(footer.num_row_groups))])
    group = int(np.searchsorted(starts, part.start, "right")) - 1  # the row group in which the slice begins
    known, row, values = _last_read.pop() if _last_read else (None, 0, iter(()))
    if known != source or not starts[group] <= row <= part.start:
        file = pq.ParquetFile(part.parquet, buffer_size=BUFFER_BYTES, pre_buffer=False)
        groups = list(range(group, footer.num_row_groups))
        batches = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=[part.column])
        row, values = int(starts[group]), (value for batch in batches for value in batch.column(0).to_pylist())
    numbered = enumerate(islice(values, part.start - row, part.stop - row), part.start + 1)
    texts = [to_text(value, path, number) or "" for number, value in numbered]
    _last_read.append((source, part.stop, values))
    return texts


# Source, next row and iterator of the slice that this process has read last. A process usually reads the slices of a
# large row group in order, and Parquet can only be decoded from the start of a row group.
_last_read: list[tuple[Any, int, Iterator[Any]]] = []
