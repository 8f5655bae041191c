"""Tasks on Dask: the cluster, and the part of each task.

Dask's nanny restarts workers that die, and the scheduler gives their tasks to other workers. A task whose workers die
repeatedly is run cell by cell, so that only the cell that kills its workers has an error.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, ParameterTypeError, needed_for
from hardmax._validation import check_count
from hardmax._version import __version__
from hardmax.scale.cell_process import Task
from hardmax.scale.store import Answer, Part, write_part

if TYPE_CHECKING:
    from distributed import Client, Future

Engine = Any  # "local", an address, or a distributed.Client
CONNECT_TIMEOUT = "10s"
START_TIMEOUT = 120  # seconds in which a worker process on this machine must have started
CONTINUE = "Finished parts are kept: the same call continues."
IGNORE_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # the client stops the workers
LOCAL = {  # Dask's configuration of the cluster on this machine
    "distributed.scheduler.allowed-failures": 1,
    "distributed.scheduler.no-workers-timeout": f"{START_TIMEOUT}s",
    "distributed.scheduler.worker-ttl": "60s",  # cells run in other processes, so that workers always respond
    "distributed.worker.memory.target": False,  # workers hold no data
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


def check_engine(engine: Engine, workers: int | None = None) -> None:
    """Raise an error for an invalid engine, and for a number of workers with another engine than "local"."""
    from distributed import Client

    if isinstance(engine, Client):
        if engine.asynchronous:
            must = "be a synchronous Dask client"
            raise ParameterError("engine", must, "an asynchronous one", "Use distributed.Client().")
    elif engine != "local" and not (isinstance(engine, str) and "://" in engine):
        must = 'be "local", an address such as "tcp://host:8786", or a distributed.Client'
        raise ParameterTypeError("engine", must, repr(engine), 'Leave it out for "local".')
    if workers is None:
        return
    if engine != "local":
        raise ParameterError("workers", 'go with `engine="local"`', f"{workers!r} with another", "Leave it out.")
    check_count(workers, "workers", least=1)


@contextmanager
def connected(engine: Engine, workers: int | None) -> Iterator["Client"]:
    """Yield a client of the engine; a cluster on this machine is closed afterwards."""
    with needed_for("`hardmax.sweep`", None, "scale"):
        import dask
        from distributed import Client, LocalCluster
    check_engine(engine)
    if engine == "local":
        options = {"processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        options |= {"preload": [IGNORE_SIGINT], "death_timeout": START_TIMEOUT, "silence_logs": ERROR}
        with dask.config.set(LOCAL):
            try:
                cluster = LocalCluster(n_workers=workers, **options)
            except RuntimeError as problem:
                advice = 'In a script, call hm.sweep below `if __name__ == "__main__":`, since they import it.'
                raise InputError(f"Worker processes could not start. {advice}") from problem
            with cluster, Client(cluster, set_as_default=False) as client:
                yield client
    elif isinstance(engine, str):
        try:
            client = Client(engine, set_as_default=False, timeout=CONNECT_TIMEOUT)
        except OSError as problem:
            must, advice = (
                "be the address of a running scheduler",
                "Start one, which prints its address: dask scheduler",
            )
            raise ParameterError("engine", must, f"{engine!r} ({problem})", advice) from None
        with client:
            yield client
    else:
        yield engine


def run_tasks(client: "Client", tasks: Sequence[Task]) -> Generator[Part]:
    """Run tasks on the workers and yield their parts as they finish."""
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.comm import CommClosedError

    function, killed = _worker_function(), list[Task]()
    futures = {client.submit(function, tuple(task), __version__, pure=False): task for task in tasks}
    try:
        for future in as_completed(list(futures), loop=client.loop):
            task = futures.pop(future)
            try:
                yield Part(**_result(future))
            except KilledWorker:
                killed.append(task)
        for task in killed:
            yield write_part(Path(task.path), task.first, task.cells, _run_one_by_one(client, function, task))
    except (CommClosedError, CancelledError):
        raise OSError(f"The scheduler was lost. {CONTINUE}") from None
    finally:
        if futures and client.status == "running":
            client.cancel(list(futures))


def _run_one_by_one(client: "Client", function: Callable[..., Any], task: Task) -> Iterator[Answer]:
    """Yield the answer of each cell of a task, run alone on the cluster."""
    from distributed import KilledWorker

    for offset, params in enumerate(task.cells):
        alone = task._replace(first=task.first + offset, cells=[params], path="")
        try:
            yield _result(client.submit(function, tuple(alone), __version__, pure=False))["answer"]
        except KilledWorker:
            yield {}, float("nan"), "KilledWorker: every worker that ran the cell died"


def _worker_function() -> Callable[[tuple[Any, ...], str], dict[str, Any]]:
    """Return the function of a task: a nested one, which is pickled by value, so that any version can refuse it."""

    def run_task(fields: tuple[Any, ...], version: str) -> dict[str, Any]:
        from distributed import get_worker

        try:
            import hardmax

            found = f"hardmax {hardmax.__version__}"
        except ImportError:
            found = "no hardmax"
        if found != f"hardmax {version}":
            return {"refused": f"{found} on {get_worker().address}"}
        from pathlib import Path

        from hardmax.scale.cell_process import Task, run_cells
        from hardmax.scale.store import write_part

        task = Task(*fields)
        if not task.path:  # a single cell
            [answer] = run_cells(task)
            return {"answer": answer}
        return write_part(Path(task.path), task.first, task.cells, run_cells(task))._asdict()

    return run_task


def _result(future: "Future[dict[str, Any]]") -> dict[str, Any]:
    """Return the result of a task, or raise an error that says what to do."""
    from distributed.comm import CommClosedError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    try:
        answer: dict[str, Any] = future.result()
    except (NoWorkerError, NoValidWorkerError):
        raise OSError(f"No worker process could be started for {START_TIMEOUT} s. {CONTINUE}") from None
    except OSError as problem:
        if isinstance(problem, CommClosedError):
            raise
        raise OSError(f"A worker could not write its part. Got: {problem}. Free some disk space. {CONTINUE}") from None
    if "refused" in answer:
        must = f"Workers must run hardmax {__version__}, as the client does."
        raise InputError(f"{must} Got {answer['refused']}. Install the same version there.")
    return answer
