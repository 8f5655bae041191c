"""The client's side of Dask: a cluster, a window of tasks, and what to do when a worker dies."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import ERROR
from typing import TYPE_CHECKING, Any

from hardmax._errors import InputError, ParameterError, ParameterTypeError, needed_for
from hardmax._validation import check_count
from hardmax._version import __version__
from hardmax.scale.cell_process import Chunk
from hardmax.scale.chunks import Chunks
from hardmax.scale.manifest import Interval
from hardmax.scale.parts import Part, write_part

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

Engine = Any  # "local", an address, or a distributed.Client
AHEAD = 2  # tasks in the hands of the scheduler for each thread of a worker
PATIENCE = "10s"  # with a scheduler that does not answer
STARTING = 120.0  # seconds in which a worker on this machine must have started, and in which a dead one is replaced
LOOK = 0.01  # seconds after which we look whether a task is done
GO_ON = "What is done is kept: the same call goes on from there."
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is for the client, which ends workers
LOCAL = {  # settings of the cluster on this machine
    "distributed.scheduler.allowed-failures": 1,  # a second worker that dies with a task is no chance
    "distributed.scheduler.worker-ttl": "60s",  # cells run in other processes, so that workers always answer
    "distributed.worker.memory.target": False,  # nor do they hold data, which could be moved to the disk
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@contextmanager
def connected(engine: Engine, workers: int | None) -> Iterator["Client"]:
    """A client of the cluster that was asked for; a cluster on this machine ends with it."""
    with needed_for("`hardmax.sweep`", None, "scale"):
        import dask
        from distributed import Client, LocalCluster
    check_engine(engine)
    if engine == "local":
        how = {"processes": True, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "preload": [DEAF]}
        how |= {"death_timeout": STARTING, "silence_logs": ERROR}
        with dask.config.set(LOCAL):
            try:
                cluster = LocalCluster(n_workers=workers, **how)
            except RuntimeError as problem:
                advice = 'In a script, call hm.sweep below `if __name__ == "__main__":`, since they import it.'
                raise InputError(f"Worker processes could not start. {advice}") from problem
            with cluster, Client(cluster, set_as_default=False) as client:
                yield client
    elif isinstance(engine, str):
        try:
            client = Client(engine, set_as_default=False, timeout=PATIENCE)
        except OSError as problem:
            must, advice = "be the address of a scheduler that runs", "It prints its address: dask scheduler"
            raise ParameterError("engine", must, f"{engine!r} ({problem})", advice) from None
        with client:
            yield client
    else:
        yield engine


def check_engine(engine: Engine, workers: int | None = None) -> None:
    """Refuse what is no cluster, and a number of workers for another cluster than the local one."""
    from distributed import Client

    if isinstance(engine, Client):
        if engine.asynchronous:
            raise ParameterError("engine", "be a client that waits", "an asynchronous one", "Use distributed.Client().")
    elif engine != "local" and not (isinstance(engine, str) and "://" in engine):
        must = 'be "local", an address such as "tcp://host:8786", or a distributed.Client'
        raise ParameterTypeError("engine", must, repr(engine), 'Leave it out for "local".')
    if workers is None:
        return
    if engine != "local":
        raise ParameterError("workers", 'go with `engine="local"`', f"{workers!r} with another", "Leave it out.")
    check_count(workers, "workers", least=1)


def run_chunks(
    client: "Client", chunks: Chunks, ask_for: Callable[[Interval], Chunk], done: Callable[[Part], None]
) -> None:
    """Give chunks to the workers, some at a time, until all are done.

    When a worker dies, Dask suspects every task that it had. Such chunks wait until the others are done, and then have
    the cluster for themselves, one after the other: what dies now is to blame, and halving it finds the cell.
    """
    from distributed import CancelledError, Future, KilledWorker, as_completed
    from distributed.comm import CommClosedError

    task, running, suspects = _task(), dict[Future, Interval](), list[Interval]()
    finished = as_completed(loop=client.loop)

    def submit(interval: Interval) -> None:
        future = client.submit(task, tuple(ask_for(interval)), __version__, pure=False)
        running[future] = interval
        finished.add(future)

    try:
        while True:
            chunks.workers = max(_threads(client), 1)
            while len(running) < AHEAD * chunks.workers and (interval := chunks.next()) is not None:
                submit(interval)
            alone = not running
            if alone and not suspects:
                return
            if alone:
                submit(suspects.pop())
            _wait(finished, client)
            future = next(finished)
            interval = running.pop(future)
            try:
                part = _part_of(future)
            except KilledWorker:
                if not alone:
                    suspects.append(interval)
                elif (halves := halved(interval)) is not None:
                    suspects.extend(halves)
                else:
                    guilty = "KilledWorker: every worker that was given the cell died"
                    done(write_part(ask_for(interval), [({}, float("nan"), guilty)]))
                continue
            chunks.measured(part.stop - part.start, part.seconds)
            done(part)
    except (CommClosedError, CancelledError):
        raise OSError(f"The scheduler was lost. {GO_ON}") from None
    finally:
        if running and client.status == "running":
            client.cancel(list(running))


def _threads(client: "Client") -> int:
    """How many threads the workers have, one each if they were started as we ask for."""
    from distributed.comm import CommClosedError

    try:
        return sum(client.nthreads().values())
    except OSError as problem:  # also of a connection that could not be made again
        raise CommClosedError(str(problem)) from None


def _wait(finished: "as_completed", client: "Client") -> None:
    """Wait until a task is done.

    Workers of a cluster may come at any time, but on this machine they start at once: if for long there is none, as
    when the environment was changed and they cannot start any more, there will be none.
    """
    from distributed import LocalCluster

    alive = looked = time.monotonic()
    while not finished.has_ready():
        time.sleep(LOOK)
        now = time.monotonic()
        if isinstance(client.cluster, LocalCluster) and now - looked > STARTING / 10:
            looked, alive = now, now if _threads(client) else alive
            if now - alive > STARTING:
                raise OSError(f"No worker process could be started for {STARTING:g} s. {GO_ON}")


def halved(interval: Interval) -> list[Interval] | None:
    """The two halves of an interval, of which the first comes last; None of a single cell."""
    start, stop = interval
    middle = (start + stop) // 2
    return None if middle == start else [(middle, stop), (start, middle)]


def _task() -> Callable[[tuple[Any, ...], str], dict[str, Any]]:
    """What workers run: a function within a function, which travels with its code, so that any version can refuse."""

    def cells(chunk: tuple[Any, ...], version: str) -> dict[str, Any]:
        from distributed import get_worker

        try:
            import hardmax

            found = f"hardmax {hardmax.__version__}"
        except ImportError:
            found = "no hardmax"
        if found != f"hardmax {version}":
            return {"refused": f"{found} on {get_worker().address}"}
        from hardmax.scale.cell_process import Chunk, answers
        from hardmax.scale.parts import read_part, write_part

        job = Chunk(*chunk)
        return (read_part(job) or write_part(job, answers(job)))._asdict()

    return cells


def _part_of(future: "Future[dict[str, Any]]") -> Part:
    """What a task answered, or a sentence on what kept it from that."""
    from distributed.comm import CommClosedError

    try:
        answer = future.result()
    except OSError as problem:
        if isinstance(problem, CommClosedError):
            raise
        raise OSError(f"A worker could not write its part. Got: {problem}. Make room for it. {GO_ON}") from None
    if "refused" in answer:
        must = f"Workers must run hardmax {__version__}, as the client does."
        raise InputError(f"{must} Got {answer['refused']}. Install the same version there.")
    return Part(**answer)
