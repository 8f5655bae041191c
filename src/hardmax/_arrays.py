"""Functions of NumPy arrays and torch tensors alike, without importing torch for
arrays.

Smooth rules are written once for both: with operators, methods that arrays and tensors
share, and these functions.
"""

import numpy as np

from hardmax._types import AnyArray, Array
from hardmax._validation import is_tensor, library_of, like, to_numpy


def match_array(weight: Array, tokens: Array) -> Array:
    """Return a weight with the type, dtype and device of `tokens`; gradients are kept."""
    if not is_tensor(tokens):
        return np.asarray(to_numpy(weight), tokens.dtype)
    if is_tensor(weight):
        return weight.to(tokens)
    return like(np.array(weight), tokens)


def needs_gradient(*values: Array) -> bool:
    return any(is_tensor(value) and value.requires_grad for value in values)


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
