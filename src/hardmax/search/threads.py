"""Compile functions, run them in threads, and collect the sets they write."""

import ctypes
import multiprocessing
import os
import sys
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import njit

from hardmax._types import BoolArray, IntArray
from hardmax.sets import Sets, TooMany

PROCESS = os.getpid()
IS_FORKED = (
    bool(multiprocessing.parent_process())
    and "--multiprocessing-fork" not in sys.orig_argv
)  # not spawned
MIN_PARALLEL = (
    2e7  # multiplications below which one thread is done before others have started ...
)
MIN_OPENMP = 4e6  # ... and before those of torch have, which run already
PARTS_PER_THREAD, FEW_PARTS, MIN_LONG = (
    4,
    2,
    2e8,
)  # tasks come in more parts from MIN_LONG multiplications on
ROOM_PER_ROW = (
    16  # average members of a tied row; beyond it a search runs again with more room
)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Function = TypeVar("Function", bound=Callable[..., object])


class Output(NamedTuple):
    """Arrays that a search writes."""

    first: IntArray  # (rows,) the lowest member; -1 where a query sees no key
    sizes: IntArray  # (rows,)
    same: BoolArray  # (rows,) whether the keys of a tied row are all equal
    members: IntArray  # members of tied rows, task after task
    starts: IntArray  # (tasks + 1,) where the room of each task starts
    used: IntArray  # (tasks,) the room it needs


@cache
def hash_sources(folder: Path) -> str:
    """Return a name that changes with any source file of a folder or of this one."""
    files = [
        file for each in {Path(__file__).parent, folder} for file in each.glob("*.py")
    ]
    return (
        "-"
        + sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:16]
    )


def entry(fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function that releases the GIL, and let numba cache it on disk.

    numba takes a cached function as up to date while its own file is unchanged. Its
    name in the cache therefore ends with a hash of all files it may call: those of its
    folder and of this one.
    """

    def compile_it(function: Function) -> Function:
        function.__qualname__ += hash_sources(
            Path(function.__code__.co_filename).parent
        )
        options: dict[str, Any] = {"nogil": True, "fastmath": fastmath}
        with suppress(
            RuntimeError
        ):  # no folder can be written to: compile in every process
            return cast(Function, njit(cache=True, **options)(function))
        return cast(Function, njit(**options)(function))

    return compile_it


def _find_openmp() -> Callable[..., None] | None:
    """Return what runs a callback in the threads of torch, or None where torch or GNU
    OpenMP is not loaded.

    After an operation of torch its threads spin for milliseconds, and threads of our
    own would wait for a core. They do not survive a fork.
    """
    if "torch" not in sys.modules or os.getpid() != PROCESS or IS_FORKED:
        return None
    return _load_openmp()


@cache
def _load_openmp() -> Callable[..., None] | None:
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # another OpenMP, or Windows
        return None
    parallel.restype, parallel.argtypes = (
        None,
        (CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint),
    )
    return cast(Callable[..., None], parallel)


def max_threads() -> int:
    """Return in how many threads compiled code may run.

    `numba.get_num_threads` would start a pool of OpenMP, which is not used here, and
    which slows down all operations of torch.
    """
    threads = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    torch = sys.modules.get("torch")
    # absent while another thread imports torch
    torch_threads = getattr(torch, "get_num_threads", None)
    return threads if torch_threads is None else min(threads, torch_threads())


def share(
    work: Callable[[IntArray], None],
    tasks: int,
    effort: float,
    most_threads: int | None = None,
) -> None:
    """Call `work` with arrays of task numbers, in at most `max_threads()` threads, each
    taking more when done.

    `effort` is the number of multiplications. Threads of Python start in less time than
    this takes and survive a fork; those of `threading` would wait for one another until
    each has begun.
    """
    parallel = _find_openmp() if effort > MIN_OPENMP else None
    least = MIN_OPENMP if parallel else MIN_PARALLEL
    threads = min(max_threads(), most_threads or tasks) if effort > least else 1
    parts = min(
        tasks,
        1
        if threads == 1
        else threads * (PARTS_PER_THREAD if effort > MIN_LONG else FEW_PARTS),
    )
    left = [
        np.arange(first, tasks, parts) for first in reversed(range(parts))
    ]  # as causal queries take ever more
    failed: list[BaseException] = []

    def run(_: object = None) -> None:
        try:
            while True:
                try:
                    some = left.pop()
                except IndexError:
                    return
                work(some)
        except BaseException as error:  # a thread would only print it
            failed.append(error)
            left.clear()

    def run_and_release(lock: LockType) -> None:
        run()
        lock.release()

    if parallel and threads > 1:
        parallel(CALLBACK(run), None, threads, 0)
        threads = 1
    locks = [allocate_lock() for _ in range(threads - 1)]
    for lock in locks:
        lock.acquire()
        try:
            start_new_thread(run_and_release, (lock,))
        except (
            RuntimeError
        ):  # no more threads for this process: those that there are do the work
            lock.release()
            break
    run()
    try:
        for lock in locks:
            lock.acquire()
    except BaseException:  # a signal: others end after their part
        left.clear()
        raise
    if failed:
        raise failed[0]


def collect_sets(
    search: Callable[[IntArray, Output], None],
    rows: int,
    tasks: int,
    height: int,
    effort: float,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """Run a search of `tasks` tasks of at most `height` rows each; return the sets, and
    where all keys are equal.

    Raises TooMany where several rows have more than `most` members in all.
    """
    output = Output(
        np.empty(rows, np.intp),
        np.empty(rows, np.intp),
        np.empty(rows, np.bool_),
        np.empty(tasks * height * ROOM_PER_ROW, np.intp),
        np.arange(tasks + 1) * (height * ROOM_PER_ROW),
        np.empty(tasks, np.intp),
    )
    share(lambda some: search(some, output), tasks, effort)
    if (output.sizes == 1).all():
        return Sets(np.arange(rows + 1), output.first), np.ones(rows, bool)
    if output.used.sum() > most and rows > 1:
        raise TooMany
    if output.used.max(initial=0) > height * ROOM_PER_ROW:
        starts = np.r_[0, np.cumsum(output.used)]
        output = output._replace(members=np.empty(starts[-1], np.intp), starts=starts)
        share(lambda some: search(some, output), tasks, effort)
    parts = [
        output.members[s : s + u]
        for s, u in zip(output.starts[:-1], output.used, strict=True)
        if u
    ]
    members = np.concatenate(parts) if parts else np.empty(0, np.intp)
    return Sets.from_first(output.first, output.sizes, members), (
        output.sizes < 2
    ) | output.same
