"""Training as a bar on the terminal: loss and accuracy as they come."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[..., None]


@contextmanager
def shown(report: Report | None, *, bar: bool) -> Iterator[Report]:
    """A function to call after each step: it passes on, and moves a bar if there is a terminal."""
    passed_on = report or (lambda *_: None)
    if not bar:
        yield passed_on
        return
    with training_bar() as moved:

        def both(*what: Any) -> None:
            passed_on(*what)
            moved(*what)

        yield both


@contextmanager
def training_bar() -> Iterator[Report]:
    """A Rich bar with the loss of the last steps and the accuracy of the last epoch; nothing in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("Training"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
        TextColumn("{task.fields[known]}"),
        TimeRemainingColumn(),
    )
    known = {"loss": "", "accuracy": ""}
    smooth = None
    if not sys.stderr.isatty():  # reading the loss would make a GPU wait
        yield lambda *what: None
        return
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None, known="")

        def report(done: int, total: int, loss: Any, epoch: Any) -> None:
            nonlocal smooth
            if epoch is not None and epoch.accuracy is not None:
                known["accuracy"] = f"validation accuracy {epoch.accuracy:.3f}"
            if done % 20 == 0 or epoch is not None:
                smooth = float(loss) if smooth is None else 0.8 * smooth + 0.2 * float(loss)
                known["loss"] = f"loss {smooth:.3f}"
            progress.update(task, completed=done, total=total, known="  ".join(filter(None, known.values())))

        yield report
