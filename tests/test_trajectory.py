"""What a trajectory says: attention, followers, margins, norms, batches, masks, and its sentence."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import clouds, theory
from tests.problems.oracle import definition, sets_of

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind", ["gaussian", "duplicates", "zeros", "mirrored"])
def test_attention_is_uniform_on_the_sets_and_moves_the_tokens(kind):
    tokens = clouds.KINDS[kind](np.random.default_rng(0)).astype(float)
    run = hm.simulate(tokens, hm.Hardmax(0.5), layers=3)
    for k in range(4):
        P = run.attention(k)
        for i, members in enumerate(run.sets(k)):
            expected = np.zeros(len(tokens))
            expected[members] = 1 / len(members)
            np.testing.assert_allclose(P[i], expected, rtol=1e-15)
        assert np.array_equal(run.attention(k, sparse=True).toarray(), P)
        if k < 3:  # z + alpha P z over 1 + alpha
            np.testing.assert_allclose(run.tokens[k + 1], (run.tokens[k] + 0.5 * P @ run.tokens[k]) / 1.5, atol=1e-15)


def test_followers_of_each_token():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=1)
    assert {j: who.tolist() for j, who in run.followers(0).items()} == {0: [4], 1: [4], 2: [5], 3: [5]}


@pytest.mark.parametrize("A", [None, [[2.0, 1.0], [1.0, 3.0]]], ids=["identity", "matrix"])
@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300])
def test_margins_are_distances_to_the_next_best(A, scale):
    tokens = clouds.gaussian(np.random.default_rng(2), d=2)
    run = hm.simulate(tokens * scale, hm.Hardmax(0.5, A), layers=1)
    Q = tokens if A is None else tokens @ np.array(A)
    products = np.sort(Q @ tokens.T, axis=1)
    expected = (products[:, -1] - products[:, -2]) / np.linalg.norm(Q, axis=1)
    np.testing.assert_allclose(run.margins(0) / scale, expected, rtol=1e-9)


def test_margins_at_the_ends():
    assert hm.simulate([[2.0], [2.0]], hm.Hardmax(1), layers=0).margins().tolist() == [np.inf, np.inf]
    run = hm.simulate([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], hm.Hardmax(1), layers=0)
    assert run.margins(0).tolist() == [np.inf, 1, 1, 1]  # to the token at 0


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_margins_do_not_depend_on_the_size_of_a(scale):
    run = hm.simulate([[1.0, 2.0], [-3.0, 1.0]], hm.Hardmax(1, np.eye(2) * scale), layers=0)
    np.testing.assert_allclose(run.margins(0), [6 / 5**0.5, 11 / 10**0.5])


@pytest.mark.parametrize("name", ["norms", "margins"])
def test_norms_and_margins_beyond_the_range_of_floats(name):
    run = hm.simulate([[1.0, 0.0], [-2.0, 1.0]], hm.Hardmax(1, normalize=False), layers=1100)
    assert run.norms[-1].tolist() == [np.inf, np.inf] if name == "norms" else len(run.margins(-1)) == 2


def test_norms_are_those_of_a():
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    tokens = clouds.gaussian(np.random.default_rng(0), d=2)
    run = hm.simulate(tokens, hm.Hardmax(0.5, A), layers=2)
    np.testing.assert_allclose(run.norms[1], np.sqrt(np.einsum("ir,rs,is->i", run.tokens[1], A, run.tokens[1])))
    outside = hm.simulate(tokens, hm.Hardmax(0.5, -A, any_A=True), layers=0)
    np.testing.assert_allclose(outside.norms[0], np.linalg.norm(tokens, axis=1))
    huge = hm.simulate([[3e300, 4e300], [0.0, 0.0], [3e-300, 4e-300]], hm.Hardmax(0.5), layers=0)
    np.testing.assert_allclose(huge.norms[0], [5e300, 0, 5e-300])


def test_layers_count_from_both_ends():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=3)
    assert (len(run.saved), run.layers, run.n) == (4, 3, 6)
    assert (run.exact(-1) == run.exact(3)).all()
    for k in (4, -5):
        with pytest.raises(
            IndexError, match=rf"`k` must be a saved layer: layers 0 to 3. Got {k}. Simulate more layers"
        ):
            run.sets(k)
    last = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=3, save="last")
    with pytest.raises(IndexError, match="`k`"):
        last.attention(0)


def test_exact_positions_need_every_set():
    for options, rule in (({"save": "last"}, hm.Hardmax(1)), ({}, hm.Hardmax(1, ties=0.1))):
        run = hm.simulate(theory.SQUARE, rule, layers=2, **options)
        with pytest.raises(
            ValueError, match=r'Exact positions need every set: simulate with `ties="exact"` and `save="all"`'
        ):
            run.exact(-1)


def test_batch_is_its_clouds_one_by_one():
    rng = np.random.default_rng(0)
    batch = np.stack([clouds.lattice(rng, 9, 2), clouds.gaussian(rng, 9, 2), clouds.tiny(rng, 9, 2)])
    run = hm.simulate(batch, hm.Hardmax(0.5), layers=4)
    assert run.tokens.shape == (5, 3, 9, 2)
    assert run.attention(2).shape == (3, 9, 9)
    for b, cloud in enumerate(batch):
        alone = hm.simulate(cloud, hm.Hardmax(0.5), layers=4)
        assert np.array_equal(run.tokens[:, b], alone.tokens)
        assert np.array_equal(run[b].tokens, alone.tokens)
        assert all(sets_of(run[b], k) == sets_of(alone, k) for k in range(5))
        assert run.leaders[b].tolist() == alone.leaders.tolist()
        assert run.emerged[b].tolist() == alone.emerged.tolist()
        assert np.array_equal(run.attention(2)[b], alone.attention(2))
    assert run.status.startswith("Ran 4 layers on 3 token sets of up to 9 tokens of dimension 2. Every token is")


def test_a_batch_says_how_to_ask_one_cloud():
    run = hm.simulate(np.ones((2, 1, 1)), hm.Hardmax(1), layers=0)
    with pytest.raises(ValueError, match=r"be that of one token set. Got a batch. Use trajectory\[b\].sets\(k\)."):
        run.sets(0)
    with pytest.raises(TypeError, match="`trajectory`"):
        run[0][0]


@pytest.mark.parametrize("padding", [np.nan, np.inf, 1e300])
def test_padding_may_hold_anything_and_changes_nothing(padding):
    tokens = clouds.duplicates(np.random.default_rng(0), 8, 2)
    where = np.array([0, 2, 3, 5, 6, 7, 9, 10])
    padded = np.full((11, 2), padding)
    padded[where] = tokens
    mask = np.isin(np.arange(11), where)
    run, alone = (
        hm.simulate(padded, hm.Hardmax(0.5), layers=3, mask=mask),
        hm.simulate(tokens, hm.Hardmax(0.5), layers=3),
    )
    assert np.array_equal(run.tokens[:, where], alone.tokens)
    assert np.array_equal(run.tokens[:, ~mask], np.full((4, 3, 2), padding), equal_nan=True)
    assert [run.sets(2)[i].tolist() for i in where] == [where[members].tolist() for members in alone.sets(2)]
    assert all(len(run.sets(2)[i]) == 0 for i in np.flatnonzero(~mask))
    assert run.leaders.tolist() == where[alone.leaders].tolist()
    assert np.array_equal(run.mask, mask)
    assert not run.attention(1)[~mask].any()
    assert not run.attention(1)[:, ~mask].any()
    assert np.isnan(run.margins(1)[~mask]).all()
    assert "8 tokens" in run.status


def test_status_is_the_first_thing_it_says():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=1)
    assert repr(run) == run.status
    assert run.status.startswith("Ran 1 layer on 6 tokens of dimension 2. 4 leaders, ")
    assert run.status.endswith(" since layer 0. Every token is decided since layer 0.")
    undecided = hm.simulate(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(Fraction(1, 2)), layers=8)
    assert "12 of 13 tokens are decided." in undecided.status
    none = hm.simulate([[1.0], [-1.0]], hm.Hardmax(Fraction(1, 2), [[-1.0]], any_A=True), layers=2)
    assert "No leader." in none.status


def test_zero_tokens_see_everything_and_leave():
    tokens = [[0, 0], [2, 0], [0, 1]]
    run = hm.simulate(tokens, hm.Hardmax(1), layers=1)
    assert run.sets(0)[0].tolist() == [0, 1, 2]
    assert run.exact(1)[0].tolist() == [Fraction(1, 3), Fraction(1, 6)]
    stays = hm.simulate([[0, 0], [1, 0], [-1, 0]], hm.Hardmax(1), layers=3)  # the mean of all is 0
    assert [tuple(x) for x in stays.exact(3)] == definition([[0, 0], [1, 0], [-1, 0]], 1, layers=3).positions[3]
    assert stays.emerged.tolist() == [-1, 0, 0]


def test_growth_beyond_floats_of_tokens_below_them() -> None:
    trajectory = hm.simulate([[1e-300, 0.0]], hm.Hardmax(1e10, normalize=False), layers=31)
    assert trajectory.tokens[31, 0, 0] == pytest.approx(1e10, rel=1e-8)
    assert trajectory.tokens[31, 0, 1] == 0


def test_a_batch_is_indexed_by_whole_numbers_and_iterated_by_clouds() -> None:
    batch = hm.simulate(np.random.default_rng(0).normal(size=(3, 4, 2)), hm.Hardmax(0.5), layers=1)
    assert [cloud.tokens.shape for cloud in batch] == [(2, 4, 2)] * 3
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        batch[0:2]


def test_padding_of_fractions_keeps_its_values() -> None:
    tokens = np.array([[Fraction(1, 3), 1], [2, 0], [7, 7]], object)
    trajectory = hm.simulate(tokens, hm.Hardmax(0.5), layers=1, mask=[True, True, False])
    assert trajectory.tokens[1, 2].tolist() == [7, 7]
