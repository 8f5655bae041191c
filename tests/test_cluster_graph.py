"""Neighbours, the connected graph and its eigenvectors."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_blobs, make_moons
from sklearn.neighbors import NearestNeighbors

from hardmax import HardmaxClustering
from hardmax.cluster import graph, spectral
from hardmax.cluster.preprocessing import squared_lengths
from tests.cluster_data import BLOBS, graph_of, same_partition


def metric(X):
    return graph.Metric(X, squared_lengths(X) / 2)


def test_weights_use_the_distance_of_the_last_neighbour():
    W = graph_of([[0.0], [1.0], [3.0], [6.0]], 2).weights.toarray()
    s = [3, 2, 3, 5]  # distance of the second neighbour
    assert W[0, 1] == pytest.approx(np.exp(-1 / (s[0] * s[1])))
    assert W[1, 2] == pytest.approx(np.exp(-4 / (s[1] * s[2])))
    assert W[1, 3] == pytest.approx(np.exp(-25 / (s[1] * s[3])))
    assert W[0, 3] == 0


def test_far_components_are_joined():
    X = np.concatenate([BLOBS, BLOBS[:40] + 1e6, BLOBS[40:80] - 1e9])
    W = graph_of(X).weights
    assert connected_components(W)[0] == 1
    assert (abs(W - W.T) > 0).nnz == 0
    assert HardmaxClustering(3).fit(X).n_clusters_ == 3


@pytest.mark.parametrize("spread", [0.5, 30.0])
def test_bridges_are_the_nearest_pairs(spread):
    random = np.random.default_rng(0)
    X = np.concatenate(
        [
            random.standard_normal((n, 3)) + spread * random.standard_normal(3)
            for n in (9, 20, 31, 40)
        ]
    )
    parts = np.split(np.arange(100), [9, 29, 60])
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    expected = set()
    for part in parts[:3]:
        outside = np.setdiff1d(np.arange(100), part)
        i, j = np.unravel_index(
            distances[np.ix_(part, outside)].argmin(), (len(part), len(outside))
        )
        expected.add((min(part[i], outside[j]), max(part[i], outside[j])))
    labels = np.repeat(np.arange(4), [len(part) for part in parts])
    assert graph.find_nearest_pairs(metric(X), labels) == expected


def test_pieces_of_many_points_are_joined_near_their_ends(monkeypatch):
    random = np.random.default_rng(0)
    Y = random.standard_normal((1200, 3))
    Y[:, 0] += np.repeat(20 * np.arange(4), 300)
    labels = np.repeat(np.arange(4), 300)
    exact = graph.find_nearest_pairs(metric(Y), labels)
    monkeypatch.setattr(graph, "MAX_EXACT_BRIDGES", 100)
    monkeypatch.setattr(graph, "N_BRIDGE_QUERIES", 30)
    some = graph.find_nearest_pairs(metric(Y), labels)

    def length(pairs):
        return sorted(np.linalg.norm(Y[i] - Y[j]) for i, j in pairs)

    assert len(some) == len(exact)
    assert max(np.array(length(some)) / np.array(length(exact))) < 1.1


def test_a_point_without_neighbours_is_joined():
    D = sparse.csr_array(
        ([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(4, 4)
    )
    assert graph.Graph.of_distances(D, 2).weights.sum(axis=1).min() > 0


@pytest.mark.parametrize("outliers", [1, 5])
@pytest.mark.parametrize("size", [1e-2, 1e-6])
def test_outliers_beside_a_dense_group_stay_connected(outliers, size):
    X = np.concatenate([BLOBS[:100] * size, BLOBS[:outliers] * size + 5.0])
    W = graph_of(X).weights
    assert W.sum(axis=1).min() > 0
    assert spectral.SpectralEmbedding.of(W, 5).values[1] < 1 - 1e-9


def test_most_neighbours_of_very_many_points_are_found():
    random = np.random.default_rng(0)
    Y = random.standard_normal((6000, 8)) @ random.standard_normal(
        (8, 32)
    ) + 0.1 * random.standard_normal((6000, 32))
    found = graph.InvertedFile(Y).find_nearest(None, 10)
    exact = NearestNeighbors(n_neighbors=10).fit(Y).kneighbors(return_distance=False)
    assert not (found == np.arange(6000)[:, None]).any()
    assert (
        np.mean(
            [
                len(set(a) & set(b))
                for a, b in zip(found.tolist(), exact.tolist(), strict=True)
            ]
        )
        > 9
    )


def test_cells_with_too_few_points_are_completed(monkeypatch):
    monkeypatch.setattr(graph, "CELL_SIZE", 2)
    monkeypatch.setattr(graph, "N_PROBES", 2)
    Y = np.random.default_rng(0).standard_normal((60, 12))
    found = graph.InvertedFile(Y).find_nearest(None, 20)
    assert all(len(set(row)) == 20 for row in found.tolist())


def test_very_many_points_have_the_clusters_of_fewer(monkeypatch):
    X, y = make_blobs(4000, 16, centers=8, random_state=0)
    exact = HardmaxClustering().fit(X)
    monkeypatch.setattr(graph, "MAX_EXACT", 1000)
    nearly = HardmaxClustering().fit(X.astype(np.float32))
    assert isinstance(nearly._fitted.points.search._find.__self__, graph.InvertedFile)
    assert same_partition(exact.labels_, y)
    assert same_partition(nearly.labels_, y)
    assert same_partition(nearly.predict(X + 0.01), y)


def test_every_solver_finds_the_same_eigenvectors(monkeypatch):
    X, _ = make_moons(900, noise=0.05, random_state=0)
    W = graph_of(np.concatenate([X, X + 50.0])).weights  # a component far away
    ways = []
    for setting, value in (
        ("MAX_BAND", 0.0),
        ("MAX_BAND", 100.0),
        ("MAX_DENSE", 10_000),
    ):
        monkeypatch.setattr(spectral, setting, value)
        ways.append(spectral.SpectralEmbedding.of(W, 9))
    grams = [one.features(4) @ one.features(4)[:50].T for one in ways]
    for one, gram in zip(ways, grams, strict=True):
        assert one.values == pytest.approx(ways[2].values, abs=1e-12)
        assert np.abs(gram - grams[2]).max() < 1e-6


def test_graphs_of_curves_and_planes_are_narrow():
    random = np.random.default_rng(0)
    t = 9 * random.random(2000)
    sets = [
        np.column_stack([np.cos(t * k) for k in range(1, 7)]),
        *(random.random((2000, d)) for d in (1, 2, 3, 9)),
    ]
    narrow = [spectral.is_narrow(graph_of(X).weights.tocsc()) for X in sets]
    assert narrow == [True, True, True, False, False]


def test_equal_eigenvalues_are_not_cut_apart():
    ring = np.exp(2j * np.pi * np.arange(24) / 24)
    found = spectral.SpectralEmbedding.of(
        graph_of(np.column_stack([ring.real, ring.imag]), 2).weights, 10
    )
    assert [found.round_up(m) for m in (1, 2, 3, 4, 5)] == [1, 3, 3, 5, 5]
    assert found.values[0] == pytest.approx(1.0)


def test_the_number_of_eigenvectors_by_the_gap():
    rates = np.array(
        [0, 0.01, 0.03, 0.2, 0.3, 0.9]
    )  # log ratios 1.10, 1.90, 0.41, 1.10 from m = 2 on
    assert (
        spectral.SpectralEmbedding(1 - rates, np.empty((9, 6))).choose_components() == 3
    )
    rates = np.array(
        [0, 0.01, 0.03, 0.07, 0.1, 0.28]
    )  # 1.10, 0.85, 0.36, 1.03: times sqrt(m) the last is largest
    assert (
        spectral.SpectralEmbedding(1 - rates, np.empty((9, 6))).choose_components() == 5
    )
