"""Batches of small token sets: the best two float32 products of every query, which
nearly always decide.

Keys and queries of a batch element are scaled by powers of two to coordinates of at
most 4, and rounded to float32. With u = 2^-24, a float32 product of d terms then has an
error of at most e = (d + 4) u |q| |k|; queries so short that numbers below the range of
float32 matter are left to float64. A key that leads by more than 2 e and the slack of
float64, at most 2.02 (d + 4) 2^-53 sqrt(d) |q| |k|, not a thousandth of 2 e, is the
argmax. Queries z A are off by a vector of length (d + 3) u |A|_F |z|, and not longer
than |A|_F |z|, so that e is at most (2 d + 8) u |A|_F |z| |k|. The few other queries
are compared in float64.

In the plane, keys deep inside the hull are left out first. Some of the farthest keys
make a closed path. If a key lies to the left of all its edges by at least r, the path
goes round it, so the ray from it through any point of the disc of radius r around it
meets an edge beyond that point: the disc is inside the hull. Such a key is behind
another one in each direction q by at least r |q|; with r > slack / |q| it is never
near-maximal. The path goes through the farthest keys in eight directions, then through
the farthest beyond each of its edges.

For 256 token sets of 256 tokens this is 3 (d = 2) and 2 times (d = 16) as fast as
`scan`, which sorts the keys first.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.scan import UNIT32, as_plain, list_seen, slack_of_products
from hardmax.search.simd import FLAGS, LANES, borrow, panel_winners, scale_to_one
from hardmax.search.threads import Output, collect_sets, entry
from hardmax.sets import Sets

MAX_SCALE32 = 2.0**100
BLOCK = 64
MIN_SQUARE = np.float32(
    1e-36
)  # of a scaled query, from which numbers below the range of float32 do not matter
# how deep inside a key must be to be left out, over the largest |coordinate|; a quarter
# may be rounding
DEPTH = 8e-6
MIN_SIZE = 1e-280  # |q| |k| below which the slack is more than a few units of rounding
# |q| over the largest key, where positions have errors, from which keys that deep do
# not matter ...
MIN_QUERY = 1e-4
# ... for errors of at most this, over the largest key: 6 MAX_ERROR is less than 6e-6 of
# MIN_QUERY
MAX_ERROR = 1e-11


class Workspace(NamedTuple):
    """Arrays for one token set."""

    panels: AnyArray  # keys as float32: (panels * d * 16,)
    lanes: AnyArray  # 16 queries as float32: (d * 16,)
    moved: AnyArray  # the same times a matrix
    squares: AnyArray  # (16,) of their lengths
    best: AnyArray  # (16,)
    second: AnyArray  # (16,)
    winner: AnyArray  # (16,) of the best key
    order: IntArray  # 0, 1, ...
    kept: IntArray  # (m,) keys that are compared
    products: FloatArray  # (m,)
    query: FloatArray  # (d,)
    x: AnyArray  # (m,) float32, in the plane
    y: AnyArray  # (m,)
    depth: AnyArray  # (m,)
    path: IntArray  # (16,)
    edges: AnyArray  # (48,)


@njit
def allocate(n: int, m: int, d: int) -> Workspace:
    """Allocate for token sets of at most n queries and m keys."""
    size = (m + LANES - 1) // LANES * LANES
    return Workspace(
        np.zeros(size * d, np.float32),
        np.empty(LANES * d, np.float32),
        np.empty(LANES * d, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.arange(n),
        np.empty(m + 1, np.intp),
        np.empty(m),
        np.empty(d),
        np.empty(m + 1, np.float32),
        np.empty(m + 1, np.float32),
        np.empty(m + 1, np.float32),
        np.empty(16, np.intp),
        np.empty(48, np.float32),
    )


@njit(fastmath=False)
def _largest(points: AnyArray, ids: IntArray) -> tuple[float, bool]:
    """Return the largest |coordinate| of the points `ids`, of all if there are none,
    and whether sums are finite.
    """
    numbers = (points[ids] if 0 < len(ids) < len(points) else points).reshape(-1)
    largest, sums = np.zeros(BLOCK, points.dtype), np.zeros(BLOCK, points.dtype)
    whole = len(numbers) // BLOCK * BLOCK
    for start in range(
        0, whole, BLOCK
    ):  # numbers side by side, of which LLVM makes vectors
        for i in range(BLOCK):
            value = abs(numbers[start + i])
            largest[i] = value if value > largest[i] else largest[i]
            sums[i] += value
    for i in range(whole, len(numbers)):
        largest[0] = max(largest[0], abs(numbers[i]))
        sums[0] += abs(numbers[i])
    return np.float64(largest.max()), bool(np.isfinite(sums).all())


@njit
def _choose_scale(points: AnyArray, highest: float) -> float:
    """Return the power of two that brings `highest` into [1, 4), or less if the type of
    the points has none.
    """
    return points.dtype.type(
        min(scale_to_one(highest), MAX_SCALE32 if points.itemsize == 4 else np.inf)
    )


@njit(fastmath=FLAGS)
def _find_farthest(x: AnyArray, y: AnyArray, m: int, path: IntArray) -> None:
    """Write the keys that are farthest in eight directions, counterclockwise."""
    path[:8] = 0
    right = left = x[0]
    top = bottom = y[0]
    sum_high = sum_low = x[0] + y[0]
    difference_high = difference_low = x[0] - y[0]
    for j in range(1, m):
        a, b = x[j], y[j]
        s, t = a + b, a - b
        if a > right:
            right, path[0] = a, j
        if s > sum_high:
            sum_high, path[1] = s, j
        if b > top:
            top, path[2] = b, j
        if t < difference_low:
            difference_low, path[3] = t, j
        if a < left:
            left, path[4] = a, j
        if s < sum_low:
            sum_low, path[5] = s, j
        if b < bottom:
            bottom, path[6] = b, j
        if t > difference_high:
            difference_high, path[7] = t, j


@njit(fastmath=FLAGS)
def _find_edges(
    x: AnyArray, y: AnyArray, path: IntArray, margin: float, edges: AnyArray
) -> int:
    """Write (a, b, c) of each edge of a closed path; return their number.

    a x + b y + c > 0 for points deeper than `margin` to its left, or a bit deeper,
    where an edge is not upright.
    """
    count, width = 0, np.float32(margin)
    for e in range(len(path)):
        i, j = path[e], path[e + 1 if e + 1 < len(path) else 0]
        dx, dy = x[j] - x[i], y[j] - y[i]
        length = abs(dx) + abs(dy)  # at least the length
        if length > 0.0:
            edges[3 * count], edges[3 * count + 1] = -dy, dx
            edges[3 * count + 2] = dy * x[i] - dx * y[i] - width * length
            count += 1
    return count


@njit(fastmath=FLAGS)
def _measure_depth(
    x: AnyArray, y: AnyArray, m: int, edges: AnyArray, count: int, depth: AnyArray
) -> None:
    """Write the least a x + b y + c of each key over all edges."""
    for j in range(m):
        depth[j] = 3e38
    for e in range(count):
        a, b, c = edges[3 * e], edges[3 * e + 1], edges[3 * e + 2]
        for j in range(m):
            depth[j] = min(depth[j], a * x[j] + b * y[j] + c)


@njit(fastmath=FLAGS)
def _add_corners(
    path: IntArray, x: AnyArray, y: AnyArray, kept: IntArray, few: int
) -> IntArray:
    """Return the path with the farthest of few other keys beyond each of its edges."""
    corners, count = np.empty(2 * len(path), np.intp), 0
    for e in range(len(path)):
        i, j = path[e], path[(e + 1) % len(path)]
        corners[count] = i
        count += 1
        dx, dy, farthest, which = x[j] - x[i], y[j] - y[i], np.float32(0.0), -1
        for k in range(few):
            beyond = dx * (y[kept[k]] - y[i]) - dy * (x[kept[k]] - x[i])
            farthest, which = (beyond, k) if beyond < farthest else (farthest, which)
        if which >= 0:
            corners[count] = kept[which]
            count += 1
    return corners[:count]


@njit(fastmath=FLAGS)
def _keep_outer(
    keys: AnyArray, ids: IntArray, scale: float, highest: float, space: Workspace
) -> int:
    """Write the keys of the plane that may be largest somewhere into `kept`; return
    their number.
    """
    x, y, depth, kept, edges, m = (
        space.x,
        space.y,
        space.depth,
        space.kept,
        space.edges,
        len(ids),
    )
    for j in range(m):
        x[j], y[j] = keys[ids[j], 0] * scale, keys[ids[j], 1] * scale
    path, margin, few = space.path[:8], DEPTH * highest, 0
    _find_farthest(x, y, m, path)
    count = _find_edges(x, y, path, margin, edges)
    if count == 0:  # all keys are equal
        kept[:m] = ids
        return m
    _measure_depth(x, y, m, edges, count, depth)
    for j in range(m):
        kept[few] = j
        few += depth[j] < 0
    if few > 8:
        count = _find_edges(x, y, _add_corners(path, x, y, kept, few), margin, edges)
        for k in range(few):
            x[k], y[k] = x[kept[k]], y[kept[k]]  # kept[k] >= k
        _measure_depth(x, y, few, edges, count, depth)
        outer, few = few, 0
        for k in range(outer):
            kept[few] = kept[k]
            few += depth[k] < 0
    for k in range(few):
        kept[k] = ids[kept[k]]
    return few


@njit(fastmath=FLAGS)
def _load_rows(
    rows: AnyArray,
    ids: IntArray,
    top: int,
    scale: float,
    out: AnyArray,
    at: int,
    squares: AnyArray,
) -> None:
    """Write 16 scaled rows, those of ids[top:], as lanes, and their sums of squares;
    zeros for missing rows.
    """
    d, count = rows.shape[1], min(LANES, len(ids) - top)
    for lane in range(LANES):
        total = np.float32(0.0)
        if lane < count:
            row = rows[ids[top + lane]]
            for r in range(d):
                value = np.float32(row[r] * scale)
                out[at + r * LANES + lane] = value
                total += value * value
        else:
            for r in range(d):
                out[at + r * LANES + lane] = 0.0
        squares[lane] = total


@njit(fastmath=FLAGS)
def _pack_keys(keys: AnyArray, kept: IntArray, scale: float, space: Workspace) -> float:
    """Write scaled keys into panels of 16; return a bound of their lengths."""
    d, longest = keys.shape[1], np.float32(0.0)
    for top in range(0, len(kept), LANES):
        _load_rows(keys, kept, top, scale, space.panels, top * d, space.squares)
        for lane in range(LANES):
            longest = max(longest, space.squares[lane])
    return 1.000001 * (1 + d * UNIT32) * np.sqrt(np.float64(longest))


@njit(fastmath=FLAGS)
def _multiply(lanes: AnyArray, form: AnyArray, scale: float, out: AnyArray) -> None:
    """Multiply 16 queries by a scaled matrix."""
    d = len(form)
    out[:] = 0.0
    for r in range(d):
        for c in range(d):
            factor = np.float32(form[r, c] * scale)
            for lane in range(LANES):
                out[c * LANES + lane] += lanes[r * LANES + lane] * factor


@njit  # without FLAGS, see there
def _thresholds(
    d: int,
    longest: float,
    highest: float,
    error: float,
    scale: float,
    by: float,
    form: float,
) -> tuple[np.float32, np.float32, np.float32]:
    """Return the lead that decides in float32 as slope * |q| + base, and the least
    |q|^2 that it holds for.

    Errors of positions change a product by error (|q|_1 + |k|_1 + d error); see
    `exact.argmax.slack_of`. `form` is the length of the matrix by which queries are
    multiplied, or 0.
    """
    units = (2 * d + 8 if form else d + 4) * UNIT32
    slope = (
        1.01 * 2.02 * units * (1 + 2 * units) * longest * (form or 1.0)
        + 2.1 * np.sqrt(d) * error * scale
    )
    base = 2.1 * error * by * (np.sqrt(d) * longest + d * error * scale)
    least = 1.01 * MIN_QUERY * highest * by if error > 0 and d == 2 else 0.0
    return (
        np.float32(slope),
        np.float32(base),
        max(np.float32(least * least), MIN_SQUARE),
    )


@njit(fastmath=FLAGS)
def _length(form: AnyArray) -> float:
    """Return a bound of |A|_2, at least 1e-6."""
    square = 0.0
    for value in form.reshape(-1):
        square += np.float64(value) * np.float64(value)
    return max(1.000001 * np.sqrt(square), 1e-6)


@njit(fastmath=FLAGS)
def _load_query(
    query: AnyArray, form: AnyArray, highest: float, out: FloatArray
) -> float:
    """Write a query in float64, times the matrix if there is one; return what the error
    of that adds to the slack.
    """
    d, square = len(query), 0.0
    for r in range(d):
        out[r] = query[r]
        square += out[r] * out[r]
    if not len(form):
        return 0.0
    for r in range(d):
        out[r] = 0.0
        for s in range(d):
            out[r] += np.float64(query[s]) * np.float64(form[s, r])
    # The query is off by a vector of length (d + 1) UNIT |A|_F |z|, and |k| is at most
    # sqrt(d) `highest`.
    return (
        2.02 * (d + 2) * UNIT * _length(form) * np.sqrt(d * square) * highest + d * TINY
    )


@njit(fastmath=FLAGS)
def _compare(
    query: FloatArray,
    keys: AnyArray,
    kept: IntArray,
    highest: float,
    more: float,
    products: FloatArray,
) -> tuple[float, float, int]:
    """Write the float64 products with some keys; return the least that is near the
    largest, |q|_1, and the argmax.
    """
    best, size, argmax = -np.inf, 0.0, -1
    for r in range(len(query)):
        size += abs(query[r])
    for i in range(len(kept)):
        total = 0.0
        for r in range(len(query)):
            total += query[r] * np.float64(keys[kept[i], r])
        products[i] = total
        argmax = kept[i] if total > best else argmax
        best = max(best, total)
    return best - slack_of_products(len(query), highest, size) - more, size, argmax


@njit(fastmath=FLAGS)
def find_argmax(
    queries: AnyArray,
    keys: AnyArray,
    ids: IntArray,
    error: float,
    form: AnyArray,
    space: Workspace,
    argmax: AnyArray,
    clear: BoolArray,
) -> tuple[float, bool]:
    """Write for each query which of the keys `ids` has the largest product, and whether
    no other may have it.

    Queries and keys may be off by `error` in each coordinate, and queries are
    multiplied by the matrix `form` if it is not empty; not both. Returns the largest
    |coordinate| of a key, and whether all queries are clear: none is where numbers are
    not finite, or so large that their sums are not.
    """
    space = borrow(space)
    (n, d), all_clear = queries.shape, True
    highest, finite = _largest(keys, ids)
    scale = _choose_scale(keys, highest)
    by, by_form, length = scale, scale, 0.0
    if queries.ctypes.data != keys.ctypes.data or n != len(ids):
        size, also_finite = _largest(queries, space.order[:n])
        by, finite = _choose_scale(queries, size), finite & also_finite
    if len(form):
        by_form = _choose_scale(form, _largest(form, space.order[:0])[0])
        length = _length(form) * by_form
    if not finite:
        clear[:] = False
        return highest, False
    h, few = highest * scale, len(ids)
    if d == 2:
        few = _keep_outer(keys, ids, scale, h, space)
    else:
        space.kept[:few] = ids
    kept = space.kept[:few]
    slope, base, least = _thresholds(
        d, _pack_keys(keys, kept, scale, space), highest, error, scale, by, length
    )
    # The scale of the smallest keys is limited, and float32 underflows; with larger
    # errors the hull may be another.
    unsure = (h < 0.5) | ((d == 2) & (error > MAX_ERROR * highest))
    for top in range(0, n, LANES):
        count = min(LANES, n - top)
        _load_rows(queries, space.order[:n], top, by, space.lanes, 0, space.squares)
        lanes = space.lanes
        if len(form):
            _multiply(lanes, form, by_form, space.moved)
            lanes = space.moved
        for lane in range(LANES):
            space.best[lane] = space.second[lane] = -3e38
            space.winner[lane] = 0.0
        for start in range(0, few, LANES):
            offset = np.float32(start)
            panel_winners(
                lanes,
                space.panels,
                start * d,
                d,
                few - start,
                offset,
                space.best,
                space.second,
                space.winner,
            )
        for lane in range(count):
            square, i = space.squares[lane], top + lane
            argmax[i] = kept[int(space.winner[lane])]
            lead = slope * np.sqrt(square) + base
            clear[i] = (
                (space.best[lane] - space.second[lane] > lead)
                & (square > least)
                & (not unsure)
            )
            if clear[i]:
                continue
            more = _load_query(queries[i], form, highest, space.query)
            size = 0.0
            for r in range(d):
                size += abs(space.query[r])
            more += 2.02 * error * (size + d * highest + d * error)
            cut, size, argmax[i] = _compare(
                space.query, keys, kept, highest, more, space.products
            )
            near = 0
            for k in range(few):
                near += space.products[k] >= cut
            # With short queries keys deep inside may matter, too.
            deep = (d == 2) & (
                unsure
                | (size * highest < MIN_SIZE)
                | ((error > 0) & (size <= MIN_QUERY * highest))
            )
            clear[i] = (near == 1) & (not deep)
            all_clear &= clear[i]
    return highest, all_clear


@entry(fastmath=FLAGS)
def _search(
    queries: AnyArray,
    keys: AnyArray,
    mask: BoolArray,
    elements: IntArray,
    output: Output,
) -> None:
    """Find the near-maxima of some elements of queries (batch, n, d) among keys (batch,
    m, d).
    """
    (n, d), m = queries.shape[1:], keys.shape[1]
    space, seen, clear = allocate(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    for element in elements:
        count, used, rows = (
            list_seen(mask, element, m, seen),
            0,
            slice(element * n, element * n + n),
        )
        own, known, ids = queries[element], keys[element], seen[:count]
        first, sizes, same = output.first[rows], output.sizes[rows], output.same[rows]
        sizes[:], same[:], clear[:], highest, all_clear = 1, True, False, 0.0, False
        if count:
            highest, all_clear = find_argmax(
                own, known, ids, 0.0, known[:0], space, first, clear
            )
        room = output.members[output.starts[element] : output.starts[element + 1]]
        for i in range(0 if all_clear else n):
            if clear[i]:
                continue
            _load_query(own[i], known[:0], highest, space.query)
            cut = _compare(space.query, known, ids, highest, 0.0, space.products)[0]
            sizes[i], first[i] = 0, -1
            for k in range(count):
                if space.products[k] < cut:
                    continue
                first[i] = ids[k] if sizes[i] == 0 else first[i]
                for r in range(d):
                    same[i] &= known[ids[k], r] == known[first[i], r]
                if used + sizes[i] < len(room):
                    room[used + sizes[i]] = ids[k]
                sizes[i] += 1
            used += sizes[i] if sizes[i] > 1 else 0
        output.used[element] = used


def near_maxima_of_batch(
    queries: AnyArray,
    keys: AnyArray,
    mask: BoolArray | None = None,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """Return `scan.near_maxima_of_batch` without a slack, causality or limits."""
    (batch, n, _), m = queries.shape, keys.shape[1]
    seen = np.empty((0, 0), bool) if mask is None else as_plain(mask)
    search = partial(_search, as_plain(queries), as_plain(keys), seen)
    return collect_sets(search, batch * n, batch, n, float(queries.size) * m, most)
