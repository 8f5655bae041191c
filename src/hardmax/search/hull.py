"""d = 2: the convex hull of the keys, and for each query a binary search by angle.

The largest product with q is at the vertex whose outward normals enclose q, so a query
costs log h for a hull of h vertices. Exactness needs more than the vertices: every key
that rounding cannot tell from the largest has to be found.

1. A polygon with vertices among the keys, from those that are farthest in eight
   directions.
2. The shell: keys that are not deeper than `depth` inside it. A key with a disc of that
   radius around it inside the polygon is behind it in each direction q by at least
   depth |q|. With depth > slack / |q| it is never near-maximal.
3. The chain: the shell in the order of the boundary. Key i is within `width` of a
   boundary point b_i, and <q, b> rises and falls once around the polygon. So from any
   start a walk to both sides that ends where the product is below best - slack - 2
   width |q| has seen every near-maximal key.

A polygon that misses vertices by rounding costs time, not correctness: (2) and (3)
measure what they rely on. Keys are scaled by the caller so that no coordinate exceeds
1; margins of 64 units of rounding rest on that.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import UNIT
from hardmax._types import FloatArray, IntArray
from hardmax.search.threads import Output, collect_sets, entry
from hardmax.sets import MAX_MEMBERS, Sets

MAX_WIDTH = 1e-2  # a walk along a wider band visits too many keys
# queries that need a deeper shell, because they are nearly zero, are left to another
# method
MAX_DEPTH = 1e-6
ALL = np.empty(0, np.intp)
MAX_BUCKETS = 1 << 16
QUERIES_PER_TASK = 2048
WORK_PER_QUERY = 1000  # multiplications that take as long


class Hull(NamedTuple):
    """The polygon, and the keys along its boundary."""

    # (h,) of the normals of its edges, counterclockwise, ascending, in [0, 4)
    angles: FloatArray
    chain: IntArray  # (c,) keys of the shell in the order of the boundary
    place: IntArray  # (h,) position in the chain at which the keys of each edge start
    width: float  # largest distance of a key of the chain from the boundary

    @classmethod
    def of(cls, keys: FloatArray, depth: float) -> "Hull | None":
        """Find the hull and all keys within `depth` of its boundary; None for
        degenerate polygons.
        """
        x, y = keys.T
        extremes = np.unique(
            [
                place
                for form in (x, y, x + y, x - y)
                for place in (form.argmax(), form.argmin())
            ]
        )
        rough = _polygon(keys, extremes)
        candidates = _shell(keys, ALL, rough, depth)[0]
        vertices = _polygon(keys, candidates)
        angles = _angles(keys, vertices)
        if len(vertices) < 2 or not (np.diff(angles) > 0).all():
            return None
        shell, edges, along, width = _shell(keys, candidates, vertices, depth)
        order = np.lexsort((along, edges))
        place = np.searchsorted(edges[order], np.arange(len(vertices))) % len(order)
        return cls(angles, shell[order], place, width) if width < MAX_WIDTH else None


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray) -> Sets:
    """Return `reference.near_maxima`; empty sets for queries near zero, or for all
    where the hull is degenerate.
    """
    n, depths = len(queries), find_depths(queries, slack)
    hull = Hull.of(keys, largest_depth(depths))
    if hull is None:
        return Sets(np.zeros(n + 1, np.intp), ALL)
    along = keys[hull.chain]
    count = min(max(64, 4 * len(hull.angles)), MAX_BUCKETS)
    buckets = np.searchsorted(
        hull.angles, np.arange(count + 1) * (4 / count)
    )  # where a search by angle starts
    walk, tasks = (
        partial(_walk, queries, slack, depths, hull, along, buckets),
        -(-n // QUERIES_PER_TASK),
    )
    return collect_sets(
        walk, n, tasks, QUERIES_PER_TASK, float(n * WORK_PER_QUERY), MAX_MEMBERS
    )[0]


def find_depths(queries: FloatArray, slack: FloatArray) -> FloatArray:
    """Return how deep inside the hull a near-maximal key can lie for each query:
    (rows,), at least 1 for q = 0.
    """
    lengths = np.maximum(
        np.maximum(np.abs(queries[:, 0]), np.abs(queries[:, 1])), 5e-324
    )  # at most |q|
    with np.errstate(over="ignore"):
        return np.asarray((slack + 5e-324) / lengths)


def largest_depth(depths: FloatArray) -> float:
    """Return how deep a shell has to be for all queries that are not nearly zero,
    rounding included.
    """
    return 1.01 * float(depths[depths < MAX_DEPTH].max(initial=0.0)) + 64 * UNIT


@entry()
def _polygon(keys: FloatArray, some: IntArray) -> IntArray:
    """Return the vertices of the hull of some keys, counterclockwise, by Andrew's
    monotone chain with certain turns.

    They start at the edge whose normal has the smallest angle.
    """
    some = some[np.argsort(keys[some, 1], kind="mergesort")]
    some = some[np.argsort(keys[some, 0], kind="mergesort")]
    c = len(some)
    stack = np.empty(2 * c + 2, np.intp)
    size = 0
    for half in range(2):
        base = size
        for step in range(c):
            i = some[step] if half == 0 else some[c - 1 - step]
            while size - base >= 2 and not _turns_left(
                keys, stack[size - 2], stack[size - 1], i
            ):
                size -= 1
            stack[size] = i
            size += 1
        size -= 1  # the last of this half is the first of the next
    size = max(size, 1)
    if (
        size == 2
        and keys[stack[0], 0] == keys[stack[1], 0]
        and keys[stack[0], 1] == keys[stack[1], 1]
    ):
        size = 1
    vertices = stack[:size].copy()
    return np.roll(vertices, -np.argmin(_angles(keys, vertices)))


@njit(inline="always")
def _turns_left(keys: FloatArray, i: int, j: int, k: int) -> bool:
    """Return whether i, j, k turn left beyond the rounding of this determinant."""
    one = (keys[j, 0] - keys[i, 0]) * (keys[k, 1] - keys[i, 1])
    other = (keys[j, 1] - keys[i, 1]) * (keys[k, 0] - keys[i, 0])
    return one - other > 4 * UNIT * (abs(one) + abs(other))


@njit(inline="always")
def _angle(x: float, y: float) -> float:
    """Return a number in [0, 4) that grows with the angle of (x, y), without
    trigonometry.
    """
    size = abs(x) + abs(y)
    p = y / size if size > 0 else 0.0
    if x < 0:
        return 2.0 - p
    return p if y >= 0 else 4.0 + p


@entry()
def _angles(keys: FloatArray, vertices: IntArray) -> FloatArray:
    """Return the angles of the outward normals of the edges."""
    h = len(vertices)
    angles = np.empty(h)
    for e in range(h):
        i, j = vertices[e], vertices[(e + 1) % h]
        angles[e] = _angle(keys[j, 1] - keys[i, 1], keys[i, 0] - keys[j, 0])
    return angles


@entry()
def _shell(
    keys: FloatArray, some: IntArray, vertices: IntArray, depth: float
) -> tuple[IntArray, IntArray, FloatArray, float]:
    """Return which of some keys (of all if none is named) are not deeper than `depth`
    inside the polygon.

    With c a centre, the gauge s of a key is the largest <n_e, k - c> / <n_e, v_e - c>
    over the edges, taken at the edge that the ray from c through the key meets. A disc
    of radius r around c inside the polygon puts one of radius (1 - s) r around the key
    inside it, by convexity. Also returns the edge of each, its position along it, and
    the largest distance from the boundary.
    """
    h = len(vertices)
    x0, y0 = keys[vertices, 0].mean(), keys[vertices, 1].mean()
    rays = np.empty(
        h
    )  # angles of the vertices as seen from the centre, from the smallest on
    turn = 0
    for e in range(h):
        rays[e] = _angle(keys[vertices[e], 0] - x0, keys[vertices[e], 1] - y0)
        if rays[e] < rays[turn]:
            turn = e
    rays = np.roll(rays, -turn)
    convex = h >= 3
    radius = np.inf
    gauges = np.empty((h, 2))
    for e in range(h):
        i, j = vertices[e], vertices[(e + 1) % h]
        x, y = keys[j, 1] - keys[i, 1], keys[i, 0] - keys[j, 0]
        length = max(np.hypot(x, y), 1e-300)
        x, y = x / length, y / length
        out = min(
            x * (keys[i, 0] - x0) + y * (keys[i, 1] - y0),
            x * (keys[j, 0] - x0) + y * (keys[j, 1] - y0),
        )
        radius = min(radius, out)
        gauges[e, 0], gauges[e, 1] = x / max(out, 1e-300), y / max(out, 1e-300)
        convex &= e == 0 or rays[e] > rays[e - 1]
    convex &= radius > 1e-9  # else no key counts as inside
    inside = 1.0 - (depth + 64 * UNIT) / radius - 64 * UNIT if convex else -np.inf
    disc = (inside * radius) ** 2 * (1 - 16 * UNIT) if inside > 0 else 0.0
    count = len(some) if len(some) else len(keys)
    found = np.empty(count, np.intp)
    edges = np.empty(count, np.intp)
    along = np.empty(count)
    width, n = 0.0, 0
    for position in range(count):
        key = some[position] if len(some) else position
        x, y = keys[key, 0] - x0, keys[key, 1] - y0
        if x * x + y * y < disc:
            continue
        e = (_first_not_below(rays, _angle(x, y), 0, h) + turn - 1) % h
        gauge, distance = -np.inf, np.inf
        for f in (
            e,
            (e + 1) % h,
            (e - 1) % h,
        ):  # with neighbours, as rounding may have turned the ray past a vertex
            gauge = max(gauge, gauges[f, 0] * x + gauges[f, 1] * y)
            i, j = vertices[f], vertices[(f + 1) % h]
            dx, dy = keys[j, 0] - keys[i, 0], keys[j, 1] - keys[i, 1]
            px, py = keys[key, 0] - keys[i, 0], keys[key, 1] - keys[i, 1]
            t = min(max((px * dx + py * dy) / max(dx * dx + dy * dy, 1e-300), 0.0), 1.0)
            away = np.hypot(px - t * dx, py - t * dy)
            if away < distance:
                distance, edges[n], along[n] = away, f, t
        if gauge >= inside:
            found[n] = key
            width = max(width, distance)
            n += 1
    return found[:n], edges[:n], along[:n], width + 32 * UNIT


@njit(inline="always")
def _first_not_below(
    ascending: FloatArray, value: float, below: int, above: int
) -> int:
    while below < above:
        middle = (below + above) // 2
        if ascending[middle] < value:
            below = middle + 1
        else:
            above = middle
    return below


@entry()
def _walk(
    queries: FloatArray,
    slacks: FloatArray,
    depths: FloatArray,
    hull: Hull,
    along: FloatArray,
    buckets: IntArray,
    tasks: IntArray,
    output: Output,
) -> None:
    """Find the near-maxima of the queries of some tasks; none where a query is nearly
    zero.
    """
    angles, chain, width = hull.angles, hull.chain, 2.02 * hull.width
    n, c, h, scale = len(queries), len(along), len(angles), (len(buckets) - 1) / 4
    for task in tasks:
        room, used = output.members[output.starts[task] : output.starts[task + 1]], 0
        for i in range(task * QUERIES_PER_TASK, min(n, (task + 1) * QUERIES_PER_TASK)):
            x, y = queries[i, 0], queries[i, 1]
            output.first[i], output.sizes[i] = -1, 0
            if not depths[i] < MAX_DEPTH:
                continue
            angle, slack = _angle(x, y), slacks[i]
            bucket = min(int(angle * scale), len(buckets) - 2)
            edge = _first_not_below(angles, angle, buckets[bucket], buckets[bucket + 1])
            low = high = start = hull.place[edge if edge < h else 0]
            best = x * along[low, 0] + y * along[low, 1]
            reach = slack + width * (abs(x) + abs(y))
            while high - low < c - 1:
                k = (
                    high + 1 if high + 1 < c else high + 1 - c
                )  # a remainder would take longer than the rest
                product = x * along[k, 0] + y * along[k, 1]
                if product < best - reach:
                    break
                best = max(best, product)
                high += 1
            while high - low < c - 1:
                k = low - 1 if low > 0 else low - 1 + c
                product = x * along[k, 0] + y * along[k, 1]
                if product < best - reach:
                    break
                best = max(best, product)
                low -= 1
            first, size = chain[start], 1
            if high > low:
                size = 0
                for position in range(low, high + 1):
                    k = position % c
                    if x * along[k, 0] + y * along[k, 1] >= best - slack:
                        first = chain[k]
                        if used + size < len(room):
                            room[used + size] = first
                        size += 1
                if size > 1 and used + size <= len(room):
                    room[used : used + size].sort()
                    first = room[used]
                used += size if size > 1 else 0
            output.first[i], output.sizes[i] = first, size
        output.used[task] = used
