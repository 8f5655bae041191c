"""A hardmax model that starts where a linear one ends, and needs no training after that.

The linear score of a token is its first coordinate, dealt out to the heads at random, so that in each of them other
telling tokens lead. The other coordinates are random and about as long, so that no two tokens tie. With a small alpha
the model is the linear one; with a larger one its leaders speak louder than the others. Cross-validation chooses
alpha, and how far rare classes are lifted.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import softmax

from hardmax._types import FloatArray, IntArray
from hardmax.text.linear import POWER, Fold, Linear, both, encoded, fit_linear, has_rare, logits, loss, steps
from hardmax.text.model import Epoch, contributions, decided, sums_by_text
from hardmax.text.record import Report
from hardmax.text.settings import Settings
from hardmax.text.vocabulary import Data
from hardmax.text.weights import Weights

PARTS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of the alpha that was asked for
TRIED, MANY_TRIED = 400, 4000  # texts with which alpha is chosen, and with which a single head is measured
BEND, REACH = 0.7, 0.05  # of the arc on which a single head in the plane has its words
FAINT = 0.05  # least length of the coordinates that are not read, where a typical score is 1
LIFTS = np.linspace(0, 1, 21)  # 0 leaves classes as rare as they are, 1 undoes that
COST = 0.015  # of accuracy that lifting rare classes may cost


def fit_start(
    data: Data, tokens: int, classes: int, settings: Settings, weights: FloatArray, *, report: Report
) -> tuple[Weights, Epoch]:
    """A model, and its loss and accuracy in cross-validation. Texts count as `weights` say, which are 1 on average."""
    done, total, value = 0, steps(data.labels, data.groups) + len(PARTS), float(np.log(classes))

    def step() -> None:
        nonlocal done
        done += 1
        report(done, total, value, None)

    linear, folds = fit_linear(data, tokens, classes, weights, seed=settings.random_state, step=step)
    if not folds:  # a text for each class: nothing can be held out
        return as_heads(linear, settings), Epoch(0, value, kept=True)
    held = np.concatenate([fold.held for fold in folds])
    covered = weights[held].sum() / weights.sum()
    labels, weights = data.labels[held], weights[held]
    scores = np.concatenate([logits(fold.linear, fold.texts) for fold in folds])
    value = loss(both(scores), labels, weights)
    alpha, volume, moved, right = _chosen_alpha(folds, data.labels, settings, step)
    lift = lift_of(scores, labels, weights)
    if is_drawn(settings):  # movement changes what it answers
        value = moved
    else:
        right = float(np.average(decided(scores + lift) == labels, weights=weights))
    epoch = Epoch(0, value, value, float(right * covered), kept=True)  # rows that are never held out count as errors
    report(total, total, value, epoch)
    model = as_heads(Linear(linear.weights * volume, linear.bias), settings, alpha)
    return (replace(model, bias=model.bias + lift, lift=lift) if lift.any() else model), epoch


def as_heads(linear: Linear, settings: Settings, part: float = PARTS[-1]) -> Weights:
    """The heads of a linear model, with a part of the alpha that was asked for.

    With two classes every head reads the one score. With more each class has heads of its own, as far as there are
    enough; else heads read the directions in which scores differ most.
    """
    heads, d, random = settings.n_heads, settings.d, np.random.default_rng([settings.random_state, 40_000])
    scores, axes = linear.weights, np.eye(len(linear.bias))  # (outputs, tokens), (outputs, scores)
    if len(axes) > heads:
        axes = np.linalg.eigh(scores @ scores.T)[1][:, ::-1][:, :heads]
        scores = axes.T @ scores
    read = np.arange(heads) % len(scores)  # which score each head reads
    unit = np.maximum(np.abs(scores).mean(axis=1), 1e-12)
    parts = random.exponential(size=(scores.shape[1], heads))
    first, decoder = np.empty(parts.shape), np.zeros((len(axes), heads, d))
    for r in range(len(scores)):
        some = read == r
        of_heads = parts[:, some] / parts[:, some].mean(axis=1, keepdims=True)
        first[:, some] = of_heads * (scores[r] / unit[r])[:, None]
        decoder[:, some, 0] = (axes[:, r] * unit[r] / some.sum())[:, None]
    others = random.normal(size=(*parts.shape, d - 1)) * np.maximum(np.abs(first), FAINT)[..., None]
    embedding = np.concatenate([first[..., None], others], axis=2)
    if is_drawn(settings):
        embedding[:, 0] = on_arc(scores[0] / unit[0])
    embedding = embedding.astype(np.float32)
    alpha = np.full(heads, part * settings.alpha)
    return Weights(embedding, alpha, None, decoder, linear.bias, settings.layers, POWER)


def is_drawn(settings: Settings) -> bool:
    """Whether a model has one head in the plane, made to be looked at."""
    return settings.n_heads == 1 and settings.d == 2


def on_arc(scores: FloatArray) -> FloatArray:
    """(tokens, 2) places whose direction is the score of a token, from straight up for 0 to the sides for large ones.

    A word then follows one that says about the same, and words of no feeling those that say nothing either, so that
    little is lost when all gather. Telling words stand farther out, and so lead.
    """
    angle, reach = np.arctan(BEND * scores), 1 + REACH * np.abs(scores)
    return np.stack([reach * np.sin(angle), reach * np.cos(angle)], axis=1)


def _chosen_alpha(
    folds: Sequence[Fold], labels: IntArray, settings: Settings, step: Callable[[], object]
) -> tuple[float, float, float, float]:
    """The part of alpha with the least loss on texts that were held out, and what their logits are multiplied with.

    And that loss, and how many of these texts are answered rightly.

    Leaders are the loudest tokens, so the more others move, the larger the logits are: the factor undoes that.
    """
    tried = MANY_TRIED if is_drawn(settings) else TRIED
    some = [_some(fold, tried // len(folds)) for fold in folds]
    texts = [encoded(fold.texts) for fold in some]
    models = [as_heads(fold.linear, settings) for fold in some]
    bias = np.concatenate([np.repeat(fold.linear.bias[None], len(fold.held), axis=0) for fold in some])
    still = np.concatenate([logits(fold.linear, fold.texts) for fold in some]) - bias
    right = labels[np.concatenate([fold.held for fold in some])]
    found = []
    for part in PARTS[:1] if is_drawn(settings) else PARTS:  # what is drawn shall gather as it was asked to
        alpha = np.full(settings.n_heads, part * settings.alpha)
        moved = np.concatenate(
            [sums_by_text(contributions(replace(m, alpha=alpha), t), t) for m, t in zip(models, texts, strict=True)]
        )
        volume = float((moved * still).sum() / max((moved**2).sum(), 1e-12))
        answered = bias + volume * moved
        found.append(
            (
                loss(both(answered), right, np.ones(len(right))),
                part,
                volume,
                float((decided(answered) == right).mean()),
            )
        )
        step()
    least, part, volume, share = min(found, key=lambda each: each[0])
    return part, volume, least, share


def _some(fold: Fold, count: int) -> Fold:
    """The same fold with so many of its texts, evenly from the whole: a file may be sorted by label."""
    places = np.arange(0, len(fold.held), -(-len(fold.held) // count))
    return fold._replace(held=fold.held[places], texts=fold.texts[places])


def lift_of(scores: FloatArray, labels: IntArray, weights: FloatArray) -> FloatArray:
    """(outputs,) what to add to logits, so that rare classes are found: for the largest mean of the classes' F1.

    It is a part of -log of how frequent each class is, and may cost little accuracy. None where no class is rare. Both
    are what the probabilities expect, which vary less than counts of the few texts of a rare class.
    """
    classes = max(2, scores.shape[1])
    frequent = np.bincount(labels, weights, classes) / weights.sum()
    if not has_rare(frequent) or frequent.min() == 0:
        return np.zeros(scores.shape[1])
    rare = -np.log(frequent)
    rare = rare[1:] - rare[:1] if classes == 2 else rare - rare.mean()
    expected = softmax(both(scores), axis=1) * weights[:, None]  # (texts, classes)
    accuracy, f1 = np.array([_quality(decided(scores + part * rare), expected) for part in LIFTS]).T
    return np.asarray(LIFTS[np.where(accuracy >= accuracy.max() - COST, f1, -1).argmax()] * rare)


def _quality(answers: IntArray, expected: FloatArray) -> tuple[float, float]:
    """Accuracy, and the mean over classes of F1, of (texts,) answers where (texts, classes) are expected."""
    classes = expected.shape[1]
    table = np.stack([np.bincount(answers, column, classes) for column in expected.T])  # (classes, answers)
    right, sizes = np.diag(table), table.sum(axis=0) + table.sum(axis=1)
    return float(right.sum() / table.sum()), float(np.mean(2 * right / np.maximum(sizes, 1e-12)))
