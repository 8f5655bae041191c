"""What a sweep costs beside its cells, and what a second worker gains."""

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from statistics import median
from typing import Any

import cloudpickle

import hardmax as hm
from benchmarks.memory import peak_memory, resident
from hardmax.scale.executor import connected

BEGIN = "<!-- made by python -m benchmarks sweeps -->"
SIZES = {0.001: (1000, 9000), 0.1: (40, 120)}  # seconds of a cell, and how many in the short and in the long sweep
PARALLEL, CELLS = 0.02, 800  # seconds and number of the cells of which two workers do half each
RUNS = 3  # of the overheads the median counts, of the speeds the best
MEMORY = ("client MB", "largest other MB")  # of a process at its peak, imports included
TARGETS = {0.001: "at most 2 ms", 0.1: "at most 2 %"}


def work(rounds: int) -> float:
    """As much work as asked for, which takes longer where a core is shared."""
    total = 0.0
    for number in range(rounds):
        total += number * number
    return total


def cell(params: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"total": work(params["rounds"])}


cloudpickle.register_pickle_by_value(sys.modules[__name__])


def rounds_for(seconds: float) -> int:
    """Rounds that take so many seconds here, on a core of its own."""
    rounds = 200_000
    best = min(_seconds(lambda: work(rounds)) for _ in range(10))
    return round(rounds * seconds / best)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def sweep_seconds(client: Any, rounds: int, cells: int) -> tuple[float, float]:
    """Seconds of a sweep on a cluster that runs, and of its cells alone as they say themselves."""
    with tempfile.TemporaryDirectory() as folder:
        grid = {"rounds": [rounds], "seed": range(cells)}
        wall = _seconds(lambda: hm.sweep(cell, grid, out=folder, engine=client))
        within = sum(part.seconds for part in hm.scale.SweepTable.open(folder).manifest.done)
    return wall, within


def sizes(client: Any, rounds: int, cells: int) -> dict[str, float]:
    """How large the processes of a sweep are at their peak, in a sweep that is not timed."""
    with peak_memory() as peak:
        sweep_seconds(client, rounds, cells)
    return dict(zip(MEMORY, (peak["client"], peak["child"]), strict=True))


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Overhead by the difference of a long and a short sweep of one worker, in which the start drops out; speedup."""
    tell = progress or (lambda sentence: None)
    rows: list[dict[str, Any]] = []
    with connected("local", 1) as client:
        for seconds, (few, many) in SIZES.items():
            few, many = (few // 10, many // 10) if quick else (few, many)
            rounds, found = rounds_for(seconds), list[float]()
            for _ in range(1 if quick else RUNS):
                tell(f"sweeps: overhead of cells of {1000 * seconds:g} ms")
                (short, within_short), (long, within_long) = (sweep_seconds(client, rounds, n) for n in (few, many))
                found.append(((long - short) - (within_long - within_short)) / (many - few))
            over = median(found)
            measured = f"{1000 * over:.2f} ms" if seconds < 0.01 else f"{100 * over / seconds:.1f} %"
            reached = over < 0.002 if seconds < 0.01 else over < 0.02 * seconds
            row = _row(f"overhead of a cell of {1000 * seconds:g} ms", measured, TARGETS[seconds], reached)
            rows.append(row | sizes(client, rounds, few))
    return {"rows": [*rows, *_speedups(quick, tell)]}


def _speedups(quick: bool, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Two workers against one, and two bare processes against one, in turns."""
    rounds, cells = rounds_for(PARALLEL), CELLS // (10 if quick else 1)
    best = dict.fromkeys(("one", "two", "bare one", "bare two"), float("inf"))
    with connected("local", 1) as one, connected("local", 2) as two:
        for _ in range(1 if quick else RUNS):
            tell("sweeps: one worker, two workers, one process, two processes")
            best["one"] = min(best["one"], sweep_seconds(one, rounds, cells)[0])
            best["two"] = min(best["two"], sweep_seconds(two, rounds, cells)[0])
            best["bare one"] = min(best["bare one"], bare_seconds(1, rounds, cells)[0])
            seconds, largest = bare_seconds(2, rounds, cells)
            best["bare two"] = min(best["bare two"], seconds)
        memory = sizes(two, rounds, cells // 4)
    ours, bare = best["one"] / best["two"], best["bare one"] / best["bare two"]
    what = f"two workers against one, {cells} cells of {1000 * PARALLEL:g} ms"
    gain = _row(what, f"{ours:.2f} times", "1.8 times", ours >= 1.8) | memory
    by_itself = _row("the same work in bare processes", f"{bare:.2f} times") | {MEMORY[1]: largest}
    return [gain, by_itself, _row("share of that which the sweep has", f"{100 * ours / bare:.0f} %")]


def bare_seconds(processes: int, rounds: int, cells: int) -> tuple[float, float]:
    """The work of all cells in processes without a sweep: what the machine has to give at that time; and their size."""
    with get_context("spawn").Pool(processes) as pool:
        pool.map(work, [1] * processes, chunksize=1)
        seconds = _seconds(lambda: pool.map(work, [rounds] * cells, chunksize=1))
        return seconds, max(pool.map(resident, ["VmHWM"] * processes, chunksize=1)) / 1e3


def _row(what: str, measured: str, target: str = "", reached: bool | None = None) -> dict[str, Any]:
    said = "" if reached is None else "reached" if reached else "missed"
    return {"what": what, "measured": measured, "target": target, "reached?": said} | dict.fromkeys(MEMORY, "")


def markdown(found: dict[str, Any]) -> str:
    """The table for README.md."""
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    lines = [f"| what | measured | target | reached? | {' | '.join(MEMORY)} |", "|---|---:|---:|---|---:|---:|"]
    for row in found["rows"]:
        cells = (f"{value:,.0f}" if isinstance(value, float) else value for value in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([f"Measured with {machine}.", "", *lines])
