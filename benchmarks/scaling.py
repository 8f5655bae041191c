"""Time of one layer against the number of tokens, for every kernel and FAISS, on tokens that are spread or on a sphere.

Run as `python -m benchmarks.scaling FILE 0`, in a process whose threads are set before any library is loaded.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.machine import ROOT, environment
from benchmarks.measure import installed
from benchmarks.peers import faiss, ours
from benchmarks.registry import Method
from benchmarks.worker import Local

METHODS = {
    2: ("numpy", "hull", "scan", "FAISS"),
    3: ("numpy", "scan", "FAISS"),
    16: ("numpy", "scan", "FAISS"),
    256: ("numpy", "scan", "symmetric", "FAISS"),
}
KINDS = ("gaussian", "sphere")
SIZES = tuple(round(10 ** (k / 2)) for k in range(4, 13))  # 100 to 1,000,000
SMALL = SIZES[:3]
LIMIT = 0.1  # seconds of a run after which a curve ends
RUNS, ENOUGH = 3, 0.1  # the best of so many, or of those that this many seconds have room for


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Measure all curves in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scaling.json"
        command = [sys.executable, "-m", "benchmarks.scaling", str(path), str(int(quick))]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment(),
            cwd=ROOT,
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if progress is not None:
                    progress(line.strip())
            trouble = child.communicate()[1]
        if child.returncode:
            raise RuntimeError(f"scaling: {trouble.strip().splitlines()[-1]}")
        return {"rows": json.loads(path.read_text(encoding="utf-8"))}


def curves(quick: bool) -> list[dict[str, Any]]:
    """One row for each point of each curve."""
    rows = []
    for (d, methods), kind in product(METHODS.items(), KINDS):
        for name in methods:
            for n in SMALL if quick else SIZES:
                method = _method(name, partial(data.tokens, kind, n, d))
                if not installed(method):
                    break
                print(f"scaling: d = {d}, {kind}, {name}, n = {n:,}", flush=True)
                seconds, peak = _best(method)
                rows.append({"d": d, "tokens": kind, "method": name, "n": n, "seconds": seconds, "peak": peak})
                if seconds > LIMIT:
                    break
    return rows


def _method(name: str, make: Callable[[], Any]) -> Method:
    return faiss(make) if name == "FAISS" else ours(make, name)


def _best(method: Method) -> tuple[float, float | None]:
    """Seconds of the best run, and MB of the first; a process that has run before may have kept some of them."""
    local, seconds = Local(method), list[float]()
    local.ready()
    first, peak = local.run()
    seconds.append(first)
    while len(seconds) < RUNS and sum(seconds) < ENOUGH:
        seconds.append(local.run()[0])
    return min(seconds), peak


if __name__ == "__main__":
    found = curves(bool(int(sys.argv[2])))
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")
