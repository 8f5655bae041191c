"""What is done for 16 queries of one cloud: float32 maxima of panels, then float64 products of some."""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._integers import TINY, UNIT
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.kernels.lanes import (
    FLAGS,
    LANES,
    SMALLEST,
    above,
    lowest,
    near,
    ones,
    panel_maxima,
    panel_products,
    to_one,
)

SINGLE = 2.0**-24  # rounding of one float32 operation, relative
FLOOR = 1e-303  # above the smallest normal number, so that no multiple of it is a slow denormal number
LEAST = np.float32(1e-18)  # a length whose square is still a normal number
LOWEST = -1.7e308  # above minus infinity, which stands for keys that are not seen
ALL = (1 << LANES) - 1  # every lane


class Group(NamedTuple):
    """Work space for 16 queries, or for several times 16 with one more axis in front."""

    fine: FloatArray  # (16 * d,) as given, query after query
    coarse: AnyArray  # (d * 16,) float32, each scaled to about 1, coordinate after coordinate
    by: FloatArray  # (16,) the power of two that scales a query to about 1
    slack: FloatArray  # (16,)
    margin: AnyArray  # (16,) float32, slack with twice the error bound, scaled as the products
    length: AnyArray  # (16,) float32, |q| scaled
    best: AnyArray  # (16,) float32
    cuts: AnyArray  # (16,) float32, the least maximum of a panel that may hold a near-maximum
    limits: IntArray  # (16,) keys that are seen
    whole: IntArray  # (16,) panels that are seen in full
    maxima: AnyArray  # (panels * 16,) float32
    scanned: IntArray  # (1,) panels up to which maxima are known, or none that follows may hold a near-maximum
    hits: IntArray  # (16, panels) panels to compute in float64
    found: IntArray  # (16,) how many
    products: FloatArray  # (panels * 16,)


@njit(inline="always")
def work_space(groups: int, d: int, panels: int) -> Group:
    """Allocate for several groups; what is needed for one at a time is shared."""
    return Group(
        np.empty((groups, LANES * d)),
        np.empty((groups, d * LANES), np.float32),
        np.empty((groups, LANES)),
        np.empty((groups, LANES)),
        np.empty((groups, LANES), np.float32),
        np.empty((groups, LANES), np.float32),
        np.empty((groups, LANES), np.float32),
        np.empty((groups, LANES), np.float32),
        np.empty((groups, LANES), np.intp),
        np.empty((groups, LANES), np.intp),
        np.empty((groups, panels * LANES), np.float32),
        np.empty((groups, 1), np.intp),
        np.empty((LANES, panels), np.intp),
        np.empty(LANES, np.intp),
        np.empty(panels * LANES),
    )


@njit(inline="always")
def one_of(space: Group, g: int) -> Group:
    """Take the work space of one group."""
    return Group(
        space.fine[g],
        space.coarse[g],
        space.by[g],
        space.slack[g],
        space.margin[g],
        space.length[g],
        space.best[g],
        space.cuts[g],
        space.limits[g],
        space.whole[g],
        space.maxima[g],
        space.scanned[g],
        space.hits,
        space.found,
        space.products,
    )


@njit(inline="always", fastmath=FLAGS)
def load(query: AnyArray, lane: int, slack: float, scale: float, highest: float, group: Group) -> None:
    """Take in a query: its scale, its length, and a bound of the error of its float32 products.

    With |k - c|_max scaled to 1, both inputs, their product and a sum of d are off by (d + 3) rounding units of |q|_1,
    and the comparison by a few more; the float64 products that count are off by (d + 2) of theirs, for k.
    A slack below zero stands for the error of the float64 products themselves.
    """
    d, largest, total, square = len(query), SMALLEST, 0.0, 0.0
    for r in range(d):
        value = np.float64(query[r])
        group.fine[lane * d + r] = value
        largest = max(largest, abs(value))
        total += abs(value)
    by = to_one(largest)
    for r in range(d):
        square += (group.fine[lane * d + r] * by) ** 2
    size, rounding = total * by, (d + 4) * UNIT * highest * total
    if slack < 0.0:
        slack = 2.02 * (rounding + d * TINY)
    error = size * 1.01 * (d + 8) * SINGLE + 2.0 * min(rounding * by * scale, size * 1e30)
    error += d * (2.0**-146 + FLOOR * by * scale)
    group.by[lane], group.slack[lane] = by, slack
    group.margin[lane] = np.float32(1.000001 * (slack * by * scale + 2 * error))
    group.length[lane] = np.float32(1.00001) * np.sqrt(np.float32(square)) + LEAST


@njit(inline="always", fastmath=FLAGS)
def begin(d: int, group: Group) -> None:
    """Scale the 16 queries into their lanes; nothing is scanned yet."""
    for r in range(d):
        for lane in range(LANES):
            group.coarse[r * LANES + lane] = np.float32(group.fine[lane * d + r] * group.by[lane])
    group.best[:] = -np.inf
    group.scanned[0] = 0


@njit(fastmath=FLAGS)
def scan(coarse: AnyArray, reach: AnyArray, d: int, stop: int, group: Group) -> None:
    """Level one: the maxima of panels up to `stop`, or until no later key can be near-maximal."""
    best, maxima, whole = group.best, group.maxima, group.whole.min()
    for panel in range(group.scanned[0], stop):
        group.scanned[0] = panel
        if above(best, 0, group.margin, group.length, reach[panel]) == ALL:
            return
        if panel < whole:
            panel_maxima(group.coarse, coarse, panel * d * LANES, d, maxima, panel * LANES, best)
            continue
        panel_maxima(group.coarse, coarse, panel * d * LANES, d, maxima, panel * LANES, group.cuts)
        for lane in range(LANES):
            if panel < group.whole[lane]:
                best[lane] = max(best[lane], maxima[panel * LANES + lane])
    group.scanned[0] = stop


@njit(inline="always", fastmath=FLAGS)
def hit(group: Group) -> None:
    """List the panels of each query that may hold a near-maximum; one that is seen in part always may."""
    cuts, found = group.cuts, group.found
    for lane in range(LANES):
        cuts[lane] = group.best[lane] - group.margin[lane]
        found[lane] = 0
    for panel in range(group.scanned[0]):
        lanes = above(group.maxima, panel * LANES, cuts, group.length, np.float32(0.0))
        while lanes:
            lane = lowest(lanes)
            lanes &= lanes - 1
            if panel < group.whole[lane]:
                group.hits[lane, found[lane]] = panel
                found[lane] += 1
    for lane in range(LANES):
        if group.whole[lane] * LANES < group.limits[lane]:
            group.hits[lane, found[lane]] = group.whole[lane]
            found[lane] += 1


@njit(inline="always", fastmath=FLAGS)
def decide(fine: FloatArray, d: int, lane: int, group: Group) -> tuple[int, int, float]:
    """Level two: float64 products. Returns how many are near the largest, where the last of them is, and the cut."""
    products, top, count = group.products, -np.inf, group.found[lane]
    for i in range(count):
        at = group.hits[lane, i] * LANES
        seen = group.limits[lane] - at
        top = max(top, panel_products(fine, at * d, group.fine, lane * d, d, products, i * LANES, seen))
    cut, size, place = max(top - group.slack[lane], LOWEST), 0, 0
    for i in range(count):
        lanes = near(products, i * LANES, cut)
        if lanes:
            size += ones(lanes)
            place = group.hits[lane, i] * LANES + lowest(lanes)
    return size, place, cut


@njit
def collect(order: IntArray, lane: int, cut: float, group: Group, members: IntArray) -> None:
    """Write the near-maximal keys in ascending order, by insertion."""
    size = 0
    for i in range(group.found[lane]):
        lanes = near(group.products, i * LANES, cut)
        while lanes:
            key = order[group.hits[lane, i] * LANES + lowest(lanes)]
            lanes &= lanes - 1
            place = size
            while place and members[place - 1] > key:
                members[place] = members[place - 1]
                place -= 1
            members[place] = key
            size += 1


@njit
def collect_many(order: IntArray, lane: int, cut: float, group: Group, members: IntArray) -> None:
    """Write the near-maximal keys in ascending order, by going over all keys."""
    flags, size = np.zeros(len(order), np.bool_), 0
    for i in range(group.found[lane]):
        lanes = near(group.products, i * LANES, cut)
        while lanes:
            flags[order[group.hits[lane, i] * LANES + lowest(lanes)]] = True
            lanes &= lanes - 1
    for key in range(len(flags)):
        if flags[key]:
            members[size] = key
            size += 1


@njit
def same(keys: AnyArray, members: IntArray) -> bool:
    """Whether the keys are all equal."""
    for member in members:
        for r in range(keys.shape[1]):
            if keys[member, r] != keys[members[0], r]:
                return False
    return True
