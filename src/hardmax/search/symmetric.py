"""Many dimensions, tokens that are their own keys: half of all products, in int16, and
float64 where those are close.

Products are symmetric: a tile of products serves the tokens of its rows and of its
columns, so half the arithmetic is enough. Tokens are rounded to int16, whose products
processors add up twice as fast as those of float32. They are off by at most a bound e,
so a key within `slack` of the largest product lies in a panel of 16 whose maximum is at
least best - slack - 2 e. Each token keeps its few best panels; in those, nearly always
one, the keys with such products are found, and compared in float64 if there are
several. At d = 128 this is 2 to 3 times as fast as `scan`.

Tokens come by falling length. As <z_i, z_j> <= |z_i| |z_j|, a tile is left out once
this is below the best of all its tokens. Tokens that have clustered differ by less than
the grid of int16: their rows are left to `scan`. A few tokens are compared first to see
whether that is so for many of them, which decides about time alone.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.simd import (
    FLAGS,
    LANES,
    MIN_SCALED,
    borrow,
    lowest_bit,
    products_above,
    tile_maxima,
)
from hardmax.search.threads import Output, collect_sets, entry, max_threads, share
from hardmax.sets import MAX_MEMBERS, Sets

# of a token in units: coordinates stay below 2^15, and products below 2^30 and some
MAX_LENGTH = 32_000
MAX_TOKEN = 2.0**30  # length up to which products stay in the range of float32
MAX_UNSURE = 2.0**29  # of a product, so that sums with a cut stay in the range of int32
N_SAMPLES, N_SAMPLED_KEYS = (
    8,
    512,
)  # tokens and keys, spread over all lengths, that are compared first
MAX_CLUSTERED = 1 / 8  # share of the tokens that `scan` may have to search again
TOKENS_PER_TASK = 128  # when packing
PANELS_PER_TASK = 8
# rows of 16 pairs, 64 bytes each, of the panels these meet in turn: the second-level
# cache
CACHED_ROWS = 4096
KEPT = 8  # best panels of a token
ROWS_PER_TASK = 64  # when deciding
MAX_BYTES = 1 << 28  # of the lists of best panels, which every thread has for itself
LOWEST = np.iinfo(np.int32).min


class Packed(NamedTuple):
    """Tokens by falling length, as int16 in panels of 16; the last token fills up its
    panel.
    """

    order: IntArray  # (panels * 16,) which token stands where
    # (panels * ceil(d / 2) * 16,) int32: panel, pair of coordinates, token of the panel
    pairs: AnyArray
    reach: AnyArray  # (panels,) float32, the largest length of a panel, in units
    inverse: AnyArray  # (panels * 16,) float32, at most 1 / length
    unsure: AnyArray  # (panels * 16,) slack + 2 e
    # (panels * 16,) what a maximum has to exceed to matter; all threads raise it
    cuts: AnyArray


class Best(NamedTuple):
    """The panels with the largest maxima of every token: those that one thread saw, or
    all with an axis in front.
    """

    values: AnyArray  # (panels * 16, KEPT) maxima, falling
    panels: AnyArray  # (panels * 16, KEPT) which panel


def near_maxima(tokens: FloatArray, slack: FloatArray) -> Sets:
    """Return `reference.near_maxima` for tokens that are their own keys; empty sets for
    rows left to `scan`.
    """
    (n, d), left_out = (
        tokens.shape,
        Sets(np.zeros(len(tokens) + 1, np.intp), np.empty(0, np.intp)),
    )
    packed = _pack_tokens(tokens, slack)
    if packed is None:
        return left_out
    count, effort = len(packed.reach), 0.5 * n * n * d
    threads = max(1, min(max_threads(), MAX_BYTES // (count * LANES * KEPT * 8)))
    lists = threads, count * LANES, KEPT
    best = Best(np.full(lists, LOWEST, np.int32), np.zeros(lists, np.int32))
    free = [Best(*parts) for parts in zip(*best, strict=True)]

    def search(some: IntArray) -> None:
        mine = free.pop()  # which no other thread has now
        _search(packed, mine, some)
        free.append(mine)

    share(search, -(-count // PANELS_PER_TASK), effort, threads)
    places = np.empty(n, np.intp)
    places[packed.order[:n]] = np.arange(n)
    decide = partial(_decide, tokens, slack, packed, best, places)
    sets = collect_sets(
        decide, n, -(-n // ROWS_PER_TASK), ROWS_PER_TASK, effort, MAX_MEMBERS
    )[0]
    if sets.single:
        return sets
    rows = np.repeat(np.arange(n), sets.sizes)
    return Sets(sets.starts, sets.members[np.lexsort((sets.members, rows))])


def _pack_tokens(tokens: FloatArray, slack: FloatArray) -> Packed | None:
    """Sort and round the tokens; None where int16 cannot separate the products of many
    of them.
    """
    n, d = tokens.shape
    lengths = np.sqrt(
        np.einsum("ij,ij->i", tokens, tokens)
    )  # by no library whose threads would spin for a while
    longest = max(float(lengths.max()), MIN_SCALED)
    if longest > MAX_TOKEN:
        return None
    order = np.argsort(-lengths)
    order = np.r_[order, np.repeat(order[-1:], -n % LANES)]
    unit = longest / MAX_LENGTH
    lengths = lengths[order] / unit
    unsure = _bound_errors(d, lengths, slack[order], unit)
    if not unsure.max() < MAX_UNSURE:
        return None
    some, keys = (
        np.arange(0, n, -(-n // count)) for count in (N_SAMPLES, N_SAMPLED_KEYS)
    )
    if _are_clustered(
        tokens,
        order[some],
        order[keys],
        unsure[some] * unit * unit,
        int(MAX_CLUSTERED * len(some)),
    ):
        return None
    upper = lengths + 0.5 * np.sqrt(
        d
    )  # of |v|, also over some coordinates alone: no sum leaves the range of int32
    numbers = np.zeros(len(order) * (d + d % 2), np.int16)
    work = partial(_round, tokens, order, 1.0 / unit, numbers)
    share(work, -(-len(order) // TOKENS_PER_TASK), float(tokens.size * LANES))
    return Packed(
        order,
        numbers.view(np.int32),
        np.asarray(1.00001 * upper.reshape(-1, LANES).max(axis=1), np.float32),
        np.asarray(0.99999 / upper, np.float32),
        np.asarray(unsure, np.int32),
        np.full(len(order), LOWEST, np.int32),
    )


def _bound_errors(
    d: int, lengths: FloatArray, slack: FloatArray, unit: float
) -> FloatArray:
    """Return (n,) more than slack + 2 e, in units, for integers v that are at most 1/2
    away from the coordinates z.

    <z, z'> = <v + x, v' + x'> with |x_r| <= 1/2, so that <v, v'> is off by e = |v|_1 /
    2 + |v'|_1 / 2 + d / 4 at most, and |v|_1 is at most sqrt(d) |v| and |v| at most |z|
    + sqrt(d) / 2. What float64 rounds here and in z / unit is less than the ten
    thousandth part of it.
    """
    sums = np.sqrt(d) * lengths + 0.5 * d  # at least |v|_1
    with np.errstate(over="ignore"):
        return np.asarray(
            1.0001 * (slack / unit / unit + sums + sums.max() + 0.5 * d) + 2
        )


@entry(fastmath=FLAGS)
def _are_clustered(
    tokens: FloatArray, some: IntArray, keys: IntArray, unsure: FloatArray, allowed: int
) -> bool:
    """Return whether for more tokens than allowed several of some keys are this close
    to the largest product.
    """
    products, clustered = np.empty(len(keys)), 0
    for i in range(len(some)):
        best, close = -np.inf, 0
        for j in range(len(keys)):
            products[j] = 0.0
            for r in range(tokens.shape[1]):
                products[j] += tokens[some[i], r] * tokens[keys[j], r]
            best = max(best, products[j])
        for j in range(len(keys)):
            close += products[j] >= best - unsure[i]
        clustered += close > 2
        if clustered > allowed:
            return True
    return False


@entry()
def _round(
    tokens: FloatArray, order: IntArray, scale: float, out: AnyArray, tasks: IntArray
) -> None:
    """Copy rounded tokens into their panels, pairs of coordinates of a token side by
    side.
    """
    d, row = tokens.shape[1], 2 * LANES
    for task in tasks:
        for at in range(
            task * TOKENS_PER_TASK, min(len(order), (task + 1) * TOKENS_PER_TASK)
        ):
            start, token = (
                (at // LANES) * ((d + 1) // 2) * row + at % LANES * 2,
                tokens[order[at]],
            )
            for r in range(d):
                out[start + (r >> 1) * row + (r & 1)] = np.rint(token[r] * scale)


@njit(inline="always")
def _insert(value: int, panel: int, at: int, packed: Packed, best: Best) -> None:
    """Insert a maximum into the falling list of one token, and raise what the next one
    has to exceed.

    Where the list is full, that is at least its last one: if it matters, the token is
    left out.
    """
    values, panels, place = best.values[at], best.panels[at], KEPT - 1
    if value <= values[place]:
        return
    while place > 0 and values[place - 1] < value:
        values[place], panels[place] = values[place - 1], panels[place - 1]
        place -= 1
    values[place], panels[place] = value, panel
    packed.cuts[at] = max(
        packed.cuts[at], max(values[0] - packed.unsure[at], values[KEPT - 1])
    )


@njit(inline="always", fastmath=FLAGS)
def _bound_lengths(packed: Packed, first: int, last: int, needed: AnyArray) -> None:
    """Write, for some panels, the least length of a key that may matter to one of its
    tokens.
    """
    for panel in range(first, last):
        least = np.float32(3e38)
        for at in range(panel * LANES, (panel + 1) * LANES):
            least = min(least, packed.cuts[at] * packed.inverse[at])
        needed[panel] = least


@njit(fastmath=FLAGS)
def _multiply_tiles(
    packed: Packed,
    best: Best,
    rows: int,
    panel: int,
    first: int,
    last: int,
    needed: AnyArray,
    out: AnyArray,
) -> None:
    """Multiply a panel with those from `first` to `last`, and insert the maxima that
    matter.
    """
    packed, best = borrow(packed), borrow(best)
    size, reach, need = rows * LANES, packed.reach[panel], needed[panel]
    for other in range(first, last):
        if packed.reach[other] < need and reach < needed[other]:
            continue
        one, two = panel * LANES, other * LANES
        found = tile_maxima(
            packed.pairs, panel * size, other * size, rows, packed.cuts, one, two, out
        )
        if other == panel:
            found &= (1 << LANES) - 1
        while found:
            lane = lowest_bit(found)
            found &= found - 1
            if lane < LANES:
                _insert(out[lane], other, panel * LANES + lane, packed, best)
            else:
                _insert(out[lane], panel, other * LANES + lane - LANES, packed, best)


@entry(fastmath=FLAGS)
def _search(packed: Packed, best: Best, tasks: IntArray) -> None:
    """Multiply the panels of some tasks with all that follow."""
    count, rows = len(packed.reach), len(packed.pairs) // len(packed.order)
    step, needed, out = (
        max(1, CACHED_ROWS // rows),
        np.empty(count, np.float32),
        np.empty(2 * LANES, np.int32),
    )
    for task in tasks:
        top, bottom = task * PANELS_PER_TASK, min(count, (task + 1) * PANELS_PER_TASK)
        for left in range(top, count, step):
            right = min(count, left + step)
            _bound_lengths(packed, top, bottom, needed)
            _bound_lengths(packed, left, right, needed)
            for panel in range(top, bottom):
                _multiply_tiles(
                    packed, best, rows, panel, max(panel, left), right, needed, out
                )


@entry(fastmath=FLAGS)
def _decide(
    tokens: FloatArray,
    slack: FloatArray,
    packed: Packed,
    best: Best,
    places: IntArray,
    tasks: IntArray,
    output: Output,
) -> None:
    """Write every key within the slack, by float64 where several may matter; none where
    more panels may matter.

    The keys of a panel that may matter are found by int16 products once more. Members
    are in the order of the panels.
    """
    (n, d), states, rows = (
        tokens.shape,
        len(best.values),
        len(packed.pairs) // len(packed.order),
    )
    keys, products = (
        np.empty(states * KEPT * LANES, np.intp),
        np.empty(states * KEPT * LANES),
    )
    for task in tasks:
        used, room = 0, output.members[output.starts[task] : output.starts[task + 1]]
        for i in range(task * ROWS_PER_TASK, min(n, (task + 1) * ROWS_PER_TASK)):
            at, complete, count, largest = places[i], True, 0, -np.inf
            own = at // LANES * LANES * rows + at % LANES
            top = best.values[0, at, 0]
            for s in range(1, states):
                top = max(top, best.values[s, at, 0])
            packed.cuts[at] = top - packed.unsure[at]
            cut = packed.cuts[at]
            for s in range(states):
                complete &= best.values[s, at, KEPT - 1] < cut
                for k in range(KEPT):
                    if best.values[s, at, k] < cut:
                        break
                    first = best.panels[s, at, k] * LANES
                    lanes = products_above(
                        packed.pairs, first * rows, own, rows, packed.cuts, at
                    )
                    lanes &= (1 << min(LANES, n - first)) - 1
                    while lanes:
                        keys[count] = packed.order[first + lowest_bit(lanes)]
                        lanes &= lanes - 1
                        count += 1
            for c in range(count if count > 1 else 0):
                products[c] = 0.0
                for r in range(d):
                    products[c] += tokens[i, r] * tokens[keys[c], r]
                largest = max(largest, products[c])
            size, member = 0, -1
            for c in range(count):
                if complete and (count == 1 or products[c] >= largest - slack[i]):
                    keys[size] = member = keys[c]
                    size += 1
            output.first[i], output.sizes[i], output.same[i] = member, size, False
            if size > 1:
                for c in range(min(size, len(room) - used)):
                    room[used + c] = keys[c]
                used += size
        output.used[task] = used
