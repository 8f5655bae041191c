"""The table "encoders": models of few and many labelled texts with and without a
pretrained encoder, and their rivals.

`python -m studies.encoders --data-source DATA --cache FOLDER` measures and writes
docs/studies/encoders.json; without --cache the recorded table is printed. Texts are
whole reviews of IMDb, and sentences, the first and the last of a review, with its
label; all models are measured on test reviews, so nothing may be chosen by this table.
Vectors are computed once, on a GPU where there is one, and kept in FOLDER: 20 GB for
25,000 reviews. `--texts`, `--rows` and `--models` choose rows, which replace those in
the record.

`--negation` measures phrases with a negation, with models of NEGATION_ROWS sentences.
`--rationales DATA` measures how well contributions agree with people, on train.parquet
and val.parquet of that folder. `--costs` measures predictions.
"""

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.machine import with_peak

from hardmax._files import save_text
from hardmax._types import AnyArray, FloatArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.context import STRENGTHS
from hardmax.text.datasets import load_imdb, reviews
from hardmax.text.encoder import Encoder, find_device
from hardmax.text.tables import read_texts
from hardmax.text.tokenizer import Splitter
from studies.faithfulness import compare, read_rationales
from studies.small_files import OWN, Bayes, Kind, calibration_error, drawn, pool
from studies.study import DOCS

DRAWS = {50: 4, 100: 4, 300: 4, 1000: 4, 4000: 2, 25_000: 1}  # by number of rows
MEASURED = 5000  # test texts
TEXTS = ("sentences", "reviews")
TABLE, NEGATION_TABLE = (
    DOCS / "studies" / "encoders.json",
    DOCS / "studies" / "negation.json",
)
RATIONALES_TABLE = DOCS / "studies" / "rationales.json"
COSTS_TABLE, COSTS = (
    DOCS / "studies" / "encoder_costs.json",
    {20: 400, 200: 60},
)  # texts of each number of words
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
HEAD = (
    "| rows | model | accuracy | log loss | ECE | seconds"
    " |\n|---:|---|---:|---:|---:|---:|"
)


class Means:
    """Logistic regression on the means of MiniLM vectors, with C chosen by
    cross-validation.
    """

    def __init__(self, folder: str) -> None:
        self.encoder = Encoder("minilm", cache=folder)

    def fit(self, texts: list[str], labels: AnyArray) -> "Means":
        from sklearn.linear_model import LogisticRegressionCV

        means = self.means(texts)
        self.centre, self.scale = (
            means.mean(axis=0),
            means.std(axis=0).clip(1e-6) * means.shape[1] ** 0.5,
        )
        options: dict[str, Any] = {
            "Cs": list(STRENGTHS),
            "cv": 5,
            "scoring": "neg_log_loss",
            "max_iter": 300,
        }
        self.model = LogisticRegressionCV(**options).fit(
            (means - self.centre) / self.scale, labels
        )
        self.classes_ = self.model.classes_
        return self

    def means(self, texts: list[str]) -> FloatArray:
        found = {
            i: words.vectors.mean(axis=0)
            for i, words in self.encoder.read(texts, Splitter())
        }
        return np.stack([found[i] for i in range(len(texts))]).astype(np.float64)

    def predict_proba(self, texts: list[str]) -> FloatArray:
        return np.asarray(
            self.model.predict_proba((self.means(texts) - self.centre) / self.scale)
        )


def tuned() -> Any:
    """TF-IDF of words and pairs with logistic regression, C chosen by cross-validation."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline

    options: dict[str, Any] = {
        "Cs": [0.1, 1, 10, 100],
        "cv": 5,
        "scoring": "neg_log_loss",
        "max_iter": 500,
    }
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegressionCV(**options),
    )


def calibrated() -> Any:
    """TF-IDF of words and pairs with a linear SVM, calibrated by cross-validation."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    return make_pipeline(vectors, CalibratedClassifierCV(LinearSVC(), cv=5))


METHODS: dict[
    str, Callable[[str, str], Any]
] = {  # of the kind of texts and the folder of vectors
    'HardmaxClassifier(encoder="minilm")': lambda texts, folder: HardmaxClassifier(
        encoder="minilm", encoder_cache=folder
    ),
    "HardmaxClassifier()": lambda texts, folder: HardmaxClassifier(),
    "MiniLM means, tuned logistic regression": lambda texts, folder: Means(folder),
    "TF-IDF, tuned logistic regression": lambda texts, folder: tuned(),
    "TF-IDF, calibrated linear SVM": lambda texts, folder: calibrated(),
    "NB-SVM": lambda texts, folder: Bayes(OWN[texts]),
}


def measure(model: Any, texts: list[str], labels: AnyArray) -> dict[str, Any]:
    """Return accuracy, log loss and calibration error."""
    if not hasattr(model, "predict_proba"):  # NB-SVM
        return {
            "accuracy": float(np.mean(model.predict(texts) == labels)),
            "log_loss": None,
            "ece": None,
        }
    sure, classes = model.predict_proba(texts), model.classes_
    right = classes[sure.argmax(axis=1)] == labels
    own = sure[np.arange(len(labels)), np.searchsorted(classes, labels)]
    loss = float(-np.log(np.clip(own, 1e-12, 1)).mean())
    return {
        "accuracy": float(right.mean()),
        "log_loss": loss,
        "ece": calibration_error(sure.max(axis=1), right),
    }


@cache
def load_parts(
    texts: str, source: str
) -> tuple[tuple[list[str], AnyArray], tuple[list[str], AnyArray]]:
    """Return training texts and test texts with their labels."""
    kind, splits = Kind(texts, 2, False), load_imdb(source=source, ratings=True)
    train = drawn(
        pool(splits["train"], kind), kind, max(DRAWS), np.random.default_rng(0)
    )
    return train, drawn(
        pool(splits["test"], kind), kind, MEASURED, np.random.default_rng(1)
    )


def keep_vectors(texts: str, source: str, folder: str, rows: int) -> None:
    """Compute the vectors of the training texts of all draws, and of the test texts."""
    (train, _), (queries, _) = load_parts(texts, source)
    used = sorted(
        {
            i
            for size in DRAWS
            if size <= rows
            for part in draw_rows(size, len(train))
            for i in part.tolist()
        }
    )
    encoder = Encoder("minilm", cache=folder, device=find_device("auto"))
    for done, _ in enumerate(
        encoder.pieces([*(train[i] for i in used), *queries], Splitter())
    ):
        if done % 1000 == 0:
            print(f"{texts}: {done} texts have vectors", flush=True)


def draw_rows(size: int, most: int) -> list[AnyArray]:
    random = np.random.default_rng(size)
    return [random.permutation(most)[:size] for _ in range(DRAWS[size])]


def measure_draw(
    texts: str, source: str, folder: str, size: int, draw: int, name: str
) -> dict[str, Any]:
    """Train a model on one draw, and measure it."""
    (train, labels), (queries, wanted) = load_parts(texts, source)
    part = draw_rows(size, len(train))[draw]
    start, model = time.process_time(), METHODS[name](texts, folder)
    model.fit([train[i] for i in part], labels[part])
    seconds = time.process_time() - start
    return measure(model, queries, wanted) | {
        "seconds": seconds,
        "measured": len(wanted),
    }


def fill_table(
    kinds: list[str],
    sizes: list[int],
    names: list[str],
    source: str,
    folder: str,
    workers: int,
) -> None:
    """Measure rows of the table in worker processes, and write each when its draws are
    done.
    """
    for texts in kinds:
        if any("minilm" in name.lower() for name in names):
            with ProcessPoolExecutor(
                1, get_context("spawn")
            ) as alone:  # forgets the GPU and its memory
                alone.submit(keep_vectors, texts, source, folder, max(sizes)).result()
    with (
        ProcessPoolExecutor(workers, get_context("spawn"))
        if workers > 1
        else nullcontext()
    ) as executor:
        jobs = [
            (texts, size, name)
            for size in sorted(sizes, reverse=True)
            for texts in kinds
            for name in names
        ]
        results: dict[tuple[str, int, str], list[dict[str, Any]]] = {
            job: [] for job in jobs
        }
        draws = [
            (job, (job[0], source, folder, job[1], draw, job[2]))
            for job in jobs
            for draw in range(DRAWS[job[1]])
        ]
        if executor is None:
            for job, arguments in draws:
                add_draw(job, results, measure_draw(*arguments))
            return
        pending = {
            executor.submit(measure_draw, *arguments): job for job, arguments in draws
        }
        for future in as_completed(pending):
            add_draw(pending[future], results, future.result())


def add_draw(
    job: tuple[str, int, str],
    results: dict[Any, list[dict[str, Any]]],
    found: dict[str, Any],
) -> None:
    """Add the result of a draw, and record the row when it was the last one: means, and
    the error of the accuracy.
    """
    results[job].append(found)
    (texts, size, name), draws, each = job, len(results[job]), results[job]
    if draws < DRAWS[size]:
        return
    row: dict[str, Any] = {"texts": texts, "rows": size, "model": name, "draws": draws}
    for key in ("accuracy", "log_loss", "ece", "seconds"):
        values = [one[key] for one in each]
        row[key] = None if None in values else round(float(np.mean(values)), 4)
    accuracies = np.array([one["accuracy"] for one in each])
    of_test = float(
        (accuracies.mean() * (1 - accuracies.mean()) / found["measured"]) ** 0.5
    )
    of_draws = float(accuracies.std(ddof=1) / draws**0.5) if draws > 1 else 0.0
    print(json.dumps(row | {"error": round(max(of_test, of_draws), 4)}), flush=True)
    record(
        TABLE,
        row | {"error": round(max(of_test, of_draws), 4)},
        ("texts", "rows", "model"),
    )


def record(path: Path, row: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Write a row into a JSON file, in place of the row with the same keys."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [old for old in rows if any(old[key] != row[key] for key in keys)]
    save_text(json.dumps([*kept, row], indent=1) + "\n", path)


def measure_negation(source: str, cache: str) -> list[dict[str, Any]]:
    """Return for each phrase the probability of "pos" and the contribution of its word,
    without and with MiniLM.
    """
    (texts, labels), _ = load_parts("sentences", source)
    part = draw_rows(NEGATION_ROWS, len(texts))[0]
    known, names = [texts[i] for i in part], labels[part]
    found = [
        {"phrase": phrase, "label": label} for phrase, (_, label) in PHRASES.items()
    ]
    for name, options in (
        ("n-grams", {}),
        ("minilm", {"encoder": "minilm", "encoder_cache": cache}),
    ):
        model = HardmaxClassifier(**options).fit(known, names)
        for row, probability in zip(
            found, model.predict_proba(list(PHRASES))[:, 1], strict=True
        ):
            word = PHRASES[str(row["phrase"])][0]
            parts = [
                part.value
                for part in model.explain(str(row["phrase"])).by_word()
                if part.text == word
            ]
            row[name] = {
                "pos": round(float(probability), 3),
                "word": round(float(np.sum(parts)), 2),
            }
    save_text(json.dumps(found, indent=1) + "\n", NEGATION_TABLE)
    return found


def negation_table(found: list[dict[str, Any]]) -> str:
    """Return the table of phrases with a negation."""
    lines = [
        "| phrase | label | P(pos), n-grams | its word adds | P(pos), MiniLM | its word"
        " adds |"
    ]
    lines.append("|---|---|---:|---:|---:|---:|")
    for row in found:
        cells = [
            f"{row[name]['pos']:.3f} | {row[name]['word']:+.2f}"
            for name in ("n-grams", "minilm")
        ]
        lines.append(f"| {row['phrase']} | {row['label']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure_rationales(folder: Path, vectors: str | None) -> list[dict[str, Any]]:
    """Return agreement with people, comprehensiveness and sufficiency of contributions,
    without and with MiniLM.
    """
    table, marked = (
        read_texts(folder / "train.parquet", label="label"),
        read_rationales(folder / "val.parquet"),
    )
    texts = [each.text for each in marked]
    labels, found = np.array(list(map(str, table.labels or []))), list[dict[str, Any]]()
    device = find_device("auto")
    for name, options in (
        ("n-grams", {}),
        ("minilm", {"encoder": "minilm", "encoder_cache": vectors}),
    ):
        model = HardmaxClassifier(**options, device=device).fit(table.texts, labels)
        right = float(
            np.mean(
                model.predict(texts) == np.array([str(each.label) for each in marked])
            )
        )
        result = compare(model, texts, methods=["hardmax"], again=0, rationales=marked)
        keys = ("comprehensiveness", "sufficiency", "exact")
        row = {
            "model": name,
            "accuracy": right,
            **{key: result.rows[0][key] for key in keys},
        }
        found.append(row | {key: result.agreement[0][key] for key in ("auprc", "f1")})
        print(json.dumps(found[-1]), flush=True)
    save_text(json.dumps(found, indent=1) + "\n", RATIONALES_TABLE)
    return found


def rationales_table(found: list[dict[str, Any]]) -> str:
    """Return the table of agreement with people."""
    keys = {"accuracy": "accuracy", "auprc": "AUPRC", "f1": "F1"}
    keys |= {key: key for key in ("comprehensiveness", "sufficiency")}
    lines = [f"| model | {' | '.join(keys.values())} |", "|---|" + "---:|" * len(keys)]
    lines += [
        f"| {row['model']} | {' | '.join(f'{row[key]:.3f}' for key in keys)} |"
        for row in found
    ]
    return "\n".join(lines)


def measure_costs() -> list[dict[str, Any]]:
    """Return rows per second of predictions with MiniLM, of the processor and in all,
    and their peak memory.
    """
    found, corpus = list[dict[str, Any]](), reviews(2000, seed=1)
    words = [word for text in corpus.texts for word in text.split()]
    for dtype in ("float64", "float32"):
        model = HardmaxClassifier(encoder="minilm", encoder_dtype=dtype, device="cpu")
        model.fit(corpus.texts[:100], corpus.labels[:100])
        for length, count in COSTS.items():
            texts = [
                " ".join(words[i * length : (i + 1) * length]) for i in range(count)
            ]
            start, seconds = time.perf_counter(), time.process_time()
            _, peak = with_peak(partial(model.predict_proba, texts), afresh=True)
            rates = (
                count / (time.perf_counter() - start),
                count / (time.process_time() - seconds),
            )
            row = {
                "words": length,
                "dtype": dtype,
                "rows_per_second": round(rates[0], 1),
                "peak_mb": round(peak or 0),
            }
            found.append(row | {"rows_per_processor_second": round(rates[1], 1)})
            print(json.dumps(found[-1]), flush=True)
    save_text(json.dumps(found, indent=1) + "\n", COSTS_TABLE)
    return found


def costs_table(found: list[dict[str, Any]]) -> str:
    """Return the table of rows per second."""
    lines = [
        "| words of a text | `encoder_dtype` | rows per second | per second of one"
        " processor | peak MB |"
    ]
    lines.append("|---:|---|---:|---:|---:|")
    for row in found:
        rates = f"{row['rows_per_second']:.1f} | {row['rows_per_processor_second']:.1f}"
        lines.append(
            f"| {row['words']} | {row['dtype']} | {rates} | {row['peak_mb']} |"
        )
    return "\n".join(lines)


def markdown(found: list[dict[str, Any]], texts: str) -> str:
    """Return the table of one kind of texts."""
    lines, names = [HEAD], list(METHODS)
    own = (row for row in found if row["texts"] == texts)
    for row in sorted(own, key=lambda row: (row["rows"], names.index(row["model"]))):
        loss, ece = (
            ("" if row[key] is None else f"{row[key]:.3f}")
            for key in ("log_loss", "ece")
        )
        accuracy = f"{row['accuracy']:.3f} ± {row['error']:.3f}"
        lines.append(
            f"| {row['rows']:,} | `{row['model']}` | {accuracy} | {loss} | {ece} |"
            f" {row['seconds']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.encoders", description=__doc__
    )
    parser.add_argument("--data-source", help="Archive or folder of the IMDb reviews.")
    parser.add_argument(
        "--cache", help="Folder of vectors; without it the recorded table is printed."
    )
    parser.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument(
        "--rows", nargs="+", type=int, choices=DRAWS, default=list(DRAWS)
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=[""],
        help="Parts of names of models, such as MiniLM.",
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="Processes that train models."
    )
    parser.add_argument(
        "--negation", action="store_true", help="Measure phrases with a negation."
    )
    parser.add_argument(
        "--costs",
        action="store_true",
        help="Measure rows per second and memory of predictions.",
    )
    parser.add_argument(
        "--rationales",
        type=Path,
        help="Folder of texts with the words that people marked.",
    )
    given = parser.parse_args()
    if given.negation:
        print(negation_table(measure_negation(given.data_source, given.cache)))
    elif given.costs:
        print(costs_table(measure_costs()))
    elif given.rationales:
        print(rationales_table(measure_rationales(given.rationales, given.cache)))
    else:
        if given.cache:
            names = [
                name
                for name in METHODS
                if any(part.lower() in name.lower() for part in given.models)
            ]
            fill_table(
                given.texts,
                given.rows,
                names,
                given.data_source,
                given.cache,
                given.workers,
            )
        found = json.loads(TABLE.read_text(encoding="utf-8"))
        print("\n\n".join(f"{texts}\n\n{markdown(found, texts)}" for texts in TEXTS))


if __name__ == "__main__":
    main()
