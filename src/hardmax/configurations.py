"""Named inputs: token sets and matrices of the figures of both papers, and random ones."""

from collections.abc import Callable

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError, did_you_mean
from hardmax._types import FloatArray

MAX_TOKENS = 10**9  # more do not fit into any memory
MAX_DIMENSION = 10**6
SQUARE = [[1, 1], [1, -1], [-1, -1], [-1, 1]]
EMERGING = [
    [1, 1 / 3],
    [-1 / 12, 1 / 12],
    [-1, -1],
    [0, 1 / 4],
    [-0.3, -0.7],
    [-0.6, -0.9],
    [0.8, 0.1],
    [0.6, 0.15],
]


def _triangle(rng: np.random.Generator) -> FloatArray:
    quadrant = rng.uniform(0.05, 0.9, (10, 2)) * np.repeat([[1], [-1]], 5, axis=0)
    return np.vstack(
        [[[1, 1], [0.5, -0.5], [-1, -1]], quadrant, [[0.3, -0.2], [0.1, -0.2]]]
    )


def _sphere(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    tokens = rng.normal(size=(n, d))
    return np.asarray(tokens / np.linalg.norm(tokens, axis=1, keepdims=True))


PAPER_CONFIGURATIONS: dict[str, Callable[[np.random.Generator], FloatArray]] = {
    # three leaders: two far apart, one between them, each with its followers
    "triangle": _triangle,
    # a token that becomes a leader only after some layers
    "emerging-leader": lambda rng: np.array(EMERGING),
    # four leaders at the corners, and six random tokens inside
    "square": lambda rng: np.vstack([SQUARE, rng.uniform(-0.5, 0.5, (6, 2))]),
    # two tokens that follow two leaders at once and end in the middle of an edge
    "edge-clusters": lambda rng: np.vstack(
        [SQUARE, [[0.5, 0], [-0.5, 0]], rng.uniform(-0.5, 0.5, (4, 2))]
    ),
}
RANDOM_CONFIGURATIONS: dict[
    str, Callable[[np.random.Generator, int, int], FloatArray]
] = {
    "gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "ball": lambda rng, n, d: np.asarray(
        _sphere(rng, n, d) * rng.uniform(size=(n, 1)) ** (1 / d)
    ),
    "sphere": _sphere,  # with A = I each token leads, so choose another A
}
CONFIGURATIONS = (*PAPER_CONFIGURATIONS, *RANDOM_CONFIGURATIONS)


def configuration(
    name: str, *, n: int | None = None, d: int | None = None, seed: int = 0
) -> FloatArray:
    """Return the tokens of a named configuration, shape (n, d), the same for the same
    seed.

    Parameters
    ----------
    name : str
        "triangle", "emerging-leader", "square" or "edge-clusters", the rows of Figure 2
        of arXiv 2407.01602; or "gaussian", "ball" or "sphere".
    n, d : int, optional
        Number and dimension of random tokens, by default 100 and 2. The paper's
        configurations have their own.
    seed : int
        Seed of the random tokens; 0 or larger.

    Returns
    -------
    (n, d) array of float64

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.configuration("square")[:4]
    array([[ 1., 1.],
           [ 1., -1.],
           [-1., -1.],
           [-1., 1.]])
    """
    if not _validation.is_one_of(name, CONFIGURATIONS):
        must, advice = (
            f"be one of {', '.join(CONFIGURATIONS)}",
            did_you_mean(_validation.shortened(name).strip("'"), CONFIGURATIONS),
        )
        raise ParameterError("name", must, _validation.shortened(name), advice)
    rng = np.random.default_rng(_validation.check_count(seed, "seed", least=0))
    if name in PAPER_CONFIGURATIONS:
        if n is not None or d is not None:
            must = f"go with {', '.join(RANDOM_CONFIGURATIONS)}"
            raise ParameterError(
                ("n", "d"), must, f"them with {name!r}", "Leave them out."
            )
        return PAPER_CONFIGURATIONS[name](rng)
    n = 100 if n is None else n
    d = 2 if d is None else d
    n = _validation.check_count(n, "n", least=1, most=MAX_TOKENS)
    d = _validation.check_count(d, "d", least=1, most=MAX_DIMENSION)
    return RANDOM_CONFIGURATIONS[name](rng, n, d)


# The published examples, to the digits given in the paper's code.
PAPER_MATRICES: dict[str, list[list[float]]] = {
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
SIZED: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "identity": lambda rng, d: np.eye(d),
    "minus-identity": lambda rng, d: -np.eye(d),
    "random": lambda rng, d: np.asarray(rng.normal(size=(d, d)) / np.sqrt(d)),
    "positive": lambda rng, d: rng.random((d, d)),
    "definite": lambda rng, d: np.asarray((W := rng.normal(size=(d, d))) @ W.T / d),
}
MATRICES = (*SIZED, *PAPER_MATRICES)


def matrix(name: str, *, d: int | None = None, seed: int = 0) -> FloatArray:
    """Return a named matrix of shape (d, d), for V, Q, K or A.

    Parameters
    ----------
    name : str
        "identity"; "minus-identity"; "random", Gaussian with variance 1/d; "positive",
        uniform in [0, 1), whose leading eigenvalue is simple and positive; "definite",
        W W^T / d with Gaussian W; or an example of arXiv 2305.05465: "paper-2d",
        "paper-3d" and "paper-3d-positive" lead to hyperplanes, "paper-codimension" to
        codimension 2 (a conjecture), "paper-product" to a polytope times a line.
    d : int, optional
        Size, by default 2. The paper's examples have their own.
    seed : int
        Seed of the random matrices; 0 or larger.

    Returns
    -------
    (d, d) array of float64

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.classify(V=hm.matrix("paper-product")).kind
    'product'
    """
    if not _validation.is_one_of(name, MATRICES):
        raise ParameterError(
            "name",
            f"be one of {', '.join(MATRICES)}",
            _validation.shortened(name),
            did_you_mean(_validation.shortened(name).strip("'"), MATRICES),
        )
    rng = np.random.default_rng(_validation.check_count(seed, "seed", least=0))
    if name in PAPER_MATRICES:
        size = len(PAPER_MATRICES[name])
        if d is not None and _validation.check_count(d, "d", least=1) != size:
            raise ParameterError(
                "d",
                f"be {size} for {name!r}, which has its own size",
                d,
                "Leave d out.",
            )
        return np.array(PAPER_MATRICES[name])
    d = 2 if d is None else d
    d = _validation.check_count(d, "d", least=1, most=MAX_DIMENSION)
    return SIZED[name](rng, d)
