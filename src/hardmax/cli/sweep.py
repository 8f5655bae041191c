"""`hardmax sweep`: run cells, resume, report and plot sweeps."""

import inspect
import json as json_format
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hardmax import __version__, draw
from hardmax._errors import ParameterError
from hardmax.cli import options, output
from hardmax.cli.options import UNSAID, option
from hardmax.cli.removed import REMOVED
from hardmax.cli.sweep_values import FORMAT, load_cell, parse_grid
from hardmax.scale import SweepTable
from hardmax.scale.cell_process import Cell
from hardmax.scale.cells import CELLS, REPEAT
from hardmax.scale.store import FILE
from hardmax.scale.sweep import full_name, hash_source, run, sweep

OWN = "FILE.py:CELL"
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)]
Engine = Annotated[str, option("--engine", "local, or the address of a Dask scheduler, such as tcp://host:8786.")]
Workers = Annotated[
    int | None, option("--workers", "Number of worker processes on this machine. Default: one per core.", **UNSAID)
]


class Cells(TyperGroup):
    """The commands of `hardmax sweep`; a name with a colon is a cell in a file of the user."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, OWN if ":" in cmd_name else cmd_name)


app = typer.Typer(
    cls=Cells,
    no_args_is_help=True,
    help="Run one function on many parameters, on all cores or on a cluster, into one table.",
    epilog="Try: hardmax sweep leaders --set alpha=0.05:5:log:20 --set n=10,100 --seeds 10 --out runs/leaders",
)


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Options of every sweep."""

    values: Annotated[
        list[str] | None,
        option("--set", f"Values of a parameter. {FORMAT} Repeat it for more.", metavar="NAME=VALUES", **UNSAID),
    ] = None
    out: Annotated[
        Path, option("--out", "Folder for the table. An unfinished sweep in it is continued.", metavar="DIR")
    ]
    seeds: Annotated[
        int, option("--seeds", "Number of repetitions of every cell, with different random numbers.", min=1)
    ] = 1
    samples: Annotated[
        int | None, option("--samples", "Number of cells to draw at random, not every combination.", **UNSAID)
    ] = None
    seed: Annotated[int, option("--seed", "Seed of all random numbers.")] = 0
    time_limit: Annotated[float | None, option("--time-limit", "Seconds after which a cell is stopped.", **UNSAID)] = (
        None
    )
    engine: Engine = "local"
    workers: Workers = None
    json: options.Json = False

    def start(self, cell: Cell | str, defaults: dict[str, Any], arguments: list[str]) -> None:
        """Run the sweep; `arguments` are those that the command does not have."""
        if arguments:
            must, got = "be options of the command", f"{arguments[0]!r}"
            raise ParameterError("arguments", must, got, REMOVED["sweep --NAME"])
        grid = parse_grid(self.values or [], defaults)
        # Cells that are drawn at random have independent random numbers, unless repetitions are requested.
        if self.samples is None or self.seeds > 1:
            grid |= {REPEAT: list(range(self.seeds))}
        begin = partial(sweep, cell, grid, samples=self.samples, seed=self.seed, time_limit=self.time_limit)
        _run(self.out, self.json, begin, self.engine, self.workers)


def _run(out: Path, json: bool, begin: Callable[..., SweepTable], engine: str, workers: int | None) -> None:
    """Run a sweep with a progress bar, and print its status."""
    try:
        with output.progress_bar("Cells") as moved:
            callbacks = {"progress": output.with_speed(moved, "cells"), "started": note_cluster}
            result = begin(out=out, engine=engine, workers=workers, **callbacks)
    except KeyboardInterrupt:
        if (out / FILE).exists():
            output.note(f"Stopped. Finished cells are kept. Continue with: {_resume_command(SweepTable.open(out))}")
        raise
    _print(result, json)


def note_cluster(client: Any) -> None:
    """Print the address of Dask's dashboard, if there is one, and a note if there are no workers."""
    if find_spec("bokeh") and "dashboard" in client.scheduler_info()["services"]:
        output.note(f"Dask's dashboard is at {client.dashboard_link}")
    if not client.nthreads():
        start = f"dask worker {client.scheduler.address} --nthreads 1"
        output.note(f"The cluster has no workers yet. Start one with: {start}")


def _resume_command(stopped: SweepTable) -> str:
    """Return the command that resumes a sweep, or the call for functions that are not in a file."""
    name, command = stopped.manifest.configuration.cell, f"hardmax sweep resume {stopped.out}"
    if name in CELLS:
        return command
    return f"{command} --cell {name}" if ".py:" in name else "the same call of hm.sweep"


def _print(result: SweepTable, json: bool) -> None:
    errors = result.error_counts()
    if json:
        known = {"out": str(result.out), "cells": result.cells, "rows": result.rows, "errors": errors}
        print(json_format.dumps(known | {"complete": result.complete, "parts": len(result.manifest.parts)}))
        return
    output.say(result.status)
    if errors:
        rows = [(str(number), error) for error, number in list(errors.items())[: output.MOST_ROWS]]
        output.show(output.table("Errors", "cells", "error", rows=rows, total=len(errors)))
    if result.complete:
        output.say(f"Plot it with: hardmax sweep plot {result.out}")
    else:
        output.say(f"Continue with: {_resume_command(result)}")


EXAMPLES = {
    "leaders": "leaders --set alpha=0.05:5:log:20 --set n=10,100 --seeds 10 --out runs/leaders",
    "endings": "endings --set A=skew --set heads=1,2 --seeds 20 --out runs/endings",
    "sphere": "sphere --set beta=1:10:lin:10 --seeds 5 --out runs/sphere",
    "temperature": "temperature --set temperature=0.001:1:log:7 --set layers=1,10 --out runs/temperature",
    "classifier": "classifier --set n_heads=4,32 --set layers=1,2,4 --out runs/classifier",
    OWN: "my_cells.py:cell --set x=1,2,3 --set y=0:1:lin:11 --out runs/mine",
}


@options.with_options
def run_sweep(context: typer.Context, chosen: SweepOptions) -> None:
    """Run your own cell: a function `cell(params, rng)` in a Python file."""
    name = str(context.info_name)
    if name in CELLS:
        chosen.start(name, CELLS[name].defaults, context.args)
    else:
        chosen.start(load_cell(name), {}, context.args)


def _help_of(name: str) -> str:
    """Return the help of a cell: its docstring and the defaults of its parameters."""
    if name not in CELLS:
        return str(run_sweep.__doc__)
    defaults = ", ".join(f"{key}={value}" for key, value in CELLS[name].defaults.items() if key != REPEAT)
    return f"{inspect.getdoc(CELLS[name].function)}\n\nParameters and defaults: {defaults}."


for _name in (*CELLS, OWN):
    app.command(
        _name,
        help=_help_of(_name),
        epilog=f"Try: hardmax sweep {EXAMPLES[_name]}",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(run_sweep)


@app.command(epilog="Try: hardmax sweep resume runs/leaders")
def resume(
    folder: Folder,
    cell: Annotated[str | None, option("--cell", "File and function of your own cell.", metavar=OWN)] = None,
    engine: Engine = "local",
    workers: Workers = None,
    json: options.Json = False,
) -> None:
    """Continue a sweep that was stopped."""
    found = SweepTable.open(folder).manifest.configuration
    if cell is None and found.cell not in CELLS:
        advice = f"Add --cell {found.cell}: code that a folder names is not run by itself."
        raise ParameterError("cell", "be given for your own cell", "none", advice)
    function: Cell = CELLS[found.cell] if cell is None else load_cell(cell)
    name = found.cell if cell is None else full_name(function)
    same = replace(found, cell=name, source=hash_source(function), version=__version__)
    _run(folder, json, lambda **how: run(function, same, **how), engine, workers)


@app.command(epilog="Try: hardmax sweep status runs/leaders")
def status(folder: Folder, json: options.Json = False) -> None:
    """Print the progress of a sweep, and the errors of its rows."""
    _print(SweepTable.open(folder), json)


@app.command(epilog="Try: hardmax sweep plot runs/leaders --x alpha --out leaders.png")
def plot(
    folder: Folder,
    x: Annotated[
        str | None, option("--x", "Parameter on the x axis. Default: the one with the most values.", **UNSAID)
    ] = None,
    y: Annotated[
        str | None, option("--y", "Column on the y axis. Default: the main result of the cell.", **UNSAID)
    ] = None,
    by: Annotated[str | None, option("--by", "Parameter with one curve per value.", **UNSAID)] = None,
    out: Annotated[Path | None, option("--out", "Image file. Default: DIR/plot.png.", metavar="FILE", **UNSAID)] = None,
) -> None:
    """Plot a column of the table against a parameter: means and quartiles."""
    result = SweepTable.open(folder)
    path = output.check_files([out or folder / "plot.png"], output.PICTURES)[0]
    frame, configuration = result.to_frame(), result.manifest.configuration
    names = configuration.design.names
    varied = sorted((name for name in names if name != REPEAT), key=lambda name: -frame[name].nunique())
    x = x or (varied or names)[0]
    results = [name for name in frame.columns if name not in (*names, "cell", "seconds", "error")]
    y = y or (CELLS[configuration.cell].plotted if configuration.cell in CELLS else (results or ["seconds"])[0])
    others = [name for name in varied if name != x and frame[name].nunique() > 1]
    by = by or (others[0] if others else None)
    output.save_figure(draw.plot_sweep(frame, x=x, y=y, by=by), path)
    output.say_written([path])
    if averaged := [name for name in others if name not in (by, REPEAT)]:
        output.say(f"Each point is also a mean over {' and '.join(averaged)}. Choose parameters with --x and --by.")
