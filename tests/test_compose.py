"""Compositions and heads against their parts one by one."""

import numpy as np
import pytest

import hardmax as hm
from tests.problems.softmax import ANY_A, RNG, TOKENS, last, softmax_layer, weights

pytestmark = pytest.mark.quick


def test_compose_applies_its_parts_in_turn():
    parts = [
        hm.Softmax(0.5),
        hm.FeedForward.random(3, gain=0.1),
        hm.Hardmax(1),
        hm.Normalize("layer"),
    ]
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
    rule = hm.Compose(
        [hm.SelfAttention(ANY_A, None, lambda t: np.cos(t) * V), hm.Normalize("rms")],
        dt=dt,
    )
    now = TOKENS
    for k in range(3):
        now = now + dt * (weights(now, ANY_A) @ now) @ (np.cos(k * dt) * V).T
        now = now / np.sqrt((now**2).mean(axis=1, keepdims=True))
    np.testing.assert_allclose(last(TOKENS, rule, 3), now, rtol=0, atol=1e-11)


def test_attention_of_a_composition_is_that_of_its_first_attending_part():
    mlp, soft = hm.FeedForward.random(3), hm.Softmax(0.5, temperature=0.4)
    run = hm.simulate(TOKENS, hm.Compose([mlp, soft, hm.Hardmax(1)]), layers=1)
    np.testing.assert_allclose(
        run.attention(0), weights(last(TOKENS, mlp), temperature=0.4), rtol=1e-12
    )


# A flow in layer k moves at time k dt, and its attention is to be read off at that time
# too.
def test_attention_of_a_flow_in_a_composition_is_taken_at_its_time():
    flow = hm.SelfAttention(Q=lambda t: (1 + t) * np.eye(3))
    run = hm.simulate(TOKENS, hm.Compose([flow], dt=0.1), layers=5)
    np.testing.assert_allclose(
        run.attention(5), weights(run.tokens[5], 1.5 * np.eye(3)), rtol=1e-12
    )


# Hardmax inside a composition meets tokens that have overflowed: a sentence in the
# status, no crash.
def test_the_status_reports_overflow_before_a_hardmax_part():
    mlp = hm.FeedForward(np.eye(3) * 1e100, np.eye(3) * 1e100)
    run = hm.simulate(TOKENS, hm.Compose([mlp, hm.Hardmax(1)]), layers=4)
    assert "Tokens leave the range of float64 from layer" in run.status


BLOCK = hm.Compose([hm.Softmax(1), hm.Normalize()])


@pytest.mark.parametrize(
    ("heads", "sizes"),
    [
        (
            [
                hm.Softmax(0.5, np.diag([1.0, 2.0])),
                hm.Hardmax(1),
                hm.Softmax(2, [[0.7]]),
            ],
            [2, 3, 1],
        ),  # 3 are left
        ([BLOCK, BLOCK], [2, 2]),
        ([hm.SelfAttention(), hm.SelfAttention(V=-np.eye(2))], [2, 2]),
        ([hm.Sphere(1), hm.Sphere(9)], [3, 3]),
    ],
    ids=["layers", "compositions", "flows", "spheres"],
)
def test_heads_on_their_own_coordinates_are_independent(heads, sizes):
    parts = [
        hm.configuration("sphere", n=7, d=d, seed=d + h) for h, d in enumerate(sizes)
    ]
    how = {"times": [0, 1, 2]} if heads[0].continuous else {"layers": 4}
    run = hm.simulate(np.hstack(parts), hm.MultiHead(heads), **how)
    for h, (head, part) in enumerate(zip(heads, parts, strict=True)):
        alone, own = (
            hm.simulate(part, head, **how),
            slice(sum(sizes[:h]), sum(sizes[: h + 1])),
        )
        np.testing.assert_array_equal(run.tokens[..., own], alone.tokens)
        np.testing.assert_array_equal(run.attention(2)[h], alone.attention(2))
        np.testing.assert_array_equal(run.heads[h].tokens, alone.tokens)
        if isinstance(head, hm.Hardmax):
            assert (run.heads[h].exact(4) == alone.exact(4)).all()
            assert run.heads[h].emerged.tolist() == alone.emerged.tolist()
            assert set(run.leaders.tolist()) >= set(alone.leaders.tolist())
        elif alone.rescaled is not None:
            np.testing.assert_array_equal(run.heads[h].rescaled, alone.rescaled)
    leads = set(np.concatenate([head.leaders for head in run.heads]).tolist())
    assert leads >= set(run.leaders.tolist())


@pytest.mark.parametrize("shares", [None, [0.2, -0.5, 1.5]])
def test_shared_layers_add_their_moves(shares):
    heads = [hm.Softmax(0.5), hm.Softmax(2, ANY_A), hm.Hardmax(1)]
    moves = [last(TOKENS, head) - TOKENS for head in heads]
    expected = TOKENS + sum(
        s * move for s, move in zip(shares or [1 / 3] * 3, moves, strict=True)
    )
    run = hm.simulate(TOKENS, hm.MultiHead(heads, shared=True, shares=shares), layers=1)
    np.testing.assert_allclose(run.tokens[1], expected, rtol=0, atol=1e-14)
    assert run.heads == ()
    np.testing.assert_allclose(run.attention(0)[1], weights(TOKENS, ANY_A), rtol=1e-12)


@pytest.mark.parametrize("shares", [None, [0.2, 0.7]])
def test_shared_flows_add_their_velocities(shares):
    V = RNG.normal(size=(3, 3))
    rule = hm.MultiHead(
        [hm.SelfAttention(V=V), hm.SelfAttention(ANY_A)], shared=True, shares=shares
    )
    first, second = shares or [1, 1]
    expected = (
        first * weights(TOKENS) @ TOKENS @ V.T
        + second * weights(TOKENS, ANY_A) @ TOKENS
    )
    np.testing.assert_allclose(rule.velocity(TOKENS, 0.0), expected, rtol=0, atol=1e-13)
    step = hm.simulate(TOKENS, rule, times=[0, 0.1], method="euler", dt=0.1)
    np.testing.assert_allclose(
        step.tokens[1], TOKENS + 0.1 * expected, rtol=0, atol=1e-14
    )
    assert step.attention(0).shape == (2, 6, 6)
    tight = hm.simulate(TOKENS, rule, times=[0, 0.5], rtol=1e-11, atol=1e-13)
    fixed = hm.simulate(TOKENS, rule, times=[0, 0.5], method="rk4", dt=0.005)
    np.testing.assert_allclose(tight.tokens, fixed.tokens, rtol=0, atol=1e-8)


def test_the_status_reports_a_head_that_failed():
    broken = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 0.5 else 1))
    run = hm.simulate(
        RNG.normal(size=(4, 4)),
        hm.MultiHead([hm.SelfAttention(), broken]),
        times=[0, 0.1, 2],
    )
    assert "The integrator stopped at t = " in run.status
    assert run.reached == 2


# Heads within heads have attention matrices of different numbers of axes; leaders and
# status must still come.
@pytest.mark.parametrize("shared", [False, True])
def test_nested_heads(shared):
    tokens = RNG.normal(size=(5, 8))
    inner = hm.MultiHead([hm.Softmax(1), hm.Softmax(2)])
    for rule in (
        hm.MultiHead([inner, hm.Softmax(3)], shared=shared),
        hm.MultiHead([inner, inner], shared=shared),
    ):
        run = hm.simulate(tokens, rule, layers=2)
        assert run.status.startswith("Ran 2 layers on 5 tokens of dimension 8.")
        assert set(run.leaders.tolist()) <= set(range(5))
        for part, alpha in [(slice(0, 2), 1), (slice(2, 4), 2)] if not shared else ():
            np.testing.assert_allclose(
                run.array[-1][:, part], last(tokens[:, part], hm.Softmax(alpha), 2)
            )


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
    monkeypatch.setattr(
        hm.Hardmax, "attention", lambda *given: pytest.fail("n by n numbers")
    )
    run = hm.simulate(given, hm.Compose([rule]), layers=1, mask=mask)
    found = run.array[1] if kind != "array" else run.array[1][None]
    np.testing.assert_allclose(
        found[real[: len(found)]],
        expected[: len(found)][real[: len(found)]],
        atol=1e-15,
    )
    if kind == "tensor":
        (run.tokens[-1] ** 2).sum().backward()
        slope = 2 * (2 / 3 * expected + np.swapaxes(P, -1, -2) @ expected / 3)
        np.testing.assert_allclose(given.grad.numpy(), slope, atol=1e-14)
