"""What a benchmark is: peers that must agree on the answer before a ratio is printed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Peer:
    name: str
    run: Callable[[], Any]
    answer: Callable[[Any], Any]  # what must agree, read off after the clock has stopped: sets C_i, or an error
    repeats: int


@dataclass(frozen=True)
class Benchmark:
    title: str
    peers: Callable[[], list[Peer]]  # the first is what the others are compared with
    agrees: Callable[[Any, Any], bool]  # whether an answer is as good as the first one's
    why: str  # what is wrong where it is not


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(
    title: str,
    *,
    agrees: Callable[[Any, Any], bool] = lambda answer, first: answer == first,
    why: str = "chooses other sets than the definition",
) -> Callable[[Any], Any]:
    """Register a function that makes the peers of a benchmark, under its name."""

    def register(make: Callable[[], list[Peer]]) -> Callable[[], list[Peer]]:
        BENCHMARKS[make.__name__] = Benchmark(title, make, agrees, why)
        return make

    return register


def measure(bench: Benchmark) -> list[tuple[str, float, float]]:
    """Name, best seconds and ratio to the first peer; an error instead of a ratio where answers disagree."""
    rows: list[tuple[str, float, float]] = []
    truth = None
    for peer in bench.peers():
        seconds = []
        for _ in range(peer.repeats):
            start = time.perf_counter()
            result = peer.run()
            seconds.append(time.perf_counter() - start)
        answer = peer.answer(result)
        if truth is None:
            truth = answer
        elif not bench.agrees(answer, truth):
            raise AssertionError(f"{peer.name} {bench.why}: no ratio.")
        rows.append((peer.name, min(seconds), (rows[0][1] if rows else min(seconds)) / min(seconds)))
    return rows
