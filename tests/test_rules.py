"""Layers: softmax, feed-forward, norms, compositions and heads, each against loops that do what its formula says."""

import math
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import expm
from scipy.optimize import linprog

import hardmax as hm

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(7)
TOKENS = RNG.normal(size=(6, 3))
ANY_A = RNG.normal(size=(3, 3))
EYE = np.eye(2)


def weights(tokens, A=None, temperature=1.0, causal=False):
    """P by loops over tokens, in Python floats."""
    n, rows = len(tokens), []
    images = tokens if A is None else [A @ z for z in tokens]
    for i in range(n):
        seen = range(i + 1) if causal else range(n)
        scores = [float(np.dot(images[i], tokens[j])) / temperature for j in seen]
        powers = [math.exp(score - max(scores)) for score in scores]
        rows.append([power / sum(powers) for power in powers] + [0.0] * (n - len(powers)))
    return np.array(rows)


def softmax_layer(tokens, alpha, A=None, temperature=1.0, normalize="rescaling", causal=False):
    P, moved = weights(tokens, A, temperature, causal), []
    for i, z in enumerate(tokens):
        mean = sum(P[i, j] * tokens[j] for j in range(len(tokens)))
        if normalize == "rescaling":
            moved.append((z + alpha * mean) / (1 + alpha))
            continue
        new = z + alpha * mean
        if normalize == "layer":
            new = new - sum(new) / len(new)
        if normalize != "none":
            new = new / math.sqrt(sum(x * x for x in new) / len(new))
        moved.append(new)
    return np.array(moved)


def last(tokens, rule, layers=1, **options):
    return hm.simulate(tokens, rule, layers=layers, **options).array[-1]


@pytest.mark.parametrize("normalize", ["rescaling", "none", "rms", "layer"])
@pytest.mark.parametrize("A", [None, ANY_A], ids=["identity", "any"])
@pytest.mark.parametrize("causal", [False, True])
def test_softmax_does_what_its_formula_says(normalize, A, causal):
    rule = hm.Softmax([0.5, 2, 0.1], A, temperature=0.7, normalize=normalize, causal=causal)
    run = hm.simulate(TOKENS, rule, layers=5)
    now = TOKENS
    for k, alpha in enumerate([0.5, 2, 0.1, 0.1, 0.1]):  # the last step goes on
        np.testing.assert_allclose(run.attention(k), weights(now, A, 0.7, causal), rtol=0, atol=1e-10)
        now = softmax_layer(now, alpha, A, 0.7, normalize, causal)
        np.testing.assert_allclose(run.tokens[k + 1], now, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("same", "name"), [(True, "rescaling"), (False, "none"), (None, "none")])
def test_normalize_has_short_names(same, name):
    assert hm.Softmax(1, normalize=same).normalize == name


@pytest.mark.parametrize("A", [None, ANY_A], ids=["identity", "any"])
@pytest.mark.parametrize("seed", range(3))
def test_softmax_tends_to_hardmax_at_the_rate_of_the_gap(A, seed):
    tokens = np.random.default_rng(seed).normal(size=(8, 3))
    images = tokens if A is None else tokens @ A.T
    products = np.sort(images @ tokens.T, axis=1)
    gap = (products[:, -1] - products[:, -2]).min()
    hard = last(tokens, hm.Hardmax(0.5, A, any_A=True))
    inverse = np.linspace(10, 24, 8) / gap
    logs = [np.log(np.abs(last(tokens, hm.Softmax(0.5, A, temperature=1 / x)) - hard).max()) for x in inverse]
    slope = np.polyfit(inverse, logs, 1)[0]
    assert slope == pytest.approx(-gap, rel=0.03)


def test_softmax_at_the_ends_of_the_temperatures():
    cold = hm.simulate(TOKENS, hm.Softmax(0.5, temperature=1e-300), layers=3)
    hard = hm.simulate(TOKENS, hm.Hardmax(0.5), layers=3)
    np.testing.assert_allclose(cold.tokens, hard.tokens, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(cold.attention(2), hard.attention(2))
    hot = last(TOKENS, hm.Softmax(1, temperature=1e300))
    np.testing.assert_allclose(hot, (TOKENS + TOKENS.mean(axis=0)) / 2, rtol=0, atol=1e-15)


def test_softmax_shares_ties_evenly_as_hardmax_does():
    square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]]
    cold = hm.simulate(square, hm.Softmax(1, temperature=1e-3), layers=1)
    np.testing.assert_allclose(cold.attention(0)[4], [0.5, 0.5, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(cold.tokens[1], hm.simulate(square, hm.Hardmax(1), layers=1).tokens[1], atol=1e-15)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_softmax_of_huge_and_tiny_tokens(scale):
    run = hm.simulate(TOKENS * scale, hm.Softmax(0.5), layers=3)
    assert run.reached == 4
    expected = hm.simulate(TOKENS, hm.Softmax(0.5, temperature=1 / scale**2), layers=3).tokens
    np.testing.assert_allclose(run.tokens, expected * scale, rtol=1e-12)
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-14)


# Scores beyond the range of floats must not turn tokens into NaN: the tokens themselves stay in their hull.
@pytest.mark.parametrize(("scale", "dtype"), [(1e200, np.float64), (1e25, np.float32)])
def test_softmax_of_tokens_whose_products_overflow(scale, dtype):
    tokens = (TOKENS * scale).astype(dtype)
    run = hm.simulate(tokens, hm.Softmax(0.5), layers=2)
    assert np.isfinite(run.tokens).all()
    np.testing.assert_allclose(run.tokens, hm.simulate(tokens, hm.Hardmax(0.5), layers=2).tokens, rtol=1e-5)


# 1/temperature may exceed the range of the tokens' dtype.
def test_cold_softmax_of_single_precision():
    tokens = TOKENS.astype(np.float32)
    cold = last(tokens, hm.Softmax(0.5, temperature=1e-40))
    assert cold.dtype == np.float32
    np.testing.assert_allclose(cold, last(tokens, hm.Hardmax(0.5)), rtol=1e-5, atol=1e-6)


shapes = st.tuples(st.integers(1, 7), st.integers(1, 3))
clouds = shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-3, 3)))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(clouds, st.sampled_from([1e-3, 0.1, 1.0, 30.0]), st.sampled_from([0.1, 1.0, 5.0]))
def test_rows_sum_to_one_and_rescaled_tokens_stay_in_the_hull(tokens, temperature, alpha):
    run = hm.simulate(tokens, hm.Softmax(alpha, temperature=temperature), layers=2)
    for k in range(3):
        P = run.attention(k)
        assert (P >= 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)
    for z in run.tokens[-1]:
        found = linprog(
            np.zeros(len(tokens)), A_eq=np.vstack([tokens.T, np.ones(len(tokens))]), b_eq=[*z, 1], method="highs"
        )
        assert found.status == 0


@settings(deadline=None, derandomize=True, max_examples=30)
@given(clouds, st.data())
def test_order_of_tokens(tokens, data):
    order = np.array(data.draw(st.permutations(range(len(tokens)))))
    for normalize in ("rescaling", "none"):
        rule = hm.Softmax(0.5, temperature=0.3, normalize=normalize)
        np.testing.assert_allclose(
            last(tokens[order], rule, 3), last(tokens, rule, 3)[order], rtol=1e-11, atol=1e-11 * 3**3
        )


@pytest.mark.parametrize("normalize", ["rescaling", "none", "rms"])
def test_rotations_commute_with_softmax_for_the_identity(normalize):
    skew = np.triu(RNG.normal(size=(3, 3)), 1)
    R = expm(skew - skew.T)
    rule = hm.Softmax(0.5, temperature=0.3, normalize=normalize)
    np.testing.assert_allclose(last(TOKENS @ R.T, rule, 4), last(TOKENS, rule, 4) @ R.T, rtol=0, atol=1e-12)
    with_A = hm.Softmax(0.5, np.diag([1.0, 2.0, 3.0]), temperature=0.3, normalize=normalize)
    assert np.abs(last(TOKENS @ R.T, with_A, 4) - last(TOKENS, with_A, 4) @ R.T).max() > 1e-3


@pytest.mark.parametrize("rule", [hm.Softmax(0.5), hm.Softmax(0.5, ANY_A), hm.FeedForward.random(3)], ids=repr)
def test_batches_and_padding_change_nothing(rule):
    batch = np.full((2, 8, 3), np.nan)
    batch[0, :6], batch[1, 2:8] = TOKENS, TOKENS[::-1] * 2
    batch[0, 6] = np.inf
    mask = np.isfinite(batch).all(axis=-1)
    together = hm.simulate(batch, rule, layers=3, mask=mask)
    for b, cloud in enumerate([TOKENS, TOKENS[::-1] * 2]):
        alone = hm.simulate(cloud, rule, layers=3)
        np.testing.assert_allclose(together.tokens[:, b, mask[b]], alone.tokens, rtol=1e-13)
        np.testing.assert_array_equal(together.tokens[:, b, ~mask[b]], np.broadcast_to(batch[b, ~mask[b]], (4, 2, 3)))
        assert together[b].clusters[mask[b]].tolist() == alone.clusters.tolist()
        assert (together[b].clusters[~mask[b]] == -1).all()
        if rule.attends:
            P = together.attention(2)[b]
            np.testing.assert_allclose(P[np.ix_(mask[b], mask[b])], alone.attention(2), rtol=1e-13)
            assert (P[~mask[b]] == 0).all()
            assert (P[:, ~mask[b]] == 0).all()


def test_one_token_and_one_dimension():
    assert last([[3.0]], hm.Softmax(0.5), 4).tolist() == [[3.0]]
    assert last([[3.0]], hm.Softmax(1, normalize="none"), 4).tolist() == [[48.0]]
    assert hm.simulate([[3.0]], hm.Softmax(0.5), layers=1).leaders.tolist() == [0]
    assert last([[3.0], [-3.0]], hm.Normalize("layer")).tolist() == [[0.0], [0.0]]


def test_save_last_and_no_layers():
    rule = hm.Softmax(0.5)
    whole, end = hm.simulate(TOKENS, rule, layers=4), hm.simulate(TOKENS, rule, layers=4, save="last")
    assert end.tokens.shape == (1, 6, 3)
    assert end.saved.tolist() == [4]
    np.testing.assert_array_equal(end.tokens[0], whole.tokens[4])
    np.testing.assert_array_equal(end.attention(), whole.attention(4))
    none = hm.simulate(TOKENS, rule, layers=0)
    np.testing.assert_array_equal(none.tokens, TOKENS[None])
    assert none.status.startswith("Ran 0 layers on 6 tokens of dimension 3.")


def test_progress_is_told_of_each_layer():
    calls = []
    hm.simulate(TOKENS, hm.Softmax(0.5), layers=3, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


# Feed-forward and norms

FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("biased", [False, True])
def test_feed_forward_does_what_its_formula_says(activation, biased):
    rng = np.random.default_rng(3)
    W1, W2, b1, b2 = rng.normal(size=(5, 3)), rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=3)
    b1, b2 = (b1, b2) if biased else (np.zeros(5), np.zeros(3))
    rule = hm.FeedForward(W1, W2, *((b1, b2) if biased else ()), activation=activation, gain=0.3)
    got = last(TOKENS, rule)
    for z, moved in zip(TOKENS, got, strict=True):
        hidden = [FORMULAS[activation](sum(W1[r] * z) + b1[r]) for r in range(5)]
        expected = [z[r] + 0.3 * (sum(W2[r] * hidden) + b2[r]) for r in range(3)]
        np.testing.assert_allclose(moved, expected, rtol=1e-13)


def test_feed_forward_with_a_callable_and_at_random():
    rule = hm.FeedForward(np.eye(3), np.eye(3), activation=np.square)
    np.testing.assert_array_equal(last(TOKENS, rule), TOKENS + TOKENS**2)
    one, other = hm.FeedForward.random(3, width=7, seed=1), hm.FeedForward.random(3, width=7, seed=1)
    assert one.W1.shape == (7, 3)
    np.testing.assert_array_equal(one.W2, other.W2)
    assert np.abs(one.W1 - hm.FeedForward.random(3, width=7, seed=2).W1).max() > 0.1


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_normalized_tokens_have_mean_square_one(kind):
    got = last(TOKENS * [[1e-2], [1], [1e6], [3], [-2], [1e100]], hm.Normalize(kind))
    np.testing.assert_allclose((got**2).mean(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose((got[1:] ** 2).mean(axis=1), 1, rtol=1e-10)
    if kind == "layer":
        np.testing.assert_allclose(got.mean(axis=1), 0, atol=1e-14)
        expected = TOKENS[1] - TOKENS[1].mean()
    else:
        expected = TOKENS[1]
    np.testing.assert_allclose(got[1], expected / np.sqrt((expected**2).mean()), rtol=1e-9)
    assert last([[0.0, 0.0]], hm.Normalize(kind)).tolist() == [[0.0, 0.0]]


# Squares of tokens beyond 1e154 overflow; the normalised token must not silently be zero.
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_huge_tokens_are_normalized_too(kind):
    np.testing.assert_allclose((last(TOKENS * 1e200, hm.Normalize(kind)) ** 2).mean(axis=1), 1, rtol=1e-12)
    single = (TOKENS * 1e25).astype(np.float32)
    np.testing.assert_allclose((last(single, hm.Normalize(kind)) ** 2).mean(axis=1), 1, rtol=1e-5)


# Compositions


def test_compose_applies_its_parts_in_turn():
    parts = [hm.Softmax(0.5), hm.FeedForward.random(3, gain=0.1), hm.Hardmax(1), hm.Normalize("layer")]
    run = hm.simulate(TOKENS, hm.Compose(parts), layers=3)
    now = TOKENS
    for k in range(3):
        for part in parts:
            now = last(now, part)
        np.testing.assert_allclose(run.tokens[k + 1], now, rtol=1e-12)
    backwards = last(TOKENS, hm.Compose(parts[::-1]), 3)
    assert np.abs(backwards - now).max() > 1e-3


def test_compose_gives_each_part_its_layer():
    rule = hm.Compose([hm.Softmax([0.1, 3]), hm.Softmax([2, 0.5])])
    now = TOKENS
    for first, second in [(0.1, 2), (3, 0.5), (3, 0.5)]:
        now = softmax_layer(softmax_layer(now, first), second)
    np.testing.assert_allclose(last(TOKENS, rule, 3), now, rtol=1e-12)


def test_flows_take_euler_steps_among_layers():
    V, dt = RNG.normal(size=(3, 3)), 0.25
    rule = hm.Compose([hm.SelfAttention(ANY_A, None, lambda t: np.cos(t) * V), hm.Normalize("rms")], dt=dt)
    now = TOKENS
    for k in range(3):
        now = now + dt * (weights(now, ANY_A) @ now) @ (np.cos(k * dt) * V).T
        now = now / np.sqrt((now**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(last(TOKENS, rule, 3), now, rtol=0, atol=1e-11)


def test_attention_of_a_composition_is_that_of_its_first_attending_part():
    mlp, soft = hm.FeedForward.random(3), hm.Softmax(0.5, temperature=0.4)
    run = hm.simulate(TOKENS, hm.Compose([mlp, soft, hm.Hardmax(1)]), layers=1)
    np.testing.assert_allclose(run.attention(0), weights(last(TOKENS, mlp), temperature=0.4), rtol=1e-12)


# A flow in layer k moves at time k dt, and its attention is to be read off at that time too.
def test_attention_of_a_flow_in_a_composition_is_taken_at_its_time():
    flow = hm.SelfAttention(Q=lambda t: (1 + t) * np.eye(3))
    run = hm.simulate(TOKENS, hm.Compose([flow], dt=0.1), layers=5)
    np.testing.assert_allclose(run.attention(5), weights(run.tokens[5], 1.5 * np.eye(3)), rtol=1e-12)


@pytest.mark.parametrize("rule", [hm.FeedForward.random(3), hm.Normalize(), hm.Compose([hm.Normalize()])], ids=repr)
def test_no_attention_where_tokens_move_by_themselves(rule):
    run = hm.simulate(TOKENS, rule, layers=1)
    with pytest.raises(
        ValueError, match=r"`attention` must belong to a rule in which tokens attend.*each moves by itself. Compose"
    ):
        run.attention(0)
    assert run.leaders.tolist() == []
    assert "eader" not in run.status


def test_overflow_in_layers_is_said():
    run = hm.simulate(TOKENS, hm.FeedForward(np.eye(3) * 1e60, np.eye(3) * 1e60), layers=5)
    assert run.reached == 3
    assert not np.isfinite(run.tokens[3]).all()
    assert run.status.endswith("Tokens leave the range of float64 from layer 3 on.")
    assert hm.simulate(TOKENS, hm.Softmax(1, normalize="none"), layers=2000, save="last").reached == 0


# Hardmax inside a composition meets tokens that have overflowed: a sentence in the status, no crash.
def test_overflow_before_a_hardmax_part_is_said():
    mlp = hm.FeedForward(np.eye(3) * 1e100, np.eye(3) * 1e100)
    run = hm.simulate(TOKENS, hm.Compose([mlp, hm.Hardmax(1)]), layers=4)
    assert "Tokens leave the range of float64 from layer" in run.status


# Tokens whose distances overflow when squared still have clusters and a status.
def test_clusters_of_huge_tokens():
    near = np.array([[1.0, 0.0], [1.0, 1e-9], [-1.0, 0.5]]) * 1e160
    run = hm.simulate(near, hm.Normalize("rms"), layers=0)
    assert run.clusters.tolist() == [0, 0, 1]
    assert "2 clusters" in run.status


# Heads


def test_heads_on_their_own_coordinates_are_independent():
    rng = np.random.default_rng(5)
    tokens, A = rng.normal(size=(7, 6)), np.diag([1.0, 2.0])
    heads = [hm.Softmax(0.5, A), hm.Hardmax(1), hm.Softmax(2, rng.normal(size=(1, 1)))]
    run = hm.simulate(tokens, hm.MultiHead(heads), layers=4)
    columns = [slice(0, 2), slice(2, 5), slice(5, 6)]  # 2 and 1 from the matrices, what is left for the other
    for h, (head, part) in enumerate(zip(heads, columns, strict=True)):
        alone = hm.simulate(tokens[:, part], head, layers=4)
        np.testing.assert_array_equal(run.tokens[..., part], alone.tokens)
        np.testing.assert_array_equal(run.attention(2)[h], alone.attention(2))
        np.testing.assert_array_equal(run.heads[h].tokens, alone.tokens)
    exact = run.heads[1]
    assert isinstance(exact, hm.HardmaxTrajectory)
    alone = hm.simulate(tokens[:, 2:5], heads[1], layers=4)
    assert (exact.exact(4) == alone.exact(4)).all()
    assert exact.emerged.tolist() == alone.emerged.tolist()
    leads = set(np.concatenate([head.leaders for head in run.heads]).tolist())
    assert leads >= set(run.leaders.tolist()) >= set(exact.leaders.tolist())


@pytest.mark.parametrize(
    "rule", [hm.MultiHead([hm.Hardmax(0.5), hm.Hardmax(0.2)]), hm.Compose([hm.Hardmax(0.5), hm.Normalize()])], ids=repr
)
def test_no_matrix_of_attention_is_made_for_the_sets_of_parts(rule):
    tokens = np.random.default_rng(0).normal(size=(4000, 4))
    hm.simulate(tokens[:500], rule, layers=1)  # what is loaded does not count
    tracemalloc.start()
    hm.simulate(tokens, rule, layers=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 4000**2 / 10


def test_heads_of_a_batch_with_padding():
    batch = np.full((2, 7, 4), np.nan)
    batch[0, :6], batch[1, 3:] = RNG.normal(size=(6, 4)), RNG.normal(size=(4, 4))
    mask = np.isfinite(batch).all(axis=-1)
    run = hm.simulate(batch, hm.MultiHead([hm.Hardmax(1), hm.Softmax(1)]), layers=3, mask=mask)
    assert run.attention(0).shape == (2, 2, 7, 7)
    for b in range(2):
        alone = hm.simulate(batch[b, mask[b]], hm.MultiHead([hm.Hardmax(1), hm.Softmax(1)]), layers=3)
        np.testing.assert_allclose(run[b].tokens[:, mask[b]], alone.tokens, rtol=1e-13)
        assert run[b].leaders.tolist() == np.flatnonzero(mask[b])[alone.leaders].tolist()
        assert run.leaders[b].tolist() == run[b].leaders.tolist()


@pytest.mark.parametrize("shares", [None, [0.2, -0.5, 1.5]])
def test_shared_layers_add_their_moves(shares):
    heads = [hm.Softmax(0.5), hm.Softmax(2, ANY_A), hm.Hardmax(1)]
    moves = [last(TOKENS, head) - TOKENS for head in heads]
    expected = TOKENS + sum(s * move for s, move in zip(shares or [1 / 3] * 3, moves, strict=True))
    run = hm.simulate(TOKENS, hm.MultiHead(heads, shared=True, shares=shares), layers=1)
    np.testing.assert_allclose(run.tokens[1], expected, rtol=0, atol=1e-14)
    assert run.heads == ()
    np.testing.assert_allclose(run.attention(0)[1], weights(TOKENS, ANY_A), rtol=1e-12)


@pytest.mark.parametrize("shares", [None, [0.2, 0.7]])
def test_shared_flows_add_their_velocities(shares):
    V = RNG.normal(size=(3, 3))
    rule = hm.MultiHead([hm.SelfAttention(V=V), hm.SelfAttention(ANY_A)], shared=True, shares=shares)
    first, second = shares or [1, 1]
    expected = first * weights(TOKENS) @ TOKENS @ V.T + second * weights(TOKENS, ANY_A) @ TOKENS
    np.testing.assert_allclose(rule.velocity(TOKENS, 0.0), expected, rtol=0, atol=1e-13)
    step = hm.simulate(TOKENS, rule, times=[0, 0.1], method="euler", dt=0.1)
    np.testing.assert_allclose(step.tokens[1], TOKENS + 0.1 * expected, rtol=0, atol=1e-14)
    assert step.attention(0).shape == (2, 6, 6)
    tight = hm.simulate(TOKENS, rule, times=[0, 0.5], rtol=1e-11, atol=1e-13)
    fixed = hm.simulate(TOKENS, rule, times=[0, 0.5], method="rk4", dt=0.005)
    np.testing.assert_allclose(tight.tokens, fixed.tokens, rtol=0, atol=1e-8)


def test_flows_on_their_own_coordinates():
    tokens = RNG.normal(size=(5, 4))
    heads = [hm.SelfAttention(), hm.SelfAttention(V=-np.eye(2))]
    run = hm.simulate(tokens, hm.MultiHead(heads), times=[0, 1, 2])
    for h, part in enumerate([slice(0, 2), slice(2, 4)]):
        alone = hm.simulate(tokens[:, part], heads[h], times=[0, 1, 2])
        np.testing.assert_array_equal(run.tokens[..., part], alone.tokens)
        np.testing.assert_array_equal(run.heads[h].rescaled, alone.rescaled)
        np.testing.assert_array_equal(run.attention(1)[h], alone.attention(1))


def test_failure_of_one_head_is_said():
    broken = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 0.5 else 1))
    run = hm.simulate(RNG.normal(size=(4, 4)), hm.MultiHead([hm.SelfAttention(), broken]), times=[0, 0.1, 2])
    assert "The integrator stopped at t = " in run.status
    assert run.reached == 2


def test_nested_heads_on_their_own_coordinates():
    tokens = RNG.normal(size=(5, 8))
    inner = hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])
    run = hm.simulate(tokens, hm.MultiHead([inner, hm.Softmax(3)]), layers=2)
    for part, alpha in [(slice(0, 2), 1), (slice(2, 4), 2), (slice(4, 8), 3)]:
        np.testing.assert_allclose(
            run.tokens[..., part], hm.simulate(tokens[:, part], hm.Softmax(alpha), layers=2).tokens
        )


# Heads within heads have attention matrices of different numbers of axes; leaders and status must still come.
@pytest.mark.parametrize("shared", [False, True])
def test_leaders_of_nested_heads(shared):
    tokens = RNG.normal(size=(5, 8))
    inner = hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])
    for rule in (hm.MultiHead([inner, hm.Softmax(3)], shared=shared), hm.MultiHead([inner, inner], shared=shared)):
        run = hm.simulate(tokens, rule, layers=1)
        assert run.status.startswith("Ran 1 layer on 5 tokens of dimension 8.")
        assert set(run.leaders.tolist()) <= set(range(5))


def test_composition_as_a_head():
    block = hm.Compose([hm.Softmax(1), hm.Normalize()])
    tokens = RNG.normal(size=(5, 4))
    run = hm.simulate(tokens, hm.MultiHead([block, block]), layers=2)
    np.testing.assert_array_equal(run.tokens[..., 2:], hm.simulate(tokens[:, 2:], block, layers=2).tokens)
    np.testing.assert_allclose(run.attention(0)[0], weights(tokens[:, :2]), rtol=1e-12)


# Sentences

BAD = {
    "temperature zero": (
        lambda: hm.Softmax(1, temperature=0),
        "`temperature` must be a positive finite number. Got 0.",
    ),
    "temperature negative": (lambda: hm.Softmax(1, temperature=-1.0), "positive finite number. Got -1.0. Small values"),
    "temperature nan": (lambda: hm.Softmax(1, temperature=np.nan), "positive finite number. Got nan. Small values"),
    "temperature infinite": (lambda: hm.Softmax(1, temperature=np.inf), "positive finite number. Got inf."),
    "temperature too small": (lambda: hm.Softmax(1, temperature=1e-310), "positive finite number. Got 1e-310."),
    "temperature text": (lambda: hm.Softmax(1, temperature="cold"), "positive finite number. Got 'cold'."),
    "temperature none": (lambda: hm.Softmax(1, temperature=None), "positive finite number. Got None."),
    "temperature two": (lambda: hm.Softmax(1, temperature=[1, 2]), "positive finite number. Got [1, 2]."),
    "temperature complex": (lambda: hm.Softmax(1, temperature=1j), "positive finite number. Got 1j."),
    "temperature true": (lambda: hm.Softmax(1, temperature=True), "positive finite number. Got True."),
    "alpha": (
        lambda: hm.Softmax(-1),
        "`alpha` must be a positive finite number, or a sequence of such, one per",
    ),
    "alphas": (lambda: hm.Softmax([]), "`alpha` must hold at least one value. Got an empty sequence."),
    "A not square": (lambda: hm.Softmax(1, np.ones((2, 3))), "`A` must be a square matrix. Got shape (2, 3). Pass an"),
    "A nan": (
        lambda: hm.Softmax(1, [[np.nan]]),
        "`A` must hold finite real numbers. Got NaN or infinite ones.",
    ),
    "A ragged": (
        lambda: hm.Softmax(1, [[1, 2], [3]]),
        "`A` must be a matrix. Got rows of different lengths. Fill them",
    ),
    "A text": (lambda: hm.Softmax(1, [["a"]]), "`A` must hold finite real numbers. Got <U1. Convert it to floats."),
    "A empty": (lambda: hm.Softmax(1, np.empty((0, 0))), "`A` must be a square matrix. Got shape (0, 0)."),
    "normalize": (
        lambda: hm.Softmax(1, normalize="batch"),
        "`normalize` must be one of 'none', 'rescaling', 'rms', 'layer' (True is 'rescaling', False is 'none'). "
        "Got 'batch'. The papers use 'rescaling'.",
    ),
    "kind": (lambda: hm.Normalize("rescaling"), '`kind` must be "rms" or "layer". Got \'rescaling\'. "layer" also'),
    "W1 vector": (lambda: hm.FeedForward([1.0], EYE), "`W1` must be a matrix. Got shape (1,). Pass an array with two"),
    "W1 and W2": (
        lambda: hm.FeedForward(np.ones((3, 2)), np.ones((3, 2))),
        "`W1` and `W2` must have shapes (width, d) and (d, width). Got (3, 2) and (3, 2). Transpose one",
    ),
    "W2 infinite": (
        lambda: hm.FeedForward(EYE, np.full((2, 2), np.inf)),
        "`W2` must hold finite real numbers. Got NaN or infinite",
    ),
    "b1": (lambda: hm.FeedForward(EYE, EYE, [1, 2, 3]), "`b1` must have shape (2,). Got shape (3,). Pass one number"),
    "b2": (lambda: hm.FeedForward(EYE, EYE, None, [1]), "`b2` must have shape (2,). Got shape (1,). Pass one number"),
    "b1 nan": (lambda: hm.FeedForward(EYE, EYE, [1, np.nan]), "`b1` must hold finite real numbers. Got NaN"),
    "activation": (
        lambda: hm.FeedForward(EYE, EYE, activation="swish"),
        "`activation` must be one of relu, tanh, gelu, or a callable. Got 'swish'. The papers use relu.",
    ),
    "random d": (lambda: hm.FeedForward.random(0), "`d` must be an integer of at least 1. Got 0."),
    "no parts": (
        lambda: hm.Compose([]),
        "`parts` must be a list of rules, at least one. Got []. Try [hm.Softmax(0.5)].",
    ),
    "no rule": (lambda: hm.Compose([hm.Softmax(1), 3]), "`parts` must be a list of rules, at least one. Got 3. Try"),
    "no list": (
        lambda: hm.Compose(hm.Softmax(1)),
        "`parts` must be a list of rules, at least one. Got Softmax(alpha=1).",
    ),
    "dt of compose": (
        lambda: hm.Compose([hm.Softmax(1)], dt=0),
        "`dt` must be a positive finite number. Got 0. 1 is the",
    ),
    "sizes of parts": (
        lambda: hm.Compose([hm.Softmax(1, EYE), hm.FeedForward.random(3)]),
        "`parts` must have matrices of one dimension. Got [2, 3]. Change the matrices.",
    ),
    "no heads": (
        lambda: hm.MultiHead([]),
        "`heads` must be a list of rules, at least one. Got [].",
    ),
    "head no rule": (lambda: hm.MultiHead([0.5]), "`heads` must be a list of rules, at least one. Got 0.5. Try"),
    "layers and flows": (
        lambda: hm.MultiHead([hm.Softmax(1), hm.SelfAttention()]),
        "`heads` must all have layers, or all be in continuous time. Got both. To take Euler steps",
    ),
    "head by itself": (
        lambda: hm.MultiHead([hm.Softmax(1), hm.Normalize()]),
        "`heads` must be rules in which tokens attend to each other. Got one in which each moves by itself. Compose",
    ),
    "shares alone": (
        lambda: hm.MultiHead([hm.Softmax(1)], shares=[1]),
        "`shares` must go with `shared=True`. Got it without. Leave it out.",
    ),
    "shares": (
        lambda: hm.MultiHead([hm.Softmax(1)], shared=True, shares=[1, 2]),
        "`shares` must have shape (1,). Got shape (2,).",
    ),
    "shared sizes": (
        lambda: hm.MultiHead([hm.Softmax(1, EYE), hm.Softmax(1, ANY_A)], shared=True),
        "`heads` must have matrices of one size with `shared=True`. Got sizes [2, 3]. Use `shared=False`",
    ),
    "heads do not split": (
        lambda: last(TOKENS, hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])),
        "Tokens of dimension 3 must split into 2 heads: 3 coordinates are left for 2 heads of no size of their own.",
    ),
    "heads want more": (
        lambda: last(TOKENS, hm.MultiHead([hm.Softmax(1, EYE), hm.Softmax(2, EYE)])),
        "with d = 4, the size of the rule's matrices. Got (6, 3). Use tokens of dimension 4, or other matrices.",
    ),
    "dimension of A": (
        lambda: last(TOKENS, hm.Softmax(1, EYE)),
        "with d = 2, the size of the rule's matrices. Got (6, 3).",
    ),
    "times for layers": (
        lambda: hm.simulate(TOKENS, hm.Softmax(1), times=[0, 1]),
        "`layers` must be given: Softmax moves tokens by layers. Got `times`. Pass `layers=30`.",
    ),
    "both": (
        lambda: hm.simulate(TOKENS, hm.Hardmax(1), layers=1, times=3),
        "`layers` must be given: Hardmax moves tokens by layers. Got `times`. Pass `layers=30`.",
    ),
    "no layers": (
        lambda: hm.simulate(TOKENS, hm.Softmax(1)),
        "`layers` must be an integer of at least 0. Got None.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


# These come with the words of NumPy or Python, or not at all.
UNSAID = {
    "A complex": (
        lambda: hm.Softmax(1, [[1j]]),
        "`A` must hold finite real numbers. Got complex128. Convert it to floats.",
    ),
    "temperature callable": (lambda: hm.Softmax(1, temperature=len), "`temperature` must be a positive finite number."),
    "temperature ragged": (lambda: hm.Softmax(1, temperature=[1, [2, 3]]), "`temperature` must be a positive finite"),
    "b1 ragged": (lambda: hm.FeedForward(EYE, EYE, [[1], [1, 2]]), "`b1` must have shape (2,)."),
    "gain nan": (lambda: hm.FeedForward(EYE, EYE, gain=np.nan), "`gain` must be"),
    "gain text": (lambda: hm.FeedForward(EYE, EYE, gain="much"), "`gain` must be"),
    "normalize list": (lambda: hm.Softmax(1, normalize=[]), "`normalize` must be one of"),
    "activation list": (lambda: hm.FeedForward(EYE, EYE, activation=[]), "`activation` must be one of"),
}


@pytest.mark.parametrize("name", UNSAID)
def test_stranger_input_gets_a_sentence_too(name):
    call, sentence = UNSAID[name]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


# A Fraction passes the check of a temperature and must then work.
def test_numbers_of_any_kind():
    expected = last(TOKENS, hm.Softmax(0.5, temperature=0.25))
    for temperature in (Fraction(1, 4), np.float32(0.25), np.array(0.25)):
        np.testing.assert_array_equal(last(TOKENS, hm.Softmax(Fraction(1, 2), temperature=temperature)), expected)


def test_rules_print_what_they_are():
    assert repr(hm.Softmax(0.5, temperature=0.1)) == "Softmax(alpha=0.5, temperature=0.1)"
    assert repr(hm.Softmax(0.5, EYE)) == "Softmax(alpha=0.5, A=[[1.0, 0.0], [0.0, 1.0]])"
    assert repr(hm.FeedForward.random(2)) == "FeedForward(W1=8 by 2, W2=2 by 8)"
    assert repr(hm.Normalize("layer")) == "Normalize(kind='layer')"
    assert repr(hm.MultiHead([hm.Softmax(1)])) == "MultiHead(heads=(Softmax(alpha=1),))"


def test_rules_cannot_be_changed():
    rule = hm.Softmax(0.5, EYE)
    with pytest.raises(AttributeError):
        rule.alpha = 1
    with pytest.raises(ValueError, match="read-only"):
        rule.A[0, 0] = 5
    EYE[0, 0] = 7  # the rule has a copy
    try:
        assert rule.A[0, 0] == 1
    finally:
        EYE[0, 0] = 1


@pytest.mark.parametrize("kind", ["array", "batch", "masked", "tensor"])
@pytest.mark.parametrize("shared", [False, True])
def test_compositions_of_hardmax_make_no_attention_matrix(kind, shared, monkeypatch):
    tokens = np.random.default_rng(0).normal(size=(2, 12, 4))
    tokens[0, 3] = tokens[0, 4]
    mask = np.arange(12) < np.array([[12], [7]]) if kind == "masked" else None
    real = np.ones((2, 12), bool) if mask is None else mask
    given = tokens[0] if kind == "array" else tokens
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        given = torch.tensor(tokens, requires_grad=True)
    head = hm.Hardmax(0.5)
    P = head.attention(tokens, 0, real[:, None, :])
    expected = tokens + (P @ tokens - tokens) / 3
    rule = hm.MultiHead([head, head], shared=True) if shared else head
    monkeypatch.setattr(hm.Hardmax, "attention", lambda *given: pytest.fail("n by n numbers"))
    run = hm.simulate(given, hm.Compose([rule]), layers=1, mask=mask)
    found = run.array[1] if kind != "array" else run.array[1][None]
    np.testing.assert_allclose(found[real[: len(found)]], expected[: len(found)][real[: len(found)]], atol=1e-15)
    if kind == "tensor":
        (run.tokens[-1] ** 2).sum().backward()
        slope = 2 * (2 / 3 * expected + np.swapaxes(P, -1, -2) @ expected / 3)
        np.testing.assert_allclose(given.grad.numpy(), slope, atol=1e-14)


class Shrink(hm.rules.Layered):
    """A rule without dataclass fields, as in the documentation of `Layered`."""

    def attention(self, tokens, at, keys=None):
        return np.broadcast_to(np.eye(tokens.shape[-2]), (*tokens.shape[:-1], tokens.shape[-2]))

    def layer(self, tokens, k, keys=None):
        return tokens / 2


def test_a_custom_rule_prints_and_its_trajectory_is_written_without_its_code(tmp_path):
    assert repr(Shrink()) == "Shrink()"
    trajectory = hm.simulate(TOKENS, Shrink(), layers=2)
    assert trajectory.status
    trajectory.to_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match=r"`rule` must be given: .* Got none for Shrink\(\)\. Pass"):
        hm.Trajectory.from_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match=r"`rule` must be a Shrink, as in the file\. Got Softmax"):
        hm.Trajectory.from_npz(tmp_path / "run.npz", rule=hm.Softmax(1))
    again = hm.Trajectory.from_npz(tmp_path / "run.npz", rule=Shrink())
    assert (again.status, again.to_json()) == (trajectory.status, trajectory.to_json())
    np.testing.assert_array_equal(again.tokens, trajectory.tokens)


def test_a_custom_rule_with_the_name_of_a_rule_is_custom(tmp_path):
    namesake = type("Softmax", (Shrink,), {})
    hm.simulate(TOKENS, namesake(), layers=2).to_npz(tmp_path / "run.npz")
    assert type(hm.Trajectory.from_npz(tmp_path / "run.npz", rule=namesake()).rule) is namesake


def test_a_rule_that_the_file_has_is_not_given_again(tmp_path):
    hm.simulate(TOKENS, hm.Softmax(1), layers=1).to_npz(tmp_path / "run.npz")
    with pytest.raises(hm.ParameterError, match=r"`rule` must be left out where the file has the rule"):
        hm.Trajectory.from_npz(tmp_path / "run.npz", rule=hm.Softmax(1))
