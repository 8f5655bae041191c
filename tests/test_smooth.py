"""Trajectories of smooth rules: batches, leaders, clusters, status, and files."""

import json
import re
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import hardmax as hm
from hardmax.trajectories import smooth

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(4)
TOKENS = RNG.normal(size=(6, 4))
SPHERE = TOKENS / np.linalg.norm(TOKENS, axis=1, keepdims=True)
A = RNG.normal(size=(4, 4))
LAYERED = [
    hm.Softmax(0.5),
    hm.Softmax(
        [0.5, Fraction(1, 3)], A, temperature=0.2, normalize="layer", causal=True
    ),
    hm.FeedForward(A, A, np.ones(4), np.zeros(4), activation="gelu", gain=0.1),
    hm.Normalize("layer"),
    hm.Compose(
        [hm.Softmax(1), hm.Hardmax(Fraction(1, 3)), hm.SelfAttention(A)], dt=0.25
    ),
    hm.MultiHead([hm.Hardmax(1), hm.Softmax(2, A[:2, :2])]),
    hm.MultiHead([hm.Softmax(1), hm.Softmax(2, A)], shared=True, shares=[0.25, 0.75]),
]
FLOWS = [
    hm.SelfAttention(),
    hm.SelfAttention(A, A, A, causal=True),
    hm.SelfAttention(V=-np.eye(4)),
    hm.Sphere(3.0),
    hm.Sphere(3, normalized=False, causal=True),
    hm.MultiHead([hm.SelfAttention(A), hm.SelfAttention()], shared=True),
    hm.MultiHead([hm.SelfAttention(), hm.SelfAttention(V=np.eye(2))]),
]
FUNCTIONS = [
    hm.SelfAttention(**{name: lambda t: np.cos(t) * np.eye(4)}) for name in "QKV"
]
FIXED = {"method": "rk4", "dt": 0.25}
RUNS = [(rule, {}) for rule in LAYERED + FLOWS + FUNCTIONS] + [
    (rule, FIXED) for rule in FLOWS + FUNCTIONS
]


def ran(rule, tokens=None, **options):
    tokens = (
        (SPHERE if isinstance(rule, hm.Sphere) else TOKENS)
        if tokens is None
        else tokens
    )
    how = {"times": [0, 0.5, 1]} if rule.continuous else {"layers": 2}
    return hm.simulate(tokens, rule, **how, **options)


@pytest.mark.parametrize(("rule", "options"), RUNS, ids=lambda value: repr(value)[:60])
def test_batches_and_padding_change_nothing(rule, options):
    batch = np.full((2, 8, 4), np.nan)
    batch[0, :6] = SPHERE if isinstance(rule, hm.Sphere) else TOKENS
    batch[1, 2:] = -batch[0, 5::-1]
    batch[0, 6, 1:], batch[1, 1] = np.inf, 7.0
    mask = np.array([[True] * 6 + [False] * 2, [False] * 2 + [True] * 6])
    together = ran(rule, batch, mask=mask, **options)
    for b, real in enumerate(mask):
        alone, one = ran(rule, batch[b, real], **options), together[b]
        tolerance = (
            1e-12 if options or not rule.continuous else 0
        )  # adaptive steps are those of each token set
        np.testing.assert_allclose(one.tokens[:, real], alone.tokens, rtol=tolerance)
        np.testing.assert_array_equal(
            one.tokens[:, ~real], np.broadcast_to(batch[b, ~real], (3, 2, 4))
        )
        if alone.rescaled is not None:
            np.testing.assert_allclose(
                one.rescaled[:, real], alone.rescaled, rtol=tolerance
            )
        np.testing.assert_allclose(
            together.similarity[:, b], alone.similarity, rtol=1e-12
        )
        if isinstance(rule, hm.Sphere):
            np.testing.assert_allclose(together.energy[:, b], alone.energy, rtol=1e-12)
        assert (
            one.clusters[real].tolist()
            == together.clusters[b][real].tolist()
            == alone.clusters.tolist()
        )
        assert (one.clusters[~real] == -1).all()
        assert (
            one.leaders.tolist()
            == together.leaders[b].tolist()
            == np.flatnonzero(real)[alone.leaders].tolist()
        )
        assert one.status == alone.status
        for head, own in zip(one.heads, alone.heads, strict=True):
            np.testing.assert_allclose(head.array[:, real], own.array, rtol=tolerance)
            assert head.leaders.tolist() == np.flatnonzero(real)[own.leaders].tolist()
        if rule.attends:
            P = one.attention(1)
            np.testing.assert_allclose(
                together.attention(1)[b], P, rtol=1e-9, atol=1e-13
            )
            np.testing.assert_allclose(
                P[..., real, :][..., real], alone.attention(1), rtol=1e-9, atol=1e-12
            )
            assert (P[..., ~real, :] == 0).all()
            assert (P[..., ~real] == 0).all()
    single = ran(rule, batch[1], mask=mask[1], **options)  # one token set with padding
    np.testing.assert_allclose(single.similarity, together.similarity[:, 1], rtol=1e-12)
    assert single.status == together[1].status


@pytest.mark.parametrize(
    ("rule", "options"),
    [run for run in RUNS if "causal" not in repr(run)],
    ids=lambda value: repr(value)[:60],
)
def test_order_of_tokens(rule, options):
    order = np.random.default_rng(0).permutation(6)
    plain = ran(rule, **options)
    shuffled = ran(rule, plain.tokens[0, order], **options)
    np.testing.assert_allclose(
        shuffled.tokens, plain.tokens[:, order], rtol=0, atol=1e-11
    )


def clusters(last, first):
    """Labels of the components of all pairs within the reach of the definition."""
    reach = 1e-3 * max(np.ptp(last, axis=0).max(), np.ptp(first, axis=0).max())
    return connected_components(np.linalg.norm(last[:, None] - last, axis=-1) <= reach)[
        1
    ].tolist()


@pytest.mark.parametrize(
    "rule",
    [hm.Softmax(1, temperature=0.05), hm.Softmax(5), hm.SelfAttention()],
    ids=repr,
)
@pytest.mark.parametrize("depth", [1, 4, 12, 30])
def test_clusters_and_leaders_are_those_of_their_definitions(rule, depth):
    tokens = np.random.default_rng(depth).normal(size=(15, 2))
    run = hm.simulate(
        tokens,
        rule,
        **({"times": [0, depth / 3]} if rule.continuous else {"layers": depth}),
    )
    assert run.clusters.tolist() == clusters(run.drawn[-1], run.drawn[0])
    P = run.attention(-1)
    together = [
        np.flatnonzero(run.clusters == c) for c in range(run.clusters.max() + 1)
    ]  # these count as one
    leading = [
        members
        for members in together
        if P[np.ix_(members, members)].sum(axis=1).mean() > 0.5
    ]
    moved = np.linalg.norm(run.drawn[-1] - tokens, axis=1)
    assert run.leaders.tolist() == sorted(
        min(members, key=lambda j: moved[j]) for members in leading
    )


def test_leaders_do_not_vanish_while_tokens_meet():
    tokens = hm.configuration("gaussian", n=60)
    run = hm.simulate(tokens, hm.Softmax(0.5, temperature=0.1), layers=100)
    assert (len(run.leaders), run.clusters.max() + 1) == (5, 5)
    for k in range(15, 101):  # five clusters from here on
        assert run.leaders_at(k).tolist() == run.leaders.tolist()
    rule, sphere = hm.Sphere(10), hm.configuration("sphere", n=40, d=3)
    counts = [
        len(hm.simulate(sphere, rule, times=[0, end]).leaders) for end in (15, 30)
    ]
    assert counts[0] == counts[1] > 0


def test_clusters_chain():
    line = np.r_[np.arange(6) * 0.9e-3, 1.0].reshape(
        -1, 1
    )  # a spread of 1, steps below a thousandth
    run = hm.simulate(line, hm.Softmax(1), layers=0)
    assert run.clusters.tolist() == [0] * 6 + [1]
    assert (
        hm.simulate(
            line * [[1], [1], [1], [1.2], [2], [1], [1]], hm.Softmax(1), layers=0
        ).clusters.max()
        > 1
    )


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("n", [1, 40, 400])
def test_clusters_of_many_tokens_are_those_of_all_pairs(d, n, monkeypatch):
    rng = np.random.default_rng(n)
    spread, centres = rng.uniform(-1, 1, size=(n, d)), rng.uniform(-1, 1, size=(4, d))
    gathered = centres[rng.integers(4, size=n)] + 3e-4 * rng.normal(size=(n, d))
    for points in (spread, gathered, np.repeat(spread, 2, axis=0), np.zeros((n, d))):
        for tol in (0, 1e-3, 0.1, 0.3):
            few = smooth.label_clusters(
                points, points, np.ones(len(points), bool), tol=tol
            )
            with monkeypatch.context() as patch:
                patch.setattr(smooth, "MAX_PAIRS", 0)
                many = smooth.label_clusters(
                    points, points, np.ones(len(points), bool), tol=tol
                )
            np.testing.assert_array_equal(many, few)


def test_many_tokens_in_one_cluster_need_no_list_of_pairs():
    points = 1e-5 * np.random.default_rng(0).normal(size=(4000, 3))
    tracemalloc.start()
    labels = smooth.label_clusters(points, np.eye(4000, 3), np.ones(4000, bool))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert labels.max() == 0
    assert peak < 2e7


def test_the_status_of_many_tokens_has_no_leaders(monkeypatch):
    run = ran(hm.SelfAttention())
    monkeypatch.setattr(smooth, "MAX_TOKENS_FOR_STATUS", 5)
    assert re.fullmatch(
        r"Ran from .* \d clusters of rescaled tokens at the end\.", run.status
    )


def test_leaders_of_several_heads_lead_in_one_of_them():
    run = ran(hm.MultiHead([hm.Softmax(1), hm.Softmax(2, A)], shared=True))
    P = run.attention(-1)
    assert run.leaders.tolist() == [
        i for i in range(6) if P[0, i, i] > 0.5 or P[1, i, i] > 0.5
    ]


@pytest.mark.parametrize(
    "rule", [hm.Softmax(1), hm.SelfAttention(), hm.Sphere(2)], ids=repr
)
def test_one_token_and_equal_tokens(rule):
    one, same = ran(rule, [[1.0]]), ran(rule, [[0.6, 0.8]] * 3)
    assert one.attention().tolist() == [[1.0]]
    assert one.leaders.tolist() == one.clusters.tolist() == [0]
    assert one.similarity.tolist() == [1.0, 1.0, 1.0]
    assert "1 token of dimension 1. 1 cluster of " in one.status
    assert ("1 leader." in one.status) == (not isinstance(rule, hm.Sphere))
    assert same.clusters.tolist() == [0, 0, 0]
    assert same.leaders.tolist() == [0]
    np.testing.assert_allclose(same.attention(), 1 / 3)
    np.testing.assert_allclose(same.similarity, 1)
    assert ("1 leader." in same.status) == (not isinstance(rule, hm.Sphere))


def test_similarity_is_the_mean_cosine():
    run = ran(hm.Softmax(0.5))
    for k in range(3):
        x = run.tokens[k]
        cosines = [
            x[i] @ x[j] / np.sqrt((x[i] @ x[i]) * (x[j] @ x[j]))
            for i in range(6)
            for j in range(6)
        ]
        assert run.similarity[k] == pytest.approx(np.mean(cosines), abs=1e-14)
    assert hm.simulate(
        np.zeros((2, 2)), hm.Softmax(1), layers=0
    ).similarity.tolist() == [0.0]


# Clusters do not depend on which layers were kept: the reach is relative to the input,
# kept or not.
def test_clusters_do_not_depend_on_what_is_saved():
    rule = hm.Softmax(5.0, temperature=10.0)
    for layers in (8, 10, 12):
        whole, end = (
            hm.simulate(TOKENS, rule, layers=layers),
            hm.simulate(TOKENS, rule, layers=layers, save="last"),
        )
        assert end.clusters.tolist() == whole.clusters.tolist()


def test_status_of_layers_and_flows():
    layers, flow, on = (
        ran(hm.Softmax(0.5)),
        ran(hm.SelfAttention()),
        r"on 6 tokens of dimension 4. \d clusters of ",
    )
    assert re.fullmatch(
        rf"Ran 2 layers {on}tokens at the last layer. \d leaders.", layers.status
    )
    assert re.fullmatch(
        rf"Ran from t = 0 to 1 {on}rescaled tokens at the end. \d leaders.", flow.status
    )
    assert repr(flow) == flow.status
    assert "clusters of tokens at the end" in ran(hm.Sphere(1)).status
    batch = hm.simulate(np.stack([TOKENS] * 3), hm.Softmax(0.5), layers=1)
    assert (
        batch.status == "Ran 1 layer on 3 token sets of up to 6 tokens of dimension 4."
    )


def test_labels_index_and_items():
    layers, flow = ran(hm.Softmax(0.5)), ran(hm.SelfAttention())
    assert [layers.label(1), flow.label(1)] == ["layer 1", "t = 0.5"]
    assert layers.index(-1) == layers.index(2) == 2
    with pytest.raises(
        IndexError,
        match=re.escape(
            "`k` must lie between -3 and 2. Got 3. Save more layers or times."
        ),
    ):
        layers.attention(3)
    with pytest.raises(TypeError, match="`trajectory`"):
        layers[0]
    assert flow.times.tolist() == [0, 0.5, 1]
    assert flow.n == 6
    assert flow.mask.all()


def test_stats_name_what_ran():
    assert ran(hm.Softmax(1)).stats == {
        "method": "layers",
        "dtype": "float64",
        "layers": 2,
        "adaptive": False,
    }
    fixed = ran(hm.SelfAttention(), method="rk4", dt=0.25).stats
    assert fixed == {
        "method": "rk4",
        "dt": 0.25,
        "dtype": "float64",
        "steps": 4,
        "adaptive": False,
    }
    adaptive = ran(hm.SelfAttention(), rtol=1e-5).stats
    assert (adaptive["method"], adaptive["rtol"], adaptive["adaptive"]) == (
        "RK45",
        1e-5,
        True,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_dtypes(dtype):
    tokens = (TOKENS * 3).round().astype(dtype)
    expected = np.float64 if dtype == np.int64 else dtype
    for rule in (hm.Softmax(1), hm.SelfAttention(), hm.FeedForward(A, A)):
        run = ran(rule, tokens)
        assert run.tokens.dtype == expected
        np.testing.assert_allclose(
            run.tokens, ran(rule, tokens.astype(float)).tokens, rtol=1e-4, atol=1e-4
        )


def test_exact_input_becomes_floats():
    tokens = np.array(
        [[Fraction(1, 3), Fraction(2)], [Fraction(1), Fraction(1, 7)]], object
    )
    run = hm.simulate(tokens, hm.Softmax(1), layers=1)
    np.testing.assert_array_equal(
        run.tokens, hm.simulate(tokens.astype(float), hm.Softmax(1), layers=1).tokens
    )
    assert hm.simulate(tokens, hm.SelfAttention(), times=[0, 1]).reached == 2


def test_input_is_left_alone():
    tokens = TOKENS.copy()
    for rule in (*LAYERED, hm.SelfAttention()):
        run = ran(rule)
        if rule.attends:
            run.attention(0)
        run.tokens[:] = 0
    np.testing.assert_array_equal(tokens, TOKENS)


# Files


WRITTEN = [(rule, {}) for rule in LAYERED + FLOWS]
WRITTEN += [
    (hm.SelfAttention(), {"method": "euler", "dt": np.float32(0.25)})
]  # numbers of any type
WRITTEN += [
    (hm.Sphere(np.float32(2)), {}),
    (hm.FeedForward(A, A, gain=np.float64(2)), {}),
]


def written(run, tmp_path, **options):
    run.to_npz(tmp_path / "run.npz")
    return hm.Trajectory.from_npz(tmp_path / "run.npz", **options)


@pytest.mark.parametrize(
    ("rule", "options"), WRITTEN, ids=lambda value: repr(value)[:60]
)
def test_round_trip(rule, options, tmp_path):
    run = ran(rule, **options)
    again = written(run, tmp_path)
    assert isinstance(again, hm.SmoothTrajectory)
    np.testing.assert_array_equal(again.tokens, run.tokens)
    np.testing.assert_array_equal(again.drawn, run.drawn)
    assert (again.rescaled is None) == (run.rescaled is None)
    if run.rescaled is not None:  # also where it is not drawn
        np.testing.assert_array_equal(again.rescaled, run.rescaled)
        np.testing.assert_array_equal(
            json.loads(run.to_json())["rescaled"], run.rescaled
        )
    assert repr(again.rule) == repr(run.rule) or isinstance(
        rule, hm.Softmax
    )  # a Fraction comes back as a float
    assert again.status == run.status
    assert again.stats == json.loads(json.dumps(run.stats, default=float))
    assert again.to_json() == run.to_json()
    if rule.attends:
        np.testing.assert_allclose(
            again.attention(1), run.attention(1), rtol=0, atol=1e-12
        )
    np.testing.assert_array_equal(ran(again.rule, **options).tokens, run.tokens)


def test_round_trip_of_a_batch_with_padding_and_of_a_failure(tmp_path):
    padded = np.stack([TOKENS, TOKENS])
    padded[1, 4:] = np.nan
    mask = np.isfinite(padded).all(axis=-1)
    run = hm.simulate(padded, hm.SelfAttention(), times=[0, 20], mask=mask, max_steps=3)
    again = written(run, tmp_path)
    assert again.status == run.status
    assert again.problem == run.problem != ""
    np.testing.assert_array_equal(again.mask, mask)
    np.testing.assert_array_equal(again.clusters, run.clusters)
    assert again[1].tokens.shape == (2, 6, 4)


def test_json_has_nulls_for_what_is_not_finite():
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1000])
    data = json.loads(run.to_json())
    assert data["tokens"][1][0][0] is None
    assert np.isfinite(data["rescaled"]).all()
    assert data["status"] == run.status
    assert data["leaders"] == run.leaders.tolist()
    assert data["clusters"] == run.clusters.tolist()
    assert data["saved"] == [0, 1000]
    batch = json.loads(
        hm.simulate(np.stack([TOKENS] * 2), hm.Softmax(1), layers=1).to_json()
    )
    assert len(batch["leaders"]) == 2


class Other(hm.Softmax):
    pass


class Shrink(hm.rules.Layered):
    """A rule without dataclass fields, as in the documentation of `Layered`."""

    def attention(self, tokens, at, keys=None):
        return np.broadcast_to(
            np.eye(tokens.shape[-2]), (*tokens.shape[:-1], tokens.shape[-2])
        )

    def layer(self, tokens, k, keys=None):
        return tokens / 2


NAMESAKE = type("Softmax", (Shrink,), {})
CUSTOM = [
    *FUNCTIONS,
    hm.MultiHead(FUNCTIONS, shared=True),
    hm.FeedForward(A, A, activation=np.sin),
    Other(1),
]
CUSTOM += [Shrink(), NAMESAKE()]


@pytest.mark.parametrize(
    "rule",
    CUSTOM,
    ids=["Q", "K", "V", "heads", "activation", "subclass", "custom", "namesake"],
)
def test_rules_with_python_code_must_be_given_again(rule, tmp_path):
    run = ran(rule)
    again = written(run, tmp_path, rule=rule)
    assert again.rule is rule
    assert again.to_json() == run.to_json()
    assert json.loads(run.to_json())["rule"] == {
        "rule": "custom",
        "class": type(rule).__name__,
        "repr": repr(rule),
    }
    if rule.attends:
        np.testing.assert_allclose(
            again.attention(1), run.attention(1), rtol=0, atol=1e-12
        )
    for given in ({}, {"rule": hm.Hardmax(1)}):
        with pytest.raises(hm.ParameterError, match="`rule`"):
            written(run, tmp_path, **given)


def test_a_rule_that_the_file_has_is_not_given_again(tmp_path):
    with pytest.raises(hm.ParameterError, match="`rule`"):
        written(ran(hm.Softmax(1)), tmp_path, rule=hm.Softmax(1))


def test_problems_of_heads_belong_to_their_token_set(tmp_path):
    batch = np.stack([TOKENS, TOKENS * 1e3])
    rule = hm.MultiHead(
        [hm.SelfAttention(V=-np.eye(2)), hm.SelfAttention(V=-np.eye(2))]
    )
    run = hm.simulate(batch, rule, times=[0, 0.01, 30], max_steps=50)
    assert run[0].problem == ""
    assert run[1].problem.count("The integrator stopped") == 2
    assert run.problem == f"Token set 1: {run[1].problem}"
    assert written(run, tmp_path).problems == run.problems


@pytest.mark.parametrize(("rule", "options"), RUNS, ids=lambda value: repr(value)[:60])
def test_progress_is_called_for_each_saved_position(rule, options):
    calls = []
    ran(rule, progress=lambda *call: calls.append(call), **options)
    if getattr(rule, "shared", True):
        assert calls == [(1, 3), (2, 3), (3, 3)]
    else:  # heads on their own coordinates run one after the other, in thousandths
        assert calls == sorted(calls)
        assert calls[-1] == (2000, 2000)


def test_padding_of_infinite_numbers_is_not_projected():
    tokens, mask = (
        np.random.default_rng(0).normal(size=(2, 5, 2)),
        np.ones((2, 5), bool),
    )
    tokens[0, 4], mask[0, 4] = np.inf, False
    found = hm.simulate(
        tokens, hm.SelfAttention(V=np.diag([1.0, 0.5])), times=2, mask=mask
    )
    assert found.clusters[0, 4] == -1
    assert (found.clusters[mask] >= 0).all()


def test_clusters_over_time_and_their_exit_times():
    tokens = np.array([[0.0, 0], [0, 1e-5], [1, 0], [3, 0]])
    moved = np.stack(
        [
            tokens,
            tokens,
            tokens + np.array([[0, 0], [2, 0], [0, 0], [0, 0]]),
            tokens * 0,
        ]
    )
    run = hm.simulate(tokens, hm.Softmax(1), layers=3)
    run = replace(run, tokens=moved)
    assert run.clusters_at(0).tolist() == [0, 0, 1, 2]
    assert run.clusters_at(0, tol=0.5).tolist() == [0, 0, 0, 1]
    assert run.clusters_at(2).tolist() == run.clusters_at(1.6).tolist() == [0, 1, 2, 3]
    assert run.n_clusters.tolist() == [3, 3, 4, 1]
    assert run.exit_times(0).tolist() == [2, 3, 3]
    assert run.exit_times(3).tolist() == [np.inf]
    lines = run.plot_clusters(tols=[1e-3, 0.5]).axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [[3, 3, 4, 1], [2, 2, 1, 1]]
    with pytest.raises(hm.ParameterError, match="`tol`"):
        run.clusters_at(0, tol=-1)
    for tols in ([], 0.1):
        with pytest.raises(hm.ParameterError, match="`tols`"):
            run.plot_clusters(tols=tols)
    spaced = replace(run, saved=np.array([1, 2, 4, 8]))
    assert [int(spaced.clusters_at(t).max()) + 1 for t in (1, 3, 3.1, 8)] == [
        3,
        3,
        4,
        1,
    ]
    assert spaced.exit_times(1.4).tolist() == [4, 8, 8]
    for t in (0.9, 8.1, -1, np.nan, "1"):
        for method in (spaced.clusters_at, spaced.exit_times):
            with pytest.raises(hm.ParameterError, match="`t`"):
                method(t)
    batch = hm.simulate(np.stack([tokens, tokens * 2]), hm.Softmax(1), layers=1)
    assert batch.n_clusters.shape == (2, 2)
    with pytest.raises(hm.InputError, match="exit_times"):
        batch.exit_times(0)


def test_clusters_at_times_that_were_not_reached():
    run = hm.simulate(np.eye(2), hm.SelfAttention(), times=[0, 50], max_steps=2)
    assert run.n_clusters[1] == 0
    assert (run.clusters_at(50) == -1).all()
