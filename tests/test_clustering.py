"""The clusterer: scikit-learn's own checks, the knob and its thresholds, what must not matter, odd input."""

import contextlib
import io
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster import granularity, graph, preprocessing, spectral
from hardmax.cluster.granularity import choose_tau
from hardmax.cluster.graph import Graph
from hardmax.cluster.labels import FittedLayers
from hardmax.cluster.neighbours import NeighbourSearch

BLOBS, OF_BLOB = make_blobs(300, centers=[[0, 0], [8, 0], [0, 8], [9, 9]], random_state=1)
SQUARE = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]])
BOTH = pytest.mark.parametrize("features", ["graph", "points"])


def weights_of(X, n_neighbors):
    return Graph.of_points(NeighbourSearch(X, n_neighbors)).weights


def lift(X):
    """Centre points and append the constant coordinate, as `features="points"` does."""
    centred = X - X.mean(axis=0)
    return preprocessing.append_constant(centred, centred)


def same_partition(a, b):
    return adjusted_rand_score(a, b) == 1.0


# scikit-learn sets n_components=1, n_clusters=2: one eigenvector has one direction, and the warning says so.
@pytest.mark.filterwarnings("ignore:HardmaxClustering found 1 cluster instead of:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([HardmaxClustering(), HardmaxClustering(features="points")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# The knob


@pytest.mark.parametrize("seed", range(4))
def test_leaders_at_layer_0_are_those_below_their_threshold(seed):
    random = np.random.default_rng(seed)
    features = random.standard_normal((200, [2, 3, 5, 9][seed]))
    thresholds = granularity.compute_thresholds(features)[0]
    for tau in [0.0, 0.1, 0.5, 1.0, 1.7, 5.0, 40.0]:
        leaders = granularity.find_first_leaders(features, tau)
        assert leaders.tolist() == np.flatnonzero(thresholds > tau).tolist()
        by_definition = hm.limit(granularity.scale_radii(features, tau), hm.Hardmax(1.0))
        assert leaders.tolist() == by_definition.leaders[by_definition.emerged == 0].tolist()


def test_thresholds_are_what_the_definition_says():
    f = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.1]])
    expected = [-np.log(np.cos(np.pi / 4)) / np.log(np.sqrt(2)), np.inf, np.inf]  # 1: cos 45° = 1 / sqrt(2)
    assert granularity.compute_thresholds(f)[0] == pytest.approx(expected)
    assert (
        granularity.compute_thresholds(f, np.array([2, 0]))[0].tolist()
        == granularity.compute_thresholds(f)[0][[2, 0]].tolist()
    )


def test_the_number_of_leaders_falls_from_n_to_1():
    lifted = lift(BLOBS)
    counts = [
        len(granularity.find_first_leaders(lifted, granularity.convert_granularity(lifted, g)))
        for g in np.linspace(1, 0.02, 40)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(BLOBS)
    assert len(granularity.find_first_leaders(lifted, granularity.convert_granularity(lifted, 0.0))) == 1


def test_the_largest_thresholds_are_the_largest():
    features = np.random.default_rng(0).standard_normal((400, 6))
    everyone = np.sort(granularity.compute_thresholds(features)[0])[::-1]
    for at_least in (1, 5, 60, 300, 400):
        found = granularity.find_largest_thresholds(features, at_least)
        assert len(found) >= at_least
        assert found == pytest.approx(everyone[: len(found)])


def test_one_half_is_the_plain_model_to_the_last_bit():
    X = BLOBS - np.ldexp(np.ldexp(BLOBS, -8).mean(axis=0), 8)
    plain = hm.limit(X, hm.Hardmax(1.0))
    clustering = HardmaxClustering(features="points").fit(BLOBS)
    assert clustering.tau_ == 1.0
    assert clustering.leaders_.tolist() == plain.leaders.tolist()
    assert clustering.labels_.tolist() == plain.clusters.tolist()


def test_granularity_goes_from_one_cluster_to_every_point():
    sizes = [HardmaxClustering(features="points", granularity=g).fit(BLOBS).n_clusters_ for g in (0, 0.2, 0.5, 0.8, 1)]
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(BLOBS)
    graph_sizes = [HardmaxClustering(granularity=g).fit(BLOBS).n_clusters_ for g in (0, 0.5, 1)]
    assert graph_sizes == [2, 4, 300]  # two rays have no longer row on their side, and lead at every tau


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 12, 40])
@BOTH
def test_n_clusters_is_met(features, k):
    clustering = HardmaxClustering(k, features=features).fit(BLOBS)
    assert clustering.n_clusters_ == len(clustering.leaders_) == len(np.unique(clustering.labels_)) == k
    assert clustering.granularity_ == 1 / (1 + clustering.tau_)


def test_leaders_that_emerge_later_are_counted():
    X = make_blobs(60, centers=1, random_state=8)[0]
    lifted = lift(X)
    found = [choose_tau(lifted, k, 1.0) for k in range(1, 12)]
    assert [choice.n_clusters for choice in found] == list(range(1, 12))
    for k, choice in enumerate(found, 1):
        assert len(granularity.find_first_leaders(lifted, choice.tau)) <= k


def test_fewer_leaders_at_layer_0_are_tried_where_some_emerge_later():
    X = np.random.default_rng(37).standard_normal((50, 2))
    lifted = preprocessing.append_constant(X, X)
    assert choose_tau(lifted, 5, 1.0).n_clusters == 5


# What it finds


@pytest.mark.parametrize(
    ("X", "y", "floor"),
    [
        pytest.param(*make_moons(500, noise=0.05, random_state=0), 1.0, id="moons"),
        pytest.param(*make_circles(500, noise=0.05, factor=0.5, random_state=0), 1.0, id="circles"),
        pytest.param(BLOBS, OF_BLOB, 1.0, id="blobs"),
        pytest.param(*load_iris(return_X_y=True), 0.7, id="iris"),
        pytest.param(*load_digits(return_X_y=True), 0.77, id="digits"),
    ],
)
def test_it_finds_known_clusters(X, y, floor):
    clustering = HardmaxClustering(len(np.unique(y))).fit(X)
    assert clustering.n_clusters_ == len(np.unique(y))
    assert adjusted_rand_score(y, clustering.labels_) >= floor


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_gap_finds_how_many(k):
    X, y = make_blobs(400, centers=10 * np.eye(4)[:k], random_state=k)
    assert same_partition(HardmaxClustering().fit(X).labels_, y)


@BOTH
def test_what_is_stored_fits_together(features):
    clustering = HardmaxClustering(features=features).fit(BLOBS)
    c = clustering
    assert c.certified_
    assert c.labels_[c.leaders_].tolist() == list(range(c.n_clusters_))
    assert c.cluster_centers_.tolist() == BLOBS[c.leaders_].tolist()
    assert sorted(c.leaders_) == c.leaders_.tolist()
    assert c.limit_.leaders.tolist() == c.leaders_.tolist()
    assert c.limit_.layer == c.n_iter_
    assert c.n_features_in_ == 2
    assert clone(c).fit_predict(BLOBS).tolist() == c.labels_.tolist()


# Clusters of unequal size

UNEQUAL = {
    "9500 and 500": ((9500, 500), ((0, 0), (7, 0))),
    "950 and 50": ((950, 50), ((0, 0), (7, 0))),
    "980 and 20": ((980, 20), ((0, 0), (10, 0))),
    "900, 60 and 40": ((900, 60, 40), ((0, 0), (7, 0), (0, 7))),
}
SMALLER = [name for name in UNEQUAL if name != "9500 and 500"]


def draw_unequal(name, seed):
    sizes, centres = UNEQUAL[name]
    random = np.random.default_rng(seed)
    points = [random.normal(size=(n, 2)) + centre for n, centre in zip(sizes, centres, strict=True)]
    return np.concatenate(points), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", UNEQUAL)
def test_clusters_of_unequal_size_are_found(name, seed):
    X, y = draw_unequal(name, seed)
    for settings in ({"n_clusters": y.max() + 1}, {}):
        found = HardmaxClustering(**settings).fit(X)
        assert found.n_clusters_ == y.max() + 1
        assert found.certified_
        assert adjusted_rand_score(y, found.labels_) >= 0.95


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SMALLER)
def test_the_tree_has_clusters_of_unequal_size(name, seed):
    X, y = draw_unequal(name, seed)
    labels, leaders = HardmaxClustering(len(UNEQUAL[name][0])).fit(X).tree_.cut(len(UNEQUAL[name][0]))
    assert adjusted_rand_score(y, labels) >= 0.95
    assert sorted(y[leaders]) == list(range(y.max() + 1))


@pytest.mark.parametrize("name", SMALLER)
def test_unequal_clusters_in_another_order_or_place_are_the_same(name):
    X, y = draw_unequal(name, 0)
    one = HardmaxClustering(y.max() + 1).fit(X)
    order = np.random.default_rng(1).permutation(len(X))
    two = HardmaxClustering(y.max() + 1).fit(X[order])
    assert set(order[two.leaders_]) == set(one.leaders_)
    assert same_partition(one.labels_[order], two.labels_)
    turned = HardmaxClustering(y.max() + 1).fit(X @ np.array([[0.6, -0.8], [0.8, 0.6]]) * 7 - 4)
    assert turned.labels_.tolist() == one.labels_.tolist()
    repeated = np.r_[np.arange(len(X)), np.repeat(one.leaders_, 30)]
    assert HardmaxClustering(y.max() + 1).fit(X[repeated]).labels_.tolist() == one.labels_[repeated].tolist()


@pytest.mark.parametrize("name", SMALLER)
def test_new_points_join_clusters_of_unequal_size(name):
    X, y = draw_unequal(name, 0)
    found = HardmaxClustering(y.max() + 1).fit(X)
    fresh, of_fresh = draw_unequal(name, 1)
    assert adjusted_rand_score(of_fresh, found.predict(fresh)) >= 0.95


@pytest.mark.parametrize("kind", ["distances", "similarities", "granularity"])
def test_unequal_clusters_are_found_in_every_way(kind):
    X, y = draw_unequal("950 and 50", 0)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    ways = {
        "distances": lambda: HardmaxClustering(2, metric="precomputed").fit(distances),
        "similarities": lambda: HardmaxClustering(2, affinity="precomputed").fit(np.exp(-(distances**2))),
        "granularity": lambda: HardmaxClustering(granularity=0.5).fit(X),
    }
    assert adjusted_rand_score(y, ways[kind]().labels_) >= 0.95


def test_a_far_smaller_cluster_that_the_leading_eigenvectors_miss_is_found():
    """The eigenvectors of the large cluster come before that of the small one."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(9980, 2)), random.normal(size=(20, 2)) + np.array([10, 0])])
    assert np.sort(np.bincount(HardmaxClustering(2).fit(X).labels_)).tolist() == [20, 9980]


@pytest.mark.parametrize("k", [2, 3])
def test_fewer_clusters_than_blobs_split_no_blob(k):
    labels = HardmaxClustering(k).fit(BLOBS).labels_
    assert [len(set(labels[blob == OF_BLOB])) for blob in range(4)] == [1] * 4


@pytest.mark.parametrize(("sizes", "apart"), [((500, 0), 0.0), ((960, 40), 4.0), ((990, 10), 5.0)])
def test_points_that_have_one_peak_and_are_split_anyway_give_a_warning(sizes, apart):
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(sizes[0], 2)), random.normal(size=(sizes[1], 2)) + np.array([apart, 0])])
    with pytest.warns(ConvergenceWarning, match="2 clusters that are doubtful: the density of the points has one peak"):
        HardmaxClustering(2).fit(X)


def test_clusters_with_a_large_normalised_cut_give_a_warning():
    X, y = draw_unequal("950 and 50", 0)
    with pytest.warns(ConvergenceWarning, match=r"doubtful: their normalised cut is [\d.]+ times that of another"):
        found = HardmaxClustering(2, n_components=3).fit(X)
    assert adjusted_rand_score(y, found.labels_) < 0.5


# What must not matter


@BOTH
@pytest.mark.parametrize("settings", [{}, {"n_clusters": 5}, {"granularity": 0.7}])
def test_the_order_of_the_points_does_not_matter(features, settings):
    order = np.random.default_rng(0).permutation(len(BLOBS))
    one, two = (HardmaxClustering(features=features, **settings).fit(X) for X in (BLOBS, BLOBS[order]))
    assert set(order[two.leaders_]) == set(one.leaders_)
    assert same_partition(one.labels_[order], two.labels_)


@BOTH
def test_rotation_shift_and_unit_do_not_matter(features):
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    one = HardmaxClustering(6, features=features).fit(BLOBS)
    for moved in (BLOBS @ turn, BLOBS + np.array([100, -30]), BLOBS * 3e150, BLOBS * 1e-150, BLOBS @ turn * 7 - 4):
        two = HardmaxClustering(6, features=features).fit(moved)
        assert two.leaders_.tolist() == one.leaders_.tolist()
        assert two.labels_.tolist() == one.labels_.tolist()


def test_the_origin_matters_to_points_alone():
    for features, matters in (("points", True), ("graph", False)):
        found = [
            HardmaxClustering(features=features, center=center).fit(BLOBS + 40).labels_.tolist()
            for center in (True, False)
        ]
        assert (found[0] != found[1]) is matters


@BOTH
def test_equal_points_count_once_and_share_a_label(features):
    once = HardmaxClustering(4, features=features).fit(BLOBS)
    copies = np.r_[np.arange(300), np.repeat(once.leaders_[0], 15), 7, 7]
    X = BLOBS[copies]
    twice = HardmaxClustering(4, features=features, center=False).fit(X - BLOBS.mean(axis=0))
    assert twice.leaders_.tolist() == once.leaders_.tolist()
    assert twice.labels_.tolist() == once.labels_[copies].tolist()


# predict


@BOTH
@pytest.mark.parametrize("settings", [{}, {"n_clusters": 3}, {"granularity": 0.8, "alpha": 0.2}])
def test_fitted_points_are_predicted_as_labelled(features, settings):
    clustering = HardmaxClustering(features=features, **settings).fit(BLOBS)
    assert clustering.predict(BLOBS).tolist() == clustering.labels_.tolist()
    assert clustering.predict(BLOBS[[5]]).tolist() == [clustering.labels_[5]]
    with pytest.MonkeyPatch.context() as patch:  # rounding cannot change that: they follow nobody
        patch.delattr(FittedLayers, "predict")
        assert clustering.predict(BLOBS[::-1]).tolist() == clustering.labels_[::-1].tolist()
    layers = clustering._fitted.layers  # and they are so without being known, by following
    assert layers.predict(layers.keys[0]).tolist() == clustering.labels_.tolist()
    assert clustering.predict(BLOBS + 1e-9).tolist() == clustering.labels_.tolist()


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_a_new_point_goes_where_it_would_go_among_the_tokens(alpha):
    """A query that is no key ends as a token in the cloud does that none follows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 2))
    clustering = HardmaxClustering(features="points", alpha=alpha, center=False).fit(X)
    new = random.standard_normal((40, 2)) * 0.02  # inner points: they attract nobody
    labels = clustering.predict(new)
    together = hm.limit(np.concatenate([X, new]), hm.Hardmax(alpha))
    assert together.leaders.tolist() == clustering.leaders_.tolist()
    assert labels.tolist() == together.clusters[60:].tolist()
    assert clustering.n_iter_ > 0


def test_layers_go_on_when_all_is_decided():
    X = np.random.default_rng(1).standard_normal((60, 3))
    found = hm.limit(X, hm.Hardmax(0.5))
    layers = FittedLayers.of(X, found, 0.5)
    expected = hm.simulate(X, hm.Hardmax(0.5), layers=found.layer + 4).tokens
    assert len(layers.keys) == found.layer + 1
    assert np.abs(np.array([layers.tokens_at(k) for k in range(len(expected))]) - expected).max() < 1e-14


def test_a_new_point_waits_until_its_leader_leads():
    keys = np.array([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 0.1]]])  # the second leads from layer 1 on
    each = np.arange(2)
    layers = FittedLayers(keys, keys[1], leads_from=each, labels=each, leaders=each, alpha=1.0)
    assert layers.predict(np.array([[1.0, 0.6], [0.1, 1.0]])).tolist() == [0, 1]


def test_new_points_on_a_graph_join_their_neighbours():
    X, _ = make_moons(600, noise=0.05, random_state=0)
    fresh, y_fresh = make_moons(400, noise=0.05, random_state=1)
    assert same_partition(HardmaxClustering(2).fit(X).predict(fresh), y_fresh)


def test_a_query_that_is_tied_for_ever_goes_with_the_first_by_coordinates():
    clustering = HardmaxClustering(features="points").fit(SQUARE)
    assert clustering.predict([[0.25, 0.0], [-0.25, 0.0], [0.0, 0.5]]).tolist() == [
        1,
        3,
        2,
    ]  # of equal leaders the first by coordinates


# must_lead


@pytest.mark.parametrize("wanted", [[0], [5, 8, 30], [7, 307]])
def test_points_that_must_lead_lead(wanted):
    pytest.importorskip("cvxpy")
    X = np.concatenate([BLOBS, [[4.0, 12.0]] * 8])  # the first of equal points stands for them
    plain, forced = (
        HardmaxClustering(features="points", granularity=0.6, must_lead=points).fit(X) for points in (None, wanted)
    )
    first = [min(i, 300) for i in wanted]
    assert not set(first) <= set(plain.leaders_)
    assert set(first) <= set(forced.leaders_)
    assert forced.certified_
    assert forced.predict(X).tolist() == forced.labels_.tolist()
    layers = forced._fitted.layers
    assert layers.predict(forced._fitted.place(X)[0]).tolist() == forced.labels_.tolist()


def test_a_leader_may_be_named_and_changes_nothing():
    pytest.importorskip("cvxpy")
    plain = HardmaxClustering().fit(BLOBS)
    forced = HardmaxClustering(must_lead=plain.leaders_[:2]).fit(BLOBS)
    assert forced.labels_.tolist() == plain.labels_.tolist()


# Odd input


def test_tokens_tied_between_leaders_go_with_the_first_by_coordinates_of_largest_weight():
    clustering = HardmaxClustering(features="points").fit(SQUARE)
    assert clustering.leaders_.tolist() == [0, 1, 2, 3]
    assert clustering.labels_.tolist() == [0, 1, 2, 3, 1, 3]
    assert clustering.certified_


@BOTH
def test_one_point_and_equal_points(features):
    for X in ([[3.0, 4.0]], [[0.0, 0.0]], [[3.0, 4.0]] * 5):
        clustering = HardmaxClustering(features=features).fit(X)
        assert clustering.leaders_.tolist() == [0]
        assert set(clustering.labels_) == {0}
        assert clustering.predict([[9.0, 9.0], [0.0, 0.0]]).tolist() == [0, 0]


@BOTH
def test_more_clusters_than_points_warns_of_what_was_reached(features):
    with pytest.warns(ConvergenceWarning, match=r"found 2 clusters instead of 9"):
        clustering = HardmaxClustering(9, features=features).fit([[0.0], [1.0], [1.0]])
    assert clustering.labels_.tolist() == [0, 1, 1]


@BOTH
@pytest.mark.parametrize("k", [1, 2, 3])
def test_points_on_a_line(features, k):
    x = np.repeat([0, 5, 11], 30)[:, None] + np.random.default_rng(0).random((90, 1))
    clustering = HardmaxClustering(k, features=features).fit(x)
    assert clustering.n_clusters_ == k
    if features == "graph":
        assert len(np.unique(clustering.labels_.reshape(3, 30), axis=1).T) == 1  # no group is split


def test_far_components_are_joined():
    X = np.concatenate([BLOBS, BLOBS[:40] + 1e6, BLOBS[40:80] - 1e9])
    W = weights_of(X, 10)
    assert connected_components(W)[0] == 1
    assert (abs(W - W.T) > 0).nnz == 0
    assert HardmaxClustering(3).fit(X).n_clusters_ == 3


@pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
def test_bridges_are_the_nearest_pairs(spread):
    random = np.random.default_rng(0)
    X = np.concatenate([random.standard_normal((n, 3)) + spread * random.standard_normal(3) for n in (9, 20, 31, 40)])
    parts = np.split(np.arange(100), [9, 29, 60])
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    expected = set()
    for part in parts[:3]:
        outside = np.setdiff1d(np.arange(100), part)
        i, j = np.unravel_index(distances[np.ix_(part, outside)].argmin(), (len(part), len(outside)))
        expected.add((min(part[i], outside[j]), max(part[i], outside[j])))
    labels = np.repeat(np.arange(4), [len(part) for part in parts])
    assert graph.find_nearest_pairs(graph.Metric.of_points(X), labels) == expected


def test_a_bridge_may_lead_to_a_part_whose_centre_is_far():
    wall = np.column_stack([np.zeros(19), np.arange(1, 20)])  # from (0, 1) on, with its centre at (0, 10)
    Y = np.vstack([[0.0, 0.0], [2.9, 0.0], [3.1, 0.0], wall])
    labels = np.repeat([0, 1, 2], [1, 2, 19])
    assert (0, 3) in graph.find_nearest_pairs(graph.Metric.of_points(Y), labels)


@pytest.mark.parametrize("outliers", [1, 5])
@pytest.mark.parametrize("size", [1e-2, 1e-6])
def test_outliers_beside_a_dense_group_stay_connected(outliers, size):
    X = np.concatenate([BLOBS[:100] * size, BLOBS[:outliers] * size + 5.0])
    W = weights_of(X, 10)
    assert W.sum(axis=1).min() > 0
    assert spectral.SpectralEmbedding.of(W, 5).values[1] < 1 - 1e-9


def test_every_way_finds_the_same_eigenvectors(monkeypatch):
    X, _ = make_moons(900, noise=0.05, random_state=0)
    W = weights_of(np.concatenate([X, X + 50.0]), 10)  # a component far away
    ways = []
    for setting, value in (("MAX_BAND", 0.0), ("MAX_BAND", 100.0), ("MAX_DENSE", 10_000)):
        monkeypatch.setattr(spectral, setting, value)
        ways.append(spectral.SpectralEmbedding.of(W, 9))
    grams = [one.features(4) @ one.features(4)[:50].T for one in ways]
    for one, gram in zip(ways, grams, strict=True):
        assert one.values == pytest.approx(ways[2].values, abs=1e-12)
        assert np.abs(gram - grams[2]).max() < 1e-6


def test_graphs_of_curves_and_planes_are_thin():
    random = np.random.default_rng(0)
    t = 9 * random.random(2000)
    clouds = [np.column_stack([np.cos(t * k) for k in range(1, 7)]), *(random.random((2000, d)) for d in (1, 2, 3, 9))]
    thin = [spectral.is_narrow(weights_of(X, 10).tocsc()) for X in clouds]
    assert thin == [True, True, True, False, False]


def test_equal_eigenvalues_are_not_cut_apart():
    ring = np.exp(2j * np.pi * np.arange(24) / 24)
    found = spectral.SpectralEmbedding.of(weights_of(np.column_stack([ring.real, ring.imag]), 2), 10)
    assert [found.round_up(m) for m in (1, 2, 3, 4, 5)] == [1, 3, 3, 5, 5]
    assert found.values[0] == pytest.approx(1.0)


@BOTH
def test_A_is_the_metric(features):
    stretch = np.array([[3.0, 1.0], [0.0, 0.25]])
    plain = HardmaxClustering(4, features=features).fit(BLOBS)
    X = BLOBS @ np.linalg.inv(stretch)
    given = HardmaxClustering(4, features=features, A=stretch @ stretch.T).fit(X)
    assert given.leaders_.tolist() == plain.leaders_.tolist()
    white = [HardmaxClustering(4, features=features, A="whiten").fit(points).labels_.tolist() for points in (BLOBS, X)]
    assert white[0] == white[1]
    flat = HardmaxClustering(4, features=features, A="whiten").fit(np.column_stack([BLOBS, BLOBS.sum(axis=1)]))
    assert flat.labels_.tolist() == white[0]
    assert HardmaxClustering(features=features, A="whiten").fit(np.ones((4, 2))).n_clusters_ == 1


SQUARE_MATRIX = np.ones((3, 3))
INVALID = [  # parameters, the parameter that the error names, X
    ({"n_clusters": 0}, "n_clusters"),
    ({"granularity": 1.5}, "granularity"),
    ({"granularity": np.nan}, "granularity"),
    ({"features": "rows"}, "features"),
    ({"n_neighbors": 0}, "n_neighbors"),
    ({"n_components": 0}, "n_components"),
    ({"alpha": 0}, "alpha"),
    ({"noise": 1.0}, "noise"),
    ({"center": "mean"}, "center"),
    ({"A": "identity"}, "A"),
    ({"A": np.eye(3)}, "A"),
    ({"A": [[1, 2], [2, 1]]}, "A"),
    ({"A": [[1, 0.5], [0, 1]]}, "A"),
    ({"A": [[1, np.nan], [np.nan, 1]]}, "A"),
    ({"A": [[1, 2], [3]]}, "A"),
    ({"A": [["a", "b"], ["c", "d"]]}, "A"),
    ({"must_lead": [0, 300]}, "must_lead"),
    ({"must_lead": [-1]}, "must_lead"),
    ({"must_lead": [3, 3]}, "must_lead"),
    ({"must_lead": [0.5]}, "must_lead"),
    ({"must_lead": [0], "n_clusters": 3}, "must_lead"),
    ({"must_lead": [0], "features": "points"}, "must_lead"),  # an inner point cannot lead
    ({"must_lead": [0, 1], "features": "points"}, "must_lead", [[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [3.0, 1.0]]),
    ({"n_clusters": 2, "granularity": 0.5}, "granularity"),
    ({"metric": "precomputed"}, "X"),
    ({"metric": "precomputed"}, "X", -SQUARE_MATRIX),
    ({"metric": "precomputed"}, "X", np.arange(9.0).reshape(3, 3)),
    ({"affinity": "precomputed"}, "X", -SQUARE_MATRIX),
    ({"affinity": "precomputed", "noise": 20}, "noise", SQUARE_MATRIX),
    ({"affinity": "precomputed", "metric": "precomputed"}, "affinity", SQUARE_MATRIX),
    ({"metric": "precomputed", "features": "points"}, "features", SQUARE_MATRIX),
    ({"metric": "precomputed", "A": np.eye(3)}, "A", SQUARE_MATRIX),
    ({"metric": "precomputed", "search": KNeighborsTransformer()}, "search", SQUARE_MATRIX),
    ({"metric": "cosine"}, "X", [[1.0, 0.0], [0.0, 0.0]]),
    ({"features": "points", "noise": 20}, "noise"),
    ({"features": "points", "search": KNeighborsTransformer()}, "search"),
    ({"search": FunctionTransformer()}, "search"),  # does not return a sparse matrix
]


@pytest.mark.parametrize(("parameters", "name", "X"), [(*case, BLOBS)[:3] for case in INVALID])
def test_an_error_names_the_parameter(parameters, name, X):
    with pytest.raises(ValueError, match=rf"^(`{name}` must|The '{name}' parameter of HardmaxClustering must)"):
        HardmaxClustering(**parameters).fit(X)


def test_bad_points_are_a_sentence():
    with pytest.raises(ValueError, match="contains NaN"):
        HardmaxClustering().fit([[0.0, np.nan]])
    with pytest.raises(ValueError, match="2D array"):
        HardmaxClustering().fit([1.0, 2.0])
    with pytest.raises(ValueError, match="X has 3 features, but HardmaxClustering is expecting 2"):
        HardmaxClustering().fit(BLOBS).predict(np.ones((1, 3)))
    hidden = np.ma.masked_greater(BLOBS, 8)
    for call in (HardmaxClustering().fit, HardmaxClustering().fit(BLOBS).predict):
        with pytest.raises(
            ValueError, match=f"`X` must have all its values. Got a masked array with {hidden.mask.sum()} "
        ):
            call(hidden)


def test_verbose_shows_how_many_points_are_decided(monkeypatch):
    shown = io.StringIO()
    shown.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", shown)
    HardmaxClustering(4).fit(BLOBS)
    assert shown.getvalue() == ""
    HardmaxClustering(4, verbose=True).fit(BLOBS)
    assert "Clustering" in shown.getvalue()
    assert "300/300" in shown.getvalue()


def test_without_scikit_learn_it_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import hardmax\n"
    code += "try: hardmax.HardmaxClustering\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "`HardmaxClustering` needs scikit-learn: pip install 'hardmax[cluster]'."


def test_equal_points_stay_equal_under_a_matrix():
    rng = np.random.default_rng(70)
    X, B = rng.standard_normal((10, 27))[rng.integers(0, 10, 30)], rng.standard_normal((27, 27))
    clustering = HardmaxClustering(A=B @ B.T).fit(X)
    assert (clustering.predict(X) == clustering.labels_).all()


@pytest.mark.parametrize(
    ("X", "settings"),
    [
        (np.random.default_rng(0).integers(0, 5, (120, 3)) * 0.1, {"features": "points"}),
        (np.stack(np.meshgrid(*[np.arange(7)] * 2), -1).reshape(-1, 2) * 0.1, {"A": "whiten"}),
        (np.column_stack([np.cos(np.arange(24) * np.pi / 12), np.sin(np.arange(24) * np.pi / 12)]), {"n_clusters": 4}),
        (SQUARE, {"features": "points"}),
    ],
    ids=["lattice", "whitened lattice", "ring", "square"],
)
def test_tied_points_in_another_order_have_the_same_clusters(X, settings):
    X = np.asarray(X, float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = HardmaxClustering(**settings).fit(X).labels_
        for seed in range(4):
            order = np.random.default_rng(seed).permutation(len(X))
            assert adjusted_rand_score(labels[order], HardmaxClustering(**settings).fit(X[order]).labels_) == 1


@pytest.mark.parametrize("settings", [{"granularity": 0.8}, {"n_clusters": 10}, {"n_clusters": 3, "alpha": 0.3}])
def test_points_beside_fitted_ones_are_predicted_like_them(settings):
    for seed in range(6):
        X = np.random.default_rng(seed).standard_normal((40, 2))
        clustering = HardmaxClustering(features="points", **settings).fit(X)
        assert (clustering.predict(X + 1e-12) == clustering.labels_).all()


@pytest.mark.parametrize("k", [40, 47, 48, 60])
def test_more_clusters_than_points_are_as_many_as_points(k):
    X = np.random.default_rng(0).standard_normal((40, 2))
    context = contextlib.nullcontext() if k == 40 else pytest.warns(ConvergenceWarning, match=f"instead of {k}")
    with context:
        assert HardmaxClustering(k, features="points").fit(X).n_clusters_ == 40


@pytest.mark.parametrize("width", [1e-3, 1e-4, 1e-5])
def test_tight_groups_far_apart_have_the_hierarchy_that_they_have(width):
    """Four towns of six streets of twelve points."""
    rng = np.random.default_rng(0)
    towns = 50.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    streets = np.repeat(towns, 6, axis=0) + rng.standard_normal((24, 2))
    X = np.repeat(streets, 12, axis=0) + width * rng.standard_normal((288, 2))
    labels = HardmaxClustering(4).fit(X).labels_
    assert adjusted_rand_score(np.repeat(np.arange(4), 72), labels) == 1


def test_many_groups_however_far():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(0, 1e8, (40, 2)), 8, axis=0) + rng.standard_normal((320, 2))
    clustering = HardmaxClustering(40, n_neighbors=5).fit(X)
    assert adjusted_rand_score(np.repeat(np.arange(40), 8), clustering.labels_) == 1
    far = np.vstack([rng.standard_normal((100, 2)), rng.standard_normal((100, 2)) + np.array([1e5, 0])])
    assert HardmaxClustering(1).fit(far).n_clusters_ == 1


def test_granularity_is_monotone_as_far_as_floats_reach():
    f = _graph_features(np.random.default_rng(7).standard_normal((200, 2)))
    counts = [len(granularity.find_first_leaders(f, granularity.limit_tau(f, tau))) for tau in (1, 10, 300, 1e4, 1e6)]
    assert counts == sorted(counts, reverse=True)


def _graph_features(X):
    return spectral.SpectralEmbedding.of(weights_of(X, 10), 9).features(8)


def test_eigenvectors_are_at_most_fifty():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert HardmaxClustering(80).fit(np.random.default_rng(0).random((600, 2))).n_components_ <= 50


def test_labels_are_the_users_own():
    clustering = HardmaxClustering(3).fit(BLOBS)
    before = clustering.predict(BLOBS)
    clustering.labels_[:] = 0
    assert (clustering.predict(BLOBS) == before).all()


def test_a_run_without_a_proof_says_so_and_predicts_in_time():
    X = np.random.default_rng(0).random((60, 2))
    with pytest.warns(ConvergenceWarning, match="could not prove the limits of all points"):
        clustering = HardmaxClustering(features="points", alpha=1e-6).fit(X)
    assert not clustering.certified_
    assert set(clustering.predict(X * 1.001)) <= set(range(clustering.n_clusters_))


def test_weights_know_the_distance_of_the_last_neighbour():
    W = weights_of(np.array([[0.0], [1.0], [3.0], [6.0]]), 2).toarray()
    s = [3, 2, 3, 5]  # distance of the second neighbour
    assert W[0, 1] == pytest.approx(np.exp(-1 / (s[0] * s[1])))
    assert W[1, 2] == pytest.approx(np.exp(-4 / (s[1] * s[2])))
    assert W[1, 3] == pytest.approx(np.exp(-25 / (s[1] * s[3])))
    assert W[0, 3] == 0


def test_the_number_of_eigenvectors_by_the_gap():
    rates = np.array([0, 0.01, 0.03, 0.2, 0.3, 0.9])  # log ratios 1.10, 1.90, 0.41, 1.10 from m = 2 on
    assert spectral.SpectralEmbedding(1 - rates, np.empty((9, 6))).choose_components() == 3
    rates = np.array([0, 0.01, 0.03, 0.07, 0.1, 0.28])  # 1.10, 0.85, 0.36, 1.03: times sqrt(m) the last is largest
    assert spectral.SpectralEmbedding(1 - rates, np.empty((9, 6))).choose_components() == 5


def test_one_point_that_must_lead():
    assert HardmaxClustering(must_lead=[0]).fit([[1.0, 2.0]]).leaders_.tolist() == [0]


def test_a_huge_matrix_is_the_same_as_a_plain_one():
    plain, huge = (HardmaxClustering(3, A=A).fit(BLOBS) for A in (np.eye(2), 2.0**1023 * np.eye(2)))
    assert (plain.labels_ == huge.labels_).all()


def test_an_unknown_setting_names_the_class():
    with pytest.raises(TypeError, match=r"HardmaxClustering.__init__\(\) got an unexpected keyword argument 'k'"):
        HardmaxClustering(k=3)


@pytest.mark.parametrize("seed", range(5))
def test_points_on_a_line_are_right_or_give_a_warning(seed):
    g = np.random.default_rng(seed)
    X = np.r_[g.normal(size=(950, 1)), g.normal(size=(50, 1)) + 7]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        found = HardmaxClustering(2).fit(X)
    right = adjusted_rand_score(np.repeat([0, 1], [950, 50]), found.labels_) > 0.95
    assert right or any("doubtful" in str(one.message) for one in caught)


@pytest.mark.parametrize("noise", [None, 5.0])
def test_the_calls_of_bertopic(noise):
    """BERTopic 0.17 calls `fit(X, y=...)`, reads `labels_` and `probabilities_`, and calls `predict`."""
    angles = np.repeat([0, 2, 4], 10) + 0.05 * np.random.default_rng(0).standard_normal(30)
    directions = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(30)])
    X = np.vstack([directions, [[0, 0, 1]]]).astype(np.float32)  # the last point is an outlier
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clusterer = HardmaxClustering(3, metric="cosine", n_neighbors=5, noise=noise).fit(X, y=None)
    assert clusterer.labels_.dtype.kind == "i"
    assert sorted(set(clusterer.labels_)) == ([0, 1, 2] if noise is None else [-1, 0, 1, 2])
    assert not hasattr(clusterer, "probabilities_")
    assert clusterer.predict(X).tolist() == clusterer.labels_.tolist()
