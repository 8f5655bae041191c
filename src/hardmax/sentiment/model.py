"""A trained classifier as plain data: what it knows of text, its numbers, its classes, and how it was trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from hardmax._types import AnyArray, FloatArray
from hardmax.sentiment.inference import Weights, logits
from hardmax.sentiment.vocabulary import Vocabulary

PART = 1 << 21  # characters: some tens of megabytes of tokens


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch of training; of validation only where something was held back."""

    number: int
    train_loss: float
    loss: float | None = None  # of validation
    accuracy: float | None = None
    kept: bool = False  # whether the model has the weights of this epoch

    @property
    def quality(self) -> tuple[float, float]:
        """By which epochs are compared: accuracy, then loss."""
        if self.accuracy is None or self.loss is None:
            return float(self.number), 0.0  # the last one
        return self.accuracy, -self.loss


@dataclass(frozen=True, eq=False)
class Model:
    """From texts to logits and probabilities, with NumPy alone."""

    vocabulary: Vocabulary
    weights: Weights
    classes: AnyArray  # labels in order; with two there is one logit, positive for the second

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """(texts, outputs): the bias plus what each token contributes."""
        parts = [logits(self.weights, self.vocabulary.encode(some)) for some in in_parts(texts)]
        return np.concatenate([np.empty((0, self.weights.outputs)), *parts])

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """(texts, classes) from (texts, outputs) logits."""
        return np.asarray(expit(scores * [-1, 1]) if scores.shape[1] == 1 else softmax(scores, axis=1))

    def decide(self, scores: FloatArray) -> AnyArray:
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
