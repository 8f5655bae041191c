"""The study of explanations: its measures by hand, exact methods, and every other
explainer.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import explainers
from studies.__main__ import main
from studies.explainers import EXPLAINERS, Question
from studies.faithfulness import (
    Comparison,
    Rationale,
    agreement,
    compare,
    erasure,
    marked_words,
    read_rationales,
)

from hardmax._errors import InputError, ParameterError
from hardmax._types import FloatArray
from hardmax.text.classifier import HardmaxClassifier
from hardmax.text.datasets import Corpus, reviews
from tests.test_explanations import build_classifier

EXACT = ("hardmax", "integrated-gradients", "gradient-times-input")
QUICK = [*EXACT, "leave-one-out", "random"]
CORPUS = reviews(1020, seed=3, contrast=0)
SEEN, NEW = 1000, 20  # texts to train on, and texts to explain


@pytest.fixture(scope="module")
def trained() -> HardmaxClassifier:
    classifier = HardmaxClassifier(n_heads=4, ngram_range=(1, 2), epochs=20)
    return classifier.fit(CORPUS.texts[:SEEN], CORPUS.labels[:SEEN])


@pytest.fixture(scope="module")
def quick(trained: HardmaxClassifier) -> Comparison:
    return compare(
        trained,
        CORPUS.texts[SEEN : SEEN + NEW],
        methods=QUICK,
        rationales=planted(CORPUS, NEW),
    )


def planted(corpus: Corpus, count: int) -> list[Rationale]:
    """Return the planted words as rationales."""
    found = []
    for i in range(SEEN, SEEN + count):
        tokens = [token.strip(".,").lower() for token in corpus.texts[i].split()]
        words = {word for phrase in corpus.planted[i] for word in phrase.split()}
        spans = tuple((k, k + 1) for k, token in enumerate(tokens) if token in words)
        found.append(
            Rationale(corpus.texts[i], int(corpus.labels[i] == "positive"), spans)
        )
    return found


def plain() -> HardmaxClassifier:
    """Return a classifier whose logit is the mean over known words of 4 for good, -2
    for bad, 0 for film.
    """
    return build_classifier(
        {"good": [4.0], "bad": [-2.0], "film": [0.0]}, decoder=[[1.0]]
    )


def sigmoid(x: float) -> float:
    return 1 / (1 + float(np.exp(-x)))


def test_the_measures_are_those_of_eraser() -> None:
    question = Question.of_prediction(plain(), "Good film bad ok")
    assert question.place == 1  # the logit is (4 + 0 - 2) / 3
    scores = EXPLAINERS["hardmax"](question, 0)
    np.testing.assert_allclose(scores, [4 / 3, 0, -2 / 3, 0], atol=1e-12)
    full = sigmoid(2 / 3)
    # of four words 1, 5, 10 and 20 % are one word, 50 % are two: good and, as the
    # earlier of two that tie, film
    without, alone = [sigmoid(-1)] * 4 + [sigmoid(-2)], [sigmoid(4)] * 4 + [sigmoid(2)]
    np.testing.assert_allclose(
        erasure(question, scores), (full - np.mean(without), full - np.mean(alone))
    )


def test_leaving_one_out_and_the_other_class_by_hand() -> None:
    question = Question(plain(), "good film bad ok", 1)
    expected = np.array([2 / 3 + 1, 2 / 3 - 1, 2 / 3 - 2, 0])
    np.testing.assert_allclose(
        EXPLAINERS["leave-one-out"](question, 0), expected, atol=1e-12
    )
    other = Question(plain(), "good film bad ok", 0)
    np.testing.assert_allclose(
        EXPLAINERS["leave-one-out"](other, 0), -expected, atol=1e-12
    )
    np.testing.assert_allclose(
        EXPLAINERS["hardmax"](other, 0), [-4 / 3, 0, 2 / 3, 0], atol=1e-12
    )


def test_an_erased_word_makes_no_new_pair() -> None:
    classifier = build_classifier(
        {"good": [3.0], "film": [0.0], "bad": [-1.0], "good bad": [90.0]},
        decoder=[[1.0]],
    )
    question = Question.of_prediction(classifier, "good film bad good")
    kept = np.array(
        [
            [True, True, True, True],
            [True, False, True, True],
            [False, True, True, False],
            [False] * 4,
        ]
    )
    np.testing.assert_allclose(
        question.log_odds(kept), [2 / 3, 1, -1 / 2, 0]
    )  # a word that comes twice counts once
    assert classifier.decision_function(["good bad"])[0] > 30


@pytest.mark.parametrize("distinct", [True, False])
def test_three_classes_and_an_A_of_their_own(distinct: bool) -> None:
    random = np.random.default_rng(5)
    words = {f"w{i}": random.normal(size=2).tolist() for i in range(12)}
    parts: dict[str, Any] = {
        "alpha": [0.7],
        "A": np.array([[[2.0, 0.5], [0.5, 1.0]]]),
        "distinct": distinct,
    }
    classifier = build_classifier(
        words, decoder=random.normal(size=(3, 2)), layers=3, **parts
    )
    text = " ".join(f"w{i}" for i in random.integers(0, 12, 30))
    rows = compare(classifier, [text], methods=EXACT).rows
    assert max(row["exact"] for row in rows) < 1e-12
    question = Question.of_prediction(classifier, text)
    ours, *others = (EXPLAINERS[name](question, 0) for name in EXACT)
    for other in others:
        np.testing.assert_allclose(other, ours, atol=1e-12)
    every = np.ones((1, 30), bool)
    p = question.probabilities(every)
    np.testing.assert_allclose(question.log_odds(every), np.log(p / (1 - p)))


def test_exact_methods_are_exact_and_the_same_again(quick: Comparison) -> None:
    assert [row["method"] for row in quick.rows] == QUICK
    assert quick.texts == NEW
    for row in quick.rows:
        if row["method"] in EXACT:
            assert row["exact"] < 1e-9
            assert row["same_again"] == 1
        else:
            assert row["exact"] is None
    assert quick.rows[-1]["same_again"] < 0.5
    assert (
        json.loads(json.dumps(quick._asdict(), allow_nan=False))["rows"] == quick.rows
    )
    assert quick.rows[0]["speed"] is None  # LIME did not run


def test_our_explanations_find_the_planted_words(quick: Comparison) -> None:
    rows = {row["method"]: row for row in quick.rows}
    ours, chance = rows["hardmax"], rows["random"]
    assert ours["comprehensiveness"] > chance["comprehensiveness"] + 0.1
    assert ours["comprehensiveness"] > 0.8 * rows["leave-one-out"]["comprehensiveness"]
    assert ours["sufficiency"] < chance["sufficiency"] - 0.05
    people = {row["method"]: row for row in quick.agreement}
    assert people["hardmax"]["auprc"] > 0.5 > 0.4 > people["random"]["auprc"]
    assert people["hardmax"]["f1"] > people["random"]["f1"] + 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lime", "shap-partition", "shap-permutation"])
def test_other_explainers_find_the_words_that_decide_and_keep_their_seed(
    name: str,
) -> None:
    question = Question.of_prediction(plain(), "film ok bad film good", samples=100)
    scores: FloatArray = EXPLAINERS[name](question, 7)
    assert (scores.argmax(), scores.argmin()) == (4, 2)
    np.testing.assert_array_equal(EXPLAINERS[name](question, 7), scores)
    assert EXPLAINERS[name](
        Question.of_prediction(plain(), "good", samples=50), 0
    ).shape == (1,)


def test_rationales_come_from_a_file_with_a_known_answer(tmp_path: Path) -> None:
    arrow, parquet = (
        pytest.importorskip("pyarrow"),
        pytest.importorskip("pyarrow.parquet"),
    )
    path = tmp_path / "rationales.parquet"
    rows = [
        {"id": "1", "text": "ok - film\nis , good !", "label": 1, "spans": [[5, 7]]},
        {"id": "2", "text": "good and bad", "label": 0, "spans": [[0, 1]]},
        {"id": "3", "text": "nothing is marked", "label": 0, "spans": []},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    first, second, third = read_rationales(path)
    assert first == Rationale("ok - film\nis , good !", 1, ((5, 7),))
    words = Question(plain(), first.text, 1).words
    assert marked_words(plain(), first).tolist() == [
        word in ("good", "!") for word in words
    ]
    assert not marked_words(plain(), third).any()
    # towards 0 bad leads, then and, then good, whose one mark is found with a precision
    # of 1/3, and never at first
    (row,) = agreement(plain(), [second, third], methods=["hardmax"])
    assert row["f1"] == 0
    assert row["auprc"] == pytest.approx((1 / 3 + 0) / 2)
    (row,) = agreement(
        plain(), [Rationale("ok film good", 1, ((2, 3),))], methods=["hardmax"]
    )
    assert (row["f1"], row["auprc"]) == (1, 1)
    parquet.write_table(arrow.table({"text": ["a"], "label": [1]}), path)
    with pytest.raises(InputError, match="Add spans"):
        read_rationales(path)


def test_a_missing_package_is_named_unless_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explainers, "find_spec", lambda name: None)
    for name in ("lime", "shap"):
        method = [each for each in EXPLAINERS if each.startswith(name)][:1]
        with pytest.raises(
            ImportError, match=rf"needs {name}: pip install .*\[bench\]"
        ):
            compare(plain(), ["good"], methods=method)
    assert len(compare(plain(), ["good"], methods=["hardmax"]).rows) == 1


def test_what_cannot_be_compared_is_refused() -> None:
    assert compare(plain(), ["", "good"], methods=["hardmax"], again=0).texts == 1
    for texts, methods in ((["good"], ["magic"]), (["", "<br />"], ["hardmax"])):
        with pytest.raises(InputError, match="must"):
            compare(plain(), texts, methods=methods)
    for rationale in (
        Rationale("good", 1, ()),
        Rationale("good", 2, ((0, 1),)),
    ):  # no word, no such class
        with pytest.raises(InputError, match="must"):
            agreement(plain(), [rationale], methods=["hardmax"])


def test_the_studies_write_their_rows_and_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i, (text, label) in enumerate(
        zip(CORPUS.texts[:120], CORPUS.labels[:120], strict=True)
    ):
        file = (
            tmp_path
            / "copy"
            / ("train" if i < 60 else "test")
            / label[:3]
            / f"{i}_7.txt"
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    data = ("--data-source", "copy")
    options = (*data, "--device", "cpu", "--out", "rows.json")
    main(
        [
            "ablations",
            *options,
            "--only",
            "1 head",
            "--only",
            "no attention: bag of words",
        ]
    )
    main(["paper", *options, "--only", "2 alpha 1"])
    main(["ablations", *options, "--only", "1 head"])  # replaces the first row
    rows = json.loads(Path("rows.json").read_text())
    assert [row.get("variant") for row in rows] == [
        "no attention: bag of words",
        None,
        "1 head",
    ]
    assert "leaders" not in rows[0]
    assert rows[1]["d"] == 2
    assert len(rows[1]["epochs"]) == 8
    assert all(epoch["softmax_loss"] > 0 for epoch in rows[1]["epochs"])
    assert rows[2]["leaders"]["average"] >= 1
    with pytest.raises(ParameterError, match="only"):
        main(["ablations", *options, "--only", "2 heads"])
    main(
        [
            "explanations",
            *data,
            "--count",
            "2",
            "--method",
            "hardmax",
            "--method",
            "random",
            "--out",
            "found.json",
        ]
    )
    assert [
        row["method"] for row in json.loads(Path("found.json").read_text())["rows"]
    ] == ["hardmax", "random"]
