"""Accuracy and seconds on the IMDb reviews, as Maas et al. (2011) split them: the models of the package, and TF-IDF.

`IMDB` names a folder or an archive with the reviews, as `load_imdb` reads it; without it they are downloaded once.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

BEGIN = "<!-- made by python -m benchmarks imdb -->"
LINEAR = "TF-IDF of words and pairs, logistic regression"
SHIPPED = {
    '`hm.pretrained("imdb")`: 100,000 words, pairs and triples, a byte a number': "imdb",
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
    """Train if it is not trained yet, and ask about every test review: accuracy, and seconds of the processor."""
    classifier, training = make(), None
    if not hasattr(classifier, "model_"):
        start = time.process_time()
        classifier.fit(train.texts, train.labels)
        training = time.process_time() - start
    classifier.predict(test.texts[:100])  # loads what it needs
    start = time.process_time()
    right = np.mean(classifier.predict(test.texts) == np.asarray(test.labels))
    asked = time.process_time() - start
    found = getattr(classifier, "model_", None)
    tokens = len(classifier[0].vocabulary_) if found is None else len(found.vocabulary)
    numbers = {"training seconds": training, "test seconds": asked, "tokens": tokens}
    return {"model": model, "accuracy": round(float(right), 6), **numbers}


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Every model; a trial has a few reviews."""
    import hardmax as hm
    from hardmax.sentiment.imdb import load_imdb

    splits = load_imdb(source=os.environ.get("IMDB"))
    train, test = splits["train"], splits["test"]
    if quick:
        train, test = (type(part)(part.texts[::50], part.labels[::50]) for part in (train, test))
    asked: dict[str, Callable[[], Any]] = {LINEAR: linear}
    asked |= {name: lambda folder=folder: hm.pretrained(folder) for name, folder in SHIPPED.items()}
    rows = []
    for name, make in asked.items():
        if progress is not None:
            progress(f"imdb: {name}")
        rows.append(row(name, make, train, test))
    return {"rows": rows}


def markdown(values: dict[str, Any]) -> str:
    """A line for each model, the most accurate last."""
    lines = [
        "| model | tokens | accuracy | training, seconds | all test reviews, seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = values["rows"] + [{"model": name, "accuracy": score} for name, score in PUBLISHED.items()]
    for each in sorted(rows, key=lambda each: each["accuracy"]):
        training, asked = (each.get(key) for key in ("training seconds", "test seconds"))
        cells = ["" if value is None else f"{value:,.3g}" for value in (training, asked)]
        tokens = f"{each['tokens']:,}" if "tokens" in each else ""
        lines.append(f"| {each['model']} | {tokens} | {each['accuracy']:.4f} | {' | '.join(cells)} |")
    return "\n".join(lines)
