"""The way of 16 neighbouring queries through a tree of keys, as one: which panels may hold a maximum of theirs."""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, borrowed, lowest, panel_winners
from hardmax.search.panel_search import LEAST, SINGLE, Queries
from hardmax.search.tree_lanes import close, closest, promises, within_reach
from hardmax.search.tree_nodes import Tree

FAINT = np.float32(2.0**-120)  # more than products of the smallest numbers lose
DEPTH = 16 * LANES  # nodes that wait at most


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
def empty_cone(d: int) -> Cone:
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
def look(tree: Tree, d: int, cone: Cone, guess: int, seen: IntArray, some: Queries) -> int:
    """Scan every panel that may hold a near-maximum of one of 16 queries; return how many. A guess below 0 is none.

    A near-maximal key k has <q, k - o> >= -2 margin: its float32 product is at most `margin` behind the best, which is
    not behind that of o, and half of the margin is more than both may be off.
    """
    tree, cone, some = borrowed(tree), borrowed(cone), borrowed(some)
    least, size = np.float32(-2.0001) * _enclose(d, cone, some), (3 * d + 3) * LANES
    found, count, waiting, keys = 1, 1, cone.waiting, some.limits[0]
    seen[0] = guess = guess if guess >= 0 else _guess(tree, d, cone)
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
