"""Accuracy and seconds on the IMDb reviews, as Maas et al. (2011) split them: the
models of the package, and TF-IDF.

`IMDB` names a folder or an archive with the reviews, as `load_imdb` reads it; without
it they are downloaded once.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from benchmarks.machine import with_peak

LINEAR = "TF-IDF of words and pairs, logistic regression"
SHIPPED = {
    '`hm.pretrained("imdb")`: 100,000 words, pairs and triples, a byte a number': (
        "imdb"
    ),
    '`hm.pretrained("imdb-2d")`: the paper\'s model, one head in the plane': "imdb-2d",
}
PUBLISHED = {"NB-SVM with pairs (Wang and Manning 2012, published)": 0.9122}


def linear() -> Any:
    """What people begin with: words and pairs that stand in two reviews or more."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    return make_pipeline(vectors, LogisticRegression(C=10, max_iter=1000))


def row(model: str, make: Callable[[], Any], train: Any, test: Any) -> dict[str, Any]:
    """Train if needed and predict every test review; return accuracy, processor seconds
    and memory.
    """
    classifier, training, fitting = make(), None, None
    if not hasattr(classifier, "model_"):
        (training, _), fitting = with_peak(
            lambda: _timed(classifier.fit, train.texts, train.labels)
        )
    classifier.predict(test.texts[:100])  # loads what it needs
    (seconds, labels), asking = with_peak(
        lambda: _timed(classifier.predict, test.texts)
    )
    right = np.mean(labels == np.asarray(test.labels))
    found = getattr(classifier, "model_", None)
    tokens = len(classifier[0].vocabulary_) if found is None else len(found.vocabulary)
    numbers = {"training seconds": training, "test seconds": seconds, "tokens": tokens}
    numbers |= {"training peak": fitting, "test peak": asking}
    return {"model": model, "accuracy": round(float(right), 6), **numbers}


def _timed(call: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    start = time.process_time()
    result = call(*given)
    return time.process_time() - start, result


def measure(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """Every model, in a process of its own, whose memory no other has used; a trial has
    a few reviews.
    """
    import hardmax as hm
    from hardmax.text.datasets import load_imdb

    splits = load_imdb(source=os.environ.get("IMDB"))
    train, test = splits["train"], splits["test"]
    if quick:
        train, test = (
            type(part)(part.texts[::50], part.labels[::50]) for part in (train, test)
        )
    classifiers: dict[str, Callable[[], Any]] = {LINEAR: linear}
    classifiers |= {
        name: partial(hm.pretrained, folder) for name, folder in SHIPPED.items()
    }
    rows = []
    for name, make in classifiers.items():
        progress(f"imdb: {name}")
        with ProcessPoolExecutor(1, get_context("spawn")) as own:
            rows.append(own.submit(row, name, make, train, test).result())
    return {"rows": rows}


def markdown(values: dict[str, Any]) -> str:
    """A line for each model, the most accurate last."""
    lines = [
        (
            "| model | tokens | accuracy | training, seconds | its peak MB | all test"
            " reviews, seconds | their peak MB |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows = values["rows"] + [
        {"model": name, "accuracy": score} for name, score in PUBLISHED.items()
    ]
    for each in sorted(rows, key=lambda each: each["accuracy"]):
        keys = ("training seconds", "training peak", "test seconds", "test peak")
        found = [(each.get(key), ".0f" if "peak" in key else ".3g") for key in keys]
        cells = [
            "" if value is None else format(value, f",{how}") for value, how in found
        ]
        tokens = f"{each['tokens']:,}" if "tokens" in each else ""
        lines.append(
            f"| {each['model']} | {tokens} | {each['accuracy']:.4f} |"
            f" {' | '.join(cells)} |"
        )
    return "\n".join(lines)
