"""Batches of small clouds: the best two products of every query, which nearly always tell who has won.

In the plane they are found by `plane`. Elsewhere float32 finds them, in registers. With u = 2^-24, a float32 product of
d terms has an error of at most e = (d + 2) u |q| |k| + 1.2e-38 d: the second part is for numbers below the range of
float32, which may be taken for 0. A key that leads by more than 2 e and the slack of float64 has won; that slack is at
most 2.02 (d + 4) 2^-53 sqrt(d) |q| |k|, not a thousandth of 2 e. Lengths come from float32, too: squares below its
range are made up for by 1.2e-38 d, and the rest of their error is relative, (d + 2) u. The few other queries are asked
again in float64. For large clouds `fused` does less: it looks for no second best.

Queries z A are off by a vector of length (d + 1) u |A|_F |z| at most, and no longer than |A|_F |z|, so that e is at
most (2 d + 3) u |A|_F |z| |k| and what is lost.
"""

from typing import TypeAlias

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels import plane
from hardmax.kernels.compiled import Output, entry
from hardmax.kernels.lanes import FLAGS, LANES, panel_winners
from hardmax.kernels.panels import seen_keys, slack_of_products
from hardmax.kernels.row_lanes import COLUMNS, leading, measure, times_four, times_one, turn

SINGLE, LOST = 2.0**-24, 1.2e-38  # rounding of float32, and what may be lost below its range
LARGEST = np.float32(1e37)  # a product up to which float32 has room to spare

WorkSpace: TypeAlias = tuple[plane.WorkSpace, tuple[AnyArray, ...], IntArray, FloatArray]


@njit
def work_space(n: int, m: int, d: int) -> WorkSpace:
    """For one cloud of n queries and m keys at most: of the plane; panels, and 16 queries; 0, 1, ...; products."""
    panels, lanes = np.zeros((m + LANES - 1) // LANES * LANES * d, np.float32), np.empty(LANES * d, np.float32)
    best, second, at = np.empty(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    squares, largest = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    in_space = panels, lanes, np.empty_like(lanes), squares, largest, best, second, at
    return plane.work_space(n, m), in_space, np.arange(n), np.empty(m)


@njit(fastmath=FLAGS)
def winners(
    queries: AnyArray,
    keys: AnyArray,
    ids: IntArray,
    error: float,
    form: AnyArray,
    space: WorkSpace,
    follows: AnyArray,
    clear: BoolArray,
) -> tuple[float, bool]:
    """Write for each query which of the keys `ids` has the largest product, and whether no other one may have it.

    In the plane, queries and keys may be off by `error` in each coordinate. Elsewhere the queries may be those times a
    matrix `form`, if it is not empty. Returns the largest |coordinate| of a key, and whether all queries are clear.
    """
    if queries.shape[1] == 2:
        return plane.winners(queries, keys, ids, error, space[0], follows, clear)
    (panels, given, times, squares, largest, best, second, at), everyone = space[1], space[2]
    (n, d), count, all_clear, lanes = queries.shape, len(ids), True, times if len(form) else given
    least, base, slope = np.float32(d * LOST), np.float32(3 * d * LOST), np.float32(_lead(d + 2))
    longest, highest = _pack(keys, ids, panels, squares, largest)
    most = np.float32(LARGEST)
    if len(form):  # queries times the matrix must not overflow either, however short keys are
        most = np.float32(LARGEST * min(1.0, np.float64(longest)))
        longest, slope = np.float32(longest * size_of_form(form)), np.float32(_lead(2 * d + 3))
    for top in range(0, n, LANES):
        _turn(queries, everyone, top, min(top + LANES, n), given, 0)
        for lane in range(LANES):
            squares[lane] = at[lane] = 0.0
            best[lane] = second[lane] = -3e38
        measure(given, 0, d, squares, largest)
        if len(form):
            _times(given, form, times)
        for start in range(0, count, LANES):
            panel_winners(lanes, panels, start * d, d, count - start, np.float32(start), best, second, at)
        found, some = leading(best, second, squares, least, longest, slope, base, most), min(LANES, n - top)
        for lane in range(some):
            follows[top + lane] = ids[int(at[lane])]
            clear[top + lane] = found >> lane & 1
        all_clear &= found & (1 << some) - 1 == (1 << some) - 1
    return highest, all_clear


@njit(inline="always")
def _lead(units: int) -> float:
    """By how much, times |q| |k|, a product must lead that is off by so many units of rounding: see above."""
    return 1.01 * 2.02 * units * SINGLE * (1 + 2 * units * SINGLE)


@njit(fastmath=FLAGS)
def size_of_form(form: AnyArray) -> float:
    """At least |form|_2, and not so small that what is lost in `times` may matter."""
    square = 0.0
    for r in range(len(form)):
        for s in range(form.shape[1]):
            square += np.float64(form[r, s]) * np.float64(form[r, s])
    return max(1.000001 * np.sqrt(square), 1e-6)


@njit(fastmath=FLAGS)
def _times(lanes: AnyArray, form: AnyArray, out: AnyArray) -> None:
    """Multiply 16 rows by a matrix."""
    d = len(form)
    for column in range(0, d // COLUMNS * COLUMNS, COLUMNS):
        times_four(lanes, form, column, d, out)
    for column in range(d // COLUMNS * COLUMNS, d):
        times_one(lanes, form, column, d, out)


@njit(fastmath=FLAGS)
def _turn(rows: AnyArray, ids: IntArray, start: int, stop: int, out: AnyArray, at: int) -> None:
    """Write the rows ids[start:stop], 16 at most, column by column; zeros for those that are missing."""
    d, turned = rows.shape[1], 0
    if stop - start == LANES:
        turned = d // COLUMNS * COLUMNS
        for column in range(0, turned, COLUMNS):
            turn(rows, ids, start, column, d, out, at + column * LANES)
    for r in range(turned, d):
        for lane in range(LANES):
            out[at + r * LANES + lane] = rows[ids[start + lane], r] if start + lane < stop else 0.0


@njit(fastmath=FLAGS)
def _pack(
    keys: AnyArray, ids: IntArray, panels: AnyArray, squares: AnyArray, largest: AnyArray
) -> tuple[np.float32, float]:
    """Sort keys into panels of 16; return a bound of their lengths, and the largest |coordinate|."""
    count, d = len(ids), keys.shape[1]
    for lane in range(LANES):
        squares[lane] = largest[lane] = 0.0
    for start in range(0, count, LANES):
        _turn(keys, ids, start, min(start + LANES, count), panels, start * d)
        measure(panels, start * d, d, squares, largest)
    square, highest = 0.0, 0.0
    for lane in range(LANES):
        square, highest = max(square, np.float64(squares[lane])), max(highest, np.float64(largest[lane]))
    return np.float32(1.000001 * np.sqrt(square + d * LOST)), highest


@njit(fastmath=FLAGS)
def tied(
    query: AnyArray, keys: AnyArray, ids: IntArray, highest: float, more: float, products: FloatArray, room: IntArray
) -> tuple[int, bool, int]:
    """Write every near-maximal key in float64, as far as there is room: number, whether all are the same, the first.

    `more` is what the error of the query adds to the slack.
    """
    best, size_of_query = -np.inf, 0.0
    for r in range(len(query)):
        size_of_query += abs(np.float64(query[r]))
    for i in range(len(ids)):
        total = 0.0
        for r in range(len(query)):
            total += np.float64(query[r]) * np.float64(keys[ids[i], r])
        products[i] = total
        best = max(best, total)
    size, same, first, cut = 0, True, -1, best - slack_of_products(len(query), highest, size_of_query) - more
    for i in range(len(ids)):
        if products[i] >= cut:
            first = ids[i] if first < 0 else first
            for r in range(len(query)):
                same &= keys[ids[i], r] == keys[first, r]
            if size < len(room):
                room[size] = ids[i]
            size += 1
    return size, same, first


@njit(fastmath=FLAGS)
def search_cloud(
    queries: AnyArray,
    keys: AnyArray,
    mask: BoolArray,
    cloud: int,
    space: WorkSpace,
    seen: IntArray,
    clear: BoolArray,
    output: Output,
) -> None:
    """Find the near-maxima of one of the clouds of queries (clouds, n, d) among keys (clouds, m, d).

    There must be room for m keys that are seen, and to say for n queries whether they are clear.
    """
    n, m = queries.shape[1], keys.shape[1]
    count, used, mine = seen_keys(mask, cloud, m, seen), 0, slice(cloud * n, cloud * n + n)
    own, known, ids = queries[cloud], keys[cloud], seen[:count]
    first, sizes, same = output.first[mine], output.sizes[mine], output.same[mine]
    sizes[:], same[:], clear[:], highest, all_clear = 1, True, False, 0.0, False
    if count:
        highest, all_clear = winners(own, known, ids, 0.0, known[:0], space, first, clear)
    room = output.members[output.starts[cloud] : output.starts[cloud + 1]]
    for i in range(0 if all_clear else n):
        if not clear[i]:
            sizes[i], same[i], first[i] = tied(own[i], known, ids, highest, 0.0, space[3], room[used:])
            used += sizes[i] if sizes[i] > 1 else 0
    output.used[cloud] = used


@entry(fastmath=FLAGS)
def search_small(queries: AnyArray, keys: AnyArray, mask: BoolArray, clouds: IntArray, output: Output) -> None:
    """The same for some clouds."""
    (n, d), m = queries.shape[1:], keys.shape[1]
    space, seen, clear = work_space(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    for cloud in clouds:
        search_cloud(queries, keys, mask, cloud, space, seen, clear, output)
