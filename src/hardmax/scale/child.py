"""The process in which cells run, which a worker starts (`cell_process.py`).

A cell that hangs can be stopped with its process, and one that kills its process takes no worker along. It answers
each cell by itself, so that what is done is never lost.
"""

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hardmax.scale.design import REPEAT, RESERVED, Params

Cell = Callable[[Params, np.random.Generator], Mapping[str, Any]]
ALONE = 0.5  # seconds after which a process whose worker is gone ends itself
IDLE = 60.0  # seconds after which one without work ends


def answer(cell: Cell, params: Params, seed: int, index: int) -> tuple[dict[str, Any], float, str | None]:
    """Return the row of one cell, its seconds, and its error, if there was one.

    Random numbers depend on the seed of the sweep and on the parameter "seed" of the cell, so that cells that differ in
    other parameters have common random numbers; without that parameter, on the index of the cell.
    """
    own = params.get(REPEAT)
    key = own if isinstance(own, int) and not isinstance(own, bool) and own >= 0 else index
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))
    start = time.perf_counter()
    try:
        row = checked(cell(dict(params), rng), params)
    except BaseException as problem:  # also of sys.exit(): the next cell is not to blame
        return {}, time.perf_counter() - start, f"{type(problem).__name__}: {problem}"
    return row, time.perf_counter() - start, None


def checked(row: object, params: Params) -> dict[str, Any]:
    """A row as plain values: numbers, texts, truth values, None, or lists of them."""
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
    raise TypeError(f"A row must hold numbers, texts, truth values, None, or lists of them. Got {name} = {value!r}.")


def main(descriptor: int) -> None:
    """Take chunks from the worker and answer cell by cell, until none comes for a while, or the worker is gone.

    The process must lead a group of its own, which ends with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the client, which stops workers in its own way
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError, ConnectionError):
        _serve(Connection(descriptor))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)  # what cells have started and left


def _serve(connection: "Connection[Any, Any]") -> None:
    cell: Cell | None = None  # a process serves one sweep
    while connection.poll(IDLE):
        pickled, seed, first, cells = connection.recv()
        try:
            cell = cell or pickle.loads(pickled)
        except BaseException as problem:
            connection.send(f"{type(problem).__name__}: {problem}")
            continue
        connection.send(None)  # from now on time counts
        for offset, params in enumerate(cells):
            connection.send(answer(cell, params, seed, first + offset))


def _end_with(worker: int) -> None:
    """End this process, and what its cells have started, when the worker is gone."""
    while os.getppid() == worker:
        time.sleep(ALONE)
    os.killpg(0, signal.SIGKILL)
