"""Tokens that the cases are about: spread, all at one distance, clustered, duplicated."""

import numpy as np

from hardmax import configuration
from hardmax._types import FloatArray

WORDS = {
    "gaussian": "Gaussian tokens",
    "ball": "tokens in a ball",
    "sphere": "tokens on a sphere",
    "clustered": "10 clusters of width 1e-3",
    "duplicated": "Gaussian tokens, each 10 times",
}


def tokens(kind: str, n: int, d: int, seed: int = 0) -> FloatArray:
    """Draw n tokens in d dimensions."""
    rng = np.random.default_rng(seed)
    if kind == "clustered":
        return np.asarray(rng.normal(size=(10, d))[rng.integers(10, size=n)] + 1e-3 * rng.normal(size=(n, d)))
    if kind == "duplicated":
        return np.asarray(rng.permutation(np.repeat(configuration("gaussian", n=-(-n // 10), d=d), 10, axis=0)[:n]))
    return configuration(kind, n=n, d=d, seed=seed)


def words(kind: str, n: int, d: int) -> str:
    """The tokens in a title."""
    name = "tokens on a circle" if (kind, d) == ("sphere", 2) else WORDS[kind]
    return f"{name[0].upper()}{name[1:]}, n = {n:,}, d = {d}"
