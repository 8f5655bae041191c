"""One hardmax layer for torch: exact sets, a gradient for the values, CPU and GPU, eager and compiled."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from hardmax._errors import InputError, ParameterError
from hardmax._private_apis import may_use_private
from hardmax.attention import cpu
from hardmax.attention.gpu_layout import Found
from hardmax.attention.masks import check_mask, find_each, for_each_query, spread_each

CPU_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
KNOWN_TORCH = may_use_private("torch")


def hardmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Mean of the values of the best keys: what softmax attention tends to as its temperature goes to 0.

    o_i = mean of v_j over j in C_i,   C_i = argmax_j <q_i, k_j>, the whole set: exact ties belong to it.

    C_i is exact, as in real arithmetic on the given floats, so it does not depend on the order of the keys, on the
    machine or on the batch. There is no second product, and one pass over the keys: half the arithmetic of softmax.

    The sets do not change under small changes of q and k, so their gradient is 0 almost everywhere, and is left out
    (None). The gradient of v sends each row's gradient, divided by |C_i|, to the members of C_i, and can itself be
    differentiated (`create_graph=True`). Results and gradients have the same bits on every run.

    Parameters
    ----------
    q : (..., n, d) tensor
        Queries: float32, bfloat16 or float16, on the CPU also float64. Leading axes broadcast.
    k : (..., m, d) tensor of the same type
        Keys.
    v : (..., m, dv) tensor
        Values, of any of these types. Under `torch.autocast` all three are cast to its type first, as torch's
        `scaled_dot_product_attention` does; sets are then exact for the cast queries and keys.
    mask : (..., m) or (..., n, m) boolean tensor, optional
        True for real keys, False for padding; or for each query the keys that it sees, which is slower. A mask that
        fits both ways is of the first kind.
    causal : bool
        Whether query i sees the keys 0 to i alone; n must be m.
    attn_mask, is_causal
        As in torch's `scaled_dot_product_attention`, for code that calls it: a boolean mask that broadcasts to
        (..., n, m), and `causal` by its other name.

    Returns
    -------
    (..., n, dv) tensor of the type of v
        The mean is taken in float32 (float64 for float64). A query that sees no key gets 0.

    Raises
    ------
    ParameterError
        If shapes, types or devices do not fit, or if a query or key is not finite. A GPU does not look for NaN and
        infinity; the result is then undefined.
    MissingExtra
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> from hardmax.attention.functional import hardmax_attention
    >>> keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> values = torch.tensor([[1.0], [3.0], [5.0]], requires_grad=True)
    >>> out = hardmax_attention(torch.tensor([[2.0, 1.0], [1.0, 1.0]]), keys, values)
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
    q, k, v = _autocast(q, k, v)
    _check(q, k, v, causal)
    leading = q.shape[:-2]
    if not leading == k.shape[:-2] == v.shape[:-2]:
        leading = torch.broadcast_shapes(leading, k.shape[:-2], v.shape[:-2])
        q, k, v = (x.expand(*leading, *x.shape[-2:]) for x in (q, k, v))
    rows = None if mask is attn_mask is None else _seen(mask, attn_mask, k, tuple(leading), q.shape[-2])
    if rows is not None and rows.ndim == 3 and causal:
        rows, causal = rows & rows.new_ones(rows.shape[1:]).tril(), False
    compiled, mapped = torch.compiler.is_compiling(), _transforms_active()
    wanted = torch.is_grad_enabled() and (v.requires_grad or q.requires_grad or k.requires_grad)
    if wanted and not (compiled or mapped):
        return cast(Tensor, Attend.apply(q, k, v, rows, causal, None))
    q, k, v = _flat(q), _flat(k), _flat(v)
    attend = torch.ops.hardmax.attend if compiled else MappedAttend.apply if mapped else _attend
    out: Tensor = attend(q, k, v, rows, causal)[0]
    return out.view(*leading, *out.shape[1:])


class HardmaxAttention(torch.nn.Module):
    """`hardmax_attention` as a module without parameters.

    Parameters
    ----------
    causal : bool
        Whether query i sees the keys 0 to i alone.

    Raises
    ------
    ParameterError
        When it is called, as `hardmax_attention` does.
    MissingExtra
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> from hardmax.attention.functional import HardmaxAttention
    >>> attention = HardmaxAttention(causal=True)
    >>> tokens = torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    >>> attention(tokens, tokens, tokens)
    tensor([[1., 0.],
            [3., 1.]])
    """

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """What `hardmax_attention(q, k, v, mask)` returns, with the mask of this module."""
        return hardmax_attention(q, k, v, mask, causal=self.causal)

    def extra_repr(self) -> str:
        """What `print` shows of it."""
        return f"causal={self.causal}"


def _seen(mask: Tensor | None, attn_mask: Tensor | None, k: Tensor, leading: tuple[int, ...], n: int) -> Tensor:
    """Which keys are seen: (B, m) by all queries of a cloud, or (B, n, m) by each."""
    if mask is not None and attn_mask is not None:
        raise ParameterError("attn_mask", "not go with `mask`", "both", "Join them with &.")
    name, given = ("mask", cast(Tensor, mask)) if attn_mask is None else ("attn_mask", attn_mask)
    check_mask(name, given, k)
    own = for_each_query(name, given, leading, n)
    rows = _flat(own.expand(*leading, own.shape[-2], k.shape[-2]))
    return rows[:, 0] if own.shape[-2] == 1 else rows


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast tensors as torch's `scaled_dot_product_attention` does under `torch.autocast`; float64 is not cast."""
    kind = tensors[0].device.type if isinstance(tensors[0], Tensor) else "cpu"
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    fits = [isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64 for x in tensors]
    return tuple(x.to(dtype) if fit else x for x, fit in zip(tensors, fits, strict=True))


def _transforms_active() -> bool:
    """Return whether a transform of torch.func is active, or may be: `MappedAttend` is right in both cases."""
    return not KNOWN_TORCH or torch._C._are_functorch_transforms_active()


def _flat(x: Tensor) -> Tensor:
    """With one leading axis."""
    return x if x.ndim == 3 else x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.ndim < 2:
            got = f"shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise ParameterError(name, "be a tensor of at least 2 axes, (..., tokens, columns)", got)
        if x.device != q.device:
            raise ParameterError(name, f"be on the device of `q`, {q.device}", x.device, "Move it there.")
        types = CPU_TYPES if x.device.type == "cpu" else GPU_TYPES
        if x.dtype not in types:
            names = ", ".join(str(t).removeprefix("torch.") for t in types)
            raise ParameterError(name, f"be one of {names} on {x.device.type}", x.dtype, "Convert it.")
    if q.device.type not in ("cpu", "cuda"):
        raise ParameterError("q", "be on the CPU or a CUDA device", q.device, "Move it there.")
    if k.dtype != q.dtype:
        raise ParameterError("k", f"have the type of `q`, {q.dtype}", k.dtype, "Convert one of them.")
    if q.shape[-1] == 0:
        raise ParameterError("q", "have at least one column", f"shape {tuple(q.shape)}")
    if k.shape[-1] != q.shape[-1]:
        raise ParameterError("k", f"have the last axis of `q`, {q.shape[-1]}", f"shape {tuple(k.shape)}")
    if v.shape[-2] != k.shape[-2]:
        raise ParameterError("v", f"have one row for each row of `k`, {k.shape[-2]}", f"shape {tuple(v.shape)}")
    if causal and q.shape[-2] != k.shape[-2]:
        raise InputError(
            f"`causal` attention must have as many queries as keys. Got {q.shape[-2]} and {k.shape[-2]}. "
            "Leave `causal` out, or use a `mask`."
        )


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
    """Outputs of (B, n, d) queries, and what the gradient needs to know of their sets: see `first_and_sizes`."""
    if not v.shape[2]:
        return v.new_empty(*q.shape[:2], 0), v.new_zeros(len(q), _record(q, k, mask, causal), dtype=torch.int32)
    if q.is_cuda:
        with _device_of(q):
            if mask is not None and mask.ndim == 3:
                return find_each(_gpu(), q, k, v, mask)
            found: tuple[Tensor, ...] = _gpu().find(q, k, v, mask, causal)
            return found
    return cpu.attend(q, k, v, mask, causal)


def _record(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> int:
    """Return how many integers per batch element describe the sets."""
    n, m = q.shape[1], k.shape[1]
    plain = not causal and (mask is None or mask.ndim == 2)  # then equal keys are looked for
    return Found(n, m, plain).record if q.is_cuda else 2 * n


def first_and_sizes(found: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(B, n) lowest members of the sets, -1 for none, and how many members they have."""
    if found.is_cuda:
        first, sizes = _gpu().first_and_sizes(found, n)
        return first, sizes
    return found[:, :n], found[:, n:]


def _spread(g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, found: Tensor) -> Tensor:
    """Gradient of the values: each g_i / |C_i| goes to the members of C_i."""
    if not g.shape[2]:
        return g.new_empty(*k.shape[:2], 0)
    if g.is_cuda:
        with _device_of(g):
            if mask is not None and mask.ndim == 3:
                return spread_each(_gpu(), g, q, k, mask, found)
            out: Tensor = _gpu().spread(g, q, k, mask, causal, found)
            return out
    return cpu.spread(g, q, k, mask, causal, found)


class Attend(torch.autograd.Function):
    """`_attend` with its gradient, for eager torch: an operator that can be compiled costs more to call."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, known: list[Tensor] | None
    ) -> Tensor:
        """Tensors of any number of leading axes, all the same; what is found of the sets is added to `known`."""
        ctx.causal, ctx.shape = causal, v.shape
        if v.ndim != 3:
            q, k, v = _flat(q), _flat(k), _flat(v)  # here, where each view is no step of the gradient
        out, ctx.found = _attend(q, k, v, mask, causal)
        ctx.save_for_backward(q, k, mask)
        if known is not None:
            known.append(ctx.found)
        return out if len(ctx.shape) == 3 else out.view(*ctx.shape[:-2], *out.shape[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.needs_input_grad[2]:
            return (None,) * 6
        q, k, mask = ctx.saved_tensors
        spread = MappedSpread.apply if torch.is_grad_enabled() else _spread  # `create_graph=True`
        found = spread(_flat(g), q, k, mask, ctx.causal, ctx.found)
        return None, None, found if len(ctx.shape) == 3 else found.view(ctx.shape), None, None, None


class MappedAttend(torch.autograd.Function):
    """The same under `torch.vmap` and `torch.func.grad`: a call takes longer in the form that these ask for."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
        return _attend(q, k, v, mask, causal)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        return _gradients(MappedSpread.apply, ctx, g)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        out = MappedAttend.apply(*_folded(info.batch_size, in_dims, inputs))
        return tuple(_unfolded(info.batch_size, x) for x in out), (0,) * len(out)


class MappedSpread(torch.autograd.Function):
    """`_spread` in that form, with its own gradient: it is linear in g, and its transpose is attention again."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return _spread(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _save_for_spread(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
        return _gradients_of_spread(MappedAttend.apply, ctx, h)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _unfolded(info.batch_size, MappedSpread.apply(*_folded(info.batch_size, in_dims, inputs))), 0


def _folded(size: int, in_dims: Sequence[int | None], inputs: Sequence[Any]) -> list[Any]:
    """What `torch.vmap` maps over as more clouds of one batch, which is what each first axis is."""
    found = []
    for x, dim in zip(inputs, in_dims, strict=True):
        if isinstance(x, Tensor):
            x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
        found.append(x.flatten(0, 1) if isinstance(x, Tensor) else x)
    return found


def _unfolded(size: int, x: Tensor) -> Tensor:
    return x.view(size, x.shape[0] // size, *x.shape[1:])


def _gradients(spread: Callable[..., Tensor], ctx: Any, g: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
    q, k, mask, found = ctx.saved_tensors
    wanted = ctx.needs_input_grad[2]
    return None, None, spread(g, q, k, mask, ctx.causal, found) if wanted else None, None, None


def _save_for_spread(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, q, k, mask, ctx.causal, *_ = inputs
    ctx.save_for_backward(q, k, mask)


def _gradients_of_spread(attend: Callable[..., tuple[Tensor, ...]], ctx: Any, h: Tensor) -> tuple[Tensor | None, ...]:
    q, k, mask = ctx.saved_tensors
    return attend(q, k, h, mask, ctx.causal)[0], *[None] * 5


_OPERATORS = torch.library.Library("hardmax", "DEF")
_OPERATORS.define("attend(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal) -> (Tensor, Tensor)")
_OPERATORS.define("spread(Tensor g, Tensor q, Tensor k, Tensor? mask, bool causal, Tensor found) -> Tensor")
for _device in ("CPU", "CUDA"):
    _OPERATORS.impl("attend", _attend, _device)
    _OPERATORS.impl("spread", _spread, _device)


@torch.library.register_fake("hardmax::attend")
def _(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
    found = v.new_empty(len(q), _record(q, k, mask, causal), dtype=torch.int32)
    return v.new_empty(*q.shape[:2], v.shape[2]), found


@torch.library.register_fake("hardmax::spread")
def _(g: Tensor, q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    return g.new_empty(g.shape[0], k.shape[1], g.shape[2])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, _, mask, ctx.causal = inputs
    ctx.save_for_backward(q, k, mask, *output[1:])


_BACK = partial(_gradients, torch.ops.hardmax.spread), partial(_gradients_of_spread, torch.ops.hardmax.attend)
torch.library.register_autograd("hardmax::attend", _BACK[0], setup_context=_save)
torch.library.register_autograd("hardmax::spread", _BACK[1], setup_context=_save_for_spread)


@cache
def _gpu() -> ModuleType:
    """The module that needs Triton; once, as even an import that does nothing takes a while in each call."""
    from hardmax.attention import gpu

    return gpu


def _device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Makes the device of x the current one, where kernels are launched."""
    return nullcontext() if x.device.index == torch.cuda.current_device() else torch.cuda.device(x.device)
