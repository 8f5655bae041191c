"""Options of `hardmax_attention`: gradients of queries and keys, masks and heads as in
torch, export.
"""

import io
import math
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import hardmax as hm  # noqa: E402
from hardmax import HardmaxAttention, hardmax_attention  # noqa: E402


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def gradients(q, k, v, g, mask=None, **options):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = hardmax_attention(q, k, v, mask=mask, **options)
    return out.detach(), torch.autograd.grad(out, (q, k, v), g, allow_unused=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("gradient", ["straight-through", "softmax"])
def test_gradients_are_those_of_dense_softmax(gradient, masked, causal):
    q, k, v, g = (draw(2, 3, 6, 4, seed=seed) for seed in range(4))
    mask = (
        torch.tensor([[1, 1, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1]]).bool()[:, None]
        if masked
        else None
    )
    seen = (
        torch.ones(2, 3, 6, 6, dtype=torch.bool)
        if mask is None
        else mask[..., None, :].expand(2, 3, 6, 6)
    )
    seen = seen.tril() if causal else seen
    own = [x.clone().requires_grad_() for x in (q, k, v)]
    scores = (own[0] @ own[1].mT * 0.5 / 0.3).masked_fill(~seen, -math.inf)
    P = scores.softmax(
        -1
    ).nan_to_num()  # the second batch element has a query that sees no key, if causal
    soft = torch.autograd.grad(P @ own[2], own, g)
    plain, (_, _, hard) = gradients(q, k, v, g, mask, causal=causal)
    out, found = gradients(
        q, k, v, g, mask, causal=causal, gradient=gradient, temperature=0.3
    )
    assert torch.equal(out, plain)
    for ours, expected in zip(
        found,
        (*soft[:2], hard if gradient == "straight-through" else soft[2]),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected.nan_to_num(), rtol=1e-9, atol=1e-12)


NAN_PADDING = torch.tensor([[1.0, 3.0], [math.nan, math.inf]])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("gradient", ["straight-through", "softmax"])
@pytest.mark.parametrize(
    ("q", "k", "v", "mask"),
    [
        ([[1e20, 1e20]], [[1e20, 1e20], [1.0, 0.0]], [[1.0], [2.0]], None),
        ([[1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], NAN_PADDING, [True, False]),
        (
            [[1.0, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, 1.0]],
            NAN_PADDING,
            [[True, False]] * 2,
        ),
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], NAN_PADDING, None),
        ([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], [[3.0], [-0.0]], None),
    ],
)
def test_the_output_has_the_same_bits_with_every_gradient(
    q, k, v, mask, gradient, compiled
):
    q, k, v = (torch.as_tensor(x).clone() for x in (q, k, v))
    mask = None if mask is None else torch.tensor(mask)
    expected = hardmax_attention(q, k, v, mask=mask)
    attend = (
        torch.compile(hardmax_attention, backend="aot_eager", fullgraph=True)
        if compiled
        else hardmax_attention
    )
    out = attend(
        q.requires_grad_(), k, v.requires_grad_(), mask=mask, gradient=gradient
    )
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(out.signbit(), expected.signbit())
    if mask is not None:
        assert torch.equal(
            hardmax_attention(q, k, v, mask=mask, tolerance=0.0), expected
        )
        out.sum().backward()
        assert q.grad.isfinite().all()
        assert v.grad[1].tolist() == [0.0, 0.0]


def test_no_gradient_of_queries_by_default():
    q, k, v, g = (draw(3, 2, seed=seed) for seed in range(4))
    assert gradients(q, k, v, g)[1][:2] == (None, None)
    module = HardmaxAttention(gradient="softmax", temperature=2.0)
    q.requires_grad_()
    module(q, k, v).sum().backward()
    assert q.grad.abs().sum() > 0
    assert (
        str(module)
        == "HardmaxAttention(causal=False, gradient='softmax', temperature=2.0)"
    )


def test_training_memory_does_not_grow_with_n_squared():
    """No tensor that autograd keeps has n squared numbers."""
    n, kept = 512, []
    q, k, v = (
        draw(n, 4, seed=seed, dtype=torch.float32).requires_grad_() for seed in range(3)
    )
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    ):
        hardmax_attention(
            q, k, v, causal=True, gradient="straight-through"
        ).sum().backward()
    assert max(kept) < n * n / 8


PEAK = """
import resource
import torch
from hardmax import hardmax_attention

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def draw(*shape):
    return torch.randn(*shape, requires_grad=True)

{0}
"""
CAUSAL_WITH_PADDING = """
heads, n = 8, 2048
q, k, v = (draw(heads, n, 2) for _ in range(3))
mask = torch.arange(n) > 5
small = [x[:, :64] for x in (q, k, v)]
for gradient in ("none", "straight-through", "softmax"):
    hardmax_attention(
        *small, mask=mask[:64], causal=True, gradient=gradient
    ).sum().backward()
hardmax_attention(q, k, v, mask=mask, causal=True).sum().backward()
before = peak()
for gradient in ("straight-through", "softmax"):
    hardmax_attention(
        q, k, v, mask=mask, causal=True, gradient=gradient
    ).sum().backward()
print((peak() - before) / (heads * n * n))
"""
GROUPS = """
groups, heads, m, d = 2, 16, 40_000, 32
k, v = (draw(1, groups, m, d) for _ in range(2))
q = draw(1, groups * heads, 2, d)
one = q[:, ::heads]
for gradient in ("none", "softmax"):  # a head for each group
    hardmax_attention(one, k, v, gradient=gradient).sum().backward()
before = peak()
for gradient in ("none", "softmax"):
    hardmax_attention(
        q, k, v, enable_gqa=True, gradient=gradient
    ).sum().backward()
print((peak() - before) / (4 * groups * heads * m * d))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in kB")
@pytest.mark.parametrize(
    ("script", "most"),
    [
        # bytes per number of a matrix n by n of each head
        (CAUSAL_WITH_PADDING, 1.0),
        # a copy of the keys for each head is 1
        (GROUPS, 0.5),
    ],
)
def test_no_matrix_of_all_heads_and_no_copy_of_keys(script, most):
    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(script)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < most


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gradient", ["none", "straight-through", "softmax"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (None, ()),
        ("mask", (2, 1, 5)),
        ("mask", (2, 6, 5)),
        ("attn_mask", (5, 5)),
        ("attn_mask", (6, 5, 5)),
        ("attn_mask", (2, 1, 1, 5)),
    ],
)
def test_groups_of_heads_equal_repeated_keys(name, shape, gradient, causal):
    q, k, v = draw(2, 6, 5, 3), draw(2, 2, 5, 3, seed=1), draw(2, 2, 5, 4, seed=2)
    options = {"gradient": gradient, "causal": causal}
    if name:
        options[name] = draw(*shape, seed=3) > -0.5
    ours, theirs = ([x.clone().requires_grad_() for x in (q, k, v)] for _ in range(2))
    out = hardmax_attention(*ours, enable_gqa=True, **options)
    repeated = [x.repeat_interleave(3, 1) for x in theirs[1:]]
    expected = hardmax_attention(theirs[0], *repeated, **options)
    assert torch.equal(out, expected)
    g = draw(*out.shape, seed=4)
    for one, other in zip(
        torch.autograd.grad(out, ours, g, allow_unused=True),
        torch.autograd.grad(expected, theirs, g, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_softmax_are_the_same_in_blocks(causal, monkeypatch):
    """And the same to the last bit on every run."""
    q, k, v, g = (draw(3, 20, 4, seed=seed) for seed in range(4))
    mask = draw(3, 20, seed=4) > -0.5
    options = {"causal": causal, "gradient": "softmax"}
    whole = gradients(q, k, v, g, mask, **options)[1]
    for most in (1, 50, 900):
        monkeypatch.setattr("hardmax.attention.functional.MAX_BLOCK", most)
        blocks = [gradients(q, k, v, g, mask, **options)[1] for _ in range(2)]
        for one, again, expected in zip(*blocks, whole, strict=True):
            assert torch.equal(one, again)
            torch.testing.assert_close(one, expected)


@pytest.mark.parametrize("gradient", ["none", "straight-through", "softmax"])
def test_tensors_without_numbers_get_shapes(gradient):
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = draw(2, 6, 5, 3), draw(2, 2, 5, 3), draw(2, 2, 5, 4)
    options = {"enable_gqa": True, "causal": True, "gradient": gradient}
    mode = FakeTensorMode()
    for convert in (lambda x: x.to("meta"), mode.from_tensor):
        given = [convert(x).requires_grad_() for x in (q, k, v)]
        seen = convert(torch.ones(2, 1, 5, dtype=torch.bool))
        bias = convert(torch.zeros(5, 5))
        for masks in ({}, {"mask": seen}, {"attn_mask": bias}):
            out = hardmax_attention(*given, **masks, **options)
            assert (out.shape, out.device) == ((2, 6, 5, 4), given[0].device)
            out.sum().backward()
            for x in given[2:] if gradient == "none" else given:
                assert x.grad.shape == x.shape


def test_recorded_operations_depend_on_their_inputs():
    from torch.fx.experimental.proxy_tensor import make_fx

    q, k, v, other = (draw(2, 5, 3, seed=seed) for seed in range(4))
    recorded = make_fx(lambda q, k, v: hardmax_attention(q, k, v))(q, k, v)
    expected = hardmax_attention(other, k, v)
    assert torch.equal(recorded(other, k, v), expected)


@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch without torch.distributed"
)
@pytest.mark.filterwarnings("ignore")
def test_distributed_tensors(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        mesh = init_device_mesh("cpu", (1,))
        plain = [draw(2, 3, 5, 4, seed=seed) for seed in range(3)]
        mask = draw(2, 1, 5, seed=3) > -0.5
        for gradient in ("none", "straight-through", "softmax"):
            q, k, v = (
                distribute_tensor(x, mesh, [Shard(0)]).requires_grad_() for x in plain
            )
            seen = distribute_tensor(mask, mesh, [Replicate()])
            out = hardmax_attention(q, k, v, mask=seen, gradient=gradient)
            g = torch.ones_like(plain[2])
            expected, grads = gradients(*plain, g, mask, gradient=gradient)
            assert torch.equal(out.full_tensor(), expected)
            out.sum().backward()
            torch.testing.assert_close(v.grad.full_tensor(), grads[2])
    finally:
        torch.distributed.destroy_process_group()


def random_bias(scores):
    return torch.randn(scores, generator=torch.Generator().manual_seed(5))


def alibi(scores):
    n, m = scores
    return (torch.arange(m) - torch.arange(n)[:, None]).float() * 0.5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bias", [random_bias, alibi])
@pytest.mark.parametrize(
    "record", ["eager", "aot_eager", "inductor", "export", "export strict", "make_fx"]
)
def test_a_bias_is_refused_when_a_recorded_graph_runs(record, bias):
    class Biased(torch.nn.Module):
        def forward(self, q, k, v, bias):
            return hardmax_attention(q, k, v, attn_mask=bias)

    q, k, v = (draw(2, 5, 3, seed=seed) for seed in range(3))
    hidden = torch.zeros(5, 5).masked_fill(draw(5, 5, seed=4) > 0, -math.inf)
    wrong = bias((5, 5))
    with pytest.raises(hm.ParameterError, match="`attn_mask`"):
        hardmax_attention(q, k, v, attn_mask=wrong)
    model = Biased()
    if record.startswith("export"):
        strict = "strict" in record
        program = torch.export.export(model, (q, k, v, hidden), strict=strict)
        run = program.run_decompositions().module()
    elif record == "make_fx":
        from torch.fx.experimental.proxy_tensor import make_fx

        run = make_fx(model)(q, k, v, hidden)
    else:
        run = torch.compile(model, backend=record, fullgraph=True)
    expected = hardmax_attention(q, k, v, attn_mask=hidden)
    assert torch.equal(run(q, k, v, hidden), expected)
    with pytest.raises(RuntimeError, match="`attn_mask` must be boolean"):
        run(q, k, v, wrong)


def test_masks_are_given_by_name():
    q = draw(4, 4, 3)
    with pytest.raises(TypeError):
        hardmax_attention(q, q, q, torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(TypeError):
        HardmaxAttention()(q, q, q, torch.ones(4, 4, dtype=torch.bool))


@pytest.mark.parametrize("leading", [(4,), (2, 4), (4, 4)])
def test_a_mask_for_either_queries_or_batch_elements_is_refused(leading):
    q = draw(*leading, 4, 3)
    k, v = draw(*leading, 7, 3, seed=1), draw(*leading, 7, 3, seed=2)
    mask = draw(4, 7, seed=3) > 0
    with pytest.raises(hm.ParameterError, match=r"^`mask`"):
        hardmax_attention(q, k, v, mask=mask)
    of_queries = hardmax_attention(q, k, v, attn_mask=mask)
    of_elements = hardmax_attention(q, k, v, attn_mask=mask[:, None, :])
    whole = mask.expand(*leading, 4, 7)
    assert torch.equal(of_queries, hardmax_attention(q, k, v, attn_mask=whole))
    whole = mask[:, None, :].expand(*leading, 4, 7)
    assert torch.equal(of_elements, hardmax_attention(q, k, v, attn_mask=whole))


def test_masks_of_numbers_and_grouped_heads():
    q, k, v = draw(2, 6, 5, 3), draw(2, 2, 7, 3, seed=1), draw(2, 2, 7, 4, seed=2)
    mask = draw(5, 7, seed=3) > 0
    repeated = [x.repeat_interleave(3, 1) for x in (k, v)]
    expected = hardmax_attention(q, *repeated, attn_mask=mask)
    numbers = torch.zeros(5, 7).masked_fill(~mask, -math.inf)
    assert torch.equal(
        hardmax_attention(q, k, v, attn_mask=numbers, enable_gqa=True, scale=0.1),
        expected,
    )
    peer = torch.nn.functional.scaled_dot_product_attention(
        q * 1e4, k, v, attn_mask=numbers.double(), enable_gqa=True, scale=1.0
    )
    some = mask.any(-1)
    torch.testing.assert_close(expected[..., some, :], peer[..., some, :])


def test_decoding_with_one_query_continues_causal_attention():
    q, k, v = (draw(2, 3, 9, 2, seed=seed) for seed in range(3))
    causal, cache = hardmax_attention(q, k, v, causal=True), hm.HullCache()
    for i in range(9):
        step = hardmax_attention(
            q[..., i : i + 1, :], k[..., : i + 1, :], v[..., : i + 1, :]
        )
        assert torch.equal(step, causal[..., i : i + 1, :])
        torch.testing.assert_close(
            cache.attend(*(x[..., i : i + 1, :] for x in (q, k, v))), step
        )


@pytest.mark.parametrize("causal", [False, True])
def test_the_decomposition_has_the_exact_sets_where_products_are_exact(causal):
    q, k = (
        torch.randint(
            -2, 3, (4, 6, 2), generator=torch.Generator().manual_seed(s)
        ).float()
        for s in range(2)
    )
    v, mask = draw(4, 6, 3, dtype=torch.float32), torch.rand(4, 6) < 0.7
    expected = hardmax_attention(q, k, v, mask=mask, causal=causal)
    torch.testing.assert_close(
        hardmax_attention(q, k, v, mask=mask, causal=causal, tolerance=0.0), expected
    )
    near = hardmax_attention(
        torch.tensor([[1.0, 0.0]]), torch.eye(2) - 1e-4, torch.eye(2), tolerance=1.5
    )
    assert near.tolist() == [[0.5, 0.5]]
    assert torch.equal(
        hardmax_attention(q, k[:, :0], v[:, :0], tolerance=0.0), torch.zeros(4, 6, 3)
    )


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1, 100])
def test_the_decomposition_of_16_bits_computes_in_float32(dtype, scale, autocast):
    q, k, v = (draw(4, 40, 3, seed=seed, dtype=dtype) for seed in range(3))
    expected = hardmax_attention(q * scale, k * scale, v)
    with torch.autocast("cpu", dtype=dtype, enabled=autocast):
        found = hardmax_attention(q * scale, k * scale, v, tolerance=1e-6)
    assert found.dtype == dtype
    assert torch.equal(found, expected)


class Model(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return hardmax_attention(q, k, v, **{"causal": True, **self.options})


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-6}, {"gradient": "softmax"}])
def test_export(options):
    inputs = tuple(draw(2, 8, 4, seed=seed, dtype=torch.float32) for seed in range(3))
    program = torch.export.export(Model(**options), inputs)
    torch.testing.assert_close(program.module()(*inputs), Model()(*inputs))
    names = {str(node.target) for node in program.graph.nodes}
    assert any("hardmax" in name for name in names) == ("tolerance" not in options)


def export(options, compiler):
    """Export at n = 7 queries and m = 8 keys, for any n and m, and return what runs it."""
    n, m = torch.export.Dim("n", min=1, max=64), torch.export.Dim("m", min=1, max=64)
    q, k, v = (draw(2, 8, 4, seed=seed, dtype=torch.float32) for seed in range(3))
    if options["causal"]:
        return compiler(Model(**options), (q, k, v), ({1: m},) * 3)
    return compiler(
        Model(**options), (q[:, 1:].clone(), k, v), ({1: n}, {1: m}, {1: m})
    )


def exported(model, inputs, shapes):
    return torch.export.export(model, inputs, dynamic_shapes=shapes).module()


def compiled_ahead(model, inputs, shapes):
    program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    return torch._inductor.aoti_load_package(
        torch._inductor.aoti_compile_and_package(program)
    )


def in_onnx(model, inputs, shapes):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    file = io.BytesIO()
    torch.onnx.export(model, inputs, dynamic_shapes=shapes, dynamo=True).save(file)
    session = runtime.InferenceSession(file.getvalue())
    names = [each.name for each in session.get_inputs()]
    return lambda *x: torch.from_numpy(
        session.run(None, dict(zip(names, (y.numpy() for y in x), strict=True)))[0]
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("compiler", "options"),
    [
        (exported, {}),
        (exported, {"tolerance": 1e-6}),
        (exported, {"gradient": "softmax"}),
        (in_onnx, {"tolerance": 1e-6}),
        pytest.param(compiled_ahead, {}, marks=pytest.mark.slow),
    ],
)
def test_exported_models_accept_other_numbers_of_tokens(compiler, options, causal):
    run = export(options | {"causal": causal}, compiler)
    for n, m in ((3, 3), (1, 1)) if causal else ((1, 9), (5, 3), (1, 1)):
        inputs = (
            draw(2, n, 4, dtype=torch.float32),
            *(draw(2, m, 4, seed=s, dtype=torch.float32) for s in (1, 2)),
        )
        torch.testing.assert_close(
            run(*inputs), hardmax_attention(*inputs, causal=causal)
        )


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_what_is_not_supported_is_refused():
    q = draw(3, 2)
    for options, name in (
        ({"gradient": "soft"}, "gradient"),
        ({"temperature": 0.0}, "temperature"),
        ({"scale": -1.0}, "scale"),
        ({"scale": "a"}, "scale"),
        ({"tolerance": "a"}, "tolerance"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"attn_mask": torch.ones(3, 3)}, "attn_mask"),
        ({"enable_gqa": True}, "k"),
    ):
        with pytest.raises(hm.ParameterError, match=f"`{name}`"):
            hardmax_attention(q, q, q, **options)
    with pytest.raises(hm.InputError, match="backwards"):
        torch.func.jvp(lambda v: hardmax_attention(q, q, v), (q,), (q,))
    torch.func.jvp(lambda v: hardmax_attention(q, q, v, tolerance=0.0), (q,), (q,))
