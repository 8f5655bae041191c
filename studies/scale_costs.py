"""What sweeps and `predict_files` cost beside their work, and what a second worker
gains.

`python -m studies.scale_costs 1000000 DIR` makes a file with this number of rows in a
folder, predicts it, checks that every row is answered once and in order, and records
seconds and memory in benchmarks/results/corpora_rows.json.
"""

import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from benchmarks import report
from benchmarks.machine import RESULTS, machine, resident
from benchmarks.registry import Progress

import hardmax as hm
from hardmax.text.datasets import reviews

MODEL = "imdb"
CELL_SECONDS = {
    0.001: (1000, 9000),
    0.1: (40, 120),
}  # and the number of cells of a short and of a long sweep
PARALLEL_SECONDS, PARALLEL_CELLS = 0.02, 800
SHORT_ROWS, LONG_ROWS = (
    20_000,
    220_000,
)  # of two files: their difference does not contain the start
DISTINCT = 50_000  # made reviews, from which files are drawn
RUNS = 3  # the best counts
Row = dict[str, Any]


@contextmanager
def peak_memory(every: float = 0.25) -> Iterator[dict[str, float]]:
    """Record the largest resident size of this process, and of the largest of its
    descendants, in MB.
    """
    import psutil

    peak, stopped, me = (
        {"client": 0.0, "child": 0.0},
        threading.Event(),
        psutil.Process(),
    )

    def watch() -> None:
        while not stopped.wait(every):
            for child in me.children(recursive=True):
                with suppress(OSError, StopIteration):  # one that has ended
                    peak["child"] = max(
                        peak["child"], resident("VmHWM", child.pid) / 1e3
                    )

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stopped.set()
        thread.join()
        peak["client"] = resident("VmHWM") / 1e3


def work(rounds: int) -> float:
    """Keep a core busy."""
    total = 0.0
    for number in range(rounds):
        total += number * number
    return total


def cell(params: dict[str, Any], rng: Any) -> dict[str, Any]:
    """Do the work of a cell."""
    return {"total": work(params["rounds"])}


cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _rounds(seconds: float) -> int:
    """Return the rounds of `work` that take the given number of seconds."""
    return round(
        200_000 * seconds / min(_seconds(lambda: work(200_000)) for _ in range(10))
    )


def _sweep_seconds(rounds: int, cells: int, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        grid = {"rounds": [rounds], "seed": range(cells)}
        return _seconds(lambda: hm.sweep(cell, grid, out=folder, workers=workers))


def _bare_seconds(rounds: int, cells: int, processes: int) -> float:
    """Return the seconds of the same work in processes without a sweep."""
    with get_context("spawn").Pool(processes) as pool:
        pool.map(work, [1] * processes, chunksize=1)
        return _seconds(lambda: pool.map(work, [rounds] * cells, chunksize=1))


def _row(
    what: str, measured: str, target: str = "", reached: bool | None = None
) -> Row:
    said = "" if reached is None else "reached" if reached else "missed"
    return {"what": what, "measured": measured, "target": target, "reached?": said}


def measure_sweeps(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure the overhead of a cell by the difference of a long and a short sweep, and
    two workers against one.
    """
    runs, divisor = (1, 10) if quick else (RUNS, 1)
    rows: list[Row] = []
    for seconds, (few, many) in CELL_SECONDS.items():
        rounds = _rounds(seconds)
        progress(f"sweeps: overhead of cells of {1000 * seconds:g} ms")
        short, long = (
            min(_sweep_seconds(rounds, n // divisor, 1) for _ in range(runs))
            for n in (few, many)
        )
        over = (long - short) / ((many - few) // divisor) - seconds
        measured = (
            f"{1000 * over:.2f} ms"
            if seconds < 0.01
            else f"{100 * over / seconds:.1f} %"
        )
        target, reached = (
            ("at most 2 ms", over < 0.002)
            if seconds < 0.01
            else ("at most 2 %", over < 0.02 * seconds)
        )
        rows.append(
            _row(
                f"overhead of a cell of {1000 * seconds:g} ms",
                measured,
                target,
                reached,
            )
        )
    rounds, cells = _rounds(PARALLEL_SECONDS), PARALLEL_CELLS // divisor
    best = {}
    for name, run in (("sweep", _sweep_seconds), ("bare", _bare_seconds)):
        progress(f"sweeps: one and two workers, {name}")
        one, two = (
            min(run(rounds, cells, workers) for _ in range(runs)) for workers in (1, 2)
        )
        best[name] = one / two
    what = f"two workers against one, {cells} cells of {1000 * PARALLEL_SECONDS:g} ms"
    rows.append(
        _row(what, f"{best['sweep']:.2f} times", "1.8 times", best["sweep"] >= 1.8)
    )
    rows.append(_row("the same work in bare processes", f"{best['bare']:.2f} times"))
    rows.append(
        _row(
            "share of that which the sweep has",
            f"{100 * best['sweep'] / best['bare']:.0f} %",
        )
    )
    return {"rows": rows}


def write_texts(path: Path, rows: int) -> None:
    """Write a Parquet file with the given number of rows, drawn from made reviews, with
    little memory.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = pa.array(reviews(min(rows, DISTINCT), seed=1).texts)
    rng = np.random.default_rng(2)
    with pq.ParquetWriter(
        path,
        pa.schema([("id", pa.int64()), ("text", pa.string())]),
        use_dictionary=False,
    ) as file:
        for start in range(0, rows, 100_000):
            index = np.arange(start, min(start + 100_000, rows))
            drawn = texts.take(pa.array(rng.integers(len(texts), size=len(index))))
            file.write_table(pa.table({"id": index, "text": drawn}))


def _loop_seconds(path: Path) -> float:
    """Return the seconds of a loop in one process that reads a file and explains every
    text.
    """
    import pyarrow.parquet as pq

    model = hm.pretrained(MODEL)
    model.explain_many(reviews(100).texts)  # loads compiled code

    def run() -> None:
        for batch in pq.ParquetFile(path).iter_batches(20_000, columns=["text"]):
            model.explain_many(batch.column(0).to_pylist())

    return _seconds(run)


def measure_files(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure a loop, one worker and two workers; of workers the difference of a long
    and a short file.
    """
    few, many = (
        (SHORT_ROWS // 10, LONG_ROWS // 10) if quick else (SHORT_ROWS, LONG_ROWS)
    )
    best: dict[tuple[int, int], float] = {}
    with tempfile.TemporaryDirectory() as name:
        files, out = (
            {rows: Path(name, f"{rows}.parquet") for rows in (few, many)},
            Path(name, "out"),
        )
        for rows, path in files.items():
            write_texts(path, rows)
        progress("corpora: a loop in one process")
        loop = many / min(
            _loop_seconds(files[many]) for _ in range(1 if quick else RUNS)
        )
        for _ in range(1 if quick else RUNS):
            for workers in (1, 2):
                progress(f"corpora: {workers} workers")
                for rows, path in files.items():
                    call = lambda: hm.predict_files(  # noqa: E731
                        path,  # noqa: B023
                        MODEL,
                        out=out,
                        explain=True,
                        workers=workers,  # noqa: B023
                    )
                    best[workers, rows] = min(
                        best.get((workers, rows), float("inf")), _seconds(call)
                    )
                    shutil.rmtree(out)
    one, two = (
        (many - few) / (best[workers, many] - best[workers, few]) for workers in (1, 2)
    )
    rows = [
        _row("a loop in one process, with explanations", f"{loop:,.0f} rows/s"),
        _row("files on one worker, beyond the start", f"{one:,.0f} rows/s"),
        _row(
            "files against the loop",
            f"{one / loop:.2f} times",
            "0.9 times",
            one / loop >= 0.9,
        ),
        _row("two workers against one", f"{two / one:.2f} times"),
        _row(
            "the start: processes, libraries, model",
            f"{best[1, few] - few / one:.1f} s",
        ),
    ]
    return {"rows": rows}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of benchmarks/README.md."""
    columns = {key: key for key in found["rows"][0]}
    return report.with_machine(
        found, report.table(found["rows"], columns, ["reached?"])
    )


def main(rows: int, folder: Path) -> None:
    """Predict a file with the given number of rows, and record seconds and memory."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"texts-{rows}.parquet"
    if not path.exists():
        write_texts(path, rows)
    start = time.perf_counter()
    with peak_memory() as peak:
        found = hm.predict_files(path, MODEL, out=folder / "out", explain=True)
    row = {"rows": rows, "seconds": time.perf_counter() - start}
    row |= {"client MB": peak["client"], "child MB": peak["child"]}
    answered = np.concatenate(
        [
            pq.read_table(part, columns=["row"])["row"].to_numpy()
            for part in found.parts()
        ]
    )
    assert (answered == np.arange(1, rows + 1)).all(), "a row is missing or comes twice"
    sizes = {
        "answers MB": sum(part.stat().st_size for part in found.parts()),
        "file MB": path.stat().st_size,
    }
    row |= {key: value / 1e6 for key, value in sizes.items()}
    print(json.dumps(row))
    record = RESULTS / "corpora_rows.json"
    old = [
        each
        for each in json.loads(record.read_text(encoding="utf-8"))["rows"]
        if each["rows"] != rows
    ]
    report.write(
        {
            "machine": machine(),
            "rows": sorted([*old, row], key=lambda each: each["rows"]),
        },
        record,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
