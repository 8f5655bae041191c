"""The folder of a sweep: Parquet parts, and `manifest.jsonl`, which lists them with their hashes.

The first line of the manifest is the configuration, each further line a finished part. Only the client writes it. A
last line that is incomplete, because the client was killed, is cut off.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
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
LAST = ("seconds", "error")  # columns of the table
Interval = tuple[int, int]  # the first cell, and the one after the last
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
    def intervals(self) -> list[Interval]:
        """The cells of each part."""
        cells = len(self.design)
        return [(start, min(start + self.part_cells, cells)) for start in range(0, cells, self.part_cells)]

    def part_name(self, interval: Interval) -> str:
        """Return the name of the file of a part."""
        return f"part-{interval[0]:09d}-{interval[1]:09d}-{self.fingerprint}.parquet"


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
        self._file: BinaryIO | None = None
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
        file = (self.folder / FILE).open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(f"`{self.folder}` must be written by one sweep at a time. Got two. Wait for it.") from None
        end = file.read().rfind(b"\n") + 1
        file.truncate(end)
        file.seek(end)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        os.sync()  # once: after a power failure, parts that do not have the hash of the manifest are computed again

    def add(self, part: Part) -> None:
        """Append a finished part."""
        assert self._file is not None
        self.parts[part.name] = part
        self._file.write(json.dumps(part._asdict()).encode() + b"\n")
        self._file.flush()

    def forget_damaged(self, is_good: Callable[[Path], bool] | None = None) -> None:
        """Forget parts whose file is missing, changed, or not `is_good`."""
        for part in list(self.parts.values()):
            if not self.is_unchanged(part) or (is_good is not None and not is_good(self.folder / part.name)):
                del self.parts[part.name]

    def is_unchanged(self, part: Part) -> bool:
        """Return whether the file of a part exists and has its hash."""
        path = self.folder / part.name
        return path.exists() and hash_file(path) == part.sha256

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
    def missing(self) -> list[Interval]:
        """The cells of each part that is not finished."""
        configuration = self.configuration
        return [each for each in configuration.intervals if configuration.part_name(each) not in self.parts]


def hash_file(path: Path) -> str:
    """Return the SHA-256 hash of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


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
            columns[name] = _column([one.get(name) for one in values])
    columns["seconds"] = pa.array([seconds for _, seconds, _ in answers], pa.float64())
    columns["error"] = pa.array([error for _, _, error in answers], pa.string())
    return pa.table(columns)


def _column(values: list[Any]) -> "pa.Array":
    """Return values as a column; values without a common type as texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def join_tables(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Return parts as one table. Missing columns are null; a column of types that no type holds becomes texts."""
    import pyarrow as pa

    fields = [column for table in tables for column in table.schema]
    for name in dict.fromkeys(column.name for column in fields):
        try:
            schemas = [pa.schema([column]) for column in fields if column.name == name]
            pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            tables = [_with_texts(table, name) for table in tables]
    table = pa.concat_tables(tables, promote_options="permissive")
    return table.select([*(name for name in table.column_names if name not in LAST), *LAST])


def _with_texts(table: "pa.Table", name: str) -> "pa.Table":
    """Return a table with one column as texts."""
    import pyarrow as pa

    if name not in table.column_names:
        return table
    texts = [None if value is None else str(value) for value in table[name].to_pylist()]
    return table.set_column(table.column_names.index(name), name, pa.array(texts, pa.string()))
