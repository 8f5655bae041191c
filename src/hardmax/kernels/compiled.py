"""What compiled kernels have in common: how they are kept on disk, and how they share the cores."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import numba
import numpy as np
from numba import njit

from hardmax._types import IntArray

ALONE = 2e7  # multiplications up to which one thread is done before others have started
PARTS = 4  # of the work, for each thread
SOURCE = sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def entry(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that runs beside others of its kind, and keep it on disk.

    For numba a stored function is up to date while its own file is. Its name there holds all the files it may call.
    """

    def compile_it(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"-{SOURCE[:16]}"
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder to write to: compile in every process
            return njit(nogil=True, **options)(function)

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
