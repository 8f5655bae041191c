"""Torch tensors in, torch tensors out, without importing torch for anybody else.

Smooth rules are written once for both: they use operators, methods that arrays and tensors share, and what is here.
"""

from functools import cache
from typing import Any

import numpy as np

from hardmax._types import AnyArray


def is_tensor(value: Any) -> bool:
    """Whether this is a torch tensor."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def to_numpy(value: Any) -> Any:
    """A tensor as an array, without its gradient and from wherever it is; anything else as it came."""
    if not is_tensor(value):
        return value
    plain = value.detach().cpu()
    return (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()  # NumPy has no bfloat16


def like(array: AnyArray, value: Any) -> Any:
    """The array as a tensor of the kind and place of `value`, if that is one; else the array itself."""
    if not is_tensor(value):
        return array
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array)).to(value.device)
    return tensor.to(value.dtype) if value.dtype.is_floating_point else tensor


def matching(weight: Any, tokens: Any) -> Any:
    """A weight as what can be multiplied with `tokens`: array or tensor, dtype and place; gradients are kept."""
    if is_tensor(tokens):
        return weight.to(tokens) if is_tensor(weight) else like(np.array(weight), tokens)
    return np.asarray(to_numpy(weight), tokens.dtype)


def in_double(tokens: Any) -> Any:
    """The same array or tensor in float64; gradients are kept."""
    return tokens.double() if is_tensor(tokens) else np.asarray(tokens, np.float64)


def needs_gradient(*values: Any) -> bool:
    """Whether some value is a tensor that asks for gradients."""
    return any(is_tensor(value) and value.requires_grad for value in values)


@cache
def largest_float(dtype: Any) -> float:
    """The largest number of a NumPy dtype; asking NumPy each time would take longer than a small product."""
    return float(np.finfo(dtype).max)


def softmax(scores: Any, seen: Any = None, scale: Any = 1.0) -> Any:
    """Rows of exp(scale * scores) over the keys that are `seen`, divided by their sum.

    The largest score of each row is taken off before it is scaled, so that nothing overflows however large `scale`. An
    array of scores is overwritten: no second matrix of that size is made.
    """
    blind = None
    if seen is not None:
        blind = ~seen.any(-1)[..., None]  # rows of padding that see no key: they get a row of zeros, never NaN
    if is_tensor(scores):
        if not is_tensor(scale):
            import torch

            scale = matching(np.minimum(scale, torch.finfo(scores.dtype).max), scores)
        hidden = None if seen is None else ~(seen | blind)
        visible = scores if hidden is None else scores.masked_fill(hidden, -float("inf"))
        scores = (scores - visible.detach().amax(dim=-1, keepdim=True)) * scale
        P = (scores if hidden is None else scores.masked_fill(hidden, -float("inf"))).softmax(dim=-1)
        return P if seen is None else P.masked_fill(~seen, 0.0)
    if isinstance(scale, float):
        scale = min(scale, largest_float(scores.dtype))
    else:
        scale = np.minimum(to_numpy(scale), largest_float(scores.dtype)).astype(scores.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # scores that are not finite stay visible as NaN
        if seen is None:
            scores -= scores.max(axis=-1, keepdims=True)
            scores *= scale
        else:
            hidden = ~np.broadcast_to(seen | blind, scores.shape)
            scores[hidden] = -np.inf
            scores -= scores.max(axis=-1, keepdims=True)
            scores *= scale
            scores[hidden] = -np.inf  # also where the scale is 0
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        if seen is not None:
            scores *= seen
    return scores


def largest(tokens: Any) -> Any:
    """The largest absolute coordinate of each token, 1 for zero tokens, without a gradient: shape (..., 1)."""
    if is_tensor(tokens):
        size = tokens.detach().abs().amax(dim=-1, keepdim=True)
    else:
        size = np.abs(tokens).max(axis=-1, keepdims=True)
    return size + (size == 0)


def tamed(tokens: Any) -> tuple[Any, Any]:
    """Tokens whose products are in the range of their floats, and what to multiply those products by.

    Each cloud is divided by a power of two, and only where it is so large that products would overflow.
    """
    plain = to_numpy(tokens)
    with np.errstate(over="ignore"):
        if np.vdot(plain, plain) < 1e-4 * largest_float(plain.dtype):  # no product of two tokens exceeds that
            return tokens, 1.0
    most = 1e-2 * largest_float(plain.dtype) ** 0.5 / plain.shape[-1]
    sizes = np.abs(plain).max(axis=(-1, -2), keepdims=True).astype(np.float64)  # (..., 1, 1)
    exponents = np.where((sizes > most) & np.isfinite(sizes), np.frexp(sizes)[1], 0)
    with np.errstate(over="ignore"):
        factors, squares = np.ldexp(1.0, -exponents), np.ldexp(1.0, np.minimum(2 * exponents, 1023))
    return tokens * matching(factors, tokens), squares


def peaks(tokens: Any) -> AnyArray:
    """For each cloud the power of two just above its largest coordinate, as an exponent: shape (..., 1, 1).

    Dividing by a power of two is exact, so that it changes nothing but the range; 0 where there is nothing to scale.
    """
    plain = to_numpy(tokens)
    size = np.maximum(plain.max(axis=(-1, -2)), -plain.min(axis=(-1, -2))).astype(np.float64)[..., None, None]
    return np.where(np.isfinite(size), np.frexp(size)[1], 0)


def scaled(values: Any, factor: float) -> Any:
    """values * factor, with 0 where a value is 0 although the factor is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = values * factor
    return where(np.asarray(to_numpy(values)) == 0, values, product)


def where(condition: AnyArray, left: Any, right: Any) -> Any:
    """Entries of `left` where the boolean array holds, of `right` elsewhere."""
    if not is_tensor(left):
        return np.where(condition, left, right)
    import torch

    return torch.where(torch.from_numpy(np.array(condition)).to(left.device), left, right)


def stack(parts: list[Any], axis: int = 0) -> Any:
    """Arrays or tensors of one shape along a new axis."""
    if not is_tensor(parts[0]):
        return np.stack(parts, axis=axis)
    import torch

    return torch.stack(parts, dim=axis)


def join(parts: list[Any]) -> Any:
    """Arrays or tensors along the last axis."""
    if not is_tensor(parts[0]):
        return np.concatenate(parts, axis=-1)
    import torch

    return torch.cat(parts, dim=-1)


def solve(matrix: Any, rows: Any) -> Any:
    """M^{-1} x for each row x; half precision is solved in single, which is the least that LAPACK knows."""
    columns = rows.reshape(-1, rows.shape[-1]).T
    if not is_tensor(rows):
        wide = np.promote_types(rows.dtype, np.float32)
        return np.linalg.solve(matrix.astype(wide), columns.astype(wide)).T.reshape(rows.shape).astype(rows.dtype)
    import torch

    kind = torch.promote_types(rows.dtype, torch.float32)
    return torch.linalg.solve(matrix.to(kind), columns.to(kind)).T.reshape(rows.shape).to(rows.dtype)
