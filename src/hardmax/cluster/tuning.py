"""Which granularity, and how many eigenvectors, give so many clusters."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.cluster.embedding import SpectralEmbedding
from hardmax.cluster.granularity import capped, largest_thresholds, tokens_at
from hardmax.limits import Limit, limit
from hardmax.rules.hardmax import Hardmax

FEWER = 8  # how many leaders less at layer 0 are tried, for those that emerge later
LOWER = 4  # how many numbers of eigenvectors are tried
HALVINGS = 8  # of the interval between too many and too few
NEAR = 4.0  # a tau from 1/4 to 4 is near enough to the plain model
WIDE = 16.0  # how far an interval without an end is taken to reach


@dataclass(frozen=True, eq=False)
class Choice:
    """A tau and a number of coordinates, and where the tokens end with them."""

    m: int  # coordinates of a token
    tau: float
    tokens: FloatArray  # (n, m)
    limit: Limit

    @classmethod
    def of(cls, features: FloatArray, tau: float, alpha: float) -> "Choice":
        tau = capped(features, tau)
        tokens = tokens_at(features, tau)
        return cls(features.shape[1], tau, tokens, limit(tokens, Hardmax(alpha)))

    @property
    def n_clusters(self) -> int:
        return len(self.limit.leaders)

    def distance(self, n_clusters: int) -> tuple[int, float]:
        """How far from the wanted number of clusters, then how far tau is from 1."""
        return abs(self.n_clusters - n_clusters), float(abs(np.log(max(self.tau, 1e-9))))


def choose_tau(features: FloatArray, n_clusters: int, alpha: float) -> Choice:
    """The tau nearest to 1 with so many clusters, or else with about as many."""
    tried = [Choice.of(features, 1.0, alpha)]
    if tried[0].n_clusters != n_clusters:
        for tau in _candidates(largest_thresholds(features, n_clusters + 1), n_clusters):
            tried.append(Choice.of(features, tau, alpha))
            if tried[-1].n_clusters <= n_clusters:
                break
    for _ in range(HALVINGS):
        many = max((c.tau for c in tried if c.n_clusters > n_clusters), default=0.0)  # the largest tau with too many
        few = min((c.tau for c in tried if c.n_clusters < n_clusters and c.tau > many), default=0.0)  # next: too few
        if any(c.n_clusters == n_clusters for c in tried) or not many * few:
            break
        tried.append(Choice.of(features, float(np.sqrt(many * few)), alpha))
    return min(tried, key=lambda choice: choice.distance(n_clusters))


def choose_tau_and_m(embedding: SpectralEmbedding, labels: IntArray, n_clusters: int, top: int, alpha: float) -> Choice:
    """As `choose_tau`, with `top` eigenvectors if a tau within a factor of NEAR will do, or else a few less.

    k clusters that are well apart make k rays in k dimensions. With more eigenvectors clusters are split, so more are
    taken only where a cut would fall between equal eigenvalues.
    """
    sizes = [m for m in range(top, max(0, top - LOWER), -1) if m == 1 or embedding.whole(m) == m]
    sizes += [embedding.whole(top)] if top not in sizes else []
    best: Choice | None = None
    for m in sizes:
        found = choose_tau(embedding.features(m)[labels], n_clusters, alpha)
        best = min(best or found, found, key=lambda choice: choice.distance(n_clusters))
        if best.n_clusters == n_clusters and best.distance(n_clusters)[1] <= np.log(NEAR):
            break
    assert best is not None
    return best


def _candidates(falling: FloatArray, n_clusters: int) -> Iterator[float]:
    """Values of tau with n_clusters leaders at layer 0, then with fewer.

    `falling` holds the largest thresholds: between the c-th and the next one, c tokens lead at layer 0.
    """
    top = min(n_clusters, len(falling))
    for c in range(top, max(0, top - FEWER), -1):
        high, low = float(falling[c - 1]), float(falling[c]) if c < len(falling) else 0.0
        if low < high and np.isfinite(low):
            yield _between(low, high)


def _between(low: float, high: float) -> float:
    """1 if it lies between, else a quarter of the way from the end that is nearer to 1, in the logarithm."""
    if low < 1 < high:
        return 1.0
    low, high = max(low, min(high, 1.0) / WIDE), min(high, max(low, 1.0) * WIDE)
    return float(low ** (3 / 4) * high ** (1 / 4) if low >= 1 else low ** (1 / 4) * high ** (3 / 4))
