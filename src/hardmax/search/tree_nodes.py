"""What a tree knows of its nodes: around which point, how wide and how flat the keys of each are.

Bounds are measured on the float32 numbers that are searched, and rounded up.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES
from hardmax.search.panel_search import SINGLE

FLAT = 256  # panels up to which a node has a direction in which it is thin
STEPS = 2  # of the iteration that finds it
UP, BIT = 1.000001, 1e-13  # more than float32 and float64 may round, of numbers that are 2 at most


class Tree(NamedTuple):
    """Keys in panels of neighbours, and 16 panels, or nodes of a level, under each node of the next."""

    order: IntArray  # (panels * 16,) which key stands where; the last one fills up its panel
    coarse: AnyArray  # (panels * d * 16,) float32, k - c scaled to at most 1
    fine: FloatArray  # (panels * d * 16,) as given
    nodes: AnyArray  # (groups * (3 d + 3) * 16,) float32, those under one node are a group: see `tree_lanes`
    groups: IntArray  # (levels,) the first group of each level, panels first
    counts: IntArray  # (levels,) nodes of each level


def empty_tree(m: int, d: int) -> Tree:
    """Make room for m keys."""
    counts = [-(-m // LANES)]
    while counts[-1] > LANES:
        counts.append(-(-counts[-1] // LANES))
    groups, room = [-(-count // LANES) for count in counts], counts[0] * LANES
    return Tree(
        np.empty(room, np.intp),
        np.empty(room * d, np.float32),
        np.empty(room * d),
        np.zeros(sum(groups) * (3 * d + 3) * LANES, np.float32),
        np.concatenate([[0], np.cumsum(groups[:-1])]).astype(np.intp),
        np.array(counts, np.intp),
    )


@njit(fastmath=FLAGS)
def fill(tree: Tree, keys: FloatArray, points: AnyArray, ids: AnyArray, first: int, last: int) -> None:
    """Write some panels of keys, whose `ids` are in order; `points` are the same keys, about c and scaled."""
    d = keys.shape[1]
    for position in range(first * LANES, last * LANES):
        key = ids[min(position, len(keys) - 1)]
        tree.order[position] = key
        at = position // LANES * LANES * d + position % LANES
        for r in range(d):
            tree.coarse[at + r * LANES] = points[key, r]
            tree.fine[at + r * LANES] = keys[key, r]


@njit(fastmath=FLAGS)
def measure(tree: Tree, d: int, first: int, last: int, least: int, most: int) -> None:
    """Bound the nodes over some panels that have more than `least` of them, and `most` at most."""
    span, size = 1, (3 * d + 3) * LANES
    node, along = np.empty(3 * d + 3, np.float32), np.empty(LANES, np.float32)
    thin, square = np.empty(d), np.empty((d, d))
    for level in range(len(tree.groups)):
        if least < span <= most:
            for number in range(first // span, (last + span - 1) // span):
                panels = tree.coarse[number * span * d * LANES :][: span * d * LANES]
                if span == 1:
                    _middle_of_keys(node, panels, along, thin, square)
                else:
                    children = tree.nodes[(tree.groups[level - 1] + number) * size :][:size]
                    _middle_of_nodes(node, children, min(LANES, tree.counts[level - 1] - number * LANES), span <= FLAT)
                if span <= FLAT:
                    _slice(node, panels, along)
                at = (tree.groups[level] + number // LANES) * size + number % LANES
                for k in range(len(node)):
                    tree.nodes[at + k * LANES] = node[k]
        span *= LANES


@njit(fastmath=FLAGS)
def _middle_of_keys(node: AnyArray, panel: AnyArray, along: AnyArray, thin: FloatArray, square: FloatArray) -> None:
    """Write the box around the keys of a panel, a direction in which they differ little, and the largest |k|^2."""
    d, longest = len(thin), np.float32(0)
    for lane in range(LANES):
        along[lane] = np.float32(0)
    for r in range(d):
        total, low, high = np.float32(0), np.float32(2), np.float32(-2)
        for lane in range(LANES):
            value = panel[r * LANES + lane]
            total, low, high = total + value, min(low, value), max(high, value)
            along[lane] += value * value
        node[r] = np.float32(0.5) * (low + high)
        node[2 * d + r] = np.float32(UP * max(high - node[r], node[r] - low) + BIT)
        thin[r] = total / LANES
    for lane in range(LANES):
        longest = max(longest, along[lane])
    node[3 * d + 2] = np.float32(UP * longest + BIT)
    for r in range(d):
        for s in range(r + 1):
            total, one, other = np.float32(0), np.float32(thin[r]), np.float32(thin[s])
            for lane in range(LANES):
                total += (panel[r * LANES + lane] - one) * (panel[s * LANES + lane] - other)
            square[r, s] = total
    _thin(square, thin)
    for r in range(d):
        node[d + r] = np.float32(thin[r])


@njit(fastmath=FLAGS)
def _middle_of_nodes(node: AnyArray, children: AnyArray, count: int, flat: bool) -> None:
    """Write the middle of the box around those of the children, that box, and if flat the mean of their directions."""
    d, total = len(node) // 3 - 1, 0.0
    for r in range(2 * d + 3):
        node[d + r] = np.float32(0)
    for child in range(count):
        turned, node[3 * d + 2] = np.float32(0), max(node[3 * d + 2], children[(3 * d + 2) * LANES + child])
        for r in range(d):
            turned += node[d + r] * children[(d + r) * LANES + child]
        sign = np.float32(1) if turned >= 0 else np.float32(-1)
        for r in range(d):
            node[d + r] += sign * children[(d + r) * LANES + child]
    for r in range(d):
        low, high = np.inf, -np.inf
        for child in range(count):
            c, side = np.float64(children[r * LANES + child]), np.float64(children[(2 * d + r) * LANES + child])
            low, high = min(low, c - side), max(high, c + side)
        node[r] = np.float32(0.5 * (low + high))
        node[2 * d + r] = np.float32(UP * max(high - node[r], node[r] - low) + BIT)
        total += np.float64(node[d + r]) ** 2
    for r in range(d):
        node[d + r] = np.float32(node[d + r] / np.sqrt(total + 1e-30)) if flat else np.float32(0)


@njit(fastmath=FLAGS)
def _slice(node: AnyArray, panels: AnyArray, along: AnyArray) -> None:
    """Write between which numbers <m, k - c> lies, as their middle g and the distance h from it.

    <m, k - c> is off by (d + 2) rounding units of the sum of the sides at most.
    """
    d, low, high, sides = len(node) // 3 - 1, np.float32(8), np.float32(-8), 0.0
    for at in range(0, len(panels), d * LANES):
        for lane in range(LANES):
            along[lane] = np.float32(0)
        for r in range(d):
            c, m = node[r], node[d + r]
            for lane in range(LANES):
                along[lane] += m * (panels[at + r * LANES + lane] - c)
        for lane in range(LANES):
            low, high = min(low, along[lane]), max(high, along[lane])
    for r in range(d):
        sides += node[2 * d + r]
    node[3 * d] = np.float32(0.5) * (low + high)
    half = max(np.float64(high) - node[3 * d], node[3 * d] - np.float64(low))
    node[3 * d + 1] = np.float32(UP * half + 2 * (d + 4) * SINGLE * sides + BIT)


@njit(fastmath=FLAGS)
def _thin(square: FloatArray, thin: FloatArray) -> None:
    """About the eigenvector of the least eigenvalue: inverse iteration with the Cholesky factor of square + a bit."""
    d, trace = len(thin), 0.0
    for r in range(d):
        trace += square[r, r]
    floor = 1e-7 * trace + 1e-30
    for r in range(d):
        thin[r] = 1.0 + 0.5 * r
        for s in range(r):
            for t in range(s):
                square[r, s] -= square[r, t] * square[s, t]
            square[r, s] *= square[s, s]
        rest = square[r, r] + floor
        for t in range(r):
            rest -= square[r, t] ** 2
        square[r, r] = 1.0 / np.sqrt(max(rest, floor))  # the diagonal as what it is multiplied with
    for _ in range(STEPS):
        for r in range(d):
            for s in range(r):
                thin[r] -= square[r, s] * thin[s]
            thin[r] *= square[r, r]
        for r in range(d - 1, -1, -1):
            for s in range(r + 1, d):
                thin[r] -= square[s, r] * thin[s]
            thin[r] *= square[r, r]
    total = 0.0
    for r in range(d):
        total += thin[r] ** 2
    for r in range(d):
        thin[r] /= np.sqrt(total)
