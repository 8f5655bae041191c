"""Scoring files while disks fill up, schedulers vanish, processes stop or die: the bytes are those of a quiet run."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import psutil
import pytest

pytest.importorskip("distributed")
from distributed import Client, LocalCluster

import hardmax as hm
from hardmax.scale import PredictedFiles, slices
from hardmax.scale.executor import LOCAL, connected
from tests.processes import PATIENCE, process, wait_for
from tests.test_predict_files import MODEL, TEXTS, answers_alone, hashes, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with connected("local", 2) as client:
        yield client


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch) -> None:
    monkeypatch.setattr(slices, "MAX_ROWS", 100)


@pytest.fixture(scope="module")
def quiet(client, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """A file, and the hashes of its answers and sums."""
    folder = tmp_path_factory.mktemp("quiet")
    path = write(folder / "reviews.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MAX_ROWS", 100)
        found = hm.predict_files(path, MODEL, out=folder / "out", explain=True, engine=client)
    return path, answers_alone(hashes(found.out))


def check_whole(out: Path, expected: dict[str, str]) -> None:
    assert answers_alone(hashes(out)) == expected
    assert PredictedFiles.open(out).table()["row"].to_pylist() == list(range(1, len(TEXTS) + 1))
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]


def test_a_disk_fills_up(client, quiet, tmp_path: Path) -> None:
    path, expected = quiet
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    call = {"out": disk / "out", "explain": True, "engine": client}
    try:
        with pytest.raises((OSError, hm.InputError), match="No space left on device"):
            hm.predict_files(path, MODEL, **call)
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        assert hm.predict_files(path, MODEL, **call).complete
        check_whole(disk / "out", expected)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_the_scheduler_is_lost(client, quiet, tmp_path: Path) -> None:
    path, expected = quiet
    address, out = tmp_path / "scheduler.json", tmp_path / "out"
    run = ["--scheduler-file", str(address), "--no-dashboard"]
    with (
        process("distributed.cli.dask_scheduler", *run, "--port", "0", "--host", "127.0.0.1") as scheduler,
        process("distributed.cli.dask_worker", *run, "--nthreads", "1", "--no-nanny"),
    ):
        wait_for(address.exists, scheduler)
        engine = Client(scheduler_file=str(address), set_as_default=False)
        with pytest.raises(OSError, match=r"The scheduler was lost. Finished parts are kept"):
            hm.predict_files(path, MODEL, out=out, explain=True, engine=engine, progress=lambda *_: scheduler.kill())
        engine.close(timeout=1)
    assert 0 < PredictedFiles.open(out).rows < len(TEXTS)
    hm.predict_files(path, MODEL, out=out, explain=True, engine=client)
    check_whole(out, expected)


def test_a_worker_stops_and_wakes_when_all_is_done(quiet, tmp_path: Path) -> None:
    path, expected = quiet
    out = tmp_path / "out"
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
                    for each in (*psutil.Process(pid).children(), psutil.Process(pid)):
                        each.suspend()

            hm.predict_files(path, MODEL, out=out, explain=True, engine=engine, progress=stop_one)
            check_whole(out, expected)
            for each in (*psutil.Process(stopped.pid).children(), psutil.Process(stopped.pid)):
                each.resume()
            time.sleep(3)  # it goes on with what it had begun
            assert answers_alone(hashes(out)) == expected


def test_a_process_that_is_killed_fails_its_slice_and_the_next_call_mends_it(client, quiet, tmp_path: Path) -> None:
    path, expected = quiet
    out = tmp_path / "out"
    workers = list(client.run(os.getpid).values())
    once = iter([0])

    def kill_cells(done: int, total: int) -> None:
        for _ in once:
            for worker in workers:
                for child in psutil.Process(worker).children():
                    child.send_signal(signal.SIGKILL)

    try:
        hm.predict_files(path, MODEL, out=out, explain=True, engine=client, progress=kill_cells)
    except hm.InputError as problem:  # one that waits for work is replaced without a word
        assert "Killed: the process of the cell was ended by SIGKILL. Finished parts are kept" in str(problem)  # noqa: PT017
    hm.predict_files(path, MODEL, out=out, explain=True, engine=client)
    check_whole(out, expected)
