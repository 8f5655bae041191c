"""How a network is trained: every choice in one place, with its reason."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.sentiment.vocabulary import Encoded

SORTED = 32  # batches within which texts are sorted by length: padding stays small, batches stay random


class Batch(NamedTuple):
    """Texts of one step: arrays of NumPy or tensors."""

    ids: Any  # (texts, n)
    counts: Any  # (texts, groups, n) 0 where a group does not see a token
    kept: Any  # (texts, n, heads * d) factors of the embedding, or None
    labels: Any  # (texts,)


@dataclass(frozen=True)
class Recipe:
    """Choices of a training run.

    The learning rate rises over the first `warm_up` of all steps in a straight line and then falls to 0 as a cosine.
    In every step each group of heads sees its own random part of a text's tokens. That stops single words from being
    learned by heart, and makes the groups different, so that their mean is better than each of them.
    """

    epochs: int = 5
    batch_size: int = 64
    learning_rate: float = 0.3  # of the embedding, divided by the coordinates of a group
    alpha_rate: float = 0.01  # of the parameter behind alpha
    weight_decay: float = 0.05  # of the embedding, decoupled as in AdamW
    dropout: float = 0.5  # part of the tokens that a group does not see
    embedding_dropout: float = 0.0  # part of the numbers of the embedding that are set to 0
    warm_up: float = 0.15
    label_smoothing: float = 0.0
    clip: float = 5.0  # largest norm of the gradient of all but the embedding
    patience: int | None = None  # epochs without a better validation accuracy before it stops
    attention: str = "hardmax"  # in training
    served: str = "hardmax"  # in validation; inference is always hardmax
    temperature: float = 1e-3  # of softmax attention
    seed: int = 0

    def rate(self, done: float) -> float:
        """Factor of all learning rates when a part `done` of all steps is over."""
        if done < self.warm_up:
            return done / self.warm_up
        return (1 + math.cos(math.pi * (done - self.warm_up) / (1 - self.warm_up))) / 2

    def batches(self, epoch: int, sizes: IntArray) -> list[IntArray]:
        """All texts in random batches, those of a batch of like length. The same for the same seed and epoch."""
        random, size = np.random.default_rng([self.seed, epoch]), self.batch_size
        order = random.permutation(len(sizes))
        batches = []
        for i in range(0, len(order), SORTED * size):
            block = order[i : i + SORTED * size]
            by_length = block[np.argsort(sizes[block], kind="stable")]
            batches += [by_length[i : i + size] for i in range(0, len(by_length), size)]
        return [batches[i] for i in random.permutation(len(batches))]

    def batch(self, texts: Encoded, labels: IntArray, groups: int, width: int, step: int, part: slice) -> Batch:
        """Part of a batch, with what is dropped in this step. Nothing depends on how a batch is dealt out."""
        random = np.random.default_rng([self.seed, 10_000, step])
        kept = _kept(texts, self.dropout, groups, random)  # (m, groups)
        factors = _factors(texts, self.embedding_dropout, width, random)
        some = np.arange(len(texts))[part]
        ids, counts = texts.take(some).padded()
        places, real = texts.places(some), counts > 0
        seen = np.zeros((*ids.shape, groups), np.int32)
        seen[real] = kept[places] * texts.counts[places, None]
        noise = None
        if factors is not None:
            noise = np.ones((*ids.shape, width), np.float32)
            noise[real] = factors[places]
        return Batch(ids, seen.transpose(0, 2, 1), noise, labels[part])


def _kept(texts: Encoded, dropout: float, groups: int, random: np.random.Generator) -> AnyArray:
    """(m, groups) whether a group sees a token; a text that would lose all of them keeps all."""
    if dropout == 0:
        return np.ones((len(texts.ids), groups), bool)
    kept = random.random((len(texts.ids), groups), np.float32) >= dropout
    owners = np.repeat(np.arange(len(texts)), texts.sizes)
    before = np.zeros((len(kept) + 1, groups), np.int64)
    np.cumsum(kept, axis=0, out=before[1:])
    left = np.diff(before[texts.starts], axis=0)  # (texts, groups)
    return kept | (left == 0)[owners]


def _factors(texts: Encoded, dropout: float, width: int, random: np.random.Generator) -> AnyArray | None:
    """(m, width) 0 for the numbers that are dropped, and what keeps the mean for the others."""
    if dropout == 0:
        return None
    kept = random.random((len(texts.ids), width), np.float32) >= dropout
    return kept / np.float32(1 - dropout)


def class_weights(labels: IntArray, classes: int, balanced: bool) -> FloatArray:
    """(classes,) factors of the loss: 1, or such that all classes weigh the same."""
    if not balanced:
        return np.ones(classes)
    counts: Any = np.bincount(labels, minlength=classes)
    return np.asarray(len(labels) / (classes * np.maximum(counts, 1)))
