"""The table "encoders": models of few labelled texts with and without a pretrained encoder, and their rivals.

`python -m studies.encoders --data-source DATA --cache FOLDER` prints the table and writes docs/studies/encoders.json.
Sentences are the first and the last of training reviews of IMDb, with the label of the review; they are measured on
sentences of test reviews, so nothing may be chosen by this table. Vectors are computed once and kept in FOLDER.
`--negation` measures phrases with a negation instead, with models of NEGATION_ROWS sentences.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax._files import save_text
from hardmax._types import AnyArray, FloatArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.context import STRENGTHS
from hardmax.text.datasets import load_imdb
from hardmax.text.encoder import Encoder
from hardmax.text.tokenizer import Splitter
from studies.small_files import Bayes, Kind, calibration_error, drawn, pool
from studies.study import DOCS

DRAWS = {50: 4, 100: 2, 300: 2, 1000: 1, 4000: 1}
MOST, MEASURED = 4000, 1500  # training and test texts
KIND = Kind("sentences", 2, False)
TABLE, NEGATION_TABLE = DOCS / "studies" / "encoders.json", DOCS / "studies" / "negation.json"
NEGATION_ROWS = 1000
PHRASES = {  # phrase, its word of sentiment, and its label
    "a wonderful film": ("wonderful", "pos"),
    "not at all wonderful": ("wonderful", "neg"),
    "anything but wonderful": ("wonderful", "neg"),
    "a boring film": ("boring", "neg"),
    "not boring": ("boring", "pos"),
    "anything but boring": ("boring", "pos"),
    "never boring for a second": ("boring", "pos"),
    "I expected a masterpiece and got a mess": ("masterpiece", "neg"),
}
HEAD = "| rows | model | accuracy | log loss | ECE | seconds |\n|---:|---|---:|---:|---:|---:|"


class Remembered:
    """MiniLM as a function, whose vectors are computed once and stay in memory."""

    def __init__(self, texts: list[str], cache: str) -> None:
        encoder = Encoder("minilm", cache=cache)
        self.known = {texts[i]: found for i, *found in encoder.pieces(texts, Splitter())}

    def __call__(self, texts: list[str]) -> list[Any]:
        found = [self.known[text] for text in texts]
        return [([""] * len(offsets), offsets, vectors) for offsets, vectors in found]


class Means:
    """Logistic regression on the means of MiniLM vectors, with C chosen by cross-validation."""

    def __init__(self, encoder: Remembered) -> None:
        self.encoder = Encoder(encoder)

    def fit(self, texts: list[str], labels: AnyArray) -> "Means":
        from sklearn.linear_model import LogisticRegressionCV

        means = self.means(texts)
        self.centre, self.scale = means.mean(axis=0), means.std(axis=0).clip(1e-6) * means.shape[1] ** 0.5
        options: dict[str, Any] = {"Cs": list(STRENGTHS), "cv": 5, "scoring": "neg_log_loss", "max_iter": 300}
        self.model = LogisticRegressionCV(**options).fit((means - self.centre) / self.scale, labels)
        self.classes_ = self.model.classes_
        return self

    def means(self, texts: list[str]) -> FloatArray:
        found = dict(self.encoder.read(texts, Splitter()))
        return np.stack([found[i].vectors.mean(axis=0).astype(np.float64) for i in range(len(texts))])

    def predict_proba(self, texts: list[str]) -> FloatArray:
        return np.asarray(self.model.predict_proba((self.means(texts) - self.centre) / self.scale))


def tuned() -> Any:
    """TF-IDF of words and pairs with logistic regression, C chosen by cross-validation."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline

    options: dict[str, Any] = {"Cs": [0.1, 1, 10, 100], "cv": 5, "scoring": "neg_log_loss", "max_iter": 500}
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegressionCV(**options))


def calibrated() -> Any:
    """TF-IDF of words and pairs with a linear SVM, calibrated by cross-validation."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(vectors, CalibratedClassifierCV(LinearSVC(), cv=5))


def methods(encoder: Remembered) -> dict[str, Callable[[], Any]]:
    """Return a function that makes each model."""
    return {
        'HardmaxClassifier(encoder="minilm")': lambda: HardmaxClassifier(encoder=encoder),
        "HardmaxClassifier()": HardmaxClassifier,
        "MiniLM means, tuned logistic regression": lambda: Means(encoder),
        "TF-IDF, tuned logistic regression": tuned,
        "TF-IDF, calibrated linear SVM": calibrated,
        "NB-SVM": lambda: Bayes(0.25),
    }


def measure(model: Any, texts: list[str], labels: AnyArray) -> dict[str, Any]:
    """Return accuracy, log loss and calibration error."""
    if not hasattr(model, "predict_proba"):  # NB-SVM
        return {"accuracy": float(np.mean(model.predict(texts) == labels)), "log_loss": None, "ece": None}
    sure, classes = model.predict_proba(texts), model.classes_
    right = classes[sure.argmax(axis=1)] == labels
    own = sure[np.arange(len(labels)), np.searchsorted(classes, labels)]
    loss = float(-np.log(np.clip(own, 1e-12, 1)).mean())
    return {"accuracy": float(right.mean()), "log_loss": loss, "ece": calibration_error(sure.max(axis=1), right)}


def rows(source: str, cache: str) -> list[dict[str, Any]]:
    """Return a row for each size and model: means over draws, and the standard error of the accuracy."""
    splits = load_imdb(source=source, ratings=True)
    texts, labels = drawn(pool(splits["train"], KIND), KIND, MOST, np.random.default_rng(0))
    queries, wanted = drawn(pool(splits["test"], KIND), KIND, MEASURED, np.random.default_rng(1))
    encoder, found = Remembered([*texts, *queries], cache), list[dict[str, Any]]()
    for size, draws in DRAWS.items():
        random = np.random.default_rng(size)
        parts = [random.permutation(len(texts))[:size] for _ in range(draws)]
        for name, make in methods(encoder).items():
            results = []
            for part in parts:
                start, model = time.process_time(), make()
                model.fit([texts[i] for i in part], labels[part])
                seconds = time.process_time() - start
                results.append(measure(model, queries, wanted) | {"seconds": seconds})
            row: dict[str, Any] = {"rows": size, "model": name, "draws": draws}
            for key in ("accuracy", "log_loss", "ece", "seconds"):
                values = [each[key] for each in results]
                row[key] = None if None in values else round(float(np.mean(values)), 4)
            accuracies = np.array([each["accuracy"] for each in results])
            of_test = float((accuracies.mean() * (1 - accuracies.mean()) / len(wanted)) ** 0.5)
            of_draws = float(accuracies.std(ddof=1) / draws**0.5) if draws > 1 else 0.0
            found.append(row | {"error": round(max(of_test, of_draws), 4)})
            print(json.dumps(found[-1]), flush=True)
            save_text(json.dumps(found, indent=1) + "\n", TABLE)
    return found


def measure_negation(source: str, cache: str) -> list[dict[str, Any]]:
    """Return for each phrase the probability of "pos" and the contribution of its word, without and with MiniLM."""
    splits = load_imdb(source=source, ratings=True)
    texts, labels = drawn(pool(splits["train"], KIND), KIND, MOST, np.random.default_rng(0))
    part = np.random.default_rng(NEGATION_ROWS).permutation(len(texts))[:NEGATION_ROWS]
    known, names = [texts[i] for i in part], labels[part]
    found = [{"phrase": phrase, "label": label} for phrase, (_, label) in PHRASES.items()]
    for name, options in (("n-grams", {}), ("minilm", {"encoder": "minilm", "encoder_cache": cache})):
        model = HardmaxClassifier(**options).fit(known, names)
        for row, probability in zip(found, model.predict_proba(list(PHRASES))[:, 1], strict=True):
            word = PHRASES[str(row["phrase"])][0]
            parts = [part.value for part in model.explain(str(row["phrase"])).by_word() if part.text == word]
            row[name] = {"pos": round(float(probability), 3), "word": round(float(np.sum(parts)), 2)}
    save_text(json.dumps(found, indent=1) + "\n", NEGATION_TABLE)
    return found


def negation_table(found: list[dict[str, Any]]) -> str:
    """Return the table of phrases with a negation."""
    lines = ["| phrase | label | P(pos), n-grams | its word adds | P(pos), MiniLM | its word adds |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for row in found:
        cells = [f"{row[name]['pos']:.3f} | {row[name]['word']:+.2f}" for name in ("n-grams", "minilm")]
        lines.append(f"| {row['phrase']} | {row['label']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def markdown(found: list[dict[str, Any]]) -> str:
    """Return the table."""
    lines = [HEAD]
    for row in found:
        loss, ece = (("" if row[key] is None else f"{row[key]:.3f}") for key in ("log_loss", "ece"))
        accuracy = f"{row['accuracy']:.3f} ± {row['error']:.3f}"
        lines.append(f"| {row['rows']:,} | `{row['model']}` | {accuracy} | {loss} | {ece} | {row['seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.encoders", description=__doc__)
    parser.add_argument("--data-source", help="Archive or folder of the IMDb reviews.")
    parser.add_argument("--cache", help="Folder of vectors; without it the recorded table is printed.")
    parser.add_argument("--negation", action="store_true", help="Measure phrases with a negation.")
    given = parser.parse_args()
    if given.negation:
        print(negation_table(measure_negation(given.data_source, given.cache)))
        return
    if given.cache:
        rows(given.data_source, given.cache)
    print(markdown(json.loads(TABLE.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
