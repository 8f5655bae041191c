"""Training in torch: the network, batches, dropout, validation."""

import numpy as np
import pytest
import torch

from hardmax import HardmaxClassifier, InputError
from hardmax.text import model
from hardmax.text.parameters import Parameters
from hardmax.text.training import Network, make_batch, rate
from hardmax.text.vocabulary import Encoded
from tests.conftest import SMALL_MODEL as SMALL


def network_of(groups=2):
    torch.manual_seed(0)
    network = Network(9, 1, Parameters(n_heads=4, groups=groups))
    with torch.no_grad():
        network.bias.copy_(torch.randn(groups, 1))
    return network.double()


def test_weights_give_the_logits_of_the_network():
    network = network_of()
    texts = Encoded(
        np.array([3, 1, 4, 8, 5]), np.array([0, 3, 5, 5]), np.array([1, 2, 1, 1, 1])
    )
    ids, counts = (torch.from_numpy(x) for x in texts.padded())
    with torch.no_grad():
        expected = network(ids, counts[:, None]).mean(1).numpy()
    np.testing.assert_allclose(
        model.logits(network.weights(), texts), expected, atol=1e-12
    )


@pytest.mark.parametrize("attention", ["hardmax", "softmax"])
def test_counts_stand_for_repeated_tokens(attention):
    network = network_of()
    options = {"attention": attention, "temperature": 0.5}
    with torch.no_grad():
        once = network(
            torch.tensor([[3, 1, 4]]), torch.tensor([[[1, 3, 2]]]), **options
        )
        many = network(
            torch.tensor([[3, 1, 1, 1, 4, 4]]),
            torch.ones(1, 1, 6, dtype=torch.long),
            **options,
        )
    torch.testing.assert_close(once, many, rtol=0, atol=1e-12)


def test_a_text_never_loses_all_its_tokens():
    texts = Encoded(np.arange(50), np.arange(51), np.ones(50, int))  # one token each
    assert (
        make_batch(Parameters(dropout=0.9), texts, 2, 4, 0, slice(None))[1] == 1
    ).all()


def test_embedding_dropout_keeps_the_mean():
    texts = Encoded(np.arange(50), np.arange(51), np.ones(50, int))
    settings = Parameters(dropout=0.0, embedding_dropout=0.75)
    noise = make_batch(settings, texts, 1, 40, 0, slice(None))[2]
    assert set(np.unique(noise)) == {0.0, 4.0}
    assert abs(noise.mean() - 1) < 0.1


@pytest.mark.parametrize(
    "options", [{"training": "softmax"}, {"training": "softmax", "trained_A": True}]
)
def test_softmax_training_serves_hardmax(corpus, options):
    few, labels = corpus.texts[:300], corpus.labels[:300]
    fixed = {
        "n_heads": 2,
        "groups": 1,
        "ngram_range": (1, 2),
        "epochs": 30,
        "temperature": 1.0,
        "validation": 0.0,
    }
    classifier = HardmaxClassifier(**fixed, **options).fit(few, labels)
    assert classifier.score(few, labels) > 0.85
    A = classifier.model_.weights.A
    assert (A is not None) == ("trained_A" in options)
    if A is not None:
        assert np.abs(A - np.eye(2)).max() > 1e-3
        assert np.linalg.eigvalsh(A).min() > 0


def test_groups_see_different_tokens():
    texts = Encoded(np.arange(12), np.array([0, 5, 12, 12]), np.ones(12, int))
    settings = Parameters(dropout=0.5)
    whole = make_batch(settings, texts, 3, 4, 7, slice(None))[1]
    assert (
        whole.any(axis=2).T == [True, True, False]
    ).all()  # none loses all its tokens
    assert not (whole[:, 0] == whole[:, 1]).all()
    halves = [
        make_batch(settings, texts, 3, 4, 7, slice(k, None, 2))[1] for k in range(2)
    ]
    assert (halves[1][0] == whole[1]).all()  # for any number of processes
    assert not (make_batch(settings, texts, 3, 4, 8, slice(None))[1] == whole).all()


def test_early_stopping_and_history(corpus):
    classifier = HardmaxClassifier(**SMALL | {"patience": 3}).fit(
        corpus.texts, corpus.labels
    )
    best = max(range(classifier.n_iter_), key=lambda k: classifier.history_[k].quality)
    assert classifier.n_iter_ == best + 4 < 30
    assert classifier.history_[-1].train_loss < classifier.history_[0].train_loss


def test_balanced_weights_favour_a_rare_class(corpus):
    rare = [
        i for i, label in enumerate(corpus.labels) if label == "negative" or i % 12 == 0
    ]
    texts, labels = [corpus.texts[i] for i in rare], [corpus.labels[i] for i in rare]
    found = {}
    for weight in (None, "balanced"):
        classifier = HardmaxClassifier(
            **SMALL | {"epochs": 3, "class_weight": weight}
        ).fit(texts, labels)
        found[weight] = (classifier.predict(corpus.texts) == "positive").mean()
    assert found["balanced"] > found[None]


def test_the_learning_rate_rises_and_falls():
    np.testing.assert_allclose(
        [rate(t, warm_up=0.25) for t in (0, 0.125, 0.25, 0.625, 1)], [0, 0.5, 1, 0.5, 0]
    )


@pytest.mark.parametrize("d", [1, 2])
def test_diverging_training_raises_an_error(corpus, d):
    wild = HardmaxClassifier(n_heads=2, groups=1, d=d, epochs=3, learning_rate=1e38)
    with pytest.raises(InputError, match="`learning_rate`"):
        wild.fit(corpus.texts[:200], corpus.labels[:200])


def test_a_large_alpha_is_kept(corpus):
    classifier = HardmaxClassifier(n_heads=2, groups=1, epochs=1, alpha=1000.0)
    classifier.fit(corpus.texts[:200], corpus.labels[:200])
    assert classifier.model_.weights.alpha == pytest.approx([1000.0] * 2, rel=1e-3)
