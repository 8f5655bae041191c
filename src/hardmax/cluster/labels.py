"""Labels of fitted and new points, membership strengths, exemplars and noise."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from hardmax._errors import ParameterError
from hardmax._simulate import simulate
from hardmax._types import FloatArray, IntArray, Matrix
from hardmax.cluster.graph import group_by_label
from hardmax.cluster.preprocessing import BLOCK, is_sparse
from hardmax.exact.argmax import argmax_sets
from hardmax.rules.hardmax import Hardmax
from hardmax.sets import Classes, Sets
from hardmax.trajectories.limit import Limit

NEVER = np.iinfo(np.intp).max
MAX_LAYERS = 1000  # that a new point moves after all fitted tokens are decided
MAX_LOG_RATIO = 37.0  # e^-37 is below the precision of floats
N_EXEMPLARS = 5  # per cluster
DENSE_QUANTILE = 0.75  # of the densities in a cluster: noise is measured from there


def assign_labels(tokens: FloatArray, limit: Limit) -> IntArray:
    """Return the index of each token's leader in `limit.leaders`, (n,); ties go to the
    first by coordinates.
    """
    labels = limit.clusters.copy()
    labels[labels >= len(limit.leaders)] = -1
    shared = np.flatnonzero(labels < 0)
    rank = np.lexsort(tokens[limit.leaders].T[::-1])  # by the first coordinate first
    # The leader of largest weight; where a limit is not proved, of the largest product
    # with the last position.
    weights = limit.sparse_weights[shared].toarray()[:, rank]
    products = np.asarray(limit.tokens)[shared] @ tokens[limit.leaders[rank]].T
    labels[shared] = rank[
        np.where(weights.any(axis=1), weights.argmax(axis=1), products.argmax(axis=1))
    ]
    return labels


@dataclass(frozen=True, eq=False)
class FittedLayers:
    """The fitted tokens at each layer until all are decided, to predict labels of new
    points.

    A new point is a query and never a key, so the fitted tokens do not change. Theorem
    1 holds for such a token, too: once its argmax set is one leader, it remains so, and
    its limit is that leader.
    """

    keys: FloatArray  # (layers + 1, n, m)
    limits: FloatArray  # (n, m)
    leads_from: IntArray  # (n,) first layer at which a token leads, or NEVER
    labels: IntArray  # (n,)
    leaders: IntArray  # (n_leaders,)
    alpha: float

    @classmethod
    def of(cls, tokens: FloatArray, limit: Limit, alpha: float) -> "FittedLayers":
        keys = np.asarray(simulate(tokens, Hardmax(alpha), layers=limit.layer).tokens)
        classes = Classes.of(tokens)
        leads_from = np.full(len(classes), NEVER)
        leads_from[classes.labels[limit.leaders]] = limit.emerged
        labels = assign_labels(tokens, limit)
        return cls(
            keys,
            np.asarray(limit.tokens),
            leads_from[classes.labels],
            labels,
            limit.leaders,
            alpha,
        )

    def tokens_at(self, layer: int) -> FloatArray:
        """Return the tokens at a layer, (n, m). Once all are decided, distances to
        limits shrink by 1 + alpha.
        """
        beyond = layer - len(self.keys) + 1
        if beyond <= 0:
            return self.keys[layer]
        return self.limits + (self.keys[-1] - self.limits) * (1 + self.alpha) ** -beyond

    def predict(self, queries: FloatArray) -> IntArray:
        """Return the labels of new tokens: (queries,)."""
        z, labels = queries.copy(), np.full(len(queries), -1)
        n_layers = len(self.keys) + min(
            int(MAX_LOG_RATIO / np.log1p(self.alpha)), MAX_LAYERS
        )
        for layer in range(n_layers):
            open_rows = np.flatnonzero(labels < 0)
            if not len(open_rows):
                return labels
            keys = self.tokens_at(layer)
            sets = argmax_sets(z[open_rows], keys)
            labels[open_rows] = self._decide(sets, layer)
            ones = np.ones(len(keys), np.intp)
            z[open_rows] += (
                self.alpha / (1 + self.alpha) * (sets.mean(keys, ones) - z[open_rows])
            )
        rest = np.flatnonzero(
            labels < 0
        )  # tied, or slow: the leader with the largest product
        leaders = self.keys[0][self.leaders]
        rank = np.lexsort(leaders.T[::-1])
        labels[rest] = rank[(z[rest] @ leaders[rank].T).argmax(axis=1)]
        return labels

    def _decide(self, sets: Sets, layer: int) -> IntArray:
        """Return the label where the argmax set is one leader (and its copies) at this
        layer, else -1.
        """
        own = np.where(self.leads_from <= layer, self.labels, -1)[sets.members]
        least, most = (
            f.reduceat(own, sets.starts[:-1]) for f in (np.minimum, np.maximum)
        )
        return np.where(least == most, least, -1)


def interpolate_by_distance(
    distances: FloatArray, near: IntArray, values: FloatArray
) -> FloatArray:
    """Return means of the values of the nearest points, weighted by 1 / distance^2
    (Shepard 1968): (queries, m).
    """
    return interpolate(
        (distances.min(axis=1, keepdims=True) / distances) ** 2, near, values
    )


def interpolate(weights: FloatArray, near: IntArray, values: FloatArray) -> FloatArray:
    """Return weighted means of the values of the nearest points: (queries, m)."""
    weights = weights / weights.sum(axis=1, keepdims=True)
    mean = np.zeros((len(near), values.shape[1]))
    for weight, neighbour in zip(
        weights.T, near.T, strict=True
    ):  # no array of shape (queries, k, m)
        mean += weight[:, None] * values[neighbour]
    return mean


def interpolate_precomputed(
    X: Matrix, are_distances: bool, n_neighbors: int, tokens: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return tokens of new points, (queries, m), and the distances of their last
    neighbours, (queries,).
    """
    dense = np.asarray(X.toarray() if is_sparse(X) else X, np.float64)
    k = min(n_neighbors, dense.shape[1])
    if are_distances and is_sparse(X):
        stored = (
            sparse.csr_array(
                (np.ones(X.nnz), X.indices, X.indptr), shape=X.shape
            ).toarray()
            > 0
        )
        dense = np.where(stored, dense, np.inf)
    near = np.argpartition(dense if are_distances else -dense, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(dense, near, 1)
    is_known = (np.isfinite(values) if are_distances else values > 0).any(axis=1)
    if not is_known.all():
        must, row = (
            "hold a distance or positive similarity to a fitted point in each row",
            int(is_known.argmin()),
        )
        raise ParameterError(
            "X", must, f"none in row {row}", "Add one, or remove the row."
        )
    if not are_distances:
        return interpolate(values, near, tokens), np.full(len(dense), np.nan)
    distances = np.maximum(values, np.finfo(np.float64).tiny ** 0.5)
    return interpolate_by_distance(distances, near, tokens), distances.max(axis=1)


def compute_strengths(
    tokens: FloatArray, leaders: IntArray, labels: IntArray
) -> FloatArray:
    """Return strengths 1 - p / q, (n,), with q the product with the own leader and p
    the largest other; 0 for noise.
    """
    found = np.zeros(len(tokens))
    for part in gen_batches(len(tokens), max(1, BLOCK // max(1, len(leaders)))):
        products = tokens[part] @ tokens[leaders].T  # (rows, clusters)
        each = np.arange(len(products))
        own = products[each, labels[part]]
        products[each, labels[part]] = -np.inf
        other = np.maximum(products.max(axis=1), 0.0)
        ratio = np.divide(other, own, out=np.ones(len(own)), where=own > 0)
        found[part] = np.where(labels[part] < 0, 0.0, np.clip(1 - ratio, 0.0, 1.0))
    return found


def find_exemplars(
    tokens: FloatArray, leaders: IntArray, labels: IntArray
) -> list[IntArray]:
    """Return each cluster's leader and the distinct points with the largest products
    with it, N_EXEMPLARS at most.
    """
    exemplars, clusters = [], dict(group_by_label(labels))
    for c, leader in enumerate(leaders):
        products = tokens[clusters[c]] @ tokens[leader]
        found = [int(leader)]
        for i in clusters[c][np.argsort(-products, kind="stable")].tolist():
            if (
                len(found) < N_EXEMPLARS
                and not (tokens[i] == tokens[found]).all(axis=1).any()
            ):
                found.append(i)
        exemplars.append(np.array(found))
    return exemplars


class NoiseThreshold(NamedTuple):
    """The log density of each cluster below which a point is noise."""

    dimension: float
    floors: FloatArray  # (clusters,)

    @classmethod
    def of(
        cls, scales: FloatArray, labels: IntArray, dimension: float, ratio: float
    ) -> "NoiseThreshold":
        """Set the thresholds: a `ratio` below the density that a quarter of the cluster
        exceeds.
        """
        density = -dimension * np.log(scales)
        clusters = range(labels.max(initial=0) + 1)
        dense = [np.quantile(density[labels == c], DENSE_QUANTILE) for c in clusters]
        return cls(dimension, np.array(dense) - np.log(ratio))

    def mark(self, labels: IntArray, scales: FloatArray) -> IntArray:
        """Return labels with -1 for noise; `scales` are the distances of the last
        neighbours.
        """
        return np.where(
            -self.dimension * np.log(scales) < self.floors[labels], -1, labels
        )
