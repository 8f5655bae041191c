"""The classifier as a torch module: embedding, hardmax layers in every head, mean, linear decoder."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hardmax.kernels.layers import hardmax_layers

ATTENTION = ("hardmax", "softmax", "random", "none")


@dataclass(frozen=True)
class Shape:
    """Sizes of a network.

    Parameters
    ----------
    tokens, outputs : int
        Size of the vocabulary, and 1 for two classes, else the number of classes.
    heads, d, layers : int
        Each head has d coordinates of its own.
    trained_A : bool
        Whether each head has an A = LL^T of its own, else the identity.
    """

    tokens: int
    outputs: int
    heads: int
    d: int
    layers: int
    trained_A: bool = False


class Network(nn.Module):
    """logit = beta + v . mean_i z_i^K, where z^0 is the embedding of a text's tokens.

    Parameters
    ----------
    shape : Shape
    alpha : float
        To start from; each head trains its own, positive as the exponential of a parameter.
    scale : float
        Standard deviation of the embedding at the start.
    """

    def __init__(self, shape: Shape, *, alpha: float = 1.0, scale: float = 1.0) -> None:
        super().__init__()
        width = shape.heads * shape.d
        self.shape = shape
        self.embedding = nn.Parameter(scale * torch.randn(shape.tokens, width))
        self.log_alpha = nn.Parameter(torch.full((shape.heads,), float(alpha)).log())
        self.factor = nn.Parameter(torch.eye(shape.d).repeat(shape.heads, 1, 1)) if shape.trained_A else None
        self.decoder = nn.Linear(width, shape.outputs)

    @property
    def alpha(self) -> Any:
        """(heads,) positive."""
        return self.log_alpha.exp()

    @property
    def A(self) -> Any:
        """(heads, d, d) LL^T, or None for the identity."""
        return None if self.factor is None else self.factor @ self.factor.mT

    def forward(self, ids: Any, counts: Any, *, attention: str = "hardmax", temperature: float = 1e-3) -> Any:
        """Logits of texts.

        Parameters
        ----------
        ids : (texts, n) tensor of token numbers
            Behind the end of a text any number, best that of its first token.
        counts : (texts, n) tensor of int
            How often each counts; 0 behind the end.
        attention : str
            "hardmax" is the model; "softmax" its smooth form, to train with; "random" and "none" are for comparison.

        Returns
        -------
        (texts, outputs) tensor
            beta for a text without tokens.
        """
        texts, n = ids.shape
        heads, d = self.shape.heads, self.shape.d
        z = nn.functional.embedding(ids, self.embedding)
        z = z.view(texts, n, heads, d).transpose(1, 2).reshape(texts * heads, n, d)
        z = self._layers(z, counts.repeat_interleave(heads, 0), attention, temperature).view(texts, heads, n, d)
        weight = counts.to(z.dtype) / counts.sum(1, keepdim=True).clamp(min=1)  # (texts, n)
        mean = torch.einsum("thnd,tn->thd", z, weight)
        return self.decoder(mean.reshape(texts, heads * d))

    def _layers(self, z: Any, counts: Any, attention: str, temperature: float) -> Any:
        """(texts * heads, n, d) tokens after all layers."""
        texts = len(z) // self.shape.heads
        alpha = self.alpha.repeat(texts)
        A = None if self.A is None else self.A.repeat(texts, 1, 1)
        if attention == "hardmax":
            return hardmax_layers(z, alpha, self.shape.layers, A=A, counts=counts)
        if attention == "none":
            return z
        step = (alpha / (1 + alpha))[:, None, None]
        for _ in range(self.shape.layers):
            if attention == "softmax":
                scores = (z if A is None else z @ A) @ z.mT / temperature
                scores = scores + counts.to(z.dtype).log()[:, None, :]  # -inf for padding
                z = z + step * (scores.softmax(-1) @ z - z)
            else:
                z = z + step * (_followed_at_random(z, counts > 0) - z)
        return z


def _followed_at_random(z: Any, real: Any) -> Any:
    """For each token another real one of its text, drawn evenly."""
    draws = torch.rand(z.shape[:2], device=z.device)
    picks = (draws * real.sum(1, keepdim=True)).long()  # real tokens come first
    return z.gather(1, picks[..., None].expand_as(z))
