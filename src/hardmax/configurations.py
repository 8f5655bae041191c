"""Named clouds: the four rows of Figure 2 of arXiv 2407.01602, and random ones."""

from collections.abc import Callable

import numpy as np

from hardmax import _checks
from hardmax._types import FloatArray

SQUARE = [[1, 1], [1, -1], [-1, -1], [-1, 1]]


def triangle(rng: np.random.Generator) -> FloatArray:
    """Three leaders: two far apart, one between them, each with its followers."""
    quadrant = rng.uniform(0.05, 0.9, (10, 2)) * np.repeat([[1], [-1]], 5, axis=0)
    return np.vstack([[[1, 1], [0.5, -0.5], [-1, -1]], quadrant, [[0.3, -0.2], [0.1, -0.2]]])


def emerging_leader(rng: np.random.Generator) -> FloatArray:
    """A token that becomes a leader only after some layers."""
    fixed = [[1, 1 / 3], [-1 / 12, 1 / 12], [-1, -1], [0, 1 / 4], [-0.3, -0.7], [-0.6, -0.9], [0.8, 0.1], [0.6, 0.15]]
    return np.array(fixed)


def square(rng: np.random.Generator) -> FloatArray:
    """Four leaders at the corners, and six random tokens inside."""
    return np.vstack([SQUARE, rng.uniform(-0.5, 0.5, (6, 2))])


def edge_clusters(rng: np.random.Generator) -> FloatArray:
    """The square again, with two tokens that follow two leaders at once and end in the middle of an edge."""
    return np.vstack([SQUARE, [[0.5, 0], [-0.5, 0]], rng.uniform(-0.5, 0.5, (4, 2))])


def gaussian(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    """Standard normal tokens."""
    return rng.normal(size=(n, d))


def sphere(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    """Tokens uniform on the unit sphere. With A = I each leads, so choose another A."""
    tokens = rng.normal(size=(n, d))
    return np.asarray(tokens / np.linalg.norm(tokens, axis=1, keepdims=True))


def ball(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    """Tokens uniform in the unit ball."""
    return np.asarray(sphere(rng, n, d) * rng.uniform(size=(n, 1)) ** (1 / d))


PAPER: dict[str, Callable[[np.random.Generator], FloatArray]] = {
    "triangle": triangle,
    "emerging-leader": emerging_leader,
    "square": square,
    "edge-clusters": edge_clusters,
}
RANDOM: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "gaussian": gaussian,
    "ball": ball,
    "sphere": sphere,
}
NAMES = (*PAPER, *RANDOM)


def configuration(name: str, *, n: int | None = None, d: int | None = None, seed: int = 0) -> FloatArray:
    """Tokens of a named configuration, the same for the same seed.

    Parameters
    ----------
    name : str
        "triangle", "emerging-leader", "square" or "edge-clusters", the rows of Figure 2 of arXiv 2407.01602; or
        "gaussian", "ball" or "sphere".
    n, d : int, optional
        How many random tokens, 100 unless said, and of which dimension, 2. The paper's configurations have their own.
    seed : int

    Returns
    -------
    (n, d) array

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.configuration("square")[:4]
    array([[ 1., 1.],
           [ 1., -1.],
           [-1., -1.],
           [-1., 1.]])
    """
    rng = np.random.default_rng(_checks.check_count(seed, "seed", least=0))
    if name in PAPER:
        if n is not None or d is not None:
            raise ValueError(f"`n` and `d` must go with {', '.join(RANDOM)}. Got them with {name!r}. Leave them out.")
        return PAPER[name](rng)
    if name in RANDOM:
        n, d = 100 if n is None else n, 2 if d is None else d
        return RANDOM[name](rng, _checks.check_count(n, "n", least=1), _checks.check_count(d, "d", least=1))
    raise ValueError(f"`name` must be one of {', '.join(NAMES)}. Got {name!r}. Check the spelling.")
