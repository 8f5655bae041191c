"""What vector instructions gain over plain numba: the largest product of 16 queries with each panel of 16 keys.

python -m benchmarks.simd
"""

import time

import numpy as np
from numba import njit

from hardmax._types import AnyArray
from hardmax.search.simd import FLAGS, LANES, panel_maxima

PANELS, REPEATS = 256, 15


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


def main() -> None:
    """Print the ratio of the times for several dimensions."""
    rng = np.random.default_rng(0)
    for d in (2, 16, 128):
        queries, keys = (rng.normal(size=size * d * LANES).astype(np.float32) for size in (1, PANELS))
        seconds, outputs = [], []
        for run in (_plain, _by_vectors):
            out, best, sums = (np.full(size, -np.inf, np.float32) for size in (PANELS * LANES, LANES, LANES))
            run(queries, keys, d, out, best, sums)
            times = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                run(queries, keys, d, out, best, sums)
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
            outputs.append(out)
        np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-4)
        plain, vectors = (1e6 * one for one in seconds)
        print(f"d = {d}: plain numba {plain:.0f} us, vectors {vectors:.0f} us, {plain / vectors:.1f} times as fast")


if __name__ == "__main__":
    main()
