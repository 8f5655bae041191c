"""The tree of clusters over the knob: who leads at which tau, and whom a leader follows when it stops to lead."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._display import draw
from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray
from hardmax.cluster.granularity import Choice, first_leaders, rivals
from hardmax.cluster.prediction import labels_of

FINEST = 200  # leaders that the finest clusters have at least, if there are so many
FINER = 4.0  # factors of tau in which they are looked for


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """Clusters within clusters: `cut` takes any number of them.

    A token leads at layer 0 iff tau is below its threshold, which another token sets: the one that it follows from
    there on. Its cluster then joins the one of that token, as far up as somebody still leads. So clusters at a larger
    tau are unions of those at a smaller one. The dynamics at that tau may differ a little: leaders can emerge at later
    layers.

    Attributes
    ----------
    leaders : (m,) array
        Indices of the points that lead the finest clusters, those that lead longest first.
    heights : (m,) array
        tau at which each stops to lead, falling; infinite for those that never do.
    parents : (m,) array
        Whom it then joins, as a place in `leaders`; -1 where it never stops.
    labels : (n,) array
        The finest cluster of each point, as a place in `leaders`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from hardmax import HardmaxClustering
    >>> points, _ = make_moons(100, noise=0.05, random_state=0)
    >>> tree = HardmaxClustering(n_clusters=2).fit(points).tree_
    >>> labels, leaders = tree.cut(2)
    >>> labels.shape, leaders.shape
    ((100,), (2,))
    """

    leaders: IntArray
    heights: FloatArray
    parents: IntArray
    labels: IntArray

    @classmethod
    def of(cls, features: FloatArray, alpha: float) -> "ClusterTree":
        """Of features r_i u_i, from the tau at which at least FINEST lead."""
        tau = 1.0
        while len(first_leaders(features, tau)) < min(FINEST, len(features)) and tau > 0:
            tau = tau / FINER if tau > 1e-3 else 0.0
        fine = Choice.of(features, tau, alpha)
        heights, rival = rivals(features, fine.limit.leaders)
        order = np.argsort(-heights, kind="stable")
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        labels = place[labels_of(fine.tokens, fine.limit)]
        heights = heights[order]
        heights[0] = np.inf  # also where a longer one of its direction would have led: somebody always does
        up = np.where(np.isfinite(heights), labels[rival[order]], -1)
        for i in np.flatnonzero(np.isfinite(heights)):  # as far up as somebody leads longer
            passed: set[int] = set()
            while heights[up[i]] <= heights[i] and up[i] not in passed:
                passed.add(int(up[i]))
                up[i] = up[up[i]]
            if heights[up[i]] <= heights[i]:  # in a circle of equal ones, as all on one ray are
                up[i] = 0
        return cls(fine.limit.leaders[order], heights, up, labels)

    def __len__(self) -> int:
        """How many clusters there are at the finest."""
        return len(self.leaders)

    def __repr__(self) -> str:
        least = int(np.isinf(self.heights).sum())
        return f"<ClusterTree of {len(self.labels)} points: from {len(self)} clusters to {least}; cut it anywhere>"

    def cut(self, n_clusters: int | None = None, *, granularity: float | None = None) -> tuple[IntArray, IntArray]:
        """Labels and leaders with so many clusters, or at a granularity: one of the two.

        Parameters
        ----------
        n_clusters : int, optional
            How many.
        granularity : float in (0, 1], optional
            g, with tau = (1 - g) / g.

        Returns
        -------
        labels : (n,) array of int
            The cluster of each point.
        leaders : (clusters,) array of int
            Which point leads each.

        Raises
        ------
        ParameterError
            If both or none are given, or one is out of range.
        """
        if (n_clusters is None) == (granularity is None):
            raise ParameterError("n_clusters", "be given, or `granularity`", "both or none", "Name one of them.")
        least = int(np.isinf(self.heights).sum())
        if granularity is not None:
            if not 0 < granularity <= 1:
                raise ParameterError("granularity", "be above 0 and at most 1", granularity)
            n_clusters = int((self.heights > (1 - granularity) / granularity).sum())
        elif n_clusters is None or not least <= n_clusters <= len(self):
            raise ParameterError("n_clusters", f"be from {least} to {len(self)}, as the tree has them", n_clusters)
        top = np.arange(len(self))
        for i in range(n_clusters, len(self)):  # parents come before their children
            top[i] = top[self.parents[i]]
        order = np.argsort(self.leaders[:n_clusters])
        place = np.empty(n_clusters, np.intp)
        place[order] = np.arange(n_clusters)
        return place[top[self.labels]], self.leaders[:n_clusters][order]

    def linkage(self) -> FloatArray:
        """(m - 1, 4) the tree of the finest clusters as SciPy has it, with log(1 + tau) as heights.

        What never joins does so at the top.
        """
        m = len(self)
        finite = self.heights[np.isfinite(self.heights)]
        heights = np.log1p(np.where(np.isfinite(self.heights), self.heights, 2 * finite.max(initial=1.0)))
        sizes = np.ones(m)  # in finest clusters
        node, joined = np.arange(m), np.empty((m - 1, 4))
        for row, i in enumerate(range(m - 1, 0, -1)):  # the lowest first; roots join the first
            parent = max(int(self.parents[i]), 0)
            sizes[parent] += sizes[i]
            joined[row] = *sorted((node[i], node[parent])), heights[i], sizes[parent]
            node[parent] = m + row
        return joined

    def plot(self, n_clusters: int | None = None) -> Any:
        """Draw it; with `n_clusters` also where it is cut. Returns a Matplotlib figure."""
        return draw("plot_tree", self, n_clusters)
