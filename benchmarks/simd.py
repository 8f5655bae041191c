"""What vector instructions gain over plain numba: the largest product of 16 queries with each panel of 16 keys."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit

from benchmarks.registry import Case, Method
from hardmax._types import AnyArray
from hardmax.search.simd import FLAGS, LANES, panel_maxima

PANELS = 256


@njit(fastmath=FLAGS)
def _plain(queries: AnyArray, keys: AnyArray, d: int, out: AnyArray, best: AnyArray, sums: AnyArray) -> None:
    """Do what `panel_maxima` does with loops over lanes, which LLVM vectorises."""
    for panel in range(PANELS):
        start = panel * d * LANES
        for lane in range(LANES):
            out[panel * LANES + lane] = -np.inf
        for key in range(LANES):
            sums[:] = 0.0
            for r in range(d):
                number = keys[start + r * LANES + key]
                for lane in range(LANES):
                    sums[lane] += queries[r * LANES + lane] * number
            for lane in range(LANES):
                out[panel * LANES + lane] = max(out[panel * LANES + lane], sums[lane])
        for lane in range(LANES):
            best[lane] = max(best[lane], out[panel * LANES + lane])


@njit
def _by_vectors(queries: AnyArray, keys: AnyArray, d: int, out: AnyArray, best: AnyArray, sums: AnyArray) -> None:
    for panel in range(PANELS):
        panel_maxima(queries, keys, panel * d * LANES, d, out, panel * LANES, best)


def _prepare(d: int, run: Callable[..., None]) -> Callable[[], AnyArray]:
    rng = np.random.default_rng(0)
    queries, keys = (rng.normal(size=size * d * LANES).astype(np.float32) for size in (1, PANELS))
    out, best, sums = (np.full(size, -np.inf, np.float32) for size in (PANELS * LANES, LANES, LANES))
    run(queries, keys, d, out, best, sums)  # compiles it
    return lambda: run(queries, keys, d, out, best, sums) or out


def _methods(d: int, quick: bool) -> list[Method]:
    runs = {"vector instructions": _by_vectors, "plain numba": _plain}
    return [Method(name, partial(_prepare, d, run), lambda out: {"maxima": out}) for name, run in runs.items()]


CASES = [
    Case(
        f"vectors_{d}",
        f"16 queries, 256 panels of 16 keys, d = {d}",
        partial(_methods, d),
        lambda ours, theirs: np.allclose(ours["maxima"], theirs["maxima"], rtol=1e-4, atol=1e-4),
        "differs",
    )
    for d in (2, 16, 128)
]
