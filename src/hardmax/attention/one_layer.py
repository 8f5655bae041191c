"""One hardmax layer for torch: exact sets, a gradient for the values, CPU and GPU, eager and compiled."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hardmax._errors import InputError, ParameterError
from hardmax._types import AnyArray
from hardmax.kernels.exact_sets import exact_sets_of_batch
from hardmax.kernels.sets import Sets

CPU_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def hardmax_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """Mean of the values of the best keys: what softmax attention tends to as its temperature goes to 0.

    o_i = mean of v_j over j in C_i,   C_i = argmax_j <q_i, k_j>, the whole set: exact ties belong to it.

    C_i is exact, as in real arithmetic on the given floats, so it does not depend on the order of the keys, on the
    machine or on the batch. There is no second product, and one pass over the keys: half the arithmetic of softmax.

    The sets do not change under small changes of q and k, so their gradient is 0 almost everywhere, and is left out
    (None). The gradient of v sends each row's gradient, divided by |C_i|, to the members of C_i. Results and gradients
    have the same bits on every run.

    Parameters
    ----------
    q : (..., n, d) tensor
    k : (..., m, d) tensor of the same type
    v : (..., m, dv) tensor
        float32, bfloat16 or float16, on the CPU also float64. Leading axes broadcast.
    mask : (..., m) boolean tensor, optional
        True for real keys, False for padding.
    causal : bool
        Whether query i sees the keys 0 to i alone; n must be m.

    Returns
    -------
    (..., n, dv) tensor of the type of v
        The mean is taken in float32 (float64 for float64). A query that sees no key gets 0.

    Raises
    ------
    ValueError
        If shapes, types or devices do not fit, or if a query or key is not finite. A GPU does not look for NaN and
        infinity; the result is then undefined.

    Examples
    --------
    >>> import torch
    >>> from hardmax.kernels import hardmax_attention
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
    _check(q, k, v, mask, causal)
    shapes = [x.shape[:-2] for x in (q, k, v)] + ([] if mask is None else [mask.shape[:-1]])
    leading = shapes[0] if all(shape == shapes[0] for shape in shapes) else torch.broadcast_shapes(*shapes)
    rows = None if mask is None else mask.expand(*leading, k.shape[-2]).reshape(-1, k.shape[-2])
    flat = (x if x.ndim == 3 and x.shape[:-2] == leading else _flat(x, leading) for x in (q, k, v))
    if torch.compiler.is_compiling():
        out = torch.ops.hardmax.attend(*flat, rows, causal)[0]
    else:
        out = Attend.apply(*flat, rows, causal)[0]
    return out.view(*leading, *out.shape[1:])


class HardmaxAttention(torch.nn.Module):
    """`hardmax_attention` as a module without parameters; `causal` as there.

    Examples
    --------
    >>> import torch
    >>> from hardmax.kernels import HardmaxAttention
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
        return hardmax_attention(q, k, v, mask, causal=self.causal)

    def extra_repr(self) -> str:
        return f"causal={self.causal}"


def _flat(x: Tensor, leading: Sequence[int]) -> Tensor:
    return x.expand(*leading, *x.shape[-2:]).reshape(math.prod(leading), *x.shape[-2:])


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> None:
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
    if k.shape[-1] != q.shape[-1]:
        raise ParameterError("k", f"have the last axis of `q`, {q.shape[-1]}", f"shape {tuple(k.shape)}")
    if v.shape[-2] != k.shape[-2]:
        raise ParameterError("v", f"have one row for each row of `k`, {k.shape[-2]}", f"shape {tuple(v.shape)}")
    if causal and q.shape[-2] != k.shape[-2]:
        raise InputError(
            f"`causal` attention must have as many queries as keys. Got {q.shape[-2]} and {k.shape[-2]}. "
            "Leave `causal` out, or use a `mask`."
        )
    if mask is None:
        return
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.ndim < 1:
        got = str(mask.dtype) if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ParameterError("mask", "be a boolean tensor, (..., m), True for real keys", got)
    if mask.device != k.device:
        raise ParameterError("mask", f"be on the device of `k`, {k.device}", mask.device, "Move it there.")
    if mask.shape[-1] not in (1, k.shape[-2]):
        raise ParameterError("mask", f"end in the number of keys, {k.shape[-2]}", f"shape {tuple(mask.shape)}")


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
    """Outputs of (B, n, d) queries, and what the gradient needs to know of their sets (see `gpu.RawSets`)."""
    if q.is_cuda:
        with _device_of(q):
            out, found = _gpu().find(q, k, v, mask, causal)
        return out, *found
    nothing = torch.empty(0, dtype=torch.int64)
    if q.shape[0] * q.shape[1] == 0 or k.shape[1] == 0:
        sizes = nothing.new_zeros(q.shape[0] * q.shape[1])
        return v.new_zeros(*q.shape[:2], v.shape[2]), sizes - 1, sizes, nothing
    sets = exact_sets_of_batch(as_array(q, "q"), as_array(k, "k"), None if mask is None else mask.numpy(), causal)
    everywhere = sets.flattened(q.shape[1], k.shape[1])
    means = everywhere.mean(_numbers(v).reshape(-1, v.shape[2]), np.ones(k.shape[0] * k.shape[1], np.intp))
    out = torch.from_numpy(means).to(v.dtype).view(*q.shape[:2], v.shape[2])
    return out, torch.from_numpy(sets.targets), torch.from_numpy(sets.sizes), nothing


def _spread(
    g: Tensor, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, first: Tensor, sizes: Tensor, lanes: Tensor
) -> Tensor:
    """Gradient of the values: each g_i / |C_i| goes to the members of C_i."""
    if g.is_cuda:
        with _device_of(g):
            return _gpu().spread(g, q, k, mask, causal, _gpu().RawSets(first, sizes, lanes))
    (batch, n, dv), m = g.shape, k.shape[1]
    if not g.numel() or not m:
        return g.new_zeros(batch, m, dv)
    if bool((sizes == 1).all()):  # as nearly always
        clouds, parts = torch.arange(batch)[:, None], torch.from_numpy(_numbers(g)).view(-1, dv)
        places = (first.view(batch, n) + m * clouds).flatten()
        return parts.new_zeros(batch * m, dv).index_add_(0, places, parts).to(g.dtype).view(batch, m, dv)
    tied, members = torch.nonzero((sizes.view(batch, n) > 1).any(1)).flatten(), np.empty(0, np.intp)
    if len(tied):  # these clouds are asked again, as members take memory
        seen = None if mask is None else mask[tied].numpy()
        sets = exact_sets_of_batch(as_array(q[tied], "q"), as_array(k[tied], "k"), seen, causal)
        members = sets.take(sets.tied).members
    P = Sets.joined(first.numpy(), sizes.numpy(), members).flattened(n, m).matrix(np.ones(batch * m, np.intp))
    return torch.from_numpy(P.T @ _numbers(g).reshape(-1, dv)).to(g.dtype).view(batch, m, dv)


class Attend(torch.autograd.Function):
    """`_attend` with its gradient, for eager torch: an operator that can be compiled costs more to call.

    Gives the outputs, the lowest member of each C_i, -1 for none, and |C_i|, for (B, n, d) tensors.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
        out, *found = _attend(q, k, v, mask, causal)
        ctx.causal = causal
        ctx.save_for_backward(q, k, mask, *found)
        ctx.mark_non_differentiable(*found[:2])
        return out, *found[:2]

    @staticmethod
    def backward(ctx: Any, g: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        return _gradients(_spread, ctx, g)


def _gradients(spread: Callable[..., Tensor], ctx: Any, g: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
    q, k, mask, *found = ctx.saved_tensors
    wanted = ctx.needs_input_grad[2]
    return None, None, spread(g, q, k, mask, ctx.causal, *found) if wanted else None, None, None


_OPERATORS = torch.library.Library("hardmax", "DEF")
_OPERATORS.define("attend(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal) -> (Tensor, Tensor, Tensor, Tensor)")
_FOUND = "Tensor first, Tensor sizes, Tensor lanes"
_OPERATORS.define(f"spread(Tensor g, Tensor q, Tensor k, Tensor? mask, bool causal, {_FOUND}) -> Tensor")
for _device in ("CPU", "CUDA"):
    _OPERATORS.impl("attend", _attend, _device)
    _OPERATORS.impl("spread", _spread, _device)


@torch.library.register_fake("hardmax::attend")
def _(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, ...]:
    rows, whole = q.shape[0] * q.shape[1], torch.int32 if q.is_cuda else torch.int64
    shapes = (rows, rows, rows if q.is_cuda else 0)
    return v.new_empty(*q.shape[:2], v.shape[2]), *(v.new_empty(size, dtype=whole) for size in shapes)


@torch.library.register_fake("hardmax::spread")
def _(g: Tensor, q: Tensor, k: Tensor, *rest: Any) -> Tensor:
    return g.new_empty(g.shape[0], k.shape[1], g.shape[2])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, _, mask, ctx.causal = inputs
    ctx.save_for_backward(q, k, mask, *output[1:])


torch.library.register_autograd("hardmax::attend", partial(_gradients, torch.ops.hardmax.spread), setup_context=_save)


@cache
def _gpu() -> ModuleType:
    """The module that needs Triton; once, as even an import that does nothing takes a while in each call."""
    from hardmax.attention import gpu

    return gpu


def _device_of(x: Tensor) -> AbstractContextManager[Any]:
    """Makes the device of x the current one, where kernels are launched."""
    return nullcontext() if x.device.index == torch.cuda.current_device() else torch.cuda.device(x.device)


def _numbers(x: Tensor) -> AnyArray:
    """A tensor as a NumPy array; widening bfloat16 and float16 to float32 loses nothing."""
    return x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32).contiguous().numpy()


def as_array(x: Tensor, name: str) -> AnyArray:
    """The same for a parameter that must be finite."""
    if not math.isfinite(x.detach().sum()) and not x.isfinite().all():
        raise ParameterError(name, "be finite", "NaN or infinity", "Find where it comes from.")
    return _numbers(x)
