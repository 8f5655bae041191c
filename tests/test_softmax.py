"""Softmax layers against loops, at every temperature, and in batches with padding."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import expm
from scipy.optimize import linprog

import hardmax as hm
from tests.problems.softmax import ANY_A, RNG, TOKENS, last, softmax_layer, weights

pytestmark = pytest.mark.quick


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


def test_progress_is_called_for_each_layer():
    calls = []
    hm.simulate(TOKENS, hm.Softmax(0.5), layers=3, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


# A Fraction passes the check of a temperature and must then work.
def test_numbers_of_any_kind():
    expected = last(TOKENS, hm.Softmax(0.5, temperature=0.25))
    for temperature in (Fraction(1, 4), np.float32(0.25), np.array(0.25)):
        np.testing.assert_array_equal(last(TOKENS, hm.Softmax(Fraction(1, 2), temperature=temperature)), expected)
