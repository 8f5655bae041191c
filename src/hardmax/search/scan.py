"""Compiled search: float32 finds where the maximum may be, float64 decides there.

For a query q, the float32 maximum of each panel of 16 keys is known up to a bound e. A key within `slack` of the
largest float64 product lies in a panel whose maximum is at least best - slack - 2 e, so only those panels, often one,
are computed in float64. What is returned therefore does not depend on float32.

Keys are taken about the middle c of the box around them, since <q, k> and <q, k - c> have the same maximisers, and in
the order of falling |k - c|: as <q, k - c> <= |q| |k - c|, a query is done once its best product exceeds that bound for
all that follow. In low dimension this leaves few keys; in high dimension, or with `limits`, all are scanned.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.search.lanes import FLAGS, LANES, borrowed
from hardmax.search.panel_search import Queries, begin, hit, keep, load, scan, sixteen, work_space
from hardmax.search.panels import Panels, empty_panels, pack
from hardmax.search.ready import is_small
from hardmax.search.sets import MOST, Sets
from hardmax.search.small import search_small
from hardmax.search.threads import Output, entry, share, written_sets

TASK = 256  # queries that a thread takes at a time
PACKING = 8.0  # multiplications that take as long as packing one number
SHORT = 96  # coordinates up to which all keys pass through the cache fast enough for 16 queries
TOGETHER = 8  # times 16 longer queries that go over the same keys in turn
CACHED = 4096  # of their coordinates, 64 bytes each: the second-level cache holds the queries beside


class Task(NamedTuple):
    """Queries of one cloud."""

    queries: AnyArray  # (n, d)
    keys: AnyArray  # (m, d)
    slack: FloatArray  # (n,), or empty: as large as the error of the products
    limits: IntArray  # (n,), or empty: none
    room: IntArray  # for the members of tied queries


@njit(inline="always", fastmath=FLAGS)
def _fetch(task: Task, top: int, cloud: int, panels: Panels, some: Queries) -> None:
    """Load 16 queries, the last one again where there are fewer."""
    count = panels.counts[cloud]
    for lane in range(LANES):
        row = min(top + lane, len(task.queries) - 1)
        limit = min(task.limits[row], count) if len(task.limits) else count
        some.limits[lane] = limit
        some.whole[lane] = (limit + LANES - 1) // LANES if limit == count else limit // LANES
        given = task.slack[row] if len(task.slack) else -1.0
        load(task.queries[row], lane, given, panels.scales[cloud], panels.highest[cloud], some)
    begin(task.queries.shape[1], some)


@njit(fastmath=FLAGS)
def _rows(task: Task, cloud: int, start: int, stop: int, space: Queries, panels: Panels, output: Output) -> int:
    """Find the near-maxima of some queries of a cloud; return the room that the members of tied ones need."""
    task, space, panels, output = borrowed(task), borrowed(space), borrowed(panels), borrowed(output)
    d, used, times = task.queries.shape[1], 0, len(space.best)
    count = (panels.counts[cloud] + LANES - 1) // LANES
    step = max(1, CACHED // d if times > 1 else count)
    for first in range(start, stop, LANES * times):
        last = min(stop, first + LANES * times)
        for top in range(first, last, LANES):
            _fetch(task, top, cloud, panels, sixteen(space, (top - first) // LANES))
        for until in range(step, count + step, step):
            for top in range(first, last, LANES):
                some = sixteen(space, (top - first) // LANES)
                seen = (some.limits.max() + LANES - 1) // LANES
                scan(panels.coarse[cloud], panels.reach[cloud], d, min(until, seen), some)
        for top in range(first, last, LANES):
            some = sixteen(space, (top - first) // LANES)
            hit(some)
            row, lanes = cloud * len(task.queries) + top, min(LANES, stop - top)
            fine, order = panels.fine[cloud], panels.order[cloud]
            used = keep(task.keys, fine, order, row, (1 << lanes) - 1, task.room, used, some, output)
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
    """Find the near-maxima of some tasks: `height` queries each of (clouds, n, d)."""
    n, d = queries.shape[1:]
    per_cloud = (n + height - 1) // height
    space = work_space(TOGETHER if d > SHORT else 1, d, panels.reach.shape[1])
    for number in tasks:
        cloud, start = number // per_cloud, number % per_cloud * height
        rows = slice(cloud * n, cloud * n + n)
        room = output.members[output.starts[number] : output.starts[number + 1]]
        task = Task(queries[cloud], keys[cloud], slack[rows], limits[rows], room)
        output.used[number] = _rows(task, cloud, start, min(start + height, n), space, panels, output)


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray, limits: IntArray | None = None) -> Sets:
    """Find, for each query, every key whose float64 product is within `slack` of the largest; see the reference."""
    return near_maxima_of_batch(queries[None], keys[None], slack, limits=limits, most=MOST)[0]


def near_maxima_of_batch(
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray | None = None,
    mask: BoolArray | None = None,
    causal: bool = False,
    limits: IntArray | None = None,
    most: float = np.inf,
) -> tuple[Sets, BoolArray]:
    """The same for clouds of queries (clouds, n, d) and keys (clouds, m, d), and where all members are the same key.

    Without `slack` it is the error of the products. With `mask` (clouds, m) only keys where it is true are seen, with
    `causal` only the first i + 1 of them by query i.
    """
    (clouds, n, d), m = queries.shape, keys.shape[1]
    queries, keys = _plain(queries), _plain(keys)
    real, effort = np.empty((0, 0), bool) if mask is None else _plain(mask), float(queries.size) * m
    if causal:
        seen = np.ones(keys.shape[:2], np.intp) if mask is None else mask
        limits = np.cumsum(seen, axis=1, dtype=np.intp)[:, np.minimum(np.arange(n), m - 1)].reshape(-1)
    elif limits is None and slack is None and is_small(d, max(n, m), queries.dtype == keys.dtype == np.float32):
        return written_sets(partial(search_small, queries, keys, real), clouds * n, clouds, n, effort)
    allowed = np.empty(0) if slack is None else _plain(slack)
    first_keys = np.empty(0, np.intp) if limits is None else _plain(limits)
    height, panels = max(LANES, min(TASK, n)), empty_panels(clouds, m, d)
    tasks = clouds * -(-n // height)

    def prepare(some: IntArray) -> None:
        pack(some, keys, real, limits is not None, panels)

    def search(some: IntArray, output: Output) -> None:
        if tasks == clouds:
            prepare(some)
        _search(some, height, queries, keys, allowed, first_keys, panels, output)

    if tasks != clouds:
        share(prepare, clouds, keys.size * PACKING)
    return written_sets(search, clouds * n, tasks, height, effort, most)


def _plain(array: AnyArray) -> AnyArray:
    """Make an array contiguous and writeable, as another kind would be compiled for again."""
    return np.require(array, requirements=["C", "W"])
