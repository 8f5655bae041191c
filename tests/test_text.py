"""From text to words and tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.text.parameters import Parameters
from hardmax.text.tokenizer import Splitter
from hardmax.text.vocabulary import Encoded, Vocabulary


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("   \n\t ", []),
        ("Good, GOOD film.", ["good", ",", "good", "film", "."]),
        ("I don't\u2019", ["i", "don't"]),
        ("it\u2019s", ["it's"]),
        ('"Yes" (no); a: b?!', ['"', "yes", '"', "(", "no", ")", ";", "a", ":", "b", "?", "!"]),
        ("one<br /><br />two", ["one", "two"]),
        ("fish &amp; chips &#39;now&#39;", ["fish", "chips", "now"]),
        ("3 < 4 and 5 > 2", ["3", "4", "and", "5", "2"]),
        ("Cafe\u0301 CAFÉ", ["café", "café"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("Привет 世界", ["привет", "世界"]),
        ("loved it 😍❤️!", ["loved", "it", "😍", "❤", "!"]),
        ("snake_case and 10/10", ["snake", "case", "and", "10", "10"]),
        ("\x00\ud800 lone", ["lone"]),
    ],
)
def test_words(text, words):
    assert Splitter().words(text) == words


@given(st.text(max_size=60))
def test_words_and_spans_agree(text):
    splitter = Splitter(stop_words=["a", "the"], max_words=5)
    assert [span.word for span in splitter.spans(text)] == splitter.words(text)
    assert all(text[s:e].strip() == text[s:e] != "" for _, s, e in splitter.spans(text))


def test_stop_words_and_lemmas():
    splitter = Splitter("english", "en", 3, punctuation=False)
    assert splitter.words("These movies were not the best films, I loved them") == ["movie", "not", "good"]
    assert [text for _, *text in splitter.spans("These movies")] == [[6, 12]]
    assert Splitter(["good"], "en").words("the best films") == ["the", "film"]  # by its lemma


def test_spans_stop_where_words_do():
    text = "These movies were not the best films, I loved them"
    for options in ({}, {"stop_words": "english"}, {"lemmas": "en"}):
        for most in (1, 2, 5, 100):
            splitter = Splitter(**options, max_words=most)
            assert [word for word, _, _ in splitter.spans(text)] == splitter.words(text)
            assert len(splitter.words(text)) <= most


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stop_words": "french"}, '`stop_words` must be "english"'),
        ({"lemmas": "xx"}, "`lemmas` must be a language that simplemma knows"),
        ({"max_words": 0}, "`max_words` must be at least 1"),
    ],
)
def test_bad_splitters(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Splitter(**options)


TEXTS = ["a good film", "a bad film", "not a good film", "good good good"]


def names(vocabulary, encoded, t=0):
    return [vocabulary.name(i) for i in encoded.ids[encoded.starts[t] : encoded.starts[t + 1]]]


def test_vocabulary_counts_texts_and_not_words():
    vocabulary = Vocabulary.build(TEXTS, Parameters(ngram_range=(1, 3), min_df=2))
    assert vocabulary.words == ("a", "film", "good")
    assert [vocabulary.name(t) for t in range(3)] == ["a", "film", "good"]
    assert [vocabulary.name(t) for t in range(3, len(vocabulary))] == ["a good", "good film", "a good film"]


def test_runs_may_have_at_least_so_many_words():
    vocabulary = Vocabulary.build(TEXTS, Parameters(ngram_range=(2, 3), min_df=2))
    assert [vocabulary.name(t) for t in range(len(vocabulary))] == ["a good", "good film", "a good film"]
    assert names(vocabulary, vocabulary.encode(["not a good film"])) == ["a good", "a good film", "good film"]
    few = Vocabulary.build(TEXTS * 10, Parameters(ngram_range=(2, 2), min_df=2, max_features=1, select="frequent"))
    assert [few.name(t) for t in range(len(few))] == ["a good"]


def test_telling_tokens_are_kept():
    texts = ["the good film"] * 6 + ["the bad film"] * 6 + ["the odd film"] * 2
    labels = np.array([1] * 6 + [0] * 6 + [0, 1])
    kept = Vocabulary.build(texts, Parameters(ngram_range=(1, 1), min_df=2, max_features=2), labels)
    assert sorted(kept.words) == ["bad", "good"]
    runs = Vocabulary.build(texts, Parameters(ngram_range=(1, 2), min_df=2, max_features=6), labels)
    assert sorted(runs.name(t) for t in range(len(runs))) == [
        "bad", "bad film", "good", "good film", "the bad", "the good",
    ]  # fmt: skip
    assert sorted(runs.words) == ["bad", "film", "good", "the"]  # "the" is no token, but part of some
    assert names(runs, runs.encode(["the good"])) == ["the good", "good"]


def test_tokens_are_distinct_and_in_order():
    vocabulary = Vocabulary.build(TEXTS, Parameters(ngram_range=(1, 2), min_df=1))
    encoded = vocabulary.encode(["good film , a good film", "", "unknown words"])
    assert names(vocabulary, encoded) == ["good", "good film", "film", "a", "a good"]
    assert encoded.counts.tolist() == [1] * 5
    assert encoded.sizes.tolist() == [5, 0, 0]


def test_occurrences_count_where_they_should():
    vocabulary = Vocabulary.build(TEXTS, Parameters(ngram_range=(1, 1), min_df=1, distinct=False))
    encoded = vocabulary.encode(["good film good", "bad"])
    assert names(vocabulary, encoded) == ["good", "film"]
    assert encoded.counts.tolist() == [2, 1, 1]


def test_runs_do_not_cross_unknown_words_or_texts():
    vocabulary = Vocabulary.build(["good film"] * 2, Parameters(ngram_range=(1, 2), min_df=2))
    assert names(vocabulary, vocabulary.encode(["good odd film"])) == ["good", "film"]
    assert vocabulary.encode(["good", "film"]).sizes.tolist() == [1, 1]


def test_the_most_frequent_tokens_are_kept():
    vocabulary = Vocabulary.build(TEXTS, Parameters(ngram_range=(1, 2), min_df=1, max_features=4))
    assert [vocabulary.name(t) for t in range(len(vocabulary))] == ["a", "film", "good", "a good"]


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=9), min_size=1, max_size=5), st.integers(1, 3))
def test_encoding_is_what_a_loop_would_do(documents, longest):
    texts = [" ".join(words) for words in documents]
    vocabulary = Vocabulary.build(["a b c", "b c d a", "c a b", "a a"], Parameters(ngram_range=(1, longest), min_df=1))
    known = {vocabulary.name(t) for t in range(len(vocabulary))}
    encoded = vocabulary.encode(texts)
    for t, words in enumerate(documents):
        runs = [" ".join(words[i : i + s]) for s in range(1, longest + 1) for i in range(len(words) - s + 1)]
        assert sorted(names(vocabulary, encoded, t)) == sorted(set(runs) & known)


def test_taking_and_padding():
    encoded = Encoded(np.array([4, 5, 6, 7]), np.array([0, 1, 1, 4]), np.array([2, 1, 1, 1]))
    some = encoded.take(np.array([2, 0]))
    assert some.ids.tolist() == [5, 6, 7, 4]
    ids, counts = some.padded()
    assert ids.tolist() == [[5, 6, 7], [4, 4, 4]]
    assert counts.tolist() == [[1, 1, 1], [2, 0, 0]]
    assert encoded.take(np.array([1])).padded()[1].tolist() == [[0]]
