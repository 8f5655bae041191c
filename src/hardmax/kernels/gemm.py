"""Many dimensions, tokens that are their own keys: half of all products, and float64 where those are too close to call.

Products are symmetric, as they are at first unless there is a matrix A: a tile of products serves the tokens of its
rows and of its columns, and half the arithmetic is enough. Float32 products are off by at most a bound e, so a key
within `slack` of the largest product lies in a panel of 16 whose maximum is at least best - slack - 2 e. Each token
keeps its few best panels; in those that may matter, nearly always one, keys with such products are looked for, and
compared in float64 if there are several.

Tokens come by falling length. As <z_i, z_j> <= |z_i| |z_j|, a tile is left out once this is below the best of all its
tokens. They are scaled by the caller so that no coordinate exceeds 1, and products stay in the range of float32.
"""

from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.kernels.compiled import Output, entry, share, written_sets
from hardmax.kernels.lanes import FLAGS, LANES, SMALLEST, borrowed, lowest
from hardmax.kernels.sets import MOST, Sets
from hardmax.kernels.tiles import products_above, tile_maxima

HEIGHT = 8  # panels of a task
CACHED = 4096  # coordinates, 64 bytes each, of the panels that these meet in turn: the second-level cache holds them
KEPT = 8  # best panels of a token
ROWS = 64  # tokens of a task that looks again
SINGLE = 2.0**-24  # rounding of one float32 operation, relative
TINY = 2.0**-125  # and absolute, with a factor to spare
LOWEST = np.float32(-3e38)
LEVELS = 60_000  # of lengths, by which tokens are sorted


class Sorted(NamedTuple):
    """Tokens by falling length, up to a level, in panels of 16; the last token fills up its panel."""

    order: IntArray  # (panels * 16,) which token stands where
    coarse: AnyArray  # (panels * d * 16,) float32: panel, coordinate, token of the panel
    reach: AnyArray  # (panels,) float32, the largest length of a panel
    inverse: AnyArray  # (panels * 16,) float32, at most 1 / length
    unsure: AnyArray  # (panels * 16,) float32, slack + 2 e
    cuts: AnyArray  # (panels * 16,) float32, what a maximum has to exceed to matter; all threads raise it


class Best(NamedTuple):
    """The panels with the largest maxima, for every token: those that one thread saw, or all with an axis in front."""

    values: AnyArray  # (panels * 16, KEPT) float32 maxima, falling
    panels: AnyArray  # (panels * 16, KEPT) which panel


def near_maxima(tokens: FloatArray, slack: FloatArray) -> Sets:
    """As `reference.near_maxima`, for tokens that are their own keys; empty where many are too close to call."""
    n, d = tokens.shape
    given = _sorted(tokens, slack)
    count, effort = len(given.reach), 0.5 * n * n * d
    share(partial(_pack, tokens, given), -(-count // HEIGHT), float(n * d * LANES))
    lists = numba.get_num_threads(), count * LANES, KEPT
    best = Best(np.full(lists, LOWEST), np.zeros(lists, np.int32))
    free = [Best(*parts) for parts in zip(*best, strict=True)]

    def search(some: IntArray) -> None:
        mine = free.pop()  # which no other thread has now
        _search(given, mine, d, some)
        free.append(mine)

    share(search, -(-count // HEIGHT), effort)
    places = np.empty(n, np.intp)
    places[given.order[:n]] = np.arange(n)
    look = partial(_look_again, tokens, slack, given, best, places)
    sets = written_sets(look, n, -(-n // ROWS), ROWS, effort, MOST)[0]
    if sets.single:
        return sets
    rows = np.repeat(np.arange(n), sets.sizes)
    return Sets(sets.starts, sets.members[np.lexsort((sets.members, rows))])


def _sorted(tokens: FloatArray, slack: FloatArray) -> Sorted:
    """Sort them, with bounds that hold in float32.

    |fl(q k) - q k| <= (d + 3) u |q|_2 |k|_2 in any order of the sum: d for the sum, two for the rounded numbers, and
    one for what is left of higher order. The cuts are off by a few more units of the largest product.
    """
    n, d = tokens.shape
    lengths = np.sqrt(np.einsum("ij,ij->i", tokens, tokens))
    longest = float(lengths.max())
    levels = (LEVELS * (1.0 - lengths / max(longest, SMALLEST))).astype(np.uint16)
    order = np.argsort(levels, kind="stable")  # whole numbers of 16 bits are sorted in linear time
    order = np.r_[order, np.repeat(order[-1:], -n % LANES)]
    lengths = lengths[order]
    unsure = 1.0001 * (slack[order] + 2.02 * ((d + 8) * SINGLE * longest * lengths + d * TINY * max(1.0, longest)))
    return Sorted(
        order,
        np.empty(len(order) * d, np.float32),
        np.asarray(1.00001 * lengths.reshape(-1, LANES).max(axis=1) + 1e-30, np.float32),
        np.asarray(0.99999 / np.maximum(lengths, 1e-18), np.float32),
        np.asarray(unsure, np.float32),
        np.full(len(order), LOWEST),
    )


@entry()
def _pack(tokens: FloatArray, given: Sorted, tasks: IntArray) -> None:
    """Copy tokens into their panels, as float32."""
    d = tokens.shape[1]
    for task in tasks:
        for at in range(task * HEIGHT * LANES, min(len(given.order), (task + 1) * HEIGHT * LANES)):
            start, token = at // LANES * LANES * d + at % LANES, tokens[given.order[at]]
            for r in range(d):
                given.coarse[start + r * LANES] = token[r]


@njit(inline="always")
def _keep(value: float, panel: int, at: int, given: Sorted, best: Best) -> None:
    """Insert a maximum into the falling list of one token, and raise what the next one has to exceed.

    Where the list is full, that is at least its last one: if it matters, the token is given up.
    """
    values, panels, place = best.values[at], best.panels[at], KEPT - 1
    if value <= values[place]:
        return
    while place > 0 and values[place - 1] < value:
        values[place], panels[place] = values[place - 1], panels[place - 1]
        place -= 1
    values[place], panels[place] = value, panel
    given.cuts[at] = max(given.cuts[at], max(values[0] - given.unsure[at], values[KEPT - 1]))


@njit(inline="always", fastmath=FLAGS)
def _needs(given: Sorted, first: int, last: int, needs: AnyArray) -> None:
    """Write, for some panels, the least length of a key that may matter to one of its tokens."""
    for panel in range(first, last):
        least = np.float32(3e38)
        for at in range(panel * LANES, (panel + 1) * LANES):
            least = min(least, given.cuts[at] * given.inverse[at])
        needs[panel] = least


@njit(fastmath=FLAGS)
def _tiles(
    given: Sorted, best: Best, d: int, panel: int, first: int, last: int, needs: AnyArray, out: AnyArray
) -> None:
    """The tiles of a panel with those from `first` to `last`."""
    given, best = borrowed(given), borrowed(best)
    size, reach, need = d * LANES, given.reach[panel], needs[panel]
    for other in range(first, last):
        if given.reach[other] < need and reach < needs[other]:
            continue
        found = tile_maxima(given.coarse, panel * size, other * size, d, given.cuts, panel * LANES, other * LANES, out)
        if other == panel:
            found &= (1 << LANES) - 1
        while found:
            lane = lowest(found)
            found &= found - 1
            if lane < LANES:
                _keep(out[lane], other, panel * LANES + lane, given, best)
            else:
                _keep(out[lane], panel, other * LANES + lane - LANES, given, best)


@entry(fastmath=FLAGS)
def _search(given: Sorted, best: Best, d: int, tasks: IntArray) -> None:
    """The tiles of some panels, 8 for each task, with all that follow."""
    count, step = len(given.reach), max(1, CACHED // d)
    needs, out = np.empty(count, np.float32), np.empty(2 * LANES, np.float32)
    for task in tasks:
        top, bottom = task * HEIGHT, min(count, (task + 1) * HEIGHT)
        for left in range(top, count, step):
            right = min(count, left + step)
            _needs(given, top, bottom, needs)
            _needs(given, left, right, needs)
            for panel in range(top, bottom):
                _tiles(given, best, d, panel, max(panel, left), right, needs, out)


@entry(fastmath=FLAGS)
def _look_again(
    tokens: FloatArray,
    slack: FloatArray,
    given: Sorted,
    best: Best,
    places: IntArray,
    tasks: IntArray,
    output: Output,
) -> None:
    """Float64 where several keys may matter: every key within the slack; none where there may be more such panels.

    Which keys of a panel these are is told by float32 products once more. Members are in the order of the panels.
    """
    n, d = tokens.shape
    states = len(best.values)
    keys, products = np.empty(states * KEPT * LANES, np.intp), np.empty(states * KEPT * LANES)
    for task in tasks:
        used, room = 0, output.members[output.starts[task] : output.starts[task + 1]]
        for i in range(task * ROWS, min(n, (task + 1) * ROWS)):
            at, top, complete, count, largest = places[i], LOWEST, True, 0, -np.inf
            own = at // LANES * LANES * d + at % LANES
            for s in range(states):
                top = max(top, best.values[s, at, 0])
            cut = top - given.unsure[at]
            for s in range(states):
                complete &= best.values[s, at, KEPT - 1] < cut
                for k in range(KEPT):
                    if best.values[s, at, k] < cut:
                        break
                    first = best.panels[s, at, k] * LANES
                    lanes = products_above(given.coarse, first * d, own, d, cut)
                    lanes &= (1 << min(LANES, n - first)) - 1
                    while lanes:
                        keys[count] = given.order[first + lowest(lanes)]
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
