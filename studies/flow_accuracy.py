"""`python -m studies.measure flow_accuracy`: the error of flows against the `rtol` that
was requested.

The error is max |z - z_ref| / max |z_ref| over all tokens and 101 saved times, in
rescaled coordinates where the rule has them. The reference is DOP853 with the smallest
`rtol`. Each heading shows how far LSODA with that `rtol` is from it: smaller errors
cannot be resolved. `python -m studies.flow_accuracy NAME` prints the rows of some
problems.
"""

import sys
import time
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.registry import Progress

import hardmax as hm
from hardmax._types import FloatArray
from hardmax.rules.base import Flow

RTOLS = (1e-4, 1e-6, 1e-8, 1e-10)
METHODS = ("DOP853", "RK45", "LSODA")
FINEST: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-16, "max_steps": 1_000_000}

Problem = tuple[FloatArray, Flow, float]  # tokens, rule, last time


def problems() -> dict[str, Problem]:
    """Return the problems by name."""

    def uniform(n: int, d: int, seed: int = 0) -> FloatArray:
        return np.random.default_rng(seed).uniform(-1, 1, (n, d))

    sphere = hm.configuration("sphere", n=100, d=3)
    return {
        "uniform (300, 3), V = I": (uniform(300, 3), hm.SelfAttention(), 5.0),
        "uniform (300, 3), V = I, seed 1": (
            uniform(300, 3, 1),
            hm.SelfAttention(),
            5.0,
        ),
        "uniform (40, 3), V = I": (uniform(40, 3), hm.SelfAttention(), 15.0),
        "Gaussian (300, 8), V = I": (
            hm.configuration("gaussian", n=300, d=8),
            hm.SelfAttention(),
            5.0,
        ),
        "uniform (100, 3), V = paper-3d": (
            uniform(100, 3),
            hm.SelfAttention(V=hm.matrix("paper-3d")),
            5.0,
        ),
        "uniform (100, 3), V = -I": (
            uniform(100, 3),
            hm.SelfAttention(V=-np.eye(3)),
            10.0,
        ),
        "uniform (40, 2), V(t) = I": (
            uniform(40, 2),
            hm.SelfAttention(V=lambda t: np.eye(2)),
            2.0,
        ),
        "sphere (100, 3), beta = 1": (sphere, hm.Sphere(1.0), 15.0),
        "sphere (100, 3), beta = 9": (sphere, hm.Sphere(9.0), 15.0),
    }


def solve(problem: Problem, **settings: Any) -> tuple[FloatArray, dict[str, Any]]:
    """Return (rescaled) tokens at 101 times, and the counters of the run."""
    tokens, rule, end = problem
    run = hm.simulate(tokens, rule, times=end, **settings)
    return np.asarray(run.array if run.rescaled is None else run.rescaled), run.stats


def relative_error(found: FloatArray, reference: FloatArray) -> float:
    """Return max |found - reference| / max |reference|."""
    return float(np.abs(found - reference).max() / np.abs(reference).max())


def rows(name: str, problem: Problem) -> Iterable[dict[str, Any]]:
    """Yield a row for each method and tolerance."""
    reference, _ = solve(problem, method="DOP853", **FINEST)
    other, _ = solve(problem, method="LSODA", **FINEST)
    facts = {
        "problem": f"{name}, T = {problem[2]:g}",
        "references differ by": relative_error(other, reference),
    }
    for method, rtol in product(METHODS, RTOLS):
        began = time.perf_counter()
        found, stats = solve(problem, method=method, rtol=rtol)
        seconds = time.perf_counter() - began
        error, evaluations = relative_error(found, reference), stats["evaluations"]
        yield facts | {
            "method": method, "rtol": rtol, "error / rtol": error / rtol, "evaluations": evaluations, "seconds": seconds
        }  # fmt: skip


def measure(quick: bool, progress: Progress) -> dict[str, Any]:
    """Measure all problems, or one."""
    found: list[dict[str, Any]] = []
    for name, problem in list(problems().items())[-1 if quick else 0 :]:
        progress(name)
        found += rows(name, problem)
    return {"rows": found}


def markdown(record: dict[str, Any]) -> str:
    """Return error / rtol by problem, method and rtol."""
    columns = [(method, rtol) for method in METHODS for rtol in RTOLS]
    by_problem: dict[str, dict[Any, float]] = {}
    for row in record["rows"]:
        by_problem.setdefault(row["problem"], {})[row["method"], row["rtol"]] = row[
            "error / rtol"
        ]
    head = ["error / rtol", *(f"{method}, {rtol:.0e}" for method, rtol in columns)]
    return report.lines(
        head,
        (
            [name, *(f"{by[key]:.2g}" for key in columns)]
            for name, by in by_problem.items()
        ),
    )


def main(names: list[str]) -> None:
    """Print the rows of each problem whose name contains one of `names`; of all
    problems without names.
    """
    found = [
        row
        for name, problem in problems().items()
        if not names or any(part in name for part in names)
        for row in rows(name, problem)
    ]
    print(report.table(found, {key: key for key in found[0]}, ("method",)))
    print(f"\nLargest error / rtol: {max(row['error / rtol'] for row in found):.3g}")


if __name__ == "__main__":
    main(sys.argv[1:])
