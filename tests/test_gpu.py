"""Hardmax attention on a GPU against rational arithmetic, a dense reference and itself."""

from fractions import Fraction

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("triton", reason="needs triton")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from hardmax.attention import gpu  # noqa: E402
from hardmax.attention.functional import first_and_sizes, hardmax_attention  # noqa: E402

pytestmark = pytest.mark.gpu

TYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def visible(q, k, mask, causal):
    seen = torch.ones(q.shape[0], q.shape[1], k.shape[1], dtype=torch.bool, device="cuda")
    if causal:
        seen = seen.tril()
    return seen if mask is None else seen & (mask if mask.ndim == 3 else mask[:, None, :])


def membership(q, k, mask=None, causal=False):
    """(B, n, m) boolean: float64 products, and fractions where these are too close to tell."""
    seen = visible(q, k, mask, causal)
    Q, K = q.double(), k.double()
    scores = (Q @ K.transpose(1, 2)).masked_fill(~seen, -torch.inf)
    slack = 2 * (q.shape[-1] + 8) * 2.0**-52 * Q.norm(dim=-1)[..., None] * K.norm(dim=-1).amax(-1)[:, None, None]
    near = seen & (scores >= scores.amax(-1, keepdim=True) - slack)
    for b, i in torch.nonzero(near.sum(-1) > 1).tolist():
        query = [Fraction(x) for x in Q[b, i].tolist()]
        keys = near[b, i].nonzero().flatten()
        exact = {}
        values = []
        for key in map(tuple, K[b, keys].tolist()):
            if key not in exact:
                exact[key] = sum(x * Fraction(y) for x, y in zip(query, key, strict=True))
            values.append(exact[key])
        near[b, i, keys] = torch.tensor([value == max(values) for value in values], device="cuda")
    return near


def check_outputs_and_gradients(q, k, dv, dtype, mask=None):
    """Against those of the dense matrix, which is returned."""
    v, g = normal(len(k), k.shape[1], dv, dtype=dtype).requires_grad_(), normal(len(q), q.shape[1], dv, dtype=dtype)
    P = membership(q, k, mask).double()
    P /= P.sum(-1, keepdim=True).clamp(min=1)
    out = hardmax_attention(q, k, v, mask)
    (grad,) = torch.autograd.grad(out, v, g)
    close = {"rtol": 1e-6, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(out.double(), P @ v.detach().double(), **close)
    torch.testing.assert_close(grad.double(), P.transpose(1, 2) @ g.double(), **close)
    return P


def find_sets(q, k, mask=None, causal=False):
    """(B, n, m) boolean: the means of unit vectors, and the gradients of others, show the members of each set."""
    n, m = q.shape[1], k.shape[1]
    found = hardmax_attention(q, k, torch.eye(m, device="cuda").expand(len(k), m, m), mask, causal=causal) > 0
    v = torch.zeros(len(k), m, n, device="cuda", requires_grad=True)
    out = hardmax_attention(q, k, v, mask, causal=causal)
    (grad,) = torch.autograd.grad(out, v, torch.eye(n, device="cuda").expand(len(q), n, n))
    assert torch.equal(grad.transpose(1, 2) > 0, found)
    first, sizes = first_and_sizes(torch.ops.hardmax.attend(q, k, v.detach(), mask, causal)[1], n)
    assert torch.equal(sizes, found.sum(-1))
    assert torch.equal(first, torch.where(sizes > 0, found.int().argmax(-1), -1))
    return found


def check(q, k, mask=None, causal=False):
    expected = membership(q, k, mask, causal)
    assert torch.equal(find_sets(q, k, mask, causal), expected)
    return expected


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("n", "m", "d"),
    [(1, 1, 1), (2, 3, 2), (3, 63, 3), (63, 100, 16), (100, 257, 64), (257, 2000, 80), (2000, 257, 128), (40, 90, 300)],
)
def test_sets_of_random_tokens_are_exact(n, m, d, dtype):
    check(normal(2, n, d, dtype=dtype), normal(2, m, d, dtype=dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("times", [2, 3, 40])
@pytest.mark.parametrize("masked", [False, True])
def test_equal_keys_are_one_key_that_counts(times, masked, dtype):
    q, k = normal(2, 300, 16, dtype=dtype), normal(2, 70, 16, dtype=dtype).repeat(1, times, 1)
    k[0] = k[0, torch.randperm(k.shape[1], device="cuda")]
    mask = torch.rand(k.shape[:2], device="cuda") < 0.7 if masked else None
    assert (check(q, k, mask).sum(-1) > 1).any()
    check_outputs_and_gradients(q, k, 20, dtype, mask)


def test_keys_that_share_a_hash_stay_apart():
    # The hash is a product with a fixed vector in float32: numbers far below the first change no bit of it.
    k = torch.zeros(1, 64, 4, device="cuda")
    k[0, :, 0] = 1.0
    k[0, :, 1] = torch.arange(64, device="cuda") % 8 * 2.0**-60
    q = torch.tensor([[[0.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]], device="cuda")
    assert check(q, k).sum(-1)[0].tolist() == [8, 8, 64]


def test_zero_has_one_sign():
    k = torch.randint(-1, 2, (1, 60, 3), device="cuda").float()
    k = torch.cat([k, torch.where(k == 0, -0.0, k)], 1)
    assert (check(normal(1, 50, 3), k).sum(-1) > 1).all()
    check(normal(1, 9, 3), torch.zeros(1, 30, 3, device="cuda") * torch.tensor([1.0, -1.0, 1.0], device="cuda"))


@pytest.mark.parametrize(("n", "d", "dv"), [(512, 64, 64), (512, 48, 40), (130, 33, 1), (512, 7, 100)])
def test_sizes_between_those_that_are_compiled(n, d, dv):
    q, k = normal(3, n, d, dtype=torch.bfloat16), normal(3, n, d, dtype=torch.bfloat16)
    v, g = normal(3, n, dv).requires_grad_(), normal(3, n, dv)
    P = check(q, k, causal=True).double()
    P /= P.sum(-1, keepdim=True)
    out = hardmax_attention(q, k, v, causal=True)
    (grad,) = torch.autograd.grad(out, v, g)
    torch.testing.assert_close(out.double(), P @ v.detach().double(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(grad.double(), P.transpose(1, 2) @ g.double(), rtol=1e-6, atol=1e-4)


def mirrored(dtype):
    half = normal(1, 40, 3, dtype=dtype)
    return torch.cat([half, -half], 1), torch.cat([half, half * torch.tensor([1, 1, -1], device="cuda")], 1)


def collinear(dtype):
    direction = normal(3, dtype=dtype)
    return torch.arange(-20, 20, device="cuda").to(dtype)[None, :, None] * direction


TIES = {
    "lattice": lambda dtype: tuple(torch.randint(-2, 3, (2, 50, 3), device="cuda").to(dtype) for _ in range(2)),
    "wide lattice": lambda dtype: tuple(torch.randint(-1, 2, (1, 60, 80), device="cuda").to(dtype) for _ in range(2)),
    "mirrored": mirrored,
    "collinear": lambda dtype: (collinear(dtype), collinear(dtype)),
    "all equal": lambda dtype: (torch.ones(1, 9, 5, device="cuda", dtype=dtype),) * 2,
    "no query": lambda dtype: (torch.zeros(1, 9, 5, device="cuda", dtype=dtype), normal(1, 200, 5, dtype=dtype)),
    "duplicates": lambda dtype: (normal(1, 70, 16, dtype=dtype), normal(1, 30, 16, dtype=dtype).repeat(1, 8, 1)),
    "denormal": lambda dtype: (normal(1, 30, 4).mul(2.0**-130).to(dtype), normal(1, 40, 4).mul(2.0**-130).to(dtype)),
    "few bits": lambda dtype: tuple(normal(1, 300, 2).mul(2).round().div(2).to(dtype) for _ in range(2)),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", TIES)
def test_sets_with_ties_are_exact(name, dtype):
    check(*TIES[name](dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "places", [(0, 1), (3, 11), (5, 69), (7, 71, 135), (2, 70), (9, 601), (0, 64, 128), (1, 2, 700)]
)
@pytest.mark.parametrize("copied", [False, True])
def test_rivals_are_found_wherever_they_lie(places, copied, dtype):
    # In one lane, one column of lanes or one tile of a search or in several: equal for a query that does not see where
    # they differ, the first or the last ahead by a little for others.
    k = 0.1 * normal(1, 800, 16, dtype=dtype)
    k[0, list(places), 0] = 4.0
    k[0, list(places), 1] = torch.arange(len(places), device="cuda").to(dtype)
    if copied:
        k[0, 720:] = k[0, :80]
    q = 0.01 * normal(1, 90, 16, dtype=dtype)
    q[0, :, 0], q[0, :, 2:] = 1.0, 0.0
    q[0, :, 1] = torch.tensor([0.0, 2.0**-12, -(2.0**-12), 2.0**-20, -(2.0**-30), 1.0], device="cuda").repeat(15)
    sizes = check(q, k).sum(-1)[0]
    assert (sizes[::6] >= len(places)).all()
    assert (sizes[1::6] < sizes[::6]).all()
    check(q, k[:, :800], torch.rand(1, 800, device="cuda") < 0.9)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("places", [(5, 69), (9, 601), (7, 71, 135), (1, 2, 700)])
def test_rivals_share_values_and_gradients(places, dtype):
    """In two tiles, or in several; with values of more columns than are held at a time."""
    q, k = 0.01 * normal(1, 40, 16, dtype=dtype), 0.1 * normal(1, 800, 16, dtype=dtype)
    q[..., 0], q[..., 1] = 1.0, 0.0
    k[0, list(places), 0], k[0, list(places), 2:] = 4.0, 0.0
    k[0, list(places), 1] = torch.arange(len(places), device="cuda").to(dtype)
    P = check_outputs_and_gradients(q, k, 80, dtype)
    assert ((P > 0).sum(-1) == len(places)).all()


def test_a_lead_of_one_bit_decides_whose_values_are_taken():
    """The best of many keys that float64 does not tell apart may come last."""
    q = torch.tensor([[[1.0, 2.0**-60, 2.0**-60]]], device="cuda")
    k = torch.tensor([1.0, 0.5, 0.5], device="cuda").repeat(1, 300, 1)
    k[0, :, 1] = torch.linspace(0, 0.5, 300, device="cuda")
    k[0, :, 2] = 1.0 - k[0, :, 1]
    k[0, [40, 250], 2] += torch.tensor([2.0**-20, 2.0**-18], device="cuda")
    P = check_outputs_and_gradients(q, k, 80, torch.float32)
    assert P[0, 0].nonzero().flatten().tolist() == [250]


@pytest.mark.parametrize("dtype", TYPES)
def test_whole_numbers_tie_often(dtype):
    q, k = (torch.randint(-2, 3, (2, n, 12), device="cuda").to(dtype) for n in (200, 700))
    assert (check(q, k).sum(-1) > 1).float().mean() > 0.1
    check(q * 2.0**-14, k * 2.0**-14)
    k[:, ::2, 3] += 2.0**-9
    check(q, k)


def test_a_lead_of_one_bit_counts():
    q = torch.tensor([[[1.0, 2.0**-60, 2.0**-60]]], device="cuda")
    k = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.5, 0.5], [1.0, 0.5, 0.5 + 2.0**-24], [1.0, 0.0, 1.0]], device="cuda")
    assert check(q, k[None, :2])[0, 0].tolist() == [True, True]
    assert check(q, k[None])[0, 0].tolist() == [False, False, True, False]


@pytest.mark.parametrize(("left", "right"), [(1e18, 1e18), (1e30, 1e35), (1e-30, 1e-30), (1e-44, 1e30)])
def test_scores_may_overflow_and_underflow(left, right):
    check(normal(1, 20, 7) * left, normal(1, 50, 7) * right)
    check(
        torch.randint(-1, 2, (1, 20, 3), device="cuda") * left, torch.randint(-1, 2, (1, 50, 3), device="cuda") * right
    )


@pytest.mark.parametrize("dtype", TYPES[:2])
def test_masks_and_causal_attention(dtype):
    q, k = normal(3, 150, 16, dtype=dtype), normal(3, 150, 16, dtype=dtype)
    mask = torch.rand(3, 150, device="cuda") < 0.5
    mask[1] = False
    mask[2, :40] = False
    check(q, k, mask)
    check(q, k, causal=True)
    check(q, k, mask, causal=True)


def test_causal_attention_over_many_tiles():
    check(normal(1, 700, 64, dtype=torch.bfloat16), normal(1, 700, 64, dtype=torch.bfloat16), causal=True)


def test_sets_follow_a_permutation_of_the_keys():
    q, k = TIES["lattice"](torch.float32)
    order = torch.randperm(k.shape[1], device="cuda")
    found, moved = (find_sets(q, keys) for keys in (k, k[:, order]))
    assert torch.equal(found[..., order], moved)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("n", "d", "dv"), [(257, 64, 80), (63, 3, 128)])
@pytest.mark.parametrize("tied", [False, True])
def test_outputs_and_gradients_are_those_of_the_dense_matrix(n, d, dv, tied, dtype):
    q, k = (normal(2, n, d) for _ in range(2))
    q, k = ((x.round() if tied else x).to(dtype) for x in (q, k))
    if tied:
        k[:, n // 2 :] = k[:, : n - n // 2].clone()
    check_outputs_and_gradients(q, k, dv, dtype, torch.rand(2, n, device="cuda") < 0.9)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_each_query_may_see_its_own_keys(tied, causal):
    q, k = (normal(3, 40, 8) for _ in range(2))
    q, k = (x.round() if tied else x for x in (q, k))
    v, g = (normal(3, 40, 5) for _ in range(2))
    v.requires_grad_()
    mask = torch.rand(3, 40, 40, device="cuda") < 0.3
    mask[:, 7] = False
    P = membership(q, k, mask, causal).double()
    P /= P.sum(-1, keepdim=True).clamp(min=1)
    out = hardmax_attention(q, k, v, mask, causal=causal)
    (grad,) = torch.autograd.grad(out, v, g)
    torch.testing.assert_close(out.double(), P @ v.detach().double(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(grad.double(), P.transpose(1, 2) @ g.double(), rtol=1e-6, atol=1e-5)
    assert hardmax_attention(q[:, :0], k, v, mask[:, :0]).shape == (3, 0, 5)


def test_two_runs_have_the_same_bits_whatever_memory_held():
    q, k = (normal(4, 500, 64, dtype=torch.bfloat16).mul(2).round() for _ in range(2))
    v, g = (normal(4, 500, 64, dtype=torch.bfloat16) for _ in range(2))
    results = []
    for _ in range(3):
        poison = [torch.full((1 << 20,), torch.nan, device="cuda") for _ in range(64)]
        del poison  # the allocator hands this memory out again
        x = v.clone().requires_grad_()
        out = hardmax_attention(q, k, x)
        results.append((out.detach(), *torch.autograd.grad(out, x, g)))
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], result, strict=True))
    assert all(x.isfinite().all() for x in results[0])


def test_one_key_for_all_rows():
    q, k = torch.ones(2, 3000, 8, device="cuda"), -normal(2, 500, 8).abs()
    k[:, 123] = 1
    v, g = normal(2, 500, 16).requires_grad_(), normal(2, 3000, 16)
    (grad,) = torch.autograd.grad(hardmax_attention(q, k, v), v, g)
    expected = torch.zeros_like(grad)
    expected[:, 123] = g.double().sum(1).float()
    torch.testing.assert_close(grad, expected)


def test_a_gradient_that_is_not_finite_stays_so():
    q, k, v = (normal(1, 20, 8) for _ in range(3))
    g = normal(1, 20, 8)
    g[0, 3, 2] = torch.inf
    v.requires_grad_()
    (grad,) = torch.autograd.grad(hardmax_attention(q, k, v), v, g)
    assert (~grad.isfinite()).nonzero()[:, 2].unique().tolist() == [2]


def test_heads_broadcast_and_inputs_need_not_be_contiguous():
    q, k, v = normal(2, 60, 3, 16).transpose(1, 2), normal(2, 1, 50, 16), normal(2, 1, 5, 50).transpose(2, 3)
    P = membership(q.reshape(6, 60, 16), k.expand(2, 3, 50, 16).reshape(6, 50, 16)).float()
    out = hardmax_attention(q, k, v)
    torch.testing.assert_close(out, (P.view(2, 3, 60, 50) @ v))
    shifted = torch.empty(2 * 50 * 16 + 1, device="cuda")[1:].view(2, 1, 50, 16).copy_(k)  # not on 16 bytes
    assert torch.equal(hardmax_attention(q, shifted, v), out)


def shift(x):
    """Return a copy of x whose address is not a multiple of 16 bytes."""
    return torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)[1:].view(x.shape).copy_(x)


@pytest.mark.parametrize("each", [False, True])
def test_values_gradients_and_masks_need_not_be_aligned(each):
    q, k, v, g = (normal(2, 70, 16, dtype=torch.bfloat16) for _ in range(4))
    mask = torch.rand((2, 70, 70) if each else (2, 70), device="cuda") < 0.7
    results = []
    for place in (torch.clone, shift):  # the first call compiles
        values, seen = place(v).requires_grad_(), place(mask)
        out = hardmax_attention(q, k, values, seen)
        results.append((out, *torch.autograd.grad(out, values, place(g))))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_no_token_and_no_key():
    assert hardmax_attention(normal(2, 0, 8), normal(2, 5, 8), normal(2, 5, 3)).shape == (2, 0, 3)
    assert not hardmax_attention(normal(2, 4, 8), normal(2, 0, 8), normal(2, 0, 3)).any()


def test_not_finite_inputs_end():
    q, k, v = (normal(1, 40, 8) for _ in range(3))
    q[0, :10] = torch.nan
    k[0, 5] = torch.inf
    hardmax_attention(q, k, v)
    torch.cuda.synchronize()


@pytest.mark.filterwarnings("ignore")
def test_compiled_in_one_graph():
    q, k = (torch.randint(-2, 3, (2, 70, 16), device="cuda").bfloat16() for _ in range(2))
    v = normal(2, 70, 16, dtype=torch.bfloat16).requires_grad_()

    def loss(q, k, v):
        return (hardmax_attention(q, k + k, v, causal=True).float() ** 2).sum()

    compiled = torch.compile(loss, fullgraph=True)
    (expected,), (grad,) = (torch.autograd.grad(f(q, k, v), v) for f in (loss, compiled))
    torch.testing.assert_close(grad, expected)
    torch.library.opcheck(torch.ops.hardmax.attend, (q, k, v, None, True))


def test_double_precision_stays_on_the_cpu():
    x = normal(1, 2, 2).double()
    with pytest.raises(ValueError, match="`q`"):
        hardmax_attention(x, x, x)


def test_each_query_may_see_its_own_keys_of_many_tiles():
    q, k = normal(2, 200, 16, dtype=torch.bfloat16), normal(2, 300, 16, dtype=torch.bfloat16)
    check(q, k, torch.rand(2, 200, 300, device="cuda") < 0.1)


def test_totals_of_ties_may_be_collected_for_some_batch_elements_at_a_time(monkeypatch):
    q, k, v = (normal(5, 300, 12).round().requires_grad_() for _ in range(3))
    (expected,) = torch.autograd.grad(hardmax_attention(q, k, v).square().sum(), v)
    monkeypatch.setattr(gpu, "MAX_TOTALS", 2 * 300 * 12)
    (grad,) = torch.autograd.grad(hardmax_attention(q, k, v).square().sum(), v)
    assert torch.equal(grad, expected)


def test_recorded_in_a_cuda_graph():
    q, k = (normal(3, 200, 16).round() for _ in range(2))
    values = normal(3, 200, 16)

    def step():
        v = values.clone().requires_grad_()
        out = hardmax_attention(q, k, v)
        (grad,) = torch.autograd.grad(out.square().sum(), v)
        return out.detach(), grad

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = step()
    k.copy_(normal(3, 200, 16).round())  # other ties
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(recorded, step(), strict=True))


@pytest.mark.parametrize("n", [300, 900])
def test_a_batch_of_small_clouds_is_its_clouds(n):
    q, k, v = (normal(80, n, 24, dtype=torch.bfloat16).round().requires_grad_() for _ in range(3))  # ties and copies
    out = hardmax_attention(q, k, v)
    (found,) = torch.autograd.grad(out.float().square().sum(), v)
    for b in (0, 41, 79):
        alone = v[b : b + 1].detach().requires_grad_()
        one = hardmax_attention(q[b : b + 1], k[b : b + 1], alone)
        (wanted,) = torch.autograd.grad(one.float().square().sum(), alone)
        assert torch.equal(one[0], out[b])
        assert torch.allclose(wanted[0], found[b], rtol=2e-2, atol=1e-3)
