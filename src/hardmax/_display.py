"""Progress bars, short texts of counts and points, and drawing functions by name.

Modules below `draw` name the function that draws; it is imported when it is called, so
that imports go downwards.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hardmax._types import AnyArray

# the module of each function that draws results; it loads Matplotlib or templates when
# it is called
DRAWERS = {
    "card": "draw.pages",
    "explanation_widget": "app.notebook",
    "limit_card": "draw.pages",
    "limit_figure": "draw.pages",
    "plot_clusters": "draw.clusters",
    "plot_n_clusters": "draw.flows",
    "plot_tree": "draw.clusters",
    "trajectory_card": "draw.pages",
    "trajectory_figure": "draw.pages",
}
State = Callable[
    [], str
]  # returns the state of the work as text; called only when it is shown

FIRST_LINE, NEXT_LINE = 5.0, 30.0  # seconds between lines in a log
MIN_UPDATE = 0.2  # seconds between calls of a `State`, which may synchronize a GPU


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_point(point: Sequence[Any] | AnyArray) -> str:
    shown = ", ".join(f"{float(x):.4g}" for x in point[:6])
    return f"({shown}, ...)" if len(point) > 6 else f"({shown})"


def draw(name: str, *results: Any, **options: Any) -> Any:
    return getattr(import_module(f"hardmax.{DRAWERS[name]}"), name)(*results, **options)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[..., None]]:
    """Yield a function of the amount done, the total, and optionally a `State`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    notebook = (
        console.is_jupyter and find_spec("ipywidgets") is not None
    )  # which Rich needs for a bar there
    if not (
        notebook or sys.stderr.isatty()
    ):  # some versions of Rich end a disabled bar with an empty line
        yield _print_lines(label)
        return
    fields = (TextColumn("{task.fields[counted]}"), TextColumn("{task.fields[state]}"))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        *fields,
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=not notebook) as bar:
        task, shown = bar.add_task(label, total=None, counted="", state=""), 0.0

        def update(done: int, total: int, state: State | None = None) -> None:
            nonlocal shown
            bar.update(task, completed=done, total=total, counted=f"{done}/{total}")
            if state is not None and (
                time.monotonic() >= shown + MIN_UPDATE or done == total
            ):
                shown = time.monotonic()
                bar.update(task, state=state())

        yield update


def _print_lines(label: str) -> Callable[..., None]:
    """Return a function that prints lines for a log, the first soon, the others less
    often.
    """
    due = time.monotonic() + FIRST_LINE

    def update(done: int, total: int, state: State | None = None) -> None:
        nonlocal due
        if time.monotonic() >= due and done < total:  # the end needs no line
            due = time.monotonic() + NEXT_LINE
            line = (
                f"{label}: {done:,} of {total:,}  {state() if state else ''}".rstrip()
            )
            print(line, file=sys.stderr, flush=True)

    return update
