"""Printed results, error messages, tables and output files of all commands."""

import ast
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import typer
from matplotlib.figure import Figure
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from hardmax._display import progress_bar as progress_bar
from hardmax._errors import ParameterError
from hardmax._files import check_ending, check_writable, save_text, written_whole
from hardmax.app.problems import keep_followable, respell, spell_problem

PICTURES = (".png", ".svg", ".pdf")
# The method of a result that makes files of each ending; pictures are made by `plot`.
METHODS = {
    ".gif": "movie",
    ".mp4": "movie",
    ".npz": "to_npz",
    ".json": "to_json",
    ".csv": "to_csv",
    ".html": "to_html",
}
MAX_ROWS = 20  # of a printed table
INTERRUPTED = 130  # the exit code of Ctrl-C, as shells count
MAX_WIDTH = 10_000  # characters; every table is narrower

_options: ContextVar[Mapping[str | None, typer.CallbackParam]] = ContextVar(
    "options of the running command"
)


@contextmanager
def use_options(options: Iterable[typer.CallbackParam]) -> Iterator[None]:
    """Let messages name parameters as the options of the running command."""
    token = _options.set({option.name: option for option in options})
    try:
        yield
    finally:
        _options.reset(token)


def spell(name: str, value: str | None = None) -> str | None:
    """Return a parameter of the library as an option or argument of the running
    command; None if it has none.

    Options are found by the names of their variables, which are those of the library:
    `alpha` is `--alpha`, `kernel="auto"` is `--kernel auto`, `normalize=False` is
    `--no-normalize`, `exact=False` is no `--exact`.
    """
    option = _options.get({}).get(name)
    if option is None:
        return None
    if option.param_type_name == "argument":
        return f"`{option.metavar}`"
    on, off = option.opts[:1], option.secondary_opts[:1]
    if value is None:
        return f"`{(on + off)[0]}`"
    if getattr(option, "is_flag", False):
        wanted, other = (off, on) if value == "False" else (on, off)
        return f"`{wanted[0]}`" if wanted else f"no `{other[0]}`"
    try:
        return f"`{on[0]} {ast.literal_eval(value)}`"
    except (ValueError, SyntaxError):
        return None  # an expression, which a command line cannot contain


def with_speed(progress: Callable[..., None], what: str) -> Callable[[int, int], None]:
    """Return a progress function that also shows the speed, in `what` per second since
    the first call.
    """
    first: tuple[int, float] | None = None

    def update(done: int, total: int) -> None:
        nonlocal first
        now = time.monotonic()
        before, since = first = first or (done, now)
        speed = (done - before) / (now - since) if now > since else 0.0
        shown = f"{speed:,.0f}" if speed >= 1000 else f"{speed:.3g}"
        progress(done, total, lambda: f"{shown} {what}/s" if speed else "")

    return update


def console() -> Console:
    """Return a console on standard output; a new one per call, so that it follows
    redirection.
    """
    return Console(highlight=False)


def say(sentence: str) -> None:
    """Print a sentence to standard output, without line breaks."""
    Console(highlight=False, markup=False, soft_wrap=True).print(sentence)


def say_status(status: str) -> None:
    """Print the status of a result, with parameters named as options of the command."""
    say(keep_followable(status, spell))


def note(sentence: str) -> None:
    """Print a sentence, if any, to standard error, with parameters named as options of
    the command.
    """
    if sentence:
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(
            respell(sentence, spell)
        )


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print warnings as notes."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def error(problem: Exception) -> None:
    """Print an error to standard error, with parameters named as options of the
    command.
    """
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        "[bold red]Error:[/]", end=" "
    )
    note(
        spell_problem(problem, spell) or "Not enough memory."
    )  # a MemoryError may have no message


def show_table(
    title: str, *columns: str, rows: Iterable[Sequence[str]], total: int = 0
) -> None:
    """Print a table, with a last line "and ... more" if `total` exceeds its rows.

    A terminal too narrow for its words gets one line per cell.
    """
    shown = list(rows)
    if total > len(shown):
        shown.append(("...", f"and {total - len(shown)} more"))
    grid = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )
    for name in columns:
        grid.add_column(name, overflow="fold")
    for row in shown:
        grid.add_row(*row)
    screen = console()
    if (
        Measurement.get(screen, screen.options.update_width(MAX_WIDTH), grid).minimum
        <= screen.width
    ):
        screen.print(grid)
        return
    screen.print(title, style="bold")
    for first, *cells in shown:
        screen.print(f"{columns[0]} {first}".strip())
        for name, cell in zip(columns[1:], cells, strict=False):
            if cell:
                screen.print(
                    Padding(f"{name}: {cell}".removeprefix(": "), (0, 0, 0, 2))
                )


def check_files(
    paths: list[Path] | None,
    endings: Iterable[str] = (*PICTURES, *METHODS),
    *,
    read: str | None = None,
    name: str = "out",
) -> list[Path]:
    """Check the files of --out before any work: writable, of a known ending, and not
    the input file.
    """
    for path in paths or []:
        check_ending(path, tuple(endings), name)
        check_writable(path)
        if (
            read is not None
            and path.exists()
            and path.resolve() == Path(read).resolve()
        ):
            raise ParameterError(
                name,
                "differ from the input file",
                f"{str(path)!r}",
                "Choose another name.",
            )
    return list(paths or [])


def write(files: Iterable[Path], result: object, **methods: Callable[..., Any]) -> None:
    """Write a result to files by its methods for their endings; `methods` replace or
    add to those of the result.

    `to_npz` and `to_csv` are called with the path, `movie` with the path and
    `progress`; `to_json` and `to_html` return a text, and `plot` returns a figure.
    """
    for path in files:
        name = METHODS.get(path.suffix.lower(), "plot")
        method = methods.get(name) or getattr(result, name)
        if name == "plot":
            save_figure(method(), path)
        elif name == "movie":
            with progress_bar("Frames") as progress:
                method(path, progress=progress)
        elif name in ("to_npz", "to_csv"):
            method(path)
        else:
            save_text(method(), path)


def shorten(text: str, length: int) -> str:
    """Return at most `length` characters of a text, with dots for the rest."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def say_written(paths: Iterable[Path]) -> None:
    """Print the names of the files that were written."""
    for path in paths:
        say(f"Wrote {path}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file atomically, and close it."""
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    # The same bytes on every run, and embedded TrueType fonts, as journals require.
    with (
        plt.rc_context({"svg.hashsalt": "hardmax", "pdf.fonttype": 42}),
        written_whole(path) as temporary,
    ):
        figure.savefig(temporary, dpi=150, metadata=undated.get(path.suffix.lower()))
    plt.close(figure)
