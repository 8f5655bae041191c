"""Many dimensions, tokens that are their own keys: half of all products, and float64 where those are too close to call.

Products are symmetric, as they are at first unless there is a matrix A: a tile of products serves the tokens of its
rows and of its columns, and half the arithmetic is enough. Coarse products, of whole numbers or of float32, are off by
at most a bound e, so a key within `slack` of the largest product lies in a panel of 16 whose maximum is at least
best - slack - 2 e. Each token keeps its few best panels; in those that may matter, nearly always one, keys with such
products are looked for, and compared in float64 if there are several.

Tokens come by falling length. As <z_i, z_j> <= |z_i| |z_j|, a tile is left out once this is below the best of all its
tokens. They are scaled by the caller so that no coordinate exceeds 1, and products stay in the range of float32.
"""

from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, borrowed, lowest
from hardmax.search.sets import MOST, Sets
from hardmax.search.sorted_tokens import CROWDED, Sorted, sorted_tokens
from hardmax.search.threads import Output, entry, share, written_sets
from hardmax.search.tiles import products_above, tile_maxima

HEIGHT = 8  # panels of a task
CACHED = 4096  # coordinates, 64 bytes each, of the panels that these meet in turn: the second-level cache holds them
KEPT = 8  # best panels of a token
ROWS = 64  # tokens of a task that looks again


class Best(NamedTuple):
    """The panels with the largest maxima, for every token: those that one thread saw, or all with an axis in front."""

    values: AnyArray  # (panels * 16, KEPT) maxima, falling
    panels: AnyArray  # (panels * 16, KEPT) which panel


def near_maxima(tokens: FloatArray, slack: FloatArray) -> Sets:
    """As `reference.near_maxima`, for tokens that are their own keys; empty where many are too close to call."""
    given = sorted_tokens(tokens, slack)
    sets = _found(tokens, slack, given)
    if given.coarse.dtype != np.float32 and np.count_nonzero(sets.sizes == 0) > CROWDED * len(sets):
        sets = _found(tokens, slack, sorted_tokens(tokens, slack, whole=False))  # which few expected
    return sets


def _found(tokens: FloatArray, slack: FloatArray, given: Sorted) -> Sets:
    """The same by coarse products of one kind."""
    n, d = tokens.shape
    count, effort = len(given.reach), 0.5 * n * n * d
    lists = numba.get_num_threads(), count * LANES, KEPT
    best = Best(np.full(lists, given.cuts[0]), np.zeros(lists, np.int32))  # the lowest number
    free = [Best(*parts) for parts in zip(*best, strict=True)]

    def search(some: IntArray) -> None:
        mine = free.pop()  # which no other thread has now
        _search(given, mine, some)
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
    given: Sorted, best: Best, rows: int, panel: int, first: int, last: int, needs: AnyArray, out: AnyArray
) -> None:
    """The tiles of a panel with those from `first` to `last`."""
    given, best = borrowed(given), borrowed(best)
    size, reach, need = rows * LANES, given.reach[panel], needs[panel]
    for other in range(first, last):
        if given.reach[other] < need and reach < needs[other]:
            continue
        one, two = panel * LANES, other * LANES
        found = tile_maxima(given.coarse, panel * size, other * size, rows, given.cuts, one, two, out)
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
def _search(given: Sorted, best: Best, tasks: IntArray) -> None:
    """The tiles of some panels, 8 for each task, with all that follow."""
    count, rows = len(given.reach), len(given.coarse) // len(given.order)
    step, needs, out = max(1, CACHED // rows), np.empty(count, np.float32), np.empty(2 * LANES, given.cuts.dtype)
    for task in tasks:
        top, bottom = task * HEIGHT, min(count, (task + 1) * HEIGHT)
        for left in range(top, count, step):
            right = min(count, left + step)
            _needs(given, top, bottom, needs)
            _needs(given, left, right, needs)
            for panel in range(top, bottom):
                _tiles(given, best, rows, panel, max(panel, left), right, needs, out)


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

    Which keys of a panel these are is told by coarse products once more. Members are in the order of the panels.
    """
    (n, d), states, rows = tokens.shape, len(best.values), len(given.coarse) // len(given.order)
    keys, products = np.empty(states * KEPT * LANES, np.intp), np.empty(states * KEPT * LANES)
    for task in tasks:
        used, room = 0, output.members[output.starts[task] : output.starts[task + 1]]
        for i in range(task * ROWS, min(n, (task + 1) * ROWS)):
            at, complete, count, largest = places[i], True, 0, -np.inf
            own = at // LANES * LANES * rows + at % LANES
            top = best.values[0, at, 0]
            for s in range(1, states):
                top = max(top, best.values[s, at, 0])
            given.cuts[at] = top - given.unsure[at]
            cut = given.cuts[at]
            for s in range(states):
                complete &= best.values[s, at, KEPT - 1] < cut
                for k in range(KEPT):
                    if best.values[s, at, k] < cut:
                        break
                    first = best.panels[s, at, k] * LANES
                    lanes = products_above(given.coarse, first * rows, own, rows, given.cuts, at)
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
