"""Hardmax attention of torch on the CPU: exact sets, gradients, compilation, errors."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import hardmax as hm  # noqa: E402
from hardmax import HardmaxAttention, hardmax_attention  # noqa: E402
from hardmax.attention import cpu  # noqa: E402
from tests.problems.oracle import dot, fractions  # noqa: E402

pytestmark = pytest.mark.portable


def weights(q, k, mask=None, causal=False):
    """Return P with P_ij = 1/|C_i| for j in C_i, by rational arithmetic; (B, n, m)."""
    P = torch.zeros(q.shape[0], q.shape[1], k.shape[1], dtype=torch.float64)
    Q, K = ([fractions(element) for element in z.double().tolist()] for z in (q, k))
    for b, i in ((b, i) for b in range(P.shape[0]) for i in range(P.shape[1])):
        own = None if mask is None else mask[b] if mask.ndim == 2 else mask[b, i]
        seen = [
            j
            for j in range(P.shape[2])
            if (own is None or own[j]) and (not causal or j <= i)
        ]
        scores = {j: dot(Q[b][i], K[b][j]) for j in seen}
        chosen = [j for j in seen if scores[j] == max(scores.values())]
        P[b, i, chosen] = 1 / max(1, len(chosen))
    return P


def tokens(kind, shape, generator):
    if kind == "lattice":
        return torch.randint(-1, 2, shape, generator=generator).double()
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def run(q, k, v, g, mask=None, **options):
    """Return the output, and the gradient of the values."""
    v = v.detach().requires_grad_()
    out = hardmax_attention(q, k, v, mask=mask, **options)
    return out.detach(), torch.autograd.grad(out, v, g)[0]


def check(q, k, v, g, mask=None, causal=False, close=1e-5):
    """Compare outputs and gradients with those of the dense matrix."""
    out, grad = run(q, k, v, g, mask, causal=causal)
    P = weights(q, k, mask, causal)
    assert out.dtype == grad.dtype == v.dtype
    torch.testing.assert_close(out.double(), P @ v.double(), rtol=close, atol=close)
    torch.testing.assert_close(grad.double(), P.mT @ g.double(), rtol=close, atol=close)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "mask", [None, (6, 7), (6, 7, 7)]
)  # one for all queries, or one for each
@pytest.mark.parametrize("kind", ["random", "lattice"])
@pytest.mark.parametrize("d", [1, 3])
def test_outputs_and_gradients_are_those_of_the_dense_matrix(
    d, kind, mask, causal, dtype
):
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, dtype)
    q, k = (tokens(kind, (6, 7, d), generator).to(dtype) for _ in range(2))
    v, g = (tokens("random", (6, 7, 5), generator).to(dtype) for _ in range(2))
    if mask is not None:
        mask = torch.rand(mask, generator=generator) < 0.4
        mask[:, 3] = False  # a key that no query sees, or a query that sees no key
    check(q, k, v, g, mask, causal, close={8: 1e-14, 4: 1e-6, 2: 2e-2}[dtype.itemsize])
    if mask is not None and mask.ndim == 3:
        sdpa = run(q, k, v, g, attn_mask=mask, is_causal=causal)
        assert all(
            torch.equal(a, b)
            for a, b in zip(run(q, k, v, g, mask, causal=causal), sdpa, strict=True)
        )


@pytest.mark.parametrize(
    "shape",
    [(4, 5), (1, 5), (3, 1, 5), (3, 4, 5), (2, 1, 1, 5), (2, 3, 4, 5), (2, 1, 4, 1)],
)
def test_masks_broadcast_as_in_scaled_dot_product_attention(shape):
    generator = torch.Generator().manual_seed(9)
    q, k, v = (
        torch.randn(2, 3, n, d, generator=generator)
        for n, d in ((4, 8), (5, 8), (5, 6))
    )
    mask = torch.rand(shape, generator=generator) < 0.7
    mask[..., 0] = True  # torch has NaN where nothing is seen
    sharp = torch.nn.functional.scaled_dot_product_attention(
        1e4 * q, k, v, attn_mask=mask
    )
    torch.testing.assert_close(hardmax_attention(q, k, v, attn_mask=mask), sharp)


def test_a_square_mask_is_for_one_token_set_and_for_a_whole_batch():
    generator = torch.Generator().manual_seed(10)
    q, k, v = (torch.randn(2, n, 3, generator=generator) for n in (4, 5, 5))
    mask = torch.rand(4, 5, generator=generator) < 0.5
    out = hardmax_attention(q, k, v, mask=mask)
    torch.testing.assert_close(
        out.double(), weights(q, k, mask.expand(2, 4, 5)) @ v.double()
    )
    assert torch.equal(hardmax_attention(q[0], k[0], v[0], mask=mask), out[0])


def test_torch_vmap_is_one_more_axis():
    generator = torch.Generator().manual_seed(11)
    q, k = (tokens("lattice", (3, 2, 4, 2), generator) for _ in range(2))
    v, mask = (
        torch.randn(2, 3, 4, 5, generator=generator),
        torch.rand(2, 4, generator=generator) < 0.7,
    )
    mapped = torch.vmap(
        lambda q, k, v: hardmax_attention(q, k, v, mask=mask), in_dims=(0, 0, 1)
    )(q, k, v)
    assert torch.equal(mapped, hardmax_attention(q, k, v.transpose(0, 1), mask=mask))
    each = torch.vmap(
        torch.func.grad(lambda v, q, k: (hardmax_attention(q, k, v) ** 2).sum()),
        in_dims=(1, 0, 0),
    )
    v.requires_grad_()
    (grad,) = torch.autograd.grad(
        (hardmax_attention(q, k, v.transpose(0, 1)) ** 2).sum(), v
    )
    torch.testing.assert_close(each(v.detach(), q, k).transpose(0, 1), grad)


def test_near_ties_are_decided_as_in_real_arithmetic():
    q = torch.tensor([[[1.0, 2.0**-60, 2.0**-60]]])
    k = torch.tensor(
        [
            [
                [1.0, 1.0, 0.0],
                [1.0, 0.5, 0.5],
                [1.0, 0.5, 0.5 - 2.0**-24],
                [1.0, 0.0, 1.0],
            ]
        ]
    )
    v = torch.tensor([[[1.0], [2.0], [4.0], [9.0]]])
    assert hardmax_attention(q, k, v).item() == 4.0  # the mean of 1, 2 and 9


def test_leading_axes_broadcast():
    generator = torch.Generator().manual_seed(2)
    q, k = (
        torch.randn(2, 3, 6, 4, generator=generator),
        torch.randn(2, 1, 5, 4, generator=generator),
    )
    v = torch.randn(5, 2, generator=generator, requires_grad=True)
    mask = torch.tensor([True, True, False, True, True])
    out = hardmax_attention(q, k, v, mask=mask)
    P = weights(
        q.reshape(6, 6, 4), k.expand(2, 3, 5, 4).reshape(6, 5, 4), mask.expand(6, 5)
    ).float()
    torch.testing.assert_close(out, (P @ v.detach()).view(2, 3, 6, 2))
    out.sum().backward()
    torch.testing.assert_close(v.grad, P.sum((0, 1))[:, None].expand(5, 2))
    strided = [x.mT.contiguous().mT for x in (q, k, v)]
    assert torch.equal(hardmax_attention(*strided, mask=mask), out)


@pytest.mark.parametrize(
    ("n", "m", "hidden"), [(0, 3, False), (3, 0, False), (2, 3, True)]
)
def test_without_a_query_or_a_visible_key_everything_is_zero(n, m, hidden):
    mask = torch.zeros(1, m, dtype=torch.bool) if hidden else None
    out, grad = run(
        torch.ones(1, n, 2),
        torch.ones(1, m, 2),
        torch.ones(1, m, 2),
        torch.ones(1, n, 2),
        mask,
    )
    assert out.shape == (1, n, 2)
    assert not out.any()
    assert not grad.any()


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_has_a_gradient(masked):
    generator = torch.Generator().manual_seed(8)
    q, k = (tokens("lattice", (2, 5, 2), generator) for _ in range(2))
    v = tokens("random", (2, 5, 3), generator).requires_grad_()
    mask = torch.rand(2, 5, 5, generator=generator) < 0.7 if masked else None
    assert torch.autograd.gradgradcheck(
        lambda v: hardmax_attention(q, k, v, mask=mask) ** 2, (v,)
    )

    def differentiate_twice(attend):
        once = torch.func.grad(lambda v: (attend(v) ** 3).sum())
        return torch.func.grad(lambda v: (once(v) ** 2).sum())(v.detach())

    P = weights(q, k, mask)
    ours = differentiate_twice(lambda v: hardmax_attention(q, k, v, mask=mask))
    torch.testing.assert_close(ours, differentiate_twice(lambda v: P @ v))


def test_the_operators_meet_the_contracts_of_torch():
    generator = torch.Generator().manual_seed(6)
    q, k = (tokens("lattice", (2, 4, 3), generator) for _ in range(2))
    v = tokens("random", (2, 4, 2), generator).requires_grad_()
    torch.library.opcheck(torch.ops.hardmax.attend, (q, k, v, None, True))
    for shape in ((2, 4), (2, 4, 4)):
        mask = torch.rand(shape, generator=generator) < 0.5
        torch.library.opcheck(torch.ops.hardmax.attend, (q, k, v, mask, False))
        found = torch.ops.hardmax.attend(q, k, v.detach(), mask, False)[1:]
        torch.library.opcheck(torch.ops.hardmax.spread, (v, q, k, mask, False, *found))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [None, (2, 6), (6, 6)])
def test_compiled_in_one_graph(shape):
    generator = torch.Generator().manual_seed(7)
    q, k = (tokens("lattice", (2, 6, 3), generator).float() for _ in range(2))
    v = torch.randn(2, 6, 4, generator=generator, requires_grad=True)
    layer = HardmaxAttention(causal=True)

    def loss(q, k, v):
        return (layer(2 * q, k, v, mask=mask) ** 2).sum()

    mask = None if shape is None else torch.rand(shape, generator=generator) < 0.7
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (expected,), (grad,) = (
        torch.autograd.grad(f(q, k, v), v) for f in (loss, compiled)
    )
    assert torch.equal(expected, grad)
    assert torch.equal(loss(q, k, v), compiled(q, k, v))
    assert (
        repr(layer) == "HardmaxAttention(causal=True, gradient='none', temperature=1.0)"
    )


@pytest.mark.parametrize(
    ("parameter", "change"),
    [
        ("k", {"k": torch.ones(2, 5, 8)}),
        ("v", {"v": torch.ones(2, 4, 3)}),
        ("q", {"q": torch.ones(2, 4, 0)}),
        ("q", {"q": torch.ones(3)}),
        ("q", {"q": [[1.0]]}),
        ("k", {"k": torch.ones(2, 5, 3).double()}),
        ("v", {"v": torch.ones(2, 5, 3).int()}),
        ("causal", {"causal": True}),
        ("mask", {"mask": torch.ones(2, 5)}),
        ("mask", {"mask": torch.ones(2, 4).bool()}),
        ("mask", {"mask": torch.ones(3, 5).bool()}),
        ("attn_mask", {"attn_mask": torch.ones(3, 5).bool()}),
        (
            "attn_mask",
            {"attn_mask": torch.ones(4, 5).bool(), "mask": torch.ones(2, 5).bool()},
        ),
        ("k", {"k": torch.full((2, 5, 3), torch.nan)}),
        ("v", {"v": torch.ones(2, 5, 3, device="meta")}),
    ],
)
def test_an_invalid_argument_is_named(parameter, change):
    given = {
        "q": torch.ones(2, 4, 3),
        "k": torch.ones(2, 5, 3),
        "v": torch.ones(2, 5, 2),
    } | change
    with pytest.raises(hm.InputError, match=f"^`{parameter}`"):
        hardmax_attention(**given)


@pytest.mark.parametrize(
    ("n", "m", "d"),
    [(1, 1, 4), (5, 16, 4), (17, 33, 5), (40, 16, 19), (9, 20, 2), (16, 64, 16)],
)
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e-41, 1e19])
@pytest.mark.parametrize("masked", [False, True])
def test_small_token_sets_of_every_shape_and_size(n, m, d, scale, masked):
    generator = torch.Generator().manual_seed(n * m + d)
    q, k = (scale * torch.randn(4, rows, d, generator=generator) for rows in (n, m))
    k[1, m // 2 :] = k[1, : m - m // 2].clone()  # copies
    k[2] = torch.randint(-1, 2, (m, d), generator=generator)
    q[2] = torch.randint(-1, 2, (n, d), generator=generator)
    q[3, 0] = 0  # ties with all
    v, g = (torch.randn(4, rows, 3, generator=generator) for rows in (m, n))
    check(q, k, v, g, torch.rand(4, m, generator=generator) < 0.6 if masked else None)


@pytest.mark.parametrize("width", [1, 15, 16, 33])
def test_a_token_set_has_the_same_bits_in_any_batch_and_with_any_number_of_threads(
    width, monkeypatch
):
    threads = pytest.importorskip("hardmax.search.threads")
    generator = torch.Generator().manual_seed(12)
    q, k = (torch.randn(9, 50, 8, generator=generator) for _ in range(2))
    q[4] = q[4].round()
    k[4] = k[4].round()  # full of ties
    v, g = (torch.randn(9, 50, width, generator=generator) for _ in range(2))
    whole = run(q, k, v, g)
    for b in range(9):
        one = run(q[b], k[b], v[b], g[b])
        assert all(torch.equal(a, both[b]) for a, both in zip(one, whole, strict=True))
    monkeypatch.setattr(threads, "MIN_PARALLEL", 0)
    assert all(torch.equal(a, b) for a, b in zip(run(q, k, v, g), whole, strict=True))


@pytest.mark.parametrize("d", [4, 7, 16])
def test_clusters_of_every_width(d):
    generator = torch.Generator().manual_seed(d)
    k = torch.randn(9, 40, d, generator=generator)
    widths = 10.0 ** -torch.arange(
        9
    )  # some are decided by integers, some by float32, some by neither
    k += (k[:, :4].repeat(1, 10, 1) - k) * (1 - widths[:, None, None])
    q, v, g = (
        torch.randn(9, *shape, generator=generator)
        for shape in ((20, d), (40, 3), (20, 3))
    )
    check(q, k, v, g)


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_every_batch_element_is_done_by_some_thread(count, monkeypatch):
    threads = pytest.importorskip("hardmax.search.threads")
    generator = torch.Generator().manual_seed(14)
    q, k, v, g = (torch.randn(11, 20, 8, generator=generator) for _ in range(4))
    monkeypatch.setattr(threads, "MIN_PARALLEL", 0)
    monkeypatch.setattr(threads, "max_threads", lambda: count)
    monkeypatch.setattr(cpu, "_sets", None)  # so that a call raises
    monkeypatch.setattr(cpu, "_transpose", None)
    check(q, k, v, g)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_can_attend(monkeypatch):
    threads = pytest.importorskip("hardmax.search.threads")
    monkeypatch.setattr(threads, "MIN_PARALLEL", 0)
    tokens = torch.randn(24, 65, 16)
    expected = hardmax_attention(tokens, tokens, tokens)
    child = os.fork()
    if not child:
        same = False
        try:
            same = torch.equal(hardmax_attention(tokens, tokens, tokens), expected)
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["q", "k"])
def test_one_number_that_is_not_finite_is_found(name, number, d):
    given = {
        "q": torch.randn(20, 30, d),
        "k": torch.randn(20, 30, d),
        "v": torch.randn(20, 30, 2),
    }
    given[name][13, 29, 1] = number
    for mask in (None, torch.arange(30) < 20):  # also in a key that is not seen
        with pytest.raises(hm.ParameterError, match=f"^`{name}`"):
            hardmax_attention(**given, mask=mask)


def test_without_numba_outputs_and_gradients_have_the_same_bits(without_numba):
    generator = torch.Generator().manual_seed(13)
    q, k = (torch.randn(6, 20, 8, generator=generator) for _ in range(2))
    k[2, 10:] = k[2, :10].clone()
    v, g = (torch.randn(6, 20, 5, generator=generator) for _ in range(2))
    compiled = run(q, k, v, g)
    without_numba()
    assert all(
        torch.equal(a, b) for a, b in zip(run(q, k, v, g), compiled, strict=True)
    )


NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=(pytest.mark.gpu, NEEDS_GPU))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_casts_as_scaled_dot_product_attention_does(dtype, device):
    torch.manual_seed(0)
    x, project = (
        torch.randn(2, 9, 16, device=device, requires_grad=True),
        torch.nn.Linear(16, 16, device=device),
    )
    with torch.autocast(device, dtype=dtype):
        out = hardmax_attention(project(x), x, x)
        module = HardmaxAttention()(project(x), x, x)
        softmax = torch.nn.functional.scaled_dot_product_attention(project(x), x, x)
        cast = hardmax_attention(project(x).to(dtype), x.to(dtype), x.to(dtype))
    assert out.dtype == softmax.dtype == dtype
    assert torch.equal(out, cast)
    assert torch.equal(out, module)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert grad.dtype == torch.float32
    with (
        torch.autocast(device, enabled=False),
        pytest.raises(hm.ParameterError, match="`k`"),
    ):
        hardmax_attention(x.to(dtype), x, x)
    wide = x.cpu().double()
    with torch.autocast("cpu", dtype=dtype):
        assert hardmax_attention(wide, wide, wide).dtype == torch.float64
        assert (
            hardmax_attention(wide, wide, x.cpu()).dtype == dtype
        )  # each tensor by itself


def test_autocast_in_a_compiled_function():
    x, project = torch.randn(2, 5, 3), torch.nn.Linear(3, 3)

    def attend(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return hardmax_attention(project(x), x, x)

    assert torch.equal(
        torch.compile(attend, backend="aot_eager", fullgraph=True)(x), attend(x)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_values_without_columns(device, causal, masked):
    x = torch.randn(2, 3, 5, 4, device=device)
    v = torch.empty(2, 3, 5, 0, device=device, requires_grad=True)
    mask = torch.ones(2, 3, 5, dtype=torch.bool, device=device) if masked else None
    out = hardmax_attention(x, x, v, mask=mask, causal=causal)
    assert out.shape == (2, 3, 5, 0)
    out.sum().backward()
    assert v.grad.shape == v.shape
    assert hardmax_attention(x, x, v.detach(), mask=mask, causal=causal).shape == (
        2,
        3,
        5,
        0,
    )


@pytest.mark.parametrize("large", [1e308, -1.7e308, torch.finfo(torch.float64).max])
def test_the_mean_of_large_values_does_not_overflow(large):
    q, k = (
        torch.tensor([[1.0, 1.0]]).double(),
        torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]).double(),
    )
    v = torch.full((3, 1), large, dtype=torch.float64)
    assert hardmax_attention(q, k, v).item() == pytest.approx(large, rel=1e-15)
    assert (
        hardmax_attention(
            q, k[:2], torch.tensor([[large], [1.0]], dtype=torch.float64)
        ).item()
        == large / 2
    )
    eye, v = (
        torch.eye(2).double(),
        torch.tensor([[large], [large], [5e-324], [5e-324]], dtype=torch.float64),
    )
    assert hardmax_attention(eye, eye.repeat_interleave(2, 0), v).tolist() == [
        [large],
        [5e-324],
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_outputs_may_be_changed_in_place(device, leading):
    x = torch.randn(*leading, 5, 4, device=device)
    v = torch.randn(*leading, 5, 3, device=device, requires_grad=True)
    out, changed = hardmax_attention(x, x, v), hardmax_attention(x, x, v)
    changed *= 2
    assert torch.equal(changed, 2 * out)
    assert torch.equal(
        *(torch.autograd.grad(y, v, torch.ones_like(y))[0] for y in (2 * out, changed))
    )


MEMORY = """
import sys, torch, hardmax as hm
n, d = 8192, int(sys.argv[1])
options = {"causal": True} if "causal" in sys.argv else {}
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
keys = torch.ones(1, n, d)
values = torch.arange(n).float()[None, :, None].requires_grad_()
before = peak()
out = hm.hardmax_attention(keys, keys, values, **options)
out.sum().backward()
expected = values.detach().cumsum(1) / (1 + torch.arange(n))[:, None]
assert torch.allclose(out, expected if options else expected[:, -1:])
assert torch.allclose(values.grad.sum(), torch.tensor(float(n)))
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in /proc")
@pytest.mark.parametrize("options", [("16",), ("2",), ("1",), ("16", "causal")])
def test_equal_keys_take_no_table_of_queries_and_keys(options):
    """It would have 268 MB in float32."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *options],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < 500


@pytest.mark.parametrize("most", [1, 20, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, (4, 9), (4, 9, 9)])
@pytest.mark.parametrize("d", [1, 3])
def test_sets_of_many_equal_keys_come_in_parts(d, mask, causal, most, monkeypatch):
    monkeypatch.setattr(cpu, "MAX_MEMBERS", most)
    generator = torch.Generator().manual_seed(5)
    q, k = (torch.randint(-1, 2, (4, 9, d), generator=generator) * 1.0 for _ in "qk")
    v, g = (torch.randn(4, 9, 2, generator=generator) for _ in "vg")
    seen = None
    if mask is not None:
        seen = torch.rand(mask, generator=generator) < 0.6
        seen[0] = False  # some queries see no key
    check(q, k, v, g, seen, causal)
