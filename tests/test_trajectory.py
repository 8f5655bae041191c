"""Results of a trajectory: attention, followers, margins, norms, batches, masks, and
the status sentence.
"""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import theory, token_sets

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("kind", ["gaussian", "duplicates", "zeros", "mirrored"])
def test_attention_is_uniform_on_the_sets_and_moves_the_tokens(kind):
    tokens = token_sets.KINDS[kind](np.random.default_rng(0)).astype(float)
    run = hm.simulate(tokens, hm.Hardmax(0.5), layers=3)
    for k in range(4):
        P = run.attention(k)
        for i, members in enumerate(run.sets(k)):
            expected = np.zeros(len(tokens))
            expected[members] = 1 / len(members)
            np.testing.assert_allclose(P[i], expected, rtol=1e-15)
        assert np.array_equal(run.attention(k, sparse=True).toarray(), P)
        if k < 3:  # z + alpha P z over 1 + alpha
            np.testing.assert_allclose(
                run.tokens[k + 1],
                (run.tokens[k] + 0.5 * P @ run.tokens[k]) / 1.5,
                atol=1e-15,
            )


@pytest.mark.parametrize("size", [None, 1.0, 1e200, 1e-200])
@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300])
def test_margins_are_distances_to_the_next_best(size, scale):
    tokens, A = (
        token_sets.gaussian(np.random.default_rng(2), d=2),
        np.array([[2.0, 1.0], [1.0, 3.0]]),
    )
    run = hm.simulate(
        tokens * scale, hm.Hardmax(0.5, None if size is None else A * size), layers=1
    )
    Q = tokens if size is None else tokens @ A
    products = np.sort(Q @ tokens.T, axis=1)
    expected = (products[:, -1] - products[:, -2]) / np.linalg.norm(Q, axis=1)
    np.testing.assert_allclose(run.margins(0) / scale, expected, rtol=1e-9)


def test_margins_of_copies_and_zeros():
    assert hm.simulate([[2.0], [2.0]], hm.Hardmax(1), layers=0).margins().tolist() == [
        np.inf,
        np.inf,
    ]
    run = hm.simulate(
        [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], hm.Hardmax(1), layers=0
    )
    assert run.margins(0).tolist() == [np.inf, 1, 1, 1]  # to the token at 0


def test_norms_are_those_of_a():
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    tokens = token_sets.gaussian(np.random.default_rng(0), d=2)
    run = hm.simulate(tokens, hm.Hardmax(0.5, A), layers=2)
    np.testing.assert_allclose(
        run.norms[1], np.sqrt(np.einsum("ir,rs,is->i", run.tokens[1], A, run.tokens[1]))
    )
    outside = hm.simulate(tokens, hm.Hardmax(0.5, -A, any_A=True), layers=0)
    np.testing.assert_allclose(outside.norms[0], np.linalg.norm(tokens, axis=1))
    huge = hm.simulate(
        [[3e300, 4e300], [0.0, 0.0], [3e-300, 4e-300]], hm.Hardmax(0.5), layers=0
    )
    np.testing.assert_allclose(huge.norms[0], [5e300, 0, 5e-300])


def test_layers_count_from_both_ends():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=3)
    assert (len(run.saved), run.layers, run.n) == (4, 3, 6)
    assert (run.exact(-1) == run.exact(3)).all()
    last = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=3, save="last")
    for trajectory, k in ((run, 4), (run, -5), (last, 0)):
        with pytest.raises(IndexError, match=r"^`k`"):
            trajectory.sets(k)
    assert (last.exact(-1) == run.exact(-1)).all()


def test_a_batch_is_a_sequence_of_token_sets():
    batch = np.random.default_rng(0).normal(size=(3, 4, 2))
    run = hm.simulate(batch, hm.Hardmax(0.5), layers=1)
    assert run.status.startswith(
        "Ran 1 layer on 3 token sets of up to 4 tokens of dimension 2. Every token is"
    )
    for b, one in enumerate(run):
        alone = hm.simulate(batch[b], hm.Hardmax(0.5), layers=1)
        assert np.array_equal(one.tokens, alone.tokens)
        assert np.array_equal(run.attention(1)[b], alone.attention(1))
    with pytest.raises(hm.InputError, match=r"Use trajectory\[b\].sets\(k\)."):
        run.sets(0)
    with pytest.raises(TypeError, match="`trajectory`"):
        run[0][0]
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        run[0:2]


@pytest.mark.parametrize("padding", [np.nan, np.inf, 1e300])
def test_padding_may_hold_anything_and_changes_nothing(padding):
    tokens = token_sets.duplicates(np.random.default_rng(0), 8, 2)
    where = np.array([0, 2, 3, 5, 6, 7, 9, 10])
    padded = np.full((11, 2), padding)
    padded[where] = tokens
    mask = np.isin(np.arange(11), where)
    run = hm.simulate(padded, hm.Hardmax(0.5), layers=3, mask=mask)
    alone = hm.simulate(tokens, hm.Hardmax(0.5), layers=3)
    assert np.array_equal(run.tokens[:, where], alone.tokens)
    assert np.array_equal(
        run.tokens[:, ~mask], np.full((4, 3, 2), padding), equal_nan=True
    )
    assert [run.sets(2)[i].tolist() for i in where] == [
        where[members].tolist() for members in alone.sets(2)
    ]
    assert all(len(run.sets(2)[i]) == 0 for i in np.flatnonzero(~mask))
    assert run.leaders.tolist() == where[alone.leaders].tolist()
    assert np.array_equal(run.mask, mask)
    assert not run.attention(1)[~mask].any()
    assert not run.attention(1)[:, ~mask].any()
    assert np.isnan(run.margins(1)[~mask]).all()
    assert "8 tokens" in run.status
    fractions = np.array([[Fraction(1, 3), 1], [2, 0], [7, 7]], object)
    run = hm.simulate(fractions, hm.Hardmax(0.5), layers=1, mask=[True, True, False])
    assert run.tokens[1, 2].tolist() == [7, 7]


def test_a_trajectory_prints_its_status():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=1)
    assert repr(run) == run.status
    assert run.status.startswith("Ran 1 layer on 6 tokens of dimension 2. 4 leaders, ")
    assert run.status.endswith(" since layer 0. Every token is decided since layer 0.")
    undecided = hm.simulate(
        theory.FOLLOWS_FOLLOWERS, hm.Hardmax(Fraction(1, 2)), layers=8
    )
    assert "12 of 13 tokens are decided." in undecided.status
    none = hm.simulate(
        [[1.0], [-1.0]], hm.Hardmax(Fraction(1, 2), [[-1.0]], any_A=True), layers=2
    )
    assert "No leader." in none.status
