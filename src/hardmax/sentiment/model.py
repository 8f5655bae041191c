"""A trained classifier as plain data, and what every token of a text adds to its logit, in NumPy and float64.

z^K = M z^0, so logit = beta + sum_j share_j v . z_j^0 with share_j = (1/n) sum_i M_ij: the share of the mean that
token j holds in the end times its own score. With a power p all terms of a text are times n^p.

A text goes through its layers in compiled code where that knows the answer, else as arrays, and by the simulation,
which knows every set without rounding, where tokens tie or nearly so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax

from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.attention.numpy_layers import Layer, layers_of, shares
from hardmax.kernels.search import has_numba
from hardmax.rules.hardmax import Hardmax
from hardmax.sentiment.vocabulary import Encoded, Vocabulary
from hardmax.simulate import simulate
from hardmax.trajectories.hardmax import HardmaxTrajectory

PART = 1 << 21  # characters: some tens of megabytes of tokens
CELLS = 1 << 19  # numbers of tokens times heads at a time: fast memory holds them


@dataclass(frozen=True, eq=False)
class Weights:
    """The numbers of a trained classifier."""

    embedding: AnyArray  # (tokens, heads, d) float32
    alpha: FloatArray  # (heads,) positive
    A: FloatArray | None  # (heads, d, d) symmetric positive definite; None is the identity
    decoder: FloatArray  # (outputs, heads, d)
    bias: FloatArray  # (outputs,)
    layers: int
    power: float = 0.0  # a text of n tokens speaks n^power times as loud: 0 is the mean, 1 would be the sum
    lift: FloatArray | None = None  # (outputs,) part of the bias that decides, but is not part of the probability

    @property
    def heads(self) -> int:
        return self.embedding.shape[1]

    @property
    def d(self) -> int:
        return self.embedding.shape[2]

    @property
    def outputs(self) -> int:
        return len(self.bias)  # 1 for two classes, else the number of classes

    def tokens(self, ids: IntArray) -> FloatArray:
        return self.embedding[ids].astype(np.float64)  # (..., heads, d)

    def loudness(self, n: IntArray) -> FloatArray:
        """n^power for texts of n tokens: what the mean of their tokens is multiplied with."""
        return np.asarray(np.maximum(n, 1.0) ** self.power)


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
        scores = scores if self.weights.lift is None else scores - self.weights.lift
        return np.asarray(expit(scores * [-1, 1]) if scores.shape[1] == 1 else softmax(scores, axis=1))

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
    if weights.d <= 2 and weights.A is None and has_numba():
        from hardmax.attention.contributions import contributions_of_texts

        step = weights.alpha / (1 + weights.alpha)
        result, clear = contributions_of_texts(encoded, weights.embedding, step, weights.decoder, weights.layers)
        left = np.flatnonzero(~clear)  # some tokens tie, or nearly
    for some in batches(encoded.sizes[left], weights.heads):
        ids, counts = encoded.take(left[some]).padded()
        share, tokens = head_shares(weights, ids, counts), weights.tokens(ids)
        total = np.zeros((*ids.shape, weights.outputs))  # (texts, n, outputs)
        for h in range(weights.heads):  # in this order whatever the batch
            scores = sum(tokens[:, :, h, r, None] * weights.decoder[:, h, r] for r in range(weights.d))
            total += share[:, h, :, None] * scores
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


def head_shares(weights: Weights, ids: IntArray, counts: IntArray) -> FloatArray:
    """(texts, heads, n) the share of the mean that each token holds after the last layer; they sum to 1."""
    sure = np.ones(len(ids) * weights.heads, bool)
    layers = _layers(weights, ids, counts, weights.layers, sure)
    found = shares(layers, np.repeat(counts, weights.heads, axis=0))
    for cloud in np.flatnonzero(~sure).tolist():
        text, h = divmod(cloud, weights.heads)
        run, alpha = simulated(weights, ids[text], counts[text], h), weights.alpha[h]
        share = np.full(run.n, 1 / run.n)
        for k in reversed(range(run.layers)):
            share = (share + alpha * (share @ run.attention(k, sparse=True))) / (1 + alpha)
        found[cloud] = np.bincount(np.repeat(np.arange(ids.shape[1]), counts[text]), share, ids.shape[1])
    return found.reshape(len(ids), weights.heads, -1)


def simulated(weights: Weights, ids: IntArray, counts: IntArray, h: int) -> HardmaxTrajectory:
    """One head of one text by the simulation, each token as often as it counts."""
    tokens = weights.embedding[np.repeat(ids, counts), h].astype(np.float64)
    rule = Hardmax(float(weights.alpha[h]), None if weights.A is None else weights.A[h])
    return simulate(tokens, rule, layers=weights.layers)


class Following(NamedTuple):
    """Who follows whom in texts, head by head."""

    emerged: IntArray  # (texts, heads, n) layer at which a token first followed itself alone; -1 for never
    follows: IntArray  # (texts, heads, n) whom each token follows after the last layer, the first of several
    decided: IntArray  # (texts, heads) layer at which every token had a single leader; -1 for not yet


def following(weights: Weights, ids: IntArray, counts: IntArray) -> Following:
    """Leaders of texts given as `Encoded.padded` gives them. Padding neither leads nor follows."""
    texts, n = ids.shape
    clouds = texts * weights.heads
    emerged, follows, decided = np.full((clouds, n), -1), np.full((clouds, n), -1), np.full(clouds, -1)
    sure = np.ones(clouds, bool)
    # One more layer than the model has, to see whom the outputs would follow.
    for k, layer in enumerate(_layers(weights, ids, counts, weights.layers + 1, sure)):
        some = layer.clouds
        first, alone = layer.sets.targets.reshape(-1, n), (layer.sets.sizes == 1).reshape(-1, n)
        follows[some] = first
        leads = alone & (first == np.arange(n))
        emerged[some] = np.where(leads & (emerged[some] < 0), k, emerged[some])
        decided[some[layer.decided]] = k
    for cloud in np.flatnonzero(~sure).tolist():
        text, h = divmod(cloud, weights.heads)
        run = simulated(weights, ids[text], counts[text], h)
        emerged[cloud], follows[cloud], decided[cloud] = _followed(run, counts[text])
    shape, real = (texts, weights.heads, n), (counts > 0)[:, None, :]
    return Following(
        np.where(real, emerged.reshape(shape), -1),
        np.where(real, follows.reshape(shape), -1),
        decided.reshape(shape[:2]),
    )


def _followed(run: HardmaxTrajectory, counts: IntArray) -> tuple[IntArray, IntArray, int]:
    """(n,) emerged and (n,) follows, and decided, as in `Following`."""
    emerged, follows, decided = np.full(len(counts), -1), np.full(len(counts), -1), -1
    owners, rows = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
    real = np.flatnonzero(counts > 0).tolist()
    for k in range(run.layers + 1):
        tokens = run.sets(k)
        sets = {i: set(owners[tokens[rows[i]]].tolist()) for i in real}  # the words that each word follows
        leaders = {i for i in real if sets[i] == {i}}
        emerged[[i for i in leaders if emerged[i] < 0]] = k
        if decided < 0 and all(len(words) == 1 and words <= leaders for words in sets.values()):
            decided = k
    follows[real] = [min(sets[i]) for i in real]
    return emerged, follows, decided


def _layers(weights: Weights, ids: IntArray, counts: IntArray, layers: int, sure: BoolArray) -> Iterator[Layer]:
    """The layers of (texts * heads, n, d) clouds, one for every head of every text."""
    texts, n = ids.shape
    z = weights.tokens(ids).transpose(0, 2, 1, 3).reshape(texts * weights.heads, n, weights.d)
    step = np.tile(weights.alpha / (1 + weights.alpha), texts)
    A = None if weights.A is None else np.tile(weights.A, (texts, 1, 1))
    return layers_of(z, step, layers, A=A, counts=np.repeat(counts, weights.heads, axis=0), sure=sure)


def batches(sizes: IntArray, heads: int) -> Iterator[IntArray]:
    """Texts of like length together, as many as fit; texts without tokens are left out."""
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0][::-1]
    while len(order):
        count = max(1, CELLS // (int(sizes[order[0]]) * heads))
        yield order[:count]
        order = order[count:]
