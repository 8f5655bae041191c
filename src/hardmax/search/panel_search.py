"""What is done for 16 queries of one cloud: float32 maxima of panels, then float64 products of some."""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.lanes import (
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
from hardmax.search.threads import Output

SINGLE = 2.0**-24  # rounding of one float32 operation, relative
FLOOR = 1e-303  # above the smallest normal number, so that no multiple of it is a slow denormal number
LEAST = np.float32(1e-18)  # a length whose square is still a normal number
LOWEST = -1.7e308  # above minus infinity, which stands for keys that are not seen
ALL = (1 << LANES) - 1  # every lane


class Queries(NamedTuple):
    """16 queries and their work space, or several times 16 with one more axis in front."""

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
def work_space(times: int, d: int, panels: int) -> Queries:
    """Allocate for so many times 16 queries; what is needed for 16 at a time is shared."""
    return Queries(
        np.empty((times, LANES * d)),
        np.empty((times, d * LANES), np.float32),
        np.empty((times, LANES)),
        np.empty((times, LANES)),
        np.empty((times, LANES), np.float32),
        np.empty((times, LANES), np.float32),
        np.empty((times, LANES), np.float32),
        np.empty((times, LANES), np.float32),
        np.empty((times, LANES), np.intp),
        np.empty((times, LANES), np.intp),
        np.empty((times, panels * LANES), np.float32),
        np.empty((times, 1), np.intp),
        np.empty((LANES, panels), np.intp),
        np.empty(LANES, np.intp),
        np.empty(panels * LANES),
    )


@njit(inline="always")
def sixteen(space: Queries, g: int) -> Queries:
    """Take the work space of 16 queries."""
    return Queries(
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


@njit  # without FLAGS, see there
def _margin(d: int, slack: float, total: float, by: float, scale: float, highest: float) -> tuple[float, np.float32]:
    """Return the slack of a query with |q|_1 = `total`, and the same for float32 products, whose error it includes.

    With |k - c|_max scaled to 1, both inputs, their product and a sum of d are off by (d + 3) rounding units of |q|_1,
    and the comparison by a few more; the float64 products that count are off by (d + 2) of theirs, for k.
    A slack below zero stands for the error of the float64 products themselves.
    """
    size, rounding = total * by, (d + 4) * UNIT * highest * total
    if slack < 0.0:
        slack = 2.02 * (rounding + d * TINY)
    error = size * 1.01 * (d + 8) * SINGLE + 2.0 * min(rounding * by * scale, size * 1e30)
    error += d * (2.0**-146 + FLOOR * by * scale)
    return slack, np.float32(1.000001 * (slack * by * scale + 2 * error))


@njit(inline="always", fastmath=FLAGS)
def load(query: AnyArray, lane: int, slack: float, scale: float, highest: float, queries: Queries) -> None:
    """Store a query in float64, its scale, its slack, its length, and the margin of its float32 products."""
    d, largest, total, square = len(query), SMALLEST, 0.0, 0.0
    for r in range(d):
        value = np.float64(query[r])
        queries.fine[lane * d + r] = value
        largest = max(largest, abs(value))
        total += abs(value)
    by = to_one(largest)
    for r in range(d):
        square += (queries.fine[lane * d + r] * by) ** 2
    queries.by[lane] = by
    queries.slack[lane], queries.margin[lane] = _margin(d, slack, total, by, scale, highest)
    queries.length[lane] = np.float32(1.00001) * np.sqrt(np.float32(square)) + LEAST


@njit(inline="always", fastmath=FLAGS)
def begin(d: int, queries: Queries) -> None:
    """Scale the 16 queries into their lanes; nothing is scanned yet."""
    for r in range(d):
        for lane in range(LANES):
            queries.coarse[r * LANES + lane] = np.float32(queries.fine[lane * d + r] * queries.by[lane])
    queries.best[:] = -np.inf
    queries.scanned[0] = 0


@njit(fastmath=FLAGS)
def scan(coarse: AnyArray, reach: AnyArray, d: int, stop: int, queries: Queries) -> None:
    """Level one: the maxima of panels up to `stop`, or until no later key can be near-maximal."""
    best, maxima, whole = queries.best, queries.maxima, queries.whole.min()
    for panel in range(queries.scanned[0], stop):
        queries.scanned[0] = panel
        if above(best, 0, queries.margin, queries.length, reach[panel]) == ALL:
            return
        if panel < whole:
            panel_maxima(queries.coarse, coarse, panel * d * LANES, d, maxima, panel * LANES, best)
            continue
        panel_maxima(queries.coarse, coarse, panel * d * LANES, d, maxima, panel * LANES, queries.cuts)
        for lane in range(LANES):
            if panel < queries.whole[lane]:
                best[lane] = max(best[lane], maxima[panel * LANES + lane])
    queries.scanned[0] = stop


@njit(inline="always", fastmath=FLAGS)
def hit(queries: Queries) -> None:
    """List the panels of each query that may hold a near-maximum; one that is seen in part always may."""
    cuts, found = queries.cuts, queries.found
    for lane in range(LANES):
        cuts[lane] = queries.best[lane] - queries.margin[lane]
        found[lane] = 0
    for panel in range(queries.scanned[0]):
        lanes = above(queries.maxima, panel * LANES, cuts, queries.length, np.float32(0.0))
        while lanes:
            lane = lowest(lanes)
            lanes &= lanes - 1
            if panel < queries.whole[lane]:
                queries.hits[lane, found[lane]] = panel
                found[lane] += 1
    for lane in range(LANES):
        if queries.whole[lane] * LANES < queries.limits[lane]:
            queries.hits[lane, found[lane]] = queries.whole[lane]
            found[lane] += 1


@njit(inline="always", fastmath=FLAGS)
def decide(fine: FloatArray, d: int, lane: int, queries: Queries) -> tuple[int, int, float]:
    """Level two: float64 products. Returns how many are near the largest, where the last of them is, and the cut."""
    products, top, count = queries.products, -np.inf, queries.found[lane]
    for i in range(count):
        at = queries.hits[lane, i] * LANES
        seen = queries.limits[lane] - at
        top = max(top, panel_products(fine, at * d, queries.fine, lane * d, d, products, i * LANES, seen))
    cut, size, place = max(top - queries.slack[lane], LOWEST), 0, 0
    for i in range(count):
        lanes = near(products, i * LANES, cut)
        if lanes:
            size += ones(lanes)
            place = queries.hits[lane, i] * LANES + lowest(lanes)
    return size, place, cut


@njit
def collect(order: IntArray, lane: int, cut: float, queries: Queries, members: IntArray) -> None:
    """Write the near-maximal keys in ascending order."""
    size = 0
    for i in range(queries.found[lane]):
        lanes = near(queries.products, i * LANES, cut)
        while lanes:
            members[size] = order[queries.hits[lane, i] * LANES + lowest(lanes)]
            lanes &= lanes - 1
            size += 1
    members.sort()


@njit
def same(keys: AnyArray, members: IntArray) -> bool:
    """Whether the keys are all equal."""
    for member in members:
        for r in range(keys.shape[1]):
            if keys[member, r] != keys[members[0], r]:
                return False
    return True


@njit(inline="always", fastmath=FLAGS)
def keep(
    keys: AnyArray,
    fine: FloatArray,
    order: IntArray,
    row: int,
    some: int,
    room: IntArray,
    used: int,
    queries: Queries,
    output: Output,
) -> int:
    """Write what some of 16 queries found, which are the bits of a number, from `row` on; return the room then used."""
    while some:
        lane = lowest(some)
        some &= some - 1
        size, place, cut = decide(fine, keys.shape[1], lane, queries)
        output.sizes[row + lane] = size
        output.first[row + lane] = order[place] if size == 1 else -1
        if size > 1:
            if used + size <= len(room):
                mine = room[used : used + size]
                collect(order, lane, cut, queries, mine)
                output.first[row + lane], output.same[row + lane] = mine[0], same(keys, mine)
            used += size
    return used
