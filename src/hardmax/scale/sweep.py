"""`sweep`, which runs a function on many parameters, and the table that it returns."""

import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, ParameterTypeError, needed_for
from hardmax._files import check_writable
from hardmax._types import Progress
from hardmax._validation import check_count, check_positive
from hardmax.scale.cells import CELLS, BuiltIn, choose
from hardmax.scale.design import make_design
from hardmax.scale.executor import Cell, Engine, Task, check_engine, connect, run_tasks
from hardmax.scale.store import FILE, Answer, Configuration, Manifest, join_tables

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from distributed import Client


@dataclass(frozen=True, repr=False)
class SweepTable:
    """The table of a sweep, stored as Parquet in a folder. Its repr is a sentence.

    Attributes
    ----------
    manifest : Manifest
        The configuration, and the parts that are finished.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.scale.SweepTable.open("runs/leaders")  # doctest: +SKIP
    >>> found.complete, found.errors  # doctest: +SKIP
    (True, 0)
    """

    manifest: Manifest

    @classmethod
    def open(cls, out: str | PathLike[str]) -> "SweepTable":
        """Open the sweep in a folder, complete or not; a folder without a manifest
        raises `ParameterError`.
        """
        return cls(Manifest(out))

    @property
    def out(self) -> Path:
        """The folder."""
        return self.manifest.folder

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.manifest.configuration.design)

    @cached_property
    def rows(self) -> int:
        """Number of cells that have a row."""
        return sum(part.stop - part.start for part in self.manifest.parts.values())

    @cached_property
    def errors(self) -> int:
        """Number of rows that hold an error."""
        return sum(part.errors for part in self.manifest.parts.values())

    @property
    def complete(self) -> bool:
        """Whether every cell has a row."""
        return self.rows == self.cells

    @property
    def status(self) -> str:
        """The progress as a sentence."""
        parts = len(self.manifest.parts)
        known = (
            f"{self.rows:,} of {self.cells:,} cells of"
            f" `{self.manifest.configuration.cell}` have a row"
        )
        return (
            f"{known}, {self.errors:,} of them an error; {parts:,}"
            f" part{'s' * (parts != 1)} in {self.out}."
        )

    def __repr__(self) -> str:
        return self.status

    def table(self) -> "pa.Table":
        """Return the rows in the order of the cells: index, parameters, returned
        values, seconds, error.
        """
        with needed_for("The table of a sweep", None, "scale"):
            import pyarrow.parquet as pq
        if not self.rows:
            raise InputError(f"A table needs at least one row. Got none: {self.status}")
        if damaged := self.manifest.damaged:
            got = f"another file, or none, for {damaged[0].name}"
            advice = "Run the sweep again, which computes it again."
            raise InputError(
                f"The parts in `{self.out}` must be unchanged. Got {got}. {advice}"
            )
        return join_tables(
            [pq.read_table(self.out / part.name) for part in self.manifest.done]
        )

    def to_frame(self) -> "pd.DataFrame":
        """Return the rows as a pandas table."""
        with needed_for("`SweepTable.to_frame`", None, "scale"):
            return self.table().to_pandas()

    def error_counts(self) -> dict[str, int]:
        """Return the number of rows with each error, in descending order."""
        counts = Counter(
            error
            for error in (self.table()["error"].to_pylist() if self.rows else [])
            if error
        )
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
) -> SweepTable:
    """Run one function on many parameters, on all cores or on a cluster, into one
    table.

    A row depends on the function, its parameters, the seed and its index: not on the
    order, nor on the workers. The same call on the same folder continues an interrupted
    sweep. A cell that fails, exceeds `time_limit` or crashes is a row with its error.

    In a script, call it below ``if __name__ == "__main__":``, because worker processes
    import the script.

    Parameters
    ----------
    cell : callable, or the name of a built-in one
        `cell(params, rng)` returns a row: a dict of numbers, texts, booleans, None, or
        lists of them. It must depend on nothing else. `hardmax sweep --help` lists the
        built-in cells, such as "leaders".
    grid : dict of lists, or list of dicts
        Every combination of the lists, or the parameters of each cell.
    out : path
        Folder for the table, as Parquet parts, and its manifest.
    engine : "local", address or distributed.Client
        Worker processes on this machine, or a Dask cluster.
    workers : int, optional
        Number of worker processes with "local"; the default is one per core.
    samples : int, optional
        Number of cells to draw at random from lists, and from distributions of
        `scipy.stats`, instead of every combination.
    seed : int
        Cells with a parameter "seed" of value s have ``numpy.random.SeedSequence(seed,
        spawn_key=(s,))``: common random numbers, so that cells that differ in alpha,
        say, have the same tokens. Cell i without it has the key (i,). Built-in cells
        have "seed", 0 by default, and with `samples` the index of the cell.
    time_limit : float, optional
        Seconds after which a cell is stopped.
    progress : callable, optional
        Called with (cells done, cells in total) after each part.
    started : callable, optional
        Called with the client when it is connected; `client.dashboard_link` is the
        address of Dask's dashboard.

    Returns
    -------
    SweepTable
        The table, in the files of `out`.

    Raises
    ------
    ParameterError
        If there is no such cell, an option is invalid, or `out` holds another sweep.

    Examples
    --------
    >>> import hardmax as hm
    >>> found = hm.sweep("leaders", {"n": [10, 100], "d": [2, 8]}, out="runs/leaders")  # doctest: +SKIP
    >>> found.to_frame()[["n", "d", "leaders", "layer"]]  # doctest: +SKIP
    """
    function: Cell = choose(CELLS, cell, "cell") if isinstance(cell, str) else cell
    if not callable(function):
        raise ParameterTypeError(
            "cell", "be a function, or the name of one", type(cell).__name__
        )
    seed = check_count(seed, "seed", least=0)
    limit = (
        None
        if time_limit is None
        else float(check_positive(time_limit, "time_limit", "It is in seconds."))
    )
    design = make_design(grid, samples, seed)
    if isinstance(function, BuiltIn):
        design = function.complete(design, drawn=samples is not None)
    named = function if hasattr(function, "__qualname__") else type(function)
    name = cell if isinstance(cell, str) else f"{named.__module__}:{named.__qualname__}"
    configuration = Configuration(name, _hash_source(function), design, seed, limit)

    def report(manifest: Manifest, answers: Sequence[Answer]) -> None:
        if progress is not None:
            progress(SweepTable(manifest).rows, len(design))

    return run(function, configuration, out, engine, workers, report, started)


def run(
    function: Cell,
    configuration: Configuration,
    out: str | PathLike[str],
    engine: Engine,
    workers: int | None,
    report: Callable[[Manifest, Sequence[Answer]], None],
    started: "Callable[[Client], object] | None",
) -> SweepTable:
    """Start or continue the sweep of a configuration in a folder; `report` is called
    after each part, and may raise.
    """
    with needed_for("`hardmax.sweep`", None, "scale"):
        import cloudpickle
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    check_engine(engine, workers)
    check_writable(out, folder=True)
    pickled, seed, limit = (
        cloudpickle.dumps(function),
        configuration.seed,
        configuration.time_limit,
    )
    manifest = Manifest.create(Path(out).resolve(), configuration)
    _check_same(manifest.configuration, configuration)
    with manifest:
        tasks = [
            Task(
                pickled,
                seed,
                cells.start,
                configuration.design[cells.start : cells.stop],
                limit,
            )
            for cells in manifest.missing
        ]
        try:
            if tasks:
                with connect(engine, workers) as client:
                    if started is not None:
                        started(client)
                    with closing(
                        run_tasks(client, tasks)
                    ) as finished:  # an exception cancels the other tasks
                        for task, answers in finished:
                            manifest.write(task.first, task.cells, answers)
                            report(manifest, answers)
        except ParameterError:
            if (
                not manifest.parts
            ):  # no such cluster: the folder stays free for any sweep
                (manifest.folder / FILE).unlink()
            raise
    return SweepTable.open(out)


def _hash_source(function: Cell) -> str:
    """Return the hash of the source of a function, or an empty text if it cannot be
    read.
    """
    try:
        return sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return ""


def _check_same(found: Configuration, requested: Configuration) -> None:
    """Raise an error if the folder holds another sweep."""
    pairs = ((name, ours, vars(found)[name]) for name, ours in vars(requested).items())
    if other := [
        name for name, ours, theirs in pairs if json.dumps(ours) != json.dumps(theirs)
    ]:
        must = "be empty, or hold the same sweep"
        got = f"one with another {' and '.join(other).replace('_', ' ')}"
        raise ParameterError(
            "out", must, got, "Choose another folder, or delete this one."
        )
