"""The estimator: scikit-learn's own checks, parameters, unusual input."""

import inspect
import re
import warnings
from dataclasses import fields
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from hardmax import HardmaxClassifier, ParameterError
from hardmax._errors import InputError
from hardmax.text import model, validation
from hardmax.text.datasets import reviews
from hardmax.text.parameters import Parameters
from hardmax.text.validation import MULTILABEL
from tests.conftest import SMALL_MODEL as SMALL
from tests.memory import peak_of
from tests.test_encoders import toy

WORDS = [f"word{i % 3} other{i % 2} number{i}" for i in range(12)]


# scikit-learn's checks use matrices of numbers, and run just one on an estimator of
# texts. This subclass turns each number of a row into a word, so that all checks run:
# of fitting, labels, shapes, copies, pickles and errors.
class OfRows(HardmaxClassifier):
    """A classifier of rows of numbers."""

    def __init__(self, *, n_heads=2, epochs=20, random_state=0):
        options = {
            "min_df": 1,
            "validation": 0.0,
            "dropout": 0.0,
            "ngram_range": (1, 1),
            "groups": 1,
        }
        super().__init__(
            n_heads=n_heads, epochs=epochs, random_state=random_state, **options
        )

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, multi_output=np.asarray(y).shape[1:] > (1,))
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
        tags.classifier_tags.multi_label = (
            self.epochs is None
        )  # several labels need a linear start
        return tags


def as_texts(X):
    bins = np.clip(np.round(2 * X), -99, 99).astype(int) + 100
    return [" ".join(f"column{j}value{x}" for j, x in enumerate(row)) for row in bins]


# A text of weight 2 is not a text that occurs twice: batches differ.
FAILING = {"check_sample_weight_equivalence_on_dense_data"}


def checks(estimator, kind=""):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an estimator of texts has one check
        pairs = list(estimator_checks_generator(estimator))
    named = [
        (getattr(check, "func", check).__name__, pair)
        for pair in pairs
        for check in pair[1:]
    ]
    names, pairs = zip(*(each for each in named if kind in each[0]), strict=True)
    marks = [
        [pytest.mark.xfail(strict=True)] if name in FAILING else [] for name in names
    ]
    return [
        pytest.param(*pair, id=name, marks=mark)
        for pair, name, mark in zip(pairs, names, marks, strict=True)
    ]


@pytest.mark.filterwarnings("ignore:No text of class")
@pytest.mark.filterwarnings("ignore:.*are duplicates of an earlier text")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        *checks(HardmaxClassifier()),
        *checks(OfRows()),
        *checks(OfRows(epochs=None), "multilabel"),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_learns_negations_from_pairs(fresh):
    corpus = reviews(1500, seed=1)
    scores = []
    for ngram_range in ((1, 1), (1, 2)):
        classifier = HardmaxClassifier(
            **SMALL | {"ngram_range": ngram_range, "epochs": 10}
        )
        scores.append(
            classifier.fit(corpus.texts, corpus.labels).score(fresh.texts, fresh.labels)
        )
    assert scores[1] > max(0.8, scores[0] + 0.05)


def test_signature_and_docstring_come_from_the_parameters():
    every = fields(Parameters)
    signature = inspect.signature(HardmaxClassifier)
    assert {
        each.name: each.default for each in every
    } == HardmaxClassifier().get_params()
    assert [each.name for each in every] == list(signature.parameters)
    assert all(
        parameter.kind is parameter.KEYWORD_ONLY
        for parameter in signature.parameters.values()
    )
    for each in every:
        assert f"{each.name} : " in HardmaxClassifier.__doc__
        assert each.metadata["about"] in HardmaxClassifier.__doc__
        assert each.metadata["about"][-1] in ".)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'heads'"):
        HardmaxClassifier(heads=4)
    chosen = HardmaxClassifier(n_heads=3, stop_words=["a"])
    assert repr(chosen) == "HardmaxClassifier(n_heads=3, stop_words=['a'])"
    assert len({chosen, clone(chosen)}) == 2  # estimators are compared by identity


def test_works_in_scikit_learn(corpus):
    few, labels = corpus.texts[:120], corpus.labels[:120]
    tiny = HardmaxClassifier(n_heads=2, groups=1, epochs=3)
    assert clone(tiny).get_params() == tiny.get_params()
    assert len(cross_val_score(tiny, few, labels, cv=2)) == 2
    grid = GridSearchCV(tiny, {"layers": [0, 1]}, cv=2).fit(few, labels)
    assert grid.best_params_["layers"] in (0, 1)
    pipeline = make_pipeline(
        FunctionTransformer(lambda texts: [t.upper() for t in texts]), tiny
    ).fit(few, labels)
    assert (
        pipeline.predict(few).tolist()
        == clone(tiny).fit(few, labels).predict(few).tolist()
    )


def test_the_same_seed_gives_the_same_model(corpus):
    made = [
        HardmaxClassifier(**SMALL | {"epochs": 4}, random_state=seed)
        for seed in (0, 0, 1)
    ]
    scores = [
        c.fit(corpus.texts, corpus.labels).decision_function(corpus.texts).tobytes()
        for c in made
    ]
    assert scores[0] == scores[1] != scores[2]


def test_without_numba_no_bit_changes(fitted, fresh, without_numba):
    fast = fitted.decision_function(fresh.texts)
    without_numba()
    np.testing.assert_array_equal(fitted.decision_function(fresh.texts), fast)


def test_labels_keep_their_type(corpus):
    for labels in (
        np.arange(40) % 2,
        np.arange(40) % 2 == 0,
        np.where(np.arange(40) % 2, "b", "a"),
    ):
        classifier = HardmaxClassifier(n_heads=1, groups=1, epochs=1).fit(
            corpus.texts[:40], labels
        )
        assert classifier.predict(["x"]).dtype == labels.dtype


def test_weights_of_classes_and_of_texts_multiply(corpus, tmp_path):
    texts, labels = corpus.texts[:200], corpus.labels[:200]
    positive = np.array([label == "positive" for label in labels])
    few = SMALL | {"epochs": 3}

    def scores(sample_weight=None, **options):
        return (
            HardmaxClassifier(**few | options)
            .fit(texts, labels, sample_weight)
            .decision_function(corpus.texts)
        )

    plain, by_class = scores(), scores(class_weight={"positive": 4.0})
    assert (by_class > plain).mean() > 0.95
    assert (scores(np.where(positive, 4.0, 1.0)) > plain).mean() > 0.95
    both = scores(
        np.where(positive, 0.25, 1.0) * 7, class_weight={"positive": 4, "negative": 1}
    )
    assert (
        np.median(np.abs(both - plain)) < 1e-3 * np.abs(plain).max()
    )  # weights of texts are scaled to a mean of 1
    numbered = HardmaxClassifier(**few, class_weight={1: 4.0}).fit(
        texts, positive.astype(int)
    )
    np.testing.assert_array_equal(numbered.decision_function(corpus.texts), by_class)
    numbered.save(tmp_path / "model")
    assert HardmaxClassifier.load(tmp_path / "model").class_weight == {1: 4.0}


def test_texts_of_weight_0_are_left_out(corpus):
    texts, labels = (
        [*corpus.texts[:120], "sesquipedalian"],
        [*corpus.labels[:120], "neither"],
    )
    weights = np.r_[np.ones(119), 0, 0]
    found = HardmaxClassifier(**SMALL).fit(texts, labels, sample_weight=weights)
    expected = HardmaxClassifier(**SMALL).fit(texts[:119], labels[:119])
    assert found.classes_.tolist() == ["negative", "positive"]
    np.testing.assert_array_equal(
        found.decision_function(corpus.texts), expected.decision_function(corpus.texts)
    )


def test_held_out_texts_are_of_every_class():
    labels = np.array([0] * 40 + [1] * 10 + [2] * 3)
    held = validation.hold_out(labels, 0.2, 0, np.arange(53))
    assert np.bincount(labels[held], minlength=3).tolist() == [8, 2, 0]


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"n_heads": 0},
            {"groups": 3},
            {"select": "best"},
            {"ngram_range": (2, 1)},
            {"ngram_range": 3},
        ),
        *(
            {"layers": -1},
            {"alpha": 0},
            {"dropout": 1.0},
            {"training": "sparsemax"},
            {"trained_A": True},
        ),
        *(
            {"class_weight": "even"},
            {"class_weight": {"positive": 0}},
            {"class_weight": {"positiv": 2}},
        ),
        *(
            {"resume": True},
            {"epochs": 0},
            {"device": "tpu"},
            {"start": "linear", "epochs": 2},
            {"start": "warm"},
        ),
        {"start": "linear", "training": "softmax"},
    ],
)
def test_a_wrong_parameter_is_named(corpus, options):
    with pytest.raises(ParameterError, match=f"^`{next(iter(options))}`"):
        HardmaxClassifier(**options).fit(corpus.texts[:20], corpus.labels[:20])


@pytest.mark.parametrize(
    "given",
    [
        *(
            {"sample_weight": weights}
            for weights in ([1, 2], [1.0] * 19 + [-1.0], [np.nan] * 20, [0] * 20)
        ),
        *({"groups": groups} for groups in ([1] * 19, [[1]] * 20, 3)),
    ],
)
def test_weights_and_groups_have_one_value_per_text(corpus, given):
    with pytest.raises(
        ParameterError, match=f"^`{next(iter(given))}` .* each of the 20 texts"
    ):
        HardmaxClassifier().fit(corpus.texts[:20], corpus.labels[:20], **given)


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
def test_wrong_texts_and_labels_are_named(texts, labels, named):
    with pytest.raises(ValueError, match=named):
        HardmaxClassifier(n_heads=1, groups=1, epochs=1).fit(texts, labels)


def test_a_frame_has_a_column_of_texts(corpus, fitted):
    texts, labels = corpus.texts, corpus.labels
    frame = pd.DataFrame(
        {
            "stars": range(len(texts)),
            "title": "a title",
            "review": texts,
            "label": labels,
        }
    )
    named = HardmaxClassifier(**SMALL, text_column="review", columns=()).fit(
        frame, frame["label"]
    )
    assert named.predict(frame).tolist() == fitted.predict(texts).tolist()
    assert (
        fitted.predict(frame[["stars", "review"]]).tolist()
        == fitted.predict(texts).tolist()
    )
    assert fitted.explain_many(frame[["review"]].head(1))[0].text == texts[0]
    assert (
        HardmaxClassifier(text_column="review").get_params()["text_column"] == "review"
    )


@pytest.mark.parametrize(
    ("columns", "chosen", "advice"),
    [
        (
            ["stars", "title", "review"],
            None,
            "Name one with `text_column`. The columns are: stars, title, review.",
        ),
        (["stars"], None, "The columns are: stars."),
        (["stars", "review"], "Reviews", "Did you mean 'review'?"),
    ],
)
def test_a_frame_without_one_column_of_texts_is_refused(columns, chosen, advice):
    frame = pd.DataFrame(
        {"stars": [1, 5], "title": ["no", "yes"], "review": [None, "a good film"]}
    )[columns]
    with pytest.raises(ParameterError, match=r"^`text_column`") as caught:
        HardmaxClassifier(text_column=chosen).fit(frame, ["a", "b"])
    assert advice in caught.value.advice


def test_one_text_is_not_a_list():
    classifier = HardmaxClassifier(n_heads=1, groups=1).fit(
        ["a good film", "a bad film"], ["a", "b"]
    )
    for alone in ("a good film", np.array("a good film"), np.array(1.0)):
        with pytest.raises(ParameterError, match="Put it in brackets"):
            classifier.predict(alone)


def test_before_fit():
    for method in (
        "predict",
        "predict_proba",
        "decision_function",
        "explain",
        "explain_many",
        "leaders",
    ):
        with pytest.raises(NotFittedError):
            getattr(HardmaxClassifier(), method)("text")


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (["a", 1] * 6, ""),
        ([True, 1] * 6, ""),
        (np.array(["2026-01-01", "2026-01-02"] * 6, "datetime64[ns]"), ""),
        ([0.0, np.inf] * 6, ""),
        ([[["a"]], ["a", "b"]] * 6, MULTILABEL),
        (["a", ["a", "b"], ["b"]] * 4, MULTILABEL),
        ([{"a"}, {1, "b"}] * 6, ""),
        (2 * np.eye(12, 3, dtype=int), MULTILABEL),
        (["a\0", "b"] * 6, ""),
        ([2**63, -1] * 6, ""),
        (np.array([b"a", b"b"] * 6), ""),
    ],
)
def test_labels_of_no_single_kind_are_refused(labels, advice):
    with pytest.raises(ParameterError, match=f"^`y` .*{re.escape(advice)}$"):
        HardmaxClassifier().fit(["some words"] * 12, labels)


MADE = [
    ("good story", [1, 0]),
    ("good music", [0, 1]),
    ("story and music", [1, 1]),
    ("a film", [0, 0]),
] * 4
TEXTS, WANTED = (
    [f"{text} {i}" for i, (text, _) in enumerate(MADE)],
    np.array([labels for _, labels in MADE]),
)
SETS = [
    [name for name, has in zip(("story", "music"), row, strict=True) if has]
    for row in WANTED.tolist()
]


@pytest.mark.parametrize("encoder", [None, toy])
def test_several_labels_per_text(encoder, tmp_path):
    small = {"n_heads": 5, "groups": 1, "encoder": encoder}
    matrix, sets = (HardmaxClassifier(**small).fit(TEXTS, y) for y in (WANTED, SETS))
    assert matrix.predict(TEXTS).tolist() == WANTED.tolist()
    assert sets.classes_.tolist() == ["music", "story"]
    assert sets.predict(TEXTS).tolist() == [tuple(sorted(each)) for each in SETS]
    assert sets.score(TEXTS, SETS) == matrix.score(TEXTS, csr_array(WANTED)) == 1
    assert sets.predict_proba(TEXTS).shape == (16, 2)
    above = sets.predict_proba(TEXTS) > sets.threshold_
    assert above.tolist() == WANTED[:, ::-1].astype(bool).tolist()
    assert sets.answers(TEXTS[2:4])["prediction"].tolist() == ["music, story", ""]
    assert (
        sets.answers(TEXTS[2:3])["strongest_words"].str.contains("music: music").all()
    )
    one = OneVsRestClassifier(HardmaxClassifier(**small | {"n_heads": 2})).fit(
        TEXTS, WANTED
    )
    np.testing.assert_allclose(
        matrix.predict_proba(TEXTS), one.predict_proba(TEXTS), atol=1e-9
    )
    sets.save(tmp_path)
    assert "several per text: music, story" in (tmp_path / "README.md").read_text(
        encoding="utf-8"
    )
    again = HardmaxClassifier.load(tmp_path, encoder=encoder)
    logits = sets.decision_function(TEXTS)
    np.testing.assert_array_equal(again.decision_function(TEXTS), logits)
    for k, label in enumerate(sets.classes_):
        found = again.explain(TEXTS[0], label)
        assert found.logit == logits[0, k]
        assert found.bias + found.contributions.sum() == pytest.approx(
            found.logit, abs=1e-12
        )
        assert found.prediction == (label if label in SETS[0] else f"not {label}")
        assert found.minimal_flip().flips == (label in SETS[0])
    assert again.explain(TEXTS[0]).prediction == "story"
    assert set(again.contributions(TEXTS)["for"]) == {"music", "story"}
    for wrong in (
        partial(sets.explain, TEXTS[0], "film"),
        partial(sets.score, TEXTS, [["film"]] * 16),
    ):
        with pytest.raises(ParameterError, match="'film'"):
            wrong()
    with pytest.raises(InputError, match="one label per text"):
        sets.coverage(TEXTS, SETS)


def test_labels_of_all_texts_or_missing_ones_raise_a_warning():
    with (
        pytest.warns(UserWarning, match=r"Left out 1 of 17"),
        pytest.warns(UserWarning, match=r"'all' is that of 16"),
    ):
        found = HardmaxClassifier(n_heads=2, groups=1).fit(
            [*TEXTS, "x"], [*([*each, "all"] for each in SETS), None]
        )
    assert found.predict(["a film"]).tolist() == [("all",)]
    with pytest.raises(ParameterError, match=r"^`start`"):
        HardmaxClassifier(epochs=2).fit(TEXTS, SETS)
    with pytest.warns(UserWarning, match=r"'2' is that of 0"):
        found = HardmaxClassifier(n_heads=2, groups=1, class_weight={0: 2.0}).fit(
            TEXTS, np.pad(WANTED, ((0, 0), (0, 1)))
        )
    assert not found.predict(TEXTS)[:, 2].any()


@pytest.fixture
def table() -> pd.DataFrame:
    corpus = reviews(120, seed=3)
    rng = np.random.default_rng(0)
    stars = np.where(np.array(corpus.labels) == "positive", 4.0, 2.0) + rng.normal(
        size=120
    )
    stars[5] = np.nan
    return pd.DataFrame(
        {
            "review": corpus.texts,
            "stars": stars,
            "land": ["uk", "de", "fr"] * 40,
            "y": corpus.labels,
        }
    )


@pytest.mark.parametrize(("classes", "encoder"), [(2, None), (3, None), (2, toy)])
def test_columns_beside_the_text_are_parts_of_the_sum(
    table, classes, encoder, tmp_path
):
    labels = (
        table["y"] if classes == 2 else table["y"].where(table["stars"] < 4, "best")
    )
    options = {"n_heads": 4, "groups": 1, "text_column": "review", "encoder": encoder}
    plain = HardmaxClassifier(**options, columns=()).fit(table, labels)
    classifier = HardmaxClassifier(**options, columns=["stars", "land"]).fit(
        table, labels
    )
    assert classifier.history_[0].accuracy > plain.history_[0].accuracy + 0.05
    classifier.save(tmp_path)
    again, logits = (
        HardmaxClassifier.load(tmp_path, encoder=encoder),
        classifier.decision_function(table),
    )
    again.text_column = "review"
    np.testing.assert_array_equal(again.decision_function(table), logits)
    np.testing.assert_array_equal(
        again.decision_function(table.iloc[::-1])[::-1], logits
    )
    assert "columns: stars, land" in (tmp_path / "README.md").read_text(
        encoding="utf-8"
    )
    for found, logit in zip(again.explain_many(table.head(8)), logits, strict=False):
        np.testing.assert_array_equal(found.logit, logit)
        for parts in (
            found.contributions,
            [part.value for part in found.by_word()],
            found.by_sentence(),
        ):
            values = [getattr(part, "value", part) for part in parts]
            np.testing.assert_allclose(
                found.bias + np.sum(values, axis=0), logit, atol=1e-9
            )
        assert [part.text.split(" = ")[0] for part in found.columns] == [
            "stars",
            "land",
        ]
        assert "land = " in str(found.to_html())
    missing = again.explain(table.iloc[[5]].assign(land="es"))
    assert not np.any([part.value for part in missing.columns])
    assert missing.columns[0].text == "stars = none"
    if not encoder:
        words = missing.leave_one_out()
        np.testing.assert_array_equal(words[-2:], missing.contributions[-2:])
    flip, other = found.minimal_flip(), found.counterfactual("a dull film")
    np.testing.assert_allclose(other.second.columns[0].value, found.columns[0].value)
    assert flip.flips == (flip.after != found.prediction)


def test_changed_types_of_columns_are_refused(table):
    options = {"text_column": "review", "columns": ["stars", "land"]}
    fitted = HardmaxClassifier(n_heads=2, groups=1, **options).fit(table, table["y"])
    expected = fitted.decision_function(table)
    written = fitted.decision_function(table.assign(stars=table["stars"].astype(str)))
    assert np.array_equal(written, expected)  # CSV has numbers as texts
    for name, values in (
        ("stars", "five"),
        ("stars", True),
        ("land", 1.5),
        ("land", 2),
    ):
        with pytest.raises(
            ParameterError, match=rf"^`columns` .*'{name}'.* in row 1\b"
        ):
            fitted.predict(table.assign(**{name: values}))
    with pytest.warns(UserWarning, match="No value of column 'land' is a category"):
        fitted.predict(table.assign(land="nowhere"))


def test_numbers_far_outside_of_the_range_of_training_warn(table, tmp_path):
    options = {"text_column": "review", "columns": ["stars"]}
    fitted = HardmaxClassifier(n_heads=2, groups=1, **options).fit(table, table["y"])
    fitted.save(tmp_path)
    stars = table["stars"].to_numpy(float)
    low, high = np.nanmin(stars), np.nanmax(stars)
    near = table.assign(stars=high + 0.9 * (high - low))
    for classifier in (fitted, HardmaxClassifier.load(tmp_path)):
        classifier.set_params(text_column="review").predict(near)
        for far in (1e9, -1e9):
            odd = table.assign(stars=[*table["stars"][:-1], far])
            with pytest.warns(
                UserWarning, match=rf"^Column 'stars' .* {low:g} to {high:g}, in 1 of"
            ):
                classifier.predict(odd)


def test_columns_are_checked(table):
    plain = HardmaxClassifier(n_heads=2, groups=1, text_column="review")
    with pytest.warns(UserWarning, match="To read stars, land, y, pass"):
        plain.fit(table, table["y"])
    one = clone(plain).set_params(columns=["stars"]).fit(table, table["y"])
    with pytest.raises(
        ParameterError, match=r"^`X` must be a DataFrame with the columns stars"
    ):
        one.explain("a film")
    for column, wrong in (
        ("stars", table.assign(stars="five")),
        ("star", table),
        ("review", table),
    ):
        with pytest.raises(ParameterError, match=r"^`columns`"):
            clone(plain).set_params(columns=[column, "stars"]).fit(
                table, table["y"]
            ).predict(wrong)
    with pytest.raises(ParameterError, match=r"^`columns`"):
        clone(plain).set_params(columns="stars").fit(table, table["y"])


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
    classifier = HardmaxClassifier(
        n_heads=2, groups=1, epochs=1, min_df=1, validation=0
    )
    with pytest.warns(
        UserWarning, match=r"^Left out 4 of 12 rows without text or label\.$"
    ):
        classifier.fit(texts, labels)
    kept = [i for i in range(12) if i % 3 < 2]
    plain = [labels.iloc[i] if hasattr(labels, "iloc") else labels[i] for i in kept]
    again = HardmaxClassifier(**classifier.get_params()).fit(
        [list(texts)[i] for i in kept], plain
    )
    assert np.array_equal(
        again.model_.weights.embedding, classifier.model_.weights.embedding
    )


def indexed(values, kind):
    """Return a column of pandas whose index does not number the rows from 0."""
    n = len(values)
    index = {
        "shuffled": np.random.default_rng(0).permutation(n) + 5,
        "strings": [f"row {i}" for i in range(n)],
        "duplicated": [7] * n,
    }
    return pd.Series(values, index=index[kind])


INDEXES = pytest.mark.parametrize("kind", ["shuffled", "strings", "duplicated"])


@INDEXES
@pytest.mark.parametrize("dtype", [None, "category", "string"])
def test_fit_reads_columns_of_pandas_by_position(kind, dtype):
    corpus = reviews(60, seed=1)
    n = len(corpus.texts)
    weights = np.linspace(0.5, 1.5, n)
    groups = [f"author {i // 2}" for i in range(n)]
    plain = HardmaxClassifier(start="linear").fit(
        corpus.texts, corpus.labels, weights, groups=groups
    )
    frame = pd.DataFrame({"text": indexed(corpus.texts, kind)})
    labels = indexed(corpus.labels, kind).astype(dtype or object)
    for texts in (indexed(corpus.texts, kind), frame):
        fitted = HardmaxClassifier(start="linear").fit(
            texts, labels, indexed(weights, kind), groups=indexed(groups, kind)
        )
        expected = plain.decision_function(corpus.texts)
        assert np.array_equal(fitted.decision_function(texts), expected)
        assert fitted.score(texts, labels, indexed(weights, kind)) == plain.score(
            corpus.texts, corpus.labels, weights
        )
        own = fitted.contributions(texts, labels)
        assert own.equals(plain.contributions(corpus.texts, corpus.labels))
        with pytest.warns(UserWarning, match="trained on these texts"):
            own = fitted.coverage(texts, labels)
        with pytest.warns(UserWarning, match="trained on these texts"):
            assert own.equals(plain.coverage(corpus.texts, corpus.labels))


@INDEXES
def test_several_labels_in_columns_of_pandas_are_read_by_position(kind):
    corpus = reviews(60, seed=1)
    sets = [[label, "other"][: 1 + i % 2] for i, label in enumerate(corpus.labels)]
    matrix = np.array([[i % 2, i // 2 % 2] for i in range(len(sets))])
    names = ["a", "b"]
    frame = pd.DataFrame(
        {name: indexed(matrix[:, i], kind) for i, name in enumerate(names)}
    )
    for plain, column in (
        (sets, indexed(sets, kind)),
        (pd.DataFrame(matrix, columns=names), frame),
    ):
        first = HardmaxClassifier().fit(corpus.texts, plain)
        fitted = HardmaxClassifier().fit(indexed(corpus.texts, kind), column)
        expected = first.decision_function(corpus.texts)
        assert np.array_equal(fitted.decision_function(corpus.texts), expected)
        assert fitted.score(corpus.texts, column) == first.score(corpus.texts, plain)


@INDEXES
def test_names_and_words_in_columns_of_pandas_are_read_by_position(kind, tmp_path):
    corpus = reviews(60, seed=1)
    table = pd.DataFrame(
        {"text": corpus.texts, "stars": range(60), "country": ["x"] * 60}
    )
    table.index = indexed(corpus.texts, kind).index
    lists = {"columns": ["stars", "country"], "stop_words": ["the", "a"]}
    plain = HardmaxClassifier(text_column="text", **lists).fit(table, corpus.labels)
    fitted = HardmaxClassifier(
        text_column="text",
        columns=table.columns[1:],
        stop_words=indexed(lists["stop_words"], kind),
    ).fit(table, indexed(corpus.labels, kind))
    expected = plain.decision_function(table)
    assert np.array_equal(fitted.decision_function(table), expected)
    fitted.save(tmp_path / "model")
    again = HardmaxClassifier.load(tmp_path / "model")
    assert again.columns == ["stars", "country"]
    assert np.array_equal(
        again.set_params(text_column="text").predict(table), plain.predict(table)
    )


def test_score_refuses_a_table_of_labels(fitted, fresh):
    table = pd.DataFrame({"label": fresh.labels})
    with pytest.raises(ParameterError, match="`y`"):
        fitted.score(fresh.texts, table)


def test_missing_texts_are_predicted_as_empty_ones(fitted):
    with pytest.warns(
        UserWarning, match=r"2 of 3 texts are missing; they count as empty texts\."
    ):
        found = fitted.predict_proba(pd.Series(["fine", None, np.nan], dtype=object))
    assert np.array_equal(found, fitted.predict_proba(["fine", "", ""]))


def test_memory_does_not_grow_with_the_number_of_texts(fitted, fresh, monkeypatch):
    monkeypatch.setattr(model, "MAX_CHARACTERS", 20_000)
    expected = fitted.decision_function(fresh.texts)
    few, _ = peak_of(lambda: fitted.decision_function(fresh.texts * 4))
    many, scores = peak_of(lambda: fitted.decision_function(fresh.texts * 16))
    assert many < 1.5 * few
    assert scores.tobytes() == np.tile(expected, 16).tobytes()
    assert [
        part for some in model.in_parts(["a" * 30_000, "b", "c"]) for part in some
    ] == ["a" * 30_000, "b", "c"]
    assert fitted.explain_many(fresh.texts)[-1].logit == expected[-1]


def test_too_long_ngrams_are_refused():
    texts = [" ".join([f"w{i}" for i in range(600)] * (k + 1)) for k in range(4)]
    with pytest.raises(ParameterError, match=r"^`ngram_range`"):
        HardmaxClassifier(ngram_range=(1, 8)).fit(texts, [0, 1, 0, 1])


def test_the_record_has_the_median_length():
    texts = ["good", "bad film", "a long and good film"]
    record = (
        HardmaxClassifier(n_heads=2, groups=1).fit(texts, ["a", "b", "a"]).training_
    )
    assert record.characters == 8.0 != np.mean([len(text) for text in texts])


def test_coverage_refuses_unknown_labels(corpus, fitted):
    texts, labels = corpus.texts[:20], corpus.labels[:20]
    right = fitted.coverage(texts, labels)
    spaced = fitted.coverage(texts, [f" {label} " for label in labels])
    assert spaced.equals(right)
    for wrong in (["Positive", *labels[1:]], [1] * 20, [pd.NA, *labels[1:]]):
        with pytest.raises(ParameterError, match=r"^`y`"):
            fitted.coverage(texts, wrong)


def test_spaces_around_labels_are_removed(corpus):
    labels = [
        f" {label} " if i % 3 else label for i, label in enumerate(corpus.labels[:90])
    ]
    classifier = HardmaxClassifier(n_heads=2, groups=1)
    with pytest.warns(
        UserWarning,
        match=r"^Removed the spaces around 60 of 90 labels: ' \w+ ' becomes '\w+'\.$",
    ):
        classifier.fit(corpus.texts[:90], labels)
    assert classifier.classes_.tolist() == ["negative", "positive"]
    plain = HardmaxClassifier(n_heads=2, groups=1).fit(
        corpus.texts[:90], corpus.labels[:90]
    )
    assert (
        classifier.predict(corpus.texts).tolist()
        == plain.predict(corpus.texts).tolist()
    )
    assert (
        classifier.score(corpus.texts[:90], labels)
        == plain.score(corpus.texts[:90], corpus.labels[:90])
        > 0.5
    )


def test_labels_that_differ_in_case_only_raise_a_warning(corpus):
    labels = [
        "Positive" if i < 10 and label == "positive" else label
        for i, label in enumerate(corpus.labels[:90])
    ]
    with pytest.warns(
        UserWarning, match=r"different classes: 'Positive' and 'positive'\."
    ):
        classifier = HardmaxClassifier(n_heads=2, groups=1).fit(
            corpus.texts[:90], labels
        )
    assert classifier.classes_.tolist() == ["Positive", "negative", "positive"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without a GPU")
@pytest.mark.parametrize(
    "options",
    [{"device": "cuda"}, {"device": "cuda:3"}, {"device": "cuda", "epochs": 1}],
)
def test_a_missing_gpu_is_refused(corpus, options):
    with pytest.raises(ParameterError, match=r"^`device`"):
        HardmaxClassifier(**options).fit(corpus.texts[:20], corpus.labels[:20])


CHINESE = [
    f"这部电影{'非常好看' if i % 2 else '实在太差'}。我看了{i}次。" for i in range(20)
]
THAI = [f"หนังเรื่องนี้{'สนุกมากจริงๆ' if i % 2 else 'น่าเบื่อมากจริงๆ'} {i}" for i in range(20)]


@pytest.mark.parametrize("texts", [CHINESE, THAI])
def test_scripts_without_spaces_between_words_raise_a_warning(texts):
    labels = ["a", "b"] * 10
    with pytest.warns(
        UserWarning, match=r"without spaces between words.*Pass a `tokenizer` in Python"
    ):
        HardmaxClassifier(n_heads=2, groups=1).fit(texts, labels)
    HardmaxClassifier(n_heads=2, groups=1, tokenizer=list).fit(
        texts, labels
    )  # without a warning
    split = [
        f"这 部 电影 {'非常 好看' if i % 2 else '实在 太 差'} {i}" for i in range(20)
    ]
    quoted = [
        f"A film called 卧虎藏龙, which was {'good' if i % 2 else 'bad'} {i} times."
        for i in range(20)
    ]
    for spaced in (split, quoted):
        HardmaxClassifier(n_heads=2, groups=1).fit(spaced, labels)
