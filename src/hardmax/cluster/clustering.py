"""`HardmaxClustering`: the scikit-learn estimator. It validates, calls `fit` of
`cluster/fit.py`, and stores.
"""

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

from hardmax._display import count, draw, progress_bar
from hardmax._errors import ParameterError
from hardmax._types import FloatArray, IntArray, Matrix
from hardmax._validation import refuse_gaps
from hardmax.cluster.fit import ClusteringParameters, fit
from hardmax.cluster.granularity import ClusterTree
from hardmax.cluster.labels import compute_strengths, find_exemplars
from hardmax.cluster.preprocessing import check_precomputed, is_sparse
from hardmax.trajectories.limit import Limit


@dataclass(
    eq=False, repr=False
)  # an own __init__, so that Python's errors name this class
class HardmaxClustering(ClusterMixin, BaseEstimator, ClusteringParameters):
    """Cluster points around leaders, which are points of the data.

    Points get features r_i u_i, a radius times a direction, and become tokens r_i^tau
    u_i of the hardmax model. Tokens that lead are the centres, and every other token
    ends at a leader, with a proof (`certified_`). The number of leaders falls as tau
    grows. The page "Clustering" of the documentation has the formulas.

    Use it where centres should be real points, clusters may have any shape, and the
    result must not depend on random numbers or on the order of the points. For round
    clusters of known number KMeans is faster.

    Parameters
    ----------
    n_clusters : int, optional
        Number of clusters. By default the number of density peaks beyond chance; 1
        means that no clusters were found. The tau nearest to 1 is taken that gives this
        number, with features="graph" with as many eigenvectors, or a few less.
    granularity : float in [0, 1], optional
        g, with tau = (1 - g) / g. 1/2 is the plain model; at 1 every distinct direction
        leads; near 0 few points lead, with features="points" usually one. Cannot be
        combined with `n_clusters`, which chooses tau.
    features : {"graph", "points"}
        "graph": rows of the leading eigenvectors of the graph of nearest neighbours,
        whose components are joined at their nearest points. Well separated clusters are
        nearly orthogonal rays, and the longest row of each leads. "points": the points
        themselves, the model of the paper. Its leaders at layer 0 are vertices of the
        convex hull: extreme points, archetypes rather than prototypes.
    n_neighbors : int
        Neighbours of each point in the graph.
    n_components : int, optional
        Number of eigenvectors. By default the number of clusters; with `granularity`,
        or for given similarities, the number from 2 to 30 at the largest gap of
        eigenvalues. Increased where it would separate equal eigenvalues.
    metric : {"euclidean", "cosine", "precomputed"}
        Distance of points. "cosine" compares directions, as is usual for embeddings of
        texts. "precomputed": X holds distances, (n, n), or is a sparse matrix of
        distances to neighbours, as scikit-learn makes them.
    affinity : {"neighbors", "precomputed"}
        "precomputed": X holds non-negative similarities, (n, n). Of a dense matrix the
        `n_neighbors` largest of each row are used; a sparse matrix is used as the
        graph.
    search : transformer, optional
        Neighbour search: an object whose `fit_transform` returns a sparse matrix of
        distances, such as `sklearn.neighbors.KNeighborsTransformer`, or PyNNDescent's.
        By default the search is exact; for more than 30,000 points in more than 10
        dimensions it is approximate and finds about nine of ten neighbours.
    noise : float, optional
        Noise threshold (density ratio): label -1 for points where the density is
        `noise` times lower than in the densest quarter of their cluster. 20 is a good
        start.
    A : (d, d) array, "whiten" or None
        Symmetric positive definite matrix of the inner product, and so of the
        distances, as if the points were L^T x with A = L L^T. "whiten" is the inverse
        covariance, without directions that do not vary.
    center : bool
        Whether features="points" uses the mean as the origin. Leaders depend on the
        origin; distances do not.
    must_lead : sequence of int, optional
        Indices of points that have to lead: `hardmax.control.choose_A` (CVXPY) chooses
        an A for the tokens.
    alpha : float
        Step size. It changes the number of layers, and little else.
    verbose : bool or int
        Show a progress bar with the number of decided points.

    Attributes
    ----------
    labels_ : (n,) array
        Cluster of each point, -1 for noise; cluster c is led by point leaders_[c]. A
        point that stays tied between leaders belongs to the one of largest weight, of
        equal weights to the first by coordinates.
    leaders_ : (n_clusters_,) array
        Indices of the leaders, rising; of equal points the first.
    cluster_centers_ : (n_clusters_, d) array
        X[leaders_].
    n_clusters_ : int
    strengths_ : (n,) array
        Membership strengths from 0 to 1: 1 - p / q, with q the product of the point's
        token with its leader and p the largest product with another leader.
    exemplars_ : list of arrays
        For each cluster up to five representative points, its leader first.
    tree_ : ClusterTree
        Nested clusters for all values of tau: `tree_.cut(7)`, `tree_.plot()`.
    n_components_ : int
        Coordinates of a token: the eigenvectors, or those of a point and a constant
        one.
    granularity_, tau_ : float
        The values that were used.
    n_iter_ : int
        Layers until all points were decided.
    certified_ : bool
        Whether the limit of every token is proved.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Warns
    -----
    ConvergenceWarning
        From `fit`, if the number of clusters is not met, a limit is not proved, or the
        clusters are doubtful.

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
    Alcalde, Fantuzzi, Zuazua: Clustering in pure-attention hardmax transformers, arXiv
    2407.01602. Ng, Jordan, Weiss: On spectral clustering, NIPS 2001. Zelnik-Manor,
    Perona: Self-tuning spectral clustering, NIPS 2004.
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
        """Find the leaders of the points and their clusters.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Points, float64 or float32 (which stays float32); or (n, n) distances or
            similarities.
        y : ignored

        Returns
        -------
        HardmaxClustering
            The fitted estimator.
        """
        self._check_combinations()
        X = self._validate(X, reset=True)
        if self._is_precomputed:
            check_precomputed(
                X, "distances" if self.metric == "precomputed" else "similarities"
            )
        must_lead = check_must_lead(self.must_lead, X.shape[0])
        parameters = ClusteringParameters(
            **self.get_params(deep=False) | {"must_lead": must_lead}
        )
        with progress_bar("Clustering") if self.verbose else nullcontext() as progress:
            self._fitted = fit(X, parameters, progress)
        result = self._fitted.result
        self.labels_ = self._fitted.labels.copy()
        self.leaders_ = result.limit.leaders
        self.cluster_centers_ = X[self.leaders_]
        self.n_clusters_ = len(self.leaders_)
        self.n_components_ = result.tokens.shape[1]
        self.n_iter_ = result.limit.layer
        self.certified_ = result.limit.certified
        self.tau_ = result.tau
        self.granularity_ = 1 / (1 + result.tau)
        for warning in self._collect_warnings():
            warnings.warn(warning, ConvergenceWarning, stacklevel=3)
        return self

    def _collect_warnings(self) -> list[str]:
        messages, number = (
            [],
            f"HardmaxClustering found {count(self.n_clusters_, 'cluster')}",
        )
        if self.n_clusters not in (None, self.n_clusters_):
            n, reason = len(self.labels_), "its search reached no nearer number"
            if self.n_clusters > n:
                reason = f"{n} points form at most {n} clusters"
            messages.append(f"{number} instead of {self.n_clusters}: {reason}.")
        if self._fitted.doubt:
            messages.append(f"{number} that are doubtful: {self._fitted.doubt}.")
        if not self.certified_:
            messages.append(
                "HardmaxClustering could not prove the limits of all points."
                f" {self.limit_.status}"
            )
        return messages

    def predict(self, X: Any) -> IntArray:
        """Return the labels of points, new or fitted.

        A new point follows the fitted tokens through their layers, and no fitted token
        follows it. A point that equals a fitted one has its label.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
            Points; or distances or similarities to the fitted ones, (queries, n
            fitted).

        Returns
        -------
        (n,) array
        """
        check_is_fitted(self)
        return self._fitted.predict(self._validate(X, reset=False))

    def _validate(self, X: Any, *, reset: bool) -> Matrix:
        on_graph = self.features == "graph"
        refuse_gaps(
            X, "X", sparse=on_graph
        )  # scikit-learn would use the masked numbers
        dtypes = [np.float64, np.float32]  # keep either
        X = validate_data(
            self,
            X,
            dtype=dtypes,
            accept_sparse="csr" if on_graph else False,
            reset=reset,
        )
        return (
            sparse.csr_array(X) if is_sparse(X) else X
        )  # sums of SciPy's matrices are matrices, of arrays arrays

    def _check_combinations(self) -> None:
        """Raise if parameters contradict each other."""
        matrix, points = self._is_precomputed, self.features == "points"
        similarities, counted = (
            self.affinity == "precomputed",
            self.n_clusters is not None,
        )
        checks = [
            (
                "granularity",
                "not be combined with `n_clusters`, which chooses it",
                counted,
            ),
            (
                "must_lead",
                "be used without `n_clusters`",
                counted and np.asarray(self.must_lead).size > 0,
            ),
            (
                "affinity",
                'not be "precomputed" if `metric` is',
                similarities and self.metric == "precomputed",
            ),
            (
                "features",
                'be "graph" if X holds distances or similarities',
                matrix and points,
            ),
            ("A", "be None if X holds distances or similarities", matrix),
            ("search", "be None if X holds distances or similarities", matrix),
            ("search", 'be used with `features="graph"`', points),
            ("noise", 'be used with `features="graph"`', points),
            (
                "noise",
                "be used with points or distances, not similarities",
                similarities,
            ),
        ]
        for name, must, contradicts in checks:
            if contradicts and getattr(self, name) is not None:
                raise ParameterError(
                    name,
                    must,
                    f"{getattr(self, name)!r}",
                    "Change one of the two parameters.",
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.sparse = self.features == "graph"
        return tags

    @property
    def strengths_(self) -> FloatArray:
        """Membership strengths from 0 to 1: (n,)."""
        return compute_strengths(self.tokens_, self.leaders_, self.labels_)

    @property
    def exemplars_(self) -> list[IntArray]:
        """For each cluster its leader and up to four of the points nearest to it."""
        return find_exemplars(self.tokens_, self.leaders_, self.labels_)

    @property
    def tree_(self) -> ClusterTree:
        """Nested clusters for all values of tau; computed at the first use."""
        check_is_fitted(self)
        return self._fitted.tree

    @property
    def tokens_(self) -> FloatArray:
        """Tokens of the fitted points, before the first layer: (n, n_components_)."""
        check_is_fitted(self)
        return self._fitted.result.tokens

    @property
    def limit_(self) -> Limit:
        """The limit of the tokens of the fitted points, with its proof."""
        check_is_fitted(self)
        return self._fitted.result.limit

    def plot(self, plane: Any = None) -> Any:
        """Draw the fitted points in the colours of their clusters, leaders as stars and
        noise as crosses.

        Parameters
        ----------
        plane : (n, 2) or (n, 3) array, optional
            Positions of the points, such as from t-SNE or UMAP. By default their
            coordinates, of more than three the principal axes; for sparse points,
            distances and similarities the principal axes of the tokens.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self)
        points = self._fitted.X if plane is None else np.asarray(plane, np.float64)
        if plane is None and (self._is_precomputed or is_sparse(points)):
            return draw(
                "plot_clusters", self.tokens_, self.labels_, self.leaders_, letter="y"
            )
        if len(points) != len(self.labels_) or points.ndim != 2:
            must = f"have a row for each of the {len(self.labels_)} fitted points"
            raise ParameterError(
                "plane",
                must,
                f"shape {points.shape}",
                "Embed the points that were fitted.",
            )
        return draw(
            "plot_clusters", np.asarray(points, np.float64), self.labels_, self.leaders_
        )


def check_must_lead(must_lead: Any, n: int) -> list[int]:
    """Return distinct indices of points, or raise."""
    found = np.asarray([] if must_lead is None else must_lead)
    if not found.size:
        return []
    is_valid = (
        found.ndim == 1
        and found.dtype.kind in "iu"
        and found.min() >= 0
        and found.max() < n
    )
    if not is_valid or len(np.unique(found)) < len(found):
        must = f"hold distinct indices of points, integers from 0 to {n - 1}"
        raise ParameterError(
            "must_lead", must, f"{must_lead!r}", "Use np.flatnonzero on a mask."
        )
    return list(map(int, found))
