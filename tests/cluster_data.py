"""Data and helpers for the tests of `hardmax.cluster`."""

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from hardmax.cluster.graph import Graph, NeighbourSearch

BLOBS, OF_BLOB = make_blobs(
    300, centers=[[0, 0], [8, 0], [0, 8], [9, 9]], random_state=1
)
SQUARE = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]])


def graph_of(X, n_neighbors=10) -> Graph:
    return Graph.of_points(NeighbourSearch(np.asarray(X, float), n_neighbors))


def same_partition(a, b) -> bool:
    return adjusted_rand_score(a, b) == 1.0
