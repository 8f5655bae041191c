"""Parts of a text that sum to the logit; words without which the answer is another; two texts compared."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

import hardmax as hm
from hardmax.text.counterfactual import without
from hardmax.text.explanation import explain

TEXT = "Wonderful. I (truly) loved it, though the end is dull;  the end! A wonderful film."
TEXTS = [TEXT, "Not good, not bad: a film.", "no", "wonderful", "  . , !"]


@pytest.fixture(scope="module", params=["imdb", "imdb-2d"])
def classifier(request):
    return hm.pretrained(request.param)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_all_parts_and_the_bias_sum_to_the_logit(classifier, text, even):
    why = classifier.explain(text)
    for parts in (why.by_word(even=even), why.by_sentence(even=even), why.by_phrase(even=even)):
        assert why.bias + sum(part.value for part in parts) == pytest.approx(why.logit, abs=1e-9)
        for part in parts:
            start, end = part.places[0]
            assert " ".join(text[start:end].split()) == part.text


def test_parts_stand_where_they_say():
    why = hm.pretrained("imdb").explain(TEXT)
    assert [part.text for part in why.by_sentence()] == [
        "Wonderful.",
        "I (truly) loved it, though the end is dull; the end!",
        "A wonderful film.",
    ]
    assert [part.text for part in why.by_phrase()] == [
        "Wonderful.",
        "I",
        "(truly)",
        "loved it,",
        "though the end is dull;",
        "the end!",
        "A wonderful film.",
    ]
    (wonderful,) = [part for part in why.by_word() if part.text == "Wonderful"]
    assert wonderful.places == ((0, 9), (TEXT.rindex("wonderful"), TEXT.rindex("wonderful") + 9))
    sizes = [abs(part.value) for part in why.by_word()]
    assert sizes == sorted(sizes, reverse=True)


def test_phrases_that_are_asked_for():
    why = hm.pretrained("imdb").explain(TEXT)
    marks = {mark.start: mark.contribution for mark in why.highlights}
    dull, end = why.by_phrase(["is  DULL", "the end"])
    assert dull.value == pytest.approx(sum(marks[TEXT.index(word)] for word in ("is dull", "dull")))
    assert (end.named, len(end.places)) == ("the end (2 times)", 2)
    with pytest.raises(hm.InputError, match=r"^`phrases` .*'great'"):
        why.by_phrase(["great"])
    with pytest.raises(hm.InputError, match="must be a list"):
        why.by_phrase("dull")


def test_signs_take_nothing_from_words():
    why = hm.pretrained("imdb").explain("A wonderful, wonderful film! Great.")
    spoken = {part.text for part in why.by_word() if part.value}
    assert "wonderful" in spoken
    alone = [why.contributions[i] for i, word in enumerate(why.words) if word in (",", "!", ".")]
    signs = [part.value for part in why.by_word() if part.text in (",", "!", ".")]
    assert sum(signs) == pytest.approx(sum(alone))


def test_tokens_as_they_are_written():
    why = hm.pretrained("imdb").explain("It is WONDERFUL.\nI loved it.")
    assert set(why.as_written) == set(why.words.tolist())
    assert why.as_written["wonderful . i"] == "WONDERFUL. I"
    assert why.as_written["it"] == "It"
    assert "WONDERFUL. I +" in repr(why)
    assert why.top(1)[0][0] == "WONDERFUL. I"
    assert "WONDERFUL. I -" in repr(why.counterfactual("It is."))


def test_leaders_over_all_heads_are_those_of_the_heads():
    why = hm.pretrained("imdb").explain(TEXT)
    rows = why.leading()
    assert sum(row.heads for row in rows) == sum(map(len, why.leaders))
    first = rows[0]
    shares = [one.share for head in why.leaders for one in head if one.word == first.word]
    assert (first.heads, first.share) == (len(shares), pytest.approx(np.mean(shares)))


def test_words_that_count_in_a_run_are_shown_with_it():
    text = "Garbage. A waste of talent, and of time."
    why = hm.pretrained("imdb").explain(text)
    runs = why.strongest_runs()
    assert runs[text.index("of"), text.index("of") + 2] == "waste of"
    assert (0, 7) not in runs  # with its full stop it is a word by itself
    assert not hm.pretrained("imdb-2d").explain(text).strongest_runs()
    page = str(why.to_html())
    assert "of (2 times) <small>in “waste of”</small>" in page
    assert "shared evenly by its words" in page
    assert "shared evenly by its words" not in str(hm.pretrained("imdb-2d").explain(text).to_html())


def test_each_word_of_a_flip_is_needed():
    text = "It was fine at first, then slow, but a classic in the end."
    why = hm.pretrained("imdb-2d").explain(text)
    found = why.minimal_flip()
    assert found.words == ("fine", "classic")
    assert found.flips
    assert explain(why.model, without(text, [*found.places])).prediction == found.after != found.before
    for place in found.places:
        others = [other for other in found.places if other != place]
        assert explain(why.model, without(text, others)).prediction == found.before
    assert str(found) == "Without 2 words, “fine”, “classic”, the answer is neg. Each of them is needed."


@pytest.mark.parametrize(
    "text", ["worst not at a at boring best acting not", "waste really of waste was film so and all"]
)
def test_a_word_that_becomes_needless_later_is_not_struck(text):
    """After one pass over the struck words, one that was needed before no longer is."""
    why = hm.pretrained("imdb").explain(text)
    found = why.minimal_flip()
    assert found.flips
    for place in found.places:
        others = [other for other in found.places if other != place]
        assert explain(why.model, without(text, others)).prediction == found.before


def test_a_flip_says_where_there_is_none():
    found = hm.pretrained("imdb").explain("zzqqx").minimal_flip()
    assert not found.flips
    assert str(found) == "No word speaks for pos, so there is none to strike: the bias alone decides."
    assert without("a bad film", [(2, 5)]) == "a     film"


def test_changes_add_up_to_that_of_the_logit(classifier):
    why = classifier.explain(TEXT)
    other = TEXT.replace("dull", "lovely")
    found = why.counterfactual(other)
    assert sum(each.change for each in found.changes) == pytest.approx(found.change, abs=1e-9)
    assert found.change == pytest.approx(classifier.explain(other).logit - why.logit)
    where = {each.token: each.where for each in found.changes}
    assert (where["dull"], where["lovely"], where["wonderful"]) == ("first", "second", "both")
    assert len(found.to_frame()) == len(found.changes)
    assert "The answer stays pos" in repr(found)
    assert why.counterfactual(TEXT).change == 0
    with pytest.raises(hm.InputError, match="same model"):
        why.counterfactual(hm.HardmaxClassifier.load("imdb-2d").explain(TEXT))


def test_a_table_of_tokens_adds_up_over_texts_and_classes():
    classifier = hm.pretrained("imdb-2d")
    texts, labels = [*TEXTS, "a dull film"], ["pos", "neg", "neg", "pos", "pos", "pos"]
    table = classifier.contributions(texts, labels)
    total = classifier.decision_function(texts) - classifier.model_.weights.bias[0]
    assert table["sum"].sum() == pytest.approx(total.sum())
    assert (table["for"] == "pos").all()
    for ending in ("_in_pos", "_right"):
        other = {"_in_pos": "_in_neg", "_right": "_wrong"}[ending]
        assert (table[f"count{ending}"] + table[f"count{other}"] == table["count"]).all()
        sizes = sum((table[f"mean_abs{part}"] * table[f"count{part}"]).fillna(0) for part in (ending, other))
        assert sizes.to_numpy() == pytest.approx((table["mean_abs"] * table["count"]).to_numpy())
        assert (table[f"sum{ending}"] + table[f"sum{other}"]).to_numpy() == pytest.approx(table["sum"].to_numpy())
    assert list(classifier.contributions(texts)) == ["token", "for", "count", "sum", "mean", "mean_abs", "share"]
    with pytest.raises(hm.InputError, match="one label for each of the 6 texts"):
        classifier.contributions(texts, labels[1:])
    with pytest.raises(hm.InputError, match=r"^`labels`"):
        classifier.contributions(texts, ["good"] * 6)


@pytest.mark.filterwarnings("ignore:.*are duplicates of an earlier text")
def test_three_classes():
    texts = ["a good film", "a bad film", "a dull film", "good", "bad", "dull"] * 5
    labels = [text.split()[-1] if len(text.split()) == 1 else text.split()[1] for text in texts]
    model = hm.HardmaxClassifier(n_heads=2, groups=1, epochs=3, min_df=1, validation=0).fit(texts, labels)
    why = model.explain("a good, good film with a bad end")
    for parts in (why.by_word(), why.by_sentence(), why.by_phrase()):
        assert why.bias + sum(part.value for part in parts) == pytest.approx(why.logit, abs=1e-9)
    found = why.minimal_flip()
    assert found.flips == (found.after != found.before)
    table = model.contributions(texts, labels)
    assert len(table) == 3 * table["token"].nunique()
    change = why.counterfactual("a dull film")
    assert np.sum([each.change for each in change.changes], axis=0) == pytest.approx(change.change, abs=1e-9)
