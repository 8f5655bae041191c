"""How many clusters there are: as many as a cloud without clusters does not show."""

import numpy as np

from hardmax._types import AnyArray, FloatArray, Matrix
from hardmax.cluster.embedding import MOST, SpectralEmbedding
from hardmax.cluster.graph import Graph
from hardmax.cluster.neighbours import Search
from hardmax.cluster.peaks import dimension, prominences

BASE, GROWTH = 1.0, 0.58  # prominence of the second peak by chance, times sqrt(neighbours): BASE + GROWTH log n
FLAT, LEAST = 2.0, 0.7  # beyond so many dimensions valleys are gone around: it falls like sqrt(FLAT / D), to LEAST
STEEP = 20.0  # dimensions towards which it rises again: D log s, and its error, are large
SPREAD = 3.0  # dimensions from which slow modes are asked: a curve has some without clusters
SLOWER = 0.8  # than any cloud without clusters
DRAWS, DRAWN = 5, 1000  # such clouds, and their points
SAMPLED = 2000  # points at most, from which the shape of a cloud is known


def chance(n: int, k: int, D: float, wide: float = np.inf) -> float:
    """The prominence that the second peak of n points without clusters seldom has, by its k neighbours.

    D is the dimension around a point, and `wide` that of the whole: there is no way around a valley of a long cloud.
    `python -m benchmarks chance` draws clouds without clusters, and says how often it is exceeded.
    """
    part = np.clip(max(np.sqrt(FLAT / min(D, wide)), D / STEEP), LEAST, 1.0)
    return float((BASE + GROWTH * np.log(n)) * part / np.sqrt(k))


def lengths(Y: AnyArray) -> FloatArray:
    """How far the points reach along their principal axes, falling; of very many, from some that are evenly chosen."""
    some = np.asarray(Y[:: -(-len(Y) // SAMPLED)], np.float64)
    return np.linalg.svd(some - some.mean(axis=0), compute_uv=False)


def width(reach: FloatArray) -> float:
    """Along how many axes points vary: (sum of variances)^2 / sum of their squares."""
    variances = (reach / max(reach.max(), np.finfo(np.float64).tiny)) ** 2
    return float(variances.sum() ** 2 / max((variances**2).sum(), np.finfo(np.float64).tiny))


def count(graph: Graph, Y: Matrix | None) -> int:
    """How many peaks of the density are more prominent than chance makes them; of one, how many modes are slow.

    1 is an answer: no clusters. `Y` are the points, where there are coordinates.
    """
    assert graph.near is not None
    n, k, D = graph.near.shape[0], int(np.diff(graph.near.indptr).max()), dimension(graph.near)
    reach = lengths(Y) if isinstance(Y, np.ndarray) else None
    peaks = _prominent(graph, reach)
    if peaks > 1 or D < SPREAD or reach is None or n <= MOST:
        return max(1, peaks)
    return _slow_modes(graph, reach[: max(1, round(D))], D, k)


def is_one_peak(graph: Graph, Y: Matrix | None) -> bool:
    """Return whether the density has one peak beyond chance, in so few dimensions that clusters would make more."""
    if graph.near is None or graph.near.shape[0] <= MOST or dimension(graph.near) >= SPREAD:
        return False
    return _prominent(graph, lengths(Y) if isinstance(Y, np.ndarray) else None) <= 1


def _prominent(graph: Graph, reach: FloatArray | None) -> int:
    """Count the peaks of the density that are more prominent than chance makes them."""
    assert graph.near is not None
    n, k, D = graph.near.shape[0], int(np.diff(graph.near.indptr).max()), dimension(graph.near)
    return int((prominences(graph)[1] > chance(n, k, D, np.inf if reach is None else width(reach))).sum())


def _slow_modes(graph: Graph, widths: FloatArray, D: float, k: int) -> int:
    """How many eigenvectors lose heat clearly slower than the second one of any Gaussian cloud of that shape.

    In many dimensions few points make no peaks: each has its neighbours at about the same distance. Heat still stays
    in clusters. The rate at which it leaves a cloud falls like n^(-2/D) (Weyl).
    """
    n, d = graph.weights.shape[0], len(widths)
    random, rates = np.random.default_rng(0), []
    for _ in range(DRAWS):
        cloud = Graph.of_points(Search(random.standard_normal((min(n, DRAWN), d)) * widths, k))
        rates.append(1 - SpectralEmbedding.of(cloud.weights, 3).values[1])
    slow = SLOWER * min(rates) * (min(n, DRAWN) / n) ** (2 / D)
    return 1 + int((1 - SpectralEmbedding.of(graph.weights, MOST).values[1:] < slow).sum())
