"""Hardmax attention for torch: exact sets and a gradient of the values, on CPU and GPU,
eager and compiled.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from inspect import signature
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from hardmax._errors import InputError, ParameterError
from hardmax.attention import cpu

CPU_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
GRADIENTS = ("none", "straight-through", "softmax")


def hardmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
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
    differentiated again (`create_graph=True`). Results and gradients have the same bits
    on every run.

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
        is slower. A mask whose shape fits both is of the first kind.
    causal : bool
        Whether query i sees only the keys 0 to i; n must be m.
    attn_mask, is_causal, scale, enable_gqa
        As in torch's `scaled_dot_product_attention`, for code that calls it: a mask
        that broadcasts to (..., n, m), boolean or of 0 and -inf; `causal` by its other
        name; a positive factor of the scores, which changes the softmax of `gradient`
        alone (default: 1 / sqrt(d)); and whether groups of heads of q share a head of k
        and v.
    gradient : {"none", "straight-through", "softmax"}
        The gradient of q and k. "straight-through": that of softmax attention, while
        the gradient of v stays that of the sets. "softmax": all three from softmax
        attention. torch computes both without a matrix n by m, unless there are a mask
        for padding and `causal`. The output is the same for all.
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
        k, v = (_repeat_heads(q, x, name) for x, name in ((k, "k"), (v, "v")))
    _check(q, k, v, causal)
    leading = q.shape[:-2]
    if not leading == k.shape[:-2] == v.shape[:-2]:
        leading = torch.broadcast_shapes(leading, k.shape[:-2], v.shape[:-2])
        q, k, v = (x.expand(*leading, *x.shape[-2:]) for x in (q, k, v))
    if not leading:
        q, k, v = q[None], k[None], v[None]
    seen = None
    if mask is not None or attn_mask is not None:
        seen = _find_seen(mask, attn_mask, k, tuple(leading), q.shape[-2])
        if seen.ndim == 3 and causal:
            seen, causal = seen & seen.new_ones(seen.shape[1:]).tril(), False
    with_softmax = gradient != "none" and torch.is_grad_enabled()
    if seen is not None and (
        with_softmax or tolerance is not None
    ):  # a weight of 0 times NaN is NaN
        v = v.masked_fill(
            ~(seen if seen.ndim == 2 else seen.any(1)).view(*v.shape[:-1], 1), 0.0
        )
    fixed = v.detach() if gradient == "softmax" else v
    if tolerance is not None:
        out = _attend_with_tolerance(
            q, k, fixed, _as_matrix(seen, q, k, causal), tolerance
        )
    else:
        attend = (
            torch.ops.hardmax.attend if torch.compiler.is_compiling() else Attend.apply
        )
        out = attend(q, k, fixed, seen, causal)[0]
    if with_softmax:
        factor = (q.shape[-1] ** -0.5 if scale is None else scale) / temperature
        soft = _soften(
            q, k, v if gradient == "softmax" else v.detach(), seen, causal, factor
        ).to(out.dtype)
        soft = soft.nan_to_num(0.0, 0.0, 0.0)  # products may overflow
        out = out - (
            soft.detach() - soft
        )  # the output, to the last bit, with the gradient of the softmax
    return out if leading else out[0]


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
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return `hardmax_attention(q, k, v, mask)`, causal if this module is."""
        options: dict[str, Any] = {
            "gradient": self.gradient,
            "temperature": self.temperature,
        }
        return hardmax_attention(q, k, v, mask, causal=self.causal, **options)

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


def _repeat_heads(q: Tensor, x: Tensor, name: str) -> Tensor:
    """Return keys or values (..., heads, m, d) with each head repeated for its group of
    heads of the queries.
    """
    heads = [y.shape[-3] if isinstance(y, Tensor) and y.ndim > 2 else 0 for y in (q, x)]
    if not heads[1] or not heads[0] or heads[0] % heads[1]:
        raise ParameterError(
            name,
            f"have heads, axis -3, that divide those of `q`, {heads[0]}",
            describe(x),
        )
    return x.repeat_interleave(heads[0] // heads[1], -3)


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
        types = CPU_TYPES if x.device.type == "cpu" else GPU_TYPES
        if x.dtype not in types:
            names = ", ".join(str(t).removeprefix("torch.") for t in types)
            raise ParameterError(
                name, f"be one of {names} on {x.device.type}", x.dtype, "Convert it."
            )
    if q.device.type not in ("cpu", "cuda"):
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
):
    torch.library.impl(_name, ("cpu", "cuda"), _run)
    torch.library.register_fake(_name, _fake)
    torch.library.register_autograd(
        _name, _backward, setup_context=_differentiable.setup_context
    )
torch.library.register_vmap(
    "hardmax::spread", partial(_map_batches, torch.ops.hardmax.spread)
)


def _find_seen(
    mask: Tensor | None,
    attn_mask: Tensor | None,
    k: Tensor,
    leading: tuple[int, ...],
    n: int,
) -> Tensor:
    """Return which of the (..., m, d) keys are seen: (B, m) by all queries of a batch
    element, or (B, n, m) by each.
    """
    batch, m = math.prod(leading), k.shape[-2]
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
    if mask is not None and _can_broadcast(tuple(given.shape[:-1]), leading):
        return given.expand(*leading, m).reshape(batch, m)
    given = given[None] if given.ndim == 1 else given
    if given.shape[-2] not in (1, n) or not _can_broadcast(
        tuple(given.shape[:-2]), leading
    ):
        axes = ", ".join(map(str, (*leading, n, "m")))
        alone = "" if mask is None else f", or without that of the {n} queries"
        raise ParameterError(
            name, f"have axes that broadcast to ({axes}){alone}", describe(given)
        )
    seen = given.expand(*leading, given.shape[-2], m).reshape(batch, given.shape[-2], m)
    return seen[:, 0] if given.shape[-2] == 1 else seen


def _as_boolean(mask: Tensor, name: str) -> Tensor:
    """Return where a mask of 0 and -inf is 0; other values are refused, unless a graph
    is being recorded.
    """
    recording = torch.compiler.is_compiling() or (
        mask.is_cuda and torch.cuda.is_current_stream_capturing()
    )
    if not recording and not ((mask == 0) | (mask == -math.inf)).all():
        advice = "For a bias, append a column to `q` and `k`."
        raise ParameterError(
            name, "be boolean, or hold 0 and -inf alone", "other numbers", advice
        )
    return mask == 0


def _can_broadcast(shape: tuple[int, ...], leading: tuple[int, ...]) -> bool:
    fits = all(
        size in (1, wanted)
        for size, wanted in zip(shape[::-1], leading[::-1], strict=False)
    )
    return fits and len(shape) <= len(leading)
