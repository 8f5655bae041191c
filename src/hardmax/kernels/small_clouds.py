"""Batches of small clouds: the best two products of every query, which nearly always tell who has won.

In the plane they are found by `plane`. Elsewhere float32 finds them, in registers: with e a bound of the error of a
float32 product, a key that leads by more than the slack and 2 e has won. The few other queries are asked again in
float64. For large clouds `fused` does less: it looks for no second best.
"""

from typing import TypeAlias

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels import plane
from hardmax.kernels.compiled import Output, entry
from hardmax.kernels.lanes import FLAGS, LANES, panel_winners
from hardmax.kernels.panels import seen_keys, slack_of_products

SINGLE, SMALLEST = 2.0**-24, 2.0**-149  # rounding of float32, relative and absolute
LARGEST = 1e37  # a product up to which float32 has room to spare
IN_PLANE, IN_SPACE = 4096, 512  # tokens of a cloud up to which this is faster than `fused`

WorkSpace: TypeAlias = tuple[plane.WorkSpace, tuple[AnyArray, ...], FloatArray]


def is_small(d: int, tokens: int, single: bool) -> bool:
    """Whether clouds of so many queries or keys are small; in space, if they are of float32."""
    return 0 < tokens <= IN_PLANE if d == 2 else single and d > 3 and 0 < tokens <= IN_SPACE


@njit
def work_space(n: int, m: int, d: int) -> WorkSpace:
    """For one cloud of n queries and m keys at most: of the plane; panels of keys and 16 queries; products."""
    panels, lanes = np.zeros((m + LANES - 1) // LANES * LANES * d, np.float32), np.empty(d * LANES, np.float32)
    best, second, at = np.empty(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    in_space = panels, lanes, np.empty(LANES), np.empty(LANES), best, second, at
    return plane.work_space(n, m), in_space, np.empty(m)


@njit(fastmath=FLAGS)
def winners(
    queries: AnyArray,
    keys: AnyArray,
    ids: IntArray,
    error: float,
    space: WorkSpace,
    follows: AnyArray,
    clear: BoolArray,
) -> tuple[float, bool]:
    """Write for each query which of the keys `ids` has the largest product, and whether no other one may have it.

    In the plane, queries and keys may be off by `error` in each coordinate. Returns the largest |coordinate| of a key,
    and whether all queries are clear.
    """
    if queries.shape[1] == 2:
        return plane.winners(queries, keys, ids, error, space[0], follows, clear)
    panels, lanes, lengths, sums, best, second, at = space[1]
    (n, d), count = queries.shape, len(ids)
    (longest, highest), all_clear = _pack(keys, ids, panels), True
    for top in range(0, n, LANES):
        for lane in range(LANES):
            square, total = 0.0, 0.0
            for r in range(d):
                value = queries[min(top + lane, n - 1), r]
                lanes[r * LANES + lane] = value
                square += np.float64(value) * np.float64(value)
                total += abs(np.float64(value))
            lengths[lane], sums[lane] = 1.000001 * np.sqrt(square), total
            best[lane] = second[lane] = -3e38
            at[lane] = 0.0
        for start in range(0, count, LANES):
            panel_winners(lanes, panels, start * d, d, count - start, np.float32(start), best, second, at)
        for lane in range(min(LANES, n - top)):
            bound = lengths[lane] * longest
            off = 2.02 * ((d + 2) * SINGLE * bound + d * SMALLEST)
            cut = np.float64(best[lane]) - off - slack_of_products(d, highest, sums[lane])
            follows[top + lane] = ids[int(at[lane])]
            clear[top + lane] = bound < LARGEST and np.float64(second[lane]) < cut
            all_clear &= clear[top + lane]
    return highest, all_clear


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
def tied(
    query: AnyArray, keys: AnyArray, ids: IntArray, highest: float, products: FloatArray, room: IntArray
) -> tuple[int, bool, int]:
    """Write every near-maximal key in float64, as far as there is room: number, whether all are the same, the first."""
    best, size_of_query = -np.inf, 0.0
    for r in range(len(query)):
        size_of_query += abs(np.float64(query[r]))
    for i in range(len(ids)):
        total = 0.0
        for r in range(len(query)):
            total += np.float64(query[r]) * np.float64(keys[ids[i], r])
        products[i] = total
        best = max(best, total)
    size, same, first, cut = 0, True, -1, best - slack_of_products(len(query), highest, size_of_query)
    for i in range(len(ids)):
        if products[i] >= cut:
            first = ids[i] if first < 0 else first
            for r in range(len(query)):
                same &= keys[ids[i], r] == keys[first, r]
            if size < len(room):
                room[size] = ids[i]
            size += 1
    return size, same, first


@entry(fastmath=FLAGS)
def search_small(queries: AnyArray, keys: AnyArray, mask: BoolArray, clouds: IntArray, output: Output) -> None:
    """Find the near-maxima of some clouds of queries (clouds, n, d) among keys (clouds, m, d)."""
    (n, d), m = queries.shape[1:], keys.shape[1]
    ids, space, follows, clear = np.empty(m, np.intp), work_space(n, m, d), np.empty(n, np.intp), np.empty(n, np.bool_)
    for cloud in clouds:
        count, used, top = seen_keys(mask, cloud, m, ids), 0, cloud * n
        clear[:] = False
        highest = 0.0
        if count:
            highest, _ = winners(queries[cloud], keys[cloud], ids[:count], 0.0, space, follows, clear)
        room = output.members[output.starts[cloud] : output.starts[cloud + 1]]
        for i in range(n):
            size, same, first = 1, True, follows[i]
            if not clear[i]:
                size, same, first = tied(queries[cloud, i], keys[cloud], ids[:count], highest, space[2], room[used:])
            output.first[top + i], output.sizes[top + i], output.same[top + i] = first, size, same
            used += size if size > 1 else 0
        output.used[cloud] = used
