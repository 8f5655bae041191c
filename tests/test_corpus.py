"""Synthetic reviews: their label hangs on the planted words, and on nothing else."""

import re
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest

from hardmax.text.datasets import LANGUAGE, reviews

SIGN = {"positive": 1, "negative": -1}
SIGNS = {word: sign for label, sign in SIGN.items() for word in chain(*LANGUAGE["words"][label])}
CONTRASTS, NEGATIONS = LANGUAGE["contrasts"], LANGUAGE["negations"]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def phrases(text: str) -> list[tuple[str, int]]:
    """The sentiment words of a text with their sign, negations taken into account."""
    words = ["", *words_of(text)]
    found = []
    for before, word in pairwise(words):
        if word in SIGNS:
            negated = before in NEGATIONS
            found.append((f"{before} {word}" if negated else word, -SIGNS[word] if negated else SIGNS[word]))
    return found


def test_the_planted_words_carry_the_label() -> None:
    corpus = reviews(2000, seed=1)
    for text, label, planted in zip(corpus.texts, corpus.labels, corpus.planted, strict=True):
        after = text.split(" but ")[-1]
        assert phrases(after) == [(phrase, SIGN[label]) for phrase, _ in phrases(after)]
        assert Counter(planted) == Counter(phrase for phrase, _ in phrases(after))
        assert all(phrase in text for phrase in planted)


def test_what_precedes_but_says_the_opposite() -> None:
    corpus = reviews(500, contrast=1)
    for text, label in zip(corpus.texts, corpus.labels, strict=True):
        before, _ = text.split(" but ")
        assert [sign for _, sign in phrases(before)] == [-SIGN[label]]


def test_balance_lengths_and_shares() -> None:
    corpus = reviews(2001, seed=2)
    assert Counter(corpus.labels) == {"positive": 1001, "negative": 1000}
    lengths = [len(text.split()) for text in corpus.texts]
    assert min(lengths) >= 6
    assert max(lengths) <= 30
    assert abs(sum(" but " in text for text in corpus.texts) / 2001 - 0.2) < 0.03
    negated = [" " in phrase for planted in corpus.planted for phrase in planted]
    assert abs(sum(negated) / len(negated) - 0.2) < 0.03
    assert {len(text.split()) for text in reviews(50, length=(15, 15), contrast=1, negation=1).texts} == {15}
    assert max(len(words_of(text)) for text in CONTRASTS) < 15


def test_none_where_none_are_wanted() -> None:
    corpus = reviews(500, negation=0, contrast=0)
    assert not any(set(words_of(text)) & {"but", *NEGATIONS} for text in corpus.texts)
    assert all(" " in phrase for planted in reviews(500, negation=1).planted for phrase in planted)


def test_the_same_seed_gives_the_same_corpus() -> None:
    assert reviews(50, seed=4) == reviews(50, seed=4)
    assert reviews(50, seed=4) != reviews(50, seed=5)
    assert reviews(1).labels == ["positive"]


def accuracy(corpus: Any, pairs: bool) -> float:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    linear, pipeline = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.pipeline")
    counts = text.CountVectorizer(ngram_range=(1, 1 + pairs), token_pattern=r"\w+")
    model = pipeline.make_pipeline(counts, linear.LogisticRegression(C=3, max_iter=1000))
    model.fit(corpus.texts[:4000], corpus.labels[:4000])
    return float(model.score(corpus.texts[4000:], corpus.labels[4000:]))


def test_word_pairs_are_needed_and_suffice() -> None:
    corpus = reviews(5000)
    assert accuracy(corpus, pairs=True) > 0.9
    assert accuracy(corpus, pairs=False) < 0.8
    assert accuracy(reviews(5000, negation=0, contrast=0), pairs=False) > 0.99


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", 0), ("seed", -1), ("negation", 1.5), ("contrast", "much")),
        *(("length", (6, 10)), ("length", (30, 6)), ("length", 20), ("length", (6.5, 30))),
    ],
)
def test_bad_input(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^`{name}` must"):
        reviews(**{"n": 2} | {name: value})
