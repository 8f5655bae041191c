"""What people bring to the clusterer: distances, similarities, cosines, sparse rows, float32, very many points."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster import graph, neighbours
from hardmax.cluster.preprocessing import DistinctRows, RowIndex

MOONS, OF_MOON = make_moons(300, noise=0.05, random_state=0)
BLOBS, OF_BLOB = make_blobs(400, 5, centers=4, random_state=3)
DIGITS, OF_DIGIT = load_digits(return_X_y=True)


def same(a, b):
    return adjusted_rand_score(a, b) == 1.0


@pytest.mark.parametrize(("X", "y"), [(MOONS, OF_MOON), (BLOBS, OF_BLOB)])
def test_distances_say_what_points_say(X, y):
    D = pairwise_distances(X)
    k = len(set(y))
    points, distances = HardmaxClustering(k).fit(X), HardmaxClustering(k, metric="precomputed").fit(D)
    assert same(points.labels_, y)
    assert same(distances.labels_, y)
    assert (points.leaders_ == distances.leaders_).all()
    assert HardmaxClustering(metric="precomputed").fit(D).n_clusters_ == k
    assert (distances.predict(D) == distances.labels_).all()


def test_a_sparse_graph_of_distances_is_taken():
    near = NearestNeighbors(n_neighbors=15).fit(MOONS).kneighbors_graph(mode="distance")
    clustering = HardmaxClustering(2, metric="precomputed").fit(near)
    assert same(clustering.labels_, OF_MOON)
    assert (clustering.predict(near) == clustering.labels_).all()
    new = pairwise_distances(MOONS + 1e-3, MOONS)
    new[new > 0.3] = 0  # not stored: unknown, not at the same place
    assert same(clustering.predict(sparse.csr_matrix(new)), OF_MOON)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_similarities_are_taken(form):
    S = np.exp(-pairwise_distances(MOONS, metric="sqeuclidean") / 0.02)
    S[S < 1e-6] = 0
    clustering = HardmaxClustering(2, affinity="precomputed").fit(form(S))
    assert same(clustering.labels_, OF_MOON)
    assert (clustering.predict(form(S)) == clustering.labels_).all()
    new = np.exp(-pairwise_distances(MOONS + 0.01, MOONS, metric="sqeuclidean") / 0.02)
    assert same(clustering.predict(form(new)), OF_MOON)


def test_similarities_in_pieces_are_joined():
    S = np.kron(np.eye(3), np.ones((4, 4)))
    clustering = HardmaxClustering(3, affinity="precomputed").fit(S)
    assert same(clustering.labels_, np.repeat([0, 1, 2], 4))


def test_cosine_looks_at_directions():
    random = np.random.default_rng(0)
    directions = random.standard_normal((3, 20))
    y = random.integers(3, size=200)
    unit = directions[y] + 0.2 * random.standard_normal((200, 20))
    X = unit * random.lognormal(sigma=2, size=(200, 1))
    found = HardmaxClustering(metric="cosine").fit(X)
    assert same(found.labels_, y)
    assert same(found.predict(X * 7.3), y)
    normed = HardmaxClustering().fit(X / np.linalg.norm(X, axis=1, keepdims=True))
    assert (found.labels_ == normed.labels_).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_points_are_those_of_the_dense_matrix(metric):
    X = np.where(DIGITS > 8, DIGITS, 0)[:500]
    X = X[X.any(axis=1)]
    dense, thin = (HardmaxClustering(8, metric=metric).fit(form(X)) for form in (np.asarray, sparse.csr_matrix))
    assert adjusted_rand_score(dense.labels_, thin.labels_) > 0.95
    assert sparse.issparse(thin.cluster_centers_)
    assert (thin.predict(sparse.csc_array(X)) == thin.labels_).all()
    shuffled = np.random.default_rng(0).permutation(len(X))
    again = HardmaxClustering(8, metric=metric).fit(sparse.csr_array(X[shuffled]))
    assert same(again.labels_, thin.labels_[shuffled])


def test_float32_stays_float32():
    X = BLOBS.astype(np.float32)
    clustering = HardmaxClustering(4).fit(X)
    assert clustering._fitted.X is X
    assert clustering._fitted.points.Y.dtype == np.float32
    assert clustering.cluster_centers_.dtype == np.float32
    assert same(clustering.labels_, OF_BLOB)
    assert (clustering.predict(X) == clustering.labels_).all()


def test_a_search_of_ones_own():
    own = HardmaxClustering(2, search=KNeighborsTransformer(n_neighbors=10)).fit(MOONS)
    assert (own.labels_ == HardmaxClustering(2).fit(MOONS).labels_).all()
    fewer = HardmaxClustering(2, n_neighbors=5, search=KNeighborsTransformer(n_neighbors=30)).fit(MOONS)
    assert (fewer.labels_ == HardmaxClustering(2, n_neighbors=5).fit(MOONS).labels_).all()


def test_a_new_point_of_which_nothing_is_known_is_a_sentence():
    S = np.exp(-pairwise_distances(MOONS, metric="sqeuclidean") / 0.02)
    clustering = HardmaxClustering(2, affinity="precomputed").fit(S)
    with pytest.raises(hm.ParameterError, match=r"`X` must hold .* Got none in row 1\."):
        clustering.predict(np.vstack([S[0] * 0.9, np.zeros(300)]))


def test_sparse_points_go_with_the_graph_alone():
    with pytest.raises(TypeError, match="dense array"):
        HardmaxClustering(features="points").fit(sparse.csr_array(MOONS))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_are_found_again_to_the_last_bit(form):
    random = np.random.default_rng(0)
    X = random.integers(-1, 2, size=(500, 4)) * 1.0
    known = RowIndex(form(X))
    assert (X[known.find(form(X))] == X).all()
    assert (known.find(form(X + 1e-12)) == -1).all()
    assert (known.find(form(np.where(X == 0, -0.0, X))) == known.find(form(X))).all()
    distinct = DistinctRows.of(form(X))
    rows = distinct.rows.toarray() if sparse.issparse(distinct.rows) else distinct.rows
    assert (rows[distinct.labels] == X).all()
    assert len(rows) == len(np.unique(X, axis=0)) == len(distinct.counts)
    assert (distinct.counts == np.bincount(distinct.labels)).all()


def test_most_neighbours_of_very_many_points_are_found():
    random = np.random.default_rng(0)
    Y = random.standard_normal((6000, 8)) @ random.standard_normal((8, 32)) + 0.1 * random.standard_normal((6000, 32))
    found = neighbours.InvertedFile(Y).nearest_others(10)
    exact = NearestNeighbors(n_neighbors=10).fit(Y).kneighbors(return_distance=False)
    assert not (found == np.arange(6000)[:, None]).any()
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist(), strict=True)]) > 9


def test_lists_that_are_too_short_are_not_the_end(monkeypatch):
    monkeypatch.setattr(neighbours, "CELL_SIZE", 2)
    monkeypatch.setattr(neighbours, "N_PROBES", 2)
    Y = np.random.default_rng(0).standard_normal((60, 12))
    found = neighbours.InvertedFile(Y).nearest_others(20)
    assert all(len(set(row)) == 20 for row in found.tolist())


def test_very_many_points_have_the_clusters_of_fewer(monkeypatch):
    X, y = make_blobs(4000, 16, centers=8, random_state=0)
    exact = HardmaxClustering().fit(X)
    monkeypatch.setattr(neighbours, "MAX_EXACT", 1000)
    nearly = HardmaxClustering().fit(X.astype(np.float32))
    assert isinstance(nearly._fitted.points.search._index, neighbours.InvertedFile)
    assert same(exact.labels_, y)
    assert same(nearly.labels_, y)
    assert same(nearly.predict(X + 0.01), y)


def test_pieces_of_many_points_are_joined_near_their_ends(monkeypatch):
    random = np.random.default_rng(0)
    Y = random.standard_normal((1200, 3))
    Y[:, 0] += np.repeat(20 * np.arange(4), 300)
    labels = np.repeat(np.arange(4), 300)
    exact = graph.find_nearest_pairs(graph.Metric.of_points(Y), labels)
    monkeypatch.setattr(graph, "MAX_EXACT_BRIDGES", 100)
    monkeypatch.setattr(graph, "N_BRIDGE_QUERIES", 30)
    some = graph.find_nearest_pairs(graph.Metric.of_points(Y), labels)

    def length(pairs):
        return sorted(np.linalg.norm(Y[i] - Y[j]) for i, j in pairs)

    assert len(some) == len(exact)
    assert max(np.array(length(some)) / np.array(length(exact))) < 1.1


def test_a_point_without_neighbours_is_joined():
    D = sparse.csr_array(([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(4, 4))
    assert graph.Graph.of_distances(D, 2).weights.sum(axis=1).min() > 0
