"""Measure a case: each method in a process of its own, in turns, and ratios only of
answers that agree.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any
from unittest import mock

from benchmarks.machine import environment, with_peak
from benchmarks.registry import (
    Answer,
    Case,
    Method,
    Progress,
    Result,
    Row,
    wall_seconds,
)

TURN = 0.05  # seconds for which short runs are repeated in a turn
ENOUGH_SECONDS, MAX_TURNS = (
    3.0,
    30,
)  # a method that has reached either gets no more turns
FEW_TURNS = 8  # in one process
MIN_TURNS, MAX_SECONDS = (
    3,
    10.0,
)  # turns of a slow method, unless they take longer than this
Runs = list[tuple[float, float | None]]  # seconds and peak memory of each turn
INSTALL = "pip install -e '.[bench]'"


class Local:
    """A method in this process."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._is_first = True
        self._result: Any = None

    def prepare(self) -> None:
        self._run = self.method.prepare()

    def run(self) -> tuple[float, float | None]:
        """Return the seconds of the best run of a turn, and in the first turn the peak
        memory in MB.
        """
        self._result = None  # frees the last result
        is_own = (
            self.method.seconds is wall_seconds
        )  # else another process does the work
        (seconds, self._result), peak = (
            with_peak(self._time) if self._is_first and is_own else (self._time(), None)
        )
        if self.method.peak is not None:
            peak = self.method.peak(self._result)
        self._is_first = False
        spent = seconds
        while is_own and spent < TURN:  # other methods have used the caches in between
            self._result = None
            again, self._result = self._time()
            seconds, spent = min(seconds, again), spent + again
        return self.method.seconds(seconds, self._result), peak

    def finish(self) -> tuple[Answer, dict[str, Any]]:
        """Return the answer and the facts of the last run."""
        return self.method.answer(self._result), self.method.facts(self._result)

    def stop(self) -> None:
        """Do nothing: there is no process to end."""

    def _time(self) -> tuple[float, Any]:
        start = time.perf_counter()
        result = self._run()
        return time.perf_counter() - start, result


class Child:
    """A method of a registered case in a fresh process, with the same interface as
    `Local`.
    """

    def __init__(self, case: str, method: str, quick: bool) -> None:
        self._name = f"{case}, {method}"
        self._pool = ProcessPoolExecutor(
            1, get_context("spawn"), _start, (case, method, quick)
        )

    def prepare(self) -> None:
        with mock.patch.dict(
            os.environ, environment()
        ):  # the process starts now, and then loads libraries
            self._call("prepare")

    def run(self) -> tuple[float, float | None]:
        return self._call("run")

    def finish(self) -> tuple[Answer, dict[str, Any]]:
        found = self._call("finish")
        self.stop()
        return found

    def stop(self) -> None:
        """End the process."""
        self._pool.shutdown()

    def _call(self, name: str) -> Any:
        try:
            return self._pool.submit(_call, name).result()
        except BrokenProcessPool:
            raise RuntimeError(
                f"{self._name}: its process ended. It may have run out of memory."
            ) from None
        except Exception as error:
            raise RuntimeError(
                f"{self._name}: {type(error).__name__}: {error}"
            ) from None


_local: list[Local] = []  # the method of this process


def _start(case: str, method: str, quick: bool) -> None:
    """Make this process that of a method."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libraries print
        os.dup2(nowhere, stream)
    from benchmarks import CASES
    from hardmax.search import dispatch

    dispatch.is_loaded = lambda kernel: (
        True
    )  # as after a second of use; `first_call` measures the first calls
    _local.append(
        Local(next(each for each in CASES[case].methods(quick) if each.name == method))
    )


def _call(name: str) -> Any:
    return getattr(_local[0], name)()


def measure(
    case: Case,
    *,
    quick: bool = False,
    slow: bool = False,
    local: bool = False,
    progress: Progress = lambda text: None,
) -> Result:
    """Measure one case: with `quick` at small sizes and without targets, with `local`
    in this process.

    Methods run in turns, each until it has had 3 seconds or 30 turns, and at least
    three unless these take more than 10 seconds. The best run counts. If an answer does
    not agree with ours, the case is refused.
    """
    methods = [method for method in case.methods(quick) if slow or not method.slow]
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    if not is_installed(methods[0]):
        return Result(
            case.name,
            case.title,
            date,
            [],
            f"{methods[0].name} needs {methods[0].package}: {INSTALL}.",
        )
    workers: dict[str, Local | Child] = {}
    try:
        for method in filter(is_installed, methods):
            workers[method.name] = (
                Local(method)
                if local or case.in_one_process
                else Child(case.name, method.name, quick)
            )
        for worker in workers.values():
            progress(f"{case.name}: preparing")
            worker.prepare()
        turns = FEW_TURNS if case.in_one_process else MAX_TURNS
        runs = _run_in_turns(
            workers, turns, quick, lambda name: progress(f"{case.name}: {name}")
        )
        found = {name: worker.finish() for name, worker in workers.items()}
        ours, _ = found[methods[0].name]
        for method in methods[1:]:
            if (
                method.compared
                and method.name in found
                and not case.agrees(ours, found[method.name][0])
            ):
                raise ValueError(f"{method.name} {case.why}: no ratio.")
    except (RuntimeError, ValueError, ImportError) as problem:
        return Result(case.name, case.title, date, [], refused=str(problem))
    finally:
        for worker in workers.values():
            worker.stop()
    rows = _rows(
        methods, runs, {name: facts for name, (_, facts) in found.items()}, quick
    )
    return Result(
        case.name, case.title, date, rows + ([] if quick else case.finish(rows))
    )


def is_installed(method: Method) -> bool:
    """Return True if the package that a method needs is there."""
    return not method.package or find_spec(method.package) is not None


def _run_in_turns(
    workers: dict[str, Local | Child], turns: int, quick: bool, progress: Progress
) -> dict[str, Runs]:
    """Return the seconds and the peak memory of all turns of each method."""
    runs: dict[str, Runs] = {method: [] for method in workers}
    waiting = list(workers)
    while waiting:
        for method in waiting:
            progress(method)
            runs[method].append(workers[method].run())
        waiting = [
            method
            for method in waiting
            if _has_another_turn(runs[method], turns, quick)
        ]
    return runs


def _has_another_turn(runs: Runs, turns: int, quick: bool) -> bool:
    spent = sum(seconds for seconds, _ in runs)
    if len(runs) < MIN_TURNS:
        return spent < (ENOUGH_SECONDS if quick else MAX_SECONDS)
    return not quick and spent < ENOUGH_SECONDS and len(runs) < turns


def _rows(
    methods: list[Method],
    runs: dict[str, Runs],
    facts: dict[str, dict[str, Any]],
    quick: bool,
) -> list[Row]:
    best = {name: min(seconds for seconds, _ in turns) for name, turns in runs.items()}
    rows = []
    for method in methods:
        name, target = method.name, None if quick else method.target
        if name not in best:
            rows.append(Row(name, measured=f"not installed: {INSTALL}"))
            continue
        ratio = (
            None
            if method is methods[0] or method.alone
            else best[name] / best[methods[0].name]
        )
        measured = (
            None if target is None else best[name] if target.unit == "s" else ratio
        )
        reached = (
            None if target is None or measured is None else target.is_reached(measured)
        )
        rows.append(
            Row(
                name,
                best[name],
                runs[name][0][1],
                ratio,
                "",
                str(target or ""),
                reached,
                facts[name],
            )
        )
    return rows
