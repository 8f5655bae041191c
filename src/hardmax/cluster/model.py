"""Fitting and prediction: what `HardmaxClustering` calls, and what it keeps."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray, IntArray, Progress
from hardmax.cluster import graph
from hardmax.cluster.embedding import MOST, SpectralEmbedding
from hardmax.cluster.granularity import Choice, choose_tau, choose_tau_and_m, tau_of, tokens_at
from hardmax.cluster.prediction import FittedLayers
from hardmax.cluster.preprocessing import Preprocessing, height_of, lift
from hardmax.control import choose_A
from hardmax.kernels.sets import Classes
from hardmax.limits import limit
from hardmax.rules.hardmax import Hardmax

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
    A: Any = None
    center: bool = True
    must_lead: Sequence[int] | None = None
    alpha: float = 1.0
    verbose: bool | int = False


@dataclass(frozen=True, eq=False)
class Model:
    """Fitted points, and the layers that their tokens go through."""

    settings: Settings
    X: FloatArray  # (n, d) as they came
    preprocessing: Preprocessing
    Y: FloatArray  # (n, r) preprocessed
    L: FloatArray | None  # of must_lead
    tau: float
    layers: FittedLayers

    def predict(self, X: FloatArray) -> IntArray:
        """(queries,) labels; points that equal a fitted one have its label, to the last bit and tie."""
        classes = Classes.of(np.concatenate([self.X, X]))
        known = np.full(len(classes), -1)
        known[classes.labels[: len(self.X)]] = self.layers.labels
        labels = known[classes.labels[len(self.X) :]]
        new = labels < 0
        if new.any():
            labels[new] = self.layers.predict(self._tokens(X[new]))
        return labels

    def _tokens(self, X: FloatArray) -> FloatArray:
        """(queries, m) tokens of new points, as if they had been fitted."""
        Y = self.preprocessing.transform(X)
        if self.settings.features == "graph":
            return graph.shepard(Y, self.Y, self.layers.keys[0], self.settings.n_neighbors)
        height = height_of(self.Y)
        tokens = tokens_at(lift(Y, height), self.tau, fitted=lift(self.Y, height))
        return tokens if self.L is None else tokens @ self.L


def fit(X: FloatArray, settings: Settings, progress: Progress | None = None) -> tuple[Model, Choice]:
    """Find the leaders of points of shape (n, d); `progress` as for `limit`."""
    classes = Classes.of(X)  # sorted, so that no sum depends on the order; and once, so that equal points stay equal
    ranked = np.repeat(classes.rows, classes.counts, axis=0)
    preprocessing = Preprocessing.fit(ranked, settings.A, center=settings.center or settings.features == "graph")
    Y = preprocessing.transform(classes.rows)[classes.labels]
    if settings.features == "graph":
        choice = _on_graph(Y, settings, progress)
    else:
        choice = _choose(lift(Y, height_of(Y)), settings, progress)
    L = None
    if settings.must_lead:
        choice, L = _led_by(choice, settings)
    layers = FittedLayers.of(choice.tokens, choice.limit, settings.alpha)
    return Model(settings, X, preprocessing, Y, L, choice.tau, layers), choice


def _on_graph(Y: FloatArray, settings: Settings, progress: Progress | None) -> Choice:
    classes = Classes.of(Y)  # equal points count once, and the order of the points does not matter
    if len(classes) == 1:
        return Choice.of(np.ones((len(Y), 1)), 1.0, settings.alpha)
    k, m = settings.n_clusters, settings.n_components
    wanted = m or (MOST if k is None else min(k, LARGEST))
    W = graph.neighbour_graph(classes.rows, settings.n_neighbors)
    embedding = SpectralEmbedding.of(W, min(wanted + BEYOND, len(classes)))
    if k is not None and m is None:
        most = min(wanted, len(classes))
        return choose_tau_and_m(embedding, classes.labels, k, most, settings.alpha, progress)
    m = embedding.whole(min(m or embedding.components(), len(embedding.values)))
    return _choose(embedding.features(m)[classes.labels], settings, progress)


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
