"""What a training run sees, step by step: batches of texts, what is dropped of them, and the learning rate.

In every step each group of heads sees its own random part of a text's tokens. That stops single words from being
learned by heart, and makes the groups different, so that their mean is better than each of them.
"""

import math
from typing import NamedTuple

import numpy as np

from hardmax._types import AnyArray, BoolArray, IntArray
from hardmax.sentiment.settings import TrainingSettings
from hardmax.sentiment.vocabulary import Encoded

SORTED = 32  # batches within which texts are sorted by length: padding stays small, batches stay random
WARM_UP = 0.15  # of all steps


class Batch(NamedTuple):
    """Texts of one step."""

    ids: IntArray  # (texts, n)
    counts: AnyArray  # (texts, groups, n) 0 where a group does not see a token
    kept: AnyArray | None  # (texts, n, heads * d) factors of the embedding
    labels: IntArray  # (texts,)


def rate(done: float, warm_up: float = WARM_UP) -> float:
    """Factor of all learning rates when a part `done` of all steps is over: up in a line, and down to 0 as a cosine."""
    if done < warm_up:
        return done / warm_up
    return (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up))) / 2


def batches(settings: TrainingSettings, epoch: int, sizes: IntArray) -> list[IntArray]:
    """All texts in random batches, those of a batch of like length. The same for the same seed and epoch."""
    random, size = np.random.default_rng([settings.random_state, epoch]), settings.batch_size
    order = random.permutation(len(sizes))
    found = []
    for i in range(0, len(order), SORTED * size):
        block = order[i : i + SORTED * size]
        by_length = block[np.argsort(sizes[block], kind="stable")]
        found += [by_length[i : i + size] for i in range(0, len(by_length), size)]
    return [found[i] for i in random.permutation(len(found))]


def dropped(
    settings: TrainingSettings, texts: Encoded, labels: IntArray, groups: int, width: int, step: int, part: slice
) -> Batch:
    """Part of a batch, with what is dropped in this step. Nothing depends on how a batch is dealt out."""
    random = np.random.default_rng([settings.random_state, 10_000, step])
    kept = _kept(texts, settings.dropout, groups, random)  # (m, groups)
    factors = _factors(texts, settings.embedding_dropout, width, random)
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


def _kept(texts: Encoded, dropout: float, groups: int, random: np.random.Generator) -> BoolArray:
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
