"""Time the methods of a case in turns, compare their answers, and only then form ratios."""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.registry import Answer, Case, Method
from benchmarks.results import Result, Row
from benchmarks.worker import Child, Local, Worker

PATIENCE, MOST = 3.0, 30  # seconds, or runs, after which a method has had its turns
LEAST, TOO_LONG = 3, 10.0  # runs that even a slow method has, unless they take so many seconds


def measure(
    case: Case,
    *,
    quick: bool = False,
    slow: bool = False,
    local: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Measure one case.

    Methods run in turns, each until it has had 3 seconds or 30 runs, and at least three times unless that takes more
    than 10 seconds. The best counts. An answer that does not agree with ours refuses the case: there is no ratio.

    Parameters
    ----------
    case : Case
    quick : bool
        Sizes 20 times smaller, and no targets: the ratios say nothing.
    slow : bool
        Measure also what takes minutes.
    local : bool
        Run in this process, for cases that are not registered.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Result
    """
    tell = progress or (lambda sentence: None)
    methods = [method for method in case.methods(quick) if slow or not method.slow]
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    if not installed(methods[0]):
        missing = f"{methods[0].name} needs {methods[0].package}: pip install -e '.[bench]'."
        return Result(case.name, case.title, date, [], refused=missing)
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for method in methods:
                if installed(method):
                    workers[method.name] = (
                        Local(method) if local else Child(case.name, method.name, quick, Path(folder))
                    )
            tell(f"{case.name}: preparing")
            for worker in workers.values():
                worker.ready()
            times, peaks = _in_turns(workers, quick, tell, case.name)
            found = {name: worker.finish() for name, worker in workers.items()}
            _compare(case, methods, {name: answer for name, (answer, _) in found.items()})
        except (RuntimeError, ValueError, ImportError) as problem:
            return Result(case.name, case.title, date, [], refused=str(problem))
        finally:
            for worker in workers.values():
                worker.stop()
    rows = _rows(methods, times, peaks, {name: facts for name, (_, facts) in found.items()}, quick)
    return Result(case.name, case.title, date, rows + ([] if quick else case.finish(rows)))


def installed(method: Method) -> bool:
    """Whether the package that it needs is there."""
    return not method.package or find_spec(method.package) is not None


def _in_turns(
    workers: dict[str, Worker], quick: bool, tell: Callable[[str], None], name: str
) -> tuple[dict[str, list[float]], dict[str, float | None]]:
    """Seconds of all runs, and peak memory."""
    times: dict[str, list[float]] = {method: [] for method in workers}
    peaks: dict[str, float | None] = {}
    waiting = list(workers)
    while waiting:
        for method in waiting:
            tell(f"{name}: {method}")
            seconds, peak = workers[method].run()
            times[method].append(seconds)
            peaks.setdefault(method, peak)
        waiting = [method for method in waiting if _again(times[method], quick)]
    return times, peaks


def _again(seconds: list[float], quick: bool) -> bool:
    """Whether a method has another turn."""
    if len(seconds) < LEAST:
        return sum(seconds) < (PATIENCE if quick else TOO_LONG)
    return not quick and sum(seconds) < PATIENCE and len(seconds) < MOST


def _compare(case: Case, methods: list[Method], answers: dict[str, Answer]) -> None:
    ours = answers[methods[0].name]
    for method in methods[1:]:
        if method.compared and method.name in answers and not case.agrees(ours, answers[method.name]):
            raise ValueError(f"{method.name} {case.why}: no ratio.")


def _rows(
    methods: list[Method],
    times: dict[str, list[float]],
    peaks: dict[str, float | None],
    facts: dict[str, dict[str, Any]],
    quick: bool,
) -> list[Row]:
    rows = []
    for method in methods:
        if method.name not in times:
            rows.append(Row(method.name, measured="not installed: pip install -e '.[bench]'"))
            continue
        seconds = min(times[method.name])
        ratio = None if method is methods[0] or method.alone else seconds / min(times[methods[0].name])
        row = Row(method.name, seconds, peaks[method.name], ratio, facts=facts[method.name])
        rows.append(row if quick else judged(row, method))
    return rows


def judged(row: Row, method: Method) -> Row:
    """The row beside its target."""
    target = method.target
    if target is None or row.seconds is None:
        return row
    measured = row.seconds if target.unit == "s" else row.ratio
    reached = None if measured is None else target.reached(measured)
    return Row(row.method, row.seconds, row.peak, row.ratio, row.measured, str(target), reached, row.facts)
