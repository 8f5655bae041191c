"""A trained classifier as plain data: what it knows of text, its numbers, the names of its classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._types import AnyArray, FloatArray
from hardmax.sentiment.inference import Weights, logits
from hardmax.sentiment.vocabulary import Vocabulary

PART = 1 << 21  # characters: some tens of megabytes of tokens


@dataclass(frozen=True, eq=False)
class Model:
    """From texts to logits and probabilities, with NumPy alone.

    Parameters
    ----------
    vocabulary : Vocabulary
    weights : Weights
    classes : (classes,) array
        Labels in order. With two there is one logit, positive for the second.
    """

    vocabulary: Vocabulary
    weights: Weights
    classes: AnyArray

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """(texts, outputs): the bias plus what each token contributes."""
        parts = [logits(self.weights, self.vocabulary.encode(some)) for some in in_parts(texts)]
        return np.concatenate([np.empty((0, self.weights.outputs)), *parts])

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """(texts, classes) from (texts, outputs) logits."""
        if scores.shape[1] == 1:
            second = sigmoid(scores[:, 0])
            return np.stack([sigmoid(-scores[:, 0]), second], axis=1)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def decide(self, scores: FloatArray) -> Any:
        """(texts,) labels from (texts, outputs) logits; a logit of 0 means the first class."""
        places = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes[places]


def in_parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Texts, as many at a time as have `PART` characters together: memory does not grow with their number."""
    start = size = 0
    for end, text in enumerate(texts):
        if size + len(text) > PART and end > start:
            yield texts[start:end]
            start, size = end, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
