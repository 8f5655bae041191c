"""Labels of new points, ties, membership strengths, exemplars and noise."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster.labels import FittedLayers
from tests.cluster_data import BLOBS, SQUARE, same_partition

BOTH = pytest.mark.parametrize("features", ["graph", "points"])


@BOTH
@pytest.mark.parametrize(
    "settings", [{}, {"n_clusters": 3}, {"granularity": 0.8, "alpha": 0.2}]
)
def test_fitted_points_are_predicted_as_labelled(features, settings):
    clustering = HardmaxClustering(features=features, **settings).fit(BLOBS)
    assert clustering.predict(BLOBS).tolist() == clustering.labels_.tolist()
    assert clustering.predict(BLOBS[[5]]).tolist() == [clustering.labels_[5]]
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # fitted points are looked up, so rounding cannot change their labels
        patch.delattr(FittedLayers, "predict")
        assert (
            clustering.predict(BLOBS[::-1]).tolist()
            == clustering.labels_[::-1].tolist()
        )
    layers = (
        clustering._fitted.layers
    )  # and they are so without being known, by following
    assert layers.predict(layers.keys[0]).tolist() == clustering.labels_.tolist()
    labels = clustering.labels_.tolist()
    for shift in (1e-9, 1e-12):
        assert clustering.predict(BLOBS + shift).tolist() == labels
    clustering.labels_[:] = 0  # the user's own array
    assert clustering.predict(BLOBS).tolist() == labels


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
def test_a_new_point_goes_where_it_would_go_among_the_tokens(alpha):
    """A query that is no key has the limit of a token that no other token follows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 2))
    clustering = HardmaxClustering(features="points", alpha=alpha, center=False).fit(X)
    new = random.standard_normal((40, 2)) * 0.02  # inner points, which no token follows
    labels = clustering.predict(new)
    together = hm.limit(np.concatenate([X, new]), hm.Hardmax(alpha))
    assert together.leaders.tolist() == clustering.leaders_.tolist()
    assert labels.tolist() == together.clusters[60:].tolist()
    assert clustering.n_iter_ > 0


def test_layers_continue_after_all_tokens_are_decided():
    X = np.random.default_rng(1).standard_normal((60, 3))
    found = hm.limit(X, hm.Hardmax(0.5))
    layers = FittedLayers.of(X, found, 0.5)
    expected = hm.simulate(X, hm.Hardmax(0.5), layers=found.layer + 4).tokens
    assert len(layers.keys) == found.layer + 1
    assert (
        np.abs(
            np.array([layers.tokens_at(k) for k in range(len(expected))]) - expected
        ).max()
        < 1e-14
    )


def test_a_new_point_is_decided_when_its_leader_leads():
    keys = np.array(
        [[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 0.1]]]
    )  # the second leads from layer 1 on
    each = np.arange(2)
    layers = FittedLayers(
        keys, keys[1], leads_from=each, labels=each, leaders=each, alpha=1.0
    )
    assert layers.predict(np.array([[1.0, 0.6], [0.1, 1.0]])).tolist() == [0, 1]


def test_new_points_on_a_graph_join_their_neighbours():
    X, _ = make_moons(600, noise=0.05, random_state=0)
    fresh, y_fresh = make_moons(400, noise=0.05, random_state=1)
    assert same_partition(HardmaxClustering(2).fit(X).predict(fresh), y_fresh)


def test_ties_go_to_the_first_leader_by_coordinates():
    clustering = HardmaxClustering(features="points").fit(SQUARE)
    assert clustering.leaders_.tolist() == [0, 1, 2, 3]
    assert clustering.labels_.tolist() == [0, 1, 2, 3, 1, 3]
    assert clustering.certified_
    assert clustering.predict([[0.25, 0.0], [-0.25, 0.0], [0.0, 0.5]]).tolist() == [
        1,
        3,
        2,
    ]


def test_an_unproved_limit_gives_a_warning():
    X = np.random.default_rng(0).random((60, 2))
    with pytest.warns(
        ConvergenceWarning, match="could not prove the limits of all points"
    ):
        clustering = HardmaxClustering(features="points", alpha=1e-6).fit(X)
    assert not clustering.certified_
    assert set(clustering.predict(X * 1.001)) <= set(range(clustering.n_clusters_))


def noisy(seed):
    X, y = make_blobs(500, centers=4, cluster_std=0.6, random_state=seed)
    return np.r_[X, np.random.default_rng(seed).uniform(-12, 12, (250, 2))], np.r_[
        y, np.full(250, -1)
    ]


@pytest.mark.parametrize("seed", [20, 21, 22])
def test_noise_has_no_cluster(seed):
    X, y = noisy(seed)
    found, all_in = HardmaxClustering(4, noise=20).fit(X), HardmaxClustering(4).fit(X)
    assert (
        adjusted_rand_score(y, found.labels_)
        > 0.8
        > adjusted_rand_score(y, all_in.labels_)
    )
    kept = found.labels_ >= 0
    assert (found.labels_[kept] == all_in.labels_[kept]).all()
    assert (found.predict(X) == found.labels_).all()
    assert (found.labels_[found.leaders_] == np.arange(found.n_clusters_)).all()
    assert (found.strengths_[~kept] == 0).all()
    assert set(found.predict([[30.0, 30.0], [-30.0, 11.0]])) == {-1}
    inside = found.strengths_ > 0
    assert (found.predict(X[inside] + 1e-6) == found.labels_[inside])[
        found.labels_[inside] >= 0
    ].mean() > 0.95


def test_strengths_are_one_minus_the_next_product_by_the_own():
    X, _ = make_blobs(200, centers=3, random_state=5)
    found = HardmaxClustering(3).fit(X)
    products = found.tokens_ @ found.tokens_[found.leaders_].T
    own = products[np.arange(200), found.labels_]
    others = np.where(np.arange(3) == found.labels_[:, None], -np.inf, products).max(
        axis=1
    )
    assert found.strengths_ == pytest.approx(
        np.clip(1 - np.maximum(others, 0) / own, 0, 1)
    )
    assert HardmaxClustering(1).fit(X).strengths_.min() == 1


def test_exemplars_begin_with_the_leader_and_are_all_different():
    X = np.repeat(make_blobs(60, centers=3, random_state=5)[0], 2, axis=0)
    found = HardmaxClustering(3).fit(X)
    for c, chosen in enumerate(found.exemplars_):
        assert chosen[0] == found.leaders_[c]
        assert len(chosen) == 5
        assert (found.labels_[chosen] == c).all()
        assert len(np.unique(X[chosen], axis=0)) == 5


def test_clusters_and_their_tree_are_drawn():
    X, _ = noisy(21)
    found = HardmaxClustering(noise=20).fit(X)
    assert "crosses: noise" in str(
        [
            text.get_text()
            for text in found.plot().findobj()
            if hasattr(text, "get_text")
        ]
    )
    assert found.tree_.plot(found.n_clusters_).axes[0].lines
    plane = np.random.default_rng(0).random((len(X), 2))
    assert found.plot(plane).axes
    with pytest.raises(
        hm.ParameterError,
        match=r"`plane` must have a row for each of the 750 fitted points",
    ):
        found.plot(plane[:5])
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    assert HardmaxClustering(4, metric="precomputed").fit(distances).plot().axes
