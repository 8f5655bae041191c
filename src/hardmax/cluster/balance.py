"""Features whose rays are equally long, however many points each cluster has.

The columns of the eigenvectors of S = D^-1/2 W D^-1/2 have norm 1, so the rows of a cluster with volume v (the sum of
its degrees) have lengths like 1 / sqrt(v). Inner products then favour the long rows of small clusters: between two
clusters the boundary lies where the second eigenvector is 0, which is near its value on the larger cluster, and points
of that cluster join the smaller one. Features in a frame of the clusters, with axis c multiplied by sqrt(v_c), have
rays of equal length. Normalised cuts (Shi and Malik 2000) decide whether that frame is needed.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment

from hardmax._types import FloatArray, IntArray, Matrix
from hardmax.cluster.embedding import SpectralEmbedding
from hardmax.cluster.graph import Graph
from hardmax.cluster.how_many import is_one_peak
from hardmax.cluster.peaks import watershed

MAX_ROUNDS = 10  # updates of a frame at most
MIN_CUT_RATIO = 2.0  # old over new normalised cut from which on features are changed
MAX_CUT_RATIO = 4.0  # of the normalised cut to the least known one, above which clusters are doubtful
MAX_DISAGREEMENT = 0.1  # share of points on a line whose cluster differs from the basin of their density peak
MAX_PEAK_CLUSTERS = 4  # more clusters may be requested as pieces, and need not be peaks of the density
MIN_EIGENVALUE_GAP = 1.5  # ratio of 1 - lambda of successive eigenvectors from which on there is a gap


class Frame(NamedTuple):
    """Features with an axis for each of some groups of points, none of them empty."""

    features: FloatArray  # (n, m)
    groups: IntArray  # (n,)

    @classmethod
    def of(cls, vectors: FloatArray, roots: FloatArray, groups: IntArray) -> "Frame":
        """Rotate eigenvectors to the means of the groups, and multiply axis c by sqrt(v_c).

        `roots` are the square roots of the degrees. The rotation is the one nearest to the means (Yu and Shi 2003).
        """
        members = sparse.csr_array((roots, (groups, np.arange(len(groups)))))  # (m, n)
        lengths = np.sqrt(np.bincount(groups, roots**2))  # (m,) sqrt(v_c)
        left, _, right = np.linalg.svd((members @ vectors) / lengths[:, None], full_matrices=False)
        return cls(vectors @ ((left @ right).T * lengths), groups)

    @classmethod
    def of_rays(cls, vectors: FloatArray, roots: FloatArray) -> "Frame":
        """Return a frame of m eigenvectors whose groups have their largest coordinate on their own axis.

        It starts from the m most different rows, which QR with pivoting finds.
        """
        m = vectors.shape[1]
        rows = vectors[qr(vectors.T, mode="r", pivoting=True)[1][:m]]
        frame = cls.of(vectors, roots, np.linalg.solve(rows.T, vectors.T).argmax(axis=0))
        for _ in range(MAX_ROUNDS):
            groups = frame.features.argmax(axis=1)
            if (groups == frame.groups).all() or len(np.unique(groups)) < m:
                break
            frame = cls.of(vectors, roots, groups)
        return frame


def normalised_cut(W: sparse.csr_array, groups: IntArray, count: int) -> float:
    """Return the sum over groups of (weight of the edges that leave it) / volume; an empty group adds 1.

    It is at least the sum of 1 - lambda over the `count` leading eigenvalues of S. It has ten digits, so that equal
    partitions have equal cuts whatever the order of the sums.
    """
    own = np.repeat(groups, np.diff(W.indptr))
    outer = own != groups[W.indices]
    volumes, leaving = np.bincount(own, W.data, count), np.bincount(own[outer], W.data[outer], count)
    return float(f"{np.divide(leaving, volumes, out=np.ones(count), where=volumes > 0).sum():.10g}")


def _disagreement(groups: IntArray, others: IntArray) -> float:
    """Return the share of points that two partitions do not have in common, under the best matching of their parts."""
    table = sparse.coo_array((np.ones(len(groups)), (groups, others))).toarray()
    return 1 - float(table[linear_sum_assignment(-table)].sum()) / len(groups)


@dataclass(frozen=True, eq=False)
class Balance:
    """Eigenvectors of a graph, and frames of features with rays of equal length."""

    graph: Graph
    embedding: SpectralEmbedding
    _frames: dict[int, list[Frame]] = field(default_factory=dict)  # by the number of groups

    def frames(self, m: int) -> list[Frame]:
        """Return frames of m groups, those with the least normalised cut first.

        Groups are the rays of m eigenvectors, and the basins of the m most prominent peaks of the density, in the span
        of all eigenvectors.
        """
        if m not in self._frames:
            roots = np.sqrt(np.asarray(self.graph.weights.sum(axis=1)))
            found = [Frame.of_rays(np.ascontiguousarray(self.embedding.vectors[:, :m]), roots)]
            basins = None if self.graph.near is None else watershed(self.graph, m)
            if basins is not None:
                found.append(Frame.of(self.embedding.vectors, roots, basins))
            self._frames[m] = sorted(found, key=lambda frame: self.cut(frame.groups, m))
        return self._frames[m]

    def cut(self, groups: IntArray, count: int) -> float:
        """Return the normalised cut of a partition into `count` groups."""
        return normalised_cut(self.graph.weights, groups, count)

    def doubt(self, groups: IntArray, count: int, Y: Matrix | None) -> str:
        """Return why these `count` clusters are doubtful, or an empty string.

        `Y` are the points, where there are coordinates.
        """
        if not 1 < count <= len(self.embedding.values):
            return ""
        cut, least = self.cut(groups, count), self.cut(self.frames(count)[0].groups, count)
        if Y is not None and Y.shape[1] == 1 and self.graph.near is not None:
            basins = watershed(self.graph, count)  # any cut of a line is small, so cuts do not decide there
            if basins is not None and _disagreement(groups, basins) > MAX_DISAGREEMENT:
                return "on a line, the most prominent peaks of the density bound other clusters"
        if cut > MAX_CUT_RATIO * least:
            times = f"{cut / least:.1f}" if least else "many"
            return f"their normalised cut is {times} times that of another partition of the graph into {count}"
        if count <= MAX_PEAK_CLUSTERS and self.embedding.gap(count) < MIN_EIGENVALUE_GAP and is_one_peak(self.graph, Y):
            close = f"eigenvalues {count} and {count + 1} of the graph are close"
            return f"the density of the points has one peak beyond chance, and {close}"
        return ""
