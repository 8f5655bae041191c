"""What a person sees while and after a call: progress on a terminal or in a log, and figures of results.

Modules below `draw` name the function that draws; `draw` imports it, so that imports go downwards all the same.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hardmax._types import AnyArray

DRAWERS = {  # the module of each function that draws results; it loads Matplotlib or templates when it is called
    "explanation_widget": "app.review_notebook",
    "limit_card": "draw.pages",
    "limit_figure": "draw.pages",
    "plot_clusters": "draw.clusters",
    "plot_tree": "draw.clusters",
    "trajectory_card": "draw.pages",
    "trajectory_figure": "draw.pages",
    "verdicts_card": "draw.pages",
}
Known = Callable[[], str]  # returns the state so far as text; called only when it is shown

FIRST_LINE, NEXT_LINE = 5.0, 30.0  # seconds between lines in a log
MIN_UPDATE = 0.2  # seconds between calls of `known`, which may synchronize a GPU


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_point(point: Sequence[Any] | AnyArray) -> str:
    """Return a point as text, shortened beyond six coordinates."""
    shown = ", ".join(f"{float(x):.4g}" for x in point[:6])
    return f"({shown}, ...)" if len(point) > 6 else f"({shown})"


def draw(name: str, *results: Any, **options: Any) -> Any:
    """Return what the function of that name in DRAWERS draws."""
    return getattr(import_module(f"hardmax.{DRAWERS[name]}"), name)(*results, **options)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[..., None]]:
    """Yield a function of the amount done, the total, and optionally a `Known`."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    notebook = console.is_jupyter and find_spec("ipywidgets") is not None  # what Rich needs to show a bar there
    if not (notebook or sys.stderr.isatty()):  # some versions of Rich end a disabled bar with an empty line
        yield _Lines(label)
        return
    counted, known_so_far = TextColumn("{task.fields[counted]}"), TextColumn("{task.fields[known]}")
    columns = (TextColumn("{task.description}"), BarColumn(), counted, known_so_far, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=not notebook) as progress:
        task, asked = progress.add_task(label, total=None, counted="", known=""), 0.0

        def moved(done: int, total: int, known: Known | None = None) -> None:
            nonlocal asked
            progress.update(task, completed=done, total=total, counted=f"{done}/{total}")
            if known is not None and (time.monotonic() >= asked + MIN_UPDATE or done == total):
                asked = time.monotonic()
                progress.update(task, known=known())

        yield moved


class _Lines:
    """Print lines for a log, the first soon, the others less often."""

    def __init__(self, label: str) -> None:
        self.label, self.due = label, time.monotonic() + FIRST_LINE

    def __call__(self, done: int, total: int, known: Known | None = None) -> None:
        if time.monotonic() >= self.due and done < total:  # the end needs no line
            self.due = time.monotonic() + NEXT_LINE
            said = f"{self.label}: {done:,} of {total:,}  {known() if known else ''}".rstrip()
            print(said, file=sys.stderr, flush=True)
