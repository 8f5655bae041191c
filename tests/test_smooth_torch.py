"""Smooth rules on torch tensors: the numbers of NumPy, and gradients against finite
differences.
"""

from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import hardmax as hm

RNG = np.random.default_rng(9)
TOKENS = RNG.normal(size=(4, 2))
SPHERE = TOKENS / np.linalg.norm(TOKENS, axis=1, keepdims=True)
Q, K, V = RNG.normal(size=(3, 2, 2)) * 0.7
B = np.array([0.3, -0.2])


def rules(make):
    """Every rule, with weights made by `make` of an array."""
    q, k, v, b = (make(x) for x in (Q, K, V, B))
    return {
        "softmax": hm.Softmax(0.5, v, temperature=0.5),
        "softmax none": hm.Softmax(0.5, v, normalize="none"),
        "softmax rms": hm.Softmax(0.5, v, normalize="rms"),
        "softmax causal": hm.Softmax(0.5, v, causal=True),
        "feed-forward": hm.FeedForward(q, k, b, b, activation="tanh", gain=0.5),
        "gelu": hm.FeedForward(q, k, activation="gelu"),
        "relu": hm.FeedForward(q, k, activation="relu"),
        "norm": hm.Normalize("rms"),
        "block": hm.Compose(
            [
                hm.MultiHead([hm.SelfAttention(q, k, v)] * 2, shared=True),
                hm.Normalize(),
                hm.Softmax(1),
            ]
        ),
        "heads": hm.MultiHead([hm.Softmax(1), hm.Softmax(2)]),
        "shared heads": hm.MultiHead(
            [hm.Softmax(1, q), hm.Softmax(2)], shared=True, shares=b
        ),
        "flow": hm.SelfAttention(q, k, v),
        "causal flow": hm.SelfAttention(q, k, v, causal=True),
        "flow in time": hm.SelfAttention(q, k, lambda t: np.cos(t) * v),
        "shared flows": hm.MultiHead(
            [hm.SelfAttention(q, k, v), hm.SelfAttention()], shared=True
        ),
        "flows": hm.MultiHead([hm.SelfAttention(), hm.SelfAttention()]),
        "sphere": hm.Sphere(2.0),
        "causal sphere": hm.Sphere(2.0, normalized=False, causal=True),
    }


NAMES = list(rules(np.array))
METHODS = [(name, "rk4") for name in NAMES]
METHODS += [
    (name, method)
    for name in NAMES
    if rules(np.array)[name].continuous
    for method in ("euler", None)
]


def ran(tokens, rule, method="rk4", **options):
    fixed = {} if method is None else {"method": method, "dt": 0.25}
    how = {"times": [0, 0.5, 1], **fixed} if rule.continuous else {"layers": 2}
    return hm.simulate(tokens, rule, **how, **options)


def tokens_for(name):
    return SPHERE if "sphere" in name else TOKENS


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_the_same_numbers_as_numpy(name, method):
    rule = rules(np.array)[name]
    ours, theirs = (
        ran(torch.tensor(tokens_for(name)), rule, method),
        ran(tokens_for(name), rule, method),
    )
    assert isinstance(ours.tokens, torch.Tensor)
    assert ours.tokens.dtype == torch.float64
    np.testing.assert_allclose(ours.tokens.numpy(), theirs.tokens, rtol=0, atol=1e-12)
    if theirs.rescaled is not None:
        np.testing.assert_allclose(
            ours.rescaled.numpy(), theirs.rescaled, rtol=0, atol=1e-12
        )
    if rule.attends:
        assert isinstance(ours.attention(1), torch.Tensor)
        np.testing.assert_allclose(
            ours.attention(1).numpy(), theirs.attention(1), rtol=0, atol=1e-12
        )
    assert ours.leaders.tolist() == theirs.leaders.tolist()
    assert ours.clusters.tolist() == theirs.clusters.tolist()
    assert ours.status == theirs.status


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays(name):
    single = torch.tensor(tokens_for(name), dtype=torch.float32)
    double = rules(np.array)[name]
    rule = (
        double
        if name == "flow in time"
        else rules(lambda x: torch.tensor(x, dtype=torch.float32))[name]
    )
    for method in ("rk4", None):
        run = ran(single, rule, method)
        assert run.tokens.dtype == torch.float32
        np.testing.assert_allclose(
            run.tokens.numpy(), ran(tokens_for(name), double, method).tokens, atol=1e-4
        )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *(
            (rules(torch.tensor)[name], rules(np.array)[name])
            for name in ("softmax", "feed-forward", "flow", "shared flows")
        ),
        (hm.Softmax(torch.tensor(0.5, dtype=torch.float64)), hm.Softmax(0.5)),
        (
            hm.Softmax(0.5, temperature=torch.tensor(0.25)),
            hm.Softmax(0.5, temperature=0.25),
        ),
        (hm.Sphere(torch.tensor(2.0)), hm.Sphere(2.0)),
    ],
    ids=repr,
)
def test_weights_may_be_tensors_where_tokens_are_arrays(ours, theirs):
    run = ran(SPHERE, ours)
    assert isinstance(run.tokens, np.ndarray)
    np.testing.assert_allclose(run.tokens, ran(SPHERE, theirs).tokens, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "flow", "block", "shared heads"])
@pytest.mark.parametrize("method", ["rk4", None])
def test_masks_and_batches(name, method):
    batch = torch.full((2, 6, 2), float("nan"), dtype=torch.float64)
    batch[0, :4], batch[1, 2:] = torch.tensor(TOKENS), torch.tensor(TOKENS * 0.5)
    mask = torch.isfinite(batch).all(dim=-1)
    rule = rules(np.array)[name]
    run = ran(batch, rule, method, mask=mask)
    for b, factor in enumerate([1, 0.5]):
        alone = ran(TOKENS * factor, rule, method)
        np.testing.assert_allclose(
            run[b].tokens[:, mask[b]].numpy(), alone.tokens, atol=1e-12
        )
        assert run[b].attention(1)[..., ~mask[b], :].abs().sum() == 0


def test_files_of_tensors(tmp_path):
    run = ran(torch.tensor(TOKENS), rules(torch.tensor)["flow"])
    run.to_npz(tmp_path / "run.npz")
    again = hm.Trajectory.from_npz(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.tokens, run.tokens.numpy())
    assert again.to_json() == run.to_json()


# Gradients


def leaf(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def ends(run):
    return (
        (run.tokens[-1],)
        if run.rescaled is None
        else (run.tokens[-1], run.rescaled[-1])
    )


@pytest.mark.parametrize(("name", "method"), [pair for pair in METHODS if pair[1]])
def test_gradients_of_tokens(name, method):
    rule = rules(np.array)[name]
    if "sphere" in name:  # the input is on the sphere, its perturbation need not be
        assert gradcheck(
            lambda x: ends(ran(x / x.norm(dim=-1, keepdim=True), rule, method)),
            (leaf(SPHERE),),
        )
    else:
        assert gradcheck(lambda x: ends(ran(x, rule, method)), (leaf(TOKENS),))


@pytest.mark.parametrize(
    ("make", "values", "method"),
    [
        *((hm.SelfAttention, (Q, K, V), method) for method in ("rk4", "euler")),
        *(
            (partial(hm.SelfAttention, causal=True), (Q, K, V), method)
            for method in ("rk4", "euler")
        ),
        (lambda v: hm.SelfAttention(V=lambda t: np.cos(t) * v), (V,), "rk4"),
        (lambda a, A, T: hm.Softmax(a, A, temperature=T), (0.5, V, 0.7), None),
        (partial(hm.FeedForward, activation="tanh"), (Q, K, B, B), None),
        (
            lambda s, q: hm.MultiHead(
                [hm.Softmax(1, q), hm.Softmax(2)], shared=True, shares=s
            ),
            (B, Q),
            None,
        ),
        (hm.Sphere, (2.0,), "rk4"),
    ],
)
def test_gradients_of_weights(make, values, method):
    tokens = torch.tensor(SPHERE)
    assert gradcheck(
        lambda *weights: ends(ran(tokens, make(*weights), method)),
        tuple(map(leaf, values)),
    )


def test_hardmax_passes_gradients_to_the_values_in_a_composition():
    tokens = leaf([[2.0, 0.0], [1.0, 0.5]])
    rule = hm.Compose([hm.Hardmax(1)])
    end = hm.simulate(tokens, rule, layers=1).tokens[-1]
    end[1].sum().backward()
    assert tokens.grad.tolist() == [
        [0.5, 0.5],
        [0.5, 0.5],
    ]  # token 1 is half itself, half token 0
    heads = hm.simulate(
        leaf(TOKENS), hm.MultiHead([hm.Hardmax(1), hm.Softmax(1)]), layers=1
    )
    assert heads.tokens.requires_grad


ADAPTIVE = {"times": [0, 0.5], "rtol": 1e-10}
adaptive_check = partial(
    gradcheck, atol=1e-5, fast_mode=True
)  # steps change with the tokens within rtol
FLOWS = [name for name in NAMES if rules(np.array)[name].continuous]


@pytest.mark.parametrize(
    ("name", "method"), [*((name, "DOP853") for name in FLOWS), ("flow", "RK45")]
)
def test_gradients_through_adaptive_steps(name, method):
    options, rule = ADAPTIVE | {"method": method}, rules(np.array)[name]
    unit = (
        (lambda x: x / x.norm(dim=-1, keepdim=True))
        if "sphere" in name
        else (lambda x: x)
    )
    with_gradient = hm.simulate(unit(leaf(tokens_for(name))), rule, **options)
    without = hm.simulate(tokens_for(name), rule, **options)
    np.testing.assert_allclose(
        with_gradient.tokens.detach(), without.tokens, rtol=0, atol=1e-8
    )
    assert adaptive_check(
        lambda x: ends(hm.simulate(unit(x), rule, **options)), (leaf(tokens_for(name)),)
    )


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (hm.SelfAttention, (Q, K, V)),
        (lambda v: hm.SelfAttention(V=lambda t: np.cos(t) * v), (V,)),
        (
            lambda q, s: hm.MultiHead(
                [hm.SelfAttention(q), hm.SelfAttention()], shared=True, shares=s
            ),
            (Q, B),
        ),
        (hm.Sphere, (2.0,)),
        (partial(hm.Sphere, normalized=False), (2.0,)),
    ],
)
def test_gradients_of_weights_through_adaptive_steps(make, values):
    tokens = torch.tensor(SPHERE)
    assert adaptive_check(
        lambda *w: ends(hm.simulate(tokens, make(*w), **ADAPTIVE)),
        tuple(map(leaf, values)),
    )


@pytest.mark.parametrize("name", ["flow", "flow in time", "sphere", "decaying"])
def test_gradients_of_times(name):
    tokens, rule = (
        torch.tensor(tokens_for(name)),
        (rules(np.array) | {"decaying": hm.SelfAttention(V=-np.eye(2))})[name],
    )
    run = lambda times: hm.simulate(tokens, rule, times=times, rtol=1e-11)  # noqa: E731
    assert adaptive_check(lambda times: run(times).tokens, (leaf([0.3, 0.7, 1.1]),))
    assert adaptive_check(lambda end: ends(run(end)), (leaf(0.8),))


@pytest.mark.parametrize(
    ("rule", "options"),
    [(hm.SelfAttention(), ADAPTIVE), (hm.Softmax(0.5), {"layers": 3})],
)
def test_gradients_of_a_masked_batch_stop_at_padding(rule, options):
    batch = torch.full((2, 5, 2), np.nan, dtype=torch.float64)
    batch[0, :4], batch[1, 1:] = torch.tensor(TOKENS), torch.tensor(TOKENS) / 2
    mask = torch.isfinite(batch).all(-1)
    batch.requires_grad_()
    run = hm.simulate(batch, rule, mask=mask.numpy(), **options)
    ends(run)[-1][mask].square().sum().backward()
    assert torch.isfinite(batch.grad).all()
    assert (batch.grad[mask] != 0).all()
    assert (batch.grad[~mask] == 0).all()


@pytest.mark.parametrize(
    ("make", "V", "end"),
    [
        (lambda V: hm.SelfAttention(), np.eye(2), 40),
        (lambda V: hm.SelfAttention(V=np.diag([1, -1])), np.eye(2), 20),
        (lambda V: hm.SelfAttention(V=V), np.eye(2), 40),
        (lambda V: hm.SelfAttention(V=V), np.diag([1, -1]), 9),
    ],
)
def test_gradients_at_long_times_are_differences(make, V, end):
    tokens, values = leaf(TOKENS), leaf(V)
    run = hm.simulate(tokens, make(values), times=[end], rtol=1e-10)
    size = lambda by: np.square(  # noqa: E731
        hm.simulate(
            TOKENS + by * TOKENS, make(V + by), times=[end], rtol=1e-12
        ).rescaled[-1]
    ).sum()
    run.rescaled[-1].square().sum().backward()
    found = (tokens.grad * tokens.detach()).sum() + (
        0 if values.grad is None else values.grad.sum()
    )
    assert float(found) == pytest.approx((size(1e-6) - size(-1e-6)) / 2e-6, rel=1e-4)


def test_errors_where_gradients_cannot_pass():
    with pytest.raises(
        hm.ParameterError, match="where gradients are needed"
    ) as refused:
        hm.simulate(leaf(TOKENS), hm.SelfAttention(), times=1, method="LSODA")
    assert refused.value.names == ("method",)
    with pytest.raises(hm.ParameterError, match="after 3 steps") as refused:
        hm.simulate(leaf(TOKENS), hm.SelfAttention(), times=9, max_steps=3)
    assert refused.value.names == ("times",)
    turned = hm.SelfAttention(V=[[1.0, 1.0], [0.0, -1.0]])
    for rule in (
        turned,
        hm.SelfAttention(V=leaf([[1.0, 1.0], [0.0, -1.0]])),
        hm.SelfAttention(V=lambda t: np.eye(2)),
    ):
        with pytest.raises(hm.ParameterError, match="rounding errors decide"):
            hm.simulate(leaf(TOKENS), rule, times=[0, 40])
    with pytest.raises(hm.ParameterError, match="`tokens` must be a tensor"):
        hm.simulate(TOKENS, hm.SelfAttention(leaf(Q)), times=1)
    times = leaf([0.0, 0.5])
    for tokens, options in (
        (TOKENS, {}),
        (torch.tensor(TOKENS), {"method": "rk4", "dt": 0.1}),
    ):
        with pytest.raises(hm.ParameterError, match="require no gradient") as refused:
            hm.simulate(tokens, hm.SelfAttention(), times=times, **options)
        assert refused.value.names == ("times",)


def test_gradients_of_tokens_at_zero():
    tokens = leaf(np.zeros((3, 2)))
    hm.simulate(
        tokens, hm.SelfAttention(V=-np.eye(2)), times=[1]
    ).tokens.sum().backward()
    np.testing.assert_allclose(
        tokens.grad, np.full((3, 2), np.exp(-1)), rtol=1e-7
    )  # each is x, and x' = -mean


# A tensor of several steps would be used as one step per coordinate.
def test_alpha_as_a_tensor_is_one_positive_number():
    for alpha in (
        torch.tensor([0.5, 0.1]),
        torch.tensor(-1.0),
        torch.tensor(float("nan")),
    ):
        with pytest.raises(ValueError, match="`alpha`"):
            hm.Softmax(alpha)


def test_tokens_near_the_end_of_single_precision_follow_the_largest_score():
    tokens = torch.tensor(TOKENS * 1e30, dtype=torch.float32)
    run = hm.simulate(tokens, hm.Softmax(0.5, temperature=1e-3), layers=1)
    hard = hm.simulate(TOKENS, hm.Hardmax(0.5), layers=1)
    np.testing.assert_allclose(run.tokens[1] / 1e30, hard.tokens[1], rtol=1e-6)
