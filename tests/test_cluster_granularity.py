"""Thresholds of tau, the search for a number of clusters, the tree, and the estimated
number of clusters.
"""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster import granularity, preprocessing, spectral
from hardmax.cluster.granularity import choose_tau
from hardmax.cluster.n_clusters import Peaks, chance_prominence
from tests.cluster_data import BLOBS, graph_of

DIGITS = load_digits().data


def lift(X):
    """Centre points and append the constant coordinate, as `features="points"` does."""
    centred = X - X.mean(axis=0)
    return preprocessing.append_constant(centred, centred)


@pytest.mark.parametrize("seed", range(4))
def test_leaders_at_layer_0_are_those_below_their_threshold(seed):
    random = np.random.default_rng(seed)
    features = random.standard_normal((200, [2, 3, 5, 9][seed]))
    thresholds = granularity.compute_thresholds(features, np.arange(200))[0]
    for at_least in (1, 5, 60, 200):
        largest = granularity.find_largest_thresholds(features, at_least)
        assert len(largest) >= at_least
        assert largest == pytest.approx(np.sort(thresholds)[::-1][: len(largest)])
    for tau in [0.0, 0.1, 0.5, 1.0, 1.7, 5.0, 40.0]:
        leaders = granularity.find_first_leaders(features, tau)
        assert leaders.tolist() == np.flatnonzero(thresholds > tau).tolist()
        by_definition = hm.limit(
            granularity.scale_radii(features, tau), hm.Hardmax(1.0)
        )
        assert (
            leaders.tolist()
            == by_definition.leaders[by_definition.emerged == 0].tolist()
        )


def test_thresholds_follow_the_definition():
    f = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.1]])
    expected = [
        -np.log(np.cos(np.pi / 4)) / np.log(np.sqrt(2)),
        np.inf,
        np.inf,
    ]  # 1: cos 45° = 1 / sqrt(2)
    assert granularity.compute_thresholds(f, np.arange(3))[0] == pytest.approx(expected)
    assert granularity.compute_thresholds(f, np.array([2, 0]))[0] == pytest.approx(
        np.array(expected)[[2, 0]]
    )


def test_thresholds_are_respected_as_far_as_floats_reach():
    embedding = spectral.SpectralEmbedding.of(
        graph_of(np.random.default_rng(7).standard_normal((200, 2))).weights, 9
    )
    f = embedding.features(8)
    taus = [granularity.limit_tau(f, tau) for tau in (1, 10, 300, 1e4, 1e6)]
    counts = [len(granularity.find_first_leaders(f, tau)) for tau in taus]
    assert counts == sorted(counts, reverse=True)


def test_leaders_that_emerge_later_are_counted():
    X = make_blobs(60, centers=1, random_state=8)[0]
    for k in range(1, 12):
        found = choose_tau(lift(X), k, 1.0)
        assert (
            found.n_clusters
            == k
            >= len(granularity.find_first_leaders(lift(X), found.tau))
        )
    X = np.random.default_rng(37).standard_normal(
        (50, 2)
    )  # four leaders at layer 0, and one later
    assert choose_tau(preprocessing.append_constant(X, X), 5, 1.0).n_clusters == 5


def test_one_half_is_the_plain_model_to_the_last_bit():
    X = BLOBS - np.ldexp(np.ldexp(BLOBS, -8).mean(axis=0), 8)
    plain = hm.limit(X, hm.Hardmax(1.0))
    clustering = HardmaxClustering(features="points").fit(BLOBS)
    assert clustering.tau_ == 1.0
    assert clustering.leaders_.tolist() == plain.leaders.tolist()
    assert clustering.labels_.tolist() == plain.clusters.tolist()


def test_granularity_goes_from_one_cluster_to_every_point():
    gs = (0, 0.02, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1)
    sizes = [
        HardmaxClustering(features="points", granularity=g).fit(BLOBS).n_clusters_
        for g in gs
    ]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1, len(BLOBS))
    graph_sizes = [
        HardmaxClustering(granularity=g).fit(BLOBS).n_clusters_ for g in (0, 0.5, 1)
    ]
    assert graph_sizes == [
        2,
        4,
        300,
    ]  # two rays have no longer row on their side, and lead at every tau


def test_the_tree_can_be_cut_anywhere_and_clusters_are_nested():
    tree = HardmaxClustering(10).fit(DIGITS).tree_
    least = int(np.isinf(tree.heights).sum())
    finer = None
    for k in [len(tree), 100, 30, 10, max(least, 2)]:
        labels, leaders = tree.cut(k)
        assert len(leaders) == k == len(set(labels.tolist()))
        assert (labels[leaders] == np.arange(k)).all()
        if finer is not None:
            assert all(
                len(set(labels[finer == c].tolist())) == 1
                for c in range(finer.max() + 1)
            )
        finer = labels


def test_the_leaders_of_a_cut_are_those_of_layer_0():
    model = HardmaxClustering(10).fit(DIGITS[:600])
    tree = model.tree_
    for g in (0.3, 0.5):
        _, leaders = tree.cut(granularity=g)
        assert (
            leaders.tolist()
            == granularity.find_first_leaders(
                model._fitted.result.features, (1 - g) / g
            ).tolist()
        )


def test_the_tree_is_one_of_scipys():
    tree = HardmaxClustering(4).fit(make_blobs(150, centers=4, random_state=2)[0]).tree_
    links = tree.linkage()
    assert is_valid_linkage(links)
    k = max(4, int(np.isinf(tree.heights).sum()))
    of_leaf = fcluster(links, k, "maxclust")
    assert adjusted_rand_score(of_leaf[tree.labels], tree.cut(k)[0]) == 1.0


def test_points_without_clusters_have_a_tree_of_one():
    tree = HardmaxClustering().fit(np.random.default_rng(0).normal(size=(400, 2))).tree_
    labels, leaders = tree.cut(1)
    assert len(tree) == len(leaders) == 1
    assert not labels.any()
    alone = HardmaxClustering().fit([[1.0, 2.0]]).tree_
    assert alone.cut(1)[0].tolist() == [0]
    assert "one cluster" in alone.plot().axes[0].texts[0].get_text()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "n_clusters"),
        ({"n_clusters": 3, "granularity": 0.5}, "n_clusters"),
        ({"n_clusters": 10**6}, "n_clusters"),
        ({"granularity": 0}, "granularity"),
    ],
)
def test_an_impossible_cut_is_refused(arguments, name):
    tree = HardmaxClustering(2).fit(make_moons(100, random_state=0)[0]).tree_
    with pytest.raises(hm.ParameterError, match=f"`{name}` must"):
        tree.cut(**arguments)


SETS_WITHOUT_CLUSTERS = {
    "square": lambda random: random.random((500, 2)),
    "normal": lambda random: random.standard_normal((500, 5)),
    "many dimensions": lambda random: random.standard_normal((400, 30)),
    "box": lambda random: random.random((500, 3)) * [3, 1, 1],
}


@pytest.mark.parametrize("name", SETS_WITHOUT_CLUSTERS)
def test_data_without_clusters_have_one(name):
    sets = [
        SETS_WITHOUT_CLUSTERS[name](np.random.default_rng(seed)) for seed in range(3)
    ]
    assert [HardmaxClustering().fit(X).n_clusters_ for X in sets] == [1] * 3


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
def test_the_number_of_clusters_is_found(make, k, seed):
    X, y = make(seed)
    found = HardmaxClustering().fit(X)
    assert found.n_clusters_ == k
    assert adjusted_rand_score(y, found.labels_) > 0.99


def test_prominences_follow_the_definition():
    """A peak ends where a flood that falls from the top first joins it with a higher
    one.
    """
    graph = graph_of(np.random.default_rng(0).random((120, 2)), 6)
    density = -graph.dimension * np.log(graph.scales)
    a, b, far = graph.bridges
    near = graph.distances.tocoo()
    edges = [
        (min(density[i], density[j]), i, j)
        for i, j in zip(near.row, near.col, strict=True)
    ]
    levels = np.minimum(
        np.minimum(density[a], density[b]), -graph.dimension * np.log(far)
    )
    edges += list(zip(levels, a, b, strict=True))
    label, expected = list(range(120)), {}
    for level, i, j in sorted(edges, reverse=True):
        one, other = label[i], label[j]
        if one == other:
            continue
        low, high = sorted((one, other), key=lambda peak: density[peak])
        expected[low] = density[low] - level
        label = [high if each == low else each for each in label]
    expected = {peak: fall for peak, fall in expected.items() if fall > 0} | {
        label[0]: np.inf
    }
    peaks = Peaks.of(graph)
    kept = {
        int(peak): fall
        for peak, fall in zip(peaks.points, peaks.prominences, strict=True)
        if fall > 0
    }
    assert kept.keys() == expected.keys()
    assert all(kept[peak] == pytest.approx(expected[peak]) for peak in kept)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_dimension_is_estimated(d):
    X = np.random.default_rng(0).random((3000, d)) @ np.random.default_rng(
        1
    ).standard_normal((d, 9))
    assert graph_of(X, 20).dimension == pytest.approx(d, rel=0.2)


def test_chance_grows_with_the_number_of_points_and_falls_with_neighbours():
    assert (
        chance_prominence(1000, 10, 2)
        > chance_prominence(100, 10, 2)
        > chance_prominence(100, 20, 2)
    )
    assert (
        chance_prominence(100, 10, 2)
        > chance_prominence(100, 10, 4)
        < chance_prominence(100, 10, 100)
    )
