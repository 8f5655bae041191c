"""A trained classifier as plain data, and what every token of a text adds to its logit,
in NumPy and float64.

z^K = M z^0, so logit = beta + sum_j share_j v . z_j^0 with share_j = (1/n) sum_i M_ij:
the share of the mean that token j holds after the last layer times its own score. With
a pooling exponent p all terms of a text of n tokens are multiplied by n^p.

Texts go through their layers in compiled code where that decides every argmax set. The
others go through `HeadDynamics`, and a head in which rounding may have decided a set is
simulated exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from hardmax._errors import ParameterError
from hardmax._simulate import simulate
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from hardmax.attention.layers_numpy import Layer, join_steps, layers_of, shares
from hardmax.rules.hardmax import Hardmax
from hardmax.search.dispatch import products_of_batch, use_compiled
from hardmax.text.columns import Columns
from hardmax.text.context import Context, Reading
from hardmax.text.vocabulary import Encoded, Vocabulary
from hardmax.trajectories.hardmax import HardmaxTrajectory

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # probabilities of `coverage`
NOT_SURE = "not sure"
MAX_CHARACTERS = 1 << 21  # of a batch of texts: some tens of megabytes of tokens
MAX_ENCODED = 1 << 17  # the same with an encoder: about a hundred megabytes of vectors
OTHER_WORDS = "(other words)"
Report = Callable[
    [int, int, Any, Any], object
]  # steps done, all steps, loss, and after an epoch its `Epoch`
MAX_CELLS = 1 << 19  # tokens times heads of a batch: they fit into the cache


@dataclass(frozen=True, eq=False)
class Weights:
    """Numbers of a trained classifier: embedding, heads, layers and decoder."""

    embedding: AnyArray  # (tokens, heads, d) float32
    alpha: FloatArray  # (heads,) positive
    A: (
        FloatArray | None
    )  # (heads, d, d) symmetric positive definite; None is the identity
    decoder: FloatArray  # (outputs, heads, d)
    bias: FloatArray  # (outputs,)
    layers: int
    pooling_exponent: float = (
        0.0  # p: terms of n tokens are multiplied by n^p; 0 for the mean, 1 for the sum
    )
    decision_offset: FloatArray | None = (
        None  # (outputs,) part of the bias that counts in the decision only
    )

    @property
    def step(self) -> FloatArray:
        """Return the (heads,) step sizes b = alpha / (1 + alpha)."""
        return np.asarray(self.alpha / (1 + self.alpha))

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

    def pooling_factor(self, n: IntArray) -> FloatArray:
        """Return n^pooling_exponent for texts of n tokens, the factor of their mean."""
        return np.asarray(np.maximum(n, 1.0) ** self.pooling_exponent)


class LeaderRecord(NamedTuple):
    """Leaders of texts in each head. Padding neither leads nor follows."""

    # (texts, heads, n) layer at which a token first followed only itself; -1 for never
    emerged: IntArray
    # (texts, heads, n) token that each follows after the last layer, the first of a tie
    follows: IntArray
    # (texts, heads) layer at which every token had a single leader; -1 for not yet
    decided: IntArray


@dataclass(frozen=True, eq=False)
class HeadDynamics:
    """The layers of all heads of a batch of texts, padded as by `Encoded.padded`."""

    weights: Weights
    ids: IntArray  # (texts, n)
    counts: IntArray  # (texts, n) 0 is padding
    layers: list[Layer]  # of (texts * heads) token sets
    simulated: dict[
        int, HardmaxTrajectory
    ]  # by token set, where rounding may have decided an argmax set

    @classmethod
    def run(
        cls, weights: Weights, ids: IntArray, counts: IntArray, *, beyond: bool = True
    ) -> "HeadDynamics":
        """Apply the layers to texts, and with `beyond` find the argmax sets of the
        outputs, too.
        """
        (texts, n), heads = ids.shape, weights.heads
        z = (
            weights.tokens(ids)
            .transpose(0, 2, 1, 3)
            .reshape(texts * heads, n, weights.d)
        )
        step, sure = np.tile(weights.step, texts), np.ones(texts * heads, bool)
        A = None if weights.A is None else np.tile(weights.A, (texts, 1, 1))
        head_counts = np.repeat(counts, heads, axis=0)
        layers = list(
            layers_of(
                z, step, weights.layers + beyond, A=A, counts=head_counts, sure=sure
            )
        )
        unsure = ((i, *divmod(i, heads)) for i in np.flatnonzero(~sure).tolist())
        simulated = {
            i: simulate_head(weights, ids[t], counts[t], h) for i, t, h in unsure
        }
        return cls(weights, ids, counts, layers, simulated)

    def shares(self) -> FloatArray:
        """Return (texts, heads, n) shares of the mean that each token holds after the
        last layer; they sum to 1.

        They are the mean row of M, where z^K = M z^0, computed from the last layer to
        the first.
        """
        steps = np.tile(self.weights.step, len(self.ids))
        until_last = []
        for k, layer in enumerate(self.layers[: self.weights.layers]):
            ahead = np.where(
                layer.decided, self.weights.layers - k, 1
            )  # without the layer beyond
            until_last.append(
                layer._replace(step=join_steps(steps[layer.elements], ahead))
            )
        found = shares(until_last, np.repeat(self.counts, self.weights.heads, axis=0))
        found = found.reshape(len(self.ids), self.weights.heads, -1)
        for i, run in self.simulated.items():
            text, h = divmod(i, self.weights.heads)
            found[text, h] = _simulated_shares(
                run, float(self.weights.step[h]), self.counts[text]
            )
        return found

    def find_leaders(self) -> LeaderRecord:
        """Return the leaders, and the token that each token follows after the last
        layer; needs the layer `beyond`.
        """
        (texts, n), heads = self.ids.shape, self.weights.heads
        emerged, follows = np.full((2, texts * heads, n), -1)
        decided = np.full(texts * heads, -1)
        for k, layer in enumerate(self.layers):
            some = layer.elements
            first, alone = (
                layer.sets.targets.reshape(-1, n),
                (layer.sets.sizes == 1).reshape(-1, n),
            )
            follows[some] = first
            leads = alone & (first == np.arange(n))
            emerged[some] = np.where(leads & (emerged[some] < 0), k, emerged[some])
            decided[some[layer.decided]] = k
        for i, run in self.simulated.items():
            emerged[i], follows[i], decided[i] = _simulated_leaders(
                run, self.counts[i // heads]
            )
        shape, real = (texts, heads, n), (self.counts > 0)[:, None, :]
        return LeaderRecord(
            np.where(real, emerged.reshape(shape), -1),
            np.where(real, follows.reshape(shape), -1),
            decided.reshape(shape[:2]),
        )


def simulate_head(
    weights: Weights, ids: IntArray, counts: IntArray, h: int
) -> HardmaxTrajectory:
    """Simulate one head of one text exactly, each token as often as it counts."""
    tokens = weights.embedding[np.repeat(ids, counts), h].astype(np.float64)
    rule = Hardmax(float(weights.alpha[h]), None if weights.A is None else weights.A[h])
    return simulate(tokens, rule, layers=weights.layers)


def _simulated_shares(
    run: HardmaxTrajectory, step: float, counts: IntArray
) -> FloatArray:
    """Return (n,) shares of the tokens of a text from a simulation that has each as
    often as it counts.
    """
    share = np.full(run.n, 1 / run.n)
    for k in reversed(range(run.layers)):
        share = share + step * (share @ run.attention(k, sparse=True) - share)
    return np.asarray(
        np.bincount(np.repeat(np.arange(len(counts)), counts), share, len(counts)),
        np.float64,
    )


def _simulated_leaders(
    run: HardmaxTrajectory, counts: IntArray
) -> tuple[IntArray, IntArray, int]:
    """Return (n,) emerged, (n,) follows and decided, as in `LeaderRecord`."""
    emerged, follows, decided = np.full(len(counts), -1), np.full(len(counts), -1), -1
    owners, rows = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
    real = np.flatnonzero(counts > 0).tolist()
    for k in range(run.layers + 1):
        tokens = run.sets(k)
        sets = {
            i: set(owners[tokens[rows[i]]].tolist()) for i in real
        }  # the words that each word follows
        leaders = {i for i in real if sets[i] == {i}}
        emerged[[i for i in leaders if emerged[i] < 0]] = k
        if decided < 0 and all(
            len(words) == 1 and words <= leaders for words in sets.values()
        ):
            decided = k
    follows[real] = [min(sets[i]) for i in real]
    return emerged, follows, decided


@dataclass(frozen=True)
class Epoch:
    """Loss of an epoch; validation loss and accuracy if texts were held out."""

    number: int
    train_loss: float
    loss: float | None = None  # of validation
    accuracy: float | None = None
    kept: bool = False  # whether the model has the weights of this epoch

    @property
    def quality(self) -> tuple[float, float]:
        """Return the key by which epochs are compared: accuracy, then loss."""
        if self.accuracy is None or self.loss is None:
            return float(self.number), 0.0  # the last one
        return self.accuracy, -self.loss


@dataclass(frozen=True, eq=False)
class Model:
    """Vocabulary, weights and labels: texts to logits and probabilities, in NumPy."""

    vocabulary: Vocabulary
    weights: Weights
    # labels in order; with two there is one logit, positive for the second
    classes: AnyArray
    context: Context | None = None  # the part that reads vectors of an encoder
    columns: Columns = field(
        default_factory=Columns
    )  # the part that reads columns of a table
    multilabel: str = (
        ""  # with several labels per text, "matrix" or "sets": the form of predictions
    )

    @property
    def words(self) -> int:
        """Return the number of token indices of words; with an encoder the last one
        stands for all other words.
        """
        return len(self.vocabulary) + (self.context is not None)

    @property
    def tokens(self) -> int:
        """Return the number of token indices; the last ones are those of the columns of
        a table.
        """
        return self.words + len(self.columns)

    @property
    def reads_ngrams_alone(self) -> bool:
        """Return whether the logit has neither vectors of an encoder nor columns of a
        table.
        """
        return self.tokens == len(self.vocabulary)

    @property
    def gathers_vectors(self) -> bool:
        """Return whether heads read the vectors of an encoder; else the heads of the
        n-grams are those to show.
        """
        return self.context is not None and self.context.heads > 0

    @property
    def has_heads(self) -> bool:
        """Return whether a head contributes to the logit; beside vectors, heads are
        kept only where they help.
        """
        return self.gathers_vectors or bool(self.weights.decoder.any())

    @property
    def heads(self) -> int:
        """Return the number of heads whose leaders an explanation shows."""
        return (
            self.context.heads
            if self.context is not None and self.gathers_vectors
            else self.weights.heads
        )

    def names(self, ids: IntArray) -> list[str]:
        """Return the words of tokens, separated by spaces."""
        known = iter(self.vocabulary.names(ids[ids < len(self.vocabulary)]))
        others = [OTHER_WORDS] * (self.words - len(self.vocabulary)) + [
            f"({each.name})" for each in self.columns.every
        ]
        return [
            next(known)
            if i < len(self.vocabulary)
            else others[i - len(self.vocabulary)]
            for i in ids.tolist()
        ]

    @cached_property
    def by_label(self) -> "tuple[Model, ...]":
        """Return for each of several labels per text the model of that label, with two
        classes.
        """
        w, found = self.weights, []
        for k, name in enumerate(self.classes.tolist()):
            own, heads = slice(k, k + 1), np.flatnonzero(w.decoder[k].any(axis=1))
            heads = heads if len(heads) else np.arange(1)
            offset = None if w.decision_offset is None else w.decision_offset[own]
            embedding, alpha, decoder = (
                w.embedding[:, heads],
                w.alpha[heads],
                w.decoder[own, heads],
            )
            weights = Weights(
                embedding,
                alpha,
                None,
                decoder,
                w.bias[own],
                w.layers,
                w.pooling_exponent,
                offset,
            )
            context = None if self.context is None else self.context.of_output(k)
            columns = replace(self.columns, linear=self.columns.linear[own])
            found.append(
                Model(
                    self.vocabulary,
                    weights,
                    np.array([f"not {name}", str(name)]),
                    context,
                    columns,
                )
            )
        return tuple(found)

    @property
    def threshold(self) -> float | FloatArray:
        """Return the probability of the second class from which it is predicted, or one
        divisor for each class.

        With more than two classes the prediction has the largest ratio of probability
        and divisor. With several labels per text there is one probability for each.
        """
        offset = self.weights.decision_offset
        offset = np.zeros(self.weights.outputs) if offset is None else offset
        if self.multilabel:
            return np.asarray(expit(-offset))
        return (
            float(expit(-offset[0]))
            if len(offset) == 1
            else np.asarray(len(offset) * softmax(-offset))
        )

    @property
    def start(self) -> str:
        """Return the initialisation, "linear" or "random": only a linear one has a
        pooling exponent above 0.
        """
        return "linear" if self.weights.pooling_exponent else "random"

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Return (texts, outputs) logits: the bias plus the contributions of the
        tokens.
        """
        return self.score(texts)[0]

    def score(
        self, texts: Sequence[str], progress: Progress | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return (texts, outputs) logits, and (texts,) counts of known tokens; without
        any, the logit is the bias.
        """
        parts = [(np.empty((0, self.weights.outputs)), np.empty(0, np.int64))]
        parts += [
            (part.logits, part.encoded.sizes - len(self.columns))
            for part in self.explain_parts(texts, progress)
        ]
        scores, sizes = map(np.concatenate, zip(*parts, strict=True))
        return scores, sizes

    def explain_parts(
        self, texts: Sequence[str], progress: Progress | None = None
    ) -> Iterator["Batch"]:
        """Yield the tokens of batches of texts, their contributions, and the logits."""
        done = 0

        def report(number: int, _: int) -> None:
            if progress is not None:
                progress(done + number, len(texts))

        for some in in_parts(
            texts, MAX_CHARACTERS if self.context is None else MAX_ENCODED
        ):
            words = [self.vocabulary.splitter.words(text) for text in some]
            encoded = self.vocabulary.encode_words(words, len(some))
            terms, readings = contributions(self.weights, encoded), None
            if self.context is not None:
                found = dict(self.context.read(some, self.vocabulary.splitter, report))
                readings = [found[i] for i in range(len(some))]
                encoded, terms = self._add_words(encoded, terms, words, readings)
            if len(self.columns):
                encoded, terms = self._add_columns(encoded, terms, some)
            done += len(some)
            report(0, 0)
            yield Batch(
                some,
                encoded,
                terms,
                self.weights.bias + sums_by_text(terms, encoded),
                readings,
            )

    def _add_columns(
        self, encoded: Encoded, terms: FloatArray, texts: Sequence[str]
    ) -> tuple[Encoded, FloatArray]:
        """Add the columns of a table as the last tokens of each text."""
        number = len(self.columns)
        at, parts = np.repeat(encoded.starts[1:], number), self.columns.terms(texts)
        ids = np.insert(
            encoded.ids, at, np.tile(self.words + np.arange(number), len(texts))
        )
        starts = encoded.starts + number * np.arange(len(encoded.starts))
        terms = np.insert(terms, at, parts.reshape(-1, parts.shape[2]), axis=0)
        return Encoded(ids, starts, np.insert(encoded.counts, at, 1)), terms

    def word_ids(self, words: Sequence[str]) -> IntArray:
        """Return the index of each word as a token, that of all other words if it is
        none.
        """
        known = self.vocabulary.single_words
        return np.array(
            [known.get(word, len(self.vocabulary)) for word in words], np.intp
        )

    def _add_words(
        self,
        encoded: Encoded,
        terms: FloatArray,
        words: Sequence[Sequence[str]],
        readings: Sequence[Reading],
    ) -> tuple[Encoded, FloatArray]:
        """Add the contributions of vectors to those of the same words as tokens, or as
        further tokens of the text.
        """
        ids, counts, values, sizes = [], [], [], [0]
        for t, (own, reading) in enumerate(zip(words, readings, strict=True)):
            here = slice(encoded.starts[t], encoded.starts[t + 1])
            read = self.word_ids([own[i] for i in reading.rows.tolist()]).tolist()
            every = dict.fromkeys([*encoded.ids[here].tolist(), *read])
            place = dict(zip(every, range(len(every)), strict=True))
            new = len(every) - (here.stop - here.start)
            total = np.concatenate([terms[here], np.zeros((new, terms.shape[1]))])
            np.add.at(total, [place[i] for i in read], reading.terms)
            ids.append(np.array(list(every), np.intp))
            counts.append(np.append(encoded.counts[here], np.ones(new, np.int64)))
            values.append(total)
            sizes.append(len(every))
        starts = np.cumsum(sizes)
        return Encoded(
            np.concatenate(ids), starts, np.concatenate(counts)
        ), np.concatenate(values)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return (texts, classes) probabilities from (texts, outputs) logits, without
        the decision offset.

        Rows sum to 1, except with several labels per text.
        """
        scores = self.remove_offset(scores)
        if self.multilabel:
            return np.asarray(expit(scores))
        return np.asarray(
            expit(scores * [-1, 1]) if scores.shape[1] == 1 else softmax(scores, axis=1)
        )

    def remove_offset(self, scores: FloatArray) -> FloatArray:
        """Return calibrated (texts, outputs) logits: those that decide, less the offset
        of rare classes.
        """
        return (
            scores
            if self.weights.decision_offset is None
            else scores - self.weights.decision_offset
        )

    def certainty(self, scores: FloatArray) -> FloatArray:
        """Return (texts,) probabilities of the predicted classes from (texts, outputs)
        logits.
        """
        return np.asarray(
            self.probabilities(scores)[
                np.arange(len(scores)), predicted_classes(scores)
            ]
        )

    def decide(self, scores: FloatArray) -> AnyArray:
        """Return (texts,) labels from (texts, outputs) logits; a single logit of 0
        means the first class.

        With several labels per text return a (texts, labels) indicator matrix, or
        (texts,) tuples of labels.
        """
        if not self.multilabel:
            return self.classes[predicted_classes(scores)]
        if self.multilabel == "matrix":
            return (scores > 0).astype(np.intp)
        found = np.empty(len(scores), object)
        found[:] = label_tuples(scores > 0, self.classes)
        return found


def label_tuples(matrix: AnyArray, classes: AnyArray) -> list[tuple[Any, ...]]:
    """Return the labels of each row of a matrix of 0 and 1."""
    return [tuple(classes[row != 0].tolist()) for row in matrix]


def predicted_classes(scores: FloatArray) -> IntArray:
    """Return the (texts,) indices of the classes with the largest of (texts, outputs)
    logits.
    """
    return (
        (scores[:, 0] > 0).astype(np.intp)
        if scores.shape[1] == 1
        else scores.argmax(axis=1)
    )


class Batch(NamedTuple):
    """Some texts, their tokens with contributions, and with an encoder the readings of
    their words.
    """

    texts: Sequence[str]
    encoded: Encoded
    terms: FloatArray  # (tokens of all texts, outputs)
    logits: FloatArray  # (texts, outputs)
    readings: list[Reading] | None


def in_parts(
    texts: Sequence[str], most: int = MAX_CHARACTERS
) -> Iterator[Sequence[str]]:
    """Yield batches of texts with at most `most` characters, so that memory does not
    grow with their number.
    """
    start = size = 0
    for end, text in enumerate(texts):
        if size + len(text) > most and end > start:
            yield texts[start:end]
            start, size = end, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def contributions(weights: Weights, encoded: Encoded) -> FloatArray:
    """Return (tokens of all texts, outputs) terms that the tokens add to the logits of
    their texts.
    """
    result, left = (
        np.empty((len(encoded.ids), weights.outputs)),
        np.arange(len(encoded)),
    )
    long = float(
        np.sqrt(np.square(encoded.sizes).sum() / max(1, len(encoded)))
    )  # tokens of a text
    work = max(1, weights.layers) * products_of_batch(
        len(encoded) * weights.heads, long, long
    )
    if weights.d <= 2 and weights.A is None and use_compiled("contributions", work):
        from hardmax.attention.layers_compiled import contributions_of_texts

        result, is_decided = contributions_of_texts(
            encoded, weights.embedding, weights.step, weights.decoder, weights.layers
        )
        left = np.flatnonzero(~is_decided)  # products tie, or nearly
    for some in batches(encoded.sizes[left], weights.heads):
        ids, counts = encoded.take(left[some]).padded()
        share, tokens = (
            HeadDynamics.run(weights, ids, counts, beyond=False).shares(),
            weights.tokens(ids),
        )
        total = np.zeros((*ids.shape, weights.outputs))  # (texts, n, outputs)
        for h in range(
            weights.heads
        ):  # a fixed order, so that sums do not depend on the batch
            for r in range(weights.d):
                total += share[:, h, :, None] * (
                    tokens[:, :, h, r, None] * weights.decoder[:, h, r]
                )
        result[encoded.places(left[some])] = total[counts > 0]
    if weights.pooling_exponent == 0:
        return result
    owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
    return (
        result
        * weights.pooling_factor(np.bincount(owners, encoded.counts, len(encoded)))[
            owners, None
        ]
    )


def logits(weights: Weights, encoded: Encoded) -> FloatArray:
    """Return (texts, outputs) sums of the bias and the contributions of every text."""
    return weights.bias + sums_by_text(contributions(weights, encoded), encoded)


def sums_by_text(parts: FloatArray, encoded: Encoded) -> FloatArray:
    """Return (texts, outputs) sums of the rows of each text, in their order."""
    owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
    return np.stack(
        [np.bincount(owners, column, len(encoded)) for column in parts.T], axis=1
    )


def batches(sizes: IntArray, heads: int) -> Iterator[IntArray]:
    """Yield indices of texts of similar length, as many as fit into a batch; texts
    without tokens are left out.
    """
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0][::-1]
    while len(order):
        count = max(1, MAX_CELLS // (int(sizes[order[0]]) * heads))
        yield order[:count]
        order = order[count:]


def answer_columns(
    model: Model, scores: FloatArray, known: IntArray, at_least: float
) -> dict[str, Any]:
    """Return columns with an answer for each text, from (texts, outputs) logits and
    (texts,) numbers of known tokens.

    With `at_least` above 0 all predictions are texts, also of labels that are numbers:
    a column has one type. With several labels per text a prediction is the text of all
    of them, and there is no column of its probability.
    """
    probabilities = model.probabilities(scores)
    by_class = {
        f"probability_{label}": probabilities[:, i]
        for i, label in enumerate(model.classes.tolist())
    }
    if model.multilabel:
        if at_least > 0:
            raise ParameterError(
                "at_least",
                "be 0 for a model of several labels per text",
                repr(at_least),
            )
        joined = [
            ", ".join(map(str, labels))
            for labels in label_tuples(scores > 0, model.classes)
        ]
        return {"prediction": joined, **by_class, "no_known_word": known == 0}
    best = model.certainty(scores)
    labels = model.decide(scores).tolist()
    if at_least > 0:
        confident = is_confident(best, at_least).tolist()
        labels = [
            str(label) if kept else NOT_SURE
            for label, kept in zip(labels, confident, strict=True)
        ]
    return {
        "prediction": labels,
        "probability": best,
        **by_class,
        "no_known_word": known == 0,
    }


def is_confident(certainty: FloatArray, at_least: float) -> BoolArray:
    """Return (texts,) booleans: whether the probability of the prediction is at least
    `at_least`.
    """
    if (
        not isinstance(at_least, int | float)
        or isinstance(at_least, bool)
        or not 0 <= at_least <= 1
    ):
        raise ParameterError(
            "at_least", "be a probability between 0 and 1", repr(at_least)
        )
    return np.asarray(certainty >= at_least)


def coverage(certainty: FloatArray, right: BoolArray) -> list[dict[str, float | None]]:
    """Return for each of `LEVELS` the fraction of texts with at least that probability,
    and their accuracy, if any.
    """
    rows: list[dict[str, float | None]] = []
    for level in LEVELS:
        kept = is_confident(certainty, level)
        accuracy = float(right[kept].mean()) if kept.any() else None
        rows.append(
            {"at_least": level, "coverage": float(kept.mean()), "accuracy": accuracy}
        )
    return rows
