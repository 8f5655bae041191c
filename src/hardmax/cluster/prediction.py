"""Labels of new points: each is a query and never a key, so the fitted tokens do not notice it.

Theorem 1 holds for such a token too: once its set is one leader, it stays so, and its limit is that leader.
"""

from dataclasses import dataclass

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.exact.argmax import argmax_sets
from hardmax.limit import Limit
from hardmax.rules.hardmax import Hardmax
from hardmax.search.sets import Classes, Sets
from hardmax.simulate import simulate

NEVER = np.iinfo(np.intp).max
MOST_LAYERS = 1000  # that a new point goes on when all others are decided
ROUNDED = 37.0  # e^-37 is below the precision of floats


def labels_of(tokens: FloatArray, limit: Limit) -> IntArray:
    """(n,) number of each token's leader.

    A token that tends to a mean of several leaders goes with the one of largest weight; one whose limit is not proved,
    with the leader that has the largest product with where it is. Of equal ones the first in the order of their
    coordinates is taken, which does not depend on the order of the points.
    """
    labels = limit.clusters.copy()
    labels[labels >= len(limit.leaders)] = -1
    shared = np.flatnonzero(labels < 0)
    rank = np.lexsort(tokens[limit.leaders].T[::-1])  # by the first coordinate first
    weights = limit.sparse_weights[shared].toarray()[:, rank]
    products = np.asarray(limit.tokens)[shared] @ tokens[limit.leaders[rank]].T
    labels[shared] = rank[np.where(weights.any(axis=1), weights.argmax(axis=1), products.argmax(axis=1))]
    return labels


@dataclass(frozen=True, eq=False)
class FittedLayers:
    """The fitted tokens at each layer until all are decided."""

    keys: FloatArray  # (layers + 1, n, m)
    limits: FloatArray  # (n, m)
    leads: IntArray  # (n,) layer from which a token leads, or NEVER
    labels: IntArray  # (n,)
    leaders: IntArray  # (n_leaders,)
    alpha: float

    @classmethod
    def of(cls, tokens: FloatArray, limit: Limit, alpha: float) -> "FittedLayers":
        keys = np.asarray(simulate(tokens, Hardmax(alpha), layers=limit.layer).tokens)
        classes = Classes.of(tokens)
        leads = np.full(len(classes), NEVER)
        leads[classes.labels[limit.leaders]] = limit.emerged
        labels = labels_of(tokens, limit)
        return cls(keys, np.asarray(limit.tokens), leads[classes.labels], labels, limit.leaders, alpha)

    def at(self, k: int) -> FloatArray:
        """(n, m) tokens at a layer; when all are decided the way to the limit shortens by 1 + alpha a layer."""
        beyond = k - len(self.keys) + 1
        if beyond <= 0:
            return self.keys[k]
        return self.limits + (self.keys[-1] - self.limits) * (1 + self.alpha) ** -beyond

    def predict(self, queries: FloatArray) -> IntArray:
        """(queries,) labels of passive tokens that start here."""
        z, labels = queries.copy(), np.full(len(queries), -1)
        most = len(self.keys) + min(int(ROUNDED / np.log1p(self.alpha)), MOST_LAYERS)
        for k in range(most):
            going = np.flatnonzero(labels < 0)
            if not len(going):
                return labels
            keys = self.at(k)
            sets = argmax_sets(z[going], keys)
            labels[going] = self._decided(sets, k)
            ones = np.ones(len(keys), np.intp)
            z[going] += self.alpha / (1 + self.alpha) * (sets.mean(keys, ones) - z[going])
        rest = np.flatnonzero(labels < 0)  # tied for ever, or slow: the leader with the largest product
        leaders = self.keys[0][self.leaders]
        rank = np.lexsort(leaders.T[::-1])
        labels[rest] = rank[(z[rest] @ leaders[rank].T).argmax(axis=1)]
        return labels

    def _decided(self, sets: Sets, k: int) -> IntArray:
        """Label where the set is one leader (and its equals) at layer k, else -1."""
        own = np.where(self.leads <= k, self.labels, -1)[sets.members]
        least, most = (f.reduceat(own, sets.starts[:-1]) for f in (np.minimum, np.maximum))
        return np.where(least == most, least, -1)
