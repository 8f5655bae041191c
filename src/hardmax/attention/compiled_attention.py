"""One hardmax layer of many small clouds in one compiled pass, and its transpose, where each query has a single winner.

One call checks that numbers are finite, searches, and copies, as the mean of one value is that value. Clouds with a
near-tie are left to `exact_sets`: here rounding decides nothing. Sums of gradients
are taken cloud by cloud and query by query, so that they have the same bits on every run.
"""

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.kernels.compiled import Output, entry, share
from hardmax.kernels.row_lanes import add_row, copy_row
from hardmax.kernels.small_clouds import search_small

DONE, OPEN, NOT_FINITE = 0, 1, 2  # what became of a cloud
BIGGEST = np.finfo(np.float32).max


@njit(fastmath=False)
def _finite(rows: AnyArray) -> bool:
    """Whether all numbers are finite; compiled without `FLAGS`, with which that would be taken for granted."""
    numbers, finite = rows.reshape(-1), True
    for i in range(len(numbers)):
        finite &= abs(numbers[i]) <= BIGGEST
    return finite


@entry()
def _attend(
    clouds: IntArray,
    queries: AnyArray,
    keys: AnyArray,
    values: AnyArray,
    mask: BoolArray,
    output: Output,
    out: AnyArray,
    found: AnyArray,
    state: AnyArray,
) -> None:
    """Write the outputs (clouds, n, dv) and what `found` is for some clouds, and what became of each."""
    n, m, dv = queries.shape[1], keys.shape[1], values.shape[2]
    for cloud in clouds:
        if not (_finite(queries[cloud]) and _finite(keys[cloud])):
            state[cloud] = NOT_FINITE
            return
    search_small(queries, keys, mask, clouds, output)
    for cloud in clouds:
        state[cloud] = DONE if output.used[cloud] == 0 else OPEN
        for i in range(n if state[cloud] == DONE else 0):
            first = output.first[cloud * n + i]
            found[cloud, i], found[cloud, n + i] = first, output.sizes[cloud * n + i]
            if first < 0:  # sees no key
                for r in range(dv):
                    out[cloud, i, r] = 0
            else:
                copy_row(values, (cloud * m + first) * dv, out, (cloud * n + i) * dv, dv)


@entry()
def _spread(clouds: IntArray, g: AnyArray, found: AnyArray, out: AnyArray, state: AnyArray) -> None:
    """Send (clouds, n, dv) gradients to whom each query followed, (clouds, m, dv), where none followed several."""
    (n, dv), m = g.shape[1:], out.shape[1]
    for cloud in clouds:
        state[cloud] = DONE
        for i in range(n):
            if found[cloud, n + i] > 1:
                state[cloud] = OPEN
        for j in range(m):
            for r in range(dv):
                out[cloud, j, r] = 0
        for i in range(n if state[cloud] == DONE else 0):
            if found[cloud, i] >= 0:
                add_row(g, (cloud * n + i) * dv, out, (cloud * m + found[cloud, i]) * dv, dv)


def attend(
    queries: AnyArray, keys: AnyArray, values: AnyArray, mask: BoolArray | None, out: AnyArray, found: AnyArray
) -> AnyArray:
    """Write the outputs of all clouds and who won, (clouds, 2 n); return what became of each."""
    (clouds, n, _), m = queries.shape, keys.shape[1]
    seen = np.empty((0, 0), bool) if mask is None else np.require(mask, None, ["C", "W"])
    # There is no room for members: it is enough to know how many there are.
    rows, no_room = clouds * n, (np.empty(0, np.intp), np.zeros(clouds + 1, np.intp), np.empty(clouds, np.intp))
    output = Output(np.empty(rows, np.intp), np.empty(rows, np.intp), np.empty(rows, np.bool_), *no_room)
    state = np.full(clouds, NOT_FINITE, np.int32)
    share(lambda some: _attend(some, queries, keys, values, seen, output, out, found, state), clouds, queries.size * m)
    return state


def spread(g: AnyArray, found: AnyArray, out: AnyArray) -> AnyArray:
    """Write the gradients of all values; return what became of each cloud."""
    state = np.empty(len(g), np.int32)
    share(lambda some: _spread(some, g, found, out, state), len(g), 2.0 * (g.size + out.size))
    return state
