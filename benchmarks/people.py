"""Do our word scores find what people mark better than those of a linear model? On texts with marked words.

`python -m benchmarks.people TRAIN.parquet RATIONALES.parquet [people.json]`: the linear model learns from the columns
text and label of the first file, the shipped model has learned from the same reviews, and both are asked about the
second, whose format is that of `python -m studies explanations --rationales`.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from studies.explainers import EXPLAINERS, Question
from studies.faithfulness import agreement, read_rationales

import hardmax as hm
from benchmarks import report
from benchmarks.machine import machine
from hardmax._types import FloatArray


def linear(vectors: Any, coefficients: FloatArray, question: Question, seed: int) -> FloatArray:
    """(words,) coefficient times TF-IDF of every word and pair, shared evenly by its places and by its words."""
    row = vectors.transform([question.text])
    terms = dict(zip(row.indices.tolist(), (row.data * coefficients[row.indices]).tolist(), strict=True))
    places: dict[int, list[list[int]]] = {}
    for size in (1, 2):
        for start in range(len(question.words) - size + 1):
            term = vectors.vocabulary_.get(" ".join(question.words[start : start + size]))
            if term is not None:
                run = range(start, start + size)
                spelled = [i for i in run if any(map(str.isalnum, question.words[i]))]
                places.setdefault(term, []).append(spelled or list(run))
    scores = np.zeros(len(question.words))
    for term, runs in places.items():
        for run in runs:
            scores[run] += terms[term] / len(runs) / len(run)
    return scores if question.place == 1 else -scores


def main(train: str, rationales: str, out: str | None = None) -> None:
    import pandas
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    classifier, learned = hm.pretrained("imdb"), pandas.read_parquet(train)
    split = classifier.model_.vocabulary.splitter.words  # the same words for both
    options: dict[str, Any] = {"tokenizer": split, "token_pattern": None, "lowercase": False}
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, **options)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectors.fit_transform(learned["text"]), learned["label"])
    EXPLAINERS["linear"] = partial(linear, vectors, model.coef_[0])
    names = ["hardmax-even", "hardmax", "linear", "random"]
    rows = agreement(classifier, read_rationales(rationales), methods=names)
    if out is not None:
        report.write({"machine": machine(), "rows": rows}, Path(out))
    for row in rows:
        print(f"{row['method']:14} area under precision and recall {row['auprc']:.3f}, F1 {row['f1']:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
