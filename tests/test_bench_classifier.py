"""Cases of the classifier: the steps are of one model, the texts are like reviews, and the rate is what it says."""

import numpy as np
import pytest
from benchmarks import CASES, classifier
from benchmarks.results import Row

import hardmax as hm

torch = pytest.importorskip("torch")


def test_some_words_repeat_as_in_reviews() -> None:
    drawn, labels = classifier.words(quick=False)
    assert drawn.shape == (64, 128)
    assert labels.sum() == 32
    texts = classifier.encoded(drawn)
    assert 99 < texts.sizes.mean() < 105
    ids, counts = texts.padded()
    assert (counts.sum(axis=1) == 128).all()
    for text, row, count in zip(drawn, ids, counts, strict=True):
        assert sorted(np.repeat(row, count)) == sorted(text)
        assert row[: (count > 0).sum()].tolist() == list(dict.fromkeys(text.tolist()))


@pytest.mark.parametrize("d", [2, 16])
def test_both_steps_are_of_the_same_model(d: int) -> None:
    ours, paper = (step(d, True)() for step in (classifier.hardmax_step, classifier.softmax_step))
    answers = [{"logits": logits().detach().numpy()} for logits in (ours, paper)]
    assert answers[0]["logits"].shape == (8,)
    assert classifier.near(*answers)
    assert not classifier.near(answers[0], {"logits": answers[1]["logits"][::-1]})


@pytest.mark.parametrize("step", [classifier.hardmax_step, classifier.softmax_step])
def test_a_step_moves_nothing_and_so_is_the_same_each_time(step, monkeypatch: pytest.MonkeyPatch) -> None:
    network, settings = classifier.start(2)
    before = [p.detach().clone() for p in network.parameters()]
    monkeypatch.setattr(classifier, "start", lambda d: (network, settings))
    run = step(2, True)
    run()
    assert all(torch.equal(p, q) for p, q in zip(before, network.parameters(), strict=True))
    assert all(p.grad.abs().max() > 0 for p in network.parameters())


def test_layers_that_ran_are_told() -> None:
    assert classifier.needed(2, True) == "8 of 8 layers run"
    assert classifier.needed(16, True) == "1 of 8 layers run"


def test_texts_are_like_reviews() -> None:
    vocabulary = hm.pretrained("imdb").model_.vocabulary
    texts = classifier.reviews(vocabulary, 300, 0)
    assert texts == classifier.reviews(vocabulary, 300, 0)
    assert texts != classifier.reviews(vocabulary, 300, 1)
    lengths = [len(vocabulary.splitter.words(text)) for text in texts]
    assert 235 < np.mean(lengths) < 275
    assert 240 < vocabulary.encode(texts).sizes.mean() < 280
    assert max(lengths) > 3 * min(lengths)


def test_explanations_are_those_of_the_classifier() -> None:
    found = classifier.explaining(True, True)()
    shipped = hm.pretrained("imdb")
    texts = classifier.reviews(shipped.model_.vocabulary, len(found), 0)
    assert [one[0] for one in found] == shipped.predict(texts).tolist()
    for (_, terms, words, logit), text in zip(found, texts, strict=True):
        assert len(terms) == len(words)
        assert abs(terms.sum() + shipped.model_.weights.bias[0] - logit) < 1e-9
        assert words[0] in text
    assert classifier.explaining(True, False)()[0][2] is None


def test_the_baseline_has_learned_both_labels() -> None:
    assert set(classifier.predicting(True)().tolist()) <= {"neg", "pos"}


def test_the_rate_is_beside_its_target() -> None:
    (row,) = classifier.rate([Row("ours", 0.4), Row("peer", 0.1)])
    assert row.cells[3:] == ["2,500", "at least 2,000", "reached"]
    assert classifier.rate([Row("ours", 0.8)])[0].cells[3:] == ["1,250", "at least 2,000", "missed"]
    assert classifier.rate([Row("ours", measured="not installed")]) == []


def test_the_cases_are_registered() -> None:
    assert {"classifier_step_2", "classifier_step_16", "classifier_explain"} <= CASES.keys()
    step, explain = CASES["classifier_step_2"], CASES["classifier_explain"]
    assert [str(method.target) for method in step.methods(False)] == ["None", "5 times"]
    assert [(method.alone, method.compared) for method in explain.methods(False)] == [
        (False, True),
        (True, True),
        (False, False),
    ]
