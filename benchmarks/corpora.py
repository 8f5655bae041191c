"""What scoring files in parts costs beside a plain loop; and files of any number of rows, with the memory they take.

`python -m benchmarks.corpora 1000000 --out DIR` makes such a file from the package's own made reviews, and scores it;
`--record benchmarks/results/corpora_rows.json` keeps what it finds.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

import hardmax as hm
from benchmarks import report
from benchmarks.machine import machine
from benchmarks.memory import peak_memory
from hardmax.scale.cell_process import ONE_THREAD
from hardmax.scale.engine import connected
from hardmax.scale.scoring import explanations
from hardmax.text.datasets import reviews
from hardmax.text.model import answer_columns, contributions, sums_by_text

BEGIN = "<!-- made by python -m benchmarks corpora -->"
MODEL = "imdb"
FEW, MANY = 20_000, 220_000  # rows of the short and of the long file: what they differ by is free of the start
DISTINCT = 50_000  # made reviews, of which files are drawn
AT_A_TIME = 20_000  # rows of a batch of the loop, as many as a slice has
RUNS = 3  # of which the best counts
TARGET = 0.9


def write_corpus(path: Path, rows: int, distinct: int = DISTINCT) -> None:
    """A Parquet file of so many rows, drawn from made reviews, with little memory."""
    texts = pa.array(reviews(min(rows, distinct), seed=1).texts)
    rng = np.random.default_rng(2)
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64()), ("text", pa.string())]), use_dictionary=False) as file:
        for start in range(0, rows, 100_000):
            numbers = np.arange(start, min(start + 100_000, rows))
            drawn = texts.take(pa.array(rng.integers(len(texts), size=len(numbers))))
            file.write_table(pa.table({"id": numbers, "text": drawn}))


def loop(path: str, out: str) -> float:
    """Seconds of a loop in one process that reads a file, explains every text, and writes the same columns."""
    model = hm.pretrained(MODEL).model_
    names = pa.array(model.vocabulary.names(np.arange(len(model.vocabulary))))
    contributions(model.weights, model.vocabulary.encode(reviews(100).texts))  # compiled code is loaded
    start, row, writer = time.perf_counter(), 1, None
    for batch in pq.ParquetFile(path).iter_batches(AT_A_TIME, columns=["text"]):
        encoded = model.vocabulary.encode(batch.column(0).to_pylist())
        terms = contributions(model.weights, encoded)
        scores = model.weights.bias + sums_by_text(terms, encoded)
        columns = {"row": np.arange(row, row + len(batch)), **answer_columns(model, scores, encoded.sizes, 0.0)}
        table = pa.table(columns | {"explanation": explanations(encoded, terms, names)})
        writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
        writer.write_table(table)
        row += len(batch)
    assert writer is not None
    writer.close()
    return time.perf_counter() - start


def loop_seconds(path: Path, out: Path, processes: int = 1) -> float:
    """The same in processes with one thread each, as cells have it, which all do all; the slowest counts."""
    code = "import sys; from benchmarks.corpora import loop; print(loop(*sys.argv[1:]))"
    command, env = [sys.executable, "-c", code, str(path)], os.environ | ONE_THREAD
    started = [
        subprocess.Popen([*command, f"{out}-{each}"], env=env, stdout=subprocess.PIPE) for each in range(processes)
    ]
    return max(float(each.communicate()[0]) for each in started)


def files_seconds(client: Any, path: Path, out: Path) -> float:
    """Seconds of `predict_files` on a cluster that runs; its child processes load the model each time."""
    start = time.perf_counter()
    hm.predict_files(path, MODEL, out=out, explain=True, engine=client)
    seconds = time.perf_counter() - start
    shutil.rmtree(out)
    return seconds


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """One process, one worker and two workers, in turns; of workers the difference of a long and a short file."""
    tell = progress or (lambda sentence: None)
    few, many = (FEW // 10, MANY // 10) if quick else (FEW, MANY)
    best = dict.fromkeys(("loop", "two loops", "one few", "one many", "two few", "two many"), float("inf"))
    with tempfile.TemporaryDirectory() as name, connected("local", 1) as one, connected("local", 2) as two:
        folder = Path(name)
        files = {"few": folder / "few.parquet", "many": folder / "many.parquet"}
        for which, rows in (("few", few), ("many", many)):
            write_corpus(files[which], rows)
        with peak_memory() as of_loop:  # these are not timed
            loop_seconds(files["few"], folder / "loop.parquet")
        with peak_memory() as of_files:
            files_seconds(one, files["few"], folder / "out")
        for _ in range(1 if quick else RUNS):
            tell("corpora: a loop in one process, one worker, two workers")
            for key, processes in (("loop", 1), ("two loops", 2)):
                best[key] = min(best[key], loop_seconds(files["many"], folder / "loop.parquet", processes))
            for workers, client in (("one", one), ("two", two)):
                for which, path in files.items():
                    key = f"{workers} {which}"
                    best[key] = min(best[key], files_seconds(client, path, folder / "out"))
    rate = {workers: (many - few) / (best[f"{workers} many"] - best[f"{workers} few"]) for workers in ("one", "two")}
    rate["loop"] = many / best["loop"]
    ratio, gain, bare = rate["one"] / rate["loop"], rate["two"] / rate["one"], 2 * best["loop"] / best["two loops"]
    start = best["one few"] - few / rate["one"]
    rows = [
        _row("a loop in one process, with explanations", f"{rate['loop']:,.0f} rows/s"),
        _row("files on one worker, beyond the start", f"{rate['one']:,.0f} rows/s"),
        _row("files against the loop", f"{ratio:.2f} times", f"{TARGET} times", ratio >= TARGET),
        _row("two workers against one", f"{gain:.2f} times"),
        _row("two such loops at once against one", f"{bare:.2f} times"),
        _row("the start: processes, libraries, model", f"{start:.1f} s"),
        _row("largest memory of the loop", f"{of_loop['child']:,.0f} MB"),
        _row("of the client of one worker", f"{of_files['client']:,.0f} MB"),
        _row("of any other process of it", f"{of_files['child']:,.0f} MB"),
    ]
    return {"rows": rows}


def _row(what: str, measured: str, target: str = "", reached: bool | None = None) -> dict[str, Any]:
    said = "" if reached is None else "reached" if reached else "missed"
    return {"what": what, "measured": measured, "target": target, "reached?": said}


def markdown(found: dict[str, Any]) -> str:
    """The table for README.md."""
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    lines = ["| what | measured | target | reached? |", "|---|---:|---:|---|"]
    lines += [f"| {' | '.join(map(str, row.values()))} |" for row in found["rows"]]
    return "\n".join([f"Measured with {machine}.", "", *lines])


def main(
    rows: int,
    out: Annotated[Path, typer.Option("--out", help="Folder for the file and its answers.")],
    workers: Annotated[int | None, typer.Option("--workers", help="One a core unless said.")] = None,
    record: Annotated[Path | None, typer.Option("--record", help="A .json file in which to keep it.")] = None,
) -> None:
    """Make a file of so many rows, score it with explanations, and say how fast and in how much memory."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"corpus-{rows}.parquet"
    if not path.exists():
        write_corpus(path, rows)
    told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{done:,} of {total:,} rows", flush=True)

    start = time.perf_counter()
    with peak_memory() as peak:
        found = hm.predict_files(path, MODEL, out=out / "scored", explain=True, workers=workers, progress=progress)
    seconds = time.perf_counter() - start
    size = sum(part.stat().st_size for part in found.parts())
    numbers = 0
    for part in found.parts():  # every row once, in order
        column = pq.read_table(part, columns=["row"])["row"].to_numpy()
        assert (column == np.arange(numbers + 1, numbers + len(column) + 1)).all()
        numbers += len(column)
    assert numbers == rows
    start = time.perf_counter()
    tokens = found.tokens()
    print(f"{rows:,} rows of {path.stat().st_size / 1e6:,.0f} MB in {seconds:,.0f} s: {rows / seconds:,.0f} rows/s")
    print(f"{len(found.parts()):,} parts of answers, {size / 1e6:,.0f} MB, every row once and in order")
    print(f"largest memory: client {peak['client']:,.0f} MB, any other process {peak['child']:,.0f} MB")
    print(f"table of {len(tokens):,} tokens in {time.perf_counter() - start:.1f} s")
    if record is not None:
        row = {"rows": rows, "seconds": seconds, "client MB": peak["client"], "child MB": peak["child"]}
        keep(row | {"answers MB": size / 1e6, "file MB": path.stat().st_size / 1e6}, record)


def keep(row: dict[str, Any], record: Path) -> None:
    """A row in a file of results, in place of an earlier one of as many rows."""
    old = json.loads(record.read_text(encoding="utf-8"))["rows"] if record.exists() else []
    rows = sorted([each for each in old if each["rows"] != row["rows"]] + [row], key=lambda each: each["rows"])
    report.write({"machine": machine(), "rows": rows}, record)


if __name__ == "__main__":
    typer.run(main)
