"""Options of `hardmax_attention`: gradients of queries and keys, masks and heads as in
torch, export.
"""

import io
import math

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
    out = hardmax_attention(q, k, v, mask, **options)
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
    expected = hardmax_attention(q, k, v, mask)
    attend = (
        torch.compile(hardmax_attention, backend="aot_eager", fullgraph=True)
        if compiled
        else hardmax_attention
    )
    out = attend(q.requires_grad_(), k, v.requires_grad_(), mask, gradient=gradient)
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(out.signbit(), expected.signbit())
    if mask is not None:
        assert torch.equal(hardmax_attention(q, k, v, mask, tolerance=0.0), expected)
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
    expected = hardmax_attention(q, k, v, mask, causal=causal)
    torch.testing.assert_close(
        hardmax_attention(q, k, v, mask, causal=causal, tolerance=0.0), expected
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
