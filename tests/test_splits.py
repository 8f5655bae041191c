"""Splits of labelled texts: equal texts and groups are on one side, and every class is
learned.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from studies.classifier import split_rows

from hardmax import HardmaxClassifier
from hardmax.text.datasets import reviews
from hardmax.text.validation import (
    check_groups,
    folds,
    hold_out,
    join_groups,
    number_texts,
)

STARTS = {"linear": {}, "random": {"epochs": 8, "ngram_range": (1, 2), "min_df": 1}}


def noisy_texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts of random words: learned ones are predicted well, new ones little
    better than by chance.
    """
    random = np.random.default_rng(seed)
    labels = ["ab"[i % 2] for i in range(count)]
    words, signed = random.integers(0, 4000, (count, 12)), random.random(count) < 0.3
    signs = [
        f" sign{label}" if has_sign else ""
        for label, has_sign in zip(labels, signed, strict=True)
    ]
    return [
        " ".join(f"w{w}" for w in row) + sign
        for row, sign in zip(words, signs, strict=True)
    ], labels


def held_accuracy(classifier: HardmaxClassifier) -> float:
    return next(epoch.accuracy for epoch in classifier.history_ if epoch.kept)


@pytest.mark.parametrize("start", STARTS)
def test_duplicates_do_not_raise_the_reported_accuracy(start: str) -> None:
    texts, labels = noisy_texts(300, 0)
    new_texts, new_labels = noisy_texts(600, 1)
    copies = [
        f"{text.upper()} <br/> !" for text in texts
    ]  # equal but for case, markup and punctuation
    classifier = HardmaxClassifier(n_heads=4, groups=2, validation=0.3, **STARTS[start])
    with pytest.warns(
        UserWarning,
        match=r"^300 of 600 texts .*\(at index 300, 301, 302, 303, 304, \.\.",
    ):
        classifier.fit(texts + copies, labels * 2)
    assert classifier.start_ == start
    assert (
        held_accuracy(classifier)
        < classifier.score(new_texts, new_labels) + 0.12
        < 0.85
    )
    assert classifier.score(texts, labels) > 0.8  # of texts that were learned


@pytest.mark.parametrize("start", STARTS)
def test_groups_are_held_out_together(start: str) -> None:
    texts, labels = noisy_texts(300, 0)
    copies = [
        f"again {text}" for text in texts
    ]  # nearly equal, so that only groups show it
    classifier = HardmaxClassifier(n_heads=4, groups=2, validation=0.3, **STARTS[start])
    alone = held_accuracy(classifier.fit(texts + copies, labels * 2))
    names = [f"author {i}" for i in range(300)]
    together = held_accuracy(
        classifier.fit(texts + copies, labels * 2, groups=names * 2)
    )
    signed = np.mean(["sign" in text for text in texts])
    expected, error = (
        (1 + signed) / 2,
        ((1 - signed) / 4 / 300) ** 0.5,
    )  # texts without a sign are guessed
    assert together < expected + 3 * error < alone


def test_groups_of_rows_that_are_left_out_are_ignored() -> None:
    texts, labels = noisy_texts(60, 0)
    few = HardmaxClassifier(n_heads=2, groups=1)
    groups = np.arange(60) // 2
    with pytest.warns(UserWarning, match=r"Left out 1 of 61 rows"):
        one = few.fit(["", *texts], ["a", *labels], groups=[99, *groups]).history_
    weights = np.append(np.ones(60), 0)
    two = few.fit(
        [*texts, "left out"], [*labels, "a"], weights, groups=[*groups, 99]
    ).history_
    assert one == two == few.fit(texts, labels, groups=groups.tolist()).history_


def test_missing_groups_are_groups_of_their_own() -> None:
    assert check_groups(["a", None, "b", "", "a", float("nan")], 6).tolist() == [
        0,
        1,
        2,
        3,
        0,
        4,
    ]


def test_texts_are_equal_up_to_case_spaces_markup_and_punctuation() -> None:
    texts = [
        "A good film.",
        "a  GOOD<br />film",
        "a good, film",
        "a goodfilm",
        "!",
        "?",
        "good 🙂",
        "good 🙁",
    ]
    assert number_texts(texts).tolist() == [0, 0, 0, 1, 2, 3, 4, 5]


def test_groups_and_equal_texts_are_joined() -> None:
    joined = join_groups(np.array([0, 1, 0, 2, 3]), np.array([0, 1, 1, 2, 3]))
    assert joined.tolist() == [
        0,
        0,
        0,
        1,
        2,
    ]  # 0 and 2 are equal texts, 1 and 2 are of one group


@pytest.mark.parametrize("seed", range(12))
def test_splits_keep_groups_together_and_classes_everywhere(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, classes = int(random.integers(2, 150)), int(random.integers(2, 5))
    labels = np.unique(random.integers(0, classes, n), return_inverse=True)[1]
    groups = np.unique(
        random.integers(0, max(1, n // int(random.integers(1, 6))), n),
        return_inverse=True,
    )[1]
    splits = [*folds(labels, groups)]
    held = hold_out(labels, 0.2, seed, groups)
    splits.append((held, np.setdiff1d(np.arange(n), held)))
    for out, learned in splits:
        assert not set(groups[out]) & set(groups[learned])
        assert set(labels[learned]) == set(labels)
        assert sorted([*out, *learned]) == list(range(n))
    held_out = [row for out, _ in splits[:-1] for row in out.tolist()]
    assert len(set(held_out)) == len(held_out)
    first, others = split_rows(groups, 0.7, seed)
    assert not set(groups[first]) & set(groups[others])
    assert sorted([*first, *others]) == list(range(n))


def test_folds_of_pairs_are_even() -> None:
    labels = np.repeat([0, 1], 250).repeat(2)
    found = [
        np.bincount(labels[out], minlength=2).tolist()
        for out, _ in folds(labels, np.arange(500).repeat(2))
    ]
    assert found == [[100, 100]] * 5


def test_made_reviews_are_distinct() -> None:
    for n, options in (
        (2000, {}),
        (4000, {"negation": 0.0, "contrast": 0.0, "length": (6, 15)}),
    ):
        corpus = reviews(n, seed=4, **options)
        assert len(set(number_texts(corpus.texts).tolist())) == n


def test_train_notes_duplicates_with_the_rows_of_the_file(run) -> None:
    texts, labels = noisy_texts(40, 0)
    rows = [
        *zip(texts, labels, strict=True),
        ("", "a"),
        (texts[0], labels[0]),
        (f" {texts[5]} ", labels[5]),
    ]
    Path("rows.csv").write_text(
        "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
    )
    code, out, err = run("train", "rows.csv", "--out", "model", "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["duplicates"] == 2
    assert re.search(
        r"^2 of 42 texts are duplicates of an earlier text.*\(rows 42, 43\)\.",
        err,
        re.MULTILINE,
    )
    assert "Warning" not in err
    assert "index" not in err


def test_train_takes_a_column_of_groups(run) -> None:
    texts, labels = noisy_texts(150, 0)
    pairs = enumerate(zip(texts, labels, strict=True))
    rows = [
        f"{word} {text},{label},{i}\n"
        for i, (text, label) in pairs
        for word in ("one", "two")
    ]
    Path("rows.csv").write_text("comment,label,author\n" + "".join(rows))
    found = []
    for options in ([], ["--group", "author"]):
        code, out, err = run(
            "train",
            "rows.csv",
            "--text",
            "comment",
            "--out",
            f"m{len(found)}",
            "--json",
            *options,
        )
        assert code == 0, err
        found.append(json.loads(out)["validation_accuracy"])
    assert found[0] > 0.8 > 0.75 > found[1]
    for wrong in (
        ("rows.csv", "--text", "comment", "--group", "autor"),
        ("--data", "imdb", "--group", "author"),
    ):
        code, _, err = run("train", *wrong, "--out", "x")
        assert code == 2
        assert "`--group` must" in err


GOOD, BAD = (
    ["great", "lovely", "superb", "fine", "nice"],
    ["awful", "terrible", "poor", "dull", "weak"],
)


def two_classes(rows=60):
    """Return texts of two classes that differ in two words, with a word of their own,
    and their labels.
    """
    texts = [
        f"the film number{i} was {GOOD[i % 5]} and {GOOD[(i + 2) % 5]}"
        for i in range(rows)
    ]
    texts += [
        f"the film number{i} was {BAD[i % 5]} and {BAD[(i + 2) % 5]}"
        for i in range(rows, 2 * rows)
    ]
    return texts, ["p"] * rows + ["n"] * rows


@pytest.mark.filterwarnings("ignore:.*are duplicates of an earlier text")
@pytest.mark.parametrize("equal", [True, False])
def test_a_class_that_is_never_held_out_is_predicted_and_counts_as_errors(equal):
    texts, labels = two_classes()
    texts[:60] = [texts[0]] * 60 if equal else texts[:60]
    classifier = HardmaxClassifier(n_heads=4)
    with pytest.warns(
        UserWarning,
        match=(
            r"No text of class 'p' can be held out, as all 60 are equal or in one group"
        ),
    ):
        classifier.fit(
            texts,
            labels,
            groups=None if equal else ["one author"] * 60 + list(range(60)),
        )
    assert classifier.score(texts, labels) > 0.95
    assert classifier.history_[-1].accuracy <= 0.5


@pytest.mark.filterwarnings("ignore:Left out 20 of 32 rows")
def test_groups_of_more_rows_than_are_left():
    texts, labels = two_classes(6)
    HardmaxClassifier(n_heads=4).fit(
        [None] * 20 + texts, ["p"] * 20 + labels, groups=list(range(32))
    )
