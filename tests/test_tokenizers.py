"""A tokenizer function of a user: its words, their offsets, explanations, files and
errors.
"""

import json
import pickle
import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from hardmax import HardmaxClassifier, ParameterError
from hardmax.app.texts import Text, list_pieces
from hardmax.text.tokenizer import Splitter, find_offsets, full_name
from tests.test_attribution import assert_parts_sum_to_the_logit

GOOD = [
    "とても良い映画だ",
    "この映画は素晴らしい。",
    "良い話で、音楽も素晴らしい",
    "素晴らしい俳優と良い脚本",
]
BAD = [
    "とても悪い映画だ",
    "この映画は退屈だ。",
    "悪い話で、音楽も退屈",
    "退屈な俳優と悪い脚本",
]
JAPANESE, MOODS = GOOD + BAD, ["good"] * 4 + ["bad"] * 4

LEMMAS = {
    "was": "be",
    "is": "be",
    "were": "be",
    "better": "good",
    "went": "go",
    "films": "film",
}
ENGLISH = [
    "The film was good",
    "a good story",
    "better films",
    "The film was dull",
    "a dull story",
    "dull films",
]
SIDES = ["pos"] * 3 + ["neg"] * 3


def lemmas(text):
    """Return words as lemmas that need not occur in the text."""
    return [LEMMAS.get(word, word) for word in re.findall(r"[a-z]+", text.lower())]


def whole(text):
    """Return words unchanged, with their hyphens."""
    return re.findall(r"[\w-]+", text)


@pytest.fixture(scope="module")
def japanese():
    return HardmaxClassifier(tokenizer=list, n_heads=4, groups=1).fit(JAPANESE, MOODS)


@pytest.fixture(scope="module")
def normalising():
    return HardmaxClassifier(tokenizer=lemmas, n_heads=4, groups=1).fit(ENGLISH, SIDES)


def test_words_of_a_tokenizer_are_not_changed():
    splitter = Splitter(tokenizer=whole, punctuation=True)
    assert splitter.words("A Well-made Film, truly!") == [
        "A",
        "Well-made",
        "Film",
        "truly",
    ]
    assert splitter.spans("A Well-made Film")[1] == ("Well-made", 2, 11)
    assert Splitter(["A", "film"], None, 2, tokenizer=whole).words(
        "A Film a film b"
    ) == ["Film", "a"]
    assert Splitter(lemmas="en", tokenizer=whole).spans("two movies") == [
        ("two", 0, 3),
        ("movie", 4, 10),
    ]
    text = "a film, <b>A</b> film"
    shortened = Splitter("english", None, 2, tokenizer=whole)
    assert (
        [span.word for span in shortened.spans(text)]
        == shortened.words(text)
        == ["film", "b"]
    )


@pytest.mark.parametrize(
    ("words", "text", "places"),
    [
        (["良", "い"], "良い", [(0, 1), (1, 2)]),
        (
            ["good", "film", "good"],
            "Good film, good",
            [(0, 4), (5, 9), (11, 15)],
        ),  # not the last one for the first
        (["she", "go", "home"], "She went home", [(0, 3), (3, 3), (9, 13)]),
        (["go"], "went", [(0, 0)]),
        (
            ["it", "be", "dull", "not", "good"],
            "It was dull, not better",
            [(0, 2), (2, 2), (7, 11), (13, 16), (16, 16)],
        ),
        (
            ["be", "dull", "better"],
            "Was dull, better",
            [(0, 0), (4, 8), (10, 16)],
        ),  # "be" of "better" is none
        (
            ["go", "happy", "a", "film"],
            "Was happy: a film",
            [(0, 0), (4, 9), (11, 12), (13, 17)],
        ),  # "a" of "was"
        (
            ["食べる", "映画", "良い"],
            "食った映画良い、食べる",
            [(0, 0), (3, 5), (5, 7)],
        ),
        (["strasse", "s"], "Straße s", [(0, 6), (7, 8)]),
        (
            ["s", "s", "x"],
            "ẞX",
            [(0, 1), (1, 1), (1, 2)],
        ),  # two letters of one: no place is given twice
        ([], "", []),
        (["a"], "", [(0, 0)]),
    ],
)
def test_offsets_of_words(words, text, places):
    assert find_offsets(words, text) == places


@given(
    st.lists(st.text("aAbßẞİs ", min_size=1, max_size=3)),
    st.text("aAbßẞİs ", max_size=30),
)
def test_offsets_increase(words, text):
    ends = [0]
    for start, end in find_offsets(words, text):
        assert ends[-1] <= start <= end <= len(text)
        ends.append(end)


def test_a_language_without_spaces(japanese):
    assert japanese.predict(["良い映画", "退屈な映画"]).tolist() == ["good", "bad"]
    text = "この話は退屈。でも音楽は良い"
    why = japanese.explain(text)
    assert [(mark.word, mark.start, mark.end) for mark in why.highlights] == [
        (c, i, i + 1) for i, c in enumerate(text)
    ]
    assert_parts_sum_to_the_logit(why)
    assert [part.text for part in why.by_sentence()] == [
        "この話は退屈。",
        "でも音楽は良い",
    ]
    phrases = ["話は「退屈\uff01\uff1f」", "でも、", "良い"]
    assert [
        part.text for part in japanese.explain("".join(phrases)).by_phrase()
    ] == phrases
    assert why.by_phrase(["音楽は良い"])[0].places == ((9, 14),)
    shown = list_pieces(Text(text), why)
    assert "".join(piece["text"] for piece in shown) == text
    assert set(why.as_written) == set(why.words.tolist())
    assert why.minimal_flip().flips


def test_spaces_may_be_words(japanese):
    spaced = [" ".join(text) + "\n\n" for text in JAPANESE]
    classifier = HardmaxClassifier(tokenizer=list, n_heads=4, groups=1).fit(
        spaced, MOODS
    )
    for text in ("\n\n 良 い\n\n", "  ", ""):
        assert_parts_sum_to_the_logit(classifier.explain(text))
    assert all(
        word.strip() for word in classifier.explain(spaced[0]).minimal_flip().words
    )


def test_words_that_do_not_occur_in_the_text_are_kept(normalising):
    text = "The films were  Dull, but it better"
    why = normalising.explain(text)
    found = {mark.word: text[mark.start : mark.end] for mark in why.highlights}
    assert found == {
        "the": "The",
        "film": "film",
        "be": "",
        "dull": "Dull",
        "but": "but",
        "it": "it",
        "good": "",
    }
    assert_parts_sum_to_the_logit(why)
    named = {part.text: part.places for part in why.by_word()}
    assert named["good"] == ((len("The films were  Dull, but it"),) * 2,)
    assert named["Dull"] == ((16, 20),)
    assert ">good<" in why.to_html()
    written = {
        name: why.as_written[name]
        for name in ("be", "dull", "film be", "be dull", "the film")
    }
    assert list(written.values()) == ["be", "Dull", "film be", "be dull", "The film"]
    shown = list_pieces(Text(text), why)
    assert "".join(piece["text"] for piece in shown) == text
    assert all(piece["text"] for piece in shown)
    edited = Text(text, ((16, 20, "fine"),))
    shown = list_pieces(edited, normalising.explain(edited.read))
    assert "".join(piece.get("was", piece["text"]) for piece in shown) == text


def test_a_word_behind_the_last_sentence_belongs_to_it():
    def counted(text):
        return [*lemmas(text), f"<{len(text)} letters>"]

    why = (
        HardmaxClassifier(tokenizer=counted, n_heads=4, groups=1)
        .fit(ENGLISH, SIDES)
        .explain("Good. A film")
    )
    assert why.highlights[-1][:3] == ("<12 letters>", 12, 12)
    assert abs(why.highlights[-1].contribution) > 1e-6
    assert [part.text for part in why.by_sentence()] == ["Good.", "A film"]
    assert_parts_sum_to_the_logit(why)


def test_only_words_of_the_text_are_removed(normalising):
    flip = normalising.explain("better").minimal_flip()
    assert not flip.flips
    assert flip.places == ()
    assert normalising.explain("a dull story").minimal_flip().words == ("dull",)


def test_files_hold_the_name_of_the_function(normalising, tmp_path):
    normalising.save(tmp_path / "m")
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    assert about["text"]["tokenizer"] == f"{__name__}.lemmas"
    assert "tokenizer" not in about["params"]
    assert (
        f"tokenizer that it was trained with: {__name__}.lemmas."
        in (tmp_path / "m" / "README.md").read_text()
    )
    read = HardmaxClassifier.load(tmp_path / "m", tokenizer=lemmas)
    assert read.get_params() == normalising.get_params()
    assert (
        read.decision_function(ENGLISH).tobytes()
        == normalising.decision_function(ENGLISH).tobytes()
    )
    with pytest.raises(
        ParameterError,
        match=f"with the tokenizer that it was trained with, '{__name__}.lemmas'",
    ):
        HardmaxClassifier.load(tmp_path / "m")
    with pytest.raises(ParameterError, match=r"^`tokenizer`"):
        HardmaxClassifier.load(tmp_path / "m", tokenizer="lemmas")


def test_the_command_line_cannot_use_it(normalising, run):
    normalising.save("m")
    for words in (("predict", "good"), ("explain", "good"), ("predict", "--card")):
        code, out, err = run(*words, "--model", "m")
        assert (code, out) == (2, "")
        assert "The command line and the app cannot use this model." in err


def test_a_model_without_one_takes_none(tmp_path):
    plain = HardmaxClassifier(n_heads=4, groups=1).fit(ENGLISH, SIDES)
    plain.save(tmp_path / "m")
    assert (
        "tokenizer"
        not in json.loads((tmp_path / "m" / "model.json").read_text())["text"]
    )
    with pytest.raises(ParameterError, match=r"^`tokenizer` .* Got builtins\.list\.$"):
        HardmaxClassifier.load(tmp_path / "m", tokenizer=list)


def test_copies(normalising):
    assert clone(normalising).tokenizer is lemmas
    again = pickle.loads(pickle.dumps(normalising))
    assert (
        again.decision_function(ENGLISH).tolist()
        == normalising.decision_function(ENGLISH).tolist()
    )
    words = re.compile(r"\w+").findall
    assert clone(HardmaxClassifier(tokenizer=words)).fit(ENGLISH, SIDES).predict(
        ["good"]
    ).tolist() == ["pos"]
    assert (full_name(words), full_name(partial(whole)), full_name(list)) == (
        "Pattern.findall",
        "functools.partial",
        "builtins.list",
    )


@pytest.mark.parametrize(
    ("tokenizer", "got"),
    [
        ("jieba", "'jieba'"),
        (str.lower, "str for 'a dull story'"),
        (lambda text: iter(text.split()), "list_iterator for 'a dull story'"),
        (lambda text: text.split("t"), "str '' at index 1 for 'better films'"),
        (lambda text: [*text.split(), 3], "int '3' at index 3 for 'a dull story'"),
        (lambda _: None, "NoneType for 'a dull story'"),
    ],
)
def test_a_wrong_tokenizer_is_refused(tokenizer, got):
    with pytest.raises(ParameterError) as caught:
        HardmaxClassifier(tokenizer=tokenizer).fit(ENGLISH, SIDES)
    assert (caught.value.names, caught.value.got) == (("tokenizer",), got)
