"""Parts of a text that sum to the logit; words without which the prediction is another;
two texts compared.
"""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import hardmax as hm
from hardmax.text.attribution import remove_words
from hardmax.text.explanation import explain

TEXT = (
    "Wonderful. I (truly) loved it, though the end is dull;  the end! A wonderful film."
)
TEXTS = [TEXT, "Not good, not bad: a film.", "no", "wonderful", "  . , !"]


@pytest.fixture(scope="module", params=["imdb", "imdb-2d"])
def classifier(request):
    return hm.pretrained(request.param)


@pytest.fixture(scope="module")
def why():
    return hm.pretrained("imdb").explain(TEXT)


def assert_parts_sum_to_the_logit(explanation, **options):
    """Return the parts by word, by sentence and by phrase."""
    found = [
        getattr(explanation, name)(**options)
        for name in ("by_word", "by_sentence", "by_phrase")
    ]
    for parts in found:
        assert explanation.bias + sum(part.value for part in parts) == pytest.approx(
            explanation.logit, abs=1e-9
        )
    return found


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_all_parts_and_the_bias_sum_to_the_logit(classifier, text, even):
    for parts in assert_parts_sum_to_the_logit(classifier.explain(text), even=even):
        for part in parts:
            start, end = part.places[0]
            assert " ".join(text[start:end].split()) == part.text


def test_sentences_phrases_and_words_have_their_offsets(why):
    words, sentences, phrases = assert_parts_sum_to_the_logit(why)
    middle = "I (truly) loved it, though the end is dull; the end!"
    assert [part.text for part in sentences] == [
        "Wonderful.",
        middle,
        "A wonderful film.",
    ]
    pieces = ["I", "(truly)", "loved it,", "though the end is dull;", "the end!"]
    assert [part.text for part in phrases] == [
        "Wonderful.",
        *pieces,
        "A wonderful film.",
    ]
    (wonderful,) = [part for part in words if part.text == "Wonderful"]
    assert wonderful.places == (
        (0, 9),
        (TEXT.rindex("wonderful"), TEXT.rindex("wonderful") + 9),
    )
    sizes = [abs(part.value) for part in words]
    assert sizes == sorted(sizes, reverse=True)


def test_given_phrases_are_found_in_the_text(why):
    marks = {mark.start: mark.contribution for mark in why.highlights}
    dull, end = why.by_phrase(["is  DULL", "the end"])
    assert dull.value == pytest.approx(
        sum(marks[TEXT.index(word)] for word in ("is dull", "dull"))
    )
    assert (end.named, len(end.places)) == ("the end (2 times)", 2)
    for wrong in (["great"], "dull", [" "]):
        with pytest.raises(hm.ParameterError, match=r"^`phrases`"):
            why.by_phrase(wrong)


def test_punctuation_keeps_its_share_of_ngrams_and_parts_them():
    why = hm.pretrained("imdb").explain("Wonderful. I")
    term = dict(zip(why.words.tolist(), why.contributions.tolist(), strict=True))
    found = {mark.word: mark.contribution for mark in why.highlights}
    assert found["."] == pytest.approx(
        term["."] + (term["wonderful ."] + term[". i"]) / 2 + term["wonderful . i"] / 3
    )
    assert found["i"] == pytest.approx(term["i"] + term[". i"] / 2)
    assert found["wonderful"] == pytest.approx(
        term["wonderful"] + term["wonderful ."] / 2 + term["wonderful . i"] * 2 / 3
    )
    by_word = {part.text: part.value for part in why.by_word()}
    assert by_word == pytest.approx(
        {"Wonderful": found["wonderful"] + found["."], "I": found["i"]}
    )
    assert why.strongest_ngrams()[0, 9] == "Wonderful. I"
    assert (11, 12) not in why.strongest_ngrams()


@pytest.mark.parametrize(
    "text",
    [
        "It was great, really great, and moving, yes.",
        'Great fun ... (really)! But, well, "long".',
        "... Well, yes.",
        ", , great",
    ],
)
def test_punctuation_is_no_word_by_itself(text):
    classifier = hm.pretrained("imdb")
    why = classifier.explain(text)
    assert_parts_sum_to_the_logit(why)
    for even in (True, False):
        parts = why.by_word(even=even)
        assert all(any(map(str.isalnum, part.text)) for part in parts)
        total = why.bias + sum(part.value for part in parts)
        assert total == pytest.approx(why.logit, abs=1e-9)
    clauses = {part.text: part.value for part in why.by_phrase()}
    if "yes." in clauses:  # its full stop counts for the only word
        found = {part.text: part.value for part in why.by_word()}
        assert found["yes"] == pytest.approx(clauses["yes."])
    (strongest,) = classifier.answers([text])["strongest_words"]
    assert ", ," not in strongest
    assert not strongest.startswith((", ", ". "))
    assert ", , " not in repr(why)


def test_punctuation_alone_is_shown():
    why = hm.pretrained("imdb").explain("! ?")
    assert [part.text for part in why.by_word()] in (["!", "?"], ["?", "!"])
    assert_parts_sum_to_the_logit(why)


def test_words_of_one_lemma_are_shown_as_they_are_written():
    text = "The best film. Good acting, good story."
    why = hm.pretrained("imdb-2d").explain(text)  # with lemmas: best is good
    found = {part.named: (part.value, part.places) for part in why.by_word()}
    term = dict(zip(why.words.tolist(), why.contributions.tolist(), strict=True))
    assert found["best"] == (pytest.approx(term["good"] / 3), ((4, 8),))
    assert found["Good (2 times)"][0] == pytest.approx(term["good"] * 2 / 3)
    assert [text[a:b] for a, b in found["Good (2 times)"][1]] == ["Good", "good"]
    assert why.as_written["good"] == "best / Good"
    assert_parts_sum_to_the_logit(why)


def test_tokens_are_shown_as_written():
    why = hm.pretrained("imdb").explain("It is WONDERFUL.\nI loved it.")
    assert set(why.as_written) == set(why.words.tolist())
    assert (why.as_written["wonderful . i"], why.as_written["it"]) == (
        "WONDERFUL. I",
        "It",
    )
    assert "WONDERFUL. I +" in repr(why)
    assert why.top(1)[0][0] == "WONDERFUL. I"
    assert "WONDERFUL. I -" in repr(why.counterfactual("It is."))


def test_leaders_over_all_heads_are_those_of_the_heads(why):
    rows = why.leading()
    assert sum(row.heads for row in rows) == sum(map(len, why.leaders))
    shares = [
        one.share for head in why.leaders for one in head if one.word == rows[0].word
    ]
    assert (rows[0].heads, rows[0].share) == (
        len(shares),
        pytest.approx(np.mean(shares)),
    )


def test_words_that_contribute_most_in_an_ngram_are_shown_with_it():
    text = "Garbage. A waste of talent, and of time."
    why, plane = (hm.pretrained(name).explain(text) for name in ("imdb", "imdb-2d"))
    ngrams = why.strongest_ngrams()
    assert ngrams[text.index("of"), text.index("of") + 2] == "waste of"
    assert (0, 7) not in ngrams  # a word with its full stop counts as the word
    assert not plane.strongest_ngrams()
    assert "of (2 times) <small>in “waste of”</small>" in why.to_html()
    assert "shared evenly by its words" in why.to_html()
    assert "shared evenly by its words" not in plane.to_html()


FINE = "It was fine at first, then slow, but a classic in the end."


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("imdb-2d", FINE),
        (
            "imdb",
            "worst not at a at boring best acting not",
        ),  # after one pass, a word is no longer needed
        ("imdb", "waste really of waste was film so and all"),
    ],
)
def test_each_word_of_a_flip_is_needed(model, text):
    why = hm.pretrained(model).explain(text)
    found = why.minimal_flip()
    assert found.flips
    assert (
        explain(why.model, remove_words(text, found.places)).prediction
        == found.after
        != found.before
    )
    for place in found.places:
        others = [other for other in found.places if other != place]
        assert explain(why.model, remove_words(text, others)).prediction == found.before
    if text == FINE:
        assert (
            str(found)
            == "Without 2 words, “fine”, “classic”, the prediction is neg. Each of them"
            " is needed."
        )


def test_a_flip_may_not_exist():
    found = hm.pretrained("imdb").explain("zzqqx").minimal_flip()
    assert not found.flips
    assert (
        str(found)
        == "No word contributes to pos, so none can be removed: the bias alone decides."
    )
    assert remove_words("a bad film", [(2, 5)]) == "a     film"


def test_changes_add_up_to_that_of_the_logit(classifier):
    why, other = classifier.explain(TEXT), TEXT.replace("dull", "lovely")
    found = why.counterfactual(other)
    assert found.changes["change"].sum() == pytest.approx(found.change, abs=1e-9)
    assert found.change == pytest.approx(classifier.explain(other).logit - why.logit)
    where = found.changes.set_index("token")["where"]
    assert where[["dull", "lovely", "wonderful"]].tolist() == [
        "first",
        "second",
        "both",
    ]
    assert list(found.changes) == ["token", "where", "before", "after", "change"]
    assert "The prediction stays pos" in repr(found)
    assert why.counterfactual(TEXT).change == 0
    with pytest.raises(hm.ParameterError, match=r"^`text`"):
        why.counterfactual(hm.HardmaxClassifier.load("imdb-2d").explain(TEXT))


def test_a_table_of_tokens_adds_up_over_texts_and_classes():
    classifier = hm.pretrained("imdb-2d")
    texts, labels = [*TEXTS, "a dull film"], ["pos", "neg", "neg", "pos", "pos", "pos"]
    table = classifier.contributions(texts, labels)
    total = classifier.decision_function(texts) - classifier.model_.weights.bias[0]
    assert table["sum"].sum() == pytest.approx(total.sum())
    assert (table["for"] == "pos").all()
    for one, other in (("_in_pos", "_in_neg"), ("_right", "_wrong")):
        assert (table[f"count{one}"] + table[f"count{other}"] == table["count"]).all()
        sizes = sum(
            (table[f"mean_abs{part}"] * table[f"count{part}"]).fillna(0)
            for part in (one, other)
        )
        assert sizes.to_numpy() == pytest.approx(
            (table["mean_abs"] * table["count"]).to_numpy()
        )
        assert (table[f"sum{one}"] + table[f"sum{other}"]).to_numpy() == pytest.approx(
            table["sum"].to_numpy()
        )
    assert list(classifier.contributions(texts)) == [
        "token",
        "for",
        "count",
        "sum",
        "mean",
        "mean_abs",
        "share",
    ]
    for wrong in (labels[1:], ["good"] * 6):
        with pytest.raises(hm.ParameterError, match=r"^`labels`"):
            classifier.contributions(texts, wrong)


def test_three_classes(corpus):
    texts = corpus.texts
    labels = [
        "mixed" if " but " in text else label
        for text, label in zip(texts, corpus.labels, strict=True)
    ]
    model = hm.HardmaxClassifier(n_heads=4, d=3, ngram_range=(1, 2), epochs=15).fit(
        texts, labels
    )
    assert model.classes_.tolist() == ["mixed", "negative", "positive"]
    assert model.score(texts, labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(texts[:9]).sum(axis=1), 1)
    why = model.explain(texts[0])
    assert why.contributions.shape == (len(why.words), 3)
    np.testing.assert_allclose(
        why.bias + why.contributions.sum(axis=0), why.logit, atol=1e-12
    )
    assert_parts_sum_to_the_logit(why)
    found = why.minimal_flip()
    assert found.flips == (found.after != found.before)
    table = model.contributions(texts, labels)
    assert len(table) == 3 * table["token"].nunique()
    change = why.counterfactual("a dull film")
    assert change.changes["change"].sum() == pytest.approx(
        why.signed(change.change), abs=1e-9
    )
