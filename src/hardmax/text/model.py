"""A trained classifier as plain data, and what every token of a text adds to its logit, in NumPy and float64.

z^K = M z^0, so logit = beta + sum_j share_j v . z_j^0 with share_j = (1/n) sum_i M_ij: the share of the mean that
token j holds in the end times its own score. With a power p all terms of a text are times n^p.

A text goes through its layers in compiled code where that knows the answer; else `followers` has the record of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.search.dispatch import products_of_batch, use_compiled
from hardmax.text.followers import Followers
from hardmax.text.vocabulary import Encoded, Vocabulary
from hardmax.text.weights import Weights

PART = 1 << 21  # characters: some tens of megabytes of tokens
CELLS = 1 << 19  # numbers of tokens times heads at a time: fast memory holds them


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

    @property
    def start(self) -> str:
        """Where training began, "linear" or "random": only a linear start has a pooling exponent above 0."""
        return "linear" if self.weights.power else "random"

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """(texts, outputs): the bias plus what each token contributes."""
        return self.answers(texts)[0]

    def answers(self, texts: Sequence[str]) -> tuple[FloatArray, IntArray]:
        """(texts, outputs) logits, and (texts,) how many known tokens they come from; with none, it is the bias."""
        encoded = (self.vocabulary.encode(some) for some in in_parts(texts))
        parts = [(logits(self.weights, some), some.sizes) for some in encoded]
        scores, sizes = zip(*parts, strict=True) if parts else ((), ())
        nothing = np.empty((0, self.weights.outputs)), np.empty(0, np.int64)
        return np.concatenate([nothing[0], *scores]), np.concatenate([nothing[1], *sizes])

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """(texts, classes) from (texts, outputs) logits, less the lift of rare classes."""
        scores = self.unlifted(scores)
        return np.asarray(expit(scores * [-1, 1]) if scores.shape[1] == 1 else softmax(scores, axis=1))

    def unlifted(self, scores: FloatArray) -> FloatArray:
        """(texts, outputs) logits as they are believed, from those that decide."""
        return scores if self.weights.lift is None else scores - self.weights.lift

    def certainty(self, scores: FloatArray) -> FloatArray:
        """(texts,) probabilities of what (texts, outputs) logits decide for."""
        return np.asarray(self.probabilities(scores)[np.arange(len(scores)), decided(scores)])

    def decide(self, scores: FloatArray) -> AnyArray:
        """(texts,) labels from (texts, outputs) logits; a logit of 0 means the first class."""
        return self.classes[decided(scores)]


def decided(scores: FloatArray) -> IntArray:
    """(texts,) numbers of the classes that (texts, outputs) logits decide for."""
    return (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)


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


def contributions(weights: Weights, encoded: Encoded) -> FloatArray:
    """(tokens of all texts, outputs) what each adds to the logits of its text."""
    result, left = np.empty((len(encoded.ids), weights.outputs)), np.arange(len(encoded))
    long = float(np.sqrt(np.square(encoded.sizes).sum() / max(1, len(encoded))))  # a text; NumPy takes the square
    work = max(1, weights.layers) * products_of_batch(len(encoded) * weights.heads, long, long)
    if weights.d <= 2 and weights.A is None and use_compiled("contributions", work):
        from hardmax.attention.layers_compiled import contributions_of_texts

        result, clear = contributions_of_texts(
            encoded, weights.embedding, weights.step, weights.decoder, weights.layers
        )
        left = np.flatnonzero(~clear)  # some tokens tie, or nearly
    for some in batches(encoded.sizes[left], weights.heads):
        ids, counts = encoded.take(left[some]).padded()
        share, tokens = Followers.of(weights, ids, counts, beyond=False).shares(), weights.tokens(ids)
        total = np.zeros((*ids.shape, weights.outputs))  # (texts, n, outputs)
        for h in range(weights.heads):  # in this order whatever the batch
            for r in range(weights.d):
                total += share[:, h, :, None] * (tokens[:, :, h, r, None] * weights.decoder[:, h, r])
        result[encoded.places(left[some])] = total[counts > 0]
    return result if weights.power == 0 else result * _loudness(weights, encoded)


def _loudness(weights: Weights, encoded: Encoded) -> FloatArray:
    """(tokens of all texts, 1) how loud the text of each speaks."""
    owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
    return weights.loudness(np.bincount(owners, encoded.counts, len(encoded)))[owners, None]


def logits(weights: Weights, encoded: Encoded) -> FloatArray:
    """(texts, outputs) bias and contributions of every text, summed."""
    return weights.bias + sums_by_text(contributions(weights, encoded), encoded)


def sums_by_text(parts: FloatArray, encoded: Encoded) -> FloatArray:
    """(texts, outputs) sums of the rows of each text, in their order."""
    owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
    return np.stack([np.bincount(owners, column, len(encoded)) for column in parts.T], axis=1)


def batches(sizes: IntArray, heads: int) -> Iterator[IntArray]:
    """Texts of like length together, as many as fit; texts without tokens are left out."""
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0][::-1]
    while len(order):
        count = max(1, CELLS // (int(sizes[order[0]]) * heads))
        yield order[:count]
        order = order[count:]
