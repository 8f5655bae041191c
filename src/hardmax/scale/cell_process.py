"""The worker's side of the process in which cells run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any, NamedTuple

from hardmax._errors import InputError
from hardmax.scale.design import Params

LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in LIBRARIES} | {"VECLIB_MAXIMUM_THREADS": "1"}
LOADING = 600.0  # seconds in which a process must have started and loaded the function, libraries and all
LOOK = 1.0  # seconds after which one that says nothing is looked at
Answer = tuple[dict[str, Any], float, str | None]  # the row, its seconds, its error


class Chunk(NamedTuple):
    """Cells that are one task, and all that a worker must know of them. Plain values: workers may be of any version."""

    sweep: str  # of its configuration and function: processes that serve one are kept for it
    pickled: bytes  # the function
    seed: int
    first: int  # number of the first cell
    cells: list[Params]
    time_limit: float | None
    path: str  # of its part


class CellProcess:
    """A process with one thread for every library, whatever the worker has: it is set before NumPy loads.

    It leads a group of its own, so that what a cell has started ends with it.
    """

    def __init__(self, sweep: str) -> None:
        self.sweep, self.is_new = sweep, True
        self.connection, theirs = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from hardmax.scale.child import main; main({theirs.fileno()})"],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            process_group=0,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()

    def begin(self, chunk: Chunk, done: int) -> bool:
        """Send the cells that are left, and wait until the function is loaded; False if the process was gone."""
        was_new, self.is_new = self.is_new, False
        try:
            self.connection.send((chunk.pickled, chunk.seed, chunk.first + done, chunk.cells[done:]))
            problem = self.connection.recv() if self._has_said(LOADING) else f"no answer in {LOADING:g} s"
        except (EOFError, OSError):
            if was_new:
                raise InputError(f"The process for cells could not start: it {self.stop()}.") from None
            return False
        if problem is not None:
            self.stop()
            raise InputError(f"A worker cannot load the cell. Got {problem}")
        return True

    def answer(self, time_limit: float | None) -> Answer | None:
        """The answer to the next cell; None when the time is over."""
        if not self._has_said(time_limit):
            return None
        answer: Answer = self.connection.recv()
        return answer

    def _has_said(self, limit: float | None) -> bool:
        """Wait until something comes, and say whether it came in time; raises EOFError if the process is gone.

        The pipe alone does not tell: a process that a cell has forked may hold the other end of it.
        """
        end = time.monotonic() + (float("inf") if limit is None else limit)
        while not self.connection.poll(max(min(LOOK, end - time.monotonic()), 0)):
            if self.process.poll() is not None and not self.connection.poll():
                raise EOFError
            if time.monotonic() >= end:
                return False
        return True

    def stop(self) -> str:
        """End the process, if it still runs, and what it has started; returns how it ended."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0.2)  # of one that died, the signal is known at once
        with suppress(ProcessLookupError, PermissionError):  # none of the group is left
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


_idle: list[CellProcess] = []  # of this worker, one for each of its threads at most


def _ready(chunk: Chunk, done: int) -> CellProcess:
    """A process that has begun with the cells that are left: one that has served the sweep before, or a new one."""
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            process = CellProcess(chunk.sweep)
        if process.sweep == chunk.sweep and process.begin(chunk, done):
            return process
        process.stop()


def answers(chunk: Chunk) -> Iterator[Answer]:
    """The answer to each cell, in order; a cell that hangs or kills its process has that as its error."""
    done, cells, limit = 0, len(chunk.cells), chunk.time_limit
    while done < cells:
        process = _ready(chunk, done)
        failed: str | None = None
        while done < cells and failed is None:
            done += 1
            try:
                answer = process.answer(limit)
            except (EOFError, OSError):
                failed = f"Killed: the process of the cell {process.stop()}"
                yield {}, float("nan"), failed
                continue
            if answer is None:
                process.stop()
                failed = f"TimeLimit: the cell was stopped after {limit:g} s"
                yield {}, float(limit or 0), failed
                continue
            yield answer
        if failed is None:
            _idle.append(process)
