"""One hardmax layer of tensors on the CPU: means of the values of exact sets, and the
gradient of the values.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._exact import check_subnormals
from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.exact.argmax import Metric, Points, exact_sets, exact_sets_of_batch
from hardmax.search.dispatch import (
    Search,
    is_small,
    products_of_batch,
    use_compiled,
)
from hardmax.sets import MAX_MEMBERS, Sets, TooMany


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
    m = k.shape[1]
    for elements, rows, sets in _parts(q, k, mask, causal, some):
        shape = (len(elements), len(rows))
        means = sets.flatten(len(rows), m).mean(
            values[elements].reshape(-1, v.shape[2]),
            np.ones(len(elements) * m, np.intp),
        )
        out.numpy()[elements[:, None], rows] = means.reshape(*shape, -1)
        found.numpy()[elements[:, None], rows] = sets.targets.reshape(shape)
        found.numpy()[elements[:, None], n + rows] = sets.sizes.reshape(shape)
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
        sums = np.zeros((len(several), m, dv))
        for elements, rows, sets in _parts(q, k, mask, causal, several):
            own = gradients[elements[:, None], rows]
            places = np.searchsorted(several, elements)
            sums[places] += _transpose(sets, own, m, np.float64)
        out.numpy()[several] = sums
    return out.to(g.dtype)


def _transpose(sets: Sets, g: AnyArray, m: int, dtype: Any) -> AnyArray:
    """Return what the members of sets get of the gradients (batch, n, dv), summed in
    `dtype`: (batch, m, dv).
    """
    batch, n, dv = g.shape
    P = sets.flatten(n, m).matrix(np.ones(batch * m, np.intp)).astype(dtype)
    return np.asarray((P.T @ g.reshape(-1, dv)).reshape(batch, m, dv))


def _parts(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, some: IntArray
) -> Iterator[tuple[IntArray, IntArray, Sets]]:
    """Yield batch elements, rows and their exact sets, until all rows of `some` elements
    are done.

    Sets of many equal keys have n m members, so these come some rows at a time.
    """
    if not len(some):
        return
    try:
        yield some, np.arange(q.shape[1]), _sets(q, k, mask, causal, some)
        return
    except TooMany:
        pass
    if len(some) > 1:
        half = len(some) // 2
        yield from _parts(q, k, mask, causal, some[:half])
        yield from _parts(q, k, mask, causal, some[half:])
        return
    b = int(some[0])
    seen = None if mask is None else mask[b].numpy()
    for rows, sets in _rows_of_one(_numbers(q[b]), _numbers(k[b]), seen, causal):
        yield some, rows, sets


def _rows_of_one(
    queries: AnyArray, keys: AnyArray, mask: BoolArray | None, causal: bool
) -> Iterator[tuple[IntArray, Sets]]:
    """Yield some rows of one batch element at a time, and their exact sets."""
    n, m = len(queries), len(keys)
    visible = np.ones((1, m), bool) if mask is None else mask.reshape(-1, m)
    points = Points.of(keys)
    identity = Metric.of(None)
    height = max(1, MAX_MEMBERS // m)
    for top in range(0, n, height):
        rows = np.arange(top, min(top + height, n))
        seen = visible[rows] if len(visible) > 1 else np.repeat(visible, len(rows), 0)
        if causal:
            seen = seen & (np.arange(m) <= rows[:, None])
        is_seeing = seen.any(axis=1)
        sizes = np.zeros(len(rows), np.intp)
        members = np.empty(0, np.intp)
        if is_seeing.any():
            found = exact_sets(
                Points.of(queries[rows[is_seeing]]),
                points,
                identity,
                Search("numpy"),
                seen[is_seeing],
            )[0]
            sizes[is_seeing] = found.sizes
            members = found.members
        yield rows, Sets(np.r_[0, np.cumsum(sizes)], members)


def _sets(
    q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, some: IntArray
) -> Sets:
    """Return the exact sets of some batch elements, also for a mask of shape (batch, n,
    m). Raises TooMany if they have more members than a search may return.
    """
    elements = slice(None) if len(some) == len(q) else some
    queries, keys = as_array(q, "q")[elements], as_array(k, "k")[elements]
    seen = None if mask is None else mask.numpy()[elements]
    if seen is None or seen.ndim == 2:
        return exact_sets_of_batch(queries, keys, seen, causal, MAX_MEMBERS)
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
        if sum(map(len, found)) > MAX_MEMBERS:
            raise TooMany
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
