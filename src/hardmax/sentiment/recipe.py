"""How a network is trained: every choice in one place, with its reason."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.sentiment.vocabulary import Encoded


@dataclass(frozen=True)
class Recipe:
    """Choices of a training run.

    The learning rate rises over the first `warm_up` of all steps and then falls to 0, both in straight lines. In each
    epoch a text loses a random part of its tokens, `dropout`: it stops single words from being learned by heart.
    """

    epochs: int = 8
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 0.0  # of the embedding, decoupled as in AdamW
    dropout: float = 0.3
    warm_up: float = 0.3
    label_smoothing: float = 0.0
    clip: float = 5.0  # largest norm of the gradient
    patience: int | None = None  # epochs without a better validation accuracy before it stops
    attention: str = "hardmax"  # in training; validation and inference are always hardmax
    temperature: float = 1e-3  # of attention="softmax"
    seed: int = 0

    def rate(self, done: float) -> float:
        """Learning rate when a part `done` of all steps is over."""
        if done < self.warm_up:
            return self.learning_rate * done / self.warm_up
        return self.learning_rate * (1 - done) / max(1e-12, 1 - self.warm_up)

    def epoch(self, number: int, data: Encoded) -> tuple[list[IntArray], Encoded]:
        """Batches of an epoch, and its texts with some tokens left out. The same for the same seed and number."""
        random = np.random.default_rng([self.seed, number])
        batches = _batches(data.sizes, self.batch_size, random)
        return batches, _thinned(data, self.dropout, random)


def _batches(sizes: IntArray, size: int, random: np.random.Generator) -> list[IntArray]:
    """All texts in a random order, those of a batch of like length: within blocks of 32 batches they are sorted."""
    order = random.permutation(len(sizes))
    blocks = [order[i : i + 32 * size] for i in range(0, len(order), 32 * size)]
    batches = []
    for block in blocks:
        by_length = block[np.argsort(sizes[block], kind="stable")]
        batches += [by_length[i : i + size] for i in range(0, len(by_length), size)]
    return [batches[i] for i in random.permutation(len(batches))]


def _thinned(data: Encoded, part: float, random: np.random.Generator) -> Encoded:
    """Texts without a random part of their tokens; a text that would lose all of them keeps all."""
    if part == 0:
        return data
    kept = random.random(len(data.ids)) >= part
    owners = np.repeat(np.arange(len(data)), data.sizes)
    left = np.bincount(owners[kept], minlength=len(data))
    kept |= (left == 0)[owners]
    sizes = np.bincount(owners[kept], minlength=len(data))
    return Encoded(data.ids[kept], np.concatenate([[0], np.cumsum(sizes)]), data.counts[kept])


def class_weights(labels: IntArray, classes: int, balanced: bool) -> FloatArray:
    """(classes,) factors of the loss: 1, or such that all classes weigh the same."""
    if not balanced:
        return np.ones(classes)
    counts: Any = np.bincount(labels, minlength=classes)
    return np.asarray(len(labels) / (classes * np.maximum(counts, 1)))
