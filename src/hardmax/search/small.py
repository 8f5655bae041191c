"""Batches of small clouds: the best two products of every query, which nearly always tell who has won.

In the plane they are found by `plane`. Elsewhere whole numbers find them, see `whole_clouds`, or where those cannot
tell float32, both in registers. With u = 2^-24, a float32 product of d terms has an error of at most e = (d + 2) u |q|
|k| + 1.2e-38 d: the second part is for numbers below the range of float32, which may be taken for 0. A key that leads
by more than 2 e and the slack of float64 has won; that slack is at most 2.02 (d + 4) 2^-53 sqrt(d) |q| |k|, not a
thousandth of 2 e. Lengths come from float32, too: squares below its range are made up for by 1.2e-38 d, and the rest of
their error is relative, (d + 2) u. The few other queries are asked again in float64. For large clouds `fused` does
less: it looks for no second best.

Queries z A are off by a vector of length (d + 1) u |A|_F |z| at most, and no longer than |A|_F |z|, so that e is at
most (2 d + 3) u |A|_F |z| |k| and what is lost.
"""

from typing import TypeAlias

import numpy as np
from numba import njit

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search import plane
from hardmax.search.cloud_rows import LOST, pack_rows, size_of_form, times, turned
from hardmax.search.lanes import FLAGS, LANES, borrowed, panel_winners
from hardmax.search.panels import seen_keys, slack_of_products
from hardmax.search.row_lanes import leading, measure
from hardmax.search.threads import Output, entry
from hardmax.search.whole_clouds import WholeSpace, pack_wholes, told_by_wholes, whole_space

SINGLE = 2.0**-24  # rounding of float32
LARGEST = np.float32(1e37)  # a product up to which float32 has room to spare

WorkSpace: TypeAlias = tuple[plane.WorkSpace, tuple[AnyArray, ...], IntArray, FloatArray, WholeSpace]


@njit
def work_space(n: int, m: int, d: int) -> WorkSpace:
    """For one cloud of n queries and m keys at most.

    In the plane; panels, and 16 queries; 0, 1, ...; products; and for whole numbers.
    """
    panels, lanes = np.zeros((m + LANES - 1) // LANES * LANES * d, np.float32), np.empty(LANES * d, np.float32)
    best, second, at = np.empty(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    squares, largest = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    in_space = panels, lanes, np.empty_like(lanes), squares, largest, best, second, at
    return plane.work_space(n, m), in_space, np.arange(n), np.empty(m), whole_space(m, d)


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
    (panels, given, moved, squares, largest, best, second, at), everyone = borrowed(space[1]), space[2]
    wholes = borrowed(space[4])
    (n, d), count, all_clear, lanes = queries.shape, len(ids), True, moved if len(form) else given
    least, base, slope = np.float32(d * LOST), np.float32(3 * d * LOST), np.float32(_lead(d + 2))
    longest, highest = pack_rows(keys, ids, panels, squares, largest)
    most = np.float32(LARGEST)
    whole = len(form) == 0 and pack_wholes(panels, ids, n, d, squares, least, wholes)
    if len(form):  # queries times the matrix must not overflow either, however short keys are
        most = np.float32(LARGEST * min(1.0, np.float64(longest)))
        longest, slope = np.float32(longest * size_of_form(form)), np.float32(_lead(2 * d + 3))
    for top in range(0, n, LANES):
        some = min(LANES, n - top)
        turned(queries, everyone, top, top + some, given, 0)
        for lane in range(LANES):
            squares[lane] = at[lane] = 0.0
            best[lane] = second[lane] = -3e38
        measure(given, 0, d, squares, largest)
        if whole and told_by_wholes(given, d, squares, least, count, wholes, follows, top, some):
            for lane in range(some):
                clear[top + lane] = True
            continue
        if len(form):
            times(given, form, moved)
        for start in range(0, count, LANES):
            panel_winners(lanes, panels, start * d, d, count - start, np.float32(start), best, second, at)
        found = leading(best, second, squares, least, longest, slope, base, most)
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


@njit(inline="always", fastmath=FLAGS)  # a call with so many arrays takes a while
def single_winners(
    queries: AnyArray,
    keys: AnyArray,
    ids: IntArray,
    error: float,
    form: AnyArray,
    space: WorkSpace,
    follows: AnyArray,
    clear: BoolArray,
) -> bool:
    """Write which of the keys `ids` each query follows; whether that is a single one everywhere, and no other is near.

    Takes what `winners` does; with an `error`, queries that are not clear there are not asked again.
    """
    highest, all_clear = winners(queries, keys, ids, error, form, space, follows, clear)
    if error > 0 or all_clear:
        return all_clear
    (n, d), query = queries.shape, np.empty(queries.shape[1])
    for i in range(n):
        if not clear[i]:
            square, more = 0.0, 0.0
            for r in range(d):
                query[r] = queries[i, r]
                square += query[r] * query[r]
            if len(form):  # off by a vector of length (d + 1) UNIT |A|_F |z|, and |k| is at most sqrt(d) `highest`
                more = 2.02 * (d + 2) * UNIT * size_of_form(form) * np.sqrt(d * square) * highest + d * TINY
                for r in range(d):
                    query[r] = 0.0
                    for s in range(d):
                        query[r] += np.float64(queries[i, s]) * np.float64(form[s, r])
            size, _, follows[i] = tied(query, keys, ids, highest, more, space[3], ids[:0])
            if size > 1:
                return False
    return True


@entry(fastmath=FLAGS)
def search_small(queries: AnyArray, keys: AnyArray, mask: BoolArray, clouds: IntArray, output: Output) -> None:
    """Find the near-maxima of some of the clouds of queries (clouds, n, d) among keys (clouds, m, d)."""
    (n, d), m = queries.shape[1:], keys.shape[1]
    space, seen, clear = work_space(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    for cloud in clouds:
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
