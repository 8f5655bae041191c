"""The graph of nearest neighbours, with weights that know the local scale, and connected."""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from hardmax._types import FloatArray, IntArray

BLOCK, FAST = 1 << 22, 1 << 18  # numbers that are held at a time, and those that fast memory holds
FAR = 1e-5  # the least weight between components
FAINT = 1e-12  # weights below this do not connect: the eigenvectors could not see them


def neighbour_graph(Y: FloatArray, n_neighbors: int) -> sparse.csr_array:
    """(n, n) symmetric weights between distinct points, connected.

    w_ij = exp(-|y_i - y_j|^2 / (s_i s_j)) if one of i, j is among the nearest neighbours of the other, with s_i the
    distance of the last neighbour of i (Zelnik-Manor and Perona 2004). Components are joined by `_join`.
    """
    n = len(Y)
    search = NearestNeighbors(n_neighbors=min(n_neighbors, n - 1)).fit(Y)
    near = search.kneighbors(return_distance=False)  # (n, k) others
    squares = _squares(Y, Y, near)  # (n, k)
    s = np.sqrt(squares.max(axis=1))
    weights = np.exp(-squares / (s[:, None] * s[near]))
    weights[weights < FAINT] = 0.0
    W = sparse.csr_array((weights.ravel(), near.ravel(), np.arange(0, near.size + 1, near.shape[1])), shape=(n, n))
    W = W.maximum(W.T)
    W.eliminate_zeros()
    return _join(W, Y, s)


def _squares(Y: FloatArray, others: FloatArray, near: IntArray) -> FloatArray:
    """Squared distances from differences: those from products, which searches use, may be 0 for distinct points."""
    squares = np.empty(near.shape)
    rows = max(1, BLOCK // (near.shape[1] * Y.shape[1]))
    for start in range(0, len(Y), rows):
        part = slice(start, start + rows)
        squares[part] = ((others[near[part]] - Y[part, None]) ** 2).sum(axis=2)
    return np.maximum(squares, np.finfo(np.float64).tiny)


def _join(W: sparse.csr_array, Y: FloatArray, s: FloatArray) -> sparse.csr_array:
    """Connect each component with the point outside that is nearest to it, until there is one (Boruvka).

    Without this eigenvalue 1 has several eigenvectors, and a cut among them would be arbitrary. The weight
    sqrt(s_i s_j) / |y_i - y_j| falls slowly, and not below FAR, so that eigenvalues differ however far components are
    apart.
    """
    while (found := connected_components(W, directed=False))[0] > 1:
        pairs = _bridges(Y, [np.flatnonzero(found[1] == c) for c in range(found[0])])
        i, j = np.array(sorted(pairs)).T
        w = np.clip(np.sqrt(s[i] * s[j]) / np.linalg.norm(Y[i] - Y[j], axis=1), FAR, 1.0)
        W = W + sparse.csr_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=W.shape)
    return W


def _bridges(Y: FloatArray, parts: list[IntArray]) -> set[tuple[int, int]]:
    """For each part but the largest, which the others reach: its nearest pair with a point of another part.

    The part with the nearest centre is asked first, then of the others the points that a ball of that distance around
    this one holds.
    """
    centres = np.array([Y[part].mean(axis=0) for part in parts])
    radii = np.array(
        [np.linalg.norm(Y[part] - centre, axis=1).max() for part, centre in zip(parts, centres, strict=True)]
    )
    pairs = set()
    for c in np.argsort([len(part) for part in parts], kind="stable")[:-1]:
        apart = np.linalg.norm(centres - centres[c], axis=1)
        apart[c] = np.inf
        first = int(apart.argmin())
        best = _nearest(Y, parts[c], parts[first])
        reach = apart - radii - radii[c] <= best[0] * (1 + 1e-9)
        reach[[c, first]] = False
        if reach.any():
            rest = np.concatenate([parts[b] for b in np.flatnonzero(reach)])
            rest = rest[np.linalg.norm(Y[rest] - centres[c], axis=1) <= (radii[c] + best[0]) * (1 + 1e-9)]
            best = min(best, _nearest(Y, parts[c], rest)) if len(rest) else best
        pairs.add((min(best[1:]), max(best[1:])))
    return pairs


def _nearest(Y: FloatArray, ins: IntArray, outs: IntArray) -> tuple[float, int, int]:
    """Distance and indices of the nearest pair of two parts, by |a - b|^2 / 2 = |a|^2 / 2 + |b|^2 / 2 - ⟨a, b⟩."""
    a, b = Y[ins], Y[outs]
    halves = (b * b).sum(axis=1) / 2
    best = np.inf, 0, 0
    rows = max(1, FAST // len(outs))
    for start in range(0, len(ins), rows):
        part = a[start : start + rows]
        scores = halves - part @ b.T  # (rows, outs)
        nearest = scores.argmin(axis=1)
        values = scores[np.arange(len(part)), nearest] + (part * part).sum(axis=1) / 2
        i = int(values.argmin())
        best = min(best, (float(values[i]), int(ins[start + i]), int(outs[nearest[i]])))
    return float(np.linalg.norm(Y[best[1]] - Y[best[2]])), best[1], best[2]


def shepard(Y: FloatArray, fitted: FloatArray, values: FloatArray, n_neighbors: int) -> FloatArray:
    """(queries, m) means of the values of the nearest fitted points, weighted by 1 / distance^2 (Shepard 1968)."""
    index = NearestNeighbors(n_neighbors=min(n_neighbors, len(fitted))).fit(fitted)
    near = index.kneighbors(Y, return_distance=False)  # (queries, k)
    squares = _squares(Y, fitted, near)
    weights = squares.min(axis=1, keepdims=True) / squares  # 1 for the nearest
    weights /= weights.sum(axis=1, keepdims=True)
    mean = np.zeros((len(Y), values.shape[1]))
    for weight, neighbour in zip(weights.T, near.T, strict=True):  # one after the other, to hold no (queries, k, m)
        mean += weight[:, None] * values[neighbour]
    return mean
