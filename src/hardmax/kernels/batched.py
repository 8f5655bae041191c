"""Sets of batches of clouds given as floats: what attention on the CPU needs."""

import numpy as np

from hardmax._integers import TINY, UNIT, over_one_denominator
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels import line, reference
from hardmax.kernels.exact_sets import compared, exact_rows
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
        return line.exact_sets(queries, keys, mask)
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
        (Q, exponents), (K, exponent) = _scaled(queries[b, asked], axis=1), _scaled(keys[b, seen], axis=None)
        allowed = _slack(Q, K) if slack is None else np.ldexp(slack[b * n + asked], -exponents - exponent)
        near, _ = reference.near_maxima(Q, K, allowed, limits[asked] if causal else None)
        for i, members in zip((b * n + asked).tolist(), near, strict=True):
            rows[i] = seen[members]
            same[i] = (keys[b, rows[i]] == keys[b, rows[i][0]]).all()
    return Sets.of(rows), same


def too_large(array: AnyArray) -> bool:
    """Whether products may overflow in float64."""
    return array.dtype == np.float64 and max(float(array.max(initial=0)), -float(array.min(initial=0))) > LARGE


def _scaled(array: AnyArray, axis: int | None) -> tuple[FloatArray, AnyArray]:
    """Divided by powers of two, so that products stay in range, for all or for each row; and their exponents."""
    floats = array.astype(np.float64)
    exponents = np.frexp(np.abs(floats).max(axis=axis, keepdims=True))[1]
    return np.ldexp(floats, -exponents), exponents.reshape(-1)


def _slack(queries: FloatArray, keys: FloatArray) -> FloatArray:
    """As `kernels.floating.slack_of`, for exact positions whose scaling may have underflowed."""
    d = keys.shape[1]
    return np.asarray(2.02 * ((d + 4) * UNIT * np.abs(keys).max() * np.abs(queries).sum(axis=1) + 4 * d * TINY))
