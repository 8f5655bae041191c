"""Signs of life: a bar on a terminal or in a notebook, elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

Report = Callable[[int, int, Any, Any], object]  # steps done, steps in all, the loss, and after an epoch its `Epoch`
Known = Callable[[], str]  # what is known so far; asked only when it is shown

FIRST_LINE, NEXT_LINE = 5.0, 30.0  # seconds of silence in a log
ASKED = 0.2  # seconds after which a bar asks again what is known: of a GPU that means to wait for it


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[..., None]]:
    """A function of how much is done, how much there is, and what is known so far, if anything."""
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
            if known is not None and (time.monotonic() >= asked + ASKED or done == total):
                asked = time.monotonic()
                progress.update(task, known=known())

        yield moved


class _Lines:
    """What a log sees: how far it is, at first soon, then seldom."""

    def __init__(self, label: str) -> None:
        self.label, self.due = label, time.monotonic() + FIRST_LINE

    def __call__(self, done: int, total: int, known: Known | None = None) -> None:
        if time.monotonic() >= self.due and done < total:  # the end speaks for itself
            self.due = time.monotonic() + NEXT_LINE
            said = f"{self.label}: {done:,} of {total:,}  {known() if known else ''}".rstrip()
            print(said, file=sys.stderr, flush=True)


@contextmanager
def training_bar(report: Report) -> Iterator[Report]:
    """A function that passes on what it is told, and shows the loss of the last steps and the last accuracy."""
    smooth: float | None = None
    accuracy = ""

    with progress_bar("Training") as moved:

        def both(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal accuracy
            report(done, total, loss, epoch)
            if epoch is not None and epoch.accuracy is not None:
                accuracy = f"  validation accuracy {epoch.accuracy:.3f}"

            def known() -> str:
                nonlocal smooth
                smooth = float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                return f"loss {smooth:.3f}{accuracy}"

            moved(done, total, known)

        yield both
