"""d = 2: the largest products among the first keys alone, for queries that each see another number of keys.

A prefix of the keys is a union of blocks whose lengths are powers of two. Every block is searched by its hull, for all
queries that see the whole block, and the answers are compared: about log n searches per query of log h steps each.
"""

from collections.abc import Iterator

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.search import hull, scan
from hardmax.search.sets import MAX_MEMBERS, Sets, TooMany

MIN_HULL = 1 << 20  # products of a block above which its hull is faster than a scan
Part = tuple[IntArray, Sets]  # queries, and for each the keys of a block that may be near-maximal


def near_maxima(queries: FloatArray, keys: FloatArray, slack: FloatArray, seen: IntArray) -> Sets:
    """Return `reference.near_maxima` for queries that see the first `seen` (rows,) keys each."""
    order = np.argsort(seen, kind="stable")
    parts = list(_search(queries, keys, slack, seen, order, 0, len(keys)))
    owners = np.concatenate([np.repeat(rows, sets.sizes) for rows, sets in parts])
    members = np.concatenate([sets.members for _, sets in parts])
    by_owner = np.lexsort((members, owners))
    owners, members = owners[by_owner], members[by_owner]
    products = np.einsum("ij,ij->i", queries[owners], keys[members])
    first = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    near = products >= (np.maximum.reduceat(products, first) - slack)[owners]
    sizes = np.bincount(owners[near], minlength=len(queries))
    if len(queries) > 1 and sizes.sum() > MAX_MEMBERS:
        raise TooMany
    return Sets(np.r_[0, np.cumsum(sizes)].astype(np.intp), members[near])


def _search(
    queries: FloatArray, keys: FloatArray, slack: FloatArray, seen: IntArray, rows: IntArray, start: int, stop: int
) -> Iterator[Part]:
    """Yield parts of the answers of `rows`, which see more than `start` keys and at most `stop`, from `start` on."""
    if len(rows) * (stop - start) < MIN_HULL:
        if len(rows):
            found = scan.near_maxima(queries[rows], keys[start:stop], slack[rows], seen[rows] - start)
            yield rows, Sets(found.starts, found.members + start)
        return
    middle = start + (1 << (stop - start - 1).bit_length() - 1)
    cut = int(np.searchsorted(seen[rows], middle, side="right"))
    yield from _search(queries, keys, slack, seen, rows[:cut], start, middle)
    beyond = rows[cut:]  # these see all keys of the block, and some after it
    if len(beyond):
        block, left = keys[start:middle], np.arange(len(beyond))
        if len(beyond) * len(block) >= MIN_HULL:
            found, _ = hull.near_maxima(queries[beyond], block, slack[beyond])
            left = np.flatnonzero(found.sizes == 0)  # queries that are nearly zero, or all if the hull is degenerate
            yield beyond, Sets(found.starts, found.members + start)
        if len(left):
            found = scan.near_maxima(queries[beyond[left]], block, slack[beyond[left]])
            yield beyond[left], Sets(found.starts, found.members + start)
        yield from _search(queries, keys, slack, seen, beyond, middle, stop)
