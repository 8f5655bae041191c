"""Models with a linear start: folds, heads, rare classes, alpha, and the study of small
files.
"""

from dataclasses import replace

import numpy as np
import pytest
from studies import small_files as small
from threadpoolctl import threadpool_info, threadpool_limits

from hardmax import HardmaxClassifier
from hardmax.cli.evaluate import measure
from hardmax.text import linear_init
from hardmax.text.context import Problem
from hardmax.text.datasets import reviews
from hardmax.text.linear_init import (
    KINDS,
    MAX_ACCURACY_LOSS,
    MIN_CHARACTERS,
    MIN_TEXTS,
    Linear,
    build_heads,
    find_decision_offset,
    fit_linear,
    from_matrix,
    linear_logits,
    to_matrix,
    uses_linear_start,
)
from hardmax.text.model import contributions, predicted_classes, sums_by_text
from hardmax.text.parameters import Parameters
from hardmax.text.tables import TextTable
from hardmax.text.validation import TrainingSet, folds
from hardmax.text.vocabulary import Encoded, Vocabulary


@pytest.fixture(scope="module")
def corpus():
    return reviews(300, seed=4)


@pytest.fixture(scope="module")
def classifier(corpus) -> HardmaxClassifier:
    return HardmaxClassifier(n_heads=6, groups=1).fit(corpus.texts, corpus.labels)


def test_a_small_file_starts_linear_and_is_cross_validated(classifier, corpus) -> None:
    assert classifier.start_ == "linear"
    assert [epoch.kept for epoch in classifier.history_] == [True]
    assert 0.6 < classifier.history_[0].accuracy < 0.75
    others = reviews(1000, seed=5)
    assert classifier.score(others.texts, others.labels) == pytest.approx(
        classifier.history_[0].accuracy, abs=0.06
    )
    assert len(classifier.model_.vocabulary) > 900  # those that occur once among them


def test_contributions_grow_with_the_length_of_a_text(classifier) -> None:
    why = classifier.explain("The story is not dull, and the acting is superb.")
    assert abs(why.bias + why.contributions.sum() - why.logit) < 1e-12
    weights, text = (
        classifier.model_.weights,
        Encoded(why.ids, np.array([0, len(why.ids)]), why.counts),
    )
    assert weights.pooling_exponent == 0.5
    mean = contributions(replace(weights, pooling_exponent=0.0), text)
    np.testing.assert_allclose(
        contributions(weights, text), mean * len(why.ids) ** 0.5, rtol=1e-15
    )
    rest = Encoded(why.ids[1:], np.array([0, len(why.ids) - 1]), why.counts[1:])
    assert why.leave_one_out()[0] == pytest.approx(
        why.logit - why.bias - contributions(weights, rest).sum(), 1e-9
    )


@pytest.mark.parametrize("outputs", [1, 3, 9])
def test_heads_hold_the_scores_of_a_linear_model(outputs: int) -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=(outputs, 3)) @ random.normal(
        size=(3, 50)
    )  # nine classes, which differ in three ways
    linear, settings = (
        Linear(scores, random.normal(size=outputs)),
        Parameters(n_heads=6, d=2),
    )
    weights = build_heads(linear, settings, 1e-9)
    read = np.einsum("thd,ohd->ot", weights.embedding.astype(float), weights.decoder)
    np.testing.assert_allclose(read, scores, atol=1e-5)
    texts = Encoded(np.arange(12), np.array([0, 5, 12]), np.ones(12, np.int64))
    found = weights.bias + sums_by_text(contributions(weights, texts), texts)
    dense = np.zeros((2, 50))
    dense[0, :5] = dense[1, 5:12] = 1
    wanted = linear.bias + dense / dense.sum(axis=1, keepdims=True) ** 0.5 @ scores.T
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_held_out_texts_lose_tokens_that_no_other_text_has(corpus) -> None:
    labels = (np.array(corpus.labels) == "positive").astype(int)
    vocabulary = Vocabulary.build(corpus.texts, Parameters(ngram_range=(1, 2)))
    texts, losses = vocabulary.encode(corpus.texts), []
    problem = Problem(labels, np.ones(300), list(folds(labels, np.arange(300))), 2)
    whole, found, _ = fit_linear(
        to_matrix(texts, len(vocabulary)), problem, Parameters(), losses.append
    )
    assert len(losses) == len(KINDS) * (1 + len(problem.splits))
    assert whole.weights.shape == (1, len(vocabulary))
    for fold in found:
        others = np.setdiff1d(np.arange(300), fold.held)
        known = set(texts.take(others).ids.tolist())
        assert set(from_matrix(fold.texts).ids.tolist()) <= known
        assert linear_logits(fold.linear, fold.texts).shape == (len(fold.held), 1)


@pytest.mark.parametrize("classes", [2, 3])
def test_rare_classes_are_favoured_at_a_small_cost(classes: int) -> None:
    random = np.random.default_rng(1)
    frequent = np.array([0.9, 0.1]) if classes == 2 else np.array([0.9, 0.05, 0.05])
    labels = random.choice(classes, 4000, p=frequent)
    evidence = np.eye(classes)[labels] * 1.2 + random.normal(size=(4000, classes)) * 0.7
    scores = np.log(frequent) + evidence * 1.2 / 0.49  # the true probabilities
    scores = scores[:, 1:] - scores[:, :1] if classes == 2 else scores
    offset = find_decision_offset(scores, labels, np.ones(4000))
    before, after = predicted_classes(scores), predicted_classes(scores + offset)
    assert (after > 0).sum() > (before > 0).sum()
    assert np.mean(after == labels) > np.mean(before == labels) - 2 * MAX_ACCURACY_LOSS
    even = np.arange(4000) % classes
    assert not find_decision_offset(scores, even, np.ones(4000)).any()
    assert not find_decision_offset(
        scores, labels, 1 / frequent[labels]
    ).any()  # weights that make them even


def test_a_decision_offset_changes_labels_and_not_probabilities(
    tmp_path, corpus
) -> None:
    labels = np.array(corpus.labels)
    some = np.concatenate(
        [
            np.flatnonzero(labels == "negative"),
            np.flatnonzero(labels == "positive")[:25],
        ]
    )
    texts = [corpus.texts[i] for i in some]
    found = HardmaxClassifier(n_heads=4, groups=1, ngram_range=(1, 1)).fit(
        texts, labels[some]
    )
    offset, model = found.model_.weights.decision_offset, found.model_
    assert offset is not None
    assert offset[0] > 0
    scores = found.decision_function(texts)
    assert (
        found.predict(texts).tolist()
        == np.where(scores > 0, "positive", "negative").tolist()
    )
    np.testing.assert_allclose(
        found.predict_proba(texts)[:, 1],
        1 / (1 + np.exp(offset[0] - scores)),
        rtol=1e-12,
    )
    place = int(np.abs(scores - offset[0] / 2).argmin())  # between the two
    why = found.explain(texts[place])
    assert why.prediction == "positive"
    assert why.probability == pytest.approx(found.predict_proba([texts[place]])[0, 1])
    sure = found.predict_proba(texts)[
        np.arange(len(some)), (labels[some] == "positive").astype(int)
    ]
    measured = measure(found, TextTable(texts, labels[some].tolist()), "a file")
    assert measured["loss"] == pytest.approx(-np.log(sure).mean())
    found.save(tmp_path / "model")
    again = HardmaxClassifier.load(tmp_path / "model").model_
    assert again.weights.decision_offset.tolist() == offset.tolist()
    assert (again.logits(texts) == model.logits(texts)).all()


def test_only_many_long_texts_of_even_classes_are_trained() -> None:
    even = np.arange(MIN_TEXTS) % 2

    def is_linear(texts, labels=even, **options):
        data = TrainingSet(
            texts, labels, np.unique(labels), None, *[np.arange(len(texts))] * 2
        )
        return uses_linear_start(data, Parameters(**options))

    long, short = ["x" * MIN_CHARACTERS] * MIN_TEXTS, ["x"] * MIN_TEXTS
    assert not is_linear(long)
    assert is_linear(long[1:], even[1:])
    assert is_linear(short)
    assert is_linear(long, start="linear")
    assert is_linear(long, (np.arange(MIN_TEXTS) % 10 == 0).astype(int))  # a rare class
    for options in ({"epochs": 1}, {"start": "random"}, {"training": "softmax"}):
        assert not is_linear(short, **options)


def test_a_file_that_is_sorted_by_label_gives_a_similar_model(
    classifier, corpus
) -> None:
    order = np.argsort(corpus.labels, kind="stable")
    texts, labels = [corpus.texts[i] for i in order], np.array(corpus.labels)[order]
    found = HardmaxClassifier(n_heads=6, groups=1).fit(texts, labels)
    assert (
        np.corrcoef(
            found.decision_function(texts), classifier.decision_function(texts)
        )[0, 1]
        > 0.98
    )


def test_a_text_for_each_class_is_enough_to_fit() -> None:
    found = HardmaxClassifier(n_heads=3, groups=1).fit(
        ["good film", "bad film", "odd film"], ["a", "b", "c"]
    )
    assert found.predict(["good", "bad", "odd"]).tolist() == ["a", "b", "c"]
    assert found.history_[0].accuracy is None


def test_linear_models_use_one_blas_thread(monkeypatch, corpus) -> None:
    seen, fitted = [], linear_init._fit_kind

    def watched(*given):
        seen.extend(
            pool["num_threads"]
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        )
        return fitted(*given)

    monkeypatch.setattr(linear_init, "_fit_kind", watched)
    with threadpool_limits(2, "blas"):
        HardmaxClassifier(n_heads=4, groups=1, ngram_range=(1, 1)).fit(
            corpus.texts[:60], corpus.labels[:60]
        )
    assert set(seen) == {1}


def test_sentences_are_the_first_and_the_last() -> None:
    review = (
        "Too short. This one has six words exactly. In the middle are others.<br />The"
        " last has six words, too!"
    )
    assert list(small.sentences(review)) == [
        "This one has six words exactly.",
        "The last has six words, too!",
    ]
    assert list(small.sentences("One sentence of six words here.")) == [
        "One sentence of six words here."
    ]


def test_calibration_error() -> None:
    sure = np.full(3000, 0.8)
    right = np.arange(3000) % 5 > 0
    assert small.calibration_error(sure, right) == pytest.approx(0, abs=1e-12)
    assert small.calibration_error(sure, np.ones(3000, bool)) == pytest.approx(0.2)


def test_the_study_of_sizes(monkeypatch) -> None:
    monkeypatch.setattr(small, "DRAWS", 2)
    made = {
        split: reviews(300, seed=seed) for seed, split in enumerate(("train", "test"))
    }
    splits = {
        split: TextTable(
            found.texts,
            [("8" if label == "positive" else "2") for label in found.labels],
        )
        for split, found in made.items()
    }
    name = "reviews, 2 classes, 90:10, 100 rows"
    row = small.small_row(name, splits, seed=0, device="cpu")
    assert row is not None
    assert (row["variant"], row["rows"], row["measured"]) == (
        name,
        100,
        int(150 / 0.9) // 1,
    )
    assert set(row["methods"]) == set(small.METHODS)
    assert row["accuracy"] == row["methods"]["hardmax"]["accuracy"][0] > 0.7
    assert "log_loss" not in row["methods"]["NB-SVM"]
    assert (
        small.small_row(
            "reviews, 2 classes, even, 1000 rows", splits, seed=0, device="cpu"
        )
        is None
    )


def test_a_planar_model_has_its_words_on_an_arc() -> None:
    corpus = reviews(300, seed=3)
    model = (
        HardmaxClassifier(n_heads=1, groups=1, d=2, alpha=0.3, layers=8)
        .fit(corpus.texts, corpus.labels)
        .model_
    )
    assert model.weights.alpha.tolist() == [0.3]  # the given one
    z = model.weights.embedding[:, 0].astype(np.float64)
    assert (z[:, 1] > 0).all()
    angle, length = np.abs(np.arctan2(z[:, 0], z[:, 1])), np.hypot(*z.T)
    assert (
        np.diff(length[np.argsort(angle)]) >= -1e-6
    ).all()  # discriminative words are longer
    strong = [model.vocabulary.words.index(word) for word in ("superb", "awful")]
    assert (angle[strong] > np.quantile(angle, 0.95)).all()
    assert model.weights.decoder[0, 0, 1] == 0
