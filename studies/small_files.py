"""The study "small": defaults against TF-IDF with logistic regression and NB-SVM, on
files of every size.

Texts are drawn from the training reviews of IMDb: whole reviews, and sentences with the
label of their review; two classes, and ratings 1, 4, 7 and 10 as four; as many of each
class, and nine in ten of the first. All are measured on texts of the test reviews, so
nothing may be chosen by this study.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.tables import TextTable

SIZES = (100, 300, 1000, 3000, 10_000)
DRAWS, MEASURED, BINS = 5, 3000, 15
END = re.compile(r"(?<=[.!?])\s+|<br\s*/?>")
SHORTEST, LONGEST = 6, 40  # words of a sentence
RATINGS, EXTREMES = (
    ("1", "4", "7", "10"),
    ("1", "10"),
)  # a sentence of a mild review is weak evidence of its label
UNEVEN = 0.9
OWN = {
    "sentences": 0.25,
    "reviews": 1.0,
}  # of NB-SVM: as published, and what is better of long training reviews

Row = dict[str, Any]


class Kind(NamedTuple):
    """Which texts, how many classes, and whether nine in ten are of the first."""

    texts: str
    classes: int
    uneven: bool

    @property
    def name(self) -> str:
        return (
            f"{self.texts}, {self.classes} classes,"
            f" {'90:10' if self.uneven else 'even'}"
        )


KINDS = [
    Kind(texts, n, uneven)
    for uneven in (False, True)
    for n in (2, 4)
    for texts in ("sentences", "reviews")
]
NAMES = {f"{kind.name}, {size} rows": (kind, size) for kind in KINDS for size in SIZES}


class Bayes:
    """NB-SVM (Wang and Manning 2012): a linear SVM on log-count ratios of words and
    pairs.

    A part `own` of its weights is its own, and the rest their mean size.
    """

    def __init__(self, own: float) -> None:
        self.own = own

    def fit(self, texts: Sequence[str], labels: AnyArray) -> "Bayes":
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.svm import LinearSVC

        self.counter = CountVectorizer(
            ngram_range=(1, 2), binary=True, token_pattern=r"(?u)\b\w+\b"
        )
        there, self.classes_ = (
            csr_matrix(self.counter.fit_transform(texts), dtype=np.float64),
            np.unique(labels),
        )
        self.columns = []
        for label in self.classes_[1:] if len(self.classes_) == 2 else self.classes_:
            inside = labels == label
            p, q = (1 + there.T @ side.astype(float) for side in (inside, ~inside))
            ratio = np.log(p / p.sum() * (q.sum() / q))
            svm = LinearSVC(max_iter=5000).fit(
                csr_matrix(there @ diags_array(ratio)), inside
            )
            weights = (1 - self.own) * np.abs(svm.coef_).mean() + self.own * svm.coef_[
                0
            ]
            self.columns.append((ratio * weights, svm.intercept_[0]))
        return self

    def predict(self, texts: Sequence[str]) -> AnyArray:
        there = self.counter.transform(texts)
        scores = np.stack(
            [there @ weights + bias for weights, bias in self.columns], axis=1
        )
        return self.classes_[
            (
                (scores[:, 0] > 0).astype(int)
                if scores.shape[1] == 1
                else scores.argmax(axis=1)
            )
        ]


def linear(class_weight: str | None = None) -> Any:
    """TF-IDF of words and pairs with logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words_and_pairs = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(
        words_and_pairs,
        LogisticRegression(C=10, max_iter=1000, class_weight=class_weight),
    )


METHODS: dict[str, Callable[[Kind, int, str], Any]] = {
    "hardmax": lambda kind, seed, device: HardmaxClassifier(
        random_state=seed, device=device
    ),
    "TF-IDF": lambda kind, seed, device: linear(),
    "TF-IDF, balanced": lambda kind, seed, device: linear("balanced"),
    "NB-SVM": lambda kind, seed, device: Bayes(OWN[kind.texts]),
}


def small_row(
    name: str, splits: dict[str, TextTable], *, seed: int, device: str
) -> Row | None:
    """Return means and standard errors of every method over several draws; None where
    there are too few texts.
    """
    kind, size = NAMES[name]
    train, test = (pool(splits[split], kind) for split in ("train", "test"))
    random = np.random.default_rng([seed, size])
    most = min(MEASURED, largest(test, kind))
    queries, wanted = drawn(test, kind, most, np.random.default_rng([seed, 1]))
    if size > largest(train, kind):
        return None
    found: dict[str, list[Row]] = {method: [] for method in METHODS}
    for draw in range(DRAWS):
        texts, labels = drawn(train, kind, size, random)
        for method, make in METHODS.items():
            start = process_time()
            model = make(kind, seed + draw, device).fit(texts, labels)
            seconds = process_time() - start
            found[method].append(quality(model, queries, wanted) | {"seconds": seconds})
    methods = {method: _summary(rows) for method, rows in found.items()}
    ours = methods["hardmax"]
    head = {
        "variant": name,
        "seed": seed,
        "accuracy": ours["accuracy"][0],
        "seconds": ours["seconds"][0],
    }
    return head | {"rows": size, "measured": len(wanted), "methods": methods}


def pool(table: TextTable, kind: Kind) -> tuple[list[str], AnyArray]:
    """Texts and labels of a kind; `table` has the ratings of reviews as labels."""
    ratings = (
        {"reviews": None, "sentences": EXTREMES}[kind.texts]
        if kind.classes == 2
        else RATINGS
    )
    pairs = [
        (text, ("pos" if int(rating) > 5 else "neg") if kind.classes == 2 else rating)
        for review, rating in zip(table.texts, table.labels or (), strict=True)
        if ratings is None or rating in ratings
        for text in ([review] if kind.texts == "reviews" else sentences(review))
    ]
    return [text for text, _ in pairs], np.array([label for _, label in pairs])


def sentences(review: str) -> Iterator[str]:
    """The first and the last sentence of a review: what it is about, and what it comes
    to.
    """
    found = [part.strip() for part in END.split(review)]
    found = [part for part in found if SHORTEST <= len(part.split()) <= LONGEST]
    yield from found[:1] + found[1:][-1:]


def shares(kind: Kind) -> FloatArray:
    """(classes,) parts of the rows; the first class is the frequent one."""
    first = UNEVEN if kind.uneven else 1 / kind.classes
    return np.append(first, np.full(kind.classes - 1, (1 - first) / (kind.classes - 1)))


def largest(texts: tuple[list[str], AnyArray], kind: Kind) -> int:
    """How many rows can be drawn."""
    return int((np.unique(texts[1], return_counts=True)[1] / shares(kind)).min())


def drawn(
    texts: tuple[list[str], AnyArray],
    kind: Kind,
    size: int,
    random: np.random.Generator,
) -> tuple[list[str], AnyArray]:
    """Draw distinct texts and their labels, in random order."""
    found: list[IntArray] = []
    for label, part in zip(np.unique(texts[1]), shares(kind), strict=True):
        found.append(
            random.permutation(np.flatnonzero(texts[1] == label))[: round(part * size)]
        )
    places = random.permutation(np.concatenate(found))
    return [texts[0][i] for i in places], texts[1][places]


def quality(model: Any, texts: Sequence[str], labels: AnyArray) -> Row:
    """Accuracy and the mean F1 of classes; log loss and calibration error of methods
    that have probabilities.
    """
    from sklearn.metrics import f1_score, log_loss

    answers = model.predict(texts)
    row = {
        "accuracy": float(np.mean(answers == labels)),
        "f1": float(f1_score(labels, answers, average="macro")),
    }
    if not hasattr(model, "predict_proba"):
        return row
    sure = model.predict_proba(texts)
    error = calibration_error(
        sure.max(axis=1), model.classes_[sure.argmax(axis=1)] == labels
    )
    return row | {
        "log_loss": float(log_loss(labels, sure, labels=model.classes_)),
        "ece": error,
    }


def calibration_error(sure: FloatArray, right: AnyArray) -> float:
    """Mean of |how sure - how often right| over bins of as many texts, the least sure
    first.
    """
    bins = np.array_split(np.argsort(sure, kind="stable"), BINS)
    return float(
        sum(abs((sure[some] - right[some]).sum()) for some in bins) / len(sure)
    )


def _summary(rows: list[Row]) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each number."""
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    return {
        key: (float(x.mean()), float(x.std(ddof=1) / len(x) ** 0.5))
        for key, x in columns.items()
    }
