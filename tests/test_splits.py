"""Splits of labelled texts: equal texts and groups are on one side, and every class is learned."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from hardmax import HardmaxClassifier, ParameterError
from hardmax.text.datasets import reviews
from hardmax.text.validation import check_groups, folds, hold_out, join_groups, number_texts, split_rows

STARTS = {"linear": {}, "random": {"epochs": 8, "ngram_range": (1, 2), "min_df": 1}}


def noisy_texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Texts of random words, whose label they say little of: memorised ones are answered rightly, new ones seldom."""
    random = np.random.default_rng(seed)
    labels = ["ab"[i % 2] for i in range(count)]
    words = random.integers(0, 4000, (count, 12))
    told = random.random(count) < 0.3
    texts = [
        " ".join([f"w{w}" for w in row] + ([f"sign{label}"] if say else []))
        for row, label, say in zip(words, labels, told, strict=True)
    ]
    return texts, labels


def held_accuracy(classifier: HardmaxClassifier) -> float:
    return next(epoch.accuracy for epoch in classifier.history_ if epoch.kept)


@pytest.mark.parametrize("start", STARTS)
def test_duplicates_do_not_raise_the_reported_accuracy(start: str) -> None:
    texts, labels = noisy_texts(300, 0)
    new_texts, new_labels = noisy_texts(600, 1)
    copies = [f"{text.upper()} <br/> !" for text in texts]  # equal but for case, markup and punctuation
    classifier = HardmaxClassifier(n_heads=4, groups=2, validation=0.3, **STARTS[start])
    with pytest.warns(
        UserWarning, match=r"^300 of 600 texts are duplicates .* \(at index 300, 301, 302, 303, 304, \.\."
    ):
        classifier.fit(texts + copies, labels * 2)
    assert classifier.start_ == start
    assert held_accuracy(classifier) < classifier.score(new_texts, new_labels) + 0.12 < 0.85
    assert classifier.score(texts, labels) > 0.8  # of texts that were learned


@pytest.mark.parametrize("start", STARTS)
def test_groups_are_held_out_together(start: str) -> None:
    texts, labels = noisy_texts(300, 0)
    copies = [f"again {text}" for text in texts]  # nearly equal, so only groups can tell
    classifier = HardmaxClassifier(n_heads=4, groups=2, validation=0.3, **STARTS[start])
    alone = held_accuracy(classifier.fit(texts + copies, labels * 2))
    names = [f"author {i}" for i in range(300)]
    together = held_accuracy(classifier.fit(texts + copies, labels * 2, groups=names * 2))
    assert alone > 0.8
    assert together < 0.75


def test_groups_must_fit_the_texts() -> None:
    texts, labels = noisy_texts(20, 0)
    for groups, got in (([1] * 19, r"shape \(19,\)"), ([[1]] * 20, r"shape \(20, 1\)"), (3, r"shape \(\)")):
        with pytest.raises(ParameterError, match=rf"`groups` must hold one group for each of the 20 texts\. Got {got}"):
            HardmaxClassifier(n_heads=2, groups=1).fit(texts, labels, groups=groups)


def test_groups_go_with_rows_that_are_left_out() -> None:
    texts, labels = noisy_texts(60, 0)
    few = HardmaxClassifier(n_heads=2, groups=1)
    groups = np.arange(60) // 2
    with pytest.warns(UserWarning, match=r"Left out 1 of 61 rows"):
        one = few.fit(["", *texts], ["a", *labels], groups=[99, *groups]).history_
    weights = np.append(np.ones(60), 0)
    two = few.fit([*texts, "left out"], [*labels, "a"], weights, groups=[*groups, 99]).history_
    assert one == two == few.fit(texts, labels, groups=groups.tolist()).history_


def test_missing_groups_are_groups_of_their_own() -> None:
    assert check_groups(["a", None, "b", "", "a", float("nan")], 6).tolist() == [0, 1, 2, 3, 0, 4]


def test_texts_are_equal_up_to_case_spaces_markup_and_punctuation() -> None:
    texts = ["A good film.", "a  GOOD<br />film", "a good, film", "a goodfilm", "!", "?", "good 🙂", "good 🙁"]
    assert number_texts(texts).tolist() == [0, 0, 0, 1, 2, 3, 4, 5]


def test_groups_and_equal_texts_are_joined() -> None:
    joined = join_groups(np.array([0, 1, 0, 2, 3]), np.array([0, 1, 1, 2, 3]))
    assert joined.tolist() == [0, 0, 0, 1, 2]  # 0 and 2 are equal texts, 1 and 2 are of one group


@pytest.mark.parametrize("seed", range(20))
def test_splits_keep_groups_together_and_classes_everywhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, classes = int(random.integers(2, 150)), int(random.integers(2, 5))
    labels = np.unique(random.integers(0, classes, n), return_inverse=True)[1]
    groups = np.unique(random.integers(0, max(1, n // int(random.integers(1, 6))), n), return_inverse=True)[1]
    splits = [*folds(labels, seed, groups)]
    held = hold_out(labels, 0.2, seed, groups)
    splits.append((held, np.setdiff1d(np.arange(n), held)))
    for out, learned in splits:
        assert not set(groups[out]) & set(groups[learned])
        assert set(labels[learned]) == set(labels)
        assert sorted([*out, *learned]) == list(range(n))
    assert len(np.unique(np.concatenate([out for out, _ in splits[:-1]] + [[]]))) == sum(
        len(out) for out, _ in splits[:-1]
    )
    first, others = split_rows(groups, 0.7, seed)
    assert not set(groups[first]) & set(groups[others])
    assert sorted([*first, *others]) == list(range(n))


def test_folds_of_pairs_are_even() -> None:
    labels = np.repeat([0, 1], 250).repeat(2)
    found = [np.bincount(labels[out], minlength=2).tolist() for out, _ in folds(labels, 0, np.arange(500).repeat(2))]
    assert found == [[100, 100]] * 5


def test_texts_without_duplicates_raise_no_warning() -> None:
    texts, labels = noisy_texts(40, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HardmaxClassifier(n_heads=2, groups=1).fit(texts, labels)


def test_made_reviews_are_distinct() -> None:
    for n, options in ((2000, {}), (4000, {"negation": 0.0, "contrast": 0.0, "length": (6, 15)})):
        corpus = reviews(n, seed=4, **options)
        assert len(set(number_texts(corpus.texts).tolist())) == n


def test_train_notes_duplicates_with_the_rows_of_the_file(run) -> None:
    texts, labels = noisy_texts(40, 0)
    rows = [*zip(texts, labels, strict=True), ("", "a"), (texts[0], labels[0]), (f" {texts[5]} ", labels[5])]
    Path("rows.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    code, out, err = run("train", "rows.csv", "--out", "model", "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["duplicates"] == 2
    assert re.search(r"^2 of 42 texts are duplicates of an earlier text.*\(rows 42, 43\)\.", err, re.MULTILINE)
    assert "Warning" not in err
    assert "index" not in err


def test_train_takes_a_column_of_groups(run) -> None:
    texts, labels = noisy_texts(150, 0)
    rows = [
        (f"{word} {text}", label, i)
        for word in ("one", "two")
        for i, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    head = "comment,label,author\n"
    Path("rows.csv").write_text(head + "".join(f"{text},{label},{who}\n" for text, label, who in rows))
    found = {}
    for name, options in (("alone", []), ("together", ["--group", "author"])):
        code, out, err = run("train", "rows.csv", "--text", "comment", "--out", name, "--json", "--quiet", *options)
        assert code == 0, err
        found[name] = json.loads(out)["validation_accuracy"]
    assert found["alone"] > 0.8 > 0.75 > found["together"]
    code, _, err = run("train", "rows.csv", "--text", "comment", "--out", "x", "--group", "autor")
    assert code == 2
    assert "`--group` must name one column of rows.csv. Got 'autor'. Did you mean 'author'?" in err
    code, _, err = run("train", "--data", "imdb", "--out", "x", "--group", "author")
    assert code == 2
    assert "`--group` must" in err


GOOD, BAD = ["great", "lovely", "superb", "fine", "nice"], ["awful", "terrible", "poor", "dull", "weak"]


def two_classes(rows=60):
    """Return texts of two classes that differ in two words, with a word of their own, and their labels."""
    texts = [f"the film number{i} was {GOOD[i % 5]} and {GOOD[(i + 2) % 5]}" for i in range(rows)]
    texts += [f"the film number{i} was {BAD[i % 5]} and {BAD[(i + 2) % 5]}" for i in range(rows, 2 * rows)]
    return texts, ["p"] * rows + ["n"] * rows


def test_a_class_in_one_group_is_predicted_and_not_counted_as_right():
    texts, labels = two_classes()
    classifier = HardmaxClassifier(n_heads=4)
    with pytest.warns(UserWarning, match=r"No text of class 'p' can be held out, as all 60 are equal or in one group"):
        classifier.fit(texts, labels, groups=["one author"] * 60 + list(range(60)))
    assert classifier.score(texts, labels) > 0.95
    assert classifier.history_[-1].accuracy <= 0.5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_class_of_equal_texts_is_predicted():
    texts, labels = two_classes()
    texts[:60] = [texts[0]] * 60
    classifier = HardmaxClassifier(n_heads=4).fit(texts, labels)
    assert classifier.predict(texts[:1]).tolist() == ["p"]
    assert classifier.score(texts, labels) > 0.9


@pytest.mark.filterwarnings("ignore:Left out 20 of 32 rows")
def test_many_groups_and_rows_that_are_left_out():
    texts, labels = two_classes(6)
    HardmaxClassifier(n_heads=4).fit([None] * 20 + texts, ["p"] * 20 + labels, groups=list(range(32)))
