"""Input of the clusterer: distances, similarities, cosines, sparse rows, float32, a
matrix A, equal rows.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score, pairwise_distances
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors

import hardmax as hm
from hardmax import HardmaxClustering
from hardmax.cluster.preprocessing import find_distinct_rows, row_keys
from tests.cluster_data import BLOBS as SMALL
from tests.cluster_data import same_partition as same

MOONS, OF_MOON = make_moons(300, noise=0.05, random_state=0)
BLOBS, OF_BLOB = make_blobs(400, 5, centers=4, random_state=3)
DIGITS = load_digits().data


@pytest.mark.parametrize(("X", "y"), [(MOONS, OF_MOON), (BLOBS, OF_BLOB)])
def test_distances_give_the_clusters_of_the_points(X, y):
    D = pairwise_distances(X)
    k = len(set(y))
    points, distances = (
        HardmaxClustering(k).fit(X),
        HardmaxClustering(k, metric="precomputed").fit(D),
    )
    assert same(points.labels_, y)
    assert same(distances.labels_, y)
    assert (points.leaders_ == distances.leaders_).all()
    assert HardmaxClustering(metric="precomputed").fit(D).n_clusters_ == k
    assert (distances.predict(D) == distances.labels_).all()


def test_a_sparse_graph_of_distances_is_accepted():
    near = NearestNeighbors(n_neighbors=15).fit(MOONS).kneighbors_graph(mode="distance")
    clustering = HardmaxClustering(2, metric="precomputed").fit(near)
    assert same(clustering.labels_, OF_MOON)
    assert (clustering.predict(near) == clustering.labels_).all()
    new = pairwise_distances(MOONS + 1e-3, MOONS)
    new[new > 0.3] = 0  # not stored: unknown, not at the same place
    assert same(clustering.predict(sparse.csr_matrix(new)), OF_MOON)


@pytest.mark.parametrize("kind", ["shuffled", "strings", "duplicated"])
def test_a_table_of_pandas_is_read_by_position(kind):
    n = len(SMALL)
    index = {
        "shuffled": np.random.default_rng(0).permutation(n) + 5,
        "strings": [f"row {i}" for i in range(n)],
        "duplicated": [7] * n,
    }
    names = [f"x{i}" for i in range(SMALL.shape[1])]
    table = pd.DataFrame(SMALL, index=index[kind], columns=names)
    plain, fitted = HardmaxClustering(3).fit(SMALL), HardmaxClustering(3).fit(table)
    assert fitted.labels_.tolist() == plain.labels_.tolist()
    assert fitted.predict(table).tolist() == plain.predict(SMALL).tolist()
    leaders = plain.leaders_[:1]
    asked = pd.Series(leaders, index=index[kind][:1])
    assert (
        HardmaxClustering(must_lead=asked).fit(table).labels_.tolist()
        == HardmaxClustering(must_lead=leaders).fit(SMALL).labels_.tolist()
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_similarities_are_accepted(form):
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


def test_cosine_compares_directions():
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
    dense, thin = (
        HardmaxClustering(8, metric=metric).fit(form(X))
        for form in (np.asarray, sparse.csr_matrix)
    )
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


def test_a_search_of_the_user_is_used():
    own = HardmaxClustering(2, search=KNeighborsTransformer(n_neighbors=10)).fit(MOONS)
    assert (own.labels_ == HardmaxClustering(2).fit(MOONS).labels_).all()
    fewer = HardmaxClustering(
        2, n_neighbors=5, search=KNeighborsTransformer(n_neighbors=30)
    ).fit(MOONS)
    assert (
        fewer.labels_ == HardmaxClustering(2, n_neighbors=5).fit(MOONS).labels_
    ).all()


def test_invalid_rows_are_refused():
    S = np.exp(-pairwise_distances(MOONS, metric="sqeuclidean") / 0.02)
    clustering = HardmaxClustering(2, affinity="precomputed").fit(S)
    with pytest.raises(hm.ParameterError, match=r"`X` .* in row 1\."):
        clustering.predict(np.vstack([S[0] * 0.9, np.zeros(300)]))
    with pytest.raises(TypeError, match="dense array"):
        HardmaxClustering(features="points").fit(sparse.csr_array(MOONS))
    with pytest.raises(ValueError, match="contains NaN"):
        HardmaxClustering().fit([[0.0, np.nan]])
    hidden = np.ma.masked_greater(MOONS, 1)
    for call in (HardmaxClustering().fit, HardmaxClustering(2).fit(MOONS).predict):
        with pytest.raises(hm.InputError, match=r"`X` .* masked"):
            call(hidden)


@pytest.mark.parametrize("features", ["graph", "points"])
def test_A_is_the_metric(features):
    stretch = np.array([[3.0, 1.0], [0.0, 0.25]])
    plain = HardmaxClustering(4, features=features).fit(SMALL)
    X = SMALL @ np.linalg.inv(stretch)
    given = HardmaxClustering(4, features=features, A=stretch @ stretch.T).fit(X)
    assert given.leaders_.tolist() == plain.leaders_.tolist()
    white = [
        HardmaxClustering(4, features=features, A="whiten").fit(points).labels_.tolist()
        for points in (SMALL, X)
    ]
    assert white[0] == white[1]
    flat = HardmaxClustering(4, features=features, A="whiten").fit(
        np.column_stack([SMALL, SMALL.sum(axis=1)])
    )
    assert flat.labels_.tolist() == white[0]
    assert (
        HardmaxClustering(features=features, A="whiten")
        .fit(np.ones((4, 2)))
        .n_clusters_
        == 1
    )


def test_matrices_of_any_scale_and_points_that_they_make_equal():
    plain, huge = (
        HardmaxClustering(3, A=A).fit(SMALL) for A in (np.eye(2), 2.0**1023 * np.eye(2))
    )
    assert (plain.labels_ == huge.labels_).all()
    rng = np.random.default_rng(70)
    X, B = (
        rng.standard_normal((10, 27))[rng.integers(0, 10, 30)],
        rng.standard_normal((27, 27)),
    )
    clustering = HardmaxClustering(A=B @ B.T).fit(X)
    assert (clustering.predict(X) == clustering.labels_).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_equal_rows_are_found(form):
    random = np.random.default_rng(0)
    X = random.integers(-1, 2, size=(500, 4)) * 1.0
    keys = np.array(row_keys(form(X)))
    rows, labels = find_distinct_rows(form(X))
    rows = rows.toarray() if sparse.issparse(rows) else rows
    assert (rows[labels] == X).all()
    assert len(rows) == len(np.unique(X, axis=0)) == len(np.unique(keys))
    assert (keys == row_keys(form(np.where(X == 0, -0.0, X)))).all()
    assert not set(keys) & set(row_keys(form(X + 1e-12)))
