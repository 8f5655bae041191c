"""Feed-forward parts and norms against their formulas."""

import math

import numpy as np
import pytest

import hardmax as hm
from tests.problems.softmax import TOKENS, last

pytestmark = pytest.mark.quick

FORMULAS = {
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}


@pytest.mark.parametrize("activation", FORMULAS)
@pytest.mark.parametrize("biased", [False, True])
def test_feed_forward_does_what_its_formula_says(activation, biased):
    rng = np.random.default_rng(3)
    W1, W2, b1, b2 = (
        rng.normal(size=(5, 3)),
        rng.normal(size=(3, 5)),
        rng.normal(size=5),
        rng.normal(size=3),
    )
    b1, b2 = (b1, b2) if biased else (np.zeros(5), np.zeros(3))
    rule = hm.FeedForward(
        W1, W2, *((b1, b2) if biased else ()), activation=activation, gain=0.3
    )
    got = last(TOKENS, rule)
    for z, moved in zip(TOKENS, got, strict=True):
        hidden = [FORMULAS[activation](sum(W1[r] * z) + b1[r]) for r in range(5)]
        expected = [z[r] + 0.3 * (sum(W2[r] * hidden) + b2[r]) for r in range(3)]
        np.testing.assert_allclose(moved, expected, rtol=1e-13)


def test_feed_forward_with_a_callable_and_at_random():
    rule = hm.FeedForward(np.eye(3), np.eye(3), activation=np.square)
    np.testing.assert_array_equal(last(TOKENS, rule), TOKENS + TOKENS**2)
    one, other = (
        hm.FeedForward.random(3, width=7, seed=1),
        hm.FeedForward.random(3, width=7, seed=1),
    )
    assert one.W1.shape == (7, 3)
    np.testing.assert_array_equal(one.W2, other.W2)
    assert np.abs(one.W1 - hm.FeedForward.random(3, width=7, seed=2).W1).max() > 0.1


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_normalized_tokens_have_mean_square_one(kind):
    got = last(
        TOKENS * [[1e-2], [1], [1e6], [3], [1e200], [1e100]], hm.Normalize(kind)
    )  # squares may overflow
    np.testing.assert_allclose((got**2).mean(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose((got[1:] ** 2).mean(axis=1), 1, rtol=1e-10)
    single = last((TOKENS * 1e25).astype(np.float32), hm.Normalize(kind))
    np.testing.assert_allclose((single**2).mean(axis=1), 1, rtol=1e-5)
    if kind == "layer":
        np.testing.assert_allclose(got.mean(axis=1), 0, atol=1e-14)
        expected = TOKENS[1] - TOKENS[1].mean()
    else:
        expected = TOKENS[1]
    np.testing.assert_allclose(
        got[1], expected / np.sqrt((expected**2).mean()), rtol=1e-9
    )
    assert last([[0.0, 0.0]], hm.Normalize(kind)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    "rule",
    [hm.FeedForward.random(3), hm.Normalize(), hm.Compose([hm.Normalize()])],
    ids=repr,
)
def test_no_attention_where_tokens_move_by_themselves(rule):
    run = hm.simulate(TOKENS, rule, layers=1)
    with pytest.raises(ValueError, match="`attention`"):
        run.attention(0)
    assert run.leaders.tolist() == []
    assert "eader" not in run.status


def test_the_status_reports_overflow_in_layers():
    run = hm.simulate(
        TOKENS, hm.FeedForward(np.eye(3) * 1e60, np.eye(3) * 1e60), layers=5
    )
    assert run.reached == 3
    assert not np.isfinite(run.tokens[3]).all()
    assert run.status.endswith("Tokens leave the range of float64 from layer 3 on.")
    assert (
        hm.simulate(
            TOKENS, hm.Softmax(1, normalize="none"), layers=2000, save="last"
        ).reached
        == 0
    )


# Tokens whose distances overflow when squared still have clusters and a status.
def test_clusters_of_huge_tokens():
    near = np.array([[1.0, 0.0], [1.0, 1e-9], [-1.0, 0.5]]) * 1e160
    run = hm.simulate(near, hm.Normalize("rms"), layers=0)
    assert run.clusters.tolist() == [0, 0, 1]
    assert "2 clusters" in run.status
