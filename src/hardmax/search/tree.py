"""Few dimensions: a tree of the keys, and for 16 neighbouring queries at a time the few panels that may hold a maximum.

Keys are in panels of 16 neighbours, about the middle of the box around them and scaled as in `fused`, and so are
queries, by their directions. A node is left out where its bound for each of the 16 queries is below their best product
so far, so that tokens on a sphere, which are all equally far, cost no more than others. Queries whose best float32
product leads by more than it may be off are done; the others are asked again in float64.
"""

from functools import partial

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, SMALLEST, above, lowest, panel_maxima
from hardmax.search.panel_search import Queries, begin, keep, load, sixteen, work_space
from hardmax.search.panels import centre_of
from hardmax.search.sets import MOST, Sets
from hardmax.search.threads import Output, entry, share, written_sets
from hardmax.search.tree_choice import is_shell
from hardmax.search.tree_nodes import Tree, empty_tree, fill, measure
from hardmax.search.tree_order import arrange, arrange_part
from hardmax.search.tree_walk import Cone, empty_cone, look

PART = 1024  # panels that a thread brings in order at a time
TASK = 512  # queries that a thread takes at a time
EFFORT = 400.0  # multiplications that take as long as a query, or a key
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
        some, places = (points, ids) if number else (asked, asked_ids)
        arrange(some, places, 0, (len(some) + LANES - 1) // LANES, PART)


@entry(fastmath=FLAGS)
def _order(
    parts: int,
    keys: FloatArray,
    asked: AnyArray,
    points: AnyArray,
    asked_ids: AnyArray,
    ids: AnyArray,
    tree: Tree,
    numbers: IntArray,
) -> None:
    """Bring parts of the keys in order and measure them, or from number `parts` on parts of the queries.

    Number -1 is to measure the nodes that are above all parts.
    """
    for number in numbers:
        some, places = (points, ids) if number < parts else (asked, asked_ids)
        count, part = (len(some) + LANES - 1) // LANES, number if number < parts else number - parts
        first, last, least, most = part * PART, min(part * PART + PART, count), 0, PART
        if number < 0:
            first, last, least, most = 0, count, PART, 1 << 62
        else:
            arrange_part(some, places, first, last)
        if 0 <= number < parts:
            fill(tree, keys, points, ids, first, last)
        if number < parts:
            measure(tree, keys.shape[1], first, last, least, most)


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
    """Find the near-maxima of some tasks: TASK queries each, in the order asked; if `own`, 16 of them are one panel."""
    (n, d), panels = queries.shape, len(tree.order) // LANES
    some, seen, cone = sixteen(work_space(1, d, panels), 0), np.empty(panels, np.intp), empty_cone(d)
    some.limits[:] = len(keys)
    for number in tasks:
        room, used = output.members[output.starts[number] : output.starts[number + 1]], 0
        for top in range(number * TASK, min(number * TASK + TASK, n), LANES):
            for lane in range(LANES):
                row = asked[min(top + lane, n - 1)]
                load(queries[row], lane, slack[row], scales[0], scales[1], some)
            begin(d, some)
            found = look(tree, d, cone, top // LANES if own else -1, seen, some)
            sure, lanes = _sure(cone, some, found), min(LANES, n - top)
            for lane in range(lanes):
                place = int(cone.at[lane]) if found <= COUNTED else 0  # which is not exact beyond
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
    order = partial(_order, parts, keys, asked, points, asked_ids, ids, tree)
    share(order, parts + more, effort)
    order(np.array([-1]))
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
