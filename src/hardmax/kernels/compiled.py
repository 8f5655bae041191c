"""What compiled kernels have in common: how they are kept on disk, how they share the cores, and what they write."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba import njit

from hardmax._types import BoolArray, IntArray

ALONE = 2e7  # multiplications up to which one thread is done before others have started
PARTS = 4  # of the work, for each thread
Function = TypeVar("Function", bound=Callable[..., object])


class Output(NamedTuple):
    """What a search writes."""

    first: IntArray  # (rows,) the lowest member; -1 where a query sees no key
    sizes: IntArray  # (rows,)
    same: BoolArray  # (rows,) whether the keys of a tied row are all the same
    members: IntArray  # those of tied rows, task after task
    starts: IntArray  # (tasks + 1,) where the room of each task starts
    used: IntArray  # (tasks,) the room it needs


@cache
def _hash(folder: Path) -> str:
    """Of all source code in a folder."""
    return sha256(b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))).hexdigest()[:16]


def entry(fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function that runs beside others of its kind, and keep it on disk.

    For numba a stored function is up to date while its own file is. Its name there tells all the files it may call: of
    its own folder, and of this one.
    """

    def compile_it(function: Function) -> Function:
        for folder in dict.fromkeys([Path(__file__).parent, Path(function.__code__.co_filename).parent]):
            function.__qualname__ += f"-{_hash(folder)}"
        try:
            compiled = njit(nogil=True, cache=True, fastmath=fastmath)(function)
        except RuntimeError:  # no folder to write to: compile in every process
            compiled = njit(nogil=True, fastmath=fastmath)(function)
        return cast(Function, compiled)

    return compile_it


def share(work: Callable[[IntArray], None], tasks: int, effort: float) -> None:
    """Work on numbered tasks in as many threads as numba would use, each taking some more when it is done.

    Threads of Python start in less time than this takes, survive a fork, and never wait for one another.
    """
    threads = numba.get_num_threads() if effort > ALONE else 1
    parts = min(tasks, 1 if threads == 1 else PARTS * threads)
    left = iter([np.arange(first, tasks, parts) for first in range(parts)])  # as causal queries take ever more

    failed: list[BaseException] = []

    def run() -> None:
        try:
            for some in left:
                work(some)
        except BaseException as error:  # a thread would only print it
            failed.append(error)

    others = [Thread(target=run) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    run()
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
