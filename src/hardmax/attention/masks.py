"""Masks of keys: one for all queries of a batch element, or one per query; and sets under them on the CPU."""

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import ParameterError
from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.exact.argmax import exact_sets_of_batch
from hardmax.search.sets import Sets


def find_seen(mask: Tensor | None, attn_mask: Tensor | None, k: Tensor, leading: tuple[int, ...], n: int) -> Tensor:
    """Return which of the (B, m, d) keys are seen: (B, m) by all queries of a batch element, or (B, n, m) by each."""
    if mask is not None and attn_mask is not None:
        raise ParameterError("attn_mask", "not go with `mask`", "both", "Join them with &.")
    name, given = ("attn_mask", attn_mask) if mask is None else ("mask", mask)
    if not isinstance(given, Tensor) or given.dtype != torch.bool or given.ndim < 1:
        got = str(given.dtype) if isinstance(given, Tensor) else type(given).__name__
        raise ParameterError(name, "be a boolean tensor, (..., m) or (..., n, m), True for keys that are seen", got)
    if given.device != k.device:
        raise ParameterError(name, f"be on the device of `k`, {k.device}", given.device, "Move it there.")
    if given.shape[-1] not in (1, k.shape[1]):
        raise ParameterError(name, f"end in the number of keys, {k.shape[1]}", f"shape {tuple(given.shape)}")
    if mask is not None and _broadcasts(tuple(given.shape[:-1]), leading):
        return given.expand(*leading, k.shape[1]).reshape(len(k), k.shape[1])
    given = given[None] if given.ndim == 1 else given
    if given.shape[-2] not in (1, n) or not _broadcasts(tuple(given.shape[:-2]), leading):
        axes = ", ".join(map(str, (*leading, n, "m")))
        alone = "" if mask is None else f", or without that of the {n} queries"
        raise ParameterError(name, f"have axes that broadcast to ({axes}){alone}", f"shape {tuple(given.shape)}")
    seen = given.expand(*leading, given.shape[-2], k.shape[1]).reshape(len(k), given.shape[-2], k.shape[1])
    return seen[:, 0] if given.shape[-2] == 1 else seen


def _broadcasts(shape: tuple[int, ...], leading: tuple[int, ...]) -> bool:
    fits = all(size in (1, wanted) for size, wanted in zip(shape[::-1], leading[::-1], strict=False))
    return fits and len(shape) <= len(leading)


def exact_sets_seen(queries: AnyArray, keys: AnyArray, mask: BoolArray | None, causal: bool) -> Sets:
    """Return the sets of `exact_sets_of_batch`, also for a mask of shape (batch, n, m)."""
    if mask is None or mask.ndim == 2:
        return exact_sets_of_batch(queries, keys, mask, causal)
    found: list[IntArray] = []
    for q, k, own in zip(queries, keys, mask, strict=True):
        rows: list[IntArray] = [np.empty(0, np.intp)] * len(q)
        different, kind = np.unique(own, axis=0, return_inverse=True)
        for number, row in enumerate(different):  # queries that see the same keys, together
            some, seen = np.flatnonzero(kind.reshape(-1) == number), np.flatnonzero(row)
            if len(seen):
                for i, members in zip(some.tolist(), exact_sets_of_batch(q[None, some], k[None, seen]), strict=True):
                    rows[i] = seen[members]
        found += rows
    return Sets.of(found)
