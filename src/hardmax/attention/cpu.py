"""One hardmax layer of tensors on the CPU: means of the values of exact sets, and the
gradient of the values.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._exact import check_subnormals
from hardmax._types import AnyArray, IntArray
from hardmax.exact.argmax import exact_sets_of_batch
from hardmax.search.dispatch import is_small, products_of_batch, use_compiled
from hardmax.sets import Sets


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Return outputs of (B, n, d) queries, and (B, 2 n) lowest members of the sets, -1
    for none, and their sizes.

    Batch elements in which each query has a single argmax, which are nearly all, take
    one compiled pass.
    """
    check_subnormals()
    batch, n, _ = q.shape
    out, found = (
        torch.empty(batch, n, v.shape[2], dtype=_wide(v)),
        torch.empty(batch, 2 * n, dtype=torch.int32),
    )
    if batch * n == 0 or k.shape[1] == 0:
        found[:, :n], found[:, n:] = -1, 0
        return out.zero_().to(v.dtype), found
    values, some = _numbers(v), np.arange(batch)
    if not causal and (mask is None or mask.ndim == 2) and _can_compile(q, k, v):
        # Without a mask the compiled pass leaves out elements that are not finite.
        queries, keys = (
            _numbers(x) if mask is None else as_array(x, name)
            for x, name in ((q, "q"), (k, "k"))
        )
        seen = None if mask is None else mask.numpy()
        from hardmax.attention import layers_compiled

        some = layers_compiled.attend(
            queries, keys, values, seen, out.numpy(), found.numpy()
        )
    if len(some):
        sets, m = _sets(q, k, mask, causal, some), k.shape[1]
        means = sets.flatten(n, m).mean(
            values[some].reshape(-1, v.shape[2]), np.ones(len(some) * m, np.intp)
        )
        out.numpy()[some] = means.reshape(len(some), n, -1)
        found.numpy()[some] = np.c_[
            sets.targets.reshape(-1, n), sets.sizes.reshape(-1, n)
        ]
    return out.to(v.dtype), found


def _can_compile(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Return whether batch elements are small and float32, and compiled code is worth
    loading.
    """
    (batch, n, d), m = q.shape, k.shape[1]
    single = _wide(q) == _wide(v) == torch.float32
    return (
        single
        and is_small(d, max(n, m), True)
        and use_compiled("attention", products_of_batch(batch, n, m))
    )


def spread(
    g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor
) -> Tensor:
    """Return the gradient of the values: each g_i / |C_i| goes to the members of C_i."""
    (batch, n, dv), m = g.shape, k.shape[1]
    out = torch.empty(batch, m, dv, dtype=_wide(g))
    if not (g.numel() and m):
        return out.zero_().to(g.dtype)
    gradients, records, some = _numbers(g), found.contiguous().numpy(), np.arange(batch)
    if use_compiled("attention", products_of_batch(batch, n + m, dv)):
        from hardmax.attention import layers_compiled

        some = layers_compiled.spread(gradients, records, out.numpy())
    tied = (records[some, n:] > 1).any(axis=1)
    single, several = some[~tied], some[tied]
    if len(
        single
    ):  # in the same order as compiled code, and in the same type: to the last bit
        first, sizes = (
            half.astype(np.intp).reshape(-1)
            for half in np.split(records[single], 2, axis=1)
        )
        sets = Sets.from_first(first, sizes, np.empty(0, np.intp))
        out.numpy()[single] = _transpose(sets, gradients[single], m, gradients.dtype)
    if len(several):  # searched again, as members take memory
        sets = _sets(q, k, mask, causal, several)
        out.numpy()[several] = _transpose(sets, gradients[several], m, np.float64)
    return out.to(g.dtype)


def _transpose(sets: Sets, g: AnyArray, m: int, dtype: Any) -> AnyArray:
    """Return what the members of sets get of the gradients (batch, n, dv), summed in
    `dtype`: (batch, m, dv).
    """
    batch, n, dv = g.shape
    P = sets.flatten(n, m).matrix(np.ones(batch * m, np.intp)).astype(dtype)
    return np.asarray((P.T @ g.reshape(-1, dv)).reshape(batch, m, dv))


def _sets(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, some: IntArray
) -> Sets:
    """Return the exact sets of some batch elements, also for a mask of shape (batch, n,
    m).
    """
    elements = slice(None) if len(some) == len(q) else some
    queries, keys = as_array(q, "q")[elements], as_array(k, "k")[elements]
    seen = None if mask is None else mask.numpy()[elements]
    if seen is None or seen.ndim == 2:
        return exact_sets_of_batch(queries, keys, seen, causal)
    found: list[IntArray] = []
    for own, others, visible in zip(queries, keys, seen, strict=True):
        rows: list[IntArray] = [np.empty(0, np.intp)] * len(own)
        different, kind = np.unique(visible, axis=0, return_inverse=True)
        for number, row in enumerate(
            different
        ):  # queries that see the same keys, together
            same, ids = np.flatnonzero(kind.reshape(-1) == number), np.flatnonzero(row)
            if len(ids):
                for i, members in zip(
                    same.tolist(),
                    exact_sets_of_batch(own[None, same], others[None, ids]),
                    strict=True,
                ):
                    rows[i] = ids[members]
        found += rows
    return Sets.of(found)


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _numbers(x: Tensor) -> AnyArray:
    """Return a tensor as a NumPy array; widening bfloat16 and float16 to float32 loses
    nothing.
    """
    wide = x.detach() if x.dtype == _wide(x) else x.detach().to(torch.float32)
    return wide.contiguous().numpy()


def as_array(x: Tensor, name: str) -> AnyArray:
    """Return a parameter as a NumPy array; raise an error if it is not finite."""
    if not math.isfinite(x.detach().sum()) and not x.isfinite().all():
        raise ParameterError(
            name, "be finite", "NaN or infinity", "Find where it comes from."
        )
    return _numbers(x)
