"""Appends and queries of `HullCache` a second, by the order of the keys: `python -m benchmarks.hull_cache [KEYS]`.

Times are those of the processor, which other programs do not lengthen, for two cores that share the heads. The peer
computes all products of a query with NumPy, as a cache without a hull does.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hardmax as hm

HEADS, KEYS, CORES, PEER_QUERIES = 8, 1_000_000, 2, 20


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
        "parabola, in order (addresses)": (parabola, np.stack([asked, np.ones((HEADS, n))], -1)),
        "on a line, in order": (np.broadcast_to(np.c_[i, i], (HEADS, n, 2)), normal),
        "on a circle, in random order": (np.stack([np.cos(turn), np.sin(turn)], -1), normal),
    }


def main(total: int) -> None:
    """Print a table."""
    n, rng = total // HEADS, np.random.default_rng(0)
    print("| keys | million appends / s | million queries / s | queries, times as fast as all products |")
    print("|---|---:|---:|---:|")
    for name, (keys, queries) in kinds(n, rng).items():
        for size in (100, n):  # the first loads the compiled code
            cache, values = hm.HullCache(), np.ones((HEADS, size, 2))
            append = seconds(lambda k=keys[:, :size], c=cache, v=values: c.append(k, v))
            query = seconds(lambda q=queries[:, :size], c=cache: c.query(q))
        some = queries[0, :PEER_QUERIES]
        peer = seconds(lambda k=keys[0], q=some: [int((k @ x).argmax()) for x in q]) / PEER_QUERIES
        rates = [CORES * HEADS * n / spent / 1e6 for spent in (append, query)]
        print(f"| {name} | {rates[0]:.2f} | {rates[1]:.2f} | {peer * HEADS * n / query:,.0f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KEYS)
