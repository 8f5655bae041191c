"""Compile functions, run them in threads, and collect the sets they write."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import njit
from numba.core import event

from hardmax._types import BoolArray, IntArray
from hardmax.sets import Sets, TooMany

# multiplications below which one thread is done before others have started
MIN_PARALLEL = 2e7
# parts of the tasks for each thread, and more of them from MIN_LONG multiplications on
FEW_PARTS = 2
PARTS_PER_THREAD = 4
MIN_LONG = 2e8
# average members of a tied row; beyond it a search runs again with more room
ROOM_PER_ROW = 16
# Names in numba's cache on disk end with a hash of this folder. numba takes compiled
# code as up to date while the file of the function itself is unchanged, also where
# functions of other files, which are all in this folder, are inlined into it. An
# upgrade of the package leaves the cache in place.
SOURCES = sha256(
    b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
).hexdigest()[:8]
Function = TypeVar("Function", bound=Callable[..., object])


class Output(NamedTuple):
    """Arrays that a search writes."""

    first: IntArray  # (rows,) the lowest member; -1 where a query sees no key
    sizes: IntArray  # (rows,)
    same: BoolArray  # (rows,) whether the keys of a tied row are all equal
    members: IntArray  # members of tied rows, task after task
    starts: IntArray  # (tasks + 1,) where the room of each task starts
    used: IntArray  # (tasks,) the room it needs


def entry(fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function that releases the GIL, and let numba cache it on disk."""

    def compile_it(function: Function) -> Function:
        function.__qualname__ += f"-{SOURCES}"
        options: dict[str, Any] = {"nogil": True, "fastmath": fastmath}
        # RuntimeError: no folder can be written to. Then every process compiles.
        with suppress(RuntimeError):
            return cast(Function, njit(cache=True, **options)(function))
        return cast(Function, njit(**options)(function))

    return compile_it


class _Announcement(event.Listener):
    """Print a line on a terminal when numba compiles the first function of a file."""

    def __init__(self) -> None:
        self._modules: set[str] = set()

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__
        is_new = module.startswith("hardmax.") and module not in self._modules
        if is_new and sys.stderr is not None and sys.stderr.isatty():
            self._modules.add(module)
            print(f"Compiling {module}, once per machine ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcement())


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


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process. They do not survive a fork: a child process has
    its own.
    """
    return ThreadPoolExecutor(threads, "hardmax")


def share(
    work: Callable[[IntArray], None],
    tasks: int,
    effort: float,
    most_threads: int | None = None,
) -> None:
    """Call `work` with arrays of task numbers, in at most `max_threads()` threads, each
    taking more when done.

    `effort` is the number of multiplications. This thread does what no other thread
    has begun, so it never depends on a free one. After an error no thread begins
    another part.
    """
    threads = 1
    if effort > MIN_PARALLEL:
        threads = min(max_threads(), most_threads or tasks, tasks)
    parts = 1
    if threads > 1:
        parts = threads * (PARTS_PER_THREAD if effort > MIN_LONG else FEW_PARTS)
    parts = min(tasks, parts)
    # The last part, which is taken first, has the last tasks: causal queries take ever
    # more.
    left = [np.arange(first, tasks, parts) for first in reversed(range(parts))]

    def run() -> None:
        try:
            while True:
                try:
                    some = left.pop()
                except IndexError:
                    return
                work(some)
        except BaseException:
            left.clear()
            raise

    others: list[Future[None]] = []
    # RuntimeError: the interpreter ends, or there are no more threads to be had.
    with suppress(RuntimeError):
        for _ in range(threads - 1):
            others.append(_pool(os.getpid(), max_threads() - 1).submit(run))
    run()
    for other in others:
        if not other.cancel():
            other.result()


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
