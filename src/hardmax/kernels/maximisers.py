"""Exact sets C_i of one layer, as a function of arrays."""

from typing import Any

import numpy as np

from hardmax._errors import ParameterError
from hardmax._types import AnyArray
from hardmax.kernels.batched import choose
from hardmax.kernels.search import Search, check_kernel
from hardmax.kernels.sets import Sets


def maximisers(queries: Any, keys: Any = None, *, kernel: str = "auto") -> Sets:
    """Find the sets C_i = argmax_j ⟨q_i, k_j⟩, exactly.

    As in real arithmetic on the given floats: rows that floats cannot decide are compared in whole numbers. For many
    layers use `hardmax.simulate`, which also treats equal tokens as one.

    Parameters
    ----------
    queries : (n, d) or (batch, n, d) array of finite floats
    keys : (m, d) or (batch, m, d) array, optional
        The queries themselves unless given.
    kernel : str
        For one cloud: a name from `KERNELS`. Batches are scanned by "fused", or by "numpy" where numba is missing.

    Returns
    -------
    Sets
        `sets[i]` is the sorted array C_i; for a batch, row b * n + i has the keys of cloud b.

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is not finite.

    Examples
    --------
    >>> from hardmax.kernels import maximisers
    >>> sets = maximisers([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> sets[0], sets[2]
    (array([0]), array([0, 1]))
    """
    kernel = check_kernel(kernel)
    queries, keys = _check(queries, keys)
    if queries.ndim == 3:
        return _sets(choose(queries, keys))
    if not len(queries):
        return Sets.of([])
    from hardmax._integers import over_one_denominator
    from hardmax.kernels.classes import Classes
    from hardmax.kernels.exact_argmax import argmax
    from hardmax.kernels.floating import Scaled, slack_of

    Q = Scaled.of(queries)
    K = Q if keys is queries else Scaled.of(keys)
    near, _ = Search(kernel).near_maxima(Q.values, K.values, slack_of(Q.values, Q.error, K.values, K.error))
    close = near.tied
    if not len(close):
        return near
    ids = np.unique(np.concatenate([near[i] for i in close]))
    same = np.zeros(len(keys), np.intp)
    same[ids] = Classes.of(keys[ids]).labels
    labels = same[near.members]
    mixed = np.maximum.reduceat(labels, near.starts[:-1]) > np.minimum.reduceat(labels, near.starts[:-1])
    close = np.flatnonzero(mixed)
    if not len(close):
        return near
    rows = dict(zip(ids.tolist(), over_one_denominator(keys[ids])[0], strict=True))
    decided, _ = argmax(over_one_denominator(queries[close])[0], [near[i] for i in close], rows, None)
    return near.replace(close, Sets.of(decided))


def _check(queries: Any, keys: Any) -> tuple[AnyArray, AnyArray]:
    Q = np.asarray(queries)
    K = Q if keys is None else np.asarray(keys)
    own = K is Q
    Q, K = _as_floats("queries", Q), _as_floats("keys", K)
    K = Q if own else K
    if Q.ndim not in (2, 3) or Q.ndim != K.ndim or Q.shape[-1] != K.shape[-1] or Q.shape[:-2] != K.shape[:-2]:
        raise ParameterError(
            ("queries", "keys"),
            "have shapes (n, d) and (m, d), or (batch, n, d) and (batch, m, d)",
            f"{Q.shape} and {K.shape}",
        )
    if not K.size or not Q.shape[-1]:
        raise ParameterError("keys", "hold at least one key", f"shape {K.shape}")
    for name, array in {"queries": Q, "keys": K}.items():
        if (name == "queries" or array is not Q) and not np.isfinite(array).all():
            raise ParameterError(name, "be finite", "NaN or infinity")
    return Q, K


def _as_floats(name: str, array: AnyArray) -> AnyArray:
    """Float32 and float64 as they are, other numbers as float64 if that holds them exactly."""
    if array.dtype in (np.float32, np.float64):
        return array
    floats = array.astype(np.float64)
    if not np.array_equal(floats.astype(array.dtype), array):
        raise ParameterError(name, "be floats", f"{array.dtype} that float64 cannot hold", "Use hm.simulate.")
    return floats


def _sets(chosen: Any) -> Sets:
    """All rows written out."""
    single = Sets(np.arange(len(chosen.first) + 1), np.asarray(chosen.first, np.intp))
    return single.replace(chosen.tied, Sets(np.asarray(chosen.starts), np.asarray(chosen.members)))
