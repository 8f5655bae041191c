"""The texts of a slice."""

import io
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from hardmax._errors import InputError
from hardmax.scale.slices import LONGEST, Slice
from hardmax.text.files import csv_records, json_object
from hardmax.text.tables import text_of

AT_A_TIME = 1000  # rows of Parquet that are decoded together
BUFFER = 1 << 20  # bytes of Parquet that are read together


def texts_of(part: Slice) -> list[str]:
    """The texts of its rows, a missing one as an empty one."""
    path = Path(part.file)
    now = path.stat()
    if (now.st_size, now.st_mtime_ns) != (part.size, part.changed):
        raise InputError(f"`{path}` must not change while it is read. Got another size or time. Call it again.")
    values = _parquet_values(part) if path.suffix.lower() == ".parquet" else _text_values(part, path)
    texts = [text_of(value, path, row) or "" for row, value in enumerate(values, part.first)]
    if len(texts) != part.rows:
        raise InputError(f"`{path}` must hold {part.rows:,} rows where they were. Got {len(texts):,}. Call it again.")
    return texts


def _text_values(part: Slice, path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        file.seek(part.start)
        content = file.read(part.stop - part.start).decode(str(part.encoding))
    if isinstance(part.column, int):
        lines, how = io.StringIO(content, newline=""), {"longest": LONGEST, "line": part.line, "width": part.width}
        return (row[part.column] for _, row in csv_records(path, lines, str(part.delimiter), **how))
    if part.column is None:
        return (line.removesuffix("\n") for line in io.StringIO(content, newline=None))
    numbered = enumerate(content.split("\n"), part.line)
    return (json_object(path, number, line).get(part.column) for number, line in numbered if line.strip())


class _Forward:
    """A column of a Parquet file from a group of rows on, read forwards: the next slice is most often a bit ahead."""

    def __init__(self, part: Slice) -> None:
        import pyarrow.parquet as pq

        self.known = part.file, part.changed, part.column
        file = pq.ParquetFile(part.file, buffer_size=BUFFER, pre_buffer=False)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self.starts = list(accumulate(sizes, initial=0))[:-1]
        group = bisect(self.starts, part.start) - 1
        self.row, self.rest = self.starts[group], None  # the number of the next row, and what is decoded from it on
        groups = list(range(group, len(sizes)))
        self.batches = file.iter_batches(AT_A_TIME, row_groups=groups, columns=[part.column])

    def is_before(self, part: Slice) -> bool:
        """Whether reading on leads to a slice, and no start of a group is nearer to it."""
        same = self.known == (part.file, part.changed, part.column)
        return same and self.starts[bisect(self.starts, part.start) - 1] <= self.row <= part.start

    def values(self, start: int, stop: int) -> list[Any]:
        """Values of the rows from `start` to `stop`."""
        found: list[Any] = []
        while self.row < stop:
            rest = next(self.batches).column(0) if self.rest is None else self.rest
            begin, end = min(max(start - self.row, 0), len(rest)), min(stop - self.row, len(rest))
            found += rest[begin:end].to_pylist()
            self.row, self.rest = self.row + end, rest[end:] if end < len(rest) else None
        return found


_open: list[_Forward] = []  # of this process, one at most


def _parquet_values(part: Slice) -> list[Any]:
    forward = _open.pop() if _open else None
    if forward is None or not forward.is_before(part):
        forward = _Forward(part)
    found = forward.values(part.start, part.stop)
    _open.append(forward)
    return found
