"""Several layers at once: the same numbers and gradients as layer by layer, and as the
simulation.
"""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import hardmax as hm
from hardmax.attention import layers
from hardmax.attention.functional import hardmax_attention
from hardmax.attention.layers import hardmax_layers
from hardmax.attention.layers_numpy import layers_of, shares
from tests.problems.oracle import choose

pytestmark = pytest.mark.portable


def one_by_one(z, alpha, count, A=None, mask=None):
    step = (alpha / (1 + alpha))[:, None, None]
    for _ in range(count):
        z = z + step * (
            hardmax_attention(z if A is None else z @ A, z, z, mask=mask) - z
        )
    return z


def check_gradients(ours, theirs, inputs, weight, close):
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, weight) for out in (ours, theirs)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=close, atol=close)


@pytest.mark.parametrize("d", [1, 2, 3, 16])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_values_and_gradients_are_those_of_single_layers(d, padded, trained):
    torch.manual_seed(d)
    z = torch.randn(6, 40, d, dtype=torch.float64, requires_grad=True)
    alpha = torch.rand(6, dtype=torch.float64, requires_grad=True)
    L = torch.randn(6, d, d, dtype=torch.float64)
    A = L @ L.mT + torch.eye(d) if trained else None
    counts = (torch.rand(6, 40) < 0.8).long() if padded else None
    if counts is not None:
        counts[5] = 0
    ours = hardmax_layers(z, alpha, 8, A=A, counts=counts)
    theirs = one_by_one(z, alpha, 8, A, None if counts is None else counts > 0)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    check_gradients(ours, theirs, (z, alpha), torch.randn_like(ours), 1e-9)


@pytest.mark.parametrize("d", [2, 3, 5, 16])
@pytest.mark.parametrize("kind", ["gaussian", "lattice", "copies"])
def test_float32_is_that_of_single_layers(d, kind):
    torch.manual_seed(d)
    z = torch.randn(200, 25, d)
    if kind == "lattice":
        z = torch.round(z)  # full of ties
    if kind == "copies":
        z[:, 12:20] = z[:, :8]
    z.requires_grad_()
    alpha = torch.rand(200, requires_grad=True)
    counts = (torch.rand(200, 25) < 0.8).long()
    ours, theirs = (
        hardmax_layers(z, alpha, 6, counts=counts),
        one_by_one(z, alpha, 6, mask=counts > 0),
    )
    # A later layer may tie in one way of rounding and not in the other: then whole
    # batch elements differ.
    same = (ours - theirs).abs().amax((1, 2)) < 1e-5
    assert same.float().mean() > (0.6 if kind == "lattice" else 0.98)
    check_gradients(
        ours, theirs, (z, alpha), torch.randn_like(ours) * same[:, None, None], 1e-4
    )


def test_decided_batch_elements_leave():
    z = np.random.default_rng(0).standard_normal((50, 30, 4))
    history = list(layers_of(z.copy(), np.full(50, 0.5), 12))
    active = [len(layer.elements) for layer in history]
    assert active == sorted(active, reverse=True)
    assert len(history) < 12


@pytest.mark.parametrize("d", [2, 5])
def test_tokens_and_shares_are_those_of_the_simulation(d):
    tokens = np.random.default_rng(d).standard_normal((25, d))
    trajectory = hm.simulate(tokens, hm.Hardmax(0.7), layers=6)
    moved = tokens[None].copy()
    share = shares(layers_of(moved, np.array([0.7 / 1.7]), 6), np.ones((1, 25)))[0]
    np.testing.assert_allclose(moved[0], trajectory.tokens[-1], atol=1e-13)
    np.testing.assert_allclose(
        share @ tokens, trajectory.tokens[-1].mean(axis=0), atol=1e-13
    )
    M = np.eye(25)
    for k in range(6):
        M = (np.eye(25) + 0.7 * trajectory.attention(k)) @ M / 1.7
    np.testing.assert_allclose(share, M.mean(axis=0), atol=1e-13)


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def as_on_gpu(z, alpha, count, counts):
    """Run the layers on the CPU by the function for GPUs."""
    return layers._one_by_one(z, alpha / (1 + alpha), count, None, counts)


def on_gpu(z, alpha, count, counts):
    return (
        hardmax_layers(
            z.float().cuda(), alpha.float().cuda(), count, counts=counts.cuda()
        )
        .cpu()
        .double()
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    "run",
    [
        hardmax_layers,
        as_on_gpu,
        pytest.param(on_gpu, marks=(pytest.mark.gpu, NEEDS_GPU)),
    ],
)
def test_counts_are_copies(run, d):
    rng = np.random.default_rng(d)
    layers, close = (
        (1, 1e-6) if run is on_gpu else (2, 1e-12)
    )  # in float32 a second layer may have other ties
    for _ in range(40):
        tokens = np.unique(rng.integers(-2, 3, (6, d)), axis=0).astype(float)
        counts = rng.integers(1, 4, len(tokens))
        z, step = (
            torch.tensor(tokens[None], requires_grad=True),
            torch.ones(1, dtype=torch.float64),
        )
        moved = run(z, step, layers, counts=torch.tensor(counts)[None])
        copies = hm.simulate(
            np.repeat(tokens, counts, axis=0), hm.Hardmax(1), layers=layers
        ).tokens[-1]
        np.testing.assert_allclose(
            moved[0].detach(), copies[np.cumsum(counts) - 1], atol=close
        )
        (slope,) = torch.autograd.grad(moved.sum(), z)
        assert torch.allclose(
            slope.sum(1), torch.full((1, d), float(len(tokens)), dtype=torch.float64)
        )  # averages
        share = shares(
            layers_of(
                tokens[None].copy(), np.array([0.5]), layers, counts=counts[None]
            ),
            counts[None],
        )[0]
        np.testing.assert_allclose(share @ tokens, copies.mean(axis=0), atol=1e-14)


def test_counts_on_a_line_by_hand():
    one, counts = torch.ones(1, dtype=torch.float64), torch.tensor([[3, 1, 1]])
    moved = hardmax_layers(
        torch.tensor([[[1.0], [0.0], [-1.0]]], dtype=torch.float64),
        one,
        1,
        counts=counts,
    )
    assert moved[0, :, 0].tolist() == [1.0, 0.2, -1.0]  # 0 moves halfway to (3 - 1) / 5
    z = torch.tensor([[[2.0], [2.0], [1.0]]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(hardmax_layers(z, one, 1, counts=counts)[0, 2, 0], z)
    assert slope[0, :, 0].tolist() == [
        0.375,
        0.125,
        0.5,
    ]  # copies share the gradient as they count


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("zeros", [False, True])
def test_the_gpu_agrees_with_the_cpu(zeros):
    torch.manual_seed(0)
    z, counts, g = (
        torch.randn(40, 60, 2),
        (torch.rand(40, 60) < 0.9).long(),
        torch.randn(40, 60, 2),
    )
    if zeros:  # tokens that follow all
        z[torch.rand(40, 60) < 0.3], counts[:] = 0, 1
    x, y = z.cuda().requires_grad_(), z.clone().requires_grad_()
    count = 1 if zeros else 4
    ours = hardmax_layers(x, torch.ones(40).cuda(), count, counts=counts.cuda())
    theirs = hardmax_layers(y, torch.ones(40), count, counts=counts)
    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)
    if zeros:
        (own,), (other,) = (
            torch.autograd.grad(ours, x, g.cuda()),
            torch.autograd.grad(theirs, y, g),
        )
        torch.testing.assert_close(own.cpu(), other, rtol=1e-5, atol=1e-5)


def test_no_layers_no_step_and_no_tokens():
    z = torch.randn(3, 4, 2)
    assert torch.equal(hardmax_layers(z, torch.zeros(3), 5), z)
    assert torch.equal(hardmax_layers(z, torch.ones(3), 0), z)
    assert hardmax_layers(torch.randn(0, 4, 2), torch.ones(0), 3).shape == (0, 4, 2)
    for d in (1, 2, 3):
        empty = np.empty((5, 0, d))
        assert hardmax_layers(torch.tensor(empty), torch.ones(5), 3).shape == (5, 0, d)
        sure = np.ones(5, bool)
        assert shares(
            layers_of(empty, np.full(5, 0.5), 3, sure=sure), np.ones((5, 0))
        ).shape == (5, 0)
        assert sure.all()


def test_a_gradient_of_the_gradient_is_refused():
    z = torch.randn(
        1, 4, 2, generator=torch.Generator().manual_seed(3), requires_grad=True
    )
    (g,) = torch.autograd.grad(
        (hardmax_layers(z, torch.tensor([1.0]), 2) ** 2).sum(), z, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (g**2).sum().backward()


@pytest.mark.parametrize("n", [1, 7, 16, 33])
@pytest.mark.parametrize("d", [4, 5, 16, 19])
@pytest.mark.parametrize("size", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e-42, 1e18])
def test_sets_of_a_matrix_are_those_of_real_arithmetic(n, d, size, scale):
    rng = np.random.default_rng(n * d)
    z, L = (
        (scale * rng.standard_normal((n, d))).astype(np.float32),
        rng.standard_normal((d, d)),
    )
    A = (size * (np.eye(d) + 0.1 * L @ L.T / d)).astype(
        np.float32
    )  # z A rounds in float32
    z[n // 2 :: 3] = z[:1]  # copies, which tie
    if n > 6:
        z[5] = z[4] * np.float32(1 + 2.0**-23)  # too near for float32, for most queries
    P = np.zeros((n, n))
    for i, members in enumerate(choose(z, A.T)):
        P[i, members] = 1 / len(members)
    x, g = (
        torch.from_numpy(z)[None].requires_grad_(),
        rng.standard_normal((n, d)).astype(np.float32),
    )
    moved = hardmax_layers(x, torch.ones(1), 1, A=torch.from_numpy(A)[None])[0]
    np.testing.assert_allclose(
        moved.detach(),
        (z + P @ z.astype(float)) / 2,
        rtol=1e-6,
        atol=2e-45 + 1e-6 * scale,
    )
    (ours,) = torch.autograd.grad(
        moved, x, torch.from_numpy(g)
    )  # shows the members of a set, not only their mean
    np.testing.assert_allclose(
        ours[0], (np.eye(n) + P).T @ g.astype(float) / 2, atol=1e-5
    )


def test_a_matrix_decides_near_ties_exactly():
    z = torch.tensor(
        [[[1, 2.0**-50, 0], [1, -(2.0**-50), 0], [0.5, 0, 0]]], dtype=torch.float64
    )
    A = torch.eye(3, dtype=torch.float64)
    A[0, 1] = A[1, 0] = (
        2.0**-10
    )  # products of the last token are 1/2 + 2^-61 and 1/2 - 2^-61, and equal without A
    moved = hardmax_layers(z, torch.ones(1, dtype=torch.float64), 1, A=A[None])
    assert moved[0, 2].tolist() == [0.75, 2.0**-51, 0.0]


@pytest.mark.parametrize(
    ("n", "d", "dtype"),
    [(30, 6, torch.float32), (90, 2, torch.float32), (90, 2, torch.float64)],
)
def test_compiled_code_and_numpy_give_the_same_bits(n, d, dtype, without_numba):
    generator = torch.Generator().manual_seed(n)
    z, g = (torch.randn(40, n, d, dtype=dtype, generator=generator) for _ in range(2))
    alpha = (0.1 + torch.rand(40, dtype=dtype, generator=generator)).requires_grad_()
    z.requires_grad_()
    ours = hardmax_layers(z, alpha, 7)
    gradients = torch.autograd.grad(ours, (z, alpha), g)
    without_numba()
    theirs = hardmax_layers(z, alpha, 7)
    assert torch.equal(ours, theirs)
    plain = torch.autograd.grad(theirs, (z, alpha), g)
    assert torch.equal(gradients[0], plain[0])
    torch.testing.assert_close(
        gradients[1], plain[1], rtol=1e-6, atol=1e-6
    )  # a sum over all numbers of an element


def test_compiled_code_and_numpy_agree_under_a_matrix(without_numba):
    torch.manual_seed(4)
    z, alpha = (
        torch.randn(40, 30, 6, requires_grad=True),
        torch.rand(40, requires_grad=True),
    )
    L = torch.randn(40, 6, 6)
    A, counts, g = (
        torch.eye(6) + 0.2 * L @ L.mT,
        (torch.rand(40, 30) < 0.8).long(),
        torch.randn(40, 30, 6),
    )
    ours = hardmax_layers(z, alpha, 5, A=A, counts=counts)
    gradients = torch.autograd.grad(ours, (z, alpha), g)
    (alone,) = torch.autograd.grad(
        hardmax_layers(z, alpha.detach(), 5, A=A, counts=counts), z, g
    )
    assert torch.equal(
        alone, gradients[0]
    )  # without slopes of the steps nothing else changes
    without_numba()
    theirs = hardmax_layers(z, alpha, 5, A=A, counts=counts)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients, torch.autograd.grad(theirs, (z, alpha), g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_padding_is_not_followed_where_slack_overflows(numba):
    tiny = (
        2.0**-1060
    )  # near the smallest float: how far products may be off is more than all of them
    z = (
        torch.tensor(
            [[[1.0, 0, 0], [0, 1, 0], [3, 0, 0], [0, 0, 5]]], dtype=torch.float64
        )
        * tiny
    )
    one, A = torch.ones(1, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[None]
    out = hardmax_layers(z, one, 1, A=A, counts=torch.tensor([[1, 1, 0, 1]]))
    assert torch.equal(out[0, [0, 1, 3]], z[0, [0, 1, 3]])  # each follows itself


GOOD = {"z": torch.randn(2, 5, 3), "alpha": torch.tensor([0.5, 1.0]), "count": 2}
WRONG = {
    "z": [
        torch.ones(5, 4),
        torch.ones(2, 5, 3, dtype=torch.int64),
        [[[1.0]]],
        torch.full((2, 5, 3), torch.nan),
    ],
    "alpha": [
        *(
            torch.tensor(value)
            for value in (
                [0.5, -1.0],
                [0.5, torch.nan],
                [torch.inf, 1.0],
                [1, 1],
                [0.5],
                0.5,
            )
        ),
        0.5,
    ],
    "count": [-1, 1.5],
    "counts": [
        torch.tensor([[1, 1, 1, 1, -1]] * 2),
        torch.ones(2, 5),
        torch.ones(2, 4, dtype=torch.int64),
    ],
    "A": [torch.eye(3), torch.full((2, 3, 3), torch.inf)],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
)
def test_an_invalid_argument_is_named(name, value):
    with pytest.raises(hm.ParameterError, match=f"^`{name}`"):
        hm.hardmax_layers(**(GOOD | {name: value}))


INTEGERS = {
    torch.float64: torch.int64,
    torch.float32: torch.uint8,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int32,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("alpha_type", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_result_has_the_type_of_the_tokens(d, alpha_type, dtype):
    z = (
        torch.randn(2, 6, d, generator=torch.Generator().manual_seed(d))
        .to(dtype)
        .requires_grad_()
    )
    alpha = torch.tensor([0.5, 2.0], dtype=alpha_type).requires_grad_()
    out = hm.hardmax_layers(z, alpha, 3)
    gradients = torch.autograd.grad(out.sum(), (z, alpha))
    assert (out.dtype, *(g.dtype for g in gradients)) == (dtype, dtype, alpha_type)
    with_counts = hm.hardmax_layers(
        z, alpha, 3, counts=torch.ones(2, 6, dtype=INTEGERS[dtype])
    )
    assert torch.equal(with_counts, out)
    wide = hm.hardmax_layers(z.detach().double(), alpha.detach().double(), 3)
    torch.testing.assert_close(
        out.double(),
        wide,
        rtol=4 * torch.finfo(dtype).eps,
        atol=4 * torch.finfo(dtype).eps,
    )
