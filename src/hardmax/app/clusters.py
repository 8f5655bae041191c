"""What one visitor clusters, and how; it calls the library, and is told in plain data. No server is needed."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from hardmax._display import count
from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._types import FloatArray, IntArray
from hardmax.app.cluster_points import Points, example
from hardmax.app.cluster_settings import Settings, parameters
from hardmax.draw.projection import Projection

KEPT = 12  # fits of the same points, to come back to
NO_CLUSTERS = "No clusters: the points are denser in places, but not more than chance makes them."


@dataclass(frozen=True, eq=False)
class Clusters:
    """Who is in which cluster, who leads it, and how sure that is."""

    points: Points
    settings: Settings
    labels: IntArray  # (n,), -1 in no cluster
    leaders: IntArray  # (clusters,)
    strengths: FloatArray  # (n,)
    exemplars: list[IntArray]
    status: str
    tree: Any  # ClusterTree
    asked: int | None  # clusters of the fit; None: found
    cut: bool = False  # whether its tree was cut then

    @property
    def sizes(self) -> IntArray:
        return np.bincount(self.labels[self.labels >= 0], minlength=len(self.leaders))


@dataclass(eq=False)
class ClusterStore:
    """Points, settings, and the point that was clicked; fits are kept as long as the points are the same."""

    points: Points = field(default_factory=lambda: example("moons"))
    settings: Settings = field(default_factory=Settings)
    chosen: int = -1
    _fits: dict[Any, Any] = field(default_factory=dict)

    def set_points(self, points: Points, **values: Any) -> None:
        """Go on with other points, seen whole."""
        self.settings = self.settings.changed(across=-1, up=-1, apart=False, **values)
        self.points, self.chosen, self._fits = points, -1, {}

    def change(self, **values: Any) -> None:
        settings = self.settings.changed(**values)
        if max(settings.across, settings.up) >= self.points.X.shape[1]:
            raise ParameterError("across", "be a column of the points", max(settings.across, settings.up))
        self.settings = settings

    def choose(self, i: int) -> None:
        """A point, whose leader's followers shall be seen; or -1."""
        if isinstance(i, bool) or not isinstance(i, int) or not -1 <= i < len(self.points.X):
            raise ParameterError("point", f"be from 0 to {len(self.points.X) - 1}", repr(i)[:40])
        self.chosen = i

    @property
    def state(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        fresh = asdict(Settings())
        changed = {name: value for name, value in asdict(self.settings).items() if value != fresh[name]}
        return self.points.to_data() | {"settings": changed} | ({"chosen": self.chosen} if self.chosen >= 0 else {})

    def set_state(self, state: Any) -> None:
        """What `state` was; whatever it holds is checked."""
        if not isinstance(state, Mapping) or not isinstance(state.get("settings", {}), Mapping):
            raise InputError("A link must hold points and settings. Got something else. Ask for it again.")
        made = ClusterStore(Points.of_data(state))
        made.change(**{str(name): value for name, value in state.get("settings", {}).items()})
        made.choose(state.get("chosen", -1))
        self.points, self.settings, self.chosen, self._fits = made.points, made.settings, made.chosen, {}

    def clusters(self) -> Clusters:
        """The answer, which may take seconds."""
        points, settings = self.points, self.settings
        X = clustered(points, settings)
        if settings.how == "cut":
            base = self._fitted(X, settings, None)
            tree = base.tree_
            least = int(np.isinf(tree.heights).sum())
            if least <= settings.number <= len(tree) and settings.number != base.n_clusters_:
                return _of_cut(points, settings, base)
            if settings.number == base.n_clusters_:
                return _of_fit(points, settings, base, "")
            why = f"The tree of what was found cannot be cut into {settings.number}: fitted anew. "
            return _of_fit(points, settings, self._fitted(X, settings, settings.number), why)
        number = settings.number if settings.how == "fit" else None
        return _of_fit(points, settings, self._fitted(X, settings, number), "")

    def _fitted(self, X: FloatArray, settings: Settings, number: int | None) -> Any:
        """A fit with that number of clusters, or with the number that is found."""
        with needed_for("This page", "scikit-learn", "cluster"):
            from sklearn.exceptions import ConvergenceWarning

            from hardmax.cluster.clustering import HardmaxClustering
        apart = settings.drawn if settings.apart else []
        fits, key = self._fits, (number, settings.neighbours, settings.metric, settings.noise, *apart)
        if key not in fits:
            with warnings.catch_warnings():  # what it warns of is said on the page
                warnings.simplefilter("ignore", ConvergenceWarning)
                fit = HardmaxClustering(**parameters(settings, number)).fit(X)
            while len(fits) >= KEPT:
                del fits[next(iter(fits))]
            fits[key] = fit
        return fits[key]


def clustered(points: Points, settings: Settings) -> FloatArray:
    """(n, d) what is clustered: all columns, or those that are not drawn."""
    if not settings.apart or not settings.drawn:
        return points.X
    if points.X.shape[1] <= len(set(settings.drawn)):
        raise InputError("There must be a column to cluster by. These two are all. Let them be clustered by, too.")
    return np.delete(points.X, settings.drawn, axis=1)


def placed(points: Points, settings: Settings) -> tuple[FloatArray, tuple[str, str], bool]:
    """Where to draw the points, (n, 2), the names of the axes, and whether both have one scale."""
    X, names = points.X, points.columns
    if settings.drawn:
        X, names = X[:, settings.drawn], tuple(names[column] for column in settings.drawn)
    projection = Projection.of(X, stretch=X.shape[1] == 2, flat=True)
    labels = projection.labels if X.shape[1] > 2 else (*names, "")[:2]
    return projection(X), (labels[0], labels[1]), projection.equal


def _of_fit(points: Points, settings: Settings, fit: Any, why: str) -> Clusters:
    k, asked = fit.n_clusters_, fit.n_clusters
    number = f"{count(k, 'cluster')} of {count(len(points.X), 'point')}, {'found' if asked is None else 'as asked'}."
    if asked not in (None, k):
        number = f"{count(k, 'cluster')}: asked for {asked}, and this is the nearest number that the search met."
    if asked is None and k == 1:
        number = NO_CLUSTERS
    proved = "It is proved where every point ends" if fit.certified_ else "Not every point is proved to end there"
    status = f"{why}{number} {proved} (layer {fit.n_iter_}).{_nowhere(fit.labels_)}"
    made = fit.labels_, fit.leaders_, fit.strengths_, fit.exemplars_
    return Clusters(points, settings, *made, status, fit.tree_, asked)


def _of_cut(points: Points, settings: Settings, base: Any) -> Clusters:
    from hardmax.cluster.labels import compute_strengths, find_exemplars

    labels, leaders = base.tree_.cut(settings.number)
    labels[base.labels_ < 0] = -1
    labels[leaders] = np.arange(len(leaders))  # whom others follow is somewhere
    status = (
        f"{count(len(leaders), 'cluster')} of {count(len(points.X), 'point')}, cut from the tree of the "
        f"{base.n_clusters_} that were found: no fit, so there is no proof.{_nowhere(labels)}"
    )
    how_sure = compute_strengths(base.tokens_, leaders, labels)
    stand_for = find_exemplars(base.tokens_, leaders, labels)
    return Clusters(points, settings, labels, leaders, how_sure, stand_for, status, base.tree_, None, cut=True)


def _nowhere(labels: IntArray) -> str:
    nowhere = int((labels < 0).sum())
    return f" {count(nowhere, 'point')} in no cluster." if nowhere else ""
