"""Few dimensions: a tree of the keys, and for 16 neighbouring queries at a time the few panels that may hold a maximum.

Keys are in panels of 16 neighbours, about the middle of the box around them and scaled as in `fused`, and so are
queries, by their directions. A node is left out where its bound for each of the 16 queries is below their best product
so far, so that tokens on a sphere, which are all equally far, cost no more than others.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.kernels.compiled import Output, entry, share, written_sets
from hardmax.kernels.lanes import FLAGS, LANES, SMALLEST, above, borrowed, lowest, panel_maxima, panel_winners
from hardmax.kernels.panel_search import LEAST, SINGLE, Queries, begin, keep, load, sixteen, work_space
from hardmax.kernels.panels import centre_of
from hardmax.kernels.sets import MOST, Sets
from hardmax.kernels.tree_choice import is_shell
from hardmax.kernels.tree_lanes import close, closest, promises, within_reach
from hardmax.kernels.tree_nodes import Tree, empty_tree, fill, measure
from hardmax.kernels.tree_order import arrange, arrange_part

PART = 1024  # panels that a thread brings in order at a time
TASK = 512  # queries that a thread takes at a time
EFFORT = 400.0  # multiplications that take as long as a query, or a key
FAINT = np.float32(2.0**-120)  # more than products of the smallest numbers lose
DEPTH = 16 * LANES  # nodes that wait at most
COUNTED = 1 << 20  # panels whose keys are counted in float32


@entry(fastmath=FLAGS)
def _begin(
    numbers: IntArray,
    queries: FloatArray,
    keys: FloatArray,
    asked: AnyArray,
    points: AnyArray,
    asked_ids: AnyArray,
    ids: AnyArray,
    scales: FloatArray,
) -> None:
    """Scale the queries (number 0) or the keys (1), and bring parts of them in order."""
    d = keys.shape[1]
    for number in numbers:
        if number == 0:
            for i in range(len(queries)):
                largest = SMALLEST
                for r in range(d):
                    largest = max(largest, abs(queries[i, r]))
                for r in range(d):
                    asked[i, r] = np.float32(queries[i, r] / largest)
                asked_ids[i] = i
            arrange(asked, asked_ids, 0, (len(asked) + LANES - 1) // LANES, PART)
        else:
            for i in range(len(keys)):
                ids[i] = i
            centre = np.empty(d)
            highest, spread = centre_of(keys, ids[: len(keys)], centre)
            scale = 1.0 / max(spread, SMALLEST)
            scales[0], scales[1] = scale, highest
            for i in range(len(keys)):
                for r in range(d):
                    points[i, r] = np.float32((keys[i, r] - centre[r]) * scale)
            arrange(points, ids, 0, (len(points) + LANES - 1) // LANES, PART)


@entry(fastmath=FLAGS)
def _order(
    numbers: IntArray,
    parts: int,
    keys: FloatArray,
    asked: AnyArray,
    points: AnyArray,
    asked_ids: AnyArray,
    ids: AnyArray,
    tree: Tree,
) -> None:
    """Bring parts of the keys in order and measure them, or from number `parts` on parts of the queries."""
    for number in numbers:
        if number < parts:
            first, last = number * PART, min(number * PART + PART, len(tree.order) // LANES)
            arrange_part(points, ids, first, last)
            fill(tree, keys, points, ids, first, last)
            measure(tree, keys.shape[1], first, last, 0, PART)
        else:
            first = (number - parts) * PART
            arrange_part(asked, asked_ids, first, min(first + PART, (len(asked) + LANES - 1) // LANES))


class Cone(NamedTuple):
    """Where 16 queries are, each over its length, and a key o with which others are compared."""

    p: AnyArray  # (d,) float32, the middle of the box around them
    f: AnyArray  # (d,) float32, its sides
    o: AnyArray  # (d,) float32
    none: AnyArray  # (d,) zeros
    u: AnyArray  # (d,) float32, the middle for queries that are as long as o
    sides: AnyArray  # (d,) float32, and the sides
    each: AnyArray  # (d * 16,) float32, these queries
    slopes: AnyArray  # (16,) float32, see `_aim`
    bases: AnyArray  # (16,) float32
    wide: AnyArray  # (16,) float32, how far below its best a query looks at panels
    second: AnyArray  # (16,) float32, the best product but one
    at: AnyArray  # (16,) float32, where the best is: among the panels seen, times 16, and in its panel
    bounds: AnyArray  # (16,) work space
    waiting: IntArray  # (DEPTH, 2) nodes: their level, and which of it


@njit(inline="always")
def _cone(d: int) -> Cone:
    """Allocate."""
    few, lanes = np.zeros((6, d), np.float32), np.empty((6, LANES), np.float32)
    return Cone(
        few[0],
        few[1],
        few[2],
        few[3],
        few[4],
        few[5],
        np.empty(d * LANES, np.float32),
        lanes[0],
        lanes[1],
        lanes[2],
        lanes[3],
        lanes[4],
        lanes[5],
        np.empty((DEPTH, 2), np.intp),
    )


@njit(inline="always", fastmath=FLAGS)
def _enclose(d: int, cone: Cone, some: Queries) -> np.float32:
    """Find the box around 16 queries; return by how much, over the length of a query, products may differ in float32.

    f has what float32 may round in the bounds: 3 d + 10 units of sums of (|p_r| + 2 |t| |m_r|) (|c_r - o_r| + e_r).
    `wide` has it for one query: |m| is about 1, and the bound holds for any t, so that rounding t is free. Keys and so
    |c_r| + e_r are 1 at most. Each term of the bound goes through 2 d + 5 roundings at most. In units of sqrt(d) |q|
    that is 3 (2 d + 5), with the d of the product that it is compared with less than 8 (d + 2).
    """
    unit = np.float32(1.2 * (3 * d + 10) * (1 + 2.1 * np.sqrt(d)) * SINGLE)
    for r in range(d):
        low, high = np.float32(2), np.float32(-2)
        for lane in range(LANES):
            value = some.coarse[r * LANES + lane] / some.length[lane]
            low, high = min(low, value), max(high, value)
        cone.p[r] = np.float32(0.5) * (low + high)
        cone.f[r] = np.float32(0.5) * (high - low) + unit
    margin, steep = np.float32(0), np.float32(8 * (d + 2) * SINGLE * np.sqrt(d))
    for lane in range(LANES):
        cone.wide[lane] = some.margin[lane] + steep * some.length[lane] + FAINT
        margin = max(margin, some.margin[lane] / some.length[lane])
        cone.second[lane], cone.at[lane] = -np.inf, np.float32(0)
    return margin


@njit(inline="always", fastmath=FLAGS)
def _guess(tree: Tree, d: int, cone: Cone) -> int:
    """Go to the panel that promises most for the middle of the queries."""
    level, node, size = len(tree.groups) - 1, 0, (3 * d + 3) * LANES
    p, none, bounds = cone.p, cone.none, cone.bounds
    while level >= 0:
        within_reach(tree.nodes, (tree.groups[level] + node) * size, d, p, none, none, np.float32(0), bounds)
        node *= LANES
        best = 0
        for child in range(1, min(LANES, tree.counts[level] - node)):
            best = child if bounds[child] > bounds[best] else best
        node, level = node + best, level - 1
    return node


@njit(inline="always", fastmath=FLAGS)
def _aim(tree: Tree, d: int, cone: Cone, panel: int, some: Queries) -> np.float32:
    """Take the best key of a panel for o; return by how much the squares of distances may exceed those of lengths.

    A key k that may be near-maximal has a float32 product of at least best - margin, which is off by d units of |q|_1.
    With l = |o| and u = l q / |q|, where any number that is used for |q| is as good,

        |u - k|^2 = |u|^2 + |k|^2 - (2 l / |q|) <q, k> <= |k|^2 + base - slope best.

    The base has what is rounded of it: d + 7 units of |u|^2 <= l^2, and 5 of slope best <= 2 l sqrt(d). The distance of
    u from a box, which is at most |u - k|, is off by 9 sqrt(d) units, and its square by a thousandth and a thousand
    times the square of that, 2e-9; and by d + 3 units of itself.
    """
    at, best, length, bounds = panel * d * LANES, 0, np.float32(0), cone.bounds
    for lane in range(LANES):
        bounds[lane] = np.float32(0)
        cone.bases[lane] = np.float32(0)
    for r in range(d):
        for lane in range(LANES):
            bounds[lane] += cone.p[r] * tree.coarse[at + r * LANES + lane]
    for lane in range(1, LANES):
        best = lane if bounds[lane] > bounds[best] else best
    for r in range(d):
        cone.o[r] = tree.coarse[at + r * LANES + best]
        length += cone.o[r] * cone.o[r]
    length = max(np.sqrt(length), LEAST)
    for lane in range(LANES):
        cone.slopes[lane] = length / some.length[lane]
    for r in range(d):
        cone.u[r], cone.sides[r] = length * cone.p[r], length * cone.f[r]
        for lane in range(LANES):
            value = some.coarse[r * LANES + lane] * cone.slopes[lane]
            cone.each[r * LANES + lane] = value
            cone.bases[lane] += value * value
    reach, root = np.float32(-np.inf), np.sqrt(np.float32(d))
    lost = np.float32(SINGLE) * length * (np.float32(d + 8) * length + np.float32(10.5) * root) + np.float32(4e-9)
    steep = np.float32(1.05 * SINGLE * d) * root
    for lane in range(LANES):
        cone.slopes[lane] *= np.float32(2)
        wide = np.float32(1.00001) * (some.margin[lane] + steep * some.length[lane]) + FAINT
        cone.bases[lane] += lost + cone.slopes[lane] * wide
        reach = max(reach, cone.bases[lane] - cone.slopes[lane] * some.best[lane])
    return reach


@njit(fastmath=FLAGS)
def _look(tree: Tree, d: int, cone: Cone, guess: int, seen: IntArray, some: Queries) -> int:
    """Scan every panel that may hold a near-maximum of one of 16 queries; return how many.

    A near-maximal key k has <q, k - o> >= -2 margin: its float32 product is at most `margin` behind the best, which is
    not behind that of o, and half of the margin is more than both may be off.
    """
    tree, cone, some = borrowed(tree), borrowed(cone), borrowed(some)
    least, size = np.float32(-2.0001) * _enclose(d, cone, some), (3 * d + 3) * LANES
    guess, found, count, waiting, keys = guess if guess >= 0 else _guess(tree, d, cone), 1, 1, cone.waiting, some.limits[0]
    seen[0] = guess
    _scan(tree, d, guess, keys, 0, cone, some)
    reach = _aim(tree, d, cone, guess, some)
    waiting[0, 0], waiting[0, 1] = len(tree.groups) - 1, 0
    while count:
        count -= 1
        level, node = waiting[count, 0], waiting[count, 1]
        at = (tree.groups[level] + node) * size
        node *= LANES
        children = close(tree.nodes, at, d, cone.u, cone.sides, reach)
        children &= (1 << min(LANES, tree.counts[level] - node)) - 1
        if children:
            children &= within_reach(tree.nodes, at, d, cone.p, cone.f, cone.o, least, cone.bounds)
        while children:
            child = node + lowest(children)
            children &= children - 1
            if level:
                waiting[count, 0], waiting[count, 1] = level - 1, child
                count += 1
            elif (
                child != guess
                and closest(cone.each, tree.nodes, at + child - node, d, some.best, cone.slopes, cone.bases)
                and promises(some.coarse, tree.nodes, at + child - node, d, some.best, cone.wide)
            ):
                _scan(tree, d, child, keys, found, cone, some)
                seen[found] = child
                found += 1
    return found


@njit(inline="always", fastmath=FLAGS)
def _scan(tree: Tree, d: int, panel: int, keys: int, found: int, cone: Cone, some: Queries) -> None:
    """Add the keys of a panel to the best and second best of each query."""
    left, number = keys - panel * LANES, np.float32(found * LANES)
    panel_winners(some.coarse, tree.coarse, panel * d * LANES, d, left, number, some.best, cone.second, cone.at)


@njit(inline="always", fastmath=FLAGS)
def _sure(cone: Cone, some: Queries, found: int) -> int:
    """Which queries have one near-maximum, as bits; all others are behind it in float32 by more than it may be off."""
    sure = 0
    for lane in range(LANES):
        some.cuts[lane] = some.best[lane] - some.margin[lane]
        sure |= int(cone.second[lane] < some.cuts[lane]) << lane
    return sure if found <= COUNTED else 0


@njit(inline="always", fastmath=FLAGS)
def _hit(tree: Tree, d: int, seen: IntArray, found: int, some: Queries) -> None:
    """List the panels of each query that may hold a near-maximum, among those seen."""
    for lane in range(LANES):
        some.found[lane] = 0
    for i in range(found):
        panel_maxima(some.coarse, tree.coarse, seen[i] * d * LANES, d, some.maxima, 0, some.best)
        lanes = above(some.maxima, 0, some.cuts, some.length, np.float32(0.0))
        while lanes:
            lane = lowest(lanes)
            lanes &= lanes - 1
            some.hits[lane, some.found[lane]] = seen[i]
            some.found[lane] += 1


@entry(fastmath=FLAGS)
def _search(
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    asked: AnyArray,
    tree: Tree,
    scales: FloatArray,
    own: bool,
    tasks: IntArray,
    output: Output,
) -> None:
    """Find the near-maxima of some tasks: TASK queries each, in the order asked, which may be that of their own panels."""
    (n, d), panels = queries.shape, len(tree.order) // LANES
    some, seen, cone = sixteen(work_space(1, d, panels), 0), np.empty(panels, np.intp), _cone(d)
    some.limits[:] = len(keys)
    for number in tasks:
        room, used = output.members[output.starts[number] : output.starts[number + 1]], 0
        for top in range(number * TASK, min(number * TASK + TASK, n), LANES):
            for lane in range(LANES):
                row = asked[min(top + lane, n - 1)]
                load(queries[row], lane, slack[row], scales[0], scales[1], some)
            begin(d, some)
            found = _look(tree, d, cone, top // LANES if own else -1, seen, some)
            sure, lanes = _sure(cone, some, found), min(LANES, n - top)
            for lane in range(lanes):
                place = int(cone.at[lane])
                output.first[top + lane] = tree.order[seen[place // LANES] * LANES + place % LANES]
                output.sizes[top + lane] = 1
            left = ~sure & ((1 << lanes) - 1)
            if left:
                _hit(tree, d, seen, found, some)
                used = keep(keys, tree.fine, tree.order, top, left, room, used, some, output)
        output.used[number] = used


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray) -> Sets:
    """As `reference.near_maxima`."""
    (n, d), m = queries.shape, len(keys)
    asked, points = np.empty((n, d), np.float32), np.empty((m, d), np.float32)
    asked_ids, ids, scales = np.empty(2 * n, np.int32), np.empty(2 * m, np.int32), np.empty(2)
    tree, effort = empty_tree(m, d), EFFORT * max(n, m)
    same = queries is keys and is_shell(keys)  # then keys in order are queries in order
    share(lambda some: _begin(some + same, queries, keys, asked, points, asked_ids, ids, scales), 2 - same, effort)
    parts, more = (-(-count // (LANES * PART)) for count in (m, n))
    more = 0 if same else more
    share(lambda some: _order(some, parts, keys, asked, points, asked_ids, ids, tree), parts + more, effort)
    _finish(tree, d)
    asked_ids = ids if same else asked_ids
    search = partial(_search, queries, keys, slack, asked_ids, tree, scales, same)
    sets, _ = written_sets(search, n, -(-n // TASK), TASK, effort, MOST)
    if sets.single:
        members = np.empty(n, np.intp)
        members[asked_ids[:n]] = sets.members
        return Sets(sets.starts, members)
    places = np.empty(n, np.intp)
    places[asked_ids[:n]] = np.arange(n)
    return sets.take(places)


@entry(fastmath=FLAGS)
def _finish(tree: Tree, d: int) -> None:
    """Measure the nodes that are above all parts."""
    measure(tree, d, 0, len(tree.order) // LANES, PART, 1 << 62)
