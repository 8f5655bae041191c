"""d = 2: the convex hull of keys that arrive one after another, and the largest
products among those that have arrived.

The upper and the lower hull are kept apart; the lower one is the upper one of the
negated plane. Each is a sequence of strict vertices by x, in blocks, so that a search
takes log h steps and an insertion moves one block. Keys that may have a largest product
without being a vertex, which lie on an edge or below the last vertex at its x, hang in
a list at the vertex where their edge starts. A key below that never becomes a maximum
again, because hulls only grow. With depth 0 a key leaves a list at most once, except
for the list of the last vertex, which moves as a whole: n insertions search O(n log h)
vertices and move O(n) blocks.

The signs of determinants and of products with differences of keys are exact: floats
with an error bound, then sums of all rounding errors (Shewchuk 1997). Nonzero
coordinates must lie within 2^-400 and 2^400 in size for that.

`near_maxima` answers causal queries up to a slack. It keeps keys up to `depth` below
the hull: products are computed of the lists at edges with an end that is near-maximal,
since a product on an edge is at most that of one of its ends.
"""

from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit

from hardmax._exact import UNIT
from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.hull import MAX_DEPTH, find_depths, largest_depth
from hardmax.search.simd import borrow
from hardmax.search.threads import entry, share
from hardmax.sets import MAX_MEMBERS, Sets, TooMany

BLOCK = 256  # vertices
MAX_VISITED = (
    1 / 32
)  # of all keys, in lists, per query on average, beyond which the rest is left to another method
WORK_PER_KEY = 400  # multiplications that take as long
Pair: TypeAlias = tuple[float, float]  # a rounded number and its error


class Chain(NamedTuple):
    """The vertices of one side of the hull, and the keys that hang at each."""

    order: AnyArray  # (blocks,) blocks in use from left to right, then free ones
    sizes: AnyArray  # (blocks,) number of vertices
    slots: AnyArray  # (blocks, BLOCK) keys
    used: AnyArray  # (1,) number of blocks in use
    hang: AnyArray  # (keys,) first key of the list of a vertex, -1 for none
    link: AnyArray  # (keys,) next key of a list


def new_chains(count: int, keys: int) -> Chain:
    """Return the arrays of empty chains for at most `keys` keys each, with one more
    axis in front.
    """
    blocks = 4 * keys // BLOCK + 4
    order = np.ascontiguousarray(
        np.broadcast_to(np.arange(blocks, dtype=np.int32), (count, blocks))
    )
    sizes, slots = (
        np.zeros((count, blocks), np.int32),
        np.empty((count, blocks, BLOCK), np.int32),
    )
    hang, link = np.empty((count, keys), np.int32), np.empty((count, keys), np.int32)
    return Chain(order, sizes, slots, np.zeros((count, 1), np.int32), hang, link)


@njit
def _subtract(a: float, b: float) -> Pair:
    """Return a - b as a rounded difference and its error."""
    high = a - b
    other = a - high
    return high, (a - (high + other)) + (other - b)


@njit
def _multiply(a: float, b: float) -> Pair:
    """Return a b as a rounded product and its error (Dekker)."""
    high = a * b
    c, e = 134217729.0 * a, 134217729.0 * b
    a1, b1 = c - (c - a), e - (e - b)
    a0, b0 = a - a1, b - b1
    return high, a0 * b0 - (((high - a1 * b1) - a0 * b1) - a1 * b0)


@njit
def _sign_of_sum(p: Pair, q: Pair, r: Pair, s: Pair) -> int:
    """Return the sign of p q + r s, exactly."""
    parts, count = np.empty(16), 0
    for one, other in ((p, q), (r, s)):
        for a in one:
            for b in other:
                high, low = _multiply(a, b)
                for term in (low, high):
                    total = term
                    for j in range(count):
                        given = parts[j]
                        added = total + given
                        virtual = added - total
                        parts[j] = (total - (added - virtual)) + (given - virtual)
                        total = added
                    parts[count] = total
                    count += 1
    for j in range(
        count - 1, -1, -1
    ):  # the last one that is not 0 exceeds the sum of those before
        if parts[j] != 0.0:
            return 1 if parts[j] > 0.0 else -1
    return 0


@njit
def _turn(keys: FloatArray, a: int, b: int, x: float, y: float) -> int:
    """Return the sign of (b - a) x (p - a) for p = (x, y): 1 where p is above the edge
    from a to b.
    """
    ax, ay, bx, by = keys[a, 0], keys[a, 1], keys[b, 0], keys[b, 1]
    one, other = (bx - ax) * (y - ay), (by - ay) * (x - ax)
    value, error = one - other, 4 * UNIT * (abs(one) + abs(other))
    if abs(value) > error:
        return 1 if value > 0.0 else -1
    return _sign_of_sum(
        _subtract(bx, ax), _subtract(y, ay), _subtract(ay, by), _subtract(x, ax)
    )


@njit
def rise(keys: FloatArray, a: int, b: int, x: float, y: float) -> int:
    """Return the sign of <q, b - a> for q = (x, y)."""
    ax, ay, bx, by = keys[a, 0], keys[a, 1], keys[b, 0], keys[b, 1]
    one, other = x * (bx - ax), y * (by - ay)
    value, error = one + other, 4 * UNIT * (abs(one) + abs(other))
    if abs(value) > error:
        return 1 if value > 0.0 else -1
    return _sign_of_sum((x, 0.0), _subtract(bx, ax), (y, 0.0), _subtract(by, ay))


@njit
def at(chain: Chain, rank: int, offset: int) -> int:
    """Return the vertex at a place; -1 outside. One step past the end of a block is the
    start of the next.
    """
    if offset < 0:
        if rank == 0:
            return -1
        rank -= 1
        offset += chain.sizes[chain.order[rank]]
    elif rank < chain.used[0] and offset >= chain.sizes[chain.order[rank]]:
        offset -= chain.sizes[chain.order[rank]]
        rank += 1
    return chain.slots[chain.order[rank], offset] if rank < chain.used[0] else -1


@njit
def _find(chain: Chain, keys: FloatArray, side: float, x: float) -> tuple[int, int]:
    """Return the place of the first vertex whose x, times `side`, is at least `x`."""
    used = chain.used[0]
    if used and side * keys[at(chain, used, -1), 0] < x:
        return used, 0
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if side * keys[chain.slots[chain.order[middle], 0], 0] < x:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0, 0
    rank, block = low - 1, chain.slots[chain.order[low - 1]]
    low, high = 1, chain.sizes[chain.order[rank]]
    size = high
    while low < high:
        middle = (low + high) // 2
        if side * keys[block[middle], 0] < x:
            low = middle + 1
        else:
            high = middle
    return (rank, low) if low < size else (rank + 1, 0)


@njit
def _insert(chain: Chain, rank: int, offset: int, key: int) -> None:
    """Insert a vertex before a place. A full block is halved; the last one stays full
    for keys in ascending order.
    """
    order, sizes, slots, used = chain.order, chain.sizes, chain.slots, chain.used
    if offset == 0 and rank > 0 and (sizes[order[rank - 1]] < BLOCK or rank == used[0]):
        rank, offset = rank - 1, sizes[order[rank - 1]]
    if used[0] == 0:
        used[0] = 1
    size = sizes[order[rank]]
    if size == BLOCK:
        new, keep = order[used[0]], size if offset == size else size // 2
        for r in range(used[0], rank + 1, -1):
            order[r] = order[r - 1]
        order[rank + 1] = new
        used[0] += 1
        slots[new, : size - keep] = slots[order[rank], keep:size]
        sizes[order[rank]], sizes[new] = keep, size - keep
        if offset > keep or keep == size:
            rank, offset = rank + 1, offset - keep
        size = sizes[order[rank]]
    block = slots[order[rank]]
    for o in range(size, offset, -1):
        block[o] = block[o - 1]
    block[offset] = key
    sizes[order[rank]] = size + 1


@njit
def _remove(chain: Chain, rank: int, offset: int) -> None:
    """Remove the vertex at a place that `_at` accepts."""
    order, sizes = chain.order, chain.sizes
    if offset < 0:
        rank, offset = rank - 1, offset + sizes[order[rank - 1]]
    b = order[rank]
    sizes[b] -= 1
    for o in range(offset, sizes[b]):
        chain.slots[b, o] = chain.slots[b, o + 1]
    if sizes[b] == 0:
        chain.used[0] -= 1
        for r in range(rank, chain.used[0]):
            order[r] = order[r + 1]
        order[chain.used[0]] = b


@njit
def _is_below(chain: Chain, keys: FloatArray, side: float, x: float, y: float) -> bool:
    """Return whether a point is below the chain, strictly, and left of its last vertex.

    A point below the first vertex has a smaller product with every query of this side,
    whose y is positive. With y = 0 and x > 0 those at the last x have the largest, and
    the queries with x < 0 belong to the other side.
    """
    rank, offset = _find(chain, keys, side, side * x)
    after, before = at(chain, rank, offset), at(chain, rank, offset - 1)
    if after >= 0 and keys[after, 0] == x:
        return side * y < side * keys[after, 1] and at(chain, rank, offset + 1) >= 0
    return after >= 0 and before >= 0 and _turn(keys, before, after, x, y) < 0


@njit
def _keep(chain: Chain, keys: FloatArray, side: float, depth: float, key: int) -> None:
    """Append a key that is not above the chain to the list of a vertex, unless it is
    deeper than `depth`.
    """
    x, y = keys[key, 0], keys[key, 1]
    if depth == 0.0:
        if _is_below(chain, keys, side, x, y):
            return
    elif _is_below(chain, keys, side, x - depth, y + side * depth) and _is_below(
        chain, keys, side, x + depth, y + side * depth
    ):
        return
    rank, offset = _find(chain, keys, side, side * x)
    after = at(chain, rank, offset)
    vertex = (
        after if after >= 0 and keys[after, 0] == x else at(chain, rank, offset - 1)
    )
    chain.link[key], chain.hang[vertex] = chain.hang[vertex], key


@njit
def _release(chain: Chain, vertex: int, loose: int) -> int:
    """Move the list of a vertex in front of a list of loose keys, and return its first
    key.
    """
    key, chain.hang[vertex] = chain.hang[vertex], -1
    while key >= 0:
        after, chain.link[key] = chain.link[key], loose
        loose, key = key, after
    return loose


@njit
def add(chain: Chain, keys: FloatArray, side: float, depth: float, key: int) -> None:
    """Add a key to the upper hull of the keys times `side`."""
    x, y = keys[key, 0], keys[key, 1]
    chain.hang[key], chain.link[key], loose = -1, -1, -1
    rank, offset = _find(chain, keys, side, side * x)
    after, before = at(chain, rank, offset), at(chain, rank, offset - 1)
    if after >= 0 and keys[after, 0] == x:
        if side * y <= side * keys[after, 1]:
            _keep(chain, keys, side, depth, key)
            return
        if (
            at(chain, rank, offset + 1) < 0
        ):  # the last vertex: what hangs there has the same x, and stays
            chain.hang[key], chain.link[after] = after, chain.hang[after]
            chain.hang[after] = -1
        else:
            loose = _release(chain, after, loose)
            chain.link[after], loose = loose, after
        _remove(chain, rank, offset)
    elif after >= 0 and before >= 0 and _turn(keys, before, after, x, y) <= 0:
        _keep(chain, keys, side, depth, key)
        return
    while True:
        rank, offset = _find(chain, keys, side, side * x)
        after, beyond = at(chain, rank, offset), at(chain, rank, offset + 1)
        if after < 0 or beyond < 0:
            break
        turn = _turn(
            keys, after, beyond, x, y
        )  # above the line of the next edge, the vertex is below the new one
        if turn < 0:
            break
        if turn == 0:  # the new edge continues the old one, with its list
            chain.hang[key], chain.link[after] = after, chain.hang[after]
            chain.hang[after] = -1
        else:
            loose = _release(chain, after, loose)
            chain.link[after], loose = loose, after
        _remove(chain, rank, offset)
    on_line = False
    while True:
        before, beyond = at(chain, rank, offset - 1), at(chain, rank, offset - 2)
        if offset == 0 and rank > 0 and chain.sizes[chain.order[rank - 1]] == 1:
            beyond = at(chain, rank - 1, -1)
        turn = -1 if before < 0 or beyond < 0 else _turn(keys, beyond, before, x, y)
        if turn < 0:
            break
        loose = _release(chain, before, loose)
        on_line = turn == 0
        if on_line:
            chain.link[before], chain.hang[beyond] = chain.hang[beyond], before
        else:
            chain.link[before], loose = loose, before
        _remove(chain, rank, offset - 1)
        rank, offset = _find(chain, keys, side, side * x)
    if before >= 0 and not on_line:
        loose = _release(chain, before, loose)
    _insert(chain, rank, offset, key)
    while loose >= 0:
        after = chain.link[loose]
        _keep(chain, keys, side, depth, loose)
        loose = after


@njit
def best_place(chain: Chain, keys: FloatArray, x: float, y: float) -> tuple[int, int]:
    """Return the place of the leftmost vertex with the largest product with q = (x, y),
    which looks to this side.
    """
    order, slots, low, high = chain.order, chain.slots, 0, chain.used[0] - 1
    while low < high:  # among the first vertices of the blocks
        middle = (low + high) // 2
        if rise(keys, slots[order[middle], 0], slots[order[middle + 1], 0], x, y) > 0:
            low = middle + 1
        else:
            high = middle
    if low > 0 and rise(keys, at(chain, low, -1), slots[order[low], 0], x, y) <= 0:
        low -= 1
    rank, block = low, slots[order[low]]
    low, high = 0, chain.sizes[order[low]] - 1
    while low < high:
        middle = (low + high) // 2
        if rise(keys, block[middle], block[middle + 1], x, y) > 0:
            low = middle + 1
        else:
            high = middle
    return rank, low


@njit
def one_chain(chains: Chain, c: int) -> Chain:
    """Return one chain of several."""
    return borrow(
        Chain(
            chains.order[c],
            chains.sizes[c],
            chains.slots[c],
            chains.used[c],
            chains.hang[c],
            chains.link[c],
        )
    )


def near_maxima(
    queries: FloatArray, keys: FloatArray, slack: FloatArray, seen: IntArray
) -> Sets:
    """Return `reference.near_maxima` for queries that see the first `seen` (rows,) keys
    each.

    Sets are empty for queries that are nearly zero, and for some where many keys are
    within rounding of the hull.
    """
    depths, rows = find_depths(queries, slack), np.argsort(seen, kind="stable")
    rows, depth = rows[depths[rows] < MAX_DEPTH], largest_depth(depths)
    first, sizes = np.full(len(queries), -1), np.zeros(len(queries), np.intp)
    chains, tied = new_chains(2, len(keys)), [np.empty((0, 2), np.intp)] * 2
    search = partial(
        _near_maxima, chains, queries, keys, slack, seen, rows, depth, first, sizes
    )

    def work(sides: IntArray) -> None:
        for side in sides.tolist():
            tied[side] = search(side)

    share(work, 2, float(len(keys) * WORK_PER_KEY))
    if len(queries) > 1 and sizes.sum() > MAX_MEMBERS:
        raise TooMany
    owners, members = np.concatenate(tied).T
    return Sets.from_first(first, sizes, members[np.lexsort((members, owners))])


@entry()
def _near_maxima(
    chains: Chain,
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    seen: IntArray,
    rows: IntArray,
    depth: float,
    first: IntArray,
    sizes: IntArray,
    side: int,
) -> IntArray:
    """Write the first members and the sizes of the sets of one side; return rows and
    members of those with several.
    """
    chain, sign, added, visits, count = (
        one_chain(chains, side),
        1.0 - 2.0 * side,
        0,
        0,
        0,
    )
    found, tied = np.empty(64, np.intp), np.empty((64, 2), np.intp)
    keys = borrow(keys)
    for done in range(len(rows)):
        i = rows[done]
        x, y = queries[i, 0], queries[i, 1]
        if (y > 0.0 or (y == 0.0 and x > 0.0)) == (side == 1):
            continue
        while added < seen[i]:
            add(chain, keys, sign, depth, added)
            added += 1
        start_rank, start_offset = best_place(chain, keys, x, y)
        key = at(chain, start_rank, start_offset)
        best = x * keys[key, 0] + y * keys[key, 1]
        cut, size = best - slack[i] - 16 * UNIT * (abs(x) + abs(y)), 0
        for step in (1, -1):
            rank, offset = start_rank, start_offset
            while True:
                vertex = at(chain, rank, offset)
                if vertex < 0:
                    break
                product = x * keys[vertex, 0] + y * keys[vertex, 1]
                near, key = product >= cut, vertex
                if step == -1 and rank == start_rank and offset == start_offset:
                    key = -1  # done with it
                elif step == 1 and not near:
                    break
                while key >= 0:
                    visits += 1
                    product = x * keys[key, 0] + y * keys[key, 1]
                    if product >= cut:
                        best = max(best, product)
                        if size == len(found):
                            found = np.concatenate((found, np.empty_like(found)))
                        found[size] = key
                        size += 1
                    key = chain.hang[key] if key == vertex else chain.link[key]
                if not near:
                    break
                offset += step
                if offset < 0 and rank > 0:
                    rank -= 1
                    offset = chain.sizes[chain.order[rank]] - 1
                elif offset >= chain.sizes[chain.order[rank]]:
                    rank, offset = rank + 1, 0
        kept = 0
        for k in range(size):
            key = found[k]
            if x * keys[key, 0] + y * keys[key, 1] >= best - slack[i]:
                found[kept] = key
                kept += 1
        found[:kept].sort()
        first[i], sizes[i] = found[0], kept
        if kept > 1:
            while count + kept > len(tied):
                tied = np.concatenate((tied, np.empty_like(tied)))
            for k in range(kept):
                tied[count + k, 0], tied[count + k, 1] = i, found[k]
            count += kept
        if visits > MAX_VISITED * len(keys) * (done + 1024) or count > MAX_MEMBERS:
            break
    return tied[:count]
