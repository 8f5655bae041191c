"""The part of a model that reads vectors of an encoder: a linear function of their
mean, and hardmax heads on a line.

With x_j the standardised vectors of the n words of a text,

    logit = bias + sum_j (1 / n) w . x_j + sum_h sum_j share_hj v_h p_h . x_j .

In a head with d = 1 tokens z_j = p_h . x_j + OFFSET follow the largest one if they are
positive, and the smallest one if they are negative: the products z_i z_j are largest
there, in every layer. So a leader has the shares of its followers, and no layer has to
be simulated. The shares of a head sum to 1, hence the offset adds a constant, which is
left out: the contribution of a word is 0 if its vector is the mean of all words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from hardmax._errors import ParameterError, needed_for
from hardmax._simulate import simulate
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from hardmax.rules.hardmax import Hardmax
from hardmax.text.encoder import Encoder, Words, find_device
from hardmax.text.parameters import Parameters
from hardmax.text.tokenizer import Splitter
from hardmax.trajectories.hardmax import HardmaxTrajectory

OFFSET = 8.0  # of positions, in standard deviations of all words
SAMPLE, REDUCED = (
    500,
    128,
)  # texts that give means, deviations and principal axes; coordinates that heads are fitted in
MIN_DEVIATION = 0.05  # of the median: coordinates of an encoder may be constant
STRENGTHS = (
    0.1,
    0.3,
    1.0,
    3.0,
    10.0,
)  # C of logistic regression, for features of norm 1
RATE, DECAY, BATCH, DROPOUT = 2e-3, 0.05, 64, 0.2  # of the training of directions
MIN_EPOCHS, MIN_TEXTS = 4, 20_000  # epochs, and texts seen in all of them
ALPHA_FACTOR = (
    15.0  # of `alpha`: heads of vectors are best if tokens nearly reach their leader
)
HEADS_SHARE = 0.5  # norm of the features of heads, where that of the means is 1


class Reading(NamedTuple):
    """The words of a text with vectors: contributions, and positions and shares in
    every head.
    """

    rows: IntArray  # (m,) among the words of the splitter
    terms: FloatArray  # (m, outputs)
    positions: FloatArray  # (m, heads) at layer 0
    shares: FloatArray  # (m, heads) of the mean after the last layer

    def of(self, output: int, heads: IntArray) -> "Reading":
        """Return the part of one output, which has some of the heads."""
        terms = self.terms[:, output : output + 1]
        return Reading(
            self.rows, terms, self.positions[:, heads], self.shares[:, heads]
        )


@dataclass(frozen=True, eq=False)
class Context:
    """Weights for vectors of an encoder."""

    encoder: Encoder = field(repr=False)
    mean: FloatArray  # (d,) of the vectors of all words
    scale: FloatArray  # (d,) their standard deviation
    linear: FloatArray  # (outputs, d) of the mean of standardised vectors
    projection: FloatArray  # (d, heads)
    decoder: FloatArray  # (outputs, heads)
    alpha: float
    layers: int

    @property
    def heads(self) -> int:
        return self.projection.shape[1]

    def heads_of(self, output: int) -> IntArray:
        """Return the heads that an output reads."""
        return np.flatnonzero(self.decoder[output])

    def of_output(self, output: int) -> "Context":
        """Return the part of one output."""
        heads, own = self.heads_of(output), slice(output, output + 1)
        linear, decoder = self.linear[own], self.decoder[own, heads]
        return replace(
            self, linear=linear, projection=self.projection[:, heads], decoder=decoder
        )

    def read(
        self, texts: Sequence[str], splitter: Splitter, progress: Progress | None = None
    ) -> Iterator[tuple[int, Reading]]:
        """Yield index and reading of each text, in any order."""
        kept = retained(self.alpha, self.layers)
        for i, words in self.encoder.read(texts, splitter, progress):
            vectors = check_width(words.vectors, len(self.mean))
            x = (vectors.astype(np.float64) - self.mean) / self.scale  # (n, d)
            z = x @ self.projection  # (n, heads)
            positions = place(z)
            shares = shares_on_line(positions, kept)
            terms = x @ self.linear.T / max(1, len(x)) + (shares * z) @ self.decoder.T
            yield i, Reading(words.rows, terms, positions, shares)

    def simulate_head(self, reading: Reading, h: int) -> HardmaxTrajectory:
        """Simulate a head of one text exactly."""
        return simulate(
            reading.positions[:, h, None], Hardmax(self.alpha), layers=self.layers
        )


def place(z: FloatArray) -> FloatArray:
    """Return positions from projections; none is 0, as the argmax set of a zero token
    is the set of all tokens.
    """
    positions = z + OFFSET
    return np.where(positions == 0, np.finfo(np.float64).tiny, positions)


def retained(alpha: float, layers: int) -> float:
    """Return the part of its own position that a token keeps after all layers: (1 / (1
    + alpha))^K.
    """
    return float((1 / (1 + alpha)) ** layers)


def find_leaders(positions: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return which tokens lead in each head, and how many tokens follow each, itself
    included: (m, heads).

    Tokens at one position share their followers.
    """
    leads, followers = np.zeros(positions.shape, bool), np.zeros(positions.shape)
    for side in (1, -1):
        here = side * positions > 0
        largest = np.where(here, side * positions, 0).max(axis=0, initial=0)
        first = here & (side * positions == largest)
        leads |= first
        followers += first * (here.sum(axis=0) / np.maximum(1, first.sum(axis=0)))
    return leads, followers


def shares_on_line(positions: FloatArray, kept: float) -> FloatArray:
    """Return (m, heads) shares of the mean after the last layer, of tokens that keep a
    part of their position.
    """
    followers = find_leaders(positions)[1]
    return np.asarray((kept + (1 - kept) * followers) / max(1, len(positions)))


class Corpus(NamedTuple):
    """The vectors of the training texts: their means, and all words in fewer
    coordinates.
    """

    mean: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    axes: FloatArray  # (d, r) principal axes of standardised words
    means: FloatArray  # (texts, d) of standardised words
    words: AnyArray  # (m, r) float16, of all texts
    starts: IntArray  # (texts + 1,)

    used: slice = slice(None)  # coordinates that a linear function reads
    layers: int = 1  # hidden states of the encoder that make up a vector

    @classmethod
    def of_features(cls, features: FloatArray) -> "Corpus":
        """Return features of texts without words."""
        n, d = features.shape
        return cls(
            np.zeros(d),
            np.ones(d),
            np.zeros((d, 0)),
            features,
            np.zeros((0, 0)),
            np.zeros(n + 1, np.intp),
        )

    @property
    def has_words(self) -> bool:
        return self.axes.shape[1] > 0

    def layer_choices(self) -> "list[Corpus]":
        """Return the corpus with all hidden states of the encoder, and with the last
        one only.
        """
        last = self._replace(used=slice(len(self.mean) // self.layers))
        return [self, last] if self.layers > 1 else [self]

    def constant(self) -> "Dense":
        """Return a model of one output without any coefficients."""
        return Dense(
            np.zeros((1, len(self.mean))),
            np.zeros((self.axes.shape[1], 0)),
            np.zeros((1, 0)),
            np.zeros(1),
        )

    def features(self, projection: FloatArray, kept: float) -> FloatArray:
        """Return the (texts, heads) means after the last layer of each head, less the
        offset.
        """
        result = np.zeros((len(self.means), projection.shape[1]))
        for i, (a, b) in enumerate(
            zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
        ):
            z = self.words[a:b].astype(np.float64) @ projection
            result[i] = (shares_on_line(place(z), kept) * z).sum(axis=0)
        return result


def read_corpus(
    texts: Sequence[str], encoder: Encoder, splitter: Splitter, progress: Progress
) -> Corpus:
    """Return the vectors of texts, encoded once; means, deviations and axes are those
    of a sample.
    """
    encoder.warn_of_cut(texts)
    order = np.random.default_rng(0).permutation(len(texts)).tolist()
    sample, rest = order[:SAMPLE], order[SAMPLE:]

    def read(rows: list[int], done: int) -> Iterator[tuple[int, Words]]:
        def report(number: int, _: int) -> None:
            progress(done + number, len(texts))

        for k, words in encoder.read([texts[i] for i in rows], splitter, report):
            yield rows[k], words

    first = sorted(read(sample, 0), key=lambda found: found[0])
    read_texts = [words.vectors for _, words in first if len(words.rows)]
    if not read_texts:
        got = f"none in {len(sample)} texts: no offset lies in a word"
        raise ParameterError(
            "encoder", "give vectors of words", got, "Check its offsets."
        )
    known = np.concatenate(
        [check_width(vectors, read_texts[0].shape[1]) for vectors in read_texts]
    ).astype(np.float64)
    mean, scale = known.mean(axis=0), known.std(axis=0)
    scale = np.maximum(scale, MIN_DEVIATION * np.median(scale) or 1.0)
    standardised = (known - mean) / scale
    axes = np.linalg.eigh(standardised.T @ standardised)[1][:, ::-1][:, :REDUCED]
    means, words = (
        np.zeros((len(texts), len(mean))),
        list[AnyArray]([axes[:0].astype(np.float16)]) * len(texts),
    )
    for i, found in chain(first, read(rest, len(sample))):
        x = (check_width(found.vectors, len(mean)) - mean) / scale
        words[i] = (x @ axes).astype(np.float16)
        if len(x):
            means[i] = x.mean(axis=0)
    sizes = [len(each) for each in words]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Corpus(
        mean, scale, axes, means, np.concatenate(words), starts, layers=encoder.layers
    )


def check_width(vectors: AnyArray, width: int) -> AnyArray:
    """Return (n, width) vectors of the words of a text; none if the text has no words."""
    if len(vectors) and vectors.shape[1] != width:
        must = f"have {width} numbers per vector, as all other texts"
        raise ParameterError(
            ("X", "encoder"),
            must,
            f"{vectors.shape[1]}",
            "Check how they were computed.",
        )
    return vectors.reshape(len(vectors), width)


class Dense(NamedTuple):
    """A linear model of the means of texts, and of the means of heads."""

    linear: FloatArray  # (outputs, d)
    projection: FloatArray  # (r, heads)
    decoder: FloatArray  # (outputs, heads)
    bias: FloatArray  # (outputs,)

    def scaled(self, amount: float) -> "Dense":
        """Return a multiple of the model, with more than two classes centred over the
        classes.
        """
        parts = {"linear": self.linear, "decoder": self.decoder, "bias": self.bias}
        if len(self.bias) > 1:
            parts = {name: part - part.mean(axis=0) for name, part in parts.items()}
        return self._replace(**{name: amount * part for name, part in parts.items()})


def join_labels(parts: Sequence[Dense]) -> Dense:
    """Return models of one output each as one model of all outputs, in which each
    output has heads of its own.
    """
    if len(parts) == 1:
        return parts[0]
    linear, bias = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("linear", "bias")
    )
    return Dense(
        linear,
        np.hstack([part.projection for part in parts]),
        block_diag(*(p.decoder for p in parts)),
        bias,
    )


def train_projection(
    corpus: Corpus,
    rows: IntArray,
    labels: IntArray,
    weights: FloatArray,
    heads: int,
    kept: float,
    device: str = "cpu",
) -> FloatArray:
    """Return (r, heads) directions of heads that classify some texts together with a
    linear function of their means.

    The gradient of a hardmax layer is that of the leaders' positions, which are also
    its scores where d = 1.
    """
    with needed_for("Training with an encoder", "torch", "torch"):
        import torch
        from torch.nn.functional import cross_entropy
    size = (
        max(float(np.square(corpus.words, dtype=np.float64).mean()) ** 0.5, 1e-12)
        if len(corpus.words)
        else 1.0
    )
    r, classes = corpus.axes.shape[1], int(labels.max()) + 1
    pool = partial(torch.segment_reduce, initial=0)
    words, means = (
        torch.from_numpy(corpus.words).to(device),
        torch.from_numpy(corpus.means).float().to(device),
    )
    random = torch.Generator().manual_seed(
        0
    )  # of the CPU: the same numbers on every device
    directions, decoder = (
        torch.randn(r, heads, generator=random) / r**0.5,
        torch.randn(heads, classes, generator=random) / 20,
    )
    linear, bias = torch.zeros(means.shape[1], classes), torch.zeros(classes)
    trained = [
        each.to(device).requires_grad_() for each in (directions, decoder, linear, bias)
    ]
    directions, decoder, linear, bias = trained
    optimiser = torch.optim.AdamW(trained, RATE, weight_decay=DECAY)
    epochs, of_epoch = (
        max(MIN_EPOCHS, -(-MIN_TEXTS // len(rows))),
        -(-len(rows) // BATCH),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, RATE, total_steps=epochs * of_epoch + 1
    )
    for _ in range(epochs):
        for part in torch.randperm(len(rows), generator=random).split(BATCH):
            texts = rows[part.numpy()]
            sizes = corpus.starts[texts + 1] - corpus.starts[texts]
            some = np.repeat(
                corpus.starts[texts] - np.cumsum(sizes) + sizes, sizes
            ) + np.arange(sizes.sum())
            lengths = torch.from_numpy(sizes).to(device)
            z = (
                words[torch.from_numpy(some).to(device)].float() / size @ directions
                + OFFSET
            )  # (words, heads)
            above = pool((z > 0).float(), "mean", lengths=lengths)  # (texts, heads)
            top, low = (
                pool(z.clamp(min=0), "max", lengths=lengths),
                pool(z.clamp(max=0), "min", lengths=lengths),
            )
            moved = kept * pool(z, "mean", lengths=lengths) + (1 - kept) * (
                above * top + (1 - above) * low
            )
            moved = moved - OFFSET * (lengths > 0)[:, None]
            dropout = (torch.rand(moved.shape, generator=random) >= DROPOUT).to(
                device
            ) / (1 - DROPOUT)
            scores = means[texts] @ linear + bias + dropout * moved @ decoder
            losses = cross_entropy(
                scores,
                torch.from_numpy(labels[texts]).to(device).long(),
                reduction="none",
            )
            optimiser.zero_grad()
            (losses * torch.from_numpy(weights[texts]).to(device)).mean().backward()
            optimiser.step()
            schedule.step()
    return np.asarray(directions.detach().double().cpu().numpy() / size)


class Problem(NamedTuple):
    """Labels of texts with the weights of the texts and the folds of cross-validation."""

    labels: IntArray  # (texts,)
    weights: FloatArray  # (texts,) of mean 1
    splits: list[tuple[IntArray, IntArray]]  # rows held out, and the others
    classes: int


class DenseFolds(NamedTuple):
    """A model of features of all texts, and (texts, outputs) logits of the models that
    have not seen each text.
    """

    corpus: Corpus
    strength: float
    whole: Dense
    held: FloatArray


def fit_dense_folds(
    corpus: Corpus,
    problem: Problem,
    strength: float,
    parameters: Parameters | None = None,
) -> DenseFolds:
    """Fit a linear model of means; with `parameters` also heads, whose directions are
    trained on the same texts.
    """
    from sklearn.linear_model import LogisticRegression

    labels, weights, splits, classes = problem

    def fit(rows: IntArray | slice) -> tuple[Dense, FloatArray]:
        heads, size = np.zeros((corpus.axes.shape[1], 0)), 1.0
        moved = np.zeros((len(labels), 0))
        if parameters is not None:
            kept, chosen = (
                retained(ALPHA_FACTOR * parameters.alpha, parameters.layers),
                np.arange(len(labels))[rows],
            )
            device = find_device(parameters.device)
            heads = train_projection(
                corpus, chosen, labels, weights, parameters.n_heads, kept, device
            )
            moved = corpus.features(heads, kept)
            size = (
                HEADS_SHARE
                * (
                    corpus.means.var(axis=0).sum()
                    / max(float(moved.var(axis=0).sum()), 1e-12)
                )
                ** 0.5
            )
        features = np.hstack([corpus.means[:, corpus.used], size * moved])
        centre = features[rows].mean(axis=0)
        centred = features[rows] - centre
        norm = max(float(np.square(centred).sum() / len(centred)), 1e-12) ** 0.5
        model = LogisticRegression(C=strength, max_iter=300, tol=1e-4).fit(
            centred / norm, labels[rows], weights[rows]
        )
        coefficients = model.coef_ / norm
        bias = model.intercept_ - coefficients @ centre
        linear = np.zeros((len(bias), corpus.means.shape[1]))
        linear[:, corpus.used], decoder = np.split(
            coefficients, [features.shape[1] - moved.shape[1]], axis=1
        )
        return (
            Dense(linear, heads, size * decoder, bias),
            features @ coefficients.T + bias,
        )

    held_logits = np.zeros((len(labels), 1 if classes == 2 else classes))
    for held, learned in splits:
        held_logits[held] = fit(learned)[1][held]
    return DenseFolds(corpus, strength, fit(slice(None))[0], held_logits)


def make_context(
    encoder: Encoder, corpus: Corpus, dense: Dense, alpha: float, layers: int
) -> Context:
    """Return the part of a model that reads vectors, with directions in all
    coordinates.
    """
    projection = corpus.axes @ dense.projection
    alpha = ALPHA_FACTOR * alpha
    return Context(
        encoder,
        corpus.mean,
        corpus.scale,
        dense.linear,
        projection,
        dense.decoder,
        alpha,
        layers,
    )
