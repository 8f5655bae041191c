"""Causal masks: hardmax sets against exact loops over j <= i, and independence of later
tokens.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hardmax as hm
from tests.problems.oracle import definition, dot, positions_of, sets_of

pytestmark = [pytest.mark.quick, pytest.mark.portable]

LAYERS = 4
PROFILE = {"deadline": None, "derandomize": True, "max_examples": 60}
shapes = st.tuples(st.integers(1, 8), st.integers(1, 3))
lattices = shapes.flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-3, 3))
)
alphas = st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(5)])
TOKENS = np.random.default_rng(2).normal(size=(6, 2))


def define(tokens, alpha, A=None):
    return definition(tokens, alpha, layers=LAYERS, A=A, causal=True)


@settings(**PROFILE)
@given(
    lattices,
    alphas,
    arrays(np.int64, (3, 3), elements=st.integers(-2, 2)),
    st.booleans(),
)
def test_sets_are_those_of_the_definition(tokens, alpha, A, with_A):
    A = A[: tokens.shape[1], : tokens.shape[1]] if with_A else None
    truth = define(tokens, alpha, A)
    for options in ({}, {"exact": True}):
        run = hm.simulate(
            tokens,
            hm.Hardmax(alpha, A, any_A=True, causal=True, **options),
            layers=LAYERS,
        )
        for k, (positions, sets) in enumerate(
            zip(truth.positions, truth.sets, strict=True)
        ):
            assert sets_of(run, k) == sets
            np.testing.assert_allclose(
                run.tokens[k], np.array(positions, float), rtol=0, atol=1e-13
            )
            assert positions_of(run, k) == positions
            expected = np.zeros((len(tokens),) * 2)
            for i, members in enumerate(sets):
                expected[i, members] = 1 / len(members)
            np.testing.assert_allclose(run.attention(k), expected, rtol=1e-15)


@settings(**PROFILE)
@given(lattices, alphas)
def test_leaders_stay_leaders_and_the_first_token_never_moves(tokens, alpha):
    run, truth = (
        hm.simulate(tokens, hm.Hardmax(alpha, causal=True), layers=LAYERS),
        define(tokens, alpha),
    )
    assert run.emerged.tolist() == truth.emerged
    assert run.emerged[0] == 0
    assert 0 in run.leaders
    for i, first in enumerate(truth.emerged):
        if first >= 0:
            assert len({positions[i] for positions in truth.positions[first:]}) == 1
            assert len({tuple(row) for row in run.tokens[first:, i].tolist()}) == 1
            if truth.sets[first][i] == [i]:
                assert all(sets[i] == [i] for sets in truth.sets[first:])


@settings(**PROFILE)
@given(lattices, alphas)
def test_margins_are_the_leads_over_tokens_that_are_seen(tokens, alpha):
    run = hm.simulate(tokens, hm.Hardmax(alpha, causal=True), layers=LAYERS)
    truth = define(tokens, alpha)
    for k, (positions, sets) in enumerate(
        zip(truth.positions, truth.sets, strict=True)
    ):
        margins = run.margins(k)
        for i, members in enumerate(sets):
            products = [dot(positions[i], positions[j]) for j in range(i + 1)]
            others = [product for j, product in enumerate(products) if j not in members]
            if not others:
                assert margins[i] == np.inf
                continue
            lead = (
                float(max(products) - max(others))
                / float(dot(positions[i], positions[i])) ** 0.5
            )
            assert margins[i] > 0
            assert margins[i] == pytest.approx(lead, rel=1e-6)


def test_a_close_race_has_a_positive_margin():
    """A lead far below rounding, which only exact differences see, with a later token
    ahead of both.
    """
    tokens = np.array([[1.0, 0.0], [1.0, 2.0**-60], [1.0, 1.0], [3.0, 3.0]])
    run = hm.simulate(tokens, hm.Hardmax(1, causal=True), layers=0)
    assert sets_of(run, 0) == [[0], [1], [2], [3]]
    assert run.margins(0)[1] == pytest.approx(2.0**-120, rel=1e-6, abs=0)


def test_only_causal_statements_cover_a_causal_mask():
    run = hm.simulate(TOKENS, hm.Hardmax(1, causal=True), layers=3)
    assert [verdict.outcome for verdict in hm.theorems.check(run)] == ["holds"] * 3
    for statement in hm.theorems.STATEMENTS:
        assert "ttention is causal" in statement(run).reason
    for statement in hm.theorems.CAUSAL:
        assert (
            "ttention is not causal"
            in statement(hm.simulate(TOKENS, hm.Hardmax(1), layers=3)).reason
        )


# Later tokens change nothing, to the last bit

LATER = TOKENS.copy()
LATER[-1] = [50.0, -20.0]
NEAR_LATER = np.vstack([TOKENS[:-1], [[2.5, -1.0]]])
SPHERE = TOKENS / np.linalg.norm(TOKENS, axis=1, keepdims=True)
LATER_SPHERE = SPHERE.copy()
LATER_SPHERE[-1] = [0.6, -0.8]
Q, K, V = np.random.default_rng(3).normal(size=(3, 2, 2))
LAYERED = [
    hm.Hardmax(0.5, causal=True),
    hm.Hardmax(0.5, causal=True, exact=True),
    hm.Softmax(0.5, causal=True),
    hm.Softmax(0.5, V, temperature=0.1, causal=True, normalize="rms"),
    hm.Compose(
        [hm.Softmax(1, causal=True), hm.FeedForward.random(2), hm.Normalize("layer")]
    ),
    hm.Compose(
        [hm.Hardmax(1, causal=True), hm.SelfAttention(Q, K, V, causal=True)], dt=0.1
    ),
    hm.MultiHead([hm.Softmax(1, causal=True), hm.Hardmax(1, causal=True)], shared=True),
]
FLOWS = [
    hm.SelfAttention(Q, K, V, causal=True),
    hm.SelfAttention(V=lambda t: np.cos(t) * V, causal=True),
    hm.Sphere(3.0, causal=True),
    hm.Sphere(3.0, causal=True, normalized=False),
]


@pytest.mark.parametrize("rule", LAYERED, ids=repr)
def test_layers_do_not_see_later_tokens(rule):
    one, other = (hm.simulate(tokens, rule, layers=4) for tokens in (TOKENS, LATER))
    np.testing.assert_array_equal(one.tokens[:, :-1], other.tokens[:, :-1])
    assert (one.attention(0)[-1] != other.attention(0)[-1]).any()
    np.testing.assert_array_equal(
        one.attention(3)[..., :-1, :-1], other.attention(3)[..., :-1, :-1]
    )
    assert (one.attention(3)[..., :-1, -1] == 0).all()


@pytest.mark.parametrize("method", ["euler", "rk4", None])
@pytest.mark.parametrize("rule", FLOWS, ids=repr)
def test_flows_do_not_see_later_tokens(rule, method):
    pair = (
        (SPHERE, LATER_SPHERE) if isinstance(rule, hm.Sphere) else (TOKENS, NEAR_LATER)
    )
    options = (
        {"method": method, "dt": 0.1} if method else {"rtol": 1e-11, "atol": 1e-13}
    )
    one, other = (hm.simulate(tokens, rule, times=[0, 1], **options) for tokens in pair)
    close = {
        "rtol": 0,
        "atol": 0 if method else 1e-8,
    }  # adaptive steps depend on all tokens
    np.testing.assert_allclose(one.tokens[:, :-1], other.tokens[:, :-1], **close)
    np.testing.assert_allclose(one.drawn[:, :-1], other.drawn[:, :-1], **close)
    assert np.abs(one.tokens[1, -1] - other.tokens[1, -1]).max() > (
        0 if method else 1e-5
    )
    assert (one.attention(1)[:-1, -1] == 0).all()


@pytest.mark.parametrize("rule", LAYERED, ids=repr)
def test_padding_is_no_token(rule):
    padded = np.full((2, 8, 2), np.nan)
    padded[0, 1:7], padded[1, [0, 1, 3, 4, 5, 7]] = TOKENS, TOKENS[::-1]
    mask = np.isfinite(padded).all(axis=-1)
    run = hm.simulate(padded, rule, layers=3, mask=mask)
    for b, tokens in enumerate([TOKENS, TOKENS[::-1]]):
        alone = hm.simulate(tokens, rule, layers=3)
        close = {"rtol": 0 if isinstance(rule, hm.Hardmax) else 1e-11}
        np.testing.assert_allclose(run[b].tokens[:, mask[b]], alone.tokens, **close)
        if isinstance(rule, hm.Hardmax):
            np.testing.assert_array_equal(run[b].margins(2)[mask[b]], alone.margins(2))
    assert (
        run.attention(1)[0][..., 0, :] == 0
    ).all()  # padding before the first token, which sees no key
