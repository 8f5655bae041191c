"""Fit and predict: the functions behind `HardmaxClustering`, without validation."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from hardmax._errors import InputError, ParameterError
from hardmax._limit import limit
from hardmax._types import FloatArray, IntArray, Matrix, Progress
from hardmax.cluster.granularity import (
    ClusterTree,
    TauResult,
    choose_tau,
    convert_granularity,
    scale_radii,
)
from hardmax.cluster.graph import Graph, NeighbourSearch
from hardmax.cluster.labels import (
    FittedLayers,
    NoiseThreshold,
    assign_labels,
    interpolate_by_distance,
    interpolate_precomputed,
)
from hardmax.cluster.n_clusters import assign_basins, count_clusters, has_one_peak
from hardmax.cluster.preprocessing import (
    Preprocessing,
    append_constant,
    find_distinct_rows,
    normalize_rows,
    row_keys,
)
from hardmax.cluster.spectral import (
    MAX_COMPONENTS,
    Frame,
    SpectralEmbedding,
    normalised_cut,
)
from hardmax.control import choose_A
from hardmax.rules.hardmax import Hardmax
from hardmax.sets import Classes

MARGIN_SHARE = 0.01  # of the largest margin, that `must_lead` keeps
N_EXTRA = 3  # eigenvalues beyond the wanted ones, to detect equal ones
PLAIN_GRANULARITY = 0.5  # leaves radii as they are
MAX_EIGENVECTORS = 50  # for n_clusters: beyond, tau < 1 makes the other leaders
MAX_REMOVED = 4  # numbers of eigenvectors that are tried
MAX_TAU_RATIO = 4.0  # a tau from 1/4 to 4 is near enough to the plain model
MIN_CUT_RATIO = 2.0  # old over new normalised cut from which on features are changed
# of the normalised cut to the least known one, above which clusters are doubtful
MAX_CUT_RATIO = 4.0
# share of points on a line whose cluster differs from the basin of their density peak
MAX_DISAGREEMENT = 0.1
MAX_PEAK_CLUSTERS = (
    4  # more clusters may be requested as pieces, and need not be density peaks
)
UNKNOWN = -2  # label of points that equal no fitted one
MIN_EIGENVALUE_GAP = (
    1.5  # ratio of 1 - lambda of successive eigenvectors from which on there is a gap
)


@dataclass(eq=False, repr=False)
class ClusteringParameters:
    """The parameters of `HardmaxClustering`, which documents them."""

    n_clusters: int | None = None
    _: KW_ONLY
    granularity: float | None = None
    features: str = "graph"
    n_neighbors: int = 10
    n_components: int | None = None
    metric: str = "euclidean"
    affinity: str = "neighbors"
    search: Any = None
    noise: float | None = None
    A: Any = None
    center: bool = True
    must_lead: Sequence[int] | None = None
    alpha: float = 1.0
    verbose: bool | int = False

    @property
    def _is_precomputed(self) -> bool:
        """Return whether X holds distances or similarities instead of points."""
        return "precomputed" in (self.metric, self.affinity)


@dataclass(frozen=True, eq=False)
class FittedPoints:
    """Preprocessed points, each distinct one once."""

    preprocessing: Preprocessing
    Y: Matrix  # (m, r)
    labels: IntArray  # (n,) index of each point in Y
    search: NeighbourSearch | None  # for features="graph"

    @classmethod
    def of(cls, X: Matrix, parameters: ClusteringParameters) -> "FittedPoints":
        on_graph = parameters.features == "graph"
        rows, labels = find_distinct_rows(
            X
        )  # sorted, so that no sum depends on the order of the points
        preprocessing = Preprocessing.fit(
            rows[np.sort(labels)], parameters.A, center=parameters.center or on_graph
        )
        Y, classes = find_distinct_rows(
            preprocessing.transform(rows)
        )  # whitening may make points equal
        search = (
            NeighbourSearch(Y, parameters.n_neighbors)
            if on_graph and Y.shape[0] > 1
            else None
        )
        return cls(preprocessing, Y, classes[labels], search)


@dataclass(frozen=True, eq=False)
class FittedClustering:
    """Fitted points, and the layers of their tokens."""

    parameters: ClusteringParameters
    X: Matrix  # (n, d) as given
    points: FittedPoints | None  # None for given distances or similarities
    result: TauResult
    L: FloatArray | None  # of must_lead
    layers: FittedLayers
    noise: NoiseThreshold | None
    labels: IntArray  # (n,)
    doubt: str  # the reason why the clusters are doubtful, or ""

    @cached_property
    def known(self) -> dict[bytes, int]:
        """The labels of the fitted points, by `row_keys`; of equal points that of the
        first.
        """
        return dict(
            zip(row_keys(self.X)[::-1], self.labels.tolist()[::-1], strict=True)
        )

    @cached_property
    def tree(self) -> ClusterTree:
        """The clusters for all values of tau."""
        return ClusterTree.of(self.result.features, self.parameters.alpha)

    def predict(self, X: Matrix) -> IntArray:
        """Return labels, (queries,). A point that equals a fitted one to the last bit
        gets its label.
        """
        labels = np.array(
            [self.known.get(key, UNKNOWN) for key in row_keys(X.astype(self.X.dtype))]
        )
        new = np.flatnonzero(labels == UNKNOWN)
        if len(new):
            tokens, scales = self.place(X[new])
            labels[new] = self.layers.predict(tokens)
            if self.noise is not None:
                labels[new] = self.noise.mark(labels[new], scales)
        return labels

    def place(self, X: Matrix) -> tuple[FloatArray, FloatArray]:
        """Return the tokens of new points, (queries, m), and the distances of their
        last neighbours, (queries,).
        """
        parameters, fitted = self.parameters, self.layers.keys[0]
        if self.points is None:
            return interpolate_precomputed(
                X, parameters.metric == "precomputed", parameters.n_neighbors, fitted
            )
        Y = self.points.preprocessing.transform(
            normalize_rows(X) if parameters.metric == "cosine" else X
        )
        if parameters.features == "graph":
            if self.points.search is None:  # all points are equal
                return np.repeat(fitted[:1], Y.shape[0], axis=0), np.ones(Y.shape[0])
            distances, near = self.points.search.query(Y, parameters.n_neighbors)
            first = np.unique(self.points.labels, return_index=True)[
                1
            ]  # a point for each row of Y
            return interpolate_by_distance(
                distances, near, fitted[first]
            ), distances.max(axis=1)
        old = self.points.Y
        tokens = scale_radii(
            append_constant(Y, old), self.result.tau, fitted=append_constant(old, old)
        )
        return tokens if self.L is None else tokens @ self.L, np.ones(len(Y))


def fit(
    X: Matrix, parameters: ClusteringParameters, progress: Progress | None = None
) -> FittedClustering:
    """Find the leaders of points of shape (n, d), or of distances or similarities;
    `progress` as for `limit`.
    """
    points, graph = None, None
    Y: Any = None  # (m, r) distinct points, where there are coordinates
    nodes, doubt = np.arange(X.shape[0]), ""
    if not parameters._is_precomputed:
        points = FittedPoints.of(
            normalize_rows(X) if parameters.metric == "cosine" else X, parameters
        )
        Y, nodes = points.Y, points.labels
        graph = (
            None
            if points.search is None
            else Graph.of_points(points.search, parameters.search)
        )
    elif len(nodes) > 1:
        build = (
            Graph.of_distances
            if parameters.metric == "precomputed"
            else Graph.of_similarities
        )
        graph = build(X, parameters.n_neighbors)
    if parameters.features == "graph":
        result, doubt = _fit_graph(graph, Y, nodes, parameters, progress)
    else:
        result = _fit_tau(
            append_constant(Y, Y)[nodes], parameters.n_clusters, parameters, progress
        )
    L = None
    if parameters.must_lead:
        result, L = _make_lead(result, parameters)
    layers = FittedLayers.of(result.tokens, result.limit, parameters.alpha)
    labels, noise = layers.labels, None
    if parameters.noise is not None and graph is not None:
        noise = NoiseThreshold.of(
            graph.scales[nodes], labels, graph.dimension, parameters.noise
        )
        labels = noise.mark(labels, graph.scales[nodes])
        labels[layers.leaders] = layers.labels[
            layers.leaders
        ]  # leaders are never noise
    return FittedClustering(
        parameters, X, points, result, L, layers, noise, labels, doubt
    )


def _fit_graph(
    graph: Graph | None,
    Y: Matrix | None,
    labels: IntArray,
    parameters: ClusteringParameters,
    progress: Progress | None,
) -> tuple[TauResult, str]:
    """Return the result and `FittedClustering.doubt`; `labels` are the node of each
    point.
    """
    if graph is None:  # all points are equal
        return TauResult.of(np.ones((len(labels), 1)), 1.0, parameters.alpha), ""
    n = graph.weights.shape[0]
    k, m = parameters.n_clusters, parameters.n_components
    if (
        k is None
        and m is None
        and parameters.granularity is None
        and graph.has_distances
    ):
        k = count_clusters(graph, Y)
    wanted = m or (MAX_COMPONENTS if k is None else min(k, MAX_EIGENVECTORS))
    embedding = SpectralEmbedding.of(graph.weights, min(wanted + N_EXTRA, n))
    fit_tau = partial(_fit_tau, n_clusters=k, parameters=parameters, progress=progress)
    candidates = Candidates(graph, embedding, labels, fit_tau)
    if k is not None and m is None:
        result = candidates.choose_m(k, min(wanted, n))
    else:
        m = embedding.round_up(
            min(m or embedding.choose_components(), len(embedding.values))
        )
        result = candidates.choose_features(m, k)
    return result, "" if k is None else candidates.find_doubt(result, Y)


def _fit_tau(
    features: FloatArray,
    n_clusters: int | None,
    parameters: ClusteringParameters,
    progress: Progress | None,
) -> TauResult:
    if n_clusters is not None:
        return choose_tau(features, n_clusters, parameters.alpha, progress)
    granularity = (
        PLAIN_GRANULARITY if parameters.granularity is None else parameters.granularity
    )
    return TauResult.of(
        features, convert_granularity(features, granularity), parameters.alpha, progress
    )


def _make_lead(
    result: TauResult, parameters: ClusteringParameters
) -> tuple[TauResult, FloatArray]:
    """Return tokens L^T y of the plain inner product, with an A = L L^T for which
    `must_lead` lead.
    """
    wanted = list(parameters.must_lead or ())
    try:
        found: Any = choose_A(result.tokens, leaders=wanted)
        if found.found and np.isfinite(found.margin):
            # The A with the largest margin may be far from I, and change the other
            # leaders. A small margin suffices.
            found = choose_A(
                result.tokens,
                leaders=wanted,
                prefer="identity",
                margin=MARGIN_SHARE * found.margin,
            )
        reason = "" if found.found else found.status
    except InputError as problem:
        reason = str(problem)
    if reason:
        advice = (
            "Name fewer points, or increase `granularity`, which makes more points"
            " lead."
        )
        raise ParameterError(
            "must_lead",
            "be points that can lead together",
            f"{wanted}: {reason.rstrip('.')}",
            advice,
        )
    L = np.linalg.cholesky(np.asarray(found.A, np.float64))
    classes = Classes.of(result.tokens)
    tokens = (classes.rows @ L)[classes.labels]
    return (
        result._replace(tokens=tokens, limit=limit(tokens, Hardmax(parameters.alpha))),
        L,
    )


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidate features of a graph, compared by the normalised cut of the clusters
    that they give.
    """

    graph: Graph
    embedding: SpectralEmbedding
    labels: IntArray  # (n,) node of each point
    fit: Callable[[FloatArray], TauResult]  # of features, (n, m)

    def frames(self, m: int) -> list[Frame]:
        """Return frames of m groups (rays of eigenvectors; basins of the highest
        peaks), the least cut first.
        """
        roots = np.sqrt(np.asarray(self.graph.weights.sum(axis=1)))
        found = [
            Frame.of_rays(np.ascontiguousarray(self.embedding.vectors[:, :m]), roots)
        ]
        basins = assign_basins(self.graph, m) if self.graph.has_distances else None
        if basins is not None:
            found.append(Frame.of_groups(self.embedding.vectors, roots, basins))
        return sorted(found, key=lambda frame: self.cut(frame.groups, m))

    def cut(self, groups: IntArray, count: int) -> float:
        """Return the normalised cut of a partition into `count` groups."""
        return normalised_cut(self.graph.weights, groups, count)

    def groups(self, result: TauResult) -> IntArray:
        """Return the clusters of the nodes of the graph."""
        return assign_labels(result.tokens, result.limit)[
            np.unique(self.labels, return_index=True)[1]
        ]

    def choose_best(self, found: list[TauResult], n_clusters: int) -> TauResult:
        """Return the result nearest to the number of clusters; of several, that of the
        least normalised cut.
        """

        def rate(result: TauResult) -> tuple[float, ...]:
            number, tau = result.distance(n_clusters)
            return number, self.cut(self.groups(result), result.n_clusters), tau

        return min(found, key=rate)

    def choose_features(self, m: int, n_clusters: int | None) -> TauResult:
        """Return the result with rows of m eigenvectors, or with those of a frame that
        cuts much less.
        """
        plain = self.fit(self.embedding.features(m)[self.labels])
        if m != (n_clusters or plain.n_clusters):
            return plain
        bound = (
            self.cut(self.groups(plain), m) / MIN_CUT_RATIO
            if plain.n_clusters == m
            else np.inf
        )
        frames = [
            frame for frame in self.frames(m) if self.cut(frame.groups, m) < bound
        ]
        return self.choose_best(
            [plain, *(self.fit(frame.features[self.labels]) for frame in frames)], m
        )

    def choose_m(self, n_clusters: int, top: int) -> TauResult:
        """Return the result with `top` eigenvectors if a tau from 1/4 to 4 gives
        n_clusters, or with a few less.
        """
        # k separated clusters are k rays in k dimensions, which more eigenvectors would
        # split.
        sizes = [
            m
            for m in range(top, max(0, top - MAX_REMOVED), -1)
            if m == 1 or self.embedding.round_up(m) == m
        ]
        sizes += [self.embedding.round_up(top)] if top not in sizes else []
        found: list[TauResult] = []
        for m in sizes:
            found.append(self.choose_features(m, n_clusters))
            number, tau = found[-1].distance(n_clusters)
            if number == 0 and tau <= np.log(MAX_TAU_RATIO):
                break
        return self.choose_best(found, n_clusters)

    def find_doubt(self, result: TauResult, Y: Matrix | None) -> str:
        """Return the reason why the clusters are doubtful, or ""; `Y` are the points,
        where there are coordinates.
        """
        groups, count = self.groups(result), result.n_clusters
        if not 1 < count <= len(self.embedding.values):
            return ""
        cut, least = (
            self.cut(groups, count),
            self.cut(self.frames(count)[0].groups, count),
        )
        if Y is not None and Y.shape[1] == 1:
            basins = assign_basins(
                self.graph, count
            )  # every cut of a line is small, so cuts do not decide there
            if (
                basins is not None
                and _compute_disagreement(groups, basins) > MAX_DISAGREEMENT
            ):
                return (
                    "on a line, the most prominent density peaks bound other clusters"
                )
        if cut > MAX_CUT_RATIO * least:
            times = f"{cut / least:.1f}" if least else "many"
            return (
                f"their normalised cut is {times} times that of another partition of"
                f" the graph into {count}"
            )
        has_gap = self.embedding.gap(count) >= MIN_EIGENVALUE_GAP
        if count <= MAX_PEAK_CLUSTERS and not has_gap and has_one_peak(self.graph, Y):
            close = f"eigenvalues {count} and {count + 1} of the graph are close"
            return f"the density of the points has one peak beyond chance, and {close}"
        return ""


def _compute_disagreement(groups: IntArray, others: IntArray) -> float:
    """Return the share of points that two partitions do not have in common, under the
    best matching of their parts.
    """
    table = sparse.coo_array((np.ones(len(groups)), (groups, others))).toarray()
    return 1 - float(table[linear_sum_assignment(-table)].sum()) / len(groups)
