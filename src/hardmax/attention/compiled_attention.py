"""One hardmax layer of many small clouds in one compiled pass, and its transpose, where each query has a single winner.

One call checks that numbers are finite, searches, and copies, as the mean of one value is that value. Clouds with a
near-tie are left to `exact_sets`: here rounding decides nothing. Sums of gradients
are taken cloud by cloud and query by query, so that they have the same bits on every run.
"""

from typing import NamedTuple

import numpy as np
import torch
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.kernels.compiled import entry
from hardmax.kernels.panels import seen_keys
from hardmax.kernels.row_lanes import add_row, copy_row
from hardmax.kernels.small_clouds import single_winners, work_space
from hardmax.kernels.team import gather, taken, together

DONE, OPEN = 0, 1  # what became of a cloud
BIGGEST = np.finfo(np.float32).max


@njit(fastmath=False)
def _finite(rows: AnyArray) -> bool:
    """Whether all numbers are finite; compiled without `FLAGS`, with which that would be taken for granted."""
    numbers, finite = rows.reshape(-1), True
    for i in range(len(numbers)):
        finite &= abs(numbers[i]) <= BIGGEST
    return finite


class Layer(NamedTuple):
    """One layer of all clouds, and what became of each."""

    queries: AnyArray  # (clouds, n, d)
    keys: AnyArray  # (clouds, m, d)
    values: AnyArray  # (clouds, m, dv)
    mask: BoolArray  # (clouds, m) which keys are seen; empty for all
    out: AnyArray  # (clouds, n, dv)
    found: AnyArray  # (clouds, 2 n) the lowest members of the sets, -1 for none, and their sizes
    state: AnyArray  # (clouds,) DONE or OPEN


@njit
def _attend_in_turn(layer: Layer, team: IntArray) -> None:
    """Take one cloud after another, until all are taken, or one is not finite."""
    queries, keys, values, mask, out, found, state = layer
    (n, d), (m, dv) = queries.shape[1:], values.shape[1:]
    space, seen, clear = work_space(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    cloud = taken(team)
    while cloud < len(queries):
        own, known, who = queries[cloud], keys[cloud], found[cloud]
        if not (_finite(own) and _finite(known)):
            return
        count = seen_keys(mask, cloud, m, seen)
        if count == 0 or single_winners(own, known, seen[:count], 0.0, known[:0], space, who, clear):
            for i in range(n):
                if count:
                    copy_row(values, (cloud * m + who[i]) * dv, out, (cloud * n + i) * dv, dv)
                else:
                    who[i] = -1
                    for r in range(dv):
                        out[cloud, i, r] = 0
                who[n + i] = min(count, 1)
            state[cloud] = DONE
        cloud = taken(team)


@entry()
def _attend(layer: Layer, team: IntArray) -> None:
    """Write the outputs and what is found, and which clouds are done."""
    together(_attend_in_turn, (layer, team), team)


@njit
def _spread_in_turn(g: AnyArray, found: AnyArray, out: AnyArray, state: AnyArray, team: IntArray) -> None:
    """Take one cloud after another, until all are taken."""
    (n, dv), m = g.shape[1:], out.shape[1]
    cloud = taken(team)
    while cloud < len(g):
        single = True
        for i in range(n):
            single &= found[cloud, n + i] < 2
        for j in range(m):
            for r in range(dv):
                out[cloud, j, r] = 0
        for i in range(n if single else 0):
            if found[cloud, i] >= 0:
                add_row(g, (cloud * n + i) * dv, out, (cloud * m + found[cloud, i]) * dv, dv)
        state[cloud] = DONE if single else OPEN
        cloud = taken(team)


@entry()
def _spread(g: AnyArray, found: AnyArray, out: AnyArray, state: AnyArray, team: IntArray) -> None:
    """Send (clouds, n, dv) gradients to whom each query followed, (clouds, m, dv), where none followed several."""
    together(_spread_in_turn, (g, found, out, state, team), team)


def attend(
    queries: AnyArray, keys: AnyArray, values: AnyArray, mask: BoolArray | None, out: AnyArray, found: AnyArray
) -> IntArray:
    """Write the outputs of all clouds and who won, (clouds, 2 n); return which clouds are left open."""
    clouds = len(queries)
    seen = np.empty((0, 0), bool) if mask is None else np.require(mask, None, ["C", "W"])
    layer = Layer(queries, keys, values, seen, out, found, np.full(clouds, OPEN, np.int32))
    gather(lambda team: _attend(layer, team), torch.get_num_threads(), clouds, queries.size * keys.shape[1])
    return np.flatnonzero(layer.state)


def spread(g: AnyArray, found: AnyArray, out: AnyArray) -> IntArray:
    """Write the gradients of all values; return which clouds are left open."""
    state = np.full(len(g), OPEN, np.int32)
    effort = 8.0 * (g.size + out.size)  # which waits for memory
    gather(lambda team: _spread(g, found, out, state, team), torch.get_num_threads(), len(g), effort)
    return np.flatnonzero(state)
