"""Which keys each query sees: masks for all queries of a cloud, and masks that differ from query to query.

The search for the largest products knows the first kind alone. Queries that see the same keys are therefore asked
together, on the CPU; on a GPU, where finding them would wait, each query is a cloud of its own.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.exact.argmax import exact_sets_of_batch
from hardmax.search.sets import Sets

AT_ONCE = 1 << 26  # numbers of keys that are copied at a time on a GPU


def check_mask(name: str, mask: Tensor, k: Tensor) -> None:
    """Refuse what is not a boolean mask of these keys."""
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.ndim < 1:
        got = str(mask.dtype) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ParameterError(name, "be a boolean tensor, (..., m) or (..., n, m), True for keys that are seen", got)
    if mask.device != k.device:
        raise ParameterError(name, f"be on the device of `k`, {k.device}", mask.device, "Move it there.")
    if mask.shape[-1] not in (1, k.shape[-2]):
        raise ParameterError(name, f"end in the number of keys, {k.shape[-2]}", f"shape {tuple(mask.shape)}")


def for_each_query(name: str, mask: Tensor, leading: tuple[int, ...], n: int) -> Tensor:
    """The mask with an axis for queries: as it is if it has that, else with one of length 1."""
    if name == "mask" and _broadcasts(tuple(mask.shape[:-1]), leading):
        return mask[..., None, :]
    mask = mask[None] if mask.ndim == 1 else mask
    if mask.shape[-2] not in (1, n) or not _broadcasts(tuple(mask.shape[:-2]), leading):
        axes = ", ".join(map(str, (*leading, n, "m")))
        must = f"have axes that broadcast to ({axes})"
        alone = f", or without that of the {n} queries" if name == "mask" else ""
        raise ParameterError(name, must + alone, f"shape {tuple(mask.shape)}")
    return mask


def _broadcasts(shape: tuple[int, ...], leading: tuple[int, ...]) -> bool:
    fits = all(size in (1, wanted) for size, wanted in zip(shape[::-1], leading[::-1], strict=False))
    return fits and len(shape) <= len(leading)


def exact_sets_seen(queries: AnyArray, keys: AnyArray, mask: BoolArray | None, causal: bool) -> Sets:
    """As `exact_sets_of_batch`, also for a mask of shape (batch, n, m)."""
    if mask is None or mask.ndim == 2:
        return exact_sets_of_batch(queries, keys, mask, causal)
    rows: list[IntArray] = []
    for asked, known, own in zip(queries, keys, mask, strict=True):
        rows += _sets_of_cloud(asked, known, own)
    return Sets.of(rows)


def _sets_of_cloud(queries: AnyArray, keys: AnyArray, mask: BoolArray) -> list[IntArray]:
    found: list[IntArray] = [np.empty(0, np.intp)] * len(queries)
    different, kind = np.unique(mask, axis=0, return_inverse=True)
    for number, own in enumerate(different):
        some, seen = np.flatnonzero(kind.reshape(-1) == number), np.flatnonzero(own)
        if len(seen):
            sets = exact_sets_of_batch(queries[None, some], keys[None, seen])
            for i, members in zip(some.tolist(), sets, strict=True):
                found[i] = seen[members]
    return found


def find_each(gpu: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Outputs of (B, n, d) queries with masks (B, n, m) on a GPU, and what is known of their sets."""
    out, parts = v.new_empty(*q.shape[:2], v.shape[2]), []
    for b, some in _portions(q, k):
        one, found = gpu.find(q[b, some, None], *_copies(some, k[b], v[b]), mask[b, some], False, copies=False)
        out[b, some] = one[:, 0]
        parts.append(found)
    if not parts:
        return gpu.find(q, k, v, None, True)
    records = gpu.Found(1, 0, False).record  # of one query
    each = torch.cat(parts).view(*q.shape[:2], records)
    found = each.new_zeros(q.shape[0], gpu.Found(q.shape[1], 0, False).record)
    for part, begin in zip(range(0, records, 4), gpu.Found(q.shape[1], 0, False).rows, strict=True):
        found[:, begin // 4 : begin // 4 + q.shape[1]] = each[..., part]
    return out, found


def spread_each(gpu: Any, g: Tensor, q: Tensor, k: Tensor, mask: Tensor, found: Tensor) -> Tensor:
    """The gradient of the values that belongs to `find_each`."""
    total, begins = (
        g.new_zeros(k.shape[0], k.shape[1], g.shape[2], dtype=torch.float32),
        gpu.Found(q.shape[1], 0, False).rows,
    )
    for b, some in _portions(q, k):
        own = found.new_zeros(some.stop - some.start, gpu.Found(1, 0, False).record)
        for part, begin in enumerate(begins):
            own[:, 4 * part] = found[b, begin // 4 + some.start : begin // 4 + some.stop]
        (keys,) = _copies(some, k[b])
        one = gpu.spread(g[b, some, None], q[b, some, None], keys, mask[b, some], False, own)
        total[b] += one.sum(0, dtype=torch.float32)
    return total.to(g.dtype)


def _portions(q: Tensor, k: Tensor) -> list[tuple[int, slice]]:
    """Clouds, and queries of each for which there is room at a time."""
    (batch, n, _), step = q.shape, max(1, AT_ONCE // max(1, k.shape[1] * k.shape[2]))
    return [(b, slice(i, min(i + step, n))) for b in range(batch) for i in range(0, n, step)]


def _copies(some: slice, *clouds: Tensor) -> list[Tensor]:
    return [cloud.expand(some.stop - some.start, *cloud.shape).contiguous() for cloud in clouds]
