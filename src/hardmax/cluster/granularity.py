"""The exponent tau: which tokens lead at which tau, a tau for a number of clusters, and
the tree over all tau.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from hardmax._display import draw
from hardmax._errors import ParameterError
from hardmax._limit import limit
from hardmax._types import FloatArray, IntArray, Progress
from hardmax.cluster.labels import assign_labels
from hardmax.cluster.preprocessing import BLOCK
from hardmax.rules.hardmax import Hardmax
from hardmax.run import Run
from hardmax.trajectories.limit import Limit

MIN_LENGTH = (
    1e-140  # in units of the longest token: squares of shorter ones would underflow
)
ABOVE = 1.01  # factor to a tau above a threshold, beyond the rounding of powers
MAX_FEWER = 8  # leaders fewer at layer 0 that are tried, as more can emerge later
MAX_HALVINGS = 8  # of the interval between too many and too few clusters
OPEN_RATIO = 16.0  # assumed ratio of the ends of an unbounded interval
MIN_FINEST = 200  # leaders of the finest clusters of a tree, if there are as many


def scale_radii(
    features: FloatArray, tau: float, fitted: FloatArray | None = None
) -> FloatArray:
    """Return tokens f_i (r_i / r_max)^(tau - 1), (n, m), with r_max of the `fitted`
    features if these are others.
    """
    r, all_r = (
        np.linalg.norm(f, axis=1)
        for f in (features, features if fitted is None else fitted)
    )
    return features * ((r / all_r.max()) ** (tau - 1))[:, None]


def limit_tau(features: FloatArray, tau: float) -> float:
    """Return tau, or the largest one for which the shortest token does not underflow."""
    r = np.linalg.norm(features, axis=1)
    spread = float(np.log(r.min() / r.max()))
    return min(tau, np.log(MIN_LENGTH) / spread) if spread < 0 else tau


def find_first_leaders(features: FloatArray, tau: float) -> IntArray:
    """Return the tokens that lead at layer 0: the first of each set of equal ones."""
    run = Run(Hardmax(1.0), scale_radii(features, tau))
    run.choose()
    return np.sort(run.classes.first[run.emerged == 0])


def compute_thresholds(
    features: FloatArray, rows: IntArray
) -> tuple[FloatArray, IntArray]:
    """Return thresholds of these rows, and the tokens that set them: i leads at layer 0
    iff tau < tau_i.
    """
    r = np.linalg.norm(features, axis=1)
    u, log_r = features / r[:, None], np.log(r)
    thresholds, rivals = np.empty(len(rows)), np.empty(len(rows), np.intp)
    for part in gen_batches(len(rows), max(1, BLOCK // len(r))):
        cosines = u[rows[part]] @ u.T  # (rows of this part, n)
        longer = log_r - log_r[rows[part], None]
        valid = (longer > 0) & (cosines > 0)
        np.log(np.minimum(cosines, 1.0, out=cosines), out=cosines, where=valid)
        ratio = np.divide(
            -cosines, longer, out=np.full(cosines.shape, np.inf), where=valid
        )
        rivals[part], thresholds[part] = ratio.argmin(axis=1), ratio.min(axis=1)
    return thresholds, rivals


def find_largest_thresholds(features: FloatArray, at_least: int) -> FloatArray:
    """Return the largest thresholds, falling: at least `at_least` of them if there are
    as many.
    """
    rows = _find_fine_tau(features, at_least)[1]
    return np.sort(compute_thresholds(features, rows)[0])[::-1]


def _find_fine_tau(features: FloatArray, at_least: int) -> tuple[float, IntArray]:
    """Return the first tau of 1, 1/4, 1/16, ..., 0 at which `at_least` tokens lead, if
    any, and its leaders.
    """
    tau = 1.0
    while (
        len(rows := find_first_leaders(features, tau)) < min(at_least, len(features))
        and tau > 0
    ):
        tau = tau / 4 if tau > 1e-3 else 0.0
    return tau, rows


def convert_granularity(features: FloatArray, granularity: float) -> float:
    """Return tau = (1 - g) / g; where that is infinite, a tau just above all finite
    thresholds.
    """
    tau = (1 - granularity) / granularity if granularity else np.inf
    if np.isfinite(tau):
        return tau
    found = find_largest_thresholds(features, 1)
    return ABOVE * float(max(found[np.isfinite(found)], default=1.0))


class TauResult(NamedTuple):
    """Features, a tau, its tokens and their limit."""

    features: FloatArray  # (n, m) r_i u_i
    tau: float
    tokens: FloatArray  # (n, m)
    limit: Limit

    @classmethod
    def of(
        cls,
        features: FloatArray,
        tau: float,
        alpha: float,
        progress: Progress | None = None,
    ) -> "TauResult":
        tau = limit_tau(features, tau)
        tokens = scale_radii(features, tau)
        return cls(
            features, tau, tokens, limit(tokens, Hardmax(alpha), progress=progress)
        )

    @property
    def n_clusters(self) -> int:
        return len(self.limit.leaders)

    def distance(self, n_clusters: int) -> tuple[int, float]:
        """Return the difference from the wanted number of clusters, then |log tau|."""
        return abs(self.n_clusters - n_clusters), float(
            abs(np.log(max(self.tau, 1e-9)))
        )


def choose_tau(
    features: FloatArray,
    n_clusters: int,
    alpha: float,
    progress: Progress | None = None,
) -> TauResult:
    """Return the tau nearest to 1 with `n_clusters` clusters, or with the nearest
    number that was found.
    """
    tried = [TauResult.of(features, 1.0, alpha, progress)]
    if tried[0].n_clusters != n_clusters:
        for tau in _propose_tau(
            find_largest_thresholds(features, n_clusters + 1), n_clusters
        ):
            tried.append(TauResult.of(features, tau, alpha, progress))
            if tried[-1].n_clusters <= n_clusters:
                break
    for _ in range(MAX_HALVINGS):
        many = max(
            (c.tau for c in tried if c.n_clusters > n_clusters), default=0.0
        )  # the largest tau with too many
        few = min(
            (c.tau for c in tried if c.n_clusters < n_clusters and c.tau > many),
            default=0.0,
        )  # next: too few
        if any(c.n_clusters == n_clusters for c in tried) or not many * few:
            break
        tried.append(
            TauResult.of(features, float(np.sqrt(many * few)), alpha, progress)
        )
    return min(tried, key=lambda result: result.distance(n_clusters))


def _propose_tau(falling: FloatArray, n_clusters: int) -> Iterator[float]:
    """Yield a tau with n_clusters leaders at layer 0, then with fewer: c lead between
    thresholds c and c + 1.
    """
    top = min(n_clusters, len(falling))
    for c in range(top, max(0, top - MAX_FEWER), -1):
        high, low = (
            float(falling[c - 1]),
            float(falling[c]) if c < len(falling) else 0.0,
        )
        if low < high and np.isfinite(low):
            yield _choose_between(low, high)


def _choose_between(low: float, high: float) -> float:
    """Return 1 if it lies between, else a quarter of the way from the end nearer to 1,
    in the logarithm.
    """
    if low < 1 < high:
        return 1.0
    low, high = (
        max(low, min(high, 1.0) / OPEN_RATIO),
        min(high, max(low, 1.0) * OPEN_RATIO),
    )
    return float(
        low ** (3 / 4) * high ** (1 / 4)
        if low >= 1
        else low ** (1 / 4) * high ** (3 / 4)
    )


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """Nested clusters for all values of tau; `cut` returns any number of them.

    A token leads at layer 0 iff tau is below its threshold, which another token sets.
    Its cluster then joins the cluster of that token. The dynamics at that tau may
    differ a little: leaders can emerge at later layers.

    Attributes
    ----------
    leaders : (m,) array
        Indices of the points that lead the finest clusters, those with the largest
        thresholds first.
    heights : (m,) array
        Threshold tau of each leader, falling; infinite for those that lead at every
        tau.
    parents : (m,) array
        The cluster that it joins there, as an index into `leaders`; -1 where the height
        is infinite.
    labels : (n,) array
        The finest cluster of each point, as an index into `leaders`.

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
        """Build the tree of features r_i u_i, from a tau at which at least MIN_FINEST
        tokens lead.
        """
        finest = TauResult.of(features, _find_fine_tau(features, MIN_FINEST)[0], alpha)
        heights, rivals = compute_thresholds(features, finest.limit.leaders)
        order = np.argsort(-heights, kind="stable")
        labels = np.argsort(order)[assign_labels(finest.tokens, finest.limit)]
        heights = heights[order]
        heights[0] = np.inf  # at every tau some token leads
        parents = np.where(np.isfinite(heights), labels[rivals[order]], -1)
        for i in np.flatnonzero(
            np.isfinite(heights)
        ):  # move up to a cluster with a larger height
            passed: set[int] = set()
            while heights[parents[i]] <= heights[i] and parents[i] not in passed:
                passed.add(int(parents[i]))
                parents[i] = parents[parents[i]]
            if (
                heights[parents[i]] <= heights[i]
            ):  # a cycle of equal heights, as of tokens on one ray
                parents[i] = 0
        return cls(finest.limit.leaders[order], heights, parents, labels)

    def __len__(self) -> int:
        """Return the number of finest clusters."""
        return len(self.leaders)

    def __repr__(self) -> str:
        least = int(np.isinf(self.heights).sum())
        return (
            f"<ClusterTree of {len(self.labels)} points: {least} to {len(self)}"
            " clusters>"
        )

    def cut(
        self, n_clusters: int | None = None, *, granularity: float | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return labels and leaders for a number of clusters or a granularity.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters.
        granularity : float in (0, 1], optional
            g, with tau = (1 - g) / g.

        Returns
        -------
        labels : (n,) array of int
            The cluster of each point.
        leaders : (clusters,) array of int
            The index of the point that leads each cluster.
        """
        if (n_clusters is None) == (granularity is None):
            raise ParameterError(
                "n_clusters",
                "be given, or `granularity`",
                "both or none",
                "Pass one of them.",
            )
        least = int(np.isinf(self.heights).sum())
        if granularity is not None:
            if not 0 < granularity <= 1:
                raise ParameterError(
                    "granularity", "be above 0 and at most 1", granularity
                )
            n_clusters = int((self.heights > (1 - granularity) / granularity).sum())
        elif n_clusters is None or not least <= n_clusters <= len(self):
            raise ParameterError(
                "n_clusters",
                f"be from {least} to {len(self)} for this tree",
                n_clusters,
            )
        top = np.arange(len(self))
        for i in range(n_clusters, len(self)):  # parents come before their children
            top[i] = top[self.parents[i]]
        order = np.argsort(self.leaders[:n_clusters])
        return np.argsort(order)[top[self.labels]], self.leaders[:n_clusters][order]

    def linkage(self) -> FloatArray:
        """Return the tree in the format of SciPy, (m - 1, 4), with heights log(1 +
        tau); infinite ones join last.
        """
        m = len(self)
        finite = self.heights[np.isfinite(self.heights)]
        heights = np.log1p(
            np.where(
                np.isfinite(self.heights), self.heights, 2 * finite.max(initial=1.0)
            )
        )
        sizes = np.ones(m)  # in finest clusters
        node, joined = np.arange(m), np.empty((m - 1, 4))
        for row, i in enumerate(
            range(m - 1, 0, -1)
        ):  # the lowest first; roots join the first
            parent = max(int(self.parents[i]), 0)
            sizes[parent] += sizes[i]
            joined[row] = *sorted((node[i], node[parent])), heights[i], sizes[parent]
            node[parent] = m + row
        return joined

    def plot(self, n_clusters: int | None = None) -> Any:
        """Draw the tree, with a line at the cut into `n_clusters`, and return the
        Matplotlib figure.
        """
        return draw("plot_tree", self, n_clusters)
