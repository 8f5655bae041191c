"""Sweeps and predictions with faults: no row is lost, none is duplicated, and results
equal those without faults.

Schedulers and workers are real processes, killed and stopped by signals.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("distributed")
import cloudpickle
import dask
import psutil
from distributed import Client, LocalCluster, WorkerPlugin

import hardmax as hm
from hardmax.scale import PredictedFiles, SweepTable, slices, store
from hardmax.scale.design import make_design
from hardmax.scale.executor import LOCAL, Task, run_cell, run_cells
from hardmax.scale.store import hash_file
from tests import scale_cells
from tests.processes import PATIENCE, ROOT, ended, process, wait_for
from tests.test_predict_files import MODEL, TEXTS, hash_predictions, write

cloudpickle.register_pickle_by_value(scale_cells)
cloudpickle.register_pickle_by_value(sys.modules[__name__])
GRID = {"a": range(12), "b": [10, 20]}
BAD = {
    "raises": "ValueError: no such thing",
    "hangs": "TimeLimit: the cell was stopped after 3 s",
    "kills its process": "Killed: the process of the cell was ended by SIGKILL",
    "exits": "SystemExit: 3",
    "returns no dict": "TypeError: A cell must return a dict. Got int.",
    "returns a parameter": "ValueError: A row must have columns of its own. Got 'kind'",
    "returns an object": "TypeError: A row must hold numbers",
    "leaves a process and dies": "Killed: the process of the cell was ended by SIGKILL",
}
KINDS = [kind for bad in BAD for kind in ("fine", bad)] + [
    "returns NaN",
    "returns other columns",
    "fine",
]


def run_sweep(out: Path, **options: Any) -> None:
    """Run 24 cells in 6 parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MAX_PARTS", 6)
        hm.sweep(scale_cells.draw_slowly, GRID, out=out, **options)


def sweep_result(out: Path) -> object:
    """Return the rows of a sweep whose folder holds the files of its manifest only."""
    result = SweepTable.open(out)
    assert {path.name for path in out.iterdir()} == {
        "manifest.jsonl",
        *result.manifest.parts,
    }
    assert all(
        hash_file(out / part.name) == part.sha256 for part in result.manifest.done
    )
    return [
        dict(sorted(row.items()))
        for row in result.table().drop_columns(["seconds"]).to_pylist()
    ]


def run_prediction(out: Path, **options: Any) -> None:
    """Predict 604 texts in 9 slices."""
    path = out.parent / "reviews.parquet"
    if not path.exists():
        write(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MAX_ROWS", 100)
        hm.predict_files(path, MODEL, out=out, explain=True, **options)


def prediction_result(out: Path) -> object:
    """Return the hashes of predictions and token sums in a folder without temporary
    files.
    """
    assert PredictedFiles.open(out).table()["row"].to_pylist() == list(
        range(1, len(TEXTS) + 1)
    )
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]
    return hash_predictions(out)


class Job(NamedTuple):
    name: str
    run: Callable[..., None]
    result: Callable[[Path], object]
    small_disk: str
    table: type


JOBS = {
    "sweep": Job("sweep", run_sweep, sweep_result, "16k", SweepTable),
    "predict_files": Job(
        "predict_files", run_prediction, prediction_result, "200k", PredictedFiles
    ),
}


@pytest.fixture(
    scope="module",
    params=["sweep", pytest.param("predict_files", marks=pytest.mark.slow)],
)
def job(request) -> Job:
    return JOBS[request.param]


@pytest.fixture(scope="module")
def undisturbed(job, client, tmp_path_factory) -> object:
    """The result of a job without faults; that of a sweep comes from a plain loop."""
    if job.name == "sweep":
        design = make_design(GRID, None, 0)
        rows = [
            run_cell(scale_cells.draw, design[i], 0, i)[0] for i in range(len(design))
        ]
        return [
            dict(sorted({"cell": i, **design[i], **row, "error": None}.items()))
            for i, row in enumerate(rows)
        ]
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    job.run(out, engine=client)
    return job.result(out)


class Fault(WorkerPlugin):
    """Kill one worker, once, before or after it calls a function: runs a cell, or
    renames a file.
    """

    name = "fault"

    def __init__(self, marker: Path, *, job: str, before: bool) -> None:
        self.marker, self.before = marker, before
        self.where = (
            ("scale.executor", "run_cell")
            if job == "sweep"
            else ("_files", "_keep_first")
        )

    def die_once(self) -> None:
        with suppress(FileExistsError):
            self.marker.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)

    def setup(self, worker) -> None:
        module, name = import_module(f"hardmax.{self.where[0]}"), self.where[1]
        original = getattr(module, name)

        def die_during(*given: Any) -> Any:
            if self.before:
                self.die_once()
            found = original(*given)
            self.die_once()
            return found

        setattr(module, name, die_during)
        self.undo = partial(setattr, module, name, original)

    def teardown(self, worker) -> None:
        self.undo()


@pytest.mark.parametrize(
    "before", [True, False], ids=["before its work", "after it, before its answer"]
)
def test_a_worker_is_killed(
    job, client, undisturbed, tmp_path: Path, before: bool
) -> None:
    client.register_plugin(Fault(tmp_path / "killed", job=job.name, before=before))
    try:
        job.run(tmp_path / "out", engine=client)
    finally:
        client.unregister_worker_plugin("fault")
    assert (tmp_path / "killed").exists()
    assert job.result(tmp_path / "out") == undisturbed


def test_a_disk_that_fills_up_keeps_finished_parts(
    job, client, undisturbed, tmp_path: Path
) -> None:
    disk, out = tmp_path / "disk", tmp_path / "disk" / "out"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={job.small_disk}", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        if job.name == "predict_files":
            (disk / "reviews.parquet").symlink_to(write(tmp_path / "reviews.parquet"))
        with pytest.raises((OSError, hm.InputError), match="No space left on device"):
            job.run(out, engine=client)
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        job.run(out, engine=client)
        assert job.result(out) == undisturbed
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_the_scheduler_is_lost_and_another_one_continues(
    job, client, undisturbed, tmp_path: Path
) -> None:
    address, out = tmp_path / "scheduler.json", tmp_path / "out"
    run = ["--scheduler-file", str(address), "--no-dashboard"]
    with (
        process(
            "distributed.cli.dask_scheduler", *run, "--port", "0", "--host", "127.0.0.1"
        ) as scheduler,
        process("distributed.cli.dask_worker", *run, "--nthreads", "1", "--no-nanny"),
    ):
        wait_for(address.exists, scheduler)
        engine = Client(scheduler_file=str(address), set_as_default=False)
        with pytest.raises(
            OSError, match=r"The scheduler was lost. Finished parts are kept"
        ):
            job.run(out, engine=engine, progress=lambda done, total: scheduler.kill())
        engine.close(timeout=1)
    [path] = out.rglob("manifest.jsonl")
    kept = store.Manifest(path.parent).parts
    assert kept
    job.run(out, engine=client)
    assert job.result(out) == undisturbed
    assert (
        kept.items() <= store.Manifest(path.parent).parts.items()
    )  # also with the same hashes


@pytest.mark.slow  # a worker counts as lost after some seconds
def test_a_worker_is_suspended_and_resumed_when_all_is_done(
    job, undisturbed, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        dask.config.set(LOCAL | {"distributed.scheduler.worker-ttl": "3s"}),
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as engine,
    ):
        worker = (
            "distributed.cli.dask_worker",
            cluster.scheduler_address,
            "--nthreads",
            "1",
            "--no-nanny",
        )
        with process(*worker) as suspended, process(*worker):
            engine.wait_for_workers(2, timeout=PATIENCE)
            stopped: list[psutil.Process] = []

            def suspend_once(done: int, total: int) -> None:
                if not stopped:
                    found = psutil.Process(suspended.pid)
                    stopped.extend([*found.children(), found])
                    for each in stopped:
                        each.suspend()

            job.run(out, engine=engine, progress=suspend_once)
            assert job.result(out) == undisturbed
            for each in stopped:
                each.resume()
            time.sleep(4)  # it finishes the task that it had begun
            assert job.result(out) == undisturbed


SCRIPT = """
import os, signal, sys
from pathlib import Path
from tests.test_scale_faults import JOBS
def progress(done, total):
    if done >= total / 2: os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    JOBS[sys.argv[1]].run(Path(sys.argv[2]), workers=2, progress=progress)
"""


@pytest.mark.slow
def test_the_client_is_killed_and_another_one_continues(
    job, client, undisturbed, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, tmp_path / "script.py", job.name, tmp_path / "out"]
    done = subprocess.run(command, env=env, check=False, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    rows = job.table.open(tmp_path / "out").rows
    job.run(tmp_path / "out", engine=client)
    assert 0 < rows < job.table.open(tmp_path / "out").rows
    assert job.result(tmp_path / "out") == undisturbed


def test_cells_that_misbehave_are_rows(client, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "MAX_PARTS", 2)
    start = time.monotonic()
    result = hm.sweep(
        scale_cells.misbehave,
        {"kind": KINDS},
        out=tmp_path,
        engine=client,
        time_limit=3,
    )
    assert time.monotonic() - start < PATIENCE
    rows = result.table().to_pylist()
    assert [row["cell"] for row in rows] == list(range(len(KINDS)))
    errors = {row["kind"]: row["error"] for row in rows if row["error"]}
    assert (result.errors, set(errors)) == (len(BAD), set(BAD))
    assert all(error.startswith(BAD[kind]) for kind, error in errors.items()), errors
    for index, row in enumerate(rows):  # other cells are not affected
        if row["error"] is None:
            assert (
                row["drawn"]
                == np.random.default_rng(
                    np.random.SeedSequence(0, spawn_key=(index,))
                ).normal()
            )
    assert rows[0]["x"] == 1
    assert np.isnan(rows[-3]["x"])
    assert (rows[-2]["others"], rows[-2]["x"]) == ([1, 2], None)


WORKER = """
import pickle, sys
from hardmax.scale.executor import Task, run_cells
for row, _, _ in run_cells(Task(*pickle.load(sys.stdin.buffer))): print(row["pid"], flush=True)
"""


@pytest.mark.parametrize("worker_ends", [False, True])
def test_processes_that_cells_start_end_with_the_task_or_the_worker(
    worker_ends: bool,
) -> None:
    task = Task(
        cloudpickle.dumps(scale_cells.start_another),
        0,
        0,
        [{"rest": 0}, {"rest": 1000}],
        60.0,
    )
    if worker_ends:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with ended(subprocess.Popen([sys.executable, "-c", WORKER], **pipes)) as worker:
            worker.stdin.write(cloudpickle.dumps(tuple(task)))
            worker.stdin.flush()
            pid = int(worker.stdout.readline())
            assert psutil.pid_exists(pid)
            worker.kill()
    else:
        with closing(run_cells(task)) as answers:
            pid = next(answers)[0]["pid"]
            assert psutil.pid_exists(pid)
    wait_for(
        lambda: (
            not psutil.pid_exists(pid)
            or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        )
    )


def test_a_cluster_without_workers_is_an_error(tmp_path: Path) -> None:
    with (
        dask.config.set(LOCAL | {"distributed.scheduler.no-workers-timeout": "500ms"}),
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(
            OSError,
            match=r"No worker process could be started .* Finished parts are kept",
        ),
    ):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)


def allow_failures(number: int, dask_scheduler=None) -> None:
    dask_scheduler.allowed_failures = number


def test_only_the_cell_that_kills_its_worker_has_an_error(
    client, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(store, "MAX_PARTS", 1)
    client.run_on_scheduler(allow_failures, 0)  # fewer workers have to die
    result = hm.sweep(
        scale_cells.kill_worker, {"a": range(4, 8)}, out=tmp_path, engine=client
    )
    client.run_on_scheduler(allow_failures, 1)
    rows = result.table().to_pylist()
    assert [row["a"] for row in rows] == [4, 5, 6, 7]
    assert [row["error"] for row in rows if row["a"] != 5] == [None] * 3
    assert rows[1]["error"] == "KilledWorker: every worker that ran the cell died"
    drawn = [
        np.random.default_rng(np.random.SeedSequence(0, spawn_key=(i,))).normal()
        for i in range(4)
    ]
    assert [row["drawn"] for row in rows] == [drawn[0], None, *drawn[2:]]


def test_workers_of_another_version_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other" / "hardmax"
    other.mkdir(parents=True)
    for path in (ROOT / "src" / "hardmax").iterdir():
        (other / path.name).symlink_to(path)
    (other / "_version.py").unlink()
    (other / "_version.py").write_text('__version__ = "9.9.9"\n')
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as engine,
        process(
            *(
                "distributed.cli.dask_worker",
                cluster.scheduler_address,
                "--nthreads",
                "1",
                "--no-nanny",
            ),
            path=other.parent,
        ),
        pytest.raises(
            hm.InputError,
            match=r"Got hardmax 9.9.9 on tcp://.* Install the same version",
        ),
    ):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path / "out", engine=engine)
    assert not list((tmp_path / "out").glob("*.parquet"))
