"""Small clouds in the plane: keys near the middle are left out, the few others are scanned in float64.

The keys that are farthest in eight directions make a closed path. If a key lies to the left of all its edges, by at
least r, the path goes round it, so the ray from it through any point of the disc of radius r around it meets an edge
beyond that point: the disc is inside the hull. Such a key is behind another one in each direction q by at least r |q|;
with r > slack / |q| it is never near-maximal.
"""

from typing import TypeAlias

import numpy as np
from numba import njit

from hardmax._integers import UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels.lanes import FLAGS
from hardmax.kernels.panels import slack_of_products

BLOCK = 64  # queries at a time
FAINT = 1e-280  # |q| |k| below which slack is more than a few units of rounding
TINIEST = 1e-130  # coordinates whose squares keep all their digits
DEEP = 1e-9  # how deep inside a key must be to be left out where positions have errors of 1e-14 or so ...
FAR = 1e-4  # ... for queries of at least this size: DEEP * FAR is far more than those
NONE = -1e308

WorkSpace: TypeAlias = tuple[AnyArray, ...]


@njit(fastmath=FLAGS)
def farthest(x: FloatArray, y: FloatArray, path: IntArray) -> None:
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
def _outer(
    x: FloatArray,
    y: FloatArray,
    path: IntArray,
    depth: FloatArray,
    kx: FloatArray,
    ky: FloatArray,
    kept: IntArray,
    inside: float,
) -> tuple[int, float]:
    """Copy the keys that may be largest somewhere; how many they are, and the largest |coordinate|.

    `path` and `depth` are work space. `kept` tells where each copy came from. A key is left out if it is deeper than
    `inside` times the largest |coordinate|.
    """
    n = len(x)
    farthest(x, y, path)
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


@njit
def work_space(m: int) -> WorkSpace:
    """For one cloud of up to m keys: these, those that may be largest and where they come from, and a block."""
    keys = np.empty(m), np.empty(m)
    outer = np.empty(m + 1), np.empty(m + 1), np.empty(m + 1, np.intp), np.empty(m), np.zeros(8, np.intp)
    block = np.zeros(BLOCK), np.zeros(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    return keys + outer + block


@njit(fastmath=FLAGS)
def winners(
    queries: AnyArray,
    keys: AnyArray,
    ids: IntArray,
    error: float,
    space: WorkSpace,
    follows: AnyArray,
    clear: BoolArray,
) -> float:
    """Write for each query which of the keys `ids` has the largest product, and whether no other one may have it.

    Queries and keys may be off by `error` in each coordinate. Returns the largest |coordinate| of a key.
    """
    x, y, kx, ky, kept, depth, path, qx, qy, best, second, at = space
    n, m = len(queries), len(ids)
    for j in range(m):
        x[j], y[j] = keys[ids[j], 0], keys[ids[j], 1]
    # 84 units hold the slack of each |q|, and what is rounded here.
    few, highest = _outer(x[:m], y[:m], path, depth, kx, ky, kept, DEEP if error > 0 else 84 * UNIT)
    for top in range(0, n, BLOCK):
        these = min(BLOCK, n - top)
        for i in range(these):
            qx[i], qy[i] = queries[top + i, 0], queries[top + i, 1]
        _best(kx[:few], ky[:few], qx, qy, best, second, at)
        for i in range(these):
            size = abs(qx[i]) + abs(qy[i])
            moved = 2.02 * error * (size + 2 * highest + 2 * error)  # by errors of positions; see `floating.slack_of`
            good = second[i] < best[i] - slack_of_products(2, highest, size) - moved
            follows[top + i] = ids[kept[int(at[i])]]
            # With faint queries keys in the middle may matter, too.
            clear[top + i] = good & (size * highest >= FAINT) & ((error == 0) | (size > FAR * highest))
    return highest
