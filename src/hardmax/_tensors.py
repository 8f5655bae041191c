"""Torch tensors in, torch tensors out, without importing torch for anybody else.

Smooth rules are written once for both: they use operators, methods that arrays and tensors share, and what is here.
"""

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


def needs_gradient(*values: Any) -> bool:
    """Whether some value is a tensor that asks for gradients."""
    return any(is_tensor(value) and value.requires_grad for value in values)


def softmax(scores: Any, seen: Any = None, scale: Any = 1.0) -> Any:
    """Rows of exp(scale * scores) over the keys that are `seen`, divided by their sum.

    The largest score of each row is taken off before it is scaled, so that nothing overflows however large `scale`. An
    array of scores is overwritten: no second matrix of that size is made.
    """
    if is_tensor(scores):
        if seen is not None:
            scores = scores.masked_fill(~seen, -float("inf"))
        scores = scores - scores.detach().amax(dim=-1, keepdim=True)
        return (scores * scale).softmax(dim=-1)
    if seen is not None:
        scores[~np.broadcast_to(seen, scores.shape)] = -np.inf
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # scores that are not finite stay visible as NaN
        scores -= scores.max(axis=-1, keepdims=True)
        scores *= scale
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
    return scores


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
    """M^{-1} x for each row x."""
    if not is_tensor(rows):
        return np.linalg.solve(matrix, rows.reshape(-1, rows.shape[-1]).T).T.reshape(rows.shape)
    import torch

    return torch.linalg.solve(matrix, rows.reshape(-1, rows.shape[-1]).T).T.reshape(rows.shape)
