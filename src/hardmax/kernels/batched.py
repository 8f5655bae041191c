"""Exact sets C_i for batches of clouds given as floats: what attention on the CPU needs."""

import numpy as np

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.kernels import line, reference
from hardmax.kernels.chosen import Chosen
from hardmax.kernels.search import has_numba
from hardmax.kernels.sets import Sets

UNIT, TINY = 2.0**-53, 2.0**-1022
LARGE = 1e150  # its square is still a float


def choose(queries: AnyArray, keys: AnyArray, mask: BoolArray | None = None, causal: bool = False) -> Chosen:
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
    Chosen
        One row for each query, batch * n in all; members count keys within their own cloud.
    """
    if queries.shape[2] == 1 and not causal:
        return line.choose(queries, keys, mask)
    if not has_numba() or _too_large(queries) or _too_large(keys):
        near, equal = _by_definition(queries, keys, mask, causal)
    else:
        from hardmax.kernels.fused import choose as candidates

        *near_parts, equal = candidates(queries, keys, mask, causal)
        near = Chosen(*near_parts)
    return near if equal.all() else _decide(queries, keys, near, equal)


def _too_large(array: AnyArray) -> bool:
    """Whether products may overflow in float64."""
    return array.dtype == np.float64 and max(float(array.max(initial=0)), -float(array.min(initial=0))) > LARGE


def _by_definition(queries: AnyArray, keys: AnyArray, mask: BoolArray | None, causal: bool) -> tuple[Chosen, BoolArray]:
    """Near-maximal keys cloud by cloud in NumPy, and whether those of each tied row are all the same."""
    batch, n, _ = queries.shape
    first, sizes = np.full(batch * n, -1), np.zeros(batch * n, np.intp)
    tied, members = [], []
    for b in range(batch):
        seen = np.arange(keys.shape[1]) if mask is None else np.flatnonzero(mask[b])
        limits = np.searchsorted(seen, np.arange(n), side="right") if causal else np.full(n, len(seen))
        asked = np.flatnonzero(limits)
        if not len(asked):
            continue
        Q, K = _scaled(queries[b, asked], axis=1), _scaled(keys[b, seen], axis=None)
        near, _ = reference.near_maxima(Q, K, _slack(Q, K), limits[asked] if causal else None)
        rows = b * n + asked
        first[rows], sizes[rows] = seen[near.targets], near.sizes
        tied += (rows[near.tied]).tolist()
        members += [seen[near[i]] for i in near.tied]
    written = Sets.of(members)
    equal = [_same(keys[i // n], group) for i, group in zip(tied, members, strict=True)]
    return Chosen(first, sizes, np.array(tied, np.intp), written.starts, written.members), np.array(equal, bool)


def _scaled(array: AnyArray, axis: int | None) -> FloatArray:
    """Divided by powers of two, so that products stay in range; for all or for each row."""
    floats = array.astype(np.float64)
    return np.ldexp(floats, -np.frexp(np.abs(floats).max(axis=axis, keepdims=True))[1])


def _slack(queries: FloatArray, keys: FloatArray) -> FloatArray:
    """As `kernels.floating.slack_of`, for exact positions whose scaling may have underflowed."""
    d = keys.shape[1]
    return np.asarray(2.02 * ((d + 4) * UNIT * np.abs(keys).max() * np.abs(queries).sum(axis=1) + 4 * d * TINY))


def _same(keys: AnyArray, group: IntArray) -> bool:
    return bool((keys[group] == keys[group[0]]).all())


def _decide(queries: AnyArray, keys: AnyArray, near: Chosen, equal: BoolArray) -> Chosen:
    """Compare the candidates of all rows whose keys are not the same in whole numbers."""
    from hardmax._integers import over_one_denominator
    from hardmax.kernels.exact_argmax import argmax

    n = queries.shape[1]
    groups = [near.members[s:e] for s, e in zip(near.starts[:-1], near.starts[1:], strict=True)]
    open_rows = np.flatnonzero(~equal)
    clouds = near.tied[open_rows] // n
    for b in np.unique(clouds).tolist():
        places = open_rows[clouds == b]
        asked, _ = over_one_denominator(queries[b, near.tied[places] % n].astype(np.float64))
        ids = np.unique(np.concatenate([groups[p] for p in places]))
        rows, _ = over_one_denominator(keys[b, ids].astype(np.float64))
        known = dict(zip(ids.tolist(), rows, strict=True))
        decided, _ = argmax(asked, [groups[p] for p in places], known, None)
        for p, group in zip(places.tolist(), decided, strict=True):
            groups[p] = group
    first, sizes = near.first.copy(), near.sizes.copy()
    first[near.tied] = [group[0] for group in groups]
    sizes[near.tied] = [len(group) for group in groups]
    still = [p for p, group in enumerate(groups) if len(group) > 1]
    written = Sets.of([groups[p] for p in still])
    return Chosen(first, sizes, near.tied[still], written.starts, written.members)
