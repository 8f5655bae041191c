"""Exact sets C_i of one layer, as a function of arrays."""

import numpy as np
from numpy.typing import ArrayLike

from hardmax._checks import as_array
from hardmax._errors import ParameterError
from hardmax._types import AnyArray
from hardmax.kernels.exact_sets import Points, exact_sets, exact_sets_of_batch
from hardmax.kernels.floating import Metric
from hardmax.kernels.search import Search, check_kernel
from hardmax.kernels.sets import Sets


def maximisers(queries: ArrayLike, keys: ArrayLike | None = None, *, kernel: str = "auto") -> Sets:
    """Find the sets C_i = argmax_j ⟨q_i, k_j⟩, exactly.

    As in real arithmetic on the given floats: rows that floats cannot decide are compared in whole numbers. For many
    layers use `hardmax.simulate`, which also treats equal tokens as one.

    Parameters
    ----------
    queries : (n, d) or (batch, n, d) array of finite floats
        Rows q_i.
    keys : (m, d) or (batch, m, d) array, optional
        Rows k_j; the queries themselves unless given.
    kernel : str
        For one token set a name from `KERNELS`; for a batch "auto".

    Returns
    -------
    Sets
        `sets[i]` is the sorted array C_i; for a batch, row b * n + i has the keys of cloud b.

    Raises
    ------
    ParameterError
        If shapes do not fit, a number is not finite, or there is no such kernel.
    MissingExtra
        If the kernel needs numba, which is not installed.

    Examples
    --------
    >>> from hardmax.kernels import maximisers
    >>> sets = maximisers([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
    >>> sets[0], sets[2]
    (array([0]), array([0, 1]))
    """
    kernel = check_kernel(kernel)
    Q, K = _check(queries, keys)
    if Q.ndim == 3:
        if kernel != "auto":
            raise ParameterError("kernel", 'be "auto" for a batch', repr(kernel), "Leave it out.")
        return exact_sets_of_batch(Q, K)
    if kernel == "gemm" and K is not Q:
        raise ParameterError('kernel="gemm"', "have keys that are the queries", "other keys", 'Use `kernel="auto"`.')
    if not len(Q):
        return Sets.of([])
    points = Points.of(Q)
    return exact_sets(points, points if K is Q else Points.of(K), Metric.of(None), Search(kernel))[0]


def _check(queries: ArrayLike, keys: ArrayLike | None) -> tuple[AnyArray, AnyArray]:
    must = "have rows of equal length"
    Q = _as_floats("queries", as_array(queries, "queries", must))
    K = Q if keys is None or keys is queries else _as_floats("keys", as_array(keys, "keys", must))
    if Q.ndim not in (2, 3) or Q.ndim != K.ndim or Q.shape[-1] != K.shape[-1] or Q.shape[:-2] != K.shape[:-2]:
        must = "have shapes (n, d) and (m, d), or (batch, n, d) and (batch, m, d)"
        raise ParameterError(("queries", "keys"), must, f"{Q.shape} and {K.shape}")
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
