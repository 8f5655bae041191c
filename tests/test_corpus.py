"""Synthetic reviews: their label depends on the planted words alone."""

import re
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest

from hardmax.text.datasets import LANGUAGE, reviews

SIGN = {"positive": 1, "negative": -1}
SIGNS = {
    word: sign
    for label, sign in SIGN.items()
    for word in chain(*LANGUAGE["words"][label])
}
NEGATIONS = LANGUAGE["negations"]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def phrases(text: str) -> list[tuple[str, int]]:
    """Return the sentiment words of a text with their sign; a negation reverses it."""
    pairs = [pair for pair in pairwise(["", *words_of(text)]) if pair[1] in SIGNS]
    return [
        (f"{a} {b}", -SIGNS[b]) if a in NEGATIONS else (b, SIGNS[b]) for a, b in pairs
    ]


def test_planted_words_carry_the_label() -> None:
    corpus = reviews(1000, seed=1)
    for text, label, planted in zip(
        corpus.texts, corpus.labels, corpus.planted, strict=True
    ):
        after = text.split(" but ")[-1]
        assert phrases(after) == [(phrase, SIGN[label]) for phrase, _ in phrases(after)]
        assert Counter(planted) == Counter(phrase for phrase, _ in phrases(after))
        assert all(phrase in text for phrase in planted)


def test_the_opposite_precedes_but() -> None:
    corpus = reviews(500, contrast=1)
    for text, label in zip(corpus.texts, corpus.labels, strict=True):
        before, _ = text.split(" but ")
        assert [sign for _, sign in phrases(before)] == [-SIGN[label]]


def test_balance_lengths_and_probabilities() -> None:
    corpus = reviews(2001, seed=2)
    assert Counter(corpus.labels) == {"positive": 1001, "negative": 1000}
    assert {len(text.split()) for text in corpus.texts} == set(range(6, 31))
    assert abs(sum(" but " in text for text in corpus.texts) / 2001 - 0.2) < 0.03
    negated = [" " in phrase for planted in corpus.planted for phrase in planted]
    assert abs(sum(negated) / len(negated) - 0.2) < 0.03
    assert {
        len(text.split())
        for text in reviews(50, length=(15, 15), contrast=1, negation=1).texts
    } == {15}
    corpus = reviews(500, negation=0, contrast=0)
    assert not any(set(words_of(text)) & {"but", *NEGATIONS} for text in corpus.texts)
    assert all(
        " " in phrase
        for planted in reviews(500, negation=1).planted
        for phrase in planted
    )


def test_the_same_seed_gives_the_same_corpus() -> None:
    assert reviews(50, seed=4) == reviews(50, seed=4)
    assert reviews(50, seed=4) != reviews(50, seed=5)
    assert reviews(1).labels == ["positive"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", 0), ("seed", -1), ("negation", 1.5), ("contrast", "much")),
        *(
            ("length", (6, 10)),
            ("length", (30, 6)),
            ("length", 20),
            ("length", (6.5, 30)),
        ),
    ],
)
def test_invalid_parameters(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^`{name}` must"):
        reviews(**{"n": 2} | {name: value})
