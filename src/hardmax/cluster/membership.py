"""How sure it is whose cluster a point is of, who stands for a cluster, and who is of none."""

from typing import NamedTuple

import numpy as np

from hardmax._types import FloatArray, IntArray

BLOCK = 1 << 22  # numbers that are held at a time
DENSE = 0.75  # the part of a cluster around which density is lower than where noise is measured from


def strengths(tokens: FloatArray, leaders: IntArray, labels: IntArray) -> FloatArray:
    """(n,) 1 - next / own: by how much the product with a point's leader exceeds that with any other leader.

    1 where no other is on its side, and 0 where another's product is as large: such a point came to its leader by way
    of others. 0 for noise.
    """
    found = np.zeros(len(tokens))
    targets = tokens[leaders]  # (clusters, m)
    rows = max(1, BLOCK // max(1, len(leaders)))
    for start in range(0, len(tokens), rows):
        part = slice(start, start + rows)
        products = tokens[part] @ targets.T  # (rows, clusters)
        each = np.arange(len(products))
        own = products[each, labels[part]]
        products[each, labels[part]] = -np.inf
        following = np.maximum(products.max(axis=1), 0.0)
        ratio = np.divide(following, own, out=np.ones(len(own)), where=own > 0)
        found[part] = np.where(labels[part] < 0, 0.0, np.clip(1 - ratio, 0.0, 1.0))
    return found


def exemplars(tokens: FloatArray, leaders: IntArray, labels: IntArray, most: int) -> list[IntArray]:
    """For each cluster its leader, and then those of its points that have the largest products with it.

    Of points whose tokens are equal the first.
    """
    chosen = []
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(leaders) + 1))
    for c, leader in enumerate(leaders):
        members = order[starts[c] : starts[c + 1]]
        products = tokens[members] @ tokens[leader]
        found = [int(leader)]
        for i in members[np.argsort(-products, kind="stable")]:
            if len(found) == most:
                break
            if not (tokens[i] == tokens[found]).all(axis=1).any():
                found.append(int(i))
        chosen.append(np.array(found))
    return chosen


class Noise(NamedTuple):
    """Points that belong nowhere: the density around them is far below that of their cluster."""

    dimension: float
    floors: FloatArray  # (clusters,) logarithm of the density

    @classmethod
    def of(cls, scales: FloatArray, labels: IntArray, dimension: float, times: float) -> "Noise":
        """So many times thinner than where a quarter of the cluster is."""
        density = -dimension * np.log(scales)
        clusters = range(labels.max(initial=0) + 1)
        return cls(dimension, np.array([np.quantile(density[labels == c], DENSE) for c in clusters]) - np.log(times))

    def mark(self, labels: IntArray, scales: FloatArray) -> IntArray:
        """Labels, -1 where a point belongs nowhere; `scales` are the distances of the last neighbours."""
        return np.where(-self.dimension * np.log(scales) < self.floors[labels], -1, labels)
