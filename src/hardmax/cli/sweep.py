"""`hardmax sweep`: run cells, resume, report and plot sweeps."""

import importlib.util
import inspect
import json as json_format
import runpy
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperGroup

from hardmax import draw
from hardmax._errors import ParameterError, needed_for
from hardmax.cli import options, output
from hardmax.cli.options import option
from hardmax.scale import SweepTable, sweep
from hardmax.scale.cells import CELLS
from hardmax.scale.design import REPEAT, RESERVED
from hardmax.scale.executor import Cell
from hardmax.scale.store import FILE

OWN = "FILE.py:CELL"
SPACINGS: dict[str, Callable[..., Any]] = {"log": np.geomspace, "lin": np.linspace}
WORDS = {"true": True, "false": False, "none": None}
FORMAT = (
    "Write 1,2,5 for a list, 0.05:5:log:20 or 0:1:lin:11 for a range with a number of"
    " values, 0.05:5:log to sample."
)
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of a sweep.", show_default=False)
]
Engine = Annotated[
    str,
    option(
        "--engine",
        "local, or the address of a Dask scheduler, such as tcp://host:8786.",
    ),
]
Workers = Annotated[
    int | None,
    option(
        "--workers",
        "Number of worker processes on this machine. Default: one per core.",
    ),
]


class Cells(TyperGroup):
    """The commands of `hardmax sweep`; a name with a colon is a cell in a file of the
    user.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, OWN if ":" in cmd_name else cmd_name)


app = typer.Typer(
    cls=Cells,
    no_args_is_help=True,
    help=(
        "Run one function on many parameters, on all cores or on a cluster, into one"
        " table."
    ),
    epilog=(
        "Try: hardmax sweep leaders --set alpha=0.05:5:log:20 --set n=10,100 --seeds 10"
        " --out runs/leaders"
    ),
)


def _run(
    cell: Cell | str,
    grid: Any,
    out: Path,
    engine: str,
    workers: int | None,
    json: bool,
    **known: Any,
) -> None:
    """Run a sweep with a progress bar, and print its status."""
    try:
        with output.progress_bar("Cells") as moved:
            known |= {
                "progress": output.with_speed(moved, "cells"),
                "started": note_cluster,
            }
            result = sweep(cell, grid, out=out, engine=engine, workers=workers, **known)
    except KeyboardInterrupt:
        if (out / FILE).exists():
            output.note(
                "Stopped. Finished cells are kept. Continue with:"
                f" {_resume_command(SweepTable.open(out))}"
            )
        raise
    _print(result, json)


def note_cluster(client: Any) -> None:
    """Print the address of Dask's dashboard, if there is one, and a note if there are
    no workers.
    """
    if (
        importlib.util.find_spec("bokeh")
        and "dashboard" in client.scheduler_info()["services"]
    ):
        output.note(f"Dask's dashboard is at {client.dashboard_link}")
    if not client.nthreads():
        start = f"dask worker {client.scheduler.address} --nthreads 1"
        output.note(f"The cluster has no workers yet. Start one with: {start}")


def _resume_command(stopped: SweepTable) -> str:
    """Return the command that resumes a sweep, or the call for functions that are not
    in a file.
    """
    name, command = (
        stopped.manifest.configuration.cell,
        f"hardmax sweep resume {stopped.out}",
    )
    if name in CELLS:
        return command
    return f"{command} --cell {name}" if ".py:" in name else "the same call of hm.sweep"


def _print(result: SweepTable, json: bool) -> None:
    errors = result.error_counts()
    if json:
        known = {
            "out": str(result.out),
            "cells": result.cells,
            "rows": result.rows,
            "errors": errors,
        }
        print(
            json_format.dumps(
                known
                | {
                    "complete": result.complete,
                    "parts": len(result.manifest.parts),
                }
            )
        )
        return
    output.say(result.status)
    if errors:
        rows = [
            (str(number), error)
            for error, number in list(errors.items())[: output.MAX_ROWS]
        ]
        output.show_table("Errors", "cells", "error", rows=rows, total=len(errors))
    if result.complete:
        output.say(f"Plot it with: hardmax sweep plot {result.out}")
    else:
        output.say(f"Continue with: {_resume_command(result)}")


EXAMPLES = {
    "leaders": (
        "leaders --set alpha=0.05:5:log:20 --set n=10,100 --seeds 10 --out runs/leaders"
    ),
    "endings": "endings --set A=skew --set heads=1,2 --seeds 20 --out runs/endings",
    "sphere": "sphere --set beta=1:10:lin:10 --seeds 5 --out runs/sphere",
    "temperature": (
        "temperature --set temperature=0.001:1:log:7 --set layers=1,10 --out"
        " runs/temperature"
    ),
    "flows": (
        "flows --set V=positive,multiple,complex,jordan,negative --set d=2,3 --seeds 10"
        " --out runs/flows"
    ),
    "robustness": (
        "robustness --set noise=0.0001:0.1:log:4 --set n=10,100 --seeds 20 --out"
        " runs/robustness"
    ),
    "classifier": (
        "classifier --set n_heads=4,32 --set layers=1,2,4 --out runs/classifier"
    ),
    OWN: "my_cells.py:cell --set x=1,2,3 --set y=0:1:lin:11 --out runs/mine",
}


def run_sweep(
    context: typer.Context,
    *,
    values: Annotated[
        list[str] | None,
        option(
            "--set",
            f"Values of a parameter. {FORMAT} Repeat it for more.",
            metavar="NAME=VALUES",
        ),
    ] = None,
    out: Annotated[
        Path,
        option(
            "--out",
            "Folder for the table. An unfinished sweep in it is continued.",
            metavar="DIR",
        ),
    ],
    seeds: Annotated[
        int,
        option(
            "--seeds",
            "Number of repetitions of every cell, with different random numbers.",
            min=1,
        ),
    ] = 1,
    samples: Annotated[
        int | None,
        option(
            "--samples", "Number of cells to draw at random, not every combination."
        ),
    ] = None,
    seed: Annotated[int, option("--seed", "Seed of all random numbers.")] = 0,
    time_limit: Annotated[
        float | None, option("--time-limit", "Seconds after which a cell is stopped.")
    ] = None,
    engine: Engine = "local",
    workers: Workers = None,
    json: options.Json = False,
) -> None:
    """Run your own cell: a function `cell(params, rng)` in a Python file."""
    name = str(context.info_name)
    cell = name if name in CELLS else load_cell(name)
    if context.args:
        must, got = "be options of the command", f"{context.args[0]!r}"
        raise ParameterError(
            "arguments", must, got, "Write parameters of a cell as --set NAME=VALUES."
        )
    grid = parse_grid(values or [], CELLS[name].defaults if name in CELLS else {})
    # Cells that are drawn at random have independent random numbers, unless repetitions
    # are requested.
    if samples is None or seeds > 1:
        grid |= {REPEAT: list(range(seeds))}
    _run(
        cell,
        grid,
        out,
        engine,
        workers,
        json,
        samples=samples,
        seed=seed,
        time_limit=time_limit,
    )


def _help_of(name: str) -> str:
    """Return the help of a built-in cell: its docstring and the defaults of its
    parameters.
    """
    defaults = ", ".join(
        f"{key}={value}" for key, value in CELLS[name].defaults.items() if key != REPEAT
    )
    return (
        f"{inspect.getdoc(CELLS[name].function)}\n\nParameters and defaults:"
        f" {defaults}."
    )


for _name in (*CELLS, OWN):
    app.command(
        _name,
        help=_help_of(_name) if _name in CELLS else None,  # that of run_sweep
        epilog=f"Try: hardmax sweep {EXAMPLES[_name]}",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(run_sweep)


@app.command(epilog="Try: hardmax sweep resume runs/leaders")
def resume(
    folder: Folder,
    cell: Annotated[
        str | None, option("--cell", "File and function of your own cell.", metavar=OWN)
    ] = None,
    engine: Engine = "local",
    workers: Workers = None,
    json: options.Json = False,
) -> None:
    """Continue a sweep that was stopped."""
    found = SweepTable.open(folder).manifest.configuration
    if cell is None and found.cell not in CELLS:
        advice = (
            f"Add --cell {found.cell}: code that a folder names is not run by itself."
        )
        raise ParameterError("cell", "be given for your own cell", "none", advice)
    function: Cell | str = found.cell if cell is None else load_cell(cell)
    known = {"seed": found.seed, "time_limit": found.time_limit}
    _run(function, found.design, folder, engine, workers, json, **known)


@app.command(epilog="Try: hardmax sweep status runs/leaders")
def status(folder: Folder, json: options.Json = False) -> None:
    """Print the progress of a sweep, and the errors of its rows."""
    _print(SweepTable.open(folder), json)


@app.command(epilog="Try: hardmax sweep plot runs/leaders --x alpha --out leaders.png")
def plot(
    folder: Folder,
    x: Annotated[
        str | None,
        option(
            "--x", "Parameter on the x axis. Default: the one with the most values."
        ),
    ] = None,
    y: Annotated[
        str | None,
        option("--y", "Column on the y axis. Default: the main result of the cell."),
    ] = None,
    by: Annotated[
        str | None, option("--by", "Parameter with one curve per value.")
    ] = None,
    out: Annotated[
        Path | None,
        option("--out", "Image file. Default: DIR/plot.png.", metavar="FILE"),
    ] = None,
) -> None:
    """Plot a column of the table against a parameter: means and quartiles."""
    result = SweepTable.open(folder)
    path = output.check_files([out or folder / "plot.png"], output.PICTURES)[0]
    frame, configuration = result.to_frame(), result.manifest.configuration
    names = list(configuration.design[0])
    varied = sorted(
        (name for name in names if name != REPEAT),
        key=lambda name: -frame[name].nunique(),
    )
    x = x or (varied or names)[0]
    results = [name for name in frame.columns if name not in (*names, *RESERVED)]
    y = y or (
        CELLS[configuration.cell].plotted
        if configuration.cell in CELLS
        else (results or ["seconds"])[0]
    )
    others = [name for name in varied if name != x and frame[name].nunique() > 1]
    by = by or (others[0] if others else None)
    output.save_figure(draw.plot_sweep(frame, x=x, y=y, by=by), path)
    output.say_written([path])
    if averaged := [name for name in others if name not in (by, REPEAT)]:
        output.say(
            f"Each point is also a mean over {' and '.join(averaged)}. Choose"
            " parameters with --x and --by."
        )


def parse_grid(settings: Sequence[str], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the values of each parameter, from texts such as "n=10,100"; ranges are
    rounded for integer defaults.
    """
    grid: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not text.strip():
            raise ParameterError(
                "values", "be written as NAME=VALUES", repr(setting), FORMAT
            )
        if name in grid:
            raise ParameterError(
                name, "be set once", "two settings", "Write all values in one: 1,2,5."
            )
        grid[name] = parse_values(
            text, name, is_integer=isinstance(defaults.get(name), int)
        )
    return grid


def parse_values(text: str, name: str, *, is_integer: bool = False) -> Any:
    """Return a list of values, or the distribution of a range without a number of
    values.
    """
    parts = text.split(":")
    if len(parts) not in (3, 4) or parts[2] not in SPACINGS:
        return [_parse_value(each.strip()) for each in text.split(",") if each.strip()]
    try:
        low, high = map(float, parts[:2])
    except ValueError:
        low = high = float("nan")
    if not low < high or (parts[2] == "log" and low <= 0):
        must = "range from a smaller number to a larger one, positive for log"
        raise ParameterError(name, must, repr(text), FORMAT)
    if len(parts) == 3:
        from scipy.stats import loguniform, uniform

        found = loguniform(low, high) if parts[2] == "log" else uniform(low, high - low)
        return (
            SimpleNamespace(rvs=lambda **how: np.rint(found.rvs(**how)).astype(int))
            if is_integer
            else found
        )
    if not parts[3].isdecimal() or int(parts[3]) < 2:
        raise ParameterError(
            name, "end in the number of values, at least 2", repr(text), FORMAT
        )
    values = SPACINGS[parts[2]](low, high, int(parts[3])).tolist()
    return (
        list(dict.fromkeys(round(value) for value in values)) if is_integer else values
    )


def _parse_value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def load_cell(where: str) -> Cell:
    """Return the function of a file, written my_cells.py:cell.

    No module is loaded by its name, so it is pickled by value, and so are modules in
    the same folder that it imports: workers need not have the files.
    """
    with needed_for("`hardmax sweep`", None, "scale"):
        import cloudpickle
    file, _, name = where.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        advice = "For example my_cells.py:cell, or a name of `hardmax sweep --help`."
        raise ParameterError(
            "cell",
            "be an existing Python file, a colon, and a function",
            repr(where),
            advice,
        )
    folder = path.resolve().parent
    sys.path.insert(0, str(folder))  # for modules in the same folder
    found = runpy.run_path(str(path.resolve()), run_name=path.name)
    function = found.get(name)
    if not callable(function):
        known = [
            key
            for key, value in found.items()
            if callable(value) and not key.startswith("_")
        ]
        raise ParameterError(
            "cell",
            f"name a function of {path}",
            repr(name),
            f"It has {', '.join(known) or 'none'}.",
        )
    for each in list(sys.modules.values()):
        if (source := getattr(each, "__file__", None)) and Path(
            source
        ).parent == folder:
            cloudpickle.register_pickle_by_value(each)
    return function
