"""What a benchmark is: peers that must agree on the sets before a ratio is printed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Peer:
    name: str
    run: Callable[[], Any]
    sets: Callable[[Any], list[list[list[int]]]]  # C_i for every layer and token, read off after the clock has stopped
    repeats: int


@dataclass(frozen=True)
class Benchmark:
    title: str
    peers: Callable[[], list[Peer]]  # the first is what the others are compared with


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(title: str) -> Callable[[Any], Any]:
    """Register a function that makes the peers of a benchmark, under its name."""

    def register(make: Callable[[], list[Peer]]) -> Callable[[], list[Peer]]:
        BENCHMARKS[make.__name__] = Benchmark(title, make)
        return make

    return register


def measure(bench: Benchmark) -> list[tuple[str, float, float]]:
    """Name, best seconds and ratio to the first peer; an error instead of a ratio where the sets differ."""
    rows: list[tuple[str, float, float]] = []
    truth = None
    for peer in bench.peers():
        seconds = []
        for _ in range(peer.repeats):
            start = time.perf_counter()
            result = peer.run()
            seconds.append(time.perf_counter() - start)
        sets = peer.sets(result)
        if truth is None:
            truth = sets
        elif sets != truth:
            raise AssertionError(f"{peer.name} chooses other sets than the definition: no ratio.")
        rows.append((peer.name, min(seconds), (rows[0][1] if rows else min(seconds)) / min(seconds)))
    return rows
