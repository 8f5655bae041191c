"""Parts: the rows of a few cells as one Parquet file, whole and checked before it has its name."""

from collections.abc import Iterable, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hardmax._files import written_whole
from hardmax.scale.cell_process import Answer, Chunk

if TYPE_CHECKING:
    import pyarrow as pa


class Part(NamedTuple):
    """What is known of a part: its file, the cells in it, and how long they took."""

    name: str
    start: int
    stop: int
    errors: int
    seconds: float
    sha256: str


def part_name(start: int, stop: int, fingerprint: str) -> str:
    """The name of the file for cells start to stop - 1; it follows from the configuration and the cells."""
    return f"part-{start:09d}-{stop:09d}-{fingerprint}.parquet"


def write_part(chunk: Chunk, answers: Iterable[Answer]) -> Part:
    """Write rows beside, read them back, sync, rename. A part that another worker has written meanwhile stays."""
    import pyarrow.parquet as pq

    path, table = Path(chunk.path), table_of(chunk, list(answers))
    with written_whole(path, once=True) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
        back = pq.read_table(temporary, page_checksum_verification=True)
        if back.schema != table.schema or back.num_rows != table.num_rows:
            raise OSError(f"`{path}` must hold what was written to it. Got something else. Check the disk.")
    found = read_part(chunk)
    assert found is not None
    return found


def read_part(chunk: Chunk) -> Part | None:
    """The part of a chunk, if it is there: one that was written by a worker which died before it could say so."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path, stop = Path(chunk.path), chunk.first + len(chunk.cells)
    try:
        table = pq.read_table(path, columns=["cell", "seconds", "error"], page_checksum_verification=True)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException):  # damaged: nothing that this program has written
        path.unlink()
        return None
    if table["cell"].to_pylist() != list(range(chunk.first, stop)):
        path.unlink()
        return None
    errors = table.num_rows - table["error"].null_count
    seconds = pc.sum(pc.replace_with_mask(c := table["seconds"].combine_chunks(), pc.is_nan(c), 0.0)).as_py()
    return Part(path.name, chunk.first, stop, errors, seconds, sha256_of(path))


def sha256_of(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def table_of(chunk: Chunk, answers: Sequence[Answer]) -> "pa.Table":
    """One row for each cell: its number, its parameters, what it returned, its seconds, its error."""
    import pyarrow as pa

    columns: dict[str, Any] = {"cell": pa.array(range(chunk.first, chunk.first + len(answers)), pa.int64())}
    rows = [row for row, _, _ in answers]
    for values in (chunk.cells, rows):
        for name in dict.fromkeys(name for one in values for name in one):
            columns[name] = _column([one.get(name) for one in values])
    columns["seconds"] = pa.array([seconds for _, seconds, _ in answers], pa.float64())
    columns["error"] = pa.array([error for _, _, error in answers], pa.string())
    return pa.table(columns)


def _column(values: list[Any]) -> "pa.Array":
    """Values of one type; of several that have no common one, as texts."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def joined(tables: "Sequence[pa.Table]") -> "pa.Table":
    """Parts as one table. A column that some lack is empty there; one of several types has the one that holds all."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {}
    for field in (field for table in tables for field in table.schema):
        types[field.name] = _common(types.get(field.name, field.type), field.type)
    last = ("seconds", "error")
    names = [name for name in types if name not in last] + list(last)
    cast = [pa.table({name: _as(table, name, types[name]) for name in names}) for table in tables]
    return pa.concat_tables(cast)


def _common(one: "pa.DataType", other: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    try:
        schemas = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def _as(table: "pa.Table", name: str, kind: "pa.DataType") -> "pa.ChunkedArray | pa.Array":
    import pyarrow as pa

    if name not in table.column_names:
        return pa.nulls(table.num_rows, kind)
    column = table[name]
    if column.type != kind and kind == pa.string():
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], kind)
    return column.cast(kind)
