"""Neighbours among very many points, found nearly: each point looks through lists of points that are near each other.

The lists are those of k-means, as in inverted files (Jegou, Douze and Schmid 2011). All points that look through a list
do so together, which makes the work one matrix product after another. Nothing is drawn by chance.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

from hardmax._types import AnyArray, IntArray

LENGTH = 400  # points of a list, about
SEEN = 12  # lists that a point looks through: those with the nearest centres
TRAINED = 40  # points for each list, from which its centre is found
ROUNDS = 4  # of k-means


class Lists:
    """Points in lists by their nearest centre."""

    def __init__(self, Y: AnyArray) -> None:
        self.Y = Y
        centres = _centres(Y, max(SEEN, len(Y) // LENGTH))
        filled, labels = np.unique(pairwise_distances_argmin(Y, centres), return_inverse=True)
        self.order = np.argsort(labels, kind="stable")
        self.starts = np.r_[0, np.cumsum(np.bincount(labels))]
        self.centres = NearestNeighbors(n_neighbors=min(SEEN, len(filled)), algorithm="brute").fit(centres[filled])

    def own(self, k: int) -> IntArray:
        """(n, k) the nearest others of each point."""
        found = self.of(self.Y, k + 1)
        others = np.argsort(found == np.arange(len(found))[:, None], axis=1, kind="stable")[:, :k]  # itself last
        return np.take_along_axis(found, others, 1)

    def of(self, Z: AnyArray, k: int) -> IntArray:
        """(queries, k) the nearest points of others, the nearest first.

        List by list: all who look through it are asked together, and each keeps the k nearest that it has seen.
        """
        far = np.full((len(Z), k), np.inf, np.float32)
        near = np.zeros((len(Z), k), np.intp)
        asked = self.centres.kneighbors(Z, return_distance=False)  # (queries, SEEN)
        width = asked.shape[1]
        for which, places in _groups(asked.ravel()):
            members = self.order[self.starts[which] : self.starts[which + 1]]
            queries = places // width
            search = NearestNeighbors(n_neighbors=min(k, len(members)), algorithm="brute").fit(self.Y[members])
            with threadpool_limits(1):  # small products, in which threads would wait for each other
                distances, found = search.kneighbors(Z[queries])
            both = np.concatenate([far[queries], distances], axis=1)
            best = np.argsort(both, axis=1, kind="stable")[:, :k]
            far[queries] = np.take_along_axis(both, best, 1)
            near[queries] = np.take_along_axis(np.concatenate([near[queries], members[found]], axis=1), best, 1)
        few = np.flatnonzero(np.isinf(far[:, -1]))  # in lists that are too short
        if len(few):
            near[few] = NearestNeighbors(n_neighbors=k).fit(self.Y).kneighbors(Z[few], return_distance=False)
        return near


def _centres(Y: AnyArray, count: int) -> AnyArray:
    """(count, d) means of points, from evenly chosen ones."""
    some = Y[:: max(1, len(Y) // (TRAINED * count))][: TRAINED * count]
    centres = some[:: len(some) // count][:count].copy()
    for _ in range(ROUNDS):
        for which, rows in _groups(pairwise_distances_argmin(some, centres)):
            centres[which] = some[rows].mean(axis=0)
    return centres


def _groups(labels: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each label that is there, and the places where it is."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    return zip(names.tolist(), np.split(order, starts[1:]), strict=True)
