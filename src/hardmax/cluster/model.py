"""Fitting and prediction: what `HardmaxClustering` calls, and what it keeps."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray, IntArray, Matrix, Progress
from hardmax.cluster.balance import Balance
from hardmax.cluster.embedding import MOST, SpectralEmbedding
from hardmax.cluster.given import directions, graph_of, tokens_beside
from hardmax.cluster.granularity import Choice, choose_features, choose_tau, choose_tau_and_m, tau_of, tokens_at
from hardmax.cluster.graph import Graph, shepard
from hardmax.cluster.how_many import count
from hardmax.cluster.membership import Noise
from hardmax.cluster.neighbours import Search
from hardmax.cluster.peaks import dimension
from hardmax.cluster.prediction import FittedLayers
from hardmax.cluster.preprocessing import Preprocessing, height_of, lift
from hardmax.cluster.rows import Distinct, Known
from hardmax.cluster.tree import ClusterTree
from hardmax.control import choose_A
from hardmax.limit import limit
from hardmax.rules.hardmax import Hardmax
from hardmax.search.sets import Classes

KEPT = 0.01  # part of the largest margin by which must_lead lead
BEYOND = 3  # eigenvalues more than are wanted, to see whether the last is one of several equal ones
PLAIN = 0.5  # the granularity that leaves radii as they are
LARGEST = 50  # eigenvectors for n_clusters: beyond, tau < 1 makes the others


@dataclass(eq=False, repr=False)
class Settings:
    """The parameters of `HardmaxClustering`, which says what they are."""

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
    def given(self) -> bool:
        """Whether X holds distances or similarities instead of points."""
        return "precomputed" in (self.metric, self.affinity)


@dataclass(frozen=True, eq=False)
class Places:
    """Where fitted points are: made ready, each distinct one once."""

    preprocessing: Preprocessing
    Y: Matrix  # (m, r)
    labels: IntArray  # (n,) which of them each point is
    search: Search | None  # of their neighbours, for features="graph"

    @cached_property
    def first(self) -> IntArray:
        """(m,) a point at each place."""
        return np.unique(self.labels, return_index=True)[1]

    @classmethod
    def of(cls, X: Matrix, settings: Settings) -> "Places":
        on_graph = settings.features == "graph"
        distinct = Distinct.of(X)  # sorted, so that no sum depends on the order; once, so that equal points stay equal
        ranked = distinct.rows
        if len(distinct.counts) < len(distinct.labels):
            ranked = ranked[np.repeat(np.arange(len(distinct.counts)), distinct.counts)]
        preprocessing = Preprocessing.fit(ranked, settings.A, center=settings.center or on_graph)
        again = Distinct.of(preprocessing.transform(distinct.rows))  # whitening may make points equal
        search = Search(again.rows, settings.n_neighbors) if on_graph and again.rows.shape[0] > 1 else None
        return cls(preprocessing, again.rows, again.labels[distinct.labels], search)


@dataclass(frozen=True, eq=False)
class Model:
    """Fitted points, and the layers that their tokens go through."""

    settings: Settings
    X: Matrix  # (n, d) as they came
    places: Places | None  # None where distances or similarities came
    features: FloatArray  # (n, m) r_i u_i
    L: FloatArray | None  # of must_lead
    tau: float
    layers: FittedLayers
    noise: Noise | None
    labels: IntArray  # (n,)
    doubt: str  # why the labels are doubtful, or nothing

    @cached_property
    def known(self) -> Known:
        """The fitted rows, to be found again."""
        return Known(self.X)

    @cached_property
    def tree(self) -> ClusterTree:
        """Over all values of tau."""
        return ClusterTree.of(self.features, self.settings.alpha)

    def predict(self, X: Matrix) -> IntArray:
        """(queries,) labels; points that equal a fitted one have its label, to the last bit and tie."""
        at = self.known.find(X)
        labels = self.labels[at]
        new = np.flatnonzero(at < 0)
        if len(new):
            tokens, scales = self._tokens(X[new])
            labels[new] = self.layers.predict(tokens)
            if self.noise is not None:
                labels[new] = self.noise.mark(labels[new], scales)
        return labels

    def _tokens(self, X: Matrix) -> tuple[FloatArray, FloatArray]:
        """(queries, m) tokens of new points, as if they had been fitted, and distances of their last neighbours."""
        settings, fitted = self.settings, self.layers.keys[0]
        if self.places is None:
            return tokens_beside(X, settings.metric, settings.n_neighbors, fitted)
        Y = self.places.preprocessing.transform(directions(X) if settings.metric == "cosine" else X)
        if settings.features == "graph":
            if self.places.search is None:  # all points are one
                return np.repeat(fitted[:1], Y.shape[0], axis=0), np.ones(Y.shape[0])
            far, near = self.places.search.of(Y, settings.n_neighbors)
            return shepard(far, near, fitted[self.places.first]), far.max(axis=1)
        height = height_of(self.places.Y)
        tokens = tokens_at(lift(Y, height), self.tau, fitted=lift(self.places.Y, height))
        return tokens if self.L is None else tokens @ self.L, np.ones(len(Y))


def fit(X: Matrix, settings: Settings, progress: Progress | None = None) -> tuple[Model, Choice]:
    """Find the leaders of points of shape (n, d), or of distances or similarities; `progress` as for `limit`."""
    places = scales = graph = None
    doubt = ""
    if settings.given:
        graph = graph_of(X, settings.metric, settings.n_neighbors) if X.shape[0] > 1 else None
        choice, features, doubt = _on_graph(graph, None, np.arange(X.shape[0]), settings, progress)
    else:
        places = Places.of(directions(X) if settings.metric == "cosine" else X, settings)
        if settings.features == "graph":
            if places.search is not None:
                graph = Graph.of_points(places.search, settings.search)
            choice, features, doubt = _on_graph(graph, places.Y, places.labels, settings, progress)
        else:
            features = lift(places.Y, height_of(places.Y))[places.labels]
            choice = _choose(features, settings, progress)
    L = None
    if settings.must_lead:
        choice, L = _led_by(choice, settings)
    layers = FittedLayers.of(choice.tokens, choice.limit, settings.alpha)
    labels, noise = layers.labels, None
    if settings.noise is not None and graph is not None and graph.near is not None and graph.scales is not None:
        scales = graph.scales if places is None else graph.scales[places.labels]
        noise = Noise.of(scales, labels, dimension(graph.near), settings.noise)
        labels = noise.mark(labels, scales)
        labels[layers.leaders] = layers.labels[layers.leaders]  # whom others follow is somewhere
    return Model(settings, X, places, features, L, choice.tau, layers, noise, labels, doubt), choice


def _on_graph(
    graph: Graph | None, Y: Matrix | None, labels: IntArray, settings: Settings, progress: Progress | None
) -> tuple[Choice, FloatArray, str]:
    """Return the choice, its features and `Model.doubt`; `labels` are the place of each point in the graph."""
    if graph is None:  # all points are one
        features = np.ones((len(labels), 1))
        return Choice.of(features, 1.0, settings.alpha), features, ""
    n = graph.weights.shape[0]
    k, m = settings.n_clusters, settings.n_components
    if k is None and m is None and settings.granularity is None and graph.near is not None:
        k = count(graph, Y)
    wanted = m or (MOST if k is None else min(k, LARGEST))
    embedding = SpectralEmbedding.of(graph.weights, min(wanted + BEYOND, n))
    balance = Balance(graph, embedding)
    if k is not None and m is None:
        found = choose_tau_and_m(balance, labels, k, min(wanted, n), settings.alpha, progress)
    else:
        m = embedding.whole(min(m or embedding.components(), len(embedding.values)))
        found = choose_features(balance, labels, m, k, lambda features: _choose(features, settings, progress))
    doubt = "" if k is None else balance.doubt(found.groups, found.choice.n_clusters, Y)
    return found.choice, found.features, doubt


def _choose(features: FloatArray, settings: Settings, progress: Progress | None) -> Choice:
    if settings.n_clusters is not None:
        return choose_tau(features, settings.n_clusters, settings.alpha, progress)
    granularity = PLAIN if settings.granularity is None else settings.granularity
    return Choice.of(features, tau_of(features, granularity), settings.alpha, progress)


def _led_by(choice: Choice, settings: Settings) -> tuple[Choice, FloatArray]:
    """The same tokens under an A = L L^T for which `must_lead` lead, as tokens L^T y of the plain inner product."""
    wanted = list(settings.must_lead or ())
    try:
        found: Any = choose_A(choice.tokens, leaders=wanted)
        if found.found and np.isfinite(found.margin):
            # The largest margin may take an A far from I, and with it other leaders: what little it needs is enough.
            found = choose_A(choice.tokens, leaders=wanted, prefer="identity", margin=KEPT * found.margin)
        why = "" if found.found else found.status
    except InputError as problem:
        why = str(problem)
    if why:
        advice = "Name fewer, or raise `granularity`, with which more can."
        raise ParameterError("must_lead", "be points that can lead together", f"{wanted}: {why.rstrip('.')}", advice)
    L = np.linalg.cholesky(np.asarray(found.A, np.float64))
    classes = Classes.of(choice.tokens)
    tokens = (classes.rows @ L)[classes.labels]
    return Choice(choice.tau, tokens, limit(tokens, Hardmax(settings.alpha))), L
