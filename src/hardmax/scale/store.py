"""The folder of a sweep: Parquet parts, and `manifest.jsonl`, which lists them with their hashes.

The first line of the manifest is the configuration, each further line a finished part. Only the client writes it. A
last line that is incomplete, because the client was killed, is cut off.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import file_digest, sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from hardmax._errors import InputError, ParameterError
from hardmax._files import written_whole
from hardmax._version import __version__
from hardmax.scale.design import Design, Params

if TYPE_CHECKING:
    import pyarrow as pa

FILE, FORMAT = "manifest.jsonl", "hardmax-sweep-1"
MAX_PARTS = 500  # of a sweep; a part costs about 10 ms beside its cells
Answer = tuple[dict[str, Any], float, str | None]  # the row of a cell, its seconds, its error


@dataclass(frozen=True)
class Configuration:
    """All inputs of a sweep: two sweeps with the same configuration have the same rows."""

    cell: str  # the name of the function
    source: str  # the hash of its source, if that can be read
    design: Design
    seed: int
    time_limit: float | None
    version: str = __version__
    part_cells: int = 0  # number of cells per part; 0: from the number of cells

    def __post_init__(self) -> None:
        if not self.part_cells:
            object.__setattr__(self, "part_cells", -(-len(self.design) // MAX_PARTS))

    @cached_property
    def fingerprint(self) -> str:
        return sha256(self.to_json().encode()).hexdigest()[:12]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT} | asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Configuration":
        values = json.loads(text)
        if values.pop("format") != FORMAT:
            raise KeyError("format")
        return cls(**values | {"design": Design(**values["design"])})

    @property
    def parts(self) -> dict[str, range]:
        """The name of the file of each part, and the indices of its cells."""
        cells = range(len(self.design))
        parts = [cells[start : start + self.part_cells] for start in cells[:: self.part_cells]]
        return {f"part-{each.start:09d}-{each.stop:09d}-{self.fingerprint}.parquet": each for each in parts}


class Part(NamedTuple):
    """A finished part: its file, its cells, the number of errors among its rows, the seconds of its cells."""

    name: str
    start: int
    stop: int
    errors: int
    seconds: float
    sha256: str


class Manifest:
    """The manifest of a folder: the configuration of its sweep and the parts that are finished."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            self.configuration = Configuration.from_json(first)
            parts = [Part(**json.loads(line)) for line in lines if line.endswith("\n")]
        except FileNotFoundError:
            must, advice = "be the folder of a sweep", "Make one with: hardmax sweep leaders --out DIR"
            raise ParameterError(folder, must, f"one without {FILE}", advice) from None
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(f"`{path}` must be the manifest of a sweep. Got something else ({problem!r}).") from None
        self.parts = {part.name: part for part in parts}

    @classmethod
    def create(cls, folder: Path, configuration: Configuration) -> "Manifest":
        """Return the manifest of a folder; write one with this configuration if there is none."""
        if not (folder / FILE).exists():
            with written_whole(folder / FILE, once=True) as temporary:
                temporary.write_text(configuration.to_json() + "\n", encoding="utf-8")
        return cls(folder)

    def __enter__(self) -> "Manifest":
        """Open the manifest for writing, in one process at a time."""
        try:
            import fcntl
        except ImportError:
            raise InputError("A sweep must run on Linux or macOS. Got another system.") from None
        self._file: BinaryIO = (self.folder / FILE).open("r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(f"`{self.folder}` must be written by one sweep at a time. Got two. Wait for it.") from None
        end = self._file.read().rfind(b"\n") + 1
        self._file.truncate(end)
        self._file.seek(end)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.sync()  # once: after a power failure, parts that do not have the hash of the manifest are computed again

    def add(self, part: Part) -> None:
        """Append a finished part."""
        self.parts[part.name] = part
        self._file.write(json.dumps(part._asdict()).encode() + b"\n")
        self._file.flush()

    def forget_damaged(self) -> None:
        """Forget parts whose file is missing or has changed."""
        self.parts = {name: part for name, part in self.parts.items() if self.is_unchanged(part)}

    def is_unchanged(self, part: Part) -> bool:
        """Return whether the file of a part exists and has its hash."""
        return has_hash(self.folder / part.name, part.sha256)

    def delete_others(self) -> None:
        """Delete files of parts that the manifest does not list, also temporary files of killed workers."""
        for path in self.folder.glob("*.parquet"):
            if path.name not in self.parts and path.name.lstrip(".").startswith("part-"):
                path.unlink(missing_ok=True)

    @property
    def done(self) -> list[Part]:
        """The finished parts in the order of their cells."""
        return sorted(self.parts.values(), key=lambda part: part.start)

    @property
    def missing(self) -> dict[str, range]:
        """The name of each part that is not finished, and the indices of its cells."""
        return {name: cells for name, cells in self.configuration.parts.items() if name not in self.parts}


def hash_file(path: Path) -> str:
    """Return the SHA-256 hash of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def has_hash(path: Path, digest: str) -> bool:
    """Return whether a file exists and has this hash."""
    return path.exists() and hash_file(path) == digest


def write_part(path: Path, first: int, cells: Sequence[Params], answers: Iterable[Answer]) -> Part:
    """Write the rows of cells `first`, `first` + 1, ... atomically; keep a part that another worker wrote before."""
    import pyarrow.parquet as pq

    with written_whole(path, once=True) as temporary:
        pq.write_table(make_table(first, cells, list(answers)), temporary)
    table = pq.read_table(path, columns=["seconds", "error"])
    seconds = sum(value for value in table["seconds"].to_pylist() if value == value)
    errors = table.num_rows - table["error"].null_count
    return Part(path.name, first, first + len(cells), errors, seconds, hash_file(path))


def make_table(first: int, cells: Sequence[Params], answers: Sequence[Answer]) -> "pa.Table":
    """Return one row per cell: its index, its parameters, the values that it returned, its seconds, its error."""
    import pyarrow as pa

    columns: dict[str, Any] = {"cell": pa.array(range(first, first + len(answers)), pa.int64())}
    for values in (cells, [row for row, _, _ in answers]):
        for name in dict.fromkeys(name for one in values for name in one):
            columns[name] = _make_column([one.get(name) for one in values])
    columns["seconds"] = pa.array([seconds for _, seconds, _ in answers], pa.float64())
    columns["error"] = pa.array([error for _, _, error in answers], pa.string())
    return pa.table(columns)


def _make_column(values: list[Any]) -> "pa.Array":
    """Return values as a column; values without a common type as texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def join_tables(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return parts as one table. Missing values are null; a column without a common type becomes texts."""
    import pyarrow as pa

    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        rows = [row for table in tables for row in table.to_pylist()]
        names = dict.fromkeys(name for table in tables for name in table.column_names)
        table = pa.table({name: _make_column([row.get(name) for row in rows]) for name in names})
    first = [name for name in table.column_names if name not in ("seconds", "error")]
    return table.select([*first, "seconds", "error"])
