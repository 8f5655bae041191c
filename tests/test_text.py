"""Words of texts, and the tokens of a vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import ParameterError
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
        (
            '"Yes" (no); a: b?!',
            ['"', "yes", '"', "(", "no", ")", ";", "a", ":", "b", "?", "!"],
        ),
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


@pytest.mark.parametrize(
    "options", [{"stop_words": ["a", "the"]}, {"stop_words": "english"}]
)
@given(
    st.text(max_size=60)
    | st.just("These movies were not the best films, I loved them"),
    st.integers(1, 12),
)
def test_words_and_spans_agree(options, text, max_words):
    splitter = Splitter(**options, max_words=max_words)
    assert [span.word for span in splitter.spans(text)] == splitter.words(text)
    assert all(text[s:e].strip() == text[s:e] != "" for _, s, e in splitter.spans(text))
    assert len(splitter.words(text)) <= max_words


def test_stop_words_and_lemmas():
    splitter = Splitter("english", "en", 3, punctuation=False)
    text = "These movies were not the best films, I loved them"
    assert (
        [span.word for span in splitter.spans(text)]
        == splitter.words(text)
        == ["movie", "not", "good"]
    )
    assert [text for _, *text in splitter.spans("These movies")] == [[6, 12]]
    assert Splitter(["good"], "en").words("the best films") == [
        "the",
        "film",
    ]  # by its lemma


@pytest.mark.parametrize(
    "options", [{"stop_words": "french"}, {"lemmas": "xx"}, {"max_words": 0}]
)
def test_invalid_parameters_of_a_splitter(options):
    with pytest.raises(ParameterError) as problem:
        Splitter(**options)
    assert problem.value.names == tuple(options)


TEXTS = ["a good film", "a bad film", "not a good film", "good good good"]


def build(texts, ngram_range, min_df, labels=None, **options):
    return Vocabulary.build(
        texts, Parameters(ngram_range=ngram_range, min_df=min_df, **options), labels
    )


def all_names(vocabulary):
    return vocabulary.names(np.arange(len(vocabulary)))


def names(vocabulary, encoded, t=0):
    return vocabulary.names(encoded.ids[encoded.starts[t] : encoded.starts[t + 1]])


def test_a_vocabulary_counts_texts_and_not_words():
    vocabulary = build(TEXTS, (1, 3), 2)
    assert vocabulary.words == ("a", "film", "good")
    assert all_names(vocabulary) == [
        "a",
        "film",
        "good",
        "a good",
        "good film",
        "a good film",
    ]
    assert all_names(build(TEXTS, (1, 2), 1, max_features=4)) == [
        "a",
        "film",
        "good",
        "a good",
    ]  # the most frequent


def test_n_grams_have_a_smallest_length():
    vocabulary = build(TEXTS, (2, 3), 2)
    assert all_names(vocabulary) == ["a good", "good film", "a good film"]
    assert names(vocabulary, vocabulary.encode(["not a good film"])) == [
        "a good",
        "a good film",
        "good film",
    ]
    assert all_names(
        build(TEXTS * 10, (2, 2), 2, max_features=1, select="frequent")
    ) == ["a good"]


def test_tokens_that_predict_the_label_are_kept():
    texts = ["the good film"] * 6 + ["the bad film"] * 6 + ["the odd film"] * 2
    labels = np.array([1] * 6 + [0] * 6 + [0, 1])
    assert sorted(build(texts, (1, 1), 2, labels, max_features=2).words) == [
        "bad",
        "good",
    ]
    pairs = build(texts, (1, 2), 2, labels, max_features=6)
    assert sorted(all_names(pairs)) == [
        "bad",
        "bad film",
        "good",
        "good film",
        "the bad",
        "the good",
    ]
    assert sorted(pairs.words) == [
        "bad",
        "film",
        "good",
        "the",
    ]  # "the" is no token, but part of some
    assert names(pairs, pairs.encode(["the good"])) == ["the good", "good"]


def test_tokens_are_distinct_and_in_order():
    vocabulary = build(TEXTS, (1, 2), 1)
    encoded = vocabulary.encode(["good film , a good film", "", "unknown words"])
    assert names(vocabulary, encoded) == ["good", "good film", "film", "a", "a good"]
    assert encoded.counts.tolist() == [1] * 5
    assert encoded.sizes.tolist() == [5, 0, 0]


def test_occurrences_are_counted():
    vocabulary = build(TEXTS, (1, 1), 1, distinct=False)
    encoded = vocabulary.encode(["good film good", "bad"])
    assert names(vocabulary, encoded) == ["good", "film"]
    assert encoded.counts.tolist() == [2, 1, 1]


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=9), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_encoding_equals_a_plain_loop(documents, longest):
    vocabulary = build(["a b c", "b c d a", "c a b", "a a"], (1, longest), 1)
    known, encoded = (
        set(all_names(vocabulary)),
        vocabulary.encode([" ".join(words) for words in documents]),
    )
    for t, words in enumerate(documents):
        ngrams = [
            " ".join(words[i : i + s])
            for s in range(1, longest + 1)
            for i in range(len(words) - s + 1)
        ]
        assert sorted(names(vocabulary, encoded, t)) == sorted(set(ngrams) & known)


def test_taking_and_padding():
    encoded = Encoded(
        np.array([4, 5, 6, 7]), np.array([0, 1, 1, 4]), np.array([2, 1, 1, 1])
    )
    some = encoded.take(np.array([2, 0]))
    assert some.ids.tolist() == [5, 6, 7, 4]
    ids, counts = some.padded()
    assert ids.tolist() == [[5, 6, 7], [4, 4, 4]]
    assert counts.tolist() == [[1, 1, 1], [2, 0, 0]]
    assert encoded.take(np.array([1])).padded()[1].tolist() == [[0]]
