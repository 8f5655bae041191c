"""`hardmax sweep`: built-in cells, cells of one's own, and what to do with their folders."""

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
from hardmax.cli.sweep_values import load_cell, parameters_of, values_of
from hardmax.scale import Sweep
from hardmax.scale.cells import CELLS, REPEAT, BuiltIn
from hardmax.scale.child import Cell
from hardmax.scale.manifest import FILE
from hardmax.scale.sweep import name_of, run, source_hash, sweep

OWN = "FILE.py:CELL"
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)]
Engine = Annotated[str, option("--engine", "local, or the address of a Dask scheduler, such as tcp://host:8786.")]
Workers = Annotated[int | None, option("--workers", "Worker processes on this machine: one a core.", **UNSAID)]


class Cells(TyperGroup):
    """The commands of `hardmax sweep`; a name with a colon is a cell of one's own."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, OWN if ":" in cmd_name else cmd_name)


app = typer.Typer(
    cls=Cells,
    no_args_is_help=True,
    help="Run one function on many parameters, on every core or on a cluster, into one table.",
    epilog="Try: hardmax sweep leaders --alpha 0.05:5:log:20 --n 10,100 --seeds 10 --out runs/leaders",
)


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What every sweep has."""

    out: Annotated[Path, option("--out", "Folder for the table; a sweep that stands there goes on.", metavar="DIR")]
    seeds: Annotated[int, option("--seeds", "Repetitions of every cell, each with its own random numbers.", min=1)] = 1
    samples: Annotated[int | None, option("--samples", "Draw so many cells, not every combination.", **UNSAID)] = None
    seed: Annotated[int, option("--seed", "Seed of all random numbers.")] = 0
    time_limit: Annotated[float | None, option("--time-limit", "Seconds after which a cell is stopped.", **UNSAID)] = (
        None
    )
    engine: Engine = "local"
    workers: Workers = None
    json: options.Json = False

    def start(self, cell: Cell | str, grid: dict[str, Any]) -> None:
        # Cells that are drawn at random have random numbers of their own, unless repetitions are requested.
        alone = self.samples is not None and self.seeds == 1
        repeated = grid if alone else grid | {REPEAT: list(range(self.seeds))}
        begin = partial(sweep, cell, repeated, samples=self.samples, seed=self.seed, time_limit=self.time_limit)
        _run(self.out, self.json, begin, self.engine, self.workers)


def _run(out: Path, json: bool, begin: Callable[..., Sweep], engine: str, workers: int | None) -> None:
    """Show a sweep on its way, and say how it ended."""
    try:
        with output.progress_bar("Cells") as moved:
            told = {"progress": output.with_speed(moved, "cells"), "started": say_cluster}
            result = begin(out=out, engine=engine, workers=workers, **told)
    except KeyboardInterrupt:
        if (out / FILE).exists():
            output.note(f"Stopped. What is done is kept. Go on with: {_to_go_on(Sweep.open(out))}")
        raise
    _print(result, json)


def say_cluster(client: Any) -> None:
    """Say where Dask's page is, if there is one, and that workers are missing, if there are none."""
    if find_spec("bokeh") and "dashboard" in client.scheduler_info()["services"]:
        output.note(f"Dask shows its work at {client.dashboard_link}")
    if not client.nthreads():
        start = f"dask worker {client.scheduler.address} --nthreads 1"
        output.note(f"There is no worker yet, and the work waits for one. Such as: {start}")


def _to_go_on(stopped: Sweep) -> str:
    """The command that resumes a sweep, or for functions that no file has, the call."""
    name, command = stopped.manifest.configuration.cell, f"hardmax sweep resume {stopped.out}"
    if name in CELLS:
        return command
    return f"{command} --cell {name}" if ".py:" in name else "the same call of hm.sweep"


def _print(result: Sweep, json: bool) -> None:
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
        output.say(f"Draw it with: hardmax sweep plot {result.out}")
    else:
        output.say(f"Go on with: {_to_go_on(result)}")


def _command_of(name: str, cell: BuiltIn) -> Callable[..., None]:
    """The command of a built-in cell, with an option for each of its parameters."""

    def command(chosen: SweepOptions, **given: Any) -> None:
        written = {key: text for key, text in given.items() if text is not None}
        whole = {key: isinstance(cell.defaults[key], int) for key in written}
        chosen.start(name, {key: values_of(text, key, whole=whole[key]) for key, text in written.items()})

    flat = [inspect.Parameter("chosen", inspect.Parameter.KEYWORD_ONLY, annotation=SweepOptions)]
    for key, default in cell.defaults.items():
        if key != REPEAT:
            about = option(
                f"--{key.replace('_', '-')}", f"Values: {default!r} unless said.", metavar="VALUES", **UNSAID
            )
            kind = Annotated[str | None, about]
            flat.append(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None))
    command.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    command.__doc__ = inspect.getdoc(cell.function)
    return options.with_options(command)


EXAMPLES = {
    "leaders": "--alpha 0.05:5:log:20 --n 10,100 --seeds 10 --out runs/leaders",
    "endings": "--A skew --heads 1,2 --seeds 20 --out runs/endings",
    "sphere": "--beta 1:10:lin:10 --seeds 5 --out runs/sphere",
    "temperature": "--temperature 0.001:1:log:7 --layers 1,10 --out runs/temperature",
    "classifier": "--n-heads 4,32 --layers 1,2,4 --out runs/classifier",
}
for _name, _cell in CELLS.items():
    app.command(_name, epilog=f"Try: hardmax sweep {_name} {EXAMPLES[_name]}")(_command_of(_name, _cell))


@app.command(
    OWN,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Try: hardmax sweep my_cells.py:cell --x 1,2,3 --y 0:1:lin:11 --out runs/mine",
)
@options.with_options
def own(context: typer.Context, chosen: SweepOptions) -> None:
    """Run a cell of your own: a function `cell(params, rng)` in a file. Other options are its parameters."""
    chosen.start(load_cell(str(context.info_name)), parameters_of(context.args))


@app.command(epilog="Try: hardmax sweep resume runs/leaders")
def resume(
    folder: Folder,
    cell: Annotated[str | None, option("--cell", "File and function of a cell of your own.", metavar=OWN)] = None,
    engine: Engine = "local",
    workers: Workers = None,
    json: options.Json = False,
) -> None:
    """Go on with a sweep that was stopped."""
    found = Sweep.open(folder).manifest.configuration
    if cell is None and found.cell not in CELLS:
        advice = f"Add --cell {found.cell}: no code runs from what a folder names."
        raise ParameterError("cell", "be given for a cell of your own", "none", advice)
    function: Cell = CELLS[found.cell] if cell is None else load_cell(cell)
    name = found.cell if cell is None else name_of(function)
    same = replace(found, cell=name, source=source_hash(function), version=__version__)
    _run(folder, json, lambda **how: run(function, same, **how), engine, workers)


@app.command(epilog="Try: hardmax sweep status runs/leaders")
def status(folder: Folder, json: options.Json = False) -> None:
    """Say how far a sweep is, and which errors its rows hold."""
    _print(Sweep.open(folder), json)


@app.command(epilog="Try: hardmax sweep plot runs/leaders --x alpha --out leaders.png")
def plot(
    folder: Folder,
    x: Annotated[str | None, option("--x", "Parameter to the right: the one of most values.", **UNSAID)] = None,
    y: Annotated[str | None, option("--y", "Column upwards: the first that is no parameter.", **UNSAID)] = None,
    by: Annotated[str | None, option("--by", "Parameter with a curve for each value.", **UNSAID)] = None,
    out: Annotated[Path | None, option("--out", "Picture: DIR/plot.png.", metavar="FILE", **UNSAID)] = None,
) -> None:
    """Draw a column of the table against a parameter: means, and the middle half of the values."""
    result = Sweep.open(folder)
    path = output.check_files([out or folder / "plot.png"], output.PICTURES)[0]
    frame, configuration = result.to_frame(), result.manifest.configuration
    names = configuration.design.names
    many = sorted((name for name in names if name != REPEAT), key=lambda name: -frame[name].nunique())
    x = x or (many or names)[0]
    shown = [name for name in frame.columns if name not in (*names, "cell", "seconds", "error")]
    y = y or (CELLS[configuration.cell].shown if configuration.cell in CELLS else (shown or ["seconds"])[0])
    others = [name for name in many if name != x and frame[name].nunique() > 1]
    by = by or (others[0] if others else None)
    output.save_figure(draw.plot_sweep(frame, x=x, y=y, by=by), path)
    output.say_written([path])
    if averaged := [name for name in others if name not in (by, REPEAT)]:
        output.say(f"Each point is a mean over {' and '.join(averaged)}, too. Choose with --x and --by.")
