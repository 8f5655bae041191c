"""Several hardmax layers for torch, with the gradients of tokens and steps."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hardmax._errors import ParameterError
from hardmax._exact import check_subnormals
from hardmax._types import AnyArray
from hardmax._validation import check_count
from hardmax.attention.cpu import as_array
from hardmax.attention.functional import (
    CPU_TYPES,
    GPU_TYPES,
    Attend,
    describe,
    first_and_sizes,
)
from hardmax.attention.layers_numpy import layers_of
from hardmax.exact.argmax import too_large
from hardmax.search.dispatch import is_small, products_of_batch, use_compiled


def hardmax_layers(
    z: Tensor,
    alpha: Tensor,
    count: int,
    *,
    A: Tensor | None = None,
    counts: Tensor | None = None,
) -> Tensor:
    """Run tokens through hardmax layers: z_i <- z_i + b (mean of C_i - z_i), b = alpha
    / (1 + alpha).

    The sets C_i of each layer are exact for the floats it starts from, as in
    `hardmax_attention`; on the CPU A z is not rounded either. `simulate` also avoids
    the rounding of earlier layers. A batch element in which each token follows one
    leader passes the remaining layers in one step, with the same result by Theorem 1.

    Parameters
    ----------
    z : (batch, n, d) tensor
        The tokens of each batch element: float32, bfloat16 or float16, on the CPU also
        float64. Layers of bfloat16 and float16 are computed in float32.
    alpha : (batch,) tensor
        Step sizes, finite and 0 or larger, one per batch element.
    count : int
        Number of layers, 0 or larger.
    A : (batch, d, d) tensor, optional
        Symmetric positive definite; None is the identity. It has no gradient: the sets
        do not change under small changes of A.
    counts : (batch, n) tensor of int, optional
        Multiplicity of each token, 0 or larger: 0 is padding, which no token follows.
        Where several tokens tie, their mean is weighted by it.

    Returns
    -------
    (batch, n, d) tensor of the type of z
        The tokens after the last layer.

    Examples
    --------
    >>> import torch
    >>> import hardmax as hm
    >>> z = torch.tensor([[[1.0, 0.0], [0.5, 0.1], [-1.0, 0.0]]])
    >>> hm.hardmax_layers(z, torch.tensor([1.0]), 2)
    tensor([[[ 1.0000,  0.0000],
             [ 0.8750,  0.0250],
             [-1.0000,  0.0000]]])
    """
    _check(z, alpha, A, counts)
    count = check_count(count, "count", least=0)
    if not z.is_cuda:
        check_subnormals()
    if not z.shape[1]:
        return z
    tokens, form = _widened(z), None if A is None else _widened(A)
    wide = alpha.to(torch.promote_types(alpha.dtype, tokens.dtype))
    step = (wide / (1 + wide)).to(tokens.dtype)
    if z.shape[-1] == 1:
        moved = _on_line(tokens[..., 0], step[:, None], count, counts)[..., None]
    elif z.is_cuda:
        moved = _one_by_one(tokens, step, count, form, counts)
    else:
        moved = _Layers.apply(tokens, step, count, form, counts)
    return moved.to(z.dtype)


def _widened(x: Tensor) -> Tensor:
    """Return bfloat16 and float16 as float32, which loses nothing."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _check(z: Tensor, alpha: Tensor, A: Tensor | None, counts: Tensor | None) -> None:
    if not isinstance(z, Tensor) or z.ndim != 3:
        raise ParameterError("z", "be a tensor of shape (batch, n, d)", describe(z))
    batch, n, d = z.shape
    for name, x, shape in (
        ("alpha", alpha, (batch,)),
        ("A", A, (batch, d, d)),
        ("counts", counts, (batch, n)),
    ):
        if x is not None and (not isinstance(x, Tensor) or x.shape != shape):
            advice = "Expand it, one per batch element."
            raise ParameterError(
                name, f"be a tensor of shape {shape}", describe(x), advice
            )
    types = CPU_TYPES if z.device.type == "cpu" else GPU_TYPES
    for name, x in (("z", z), ("alpha", alpha), ("A", A)):
        if x is not None and x.dtype not in (types if name == "z" else CPU_TYPES):
            raise ParameterError(
                name, "be a tensor of floats", x.dtype, "Convert it with `.float()`."
            )
    if not ((alpha >= 0) & alpha.isfinite()).all():
        wrong = alpha[~((alpha >= 0) & alpha.isfinite())][0].item()
        raise ParameterError(
            "alpha",
            "be finite and 0 or larger",
            wrong,
            "Pass a step size per batch element.",
        )
    if counts is not None and (
        counts.is_floating_point() or counts.is_complex() or counts.dtype == torch.bool
    ):
        raise ParameterError(
            "counts", "be a tensor of integers", counts.dtype, "Use `.long()`."
        )
    if counts is not None and (counts.long() < 0).any():
        raise ParameterError(
            "counts", "be 0 or larger", int(counts.long().min()), "Use 0 for padding."
        )


def _one_by_one(
    z: Tensor, step: Tensor, count: int, A: Tensor | None, counts: Tensor | None
) -> Tensor:
    """Run layer by layer; batch elements in which each token follows one leader pass
    the remaining layers at once.
    """
    done: list[
        tuple[Tensor, Tensor]
    ] = []  # indices of finished batch elements, and their tokens
    elements = torch.arange(len(z), device=z.device)
    mask = None if counts is None else counts > 0
    counts = None if counts is None or not (counts > 1).any() else counts
    for k in range(count):
        if not len(elements):
            break
        queries = (z if A is None else z @ A).contiguous()
        out, found = Attend.apply(queries, z, z, mask, False)
        first, sizes = first_and_sizes(found, z.shape[1])
        if counts is not None and (sizes > 1).any():
            out = torch.where(
                (sizes > 1)[..., None], _weighted(queries, z, mask, counts), out
            )
        places, alone = (
            first.clamp(min=0).long(),
            sizes == 1,
        )  # decided as in `layers_numpy`
        settled = (
            alone & alone.gather(1, places) & (places.gather(1, places) == places)
        ).all(1)
        b = torch.where(settled, 1 - (1 - step) ** (count - k), step)
        z = z + b[:, None, None] * (out - z)
        if k + 1 < count and settled.any():
            done.append((elements[settled], z[settled]))
            left = ~settled
            z, step, elements = z[left], step[left], elements[left]
            A, mask, counts = (
                None if x is None else x[left] for x in (A, mask, counts)
            )
    order = torch.cat([elements, *(where for where, _ in done)])
    return torch.cat([z, *(tokens for _, tokens in done)])[order.argsort()]


def _weighted(
    queries: Tensor, z: Tensor, mask: Tensor | None, counts: Tensor
) -> Tensor:
    """Return the mean of C_i weighted by `counts`: the mean of w z over that of w."""
    w = counts[..., None].to(z.dtype)
    means = Attend.apply(queries, z, torch.cat([w * z, w], -1), mask, False)[0]
    return means[..., :-1] / means[..., -1:].clamp(
        min=0.5
    )  # 0 where no key is seen, else at least 1


def _on_line(z: Tensor, step: Tensor, count: int, counts: Tensor | None) -> Tensor:
    """Run layers in one dimension: tokens follow the largest or the smallest; 0 follows
    all. Any A > 0 is the same.

    The gradient of a tie is shared by its members, in proportion to their counts.
    """
    w = torch.ones_like(z) if counts is None else counts.to(z.dtype)
    total = w.sum(1, keepdim=True)
    for _ in range(count):
        high = _extreme(z, w, z.masked_fill(w == 0, -torch.inf).amax(1, keepdim=True))
        low = _extreme(z, w, z.masked_fill(w == 0, torch.inf).amin(1, keepdim=True))
        mean = (w * z).sum(1, keepdim=True) / total.clamp(min=1)
        target = torch.where(z > 0, high, torch.where(z < 0, low, mean))
        z = z + step * (torch.where(total > 0, target, 0) - z)
    return z


def _extreme(z: Tensor, w: Tensor, value: Tensor) -> Tensor:
    """Return the extreme `value` (batch, 1) exactly, with the gradient of the mean of
    the tokens that equal it.
    """
    value = value.detach()
    there = w * (z == value)
    offset = (there * torch.where(there > 0, z - value, 0)).sum(
        1, keepdim=True
    )  # 0, but for its gradient
    return value + offset / there.sum(1, keepdim=True).clamp(min=1)


def _compiled(tokens: AnyArray, step: AnyArray, count: int, A: AnyArray | None) -> bool:
    """Return whether batch elements are small enough for one compiled pass over all
    layers, and it is worth loading.
    """
    (batch, n, d), number = tokens.shape, tokens.dtype
    possible = is_small(d, n, number == np.float32) and (
        A is None or (d > 2 and A.dtype == number)
    )
    pays = (
        bool(batch and count)
        and possible
        and use_compiled("layers", count * products_of_batch(batch, n, n))
    )
    return pays and number == step.dtype and not too_large(tokens)


class _Layers(torch.autograd.Function):
    """All layers as one operation, which keeps the sets of each and what moved the
    tokens.

    Batch elements with ties, and those that no compiled code takes, go through
    `layers_numpy`. Its gradient cannot be differentiated again, and torch raises an
    error then.
    """

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        step: Tensor,
        count: int,
        A: Tensor | None,
        counts: Tensor | None,
    ) -> Tensor:
        tokens, forms = as_array(z, "z").copy(), None if A is None else as_array(A, "A")
        b = np.require(step.detach().numpy(), requirements=["C", "W"])
        many, ctx.compiled = None if counts is None else counts.numpy(), None
        if _compiled(tokens, b, count, forms):
            from hardmax.attention import layers_compiled

            ctx.compiled = layers_compiled.run_layers(
                tokens, b, count, forms, many, ctx.needs_input_grad[1]
            )
        some = (
            np.arange(len(tokens))
            if ctx.compiled is None
            else np.flatnonzero(ctx.compiled.ran < 0)
        )
        ctx.others, rest, forms = (
            some,
            tokens[some],
            None if forms is None else forms[some],
        )
        ctx.layers = list(
            layers_of(
                rest,
                b[some],
                count,
                A=forms,
                counts=None if many is None else many[some],
            )
        )
        tokens[some] = rest
        ctx.save_for_backward(step)
        return torch.from_numpy(tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (step,) = ctx.saved_tensors
        b = np.require(step.detach().numpy(), requirements=["C", "W"])
        total = np.array(g.numpy(), order="C")
        slope = (
            np.zeros(len(b)) if ctx.compiled is None else ctx.compiled.back(total, b)
        )
        for layer in reversed(ctx.layers):
            some = ctx.others[layer.elements]
            # d/db of 1 - (1 - b)^m is m (1 - b)^(m - 1)
            along = layer.ahead * (1 - b[some].astype(np.float64)) ** (layer.ahead - 1)
            slope[some] += along * np.einsum(
                "bnd,bnd->b", total[some], layer.pull, dtype=np.float64
            )
            total[some] = layer.back(total[some])
        of_step = (
            torch.from_numpy(slope.astype(b.dtype)) if ctx.needs_input_grad[1] else None
        )
        return torch.from_numpy(total), of_step, None, None, None
