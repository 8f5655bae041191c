"""Bars on a terminal; nothing where standard error is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[int, int, Any, Any], object]  # steps done, steps in all, the loss, and after an epoch its `Epoch`


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[..., None]]:
    """A function of how much is done, how much there is, and what is known so far, if anything."""
    if not sys.stderr.isatty():  # some versions of Rich end a disabled bar with an empty line
        yield lambda done, total, known="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    counted, known_so_far = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[known]}")
    columns = (TextColumn("{task.description}"), BarColumn(), counted, known_so_far, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None, known="")
        yield lambda done, total, known="": progress.update(task, completed=done, total=total, known=known)


@contextmanager
def training_bar(report: Report) -> Iterator[Report]:
    """A function that passes on what it is told, and shows the loss of the last steps and the last accuracy."""
    if not sys.stderr.isatty():  # reading the loss would make a GPU wait
        yield report
        return
    known, smooth = {"loss": "", "accuracy": ""}, None
    with progress_bar("Training") as moved:

        def both(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal smooth
            report(done, total, loss, epoch)
            if epoch is not None and epoch.accuracy is not None:
                known["accuracy"] = f"validation accuracy {epoch.accuracy:.3f}"
            if done % 20 == 0 or epoch is not None:
                smooth = float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                known["loss"] = f"loss {smooth:.3f}"
            moved(done, total, "  ".join(filter(None, known.values())))

        yield both
