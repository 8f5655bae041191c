"""What every token of a text adds to its logit, in NumPy and float64: inference and explanation in one.

z^K = M z^0, so logit = beta + sum_j share_j v . z_j^0 with share_j = (1/n) sum_i M_ij: the share of the crowd that
token j holds in the end times its own score.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.attention.numpy_layers import layers_of, shares
from hardmax.kernels.search import has_numba
from hardmax.sentiment.vocabulary import Encoded

CELLS = 1 << 19  # numbers of tokens times heads at a time: fast memory holds them


@dataclass(frozen=True, eq=False)
class Weights:
    """The numbers of a trained classifier.

    Parameters
    ----------
    embedding : (tokens, heads, d) array of float32
    alpha : (heads,) array
        Positive.
    A : (heads, d, d) array or None
        Symmetric positive definite; None is the identity.
    decoder : (outputs, heads, d) array
    bias : (outputs,) array
    layers : int
    """

    embedding: AnyArray
    alpha: FloatArray
    A: FloatArray | None
    decoder: FloatArray
    bias: FloatArray
    layers: int

    @property
    def heads(self) -> int:
        """How many independent hardmax models there are."""
        return self.embedding.shape[1]

    @property
    def d(self) -> int:
        """Coordinates of each head."""
        return self.embedding.shape[2]

    @property
    def outputs(self) -> int:
        """1 for two classes, else the number of classes."""
        return len(self.bias)

    def tokens(self, ids: IntArray) -> FloatArray:
        """(..., heads, d) embedded tokens in float64."""
        return self.embedding[ids].astype(np.float64)


def contributions(weights: Weights, encoded: Encoded) -> FloatArray:
    """(tokens of all texts, outputs) what each adds to the logits of its text."""
    if weights.d > 2 or weights.A is not None or not has_numba():
        return _by_arrays(weights, encoded)
    from hardmax.attention.contributions import contributions_of_texts

    step = weights.alpha / (1 + weights.alpha)
    result, clear = contributions_of_texts(encoded, weights.embedding, step, weights.decoder, weights.layers)
    for text in np.flatnonzero(~clear):  # some tokens tie, or nearly
        places = slice(*encoded.starts[text : text + 2])
        result[places] = _contributions(weights, encoded.ids[None, places], encoded.counts[None, places])[0]
    return result


def _by_arrays(weights: Weights, encoded: Encoded) -> FloatArray:
    """As `contributions`, for all weights."""
    result = np.empty((len(encoded.ids), weights.outputs))
    for texts in batches(encoded.sizes, weights.heads):
        some = encoded.take(texts)
        ids, counts = some.padded()
        result[encoded.places(texts)] = _contributions(weights, ids, counts)[counts > 0]
    return result


def logits(weights: Weights, encoded: Encoded) -> FloatArray:
    """(texts, outputs) bias and contributions of every text, summed."""
    return weights.bias + sums_by_text(contributions(weights, encoded), encoded)


def sums_by_text(parts: FloatArray, encoded: Encoded) -> FloatArray:
    """(texts, outputs) sums of the rows of each text, in their order."""
    owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
    return np.stack([np.bincount(owners, column, len(encoded)) for column in parts.T], axis=1)


def head_shares(weights: Weights, ids: IntArray, counts: IntArray) -> FloatArray:
    """(texts, heads, n) the share of the crowd that each token holds after the last layer; they sum to 1."""
    sure = np.ones(len(ids) * weights.heads, bool)
    forms = _forms(weights, counts)
    found = shares(layers_of(*_clouds(weights, ids), weights.layers, **forms, sure=sure), forms["counts"])
    found = found.reshape(len(ids), weights.heads, -1)
    for text, h in zip(*np.divmod(np.flatnonzero(~sure), weights.heads), strict=True):
        found[text, h] = _simulated(weights, ids[text], counts[text], h).share()
    return found


@dataclass(frozen=True, eq=False)
class _Simulated:
    """One head of one text by the simulation, which knows its sets without rounding."""

    run: Any
    alpha: float
    counts: IntArray  # (n,) how often each word is there
    classes: IntArray  # (n,) the class of equal tokens to which a word belongs; -1 for padding

    def share(self) -> FloatArray:
        """(n,) as `head_shares`: equal tokens hold alike, so classes do."""
        cloud = self.run.clouds[0]
        many = cloud.classes.counts
        share = many / many.sum()  # (classes,)
        for k in reversed(range(self.run.layers)):
            share = (share + self.alpha * (share @ cloud.sets[k].matrix(many))) / (1 + self.alpha)
        return np.where(self.counts > 0, (share / many)[self.classes] * self.counts, 0.0)

    def sets(self, k: int) -> list[set[int]]:
        """The words that each word follows at a layer; none for padding."""
        words: dict[int, set[int]] = {}
        for word, own in enumerate(self.classes.tolist()):
            words.setdefault(own, set()).add(word)
        chosen = self.run.clouds[0].sets[k]
        follows = {own: set().union(*(words[c] for c in chosen[own].tolist())) for own in words if own >= 0}
        return [follows.get(own, set()) for own in self.classes.tolist()]


def _simulated(weights: Weights, ids: IntArray, counts: IntArray, h: int) -> _Simulated:
    from hardmax import Hardmax, simulate

    owners, alpha = np.repeat(np.arange(len(ids)), counts), float(weights.alpha[h])
    tokens = np.ascontiguousarray(weights.tokens(ids)[owners, h])
    run = simulate(tokens, Hardmax(alpha, None if weights.A is None else weights.A[h]), layers=weights.layers)
    classes = np.full(len(ids), -1)
    classes[owners] = run.clouds[0].classes.labels
    return _Simulated(run, alpha, counts, classes)


class Following(NamedTuple):
    """Who follows whom in texts, head by head."""

    emerged: IntArray  # (texts, heads, n) layer at which a token first followed itself alone; -1 for never
    follows: IntArray  # (texts, heads, n) whom each token follows after the last layer, the first of several
    decided: IntArray  # (texts, heads) layer at which every token had a single leader; -1 for not yet


def following(weights: Weights, ids: IntArray, counts: IntArray) -> Following:
    """Leaders of texts given as `Encoded.padded` gives them. Padding neither leads nor follows."""
    texts, n = ids.shape
    clouds = texts * weights.heads
    found = Following(np.full((clouds, n), -1), np.full((clouds, n), -1), np.full(clouds, -1))
    emerged, follows, decided = found
    sure = np.ones(clouds, bool)
    # One more layer than the model has, to see whom the outputs would follow.
    layers = layers_of(*_clouds(weights, ids), weights.layers + 1, **_forms(weights, counts), sure=sure)
    for k, layer in enumerate(layers):
        some = layer.clouds
        first, alone = layer.sets.targets.reshape(-1, n), (layer.sets.sizes == 1).reshape(-1, n)
        follows[some] = first
        leads = alone & (first == np.arange(n))
        emerged[some] = np.where(leads & (emerged[some] < 0), k, emerged[some])
        decided[some[layer.decided]] = k
    for cloud in np.flatnonzero(~sure).tolist():
        text, h = divmod(cloud, weights.heads)
        emerged[cloud], follows[cloud], decided[cloud] = _followed(_simulated(weights, ids[text], counts[text], h))
    shape = (texts, weights.heads, n)
    real = (counts > 0)[:, None, :]
    return Following(
        np.where(real, emerged.reshape(shape), -1),
        np.where(real, follows.reshape(shape), -1),
        decided.reshape(shape[:2]),
    )


def _followed(simulated: _Simulated) -> tuple[IntArray, IntArray, int]:
    """(n,) emerged and (n,) follows, and decided, as in `Following`."""
    emerged, decided = np.full(len(simulated.counts), -1), -1
    real = np.flatnonzero(simulated.counts > 0).tolist()
    for k in range(simulated.run.layers + 1):
        sets = simulated.sets(k)
        leaders = [i for i in real if sets[i] == {i}]
        emerged[leaders] = np.where(emerged[leaders] < 0, k, emerged[leaders])
        if decided < 0 and all(len(sets[i]) == 1 and sets[i] <= set(leaders) for i in real):
            decided = k
    return emerged, np.array([min(chosen, default=-1) for chosen in sets]), decided


def _contributions(weights: Weights, ids: IntArray, counts: IntArray) -> FloatArray:
    """(texts, n, outputs)."""
    share, tokens = head_shares(weights, ids, counts), weights.tokens(ids)
    total = np.zeros((*ids.shape, weights.outputs))
    for h in range(weights.heads):  # in this order whatever the batch
        scores = sum(tokens[:, :, h, r, None] * weights.decoder[:, h, r] for r in range(weights.d))
        total += share[:, h, :, None] * scores
    return total


def _clouds(weights: Weights, ids: IntArray) -> tuple[FloatArray, FloatArray]:
    """(texts * heads, n, d) a cloud for every head of every text, and the step of each."""
    texts, n = ids.shape
    z = weights.tokens(ids).transpose(0, 2, 1, 3).reshape(texts * weights.heads, n, weights.d)
    return z, np.tile(weights.alpha / (1 + weights.alpha), texts)


def _forms(weights: Weights, counts: IntArray) -> dict[str, Any]:
    """A and counts of every cloud."""
    A = None if weights.A is None else np.tile(weights.A, (len(counts), 1, 1))
    return {"A": A, "counts": np.repeat(counts, weights.heads, axis=0)}


def batches(sizes: IntArray, heads: int) -> Iterator[IntArray]:
    """Texts of like length together, as many as fit; texts without tokens are left out."""
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0][::-1]
    while len(order):
        count = max(1, CELLS // (int(sizes[order[0]]) * heads))
        yield order[:count]
        order = order[count:]
