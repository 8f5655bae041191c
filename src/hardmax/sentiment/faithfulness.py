"""How faithful explanations are: erase the words that they name and see what becomes of the prediction.

The measures are those of ERASER (DeYoung et al., ACL 2020). With p the probability of the class that is predicted for
the whole text, and k each of 1, 5, 10, 20 and 50 per cent of its words,

    comprehensiveness = mean over k of p(text) - p(text without the top k)     high: those words were needed
    sufficiency       = mean over k of p(text) - p(top k alone)                low: those words are enough
"""

import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._checks import check_count
from hardmax._errors import InputError, MissingExtra, ParameterError
from hardmax._types import BoolArray, FloatArray
from hardmax.sentiment.classifier import HardmaxClassifier
from hardmax.sentiment.explainers import EXPLAINERS, Question, check_methods
from hardmax.sentiment.inputs import check_texts

BINS = (1, 5, 10, 20, 50)  # per cent of the words
TOP = 10  # per cent of the words that two runs are compared by
SUMS_TO_LOGIT = ("hardmax", "hardmax-even", "integrated-gradients", "gradient-times-input")
SUMS_TO_PROBABILITY = ("shap-partition", "shap-permutation")
FORMATS = {"seconds": ".2g", "speed": ",.0f", "exact": ".0e"}  # other numbers have three places

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rationale:
    """A text, its class, and which white-space tokens a person marked as the reason for that class.

    Parameters
    ----------
    text : str
    label : int
        Place of the class in `classes_`: 0 for negative and 1 for positive.
    spans : tuple of (start, end)
        Token positions; `end` is not part of it.
    """

    text: str
    label: int
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    texts : int
        How many were explained; texts without a word are left out.
    rows : list of dict
        For each method: comprehensiveness; sufficiency; seconds (a text); same_again (part of its top 10 % of words
        that a run with another seed names as well); exact (the largest error of the sum that a method promises: bias
        and words make the logit, or with SHAP the probability; NaN where none is promised); speed (how many times
        faster than LIME; NaN without it).
    agreement : list of dict
        For each method auprc and f1, see `agreement`; empty without rationales.
    """

    texts: int
    rows: list[dict[str, Any]]
    agreement: list[dict[str, Any]]

    def table(self) -> str:
        """Markdown: a table of `rows`, and one of `agreement` where there is one."""
        return "\n\n".join(_markdown(rows) for rows in (self.rows, self.agreement) if rows)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, with None for NaN, as JSON has none."""
        return {"texts": self.texts, "rows": _plain(self.rows), "agreement": _plain(self.agreement)}


def compare(
    classifier: HardmaxClassifier,
    texts: Sequence[str],
    *,
    methods: Collection[str] | None = None,
    seed: int = 0,
    samples: int = 5000,
    again: int = 20,
    progress: Progress | None = None,
    rationales: Sequence[Rationale] | None = None,
) -> Comparison:
    """Compare methods of explanation on the predictions of a classifier.

    Each method explains the same texts, one at a time, and all erased texts go through the same batched predictions.

    Parameters
    ----------
    classifier : HardmaxClassifier
        Trained.
    texts : sequence of str
    methods : names, optional
        Some of `EXPLAINERS`; all of them unless said.
    seed : int
    samples : int
        Erased texts that LIME looks at to explain one; 5000 is its default.
    again : int
        How many of the texts are explained a second time, with another seed.
    progress : callable, optional
        Called after each explanation with how many are done, and how many there are in all.
    rationales : sequence of Rationale, optional
        Texts whose reasons people have marked; see `read_rationales`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from hardmax import HardmaxClassifier
    >>> from hardmax.sentiment.corpus import reviews
    >>> corpus = reviews(400, seed=1)
    >>> classifier = HardmaxClassifier(n_heads=4, epochs=10).fit(corpus.texts, corpus.labels)
    >>> ours, chance = compare(classifier, corpus.texts[:20], methods=["hardmax", "random"]).rows
    >>> ours["comprehensiveness"] > chance["comprehensiveness"], ours["sufficiency"] < chance["sufficiency"]
    (True, True)
    """
    names = check_methods(methods)
    seed, again = check_count(seed, "seed", least=0), check_count(again, "again", least=0)
    samples = check_count(samples, "samples", least=2)
    questions = [Question.of_prediction(classifier, text, samples=samples) for text in check_texts(texts)]
    questions = [question for question in questions if question.words]
    if not questions:
        raise ParameterError("texts", "hold a text with words", "none", "Check the column of texts.")
    marked = [] if rationales is None else _marked(classifier, rationales, samples)
    told = _counter(progress, len(names) * (len(questions) + len(questions[:again]) + len(marked)))
    rows = [_row(name, questions, seed, again, told) for name in names]
    slowest = next((row["seconds"] for row in rows if row["method"] == "lime"), math.nan)
    rows = [row | {"speed": slowest / row["seconds"]} for row in rows]
    return Comparison(len(questions), rows, [_agreement_row(name, marked, seed, told) for name in names if marked])


def agreement(
    classifier: HardmaxClassifier,
    rationales: Sequence[Rationale],
    *,
    methods: Collection[str] | None = None,
    seed: int = 0,
    samples: int = 5000,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """How well each method finds the words that people marked.

    Words are scored towards the class that the text truly has: the marks are reasons for it, whatever the classifier
    says. Tokens in which the classifier sees no word do not count, and texts without a marked word are left out.

    Returns
    -------
    list of dict
        method; auprc (area under precision over recall, of the words of a text, averaged over texts); f1 (of as many
        top words as people marked in that text, so that precision, recall and F1 are one number).
    """
    names, marked = check_methods(methods), _marked(classifier, rationales, samples)
    told = _counter(progress, len(names) * len(marked))
    return [_agreement_row(name, marked, seed, told) for name in names]


def read_rationales(path: str | PathLike[str]) -> list[Rationale]:
    """Read a Parquet file with columns text, label (0 or 1) and spans (a list of [start, end) token positions)."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("`read_rationales`", "pyarrow", "text") from None
    if not Path(path).is_file():
        raise FileNotFoundError(f"`{path}` must be a Parquet file. There is none. Check the path.")
    try:
        table = parquet.read_table(Path(path))
    except (OSError, ValueError):
        raise InputError(f"`{path}` must be a Parquet file. It is something else, or broken. Check the path.") from None
    missing = {"text", "label", "spans"} - set(table.column_names)
    if missing:
        raise ParameterError(
            path,
            "have the columns text, label and spans",
            ", ".join(table.column_names),
            f"Add {', '.join(sorted(missing))}.",
        )
    rows = table.select(["text", "label", "spans"]).to_pylist()
    return [Rationale(row["text"], row["label"], tuple((a, b) for a, b in row["spans"] or ())) for row in rows]


def marked_words(classifier: HardmaxClassifier, rationale: Rationale) -> BoolArray:
    """(words,) which words of a text begin in a white-space token that was marked."""
    words = classifier.model_.vocabulary.splitter.spans(rationale.text)
    starts = [match.start() for match in re.finditer(r"\S+", rationale.text)]
    marked = np.zeros(len(starts), bool)
    for start, end in rationale.spans:
        marked[start:end] = True
    return marked[np.searchsorted(starts, [word.start for word in words], side="right") - 1]


def erasure(question: Question, scores: FloatArray) -> tuple[float, float]:
    """Comprehensiveness and sufficiency of one explanation. A bin has at least one word: shares are rounded up."""
    n = len(scores)
    top = np.stack([top_words(scores, -(-n * share // 100)) for share in BINS])
    full, *others = question.probabilities(np.concatenate([np.ones((1, n), bool), ~top, top])).tolist()
    return full - float(np.mean(others[: len(BINS)])), full - float(np.mean(others[len(BINS) :]))


def top_words(scores: FloatArray, count: int) -> BoolArray:
    """(words,) True for the `count` words that score highest; the earlier ones where they tie."""
    chosen = np.zeros(len(scores), bool)
    chosen[np.argsort(-scores, kind="stable")[:count]] = True
    return chosen


def _row(name: str, questions: list[Question], seed: int, again: int, told: Callable[[], None]) -> dict[str, Any]:
    """What is measured of one method."""
    EXPLAINERS[name](questions[0], seed)  # imports and compiling at the first use are not the method's own time
    scores, seconds = [], []
    for question in questions:
        start = time.perf_counter()
        scores.append(EXPLAINERS[name](question, seed))
        seconds.append(time.perf_counter() - start)
        told()
    measured = np.mean([erasure(*pair) for pair in zip(questions, scores, strict=True)], axis=0)
    return {
        "method": name,
        "comprehensiveness": float(measured[0]),
        "sufficiency": float(measured[1]),
        "seconds": float(np.mean(seconds)),
        "same_again": _same_again(name, questions[:again], scores[:again], seed + 1, told),
        "exact": max(_gap(name, *pair) for pair in zip(questions, scores, strict=True)),
    }


def _same_again(
    name: str, questions: list[Question], scores: list[FloatArray], seed: int, told: Callable[[], None]
) -> float:
    """Part of the top words of each text that another seed names as well, averaged."""
    overlaps = []
    for question, first in zip(questions, scores, strict=True):
        count = -(-len(first) * TOP // 100)
        both = top_words(first, count) & top_words(EXPLAINERS[name](question, seed), count)
        overlaps.append(both.sum() / count)
        told()
    return float(np.mean(overlaps)) if overlaps else math.nan


def _gap(name: str, question: Question, scores: FloatArray) -> float:
    """By how much the words of a text miss the sum that a method promises; NaN where it promises none."""
    all_and_none = np.repeat([[True], [False]], len(scores), axis=1)
    if name in SUMS_TO_LOGIT:
        full, empty = question.towards(question.logits(all_and_none))
    elif name in SUMS_TO_PROBABILITY:
        full, empty = question.probabilities(all_and_none)
    else:
        return math.nan
    return float(abs(empty + scores.sum() - full))


def _marked(
    classifier: HardmaxClassifier, rationales: Sequence[Rationale], samples: int
) -> list[tuple[Question, BoolArray]]:
    """Texts that have marked words, and which those are."""
    pairs = [
        (Question(classifier, each.text, _place(classifier, each), samples), marked_words(classifier, each))
        for each in rationales
    ]
    found = [pair for pair in pairs if pair[1].any()]
    if not found:
        raise ParameterError("rationales", "hold a text with a marked word", "none", "Check the spans.")
    return found


def _place(classifier: HardmaxClassifier, rationale: Rationale) -> int:
    if rationale.label not in range(len(classifier.classes_)):
        raise InputError(
            f"The label of a rationale must be the place of a class, 0 to {len(classifier.classes_) - 1}. "
            f"Got {rationale.label!r}. Number them in the order of `classes_`."
        )
    return rationale.label


def _agreement_row(
    name: str, marked: list[tuple[Question, BoolArray]], seed: int, told: Callable[[], None]
) -> dict[str, Any]:
    from sklearn.metrics import auc, precision_recall_curve

    areas, hits = [], []
    for question, human in marked:
        scores, count = EXPLAINERS[name](question, seed), int(human.sum())
        precision, recall, _ = precision_recall_curve(human, scores)
        areas.append(auc(recall, precision))
        hits.append((top_words(scores, count) & human).sum() / count)
        told()
    return {"method": name, "auprc": float(np.mean(areas)), "f1": float(np.mean(hits))}


def _counter(progress: Progress | None, total: int) -> Callable[[], None]:
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return told


def _markdown(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = [names, ["---", *["---:"] * (len(names) - 1)]]
    lines += [[_written(name, row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _written(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else format(value, FORMATS.get(name, ".3f"))


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]
