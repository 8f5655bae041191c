"""`python -m benchmarks`, from the repository: measure cases, print and record their
tables.
"""

import json as json_format
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import CASES, FLOWS, measure, report
from benchmarks.machine import (
    AVX2_ONLY,
    instructions,
    is_restricted,
    machine,
    results_file,
)
from benchmarks.registry import Result
from hardmax._errors import ParameterError
from hardmax._files import check_ending
from hardmax.cli import options, output
from hardmax.cli.main import run

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Cases, or flows. Default: all but flows."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write or update a .json file of results."
    ),
]
Table = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help="Write the table of --out between the marks of a Markdown file.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Use sizes 20 times smaller and no targets, to try a case."
    ),
]


def bench(
    names: Names = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the cases and stop.")
    ] = False,
    json: options.Json = False,
    out: Out = None,
    markdown: Table = None,
    slow: Annotated[
        bool, typer.Option("--slow", help="Measure also methods that take minutes.")
    ] = False,
    quick: Quick = False,
    avx2: Annotated[
        bool,
        typer.Option("--avx2", help="Without AVX-512; results go beside the others."),
    ] = False,
) -> None:
    """Measure the speed as ratios to peers. The exit code is 1 if answers differ, and
    then there is no ratio.

    `python -m benchmarks.gpu` measures on a GPU.
    """
    if avx2 and not is_restricted():
        if instructions() != "AVX-512":
            output.say(
                "This processor has no AVX-512: without --avx2 it measures with"
                f" {instructions()}."
            )
            return
        command = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
        raise typer.Exit(
            subprocess.run(command, env=os.environ | AVX2_ONLY, check=False).returncode
        )
    if show_list:
        width = max(map(len, CASES))
        for name, case in CASES.items():
            output.say(f"{name:{width}}   {case.title}")
        return
    given = names or [name for name in CASES if name not in FLOWS]
    chosen = list(
        dict.fromkeys(
            case for name in given for case in (FLOWS if name == "flows" else [name])
        )
    )
    place = None if out is None else results_file(out)
    _check(chosen, place, markdown)
    if not json:
        output.say(", ".join(f"{key} {value}" for key, value in machine().items()))
        if quick:
            output.say(
                "A trial with sizes 20 times smaller than the titles say; its ratios"
                " mean nothing."
            )
    results: list[Result] = []
    for name in chosen:
        with Console(stderr=True).status("") as status:  # on a terminal only
            results.append(
                measure(CASES[name], quick=quick, slow=slow, progress=status.update)
            )
        if not json:
            _print(results[-1])
        if (
            place is not None
        ):  # after each case: a stopped run keeps what it has measured
            report.write(report.merge(results, place), place)
    if json:
        print(
            json_format.dumps(
                {"machine": machine(), "cases": [asdict(result) for result in results]}
            )
        )
    if out is not None and markdown is not None:
        report.fill_file(
            markdown, report.markdown(report.documents(out)), report.choose_mark(out)
        )
    for path in filter(None, (place, markdown)):
        output.note(f"Wrote {path}")
    if any(result.refused for result in results):
        raise typer.Exit(1)


def _check(names: list[str], place: Path | None, table: Path | None) -> None:
    """Raise an error for what cannot be measured or written, before minutes of work."""
    for name in names:
        if name not in CASES:
            raise ParameterError(
                "names", f"be one of {', '.join(CASES)}", f"{name!r}", "See --list."
            )
    if place is not None:
        check_ending(place, [".json"], "out")
        report.check_same_machine(place)
    if table is not None:
        if place is None:
            raise ParameterError(
                "markdown",
                "go with --out, whose results it shows",
                "no --out",
                "Add --out.",
            )
        report.fill(table.read_text(encoding="utf-8"), "", report.choose_mark(place))


def _print(result: Result) -> None:
    """Print a result as a table."""
    if result.refused:
        output.say(f"{result.name}: {result.title}\n{result.refused}\n")
        return
    rows = [
        list(map(report.cell, report.row_cells([row], [""]))) for row in result.rows
    ]
    output.show_table(f"{result.name}: {result.title}", *report.COLUMNS, rows=rows)
    output.say("")


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)
app.command()(bench)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    return run(
        app, "python -m benchmarks", sys.argv[1:] if arguments is None else arguments
    )


if __name__ == "__main__":
    sys.exit(main())
