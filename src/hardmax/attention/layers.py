"""Several hardmax layers for torch, with the gradients of tokens and steps."""

from typing import Any

import numpy as np
import torch

from hardmax.attention.attention import Attend, _array
from hardmax.attention.numpy_layers import back, layers_of
from hardmax.kernels.batched import _too_large
from hardmax.kernels.search import has_numba


def hardmax_layers(z: Any, alpha: Any, count: int, *, A: Any = None, counts: Any = None) -> Any:
    """Run tokens through hardmax layers: z_i <- z_i + b (mean of C_i - z_i), b = alpha / (1 + alpha).

    The sets C_i of each layer are exact for the floats it starts from, as in `hardmax_attention`; `simulate` knows them
    without the rounding of earlier layers, too. A cloud in which each token follows one leader goes through all
    layers to come in one step, which is the same by Theorem 1.

    Parameters
    ----------
    z : (batch, n, d) tensor
    alpha : (batch,) tensor
        Positive, one for each cloud.
    count : int
        How many layers.
    A : (batch, d, d) tensor, optional
        Symmetric positive definite; None is the identity. It has no gradient: the sets do not change under small
        changes of A.
    counts : (batch, n) tensor of int, optional
        How many equal tokens each row stands for: 0 for padding, which nobody follows. It matters where several tokens
        tie: their mean is weighted.

    Returns
    -------
    (batch, n, d) tensor

    Examples
    --------
    >>> import torch
    >>> from hardmax.kernels import hardmax_layers
    >>> z = torch.tensor([[[1.0, 0.0], [0.5, 0.1], [-1.0, 0.0]]])
    >>> hardmax_layers(z, torch.tensor([1.0]), 2)
    tensor([[[ 1.0000,  0.0000],
             [ 0.8750,  0.0250],
             [-1.0000,  0.0000]]])
    """
    if not z.shape[1]:
        return z  # nobody is there to move
    step = alpha / (1 + alpha)
    if z.shape[-1] == 1:
        return _on_line(z[..., 0], step[:, None], count, counts)[..., None]
    if z.is_cuda:
        return _one_by_one(z, step, count, A, counts)
    return _Layers.apply(z, step, count, A, counts)


def _one_by_one(z: Any, step: Any, count: int, A: Any, counts: Any) -> Any:
    """Layer by layer; clouds in which each token follows one leader go through the others at once and leave."""
    done: list[Any] = []  # tokens that are through, and the places of their clouds
    clouds = torch.arange(len(z), device=z.device)
    mask = None if counts is None else counts > 0
    counts = None if counts is None or not (counts > 1).any() else counts
    for k in range(count):
        if not len(clouds):
            break
        queries = (z if A is None else z @ A).contiguous()
        out, first, sizes = Attend.apply(queries, z, z, mask, False)
        first, sizes = first.view(z.shape[:2]), sizes.view(z.shape[:2])
        if counts is not None and (sizes > 1).any():
            out = torch.where((sizes > 1)[..., None], _weighted(queries, z, mask, counts), out)
        settled = _decided(first, sizes)
        b = torch.where(settled, 1 - (1 - step) ** (count - k), step)
        z = z + b[:, None, None] * (out - z)
        if k + 1 < count and settled.any():
            done.append((clouds[settled], z[settled]))
            left = ~settled
            z, step, clouds = z[left], step[left], clouds[left]
            A, mask, counts = (None if x is None else x[left] for x in (A, mask, counts))
    places = torch.cat([clouds, *(where for where, _ in done)])
    return torch.cat([z, *(tokens for _, tokens in done)])[places.argsort()]


def _weighted(queries: Any, z: Any, mask: Any, counts: Any) -> Any:
    """The mean of C_i in which members count several times: the mean of w z over that of w."""
    w = counts[..., None].to(z.dtype)
    means = Attend.apply(queries, z, torch.cat([w * z, w], -1), mask, False)[0]
    return means[..., :-1] / means[..., -1:].clamp(min=0.5)  # 0 where nobody is seen, else 1 at least


def _decided(first: Any, sizes: Any) -> Any:
    """(batch,) as in `stack.decided`, for (batch, n) first members and sizes of C_i."""
    places = first.clamp(min=0).long()
    alone = sizes == 1
    return (alone & alone.gather(1, places) & (places.gather(1, places) == places)).all(1)


def _on_line(z: Any, step: Any, count: int, counts: Any) -> Any:
    """One coordinate: (batch, n) tokens follow the largest or the smallest; 0 follows all. Any positive A is the same.

    The gradient of a tie is shared by the members, as often as each counts.
    """
    w = torch.ones_like(z) if counts is None else counts.to(z.dtype)
    total = w.sum(1, keepdim=True)
    for _ in range(count):
        high = _extreme(z, w, z.masked_fill(w == 0, -torch.inf).amax(1, keepdim=True))
        low = _extreme(z, w, z.masked_fill(w == 0, torch.inf).amin(1, keepdim=True))
        mean = (w * z).sum(1, keepdim=True) / total.clamp(min=1)
        ends = torch.where(z > 0, high, torch.where(z < 0, low, mean))
        z = z + step * (torch.where(total > 0, ends, 0) - z)
    return z


def _extreme(z: Any, w: Any, value: Any) -> Any:
    """(batch, 1) the largest or smallest token exactly, with the gradient of the mean of those that are there."""
    value = value.detach()
    there = w * (z == value)
    offset = (there * torch.where(there > 0, z - value, 0)).sum(1, keepdim=True)  # 0, but for its gradient
    return value + offset / there.sum(1, keepdim=True).clamp(min=1)


class _Layers(torch.autograd.Function):
    """All layers as one operation; it keeps the sets of each and what moved the tokens."""

    @staticmethod
    def forward(ctx: Any, z: Any, step: Any, count: int, A: Any, counts: Any) -> Any:
        tokens = _array(z, "z").copy()
        b = np.require(step.detach().numpy(), requirements=["C", "W"])
        many = None if counts is None else counts.numpy()
        ctx.moves, ctx.left = _moved(tokens, b, count, A, many)
        ctx.history = []
        if len(ctx.left):  # clouds with ties, or for which there is no compiled way
            some = ctx.left
            rest, forms = tokens[some], None if A is None else A.detach().numpy()[some]
            ctx.history = list(layers_of(rest, b[some], count, A=forms, counts=None if many is None else many[some]))
            tokens[some] = rest
        ctx.save_for_backward(step)
        return torch.from_numpy(tokens)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (step,) = ctx.saved_tensors
        b = step.detach().numpy()
        total = np.array(g.numpy(), order="C")
        slope = b * 0 if ctx.moves is None else ctx.moves.back(total, np.require(b, requirements=["C", "W"]))
        if len(ctx.left):
            total[ctx.left], slope[ctx.left] = _back(ctx.history, total[ctx.left], b[ctx.left])
        return torch.from_numpy(total), torch.from_numpy(slope), None, None, None


def _moved(tokens: Any, b: Any, count: int, A: Any, counts: Any) -> Any:
    """Move what the compiled pass can; what it did, and the clouds that are left."""
    moves = None
    if A is None and has_numba() and tokens.dtype == b.dtype and not _too_large(tokens):
        from hardmax.attention.compiled_layers import run

        moves = run(tokens, b, count, counts)
    return moves, np.arange(len(tokens)) if moves is None else np.flatnonzero(~moves.clear)


def _back(history: Any, total: Any, b: Any) -> Any:
    """Gradients of inputs and steps."""
    slope = b * 0
    for layer, pull in reversed(history):
        some = slice(None) if layer.clouds is None else layer.clouds
        # d/db of 1 - (1 - b)^m is m (1 - b)^(m - 1)
        slope[some] += layer.ahead * (1 - b[some]) ** (layer.ahead - 1) * (total[some] * pull).sum((1, 2))
        total[some] = back(layer, total[some])
    return total, slope
