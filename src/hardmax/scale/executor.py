"""Tasks on Dask: the cluster, the answers of the cells, and the child processes of
cells with a time limit.

Dask's nanny restarts workers that die, and the scheduler gives their tasks to other
workers. A task whose workers die repeatedly is run cell by cell, so that only the cell
that kills its workers has an error.

With a time limit, a task runs its cells in a child process, which is killed when a cell
exceeds the limit. The child sends the answer of each cell on its own, so that finished
cells are kept. `multiprocessing` cannot start it: workers of a cluster are usually
daemonic processes.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from logging import CRITICAL
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError, ParameterTypeError
from hardmax._validation import check_count
from hardmax._version import __version__
from hardmax.scale.design import REPEAT, RESERVED, Params, Plain
from hardmax.scale.store import Answer

if TYPE_CHECKING:
    from distributed import Client, Future

Engine = Any  # "local", an address, or a distributed.Client
Cell = Callable[[Params, np.random.Generator], Mapping[str, Any]]
CONNECT_TIMEOUT = "10s"
START_TIMEOUT = (
    120  # seconds in which a worker process on this machine must have started
)
CONTINUE = "Finished parts are kept: the same call continues."
# the client stops the workers
IGNORE_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
LOCAL = {  # Dask's configuration of the cluster on this machine
    "distributed.scheduler.allowed-failures": 1,
    "distributed.scheduler.no-workers-timeout": f"{START_TIMEOUT}s",
    # cells may start processes by `multiprocessing`
    "distributed.worker.daemon": False,
    # a worker cannot respond while its cell holds the GIL
    "distributed.scheduler.worker-ttl": None,
    # Never give up a nanny. By default, 15 s after a worker died, Dask closes its nanny
    # for good if it has no worker at that moment: on a busy machine the next one may
    # still be starting, or may have died, too.
    "distributed.deploy.lost-worker-timeout": "10000 days",
}
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "BLIS")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in LIBRARIES} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}
POLL_SECONDS = 0.1  # between two checks that a silent child is alive


class Task(NamedTuple):
    """Cells of one part, which one worker runs. Plain values, which any version of
    hardmax can unpickle.
    """

    pickled: bytes  # the function
    seed: int
    first: int  # index of the first cell
    cells: list[Params]
    time_limit: float | None


def check_engine(engine: Engine, workers: int | None) -> None:
    """Raise an error for an invalid engine, and for a number of workers with another
    engine than "local".
    """
    from distributed import Client

    if isinstance(engine, Client):
        if engine.asynchronous:
            must = "be a synchronous Dask client"
            raise ParameterError(
                "engine", must, "an asynchronous one", "Use distributed.Client()."
            )
    elif engine != "local" and not (isinstance(engine, str) and "://" in engine):
        must = (
            'be "local", an address such as "tcp://host:8786", or a distributed.Client'
        )
        raise ParameterTypeError(
            "engine", must, repr(engine), 'Leave it out for "local".'
        )
    if workers is not None:
        if engine != "local":
            raise ParameterError(
                "workers",
                'go with `engine="local"`',
                f"{workers!r} with another",
                "Leave it out.",
            )
        check_count(workers, "workers", least=1)


@contextmanager
def connect(engine: Engine, workers: int | None) -> Iterator["Client"]:
    """Yield a client of the engine; a cluster on this machine is closed afterwards."""
    import dask
    from distributed import Client, LocalCluster

    if engine == "local":
        options = {
            "processes": True,
            "threads_per_worker": 1,
            "dashboard_address": "127.0.0.1:0",
        }
        options |= {
            "preload": [IGNORE_SIGINT],
            "death_timeout": START_TIMEOUT,
            "silence_logs": CRITICAL,
        }
        options |= {"env": ONE_THREAD, "memory_limit": None}
        with dask.config.set(LOCAL):
            try:
                cluster = LocalCluster(n_workers=workers, **options)
            except RuntimeError as problem:
                advice = (
                    'In a script, call hm.sweep below `if __name__ == "__main__":`,'
                    " since they import it."
                )
                raise InputError(
                    f"Worker processes could not start. {advice}"
                ) from problem
            with cluster, Client(cluster, set_as_default=False) as client:
                yield client
    elif isinstance(engine, str):
        try:
            client = Client(engine, set_as_default=False, timeout=CONNECT_TIMEOUT)
        except OSError as problem:
            must, advice = (
                "be the address of a running scheduler",
                "Start one, which prints it: dask scheduler",
            )
            raise ParameterError(
                "engine", must, f"{engine!r} ({problem})", advice
            ) from None
        with client:
            yield client
    else:
        yield engine


def run_tasks(
    client: "Client", tasks: Sequence[Task]
) -> Generator[tuple[Task, list[Answer]]]:
    """Run tasks on the workers, and yield each with the answers of its cells when it is
    finished.
    """
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.comm import CommClosedError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    killed = list[Task]()
    futures = {_submit(client, task): task for task in tasks}
    try:
        for future in as_completed(list(futures), loop=client.loop):
            task = futures.pop(future)
            try:
                yield task, future.result()
            except KilledWorker:
                killed.append(task)
        for task in killed:
            if len(tasks) == len(task.cells) == 1:
                yield (
                    task,
                    [
                        (
                            {},
                            float("nan"),
                            "KilledWorker: every worker that ran the cell died",
                        )
                    ],
                )
            # one by one: a worker that dies also fails the tasks that wait for it
            else:
                alone = [
                    task._replace(first=task.first + i, cells=[params])
                    for i, params in enumerate(task.cells)
                ]
                yield (
                    task,
                    [
                        answer
                        for one in alone
                        for _, [answer] in run_tasks(client, [one])
                    ],
                )
    except (NoWorkerError, NoValidWorkerError):
        raise OSError(
            f"No worker process could be started for {START_TIMEOUT} s. {CONTINUE}"
        ) from None
    except ImportError as problem:
        must = f"Workers must run hardmax {__version__}, as the client does."
        raise InputError(
            f"{must} Got {problem}. Install the same version there."
        ) from None
    except (CommClosedError, CancelledError):
        raise OSError(f"The scheduler was lost. {CONTINUE}") from None
    finally:
        if futures and client.status == "running":
            client.cancel(list(futures))


def _submit(client: "Client", task: Task) -> "Future[Any]":
    """Submit a task as a nested function, which is pickled by value, so that workers of
    any version can refuse it.
    """

    def run_task(fields: tuple[Any, ...], version: str) -> Any:
        from distributed import get_worker

        try:
            import hardmax

            found = f"hardmax {hardmax.__version__}"
        except ImportError:
            found = "no hardmax"
        if found != f"hardmax {version}":
            raise ImportError(f"{found} on {get_worker().address}")
        from hardmax.scale import executor

        return list(executor.run_cells(executor.Task(*fields)))

    return client.submit(run_task, tuple(task), __version__, pure=False)


@lru_cache(maxsize=1)
def load_cell(pickled: bytes) -> Cell:
    """Return the function of a sweep, loaded once per process."""
    try:
        cell: Cell = pickle.loads(pickled)
    except BaseException as problem:
        raise InputError(
            f"A worker cannot load the cell. Got {type(problem).__name__}: {problem}"
        ) from None
    return cell


def run_cells(task: Task) -> Iterator[Answer]:
    """Yield the answer of each cell, in order; with a time limit, a cell that hangs or
    crashes has an error.
    """
    cell, limit, done = load_cell(task.pickled), task.time_limit, 0
    if limit is None:
        for index, params in enumerate(task.cells, task.first):
            yield run_cell(cell, params, task.seed, index)
        return
    while done < len(task.cells):
        with _start_child(
            task._replace(
                first=task.first + done, cells=task.cells[done:], time_limit=None
            )
        ) as child:
            try:
                _receive(
                    *child, float("inf")
                )  # it has loaded the function: the time of the first cell begins
                while done < len(task.cells):
                    answer = _receive(*child, limit)
                    done += 1
                    yield answer
                return
            except TimeoutError:
                answer = {}, limit, f"TimeLimit: the cell was stopped after {limit:g} s"
            except (EOFError, OSError):
                code = child[1].wait()
                ending = (
                    f"was ended by {signal.Signals(-code).name}"
                    if code < 0
                    else f"ended with exit code {code}"
                )
                answer = {}, float("nan"), f"Killed: the process of the cell {ending}"
        done += 1
        yield answer


@contextmanager
def _start_child(task: Task) -> Iterator[tuple[Connection, subprocess.Popen[bytes]]]:
    """Start a process that runs a task and leads a process group, which is killed when
    the block ends.
    """
    ours, theirs = Pipe()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    (
                        "from hardmax.scale.executor import run_child;"
                        f" run_child({theirs.fileno()})"
                    ),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
                env=os.environ
                | ONE_THREAD
                | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        try:
            ours.send(tuple(task))
            yield ours, process
        finally:
            with suppress(ProcessLookupError, PermissionError):  # the group is empty
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _receive(
    connection: Connection, process: subprocess.Popen[bytes], limit: float
) -> Any:
    """Return the next message; raise TimeoutError after the limit in seconds, EOFError
    if the child has ended.

    The pipe does not show that the child ended: a process that a cell has forked may
    hold the other end.
    """
    end = time.monotonic() + limit
    while not connection.poll(POLL_SECONDS):
        if process.poll() is not None and not connection.poll():
            raise EOFError
        if time.monotonic() >= end:
            raise TimeoutError
    return connection.recv()


def run_child(descriptor: int) -> None:
    """Receive a task from the worker, and send the answers of its cells."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the client, which stops the workers
    connection = Connection(descriptor)
    task = Task(*connection.recv())
    threading.Thread(target=_end_with_worker, args=(connection,), daemon=True).start()
    load_cell(task.pickled)
    connection.send(None)
    for answer in run_cells(task):
        connection.send(answer)


def _end_with_worker(connection: Connection) -> None:
    """Kill this process and its group when the worker has ended, which closes the
    connection.
    """
    with suppress(EOFError, OSError):
        connection.recv()
    os.killpg(0, signal.SIGKILL)


def run_cell(cell: Cell, params: Params, seed: int, index: int) -> Answer:
    """Return the row of one cell, its seconds, and its error, if any.

    Random numbers depend on the seed of the sweep and on the parameter "seed" of the
    cell, so that cells that differ in other parameters have common random numbers;
    without that parameter, on the index of the cell.
    """
    own = params.get(REPEAT)
    key = (
        own
        if isinstance(own, int) and not isinstance(own, bool) and own >= 0
        else index
    )
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
            raise ValueError(
                f"A row must have columns of its own. Got {name!r}, which the table has"
                " already."
            )
    return {name: _check_plain(value, name) for name, value in row.items()}


def _check_plain(value: Any, name: str) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list | tuple):
        return [_check_plain(each, name) for each in value]
    if isinstance(value, Plain):
        return value
    raise TypeError(
        f"A row must hold numbers, texts, booleans, None, or lists of them. Got {name}"
        f" = {value!r}."
    )
