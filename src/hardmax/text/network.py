"""The classifier as a torch module: embedding, hardmax layers in every head, mean, linear decoder."""

import torch
from torch import Tensor, nn

from hardmax.attention.layers import hardmax_layers
from hardmax.text.settings import ModelSettings, Settings
from hardmax.text.weights import Weights

LARGEST = 1e30  # alpha: b is 1 then
LOUDNESS = 0.5  # of a head's decoder at the start


class Network(nn.Module):
    """In each group logit = beta + v . mean_i z_i^K, where z^0 is the embedding of a text's tokens.

    Parameters
    ----------
    tokens, outputs : int
        Size of the vocabulary, and 1 for two classes, else the number of classes.
    settings : ModelSettings
        Each head trains an alpha of its own, positive as the softplus of a parameter.
    """

    def __init__(self, tokens: int, outputs: int, settings: ModelSettings) -> None:
        super().__init__()
        heads, d = settings.n_heads, settings.d
        self.heads, self.d, self.groups, self.layers = heads, d, settings.groups, settings.layers
        self.group_width = heads * d // settings.groups  # coordinates of a group
        self.embedding = nn.Parameter(settings.scale / self.group_width * torch.randn(tokens, heads * d))
        directions = nn.functional.normalize(torch.randn(outputs, heads, d), dim=-1)
        self.decoder = nn.Parameter(LOUDNESS * d**0.5 * directions)
        self.bias = nn.Parameter(torch.zeros(settings.groups, outputs))
        start = torch.full((heads,), min(float(settings.alpha), LARGEST), dtype=torch.float64)
        self.raw_alpha = nn.Parameter((start + (-torch.expm1(-start)).log()).float())  # softplus undone
        self.factor = nn.Parameter(torch.eye(d).repeat(heads, 1, 1)) if settings.trained_A else None

    @property
    def alpha(self) -> Tensor:
        return nn.functional.softplus(self.raw_alpha).clamp(torch.finfo(torch.float32).tiny, LARGEST)

    @property
    def A(self) -> Tensor | None:
        return None if self.factor is None else self.factor @ self.factor.mT

    def forward(
        self,
        ids: Tensor,
        counts: Tensor,
        kept: Tensor | None = None,
        *,
        attention: str = "hardmax",
        temperature: float = 1e-3,
    ) -> Tensor:
        """(texts, groups, outputs) logits, group by group; the answer is the mean over groups.

        `ids`, (texts, n), are token numbers; behind the end of a text any, best that of its first token. `counts`,
        (texts, groups or 1, n), say how often each counts in a group: 0 behind the end, and for tokens that a group
        does not see. `kept`, (texts, n, heads * d), are factors of the embedding: dropout. The `attention` of the model
        is "hardmax"; "softmax" is its smooth form, to train with; "random" and "none" are for comparison.
        """
        texts, n = ids.shape
        heads, d, groups = self.heads, self.d, self.groups
        z = nn.functional.embedding(ids, self.embedding)
        z = z if kept is None else z * kept
        z = z.view(texts, n, heads, d).transpose(1, 2).reshape(texts * heads, n, d)
        seen = counts.expand(-1, groups, -1).repeat_interleave(heads // groups, 1).reshape(texts * heads, n)
        z = self._moved(z, seen, attention, temperature).view(texts, heads, n, d)
        weight = seen.to(z.dtype) / seen.sum(1, keepdim=True).clamp(min=1)
        mean = torch.einsum("thnd,thn->thd", z, weight.view(texts, heads, n))
        logits = torch.einsum("thd,ohd->tho", mean, self.decoder)
        return logits.view(texts, groups, heads // groups, -1).sum(2) + self.bias

    def _moved(self, z: Tensor, counts: Tensor, attention: str, temperature: float) -> Tensor:
        texts = len(z) // self.heads
        alpha = self.alpha.repeat(texts)
        A = None if self.A is None else self.A.repeat(texts, 1, 1)
        if attention == "hardmax":
            return hardmax_layers(z, alpha, self.layers, A=A, counts=counts)
        if attention == "none":
            return z
        step = (alpha / (1 + alpha))[:, None, None]
        empty = counts.sum(1, keepdim=True) == 0
        log_counts = counts.to(z.dtype).log().masked_fill(empty, 0)[:, None, :]  # -inf for padding
        for _ in range(self.layers):
            if attention == "softmax":
                scores = (z if A is None else z @ A) @ z.mT / temperature
                z = z + step * ((scores + log_counts).softmax(-1) @ z - z)
            else:
                z = z + step * (_followed_at_random(z, counts > 0) - z)
        return z

    def weights(self) -> Weights:
        """What it has learned, for inference. The mean over groups is part of the decoder, so that heads add."""
        parts = (self.embedding, self.alpha.double(), self.decoder.double(), self.bias.double())
        embedding, alpha, decoder, bias = (part.detach().cpu().numpy() for part in parts)
        A = None if self.A is None else self.A.detach().cpu().double().numpy()
        A = A if A is None else (A + A.swapaxes(1, 2)) / 2
        embedding, decoder = embedding.reshape(-1, self.heads, self.d), decoder / self.groups
        return Weights(embedding, alpha, A, decoder, bias.mean(axis=0), self.layers)


def new_network(tokens: int, classes: int, settings: Settings) -> Network:
    """A network with random weights that `random_state` alone decides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.random_state)
        return Network(tokens, 1 if classes == 2 else classes, settings)


def _followed_at_random(z: Tensor, real: Tensor) -> Tensor:
    """For each token another real one of its text, drawn evenly."""
    draws = torch.rand(z.shape[:2], device=z.device)
    places = (~real).to(torch.uint8).argsort(dim=1, stable=True)  # real tokens first
    picks = places.gather(1, (draws * real.sum(1, keepdim=True)).long())
    return z.gather(1, picks[..., None].expand_as(z))
