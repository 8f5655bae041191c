"""Curves: seconds of one layer against n for every kernel and FAISS, and layers until
every token is decided.

`python -m studies.curves FILE QUICK` is the process in which the first is measured.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.machine import ROOT, environment
from benchmarks.registry import Progress
from benchmarks.runner import Local, is_installed
from benchmarks.search import draw_tokens, faiss, ours

import hardmax as hm
from hardmax.draw.style import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = {
    2: ("numpy", "hull", "scan", "FAISS"),
    3: ("numpy", "scan", "FAISS"),
    16: ("numpy", "scan", "FAISS"),
    256: ("numpy", "scan", "symmetric", "FAISS"),
}
KINDS = ("gaussian", "sphere")
SIZES = tuple(round(10 ** (k / 2)) for k in range(4, 13))  # 100 to 1,000,000
MAX_SECONDS = 0.1  # of a run after which a curve ends
RUNS = 3
COLOUR_OF = dict(zip(("hull", "scan", "symmetric", "numpy"), COLOURS, strict=False)) | {
    "FAISS": GREY
}
ALPHAS, SEEDS = (0.1, 0.5, 2), 10
DECIDED_SIZES = {
    2: (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
    3: (10, 30, 100, 300, 1000, 3000, 10_000, 30_000),
    16: (10, 30, 100, 300, 1000, 3000, 10_000),
}


def measure_scaling(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure all curves in a process whose threads are set before any library is
    loaded.
    """
    progress("scaling")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "studies.curves", str(path), str(int(quick))]
        subprocess.run(command, env=os.environ | environment(), cwd=ROOT, check=True)
        return {"rows": json.loads(path.read_text(encoding="utf-8"))}


def scaling_rows(quick: bool) -> list[dict[str, Any]]:
    """Return one row for each point of each curve."""
    rows = []
    for (d, methods), kind in product(METHODS.items(), KINDS):
        for name in methods:
            for n in SIZES[:3] if quick else SIZES:
                make = partial(draw_tokens, kind, n, d)
                method = faiss(make) if name == "FAISS" else ours(make, name)
                if not is_installed(method):
                    break
                local = Local(method)
                local.prepare()
                seconds, peak = local.run()
                runs = [seconds]
                while len(runs) < RUNS and sum(runs) < MAX_SECONDS:
                    runs.append(local.run()[0])
                rows.append(
                    {
                        "d": d,
                        "tokens": kind,
                        "method": name,
                        "n": n,
                        "seconds": min(runs),
                        "peak": peak,
                    }
                )
                if min(runs) > MAX_SECONDS:
                    break
    return rows


def draw_scaling(found: dict[str, Any]) -> "Figure":
    """Draw seconds against n, one panel for each d; dashed lines are tokens on a
    sphere.
    """
    import matplotlib.pyplot as plt

    rows = found["rows"]
    figure, axes = plt.subplots(
        2, 2, figsize=(8.5, 7), layout="constrained", sharey=True
    )
    for ax, d in zip(axes.flat, sorted({row["d"] for row in rows}), strict=False):
        for method, kind in product(COLOUR_OF, KINDS):
            curve = [
                row
                for row in rows
                if (row["d"], row["method"], row["tokens"]) == (d, method, kind)
            ]
            if curve:
                points = [row["n"] for row in curve], [row["seconds"] for row in curve]
                line, label = ("-", method) if kind == "gaussian" else ("--", None)
                ax.loglog(
                    *points,
                    line,
                    marker="o",
                    ms=3,
                    lw=1.4,
                    color=COLOUR_OF[method],
                    label=label,
                )
        ax.axhline(MAX_SECONDS, color=GREY, lw=0.6)
        ax.set_title(f"d = {d}", fontsize=10)
        ax.tick_params(labelsize=8)
        ax.legend(fontsize=8, frameon=False)
    figure.supxlabel("tokens n (solid: Gaussian, dashed: on a sphere)", fontsize=9)
    figure.supylabel("seconds for one layer", fontsize=9)
    return figure


def measure_decided(quick: bool, progress: Progress) -> dict[str, Any]:
    """Find the median, smallest and largest number of layers over ten Gaussian token
    sets of each kind.
    """
    rows = []
    for (d, sizes), alpha in product(DECIDED_SIZES.items(), ALPHAS):
        for n in sizes[:2] if quick else sizes:
            progress(f"decided: d = {d}, alpha = {alpha:g}, n = {n:,}")
            drawn = (
                hm.configuration("gaussian", n=n, d=d, seed=seed)
                for seed in range(SEEDS)
            )
            limits = [hm.limit(tokens, hm.Hardmax(alpha)) for tokens in drawn]
            layers = [limit.layer for limit in limits if limit.certified]
            numbers = {
                "median": float(np.median(layers)),
                "least": min(layers),
                "most": max(layers),
            }
            rows.append(
                {"d": d, "alpha": alpha, "n": n, **numbers, "certified": len(layers)}
            )
    return {"rows": rows}


def draw_decided(found: dict[str, Any]) -> "Figure":
    """Draw layers until every token is decided against n, one panel for each d; median
    and range.
    """
    import matplotlib.pyplot as plt

    rows = found["rows"]
    dimensions, alphas = (
        sorted({row["d"] for row in rows}),
        sorted({row["alpha"] for row in rows}),
    )
    figure, axes = plt.subplots(
        1,
        len(dimensions),
        figsize=(9, 3.2),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for ax, d in zip(axes[0], dimensions, strict=True):
        for colour, alpha in zip(COLOURS, alphas, strict=False):
            curve = [row for row in rows if (row["d"], row["alpha"]) == (d, alpha)]
            n, least, most, median = (
                [row[key] for row in curve] for key in ("n", "least", "most", "median")
            )
            ax.fill_between(n, least, most, color=colour, alpha=0.2, lw=0)
            ax.plot(
                n, median, marker="o", ms=3, color=colour, label=f"alpha = {alpha:g}"
            )
        ax.set_xscale("log")
        ax.set_title(f"d = {d}", fontsize=10)
        ax.tick_params(labelsize=8)
    axes[0][-1].legend(fontsize=8, frameon=False)
    figure.supxlabel("Gaussian tokens n", fontsize=9)
    axes[0][0].set_ylabel("layers until all are decided", fontsize=9)
    return figure


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(
        json.dumps(scaling_rows(bool(int(sys.argv[2])))), encoding="utf-8"
    )
