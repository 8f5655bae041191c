"""The classifier as a torch module: embedding, hardmax layers in every head, mean, linear decoder."""

import torch
from torch import Tensor, nn

from hardmax.attention.layers import hardmax_layers
from hardmax.text.model import Weights
from hardmax.text.parameters import Parameters

MAX_ALPHA = 1e30  # the step size is 1 then
DECODER_NORM = 0.5  # initial, times the square root of d


class Network(nn.Module):
    """In each group logit = beta + v . mean_i z_i^K, where z^0 is the embedding of a text's tokens.

    Parameters
    ----------
    tokens, outputs : int
        Size of the vocabulary, and 1 for two classes, else the number of classes.
    parameters : Parameters
        Each head trains an alpha of its own, positive as the softplus of a parameter.
    """

    def __init__(self, tokens: int, outputs: int, parameters: Parameters) -> None:
        super().__init__()
        heads, d = parameters.n_heads, parameters.d
        self.heads, self.d, self.groups, self.layers = heads, d, parameters.groups, parameters.layers
        self.group_width = heads * d // parameters.groups  # coordinates of a group
        self.embedding = nn.Parameter(parameters.scale / self.group_width * torch.randn(tokens, heads * d))
        directions = nn.functional.normalize(torch.randn(outputs, heads, d), dim=-1)
        self.decoder = nn.Parameter(DECODER_NORM * d**0.5 * directions)
        self.bias = nn.Parameter(torch.zeros(parameters.groups, outputs))
        start = torch.full((heads,), min(float(parameters.alpha), MAX_ALPHA), dtype=torch.float64)
        self.raw_alpha = nn.Parameter((start + (-torch.expm1(-start)).log()).float())  # inverse of softplus
        self.factor = nn.Parameter(torch.eye(d).repeat(heads, 1, 1)) if parameters.trained_A else None

    @property
    def alpha(self) -> Tensor:
        return nn.functional.softplus(self.raw_alpha).clamp(torch.finfo(torch.float32).tiny, MAX_ALPHA)

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
        """Return (texts, groups, outputs) logits of the groups; the prediction is their mean.

        `ids`, (texts, n), are token indices; the padding should repeat the first token of a text. `counts`,
        (texts, groups or 1, n), are multiplicities in each group: 0 for padding and for tokens that a group does not
        see. `kept`, (texts, n, heads * d), are dropout factors of the embedding. `attention` is "hardmax", or
        "softmax" for training.
        """
        texts, n = ids.shape
        heads, d, groups = self.heads, self.d, self.groups
        z = nn.functional.embedding(ids, self.embedding)
        z = z if kept is None else z * kept
        z = z.view(texts, n, heads, d).transpose(1, 2).reshape(texts * heads, n, d)
        seen = counts.expand(-1, groups, -1).repeat_interleave(heads // groups, 1).reshape(texts * heads, n)
        z = self._apply_layers(z, seen, attention, temperature).view(texts, heads, n, d)
        weight = seen.to(z.dtype) / seen.sum(1, keepdim=True).clamp(min=1)
        mean = torch.einsum("thnd,thn->thd", z, weight.view(texts, heads, n))
        logits = torch.einsum("thd,ohd->tho", mean, self.decoder)
        return logits.view(texts, groups, heads // groups, -1).sum(2) + self.bias

    def _apply_layers(self, z: Tensor, counts: Tensor, attention: str, temperature: float) -> Tensor:
        texts = len(z) // self.heads
        alpha = self.alpha.repeat(texts)
        A = None if self.A is None else self.A.repeat(texts, 1, 1)
        if attention == "hardmax":
            return hardmax_layers(z, alpha, self.layers, A=A, counts=counts)
        step = (alpha / (1 + alpha))[:, None, None]
        empty = counts.sum(1, keepdim=True) == 0
        log_counts = counts.to(z.dtype).log().masked_fill(empty, 0)[:, None, :]  # -inf for padding
        for _ in range(self.layers):
            scores = (z if A is None else z @ A) @ z.mT / temperature
            z = z + step * ((scores + log_counts).softmax(-1) @ z - z)
        return z

    def weights(self) -> Weights:
        """Return the weights for inference. The mean over groups is part of the decoder, so that heads add."""
        parts = (self.embedding, self.alpha.double(), self.decoder.double(), self.bias.double())
        embedding, alpha, decoder, bias = (part.detach().cpu().numpy() for part in parts)
        A = None if self.A is None else self.A.detach().cpu().double().numpy()
        A = A if A is None else (A + A.swapaxes(1, 2)) / 2
        embedding, decoder = embedding.reshape(-1, self.heads, self.d), decoder / self.groups
        return Weights(embedding, alpha, A, decoder, bias.mean(axis=0), self.layers)


def new_network(tokens: int, classes: int, parameters: Parameters, kind: type[Network] = Network) -> Network:
    """Return a network whose initial weights depend on `random_state` only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(parameters.random_state)
        return kind(tokens, 1 if classes == 2 else classes, parameters)
