"""`HardmaxClustering`: the scikit-learn estimator. It validates, calls, stores."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from hardmax._display import draw, progress_bar
from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray, Matrix
from hardmax._validation import refuse_gaps
from hardmax.cluster.given import check_distances, check_similarities
from hardmax.cluster.membership import exemplars, strengths
from hardmax.cluster.model import Settings, fit
from hardmax.cluster.rows import is_sparse
from hardmax.cluster.tree import ClusterTree
from hardmax.limit import Limit, limit
from hardmax.rules.hardmax import Hardmax

EXEMPLARS = 5  # of a cluster


@dataclass(eq=False, repr=False)  # its __init__ is its own, so that Python's errors name this class
class HardmaxClustering(ClusterMixin, BaseEstimator, Settings):
    """Cluster points around leaders, which are points of the data.

    Points get features f_i = r_i u_i, a radius times a direction, and become tokens y_i = r_i^tau u_i of the hardmax
    model: C_i = argmax_j ⟨y_i, y_j⟩ and y_i <- y_i + alpha / (1 + alpha) (mean of C_i - y_i). A token with C_i = {i}
    leads, and each other one ends at a leader, with a proof (`certified_`). Token i leads at layer 0 iff tau is below
    its threshold, the least -log cos(u_i, u_j) / log(r_j / r_i) over longer tokens j on its side, so the number of
    leaders there falls in known steps as tau grows; a few more may emerge at later layers.

    Use it where centres should be real points, clusters may have any shape, and the answer must not depend on chance
    or on the order of the points. For round clusters of known number KMeans is faster.

    Parameters
    ----------
    n_clusters : int, optional
        How many clusters to look for. By default as many as the density of the points has peaks beyond those that
        chance makes, which may be one: no clusters. Then searched for: tau nearest to 1, and with features="graph" also
        the number of eigenvectors, which is n_clusters (50 at most) if a tau from 1/4 to 4 will do, or else that number
        or a little less, whichever has the least normalised cut.
    granularity : float in [0, 1], optional
        g, with tau = (1 - g) / g: 1/2 is the plain model; at 1 every distinct direction leads; near 0 few do, with
        features="points" usually one. It does not go with `n_clusters`, which chooses tau.
    features : {"graph", "points"}
        "graph": rows of the leading eigenvectors of the graph of nearest neighbours (weights
        exp(-|x_i - x_j|^2 / (s_i s_j)) with s_i the distance of the last neighbour; components are joined at their
        nearest points). Well separated clusters are near orthogonal rays, and the longest row of each leads. Rows are
        rescaled where clusters of unequal size make rays of unequal length that would lead to a larger normalised cut.
        "points": the points themselves, the paper's model. Those that lead at its layer 0 are vertices of the hull:
        extreme points, archetypes rather than prototypes.
    n_neighbors : int
        Of the graph.
    n_components : int, optional
        How many eigenvectors. By default as many as clusters; with `granularity`, or where similarities are given, the
        m from 2 to 30 with the largest gap, sqrt(m) log((1 - lambda_(m+1)) / (1 - lambda_m)). Raised where it would cut
        between equal eigenvalues.
    metric : {"euclidean", "cosine", "precomputed"}
        How far points are apart. "cosine": their directions count, as for embeddings of texts. "precomputed": X holds
        distances, (n, n), or is a sparse matrix of the distances of neighbours, as scikit-learn makes them.
    affinity : {"neighbors", "precomputed"}
        "precomputed": X holds similarities, (n, n), none below 0. Of a dense matrix the `n_neighbors` largest of each
        row are taken; a sparse one is the graph itself.
    search : transformer, optional
        What finds neighbours: an object whose `fit_transform` returns a sparse matrix of distances, such as
        `sklearn.neighbors.KNeighborsTransformer`, or PyNNDescent's. By default they are found exactly, and beyond
        30,000 points in more than 10 dimensions nearly: nine of ten or so, among lists of near points.
    noise : float, optional
        Label -1 for points that belong nowhere: the density around them is so many times lower than where the densest
        quarter of their cluster is. 20 is a good start.
    A : (d, d) array, "whiten" or None
        Symmetric positive definite matrix of the inner product, and so of the distances, between points: as if they
        were L^T x with A = L L^T. "whiten" is the inverse covariance, without directions that do not vary.
    center : bool
        Whether features="points" takes the mean as the origin. Who leads depends on it. Distances do not.
    must_lead : sequence of int, optional
        Indices of points that have to lead: an A for the tokens is chosen by `hardmax.control.choose_A` (CVXPY).
    alpha : float
        The step. It changes how many layers there are, and little else.
    verbose : bool or int
        Show how many points are decided while it goes through layers.

    Attributes
    ----------
    labels_ : (n,) array
        Cluster of each point, -1 for noise; cluster c is led by point leaders_[c]. A point tied between leaders for
        ever goes with the one of largest weight, of equal ones the first by its coordinates.
    leaders_ : (n_clusters_,) array
        Indices of the leaders, rising; the first of points that are equal.
    cluster_centers_ : (n_clusters_, d) array
        X[leaders_].
    n_clusters_ : int
    strengths_ : (n,) array
        How sure each label is, from 0 to 1: 1 - p / q, with q the product of the point's token with its leader and p
        the largest one with another leader.
    exemplars_ : list of arrays
        For each cluster up to five points that stand for it, its leader first.
    tree_ : ClusterTree
        Clusters within clusters, over all values of tau: `tree_.cut(7)`, `tree_.plot()`.
    n_components_ : int
        Coordinates of a token: eigenvectors, or those of a point and a constant one.
    granularity_, tau_ : float
        What was used.
    n_iter_ : int
        Layers until all was decided.
    certified_ : bool
        Whether it is proved where every token ends.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ParameterError
        From `fit`, if settings do not go together, or points, distances or similarities do not fit them.
    MissingExtra
        If scikit-learn, or CVXPY for `must_lead`, is not installed.

    Warns
    -----
    ConvergenceWarning
        From `fit`, if the number of clusters is not met, a limit is not proved, or the clusters are doubtful: their
        normalised cut is more than 4 times that of another partition, or they are 2 to 4 clusters of points in fewer
        than 3 dimensions whose density has one peak, without a gap of eigenvalues at that number.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from hardmax import HardmaxClustering
    >>> X, y = make_moons(300, noise=0.05, random_state=0)
    >>> clustering = HardmaxClustering(n_clusters=2).fit(X)
    >>> clustering.cluster_centers_.shape, clustering.certified_
    ((2, 2), True)
    >>> bool((clustering.labels_ == clustering.labels_[0]).sum() == 150)
    True
    >>> clustering.predict([[0.0, 1.0], [1.0, -0.5]]).tolist() in ([0, 1], [1, 0])
    True

    References
    ----------
    Alcalde, Fantuzzi, Zuazua: Clustering in pure-attention hardmax transformers, arXiv 2407.01602.
    Ng, Jordan, Weiss: On spectral clustering, NIPS 2001. Zelnik-Manor, Perona: Self-tuning spectral clustering, NIPS
    2004.
    """

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "granularity": [Interval(Real, 0, 1, closed="both"), None],
        "features": [StrOptions({"graph", "points"})],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "metric": [StrOptions({"euclidean", "cosine", "precomputed"})],
        "affinity": [StrOptions({"neighbors", "precomputed"})],
        "search": [HasMethods("fit_transform"), None],
        "noise": [Interval(Real, 1, None, closed="neither"), None],
        "A": ["array-like", StrOptions({"whiten"}), None],
        "center": ["boolean"],
        "must_lead": ["array-like", None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "HardmaxClustering":
        """Find the leaders of the points, and who follows them.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Points, of float64 or float32, which stays float32; or (n, n) distances or similarities.
        y : ignored

        Returns
        -------
        HardmaxClustering
            Itself.

        Raises
        ------
        ParameterError
            If settings do not go together, or `X` does not fit them.
        """
        self._check_settings()
        X = self._points(X, reset=True)
        if self.metric == "precomputed":
            check_distances(X)
        elif self.affinity == "precomputed":
            check_similarities(X)
        must_lead = check_must_lead(self.must_lead, X.shape[0])
        if must_lead and self.n_clusters is not None:
            got = f"`n_clusters={self.n_clusters}` as well"
            raise ParameterError("must_lead", "go with `granularity`", got, "Leave out one.")
        settings = Settings(**self.get_params(deep=False) | {"must_lead": must_lead})
        with progress_bar("Clustering") if self.verbose else nullcontext() as progress:
            self._model, choice = fit(X, settings, progress)
        self.labels_ = self._model.labels.copy()
        self.leaders_ = choice.limit.leaders
        self.cluster_centers_ = X[self.leaders_]
        self.n_clusters_ = len(self.leaders_)
        self.n_components_ = choice.tokens.shape[1]
        self.n_iter_ = choice.limit.layer
        self.certified_ = choice.limit.certified
        self.tau_ = choice.tau
        self.granularity_ = 1 / (1 + choice.tau)
        if self.n_clusters not in (None, self.n_clusters_):
            asked = f"HardmaxClustering was asked for {self.n_clusters} clusters and found {self.n_clusters_}"
            warnings.warn(f"{asked}, the nearest number that its search met.", ConvergenceWarning, 3)
        if self._model.doubt:
            doubtful = f"HardmaxClustering found {self.n_clusters_} clusters that are doubtful: {self._model.doubt}."
            warnings.warn(doubtful, ConvergenceWarning, 3)
        if not self.certified_:
            unproved = f"HardmaxClustering has no proof of where all points end. {choice.limit.status}"
            warnings.warn(unproved, ConvergenceWarning, 3)
        return self

    def predict(self, X: Any) -> IntArray:
        """Labels of points, new or not.

        A new point follows the fitted tokens through their layers, and none follows it. One that equals a fitted point
        has its label.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Points; or distances or similarities to the fitted ones, (queries, n fitted).

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self)
        return self._model.predict(self._points(X, reset=False))

    def _points(self, X: Any, *, reset: bool) -> Matrix:
        on_graph = self.features == "graph"
        refuse_gaps(X, "X", sparse=on_graph)  # scikit-learn would take the numbers below a mask
        kinds = [np.float64, np.float32]  # either as it came
        X = validate_data(self, X, dtype=kinds, accept_sparse="csr" if on_graph else False, reset=reset)
        return sparse.csr_array(X) if is_sparse(X) else X  # not SciPy's older kind, whose sums are matrices

    def _check_settings(self) -> None:
        """Refuse settings that do not go together."""
        both = ("granularity", "not go with `n_clusters`, which chooses it", f"`n_clusters={self.n_clusters}` as well")
        given = "X holds distances or similarities, not points"
        wrong: list[tuple[bool, tuple[str, str, str]]] = [
            (self.n_clusters is not None and self.granularity is not None, both),
            (self.metric == self.affinity == "precomputed", ("affinity", "not go with `metric`", "both precomputed")),
            (self.given and self.features != "graph", ("features", "be graph where " + given, f"{self.features!r}")),
            (self.given and self.A is not None, ("A", "be left out where " + given, "one")),
            (self.given and self.search is not None, ("search", "be left out where " + given, "one")),
            (self.noise is not None and self.affinity == "precomputed", ("noise", "have distances", "similarities")),
            (self.noise is not None and self.features != "graph", ("noise", 'go with `features="graph"`', "points")),
            (self.search is not None and self.features != "graph", ("search", 'go with `features="graph"`', "points")),
        ]
        for holds, (name, must, got) in wrong:
            if holds:
                raise ParameterError(name, must, got, "Leave out one.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.given
        tags.input_tags.sparse = self.features == "graph"
        return tags

    @property
    def strengths_(self) -> FloatArray:
        """(n,) how sure each label is, from 0 to 1: 1 - next / own, of the products with leaders."""
        check_is_fitted(self)
        return strengths(self.tokens_, self.leaders_, self.labels_)

    @property
    def exemplars_(self) -> list[IntArray]:
        """For each cluster, the points that stand for it: its leader, and up to four of those nearest to that one."""
        check_is_fitted(self)
        return exemplars(self.tokens_, self.leaders_, self.labels_, EXEMPLARS)

    @property
    def tree_(self) -> ClusterTree:
        """Clusters within clusters over the knob, to be cut anywhere; made when it is first asked for."""
        check_is_fitted(self)
        return self._model.tree

    @property
    def tokens_(self) -> FloatArray:
        """(n, n_components_) tokens of the fitted points: what hardmax moves."""
        check_is_fitted(self)
        return self._model.layers.keys[0]

    def plot(self, plane: Any = None) -> Any:
        """Draw the fitted points, each in the colour of its cluster, with stars for leaders and crosses for noise.

        Parameters
        ----------
        plane : (n, 2) or (n, 3) array, optional
            Where to draw each point, such as t-SNE or UMAP find it. By default where it is, along the principal axes of
            more than three coordinates; for sparse points, distances and similarities along those of the tokens.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self)
        points = self._model.X if plane is None else np.asarray(plane, np.float64)
        if plane is None and (self.given or is_sparse(points)):
            return draw("plot_clusters", self.tokens_, self.labels_, self.leaders_, letter="y")
        if len(points) != len(self.labels_) or points.ndim != 2:
            must = f"have a row for each of the {len(self.labels_)} fitted points"
            raise ParameterError("plane", must, f"shape {points.shape}", "Embed the points that were fitted.")
        return draw("plot_clusters", np.asarray(points, np.float64), self.labels_, self.leaders_)

    @property
    def limit_(self) -> Limit:
        """Where the tokens of the fitted points end, with its proof; found anew when asked for."""
        check_is_fitted(self)
        return limit(self.tokens_, Hardmax(self._model.layers.alpha))


def check_must_lead(must_lead: Any, n: int) -> list[int]:
    """Indices of points, each once."""
    found = np.asarray([] if must_lead is None else must_lead)
    if not found.size:
        return []
    good = found.ndim == 1 and found.dtype.kind in "iu" and found.min() >= 0 and found.max() < n
    if not good or len(np.unique(found)) < len(found):
        must = f"hold different indices of points, whole numbers from 0 to {n - 1}"
        raise ParameterError("must_lead", must, f"{must_lead!r}", "Use np.flatnonzero on a mask.")
    return list(map(int, found))
