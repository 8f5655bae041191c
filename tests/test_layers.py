"""Several layers at once: the same numbers and gradients as layer by layer, and as the simulation."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.attention import layers
from hardmax.attention.functional import hardmax_attention
from hardmax.attention.layers import hardmax_layers
from hardmax.attention.layers_numpy import layers_of, shares

pytestmark = pytest.mark.portable


def one_by_one(z, alpha, count, A=None, mask=None):
    step = (alpha / (1 + alpha))[:, None, None]
    for _ in range(count):
        z = z + step * (hardmax_attention(z if A is None else z @ A, z, z, mask) - z)
    return z


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
    weight = torch.randn_like(ours)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad((ours * weight).sum(), (z, alpha)),
        torch.autograd.grad((theirs * weight).sum(), (z, alpha)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


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
    ours, theirs = hardmax_layers(z, alpha, 6, counts=counts), one_by_one(z, alpha, 6, mask=counts > 0)
    # A later layer may tie in one way of rounding and not in the other: then whole clouds differ.
    same = (ours - theirs).abs().amax((1, 2)) < 1e-5
    assert same.float().mean() > (0.6 if kind == "lattice" else 0.98)
    weight = torch.randn_like(ours) * same[:, None, None]
    for a, b in zip(
        torch.autograd.grad((ours * weight).sum(), (z, alpha)),
        torch.autograd.grad((theirs * weight).sum(), (z, alpha)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_decided_clouds_leave():
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
    np.testing.assert_allclose(share @ tokens, trajectory.tokens[-1].mean(axis=0), atol=1e-13)
    M = np.eye(25)
    for k in range(6):
        M = (np.eye(25) + 0.7 * trajectory.attention(k)) @ M / 1.7
    np.testing.assert_allclose(share, M.mean(axis=0), atol=1e-13)


def test_a_follower_of_a_follower_goes_on():
    tokens = np.array([[4.0, 0.0], [2.0, 1.9], [0.0, 1.0]])  # 2 follows 1, and 1 follows 0
    trajectory = hm.simulate(tokens, hm.Hardmax(1), layers=3)
    assert [row.tolist() for row in trajectory.sets(0)] == [[0], [0], [1]]
    moved = tokens[None].copy()
    assert not next(layers_of(moved.copy(), np.array([0.5]), 3)).decided.any()
    list(layers_of(moved, np.array([0.5]), 3))
    np.testing.assert_allclose(moved[0], trajectory.tokens[-1], atol=1e-15)
    compiled = hardmax_layers(torch.from_numpy(tokens[None]), torch.ones(1, dtype=torch.float64), 3)
    np.testing.assert_allclose(compiled[0].numpy(), trajectory.tokens[-1], atol=1e-15)


def test_counts_stand_for_equal_tokens():
    # (0, 2) is as far along (1, 0) as (0, -2): a tie in which the first counts three times.
    tokens = np.array([[1.0, 0.0], [2.0, 2.0], [2.0, -2.0]])
    counts = np.array([[1, 3, 1]])
    repeated = np.repeat(tokens, counts[0], axis=0)
    trajectory = hm.simulate(repeated, hm.Hardmax(Fraction(1, 2)), layers=3)
    moved = tokens[None].copy()
    share = shares(layers_of(moved, np.array([1 / 3]), 3, counts=counts), counts)[0]
    np.testing.assert_allclose(np.repeat(moved[0], counts[0], axis=0), trajectory.tokens[-1], atol=1e-15)
    np.testing.assert_allclose(share @ tokens, trajectory.tokens[-1].mean(axis=0), atol=1e-15)


def with_copies(tokens, counts, alpha, count):
    """What the simulation makes of tokens that are there as often as they count."""
    run = hm.simulate(np.repeat(tokens, counts, axis=0), hm.Hardmax(alpha), layers=count)
    return run.tokens[-1][np.cumsum(counts) - 1]


def each_by_itself(z, alpha, count, counts):
    """The way of GPUs, on the CPU."""
    return layers._one_by_one(z, alpha / (1 + alpha), count, None, counts)


def test_counts_matter_on_a_line():
    z, counts = torch.tensor([[[1.0], [0.0], [-1.0]]], dtype=torch.float64), torch.tensor([[3, 1, 1]])
    moved = hardmax_layers(z, torch.tensor([1.0], dtype=torch.float64), 1, counts=counts)
    assert moved[0, :, 0].tolist() == [1.0, 0.2, -1.0]  # 0 moves halfway to (3 - 1) / 5


@pytest.mark.parametrize(
    ("way", "d"),
    [(hardmax_layers, 1), (hardmax_layers, 2), (hardmax_layers, 3), (each_by_itself, 2), (each_by_itself, 3)],
)
def test_counts_are_copies(way, d):
    rng = np.random.default_rng(d)
    for _ in range(40):
        tokens = np.unique(rng.integers(-2, 3, (6, d)), axis=0).astype(float)
        counts = rng.integers(1, 4, len(tokens))
        z = torch.tensor(tokens[None], requires_grad=True)
        moved = way(z, torch.tensor([1.0], dtype=torch.float64), 2, counts=torch.tensor(counts)[None])
        np.testing.assert_allclose(moved[0].detach().numpy(), with_copies(tokens, counts, 1, 2), atol=1e-12)
        (slope,) = torch.autograd.grad(moved.sum(), z)
        assert torch.allclose(slope.sum(1), torch.full((1, d), float(len(tokens)), dtype=torch.float64))  # averages


def test_copies_on_a_line_share_the_gradient_as_they_count():
    z = torch.tensor([[[2.0], [2.0], [1.0]]], dtype=torch.float64, requires_grad=True)
    moved = hardmax_layers(z, torch.tensor([1.0], dtype=torch.float64), 1, counts=torch.tensor([[3, 1, 1]]))
    (slope,) = torch.autograd.grad(moved[0, 2, 0], z)
    assert slope[0, :, 0].tolist() == [0.375, 0.125, 0.5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [2, 4])
def test_a_tied_token_goes_to_the_mean(d, dtype):
    z = torch.zeros(1, 4, d, dtype=dtype)
    z[0, :, :2] = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.5, 0.0]])
    moved = hardmax_layers(z, torch.ones(1, dtype=dtype), 2)
    assert moved[0, 3, :2].tolist() == [0.875, 0.0]
    assert torch.equal(moved[0, :3], z[0, :3])


def test_no_layers_and_empty_clouds():
    z = torch.randn(3, 4, 2)
    assert torch.equal(hardmax_layers(z, torch.ones(3), 0), z)
    assert hardmax_layers(torch.randn(0, 4, 2), torch.ones(0), 3).shape == (0, 4, 2)
    for d in (1, 2, 3):
        nobody = np.empty((5, 0, d))
        assert hardmax_layers(torch.tensor(nobody), torch.ones(5), 3).shape == (5, 0, d)
        sure = np.ones(5, bool)
        assert shares(layers_of(nobody, np.full(5, 0.5), 3, sure=sure), np.ones((5, 0))).shape == (5, 0)
        assert sure.all()


def test_a_gradient_of_the_gradient_is_refused():
    z = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(3), requires_grad=True)
    (g,) = torch.autograd.grad((hardmax_layers(z, torch.tensor([1.0]), 2) ** 2).sum(), z, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (g**2).sum().backward()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_agrees():
    torch.manual_seed(0)
    z = torch.randn(40, 60, 2)
    counts = (torch.rand(40, 60) < 0.9).long()
    ours = hardmax_layers(z.cuda(), torch.ones(40).cuda(), 4, counts=counts.cuda()).cpu()
    torch.testing.assert_close(ours, hardmax_layers(z, torch.ones(40), 4, counts=counts), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_counts_are_copies_on_a_gpu(d):
    rng = np.random.default_rng(d)
    tokens = [np.unique(rng.integers(-2, 3, (6, d)), axis=0).astype(float) for _ in range(40)]
    for cloud in tokens:
        counts = rng.integers(1, 4, len(cloud))
        z = torch.tensor(cloud[None], dtype=torch.float32, device="cuda", requires_grad=True)
        moved = hardmax_layers(z, torch.ones(1, device="cuda"), 1, counts=torch.tensor(counts, device="cuda")[None])
        np.testing.assert_allclose(moved[0].detach().cpu().numpy(), with_copies(cloud, counts, 1, 1), atol=1e-6)
        (slope,) = torch.autograd.grad(moved.sum(), z)
        assert torch.allclose(slope.sum(1).cpu(), torch.full((1, d), float(len(cloud))))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tokens_at_zero_go_to_the_mean_of_all_on_a_gpu():
    torch.manual_seed(0)
    z = torch.randn(20, 50, 2)
    z[torch.rand(20, 50) < 0.3] = 0
    x, y = z.cuda().requires_grad_(), z.clone().requires_grad_()
    ours, theirs = hardmax_layers(x, torch.ones(20).cuda(), 1), hardmax_layers(y, torch.ones(20), 1)
    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)
    g = torch.randn(20, 50, 2)
    (own,), (other,) = torch.autograd.grad(ours, x, g.cuda()), torch.autograd.grad(theirs, y, g)
    torch.testing.assert_close(own.cpu(), other, rtol=1e-5, atol=1e-5)


def exactly(z, A):
    """C_i = argmax_j <z_i A, z_j> by rational arithmetic."""
    tokens, form = ([[Fraction(x) for x in row] for row in array.tolist()] for array in (z, A))
    queries = [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*form, strict=True)] for row in tokens
    ]
    products = [[sum(x * y for x, y in zip(q, k, strict=True)) for k in tokens] for q in queries]
    return [[j for j, p in enumerate(row) if p == max(row)] for row in products]


def forms(kind, d, rng):
    """Symmetric positive definite matrices whose product with tokens rounds in float32."""
    L = rng.standard_normal((d, d))
    sizes = {"plain": 1.0, "tiny": 1e-12, "huge": 1e12}
    return (sizes[kind] * (np.eye(d) + 0.1 * L @ L.T / d)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 7, 16, 33])
@pytest.mark.parametrize("d", [4, 5, 16, 19])
@pytest.mark.parametrize("kind", ["plain", "tiny", "huge"])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e-42, 1e18])
def test_sets_of_a_matrix_are_those_of_real_arithmetic(n, d, kind, scale):
    rng = np.random.default_rng(n * d)
    z, A = (scale * rng.standard_normal((n, d))).astype(np.float32), forms(kind, d, rng)
    z[n // 2 :: 3] = z[:1]  # copies, which tie
    if n > 6:
        z[5] = z[4] * np.float32(1 + 2.0**-23)  # so near that float32 cannot tell, for most queries
    expected = np.array([np.mean(z[members].astype(float), axis=0) for members in exactly(z, A)])
    moved = hardmax_layers(torch.from_numpy(z)[None], torch.ones(1), 1, A=torch.from_numpy(A)[None])[0]
    np.testing.assert_allclose(moved, (z + expected) / 2, rtol=1e-6, atol=2e-45 + 1e-6 * scale)
    # The whole set matters, not only the mean: gradients tell its members.
    x = torch.from_numpy(z)[None].requires_grad_()
    g = torch.from_numpy(rng.standard_normal((n, d)).astype(np.float32))
    (ours,) = torch.autograd.grad(hardmax_layers(x, torch.ones(1), 1, A=torch.from_numpy(A)[None])[0], x, g)
    P = np.zeros((n, n))
    for i, members in enumerate(exactly(z, A)):
        P[i, members] = 1 / len(members)
    np.testing.assert_allclose(ours[0], (np.eye(n) + P).T @ g.double().numpy() / 2, atol=1e-5)


@pytest.mark.parametrize(("n", "d", "dtype"), [(30, 6, torch.float32), (90, 2, torch.float32), (90, 2, torch.float64)])
def test_the_compiled_way_and_that_of_numpy_have_the_same_bits(n, d, dtype, without_numba):
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
    torch.testing.assert_close(gradients[1], plain[1], rtol=1e-6, atol=1e-6)  # a sum over all numbers of a cloud


def test_the_compiled_way_and_that_of_numpy_agree_under_a_matrix(without_numba):
    torch.manual_seed(4)
    z, alpha = torch.randn(40, 30, 6, requires_grad=True), torch.rand(40, requires_grad=True)
    L = torch.randn(40, 6, 6)
    A, counts, g = torch.eye(6) + 0.2 * L @ L.mT, (torch.rand(40, 30) < 0.8).long(), torch.randn(40, 30, 6)
    ours = hardmax_layers(z, alpha, 5, A=A, counts=counts)
    gradients = torch.autograd.grad(ours, (z, alpha), g)
    (alone,) = torch.autograd.grad(hardmax_layers(z, alpha.detach(), 5, A=A, counts=counts), z, g)
    assert torch.equal(alone, gradients[0])  # without slopes of the steps nothing else changes
    without_numba()
    theirs = hardmax_layers(z, alpha, 5, A=A, counts=counts)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients, torch.autograd.grad(theirs, (z, alpha), g), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("numba", [False, True])
def test_padding_is_not_followed_where_slack_overflows(numba, without_numba):
    if not numba:
        without_numba()
    tiny = 2.0**-1060  # near the smallest float: how far products may be off is more than all of them
    z = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [3, 0, 0], [0, 0, 5]]], dtype=torch.float64) * tiny
    one, A = torch.ones(1, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[None]
    out = hardmax_layers(z, one, 1, A=A, counts=torch.tensor([[1, 1, 0, 1]]))
    assert torch.equal(out[0, [0, 1, 3]], z[0, [0, 1, 3]])  # each follows itself


GOOD = {"z": torch.randn(2, 5, 3), "alpha": torch.tensor([0.5, 1.0]), "count": 2}
WRONG = {
    "z": [
        {"z": torch.ones(5, 4)},
        {"z": torch.ones(2, 5, 3, dtype=torch.int64)},
        {"z": [[[1.0]]]},
        {"z": torch.full((2, 5, 3), torch.nan)},
    ],
    "alpha": [
        *({"alpha": torch.tensor(value)} for value in ([0.5, -1.0], [0.5, torch.nan], [torch.inf, 1.0], [1, 1])),
        *({"alpha": value} for value in (0.5, torch.ones(1), torch.ones(()))),
    ],
    "count": [{"count": -1}, {"count": 1.5}],
    "counts": [
        {"counts": torch.tensor([[1, 1, 1, 1, -1]] * 2)},
        {"counts": torch.ones(2, 5)},
        {"counts": torch.ones(2, 4, dtype=torch.int64)},
    ],
    "A": [{"A": torch.eye(3)}, {"A": torch.full((2, 3, 3), torch.inf)}],
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_argument_is_named(name):
    for change in WRONG[name]:
        with pytest.raises(hm.ParameterError, match=f"^`{name}`"):
            hm.hardmax_layers(**(GOOD | change))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("alpha_type", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_result_has_the_type_of_the_tokens(d, alpha_type, dtype):
    z = torch.randn(2, 6, d, generator=torch.Generator().manual_seed(d)).to(dtype).requires_grad_()
    alpha = torch.tensor([0.5, 2.0], dtype=alpha_type).requires_grad_()
    out = hm.hardmax_layers(z, alpha, 3)
    gradients = torch.autograd.grad(out.sum(), (z, alpha))
    assert (out.dtype, *(g.dtype for g in gradients)) == (dtype, dtype, alpha_type)
    wide = hm.hardmax_layers(z.detach().double(), alpha.detach().double(), 3)
    torch.testing.assert_close(out.double(), wide, rtol=4 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)


def test_multiplicities_of_any_integer_type():
    expected = hm.hardmax_layers(**GOOD, counts=torch.ones(2, 5, dtype=torch.int64))
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(hm.hardmax_layers(**GOOD, counts=torch.ones(2, 5, dtype=dtype)), expected)


def test_a_step_of_zero_moves_nothing():
    assert torch.equal(hm.hardmax_layers(GOOD["z"], torch.zeros(2), 5), GOOD["z"])
