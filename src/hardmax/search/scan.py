"""Any number of dimensions: float32 finds where the maximum may be, float64 decides
there.

For a query q, the float32 maximum of each panel of 16 keys is known up to a bound e. A
key within `slack` of the largest float64 product lies in a panel whose maximum is at
least best - slack - 2 e, so only those panels, often one, are computed in float64. What
is returned therefore does not depend on float32.

Keys are taken about the middle c of the box around them, since <q, k> and <q, k - c>
have the same argmax, and in the order of falling |k - c|: as <q, k - c> <= |q| |k - c|,
a query is done once its best product exceeds that bound for all that follow. In low
dimension this leaves few keys; in high dimension, or with `limits`, all are scanned.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._exact import TINY, UNIT
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.reference import LOWEST
from hardmax.search.simd import (
    FLAGS,
    LANES,
    MIN_SCALED,
    borrow,
    float32_above,
    float64_above,
    lowest_bit,
    panel_maxima,
    panel_products,
    scale_to_one,
)
from hardmax.search.threads import Output, collect_sets, entry, share
from hardmax.sets import MAX_MEMBERS, Sets

QUERIES_PER_TASK = 256
PACKING = 8.0  # multiplications that take as long as packing one number
LEVELS = 64  # of |k - c|^2, by which keys are sorted
UNIT32 = 2.0**-24  # rounding of one float32 operation, relative
# above the smallest normal number, so that no multiple of it is a slow denormal number
MIN_PRODUCT = 1e-303
MIN_LENGTH = np.float32(1e-18)  # its square is still a normal number
ALL_LANES = (1 << LANES) - 1


class Panels(NamedTuple):
    """Keys of every batch element as (panel, coordinate, key of the panel), flat; c is
    the middle of their box.
    """

    # (batch, panels * 16) which key stands where; the last one fills up its panel
    order: IntArray
    counts: IntArray  # (batch,) number of keys seen
    coarse: AnyArray  # (batch, panels * d * 16) float32, k - c scaled to at most 1
    fine: FloatArray  # (batch, panels * d * 16) as given
    reach: (
        AnyArray  # (batch, panels) float32, largest |k - c| from this panel on, scaled
    )
    scales: FloatArray  # (batch,)
    highest: FloatArray  # (batch,) largest |coordinate|


class Queries(NamedTuple):
    """Workspace of 16 queries."""

    fine: FloatArray  # (16 * d,) as given, query after query
    # (d * 16,) float32, each scaled to about 1, coordinate after coordinate
    coarse: AnyArray
    scale: FloatArray  # (16,) the power of two that scales a query to about 1
    slack: FloatArray  # (16,)
    # (16,) float32, slack with twice the error bound, scaled as the products
    margin: AnyArray
    length: AnyArray  # (16,) float32, |q| scaled
    best: AnyArray  # (16,) float32
    # (16,) float32, the least maximum of a panel that may hold a near-maximum
    cuts: AnyArray
    limits: IntArray  # (16,) number of keys seen
    full: IntArray  # (16,) number of panels seen in full
    maxima: AnyArray  # (panels * 16,) float32
    hits: IntArray  # (16, panels) panels to compute in float64
    found: IntArray  # (16,) their number
    products: FloatArray  # (panels * 16,)


@njit(fastmath=FLAGS)
def list_seen(mask: AnyArray, element: int, m: int, seen: IntArray) -> int:
    """Write the keys of a batch element that are seen, all of them where the mask is
    empty; return their number.
    """
    count = 0
    for key in range(m):
        if mask.size == 0 or mask[element, key]:
            seen[count] = key
            count += 1
    return count


@njit(inline="always", fastmath=FLAGS)
def slack_of_products(d: int, highest: float, size: float) -> float:
    """Return `exact.argmax.slack_of` for exact positions: |q|_1 = size, and keys with
    coordinates up to `highest`.
    """
    return 2.02 * ((d + 4) * UNIT * highest * size + d * TINY)


@njit(fastmath=FLAGS)
def _find_centre(
    keys: AnyArray, seen: IntArray, centre: FloatArray
) -> tuple[float, float]:
    """Write the middle of the box around the keys seen; return the largest |coordinate|
    about zero and about it.
    """
    d, highest, spread = len(centre), 0.0, 0.0
    low, high = centre, np.empty(d)
    for r in range(d):
        low[r] = high[r] = keys[seen[0], r]
    for key in seen:
        for r in range(d):
            value = np.float64(keys[key, r])
            low[r], high[r] = min(low[r], value), max(high[r], value)
    for r in range(d):
        middle = low[r] + 0.5 * (high[r] - low[r])
        highest = max(highest, max(high[r], -low[r]))
        spread = max(spread, max(high[r] - middle, middle - low[r]))
        centre[r] = middle
    return highest, spread


@njit(fastmath=FLAGS)
def _sort(
    keys: AnyArray,
    seen: IntArray,
    centre: FloatArray,
    scale: float,
    in_order: bool,
    order: IntArray,
    reach: AnyArray,
) -> None:
    """Order the keys seen by falling distance, up to a level, and write the largest
    distance from each panel on.
    """
    count, farthest, squares = len(seen), MIN_SCALED, np.empty(len(seen))
    for i in range(count):
        square = 0.0
        for r in range(len(centre)):
            square += ((np.float64(keys[seen[i], r]) - centre[r]) * scale) ** 2
        squares[i] = square
        farthest = max(farthest, square)
    starts, places, step = (
        np.zeros(LEVELS + 1, np.intp),
        np.empty(count, np.intp),
        (LEVELS - 1) / farthest,
    )
    for i in range(count):
        starts[0 if in_order else LEVELS - int(squares[i] * step)] += 1
    starts[0] = 0
    for level in range(LEVELS):
        starts[level + 1] += starts[level]
    for i in range(count):
        level = 0 if in_order else LEVELS - 1 - int(squares[i] * step)
        places[starts[level]] = i
        starts[level] += 1
    farthest = 0.0
    for position in range(len(order) - 1, -1, -1):
        place = places[min(position, count - 1)]
        order[position] = seen[place]
        farthest = max(farthest, squares[place])
        if position % LANES == 0:
            reach[position // LANES] = np.float32(1.00001 * np.sqrt(farthest) + 1e-30)


@entry(fastmath=FLAGS)
def _pack(
    elements: IntArray, keys: AnyArray, mask: BoolArray, in_order: bool, panels: Panels
) -> None:
    """Sort the keys of some batch elements into panels, without those that a mask
    hides, if it is not empty.
    """
    m, d = keys.shape[1:]
    seen, centre = np.empty(m, np.intp), np.empty(d)
    for element in elements:
        own, count = keys[element], list_seen(mask, element, m, seen)
        panels.counts[element] = count
        if not count:
            continue
        highest, spread = _find_centre(own, seen[:count], centre)
        scale = 1.0 / max(spread, MIN_SCALED)
        panels.scales[element], panels.highest[element] = scale, highest
        order, fine, coarse = (
            panels.order[element],
            panels.fine[element],
            panels.coarse[element],
        )
        size = (count + LANES - 1) // LANES * LANES
        _sort(
            own,
            seen[:count],
            centre,
            scale,
            in_order,
            order[:size],
            panels.reach[element],
        )
        for start in range(0, size, LANES):
            for r in range(d):
                at = start * d + r * LANES
                for t in range(LANES):
                    value = np.float64(own[order[start + t], r])
                    fine[at + t] = value
                    coarse[at + t] = np.float32((value - centre[r]) * scale)


@njit(inline="always")
def _allocate(d: int, panels: int) -> Queries:
    return Queries(
        np.empty(LANES * d),
        np.empty(d * LANES, np.float32),
        np.empty(LANES),
        np.empty(LANES),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.float32),
        np.empty(LANES, np.intp),
        np.empty(LANES, np.intp),
        np.empty(panels * LANES, np.float32),
        np.empty((LANES, panels), np.intp),
        np.empty(LANES, np.intp),
        np.empty(panels * LANES),
    )


@njit  # without FLAGS, see there
def _bound_errors(
    d: int, slack: float, total: float, by: float, scale: float, highest: float
) -> tuple[float, np.float32]:
    """Return the slack of a query with |q|_1 = `total`, and the same for float32
    products, whose error it includes.

    With |k - c|_max scaled to 1, both inputs, their product and a sum of d are off by
    (d + 3) rounding units of |q|_1, and the comparison by a few more; the float64
    products that count are off by (d + 2) of theirs, for k. A slack below zero stands
    for the error of the float64 products themselves.
    """
    size, rounding = total * by, (d + 4) * UNIT * highest * total
    if slack < 0.0:
        slack = 2.02 * (rounding + d * TINY)
    error = size * 1.01 * (d + 8) * UNIT32 + 2.0 * min(
        rounding * by * scale, size * 1e30
    )
    error += d * (2.0**-146 + MIN_PRODUCT * by * scale)
    return slack, np.float32(1.000001 * (slack * by * scale + 2 * error))


@njit(inline="always", fastmath=FLAGS)
def _load_query(
    query: AnyArray,
    lane: int,
    slack: float,
    scale: float,
    highest: float,
    queries: Queries,
) -> None:
    """Store a query in float64, its scale, its slack, its length, and the margin of its
    float32 products.
    """
    d, largest, total, square = len(query), MIN_SCALED, 0.0, 0.0
    for r in range(d):
        value = np.float64(query[r])
        queries.fine[lane * d + r] = value
        largest = max(largest, abs(value))
        total += abs(value)
    by = scale_to_one(largest)
    for r in range(d):
        square += (queries.fine[lane * d + r] * by) ** 2
    queries.scale[lane] = by
    queries.slack[lane], queries.margin[lane] = _bound_errors(
        d, slack, total, by, scale, highest
    )
    queries.length[lane] = (
        np.float32(1.00001) * np.sqrt(np.float32(square)) + MIN_LENGTH
    )


class Task(NamedTuple):
    """Queries of one batch element."""

    queries: AnyArray  # (n, d)
    keys: AnyArray  # (m, d)
    slack: FloatArray  # (n,), or empty: as large as the error of the products
    limits: IntArray  # (n,), or empty: none
    room: IntArray  # for the members of tied queries


@njit(inline="always", fastmath=FLAGS)
def _load_group(
    task: Task, top: int, element: int, panels: Panels, queries: Queries
) -> None:
    """Load 16 queries, the last one again where there are fewer, and scale them into
    their lanes.
    """
    count, d = panels.counts[element], task.queries.shape[1]
    for lane in range(LANES):
        row = min(top + lane, len(task.queries) - 1)
        limit = min(task.limits[row], count) if len(task.limits) else count
        queries.limits[lane] = limit
        queries.full[lane] = (
            (limit + LANES - 1) // LANES if limit == count else limit // LANES
        )
        given = task.slack[row] if len(task.slack) else -1.0
        _load_query(
            task.queries[row],
            lane,
            given,
            panels.scales[element],
            panels.highest[element],
            queries,
        )
    for r in range(d):
        for lane in range(LANES):
            queries.coarse[r * LANES + lane] = np.float32(
                queries.fine[lane * d + r] * queries.scale[lane]
            )
    queries.best[:] = -np.inf


@njit(fastmath=FLAGS)
def _scan(coarse: AnyArray, reach: AnyArray, d: int, queries: Queries) -> int:
    """Find the maxima of panels, until no later key is seen or can be near-maximal;
    return their number.
    """
    best, maxima, full = queries.best, queries.maxima, queries.full.min()
    count = (queries.limits.max() + LANES - 1) // LANES
    for panel in range(count):
        if (
            float32_above(best, 0, queries.margin, queries.length, reach[panel])
            == ALL_LANES
        ):
            return panel
        if panel < full:
            panel_maxima(
                queries.coarse,
                coarse,
                panel * d * LANES,
                d,
                maxima,
                panel * LANES,
                best,
            )
            continue
        panel_maxima(
            queries.coarse,
            coarse,
            panel * d * LANES,
            d,
            maxima,
            panel * LANES,
            queries.cuts,
        )
        for lane in range(LANES):
            if panel < queries.full[lane]:
                best[lane] = max(best[lane], maxima[panel * LANES + lane])
    return count


@njit(inline="always", fastmath=FLAGS)
def _list_hits(queries: Queries, scanned: int) -> None:
    """List the scanned panels of each query that may hold a near-maximum; one that is
    seen in part always may.
    """
    cuts, found = queries.cuts, queries.found
    for lane in range(LANES):
        cuts[lane] = queries.best[lane] - queries.margin[lane]
        found[lane] = 0
    for panel in range(scanned):
        lanes = float32_above(
            queries.maxima, panel * LANES, cuts, queries.length, np.float32(0.0)
        )
        while lanes:
            lane = lowest_bit(lanes)
            lanes &= lanes - 1
            if panel < queries.full[lane]:
                queries.hits[lane, found[lane]] = panel
                found[lane] += 1
    for lane in range(LANES):
        if queries.full[lane] * LANES < queries.limits[lane]:
            queries.hits[lane, found[lane]] = queries.full[lane]
            found[lane] += 1


@njit(inline="always", fastmath=FLAGS)
def _decide(
    fine: FloatArray, d: int, lane: int, queries: Queries
) -> tuple[int, int, float]:
    """Compute float64 products of the hits; return the number of near-maxima, the place
    of the last, and the cut.
    """
    products, top, count = queries.products, -np.inf, queries.found[lane]
    for i in range(count):
        at = queries.hits[lane, i] * LANES
        seen = queries.limits[lane] - at
        top = max(
            top,
            panel_products(
                fine, at * d, queries.fine, lane * d, d, products, i * LANES, seen
            ),
        )
    cut, size, place = max(top - queries.slack[lane], LOWEST), 0, 0
    for i in range(count):
        lanes = float64_above(products, i * LANES, cut)
        while lanes:
            place = queries.hits[lane, i] * LANES + lowest_bit(lanes)
            lanes &= lanes - 1
            size += 1
    return size, place, cut


@njit
def _collect(
    order: IntArray, lane: int, cut: float, queries: Queries, members: IntArray
) -> None:
    """Write the near-maximal keys in ascending order."""
    size = 0
    for i in range(queries.found[lane]):
        lanes = float64_above(queries.products, i * LANES, cut)
        while lanes:
            members[size] = order[queries.hits[lane, i] * LANES + lowest_bit(lanes)]
            lanes &= lanes - 1
            size += 1
    members.sort()


@njit
def _are_equal(keys: AnyArray, members: IntArray) -> bool:
    for member in members:
        for r in range(keys.shape[1]):
            if keys[member, r] != keys[members[0], r]:
                return False
    return True


@njit(inline="always", fastmath=FLAGS)
def _write(
    task: Task,
    fine: FloatArray,
    order: IntArray,
    row: int,
    count: int,
    used: int,
    queries: Queries,
    output: Output,
) -> int:
    """Write the near-maxima of the first `count` of 16 queries from `row` on; return
    the room that is used then.
    """
    for lane in range(count):
        size, place, cut = _decide(fine, task.keys.shape[1], lane, queries)
        output.sizes[row + lane] = size
        output.first[row + lane] = order[place] if size == 1 else -1
        if size > 1:
            if used + size <= len(task.room):
                members = task.room[used : used + size]
                _collect(order, lane, cut, queries, members)
                output.first[row + lane], output.same[row + lane] = (
                    members[0],
                    _are_equal(task.keys, members),
                )
            used += size
    return used


@njit(fastmath=FLAGS)
def _search_rows(
    task: Task,
    element: int,
    start: int,
    stop: int,
    queries: Queries,
    panels: Panels,
    output: Output,
) -> int:
    """Find the near-maxima of some queries of a batch element; return the room that the
    members of tied ones need.
    """
    task, queries, panels, output = (
        borrow(task),
        borrow(queries),
        borrow(panels),
        borrow(output),
    )
    fine, order, used = panels.fine[element], panels.order[element], 0
    for top in range(start, stop, LANES):
        _load_group(task, top, element, panels, queries)
        scanned = _scan(
            panels.coarse[element],
            panels.reach[element],
            task.queries.shape[1],
            queries,
        )
        _list_hits(queries, scanned)
        row = element * len(task.queries) + top
        used = _write(
            task, fine, order, row, min(LANES, stop - top), used, queries, output
        )
    return used


@entry(fastmath=FLAGS)
def _search(
    tasks: IntArray,
    height: int,
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray,
    limits: IntArray,
    panels: Panels,
    output: Output,
) -> None:
    """Find the near-maxima of some tasks: `height` queries each of (batch, n, d)."""
    n, d = queries.shape[1:]
    tasks_per_element = (n + height - 1) // height
    space = _allocate(d, panels.reach.shape[1])
    for number in tasks:
        element, start = (
            number // tasks_per_element,
            number % tasks_per_element * height,
        )
        rows = slice(element * n, element * n + n)
        room = output.members[output.starts[number] : output.starts[number + 1]]
        task = Task(queries[element], keys[element], slack[rows], limits[rows], room)
        output.used[number] = _search_rows(
            task, element, start, min(start + height, n), space, panels, output
        )


def near_maxima(
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    limits: IntArray | None = None,
) -> Sets:
    """Return, for each query, every key whose float64 product is within `slack` of the
    largest; see the reference.
    """
    return near_maxima_of_batch(
        queries[None], keys[None], slack, limits=limits, most=MAX_MEMBERS
    )[0]


def near_maxima_of_batch(
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray | None = None,
    mask: BoolArray | None = None,
    causal: bool = False,
    limits: IntArray | None = None,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """Return the same for queries (batch, n, d) and keys (batch, m, d), and where all
    members are equal keys.

    Without `slack` it is the error of the products. With `mask` (batch, m) only keys
    where it is true are seen, with `causal` only the first i + 1 of them by query i.
    """
    (batch, n, d), m = queries.shape, keys.shape[1]
    queries, keys = as_plain(queries), as_plain(keys)
    seen, effort = (
        np.empty((0, 0), bool) if mask is None else as_plain(mask),
        float(queries.size) * m,
    )
    if causal:
        counted = np.ones(keys.shape[:2], np.intp) if mask is None else mask
        limits = np.cumsum(counted, axis=1, dtype=np.intp)[
            :, np.minimum(np.arange(n), m - 1)
        ].reshape(-1)
    allowed = np.empty(0) if slack is None else as_plain(slack)
    first_keys = np.empty(0, np.intp) if limits is None else as_plain(limits)
    height, count = max(LANES, min(QUERIES_PER_TASK, n)), -(-m // LANES)
    tasks = batch * -(-n // height)
    panels = Panels(
        np.empty((batch, count * LANES), np.intp),
        np.empty(batch, np.intp),
        np.empty((batch, count * d * LANES), np.float32),
        np.empty((batch, count * d * LANES)),
        np.empty((batch, count), np.float32),
        np.empty(batch),
        np.empty(batch),
    )

    def pack(some: IntArray) -> None:
        _pack(some, keys, seen, limits is not None, panels)

    def search(some: IntArray, output: Output) -> None:
        if tasks == batch:
            pack(some)
        _search(some, height, queries, keys, allowed, first_keys, panels, output)

    if tasks != batch:
        share(pack, batch, keys.size * PACKING)
    return collect_sets(search, batch * n, tasks, height, effort, most)


def as_plain(array: AnyArray) -> AnyArray:
    """Return a contiguous and writeable array, as numba would compile again for another
    kind.
    """
    return np.require(array, requirements=["C", "W"])
