"""Explanations: they add up, are the same on every run, and name the words that decide."""

import json
import re
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax import HardmaxClassifier
from hardmax.text.attribution import attribute_to_words
from hardmax.text.datasets import reviews
from hardmax.text.explanation import explain
from hardmax.text.model import HeadDynamics, Model, Weights, contributions
from hardmax.text.parameters import Parameters
from hardmax.text.vocabulary import Encoded, Vocabulary

ODD = ["", " ", "zzz qqq", "!!!", "<br />", "😀", "not good " * 300, "a" * 5000, "\x00", "GOOD<b>bad</b> &amp; ugly"]


@pytest.fixture(scope="module")
def corpus():
    return reviews(1500, seed=1, contrast=0.0)


@pytest.fixture(scope="module")
def classifier(corpus):
    return HardmaxClassifier(n_heads=4, groups=2, ngram_range=(1, 2), epochs=15).fit(corpus.texts, corpus.labels)


@pytest.fixture(scope="module")
def flat(corpus):
    """One head in the plane, all occurrences."""
    options = {"alpha": 1.0, "alpha_rate": 1e-3, "epochs": 10, "lemmas": None, "stop_words": None}
    return HardmaxClassifier.paper(d=2, **options).fit(corpus.texts, corpus.labels)


@pytest.fixture(scope="module", params=["general", "paper", "shipped"])
def any_classifier(request, classifier, flat):
    return {"general": classifier, "paper": flat, "shipped": hm.pretrained("imdb")}[request.param]


def simulated_logit(classifier, explanation):
    """The logit from the trajectories, which know nothing of shares."""
    weights = classifier.model_.weights
    ends = [t.tokens[-1].mean(axis=0) for t in explanation.trajectory]
    return weights.bias[0] + sum(weights.decoder[0, h] @ end for h, end in enumerate(ends))


def test_contributions_add_up_and_are_the_simulation(any_classifier, corpus):
    for text in [*corpus.texts[:20], *ODD[6:]]:
        e = any_classifier.explain(text)
        assert abs(e.bias + e.contributions.sum() - e.logit) < 1e-12
        assert abs(e.bias + sum(h.contribution for h in e.highlights) - e.logit) < 1e-12
        assert e.logit == any_classifier.decision_function([text])[0]
        if len(e.ids):
            assert abs(simulated_logit(any_classifier, e) - e.logit) < 1e-12


@given(text=st.text(st.sampled_from("agodbt n!.'é\n<>&"), max_size=80))
def test_any_text_has_an_answer(any_classifier, text):
    e = any_classifier.explain(text)
    assert abs(e.bias + e.contributions.sum() - e.logit) < 1e-12
    assert len(e.words) == len(e.contributions)
    assert 0.5 <= e.probability <= 1


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_have_every_view(any_classifier, text, tmp_path):
    e = any_classifier.explain(text)
    assert json.loads(e.to_json())["prediction"] == e.prediction
    assert e.to_html(tmp_path / "page.html") == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(e.to_frame()) == len(e.words)
    assert len(e.leaders) == any_classifier.model_.weights.heads
    assert len(e.leave_one_out()) == len(e.words)
    figure = e.plot(kind="words")
    figure.savefig(tmp_path / "words.png")
    plt.close(figure)
    assert repr(e).startswith(f"<Explanation: {e.prediction} with probability")


def test_the_same_on_every_run(any_classifier, corpus):
    once, again = (any_classifier.explain_many(corpus.texts[:50]) for _ in range(2))
    alone = [any_classifier.explain(text) for text in corpus.texts[:50]]
    for a, b, c in zip(once, again, alone, strict=True):
        assert a.to_json() == b.to_json() == c.to_json()


def test_planted_words_count_most(classifier):
    fresh = reviews(200, seed=9, contrast=0.0)
    found = []
    for text, planted in zip(fresh.texts, fresh.planted, strict=True):
        e = classifier.explain(text)
        if len(e.ids):
            first = e.words[int(np.argmax(np.abs(e.contributions)))]
            found.append(any(word in first or first in word for word in planted))
    assert np.mean(found) > 0.85


def test_planted_words_lead(classifier):
    e = classifier.explain("The plot was wonderful and we saw it one evening in the old town.")
    leading = {group.word for groups in e.leaders for group in groups}
    assert any("wonderful" in word for word in leading)


def test_leaders_are_those_of_the_trajectories(any_classifier, corpus):
    for text in corpus.texts[:5]:
        e = any_classifier.explain(text)
        for groups, trajectory in zip(e.leaders, e.trajectory, strict=True):
            simulated = {str(e.words[e.rows[i]]) for i in trajectory.leaders}
            assert {group.word for group in groups} == simulated
        np.testing.assert_allclose(e.shares.sum(axis=1), 1)
        followers = sum(len(g.followers) + 1 for g in e.leaders[0])
        assert followers <= len(e.words)


def test_leave_one_out_is_what_it_says(classifier, corpus):
    e = classifier.explain(corpus.texts[3])
    vocabulary = classifier.model_.vocabulary
    encoded = vocabulary.encode([corpus.texts[3]])
    for i in (0, len(e.ids) - 1):
        rest = np.delete(encoded.ids, i)
        z = classifier.model_.weights.tokens(rest)
        trajectories = [
            hm.simulate(np.ascontiguousarray(z[:, h]), hm.Hardmax(float(a)), layers=2)
            for h, a in enumerate(classifier.model_.weights.alpha)
        ]
        logit = classifier.model_.weights.bias[0] + sum(
            classifier.model_.weights.decoder[0, h] @ t.tokens[-1].mean(axis=0) for h, t in enumerate(trajectories)
        )
        assert abs(e.logit - logit - e.leave_one_out()[i]) < 1e-12


def test_ties_of_later_layers_are_not_decided_by_rounding():
    random = np.random.default_rng(0)
    starts = [np.array([[8, 1], [4, 7], [3, 2], [-6, -4]], float)]  # with alpha = 0.3 two tokens tie at layer 1
    starts += [random.integers(-6, 7, (n, 2)).astype(float) for n in random.integers(1, 12, 150)]
    for tokens in starts:
        n = len(tokens)
        alpha, layers = float(random.choice([0.3, 0.5, 1.0])), int(random.integers(0, 7))
        weights = Weights(tokens[:, None], np.array([alpha]), None, np.ones((1, 1, 2)), np.zeros(1), layers)
        encoded = Encoded(np.arange(n), np.array([0, n]), np.ones(n, int))
        end = hm.simulate(tokens, hm.Hardmax(alpha), layers=layers).tokens[-1].mean(axis=0)
        assert abs(contributions(weights, encoded).sum() - end.sum()) < 1e-12


def tied_texts(count):
    """Texts of few tokens on a lattice, of one to three coordinates, some with an A, as one model each."""
    random = np.random.default_rng(1)
    for _ in range(count):
        n, d, heads = (int(x) for x in random.integers((1, 1, 1), (10, 4, 3)))
        tokens = random.integers(-3, 4, (n, heads, d)) * 0.1
        A = np.stack([np.eye(d) + 0.5] * heads) if random.random() < 0.25 else None
        alpha = random.choice([0.1, 0.3, 0.5, 1.0], heads)
        decoder = random.integers(-2, 3, (1, heads, d)).astype(float)
        weights = Weights(tokens, alpha, A, decoder, np.zeros(1), int(random.integers(0, 7)))
        yield weights, random.integers(1, 4, n)


@pytest.mark.parametrize("numba", [True, False])
def test_tied_texts_get_the_exact_answer_with_and_without_numba(numba, without_numba):
    if not numba:
        without_numba()
    left = 0
    for weights, counts in tied_texts(300):
        ids, owners = np.arange(len(counts)), np.repeat(np.arange(len(counts)), counts)
        said = contributions(weights, Encoded(ids, np.array([0, len(ids)]), counts))[:, 0]
        followers = HeadDynamics.run(weights, ids[None], counts[None])
        shares, found = followers.shares()[0], followers.find_leaders()
        np.testing.assert_allclose(
            HeadDynamics.run(weights, ids[None], counts[None], beyond=False).shares()[0], shares, atol=1e-13
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
        np.testing.assert_allclose(said, held, atol=1e-13)
        left += len(ids) > 1
    assert left > 200


@pytest.mark.parametrize("d", [1, 2])
def test_equal_tokens_that_count_several_times_share_what_they_hold(d):
    tokens = np.array([[2.0, 1.0], [2.0, 1.0], [1.0, -0.25], [-1.0, 0.5], [0.5, 0.25]])[:, :d]
    counts, layers, alpha = np.array([2, 3, 1, 4, 1]), 3, 0.5
    rows = np.repeat(np.arange(5), counts)
    run = hm.simulate(tokens[rows], hm.Hardmax(alpha), layers=layers)
    share = np.full(len(rows), 1 / len(rows))
    for k in reversed(range(layers)):
        share = (share + alpha * (share @ run.attention(k))) / (1 + alpha)
    weights = Weights(tokens[:, None], np.array([alpha]), None, np.ones((1, 1, d)), np.zeros(1), layers)
    said = contributions(weights, Encoded(np.arange(5), np.array([0, 5]), counts))[:, 0]
    np.testing.assert_allclose(said, np.bincount(rows, share) * tokens.sum(axis=1), atol=1e-15)


def test_texts_of_other_lengths_do_not_matter(any_classifier, corpus):
    texts = ["wonderful", "", *corpus.texts[:3], "not good"]
    together = any_classifier.explain_many(texts)
    assert [e.logit for e in together] == [any_classifier.explain(text).logit for text in texts]
    assert len({len(e.ids) for e in together}) > 3


def by_hand(counts, terms):
    """An explanation with one head on a line and no layers: words speak for themselves, by their counts."""
    names = ["good", "bad", "film"]
    vocabulary = Vocabulary.build([" ".join(names)], Parameters(ngram_range=(1, 1), min_df=1, distinct=False))
    order = [names.index(vocabulary.name(t)) for t in range(3)]
    embedding = np.array(terms, np.float32)[order][:, None, None]
    weights = Weights(embedding, np.ones(1), None, np.ones((1, 1, 1)), np.zeros(1), 0)
    model = Model(vocabulary, weights, np.array(["no", "yes"]))
    text = " ".join(name for name, count in zip(names, counts, strict=True) for _ in range(count))
    return explain(model, text)


def test_the_strongest_words_speak_for_either_side():
    e = by_hand([1, 1, 1], [1.0, -3.0, 0.5])
    assert e.top(2) == [("bad", -1.0), ("good", 1 / 3)]


def test_leaving_one_out_keeps_the_counts_of_the_others():
    e = by_hand([3, 1, 2], [1.0, -4.0, 0.5])  # the logit is (3 - 4 + 1) / 6
    assert e.words.tolist() == ["good", "bad", "film"]
    np.testing.assert_allclose(e.leave_one_out(), [0 + 3 / 3, 0 - 4 / 5, 0 + 1 / 4], atol=1e-15)


def test_words_lead_in_as_many_texts_as_counted(classifier, corpus):
    found, texts = classifier.leaders(corpus.texts[:60]), classifier.explain_many(corpus.texts[:60])
    led = Counter(word for e in texts for word in {group.word for groups in e.leaders for group in groups})
    assert dict(zip(found.words.tolist(), found.texts_led.tolist(), strict=True)) == led


def test_words_share_their_runs():
    vocabulary = Vocabulary.build(["not good film"] * 3, Parameters(ngram_range=(1, 3), min_df=2))
    names = [vocabulary.name(t) for t in range(len(vocabulary))]
    words = ["not", "good", "film", "not", "good"]
    encoded = vocabulary.encode_words([words], 1)
    value = {"not": -1.0, "good": 2.0, "film": 0.1, "not good": -4.0, "good film": 1.0, "not good film": -0.5}
    terms = np.array([[value[names[t]]] for t in encoded.ids])
    embedding = np.array([[[{"not": -3.0, "good": 1.0}.get(name, 0.1)]] for name in names])
    weights = Weights(embedding, np.ones(1), None, np.ones((1, 1, 1)), np.zeros(1), 1)
    model = Model(vocabulary, weights, np.array(["no", "yes"]))
    parts = attribute_to_words(model, words, encoded.ids, terms)[:, 0]
    # "not good" stands twice, and "not" speaks for it; "good film" goes to "good", "not good film" to the first "not"
    np.testing.assert_allclose(parts, [-0.5 - 2 - 0.5, 1 + 1, 0.1, -0.5 - 2, 1])
    even = attribute_to_words(model, words, encoded.ids, terms, even=True)[:, 0]
    third = -0.5 / 3
    np.testing.assert_allclose(even, [-1.5 + third, 1 - 1 + 0.5 + third, 0.1 + 0.5 + third, -1.5, 1 - 1])


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


def test_pictures_that_cannot_be_drawn(classifier, corpus, tmp_path):
    e = classifier.explain("zzz qqq")
    with pytest.raises(ValueError, match='`kind="plane"` must go with d = 2'):
        e.plot(kind="plane")
    with pytest.raises(ValueError, match="`kind` must be one of"):
        e.plot(kind="cube")
    with pytest.raises(ValueError, match="A trajectory must have tokens"):
        e.movie(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="`text` must be a string"):
        classifier.explain(["a", "b"])


def test_leader_statistics(classifier, flat, corpus):
    for c in (classifier, flat):
        found = c.leaders(corpus.texts[:200])
        assert found.leaders.shape == (200, c.model_.weights.heads)
        by_hand = [[len(groups) for groups in e.leaders] for e in c.explain_many(corpus.texts[:200])]
        assert sorted(by_hand) == sorted(found.leaders.tolist())  # texts are counted by length
        assert found.summary()["min"] >= 1
        assert 0 <= found.share_initial <= 1
        assert (np.diff(found.texts_led) <= 0).all()
        assert "leaders a text and head" in repr(found)
        assert len(found.plot().axes) == 1
        plt.close("all")
    nothing = classifier.leaders(["zzz"])
    assert np.isnan(nothing.mean)
    assert np.isnan(nothing.summary()["min"])
