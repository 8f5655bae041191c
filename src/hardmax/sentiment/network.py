"""The classifier as a torch module: embedding, hardmax layers in every head, mean, linear decoder."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hardmax.attention.layers import hardmax_layers

ATTENTION = ("hardmax", "softmax", "random", "none")
LARGEST = 1e30  # alpha: b is 1 then
LOUDNESS = 0.5  # of a head's decoder at the start


@dataclass(frozen=True)
class Shape:
    """Sizes of a network.

    Parameters
    ----------
    tokens, outputs : int
        Size of the vocabulary, and 1 for two classes, else the number of classes.
    heads, d, layers : int
        Each head has d coordinates of its own.
    groups : int
        Heads are dealt out to groups, each a classifier of its own; the answer is their mean.
    trained_A : bool
        Whether each head has an A = LL^T of its own, else the identity.
    """

    tokens: int
    outputs: int
    heads: int
    d: int
    layers: int
    groups: int = 1
    trained_A: bool = False

    @property
    def width(self) -> int:
        """Coordinates of a group."""
        return self.heads * self.d // self.groups


class Network(nn.Module):
    """In each group logit = beta + v . mean_i z_i^K, where z^0 is the embedding of a text's tokens.

    Parameters
    ----------
    shape : Shape
    alpha : float
        To start from; each head trains its own, positive as the softplus of a parameter.
    scale : float
        Standard deviation of the embedding at the start, times the coordinates of a group.
    """

    def __init__(self, shape: Shape, *, alpha: float = 1.0, scale: float = 6.4) -> None:
        super().__init__()
        heads, d = shape.heads, shape.d
        self.shape = shape
        self.embedding = nn.Parameter(scale / shape.width * torch.randn(shape.tokens, heads * d))
        directions = nn.functional.normalize(torch.randn(shape.outputs, heads, d), dim=-1)
        self.decoder = nn.Parameter(LOUDNESS * d**0.5 * directions)
        self.bias = nn.Parameter(torch.zeros(shape.groups, shape.outputs))
        start = torch.full((heads,), min(float(alpha), LARGEST), dtype=torch.float64)
        self.raw_alpha = nn.Parameter((start + (-torch.expm1(-start)).log()).float())  # softplus undone
        self.factor = nn.Parameter(torch.eye(d).repeat(heads, 1, 1)) if shape.trained_A else None

    @property
    def alpha(self) -> Any:
        """(heads,) positive."""
        return nn.functional.softplus(self.raw_alpha).clamp(torch.finfo(torch.float32).tiny, LARGEST)

    @property
    def A(self) -> Any:
        """(heads, d, d) LL^T, or None for the identity."""
        return None if self.factor is None else self.factor @ self.factor.mT

    def forward(
        self, ids: Any, counts: Any, kept: Any = None, *, attention: str = "hardmax", temperature: float = 1e-3
    ) -> Any:
        """Logits of texts, group by group.

        Parameters
        ----------
        ids : (texts, n) tensor of token numbers
            Behind the end of a text any number, best that of its first token.
        counts : (texts, groups or 1, n) tensor of int
            How often each counts in a group; 0 behind the end, and for tokens that a group does not see.
        kept : (texts, n, heads * d) tensor, optional
            Factors of the embedding: dropout.
        attention : str
            "hardmax" is the model; "softmax" its smooth form, to train with; "random" and "none" are for comparison.

        Returns
        -------
        (texts, groups, outputs) tensor
            beta for a text without tokens. The answer is the mean over groups.
        """
        texts, n = ids.shape
        heads, d, groups = self.shape.heads, self.shape.d, self.shape.groups
        z = nn.functional.embedding(ids, self.embedding)
        z = z if kept is None else z * kept
        z = z.view(texts, n, heads, d).transpose(1, 2).reshape(texts * heads, n, d)
        seen = counts.expand(-1, groups, -1).repeat_interleave(heads // groups, 1).reshape(texts * heads, n)
        z = self._layers(z, seen, attention, temperature).view(texts, heads, n, d)
        weight = seen.to(z.dtype) / seen.sum(1, keepdim=True).clamp(min=1)
        mean = torch.einsum("thnd,thn->thd", z, weight.view(texts, heads, n))
        says = torch.einsum("thd,ohd->tho", mean, self.decoder)
        return says.view(texts, groups, heads // groups, -1).sum(2) + self.bias

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
        empty = counts.sum(1, keepdim=True) == 0
        log_counts = counts.to(z.dtype).log().masked_fill(empty, 0)[:, None, :]  # -inf for padding
        for _ in range(self.shape.layers):
            if attention == "softmax":
                scores = (z if A is None else z @ A) @ z.mT / temperature
                z = z + step * ((scores + log_counts).softmax(-1) @ z - z)
            else:
                z = z + step * (_followed_at_random(z, counts > 0) - z)
        return z


def _followed_at_random(z: Any, real: Any) -> Any:
    """For each token another real one of its text, drawn evenly."""
    draws = torch.rand(z.shape[:2], device=z.device)
    places = (~real).to(torch.uint8).argsort(dim=1, stable=True)  # real tokens first
    picks = places.gather(1, (draws * real.sum(1, keepdim=True)).long())
    return z.gather(1, picks[..., None].expand_as(z))
