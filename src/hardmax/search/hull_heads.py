"""Exact hard attention on hulls that grow, for a batch of heads: what `HullCache`
compiles.

Keys that are equal are one key with several uses: a hash table finds it, and its values
are kept as their sum, the latest or the first, by the rule for ties. So a query reads
one row for each distinct key of its set.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.growing import add, at, best_place, new_chains, one_chain, rise
from hardmax.search.simd import borrow
from hardmax.search.threads import entry

MEAN, LATEST, FIRST = range(3)  # rules for ties


class Heads(NamedTuple):
    """Hulls of several heads, with the values of their distinct keys, which are
    numbered as they arrive.
    """

    keys: FloatArray  # (heads, keys, 2)
    # (heads, keys, dv) their sum, the latest or the first, by the rule for ties
    values: FloatArray
    # (heads, keys, 3) first and latest index of a key, and how often it was appended
    uses: AnyArray
    # (heads, keys) index at which the key of an index was appended before, -1 for never
    previous: AnyArray
    table: AnyArray  # (heads, slots) hash table of keys, -1 for none
    totals: FloatArray  # (heads, dv) sum of all values
    counts: AnyArray  # (heads, 3) indices, distinct keys, and the latest of these
    chains: Any  # Chain (2 * heads, ...) upper and lower


def new_heads(heads: int, keys: int, dv: int) -> Heads:
    """Return empty hulls for at most `keys` keys each."""
    return Heads(
        np.empty((heads, keys, 2)),
        np.empty((heads, keys, dv)),
        np.empty((heads, keys, 3), np.int32),
        np.empty((heads, keys), np.int32),
        np.full((heads, 1 << (2 * keys - 1).bit_length()), -1, np.int32),
        np.zeros((heads, dv)),
        np.zeros((heads, 3), np.int64),
        new_chains(2 * heads, keys),
    )


@njit
def _head(heads: Heads, h: int) -> Heads:
    """Return one head, with a tuple of its two chains."""
    return borrow(
        Heads(
            heads.keys[h],
            heads.values[h],
            heads.uses[h],
            heads.previous[h],
            heads.table[h],
            heads.totals[h],
            heads.counts[h],
            (one_chain(heads.chains, 2 * h), one_chain(heads.chains, 2 * h + 1)),
        )
    )


@njit
def _slot(table: AnyArray, keys: FloatArray, x: float, y: float) -> Any:
    """Return the slot of the hash table that holds a key, or is free for it."""
    mask = len(table) - 1
    mixed = np.int64(hash(x)) * np.int64(0x9E3779B97F4A7C1) + np.int64(
        hash(y)
    ) * np.int64(0x2545F4914F6CDD1D)
    slot = (mixed ^ (mixed >> 29)) & mask
    while table[slot] >= 0 and (keys[table[slot], 0] != x or keys[table[slot], 1] != y):
        slot = (slot + 1) & mask
    return slot


@njit
def _accumulate(total: FloatArray, value: FloatArray) -> None:
    for r in range(len(total)):
        total[r] += value[r]


@njit
def _append(head: Heads, x: float, y: float, value: FloatArray, rule: int) -> None:
    """Append a key and its value to a head."""
    keys, values, uses, counts = head.keys, head.values, head.uses, head.counts
    index, slot = counts[0], _slot(head.table, keys, x, y)
    counts[0] += 1
    _accumulate(head.totals, value)
    key = head.table[slot]
    if key >= 0:
        head.previous[index] = uses[key, 1]
        uses[key, 1] = index
        uses[key, 2] += 1
        if rule == MEAN:
            _accumulate(values[key], value)
        elif rule == LATEST:
            values[key] = value
        counts[2] = key
        return
    key = counts[2] = counts[1]
    uses[key, 0], uses[key, 1], uses[key, 2], head.previous[index] = index, index, 1, -1
    keys[key, 0], keys[key, 1], values[key] = x, y, value
    head.table[slot] = key
    counts[1] += 1
    add(head.chains[0], keys, 1.0, 0.0, key)
    add(head.chains[1], keys, -1.0, 0.0, key)


@njit
def _answer(
    head: Heads, x: float, y: float, rule: int, out: FloatArray, members: IntArray
) -> int:
    """Write the answer to a query; return the size of its set, whose members are
    written where there is room.
    """
    keys, values, uses, counts = head.keys, head.values, head.uses, head.counts
    size = 0
    out[:] = 0.0
    if x == 0.0 and y == 0.0:
        size = counts[0]
        for i in range(len(members)):
            members[i] = i
        _accumulate(
            out,
            head.totals if rule == MEAN else values[counts[2] if rule == LATEST else 0],
        )
        for r in range(len(out) if rule == MEAN else 0):
            out[r] /= size
        return size
    side = 0 if y > 0.0 or (y == 0.0 and x > 0.0) else 1
    chain = head.chains[side]
    rank, offset = best_place(chain, keys, x, y)
    best, following = at(chain, rank, offset), at(chain, rank, offset + 1)
    if following >= 0 and rise(keys, best, following, x, y) < 0:
        following = -1
    hanging = chain.hang[best] if following >= 0 or y == 0.0 else -1
    chosen, key = best, best
    while key >= 0:
        if key in (best, following) or rise(keys, best, key, x, y) == 0:
            if rule == MEAN:
                _accumulate(out, values[key])
            elif rule == LATEST:
                chosen = key if uses[key, 1] > uses[chosen, 1] else chosen
            else:
                chosen = key if uses[key, 0] < uses[chosen, 0] else chosen
            index, place = uses[key, 1], size
            size += uses[key, 2]
            while index >= 0 and place < min(size, len(members)):
                members[place] = index
                place += 1
                index = head.previous[index]
        on_edge = key == best and following >= 0
        key = (
            following
            if on_edge
            else hanging
            if key in (best, following)
            else chain.link[key]
        )
    if rule == MEAN and size > 1:
        for r in range(len(out)):
            out[r] /= size
    elif rule != MEAN:
        _accumulate(out, values[chosen])
    if size > 1 and len(members):
        members.sort()
    return size


@entry()
def step(
    some: IntArray,
    heads: Heads,
    rule: int,
    keys: FloatArray,
    values: FloatArray,
    queries: FloatArray,
    out: FloatArray,
    starts: IntArray,
    members: IntArray,
) -> None:
    """Append keys (heads, m, 2) and values, and answer queries (heads, n, 2), index
    after index, for some heads.

    Writes outputs (heads, n, dv), sizes of sets to all but the first of `starts`, and
    members where there is room.
    """
    n = queries.shape[1]
    for h in some:
        head = _head(heads, h)
        for i in range(max(n, keys.shape[1])):
            if i < keys.shape[1]:
                _append(head, keys[h, i, 0], keys[h, i, 1], values[h, i], rule)
            if i < n:
                row = h * n + i
                own = (
                    members[starts[row] : starts[row + 1]] if len(members) else members
                )
                size = _answer(
                    head, queries[h, i, 0], queries[h, i, 1], rule, out[h, i], own
                )
                if len(members) == 0 and len(starts):
                    starts[row + 1] = size
