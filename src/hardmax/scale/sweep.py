"""The verb, and the table that it returns."""

import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, ParameterTypeError, did_you_mean, needed_for
from hardmax._files import check_writable
from hardmax._types import Progress
from hardmax._validation import check_count, check_positive
from hardmax.scale.cell_process import Chunk
from hardmax.scale.cells import CELLS, BuiltIn
from hardmax.scale.child import Cell
from hardmax.scale.chunks import Chunks
from hardmax.scale.design import design_of
from hardmax.scale.engine import Engine, check_engine, connected, run_chunks
from hardmax.scale.manifest import FILE, Configuration, Interval, Manifest
from hardmax.scale.parts import Part, joined

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from distributed import Client


@dataclass(frozen=True, repr=False)
class Sweep:
    """The table of a sweep, in the files of its folder. It prints as a sentence.

    Attributes
    ----------
    manifest : Manifest
        The configuration, and which parts are done.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.scale.Sweep.open("runs/leaders")  # doctest: +SKIP
    >>> found.complete, found.errors  # doctest: +SKIP
    (True, 0)
    """

    manifest: Manifest

    @classmethod
    def open(cls, out: str | PathLike[str]) -> "Sweep":
        """The sweep in a folder, done or not.

        Parameters
        ----------
        out : path
            The folder that a sweep wrote.

        Returns
        -------
        Sweep

        Raises
        ------
        ParameterError
            If it holds no manifest, or one of another version.
        """
        return cls(Manifest(out))

    @property
    def out(self) -> Path:
        """The folder."""
        return self.manifest.folder

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.manifest.configuration.design)

    @cached_property
    def rows(self) -> int:
        """How many of them have a row."""
        return sum(part.stop - part.start for part in self.manifest.parts.values())

    @cached_property
    def errors(self) -> int:
        """How many rows hold an error."""
        return sum(part.errors for part in self.manifest.parts.values())

    @property
    def complete(self) -> bool:
        """Whether every cell has a row."""
        return self.rows == self.cells

    @property
    def status(self) -> str:
        """How far it is, as a sentence."""
        parts = len(self.manifest.parts)
        known = f"{self.rows:,} of {self.cells:,} cells of `{self.manifest.configuration.cell}` have a row"
        return f"{known}, {self.errors:,} of them an error; {parts:,} part{'s' * (parts != 1)} in {self.out}."

    def __repr__(self) -> str:
        return self.status

    def table(self) -> "pa.Table":
        """The rows that there are, in the order of the cells: number, parameters, row, seconds, error."""
        with needed_for("A sweep's table", None, "scale"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        if not self.rows:
            raise InputError(f"A table needs at least one row. Got none: {self.status}")
        try:
            paths = [self.out / part.name for part in self.manifest.done]
            return joined([pq.read_table(path, page_checksum_verification=True) for path in paths])
        except (OSError, pa.ArrowException) as problem:
            advice = "Run the sweep again: it computes what is missing."
            raise InputError(
                f"The parts in `{self.out}` must be as they were written. Got {problem}. {advice}"
            ) from None

    def to_frame(self) -> "pd.DataFrame":
        """The same as a pandas table."""
        with needed_for("`Sweep.to_frame`", None, "scale"):
            import pandas  # noqa: F401
        return self.table().to_pandas()

    def error_counts(self) -> dict[str, int]:
        """How often each error occurs, the most frequent first."""
        counts = Counter(error for error in (self.table()["error"].to_pylist() if self.rows else []) if error)
        return dict(counts.most_common())


def sweep(
    cell: Cell | str,
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    out: str | PathLike[str],
    engine: Engine = "local",
    workers: int | None = None,
    samples: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
    started: "Callable[[Client], object] | None" = None,
) -> Sweep:
    """Run one function on many parameters, on every core or on a cluster, into one table.

    A row depends on the function, its parameters, the seed and its index: not on the order, nor on which or how many
    workers there are. Called again with the same folder, a sweep goes on where it stood. A cell that fails, hangs
    beyond `time_limit` or kills its process is a row with its error.

    In a script, call it below ``if __name__ == "__main__":``, since worker processes import the script.

    Parameters
    ----------
    cell : callable, or the name of a built-in one
        `cell(params, rng)` returns a dict of numbers, texts, truth values, None, or lists of them: a row. It shall
        depend on nothing else. Built in are "leaders", "endings", "sphere", "temperature" and "classifier".
    grid : dict of lists, or list of dicts
        Every combination of the lists, or the cells one by one.
    out : path
        Folder for the table, as Parquet parts, and its manifest. Workers on other machines must see it, too.
    engine : "local", address or distributed.Client
        Worker processes on this machine, or a Dask cluster.
    workers : int, optional
        How many worker processes there are with "local": one a core unless said.
    samples : int, optional
        Instead of every combination, draw so many cells: from lists, and from distributions of `scipy.stats`.
    seed : int
        Cells with a parameter "seed" of value s have ``numpy.random.SeedSequence(seed, spawn_key=(s,))``: common random
        numbers, so that cells that differ in alpha, say, have the same tokens. Cell i without it has the key (i,).
        Built-in cells have "seed", 0 by default, and with `samples` the index of the cell.
    time_limit : float, optional
        Seconds after which a cell is stopped.
    progress : callable, optional
        Called with (cells done, cells in all) after each part.
    started : callable, optional
        Called with the client when there is one; `client.dashboard_link` is the address of Dask's page.

    Returns
    -------
    Sweep
        The table, in the files of `out`.

    Raises
    ------
    ParameterError
        If there is no such cell, the grid, the engine or a number has no meaning, or `out` holds another sweep.
    ParameterTypeError
        If `cell` is neither a function nor a name.
    MissingExtra
        If Dask or PyArrow is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.sweep("leaders", {"n": [10, 100], "d": [2, 8]}, out="runs/leaders")  # doctest: +SKIP
    >>> found.to_frame()[["n", "d", "leaders", "layer"]]  # doctest: +SKIP
    """
    function = built_in(cell) if isinstance(cell, str) else cell
    if not callable(function):
        raise ParameterTypeError("cell", "be a function, or the name of one", type(cell).__name__)
    seed = check_count(seed, "seed", least=0)
    limit = None if time_limit is None else float(check_positive(time_limit, "time_limit", "It counts in seconds."))
    design = design_of(grid, samples, seed)
    if isinstance(function, BuiltIn):
        design = function.design(design, drawn=samples is not None)
    name = cell if isinstance(cell, str) else name_of(function)
    configuration = Configuration(name, source_hash(function), design, seed, limit)
    return run(function, configuration, out, engine, workers, progress, started)


def run(
    function: Cell,
    configuration: Configuration,
    out: str | PathLike[str],
    engine: Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    started: "Callable[[Client], object] | None" = None,
    *,
    is_good: Callable[[Path], bool] | None = None,
    weight: Callable[[Interval], int] = lambda interval: interval[1] - interval[0],
    failed: Callable[[Path], object] | None = None,
) -> Sweep:
    """Begin the sweep of a configuration in a folder, or go on with it.

    A part of earlier calls is computed again unless `is_good` is true of its file. `weight` says what cells count for
    in the progress: one each. `failed` is called with the file of a part that holds an error, and may raise.
    """
    with needed_for("`hardmax.sweep`", None, "scale"):
        import cloudpickle
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    check_engine(engine, workers)
    check_writable(out, folder=True)
    folder, pickled = Path(out).resolve(), cloudpickle.dumps(function)
    # A process for cells serves one sweep, and one state of its function, which may hold more than the configuration.
    serves = f"{configuration.fingerprint}-{sha256(pickled).hexdigest()[:12]}"
    design, total = configuration.design, weight((0, len(configuration.design)))
    with Manifest.create(folder, configuration) as manifest:
        _check_same(manifest.configuration, configuration)
        manifest.forget_damaged(is_good)
        asked, free = manifest.missing()
        done = total - sum(map(weight, asked + free))

        def ask_for(interval: Interval) -> Chunk:
            manifest.plan(interval)
            cells = [design[index] for index in range(*interval)]
            path = str(folder / configuration.name_of(interval))
            seed, limit = configuration.seed, configuration.time_limit
            return Chunk(serves, pickled, seed, interval[0], cells, limit, path)

        def add(part: Part) -> None:
            nonlocal done
            if not (folder / part.name).exists():
                must, advice = "be a folder that the workers share with the client", "Choose one on a shared disk."
                raise ParameterError("out", must, f"{folder}, where {part.name} is not to be seen", advice)
            manifest.add(part)
            done += weight((part.start, part.stop))
            if progress is not None:
                progress(done, total)
            if failed is not None and part.errors:
                failed(folder / part.name)

        if asked or free:
            try:
                with connected(engine, workers) as client:
                    if started is not None:
                        started(client)
                    run_chunks(client, Chunks(asked, free, len(design)), ask_for, add)
            except ParameterError:
                if not manifest.planned:  # no such cluster: the folder stays free for any sweep
                    (folder / FILE).unlink()
                raise
        manifest.delete_others()
    return Sweep.open(out)


def built_in(name: str) -> BuiltIn:
    """The cell of that name."""
    if name not in CELLS:
        raise ParameterError(
            "cell", f"be a function, or one of {', '.join(CELLS)}", repr(name), did_you_mean(name, CELLS)
        )
    return CELLS[name]


def name_of(function: Cell) -> str:
    """Where a function is written, and its name."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}:{kind.__qualname__}"


def source_hash(function: Cell) -> str:
    """Says whether a function was changed since; nothing where its source cannot be read."""
    try:
        return sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return ""


def _check_same(found: Configuration, asked: Configuration) -> None:
    """Refuse to mix rows of two sweeps in one folder."""
    theirs, ours = ({key: json.dumps(value) for key, value in asdict(each).items()} for each in (found, asked))
    other = [key.replace("_", " ") for key in ours if ours[key] != theirs[key]]
    if other:
        must, got = "be empty, or hold the same sweep", f"one with another {' and '.join(other)}"
        raise ParameterError("out", must, got, "Choose another folder, or delete this one.")
