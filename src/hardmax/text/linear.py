"""Linear models of a classifier's tokens, found by cross-validation: where a hardmax model may start.

Four of them are added: logistic regression on tokens that weigh more where they are rare (idf), once held back and
once hardly, the same on tokens that weigh more where classes differ, and naive Bayes. The first is best on long texts
and uneven classes, the second where words leave no doubt, the last on few and short texts. How much each counts is
fitted to the logits of texts that were held out, so the sum is calibrated.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags_array
from scipy.special import log_softmax

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.text.splits import folds
from hardmax.text.vocabulary import Data, Encoded

EVEN = 0.5  # part of an even share from which on no class is rare
POWER = 0.5  # sums of n tokens grow as its square root where these are independent
STRENGTHS = {
    "rare": 10.0,
    "firm": 300.0,
    "telling": 3.0,
}  # C of logistic regression, where a text has length 1 on average
KINDS = (*STRENGTHS, "bayes")
SMOOTH = 0.5  # telling tokens weigh this much more than their |log ratio|
EXPECTED, BELIEF = 0.5, 3.0  # mean |logit| that is expected before any text is seen, and how firmly


class Linear(NamedTuple):
    """logits = bias + n^POWER mean of the tokens' weights, for texts of n tokens."""

    weights: FloatArray  # (outputs, tokens)
    bias: FloatArray  # (outputs,)


class Fold(NamedTuple):
    """Texts that were held out, without the tokens that no other text has, and a linear model of the others."""

    held: IntArray
    texts: csr_matrix  # (held, tokens)
    linear: Linear


def counted(texts: Encoded, tokens: int) -> csr_matrix:
    """(texts, tokens) how often each token counts."""
    return csr_matrix((texts.counts.astype(np.float64), texts.ids, texts.starts), (len(texts), tokens))


def encoded(texts: csr_matrix) -> Encoded:
    """The reverse of `counted`, tokens in the order of their numbers."""
    return Encoded(texts.indices.astype(np.int64), texts.indptr.astype(np.int64), texts.data.astype(np.int64))


def logits(linear: Linear, texts: csr_matrix) -> FloatArray:
    """(texts, outputs)"""
    return np.asarray(_pooled(texts) @ linear.weights.T + linear.bias)


def fit_linear(
    data: Data, tokens: int, classes: int, weights: FloatArray, *, seed: int, step: Callable[[], object]
) -> tuple[Linear, list[Fold]]:
    """A linear model of texts that count as `weights` say, and the same of all but a fold of them, for each fold.

    Rows of one of `data.groups` share a fold. `step` is called after each of `steps(data.labels, data.groups)` parts of
    the work.
    """
    texts, labels = counted(data.texts, tokens), data.labels
    found, out_of_fold = [], np.zeros((len(KINDS), len(labels), classes))
    for held, learned in folds(labels, seed, data.groups):
        known = np.zeros(tokens)
        known[texts[learned].indices] = 1  # in use a text has tokens that are not known, too
        rest = csr_matrix(texts[held] @ diags_array(known))
        rest.eliminate_zeros()
        models = []
        for kind in KINDS:
            models.append(_fitted(kind, texts[learned], labels[learned], weights[learned], classes))
            step()
        out_of_fold[:, held] = [both(logits(model, rest)) for model in models]
        found.append((held, rest, models))
    seen = np.concatenate([np.empty(0, np.intp), *(held for held, *_ in found)])
    amounts, bias = _mixture(out_of_fold, labels, weights, seen)
    whole = []
    for kind in KINDS:
        whole.append(_fitted(kind, texts, labels, weights, classes))
        step()
    return _mixed(whole, amounts, bias), [Fold(held, rest, _mixed(m, amounts, bias)) for held, rest, m in found]


def steps(labels: IntArray, groups: IntArray | None = None) -> int:
    """Return how many parts of work `fit_linear` has."""
    return len(KINDS) * (1 + sum(1 for _ in folds(labels, 0, groups)))


def has_rare(shares: FloatArray) -> bool:
    """Whether one of (classes,) shares of the texts is small."""
    return bool(shares.min() < EVEN / len(shares))


def both(scores: FloatArray) -> FloatArray:
    """(texts, classes) logits from (texts, outputs): with two classes the first has 0."""
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores


def loss(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Mean cross-entropy of (texts, classes) logits."""
    right = log_softmax(scores, axis=1)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())


def _pooled(texts: csr_matrix) -> csr_matrix:
    n = np.maximum(1, np.asarray(texts.sum(axis=1)).ravel())
    return csr_matrix(diags_array(n ** (POWER - 1)) @ texts)


def _fitted(kind: str, texts: csr_matrix, labels: IntArray, weights: FloatArray, classes: int) -> Linear:
    """One of the linear models, of tokens as they are pooled."""
    from sklearn.linear_model import LogisticRegression

    outputs = range(1, 2) if classes == 2 else range(classes)
    ratio = np.stack([_log_ratio(texts, labels == c, weights) for c in outputs])  # (outputs, tokens)
    if kind == "bayes":
        return Linear(ratio, np.zeros(len(ratio)))
    in_texts = np.bincount(texts.indices, minlength=texts.shape[1])
    loud = 1 + np.log((1 + len(labels)) / (1 + in_texts)) if kind != "telling" else SMOOTH + np.abs(ratio).max(axis=0)
    features = csr_matrix(_pooled(texts) @ diags_array(loud))
    length = max(float((features.data**2).sum()) / len(labels), 1e-12)  # mean of the squares
    model = LogisticRegression(C=STRENGTHS[kind] / length, max_iter=500, tol=1e-3)
    model.fit(features, labels, weights)
    return Linear(model.coef_ * loud, model.intercept_)


def _log_ratio(texts: csr_matrix, inside: BoolArray, weights: FloatArray) -> FloatArray:
    """(tokens,) log of how much more frequent each is inside a class, with one added to every count.

    Tokens that no text has say nothing.
    """
    there = texts.sign()
    p, q = (1 + there.T @ (weights * side) for side in (inside, ~inside))
    return np.where(np.bincount(texts.indices, minlength=texts.shape[1]) > 0, np.log(p / p.sum() * (q.sum() / q)), 0.0)


def _mixture(
    scores: FloatArray, labels: IntArray, weights: FloatArray, seen: IntArray
) -> tuple[FloatArray, FloatArray]:
    """What (kinds, texts, classes) logits of texts `seen` are multiplied with, and what is added, for the least loss.

    Where texts are few, the belief keeps it from trusting one of them alone, or none.
    """
    kinds, _, classes = scores.shape
    believed = EXPECTED / 2 / kinds
    if not len(seen):
        return np.full(kinds, believed), np.zeros(1 if classes == 2 else classes)
    present, labels = np.unique(labels[seen], return_inverse=True)  # of a class that is never held out nothing is known
    scores, weights, known = scores[:, seen][..., present], weights[seen], len(present)
    scores = scores - scores.mean(axis=2, keepdims=True)
    middle = scores.mean(axis=1, keepdims=True)  # where classes are uneven it is far from 0, and tells nothing
    size = np.maximum(np.abs(scores - middle).mean(axis=(1, 2)), 1e-12)

    def cost(x: FloatArray) -> float:
        amounts, bias = x[:kinds], np.append(0.0, x[kinds:])
        total = np.tensordot(amounts / size, scores - middle, 1) + bias
        return loss(total, labels, weights) * len(labels) + BELIEF * float(((amounts - believed) ** 2).sum())

    begin = np.append(np.full(kinds, believed), np.zeros(known - 1))
    bounds = [(believed / 20, None)] * kinds + [(None, None)] * (known - 1)
    found = minimize(cost, begin, method="L-BFGS-B", bounds=bounds).x
    amounts, bias = found[:kinds] / size, np.append(0.0, found[kinds:])
    bias = bias - np.tensordot(amounts, middle[:, 0], 1)
    if known < classes:
        fitted, bias = bias - bias.mean(), np.zeros(classes)
        bias[present] = fitted
    return amounts, bias[1:] - bias[:1] if classes == 2 else bias


def _mixed(models: list[Linear], amounts: FloatArray, bias: FloatArray) -> Linear:
    """Their sum; with more than two classes all that they add to every class alike is left out."""
    weights = sum(a * model.weights for a, model in zip(amounts, models, strict=True))
    bias = bias + sum(a * model.bias for a, model in zip(amounts, models, strict=True))
    if len(bias) == 1:
        return Linear(weights, bias)
    return Linear(weights - weights.mean(axis=0), bias - bias.mean())
