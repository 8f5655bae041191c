"""Several hardmax layers for torch, with the gradients of tokens and steps."""

from typing import Any

import torch

from hardmax.kernels.attention import _array, hardmax_attention
from hardmax.kernels.stack import back, layers_of


def hardmax_layers(z: Any, alpha: Any, count: int, *, A: Any = None, counts: Any = None) -> Any:
    """Run tokens through hardmax layers: z_i <- z_i + b (mean of C_i - z_i), b = alpha / (1 + alpha).

    The sets C_i are exact, as in `hardmax_attention`. On the CPU a cloud in which each token follows one leader goes
    through all layers to come in one step, which is the same by Theorem 1; on a GPU every layer is run.

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
        tie: their mean is weighted. On a GPU they count once.

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
    step = alpha / (1 + alpha)
    if z.is_cuda:
        mask = None if counts is None else counts > 0
        for _ in range(count):
            queries = z if A is None else z @ A
            z = z + step[:, None, None] * (hardmax_attention(queries, z, z, mask) - z)
        return z
    return _Layers.apply(z, step, count, A, counts)


class _Layers(torch.autograd.Function):
    """All layers as one operation; it keeps the sets of each and what moved the tokens."""

    @staticmethod
    def forward(ctx: Any, z: Any, step: Any, count: int, A: Any, counts: Any) -> Any:
        tokens = _array(z, "z").copy()
        b = step.detach().numpy()
        many = None if counts is None else counts.numpy()
        forms = None if A is None else A.detach().numpy()
        ctx.history = list(layers_of(tokens, b, count, A=forms, counts=many))
        ctx.save_for_backward(step)
        return torch.from_numpy(tokens)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (step,) = ctx.saved_tensors
        b = step.detach().numpy()
        total, slope = g.numpy().copy(), b * 0
        for layer, pull in reversed(ctx.history):
            some = slice(None) if layer.clouds is None else layer.clouds
            # d/db of 1 - (1 - b)^m is m (1 - b)^(m - 1)
            slope[some] += layer.ahead * (1 - b[some]) ** (layer.ahead - 1) * (total[some] * pull).sum((1, 2))
            total[some] = back(layer, total[some])
        return torch.from_numpy(total), torch.from_numpy(slope), None, None, None
