"""Sets of batches of clouds given as floats: what attention on the CPU needs."""

import numpy as np

from hardmax._integers import over_one_denominator
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels import reference
from hardmax.kernels.exact_sets import compared, exact_rows
from hardmax.kernels.floating import Scaled, slack_of
from hardmax.kernels.search import has_numba
from hardmax.kernels.sets import Sets

LARGE = 1e150  # its square is still a float


def exact_sets(queries: AnyArray, keys: AnyArray, mask: BoolArray | None = None, causal: bool = False) -> Sets:
    """Find C_i = argmax_j <q_i, k_j>, as in real arithmetic on the given floats.

    Parameters
    ----------
    queries : (batch, n, d) array of float32 or float64
    keys : (batch, m, d) array
    mask : (batch, m) boolean array, optional
        True for keys that may be chosen.
    causal : bool
        Whether query i sees the keys 0 to i alone.

    Returns
    -------
    Sets
        One row for each query, batch * n in all; members count keys within their own cloud.
    """
    if queries.shape[2] == 1 and not causal:
        return _sets_on_line(queries, keys, mask)
    near, decided = near_maxima(queries, keys, mask=mask, causal=causal)
    rows, n = np.flatnonzero(~decided), queries.shape[1]
    answers: list[IntArray] = []
    for b in np.unique(rows // n).tolist():
        some = rows[rows // n == b]
        asked, _ = over_one_denominator(queries[b, some % n])
        answers += compared(near.take(some), asked, exact_rows(keys[b]))[0]
    return near.replace(rows, Sets.of(answers))


def near_maxima(
    queries: AnyArray,
    keys: AnyArray,
    slack: FloatArray | None = None,
    mask: BoolArray | None = None,
    causal: bool = False,
) -> tuple[Sets, BoolArray]:
    """Find all keys whose products are within `slack` (batch * n,) of the largest, and where these are all the same.

    Without `slack` it is the error of the products, so that rows whose candidates are all the same key are decided.
    """
    if has_numba() and not (too_large(queries) or too_large(keys)):
        from hardmax.kernels import fused

        return fused.near_maxima_of_batch(queries, keys, slack, mask, causal)
    (batch, n, _), m = queries.shape, keys.shape[1]
    rows, same = [np.empty(0, np.intp)] * (batch * n), np.ones(batch * n, bool)
    for b in range(batch):
        seen = np.arange(m) if mask is None else np.flatnonzero(mask[b])
        limits = np.searchsorted(seen, np.arange(n), side="right") if causal else np.full(n, len(seen))
        asked = np.flatnonzero(limits)
        if not len(asked):
            continue
        Q, K = Scaled.of(queries[b, asked]), Scaled.of(keys[b, seen])
        allowed = slack_of(Q.values, Q.error, K.values, K.error)
        if slack is not None:
            allowed += np.ldexp(slack[b * n + asked], -Q.exponent - K.exponent)
        near, _ = reference.near_maxima(Q.values, K.values, allowed, limits[asked] if causal else None)
        for i, members in zip((b * n + asked).tolist(), near, strict=True):
            rows[i] = seen[members]
            same[i] = (keys[b, rows[i]] == keys[b, rows[i][0]]).all()
    return Sets.of(rows), same


def too_large(array: AnyArray) -> bool:
    """Whether products may overflow in float64."""
    return array.dtype == np.float64 and max(float(array.max(initial=0)), -float(array.min(initial=0))) > LARGE


def _sets_on_line(queries: AnyArray, keys: AnyArray, mask: BoolArray | None = None) -> Sets:
    """As `exact_sets` for d = 1, where no product is taken and nothing is rounded.

    q k_j is largest at the largest k_j for q > 0, at the smallest for q < 0, and everywhere for q = 0.
    """
    q, k = queries[..., 0], keys[..., 0]
    seen = np.ones(k.shape, bool) if mask is None else mask
    low, high = (np.where(seen, k, edge) for edge in (np.inf, -np.inf))
    # (batch, 3, m) members of the set for negative, zero and positive queries
    table = np.stack([k == low.min(axis=1, keepdims=True), seen, k == high.max(axis=1, keepdims=True)], axis=1)
    table &= seen[:, None]
    kinds = Sets(np.r_[0, np.cumsum(table.sum(axis=2))], np.nonzero(table)[2])
    return kinds.take((np.arange(len(q))[:, None] * 3 + 1 + np.sign(q).astype(np.intp)).reshape(-1))
