"""Batches of small clouds in the plane: keys near the middle are left out, the few others are scanned in float64.

The keys that are farthest in eight directions make a closed path. If a key lies to the left of all its edges, by at
least r, the path goes round it, so the ray from it through any point of the disc of radius r around it meets an edge
beyond that point: the disc is inside the hull. Such a key is behind another one in each direction q by at least r |q|;
with r > slack / |q| it is never near-maximal.
"""

from typing import Any

import numpy as np
from numba import njit

from hardmax._integers import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.compiled import entry
from hardmax.kernels.lanes import FLAGS

BLOCK = 64  # queries at a time
FAINT = 1e-280  # |q| |k| below which slack is more than a few units of rounding
TINIEST = 1e-130  # coordinates whose squares keep all their digits
NONE = -1e308


@njit(fastmath=FLAGS)
def _farthest(x: FloatArray, y: FloatArray, path: IntArray) -> None:
    """Write the keys that are farthest in eight directions, counterclockwise."""
    east = north = northeast = southeast = west = south = southwest = northwest = NONE
    for j in range(len(x)):
        east, west = max(east, x[j]), max(west, -x[j])
        north, south = max(north, y[j]), max(south, -y[j])
        northeast, southwest = max(northeast, x[j] + y[j]), max(southwest, -x[j] - y[j])
        southeast, northwest = max(southeast, x[j] - y[j]), max(northwest, y[j] - x[j])
    path[:] = 0
    for j in range(len(x)):
        path[0] = j if x[j] == east else path[0]
        path[1] = j if x[j] + y[j] == northeast else path[1]
        path[2] = j if y[j] == north else path[2]
        path[3] = j if y[j] - x[j] == northwest else path[3]
        path[4] = j if -x[j] == west else path[4]
        path[5] = j if -x[j] - y[j] == southwest else path[5]
        path[6] = j if -y[j] == south else path[6]
        path[7] = j if x[j] - y[j] == southeast else path[7]


@njit(fastmath=FLAGS)
def outer(
    x: FloatArray,
    y: FloatArray,
    path: IntArray,
    depth: FloatArray,
    kx: FloatArray,
    ky: FloatArray,
    kept: IntArray,
    inside: float = 84 * UNIT,
) -> tuple[int, float]:
    """Copy the keys that may be largest somewhere; how many they are, and the largest |coordinate|.

    `path` and `depth` are work space. `kept` tells where each copy came from. A key is left out if it is deeper than
    `inside` times the largest |coordinate|; the default holds the slack of each |q|, and what is rounded here.
    """
    n = len(x)
    _farthest(x, y, path)
    highest = 0.0
    for e in range(8):
        highest = max(highest, max(abs(x[path[e]]), abs(y[path[e]])))
    depth[:n] = 1e308
    edges = 0
    for e in range(8):
        i, j = path[e], path[(e + 1) % 8]
        dx, dy = x[j] - x[i], y[j] - y[i]
        length = np.sqrt(dx * dx + dy * dy)
        if length > 0.0:
            edges += 1
            dx, dy, xi, yi = dx / length, dy / length, x[i], y[i]
            for k in range(n):
                depth[k] = min(depth[k], dx * (y[k] - yi) - dy * (x[k] - xi))
    margin = inside * highest if edges and highest > TINIEST else 1e308  # all keys at one place have no edges
    few = 0
    for k in range(n):
        kx[few], ky[few], kept[few] = x[k], y[k], k
        few += depth[k] < margin or margin == 1e308
    return few, highest


@njit(fastmath=FLAGS)
def _best(
    x: FloatArray, y: FloatArray, qx: FloatArray, qy: FloatArray, best: FloatArray, second: FloatArray, at: FloatArray
) -> None:
    """For a block of queries the largest product, the next one, and where the largest is."""
    for i in range(BLOCK):
        best[i], second[i], at[i] = NONE, NONE, 0.0
    for j in range(len(x)):
        kx, ky, place = x[j], y[j], float(j)
        for i in range(BLOCK):
            product = qx[i] * kx + qy[i] * ky
            second[i] = max(second[i], min(best[i], product))
            at[i] = place if product > best[i] else at[i]
            best[i] = max(best[i], product)


@njit(fastmath=FLAGS)
def _slack(x: float, y: float, highest: float) -> float:
    """As in `kernels.floating.slack_of`, without inherited errors."""
    return 2.02 * (6 * UNIT * highest * (abs(x) + abs(y)) + 2 * TINY)


@njit
def _tied(
    x: FloatArray, y: FloatArray, ids: IntArray, qx: float, qy: float, highest: float, room: IntArray
) -> tuple[int, bool]:
    """Write every near-maximal key, as far as there is room; how many they are, and whether they are all the same."""
    best, size, first, equal = NONE, 0, -1, True
    for j in range(len(x)):
        best = max(best, qx * x[j] + qy * y[j])
    cut = best - _slack(qx, qy, highest)
    for j in range(len(x)):
        if qx * x[j] + qy * y[j] >= cut:
            first = j if first < 0 else first
            equal &= x[j] == x[first] and y[j] == y[first]
            if size < len(room):
                room[size] = ids[j]
            size += 1
    return size, equal


@entry(fastmath=FLAGS)
def search(clouds: IntArray, queries: AnyArray, keys: AnyArray, mask: BoolArray, output: Any) -> None:
    """Find the near-maxima of some clouds of queries (clouds, n, 2) among keys (clouds, m, 2)."""
    n, m = queries.shape[1], keys.shape[1]
    x, y, ids = np.empty(m), np.empty(m), np.empty(m, np.intp)
    kx, ky, kept = np.empty(m + 1), np.empty(m + 1), np.empty(m + 1, np.intp)
    depth = np.empty(m)
    path = np.zeros(8, np.intp)
    qx, qy = np.zeros(BLOCK), np.zeros(BLOCK)
    best, second, at = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for cloud in clouds:
        count = 0
        for j in range(m):
            if mask.size == 0 or mask[cloud, j]:
                x[count], y[count], ids[count] = keys[cloud, j, 0], keys[cloud, j, 1], j
                count += 1
        output.used[cloud] = 0
        if count == 0:
            for i in range(n):
                output.first[cloud * n + i], output.sizes[cloud * n + i] = -1, 0
            continue
        few, highest = outer(x[:count], y[:count], path, depth, kx, ky, kept)
        for j in range(few):
            kept[j] = ids[kept[j]]
        room = output.members[output.starts[cloud] : output.starts[cloud + 1]]
        used = 0
        for top in range(0, n, BLOCK):
            these = min(BLOCK, n - top)
            for i in range(these):
                qx[i], qy[i] = queries[cloud, top + i, 0], queries[cloud, top + i, 1]
            _best(kx[:few], ky[:few], qx, qy, best, second, at)
            for i in range(these):
                row = cloud * n + top + i
                output.first[row], output.sizes[row] = kept[int(at[i])], 1
                faint = (abs(qx[i]) + abs(qy[i])) * highest < FAINT
                if faint or second[i] >= best[i] - _slack(qx[i], qy[i], highest):
                    if faint:  # then keys in the middle may matter, too
                        size, equal = _tied(x[:count], y[:count], ids, qx[i], qy[i], highest, room[used:])
                    else:
                        size, equal = _tied(kx[:few], ky[:few], kept, qx[i], qy[i], highest, room[used:])
                    output.sizes[row], output.equal[row] = size, equal
                    if used < len(room):
                        output.first[row] = room[used]
                    used += size if size > 1 else 0
        output.used[cloud] = used
