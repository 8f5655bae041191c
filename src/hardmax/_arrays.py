"""Functions of NumPy arrays and torch tensors alike, without importing torch for
arrays.

Smooth rules are written once for both: with operators, methods that arrays and tensors
share, and these functions.
"""

from typing import Any

import numpy as np

from hardmax._types import AnyArray, Array
from hardmax._validation import is_tensor, library_of, like, to_numpy

MAX_PLAIN_LOG = 200.0  # e^{2 log} far below the largest float
MAX_BLOCK = 1 << 15  # scores at a time: 256 kB, which fit into the cache of a core
MIN_EXPONENTS = {
    np.dtype(np.float64): -700.0,
    np.dtype(np.float32): -80.0,
}  # e^x is negligible, no underflow
MIN_POWER = -1000  # of a factor whose inverse is finite
MAX_SCALE_POWER = 865  # the scale of scores is at most 2 to that power, about e^600
MAX_GROWTH = 1e6  # of log in scores: beyond it, their scale is capped anyway


def match_array(weight: Array, tokens: Array) -> Array:
    """Return a weight with the type, dtype and device of `tokens`; gradients are kept."""
    if is_tensor(tokens):
        return (
            weight.to(tokens) if is_tensor(weight) else like(np.array(weight), tokens)
        )
    return np.asarray(to_numpy(weight), tokens.dtype)


def needs_gradient(*values: Array) -> bool:
    return any(is_tensor(value) and value.requires_grad for value in values)


def softmax(
    scores: Array, seen: Array | None = None, scale: Array | float = 1.0
) -> Array:
    """Return rows of exp(scale * scores) over the keys that are `seen`, divided by
    their sum.

    The largest score of each row is subtracted before it is scaled, so that nothing
    overflows for any `scale`. An array of scores is overwritten: no second matrix of
    that size is allocated.
    """
    blind = (
        None if seen is None else ~seen.any(-1)[..., None]
    )  # padding that sees no key: a row of zeros, never NaN
    if is_tensor(scores):
        if not is_tensor(scale):
            scale = match_array(
                np.minimum(scale, library_of(scores).finfo(scores.dtype).max), scores
            )
        hidden = None if seen is None else ~(seen | blind)
        visible = (
            scores if hidden is None else scores.masked_fill(hidden, -float("inf"))
        )
        scores = (scores - visible.detach().amax(dim=-1, keepdim=True)) * scale
        P = (
            scores if hidden is None else scores.masked_fill(hidden, -float("inf"))
        ).softmax(dim=-1)
        return P if seen is None else P.masked_fill(~seen, 0.0)
    scale = np.minimum(to_numpy(scale), float(np.finfo(scores.dtype).max)).astype(
        scores.dtype
    )
    with np.errstate(
        over="ignore", under="ignore", invalid="ignore"
    ):  # scores that are not finite stay visible as NaN
        hidden = None if seen is None else ~np.broadcast_to(seen | blind, scores.shape)
        if hidden is not None:
            scores[hidden] = -np.inf
        scores -= scores.max(axis=-1, keepdims=True)
        scores *= scale
        if hidden is not None:
            scores[hidden] = -np.inf  # also where the scale is 0
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        if seen is not None:
            scores *= seen
    return scores


def softmax_means(
    queries: Array,
    keys: Array,
    values: Array,
    seen: Array | None = None,
    scale: Array | float = 1.0,
) -> Array:
    """Return `softmax` of ⟨queries_i, keys_j⟩ times `values`.

    Arrays are computed in blocks of rows, without the matrix. That is several times as
    fast for many tokens: the rows stay in the cache, and no exponential underflows,
    which is slow.
    """
    if is_tensor(queries) or queries.dtype not in MIN_EXPONENTS:
        return softmax(queries @ keys.swapaxes(-1, -2), seen, scale) @ values
    (n, _), m = queries.shape[-2:], keys.shape[-2]
    if n * m > MAX_BLOCK and queries.ndim > 2:
        inputs: list[Any] = [
            queries,
            keys,
            values,
            seen,
            scale,
        ]  # an axis for the batch may miss or have length 1
        each = (
            [x if np.ndim(x) < 3 else x[min(b, len(x) - 1)] for x in inputs]
            for b in range(len(queries))
        )
        return np.stack([softmax_means(*one) for one in each])
    columns, rows = np.ascontiguousarray(keys.swapaxes(-1, -2)), max(1, MAX_BLOCK // m)
    if n <= rows:
        return _means(queries @ columns, values, seen, scale)
    parts = [slice(i, i + rows) for i in range(0, n, rows)]
    own = [seen if seen is None or len(seen) == 1 else seen[part] for part in parts]
    return np.concatenate(
        [
            _means(queries[p] @ columns, values, s, scale)
            for p, s in zip(parts, own, strict=True)
        ]
    )


def _means(
    scores: AnyArray, values: AnyArray, seen: AnyArray | None, scale: Array | float
) -> AnyArray:
    """Return `softmax` of the scores, which are overwritten, times the values."""
    if seen is not None:
        return np.asarray(softmax(scores, seen, scale) @ values)
    scale = np.minimum(to_numpy(scale), float(np.finfo(scores.dtype).max)).astype(
        scores.dtype
    )
    with np.errstate(
        over="ignore", under="ignore", invalid="ignore"
    ):  # scores that are not finite stay visible as NaN
        scores -= scores.max(axis=-1, keepdims=True)
        scores *= scale
        np.exp(np.maximum(scores, MIN_EXPONENTS[scores.dtype], out=scores), out=scores)
        return np.asarray(scores @ values / scores.sum(axis=-1, keepdims=True))


def largest(tokens: Array) -> Array:
    """Return the largest absolute coordinate of each token, 1 for zero tokens, without
    a gradient: shape (..., 1).
    """
    if is_tensor(tokens):
        size = tokens.detach().abs().amax(dim=-1, keepdim=True)
    else:
        size = np.abs(tokens).max(axis=-1, keepdims=True)
    return size + (size == 0)


def unit_rows(vectors: AnyArray) -> AnyArray:
    """Return vectors of length 1; zeros stay. Dividing by the largest entry first
    avoids underflow.
    """
    vectors = vectors / largest(vectors)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1))


def scale_into_range(
    left: Array, right: Array, log: float = 0.0
) -> tuple[Array, Array, Array]:
    """Return vectors and a scale, such that scale times their products is e^{2 log}
    ⟨left_i, right_j⟩.

    Where these would leave the range of floats, each token set is divided by a power of
    two, which is exact; the scale is capped where any difference decides a row as an
    infinite one would.
    """
    if (
        log < MAX_PLAIN_LOG
        and _is_moderate(left)
        and (right is left or _is_moderate(right))
    ):
        return left, right, float(np.exp(2 * log))
    high, low = _exponents(left), _exponents(right)
    log = min(log, MAX_GROWTH)
    power = int(
        2 * log / np.log(2)
    )  # e^{2 log} = 2^power times a number near 1: nothing overflows
    with np.errstate(over="ignore", invalid="ignore"):
        exponents = np.minimum(power + high + low, MAX_SCALE_POWER)  # (..., 1, 1)
        scale = np.ldexp(np.exp(2 * log - power * np.log(2)), exponents)
        left, right = (
            vectors * match_array(np.ldexp(1.0, -e), vectors)
            for vectors, e in ((left, high), (right, low))
        )
        return left, right, scale


def _is_moderate(vectors: Array) -> bool:
    """Return whether products are far from the ends of the range of float64; a quick
    test with false negatives.
    """
    if (
        not isinstance(vectors, np.ndarray)
        or vectors.dtype != np.float64
        or vectors.ndim > 2
    ):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(1e-60 < np.vdot(vectors, vectors) < 1e60)


def _exponents(vectors: Array) -> AnyArray:
    """Return the exponent of the power of two just above the largest coordinate of each
    token set, (..., 1, 1).
    """
    plain = to_numpy(vectors)
    size = np.maximum(plain.max(axis=(-1, -2)), -plain.min(axis=(-1, -2))).astype(
        np.float64
    )[..., None, None]
    return np.where(np.isfinite(size), np.maximum(np.frexp(size)[1], MIN_POWER), 0)


def as_mask(mask: AnyArray | None, tokens: Array) -> Array:
    """Return a boolean array as a mask of `tokens`: an array, or a tensor on the same
    device. None stays None.
    """
    if mask is None or not is_tensor(tokens):
        return mask
    return library_of(tokens).from_numpy(np.array(mask)).to(tokens.device)


def where(condition: AnyArray, left: Array, right: Array) -> Array:
    """Return entries of `left` where the boolean array holds, of `right` elsewhere."""
    return library_of(left).where(as_mask(condition, left), left, right)


def stack(parts: list[Array], axis: int = 0) -> Array:
    return library_of(parts[0]).stack(parts, axis)


def join(parts: list[Array], axis: int = -1) -> Array:
    return library_of(parts[0]).concatenate(parts, axis)


def weighted_sums(P: Array, values: Array) -> Array:
    """Return P v for a sparse matrix of SciPy and an array or tensor (n, d); gradients
    are kept.
    """
    if not is_tensor(values):
        return P.tocsr() @ values
    torch, entries = library_of(values), P.tocoo()
    rows, columns = (
        torch.from_numpy(x.astype(np.int64)).to(values.device)
        for x in (entries.row, entries.col)
    )
    return torch.zeros_like(values).index_add(
        0, rows, like(entries.data, values)[:, None] * values[columns]
    )
