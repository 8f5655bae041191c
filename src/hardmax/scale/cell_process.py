"""The process in which cells run: a child of the Dask worker, with one thread per library.

The worker can stop a cell that exceeds its time limit by killing the child, and a cell that crashes does not take the
worker with it. The child sends the answer of each cell on its own, so that finished cells are kept.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError
from hardmax.scale.design import REPEAT, RESERVED, Params
from hardmax.scale.store import Answer

Cell = Callable[[Params, np.random.Generator], Mapping[str, Any]]
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in LIBRARIES} | {"VECLIB_MAXIMUM_THREADS": "1"}
MAX_LOADING_SECONDS = 600.0  # for starting a child and loading the function
POLL_SECONDS = 1.0  # between two checks that a silent child is alive
ORPHAN_SECONDS = 0.5  # between two checks of a child that its worker is alive
MAX_IDLE_SECONDS = 60.0  # after which a child without work ends


class Task(NamedTuple):
    """Cells that one worker runs into one part. Plain values, which any version of hardmax can unpickle."""

    sweep: str  # identifies the function and its configuration: a child is reused for the same sweep
    pickled: bytes  # the function
    seed: int
    first: int  # index of the first cell
    cells: list[Params]
    time_limit: float | None
    path: str  # of the part


def run_cell(cell: Cell, params: Params, seed: int, index: int) -> Answer:
    """Return the row of one cell, its seconds, and its error, if any.

    Random numbers depend on the seed of the sweep and on the parameter "seed" of the cell, so that cells that differ in
    other parameters have common random numbers; without that parameter, on the index of the cell.
    """
    own = params.get(REPEAT)
    key = own if isinstance(own, int) and not isinstance(own, bool) and own >= 0 else index
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))
    start = time.perf_counter()
    try:
        row = _check_row(cell(dict(params), rng), params)
    except BaseException as problem:  # also SystemExit: the next cells must still run
        return {}, time.perf_counter() - start, f"{type(problem).__name__}: {problem}"
    return row, time.perf_counter() - start, None


def _check_row(row: object, params: Params) -> dict[str, Any]:
    """Return a row as plain values: numbers, texts, booleans, None, or lists of them."""
    if not isinstance(row, Mapping):
        raise TypeError(f"A cell must return a dict. Got {type(row).__name__}.")
    for name in row:
        if not isinstance(name, str) or name in params or name in RESERVED:
            raise ValueError(f"A row must have columns of its own. Got {name!r}, which the table has already.")
    return {name: _plain(value, name) for name, value in row.items()}


def _plain(value: Any, name: str) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list | tuple):
        return [_plain(each, name) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"A row must hold numbers, texts, booleans, None, or lists of them. Got {name} = {value!r}.")


class CellProcess:
    """A child process as its worker sees it. It leads a process group, which is killed together with it."""

    def __init__(self, sweep: str) -> None:
        self.sweep, self.is_new = sweep, True
        self.connection, other_end = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from hardmax.scale.cell_process import main; main({other_end.fileno()})"],
            stdin=subprocess.DEVNULL,
            pass_fds=[other_end.fileno()],
            process_group=0,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        other_end.close()

    def begin(self, task: Task, done: int) -> bool:
        """Send the cells that are left, and wait until the function is loaded; return False if an idle child ended."""
        was_new, self.is_new = self.is_new, False
        try:
            self.connection.send((task.pickled, task.seed, task.first + done, task.cells[done:]))
            loaded = self._wait(MAX_LOADING_SECONDS)
            problem = self.connection.recv() if loaded else f"no answer in {MAX_LOADING_SECONDS:g} s"
        except (EOFError, OSError):
            if was_new:
                raise InputError(f"The process for cells could not start: it {self.stop()}.") from None
            return False
        if problem is not None:
            self.stop()
            raise InputError(f"A worker cannot load the cell. Got {problem}")
        return True

    def receive(self, time_limit: float | None) -> Answer | None:
        """Return the answer of the next cell, or None after the time limit; raise EOFError if the child ended."""
        if not self._wait(time_limit):
            return None
        answer: Answer = self.connection.recv()
        return answer

    def _wait(self, limit: float | None) -> bool:
        """Wait for data, and return whether it came within the limit.

        The pipe does not show that the child ended: a process that a cell has forked may hold the other end.
        """
        end = time.monotonic() + (float("inf") if limit is None else limit)
        while not self.connection.poll(max(min(POLL_SECONDS, end - time.monotonic()), 0)):
            if self.process.poll() is not None and not self.connection.poll():
                raise EOFError
            if time.monotonic() >= end:
                return False
        return True

    def stop(self) -> str:
        """Kill the child and all processes that it has started; return how it ended."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0.2)  # a child that crashed ends with its own signal
        with suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


_idle: list[CellProcess] = []  # of this worker, at most one per thread


def _start(task: Task, done: int) -> CellProcess:
    """Return a child that runs the cells that are left: an idle one of the same sweep, or a new one."""
    while True:
        try:
            process = _idle.pop()
        except IndexError:
            process = CellProcess(task.sweep)
        if process.sweep == task.sweep and process.begin(task, done):
            return process
        process.stop()


def run_cells(task: Task) -> Iterator[Answer]:
    """Yield the answer of each cell, in order; a cell that hangs or crashes has an error."""
    done, limit = 0, task.time_limit
    while done < len(task.cells):
        process = _start(task, done)
        is_alive = True
        while done < len(task.cells) and is_alive:
            done += 1
            try:
                answer = process.receive(limit)
            except (EOFError, OSError):
                is_alive, answer = False, ({}, float("nan"), f"Killed: the process of the cell {process.stop()}")
            if answer is None:
                process.stop()
                is_alive, answer = False, ({}, float(limit or 0), f"TimeLimit: the cell was stopped after {limit:g} s")
            yield answer
        if is_alive:
            _idle.append(process)


def main(descriptor: int) -> None:
    """Run as a child: receive cells from the worker and send answers, until there is no work or no worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client, which stops the workers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError, ConnectionError):
        _serve(Connection(descriptor))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)  # processes that cells have started


def _serve(connection: "Connection[Any, Any]") -> None:
    cell: Cell | None = None
    while connection.poll(MAX_IDLE_SECONDS):
        pickled, seed, first, cells = connection.recv()
        try:
            cell = cell or pickle.loads(pickled)
        except BaseException as problem:
            connection.send(f"{type(problem).__name__}: {problem}")
            continue
        connection.send(None)  # the time limit of the first cell starts now
        for offset, params in enumerate(cells):
            connection.send(run_cell(cell, params, seed, first + offset))


def _end_with(worker: int) -> None:
    """Kill this process and its group when the worker has ended."""
    while os.getppid() == worker:
        time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)
