"""Small clouds in the plane: keys near the middle are left out, the few others are scanned in float32.

Some of the keys that are farthest make a closed path. If a key lies to the left of all its edges, by at least r, the
path goes round it, so the ray from it through any point of the disc of radius r around it meets an edge beyond that
point: the disc is inside the hull. Such a key is behind another one in each direction q by at least r |q|; with
r > slack / |q| it is never near-maximal. The path goes through the farthest keys in eight directions, then through the
farthest beyond each of its edges.

Keys and queries are scaled by powers of two to at most 4, so that float32 holds them with a relative error of
u = 2^-24. A product then has an error of at most 4 u |q|_1 h, where h is the largest |coordinate| of a key: a key that
leads by more than twice that has won. The few other queries are asked again in float64.
"""

from typing import TypeAlias

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, lowest, to_one
from hardmax.search.panels import slack_of_products
from hardmax.search.plane_lanes import at_ends, best_in_plane, beyond, ends_of

LEAD = np.float32(12 * 2.0**-24)  # times |q|_1 h: by how much a key must lead in float32
TINIEST = 1e-20  # |q|_1, scaled, from which numbers below the range of float32 do not matter
DEEP = 8e-6  # times h: how deep inside a key must be to be left out; a quarter of it may be rounding
FAINT = 1e-280  # |q| |k| below which slack is more than a few units of rounding
FAR = 1e-4  # times h: where positions have errors, the size of a query from which keys that deep do not matter ...
STRAY = 1e-11  # ... for errors of at most this times h: 6 STRAY is less than 6e-6 of FAR
NONE = -1e308

Arrays: TypeAlias = tuple[AnyArray, ...]
WorkSpace: TypeAlias = tuple[Arrays, Arrays, AnyArray]


@njit(fastmath=FLAGS)
def _scaled(points: AnyArray, ids: IntArray, x: AnyArray, y: AnyArray) -> tuple[float, float]:
    """Copy points in float32, the last one until a panel is full; their largest |coordinate|, and what it was times.

    They are those of `ids`, which ascend; all if there are none.
    """
    m, highest = len(ids), 0.0
    if m == 0 or m == len(points):
        m = len(points)
        for j in range(m):
            highest = max(highest, max(abs(np.float64(points[j, 0])), abs(np.float64(points[j, 1]))))
        scale = to_one(highest)
        for j in range(m):
            x[j], y[j] = points[j, 0] * scale, points[j, 1] * scale
    else:
        for j in ids:
            highest = max(highest, max(abs(np.float64(points[j, 0])), abs(np.float64(points[j, 1]))))
        scale = to_one(highest)
        for j in range(m):
            x[j], y[j] = points[ids[j], 0] * scale, points[ids[j], 1] * scale
    for j in range(m, (m + LANES - 1) // LANES * LANES):
        x[j], y[j] = x[m - 1], y[m - 1]
    return highest, scale


@njit(fastmath=FLAGS)
def _farthest(x: AnyArray, y: AnyArray, m: int, ends: AnyArray, path: IntArray) -> None:
    """Write the keys that are farthest in eight directions, counterclockwise."""
    panels = (m + LANES - 1) // LANES
    ends_of(x, y, panels, ends)
    path[:] = 0
    for top in range(0, m, LANES):
        found = at_ends(x, y, top, ends)
        while found:
            j = min(top + lowest(found), m - 1)
            found &= found - 1
            total, difference = x[j] + y[j], x[j] - y[j]
            path[0] = j if x[j] >= ends[0] else path[0]
            path[1] = j if total >= ends[2] else path[1]
            path[2] = j if y[j] >= ends[1] else path[2]
            path[3] = j if -difference >= ends[7] else path[3]
            path[4] = j if -x[j] >= ends[4] else path[4]
            path[5] = j if -total >= ends[6] else path[5]
            path[6] = j if -y[j] >= ends[5] else path[6]
            path[7] = j if difference >= ends[3] else path[7]


@njit(fastmath=FLAGS)
def _edges(x: AnyArray, y: AnyArray, path: IntArray, margin: float, edges: AnyArray) -> int:
    """Write (a, b, c) of each edge of a closed path; how many they are.

    a x + b y + c > 0 for points deeper than `margin` to its left, or a bit deeper, where an edge is not upright.
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
def _sift(
    x: AnyArray, y: AnyArray, m: int, edges: AnyArray, count: int, kx: AnyArray, ky: AnyArray, at: IntArray
) -> int:
    """Copy those of m keys that are not to the left of all edges, with where they stand; how many they are."""
    few = 0
    for top in range(0, m, LANES):
        found = beyond(x, y, top, edges, count)
        while found:
            k = top + lowest(found)
            found &= found - 1
            kx[few], ky[few], at[few] = x[k], y[k], k
            few += k < m
    return few


@njit(fastmath=FLAGS)
def _with_corners(
    path: IntArray, x: AnyArray, y: AnyArray, kx: AnyArray, ky: AnyArray, kept: IntArray, few: int, corners: IntArray
) -> int:
    """Write the path, and behind each of its keys the one of few others that is farthest beyond the edge to the next.

    Returns how long it is now.
    """
    count = 0
    for e in range(len(path)):
        i, j = path[e], path[(e + 1) % len(path)]
        corners[count] = i
        count += 1
        dx, dy, farthest, which = x[j] - x[i], y[j] - y[i], np.float32(0.0), -1
        for k in range(few):
            depth = dx * (ky[k] - y[i]) - dy * (kx[k] - x[i])
            farthest, which = (depth, k) if depth < farthest else (farthest, which)
        if which >= 0:
            corners[count] = kept[which]
            count += 1
    return count


@njit(fastmath=FLAGS)
def _outer(x: AnyArray, y: AnyArray, m: int, highest: float, space: Arrays) -> int:
    """Copy the keys that may be largest somewhere, with `kept` to tell where each came from; how many they are."""
    kx, ky, kept, path, corners, edges, ends, at = space
    _farthest(x, y, m, ends, path)
    margin = DEEP * highest
    count = _edges(x, y, path, margin, edges)
    if count == 0:  # all keys are at one place
        for k in range(m):
            kx[k], ky[k], kept[k] = x[k], y[k], k
        return m
    few = _sift(x, y, m, edges, count, kx, ky, kept)
    if few > len(path):
        longer = _with_corners(path, x, y, kx, ky, kept, few, corners)
        few = _sift(kx, ky, few, edges, _edges(x, y, corners[:longer], margin, edges), kx, ky, at)
        for k in range(few):
            kept[k] = kept[at[k]]
    return few


@njit
def work_space(n: int, m: int) -> WorkSpace:
    """For one cloud of up to n queries and m keys: these, the keys that may be largest and what finds them, and 16."""
    queries, keys = (n + LANES - 1) // LANES * LANES, (m + LANES - 1) // LANES * LANES
    points = _singles(keys), _singles(keys), _singles(queries), _singles(queries)
    outer = _singles(keys + 1), _singles(keys + 1), np.empty(keys + 1, np.intp), np.empty(8, np.intp)
    found = np.empty(16, np.intp), _singles(48), _singles(8), np.empty(keys + 1, np.intp)
    return points, outer + found, np.empty(LANES, np.int32)


@njit
def _singles(count: int) -> AnyArray:
    return np.empty(count, np.float32)


@njit(fastmath=FLAGS)
def _best(qx: float, qy: float, keys: AnyArray, kept: IntArray) -> tuple[float, float, int]:
    """The largest product in float64, the next one, and which key has the largest."""
    best, second, at = NONE, NONE, -1
    for k in kept:
        product = qx * np.float64(keys[k, 0]) + qy * np.float64(keys[k, 1])
        second = max(second, min(best, product))
        at = k if product > best else at
        best = max(best, product)
    return best, second, at


@njit  # without FLAGS, see there
def _thresholds(h: float, highest: float, error: float, scale: float, by: float) -> tuple[np.float32, ...]:
    """Return the lead that decides in float32, as slope * |q|_1 + base, and the |q|_1 up to which it does not.

    Errors of positions change a product by error (|q|_1 + |k|_1 + 2 error); see `floating.slack_of`.
    """
    slope, base = LEAD * h + 2.1 * error * scale, 4.2 * error * by * (h + error * scale)
    return np.float32(slope), np.float32(base), np.float32(TINIEST if error == 0 else 1.01 * FAR * highest * by)


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

    Queries and keys may be off by `error` in each coordinate. Returns the largest |coordinate| of a key, and whether
    all queries are clear.
    """
    (x, y, qx, qy), (kx, ky, kept), at = space[0], space[1][:3], space[2]
    n, m = len(queries), len(ids)
    highest, scale = _scaled(keys, ids, x, y)
    by = scale
    if n == m == len(keys) and queries.ctypes.data == keys.ctypes.data:
        qx, qy = x, y
    else:
        by = _scaled(queries, ids[:0], qx, qy)[1]
    h = highest * scale
    few = _outer(x, y, m, h, space[1])
    for k in range(few):
        kept[k] = ids[kept[k]]
    clear[:], all_clear = True, True
    slope, base, least = _thresholds(h, highest, error, scale, by)
    stray = (error > STRAY * highest) | (h < 0.5)  # the scale of the smallest keys is limited, and float32 underflows
    for top in range(0, n, LANES):
        doubt = best_in_plane(qx, qy, top, kx, ky, few, slope, base, least, at)
        for lane in range(min(LANES, n - top)):
            follows[top + lane] = kept[at[lane]]
        doubt = (1 << LANES) - 1 if stray else doubt
        while doubt:
            i = min(top + lowest(doubt), n - 1)
            doubt &= doubt - 1
            x_i, y_i = np.float64(queries[i, 0]), np.float64(queries[i, 1])
            first, next_one, follows[i] = _best(x_i, y_i, keys, kept[:few])
            size = abs(x_i) + abs(y_i)
            moved = 2.02 * error * (size + 2 * highest + 2 * error)
            good = next_one < first - slack_of_products(2, highest, size) - moved
            # With faint queries keys in the middle may matter, too.
            near = stray | ((error > 0) & (size <= FAR * highest))
            clear[i] = good & (size * highest >= FAINT) & ~near
            all_clear &= clear[i]
    return highest, all_clear
