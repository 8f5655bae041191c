"""Requests for an A that can be met, and the sets of the definition."""

from fractions import Fraction

import numpy as np

PROFILE = {"deadline": None, "derandomize": True}

TRIANGLE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.9, 0.0]])


def cloud(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def planted(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and those that lead for some hidden A: a request that can be met."""
    rng = np.random.default_rng(seed)
    tokens, B = rng.normal(size=(n, d)), rng.normal(size=(d, d))
    products = tokens @ (B @ B.T) @ tokens.T
    return tokens, np.flatnonzero(products.argmax(axis=1) == np.arange(n))


def sees(tokens: np.ndarray, A: np.ndarray) -> list[list[int]]:
    """C_i by the definition, in rational arithmetic."""
    Z = [[Fraction(x) for x in row] for row in np.asarray(tokens).tolist()]
    M = [[Fraction(x) for x in row] for row in A.tolist()]
    queries = [[sum(z[a] * M[a][b] for a in range(len(z))) for b in range(len(z))] for z in Z]
    products = [[sum(x * y for x, y in zip(q, z, strict=True)) for z in Z] for q in queries]
    return [[j for j, x in enumerate(row) if x == max(row)] for row in products]


def _meets(tokens: np.ndarray, leaders: np.ndarray, followers: dict[int, int], B: np.ndarray) -> bool:
    chosen = (tokens @ (B @ B.T) @ tokens.T).argmax(axis=1)
    return all(chosen[i] == i for i in leaders) and all(chosen[i] == t for i, t in followers.items())
