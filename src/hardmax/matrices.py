"""Named matrices: those of the figures of arXiv 2305.05465, and random ones."""

from collections.abc import Callable

import numpy as np

from hardmax import _checks
from hardmax._types import FloatArray

# The published examples, to the digits given in the paper's code.
PAPER: dict[str, list[list[float]]] = {
    "paper-2d": [[0.64709742, 0.81911926], [0.61210449, 0.63263484]],
    "paper-3d": [
        [0.2362413, 0.0599536, 0.40506019],
        [0.81321448, 0.49948705, 0.33754772],
        [0.2160645, 0.38505272, 0.14588075],
    ],
    "paper-3d-positive": [
        [0.18608476, 0.34391026, 0.13905949],
        [0.35244288, 0.6694859, 0.39992145],
        [0.46685606, 0.17094454, 0.42092308],
    ],
    "paper-codimension": [
        [0.92761287, 0.94333073, 0.3827744],
        [0.94333073, 0.59991396, 0.47825472],
        [0.3827744, 0.47825472, 0.46668605],
    ],
    "paper-product": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -0.5]],
}


def _definite(rng: np.random.Generator, d: int) -> FloatArray:
    W = rng.normal(size=(d, d))
    return np.asarray(W @ W.T / d)


SIZED: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "identity": lambda rng, d: np.eye(d),
    "minus-identity": lambda rng, d: -np.eye(d),
    "random": lambda rng, d: np.asarray(rng.normal(size=(d, d)) / np.sqrt(d)),
    "positive": lambda rng, d: rng.random((d, d)),
    "definite": _definite,
}
NAMES = (*SIZED, *PAPER)


def matrix(name: str, *, d: int | None = None, seed: int = 0) -> FloatArray:
    """A named matrix, for V, Q, K or A.

    Parameters
    ----------
    name : str
        "identity"; "minus-identity"; "random", Gaussian with variance 1/d; "positive", uniform in [0, 1), whose leading
        eigenvalue is simple and positive; "definite", W W^T / d with Gaussian W; or an example of arXiv 2305.05465:
        "paper-2d", "paper-3d" and "paper-3d-positive" lead to hyperplanes, "paper-codimension" to codimension 2 (a
        conjecture), "paper-product" to a polytope times a line.
    d : int, optional
        Size, 2 unless said. The paper's examples have their own.
    seed : int

    Returns
    -------
    (d, d) array

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.classify(hm.matrix("paper-product")).kind
    'product'
    """
    rng = np.random.default_rng(_checks.check_count(seed, "seed", least=0))
    if name in PAPER:
        size = len(PAPER[name])
        if d not in (None, size):
            raise ValueError(f"`d` must be {size} for {name!r}, which has its own size. Got {d}. Leave d out.")
        return np.array(PAPER[name])
    if name in SIZED:
        return SIZED[name](rng, 2 if d is None else _checks.check_count(d, "d", least=1))
    raise ValueError(f"`name` must be one of {', '.join(NAMES)}. Got {name!r}. Check the spelling.")
