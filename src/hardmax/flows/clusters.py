"""Which tokens are together and who leads, for rules whose limit is not known exactly."""

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._types import AnyArray, BoolArray, IntArray

NEAR = 1e-3  # of the spread, the first or the present, whichever is larger: tokens that close count as together


def labels_of(tokens: AnyArray, first: AnyArray, real: BoolArray, *, near: float = NEAR) -> IntArray:
    """Label of each token's cluster, counted in the order of the tokens; -1 for padding."""
    points = tokens[real].astype(np.float64)
    unit = float(np.abs(points).max()) or 1.0  # squares of the distances must not overflow
    reach = near * max(spread(points / unit), spread(first[real].astype(np.float64) / unit))
    reach = max(reach, len(points) * float(np.finfo(np.float64).eps))  # equal tokens may differ by rounding
    tree = scipy.spatial.cKDTree(points / unit)
    pairs = tree.sparse_distance_matrix(tree, reach, output_type="coo_matrix")
    pairs.data[:] = 1.0  # equal tokens have distance 0, which would not count as an edge
    labels = np.full(len(real), -1)
    labels[real] = scipy.sparse.csgraph.connected_components(pairs, directed=False)[1]
    return labels


def spread(points: AnyArray) -> float:
    """The longest side of the box around the points."""
    return float((points.max(axis=0) - points.min(axis=0)).max())


def leaders_of(P: AnyArray, labels: IntArray, points: AnyArray, start: AnyArray, real: BoolArray) -> IntArray:
    """Of each cluster to which its members attend by more than 1/2 on average, in some head, who moved least."""
    inside = labels[:, None] == np.arange(labels.max() + 1)  # (n, clusters)
    own = (P @ inside)[..., np.arange(len(labels)), labels]  # (..., n), attention of each token to its own cluster
    leads = np.atleast_2d(own @ inside > 0.5 * inside.sum(axis=0)).any(axis=0)  # (clusters,)
    moved = np.linalg.norm(np.where(real[:, None], points - start, 0.0), axis=-1)
    found = [np.flatnonzero(inside[:, cluster]) for cluster in np.flatnonzero(leads)]
    return np.sort([members[moved[members].argmin()] for members in found]).astype(np.intp)
