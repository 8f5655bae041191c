"""Softmax layers against loops, at every temperature; means under softmax without the
whole matrix.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

import hardmax as hm
from hardmax.rules.scores import Scores
from tests.memory import peak_of
from tests.problems.softmax import ANY_A, TOKENS, last, softmax_layer, weights

pytestmark = [pytest.mark.quick, pytest.mark.portable]


@pytest.mark.parametrize("normalize", ["rescaling", "none", "rms", "layer"])
@pytest.mark.parametrize("A", [None, ANY_A], ids=["identity", "any"])
@pytest.mark.parametrize("causal", [False, True])
def test_softmax_does_what_its_formula_says(normalize, A, causal):
    rule = hm.Softmax(
        [0.5, 2, 0.1], A, temperature=0.7, normalize=normalize, causal=causal
    )
    run = hm.simulate(TOKENS, rule, layers=5)
    now = TOKENS
    for k, alpha in enumerate([0.5, 2, 0.1, 0.1, 0.1]):  # the last step continues
        np.testing.assert_allclose(
            run.attention(k), weights(now, A, 0.7, causal), rtol=0, atol=1e-10
        )
        now = softmax_layer(now, alpha, A, 0.7, normalize, causal)
        np.testing.assert_allclose(run.tokens[k + 1], now, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("same", "name"), [(True, "rescaling"), (False, "none"), (None, "none")]
)
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
    logs = [
        np.log(np.abs(last(tokens, hm.Softmax(0.5, A, temperature=1 / x)) - hard).max())
        for x in inverse
    ]
    slope = np.polyfit(inverse, logs, 1)[0]
    assert slope == pytest.approx(-gap, rel=0.03)


def test_softmax_at_the_ends_of_the_temperatures():
    cold = hm.simulate(TOKENS, hm.Softmax(0.5, temperature=1e-300), layers=3)
    hard = hm.simulate(TOKENS, hm.Hardmax(0.5), layers=3)
    np.testing.assert_allclose(cold.tokens, hard.tokens, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(cold.attention(2), hard.attention(2))
    hot = last(TOKENS, hm.Softmax(1, temperature=1e300))
    np.testing.assert_allclose(
        hot, (TOKENS + TOKENS.mean(axis=0)) / 2, rtol=0, atol=1e-15
    )


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_softmax_of_huge_and_tiny_tokens(scale):
    run = hm.simulate(TOKENS * scale, hm.Softmax(0.5), layers=3)
    assert run.reached == 4
    expected = hm.simulate(
        TOKENS, hm.Softmax(0.5, temperature=1 / scale**2), layers=3
    ).tokens
    np.testing.assert_allclose(run.tokens, expected * scale, rtol=1e-12)
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-14)


# Products of tokens, and 1/temperature, may leave the range of the dtype although the
# tokens stay in their hull.
@pytest.mark.parametrize(
    ("scale", "dtype", "temperature"),
    [(1e200, np.float64, 1.0), (1e25, np.float32, 1.0), (1, np.float32, 1e-40)],
)
def test_softmax_of_scores_that_overflow(scale, dtype, temperature):
    tokens = (TOKENS * scale).astype(dtype)
    run = hm.simulate(tokens, hm.Softmax(0.5, temperature=temperature), layers=2)
    assert run.tokens.dtype == dtype
    expected = hm.simulate(tokens, hm.Hardmax(0.5), layers=2).tokens
    np.testing.assert_allclose(run.tokens, expected, rtol=1e-5, atol=1e-6 * scale)


shapes = st.tuples(st.integers(1, 7), st.integers(1, 3))
token_sets = shapes.flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-3, 3))
)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    token_sets,
    st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    st.sampled_from([0.1, 1.0, 5.0]),
)
def test_rows_sum_to_one_and_rescaled_tokens_stay_in_the_hull(
    tokens, temperature, alpha
):
    run = hm.simulate(tokens, hm.Softmax(alpha, temperature=temperature), layers=2)
    for k in range(3):
        P = run.attention(k)
        assert (P >= 0).all()
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)
    sides = np.vstack([tokens.T, np.ones(len(tokens))])
    for z in run.tokens[-1]:
        assert (
            linprog(
                np.zeros(len(tokens)), A_eq=sides, b_eq=[*z, 1], method="highs"
            ).status
            == 0
        )


def test_one_token_and_one_dimension():
    assert last([[3.0]], hm.Softmax(0.5), 4).tolist() == [[3.0]]
    assert last([[3.0]], hm.Softmax(1, normalize="none"), 4).tolist() == [[48.0]]
    assert last([[3.0], [-3.0]], hm.Normalize("layer")).tolist() == [[0.0], [0.0]]


def test_save_last_and_no_layers():
    rule = hm.Softmax(0.5)
    whole, end = (
        hm.simulate(TOKENS, rule, layers=4),
        hm.simulate(TOKENS, rule, layers=4, save="last"),
    )
    assert end.tokens.shape == (1, 6, 3)
    assert end.saved.tolist() == [4]
    np.testing.assert_array_equal(end.tokens[0], whole.tokens[4])
    np.testing.assert_array_equal(end.attention(), whole.attention(4))
    none = hm.simulate(TOKENS, rule, layers=0)
    np.testing.assert_array_equal(none.tokens, TOKENS[None])
    assert none.status.startswith("Ran 0 layers on 6 tokens of dimension 3.")


# A Fraction passes the check of a temperature and must then work.
def test_numbers_of_any_kind():
    expected = last(TOKENS, hm.Softmax(0.5, temperature=0.25))
    for temperature in (Fraction(1, 4), np.float32(0.25), np.array(0.25)):
        np.testing.assert_array_equal(
            last(TOKENS, hm.Softmax(Fraction(1, 2), temperature=temperature)), expected
        )


# Means in blocks of rows

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, 5, 181, 182, 200, 700])
@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0, 1e9, 1e300])
def test_means_are_those_of_the_whole_matrix(n, scale):
    q, k, v = (RANDOM.standard_normal((n, 3)) for _ in range(3))
    expected = Scores(q, k, scale).matrix() @ v
    np.testing.assert_allclose(
        Scores(q, k, scale).means(v), expected, rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("shape", [(1, 300), (300, 300), (2, 1, 300), (2, 300, 300)])
def test_hidden_keys_have_no_part_in_means(shape):
    q, v = RANDOM.standard_normal((2, 300, 2)), RANDOM.standard_normal((2, 300, 2))
    seen = RANDOM.random(shape) < 0.5
    seen[..., -1, :] = (
        len(shape) == 2 and shape[0] == 1
    )  # a row that sees no key, or all keys
    whole = np.broadcast_to(seen, (2, 300, 300)).copy()
    expected = Scores(q, q, 2.0, whole).matrix() @ v
    found = Scores(q, q, 2.0, seen).means(v)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    if len(shape) == 2:
        np.testing.assert_array_equal(
            Scores(q[0], q[0], 2.0, seen).means(v[0]), found[0]
        )


@pytest.mark.parametrize("n", [20, 400])
def test_means_of_a_batch_are_those_of_its_elements(n):
    q = RANDOM.standard_normal((3, n, 4))
    scale = np.array([1.0, 5.0, 70.0])[:, None, None]
    together = Scores(q, q, scale).means(q)
    for b in range(3):
        np.testing.assert_array_equal(
            together[b], Scores(q[b], q[b], scale[b]).means(q[b])
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_means_of_narrow_floats_keep_their_type(dtype):
    q = RANDOM.standard_normal((300, 2)).astype(dtype)
    found = Scores(q, q, 10.0).means(q)
    assert found.dtype == dtype
    double = q.astype(float)
    wide = Scores(double, double, 10.0).matrix() @ double
    np.testing.assert_allclose(found, wide, atol=200 * np.finfo(dtype).eps)


def test_nan_stays_visible_in_means():
    q = RANDOM.standard_normal((500, 2))
    q[3, 0] = np.nan
    assert np.isnan(Scores(q, q).means(q)).all()  # every row sees it


PARTS = [
    hm.MultiHead([hm.Hardmax(0.5), hm.Hardmax(0.2)]),
    hm.Compose([hm.Hardmax(0.5), hm.Normalize()]),
]


@pytest.mark.parametrize(
    "rule", [hm.SelfAttention(), hm.Sphere(2.0), hm.Softmax(1.0), *PARTS], ids=repr
)
def test_many_tokens_need_no_attention_matrix(rule):
    tokens = hm.configuration("sphere", n=2000, d=4)
    how = {"times": [0, 0.1]} if rule.continuous else {"layers": 2}
    hm.simulate(tokens, rule, **how)  # what is loaded or compiled does not count
    assert peak_of(lambda: hm.simulate(tokens, rule, **how))[0] < 8 * 2000**2 / 10
