"""`python -m benchmarks`, from the repository: what is measured, as tables, files and pictures."""

import json as json_format
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hardmax._errors import ParameterError
from hardmax._files import check_ending
from hardmax.cli import options, output
from hardmax.cli.main import run

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Cases from --list; all of them unless named.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write or renew a .json file of results.")]
Table = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Put the table of --out between the marks of a Markdown file."),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a study: scaling or decided.")]


def bench(
    names: Names = None,
    show_list: Annotated[bool, typer.Option("--list", help="Name the cases and stop.")] = False,
    json: options.Json = False,
    out: Out = None,
    markdown: Table = None,
    plot: Plot = None,
    slow: Annotated[bool, typer.Option("--slow", help="Measure also what takes minutes.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Sizes 20 times smaller, and no targets: a trial run.")
    ] = False,
) -> None:
    """Measure the speed as ratios to real peers. Exit code 1 when answers differ, and there is no ratio.

    app is the web app under load: exit code 1 also when there was an error or a session stayed.

    scaling and decided are studies: curves, with --out for their numbers and --plot for their picture. gpu needs a CUDA
    device. `python -m benchmarks.avx2` does the same without AVX-512, and writes its results beside the others.
    """
    from benchmarks import CASES
    from benchmarks.studies import STUDIES

    if show_list:
        _list(CASES, STUDIES)
        return
    chosen = list(dict.fromkeys(names or CASES))
    for name in chosen:
        if name not in (*CASES, *STUDIES):
            raise ParameterError("names", f"be one of {', '.join((*CASES, *STUDIES))}", f"{name!r}", "See --list.")
    _check_files(chosen, STUDIES, out, markdown, plot)
    if chosen[0] in STUDIES:
        _study(STUDIES[chosen[0]], json, out, markdown, plot, quick)
    else:
        _cases(chosen, json, out, markdown, slow, quick)


def _list(cases: dict[str, Any], studies: dict[str, Any]) -> None:
    width = max(map(len, (*cases, *studies)))
    for name, entry in (*cases.items(), *studies.items()):
        output.say(f"{name:{width}}   {entry.title}")


def _check_files(
    chosen: list[str], studies: dict[str, Any], out: Path | None, table: Path | None, plot: Path | None
) -> None:
    """Refuse what cannot be written, before minutes of work."""
    from benchmarks import report, vectors

    if len(chosen) > 1 and (both := [name for name in chosen if name in studies]):
        raise ParameterError("names", f"be {both[0]} alone, or cases", f"{len(chosen)} names", "Run it by itself.")
    if out is not None:
        check_ending(out, [".json"], "out")
    drawn = [name for name, study in studies.items() if study.picture]
    if plot is not None and chosen[0] not in drawn:
        raise ParameterError("plot", f"go with {' or '.join(drawn)}", f"{chosen[0]!r}", "Leave it out.")
    if plot is not None:
        check_ending(plot, output.PICTURES, "plot")
    tables = [name for name, study in studies.items() if study.table]
    if table is not None and (out is None or (chosen[0] in studies and chosen[0] not in tables)):
        raise ParameterError("markdown", "go with cases and --out, whose results it shows", "no such", "Add --out.")
    if vectors.alone() and chosen[0] in studies and (table or plot):
        must = "show the study on the processor as it is"
        raise ParameterError("markdown" if table else "plot", must, vectors.instructions(), "Leave it out.")
    if table is not None:
        mark = studies[chosen[0]].mark if chosen[0] in tables else report.BEGIN
        report.fill(table.read_text(encoding="utf-8"), "", mark)
    if chosen[0] not in studies and out is not None:
        report.check_same_machine(vectors.file_of(out))


def _cases(names: list[str], json: bool, out: Path | None, table: Path | None, slow: bool, quick: bool) -> None:
    from benchmarks import CASES, measure, report, tables, vectors
    from benchmarks.machine import machine

    place = None if out is None else vectors.file_of(out)

    if not json:
        output.say(", ".join(f"{key} {value}" for key, value in machine().items()))
        if quick:
            output.say("A trial with sizes 20 times smaller than the titles say; its ratios mean nothing.")
    results = []
    for name in names:
        with _progress() as progress:
            result = measure(CASES[name], quick=quick, slow=slow, progress=progress)
        results.append(result)
        if not json:
            _print(result)
        if place is not None:  # after each case: what was measured is kept if the rest is stopped
            report.write(report.merged(results, place), place)
    if json:
        print(json_format.dumps(report.document(results), allow_nan=False))
    if out is not None and table is not None:
        output.save_text(report.fill(table.read_text(encoding="utf-8"), tables.markdown(tables.recorded(out))), table)
    for path in filter(None, (place, table)):
        output.note(f"Wrote {path}")
    if any(result.refused for result in results):
        raise typer.Exit(1)


def _print(result: Any) -> None:
    from benchmarks.results import COLUMNS

    if result.refused:
        output.say(f"{result.name}: {result.title}\n{result.refused}\n")
        return
    grid = output.table(f"{result.name}: {result.title}", *COLUMNS)
    for row in result.rows:
        grid.add_row(*row.cells)
    output.console().print(grid, "")


def _study(study: Any, json: bool, out: Path | None, table: Path | None, plot: Path | None, quick: bool) -> None:
    from benchmarks import plots, report, vectors
    from benchmarks.machine import machine

    place = None if out is None else vectors.file_of(out)
    with _progress() as progress:
        found = {"machine": machine()} | study.measure(quick, progress)
    if json:
        print(json_format.dumps(found, allow_nan=False))
    else:
        grid = output.table(study.title, *found["rows"][0])
        for row in found["rows"]:
            grid.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
        output.console().print(grid)
    if place is not None:
        report.write(found, place)
    if table is not None:
        output.save_text(report.fill(table.read_text(encoding="utf-8"), study.table(found), study.mark), table)
    if plot is not None:
        output.save_figure(getattr(plots, study.picture)(found), plot)
    for path in filter(None, (place, table, plot)):
        output.note(f"Wrote {path}")
    if found.get("refused"):
        for sentence in found["refused"]:
            output.say(sentence)
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that says what is measured, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda sentence: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
app.command()(bench)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks from the command line."""
    return run(app, "python -m benchmarks", sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
