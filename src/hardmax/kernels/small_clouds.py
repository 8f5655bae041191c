"""Batches of small clouds in float32: the best two products of every query, in registers.

With e a bound of the error of a float32 product, a key that leads by more than the slack and 2 e has won. The few other
queries are asked again in float64. For large clouds `fused` does less: it looks for no second best.
"""

from typing import Any

import numpy as np
from numba import njit

from hardmax._integers import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.compiled import entry
from hardmax.kernels.lanes import FLAGS, LANES, panel_winners

SINGLE, SMALLEST = 2.0**-24, 2.0**-149  # rounding of float32, relative and absolute
LARGEST = 1e37  # a product up to which float32 has room to spare


@njit(fastmath=FLAGS)
def _pack(keys: AnyArray, ids: IntArray, panels: AnyArray) -> tuple[float, float]:
    """Sort keys into panels of 16; return the largest length and |coordinate|."""
    count, d = len(ids), keys.shape[1]
    longest, highest = 0.0, 0.0
    for i in range(count):
        start, square = i // LANES * LANES * d + i % LANES, 0.0
        for r in range(d):
            value = keys[ids[i], r]
            panels[start + r * LANES] = value
            square += np.float64(value) * np.float64(value)
            highest = max(highest, abs(np.float64(value)))
        longest = max(longest, square)
    return 1.000001 * np.sqrt(longest), highest


@njit(fastmath=FLAGS)
def _again(
    query: AnyArray, keys: AnyArray, ids: IntArray, slack: float, products: FloatArray, room: IntArray
) -> tuple[int, bool, int]:
    """Every near-maximal key in float64, written as far as there is room: number, whether all are equal, the first."""
    best = -np.inf
    for i in range(len(ids)):
        total = 0.0
        for r in range(len(query)):
            total += np.float64(query[r]) * np.float64(keys[ids[i], r])
        products[i] = total
        best = max(best, total)
    size, equal, first = 0, True, -1
    for i in range(len(ids)):
        if products[i] >= best - slack:
            first = ids[i] if first < 0 else first
            for r in range(len(query)):
                equal &= keys[ids[i], r] == keys[first, r]
            if size < len(room):
                room[size] = ids[i]
            size += 1
    return size, equal, first


@entry(fastmath=FLAGS)
def search(clouds: IntArray, queries: AnyArray, keys: AnyArray, mask: BoolArray, output: Any) -> None:
    """Find the near-maxima of some clouds of queries (clouds, n, d) among keys (clouds, m, d), all float32."""
    (n, d), m = queries.shape[1:], keys.shape[1]
    ids, products = np.empty(m, np.intp), np.empty(m)
    panels = np.zeros((m + LANES - 1) // LANES * LANES * d, np.float32)
    lanes, lengths, sums = np.empty(d * LANES, np.float32), np.empty(LANES), np.empty(LANES)
    best, second, at = np.empty(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for cloud in clouds:
        count = 0
        for j in range(m):
            if mask.size == 0 or mask[cloud, j]:
                ids[count] = j
                count += 1
        longest, highest = _pack(keys[cloud], ids[:count], panels)
        room, used = output.members[output.starts[cloud] : output.starts[cloud + 1]], 0
        for top in range(0, n, LANES):
            for lane in range(LANES):
                square, total = 0.0, 0.0
                for r in range(d):
                    value = queries[cloud, min(top + lane, n - 1), r]
                    lanes[r * LANES + lane] = value
                    square += np.float64(value) * np.float64(value)
                    total += abs(np.float64(value))
                lengths[lane], sums[lane] = 1.000001 * np.sqrt(square), total
                best[lane] = second[lane] = -3e38
                at[lane] = 0.0
            for start in range(0, count, LANES):
                panel_winners(lanes, panels, start * d, d, count - start, np.float32(start), best, second, at)
            for lane in range(min(LANES, n - top)):
                row, bound = cloud * n + top + lane, lengths[lane] * longest
                slack = 2.02 * ((d + 4) * UNIT * highest * sums[lane] + d * TINY)
                error = 2.02 * ((d + 2) * SINGLE * bound + d * SMALLEST)
                if bound < LARGEST and np.float64(second[lane]) < np.float64(best[lane]) - error - slack:
                    output.first[row], output.sizes[row] = ids[int(at[lane])], 1
                    continue
                size, equal, first = _again(
                    queries[cloud, top + lane], keys[cloud], ids[:count], slack, products, room[used:]
                )
                output.first[row], output.sizes[row], output.equal[row] = first, size, equal
                used += size if size > 1 else 0
        output.used[cloud] = used
