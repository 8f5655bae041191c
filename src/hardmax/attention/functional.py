"""Hardmax attention for torch: exact sets and a gradient of the values, on CPU and GPU,
eager and compiled.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from inspect import signature
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from hardmax._errors import InputError, ParameterError
from hardmax.attention import cpu

CPU_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
# scores that a gradient of softmax holds at a time: 4 MB in float32, which caches hold,
# and 64 MB, which fill a GPU
MAX_BLOCK, MAX_BLOCK_GPU = 1 << 20, 1 << 24
GRADIENTS = ("none", "straight-through", "softmax")


def hardmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    gradient: str = "none",
    temperature: float = 1.0,
    tolerance: float | None = None,
) -> Tensor:
    """Return the mean of the values of the best keys: the limit of softmax attention as
    its temperature goes to 0.

    o_i = mean of v_j over j in C_i,
    C_i = argmax_j <q_i, k_j>, the whole set: exact ties belong to it.

    C_i is exact, as in real arithmetic on the given floats, so it does not depend on
    the order of the keys, on the machine or on the batch. There is no second product,
    and one pass over the keys: half the arithmetic of softmax.

    The sets do not change under small changes of q and k, so their gradient is 0 almost
    everywhere, and is None; `gradient` has substitutes for training. The gradient of v
    adds the gradient of each row, divided by |C_i|, to the members of C_i, and can be
    differentiated again (`create_graph=True`). Results and this gradient have the same
    bits on every run; so have the gradients of `gradient` on the CPU, and on a GPU
    after `torch.use_deterministic_algorithms(True)`.

    Parameters
    ----------
    q : (..., n, d) tensor
        Queries: float32, bfloat16 or float16, on the CPU also float64. Leading axes
        broadcast.
    k : (..., m, d) tensor of the same type
        Keys.
    v : (..., m, dv) tensor
        Values, of any of these types. Under `torch.autocast` each tensor that is not
        float64 is cast to its type first, as torch's `scaled_dot_product_attention`
        does; sets are then exact for the cast queries and keys.
    mask : (..., m) or (..., n, m) boolean tensor, optional
        True for real keys, False for padding; or the keys that each query sees, which
        is slower. A mask whose shape fits both is refused: pass it as `attn_mask`.
    causal : bool
        Whether query i sees only the keys 0 to i; n must be m.
    attn_mask, is_causal, scale, enable_gqa
        As in torch's `scaled_dot_product_attention`, for code that calls it: a mask
        that broadcasts to (..., n, m), boolean or of 0 and -inf (other numbers raise
        an error, also in graphs that torch records); `causal` by its other
        name; a positive factor of the scores, which changes the softmax of `gradient`
        alone (default: 1 / sqrt(d)); and whether groups of heads of q share a head of k
        and v.
    gradient : {"none", "straight-through", "softmax"}
        The gradient of q and k. "straight-through": that of softmax attention, while
        the gradient of v stays that of the sets. "softmax": all three from softmax
        attention. No matrix n by m is kept. The output is the same for all.
    temperature : float
        Of that softmax, of scores times `scale`.
    tolerance : float, optional
        Compute with operations of torch alone, for ONNX and other formats without
        custom operators: keys tie whose rounded product, in float32 for 16 bits, is
        within tolerance |q| max|k| of the largest. Holds matrices n by m. Default:
        exact.

    Returns
    -------
    (..., n, dv) tensor of the type of v
        The mean is taken in float32 (float64 for float64). A query that sees no key
        gets 0.

    Raises
    ------
    ParameterError
        If shapes, types or devices do not fit, or if a query or key is not finite. On a
        GPU, NaN and infinity are not checked; the result is then undefined.
    MissingExtra
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> import hardmax as hm
    >>> keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> values = torch.tensor([[1.0], [3.0], [5.0]], requires_grad=True)
    >>> out = hm.hardmax_attention(torch.tensor([[2.0, 1.0], [1.0, 1.0]]), keys, values)
    >>> out.detach()
    tensor([[1.],
            [2.]])
    >>> out.sum().backward()
    >>> values.grad
    tensor([[1.5000],
            [0.5000],
            [0.0000]])
    """
    causal = causal or is_causal
    _check_options(scale, gradient, temperature, tolerance)
    q, k, v = _autocast(q, k, v)
    if enable_gqa:
        _check_heads(q, k, v)
    _check(q, k, v, causal)
    if enable_gqa:  # (..., groups, heads, n, d), and one head of keys for each group
        q = q.unflatten(-3, (k.shape[-3], q.shape[-3] // k.shape[-3]))
        k = k.unsqueeze(-3)
        v = v.unsqueeze(-3)
    leading = tuple(torch.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v))))
    seen = None
    if mask is not None or attn_mask is not None:
        heads = leading
        if enable_gqa:
            heads = (*leading[:-2], leading[-2] * leading[-1])
        seen = _find_seen(mask, attn_mask, k, heads, q.shape[-2])
        if enable_gqa:
            one = seen.shape[-3] == 1
            seen = seen.unsqueeze(-3) if one else seen.unflatten(-3, leading[-2:])
    factor = (q.shape[-1] ** -0.5 if scale is None else scale) / temperature
    attend = partial(
        _attend_batch,
        causal=causal,
        factor=factor,
        gradient=gradient,
        tolerance=tolerance,
    )
    shares_keys = bool(leading) and leading[-1] > 1
    shares_keys = shares_keys and all(x.ndim < 3 or x.shape[-3] == 1 for x in (k, v))
    shares_mask = seen is None or seen.shape[-3:-1] == (1, 1)
    if shares_keys and shares_mask and not causal:
        # Heads or batch elements with the same keys are more queries of one.
        q = q.expand(*leading, *q.shape[-2:])
        k, v = (x if x.ndim < 3 else x.squeeze(-3) for x in (k, v))
        seen = None if seen is None else seen.squeeze(-3)
        out = attend(q.flatten(-3, -2), k, v, seen).unflatten(-2, q.shape[-3:-1])
    elif shares_keys and enable_gqa:  # head after head, as a copy of keys takes memory
        each: Sequence[Tensor | None] = [None] * leading[-1]
        if seen is not None:
            each = seen.expand(*seen.shape[:-3], leading[-1], -1, -1).unbind(-3)
        k = k.squeeze(-3)
        v = v.squeeze(-3)
        pairs = zip(q.unbind(-3), each, strict=True)
        out = torch.stack([attend(x, k, v, some) for x, some in pairs], -3)
    else:
        out = attend(q, k, v, seen)
    return out.flatten(-4, -3) if enable_gqa else out


def _attend_batch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    *,
    causal: bool,
    factor: float,
    gradient: str,
    tolerance: float | None,
) -> Tensor:
    """Return attention of checked tensors; `seen` broadcasts to (..., n, m)."""
    n, m = q.shape[-2], k.shape[-2]
    leading = tuple(torch.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v))))
    q, k, v = (x.expand(*leading, *x.shape[-2:]) for x in (q, k, v))
    if not leading:
        q, k, v = q[None], k[None], v[None]
    batch = math.prod(leading)
    if seen is not None and seen.shape[-2] == 1:  # the same keys for all queries
        seen = seen[..., 0, :].expand(*leading, m).reshape(batch, m)
    elif seen is not None:
        if causal:
            seen = seen & seen.new_ones(n, m).tril()
            causal = False
        if math.prod(seen.shape[:-2]) == 1:  # one matrix for all: no copies
            seen = seen.reshape(n, -1).expand(batch, n, m)
        else:
            seen = seen.expand(*leading, n, m).reshape(batch, n, m)
    with_softmax = gradient != "none" and torch.is_grad_enabled()
    if seen is not None and (
        with_softmax or tolerance is not None
    ):  # a weight of 0 times NaN is NaN
        v = v.masked_fill(
            ~(seen if seen.ndim == 2 else seen.any(1)).view(*v.shape[:-1], 1), 0.0
        )
    fixed = v.detach() if gradient == "softmax" else v
    is_recorded = _is_recorded(q, k, v)
    if tolerance is not None:
        out = _attend_with_tolerance(
            q, k, fixed, _as_matrix(seen, q, k, causal), tolerance
        )
    else:
        attend = torch.ops.hardmax.attend if is_recorded else Attend.apply
        out = attend(q, k, fixed, seen, causal)[0]
    if with_softmax:
        values = v if gradient == "softmax" else v.detach()
        if tolerance is not None or _can_use_torch(q, seen, causal):
            soft = _soften(q, k, values, seen, causal, factor).to(out.dtype)
            soft = soft.nan_to_num(0.0, 0.0, 0.0)  # products may overflow
            # the output, to the last bit, with the gradient of the softmax
            out = out - (soft.detach() - soft)
        else:
            soften = torch.ops.hardmax.soften if is_recorded else Soften.apply
            out = soften(out, q, k, values, seen, causal, factor)
    return out if leading else out[0]


def _is_recorded(*tensors: Tensor) -> bool:
    """Return whether torch records operations, or tensors have no numbers: then the
    registered operators are needed.
    """
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return True
    for x in tensors:
        kind = type(x)
        if kind.__name__ == "DTensor":
            _replicate_dtensors()
        if x.is_meta or kind not in (Tensor, torch.nn.Parameter):
            return True
    return False


@cache
def _replicate_dtensors() -> None:
    """Let the operators gather each DTensor on all devices of its mesh."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.experimental import register_sharding

    def register(operator: Any, outputs: int) -> None:
        def replicate(*given: Any) -> list[Any]:
            # a placement for each tensor, and None for other arguments
            kinds = [Replicate() if hasattr(x, "shape") else None for x in given]
            return [([Replicate()] * outputs, kinds)]

        register_sharding(operator.default)(replicate)

    register(torch.ops.hardmax.attend, 2)
    register(torch.ops.hardmax.spread, 1)
    register(torch.ops.hardmax.soften, 1)
    register(torch.ops.hardmax.soften_gradient, 3)


def _can_use_torch(q: Tensor, seen: Tensor | None, causal: bool) -> bool:
    """Return whether the fused softmax attention of torch takes no memory n by m, and
    its gradient may depend on the order of threads.
    """
    by_keys = seen is None or (seen.ndim == 2 and not causal)
    return q.is_cuda and by_keys and not torch.are_deterministic_algorithms_enabled()


class HardmaxAttention(torch.nn.Module):
    """`hardmax_attention` as a module without parameters. It raises the same errors.

    Parameters
    ----------
    causal : bool
        Whether query i sees only the keys 0 to i.
    gradient, temperature
        As in `hardmax_attention`.

    Examples
    --------
    >>> import torch
    >>> import hardmax as hm
    >>> attention = hm.HardmaxAttention(causal=True)
    >>> tokens = torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    >>> attention(tokens, tokens, tokens)
    tensor([[1., 0.],
            [3., 1.]])
    """

    def __init__(
        self, *, causal: bool = False, gradient: str = "none", temperature: float = 1.0
    ) -> None:
        super().__init__()
        _check_options(None, gradient, temperature, None)
        self.causal, self.gradient, self.temperature = causal, gradient, temperature

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None
    ) -> Tensor:
        """Return `hardmax_attention(q, k, v, mask=mask)`, causal if this module is."""
        options: dict[str, Any] = {
            "gradient": self.gradient,
            "temperature": self.temperature,
        }
        return hardmax_attention(q, k, v, mask=mask, causal=self.causal, **options)

    def extra_repr(self) -> str:
        """Return the parameters that `print` shows."""
        return (
            f"causal={self.causal}, gradient={self.gradient!r},"
            f" temperature={self.temperature}"
        )


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast tensors as torch's `scaled_dot_product_attention` does under
    `torch.autocast`; float64 is not cast.
    """
    kind = tensors[0].device.type if isinstance(tensors[0], Tensor) else "cpu"
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    fits = [
        isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64
        for x in tensors
    ]
    return tuple(
        x.to(dtype) if fit else x for x, fit in zip(tensors, fits, strict=True)
    )


def _check_options(
    scale: float | None, gradient: str, temperature: float, tolerance: float | None
) -> None:
    if gradient not in GRADIENTS:
        raise ParameterError(
            "gradient", f"be one of {', '.join(map(repr, GRADIENTS))}", repr(gradient)
        )
    for name, value in (("scale", scale), ("temperature", temperature)):
        if value is not None and not (
            isinstance(value, Real | Tensor) and 0.0 < value < math.inf
        ):
            raise ParameterError(
                name,
                "be a positive number",
                repr(value),
                "For the smallest products, negate `q`.",
            )
    if tolerance is not None and not (
        isinstance(tolerance, Real) and 0.0 <= tolerance < math.inf
    ):
        raise ParameterError("tolerance", "be a number of at least 0", repr(tolerance))


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Check that heads, axis -3, of queries fall into groups with the same keys."""
    q_heads, k_heads, v_heads = (
        x.shape[-3] if isinstance(x, Tensor) and x.ndim > 2 else 0 for x in (q, k, v)
    )
    if not k_heads or not q_heads or q_heads % k_heads:
        must = f"have heads, axis -3, that divide those of `q`, {q_heads}"
        raise ParameterError("k", must, describe(k))
    if v_heads != k_heads:
        raise ParameterError("v", f"have the heads of `k`, {k_heads}", describe(v))


def _as_matrix(
    seen: Tensor | None, q: Tensor, k: Tensor, causal: bool
) -> Tensor | None:
    """Return which keys each query sees, so that it broadcasts to (..., n, m); None for
    all.
    """
    if seen is not None:
        seen = seen.view(*q.shape[:-2], -1, k.shape[-2])
    if not causal:
        return seen
    below = torch.ones(
        q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device
    ).tril()
    return below if seen is None else seen & below


def _soften(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, causal: bool, factor: float
) -> Tensor:
    """Return softmax attention; 0 for a query that sees no key."""
    q4, k4, v4 = (
        x.flatten(0, -3)[:, None] for x in (q, k, v.to(q.dtype))
    )  # torch avoids n by m for 4 axes alone
    attend = partial(
        torch.nn.functional.scaled_dot_product_attention, q4, k4, v4, scale=factor
    )
    matrix = None if seen is None else _as_matrix(seen, q4, k4, causal)
    if matrix is None:
        return attend(is_causal=causal)[:, 0].view(*q.shape[:-1], v.shape[-1])
    blind = ~matrix.any(-1, keepdim=True)
    return (
        attend(attn_mask=matrix | blind)
        .masked_fill(blind, 0.0)[:, 0]
        .view(*q.shape[:-1], v.shape[-1])
    )


def _attend_with_tolerance(
    q: Tensor, k: Tensor, v: Tensor, matrix: Tensor | None, tolerance: float
) -> Tensor:
    """Return means of the values whose products are near the largest: in float32, or in
    float64 for float64.
    """
    if not k.shape[-2]:
        return v.new_zeros(*q.shape[:-1], v.shape[-1])
    kind, (q, k, wide) = (
        q.device.type,
        (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v)),
    )
    q, k = q.detach(), k.detach()
    with (
        torch.autocast(kind, enabled=False)
        if torch.is_autocast_enabled(kind)
        else nullcontext()
    ):
        scores = q @ k.mT
        if matrix is not None:
            scores = scores.masked_fill(~matrix, -torch.inf)
        reach = (
            tolerance
            * q.norm(dim=-1, keepdim=True)
            * k.norm(dim=-1).amax(-1)[..., None, None]
        )
        near = (scores >= scores.amax(-1, keepdim=True) - reach) & (scores > -torch.inf)
        chosen = near.to(wide.dtype)
        return (chosen @ wide / chosen.sum(-1, keepdim=True).clamp(min=1)).to(v.dtype)


def describe(x: object) -> str:
    """Return the shape of a tensor, or the type of anything else, for an error."""
    return f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.ndim < 2:
            raise ParameterError(
                name,
                "be a tensor of at least 2 axes, (..., tokens, columns)",
                describe(x),
            )
        if x.device != q.device:
            raise ParameterError(
                name, f"be on the device of `q`, {q.device}", x.device, "Move it there."
            )
        types = GPU_TYPES if x.device.type == "cuda" else CPU_TYPES
        if x.dtype not in types:
            names = ", ".join(str(t).removeprefix("torch.") for t in types)
            raise ParameterError(
                name, f"be one of {names} on {x.device.type}", x.dtype, "Convert it."
            )
    if q.device.type not in ("cpu", "cuda", "meta"):
        raise ParameterError(
            "q", "be on the CPU or a CUDA device", q.device, "Move it there."
        )
    if k.dtype != q.dtype:
        raise ParameterError(
            "k", f"have the type of `q`, {q.dtype}", k.dtype, "Convert one of them."
        )
    if q.shape[-1] == 0:
        raise ParameterError("q", "have at least one column", describe(q))
    if k.shape[-1] != q.shape[-1]:
        raise ParameterError(
            "k", f"have the last axis of `q`, {q.shape[-1]}", describe(k)
        )
    if v.shape[-2] != k.shape[-2]:
        raise ParameterError(
            "v", f"have one row for each row of `k`, {k.shape[-2]}", describe(v)
        )
    if causal and q.shape[-2] != k.shape[-2]:
        raise InputError(
            f"`causal` attention must have as many queries as keys. Got {q.shape[-2]}"
            f" and {k.shape[-2]}. Leave `causal` out, or use a `mask`."
        )


def first_and_sizes(found: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the (B, n) lowest members of the sets, -1 for none, and the sizes of the
    sets.
    """
    first = found[:, :n]
    return torch.where(first < -1, -2 - first, first), found[:, n : 2 * n]


class Attend(torch.autograd.Function):
    """`_attend` with its gradient, as torch.func needs it and eager calls use it;
    `torch.compile` uses the operator.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the outputs of (..., n, d) queries, and the record of the sets for
        `first_and_sizes` and `Spread`.
        """
        return _attend(*inputs)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]
    ) -> None:
        q, k, _, mask, ctx.causal = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(
            False
        )  # else torch fills a tensor of zeros as the gradient of the record
        ctx.save_for_backward(q, k, mask, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        return _attend_backward(
            Spread.apply if torch.is_grad_enabled() else _spread, ctx, g, _
        )  # `create_graph=True`

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise InputError(
            "`hardmax_attention` must be differentiated backwards. Got forward-mode"
            " differentiation (`jvp`). Use `torch.func.vjp`, or `tolerance=0.0`, which"
            " takes operations of torch."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> Any:
        return _map_batches(Attend.apply, info, in_dims, *inputs)


class Spread(torch.autograd.Function):
    """`_spread`, the gradient of the values, in the same form. It is linear in g, and
    its transpose is attention.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return _spread(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, q, k, mask, ctx.causal, _ = inputs
        ctx.save_for_backward(q, k, mask)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
        return _spread_backward(Attend.apply, ctx, h)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> Any:
        return _map_batches(Spread.apply, info, in_dims, *inputs)


class Soften(torch.autograd.Function):
    """Return outputs as they are, with the gradient of softmax attention for queries,
    keys and values.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return _soften_output(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, q, k, v, mask, ctx.causal, ctx.factor = inputs
        ctx.save_for_backward(q, k, v, mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _soften_backward(ctx, g)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return Attend.jvp(ctx, *tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> Any:
        return _map_batches(Soften.apply, info, in_dims, *inputs)


def _soften_output(out: Tensor, *_: Any) -> Tensor:
    return out.clone()


def _soften_backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, mask = ctx.saved_tensors
    _, of_queries, of_keys, of_values, *_ = ctx.needs_input_grad
    if not (of_queries or of_keys or of_values):
        return g, None, None, None, None, None, None
    found = torch.ops.hardmax.soften_gradient(
        g, q, k, v, mask, ctx.causal, ctx.factor, of_values
    )
    return g, *found[:2], found[2] if of_values else None, None, None, None


def _soften_gradient(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    factor: float,
    of_values: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of softmax attention of (..., n, d) queries, keys and
    values; the last one is 0 if it is not asked for.

    With P = softmax(factor Q K^T) and dP = G V^T:
    dS = P (dP - sum of P dP over keys), dQ = factor dS K, dK = factor dS^T Q, dV = P^T G.

    Rows are taken in blocks, in their order, so that results have the same bits on
    every run.
    """
    shapes = q.shape, k.shape, v.shape
    g, q, k, v = (x.detach().flatten(0, -3) for x in (g, q, k, v))
    (batch, n, _), m = q.shape, k.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    most = MAX_BLOCK_GPU if q.is_cuda else MAX_BLOCK
    rows = max(1, min(n, most // max(1, m)))
    elements = max(1, most // max(1, rows * m))
    dq = torch.zeros_like(q)
    dk = torch.zeros_like(k)
    dv = torch.zeros_like(v)
    for start in range(0, batch if n * m else 0, elements):
        some = slice(start, start + elements)
        keys = k[some].to(wide)
        values = v[some].to(wide)
        sum_k = torch.zeros_like(keys)
        sum_v = torch.zeros_like(values) if of_values else values
        for first in range(0, n, rows):
            block = slice(first, min(first + rows, n))
            end = block.stop if causal else m  # later keys are hidden
            scaled = q[some, block].to(wide) * factor
            P = scaled @ keys[:, :end].mT
            if mask is not None:
                own = mask[some, None] if mask.ndim == 2 else mask[some, block]
                P.masked_fill_(~own[..., :end], -torch.inf)
            if causal:
                later = torch.ones(P.shape[1:], dtype=torch.bool, device=P.device)
                P.masked_fill_(later.triu(first + 1), -torch.inf)
            blind = P.amax(-1, keepdim=True) == -torch.inf  # a query that sees no key
            P = P.softmax(-1).masked_fill_(blind, 0.0)
            G = g[some, block].to(wide)
            dS = G @ values[:, :end].mT
            dS -= (P * dS).sum(-1, keepdim=True)
            dS *= P
            dq[some, block] = (dS @ keys[:, :end]).mul_(factor).to(q.dtype)
            sum_k[:, :end] += dS.mT @ scaled
            if of_values:
                sum_v[:, :end] += P.mT @ G
        dk[some] = sum_k.to(k.dtype)
        if of_values:
            dv[some] = sum_v.to(v.dtype)
    return dq.view(shapes[0]), dk.view(shapes[1]), dv.view(shapes[2])


def _fake_soften_gradient(
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    factor: float,
    of_values: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _attend_backward(
    spread: Callable[..., Tensor], ctx: Any, g: Tensor | None, _: None
) -> tuple[Tensor | None, ...]:
    q, k, mask, found = ctx.saved_tensors
    wanted = ctx.needs_input_grad[2] and g is not None
    return (
        None,
        None,
        spread(g, q, k, mask, ctx.causal, found) if wanted else None,
        None,
        None,
    )


def _spread_backward(
    attend: Callable[..., Any], ctx: Any, h: Tensor
) -> tuple[Tensor | None, ...]:
    q, k, mask = ctx.saved_tensors
    return attend(q, k, h, mask, ctx.causal)[0], None, None, None, None, None


def _map_batches(
    function: Callable[..., Any], info: Any, in_dims: Sequence[int | None], *inputs: Any
) -> Any:
    """Apply a function to tensors whose axis of `torch.vmap` is joined to the batch,
    and return the axis of results.
    """
    joined, size = [], info.batch_size
    for x, dim in zip(inputs, in_dims, strict=True):
        if isinstance(x, Tensor):
            x = (
                x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
            ).flatten(0, 1)
        joined.append(x)
    out = function(*joined)
    if isinstance(out, Tensor):
        return out.view(size, len(out) // size, *out.shape[1:]), 0
    return tuple(x.view(size, len(x) // size, *x.shape[1:]) for x in out), (0,) * len(
        out
    )


def new_record(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Return an empty record of the sets: see `gpu.attend`; on the CPU it has lowest
    members and sizes alone.
    """
    n, common = (
        q.shape[-2],
        not causal and (mask is None or mask.ndim == 2),
    )  # all queries see the same keys
    size = 4 * n + (2 * k.shape[-2] + 1 if common else 0) if q.is_cuda else 2 * n
    return q.new_empty(math.prod(q.shape[:-2]), size, dtype=torch.int32)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    if not v.shape[-1]:
        return v.new_empty(*q.shape[:-1], 0), new_record(q, k, mask, causal).zero_()
    if not q.is_cuda:
        out, found = cpu.attend(
            q.flatten(0, -3), k.flatten(0, -3), v.flatten(0, -3), mask, causal
        )
        return (
            out.resize_(*q.shape[:-1], v.shape[-1]),
            found,
        )  # not a view, which autograd would not let users change
    from hardmax.attention import gpu

    found = new_record(q, k, mask, causal)
    with torch.cuda.device(q.device):
        return gpu.attend(q, k, v, mask, causal, found), found


def _spread(
    g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor
) -> Tensor:
    if not g.shape[-1]:
        return g.new_empty(*k.shape[:-1], 0)
    if not g.is_cuda:
        out = cpu.spread(
            g.flatten(0, -3), q.flatten(0, -3), k.flatten(0, -3), mask, causal, found
        )
        return out.resize_(*k.shape[:-1], g.shape[-1])
    from hardmax.attention import gpu

    with torch.cuda.device(g.device):
        return gpu.spread(g, q, k, mask, causal, found)


def _fake_attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    return v.new_empty(*q.shape[:-1], v.shape[-1]), new_record(q, k, mask, causal)


def _fake_spread(
    g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor
) -> Tensor:
    return g.new_empty(*k.shape[:-1], g.shape[-1])


for _class in (
    Attend,
    Spread,
    Soften,
):  # torch binds arguments in every call; this saves finding the signature again
    _class.forward.__signature__ = signature(_class.forward)  # type: ignore[union-attr]

torch.library.define(
    "hardmax::attend",
    "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal) -> (Tensor, Tensor)",
)
torch.library.define(
    "hardmax::spread",
    "(Tensor g, Tensor q, Tensor k, Tensor? mask, bool causal, Tensor found) -> Tensor",
)
torch.library.define(
    "hardmax::soften",
    "(Tensor out, Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal,"
    " float factor) -> Tensor",
)
torch.library.define(
    "hardmax::soften_gradient",
    "(Tensor g, Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal,"
    " float factor, bool of_values) -> (Tensor, Tensor, Tensor)",
)
for _name, _run, _fake, _backward, _differentiable in (
    (
        "hardmax::attend",
        _attend,
        _fake_attend,
        partial(_attend_backward, torch.ops.hardmax.spread),
        Attend,
    ),
    (
        "hardmax::spread",
        _spread,
        _fake_spread,
        partial(_spread_backward, torch.ops.hardmax.attend),
        Spread,
    ),
    (
        "hardmax::soften",
        _soften_output,
        _soften_output,
        once_differentiable(_soften_backward),
        Soften,
    ),
):
    torch.library.impl(_name, ("cpu", "cuda"), _run)
    torch.library.register_fake(_name, _fake)
    torch.library.register_autograd(
        _name, _backward, setup_context=_differentiable.setup_context
    )
torch.library.impl("hardmax::soften_gradient", ("cpu", "cuda"), _soften_gradient)
torch.library.register_fake("hardmax::soften_gradient", _fake_soften_gradient)
for _name in ("spread", "soften_gradient"):
    torch.library.register_vmap(
        f"hardmax::{_name}", partial(_map_batches, getattr(torch.ops.hardmax, _name))
    )


def _find_seen(
    mask: Tensor | None,
    attn_mask: Tensor | None,
    k: Tensor,
    leading: tuple[int, ...],
    n: int,
) -> Tensor:
    """Return which of the (..., m, d) keys are seen, of shape (..., 1 or n, 1 or m)
    with all leading axes; these are 1 or as in `leading`.
    """
    m = k.shape[-2]
    if mask is not None and attn_mask is not None:
        raise ParameterError(
            "attn_mask", "not go with `mask`", "both", "Join them with &."
        )
    name, given = ("attn_mask", attn_mask) if mask is None else ("mask", mask)
    if isinstance(given, Tensor) and given.is_floating_point():
        given = _as_boolean(given, name)
    if not isinstance(given, Tensor) or given.dtype != torch.bool or given.ndim < 1:
        got = str(given.dtype) if isinstance(given, Tensor) else type(given).__name__
        raise ParameterError(
            name,
            "be a boolean tensor, (..., m) or (..., n, m), True for keys that are seen",
            got,
        )
    if given.device != k.device:
        raise ParameterError(
            name, f"be on the device of `k`, {k.device}", given.device, "Move it there."
        )
    if given.shape[-1] not in (1, m):
        raise ParameterError(name, f"end in the number of keys, {m}", describe(given))
    shape = tuple(given.shape)
    is_by_key = mask is not None and _can_broadcast(shape[:-1], leading)
    is_by_query = (
        len(shape) > 1 and shape[-2] in (1, n) and _can_broadcast(shape[:-2], leading)
    )
    if is_by_key and is_by_query and shape[-2] > 1:
        advice = (
            "Pass `attn_mask`: the same mask for one row for each query, or"
            " `mask[..., None, :]` for padding."
        )
        must = "have a shape that fits either the queries or the axes before them"
        raise ParameterError(name, must, f"{describe(given)} for both", advice)
    if is_by_key:
        given = given.unsqueeze(-2)
    elif given.ndim == 1:
        given = given[None]
    elif not is_by_query:
        axes = ", ".join(map(str, (*leading, n, "m")))
        alone = "" if mask is None else f", or without that of the {n} queries"
        raise ParameterError(
            name, f"have axes that broadcast to ({axes}){alone}", describe(given)
        )
    return given.reshape(*(1,) * (len(leading) + 2 - given.ndim), *given.shape)


def _as_boolean(mask: Tensor, name: str) -> Tensor:
    """Return where a mask of 0 and -inf is 0; other values are refused, in a graph that
    is being recorded when it runs.
    """
    zero = mask == 0
    is_valid = (zero | (mask == -math.inf)).all()
    must = "be boolean, or hold 0 and -inf alone"
    advice = "For a bias, append a column to `q` and `k`."
    if _is_recorded(mask) or (
        mask.is_cuda and torch.cuda.is_current_stream_capturing()
    ):
        torch._assert_async(is_valid, f"`{name}` must {must}. {advice}")
    elif not is_valid:
        raise ParameterError(name, must, "other numbers", advice)
    return zero


def _can_broadcast(shape: tuple[int, ...], leading: tuple[int, ...]) -> bool:
    fits = all(
        size in (1, wanted)
        for size, wanted in zip(shape[::-1], leading[::-1], strict=False)
    )
    return fits and len(shape) <= len(leading)
