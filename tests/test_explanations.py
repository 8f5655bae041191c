"""Explanations: they add up, are the same on every run, and name the words that decide."""

import json
import re
from collections import Counter
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax import HardmaxClassifier
from hardmax.text.attribution import attribute_to_words
from hardmax.text.datasets import reviews
from hardmax.text.model import HeadDynamics, Model, Weights, contributions
from hardmax.text.parameters import Parameters
from hardmax.text.vocabulary import Encoded, Vocabulary

ODD = [
    "",
    " ",
    "zzz qqq",
    "!!!",
    "<br />",
    "😀",
    "not good " * 300,
    "a" * 5000,
    "\x00",
    "GOOD<b>bad</b> &amp; ugly",
]


@pytest.fixture(scope="module")
def corpus():
    return reviews(1000, seed=1, contrast=0.0)


@pytest.fixture(scope="module")
def classifier(corpus):
    return HardmaxClassifier(n_heads=4, groups=2, ngram_range=(1, 2), epochs=15).fit(
        corpus.texts, corpus.labels
    )


@pytest.fixture(scope="module")
def flat(corpus):
    """One head in the plane, all occurrences."""
    options = {
        "alpha": 1.0,
        "alpha_rate": 1e-3,
        "epochs": 10,
        "lemmas": None,
        "stop_words": None,
    }
    return HardmaxClassifier.paper(d=2, **options).fit(corpus.texts, corpus.labels)


@pytest.fixture(scope="module", params=["general", "paper", "shipped"])
def any_classifier(request, classifier, flat):
    return {"general": classifier, "paper": flat, "shipped": hm.pretrained("imdb")}[
        request.param
    ]


def simulated_logit(classifier, explanation):
    """Return the logit from the trajectories, without shares."""
    weights = classifier.model_.weights
    ends = [t.tokens[-1].mean(axis=0) for t in explanation.trajectory]
    return weights.bias[0] + sum(
        weights.decoder[0, h] @ end for h, end in enumerate(ends)
    )


def test_contributions_add_up_and_are_the_simulation(any_classifier, corpus):
    for text in [*corpus.texts[:20], *ODD[6:]]:
        e = any_classifier.explain(text)
        assert abs(e.bias + e.contributions.sum() - e.logit) < 1e-12
        assert abs(e.bias + sum(h.contribution for h in e.highlights) - e.logit) < 1e-12
        assert e.logit == any_classifier.decision_function([text])[0]
        if len(e.ids):
            assert abs(simulated_logit(any_classifier, e) - e.logit) < 1e-12


@given(text=st.text(st.sampled_from("agodbt n!.'é\n<>&"), max_size=80))
def test_any_text_is_explained(any_classifier, text):
    e = any_classifier.explain(text)
    assert abs(e.bias + e.contributions.sum() - e.logit) < 1e-12
    assert len(e.words) == len(e.contributions)
    assert 0.5 <= e.probability <= 1


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_have_every_view(any_classifier, text, tmp_path):
    e = any_classifier.explain(text)
    assert json.loads(e.to_json())["prediction"] == e.prediction
    assert e.to_html(tmp_path / "page.html") == (tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    assert len(e.to_frame()) == len(e.words)
    assert len(e.leaders) == any_classifier.model_.weights.heads
    assert len(e.leave_one_out()) == len(e.words)
    figure = e.plot(kind="words")
    figure.savefig(tmp_path / "words.png")
    plt.close(figure)
    assert repr(e).startswith(f"<Explanation: {e.prediction} with probability")


def test_every_run_and_batch_gives_the_same(any_classifier, corpus):
    texts = ["wonderful", "", *corpus.texts[:20], "not good"]  # of different lengths
    once, again = (any_classifier.explain_many(texts) for _ in range(2))
    for text, a, b in zip(texts, once, again, strict=True):
        assert a.to_json() == b.to_json() == any_classifier.explain(text).to_json()
    assert any_classifier.decision_function(texts).tolist() == [
        each.logit for each in once
    ]


def test_planted_words_count_most(classifier):
    fresh = reviews(200, seed=9, contrast=0.0)
    found = []
    for text, planted in zip(fresh.texts, fresh.planted, strict=True):
        e = classifier.explain(text)
        if len(e.ids):
            first = e.words[int(np.argmax(np.abs(e.contributions)))]
            found.append(any(word in first or first in word for word in planted))
    assert np.mean(found) > 0.85


def test_leaders_are_those_of_the_trajectories(any_classifier, corpus):
    for text in corpus.texts[:5]:
        e = any_classifier.explain(text)
        for groups, trajectory in zip(e.leaders, e.trajectory, strict=True):
            simulated = {str(e.words[e.rows[i]]) for i in trajectory.leaders}
            assert {group.word for group in groups} == simulated
        np.testing.assert_allclose(e.shares.sum(axis=1), 1)
        followers = sum(len(g.followers) + 1 for g in e.leaders[0])
        assert followers <= len(e.words)


def tied_texts(count):
    """Yield texts of few tokens on a lattice, of one to three coordinates, some with an
    A, as one model each.
    """
    random = np.random.default_rng(1)
    tokens = np.array([[8, 1], [4, 7], [3, 2], [-6, -4]], float)[
        :, None
    ]  # two of them tie at layer 1
    yield (
        Weights(tokens, np.array([0.3]), None, np.ones((1, 1, 2)), np.zeros(1), 3),
        np.ones(4, int),
    )
    for _ in range(count):
        n, d, heads = (int(x) for x in random.integers((1, 1, 1), (10, 4, 3)))
        tokens = random.integers(-3, 4, (n, heads, d)) * 0.1
        A = np.stack([np.eye(d) + 0.5] * heads) if random.random() < 0.25 else None
        alpha = random.choice([0.1, 0.3, 0.5, 1.0], heads)
        decoder = random.integers(-2, 3, (1, heads, d)).astype(float)
        weights = Weights(
            tokens, alpha, A, decoder, np.zeros(1), int(random.integers(0, 7))
        )
        yield weights, random.integers(1, 4, n)


def test_tied_texts_have_exact_contributions_with_and_without_numba(numba):
    several = 0
    for weights, counts in tied_texts(150):
        ids, owners = np.arange(len(counts)), np.repeat(np.arange(len(counts)), counts)
        terms = contributions(weights, Encoded(ids, np.array([0, len(ids)]), counts))[
            :, 0
        ]
        followers = HeadDynamics.run(weights, ids[None], counts[None])
        shares, found = followers.shares()[0], followers.find_leaders()
        np.testing.assert_allclose(
            HeadDynamics.run(weights, ids[None], counts[None], beyond=False).shares()[
                0
            ],
            shares,
            atol=1e-13,
        )
        held = np.zeros(len(ids))
        for h, alpha in enumerate(weights.alpha.tolist()):
            start = np.ascontiguousarray(weights.tokens(ids)[owners, h])
            rule = hm.Hardmax(alpha, None if weights.A is None else weights.A[h])
            run = hm.simulate(start, rule, layers=weights.layers)
            share = np.full(len(owners), 1 / len(owners))
            for k in reversed(range(weights.layers)):
                share = (share + alpha * (share @ run.attention(k))) / (1 + alpha)
            share = np.bincount(owners, share, len(ids))
            np.testing.assert_allclose(shares[h], share, atol=1e-13)
            held += share * (weights.tokens(ids)[:, h] @ weights.decoder[0, h])
            last = [int(owners[members].min()) for members in run.sets(weights.layers)]
            assert found.follows[0, h][owners].tolist() == last
        np.testing.assert_allclose(terms, held, atol=1e-13)
        several += len(ids) > 1
    assert several > 100


def build_classifier(tokens, *, decoder, layers=0, distinct=True, alpha=(1.0,), A=None):
    """Return a classifier with one head and given weights."""
    longest = max(len(token.split()) for token in tokens)
    vocabulary = Vocabulary.build(
        tokens, Parameters(ngram_range=(1, longest), min_df=1, distinct=distinct)
    )
    embedding = np.array(
        [[tokens[name]] for name in vocabulary.names(np.arange(len(vocabulary)))],
        np.float32,
    )
    decoder = np.asarray(decoder, np.float64)[:, None, :]
    weights = Weights(
        embedding, np.array(alpha), A, decoder, np.zeros(len(decoder)), layers
    )
    classifier = HardmaxClassifier()
    classifier.classes_ = np.array(["a", "b", "c"][: max(2, len(decoder))])
    classifier.model_ = Model(vocabulary, weights, classifier.classes_)
    return classifier


def test_the_strongest_words_have_either_sign():
    classifier = build_classifier(
        {"good": [1.0], "bad": [-3.0], "film": [0.5]}, decoder=[[1.0]]
    )
    assert classifier.explain("good bad film").top(2) == [
        ("bad", -1.0),
        ("good", 1 / 3),
    ]


def test_leaving_one_out_keeps_the_counts_of_the_others():
    classifier = build_classifier(
        {"good": [1.0], "bad": [-4.0], "film": [0.5]}, decoder=[[1.0]], distinct=False
    )
    e = classifier.explain(
        "good good good bad film film"
    )  # the logit is (3 - 4 + 1) / 6
    assert e.words.tolist() == ["good", "bad", "film"]
    np.testing.assert_allclose(
        e.leave_one_out(), [0 + 3 / 3, 0 - 4 / 5, 0 + 1 / 4], atol=1e-15
    )


def test_words_share_their_ngrams():
    value = {
        "not": -1.0,
        "good": 2.0,
        "film": 0.1,
        "not good": -4.0,
        "good film": 1.0,
        "not good film": -0.5,
    }
    scores = {name: [{"not": -3.0, "good": 1.0}.get(name, 0.1)] for name in value}
    found = build_classifier(scores, decoder=[[1.0]]).explain("not good film not good")
    e = replace(found, terms=np.array([[value[name]] for name in found.words.tolist()]))
    parts = attribute_to_words(e, even=False)[:, 0]
    # "not good" occurs twice and goes to "not"; "good film" goes to "good", "not good
    # film" to the first "not"
    np.testing.assert_allclose(parts, [-0.5 - 2 - 0.5, 1 + 1, 0.1, -0.5 - 2, 1])
    even = attribute_to_words(e, even=True)[:, 0]
    third = -0.5 / 3
    np.testing.assert_allclose(
        even, [-1.5 + third, 1 - 1 + 0.5 + third, 0.1 + 0.5 + third, -1.5, 1 - 1]
    )


def test_page_needs_nothing_and_shows_the_text(classifier):
    text = 'A <script>alert("x")</script> wonderful & "odd" film'
    page = classifier.explain(text).to_html()
    assert "<script>" not in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "wonderful" in page
    assert "add up to the logit exactly" in page


def test_plane_pictures_and_movies(flat, corpus, tmp_path):
    e = flat.explain(corpus.texts[0])
    figure = e.plot()
    assert len(figure.axes) == 4
    plt.close(figure)
    e.movie(tmp_path / "review.gif", steps=1)
    assert (tmp_path / "review.gif").stat().st_size > 10_000


def test_a_wrong_argument_is_named(classifier, tmp_path):
    e = classifier.explain("zzz qqq")
    for call, name in (
        (lambda: e.plot(kind="plane"), "kind"),
        (lambda: e.plot(kind="cube"), "kind"),
        (lambda: classifier.explain(["a", "b"]), "text"),
    ):
        with pytest.raises(hm.InputError, match=f"^`{name}"):
            call()
    with pytest.raises(hm.InputError, match="trajectory must have tokens"):
        e.movie(tmp_path / "a.gif")


def test_leader_statistics_count_the_leaders_of_explanations(classifier, flat, corpus):
    texts = corpus.texts[:60]
    for c in (classifier, flat):
        found, explained = c.leaders(texts), c.explain_many(texts)
        counts = [[len(leaders) for leaders in e.leaders] for e in explained]
        assert sorted(counts) == sorted(
            found.leaders.tolist()
        )  # texts are sorted by length
        led = Counter(
            word
            for e in explained
            for word in {leader.word for head in e.leaders for leader in head}
        )
        assert (
            dict(zip(found.words.tolist(), found.texts_led.tolist(), strict=True))
            == led
        )
        assert found.summary()["min"] >= 1
        assert 0 <= found.summary()["initial"] <= 1
        assert (np.diff(found.texts_led) <= 0).all()
        assert "leaders per text and head" in repr(found)
        assert len(found.plot().axes) == 1
        plt.close("all")
    nothing = classifier.leaders(["zzz"])
    assert np.isnan([nothing.summary()[name] for name in ("average", "min")]).all()
