"""`HardmaxClustering`: scikit-learn's checks, known clusters, invariances, parameters
and warnings.
"""

import contextlib
import io
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from hardmax import HardmaxClustering
from tests.cluster_data import BLOBS, OF_BLOB, SQUARE, same_partition

BOTH = pytest.mark.parametrize("features", ["graph", "points"])


# scikit-learn sets n_components=1, n_clusters=2: one eigenvector has one direction, and
# the warning says so.
@pytest.mark.filterwarnings(
    "ignore:HardmaxClustering found 1 cluster instead"
    " of:sklearn.exceptions.ConvergenceWarning"
)
@parametrize_with_checks([HardmaxClustering(), HardmaxClustering(features="points")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 12, 40])
@BOTH
def test_n_clusters_is_met(features, k):
    clustering = HardmaxClustering(k, features=features).fit(BLOBS)
    assert (
        clustering.n_clusters_
        == len(clustering.leaders_)
        == len(np.unique(clustering.labels_))
        == k
    )
    assert clustering.granularity_ == 1 / (1 + clustering.tau_)


@pytest.mark.parametrize(
    ("X", "y", "floor"),
    [
        pytest.param(*make_moons(500, noise=0.05, random_state=0), 1.0, id="moons"),
        pytest.param(
            *make_circles(500, noise=0.05, factor=0.5, random_state=0),
            1.0,
            id="circles",
        ),
        pytest.param(BLOBS, OF_BLOB, 1.0, id="blobs"),
        pytest.param(*load_iris(return_X_y=True), 0.7, id="iris"),
        pytest.param(*load_digits(return_X_y=True), 0.77, id="digits"),
    ],
)
def test_known_clusters_are_found(X, y, floor):
    clustering = HardmaxClustering(len(np.unique(y))).fit(X)
    assert clustering.n_clusters_ == len(np.unique(y))
    assert adjusted_rand_score(y, clustering.labels_) >= floor


@BOTH
def test_fitted_attributes_agree(features):
    c = HardmaxClustering(features=features).fit(BLOBS)
    assert c.certified_
    assert c.labels_[c.leaders_].tolist() == list(range(c.n_clusters_))
    assert c.cluster_centers_.tolist() == BLOBS[c.leaders_].tolist()
    assert sorted(c.leaders_) == c.leaders_.tolist()
    assert c.limit_.leaders.tolist() == c.leaders_.tolist()
    assert c.limit_.layer == c.n_iter_
    assert c.n_features_in_ == 2
    assert clone(c).fit_predict(BLOBS).tolist() == c.labels_.tolist()


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
    points = [
        random.normal(size=(n, 2)) + centre
        for n, centre in zip(sizes, centres, strict=True)
    ]
    return np.concatenate(points), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", UNEQUAL)
def test_clusters_of_unequal_size_are_found(name, seed):
    X, y = draw_unequal(name, seed)
    for settings in ({"n_clusters": y.max() + 1}, {}):
        found = HardmaxClustering(**settings).fit(X)
        assert found.n_clusters_ == y.max() + 1
        assert found.certified_
        assert adjusted_rand_score(y, found.labels_) >= 0.95
    if name in SMALLER:
        labels, leaders = found.tree_.cut(y.max() + 1)
        assert adjusted_rand_score(y, labels) >= 0.95
        assert sorted(y[leaders]) == list(range(y.max() + 1))
        fresh, of_fresh = draw_unequal(name, seed + 1)
        assert adjusted_rand_score(of_fresh, found.predict(fresh)) >= 0.95


def test_unequal_clusters_are_found_in_every_way():
    X, y = draw_unequal("950 and 50", 0)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    for found in (
        HardmaxClustering(2, metric="precomputed").fit(distances),
        HardmaxClustering(2, affinity="precomputed").fit(np.exp(-(distances**2))),
        HardmaxClustering(granularity=0.5).fit(X),
    ):
        assert adjusted_rand_score(y, found.labels_) >= 0.95


def test_a_far_smaller_cluster_that_the_leading_eigenvectors_miss_is_found():
    """The eigenvectors of the large cluster come before that of the small one."""
    random = np.random.default_rng(0)
    X = np.concatenate(
        [random.normal(size=(9980, 2)), random.normal(size=(20, 2)) + np.array([10, 0])]
    )
    assert np.sort(np.bincount(HardmaxClustering(2).fit(X).labels_)).tolist() == [
        20,
        9980,
    ]


@pytest.mark.parametrize("k", [2, 3])
def test_fewer_clusters_than_blobs_split_no_blob(k):
    labels = HardmaxClustering(k).fit(BLOBS).labels_
    assert [len(set(labels[blob == OF_BLOB])) for blob in range(4)] == [1] * 4


@pytest.mark.parametrize(
    ("sizes", "apart"), [((500, 0), 0.0), ((960, 40), 4.0), ((990, 10), 5.0)]
)
def test_points_that_have_one_peak_and_are_split_anyway_give_a_warning(sizes, apart):
    random = np.random.default_rng(0)
    X = np.concatenate(
        [
            random.normal(size=(sizes[0], 2)),
            random.normal(size=(sizes[1], 2)) + np.array([apart, 0]),
        ]
    )
    with pytest.warns(
        ConvergenceWarning,
        match="2 clusters that are doubtful: the density of the points has one peak",
    ):
        HardmaxClustering(2).fit(X)


def test_clusters_with_a_large_normalised_cut_give_a_warning():
    X, y = draw_unequal("950 and 50", 0)
    with pytest.warns(
        ConvergenceWarning,
        match=r"doubtful: their normalised cut is [\d.]+ times that of another",
    ):
        found = HardmaxClustering(2, n_components=3).fit(X)
    assert adjusted_rand_score(y, found.labels_) < 0.5


@pytest.mark.parametrize("width", [1e-3, 1e-4, 1e-5])
def test_tight_groups_far_apart_keep_their_hierarchy(width):
    """Four towns of six streets of twelve points."""
    rng = np.random.default_rng(0)
    towns = 50.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    streets = np.repeat(towns, 6, axis=0) + rng.standard_normal((24, 2))
    X = np.repeat(streets, 12, axis=0) + width * rng.standard_normal((288, 2))
    assert same_partition(
        np.repeat(np.arange(4), 72), HardmaxClustering(4).fit(X).labels_
    )


def test_many_groups_at_any_distance():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(0, 1e8, (40, 2)), 8, axis=0) + rng.standard_normal(
        (320, 2)
    )
    assert same_partition(
        np.repeat(np.arange(40), 8), HardmaxClustering(40, n_neighbors=5).fit(X).labels_
    )
    far = np.vstack(
        [
            rng.standard_normal((100, 2)),
            rng.standard_normal((100, 2)) + np.array([1e5, 0]),
        ]
    )
    assert HardmaxClustering(1).fit(far).n_clusters_ == 1


PARTS = [
    (draw_unequal(name, 0)[0], {"n_clusters": len(UNEQUAL[name][0])})
    for name in SMALLER
]
SETTINGS = [{}, {"n_clusters": 5}, {"granularity": 0.7}]
IN_ORDER = [
    (BLOBS, {"features": features, **more})
    for features in ("graph", "points")
    for more in SETTINGS
]
EACH = pytest.mark.parametrize(
    ("X", "settings"), [(BLOBS, {}), (BLOBS, {"features": "points"}), *PARTS]
)


@pytest.mark.parametrize(("X", "settings"), [*IN_ORDER, *PARTS])
def test_the_order_of_the_points_does_not_matter(X, settings):
    order = np.random.default_rng(0).permutation(len(X))
    one, two = (HardmaxClustering(**settings).fit(points) for points in (X, X[order]))
    assert set(order[two.leaders_]) == set(one.leaders_)
    assert same_partition(one.labels_[order], two.labels_)


@EACH
def test_rotation_shift_and_unit_do_not_matter(X, settings):
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    one = HardmaxClustering(**{"n_clusters": 6} | settings).fit(X)
    for moved in (
        X @ turn,
        X + np.array([100, -30]),
        X * 3e150,
        X * 1e-150,
        X @ turn * 7 - 4,
    ):
        two = HardmaxClustering(**{"n_clusters": 6} | settings).fit(moved)
        assert two.leaders_.tolist() == one.leaders_.tolist()
        assert two.labels_.tolist() == one.labels_.tolist()


@EACH
def test_equal_points_count_once_and_share_a_label(X, settings):
    clustering = HardmaxClustering(**{"n_clusters": 4, "center": False} | settings)
    X = X - X.mean(axis=0)
    once = clone(clustering).fit(X)
    copies = np.r_[np.arange(len(X)), np.repeat(once.leaders_, 15), 7, 7]
    twice = clone(clustering).fit(X[copies])
    assert twice.leaders_.tolist() == once.leaders_.tolist()
    assert twice.labels_.tolist() == once.labels_[copies].tolist()


def test_the_origin_matters_to_points_alone():
    for features, matters in (("points", True), ("graph", False)):
        found = [
            HardmaxClustering(features=features, center=center)
            .fit(BLOBS + 40)
            .labels_.tolist()
            for center in (True, False)
        ]
        assert (found[0] != found[1]) is matters


@pytest.mark.parametrize(
    ("X", "settings"),
    [
        (
            np.random.default_rng(0).integers(0, 5, (120, 3)) * 0.1,
            {"features": "points"},
        ),
        (
            np.stack(np.meshgrid(*[np.arange(7)] * 2), -1).reshape(-1, 2) * 0.1,
            {"A": "whiten"},
        ),
        (
            np.column_stack(
                [np.cos(np.arange(24) * np.pi / 12), np.sin(np.arange(24) * np.pi / 12)]
            ),
            {"n_clusters": 4},
        ),
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
            assert (
                adjusted_rand_score(
                    labels[order], HardmaxClustering(**settings).fit(X[order]).labels_
                )
                == 1
            )


@pytest.mark.parametrize("wanted", [[0], [5, 8, 30], [7, 307]])
def test_points_that_must_lead_lead(wanted):
    pytest.importorskip("cvxpy")
    X = np.concatenate(
        [BLOBS, [[4.0, 12.0]] * 8]
    )  # the first of equal points stands for them
    plain, forced = (
        HardmaxClustering(features="points", granularity=0.6, must_lead=points).fit(X)
        for points in (None, wanted)
    )
    first = [min(i, 300) for i in wanted]
    assert not set(first) <= set(plain.leaders_)
    assert set(first) <= set(forced.leaders_)
    assert forced.certified_
    assert forced.predict(X).tolist() == forced.labels_.tolist()
    layers = forced._fitted.layers
    assert (
        layers.predict(forced._fitted.place(X)[0]).tolist() == forced.labels_.tolist()
    )


def test_a_leader_may_be_named_and_changes_nothing():
    pytest.importorskip("cvxpy")
    plain = HardmaxClustering().fit(BLOBS)
    forced = HardmaxClustering(must_lead=plain.leaders_[:2]).fit(BLOBS)
    assert forced.labels_.tolist() == plain.labels_.tolist()


@BOTH
def test_one_point_and_equal_points(features):
    for X in ([[3.0, 4.0]], [[0.0, 0.0]], [[3.0, 4.0]] * 5):
        clustering = HardmaxClustering(features=features).fit(X)
        assert clustering.leaders_.tolist() == [0]
        assert set(clustering.labels_) == {0}
        assert clustering.predict([[9.0, 9.0], [0.0, 0.0]]).tolist() == [0, 0]


@BOTH
def test_more_clusters_than_points_give_a_warning(features):
    with pytest.warns(ConvergenceWarning, match="found 2 clusters instead of 9"):
        clustering = HardmaxClustering(9, features=features).fit([[0.0], [1.0], [1.0]])
    assert clustering.labels_.tolist() == [0, 1, 1]
    X = np.random.default_rng(0).standard_normal((40, 2))
    for k in (40, 47, 60):
        context = (
            contextlib.nullcontext()
            if k == 40
            else pytest.warns(ConvergenceWarning, match=f"instead of {k}")
        )
        with context:
            assert HardmaxClustering(k, features="points").fit(X).n_clusters_ == 40


@BOTH
@pytest.mark.parametrize("k", [1, 2, 3])
def test_points_on_a_line(features, k):
    x = np.repeat([0, 5, 11], 30)[:, None] + np.random.default_rng(0).random((90, 1))
    clustering = HardmaxClustering(k, features=features).fit(x)
    assert clustering.n_clusters_ == k
    if features == "graph":
        assert (
            len(np.unique(clustering.labels_.reshape(3, 30), axis=1).T) == 1
        )  # no group is split


@pytest.mark.parametrize("seed", range(5))
def test_points_on_a_line_are_right_or_give_a_warning(seed):
    g = np.random.default_rng(seed)
    X = np.r_[g.normal(size=(950, 1)), g.normal(size=(50, 1)) + 7]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        found = HardmaxClustering(2).fit(X)
    right = adjusted_rand_score(np.repeat([0, 1], [950, 50]), found.labels_) > 0.95
    assert right or any("doubtful" in str(one.message) for one in caught)


CONVERTS = KNeighborsTransformer()
INVALID = [  # parameters, the parameter that the error names, X
    *(
        ({name: 0}, name)
        for name in ("n_clusters", "n_neighbors", "n_components", "alpha")
    ),
    *(({"granularity": value}, "granularity") for value in (1.5, np.nan)),
    ({"features": "rows"}, "features"),
    ({"noise": 1.0}, "noise"),
    ({"center": "mean"}, "center"),
    *(
        ({"A": value}, "A")
        for value in ("identity", np.eye(3), [[1, 2], [2, 1]], [[1, 0.5], [0, 1]])
    ),
    *(
        ({"A": value}, "A")
        for value in (
            [[1, np.nan], [np.nan, 1]],
            [[1, 2], [3]],
            [["a", "b"], ["c", "d"]],
        )
    ),
    *(({"must_lead": value}, "must_lead") for value in ([0, 300], [-1], [3, 3], [0.5])),
    ({"must_lead": [0], "n_clusters": 3}, "must_lead"),
    (
        {"must_lead": [0], "features": "points"},
        "must_lead",
    ),  # an inner point cannot lead
    (
        {"must_lead": [0, 1], "features": "points"},
        "must_lead",
        [[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [3.0, 1.0]],
    ),
    ({"n_clusters": 2, "granularity": 0.5}, "granularity"),
    ({"metric": "precomputed"}, "X"),
    ({"metric": "precomputed"}, "X", np.arange(9.0).reshape(3, 3)),
    ({"metric": "precomputed"}, "X", csr_array((40, 40))),  # a graph without edges
    *(
        ({name: "precomputed"}, "X", -np.ones((3, 3)))
        for name in ("metric", "affinity")
    ),
    ({"affinity": "precomputed", "noise": 20}, "noise", np.ones((3, 3))),
    ({"affinity": "precomputed", "metric": "precomputed"}, "affinity", np.ones((3, 3))),
    ({"metric": "precomputed", "features": "points"}, "features", np.ones((3, 3))),
    ({"metric": "precomputed", "A": np.eye(3)}, "A", np.ones((3, 3))),
    ({"metric": "precomputed", "search": CONVERTS}, "search", np.ones((3, 3))),
    ({"metric": "cosine"}, "X", [[1.0, 0.0], [0.0, 0.0]]),
    *(
        ({"features": "points", name: value}, name)
        for name, value in (("noise", 20), ("search", CONVERTS))
    ),
    ({"search": FunctionTransformer()}, "search"),  # does not return a sparse matrix
]


@pytest.mark.parametrize(
    ("parameters", "name", "X"), [(*case, BLOBS)[:3] for case in INVALID]
)
def test_an_error_names_the_parameter(parameters, name, X):
    with pytest.raises(
        ValueError,
        match=rf"^(`{name}` must|The '{name}' parameter of HardmaxClustering must)",
    ):
        HardmaxClustering(**parameters).fit(X)


def test_verbose_shows_how_many_points_are_decided(monkeypatch):
    shown = io.StringIO()
    shown.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", shown)
    HardmaxClustering(4).fit(BLOBS)
    assert shown.getvalue() == ""
    HardmaxClustering(4, verbose=True).fit(BLOBS)
    assert "Clustering" in shown.getvalue()
    assert "300/300" in shown.getvalue()


def test_eigenvectors_are_at_most_fifty():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert (
            HardmaxClustering(80)
            .fit(np.random.default_rng(0).random((600, 2)))
            .n_components_
            <= 50
        )


def test_an_unknown_setting_names_the_class():
    with pytest.raises(
        TypeError,
        match=r"HardmaxClustering.__init__\(\) got an unexpected keyword argument 'k'",
    ):
        HardmaxClustering(k=3)


@pytest.mark.parametrize("noise", [None, 5.0])
def test_the_calls_of_bertopic(noise):
    """BERTopic 0.17 calls `fit(X, y=...)`, reads `labels_` and `probabilities_`, and
    calls `predict`.
    """
    angles = np.repeat([0, 2, 4], 10) + 0.05 * np.random.default_rng(0).standard_normal(
        30
    )
    directions = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(30)])
    X = np.vstack([directions, [[0, 0, 1]]]).astype(
        np.float32
    )  # the last point is an outlier
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clusterer = HardmaxClustering(
            3, metric="cosine", n_neighbors=5, noise=noise
        ).fit(X, y=None)
    assert clusterer.labels_.dtype.kind == "i"
    assert sorted(set(clusterer.labels_)) == (
        [0, 1, 2] if noise is None else [-1, 0, 1, 2]
    )
    assert not hasattr(clusterer, "probabilities_")
    assert clusterer.predict(X).tolist() == clusterer.labels_.tolist()
