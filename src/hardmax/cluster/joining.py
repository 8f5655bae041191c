"""Joining the pieces of a graph: each at a point that is near another piece."""

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from hardmax._types import AnyArray, FloatArray, IntArray, Matrix
from hardmax.cluster.rows import is_sparse

ALL = 2048  # points up to which each one looks for the nearest outside its piece
ASKED = 512  # that do so, where there are more
TILE = 4096  # points that they are compared with at a time


class Places(Protocol):
    """Points that know how far they are from each other."""

    def __len__(self) -> int:
        """How many there are."""

    def scores(self, asked: IntArray, others: IntArray) -> FloatArray:
        """(asked, others) numbers that grow with the distance, row by row."""

    def distances(self, i: IntArray, j: IntArray) -> FloatArray:
        """Distances of pairs."""


class Coordinates(NamedTuple):
    """Points of a Euclidean space."""

    Y: Matrix  # (n, d)
    halves: AnyArray  # (n,) |y|^2 / 2

    @classmethod
    def of(cls, Y: Matrix) -> "Coordinates":
        return cls(Y, Y.multiply(Y).sum(axis=1) / 2 if is_sparse(Y) else np.einsum("nd,nd->n", Y, Y) / 2)

    def __len__(self) -> int:
        return int(self.Y.shape[0])

    def scores(self, asked: IntArray, others: IntArray) -> FloatArray:
        """|a - b|^2 / 2 - |a|^2 / 2 = |b|^2 / 2 - ⟨a, b⟩."""
        products = self.Y[asked] @ self.Y[others].T
        return np.asarray(self.halves[others] - (products.toarray() if is_sparse(products) else products))

    def distances(self, i: IntArray, j: IntArray) -> FloatArray:
        apart = self.Y[i] - self.Y[j]
        if is_sparse(apart):
            return np.sqrt(np.asarray(apart.multiply(apart).sum(axis=1)))
        return np.linalg.norm(np.asarray(apart, np.float64), axis=1)


class Distances(NamedTuple):
    """Points of which the distances are given."""

    D: AnyArray  # (n, n)

    def __len__(self) -> int:
        return len(self.D)

    def scores(self, asked: IntArray, others: IntArray) -> FloatArray:
        return np.array(self.D[np.ix_(asked, others)], np.float64)

    def distances(self, i: IntArray, j: IntArray) -> FloatArray:
        return np.asarray(self.D[i, j], np.float64)


def bridges(graph: sparse.csr_array, places: Places) -> tuple[IntArray, IntArray]:
    """Pairs of points that make one piece of the graph: each piece is joined with what is nearest to it (Boruvka)."""
    i, j = np.empty(0, np.intp), np.empty(0, np.intp)
    while (found := connected_components(graph, directed=False))[0] > 1:
        a, b = np.array(sorted(_nearest_pairs(places, found[1].astype(np.intp)))).T
        graph = graph + sparse.csr_array((np.ones(len(a)), (a, b)), shape=graph.shape)
        i, j = np.r_[i, a], np.r_[j, b]
    return i, j


def spokes(graph: sparse.csr_array) -> tuple[IntArray, IntArray]:
    """The same where nothing is known of the places: from the largest piece to the others.

    At the points with the largest sums of weights, where hardmax will look for leaders.
    """
    labels = connected_components(graph, directed=False)[1]
    order = np.lexsort((-np.asarray(graph.sum(axis=1)), labels))
    first = order[np.r_[0, np.cumsum(np.bincount(labels))[:-1]]]
    largest = int(np.bincount(labels).argmax())
    return np.full(len(first) - 1, first[largest]), np.delete(first, largest)


def _nearest_pairs(places: Places, labels: IntArray) -> set[tuple[int, int]]:
    """For each piece but the largest, which the others reach: two points that are nearest to each other.

    One is of the piece and one outside. Up to ALL points all of them look for the nearest pair; of more some do, evenly
    from each piece, and from the best pair on each end looks for what is nearest to the other.
    """
    pieces = _Pieces.of(labels)
    reaching = np.sort(np.argsort(pieces.sizes, kind="stable")[:-1])
    each = len(places) if len(places) <= ALL else max(1, ASKED // len(reaching))
    members = [pieces.order[slice(*pieces.starts[c : c + 2])] for c in reaching]
    asked = [part[:: -(-len(part) // each)] for part in members]
    ends, far = _nearest_outside(places, pieces, np.concatenate(asked))
    firsts = np.cumsum([0] + [len(part) for part in asked])
    best = np.array([a + far[a:b].argmin() for a, b in pairwise(firsts)])
    i, j, far = np.concatenate(asked)[best], ends[best], far[best]
    going = np.arange(len(reaching) if len(places) > ALL else 0)
    while len(going):
        nearest = [members[c][places.scores(j[[c]], members[c])[0].argmin()] for c in going]
        inner = np.array(nearest, np.intp)
        outer, shorter = _nearest_outside(places, pieces, inner)
        better = shorter < far[going]
        going, inner, outer, shorter = going[better], inner[better], outer[better], shorter[better]
        i[going], j[going], far[going] = inner, outer, shorter
    return {(min(pair), max(pair)) for pair in zip(i.tolist(), j.tolist(), strict=True)}


class _Pieces(NamedTuple):
    """Points in the order of their pieces."""

    labels: IntArray  # (n,)
    order: IntArray  # (n,)
    starts: IntArray  # (pieces + 1,)

    @classmethod
    def of(cls, labels: IntArray) -> "_Pieces":
        order = np.argsort(labels, kind="stable")
        return cls(labels, order, np.r_[0, np.cumsum(np.bincount(labels))])

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)


def _nearest_outside(places: Places, pieces: _Pieces, asked: IntArray) -> tuple[IntArray, FloatArray]:
    """For points in the order of their pieces: the nearest one of another piece, and how far it is."""
    own = pieces.labels[asked]
    lowest, nearest = np.full(len(asked), np.inf), np.zeros(len(asked), np.intp)
    for start in range(0, len(pieces.order), TILE):
        tile = pieces.order[start : start + TILE]
        scores = places.scores(asked, tile)
        for piece in range(pieces.labels[tile[0]], pieces.labels[tile[-1]] + 1):
            rows = slice(*np.searchsorted(own, [piece, piece + 1]))
            columns = slice(max(pieces.starts[piece] - start, 0), pieces.starts[piece + 1] - start)
            scores[rows, columns] = np.inf
        at = scores.argmin(axis=1)
        here = scores[np.arange(len(asked)), at]
        lower = here < lowest
        lowest[lower], nearest[lower] = here[lower], tile[at[lower]]
    return nearest, places.distances(asked, nearest)
