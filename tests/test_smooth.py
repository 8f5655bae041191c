"""The result of smooth rules: who leads, who is together, what it says, and how it is kept in files."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(4)
TOKENS = RNG.normal(size=(6, 4))
SPHERE = TOKENS / np.linalg.norm(TOKENS, axis=1, keepdims=True)
A = RNG.normal(size=(4, 4))
LAYERED = [
    hm.Softmax(0.5),
    hm.Softmax([0.5, Fraction(1, 3)], A, temperature=0.2, normalize="layer", causal=True),
    hm.FeedForward(A, A, np.ones(4), np.zeros(4), activation="gelu", gain=0.1),
    hm.Normalize("layer"),
    hm.Compose([hm.Softmax(1), hm.Hardmax(Fraction(1, 3)), hm.SelfAttention(A)], dt=0.25),
    hm.MultiHead([hm.Hardmax(1), hm.Softmax(2, A[:2, :2])]),
    hm.MultiHead([hm.Softmax(1), hm.Softmax(2, A)], shared=True, shares=[0.25, 0.75]),
]
FLOWS = [
    hm.SelfAttention(),
    hm.SelfAttention(A, A, A, causal=True),
    hm.Sphere(3.0),
    hm.Sphere(3, normalized=False, causal=True),
    hm.MultiHead([hm.SelfAttention(A), hm.SelfAttention()], shared=True),
    hm.MultiHead([hm.SelfAttention(), hm.SelfAttention(V=np.eye(2))]),
]


def ran(rule, **options):
    tokens = SPHERE if isinstance(rule, hm.Sphere) else TOKENS
    how = {"times": [0, 0.5, 1]} if rule.continuous else {"layers": 2}
    return hm.simulate(tokens, rule, **how, **options)


def clusters(last, first):
    """Labels by growing each cluster pair by pair, for distances up to the reach of the definition."""
    reach = 1e-3 * max(np.ptp(last, axis=0).max(), np.ptp(first, axis=0).max())
    labels = [-1] * len(last)
    for i in range(len(last)):
        if labels[i] < 0:
            labels[i], queue = max(labels) + 1, [i]
            while queue:
                here = queue.pop()
                for j in range(len(last)):
                    if labels[j] < 0 and np.linalg.norm(last[here] - last[j]) <= reach:
                        labels[j] = labels[here]
                        queue.append(j)
    return labels


@pytest.mark.parametrize("rule", [hm.Softmax(1, temperature=0.05), hm.Softmax(5), hm.SelfAttention()], ids=repr)
@pytest.mark.parametrize("depth", [1, 4, 12, 30])
def test_clusters_and_leaders_are_those_of_their_definitions(rule, depth):
    cloud = np.random.default_rng(depth).normal(size=(15, 2))
    run = hm.simulate(cloud, rule, **({"times": [0, depth / 3]} if rule.continuous else {"layers": depth}))
    assert run.clusters.tolist() == clusters(run.drawn[-1], run.drawn[0])
    P = run.attention(-1)
    together = [np.flatnonzero(run.clusters == c) for c in range(run.clusters.max() + 1)]  # these count as one
    leading = [members for members in together if P[np.ix_(members, members)].sum(axis=1).mean() > 0.5]
    moved = np.linalg.norm(run.drawn[-1] - cloud, axis=1)
    assert run.leaders.tolist() == sorted(min(members, key=lambda j: moved[j]) for members in leading)


def test_leaders_do_not_vanish_while_tokens_meet():
    tokens = hm.configuration("gaussian", n=60)
    run = hm.simulate(tokens, hm.Softmax(0.5, temperature=0.1), layers=100)
    assert (len(run.leaders), run.clusters.max() + 1) == (5, 5)
    for k in range(15, 101):  # from where five clusters can be told
        assert run.leaders_at(k).tolist() == run.leaders.tolist()
    rule, sphere = hm.Sphere(10), hm.configuration("sphere", n=40, d=3)
    counts = [len(hm.simulate(sphere, rule, times=[0, end]).leaders) for end in (15, 30)]
    assert counts[0] == counts[1] > 0


def test_clusters_chain():
    line = np.r_[np.arange(6) * 0.9e-3, 1.0].reshape(-1, 1)  # a spread of 1, steps below a thousandth
    run = hm.simulate(line, hm.Softmax(1), layers=0)
    assert run.clusters.tolist() == [0] * 6 + [1]
    assert hm.simulate(line * [[1], [1], [1], [1.2], [2], [1], [1]], hm.Softmax(1), layers=0).clusters.max() > 1


def test_leaders_of_several_heads_lead_in_one_of_them():
    rule = hm.MultiHead([hm.Softmax(1), hm.Softmax(2, A)], shared=True)
    run = ran(rule)
    P = run.attention(-1)
    expected = [i for i in range(6) if P[0, i, i] > 0.5 or P[1, i, i] > 0.5]
    assert run.leaders.tolist() == expected


@pytest.mark.parametrize("rule", [hm.Softmax(1), hm.SelfAttention(), hm.Sphere(2)], ids=repr)
def test_one_token_and_equal_tokens(rule):
    how = {"times": [0, 1]} if rule.continuous else {"layers": 1}
    one = hm.simulate([[1.0]], rule, **how)
    assert one.attention().tolist() == [[1.0]]
    assert one.leaders.tolist() == one.clusters.tolist() == [0]
    assert one.similarity.tolist() == [1.0, 1.0]
    assert "1 token of dimension 1. 1 cluster of " in one.status
    assert ("1 leader." in one.status) == (not isinstance(rule, hm.Sphere))
    same = hm.simulate([[0.6, 0.8]] * 3, rule, **how)
    assert same.clusters.tolist() == [0, 0, 0]
    assert same.leaders.tolist() == [0]
    np.testing.assert_allclose(same.attention(), 1 / 3)
    np.testing.assert_allclose(same.similarity, 1)
    assert ("1 leader." in same.status) == (not isinstance(rule, hm.Sphere))


def test_similarity_is_the_mean_cosine():
    run = ran(hm.Softmax(0.5))
    for k in range(3):
        x = run.tokens[k]
        cosines = [x[i] @ x[j] / np.sqrt((x[i] @ x[i]) * (x[j] @ x[j])) for i in range(6) for j in range(6)]
        assert run.similarity[k] == pytest.approx(np.mean(cosines), abs=1e-14)
    assert hm.simulate(np.zeros((2, 2)), hm.Softmax(1), layers=0).similarity.tolist() == [0.0]


def test_similarity_of_a_batch_with_padding():
    padded = np.stack([np.vstack([TOKENS, np.full((1, 4), np.nan)]), np.vstack([np.full((1, 4), 9), TOKENS])])
    mask = np.array([[True] * 6 + [False], [False] + [True] * 6])
    run = hm.simulate(padded, hm.Softmax(0.5), layers=2, mask=mask)
    alone = ran(hm.Softmax(0.5)).similarity
    np.testing.assert_allclose(run.similarity, np.stack([alone, alone], axis=1), rtol=1e-12)


# Clusters do not depend on which layers were kept: the reach is relative to the input, kept or not.
def test_clusters_do_not_depend_on_what_is_saved():
    rule = hm.Softmax(5.0, temperature=10.0)
    for layers in (8, 10, 12):
        whole, end = hm.simulate(TOKENS, rule, layers=layers), hm.simulate(TOKENS, rule, layers=layers, save="last")
        assert end.clusters.tolist() == whole.clusters.tolist()


# What it says


def test_status_of_layers_and_flows():
    assert re.fullmatch(
        r"Ran 2 layers on 6 tokens of dimension 4. \d clusters of tokens at the last layer. \d leaders.",
        ran(hm.Softmax(0.5)).status,
    )
    flow = ran(hm.SelfAttention())
    assert re.fullmatch(
        r"Ran from t = 0 to 1 on 6 tokens of dimension 4. \d clusters of rescaled tokens at the end. \d leaders.",
        flow.status,
    )
    assert repr(flow) == flow.status
    assert "clusters of tokens at the end" in ran(hm.Sphere(1)).status
    batch = hm.simulate(np.stack([TOKENS] * 3), hm.Softmax(0.5), layers=1)
    assert batch.status == "Ran 1 layer on 3 token sets of up to 6 tokens of dimension 4."


def test_labels_index_and_items():
    layers, flow = ran(hm.Softmax(0.5)), ran(hm.SelfAttention())
    assert [layers.label(1), flow.label(1)] == ["layer 1", "t = 0.5"]
    assert layers.index(-1) == layers.index(2) == 2
    with pytest.raises(IndexError, match=re.escape("`k` must lie between -3 and 2. Got 3. Save more layers or times.")):
        layers.attention(3)
    with pytest.raises(TypeError, match="`trajectory`"):
        layers[0]
    assert flow.times.tolist() == [0, 0.5, 1]
    assert flow.n == 6
    assert flow.mask.all()


def test_items_of_a_batch():
    batch = np.stack([TOKENS, -2 * TOKENS])
    run = hm.simulate(batch, hm.MultiHead([hm.Softmax(1), hm.Hardmax(1)]), layers=2)
    for b in range(2):
        one = hm.simulate(batch[b], run.rule, layers=2)
        np.testing.assert_array_equal(run[b].tokens, one.tokens)
        assert run[b].status == one.status
        assert run[b].leaders.tolist() == run.leaders[b].tolist() == one.leaders.tolist()
        assert run.clusters[b].tolist() == one.clusters.tolist()
        np.testing.assert_array_equal(run[b].heads[1].emerged, one.heads[1].emerged)


def test_stats_name_what_ran():
    assert ran(hm.Softmax(1)).stats == {"method": "layers", "dtype": "float64", "layers": 2, "adaptive": False}
    fixed = ran(hm.SelfAttention(), method="rk4", dt=0.25).stats
    assert fixed == {"method": "rk4", "dt": 0.25, "dtype": "float64", "steps": 4, "adaptive": False}
    adaptive = ran(hm.SelfAttention(), rtol=1e-5).stats
    assert (adaptive["method"], adaptive["rtol"], adaptive["adaptive"]) == ("DOP853", 1e-5, True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_dtypes(dtype):
    tokens = (TOKENS * 3).round().astype(dtype)
    expected = np.float64 if dtype == np.int64 else dtype
    for rule in (hm.Softmax(1), hm.SelfAttention(), hm.FeedForward(A, A)):
        how = {"times": [0, 1]} if rule.continuous else {"layers": 1}
        run = hm.simulate(tokens, rule, **how)
        assert run.tokens.dtype == expected
        double = hm.simulate(tokens.astype(float), rule, **how).tokens
        np.testing.assert_allclose(run.tokens, double, rtol=1e-4, atol=1e-4)


def test_exact_input_becomes_floats():
    tokens = np.array([[Fraction(1, 3), Fraction(2)], [Fraction(1), Fraction(1, 7)]], object)
    run = hm.simulate(tokens, hm.Softmax(1), layers=1)
    np.testing.assert_array_equal(run.tokens, hm.simulate(tokens.astype(float), hm.Softmax(1), layers=1).tokens)
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


@pytest.mark.parametrize("rule", LAYERED + FLOWS, ids=lambda rule: repr(rule)[:60])
def test_round_trip(rule, tmp_path):
    run = ran(rule)
    run.to_npz(tmp_path / "run.npz")
    again = hm.Trajectory.from_npz(tmp_path / "run.npz")
    assert isinstance(again, hm.SmoothTrajectory)
    np.testing.assert_array_equal(again.tokens, run.tokens)
    np.testing.assert_array_equal(again.drawn, run.drawn)
    assert (again.rescaled is None) == (run.rescaled is None)
    assert repr(again.rule) == repr(run.rule) or isinstance(rule, hm.Softmax)  # a Fraction comes back as a float
    assert again.status == run.status
    assert again.stats == json.loads(json.dumps(run.stats))
    assert again.to_json() == run.to_json()
    if rule.attends:
        np.testing.assert_allclose(again.attention(1), run.attention(1), rtol=0, atol=1e-12)
    onward = {"times": [0, 1]} if rule.continuous else {"layers": 1}
    tokens = SPHERE if isinstance(rule, hm.Sphere) else TOKENS
    np.testing.assert_array_equal(
        hm.simulate(tokens, again.rule, **onward).tokens, hm.simulate(tokens, rule, **onward).tokens
    )


def test_round_trip_of_a_batch_with_padding_and_of_a_failure(tmp_path):
    padded = np.stack([TOKENS, TOKENS])
    padded[1, 4:] = np.nan
    mask = np.isfinite(padded).all(axis=-1)
    run = hm.simulate(padded, hm.SelfAttention(), times=[0, 20], mask=mask, max_steps=3)
    run.to_npz(tmp_path / "run.npz")
    again = hm.Trajectory.from_npz(tmp_path / "run.npz")
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
    batch = json.loads(hm.simulate(np.stack([TOKENS] * 2), hm.Softmax(1), layers=1).to_json())
    assert len(batch["leaders"]) == 2


class Other(hm.Softmax):
    pass


FUNCTIONS = [hm.SelfAttention(**{name: lambda t: np.eye(4)}) for name in "QKV"]
CUSTOM = [*FUNCTIONS, hm.MultiHead(FUNCTIONS, shared=True), hm.FeedForward(A, A, activation=np.sin), Other(1)]


@pytest.mark.parametrize("rule", CUSTOM, ids=["Q", "K", "V", "heads", "activation", "subclass"])
def test_rules_with_python_code_must_be_given_again(rule, tmp_path):
    run = ran(rule)
    run.to_npz(tmp_path / "run.npz")
    assert json.loads(run.to_json())["rule"] == {"rule": "custom", "class": type(rule).__name__, "repr": repr(rule)}
    with pytest.raises(ValueError, match="`rule`"):
        hm.Trajectory.from_npz(tmp_path / "run.npz")
    again = hm.Trajectory.from_npz(tmp_path / "run.npz", rule=rule)
    assert again.to_json() == run.to_json()
    if rule.attends:
        np.testing.assert_allclose(again.attention(1), run.attention(1), rtol=0, atol=1e-12)


def test_problems_of_heads_belong_to_their_token_set(tmp_path):
    batch = np.stack([TOKENS, TOKENS * 1e3])
    rule = hm.MultiHead([hm.SelfAttention(V=-np.eye(2)), hm.SelfAttention(V=-np.eye(2))])
    run = hm.simulate(batch, rule, times=[0, 0.01, 30], max_steps=50)
    assert run[0].problem == ""
    assert run[1].problem.count("The integrator stopped") == 2
    assert run.problem == f"Token set 1: {run[1].problem}"
    run.to_npz(tmp_path / "run.npz")
    assert hm.Trajectory.from_npz(tmp_path / "run.npz").problems == run.problems


# What simulate takes, files take.
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (hm.SelfAttention(), {"method": "euler", "dt": np.float32(0.25)}),
        (hm.Sphere(np.float32(2)), {}),
        (hm.FeedForward(A, A, gain=np.float64(2)), {}),
    ],
    ids=["step", "beta", "gain"],
)
def test_numbers_of_any_kind_are_written(rule, options, tmp_path):
    run = ran(rule, **options)
    run.to_npz(tmp_path / "run.npz")
    assert hm.Trajectory.from_npz(tmp_path / "run.npz").to_json() == run.to_json()


def test_heads_call_progress_to_the_end():
    calls = []
    ran(hm.MultiHead([hm.Softmax(1), hm.Softmax(2)]), progress=lambda *call: calls.append(call))
    assert calls
    assert calls[-1][0] == calls[-1][1]
