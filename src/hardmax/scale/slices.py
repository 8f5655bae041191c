"""Slices of input files: consecutive rows that fit in memory, read from Parquet.

CSV, JSON lines and text files are first copied to Parquet, one row group per slice, so
that a file that cannot be read is refused before any prediction, and so that workers
read all formats alike.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._validation import is_missing
from hardmax.text.columns import RowText
from hardmax.text.files import ENDINGS, TEXT_ENDINGS, How, find_ending, open_blocks
from hardmax.text.tables import choose_column, to_text

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_ROWS = 20_000  # per slice: a few seconds of work for short texts
MAX_BYTES = 8 << 20  # per slice: a few seconds of work for long texts
BATCH_ROWS = 1000  # of Parquet that are decoded together
BUFFER_BYTES = 1 << 20  # of Parquet that are read together


@dataclass(frozen=True)
class Slice:
    """Rows `start` to `stop` - 1 of a file, counted from 0. All fields can be written
    as JSON.
    """

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
    """Return the files of a path, a folder or a list of them, in order, with names if
    there may be several.
    """
    if not isinstance(paths, str | PathLike):
        return [
            (path, name or str(each))
            for each in paths
            for path, name in find_files(each, out)
        ]
    path = Path(paths)
    if not path.exists():
        raise FileNotFoundError(
            f"`{path}` must be a file or a folder. Got nothing at that path. Check the"
            " spelling."
        )
    if not path.is_dir():
        return [(path, None)]
    if out.resolve().is_relative_to(path.resolve()):
        raise ParameterError(
            "out",
            "be outside of the folder that is read",
            f"{str(out)!r}",
            "Choose another folder.",
        )
    names = [
        each.relative_to(path) for each in sorted(path.rglob("*")) if each.is_file()
    ]
    visible = [
        name for name in names if not any(part[0] in "._" for part in name.parts)
    ]  # as in Spark and Arrow
    readable = [name for name in visible if name.name.lower().endswith(ENDINGS)]
    if not readable:
        must = f"hold files that end in {', '.join((*TEXT_ENDINGS, '.parquet'))}"
        raise ParameterError("files", must, f"none in {str(path)!r}")
    return [(path / name, name.as_posix()) for name in readable]


def make_slices(
    found: list[tuple[Path, str | None]],
    text: str | None,
    how: How,
    copies: Path,
    values: Collection[str] = (),
) -> tuple[list[Slice], list[str]]:
    """Return the slices of files, copied to `copies` if they are not Parquet, and a
    sentence for each guess.

    Every file has the columns `values` beside its texts.
    """
    slices, notes = list[Slice](), list[str]()
    for index, (path, name) in enumerate(found):
        ending, about = find_ending(path), path.stat()
        if ending == ".parquet":
            parquet, (column, sizes) = path.resolve(), _cut_parquet(path, text, values)
        elif ending in TEXT_ENDINGS:
            parquet = copies / f"{index:06d}.parquet"
            with open_blocks(path, ending, how) as (blocks, guessed):
                column, sizes = _copy_texts(blocks, parquet, path, text, values)
            notes += [guessed] if guessed else []
        else:
            advice = (
                "Unpack it: gunzip."
                if ending.endswith(".gz")
                else "Save it as .csv or .parquet."
            )
            raise ParameterError(
                path, "be a file that is read in parts", f"a {ending} file", advice
            )
        _check_unchanged(path, about.st_size, about.st_mtime_ns)
        start = 0
        for size in sizes:
            known = (
                len(slices),
                str(path.resolve()),
                name,
                about.st_size,
                about.st_mtime_ns,
                str(parquet),
                column,
            )
            slices.append(Slice(*known, start, start + size))
            start += size
    if not slices:
        raise ParameterError("files", "hold rows", "none", "Add a row for each text.")
    return slices, notes


def _check_unchanged(path: Path, size: int, modified_ns: int) -> None:
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (size, modified_ns):
        raise InputError(
            f"`{path}` must not change while it is read. Got another size or time. Call"
            " it again."
        )


def _choose_columns(
    columns: list[str], text: str | None, path: Path, values: Collection[str]
) -> list[str]:
    """Return the column of texts and the columns `values`; raise an error for one that
    is missing.
    """
    others = [choose_column(columns, name, path, "columns") for name in values]
    return [choose_column(columns, text, path, taken=values), *others]


def _cut_parquet(
    path: Path, text: str | None, values: Collection[str]
) -> tuple[str, list[int]]:
    """Return the column of texts, and the number of rows of each slice, from the footer
    of the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            footer, schema = file.metadata, file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"`{path}` must be a Parquet file. Got: {error} Download or write it again."
        ) from None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    columns = [column for column in schema.names if column not in index]
    column, sizes, length = _choose_columns(columns, text, path, values)[0], [0], 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        size = sum(
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema == column
        )
        parts = max(-(-group.num_rows // MAX_ROWS), -(-size // MAX_BYTES), 1)
        for start, stop in pairwise(
            group.num_rows * i // parts for i in range(parts + 1)
        ):
            if (
                sizes[-1] + stop - start > MAX_ROWS
                or length + size // parts > MAX_BYTES
            ):
                sizes.append(0)
                length = 0
            sizes[-1] += stop - start
            length += size // parts
    return column, [rows for rows in sizes if rows]


def _copy_texts(
    blocks: "Iterator[DataFrame]",
    target: Path,
    path: Path,
    text: str | None,
    values: Collection[str],
) -> tuple[str, list[int]]:
    """Copy texts and columns as row groups of at most MAX_ROWS rows and about MAX_BYTES
    of texts, all as strings.

    Return the column of texts, which the first block has, and the number of rows of
    each group.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sizes = list[int]()
    if (first := next(blocks, None)) is None:
        return "", sizes
    names = list(dict.fromkeys(_choose_columns(list(first), text, path, values)))
    rows, schema = (
        _read_rows(chain([first], blocks), names, path),
        pa.schema([(name, pa.string()) for name in names]),
    )
    with (
        written_whole(target) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        while group := list(_next_group(rows)):
            writer.write_table(
                pa.table(
                    [list(column) for column in zip(*group, strict=True)], schema=schema
                )
            )
            sizes.append(len(group))
    return names[0], sizes


def _read_rows(
    blocks: "Iterator[DataFrame]", names: list[str], path: Path
) -> Iterator[list[str | None]]:
    """Yield the text of each row, an empty one if it is missing, and the other columns
    as they are written.
    """
    rows = count(1)
    for block in blocks:
        columns = [
            block[name].astype(object) if name in block else [None] * len(block)
            for name in names
        ]
        for text, *others in zip(*columns, strict=True):
            written = [None if is_missing(value) else str(value) for value in others]
            yield [to_text(text, path, next(rows)) or "", *written]


def _next_group(rows: Iterator[list[str | None]]) -> Iterator[list[str | None]]:
    size = 0
    for row in islice(rows, MAX_ROWS):
        yield row
        size += len(row[0] or "")
        if size >= MAX_BYTES:
            return


def read_slice(part: Slice, values: Collection[str] = ()) -> list[str]:
    """Return the texts of a slice, with the values of other columns; a missing text is
    an empty one.
    """
    import pyarrow.parquet as pq

    path, names = Path(part.file), [part.column, *values]
    if part.parquet == part.file:
        _check_unchanged(path, part.size, part.modified_ns)
    with pq.ParquetFile(
        part.parquet, buffer_size=BUFFER_BYTES, pre_buffer=False
    ) as file:
        footer = file.metadata
        starts = np.cumsum(
            [0, *(footer.row_group(i).num_rows for i in range(footer.num_row_groups))]
        )
        group = (
            int(np.searchsorted(starts, part.start, "right")) - 1
        )  # the row group in which the slice begins
        batches = file.iter_batches(
            BATCH_ROWS,
            row_groups=list(range(group, footer.num_row_groups)),
            columns=names,
        )
        rows = (
            row
            for batch in batches
            for row in zip(*(batch[name].to_pylist() for name in names), strict=True)
        )
        some = islice(
            rows, part.start - int(starts[group]), part.stop - int(starts[group])
        )
        found = [
            (to_text(text, path, row) or "", others)
            for row, (text, *others) in enumerate(some, part.start + 1)
        ]
    if not values:
        return [text for text, _ in found]
    return [
        RowText.of(text, dict(zip(values, others, strict=True)))
        for text, others in found
    ]
