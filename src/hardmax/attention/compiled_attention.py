"""One hardmax layer of many small clouds in one compiled pass, and its transpose, where each query has a single winner.

One call checks that numbers are finite, searches, and copies, as the mean of one value is that value. Clouds with a
near-tie are left to `exact_sets`: here rounding decides nothing. Sums of gradients are taken cloud by cloud and query
by query, so that they have the same bits on every run.
"""

from typing import NamedTuple

import numpy as np
import torch
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.search.panels import seen_keys
from hardmax.search.row_lanes import add_row, copy_row
from hardmax.search.small import single_winners, work_space
from hardmax.search.team import done, gather, join, taken, together
from hardmax.search.threads import entry

LEFT = -1  # in the place of a size: of a cloud that is left to others
ALL_SEEN, NONE = np.empty((0, 0), np.bool_), np.empty(0, np.intp)
BIGGEST = np.finfo(np.float32).max


@njit(fastmath=False)
def _finite(rows: AnyArray) -> bool:
    """Whether all numbers are finite; compiled without `FLAGS`, with which that would be taken for granted."""
    numbers, finite = rows.reshape(-1), True
    for i in range(len(numbers)):
        finite &= abs(numbers[i]) <= BIGGEST
    return finite


class Layer(NamedTuple):
    """One layer of all clouds."""

    queries: AnyArray  # (clouds, n, d)
    keys: AnyArray  # (clouds, m, d)
    values: AnyArray  # (clouds, m, dv)
    mask: BoolArray  # (clouds, m) which keys are seen; empty for all
    out: AnyArray  # (clouds, n, dv)
    found: AnyArray  # (clouds, 2 n) the lowest members of the sets, -1 for none, and their sizes


@njit
def _attend_in_turn(layer: Layer, team: IntArray) -> None:
    """Take one cloud after another, until all are taken."""
    queries, keys, values, mask, out, found = layer
    (n, d), (m, dv) = queries.shape[1:], values.shape[1:]
    space, seen, clear = work_space(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    part = join(team)
    cloud = taken(team, part)
    while cloud >= 0:
        own, known, who = queries[cloud], keys[cloud], found[cloud]
        count = seen_keys(mask, cloud, m, seen)
        decided = _finite(own) and _finite(known)
        if decided and count:
            decided = single_winners(own, known, seen[:count], 0.0, known[:0], space, who, clear)
        for i in range(n if decided else 0):
            who[n + i] = min(count, 1)
            if count:
                copy_row(values, (cloud * m + who[i]) * dv, out, (cloud * n + i) * dv, dv)
            else:
                who[i] = -1
                for r in range(dv):
                    out[cloud, i, r] = 0
        if decided:
            done(team)
        else:
            who[n] = LEFT
        cloud = taken(team, part)


@entry()
def _attend(layer: Layer, team: IntArray) -> None:
    """Write the outputs, and what is found."""
    together(_attend_in_turn, (layer, team), team)


@njit
def _spread_in_turn(g: AnyArray, found: AnyArray, out: AnyArray, team: IntArray) -> None:
    """Take one cloud after another, until all are taken."""
    (n, dv), m = g.shape[1:], out.shape[1]
    part = join(team)
    cloud = taken(team, part)
    while cloud >= 0:
        single = True
        for i in range(n):
            single &= found[cloud, n + i] < 2
        for j in range(m):
            for r in range(dv):
                out[cloud, j, r] = 0
        for i in range(n if single else 0):
            if found[cloud, i] >= 0:
                add_row(g, (cloud * n + i) * dv, out, (cloud * m + found[cloud, i]) * dv, dv)
        if single:
            done(team)
        cloud = taken(team, part)


@entry()
def _spread(g: AnyArray, found: AnyArray, out: AnyArray, team: IntArray) -> None:
    """Send (clouds, n, dv) gradients to whom each query followed, (clouds, m, dv), where none followed several."""
    together(_spread_in_turn, (g, found, out, team), team)


def attend(
    queries: AnyArray, keys: AnyArray, values: AnyArray, mask: BoolArray | None, out: AnyArray, found: AnyArray
) -> IntArray:
    """Write the outputs of all clouds and who won, (clouds, 2 n); return which clouds are left to others."""
    (clouds, n, d), m = queries.shape, keys.shape[1]
    seen = ALL_SEEN if mask is None else np.require(mask, None, ["C", "W"])
    layer = Layer(queries, keys, values, seen, out, found)
    left = gather(lambda team: _attend(layer, team), torch.get_num_threads(), clouds, float(clouds * n * m * d))
    return _all_left(found[:, n] == LEFT, left) if left else NONE


def spread(g: AnyArray, found: AnyArray, out: AnyArray) -> IntArray:
    """Write the gradients of all values; return which clouds are left to others."""
    effort = 8.0 * (g.size + out.size)  # which waits for memory
    left = gather(lambda team: _spread(g, found, out, team), torch.get_num_threads(), len(g), effort)
    return _all_left(found[:, g.shape[1] :].max(axis=1) > 1, left) if left else NONE


def _all_left(known: BoolArray, left: int) -> IntArray:
    """Which clouds are left to others: those known to be, or all where a thread gave up, as without memory."""
    clouds = np.flatnonzero(known)
    return clouds if len(clouds) == left else np.arange(len(known))
