"""The app under load: how long twenty visitors wait, what memory they take, and that they leave nothing behind.

`python -m benchmarks app`; with other numbers `python -m benchmarks.app --visitors 5 --seconds 10 --sessions 20`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hardmax._errors import needed_for

BEGIN = "<!-- made by python -m benchmarks app -->"  # where the table goes in benchmarks/README.md
N = 200  # tokens
FEW = (1, 5)  # visitors, for a quarter of the time
LINGER = 60.0  # seconds in which sessions without a visitor must be gone

Row = dict[str, Any]
Progress = Callable[[str], None]


def measure(quick: bool, progress: Progress | None = None) -> dict[str, Any]:
    """Twenty visitors for a minute and two hundred sessions, or few and short."""
    visitors, seconds, sessions = (3, 2.0, 10) if quick else (20, 60.0, 200)
    return under_load(visitors, seconds, sessions, progress or (lambda sentence: None))


def under_load(visitors: int, seconds: float, sessions: int, progress: Progress) -> dict[str, Any]:
    """All rows, and a sentence for each thing that must not be."""
    with needed_for("`python -m benchmarks app`", "Panel", "app"):
        from benchmarks.app_server import COUNTING, running

    with running() as app:
        rows, refused = _dragging(app, visitors, seconds, progress)
    with running(COUNTING) as app:
        progress(f"app: {sessions} sessions")
        row, sentences = _sessions(app, sessions)
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "rows": [*rows, row], "refused": [*refused, *sentences]}


def _dragging(app: Any, visitors: int, seconds: float, progress: Progress) -> tuple[list[Row], list[str]]:
    """One visitor, some, all; and one beside another whose answers take long."""
    from benchmarks import app_load

    rows: list[Row] = []
    refused: list[str] = []
    asyncio.run(app_load.come_and_go(app.address, 1, N))  # compiles, and fills the caches
    for count in [*(few for few in FEW if few < visitors), visitors]:
        progress(f"app: {count} visitors")
        lasting, before = seconds / (1 if count == visitors else 4), app.megabytes
        seen = asyncio.run(app_load.drag_together(app.address, count, N, lasting))
        rows += _rows("", count, lasting, seen, (before, app.megabytes))
        refused += _refused(f"{count} visitors", seen)
    progress("app: beside long work")
    before = app.megabytes
    seen, long = asyncio.run(app_load.drag_beside_long_work(app.address, N, seconds / 4))
    took = f"{np.median(long):.1f}" if long else f"more than {seconds / 4:.1f}"
    others = f", beside {app_load.LONG_ONES} whose answers take {took} s"
    rows += _rows(others, 1, seconds / 4, seen, (before, app.megabytes))
    refused += _refused("beside long work", seen)
    if app.complaints:
        refused.append(f"app: {app.complaints} errors in what the server said")
    return rows, refused


def _rows(more: str, visitors: int, seconds: float, seen: Any, memory: tuple[float, float]) -> list[Row]:
    """Steps of drags; and where tokens were let go or sliders moved, for which more is computed."""
    errors, wrong = len(seen.troubles), f"{seen.wrong} of {len(seen.sample)}"
    return [
        _row(f"step of a drag{more}", visitors, seen.steps, seconds, errors, wrong, *memory),
        _row(f"end of a drag, slider{more}", visitors, seen.ends, seconds),
    ]


def _row(
    what: str,
    visitors: int,
    times: list[float],
    seconds: float,
    errors: int | str = "",
    wrong: str = "",
    before: float | str = "",
    after: float | str = "",
) -> Row:
    median, most = (1e3 * np.quantile(times, (0.5, 0.95))).tolist() if times else ("", "")
    return {
        "what": what,
        "visitors": visitors,
        "answers": len(times),
        "a second": len(times) / seconds,
        "median ms": median,
        "95th percentile ms": most,
        "most ms": 1e3 * max(times) if times else "",
        "errors": errors,
        "wrong": wrong,
        "MB before": before,
        "MB after": after,
    }


def _refused(who: str, seen: Any) -> list[str]:
    said = [f"{who}: {sentence}" for sentence in sorted(set(seen.troubles))[:5]]
    if not seen.steps:
        said.append(f"{who}: no answers")
    if seen.wrong:
        said.append(f"{who}: {seen.wrong} of {len(seen.sample)} answers name other leaders than hm.simulate")
    return said


def _sessions(app: Any, sessions: int) -> tuple[Row, list[str]]:
    """Open and close so many, and wait until they are gone."""
    from benchmarks import app_load

    asyncio.run(app_load.come_and_go(app.address, 1, N))
    before, began, memory = _settled(app, 0), time.perf_counter(), app.megabytes
    troubles = asyncio.run(app_load.come_and_go(app.address, sessions, N))
    seconds = time.perf_counter() - began
    left = _settled(app, before) - before
    what = f"{sessions} sessions opened and closed, {left} left"
    row = _row(what, app_load.AT_ONCE, [], seconds, len(troubles), "", memory, app.megabytes)
    refused = [f"sessions: {sentence}" for sentence in sorted(set(troubles))[:5]]
    if left:
        refused.append(f"sessions: {left} of {sessions} are still there after {LINGER:g} seconds")
    return row | {"answers": sessions - len(troubles), "a second": sessions / seconds}, refused


def _settled(app: Any, expected: int) -> int:
    """How many sessions there are when there are no more than expected, or after a while."""
    end = time.perf_counter() + LINGER
    while (count := app.sessions) > expected and time.perf_counter() < end:
        time.sleep(0.5)
    return int(count)


def markdown(found: dict[str, Any]) -> str:
    """The rows as a table for benchmarks/README.md."""
    facts = {key: found["machine"][key] for key in ("processor", "cores", "hardmax", "Python", "numpy")}
    columns = list(found["rows"][0])
    lines = [f"Measured on {found['date']}: {', '.join(f'{key} {value}' for key, value in facts.items())}.", ""]
    lines += [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    for row in found["rows"]:
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The same with other numbers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.app", description=__doc__)
    parser.add_argument("--visitors", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=200)
    chosen = parser.parse_args(arguments)
    progress = lambda sentence: print(sentence, file=sys.stderr)  # noqa: E731
    found = under_load(chosen.visitors, chosen.seconds, chosen.sessions, progress)
    for row in found["rows"]:
        print(", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if v != ""))
    for sentence in found["refused"]:
        print(sentence)
    return 1 if found["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
