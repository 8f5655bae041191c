"""What compiled kernels have in common: how they are kept on disk, how they share the cores, and what they write."""

from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import njit

from hardmax._private_apis import may_use_private
from hardmax._types import BoolArray, IntArray
from hardmax.search.ready import hashes
from hardmax.search.sets import Sets, TooMany

if may_use_private("numba"):
    from hardmax.search.stored import keep
else:

    def keep(compiled: Any) -> None:
        """Store a compiled function where numba does by default: beside the source."""
        compiled.enable_caching()


ALONE = 2e7  # multiplications up to which one thread is done before others have started
PARTS, FEW_PARTS, LONG = 4, 2, 2e8  # of the work, for each thread; and multiplications from which on it is cut small
ROOM = 16  # members of a tied query on average, beyond which a search runs again with more room
Function = TypeVar("Function", bound=Callable[..., object])


class Output(NamedTuple):
    """What a search writes."""

    first: IntArray  # (rows,) the lowest member; -1 where a query sees no key
    sizes: IntArray  # (rows,)
    same: BoolArray  # (rows,) whether the keys of a tied row are all the same
    members: IntArray  # those of tied rows, task after task
    starts: IntArray  # (tasks + 1,) where the room of each task starts
    used: IntArray  # (tasks,) the room it needs


def entry(fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function that runs beside others of its kind, and keep it on disk.

    For numba a stored function is up to date while its own file is. Its name there tells all the files it may call: of
    its own folder, and of this one.
    """

    def compile_it(function: Function) -> Function:
        function.__qualname__ += hashes(Path(function.__code__.co_filename).parent)
        compiled = njit(nogil=True, fastmath=fastmath)(function)
        with suppress(RuntimeError):  # no folder to write to: compile in every process
            keep(compiled)
        return cast(Function, compiled)

    return compile_it


def share(work: Callable[[IntArray], None], tasks: int, effort: float) -> None:
    """Work on numbered tasks in as many threads as numba would use, each taking some more when it is done.

    Threads of Python start in less time than this takes, survive a fork, and never wait for one another; those of
    `threading` would, until each has begun.
    """
    threads = numba.get_num_threads() if effort > ALONE else 1
    parts = min(tasks, 1 if threads == 1 else threads * (PARTS if effort > LONG else FEW_PARTS))
    left = [np.arange(first, tasks, parts) for first in reversed(range(parts))]  # as causal queries take ever more
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while True:
                try:
                    some = left.pop()
                except IndexError:
                    return
                work(some)
        except BaseException as error:  # a thread would only print it
            failed.append(error)

    working = [allocate_lock() for _ in range(threads - 1)]

    def run_beside(mine: LockType) -> None:
        run()
        mine.release()

    for mine in working:
        mine.acquire()
        try:
            start_new_thread(run_beside, (mine,))
        except RuntimeError:  # no more threads for this process: those that there are do the work
            mine.release()
            break
    run()
    for mine in working:
        mine.acquire()
    if failed:
        raise failed[0]


def written_sets(
    search: Callable[[IntArray, Output], None], rows: int, tasks: int, height: int, effort: float, most: float = np.inf
) -> tuple[Sets, BoolArray]:
    """What a search finds in so many tasks of at most `height` rows each: the sets, and where all keys are the same.

    Raises TooMany where several rows have more than `most` members in all.
    """
    output = Output(
        np.empty(rows, np.intp),
        np.empty(rows, np.intp),
        np.empty(rows, np.bool_),
        np.empty(tasks * height * ROOM, np.intp),
        np.arange(tasks + 1) * (height * ROOM),
        np.empty(tasks, np.intp),
    )
    share(lambda some: search(some, output), tasks, effort)
    if (output.sizes == 1).all():
        return Sets(np.arange(rows + 1), output.first), np.ones(rows, bool)
    if output.used.sum() > most and rows > 1:
        raise TooMany
    if output.used.max(initial=0) > height * ROOM:
        starts = np.r_[0, np.cumsum(output.used)]
        output = output._replace(members=np.empty(starts[-1], np.intp), starts=starts)
        share(lambda some: search(some, output), tasks, effort)
    parts = [output.members[s : s + u] for s, u in zip(output.starts[:-1], output.used, strict=True) if u]
    members = np.concatenate(parts) if parts else np.empty(0, np.intp)
    return Sets.joined(output.first, output.sizes, members), (output.sizes < 2) | output.same
