"""How faithful explanations are: erase the words that they name and see what becomes of
the prediction.

The measures are those of ERASER (DeYoung et al., ACL 2020). With p the probability of
the class that is predicted for the whole text, and k each of 1, 5, 10, 20 and 50 per
cent of its words,

    comprehensiveness = mean over k of p(text) - p(text without the top k)
    sufficiency       = mean over k of p(text) - p(top k alone)

A high comprehensiveness means that those words were needed, and a low sufficiency that
they are enough.
"""

import re
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardmax._errors import InputError, ParameterError
from hardmax._types import BoolArray, FloatArray
from hardmax._validation import check_count
from hardmax.text.classifier import HardmaxClassifier, check_texts
from hardmax.text.files import read_parquet
from studies.explainers import EXPLAINERS, Question, check_methods

BINS = (1, 5, 10, 20, 50)  # per cent of the words
TOP = 10  # per cent of the words that two runs are compared by
SUMS_TO_LOGIT = (
    "hardmax",
    "hardmax-even",
    "integrated-gradients",
    "gradient-times-input",
)
SUMS_TO_PROBABILITY = ("shap-partition", "shap-permutation")

Progress = Callable[[int, int], object]
Row = dict[str, Any]


class Rationale(NamedTuple):
    """A text, its class, and which white-space tokens a person marked as the reason for
    that class.
    """

    text: str
    label: int  # place of the class in `classes_`: 0 for negative and 1 for positive
    spans: tuple[
        tuple[int, int], ...
    ]  # (start, end) token positions; the end is not part of it


class Comparison(NamedTuple):
    """What `compare` found, with None for what has no number.

    A row has for its method: comprehensiveness; sufficiency; seconds (a text);
    same_again (part of its top 10 % of words that a run with another seed names as
    well); exact (the largest error of the sum that it promises: bias and words make the
    logit, or with SHAP the probability); speed (how many times faster than LIME).
    """

    texts: int  # how many were explained; texts without a word are left out
    rows: list[Row]
    agreement: list[Row]  # auprc and f1, see `agreement`; empty without rationales


def compare(
    classifier: HardmaxClassifier,
    texts: Sequence[str],
    *,
    methods: Collection[str] | None = None,
    seed: int = 0,
    samples: int = 5000,
    again: int = 20,
    progress: Progress = lambda done, total: None,
    rationales: Sequence[Rationale] | None = None,
) -> Comparison:
    """Compare methods of explanation on the predictions of a classifier.

    Each method explains the same texts, one at a time, and all erased texts go through
    the same batched predictions.

    Parameters
    ----------
    methods : names, optional
        Some of `EXPLAINERS`; default: all of them.
    samples, again : int
        Erased texts that LIME looks at to explain one, and how many texts are explained
        again, with another seed.
    progress : callable
        Called after each explanation with how many are done, and how many there are in
        all.
    rationales : sequence of Rationale, optional
        Texts whose reasons people have marked; see `read_rationales`.

    Examples
    --------
    >>> from hardmax import HardmaxClassifier
    >>> from hardmax.text.datasets import reviews
    >>> corpus = reviews(400, seed=1)
    >>> classifier = HardmaxClassifier(n_heads=4, epochs=10).fit(corpus.texts, corpus.labels)
    >>> ours, chance = compare(classifier, corpus.texts[:20], methods=["hardmax", "random"]).rows
    >>> ours["comprehensiveness"] > chance["comprehensiveness"], ours["sufficiency"] < chance["sufficiency"]
    (True, True)
    """
    names = check_methods(methods)
    seed, again = (
        check_count(seed, "seed", least=0),
        check_count(again, "again", least=0),
    )
    samples = check_count(samples, "samples", least=2)
    questions = [
        Question.of_prediction(classifier, text, samples=samples)
        for text in check_texts(texts)
    ]
    questions = [question for question in questions if question.words]
    if not questions:
        raise ParameterError(
            "texts", "hold a text with words", "none", "Check the column of texts."
        )
    people = []
    if rationales is not None:
        people = agreement(
            classifier,
            rationales,
            methods=names,
            seed=seed,
            samples=samples,
            progress=progress,
        )
    done, total = count(1), len(names) * (len(questions) + len(questions[:again]))
    rows = [
        _row(name, questions, seed, again, lambda: progress(next(done), total))
        for name in names
    ]
    slowest = next((row["seconds"] for row in rows if row["method"] == "lime"), None)
    rows = [
        row | {"speed": None if slowest is None else slowest / row["seconds"]}
        for row in rows
    ]
    return Comparison(len(questions), rows, people)


def agreement(
    classifier: HardmaxClassifier,
    rationales: Sequence[Rationale],
    *,
    methods: Collection[str] | None = None,
    seed: int = 0,
    samples: int = 5000,
    progress: Progress = lambda done, total: None,
) -> list[Row]:
    """How well each method finds the words that people marked.

    Words are scored towards the class that the text truly has: the marks are reasons
    for it, whatever the classifier says. Tokens in which the classifier sees no word do
    not count, and texts without a marked word are left out. A row has auprc, the area
    under precision over recall of the words of a text, averaged over texts, and f1, of
    as many top words as people marked in that text, so that precision, recall and F1
    are one number.
    """
    from sklearn.metrics import auc, precision_recall_curve

    names, places = check_methods(methods), range(len(classifier.classes_))
    wrong = [each.label for each in rationales if each.label not in places]
    if wrong:
        must = (
            f"The label of a rationale must be the place of a class, 0 to {places[-1]}."
        )
        raise InputError(
            f"{must} Got {wrong[0]!r}. Number them in the order of `classes_`."
        )
    marked = [(each, marked_words(classifier, each)) for each in rationales]
    marked = [(each, human) for each, human in marked if human.any()]
    if not marked:
        raise ParameterError(
            "rationales", "hold a text with a marked word", "none", "Check the spans."
        )
    questions = [
        Question(classifier, each.text, each.label, samples) for each, _ in marked
    ]
    done, rows = count(1), []
    for name in names:
        areas, hits = [], []
        for question, (_, human) in zip(questions, marked, strict=True):
            scores, many = EXPLAINERS[name](question, seed), int(human.sum())
            precision, recall, _ = precision_recall_curve(human, scores)
            areas.append(auc(recall, precision))
            hits.append((top_words(scores, many) & human).sum() / many)
            progress(next(done), len(names) * len(marked))
        rows.append(
            {"method": name, "auprc": float(np.mean(areas)), "f1": float(np.mean(hits))}
        )
    return rows


def read_rationales(path: str | PathLike[str]) -> list[Rationale]:
    """Read a Parquet file with columns text, label (0 or 1) and spans (a list of
    [start, end) token positions).
    """
    frame = read_parquet(Path(path))
    missing = {"text", "label", "spans"} - set(frame)
    if missing:
        must, advice = (
            "have the columns text, label and spans",
            f"Add {', '.join(sorted(missing))}.",
        )
        raise ParameterError(path, must, ", ".join(frame), advice)
    spans = [found if isinstance(found, list) else [] for found in frame["spans"]]
    rows = zip(frame["text"], frame["label"], spans, strict=True)
    return [
        Rationale(text, label, tuple((a, b) for a, b in found))
        for text, label, found in rows
    ]


def marked_words(classifier: HardmaxClassifier, rationale: Rationale) -> BoolArray:
    """(words,) which words of a text begin in a white-space token that was marked."""
    words = classifier.model_.vocabulary.splitter.spans(rationale.text)
    starts = [match.start() for match in re.finditer(r"\S+", rationale.text)]
    marked = np.zeros(len(starts), bool)
    for start, end in rationale.spans:
        marked[start:end] = True
    return marked[
        np.searchsorted(starts, [word.start for word in words], side="right") - 1
    ]


def erasure(question: Question, scores: FloatArray) -> tuple[float, float]:
    """Comprehensiveness and sufficiency of one explanation. A bin has at least one
    word: shares are rounded up.
    """
    n = len(scores)
    top = np.stack([top_words(scores, -(-n * share // 100)) for share in BINS])
    full, *others = question.probabilities(
        np.concatenate([np.ones((1, n), bool), ~top, top])
    ).tolist()
    return full - float(np.mean(others[: len(BINS)])), full - float(
        np.mean(others[len(BINS) :])
    )


def top_words(scores: FloatArray, count: int) -> BoolArray:
    """(words,) True for the `count` words that score highest; the earlier ones where
    they tie.
    """
    top = np.zeros(len(scores), bool)
    top[np.argsort(-scores, kind="stable")[:count]] = True
    return top


def _row(
    name: str,
    questions: list[Question],
    seed: int,
    again: int,
    tick: Callable[[], object],
) -> Row:
    explainer = EXPLAINERS[name]
    explainer(
        questions[0], seed
    )  # imports and compiling at the first use are not the method's own time
    scores, seconds, overlaps = [], [], []
    for question in questions:
        start = time.perf_counter()
        scores.append(explainer(question, seed))
        seconds.append(time.perf_counter() - start)
        tick()
    for question, first in zip(questions[:again], scores, strict=False):
        many = -(-len(first) * TOP // 100)
        overlaps.append(
            (
                top_words(first, many) & top_words(explainer(question, seed + 1), many)
            ).sum()
            / many
        )
        tick()
    pairs = list(zip(questions, scores, strict=True))
    measured = np.mean([erasure(*pair) for pair in pairs], axis=0)
    gaps = [
        _gap(name, *pair)
        for pair in pairs
        if name in SUMS_TO_LOGIT + SUMS_TO_PROBABILITY
    ]
    return {
        "method": name,
        "comprehensiveness": float(measured[0]),
        "sufficiency": float(measured[1]),
        "seconds": float(np.mean(seconds)),
        "same_again": float(np.mean(overlaps)) if overlaps else None,
        "exact": max(gaps, default=None),
    }


def _gap(name: str, question: Question, scores: FloatArray) -> float:
    """By how much the words of a text miss the sum that a method promises."""
    all_and_none = np.repeat([[True], [False]], len(scores), axis=1)
    if name in SUMS_TO_LOGIT:
        full, empty = question.towards(question.logits(all_and_none))
    else:
        full, empty = question.probabilities(all_and_none)
    return float(abs(empty + scores.sum() - full))
