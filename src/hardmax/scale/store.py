"""The folder of a sweep: Parquet parts, and `manifest.jsonl`, which lists them with
their hashes.

The first line of the manifest is the configuration, each further line a finished part.
Only the client writes it. A last line that is incomplete, because the client was
killed, is cut off.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._version import __version__
from hardmax.scale.design import Params

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "manifest.jsonl"
MAX_PARTS = 500  # of a sweep; a part costs about 10 ms beside its cells
Answer = tuple[
    dict[str, Any], float, str | None
]  # the row of a cell, its seconds, its error


@dataclass(frozen=True)
class Configuration:
    """All inputs of a sweep: two sweeps with the same configuration have the same rows."""

    cell: str  # the name of the function
    source: str  # the hash of its source, if that can be read
    design: list[Params]
    seed: int
    time_limit: float | None
    version: str = __version__
    format: str = "hardmax-sweep-1"

    @property
    def parts(self) -> list[range]:
        """The indices of the cells of each part."""
        cells, size = range(len(self.design)), -(-len(self.design) // MAX_PARTS)
        return [cells[start : start + size] for start in cells[::size]]


class Part(NamedTuple):
    """A finished part: its file, its cells, the number of errors among its rows."""

    name: str
    start: int
    stop: int
    errors: int
    sha256: str


class Manifest:
    """The manifest of a folder: the configuration of its sweep and the parts that are
    finished.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            self.configuration = Configuration(**json.loads(first))
            parts = [Part(**json.loads(line)) for line in lines if line.endswith("\n")]
        except FileNotFoundError:
            must, advice = (
                "be the folder of a sweep",
                "Make one with: hardmax sweep leaders --out DIR",
            )
            raise ParameterError(folder, must, f"one without {FILE}", advice) from None
        except (TypeError, ValueError) as problem:
            raise InputError(
                f"`{path}` must be the manifest of a sweep. Got something else"
                f" ({problem!r})."
            ) from None
        self.parts = {part.name: part for part in parts}

    @classmethod
    def create(cls, folder: Path, configuration: Configuration) -> "Manifest":
        """Return the manifest of a folder; write one with this configuration if there
        is none.
        """
        if not (folder / FILE).exists():
            with written_whole(folder / FILE, once=True) as temporary:
                temporary.write_text(
                    json.dumps(vars(configuration)) + "\n", encoding="utf-8"
                )
        return cls(folder)

    def __enter__(self) -> "Manifest":
        """Open the manifest for writing, in one process at a time; forget damaged
        parts, and delete other ones.
        """
        try:
            import fcntl
        except ImportError:
            raise InputError(
                "A sweep must run on Linux or macOS. Got another system."
            ) from None
        self._file: BinaryIO = (self.folder / FILE).open("r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"`{self.folder}` must be written by one sweep at a time. Got two. Wait"
                " for it."
            ) from None
        self._file.truncate(self._file.read().rfind(b"\n") + 1)
        self._file.seek(0, os.SEEK_END)
        damaged = self.damaged
        self.parts = {part.name: part for part in self.done if part not in damaged}
        for path in self.folder.glob(
            "*.parquet"
        ):  # also temporary files of a client that was killed
            if path.name not in self.parts and path.name.lstrip(".").startswith(
                "part-"
            ):
                path.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        # once: after a power failure, parts that do not have the hash of the manifest
        # are computed again
        os.sync()

    def write(
        self, first: int, cells: Sequence[Params], answers: Sequence[Answer]
    ) -> None:
        """Write the part with the rows of cells `first`, `first` + 1, ..., and list it."""
        import pyarrow.parquet as pq

        stop = first + len(cells)
        path = self.folder / name_part(first, stop)
        with written_whole(path) as temporary:
            pq.write_table(make_table(first, cells, answers), temporary)
        errors = sum(error is not None for _, _, error in answers)
        part = self.parts[path.name] = Part(
            path.name, first, stop, errors, hash_file(path)
        )
        self._file.write(json.dumps(part._asdict()).encode() + b"\n")
        self._file.flush()

    @property
    def damaged(self) -> list[Part]:
        """The parts whose file is missing or has changed."""
        return [
            part
            for part in self.done
            if not has_hash(self.folder / part.name, part.sha256)
        ]

    @property
    def done(self) -> list[Part]:
        """The finished parts in the order of their cells."""
        return sorted(self.parts.values(), key=lambda part: part.start)

    @property
    def missing(self) -> list[range]:
        """The indices of the cells of each part that is not finished."""
        return [
            cells
            for cells in self.configuration.parts
            if name_part(cells.start, cells.stop) not in self.parts
        ]


def name_part(start: int, stop: int) -> str:
    """Return the name of the file with the rows of cells `start` to `stop` - 1."""
    return f"part-{start:09d}-{stop:09d}.parquet"


def hash_file(path: Path) -> str:
    """Return the SHA-256 hash of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def has_hash(path: Path, digest: str) -> bool:
    """Return whether a file exists and has this hash."""
    return path.exists() and hash_file(path) == digest


def make_table(
    first: int, cells: Sequence[Params], answers: Sequence[Answer]
) -> "pa.Table":
    """Return one row per cell: its index, its parameters, the values that it returned,
    its seconds, its error.
    """
    import pyarrow as pa

    rows = [params | row for params, (row, _, _) in zip(cells, answers, strict=True)]
    columns: dict[str, Any] = {
        "cell": pa.array(range(first, first + len(answers)), pa.int64()),
        **_make_columns(rows),
    }
    columns["seconds"] = pa.array([seconds for _, seconds, _ in answers], pa.float64())
    columns["error"] = pa.array([error for _, _, error in answers], pa.string())
    return pa.table(columns)


def _make_columns(rows: list[dict[str, Any]]) -> "dict[str, pa.Array]":
    """Return a column for each name in some row; values without a common type become
    texts.
    """
    import pyarrow as pa

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            columns[name] = pa.array(
                [None if value is None else str(value) for value in values], pa.string()
            )
    return columns


def join_tables(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return parts as one table. Missing values are null; a column without a common
    type becomes texts.
    """
    import pyarrow as pa

    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        table = pa.table(
            _make_columns([row for part in tables for row in part.to_pylist()])
        )
    first = [name for name in table.column_names if name not in ("seconds", "error")]
    return table.select([*first, "seconds", "error"])
