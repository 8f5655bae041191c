"""`python -m studies.measure hull_cache`: appends and queries of `HullCache` per
second, by the order of the keys.

Times are those of the processor, which other programs hardly lengthen, for two cores
that share the heads. The peer computes all products of a query with NumPy, as a cache
without a hull does.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.machine import with_peak
from benchmarks.registry import Progress

import hardmax as hm

HEADS, KEYS, LARGE, CORES, PEER_QUERIES = 8, 1_000_000, 10_000_000, 2, 20


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time of a call, in all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def kinds(n: int, rng: np.random.Generator) -> dict[str, tuple[Any, Any]]:
    """Return keys (HEADS, n, 2) and queries by the name of their order."""
    i, turn = np.arange(n), rng.random((HEADS, n)) * 2 * np.pi
    normal, asked = rng.normal(size=(HEADS, n, 2)), rng.integers(0, n, (HEADS, n))
    parabola = np.broadcast_to(np.c_[2.0 * i, -(i**2.0)], (HEADS, n, 2))
    return {
        "Gaussian": (rng.normal(size=(HEADS, n, 2)), normal),
        "parabola, in order (addresses)": (
            parabola,
            np.stack([asked, np.ones((HEADS, n))], -1),
        ),
        "on a line, in order": (np.broadcast_to(np.c_[i, i], (HEADS, n, 2)), normal),
        "in a column, ascending": (
            np.broadcast_to(np.c_[0 * i, i], (HEADS, n, 2)),
            normal,
        ),
        "in a column, descending": (
            np.broadcast_to(np.c_[0 * i, -i], (HEADS, n, 2)),
            normal,
        ),
        "on a circle, in random order": (
            np.stack([np.cos(turn), np.sin(turn)], -1),
            normal,
        ),
    }


def measure(quick: bool, progress: Progress) -> dict[str, Any]:
    """Return a row for each order of the keys, and the cost of many keys in one head."""
    n, rng, rows = (800 if quick else KEYS) // HEADS, np.random.default_rng(0), []
    for name, (keys, queries) in kinds(n, rng).items():
        progress(name)
        for size in (100, n):  # the first loads the compiled code
            cache, values = hm.HullCache(), np.ones((HEADS, size, 2))
            append = seconds(lambda k=keys[:, :size], c=cache, v=values: c.append(k, v))
            query = seconds(lambda q=queries[:, :size], c=cache: c.query(q))
        some = queries[0, :PEER_QUERIES]
        peer = (
            seconds(lambda k=keys[0], q=some: [int((k @ x).argmax()) for x in q])
            / PEER_QUERIES
        )
        appends, asked = (CORES * HEADS * n / spent / 1e6 for spent in (append, query))
        row = {
            "keys": name,
            "million appends / s": appends,
            "million queries / s": asked,
        }
        rows.append(
            row | {"queries, times as fast as all products": peer * HEADS * n / query}
        )
    return {"rows": rows, "large": measure_large(100 if quick else LARGE)}


def measure_large(keys: int) -> dict[str, Any]:
    """Return the seconds of one core, and the memory, for Gaussian keys in one head."""
    cache, normal, values = (
        hm.HullCache(),
        np.random.default_rng(0).normal(size=(keys, 2)),
        np.ones((keys, 1)),
    )
    spent, megabytes = with_peak(lambda: seconds(lambda: cache.append(normal, values)))
    return {"keys": keys, "seconds": spent, "MB": megabytes}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of docs/how-to/torch.md."""
    table = report.table(found["rows"], {key: key for key in found["rows"][0]})
    one, cores = found["large"], f"on {CORES} cores that share {HEADS} heads"
    return (
        f"{table}\n\nA million keys, {cores}, in processor time. {one['keys']:,}"
        f" Gaussian keys in one head took {one['seconds']:.0f} s of one core and"
        f" {one['MB'] / 1e3:.1f} GB."
    )
