"""How many clusters there are, who belongs to none, how sure a label is, who stands for it, and the tree."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster.graph import Graph
from hardmax.cluster.n_clusters import chance_prominence, estimate_dimension, find_peaks
from hardmax.cluster.neighbours import NeighbourSearch

DIGITS = load_digits().data


def graph_of(X, k=10):
    return Graph.of_points(NeighbourSearch(np.asarray(X, float), k))


def without_clusters(kind, seed):
    random = np.random.default_rng(seed)
    return {
        "square": lambda: random.random((500, 2)),
        "normal": lambda: random.standard_normal((500, 5)),
        "many dimensions": lambda: random.standard_normal((400, 30)),
        "box": lambda: random.random((500, 3)) * [3, 1, 1],
    }[kind]()


@pytest.mark.parametrize("kind", ["square", "normal", "many dimensions", "box"])
def test_no_clusters_is_an_answer(kind):
    assert [HardmaxClustering().fit(without_clusters(kind, seed)).n_clusters_ for seed in range(4)] == [1] * 4


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "k"),
    [
        (lambda seed: make_moons(500, noise=0.05, random_state=seed), 2),
        (lambda seed: make_circles(500, factor=0.5, noise=0.05, random_state=seed), 2),
        (lambda seed: make_blobs(600, 16, centers=10, random_state=seed), 10),
        (lambda seed: make_blobs(600, 40, centers=5, random_state=seed), 5),
    ],
)
def test_as_many_clusters_as_there_are(make, k, seed):
    X, y = make(seed)
    found = HardmaxClustering().fit(X)
    assert found.n_clusters_ == k
    assert adjusted_rand_score(y, found.labels_) > 0.99


def test_the_order_of_the_points_does_not_change_how_many():
    X, _ = make_blobs(300, random_state=4)
    shuffled = np.random.default_rng(0).permutation(300)
    assert HardmaxClustering().fit(X).n_clusters_ == HardmaxClustering().fit(X[shuffled]).n_clusters_


def test_prominences_are_those_of_the_definition():
    """A peak ends where a flood that falls from the top first joins it with a higher one."""
    graph = graph_of(np.random.default_rng(0).random((120, 2)), 6)
    density = -estimate_dimension(graph.distances) * np.log(graph.scales)
    a, b, far = graph.bridges
    near = graph.distances.tocoo()
    edges = [(min(density[i], density[j]), i, j) for i, j in zip(near.row, near.col, strict=True)]
    edges += [
        (min(density[i], density[j], -estimate_dimension(graph.distances) * np.log(s)), i, j)
        for i, j, s in zip(a, b, far, strict=True)
    ]
    label, expected = list(range(120)), {}
    for level, i, j in sorted(edges, reverse=True):
        one, other = label[i], label[j]
        if one == other:
            continue
        low, high = sorted((one, other), key=lambda peak: density[peak])
        expected[low] = density[low] - level
        label = [high if each == low else each for each in label]
    expected = {peak: fall for peak, fall in expected.items() if fall > 0} | {label[0]: np.inf}
    peaks, found = find_peaks(graph)
    kept = {int(peak): fall for peak, fall in zip(peaks, found, strict=True) if fall > 0}
    assert kept.keys() == expected.keys()
    assert all(kept[peak] == pytest.approx(expected[peak]) for peak in kept)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_dimension_of_a_cloud(d):
    X = np.random.default_rng(0).random((3000, d)) @ np.random.default_rng(1).standard_normal((d, 9))
    assert estimate_dimension(graph_of(X, 20).distances) == pytest.approx(d, rel=0.2)


def test_chance_grows_with_the_number_of_points_and_falls_with_neighbours():
    assert chance_prominence(1000, 10, 2) > chance_prominence(100, 10, 2) > chance_prominence(100, 20, 2)
    assert chance_prominence(100, 10, 2) > chance_prominence(100, 10, 4) < chance_prominence(100, 10, 100)


def noisy(seed):
    X, y = make_blobs(500, centers=4, cluster_std=0.6, random_state=seed)
    return np.r_[X, np.random.default_rng(seed).uniform(-12, 12, (250, 2))], np.r_[y, np.full(250, -1)]


@pytest.mark.parametrize("seed", [20, 21, 22])
def test_points_that_belong_nowhere(seed):
    X, y = noisy(seed)
    found, all_in = HardmaxClustering(4, noise=20).fit(X), HardmaxClustering(4).fit(X)
    assert adjusted_rand_score(y, found.labels_) > 0.8 > adjusted_rand_score(y, all_in.labels_)
    kept = found.labels_ >= 0
    assert (found.labels_[kept] == all_in.labels_[kept]).all()
    assert (found.predict(X) == found.labels_).all()
    assert (found.labels_[found.leaders_] == np.arange(found.n_clusters_)).all()
    assert (found.strengths_[~kept] == 0).all()
    assert set(found.predict([[30.0, 30.0], [-30.0, 11.0]])) == {-1}
    inside = found.strengths_ > 0
    assert (found.predict(X[inside] + 1e-6) == found.labels_[inside])[found.labels_[inside] >= 0].mean() > 0.95


def test_strengths_are_one_minus_the_next_product_by_the_own():
    X, _ = make_blobs(200, centers=3, random_state=5)
    found = HardmaxClustering(3).fit(X)
    products = found.tokens_ @ found.tokens_[found.leaders_].T
    own = products[np.arange(200), found.labels_]
    others = np.where(np.arange(3) == found.labels_[:, None], -np.inf, products).max(axis=1)
    assert found.strengths_ == pytest.approx(np.clip(1 - np.maximum(others, 0) / own, 0, 1))
    assert HardmaxClustering(1).fit(X).strengths_.min() == 1


def test_exemplars_begin_with_the_leader_and_are_all_different():
    X = np.repeat(make_blobs(60, centers=3, random_state=5)[0], 2, axis=0)
    found = HardmaxClustering(3).fit(X)
    for c, chosen in enumerate(found.exemplars_):
        assert chosen[0] == found.leaders_[c]
        assert len(chosen) == 5
        assert (found.labels_[chosen] == c).all()
        assert len(np.unique(X[chosen], axis=0)) == 5


def test_the_tree_can_be_cut_anywhere_and_clusters_are_nested():
    tree = HardmaxClustering(10).fit(DIGITS).tree_
    least = int(np.isinf(tree.heights).sum())
    finer = None
    for k in [len(tree), 100, 30, 10, max(least, 2)]:
        labels, leaders = tree.cut(k)
        assert len(leaders) == k == len(set(labels.tolist()))
        assert (labels[leaders] == np.arange(k)).all()
        if finer is not None:
            assert all(len(set(labels[finer == c].tolist())) == 1 for c in range(finer.max() + 1))
        finer = labels


def test_the_leaders_of_a_cut_are_those_of_layer_0():
    model = HardmaxClustering(10).fit(DIGITS[:600])
    tree = model.tree_
    for g in (0.3, 0.5):
        _, leaders = tree.cut(granularity=g)
        from hardmax.cluster.granularity import find_first_leaders

        assert leaders.tolist() == find_first_leaders(model._fitted.features, (1 - g) / g).tolist()


def test_points_without_clusters_have_a_tree_of_one():
    tree = HardmaxClustering().fit(np.random.default_rng(0).normal(size=(400, 2))).tree_
    labels, leaders = tree.cut(1)
    assert len(tree) == len(leaders) == 1
    assert not labels.any()


def test_the_tree_is_one_of_scipys():
    tree = HardmaxClustering(4).fit(make_blobs(150, centers=4, random_state=2)[0]).tree_
    links = tree.linkage()
    assert is_valid_linkage(links)
    k = max(4, int(np.isinf(tree.heights).sum()))
    of_leaf = fcluster(links, k, "maxclust")
    assert adjusted_rand_score(of_leaf[tree.labels], tree.cut(k)[0]) == 1.0


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({}, "`n_clusters` must be given, or `granularity`. Got both or none."),
        ({"n_clusters": 3, "granularity": 0.5}, "`n_clusters` must be given, or `granularity`."),
        ({"n_clusters": 10**6}, "`n_clusters` must be from "),
        ({"granularity": 0}, "`granularity` must be above 0 and at most 1. Got 0."),
    ],
)
def test_a_cut_that_is_none_is_a_sentence(how, sentence):
    tree = HardmaxClustering(2).fit(make_moons(100, random_state=0)[0]).tree_
    with pytest.raises(hm.ParameterError) as caught:
        tree.cut(**how)
    assert str(caught.value).startswith(sentence)


def test_one_point_has_a_tree():
    tree = HardmaxClustering().fit([[1.0, 2.0]]).tree_
    assert tree.cut(1)[0].tolist() == [0]
    assert "one cluster" in tree.plot().axes[0].texts[0].get_text()


def test_clusters_and_their_tree_are_drawn():
    X, _ = noisy(21)
    found = HardmaxClustering(noise=20).fit(X)
    assert "crosses: noise" in str([text.get_text() for text in found.plot().findobj() if hasattr(text, "get_text")])
    assert found.tree_.plot(found.n_clusters_).axes[0].lines
    plane = np.random.default_rng(0).random((len(X), 2))
    assert found.plot(plane).axes
    with pytest.raises(hm.ParameterError, match=r"`plane` must have a row for each of the 750 fitted points"):
        found.plot(plane[:5])
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    assert HardmaxClustering(4, metric="precomputed").fit(distances).plot().axes
