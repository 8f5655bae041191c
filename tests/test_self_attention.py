"""Self-attention in continuous time against loops, in batches with padding, and invalid arguments."""

import json
import re

import numpy as np
import pytest
from scipy.linalg import expm

import hardmax as hm
from tests.problems.self_attention import RNG, RULES, TIGHT, TOKENS, K, Q, V, reference, run, velocity, waves

pytestmark = pytest.mark.portable


@pytest.mark.parametrize("name", RULES)
def test_velocity_is_the_sum_of_the_definition(name):
    rule = hm.SelfAttention(**RULES[name])
    for t in (0.0, 0.7):
        np.testing.assert_allclose(rule.velocity(TOKENS, t), velocity(TOKENS, t, **RULES[name]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", RULES)
def test_simulation_solves_the_raw_equation(name):
    times = np.array([0.0, 0.3, 0.8, 1.5])
    run = hm.simulate(TOKENS, hm.SelfAttention(**RULES[name]), times=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run.tokens, reference(TOKENS, times, **RULES[name]), rtol=1e-7, atol=1e-8)
    assert run.reached == 4
    assert run.problem == ""


def test_constant_callables_are_constants():
    times = [0, 0.5, 2]
    plain = hm.simulate(TOKENS, hm.SelfAttention(Q, K, V), times=times, **TIGHT)
    called = hm.simulate(TOKENS, hm.SelfAttention(lambda t: Q, lambda t: K, lambda t: V), times=times, **TIGHT)
    np.testing.assert_allclose(called.tokens, plain.tokens, rtol=0, atol=1e-9)
    np.testing.assert_allclose(called.rescaled, plain.rescaled, rtol=0, atol=1e-9)
    np.testing.assert_allclose(called.attention(-1), plain.attention(-1), rtol=0, atol=1e-9)


def test_batches_are_their_clouds_bit_by_bit():
    batch = np.stack([TOKENS, 3 * TOKENS[::-1], TOKENS**2])
    for name in ("rectangular", "waves"):
        rule = hm.SelfAttention(**RULES[name])
        together = hm.simulate(batch, rule, times=[0, 1, 2])
        for b, cloud in enumerate(batch):
            alone = hm.simulate(cloud, rule, times=[0, 1, 2])
            np.testing.assert_array_equal(together.tokens[:, b], alone.tokens)
            np.testing.assert_array_equal(together[b].rescaled, alone.rescaled)
            assert together.leaders[b].tolist() == alone.leaders.tolist()
            np.testing.assert_allclose(together.attention(1)[b], alone.attention(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
@pytest.mark.parametrize("name", ["rectangular", "waves", "causal"])
def test_padding_may_hold_anything(name, options):
    rule = hm.SelfAttention(**RULES[name])
    padded = np.vstack([TOKENS, [[np.nan, np.inf], [7.0, 7.0]]])
    run = hm.simulate(padded, rule, times=[0, 1], mask=[True] * 5 + [False] * 2, **options)
    alone = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    np.testing.assert_allclose(run.tokens[:, :5], alone.tokens, rtol=1e-12)
    np.testing.assert_allclose(run.rescaled[:, :5], alone.rescaled, rtol=1e-12)
    np.testing.assert_array_equal(run.tokens[:, 5:], np.stack([padded[5:]] * 2))
    np.testing.assert_allclose(run.attention(1)[:5, :5], alone.attention(1), rtol=1e-9, atol=1e-12)
    assert (run.attention(1)[5:] == 0).all()
    assert run.clusters.tolist() == [*alone.clusters.tolist(), -1, -1]
    assert run.leaders.tolist() == alone.leaders.tolist()
    assert run.status.startswith("Ran from t = 0 to 1 on 5 tokens of dimension 2.")


# A causal token that has nothing but padding before it sees no key at all, and must not spoil the others.
@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_padding_on_the_left_of_causal_tokens(options):
    rule = hm.SelfAttention(**RULES["causal"])
    padded, mask = np.vstack([[[np.nan, 1.0]], TOKENS]), [False] + [True] * 5
    run = hm.simulate(padded, rule, times=[0, 1], mask=mask, **options)
    alone = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    np.testing.assert_allclose(run.tokens[:, 1:], alone.tokens, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_order_of_tokens(options):
    order, rule = RNG.permutation(5), hm.SelfAttention(Q, K, V)
    plain = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    shuffled = hm.simulate(TOKENS[order], rule, times=[0, 1], **options)
    np.testing.assert_allclose(shuffled.tokens, plain.tokens[:, order], rtol=0, atol=1e-12)


def test_one_token_and_one_dimension():
    run = hm.simulate([[2.0]], hm.SelfAttention(V=[[0.5]]), times=[0, 2])
    np.testing.assert_allclose(run.tokens[-1], [[2 * np.e]], rtol=1e-7)
    assert run.rescaled[-1].tolist() == [[2.0]]
    assert run.leaders.tolist() == [0]
    assert run.clusters.tolist() == [0]


def test_equal_tokens_grow_as_one():
    run = hm.simulate(np.ones((3, 2)), hm.SelfAttention(V=V), times=[0, 2])
    np.testing.assert_allclose(run.tokens[-1], np.ones((3, 2)) @ expm(2 * V).T, rtol=1e-7)
    assert run.clusters.tolist() == [0, 0, 0]
    np.testing.assert_allclose(run.attention(-1), 1 / 3)


BAD = {
    "heights": (lambda: hm.SelfAttention(np.ones((3, 2)), np.ones((4, 2))), "`Q`"),
    "widths": (lambda: hm.SelfAttention(np.ones((3, 2)), np.ones((3, 4))), "`Q`"),
    "lone Q": (lambda: hm.SelfAttention(np.ones((3, 2))), "`Q`"),
    "Q and V": (lambda: hm.SelfAttention(np.ones((2, 2)), V=np.eye(3)), "`Q`"),
    "V not square": (lambda: hm.SelfAttention(V=np.ones((2, 3))), "`V`"),
    "V number": (lambda: hm.SelfAttention(V=2.0), "`V`"),
    "V ragged": (lambda: hm.SelfAttention(V=[[1, 2], [3]]), "`V`"),
    "Q nan": (lambda: hm.SelfAttention([[np.nan, 1]], [[1, 1]]), "`Q`"),
    "K infinite": (lambda: hm.SelfAttention([[1, 1]], [[1, np.inf]]), "`K`"),
    "Q text": (lambda: hm.SelfAttention([["x"]]), "`Q`"),
    "callable": (lambda: hm.SelfAttention(V=lambda t: [1.0, 2.0]), "`V`"),
    "callable shapes": (lambda: hm.SelfAttention(lambda t: np.ones((3, 2)), np.ones((4, 2))), "`Q`"),
    "tokens": (
        lambda: hm.simulate(TOKENS, hm.SelfAttention(V=np.eye(3)), times=1),
        "d = 3",
    ),
    "layers": (lambda: run(layers=3), "`times`"),
    "no times": (lambda: run(), "`times`"),
    "both": (lambda: run(layers=3, times=[1]), "`layers`"),
    "not increasing": (lambda: run(times=[0, 2, 1]), "`times`"),
    "equal times": (lambda: run(times=[0, 1, 1]), "`times`"),
    "negative times": (lambda: run(times=[-1, 1]), "`times`"),
    "negative end": (lambda: run(times=-3), "`times`"),
    "zero end": (lambda: run(times=0), "`times`"),
    "no time": (lambda: run(times=[]), "`times`"),
    "text": (lambda: run(times="long"), "`times`"),
    "texts": (lambda: run(times=["0", "1"]), "`times`"),
    "nan": (lambda: run(times=[0, np.nan]), "`times`"),
    "infinite": (lambda: run(times=np.inf), "`times`"),
    "two axes": (lambda: run(times=[[0, 1]]), "`times`"),
    "true": (lambda: run(times=True), "`times`"),
    "complex": (lambda: run(times=[0, 1j]), "`times`"),
    "long": (lambda: run(times=list(range(50, 0, -1))), "..."),
    "method": (lambda: run(times=1, method="rk45"), "`method`"),
    "no dt": (lambda: run(times=1, method="euler"), "`dt`"),
    "dt": (lambda: run(times=1, dt=0.1), "`dt`"),
    "dt zero": (lambda: run(times=1, method="rk4", dt=0.0), "`dt`"),
    "dt negative": (lambda: run(times=1, method="rk4", dt=-1), "`dt`"),
    "rtol": (lambda: run(times=1, rtol=0), "`rtol`"),
    "rtol above 0.1": (lambda: run(times=1, rtol=2), "`rtol`"),
    "rtol below rounding": (lambda: run(times=1, rtol=1e-15), "`rtol`"),
    "atol above 0.1": (lambda: run(times=1, atol=0.5), "`atol`"),
    "atol": (lambda: run(times=1, atol=np.nan), "`atol`"),
    "max_steps": (lambda: run(times=1, max_steps=0), "`max_steps`"),
    "times of layers": (lambda: hm.simulate(TOKENS, hm.Softmax(1), layers=1).times, "`times`"),
    "ragged times": (lambda: run(times=[[0], [1, 2]]), "`times`"),
    "complex V": (lambda: hm.SelfAttention(V=np.eye(2) * 1j), "`V`"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_argument_is_named(name):
    call, parameter = BAD[name]
    with pytest.raises(ValueError, match=re.escape(parameter)):
        call()


def test_representations_of_flows():
    assert repr(hm.SelfAttention()) == "SelfAttention()"
    assert repr(hm.SelfAttention(V=waves, causal=True)) == "SelfAttention(V=waves(t), causal=True)"


def test_a_tensor_that_changes_in_place_is_seen():
    torch = pytest.importorskip("torch")
    values = torch.eye(2, dtype=torch.float64)
    rule = hm.SelfAttention(V=values)
    before = hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.1).tokens
    values *= -1
    after = hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.1).tokens
    turned = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 1], method="euler", dt=0.1).tokens
    np.testing.assert_allclose(after, turned)
    assert not np.allclose(before, after)


def test_files_hold_z_also_where_it_is_not_drawn(tmp_path):
    run = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 1, 2])
    run.to_npz(tmp_path / "run.npz")
    np.testing.assert_array_equal(hm.Trajectory.from_npz(tmp_path / "run.npz").rescaled, run.rescaled)
    np.testing.assert_array_equal(json.loads(run.to_json())["rescaled"], run.rescaled)
