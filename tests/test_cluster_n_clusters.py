"""The estimated number of clusters, density peaks and the dimension of the data."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from hardmax import HardmaxClustering
from hardmax.cluster.n_clusters import Peaks, chance_prominence
from tests.cluster_data import graph_of

SETS_WITHOUT_CLUSTERS = {
    "square": lambda random: random.random((500, 2)),
    "normal": lambda random: random.standard_normal((500, 5)),
    "many dimensions": lambda random: random.standard_normal((400, 30)),
    "box": lambda random: random.random((500, 3)) * [3, 1, 1],
}


@pytest.mark.parametrize("name", SETS_WITHOUT_CLUSTERS)
def test_data_without_clusters_have_one(name):
    sets = [SETS_WITHOUT_CLUSTERS[name](np.random.default_rng(seed)) for seed in range(3)]
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
    """A peak ends where a flood that falls from the top first joins it with a higher one."""
    graph = graph_of(np.random.default_rng(0).random((120, 2)), 6)
    density = -graph.dimension * np.log(graph.scales)
    a, b, far = graph.bridges
    near = graph.distances.tocoo()
    edges = [(min(density[i], density[j]), i, j) for i, j in zip(near.row, near.col, strict=True)]
    levels = np.minimum(np.minimum(density[a], density[b]), -graph.dimension * np.log(far))
    edges += list(zip(levels, a, b, strict=True))
    label, expected = list(range(120)), {}
    for level, i, j in sorted(edges, reverse=True):
        one, other = label[i], label[j]
        if one == other:
            continue
        low, high = sorted((one, other), key=lambda peak: density[peak])
        expected[low] = density[low] - level
        label = [high if each == low else each for each in label]
    expected = {peak: fall for peak, fall in expected.items() if fall > 0} | {label[0]: np.inf}
    peaks = Peaks.of(graph)
    kept = {int(peak): fall for peak, fall in zip(peaks.points, peaks.prominences, strict=True) if fall > 0}
    assert kept.keys() == expected.keys()
    assert all(kept[peak] == pytest.approx(expected[peak]) for peak in kept)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_dimension_is_estimated(d):
    X = np.random.default_rng(0).random((3000, d)) @ np.random.default_rng(1).standard_normal((d, 9))
    assert graph_of(X, 20).dimension == pytest.approx(d, rel=0.2)


def test_chance_grows_with_the_number_of_points_and_falls_with_neighbours():
    assert chance_prominence(1000, 10, 2) > chance_prominence(100, 10, 2) > chance_prominence(100, 20, 2)
    assert chance_prominence(100, 10, 2) > chance_prominence(100, 10, 4) < chance_prominence(100, 10, 100)
