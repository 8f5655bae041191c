"""Initial weights from a linear model of the same tokens, which need no training after that.

The linear model is a sum of four: logistic regression on inverse document frequencies with a strong and with a weak
regularisation, logistic regression on features scaled by their log ratio, and naive Bayes. The first is best on long
texts and uneven classes, the second where single words decide, the last on few and short texts. The coefficients of the
sum are fitted to the logits of held-out texts, so that it is calibrated.

The linear score of a token becomes its first coordinate, distributed over the heads at random, so that other
discriminative tokens lead in each. The other coordinates are random and about as long, so that no two tokens tie. With
a small alpha the model is the linear one; with a larger alpha the leaders count more. Cross-validation chooses alpha,
and how much rare classes are favoured.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags_array
from scipy.special import log_softmax, softmax

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.text.model import Epoch, Report, Weights, contributions, predicted_classes, sums_by_text
from hardmax.text.parameters import Parameters
from hardmax.text.validation import folds
from hardmax.text.vocabulary import Data, Encoded

RARE_SHARE = 0.5  # a class is rare below this fraction of an even share of the texts
POOLING_EXPONENT = 0.5  # the sum of n independent tokens grows as the square root of n
REGULARISATION = {"idf": 10.0, "idf_weak": 300.0, "log_ratio": 3.0}  # C of logistic regression, for texts of norm 1
KINDS = (*REGULARISATION, "naive_bayes")
LOG_RATIO_OFFSET = 0.5  # added to |log ratio|, so that no token has the weight 0
PRIOR_LOGIT, PRIOR_STRENGTH = 0.5, 3.0  # prior mean of |logit| in the mixture, and the weight of the prior
ALPHA_FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # tried factors of `alpha`
MAX_TEXTS, MAX_TEXTS_PLANAR = 400, 4000  # texts on which alpha is chosen, and a planar model is measured
ARC_ANGLE, ARC_LENGTH = 0.7, 0.05  # of `place_on_arc`: change of angle and of length per unit of the score
MIN_LENGTH = 0.05  # of the random coordinates, where a typical score is 1
OFFSET_FACTORS = np.linspace(0, 1, 21)  # 0 keeps the frequencies of classes, 1 makes all classes equally likely
MAX_ACCURACY_LOSS = 0.015  # of the decision offset


class Linear(NamedTuple):
    """logits = bias + n^POOLING_EXPONENT mean of the tokens' weights, for texts of n tokens."""

    weights: FloatArray  # (outputs, tokens)
    bias: FloatArray  # (outputs,)


class Fold(NamedTuple):
    """Held-out texts, without the tokens that no other text has, and a linear model of the other texts."""

    held: IntArray
    texts: csr_matrix  # (held, tokens)
    linear: Linear


class AlphaChoice(NamedTuple):
    """Result of the search for alpha on held-out texts."""

    loss: float
    factor: float  # of `alpha`
    scale: float  # of the logits: moving tokens enlarges them, as leaders have the largest weights
    accuracy: float


def fit_linear_init(
    data: Data, tokens: int, classes: int, parameters: Parameters, weights: FloatArray, *, report: Report
) -> tuple[Weights, Epoch]:
    """Return a model, and its loss and accuracy in cross-validation; `weights` of the texts have the mean 1."""
    done, total, value = 0, count_steps(data.labels, data.groups) + len(ALPHA_FACTORS), float(np.log(classes))

    def step() -> None:
        nonlocal done
        done += 1
        report(done, total, value, None)

    linear, found = fit_linear(data, tokens, classes, weights, seed=parameters.random_state, step=step)
    if not found:  # one text per class: nothing can be held out
        return build_heads(linear, parameters), Epoch(0, value, kept=True)
    held = np.concatenate([fold.held for fold in found])
    covered = weights[held].sum() / weights.sum()
    labels, weights = data.labels[held], weights[held]
    scores = np.concatenate([linear_logits(fold.linear, fold.texts) for fold in found])
    value = cross_entropy(class_logits(scores), labels, weights)
    chosen = _choose_alpha(found, data.labels, parameters, step)
    offset = find_decision_offset(scores, labels, weights)
    if is_planar(parameters):  # the movement of tokens changes its predictions
        value, accuracy = chosen.loss, chosen.accuracy
    else:
        accuracy = float(np.average(predicted_classes(scores + offset) == labels, weights=weights))
    epoch = Epoch(0, value, value, float(accuracy * covered), kept=True)  # rows that are never held out are errors
    report(total, total, value, epoch)
    model = build_heads(Linear(linear.weights * chosen.scale, linear.bias), parameters, chosen.factor)
    return (replace(model, bias=model.bias + offset, decision_offset=offset) if offset.any() else model), epoch


def fit_linear(
    data: Data, tokens: int, classes: int, weights: FloatArray, *, seed: int, step: Callable[[], object]
) -> tuple[Linear, list[Fold]]:
    """Return a linear model of weighted texts, and for each fold the same model of all other texts.

    Rows of one of `data.groups` share a fold. `step` is called `count_steps(data.labels, data.groups)` times.
    """
    texts, labels = to_matrix(data.texts, tokens), data.labels
    found, held_out_logits = [], np.zeros((len(KINDS), len(labels), classes))
    for held, learned in folds(labels, seed, data.groups):
        known = np.zeros(tokens)
        known[texts[learned].indices] = 1  # new texts have unknown tokens, too
        rest = csr_matrix(texts[held] @ diags_array(known))
        rest.eliminate_zeros()
        models = []
        for kind in KINDS:
            models.append(_fit_kind(kind, texts[learned], labels[learned], weights[learned], classes))
            step()
        held_out_logits[:, held] = [class_logits(linear_logits(model, rest)) for model in models]
        found.append((held, rest, models))
    seen = np.concatenate([np.empty(0, np.intp), *(held for held, *_ in found)])
    amounts, bias = _fit_mixture(held_out_logits, labels, weights, seen)
    whole = []
    for kind in KINDS:
        whole.append(_fit_kind(kind, texts, labels, weights, classes))
        step()
    return _mix(whole, amounts, bias), [Fold(held, rest, _mix(m, amounts, bias)) for held, rest, m in found]


def count_steps(labels: IntArray, groups: IntArray | None = None) -> int:
    """Return how often `fit_linear` calls `step`."""
    return len(KINDS) * (1 + sum(1 for _ in folds(labels, 0, groups)))


def to_matrix(texts: Encoded, tokens: int) -> csr_matrix:
    """Return the (texts, tokens) counts of tokens."""
    return csr_matrix((texts.counts.astype(np.float64), texts.ids, texts.starts), (len(texts), tokens))


def from_matrix(texts: csr_matrix) -> Encoded:
    """Return the inverse of `to_matrix`, tokens in the order of their indices."""
    return Encoded(texts.indices.astype(np.int64), texts.indptr.astype(np.int64), texts.data.astype(np.int64))


def linear_logits(linear: Linear, texts: csr_matrix) -> FloatArray:
    """Return (texts, outputs) logits of a linear model."""
    return np.asarray(_pool(texts) @ linear.weights.T + linear.bias)


def has_rare_class(shares: FloatArray) -> bool:
    """Return whether one of the (classes,) fractions of the texts is small."""
    return bool(shares.min() < RARE_SHARE / len(shares))


def class_logits(scores: FloatArray) -> FloatArray:
    """Return (texts, classes) logits from (texts, outputs): the first of two classes has 0."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def cross_entropy(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Return the weighted mean of the cross-entropy of (texts, classes) logits."""
    right = log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())


def _pool(texts: csr_matrix) -> csr_matrix:
    n = np.maximum(1, np.asarray(texts.sum(axis=1)).ravel())
    return csr_matrix(diags_array(n ** (POOLING_EXPONENT - 1)) @ texts)


def _fit_kind(kind: str, texts: csr_matrix, labels: IntArray, weights: FloatArray, classes: int) -> Linear:
    """Return one of the four linear models of pooled tokens."""
    from sklearn.linear_model import LogisticRegression

    outputs = range(1, 2) if classes == 2 else range(classes)
    ratio = np.stack([_log_ratio(texts, labels == c, weights) for c in outputs])  # (outputs, tokens)
    if kind == "naive_bayes":
        return Linear(ratio, np.zeros(len(ratio)))
    if kind == "log_ratio":
        factors = LOG_RATIO_OFFSET + np.abs(ratio).max(axis=0)
    else:
        factors = 1 + np.log((1 + len(labels)) / (1 + np.bincount(texts.indices, minlength=texts.shape[1])))
    features = csr_matrix(_pool(texts) @ diags_array(factors))
    norm = max(float((features.data**2).sum()) / len(labels), 1e-12)  # mean of the squares
    model = LogisticRegression(C=REGULARISATION[kind] / norm, max_iter=500, tol=1e-3)
    model.fit(features, labels, weights)
    return Linear(model.coef_ * factors, model.intercept_)


def _log_ratio(texts: csr_matrix, inside: BoolArray, weights: FloatArray) -> FloatArray:
    """Return (tokens,) log ratios of the frequency inside and outside a class, with one added to every count.

    Tokens that no text has get 0.
    """
    there = texts.sign()
    p, q = (1 + there.T @ (weights * side) for side in (inside, ~inside))
    return np.where(np.bincount(texts.indices, minlength=texts.shape[1]) > 0, np.log(p / p.sum() * (q.sum() / q)), 0.0)


def _fit_mixture(
    scores: FloatArray, labels: IntArray, weights: FloatArray, seen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of (kinds, texts, classes) logits, and a bias, with the least loss on the texts `seen`.

    The prior keeps the coefficients near each other where texts are few.
    """
    kinds, _, classes = scores.shape
    prior = PRIOR_LOGIT / 2 / kinds
    if not len(seen):
        return np.full(kinds, prior), np.zeros(1 if classes == 2 else classes)
    present, labels = np.unique(labels[seen], return_inverse=True)  # some classes may never be held out
    scores, weights, known = scores[:, seen][..., present], weights[seen], len(present)
    scores = scores - scores.mean(axis=2, keepdims=True)
    middle = scores.mean(axis=1, keepdims=True)  # far from 0 for uneven classes
    size = np.maximum(np.abs(scores - middle).mean(axis=(1, 2)), 1e-12)

    def cost(x: FloatArray) -> float:
        amounts, bias = x[:kinds], np.append(0.0, x[kinds:])
        total = np.tensordot(amounts / size, scores - middle, 1) + bias
        return cross_entropy(total, labels, weights) * len(labels) + PRIOR_STRENGTH * float(
            ((amounts - prior) ** 2).sum()
        )

    begin = np.append(np.full(kinds, prior), np.zeros(known - 1))
    bounds = [(prior / 20, None)] * kinds + [(None, None)] * (known - 1)
    found = minimize(cost, begin, method="L-BFGS-B", bounds=bounds).x
    amounts, bias = found[:kinds] / size, np.append(0.0, found[kinds:])
    bias = bias - np.tensordot(amounts, middle[:, 0], 1)
    if known < classes:
        fitted, bias = bias - bias.mean(), np.zeros(classes)
        bias[present] = fitted
    return amounts, bias[1:] - bias[:1] if classes == 2 else bias


def _mix(models: list[Linear], amounts: FloatArray, bias: FloatArray) -> Linear:
    """Return the weighted sum of models; with more than two classes, centred over the classes."""
    weights = sum(a * model.weights for a, model in zip(amounts, models, strict=True))
    bias = bias + sum(a * model.bias for a, model in zip(amounts, models, strict=True))
    if len(bias) == 1:
        return Linear(weights, bias)
    return Linear(weights - weights.mean(axis=0), bias - bias.mean())


def build_heads(linear: Linear, parameters: Parameters, factor: float = ALPHA_FACTORS[-1]) -> Weights:
    """Return the heads of a linear model, with `factor` times the given alpha.

    With two classes every head holds a part of the one score. With more, each class has heads of its own if there are
    enough; else heads hold the directions in which scores differ most.
    """
    heads, d, random = parameters.n_heads, parameters.d, np.random.default_rng([parameters.random_state, 40_000])
    scores, axes = linear.weights, np.eye(len(linear.bias))  # (outputs, tokens), (outputs, scores)
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
    others = random.normal(size=(*parts.shape, d - 1)) * np.maximum(np.abs(first), MIN_LENGTH)[..., None]
    embedding = np.concatenate([first[..., None], others], axis=2)
    if is_planar(parameters):
        embedding[:, 0] = place_on_arc(scores[0] / unit[0])
    alpha = np.full(heads, factor * parameters.alpha)
    return Weights(embedding.astype(np.float32), alpha, None, decoder, linear.bias, parameters.layers, POOLING_EXPONENT)


def is_planar(parameters: Parameters) -> bool:
    """Return whether a model has one head in the plane, which can be drawn."""
    return parameters.n_heads == 1 and parameters.d == 2


def place_on_arc(scores: FloatArray) -> FloatArray:
    """Return (tokens, 2) positions whose angle is the score of a token: upwards for 0, to the sides for large scores.

    A token then follows one of a similar score, so that the logit changes little when tokens gather. Tokens of large
    scores are longer, and so lead.
    """
    angle, length = np.arctan(ARC_ANGLE * scores), 1 + ARC_LENGTH * np.abs(scores)
    return np.stack([length * np.sin(angle), length * np.cos(angle)], axis=1)


def _choose_alpha(
    found: Sequence[Fold], labels: IntArray, parameters: Parameters, step: Callable[[], object]
) -> AlphaChoice:
    """Return the factor of alpha with the least loss on held-out texts."""
    count = MAX_TEXTS_PLANAR if is_planar(parameters) else MAX_TEXTS
    some = [_sample_fold(fold, count // len(found)) for fold in found]
    texts = [from_matrix(fold.texts) for fold in some]
    models = [build_heads(fold.linear, parameters) for fold in some]
    bias = np.concatenate([np.repeat(fold.linear.bias[None], len(fold.held), axis=0) for fold in some])
    linear = np.concatenate([linear_logits(fold.linear, fold.texts) for fold in some]) - bias
    right = labels[np.concatenate([fold.held for fold in some])]
    choices = []
    for factor in ALPHA_FACTORS[:1] if is_planar(parameters) else ALPHA_FACTORS:  # a drawn model keeps the given alpha
        alpha = np.full(parameters.n_heads, factor * parameters.alpha)
        moved = np.concatenate(
            [sums_by_text(contributions(replace(m, alpha=alpha), t), t) for m, t in zip(models, texts, strict=True)]
        )
        scale = float((moved * linear).sum() / max((moved**2).sum(), 1e-12))
        scores = bias + scale * moved
        value = cross_entropy(class_logits(scores), right, np.ones(len(right)))
        choices.append(AlphaChoice(value, factor, scale, float((predicted_classes(scores) == right).mean())))
        step()
    return min(choices, key=lambda choice: choice.loss)


def _sample_fold(fold: Fold, count: int) -> Fold:
    """Return about `count` texts of a fold at regular distances, as a file may be sorted by label."""
    places = np.arange(0, len(fold.held), -(-len(fold.held) // count))
    return fold._replace(held=fold.held[places], texts=fold.texts[places])


def find_decision_offset(scores: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """Return (outputs,) numbers to add to logits so that rare classes are found: for the largest macro F1.

    They are a fraction of -log of the class frequencies, and 0 if no class is rare. Accuracy may fall by
    `MAX_ACCURACY_LOSS`. F1 and accuracy are expected values under the predicted probabilities, which vary less than
    counts of the few texts of a rare class.
    """
    classes = max(2, scores.shape[1])
    frequencies = np.bincount(labels, weights, classes) / weights.sum()
    if not has_rare_class(frequencies) or frequencies.min() == 0:
        return np.zeros(scores.shape[1])
    rarity = -np.log(frequencies)
    rarity = rarity[1:] - rarity[:1] if classes == 2 else rarity - rarity.mean()
    expected = softmax(class_logits(scores), axis=1) * weights[:, None]  # (texts, classes)
    tried = [_expected_quality(predicted_classes(scores + part * rarity), expected) for part in OFFSET_FACTORS]
    accuracy, f1 = np.array(tried).T
    return np.asarray(
        OFFSET_FACTORS[np.where(accuracy >= accuracy.max() - MAX_ACCURACY_LOSS, f1, -1).argmax()] * rarity
    )


def _expected_quality(predictions: IntArray, expected: FloatArray) -> tuple[float, float]:
    """Return accuracy and macro F1 of (texts,) predictions, given (texts, classes) probabilities."""
    classes = expected.shape[1]
    table = np.stack([np.bincount(predictions, column, classes) for column in expected.T])  # (classes, predictions)
    right, sizes = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
    return float(right.sum() / table.sum()), float(np.mean(2 * right / np.maximum(sizes, 1e-12)))
