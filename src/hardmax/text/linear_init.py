"""A model whose weights come from a linear model of the same tokens: it needs no
training after that.

The linear model is a sum of four: logistic regression on inverse document frequencies
with a strong and with a weak regularisation, logistic regression on features scaled by
their log ratio, and naive Bayes. The first is best on long texts and uneven classes,
the second where single words decide, the last on few and short texts. The coefficients
of the sum are fitted to the logits of held-out texts, so that it is calibrated.

The linear score of a token becomes its first coordinate, distributed over the heads at
random, so that other discriminative tokens lead in each. The other coordinates are
random and about as long, so that no two tokens tie. With a small alpha the model is the
linear one; with a larger alpha the leaders count more. Cross-validation chooses alpha,
and how much rare classes are favoured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags_array
from scipy.special import log_softmax, softmax
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn requires it

from hardmax._display import progress_bar
from hardmax._errors import ParameterError
from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.text.columns import Columns
from hardmax.text.context import (
    STRENGTHS,
    Corpus,
    Dense,
    DenseFolds,
    Problem,
    fit_dense_folds,
    join_labels,
    make_context,
    read_corpus,
)
from hardmax.text.encoder import VectorText, make_encoder
from hardmax.text.model import Epoch, Model, Report, Weights, logits, predicted_classes
from hardmax.text.parameters import Parameters, starts_random
from hardmax.text.tokenizer import Splitter
from hardmax.text.validation import TrainingSet, folds
from hardmax.text.vocabulary import Encoded, Vocabulary

MIN_TEXTS, MIN_CHARACTERS = (
    8000,
    400,
)  # texts, and mean length, from which on training in torch is more accurate
NGRAM_RANGES = ((1, 2), (1, 3))  # choices
RARE_SHARE = 0.5  # a class is rare below this fraction of an even share of the texts
POOLING_EXPONENT = 0.5  # the sum of n independent tokens grows as the square root of n
REGULARISATION = {
    "idf": 10.0,
    "idf_weak": 300.0,
    "log_ratio": 3.0,
}  # C of logistic regression, for texts of norm 1
KINDS = (*REGULARISATION, "naive_bayes")
LOG_RATIO_OFFSET = 0.5  # added to |log ratio|, so that no token has the weight 0
PRIOR_LOGIT, PRIOR_STRENGTH = (
    0.5,
    3.0,
)  # prior mean of |logit| in the mixture, and the weight of the prior
ALPHA_FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # tried factors of `alpha`
MAX_TEXTS, MAX_TEXTS_PLANAR = (
    400,
    4000,
)  # texts on which alpha is chosen, and a planar model is measured
ARC_ANGLE, ARC_LENGTH = (
    0.7,
    0.05,
)  # of a planar model: change of angle and of length per unit of the score
MIN_LENGTH = 0.05  # of the random coordinates, where a typical score is 1
OFFSET_FACTORS = np.linspace(
    0, 1, 21
)  # 0 keeps the frequencies of classes, 1 makes all classes equally likely
MIN_TEXTS_FOR_HEADS = (
    500  # from which on heads are tried beside a linear function of vectors
)
# standard errors of the loss on held-out texts, for which n-grams and heads are kept
# beside vectors
MIN_GAIN = 1.0
MAX_ACCURACY_LOSS = 0.015  # of the decision offset

Step = Callable[[float], object]  # called with the loss after each step


class Linear(NamedTuple):
    """logits = bias + n^POOLING_EXPONENT mean of the tokens' weights, for texts of n
    tokens.
    """

    weights: FloatArray  # (outputs, tokens)
    bias: FloatArray  # (outputs,)


class Fold(NamedTuple):
    """Held-out texts, without the tokens that no other text has, and a linear model of
    the other texts.
    """

    held: IntArray
    texts: csr_matrix  # (held, tokens)
    linear: Linear
    more: FloatArray  # (held, outputs) logits of columns and vectors


def uses_linear_start(data: TrainingSet, parameters: Parameters) -> bool:
    """Return whether the linear initialisation is the model: training improves on it
    for many long texts only.

    With a rare class it is never trained, as only a linear start has a decision offset.
    """
    has_vectors = isinstance(data.texts[0], VectorText)
    if (
        data.multilabel
        or has_vectors
        or parameters.column_names
        or parameters.encoder is not None
    ):
        if starts_random(parameters):
            must, got = (
                "be used with one label per text, of texts",
                '`start="random"`, `epochs` or softmax',
            )
            raise ParameterError("start", must, got, "Leave it out.")
        return True
    if parameters.start == "linear" or starts_random(parameters):
        return parameters.start == "linear"
    few_or_short = len(data.texts) < MIN_TEXTS or sum(
        map(len, data.texts)
    ) < MIN_CHARACTERS * len(data.texts)
    return few_or_short or has_rare_class(np.bincount(data.labels) / len(data.labels))


def fit_linear_model(
    data: TrainingSet, parameters: Parameters, report: Report
) -> tuple[Model, list[Epoch]]:
    """Return the model whose n-grams have the least loss in cross-validation, and that
    loss.

    With several labels per text each label has a model of its own, of the same tokens
    and vectors.
    """
    problems = _list_problems(data, parameters)
    choices = (
        NGRAM_RANGES if parameters.ngram_range is None else (parameters.ngram_range,)
    )
    encoder, features = None, list[Corpus]()  # of columns, then of vectors
    columns = Columns.of(parameters.column_names, data.texts)
    if len(columns):
        features.append(Corpus.of_features(columns.features(data.texts)))
    if parameters.encoder is not None or isinstance(data.texts[0], VectorText):
        encoder = make_encoder(parameters)
        choices = choices[:1]
        with (
            progress_bar("Encoding")
            if parameters.verbose
            else nullcontext(lambda done, total: None)
        ) as bar:
            features.append(
                read_corpus(data.texts, encoder, Splitter.of(parameters), bar)
            )
    steps = sum(
        len(KINDS) * (1 + len(problem.splits)) + len(ALPHA_FACTORS)
        for problem in problems
    )  # of each choice
    own = copy(parameters)
    if (
        data.multilabel
    ):  # at least two heads, as a single one in the plane is a model to be drawn
        own.n_heads = max(
            min(2, parameters.n_heads), parameters.n_heads // len(problems)
        )
    found = []
    for k, ngram_range in enumerate(choices):
        # without labels: those of held-out texts must not select tokens
        vocabulary = Vocabulary.build(data.texts, parameters, ngram_range=ngram_range)
        numbers = count(k * steps + 1)

        def step(loss: float, numbers: Iterator[int] = numbers) -> None:
            report(next(numbers), len(choices) * steps, loss, None)

        texts = to_matrix(vocabulary.encode(data.texts), len(vocabulary))
        with threadpool_limits(
            1, "blas"
        ):  # thousands of small sums: threads would slow them down
            parts = [
                _fit_weights(texts, each, own, step, features) for each in problems
            ]
        weights, dense, losses, accuracies = zip(*parts, strict=True)
        joined = list(map(join_labels, zip(*dense, strict=True)))
        known = [accuracy for accuracy in accuracies if accuracy is not None]
        loss, accuracy = (
            float(np.mean(losses)),
            float(np.mean(known)) if known else None,
        )
        epoch = Epoch(0, loss, loss if known else None, accuracy, kept=True)
        report((k + 1) * steps, len(choices) * steps, loss, epoch)
        context = None
        if encoder is not None:
            context = make_context(
                encoder, features[-1], joined[-1], parameters.alpha, parameters.layers
            )
        if len(columns):
            columns = replace(columns, linear=joined[0].linear)
        model = Model(
            vocabulary,
            _join_weights(weights),
            data.classes,
            context,
            columns,
            data.multilabel,
        )
        found.append((model, epoch))
    model, epoch = min(found, key=lambda each: each[1].train_loss)
    return model, [epoch]


def _list_problems(data: TrainingSet, parameters: Parameters) -> list[Problem]:
    """Return the problem of one label per text, or one for each label of several."""
    problems = []
    for k, labels in enumerate(data.labels.T if data.multilabel else [data.labels]):
        classes = np.arange(2) if data.multilabel else data.classes
        chosen = parameters.class_weight
        if data.multilabel and isinstance(chosen, Mapping):
            chosen = {0: 1.0, 1: chosen.get(data.classes[k].item(), 1.0)}
        weights = compute_sample_weight(chosen, classes[labels]) * (
            1.0 if data.weights is None else data.weights
        )
        splits = list(folds(labels, data.groups)) if labels.min() < labels.max() else []
        problems.append(Problem(labels, weights / weights.mean(), splits, len(classes)))
    return problems


def _constant_weights(texts: csr_matrix, bias: FloatArray) -> Weights:
    """Return weights of tokens that contribute nothing."""
    embedding, decoder = (
        np.zeros((texts.shape[1], 1, 1), np.float32),
        np.zeros((len(bias), 1, 1)),
    )
    return Weights(embedding, np.ones(1), None, decoder, bias, 0, POOLING_EXPONENT)


def _join_weights(parts: Sequence[Weights]) -> Weights:
    """Return the weights of one output each as weights of all outputs, in which each
    output has heads of its own.
    """
    if len(parts) == 1:
        return parts[0]
    used = [part for part in parts if part.layers or part.decoder.any()] or parts[:1]
    sizes, embedding = (
        [part.heads for part in used],
        np.concatenate([part.embedding for part in used], axis=1),
    )
    decoder, at = np.zeros((len(parts), sum(sizes), used[0].d)), np.cumsum([0, *sizes])
    for part, start in zip(used, at.tolist(), strict=False):
        decoder[parts.index(part), start : start + part.heads] = part.decoder[0]
    bias, alpha = (
        np.concatenate([part.bias for part in parts]),
        np.concatenate([part.alpha for part in used]),
    )
    offsets = [
        np.zeros(1) if part.decision_offset is None else part.decision_offset
        for part in parts
    ]
    offset = np.concatenate(offsets) if np.any(offsets) else None
    return Weights(
        embedding, alpha, None, decoder, bias, used[0].layers, POOLING_EXPONENT, offset
    )


def _fit_weights(
    texts: csr_matrix,
    problem: Problem,
    parameters: Parameters,
    step: Step,
    features: Sequence[Corpus],
) -> tuple[Weights, list[Dense], float, float | None]:
    """Return weights of tokens, models of the features, and the loss and the accuracy
    in cross-validation.
    """
    labels, classes = problem.labels, problem.classes
    if len(np.unique(labels)) < 2:  # a label of all texts, or of none
        bias = np.array([(2 * float(labels[0]) - 1) * np.log1p(len(labels))])
        return (
            _constant_weights(texts, bias),
            [each.constant() for each in features],
            0.0,
            None,
        )
    linear, found, dense = fit_linear(texts, problem, parameters, step, features)
    if not found:  # one text per class: nothing can be held out
        return build_heads(linear, parameters), dense, float(np.log(classes)), None
    held = np.concatenate([fold.held for fold in found])
    right, weights = labels[held], problem.weights[held]
    scores = np.concatenate(
        [linear_logits(fold.linear, fold.texts) + fold.more for fold in found]
    )
    offset, planar = (
        find_decision_offset(scores, right, weights),
        is_planar(parameters) and linear.weights.any(),
    )
    if linear.weights.any():
        loss, factor, scale, accuracy = _choose_alpha(found, labels, parameters, step)
        model = build_heads(
            Linear(linear.weights * scale, linear.bias), parameters, factor
        )
    else:  # vectors alone decide
        model = _constant_weights(texts, linear.bias)
    if not planar:  # in a planar model the movement of tokens changes predictions
        loss = cross_entropy(class_logits(scores), right, weights)
        accuracy = float(
            np.average(predicted_classes(scores + offset) == right, weights=weights)
        )
    covered = (
        weights.sum() / problem.weights.sum()
    )  # rows that are never held out count as errors
    model = (
        replace(model, bias=model.bias + offset, decision_offset=offset)
        if offset.any()
        else model
    )
    return model, dense, loss, float(accuracy * covered)


def fit_linear(
    texts: csr_matrix,
    problem: Problem,
    parameters: Parameters,
    step: Step,
    features: Sequence[Corpus] = (),
) -> tuple[Linear, list[Fold], list[Dense]]:
    """Return a linear model of weighted texts, and for each split the same model of the
    texts that are not held out.

    Also return a linear model of each of the features. Beside vectors of an encoder,
    n-grams and heads are kept where they lower the loss on held-out texts by more than
    a standard error; without n-grams all weights are 0.
    """
    labels, weights, splits, classes = problem
    loss = float(np.log(classes))

    def fit_kinds(rows: IntArray | slice) -> list[Linear]:
        models = []
        for kind in KINDS:
            models.append(
                _fit_kind(kind, texts[rows], labels[rows], weights[rows], classes)
            )
            step(loss)
        return models

    found, ngrams = (
        [],
        np.zeros((len(KINDS), len(labels), classes)),
    )  # logits of held-out texts
    for held, learned in splits:
        known = np.zeros(texts.shape[1])
        known[texts[learned].indices] = 1  # new texts have unknown tokens, too
        rest = csr_matrix(texts[held] @ diags_array(known))
        rest.eliminate_zeros()
        models = fit_kinds(learned)
        ngrams[:, held] = [class_logits(linear_logits(model, rest)) for model in models]
        found.append((held, rest, models))
    seen = np.concatenate([np.empty(0, np.intp), *(held for held, *_ in found)])
    mix = partial(_fit_mixture, labels=labels, weights=weights, seen=seen)

    def stack(*models: DenseFolds) -> FloatArray:
        return np.stack([*(class_logits(each.held) for each in models), ngrams[0]])[
            :-1
        ]  # (models, texts, classes)

    def row_losses(scores: FloatArray) -> FloatArray:
        amounts, bias = mix(scores)
        total = np.tensordot(amounts, scores, 1) + (
            np.append(0.0, bias) if classes == 2 else bias
        )
        return np.asarray(
            -weights * log_softmax(total, axis=1)[np.arange(len(labels)), labels]
        )

    def gains(before: FloatArray, after: FloatArray) -> bool:
        gain = (before - after)[seen]
        return len(seen) > 1 and bool(
            gain.mean() > MIN_GAIN * gain.std(ddof=1) / len(gain) ** 0.5
        )

    def fit_best(choices: Sequence[Corpus]) -> DenseFolds:
        tried = (
            fit_dense_folds(each, problem, C) for each in choices for C in STRENGTHS
        )
        return min(tried, key=lambda each: float(row_losses(stack(each)).sum()))

    dense, uses_ngrams = list[DenseFolds](), True
    for corpus in features:
        best = fit_best(corpus.layer_choices())
        if corpus.has_words:
            losses = row_losses(stack(*dense, best))
            if len(labels) >= MIN_TEXTS_FOR_HEADS and len(seen):
                moving = fit_dense_folds(
                    best.corpus, problem, best.strength, parameters
                )
                if gains(losses, with_heads := row_losses(stack(*dense, moving))):
                    best, losses = moving, with_heads
            uses_ngrams = gains(
                losses, row_losses(np.concatenate([stack(*dense, best), ngrams]))
            )
        dense.append(best)
    held_logits = stack(*dense)
    amounts, bias = mix(
        np.concatenate([held_logits, ngrams]) if uses_ngrams else held_logits
    )
    own, shares = np.split(
        np.append(amounts, np.zeros(0 if uses_ngrams else len(KINDS))), [len(dense)]
    )
    wholes = [
        each.whole.scaled(float(amount))
        for each, amount in zip(dense, own, strict=True)
    ]
    more = np.tensordot(own, held_logits, 1)
    more = more[:, 1:] - more[:, :1] if classes == 2 else more
    whole = _mix(fit_kinds(slice(None)), shares, bias)
    found_folds = [
        Fold(held, rest, _mix(models, shares, bias), more[held])
        for held, rest, models in found
    ]
    return (
        whole._replace(bias=whole.bias + sum(each.bias for each in wholes)),
        found_folds,
        wholes,
    )


def to_matrix(texts: Encoded, tokens: int) -> csr_matrix:
    """Return (texts, tokens) counts."""
    return csr_matrix(
        (texts.counts.astype(np.float64), texts.ids, texts.starts), (len(texts), tokens)
    )


def from_matrix(texts: csr_matrix) -> Encoded:
    """Return texts from (texts, tokens) counts, tokens in the order of their indices."""
    return Encoded(
        texts.indices.astype(np.int64),
        texts.indptr.astype(np.int64),
        texts.data.astype(np.int64),
    )


def linear_logits(linear: Linear, texts: csr_matrix) -> FloatArray:
    """Return (texts, outputs) logits of a linear model."""
    return np.asarray(_pool(texts) @ linear.weights.T + linear.bias)


def has_rare_class(shares: FloatArray) -> bool:
    """Return whether one of the (classes,) fractions of the texts is small."""
    return bool(shares.min() < RARE_SHARE / len(shares))


def class_logits(scores: FloatArray) -> FloatArray:
    """Return (texts, classes) logits from (texts, outputs): the first of two classes
    has 0.
    """
    return (
        np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
    )


def cross_entropy(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Return the weighted mean of the cross-entropy of (texts, classes) logits."""
    right = log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())


def _pool(texts: csr_matrix) -> csr_matrix:
    n = np.maximum(1, np.asarray(texts.sum(axis=1)).ravel())
    return csr_matrix(diags_array(n ** (POOLING_EXPONENT - 1)) @ texts)


def _fit_kind(
    kind: str, texts: csr_matrix, labels: IntArray, weights: FloatArray, classes: int
) -> Linear:
    """Return one of the four linear models of pooled tokens."""
    from sklearn.linear_model import LogisticRegression

    outputs = range(1, 2) if classes == 2 else range(classes)
    ratio = np.stack(
        [_log_ratio(texts, labels == c, weights) for c in outputs]
    )  # (outputs, tokens)
    if kind == "naive_bayes":
        return Linear(ratio, np.zeros(len(ratio)))
    if kind == "log_ratio":
        factors = LOG_RATIO_OFFSET + np.abs(ratio).max(axis=0)
    else:
        factors = 1 + np.log(
            (1 + len(labels))
            / (1 + np.bincount(texts.indices, minlength=texts.shape[1]))
        )
    features = csr_matrix(_pool(texts) @ diags_array(factors))
    norm = max(
        float((features.data**2).sum()) / len(labels), 1e-12
    )  # mean of the squares
    model = LogisticRegression(C=REGULARISATION[kind] / norm, max_iter=500, tol=1e-3)
    model.fit(features, labels, weights)
    return Linear(model.coef_ * factors, model.intercept_)


def _log_ratio(texts: csr_matrix, inside: BoolArray, weights: FloatArray) -> FloatArray:
    """Return (tokens,) log ratios of the frequencies inside and outside a class, with
    one text added; 0 if unused.
    """
    there = texts.sign()
    p, q = (1 + there.T @ (weights * side) for side in (inside, ~inside))
    return np.where(
        np.bincount(texts.indices, minlength=texts.shape[1]) > 0,
        np.log(p / p.sum() * (q.sum() / q)),
        0.0,
    )


def _fit_mixture(
    scores: FloatArray, labels: IntArray, weights: FloatArray, seen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of (kinds, texts, classes) logits, and a bias, with the least
    loss on the texts `seen`.

    The prior keeps the coefficients near each other where texts are few.
    """
    kinds, _, classes = scores.shape
    others = kinds - len(KINDS) if kinds >= len(KINDS) else kinds  # columns and vectors
    prior = np.append(np.ones(others), np.full(kinds - others, 1 / len(KINDS)))
    prior *= PRIOR_LOGIT / 2 / prior.sum()
    if not len(seen):
        return prior, np.zeros(1 if classes == 2 else classes)
    present, labels = np.unique(
        labels[seen], return_inverse=True
    )  # some classes may never be held out
    scores, weights, known = scores[:, seen][..., present], weights[seen], len(present)
    scores = scores - scores.mean(axis=2, keepdims=True)
    middle = scores.mean(axis=1, keepdims=True)  # far from 0 for uneven classes
    size = np.maximum(np.abs(scores - middle).mean(axis=(1, 2)), 1e-12)

    def cost(x: FloatArray) -> float:
        amounts, bias = x[:kinds], np.append(0.0, x[kinds:])
        total = np.tensordot(amounts / size, scores - middle, 1) + bias
        penalty = PRIOR_STRENGTH * float(((amounts - prior) ** 2).sum())
        return cross_entropy(total, labels, weights) * len(labels) + penalty

    begin = np.append(prior, np.zeros(known - 1))
    bounds = [(least / 20, None) for least in prior] + [(None, None)] * (known - 1)
    found = minimize(cost, begin, method="L-BFGS-B", bounds=bounds).x
    amounts, bias = found[:kinds] / size, np.append(0.0, found[kinds:])
    bias = bias - np.tensordot(amounts, middle[:, 0], 1)
    if known < classes:
        fitted, bias = bias - bias.mean(), np.zeros(classes)
        bias[present] = fitted
    return amounts, bias[1:] - bias[:1] if classes == 2 else bias


def _mix(models: list[Linear], amounts: FloatArray, bias: FloatArray) -> Linear:
    """Return the weighted sum of models; with more than two classes, centred over the
    classes.
    """
    weights = sum(a * model.weights for a, model in zip(amounts, models, strict=True))
    bias = bias + sum(a * model.bias for a, model in zip(amounts, models, strict=True))
    if len(bias) == 1:
        return Linear(weights, bias)
    return Linear(weights - weights.mean(axis=0), bias - bias.mean())


def build_heads(
    linear: Linear, parameters: Parameters, factor: float = ALPHA_FACTORS[-1]
) -> Weights:
    """Return the heads of a linear model, with `factor` times the given alpha.

    With two classes every head holds a part of the one score. With more, each class has
    heads of its own if there are enough; else heads hold the directions in which scores
    differ most.
    """
    heads, d, random = (
        parameters.n_heads,
        parameters.d,
        np.random.default_rng([parameters.random_state, 40_000]),
    )
    scores, axes = (
        linear.weights,
        np.eye(len(linear.bias)),
    )  # (outputs, tokens), (outputs, scores)
    if len(axes) > heads:
        axes = np.linalg.eigh(scores @ scores.T)[1][:, ::-1][:, :heads]
        scores = axes.T @ scores
    score_of_head = np.arange(heads) % len(scores)
    unit = np.maximum(np.abs(scores).mean(axis=1), 1e-12)
    parts = random.exponential(size=(scores.shape[1], heads))
    first, decoder = np.empty(parts.shape), np.zeros((len(axes), heads, d))
    for r in range(len(scores)):
        own = score_of_head == r
        shares = parts[:, own] / parts[:, own].mean(axis=1, keepdims=True)
        first[:, own] = shares * (scores[r] / unit[r])[:, None]
        decoder[:, own, 0] = (axes[:, r] * unit[r] / own.sum())[:, None]
    others = (
        random.normal(size=(*parts.shape, d - 1))
        * np.maximum(np.abs(first), MIN_LENGTH)[..., None]
    )
    embedding = np.concatenate([first[..., None], others], axis=2)
    if is_planar(parameters):
        # On an arc: upwards for the score 0, to the sides for large scores. A token
        # then follows one of a similar score, so that the logit changes little when
        # tokens gather. Tokens of large scores are longer, and so lead.
        score = scores[0] / unit[0]
        angle, length = np.arctan(ARC_ANGLE * score), 1 + ARC_LENGTH * np.abs(score)
        embedding[:, 0] = np.stack(
            [length * np.sin(angle), length * np.cos(angle)], axis=1
        )
    alpha = np.full(heads, factor * parameters.alpha)
    return Weights(
        embedding.astype(np.float32),
        alpha,
        None,
        decoder,
        linear.bias,
        parameters.layers,
        POOLING_EXPONENT,
    )


def is_planar(parameters: Parameters) -> bool:
    """Return whether a model has one head in the plane, which can be drawn."""
    return parameters.n_heads == 1 and parameters.d == 2


def _choose_alpha(
    found: Sequence[Fold], labels: IntArray, parameters: Parameters, step: Step
) -> tuple[float, ...]:
    """Return the least loss on held-out texts, and its factor of alpha, scale of the
    logits and accuracy.

    The logits are scaled because moving tokens enlarges them, as leaders have the
    largest weights.
    """
    size = (MAX_TEXTS_PLANAR if is_planar(parameters) else MAX_TEXTS) // len(found)
    rows = [
        np.arange(0, len(fold.held), -(-len(fold.held) // size)) for fold in found
    ]  # files may be sorted by label
    some = [
        Fold(fold.held[r], fold.texts[r], fold.linear, fold.more[r])
        for fold, r in zip(found, rows, strict=True)
    ]
    texts = [from_matrix(fold.texts) for fold in some]
    models = [
        build_heads(fold.linear._replace(bias=0 * fold.linear.bias), parameters)
        for fold in some
    ]
    linear = np.concatenate(
        [linear_logits(fold.linear, fold.texts) - fold.linear.bias for fold in some]
    )
    bias = np.concatenate([fold.linear.bias + fold.more for fold in some])
    right = labels[np.concatenate([fold.held for fold in some])]
    choices = []
    for factor in (
        ALPHA_FACTORS[:1] if is_planar(parameters) else ALPHA_FACTORS
    ):  # a drawn model keeps the given alpha
        alpha = np.full(parameters.n_heads, factor * parameters.alpha)
        moved = np.concatenate(
            [
                logits(replace(m, alpha=alpha), t)
                for m, t in zip(models, texts, strict=True)
            ]
        )
        scale = float((moved * linear).sum() / max((moved**2).sum(), 1e-12))
        scores = bias + scale * moved
        value = cross_entropy(class_logits(scores), right, np.ones(len(right)))
        choices.append(
            (value, factor, scale, float((predicted_classes(scores) == right).mean()))
        )
        step(value)
    return min(choices, key=lambda choice: choice[0])


def find_decision_offset(
    scores: FloatArray, labels: IntArray, weights: FloatArray
) -> FloatArray:
    """Return (outputs,) numbers to add to logits so that rare classes are found: for
    the largest macro F1.

    They are a fraction of -log of the class frequencies, and 0 if no class is rare.
    Accuracy may fall by `MAX_ACCURACY_LOSS`. F1 and accuracy are expected values under
    the predicted probabilities, which vary less than counts of the few texts of a rare
    class.
    """
    classes = max(2, scores.shape[1])
    frequencies = np.bincount(labels, weights, classes) / weights.sum()
    if not has_rare_class(frequencies) or frequencies.min() == 0:
        return np.zeros(scores.shape[1])
    rarity = -np.log(frequencies)
    rarity = rarity[1:] - rarity[:1] if classes == 2 else rarity - rarity.mean()
    expected = (
        softmax(class_logits(scores), axis=1) * weights[:, None]
    )  # (texts, classes)
    tried = []
    for part in OFFSET_FACTORS:
        predictions = predicted_classes(scores + part * rarity)
        table = np.stack(
            [np.bincount(predictions, column, classes) for column in expected.T]
        )  # (classes, predictions)
        right, sizes = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
        tried.append(
            (right.sum() / table.sum(), np.mean(2 * right / np.maximum(sizes, 1e-12)))
        )
    accuracy, f1 = np.array(tried).T
    best = np.where(accuracy >= accuracy.max() - MAX_ACCURACY_LOSS, f1, -1).argmax()
    return np.asarray(OFFSET_FACTORS[best] * rarity)
