"""The definition of the search, in NumPy: all products, and those near the maximum."""

from itertools import product

import numpy as np

from hardmax._types import BoolArray, FloatArray, Seen
from hardmax.sets import Sets, TooMany

LOWEST = -1.7e308  # above minus infinity, which stands for keys that are not seen
TILE = (
    1 << 18
)  # products held at a time: 2 MB in float64, so that the passes over them stay in cache


def near_maxima(
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    seen: Seen = None,
    most: float = np.inf,
) -> tuple[Sets, FloatArray]:
    """Return, for each query, every key whose product is within `slack`, (rows,) and
    not negative, of the largest.

    C_i = {j : <q_i, k_j> >= max_l <q_i, k_l> - slack_i}

    With `seen` query i sees only the first seen[i] keys (rows,), or the keys at which
    seen[i] (rows, m) is True; at least one. Also returns the gaps (rows,) from each
    maximum down to the best key outside the set; infinite where the set holds every
    key. Raises TooMany where several rows have more than `most` members in all.
    """
    rows, m = len(queries), len(keys)
    height = max(1, min(rows, TILE // m))
    sizes = np.empty(rows, np.intp)
    gaps = np.empty(rows)
    members = [np.empty(0, np.intp)]
    tile, near_tile = (
        np.empty((height, m)),
        np.empty((height, m), bool),
    )  # filled anew for each tile of queries
    for top in range(0, rows, height):
        these = slice(top, min(top + height, rows))
        products = np.matmul(
            queries[these], keys.T, out=tile[: these.stop - top]
        )  # (height, m)
        if seen is not None:
            hidden = (
                ~seen[these] if seen.ndim == 2 else np.arange(m) >= seen[these, None]
            )
            products[hidden] = -np.inf
        best = products.max(axis=1)  # (height,)
        cut = np.maximum(best - slack[these], LOWEST)
        near = np.greater_equal(products, cut[:, None], out=near_tile[: len(best)])
        found = np.flatnonzero(near)
        owners = found // m
        sizes[these] = np.bincount(owners, minlength=len(best))
        if rows > 1 and sizes[: these.stop].sum() > most:
            raise TooMany
        members.append(found - owners * m)
        products.reshape(-1)[found] = -np.inf
        gaps[these] = best - products.max(axis=1)
    starts = np.r_[0, np.cumsum(sizes)].astype(np.intp)
    return Sets(starts, np.concatenate(members)), gaps


def near_maxima_of_elements(
    queries: FloatArray,
    keys: FloatArray,
    slack: FloatArray,
    mask: BoolArray | None = None,
    causal: bool = False,
    most: float = np.inf,
) -> Sets:
    """Return the sets of a batch: queries (batch, w, d), keys (batch, n, d), and slack
    (batch * w,).

    `mask` (batch, n) is True for keys that are seen; with `causal` query i sees only
    the keys 0 to i. Sets are empty where a query sees no key. Raises TooMany where they
    have more than `most` members in all.
    """
    (batch, w, _), n = queries.shape, keys.shape[1]
    height, rows = (
        max(1, TILE // max(1, w * n)),
        max(1, min(w, TILE // max(1, n))),
    )  # elements, or queries of one
    sizes, members, slack = (
        np.empty((batch, w), np.intp),
        [np.empty(0, np.intp)],
        slack.reshape(batch, w),
    )
    total = 0
    for top, left in product(range(0, batch, height), range(0, w, rows)):
        some, these = slice(top, top + height), slice(left, left + rows)
        products = queries[some, these] @ keys[some].transpose(
            0, 2, 1
        )  # (height, rows, n)
        if mask is not None:
            np.copyto(products, -np.inf, where=~mask[some, None])
        if causal:
            np.copyto(products, -np.inf, where=np.arange(n) > np.arange(w)[these, None])
        best = products.max(axis=2, initial=-np.inf)
        near = products >= np.maximum(best - slack[some, these], LOWEST)[..., None]
        found = np.flatnonzero(near)
        owners = found // n
        sizes[some, these] = np.bincount(owners, minlength=best.size).reshape(
            best.shape
        )
        members.append(found - owners * n)
        total += len(found)
        if total > most:
            raise TooMany
    return Sets(np.r_[0, np.cumsum(sizes)].astype(np.intp), np.concatenate(members))
