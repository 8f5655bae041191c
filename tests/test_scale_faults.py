"""Sweeps with faults: no row is lost, none is duplicated, and the table equals that of a plain loop.

Schedulers and workers are real processes, killed and stopped by signals.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
import cloudpickle
import dask
import psutil
from distributed import Client, LocalCluster, WorkerPlugin

import hardmax as hm
from hardmax.scale import SweepTable, cell_process, store
from hardmax.scale.cell_process import Task, run_cell, run_cells
from hardmax.scale.design import make_design
from hardmax.scale.executor import LOCAL, connected
from hardmax.scale.store import hash_file
from tests import scale_cells
from tests.processes import PATIENCE, ROOT, process, wait_for

cloudpickle.register_pickle_by_value(scale_cells)
cloudpickle.register_pickle_by_value(sys.modules[__name__])
GRID = {"a": range(12), "b": [10, 20]}
BAD = (
    *("raises", "hangs", "kills its process", "exits", "returns no dict", "returns a parameter", "returns an object"),
    "leaves a process and dies",
)
KINDS = [kind for bad in BAD for kind in ("fine", bad)] + ["returns NaN", "returns other columns", "fine"]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with connected("local", 2) as client:
        yield client


@pytest.fixture(autouse=True)
def _few_parts(monkeypatch) -> None:
    monkeypatch.setattr(store, "MAX_PARTS", 6)


def rows_of(result: SweepTable) -> list[dict]:
    return [dict(sorted(row.items())) for row in result.table().drop_columns(["seconds"]).to_pylist()]


def plain_loop(cell, grid) -> list[dict]:
    design = make_design(grid, None, 0)
    found = [(design[i], run_cell(cell, design[i], 0, i)) for i in range(len(design))]
    rows = [{"cell": i, **params, **row, "error": error} for i, (params, (row, _, error)) in enumerate(found)]
    return [dict(sorted(row.items())) for row in rows]


def check_whole(result: SweepTable) -> None:
    """Check that the rows equal those of a plain loop, and that the folder holds the files of the manifest only."""
    assert rows_of(result) == plain_loop(scale_cells.draw, GRID)
    names = {path.name for path in result.out.iterdir()}
    assert names == {"manifest.jsonl", *result.manifest.parts}
    assert all(hash_file(result.out / part.name) == part.sha256 for part in result.manifest.done)


class Fault(WorkerPlugin):
    """Kill one worker, once, before or after a part has its name."""

    name = "fault"

    def __init__(self, marker: Path, *, before: bool) -> None:
        self.marker, self.before = marker, before

    def setup(self, worker) -> None:
        from hardmax import _files

        self.original = original = _files._keep_first
        marker, before = self.marker, self.before

        def die_once() -> None:
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

        def keep_first(temporary: Path, target: Path) -> None:
            if before:
                die_once()
            original(temporary, target)
            die_once()

        _files._keep_first = keep_first

    def teardown(self, worker) -> None:
        from hardmax import _files

        _files._keep_first = self.original


@contextmanager
def fault(client: Client, marker: Path, *, before: bool) -> Iterator[None]:
    client.register_plugin(Fault(marker, before=before))
    try:
        yield
    finally:
        client.unregister_worker_plugin("fault")


@pytest.mark.parametrize("before", [True, False], ids=["before its rename", "after it, before its answer"])
def test_a_worker_is_killed(client, tmp_path: Path, before: bool) -> None:
    with fault(client, tmp_path / "killed", before=before):
        result = hm.sweep(scale_cells.draw, GRID, out=tmp_path / "out", engine=client)
    assert (tmp_path / "killed").exists()
    check_whole(result)


def test_cells_that_misbehave_are_rows(client, tmp_path: Path) -> None:
    start = time.monotonic()
    result = hm.sweep(scale_cells.misbehave, {"kind": KINDS}, out=tmp_path, engine=client, time_limit=3)
    assert time.monotonic() - start < PATIENCE
    rows = {row["cell"]: row for row in result.table().to_pylist()}
    assert list(rows) == list(range(len(KINDS)))
    assert result.errors == len(BAD)
    errors = {row["kind"]: row["error"] for row in rows.values() if row["error"]}
    assert errors == {
        "raises": "ValueError: no such thing",
        "hangs": "TimeLimit: the cell was stopped after 3 s",
        "kills its process": "Killed: the process of the cell was ended by SIGKILL",
        "leaves a process and dies": "Killed: the process of the cell was ended by SIGKILL",
        "exits": "SystemExit: 3",
        "returns no dict": "TypeError: A cell must return a dict. Got int.",
        "returns a parameter": errors["returns a parameter"],
        "returns an object": errors["returns an object"],
    }
    assert errors["returns a parameter"].startswith("ValueError: A row must have columns of its own. Got 'kind'")
    assert errors["returns an object"].startswith("TypeError: A row must hold numbers")
    for index, row in rows.items():  # other cells of the part are not affected
        if row["error"] is None:
            drawn = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(index,))).normal()
            assert row["drawn"] == drawn
    assert rows[0]["x"] == 1
    nothing, others, _ = list(rows.values())[-3:]
    assert np.isnan(nothing["x"])
    assert (others["others"], others["x"]) == ([1, 2], None)


def test_loading_a_cell_has_a_time_limit(monkeypatch) -> None:
    class Endless:
        def __reduce__(self):
            return time.sleep, (1000,)

    monkeypatch.setattr(cell_process, "MAX_LOADING_SECONDS", 0.2)
    job = Task("sweep", cloudpickle.dumps(Endless()), 0, 0, [{}], None, "part")
    with pytest.raises(hm.InputError, match=r"A worker cannot load the cell. Got no answer in 0.2 s"):
        list(run_cells(job))


@pytest.mark.parametrize("stopped", [True, False], ids=["which is stopped", "whose worker has ended"])
def test_processes_that_cells_start_end_with_the_process_of_the_cell(stopped: bool) -> None:
    job = Task("sweep", cloudpickle.dumps(scale_cells.start_another), 0, 0, [{}], None, "part")
    [(row, _, _)] = run_cells(job)
    assert psutil.pid_exists(row["pid"])
    ours = cell_process._idle.pop()
    ours.stop() if stopped else ours.connection.close()
    ours.process.wait(PATIENCE)
    wait_for(lambda: not psutil.pid_exists(row["pid"]) or psutil.Process(row["pid"]).status() == psutil.STATUS_ZOMBIE)


def test_a_cluster_without_workers_is_an_error(tmp_path: Path) -> None:
    with (
        dask.config.set(LOCAL | {"distributed.scheduler.no-workers-timeout": "500ms"}),
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(OSError, match=r"No worker process could be started .* Finished parts are kept"),
    ):
        hm.sweep(scale_cells.draw, GRID, out=tmp_path, engine=client)


def allow_failures(number: int, dask_scheduler=None) -> None:
    dask_scheduler.allowed_failures = number


@pytest.mark.slow
def test_only_the_cell_that_kills_its_worker_has_an_error(client, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "MAX_PARTS", 1)
    client.run_on_scheduler(allow_failures, 0)  # fewer workers have to die
    result = hm.sweep(scale_cells.kill_worker, {"a": range(4, 8)}, out=tmp_path, engine=client)
    client.run_on_scheduler(allow_failures, 1)
    rows = result.table().to_pylist()
    assert [row["a"] for row in rows] == [4, 5, 6, 7]
    assert [row["error"] for row in rows if row["a"] != 5] == [None] * 3
    assert rows[1]["error"] == "KilledWorker: every worker that ran the cell died"
    drawn = [np.random.default_rng(np.random.SeedSequence(0, spawn_key=(i,))).normal() for i in range(4)]
    assert [row["drawn"] for row in rows] == [drawn[0], None, *drawn[2:]]


def test_a_disk_that_fills_up_keeps_what_it_has(client, tmp_path: Path) -> None:
    disk, aside = tmp_path / "disk", tmp_path / "out"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with pytest.raises(OSError, match="No space left on device"):
            hm.sweep(scale_cells.draw, GRID, out=disk, engine=client)
        done = len(SweepTable.open(disk).manifest.parts)
        assert 0 < done < 6
        subprocess.run(["cp", "-r", disk, aside], check=True)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    check_whole(hm.sweep(scale_cells.draw, GRID, out=aside, engine=client))


def test_the_scheduler_is_lost_and_the_sweep_goes_on_with_another(client, tmp_path: Path) -> None:
    address = tmp_path / "scheduler.json"
    run = ["--scheduler-file", str(address), "--no-dashboard"]
    with (
        process("distributed.cli.dask_scheduler", *run, "--port", "0", "--host", "127.0.0.1") as scheduler,
        process("distributed.cli.dask_worker", *run, "--nthreads", "1", "--no-nanny"),
    ):
        wait_for(address.exists, scheduler)
        engine = Client(scheduler_file=str(address), set_as_default=False)
        with pytest.raises(OSError, match=r"The scheduler was lost. Finished parts are kept"):
            hm.sweep(
                scale_cells.draw,
                GRID,
                out=tmp_path / "out",
                engine=engine,
                progress=lambda done, total: scheduler.kill(),
            )
        engine.close(timeout=1)
    stopped = SweepTable.open(tmp_path / "out")
    assert 0 < stopped.rows < stopped.cells
    before = {part.name: part.sha256 for part in stopped.manifest.done}
    result = hm.sweep(scale_cells.draw, GRID, out=tmp_path / "out", engine=client)
    check_whole(result)
    assert before.items() <= {part.name: part.sha256 for part in result.manifest.done}.items()


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
            *("distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1", "--no-nanny"),
            path=other.parent,
        ),
    ):
        said = rf"Workers must run hardmax {hm.__version__}, as the client does. Got hardmax 9.9.9 on tcp://.* Install"
        with pytest.raises(hm.InputError, match=said):
            hm.sweep(scale_cells.draw, GRID, out=tmp_path / "out", engine=engine)
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.slow  # a worker counts as lost after five seconds
def test_a_worker_stops_and_wakes_when_all_is_done(tmp_path: Path) -> None:
    with (
        dask.config.set(LOCAL | {"distributed.scheduler.worker-ttl": "2s"}),
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as engine,
    ):
        worker = ("distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1", "--no-nanny")
        with process(*worker) as stopped, process(*worker):
            engine.wait_for_workers(2, timeout=PATIENCE)
            once = iter([stopped.pid])

            def stop_one(done: int, total: int) -> None:
                for pid in once:
                    os.kill(pid, signal.SIGSTOP)

            result = hm.sweep(scale_cells.slowly, GRID, out=tmp_path / "out", engine=engine, progress=stop_one)
            check_whole(result)
            stopped.send_signal(signal.SIGCONT)
            time.sleep(3)  # it goes on with what it had begun
            check_whole(SweepTable.open(tmp_path / "out"))


@pytest.mark.slow
def test_the_client_is_killed_and_the_sweep_goes_on(client, tmp_path: Path) -> None:
    code = (
        "import hardmax as hm, os, signal, sys\n"
        "from tests import scale_cells\n"
        "from hardmax.scale import store; store.MAX_PARTS = 6\n"
        "import cloudpickle; cloudpickle.register_pickle_by_value(scale_cells)\n"
        "def progress(done, total):\n"
        "    if done >= total / 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n"
        "    grid = {'a': range(12), 'b': [10, 20]}\n"
        "    hm.sweep(scale_cells.draw, grid, out=sys.argv[1], workers=2, progress=progress)\n"
    )
    (tmp_path / "script.py").write_text(code)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, tmp_path / "script.py", tmp_path / "out"]
    done = subprocess.run(command, env=env, check=False, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    assert 12 <= SweepTable.open(tmp_path / "out").rows < 24
    check_whole(hm.sweep(scale_cells.draw, GRID, out=tmp_path / "out", engine=client))
