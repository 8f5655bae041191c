"""The estimator: scikit-learn's own checks, training, odd input, files."""

import inspect
import json
import re
import tracemalloc
import warnings
from dataclasses import fields
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load, save
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from hardmax import HardmaxClassifier, InputError, ParameterError
from hardmax.text import model, validation
from hardmax.text.datasets import reviews
from hardmax.text.network import Network
from hardmax.text.parameters import Parameters
from hardmax.text.training import make_batch, rate
from hardmax.text.validation import MULTILABEL
from hardmax.text.vocabulary import Encoded

SMALL = {"n_heads": 4, "groups": 2, "ngram_range": (1, 2), "epochs": 30}


@pytest.fixture(scope="module")
def corpus():
    return reviews(600, seed=1)


@pytest.fixture(scope="module")
def fresh():
    return reviews(300, seed=2)


@pytest.fixture(scope="module")
def fitted(corpus):
    return HardmaxClassifier(**SMALL).fit(corpus.texts, corpus.labels)


# scikit-learn's checks feed matrices of numbers, and run just one on an estimator of texts. This twin reads each number
# of a row as a word, so that all of them run: of fitting, labels, shapes, copies, pickles, errors.
class OfRows(HardmaxClassifier):
    """A classifier of rows of numbers."""

    def __init__(self, *, n_heads=2, epochs=20, random_state=0):
        super().__init__(
            n_heads=n_heads,
            epochs=epochs,
            random_state=random_state,
            min_df=1,
            validation=0.0,
            dropout=0.0,
            ngram_range=(1, 1),
            groups=1,
        )

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y)
        return super().fit(as_texts(X), y, sample_weight)

    def decision_function(self, X):
        return super().decision_function(self._rows(X))

    def predict(self, X):
        return super().predict(self._rows(X))

    def predict_proba(self, X):
        return super().predict_proba(self._rows(X))

    def _rows(self, X):
        check_is_fitted(self)
        return as_texts(validate_data(self, X, reset=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True
        return tags


def as_texts(X):
    bins = np.clip(np.round(2 * X), -99, 99).astype(int) + 100
    return [" ".join(f"column{j}value{x}" for j, x in enumerate(row)) for row in bins]


FAILING = {
    "check_sample_weight_equivalence_on_dense_data": "a text of weight 2 is not one that is met twice: batches differ",
}


def checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # says that an estimator of texts has one check
        pairs = list(estimator_checks_generator(estimator))
    names = [getattr(check, "func", check).__name__ for _, check in pairs]
    marks = [[pytest.mark.xfail(reason=FAILING[name], strict=True)] if name in FAILING else [] for name in names]
    return [pytest.param(*pair, id=name, marks=mark) for pair, name, mark in zip(pairs, names, marks, strict=True)]


@pytest.mark.filterwarnings("ignore:No text of class")
@pytest.mark.filterwarnings("ignore:.*are duplicates of an earlier text")
@pytest.mark.parametrize(("estimator", "check"), [*checks(HardmaxClassifier()), *checks(OfRows())])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_learns_negations_from_pairs(fresh):
    corpus = reviews(2000, seed=1)
    words = HardmaxClassifier(**SMALL | {"ngram_range": (1, 1), "epochs": 15}).fit(corpus.texts, corpus.labels)
    pairs = HardmaxClassifier(**SMALL | {"epochs": 15}).fit(corpus.texts, corpus.labels)
    assert pairs.score(fresh.texts, fresh.labels) > max(0.8, words.score(fresh.texts, fresh.labels) + 0.05)


def test_every_setting_is_written_once(tmp_path):
    """The signature, the checks and the docstring of the classifier are those of its settings."""
    every = fields(Parameters)
    signature = inspect.signature(HardmaxClassifier)
    assert {each.name: each.default for each in every} == HardmaxClassifier().get_params()
    assert [each.name for each in every] == list(signature.parameters)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.parameters.values())
    for each in every:
        assert f"{each.name} : " in HardmaxClassifier.__doc__
        assert each.metadata["about"] in HardmaxClassifier.__doc__
        assert each.metadata["about"][-1] in ".)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        HardmaxClassifier(heads=4)
    chosen = HardmaxClassifier(n_heads=3, stop_words=["a"])
    assert repr(chosen) == "HardmaxClassifier(n_heads=3, stop_words=['a'])"
    assert len({chosen, clone(chosen)}) == 2  # estimators are told apart by identity


def test_works_in_scikit_learn(corpus):
    few, labels = corpus.texts[:120], corpus.labels[:120]
    tiny = HardmaxClassifier(n_heads=2, groups=1, epochs=3)
    assert clone(tiny).get_params() == tiny.get_params()
    assert len(cross_val_score(tiny, few, labels, cv=2)) == 2
    grid = GridSearchCV(tiny, {"layers": [0, 1]}, cv=2).fit(few, labels)
    assert grid.best_params_["layers"] in (0, 1)
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [t.upper() for t in texts]), tiny).fit(few, labels)
    assert pipeline.predict(few).tolist() == clone(tiny).fit(few, labels).predict(few).tolist()


def test_the_same_seed_gives_the_same_model(corpus, fitted):
    again = HardmaxClassifier(**SMALL).fit(corpus.texts, corpus.labels)
    other = HardmaxClassifier(**SMALL, random_state=1).fit(corpus.texts, corpus.labels)
    scores = [c.decision_function(corpus.texts).tobytes() for c in (fitted, again, other)]
    assert scores[0] == scores[1] != scores[2]


def test_answers_do_not_depend_on_the_batch(fitted, fresh):
    together = fitted.decision_function(fresh.texts)
    assert together.tolist() == [fitted.decision_function([text])[0] for text in fresh.texts]


def test_network_and_inference_agree(fitted, fresh):
    weights, vocabulary = fitted.model_.weights, fitted.model_.vocabulary
    network = Network(len(vocabulary), 1, Parameters(n_heads=4, groups=2)).double()
    with torch.no_grad():
        network.embedding.copy_(torch.from_numpy(weights.embedding.reshape(len(vocabulary), -1)))
        network.raw_alpha.copy_(torch.from_numpy(weights.alpha).expm1().log())
        network.decoder.copy_(2 * torch.from_numpy(weights.decoder))
        network.bias.copy_(torch.from_numpy(weights.bias))
        ids, counts = (torch.from_numpy(x) for x in vocabulary.encode(fresh.texts).padded())
        scores = network(ids, counts[:, None]).mean(1)[:, 0].numpy()
    np.testing.assert_allclose(scores, fitted.decision_function(fresh.texts), atol=1e-12)


def network_of(groups=2):
    torch.manual_seed(0)
    network = Network(9, 1, Parameters(n_heads=4, groups=groups))
    with torch.no_grad():
        network.bias.copy_(torch.randn(groups, 1))
    return network.double()


def test_the_weights_of_a_network_say_what_it_says():
    network = network_of()
    texts = Encoded(np.array([3, 1, 4, 8, 5]), np.array([0, 3, 5, 5]), np.array([1, 2, 1, 1, 1]))
    ids, counts = (torch.from_numpy(x) for x in texts.padded())
    with torch.no_grad():
        expected = network(ids, counts[:, None]).mean(1).numpy()
    np.testing.assert_allclose(model.logits(network.weights(), texts), expected, atol=1e-12)


@pytest.mark.parametrize("attention", ["hardmax", "softmax"])
def test_counts_stand_for_repeated_tokens(attention):
    network = network_of()
    options = {"attention": attention, "temperature": 0.5}
    with torch.no_grad():
        once = network(torch.tensor([[3, 1, 4]]), torch.tensor([[[1, 3, 2]]]), **options)
        many = network(torch.tensor([[3, 1, 1, 1, 4, 4]]), torch.ones(1, 1, 6, dtype=torch.long), **options)
    torch.testing.assert_close(once, many, rtol=0, atol=1e-12)


def test_a_text_never_loses_all_its_tokens():
    texts = Encoded(np.arange(50), np.arange(51), np.ones(50, int))  # one token each
    batch = make_batch(Parameters(dropout=0.9), texts, np.zeros(50, int), 2, 4, 0, slice(None))
    assert (batch.counts == 1).all()


def test_dropped_numbers_keep_their_mean():
    texts = Encoded(np.arange(50), np.arange(51), np.ones(50, int))
    settings = Parameters(dropout=0.0, embedding_dropout=0.75)
    noise = make_batch(settings, texts, np.zeros(50, int), 1, 40, 0, slice(None)).kept
    assert set(np.unique(noise)) == {0.0, 4.0}
    assert abs(noise.mean() - 1) < 0.1


def test_without_numba_no_bit_changes(fitted, fresh, without_numba):
    fast = fitted.decision_function(fresh.texts)
    without_numba()
    np.testing.assert_array_equal(fitted.decision_function(fresh.texts), fast)


def test_three_classes(corpus):
    labels = ["mixed" if " but " in t else label for t, label in zip(corpus.texts, corpus.labels, strict=True)]
    classifier = HardmaxClassifier(n_heads=4, d=3, ngram_range=(1, 2), epochs=30).fit(corpus.texts, labels)
    assert classifier.classes_.tolist() == ["mixed", "negative", "positive"]
    assert classifier.score(corpus.texts, labels) > 0.9
    np.testing.assert_allclose(classifier.predict_proba(corpus.texts[:9]).sum(axis=1), 1)
    explanation = classifier.explain(corpus.texts[0])
    assert explanation.contributions.shape == (len(explanation.words), 3)
    np.testing.assert_allclose(explanation.bias + explanation.contributions.sum(0), explanation.logit, atol=1e-12)
    assert sum(h.contribution for h in explanation.highlights).shape == (3,)


@pytest.mark.parametrize("options", [{"training": "softmax"}, {"training": "softmax", "trained_A": True}])
def test_softmax_training_serves_hardmax(corpus, options):
    few, labels = corpus.texts[:300], corpus.labels[:300]
    classifier = HardmaxClassifier(
        n_heads=2, groups=1, ngram_range=(1, 2), epochs=40, temperature=1.0, validation=0.0, **options
    ).fit(few, labels)
    assert classifier.score(few, labels) > 0.85
    A = classifier.model_.weights.A
    assert (A is not None) == ("trained_A" in options)
    if A is not None:
        assert np.abs(A - np.eye(2)).max() > 1e-3
        assert np.linalg.eigvalsh(A).min() > 0


def test_groups_see_different_tokens():
    texts = Encoded(np.arange(12), np.array([0, 5, 12, 12]), np.ones(12, int))
    settings = Parameters(dropout=0.5)
    whole = make_batch(settings, texts, np.array([0, 1, 0]), 3, 4, 7, slice(None))
    assert (whole.counts.any(axis=2).T == [True, True, False]).all()  # none loses all its tokens
    assert not (whole.counts[:, 0] == whole.counts[:, 1]).all()
    halves = [make_batch(settings, texts, np.array([0, 1, 0]), 3, 4, 7, slice(k, None, 2)) for k in range(2)]
    assert (halves[1].counts[0] == whole.counts[1]).all()  # however it is dealt out
    assert not (make_batch(settings, texts, np.array([0, 1, 0]), 3, 4, 8, slice(None)).counts == whole.counts).all()


def test_labels_keep_their_type(corpus):
    for labels in (np.arange(40) % 2, np.arange(40) % 2 == 0, np.where(np.arange(40) % 2, "b", "a")):
        classifier = HardmaxClassifier(n_heads=1, groups=1, epochs=1).fit(corpus.texts[:40], labels)
        assert classifier.predict(["x"]).dtype == labels.dtype


def test_early_stopping_and_history(corpus):
    classifier = HardmaxClassifier(**SMALL | {"patience": 3}).fit(corpus.texts, corpus.labels)
    best = max(range(classifier.n_iter_), key=lambda k: classifier.history_[k].quality)
    assert classifier.n_iter_ == best + 4 < 30
    assert classifier.history_[-1].train_loss < classifier.history_[0].train_loss


def test_balanced_classes_weigh_the_same(corpus):
    rare = [i for i, label in enumerate(corpus.labels) if label == "negative" or i % 12 == 0]
    texts, labels = [corpus.texts[i] for i in rare], [corpus.labels[i] for i in rare]
    found = {}
    for weight in (None, "balanced"):
        classifier = HardmaxClassifier(**SMALL | {"epochs": 3, "class_weight": weight}).fit(texts, labels)
        found[weight] = (classifier.predict(corpus.texts) == "positive").mean()
    assert found["balanced"] > found[None]


def test_weights_of_classes_and_of_texts_multiply(corpus, tmp_path):
    texts, labels = corpus.texts[:200], corpus.labels[:200]
    positive = np.array([label == "positive" for label in labels])
    few = SMALL | {"epochs": 3}

    def scores(sample_weight=None, **options):
        return HardmaxClassifier(**few | options).fit(texts, labels, sample_weight).decision_function(corpus.texts)

    plain, by_class = scores(), scores(class_weight={"positive": 4.0})
    assert (by_class > plain).mean() > 0.95
    assert (scores(np.where(positive, 4.0, 1.0)) > plain).mean() > 0.95
    both = scores(np.where(positive, 0.25, 1.0) * 7, class_weight={"positive": 4, "negative": 1})
    assert np.median(np.abs(both - plain)) < 1e-3 * np.abs(plain).max()  # weights of texts are scaled to a mean of 1
    numbered = HardmaxClassifier(**few, class_weight={1: 4.0}).fit(texts, positive.astype(int))
    np.testing.assert_array_equal(numbered.decision_function(corpus.texts), by_class)
    numbered.save(tmp_path / "model")
    assert HardmaxClassifier.load(tmp_path / "model").class_weight == {1: 4.0}


def test_texts_of_weight_0_are_left_out(corpus):
    texts, labels = [*corpus.texts[:120], "sesquipedalian"], [*corpus.labels[:120], "neither"]
    weights = np.r_[np.ones(119), 0, 0]
    found = HardmaxClassifier(**SMALL).fit(texts, labels, sample_weight=weights)
    expected = HardmaxClassifier(**SMALL).fit(texts[:119], labels[:119])
    assert found.classes_.tolist() == ["negative", "positive"]
    np.testing.assert_array_equal(found.decision_function(corpus.texts), expected.decision_function(corpus.texts))


@pytest.mark.parametrize("weights", [[1, 2], [1.0] * 19 + [-1.0], [np.nan] * 20, [0] * 20])
def test_bad_weights(corpus, weights):
    with pytest.raises(ParameterError, match=r"^`sample_weight`"):
        HardmaxClassifier().fit(corpus.texts[:20], corpus.labels[:20], weights)


def test_the_learning_rate_rises_and_falls():
    np.testing.assert_allclose([rate(t, warm_up=0.25) for t in (0, 0.125, 0.25, 0.625, 1)], [0, 0.5, 1, 0.5, 0])


def test_held_back_texts_are_of_every_class():
    labels = np.array([0] * 40 + [1] * 10 + [2] * 3)
    held = validation.hold_out(labels, 0.2, 0)
    assert np.bincount(labels[held], minlength=3).tolist() == [8, 2, 0]


@pytest.mark.parametrize(
    "options",
    [
        *({"n_heads": 0}, {"groups": 3}, {"select": "best"}, {"ngram_range": (2, 1)}, {"ngram_range": 3}),
        *({"layers": -1}, {"alpha": 0}, {"dropout": 1.0}, {"training": "sparsemax"}, {"trained_A": True}),
        *({"class_weight": "even"}, {"class_weight": {"positive": 0}}, {"class_weight": {"positiv": 2}}),
        *({"resume": True}, {"epochs": 0}, {"device": "tpu"}, {"start": "linear", "epochs": 2}),
    ],
)
def test_bad_parameters(corpus, options):
    with pytest.raises(ParameterError, match=f"^`{next(iter(options))}`"):
        HardmaxClassifier(**options).fit(corpus.texts[:20], corpus.labels[:20])


@pytest.mark.parametrize(
    ("texts", "labels", "named"),
    [
        ("one text", ["a"], "`X`"),
        (["a", 3], [0, 1], "`X` .* index 1"),
        (["a", None], [None, 1], "`X` and `y`"),
        ([["a"], ["b"]], [0, 1], "`X`"),
        (np.array([["a"], ["b"]]), [0, 1], "`X`"),
        ([], [], "`X`"),
        (3, [0], "`X`"),
        (["a", "b"], [1, 1], "`y`"),
        (["a", "b"], [1], "`y`"),
        (["a", "b"], [0.5, 1.5], "Unknown label type"),
        (["one", "two"], [0, 1], "`min_df`"),
    ],
)
def test_bad_texts(texts, labels, named):
    with pytest.raises(ValueError, match=named):
        HardmaxClassifier(n_heads=1, groups=1, epochs=1).fit(texts, labels)


def test_a_frame_has_a_column_of_texts(corpus, fitted):
    texts, labels = corpus.texts, corpus.labels
    frame = pd.DataFrame({"stars": range(len(texts)), "title": "a title", "review": texts, "label": labels})
    named = HardmaxClassifier(**SMALL, text_column="review").fit(frame, frame["label"])
    assert named.predict(frame).tolist() == fitted.predict(texts).tolist()
    assert fitted.predict(frame[["stars", "review"]]).tolist() == fitted.predict(texts).tolist()
    assert fitted.explain_many(frame[["review"]].head(1))[0].text == texts[0]
    assert HardmaxClassifier(text_column="review").get_params()["text_column"] == "review"


@pytest.mark.parametrize(
    ("columns", "named", "sentence"),
    [
        (["stars", "title", "review"], None, 'with title, review, 2 of them. Name it: `text_column="review"`.'),
        (["review", "title"], None, 'with review, title, 2 of them. Name it: `text_column="review"`.'),
        (["said", "title"], None, 'with said, title, 2 of them. Name it: `text_column="said"`.'),
        (["stars"], None, "`X` must have one column of texts. Got a DataFrame with none."),
        (["stars", "review"], "Reviews", "must be a column of the DataFrame. Got 'Reviews'. Did you mean 'review'?"),
        (["stars", "review"], "x", "Got 'x'. It has stars, review."),
    ],
)
def test_a_frame_without_such_a_column_is_told_so(columns, named, sentence):
    said = {"review": [None, "a good film"], "said": ["so so", "a good film"]}
    frame = pd.DataFrame({"stars": [1, 5], "title": ["no", "yes"], **said})[columns]
    with pytest.raises(ParameterError) as caught:
        HardmaxClassifier(text_column=named).fit(frame, ["a", "b"])
    assert sentence in str(caught.value)


@pytest.mark.parametrize("d", [1, 2])
def test_training_that_diverges_says_so(corpus, d):
    wild = HardmaxClassifier(n_heads=2, groups=1, d=d, epochs=3, learning_rate=1e38)
    with pytest.raises(InputError, match="`learning_rate`"):
        wild.fit(corpus.texts[:200], corpus.labels[:200])


def test_a_large_alpha_is_no_trouble(corpus):
    classifier = HardmaxClassifier(n_heads=2, groups=1, epochs=1, alpha=1000.0).fit(
        corpus.texts[:200], corpus.labels[:200]
    )
    assert classifier.model_.weights.alpha == pytest.approx([1000.0] * 2, rel=1e-3)


def test_before_fit():
    for method in ("predict", "predict_proba", "decision_function", "explain", "explain_many", "leaders"):
        with pytest.raises(NotFittedError):
            getattr(HardmaxClassifier(), method)("text")


def test_files_give_the_same_answers(fitted, fresh, tmp_path):
    fitted.save(tmp_path / "model")
    read = HardmaxClassifier.load(tmp_path / "model")
    assert read.decision_function(fresh.texts).tobytes() == fitted.decision_function(fresh.texts).tobytes()
    assert read.get_params() == fitted.get_params()
    assert read.history_ == fitted.history_
    fitted.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 3


def test_compact_files_are_a_quarter_and_nearly_the_same(fitted, fresh, tmp_path):
    fitted.save(tmp_path / "a")
    fitted.save(tmp_path / "b", compact=True)
    sizes = [next((tmp_path / name).glob("*.safetensors")).stat().st_size for name in "ab"]
    assert sizes[1] < 0.6 * sizes[0]
    read = HardmaxClassifier.load(tmp_path / "b")
    assert (read.model_.weights.embedding != 0).all()
    assert np.mean(read.predict(fresh.texts) == fitted.predict(fresh.texts)) > 0.98


def test_paper_model_and_labels_survive_a_file(corpus, tmp_path):
    labels = np.where(np.array(corpus.labels) == "positive", 5, -5)
    fitted = HardmaxClassifier.paper(d=2, epochs=2).fit(corpus.texts, labels)
    fitted.save(tmp_path / "m")
    read = HardmaxClassifier.load(tmp_path / "m")
    assert read.classes_.tolist() == [-5, 5]
    assert read.decision_function(corpus.texts).tobytes() == fitted.decision_function(corpus.texts).tobytes()


TWO = ["bad", "good"] * 6
WORDS = [f"word{i % 3} other{i % 2} number{i}" for i in range(12)]
LABELS = {
    "list": TWO,
    "tuple": tuple(TWO),
    "text": np.array(TWO),
    "objects": np.array(TWO, object),
    "column": pd.Series(TWO),
    "column of objects": pd.Series(TWO, dtype=object),
    "column of strings": pd.Series(TWO, dtype="string"),
    "category": pd.Series(TWO, dtype="category"),
    "strings of NumPy": np.array(TWO, np.dtypes.StringDType()) if hasattr(np.dtypes, "StringDType") else TWO,
    "index": pd.Index(TWO),
    "three": ["a", "b", "c"] * 4,
    "numbers": [0, 1] * 6,
    "column of numbers": pd.Series([3, 7] * 6),
    "nullable": pd.Series([3, 7] * 6, dtype="Int64"),
    "numbers as objects": np.array([3, 7] * 6, object),
    "bytes": np.array([3, 7] * 6, np.uint8),
    "floats": np.array([0.0, 1.0] * 6, np.float32),
    "booleans": pd.Series([True, False] * 6),
    "booleans as objects": np.array([True, False] * 6, object),
    "tensor": torch.tensor([3, 7] * 6),
    "unusual": ["a b", "é\ud800\nü"] * 6,
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_survive_a_file(kind, tmp_path):
    fitted = HardmaxClassifier(n_heads=2, groups=1, epochs=2, min_df=1).fit(WORDS, LABELS[kind])
    fitted.save(tmp_path / "model")
    read = HardmaxClassifier.load(tmp_path / "model")
    assert (
        read.classes_.tolist()
        == fitted.classes_.tolist()
        == sorted({getattr(label, "item", lambda label=label: label)() for label in LABELS[kind]})
    )
    assert read.classes_.dtype == fitted.classes_.dtype
    assert read.predict(WORDS).tolist() == fitted.predict(WORDS).tolist()


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (["a", 1] * 6, ""),
        ([True, 1] * 6, ""),
        (np.array(["2026-01-01", "2026-01-02"] * 6, "datetime64[ns]"), ""),
        ([0.0, np.inf] * 6, ""),
        ([["a"], ["a", "b"]] * 6, MULTILABEL),
        ([{"a"}, {"a", "b"}] * 6, MULTILABEL),
        (np.eye(12, 3, dtype=int), MULTILABEL),
        (["a\0", "b"] * 6, ""),
        ([2**63, -1] * 6, ""),
        (np.array([b"a", b"b"] * 6), ""),
    ],
)
def test_labels_that_cannot_be_are_refused(labels, advice):
    with pytest.raises(ParameterError, match=f"^`y` .*{re.escape(advice)}$"):
        HardmaxClassifier().fit(["some words"] * 12, labels)


def test_there_is_no_partial_fit_and_a_sentence_says_why():
    assert not hasattr(HardmaxClassifier(), "partial_fit")
    with pytest.raises(AttributeError, match="order of the rows"):
        HardmaxClassifier().partial_fit(["some words"], ["a"])


def test_several_labels_a_text_are_a_classifier_each():
    made = [("good story", [1, 0]), ("good music", [0, 1]), ("story and music", [1, 1]), ("a film", [0, 0])] * 4
    texts, wanted = [f"{text} {i}" for i, (text, _) in enumerate(made)], [labels for _, labels in made]
    several = OneVsRestClassifier(HardmaxClassifier(n_heads=4, groups=1)).fit(texts, np.array(wanted))
    assert several.predict(texts).tolist() == wanted
    assert [each.explain("story and music").prediction for each in several.estimators_] == [1, 1]


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (WORDS, ["a", "b", None] * 4),
        (WORDS, ["a", "b", " "] * 4),
        (WORDS, pd.Series(["a", "b", np.nan] * 4, dtype=object)),
        (WORDS, pd.Series([1, 2, pd.NA] * 4, dtype="Int64")),
        (WORDS, np.array([0.0, 1.0, np.nan] * 4)),
        (WORDS, np.ma.array([0, 1] * 6, mask=[0, 0, 1] * 4)),
        (["one word", "other", None] * 4, ["a", "b"] * 6),
        (pd.Series(["one word", "other", np.nan] * 4), pd.Series(["a", "b"] * 6)),
        (["one word", "other", "  "] * 4, ["a", "b"] * 6),
    ],
)
@pytest.mark.filterwarnings("ignore:.*are duplicates of an earlier text")
def test_rows_without_text_or_label_are_left_out_and_counted(texts, labels):
    classifier = HardmaxClassifier(n_heads=2, groups=1, epochs=1, min_df=1, validation=0)
    with pytest.warns(UserWarning, match=r"^Left out 4 of 12 rows without text or label\.$"):
        classifier.fit(texts, labels)
    kept = [i for i in range(12) if i % 3 < 2]
    plain = [labels.iloc[i] if hasattr(labels, "iloc") else labels[i] for i in kept]
    again = HardmaxClassifier(**classifier.get_params()).fit([list(texts)[i] for i in kept], plain)
    assert np.array_equal(again.model_.weights.embedding, classifier.model_.weights.embedding)


def test_missing_texts_are_answered_as_empty_ones(fitted):
    with pytest.warns(UserWarning, match=r"2 of 3 texts are missing; they count as empty texts\."):
        found = fitted.predict_proba(pd.Series(["fine", None, np.nan], dtype=object))
    assert np.array_equal(found, fitted.predict_proba(["fine", "", ""]))


def test_memory_does_not_grow_with_the_number_of_texts(fitted, fresh, monkeypatch):
    monkeypatch.setattr(model, "MAX_CHARACTERS", 20_000)
    expected = fitted.decision_function(fresh.texts)

    def peak(texts):
        tracemalloc.start()
        try:
            answers = fitted.decision_function(texts)
            return tracemalloc.get_traced_memory()[1], answers
        finally:
            tracemalloc.stop()

    few, _ = peak(fresh.texts * 4)
    many, answers = peak(fresh.texts * 16)
    assert many < 1.5 * few
    assert answers.tobytes() == np.tile(expected, 16).tobytes()  # however they are parted
    assert [part for some in model.in_parts(["a" * 30_000, "b", "c"]) for part in some] == ["a" * 30_000, "b", "c"]
    assert fitted.explain_many(fresh.texts)[-1].logit == expected[-1]


def test_nothing_of_a_run_is_taken_from_a_file(fitted, corpus, tmp_path):
    """A model from a stranger must not name a file that fitting it again would write."""
    fitted.save(tmp_path / "model")
    file, victim = tmp_path / "model" / "model.json", tmp_path / "victim"
    about = json.loads(file.read_text())
    about["params"] |= {"checkpoint": str(victim), "resume": True, "device": "cuda", "verbose": True}
    file.write_text(json.dumps(about))
    read = HardmaxClassifier.load(tmp_path / "model")
    plain = HardmaxClassifier()
    for name in ("checkpoint", "resume", "device", "verbose"):
        assert getattr(read, name) == getattr(plain, name)
    clone(read).set_params(epochs=1).fit(corpus.texts, corpus.labels)
    assert not victim.exists()


def test_broken_files_get_a_sentence(fitted, tmp_path):
    def broken(name, change):
        folder = tmp_path / name
        fitted.save(folder)
        change(folder)
        with pytest.raises((ValueError, OSError)) as caught:
            HardmaxClassifier.load(folder)
        return str(caught.value)

    def edit(**changes):
        def change(folder):
            about = json.loads((folder / "model.json").read_text())
            (folder / "model.json").write_text(json.dumps(about | changes))

        return change

    def shorten(pattern):
        def change(folder):
            (file,) = folder.glob(pattern)
            file.write_bytes(file.read_bytes()[:-9])

        return change

    def remove(pattern):
        return lambda folder: [file.unlink() for file in folder.glob(pattern)]

    for name, change, sentence in (
        ("a", shorten("*.json"), "must be JSON"),
        ("b", shorten("*.safetensors"), "truncated or changed"),
        ("c", edit(version=99), "have version"),
        ("d", edit(format="other"), "must describe a model of hardmax"),
        ("e", remove("*.safetensors"), "Copy the whole folder"),
        ("f", remove("*.json"), "`model` must be a folder"),
        ("g", edit(weights="../../etc/passwd"), "Copy the whole folder"),
        ("h", edit(words=3), "`words` must be there"),
    ):
        assert sentence in broken(name, change), name


ABOUT = [
    ({"layers": -1}, "`layers` must lie between"),
    ({"layers": True}, "`layers` must be there, as int"),
    ({"layers": 1.5}, "`layers` must be there, as int"),
    ({"version": "1"}, "have version"),
    ({"sha256": 3}, "`sha256` must be there, as str"),
    ({"classes": ["a"]}, "at least two different labels"),
    ({"classes": ["a", "a"]}, "at least two different labels"),
    ({"classes": [["a"], ["b"]]}, "`classes` must"),
    ({"classes_dtype": "<U1"}, "at least two different labels"),
    ({"classes_dtype": "nonsense"}, "`classes` must fit"),
    ({"classes_dtype": "O"}, "at least two different labels"),
    ({"words": ["a", "a"]}, "`words` must be distinct"),
    ({"words": ["a"]}, "`runs` must be indices"),
    ({"distinct": "no"}, "`distinct` must be there, as bool"),
    ({"params": []}, "`params` must be there, as dict"),
    ({"history": [{}]}, "`text` and `history`"),
]


@pytest.mark.parametrize(("changes", "sentence"), ABOUT)
def test_a_crafted_description_is_refused(fitted, tmp_path, changes, sentence):
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(about | changes))
    with pytest.raises(ValueError, match=sentence):
        HardmaxClassifier.load(tmp_path)


def spoiled(array, value):
    array = array.copy()
    array.flat[0] = value
    return array


NUMBERS = [
    ("decoder", lambda a: a[:, :1], "`decoder` must have the shape"),
    ("embedding", lambda a: a[:5], "`runs` must be"),
    ("embedding", lambda a: a.astype(np.float64), "`embedding` must be"),
    ("embedding", lambda a: spoiled(a, np.nan), "`embedding` must be finite"),
    ("alpha", lambda a: -a, "`alpha` must be positive"),
    ("alpha", lambda a: spoiled(a, np.inf), "`alpha` must be finite"),
    ("bias", lambda a: np.zeros(3), "`bias` must have the shape"),
    ("runs", lambda a: spoiled(a, 60_000), "`runs` must be indices"),
    ("runs", lambda a: spoiled(a, 0), "`runs` must be indices"),
    ("runs", lambda a: a.astype(np.float32), "`runs` must be"),
    ("runs", lambda a: a[[0, *range(len(a) - 1)]], "`runs` must be distinct"),
]


@pytest.mark.parametrize(("name", "change", "sentence"), NUMBERS)
def test_crafted_numbers_are_refused(fitted, tmp_path, name, change, sentence):
    fitted.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    file = tmp_path / about["weights"]
    numbers = load(file.read_bytes())
    file.write_bytes(save(numbers | {name: np.ascontiguousarray(change(numbers[name]))}))
    about["sha256"] = sha256(file.read_bytes()).hexdigest()
    (tmp_path / "model.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=sentence):
        HardmaxClassifier.load(tmp_path)


def test_runs_that_cannot_be_numbered_get_a_sentence():
    texts = [" ".join([f"w{i}" for i in range(600)] * (k + 1)) for k in range(4)]
    with pytest.raises(ValueError, match="`ngram_range` must be smaller for a vocabulary of 600 words"):
        HardmaxClassifier(ngram_range=(1, 8)).fit(texts, [0, 1, 0, 1])


def test_where_training_began_survives_a_file(corpus, fitted, tmp_path):
    linear = HardmaxClassifier(n_heads=4, groups=1).fit(corpus.texts[:100], corpus.labels[:100])
    assert (linear.start_, fitted.start_) == ("linear", "random")
    for each in (linear, fitted):
        each.save(tmp_path / each.start_)
        assert HardmaxClassifier.load(tmp_path / each.start_).start_ == each.start_


def test_the_record_has_the_median_length(corpus, fitted):
    texts = ["good", "bad film", "a long and good film"]
    record = HardmaxClassifier(n_heads=2, groups=1).fit(texts, ["a", "b", "a"]).training_
    assert record.characters == 8.0 != np.mean([len(text) for text in texts])


def test_coverage_refuses_labels_that_the_model_does_not_have(corpus, fitted):
    texts, labels = corpus.texts[:20], corpus.labels[:20]
    right = fitted.coverage(texts, labels)
    spaced = fitted.coverage(texts, [f" {label} " for label in labels])
    assert spaced.equals(right)
    for wrong in (["Positive", *labels[1:]], [1] * 20, [pd.NA, *labels[1:]]):
        with pytest.raises(ParameterError, match=r"^`y`"):
            fitted.coverage(texts, wrong)


def test_spaces_around_labels_are_removed_as_on_the_command_line(corpus):
    labels = [f" {label} " if i % 3 else label for i, label in enumerate(corpus.labels[:90])]
    classifier = HardmaxClassifier(n_heads=2, groups=1)
    with pytest.warns(UserWarning, match=r"^Removed the spaces around 60 of 90 labels: ' \w+ ' becomes '\w+'\.$"):
        classifier.fit(corpus.texts[:90], labels)
    assert classifier.classes_.tolist() == ["negative", "positive"]
    plain = HardmaxClassifier(n_heads=2, groups=1).fit(corpus.texts[:90], corpus.labels[:90])
    assert classifier.predict(corpus.texts).tolist() == plain.predict(corpus.texts).tolist()
    assert classifier.score(corpus.texts[:90], labels) == plain.score(corpus.texts[:90], corpus.labels[:90]) > 0.5


def test_labels_that_differ_in_case_only_are_warned_of(corpus):
    labels = ["Positive" if i < 10 and label == "positive" else label for i, label in enumerate(corpus.labels[:90])]
    with pytest.warns(UserWarning, match=r"different classes: 'Positive' and 'positive'\."):
        classifier = HardmaxClassifier(n_heads=2, groups=1).fit(corpus.texts[:90], labels)
    assert classifier.classes_.tolist() == ["Positive", "negative", "positive"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without a GPU")
@pytest.mark.parametrize("options", [{"device": "cuda"}, {"device": "cuda:3"}, {"device": "cuda", "epochs": 1}])
def test_a_gpu_that_is_not_there_is_refused(corpus, options):
    with pytest.raises(ParameterError, match=r"`device` must be a GPU that torch can use\. Got 'cuda"):
        HardmaxClassifier(**options).fit(corpus.texts[:20], corpus.labels[:20])


CHINESE = [f"这部电影{'非常好看' if i % 2 else '实在太差'}。我看了{i}次。" for i in range(20)]
THAI = [f"หนังเรื่องนี้{'สนุกมากจริงๆ' if i % 2 else 'น่าเบื่อมากจริงๆ'} {i}" for i in range(20)]


@pytest.mark.parametrize("texts", [CHINESE, THAI])
def test_scripts_without_spaces_between_words_are_warned_of(texts):
    labels = ["a", "b"] * 10
    with pytest.warns(UserWarning, match=r"without spaces between words.*Pass a `tokenizer` in Python"):
        HardmaxClassifier(n_heads=2, groups=1).fit(texts, labels)
    HardmaxClassifier(n_heads=2, groups=1, tokenizer=list).fit(texts, labels)  # and without a warning


def test_words_with_spaces_between_them_are_not_warned_of():
    split = [f"这 部 电影 {'非常 好看' if i % 2 else '实在 太 差'} {i}" for i in range(20)]
    quoted = [f"A film called 卧虎藏龙, which was {'good' if i % 2 else 'bad'} {i} times." for i in range(20)]
    for texts in (split, quoted):
        HardmaxClassifier(n_heads=2, groups=1).fit(texts, ["a", "b"] * 10)
