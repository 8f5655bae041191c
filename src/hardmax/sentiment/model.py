"""A trained classifier as plain data: what it knows of text, its numbers, the names of its classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._types import AnyArray, FloatArray
from hardmax.sentiment.crowd import Weights, logits
from hardmax.sentiment.vocabulary import Vocabulary


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
        return logits(self.weights, self.vocabulary.encode(texts))

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


def sigmoid(x: FloatArray) -> FloatArray:
    """1 / (1 + e^-x) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))
