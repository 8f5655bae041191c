"""What is measured on hidden states and weights: pure functions of NumPy arrays.

X are tokens of shape (..., n, d). Axes in front, or for weights the heads, are kept: a whole layer is measured at once.
"""

import numpy as np
from scipy.special import entr

from hardmax._types import ComplexArray, FloatArray


def effective_number(weights: FloatArray) -> FloatArray:
    """How many of some non-negative weights count: exp of the entropy of weights / sum, along the last axis.

    Between 1, when one of them holds everything, and their number, when all are equal; 0 when all are zero.

    Examples
    --------
    >>> round(effective_number(np.array([3.0, 3.0, 0.0])).item(), 12)
    2.0
    """
    total = weights.sum(axis=-1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1)
    return np.where(total[..., 0] > 0, np.exp(entr(shares).sum(axis=-1)), 0.0)


def cosines(X: FloatArray) -> FloatArray:
    """Cosine of the angle between every two rows of X: (..., n, n). A zero row has cosine 0 with all others.

    Examples
    --------
    >>> cosines(np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])).round(3)
    array([[1.   , 0.   , 0.707],
           [0.   , 1.   , 0.707],
           [0.707, 0.707, 1.   ]])
    """
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    unit = X / np.where(lengths > 0, lengths, 1)
    G = unit @ unit.swapaxes(-1, -2)  # (..., n, n)
    diagonal = np.arange(X.shape[-2])
    G[..., diagonal, diagonal] = 1.0
    return G


def effective_clusters(X: FloatArray) -> FloatArray:
    """How many directions the tokens X gather around: exp of the entropy of the eigenvalues of cosines(X) / n.

    1 when all tokens point the same way, n when they are orthogonal, and m when they form m orthogonal clusters of one
    size. (Friedman and Dieng, 2022, call it the Vendi score.) The tokens are not centred: a direction that all of them
    share is what clustering produces, and to take it away would hide it.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    >>> round(effective_clusters(X).item(), 12)
    2.0
    """
    eigenvalues = np.linalg.eigvalsh(cosines(X))
    return effective_number(np.maximum(eigenvalues, 0))  # a Gram matrix: what is negative is rounding


def product_eigenvalues(left: FloatArray, right: FloatArray) -> ComplexArray:
    """Eigenvalues of left @ right that can differ from zero, the largest modulus first.

    With left of shape (..., d, r) and right of shape (..., r, d), r <= d, they are those of the small matrix
    right @ left; the other d - r are zero.

    Examples
    --------
    >>> product_eigenvalues(np.array([[1.0], [2.0]]), np.array([[3.0, 1.0]]))
    array([5.+0.j])
    """
    values = np.linalg.eigvals(right @ left).astype(np.complex128)  # (..., r)
    order = np.lexsort((-values.imag, -np.abs(values)), axis=-1)
    return np.take_along_axis(values, order, axis=-1)


def symmetric_eigenvalues(left: FloatArray, right: FloatArray) -> FloatArray:
    """Eigenvalues, in rising order, of the symmetric part of left @ right that can differ from zero.

    (L R + Rᵀ Lᵀ) / 2 = U M Uᵀ with U = [L, Rᵀ] and M = [[0, I], [I, 0]] / 2. A QR factorisation U = O T leaves the
    small matrix T M Tᵀ, of size min(2 r, d) for L of shape (..., d, r).

    Examples
    --------
    >>> symmetric_eigenvalues(np.array([[1.0], [0.0], [0.0]]), np.array([[2.0, 0.0, 0.0]])).tolist()
    [0.0, 2.0]
    """
    U = np.concatenate([left, right.swapaxes(-1, -2)], axis=-1)  # (..., d, 2 r)
    T = np.asarray(np.linalg.qr(U, mode="r"))  # (..., min(2 r, d), 2 r)
    r = left.shape[-1]
    swapped = np.concatenate([T[..., r:], T[..., :r]], axis=-1) / 2  # T M
    return np.linalg.eigvalsh(swapped @ T.swapaxes(-1, -2))
