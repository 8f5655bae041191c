"""Measures of hidden states and weights: pure functions of NumPy arrays.

X are tokens of shape (..., n, d). Leading axes, such as layers or heads, are kept.
"""

import numpy as np
from scipy.special import entr

from hardmax._types import ComplexArray, FloatArray


def effective_number(weights: FloatArray) -> FloatArray:
    """Return exp of the entropy of weights / sum along the last axis, for non-negative weights.

    It lies between 1, if one weight is positive, and their number, if all are equal; it is 0 if all are zero.
    """
    total = weights.sum(axis=-1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1)
    return np.where(total[..., 0] > 0, np.exp(entr(shares).sum(axis=-1)), 0.0)


def cosines(X: FloatArray) -> FloatArray:
    """Return the cosines of all pairs of rows of X: (..., n, n). A zero row has cosine 0 with all others."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    unit = X / np.where(lengths > 0, lengths, 1)
    G = unit @ unit.swapaxes(-1, -2)  # (..., n, n)
    diagonal = np.arange(X.shape[-2])
    G[..., diagonal, diagonal] = 1.0
    return G


def effective_clusters(X: FloatArray) -> FloatArray:
    """Return the effective number of directions of tokens: exp of the entropy of the eigenvalues of cosines(X) / n.

    It is 1 if all tokens have one direction, n if they are orthogonal, and m if they form m orthogonal clusters of one
    size (the Vendi score of Friedman and Dieng 2022). Tokens are not centred: a common direction is an effect of
    clustering.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    >>> round(effective_clusters(X).item(), 12)
    2.0
    """
    eigenvalues = np.linalg.eigvalsh(cosines(X))
    return effective_number(np.maximum(eigenvalues, 0))  # a Gram matrix: negative eigenvalues are rounding errors


def product_eigenvalues(left: FloatArray, right: FloatArray) -> ComplexArray:
    """Return the eigenvalues of left @ right that can differ from zero, the largest modulus first.

    With left of shape (..., d, r) and right of shape (..., r, d), r <= d, they are those of the small matrix
    right @ left; the other d - r are zero.
    """
    values = np.linalg.eigvals(right @ left).astype(np.complex128)  # (..., r)
    order = np.lexsort((-values.imag, -np.abs(values)), axis=-1)
    return np.take_along_axis(values, order, axis=-1)


def symmetric_eigenvalues(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the eigenvalues of the symmetric part of left @ right that can differ from zero, rising.

    (L R + Rᵀ Lᵀ) / 2 = U M Uᵀ with U = [L, Rᵀ] and M = [[0, I], [I, 0]] / 2. A QR factorisation U = O T leaves the
    small matrix T M Tᵀ, of size min(2 r, d) for L of shape (..., d, r).
    """
    U = np.concatenate([left, right.swapaxes(-1, -2)], axis=-1)  # (..., d, 2 r)
    T = np.asarray(np.linalg.qr(U, mode="r"))  # (..., min(2 r, d), 2 r)
    r = left.shape[-1]
    swapped = np.concatenate([T[..., r:], T[..., :r]], axis=-1) / 2  # T M
    return np.linalg.eigvalsh(swapped @ T.swapaxes(-1, -2))
