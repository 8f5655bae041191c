"""One hardmax layer of many small clouds in one compiled pass, and its transpose, where each query has a single winner.

One call checks that numbers are finite, searches, and copies, as the mean of one value is that value. Clouds with a
near-tie are left to `exact_sets`: here rounding decides nothing. Sums of gradients
are taken cloud by cloud and query by query, so that they have the same bits on every run.
"""

import numpy as np
import torch
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.kernels.compiled import Output, entry
from hardmax.kernels.row_lanes import add_row, copy_row
from hardmax.kernels.small_clouds import search_cloud, work_space
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


@njit
def _attend_in_turn(
    queries: AnyArray,
    keys: AnyArray,
    values: AnyArray,
    mask: BoolArray,
    output: Output,
    out: AnyArray,
    found: AnyArray,
    state: AnyArray,
    team: IntArray,
) -> None:
    """Take one cloud after another, until all are taken, or one is not finite."""
    (n, d), (m, dv) = queries.shape[1:], values.shape[1:]
    space, seen, clear = work_space(n, m, d), np.empty(m, np.intp), np.empty(n, np.bool_)
    cloud = taken(team)
    while cloud < len(queries):
        if not (_finite(queries[cloud]) and _finite(keys[cloud])):
            return
        search_cloud(queries, keys, mask, cloud, space, seen, clear, output)
        state[cloud] = DONE if output.used[cloud] == 0 else OPEN
        for i in range(n if state[cloud] == DONE else 0):
            first = output.first[cloud * n + i]
            found[cloud, i], found[cloud, n + i] = first, output.sizes[cloud * n + i]
            if first < 0:  # sees no key
                for r in range(dv):
                    out[cloud, i, r] = 0
            else:
                copy_row(values, (cloud * m + first) * dv, out, (cloud * n + i) * dv, dv)
        cloud = taken(team)


@entry()
def _attend(
    queries: AnyArray,
    keys: AnyArray,
    values: AnyArray,
    mask: BoolArray,
    output: Output,
    out: AnyArray,
    found: AnyArray,
    state: AnyArray,
    team: IntArray,
) -> None:
    """Write the outputs (clouds, n, dv) and what `found` is, and what became of each cloud."""
    together(_attend_in_turn, (queries, keys, values, mask, output, out, found, state, team), team)


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
    (clouds, n, _), m = queries.shape, keys.shape[1]
    seen = np.empty((0, 0), bool) if mask is None else np.require(mask, None, ["C", "W"])
    # There is no room for members: it is enough to know how many there are.
    rows, no_room = clouds * n, (np.empty(0, np.intp), np.zeros(clouds + 1, np.intp), np.empty(clouds, np.intp))
    output = Output(np.empty(rows, np.intp), np.empty(rows, np.intp), np.empty(rows, np.bool_), *no_room)
    state = np.full(clouds, OPEN, np.int32)
    gather(
        lambda team: _attend(queries, keys, values, seen, output, out, found, state, team),
        torch.get_num_threads(),
        clouds,
        queries.size * m,
    )
    return np.flatnonzero(state)


def spread(g: AnyArray, found: AnyArray, out: AnyArray) -> IntArray:
    """Write the gradients of all values; return which clouds are left open."""
    state = np.full(len(g), OPEN, np.int32)
    effort = 8.0 * (g.size + out.size)  # which waits for memory
    gather(lambda team: _spread(g, found, out, state, team), torch.get_num_threads(), len(g), effort)
    return np.flatnonzero(state)
