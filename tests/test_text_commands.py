"""Predict, explain and evaluate from the command line."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

import hardmax as hm  # noqa: E402
from hardmax import HardmaxClassifier  # noqa: E402
from tests.text_home import (  # noqa: E402
    CORPUS,
    SMALL,
    TINY,
    find_model,  # noqa: F401
    make_home,  # noqa: F401
    standard_input,
    write_csv,
)

READ = {
    ".csv": pd.read_csv,
    ".jsonl": lambda path, **_: pd.read_json(path, lines=True, dtype=False),
    ".parquet": lambda path, **_: pd.read_parquet(path),
    ".xlsx": pd.read_excel,
}


@pytest.fixture
def classifier(model) -> HardmaxClassifier:
    return HardmaxClassifier.load(model)


def test_predictions_are_those_of_the_library(run, model, classifier) -> None:
    given = ["a wonderful film", "a dreadful [bold]\n\x1bfilm", ""]
    code, out, err = run("predict", *given, "--model", model)
    sure = classifier.predict_proba(given).max(axis=1)
    assert code == 0
    assert err.startswith(
        f"Model {model}. Classes: negative, positive. Trained on 400 texts."
    )
    assert err.endswith(
        "1 of 3 texts have no known word; the prediction is that of an empty text.\n"
    )
    assert out.splitlines()[:2] == [
        f"positive   {sure[0]:.3f}   a wonderful film",
        f"negative   {sure[1]:.3f}   a dreadful [bold] film",
    ]
    assert out.splitlines()[2].endswith(f"{sure[2]:.3f}   (no known word)")
    rows = [
        json.loads(line)
        for line in run("predict", *given, "--model", model, "--json")[1].splitlines()
    ]
    assert [(row["row"], row["probability"]) for row in rows] == list(
        enumerate(sure.tolist(), 1)
    )


def test_a_file_of_predictions_has_a_line_for_each_row(
    run, home, model, classifier, monkeypatch
) -> None:
    monkeypatch.setattr("hardmax.cli.predict.BATCH", 150)
    files = ("--out", "p.csv", "--out", "p.jsonl")
    code, out, _ = run(
        "predict", "--file", home / "reviews.csv", "--model", model, *files
    )
    assert (code, out) == (0, "Wrote p.csv\nWrote p.jsonl\n")
    rows = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert [list(map(str, row.values())) for row in rows] == pd.read_csv(
        "p.csv", dtype=str
    ).to_numpy().tolist()
    names = [
        "row",
        "prediction",
        "probability",
        "probability_negative",
        "probability_positive",
        "no_known_word",
    ]
    assert list(rows[0]) == [*names, "strongest_words"]
    assert (
        rows[0]["strongest_words"]
        == classifier.answers(CORPUS.texts[:1])["strongest_words"][0]
    )
    assert [row["prediction"] for row in rows] == classifier.predict(
        CORPUS.texts
    ).tolist()
    assert [
        [row[name] for name in names[3:5]] for row in rows
    ] == classifier.predict_proba(CORPUS.texts).tolist()


@pytest.mark.parametrize("ending", READ)
def test_predictions_stand_beside_the_columns_of_the_file(run, model, ending) -> None:
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    comments = ["=a superb film", "asdf qwer", "awful; \x07a film"]
    write_csv(
        "rows.csv",
        [(f"00{i}", text, i) for i, text in enumerate(comments)],
        ("id", "comment", "prediction"),
    )
    arguments = ("predict", "--file", "rows.csv", "--model", model, "--keep")
    assert run(*arguments, "--out", f"answers{ending}")[0] == 0
    found = READ[ending](f"answers{ending}", dtype={"id": str})
    assert found["id"].tolist() == ["000", "001", "002"]
    written = {
        ".xlsx": [text.replace("\x07", " ") for text in comments]
    }  # as text, which is no formula
    written |= {".csv": [f"'{comments[0]}", *comments[1:]]}
    assert found["comment"].tolist() == written.get(ending, comments)
    assert found["prediction"].astype(str).tolist() == [
        "0",
        "1",
        "2",
    ]  # the file's own; ours is beside it
    assert found["hardmax_prediction"].tolist()[::2] == ["positive", "negative"]
    assert found["hardmax_no_known_word"].tolist() == [False, True, False]
    assert [
        json.loads(line)["id"] for line in run(*arguments, "--json")[1].splitlines()
    ] == ["000", "001", "002"]


@pytest.mark.parametrize("ending", READ)
def test_columns_of_every_kind_are_kept(run, model, ending) -> None:
    rows = [
        {"text": "a superb film", "tags": ["a", "b"], "stars": 4.5, "id": "007"},
        {"text": "awful", "stars": 1},
    ]
    Path("typed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), "typed.parquet")
    Path("twice.csv").write_text("text,x,x\na superb film,007,1\nawful,2,3\n")
    for source in ("typed.jsonl", "typed.parquet", "twice.csv"):
        assert (
            run(
                "predict",
                "--file",
                source,
                "--model",
                model,
                "--keep",
                "--out",
                f"{source}{ending}",
            )[0]
            == 0
        )
    frame = READ[ending](f"twice.csv{ending}")
    assert frame.columns.tolist()[:3] == ["text", "x", "x_2"]
    assert frame["x_2"].tolist() == [1, 3]


def test_rows_without_text_keep_their_row_numbers(run, model, classifier) -> None:
    given = ["a superb film", None, "an awful film"]
    Path("rows.jsonl").write_text(
        "".join(json.dumps({"text": text, "id": 7}) + "\n" for text in given)
    )
    parquet.write_table(pyarrow.table({"text": given}), "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        code, out, err = run(
            "predict", "--file", name, "--text", "text", "--model", model, "--json"
        )
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [row["row"] for row in rows] == [1, 2, 3]
        assert [rows[0]["prediction"], rows[2]["prediction"]] == [
            "positive",
            "negative",
        ]
        assert rows[1]["probability"] == classifier.predict_proba([""]).max()
        assert err.startswith(
            "1 of 3 rows have no text; they count as empty texts.\n1 of 3 texts have no"
            " known word"
        )


def test_texts_come_from_standard_input(run, model, monkeypatch) -> None:
    standard_input(monkeypatch, "a superb film\nan awful film\n")
    _, out, _ = run("predict", "-", "--model", model)
    assert [line.split()[0] for line in out.splitlines()] == ["positive", "negative"]
    standard_input(monkeypatch, "a superb film,\nbut not superb\n")
    _, out, _ = run("explain", "-", "--model", model, "--json")
    assert json.loads(out)["text"] == "a superb film,\nbut not superb\n"
    standard_input(monkeypatch, "\n")
    assert (
        run("explain", "-", "--model", model)[::2]
        == run("explain", "", "--model", model)[::2]
    )
    code, _, err = run("explain", "", "--model", model)
    assert (code, err[:38]) == (2, "Error: `TEXT` must contain a word. Got")


def test_an_explanation_is_printed_as_it_is_computed(run, model, classifier) -> None:
    text = "The acting is superb but the story is not good."
    found = classifier.explain(text)
    code, out, _ = run("explain", text, "--model", model)
    assert code == 0
    start = (
        f"{found.prediction} with probability {found.probability:.1%} (logit of"
        f" positive {found.logit:+.4f}"
    )
    assert out.startswith(start)
    assert text in out.splitlines()  # which is coloured on a terminal
    part = found.by_word()[0]
    assert re.search(
        rf"^{part.named} +{re.escape(f'{part.value:+.4f}')} +█+", out, re.MULTILINE
    )
    leader = found.leading()[0]
    assert re.search(
        rf"^{found.as_written[leader.word]} +{leader.heads} +{leader.share:.1%} +\d",
        out,
        re.MULTILINE,
    )
    assert "Sentences" not in out  # there is one
    assert re.search(
        r"^Dull! +[+-]\d\.\d{4}",
        run("explain", f"{text} Dull!", "--model", model)[1],
        re.MULTILINE,
    )


def test_the_printed_contributions_add_up_to_the_printed_logit(run, model) -> None:
    out = run("explain", "an awful film", "--model", model)[1]
    logit, bias = (
        float(number)
        for number in re.search(r"positive (\S+), bias (\S+);", out).groups()
    )
    parts = [
        float(number)
        for number in re.findall(r"^\w+ +([+-]\d\.\d{4})", out, re.MULTILINE)
    ]
    assert logit < 0  # of the class positive, whatever the prediction
    assert sum(parts) + bias == pytest.approx(logit, abs=1e-3)


def test_a_text_without_known_words_is_explained_by_the_bias(run, model) -> None:
    text = "zyxw qqqq"
    code, out, _ = run("explain", text, "--model", model)
    assert code == 0
    assert "no known word, so the bias alone decides" in out
    assert "Leaders" not in out
    result = json.loads(run("explain", text, "--model", model, "--json")[1])
    assert result["logit"] == result["bias"]
    assert result["words"] == []
    code, _, err = run("explain", text, "--model", model, "--out", "x.gif")
    assert code == 2
    assert "Got a text without a known word." in err


def test_explanations_are_written_by_their_ending(run, model) -> None:
    heads = {"png": b"\x89PNG", "json": b"{", "html": b"<!doc", "gif": b"GIF8"}
    wanted = [part for ending in heads for part in ("--out", f"e.{ending}")]
    code, out, _ = run("explain", "a superb film", "--model", model, *wanted)
    assert code == 0
    for ending, head in heads.items():
        assert Path(f"e.{ending}").read_bytes().startswith(head)
        assert f"Wrote e.{ending}" in out
    assert json.loads(Path("e.json").read_text())["text"] == "a superb film"


def test_a_stream_has_a_prediction_for_each_line_at_once(model, classifier) -> None:
    command = [
        sys.executable,
        "-m",
        "hardmax.cli.main",
        "predict",
        "--stream",
        "--explain",
        "--model",
        str(model),
    ]
    lines = [
        "a superb film",
        json.dumps({"text": "an awful\nfilm", "id": 7}),
        '{"id": 7}',
        '"café"',
    ]
    lines += ['{"text": "cut of', '"a superb film', ""]
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "encoding": "utf-8",
    }
    with subprocess.Popen(command, **pipes) as process:
        found = []
        for line in lines:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            found.append(
                json.loads(process.stdout.readline())
            )  # before the next line is written
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert [each["row"] for each in found] == [1, 2, 3, 4, 5, 6, 7]
    assert found[0]["prediction"] == "positive"
    assert (
        found[1]["probability_positive"]
        == classifier.predict_proba(["an awful\nfilm"])[0, 1]
    )
    why = classifier.explain("a superb film")
    assert found[0]["words"][0] == [why.by_word()[0].text, why.by_word()[0].value]
    for broken in (found[2], *found[4:6]):
        assert set(broken) == {"row", "error"}
        assert "`line` must be" in broken["error"]
    assert found[3]["no_known_word"]
    assert found[6]["no_known_word"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["predict"], "Either TEXT or --file must be given. Got neither."),
        (
            ["predict", "a text", "--file", "rows.csv"],
            "Either TEXT or --file must be given. Got both.",
        ),
        (["predict", "a text", "--text", "review"], "`--text` must"),
        (["predict", "a text", "--out", "p.doc"], "`--out` must end in"),
        (["predict", "a text", "--json", "--keep"], "`--keep` must"),
        (["predict", "--file", "rows.csv", "--keep"], "`--keep` must"),
        (
            ["predict", "--file", "rows.csv", "--out", "rows.csv"],
            "`--out` must differ from the input file",
        ),
        (["predict", "a text", "--explain"], "`--explain` must"),
        (["predict", "a text", "--stream"], "`--stream` must"),
        (["predict", "--stream", "--out", "x.csv"], "`--stream` must"),
        (["predict", "a text", "--at-least", "1.5"], "--at-least"),
        (
            ["predict", "rows.csv"],
            (
                "`TEXT` must be texts. Got 'rows.csv', the name of a file. Pass it as"
                " --file"
            ),
        ),
        (["predict", "nowhere.xlsx"], "`TEXT` must be texts."),
        (["explain", "a text", "--out", "e.npz"], "`--out` must end in"),
        (["evaluate", "rows.csv", "--tokens", "t.html"], "`--tokens` must end in"),
        (["evaluate", "rows.csv", "--mistakes", "m.csv"], "`--mistakes` must end in"),
        (
            ["evaluate", "rows.csv"],
            (
                "must be those of the model: negative, positive. Got 'great', 'poor' in"
                " 2 of 3 rows."
            ),
        ),
    ],
)
def test_invalid_input_names_the_option(run, model, arguments, named) -> None:
    write_csv("rows.csv", [("good", "positive"), ("bad", "great"), ("bad", "poor")])
    code, out, err = run(*arguments, "--model", model)
    assert (code, out) == (2, "")
    assert named in " ".join(err.split())
    assert (
        run("predict", "I like node.txt", "--model", model)[0] == 0
    )  # a text, not the name of a file


def test_improbable_predictions_are_not_sure(run, home, model, classifier) -> None:
    texts = ["a superb film", "a film", "zyxw"]
    sure = classifier.predict_proba(texts).max(axis=1)
    level = float(np.sort(sure)[1] + np.sort(sure)[2]) / 2
    assert classifier.predict_sure(texts, level).tolist() == [
        label if share >= level else None
        for label, share in zip(classifier.predict(texts), sure, strict=True)
    ]
    _, out, _ = run("predict", "--model", model, "--at-least", level, "--json", *texts)
    assert [
        json.loads(line)["prediction"] == "not sure" for line in out.splitlines()
    ] == (sure < level).tolist()
    with pytest.warns(UserWarning, match="trained on these texts"):
        table = classifier.coverage(CORPUS.texts, CORPUS.labels)
    right = classifier.predict(CORPUS.texts) == np.array(CORPUS.labels)
    kept = classifier.predict_proba(CORPUS.texts).max(axis=1) >= 0.9
    row = table[table["at_least"] == 0.9].iloc[0]
    assert (row["coverage"], row["accuracy"]) == (kept.mean(), right[kept].mean())
    out = run("evaluate", home / "reviews.csv", "--model", model)[1]
    assert re.search(
        rf"^0.9 +{kept.mean():.1%} +{right[kept].mean():.4f}", out, re.MULTILINE
    )
    with pytest.raises(hm.ParameterError, match="`at_least`"):
        classifier.predict_sure(texts, 2)


@pytest.mark.parametrize("labels", [(0, 1), (1.0, 2.0), (False, True)])
def test_labels_that_are_not_texts_are_written_beside_not_sure(run, labels) -> None:
    truth = [labels[label == "positive"] for label in CORPUS.labels]
    HardmaxClassifier(n_heads=2, groups=1).fit(CORPUS.texts, truth).save("numbers")
    Path("rows.txt").write_text("a superb film\nzyxw\nan awful film\n")
    for ending in (".parquet", ".csv", ".jsonl"):
        arguments = (
            "predict",
            "--file",
            "rows.txt",
            "--model",
            "numbers",
            "--out",
            f"answers{ending}",
        )
        assert run(*arguments, "--at-least", "0.6")[0] == 0
        found = READ[ending](f"answers{ending}")
        assert found["prediction"].tolist() == [
            str(labels[1]),
            "not sure",
            str(labels[0]),
        ]
        assert run(*arguments)[0] == 0  # without --at-least they keep their type
        assert READ[ending](f"answers{ending}")["prediction"].tolist()[::2] == [
            labels[1],
            labels[0],
        ]


def test_the_card_of_a_model(run, model, classifier) -> None:
    code, out, _ = run("predict", "--card", "--model", model)
    assert code == 0
    assert "Classes: negative, positive." in out
    assert re.search(
        r"- 400 texts, median length \d+ characters \(negative: 200, positive: 200\)",
        out,
    )
    assert re.search(r"Accuracy 0\.\d{4}, loss \d\.\d{4}, on held-out texts", out)
    assert Path(model, "README.md").read_text() == out
    found = json.loads(run("predict", "--card", "--model", model, "--json")[1])
    assert found["training"] == dataclasses.asdict(classifier.training_)
    again = hm.text.card.Record.of(CORPUS.texts, CORPUS.labels)
    assert found["training"]["sha256"] == again.sha256
    assert (
        again.sha256
        != hm.text.card.Record.of(CORPUS.texts[::-1], CORPUS.labels[::-1]).sha256
    )
    path = Path(model, "model.json")
    about = json.loads(path.read_text())
    for bad in (7, None, {"texts": 3}, about["training"] | {"classes": {"x": "many"}}):
        shutil.copytree(model, "other", dirs_exist_ok=True)
        Path("other", "model.json").write_text(json.dumps(about | {"training": bad}))
        code, _, err = run("predict", "--card", "--model", "other")
        assert (code, "`training`" in err) == (2, True)


def test_tokens_and_mistakes_are_written(run, model, classifier) -> None:
    texts = [*CORPUS.texts[:40], "a superb <script>alert(1)</script> film"]
    labels = [*CORPUS.labels[:40], "negative"]
    write_csv("some.csv", list(zip(texts, labels, strict=True)))
    code, out, _ = run(
        "evaluate",
        "some.csv",
        "--model",
        model,
        "--tokens",
        "t.csv",
        "--mistakes",
        "m.html",
    )
    assert code == 0
    assert "Wrote t.csv\nWrote m.html" in out
    expected = classifier.contributions(texts, labels)
    found = pd.read_csv("t.csv", keep_default_na=False)
    assert (
        found["token"].str.removeprefix("'").tolist()
        == expected["token"].str.removeprefix("'").tolist()
    )
    assert found["sum_wrong"].tolist() == expected["sum_wrong"].tolist()
    page = Path("m.html").read_text()
    assert "Text 41: label negative, predicted positive" in page
    assert "<script>alert" not in page


def test_evaluation_on_the_training_texts_warns(run, home, model, tmp_path) -> None:
    warning = "The model was trained on these texts"
    assert warning in run("evaluate", home / "reviews.csv", "--model", model)[2]
    rows = list(zip(CORPUS.texts, CORPUS.labels, strict=True))
    write_csv(tmp_path / "other.csv", [*rows[1:], ("another text", "positive")])
    assert warning not in run("evaluate", tmp_path / "other.csv", "--model", model)[2]


def test_evaluation_of_several_labels_on_the_training_texts_warns(
    run, tmp_path
) -> None:
    file, model = tmp_path / "tags.csv", tmp_path / "model"
    tags = ["loud;cheap", "cheap", "loud", ""]
    write_csv(
        file,
        [
            (f"{tag.replace(';', ' ')} thing {i}", tag or "none")
            for i, tag in enumerate(tags * 8)
        ],
        ("text", "tags"),
    )
    cells = ("--label", "tags", "--separator", ";")
    assert (
        run("train", file, "--out", model, *cells, "--n-heads", "2", "--groups", "1")[0]
        == 0
    )
    code, _, err = run("evaluate", file, "--model", model, *cells)
    assert code == 0
    assert "The model was trained on these texts" in err


def test_evaluation_counts(run, home, model, classifier, monkeypatch) -> None:
    code, out, _ = run("evaluate", home / "reviews.csv", "--model", model)
    found = classifier.predict(CORPUS.texts)
    right = [(found[i] == label, label) for i, label in enumerate(CORPUS.labels)]
    assert code == 0
    assert f"Accuracy {np.mean([ok for ok, _ in right]):.4f} on 400 texts" in out
    true = sum(ok for ok, label in right if label == "positive")
    false = sum(found == "positive") - true
    f1 = 2 * true / (200 + true + false)
    assert re.search(
        rf"positive +200 +{true / (true + false):.4f} +{true / 200:.4f} +{f1:.4f}", out
    )
    assert re.search(rf"positive +{200 - true} +{true} *$", out, re.MULTILINE)
    assert re.search(
        r"Leaders per text and head: mean \d\.\d \(.* \d\.\d\), range \d to \d+\. \d+%"
        r" lead",
        out,
    )
    monkeypatch.setattr("hardmax.cli.evaluate.MAX_LEADER_TEXTS", 150)
    files = ("--out", "e.json", "--out", "e.csv")
    result = json.loads(
        run("evaluate", home / "reviews.csv", "--model", model, "--json", *files)[1]
    )
    probabilities = classifier.predict_proba(CORPUS.texts)
    truth = np.searchsorted(["negative", "positive"], CORPUS.labels)
    assert result["loss"] == pytest.approx(
        -np.log(probabilities[np.arange(400), truth]).mean()
    )
    assert np.sum(result["confusion"]) == 400
    assert result["confusion"][1] == [200 - true, true]
    assert result["f1"][1] == pytest.approx(f1)
    assert result["macro_f1"] == pytest.approx(np.mean(result["f1"]))
    assert (
        result["leaders"]
        == {"texts": 134} | classifier.leaders(CORPUS.texts[::3]).summary()
    )
    assert json.loads(Path("e.json").read_text()) == result
    table = pd.read_csv("e.csv")
    assert table.columns.tolist()[:5] == ["label", "texts", "precision", "recall", "f1"]
    assert (
        table[["taken_for_negative", "taken_for_positive"]].to_numpy().tolist()
        == result["confusion"]
    )


def test_an_evaluation_of_unknown_words_is_still_json(run, model) -> None:
    write_csv("odd.csv", [("zyxw", "positive")])
    result = json.loads(
        run("evaluate", "odd.csv", "--model", model, "--json")[1],
        parse_constant=pytest.fail,
    )
    assert result["leaders"] is None
    assert None in result["recall"]
    assert run("evaluate", "odd.csv", "--model", model)[0] == 0


def test_more_than_two_classes(run) -> None:
    labels = [
        "mixed" if i % 3 == 0 else label for i, label in enumerate(CORPUS.labels[:90])
    ]
    write_csv("three.csv", zip(CORPUS.texts, labels, strict=False))
    assert run("train", "three.csv", "--out", "m", *TINY)[0] == 0
    result = json.loads(run("evaluate", "three.csv", "--model", "m", "--json")[1])
    assert np.shape(result["confusion"]) == (3, 3)
    assert re.search(
        r"label +mixed +negative +positive",
        run("evaluate", "three.csv", "--model", "m")[1],
    )


def test_the_folder_of_an_unfinished_run_is_no_model(run, home, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HardmaxClassifier, "save", lambda *_, **__: sys.exit(3))
        run("train", home / "reviews.csv", "--out", "m", *TINY)
    code, _, err = run("predict", "a text", "--model", "m")
    assert code == 2
    assert "Got 'm', the folder of an unfinished run." in err


def test_several_classes_are_compared_with_the_next_best(run) -> None:
    texts = [
        f"{word} thing{i % 7}"
        for i in range(60)
        for word in ("parcel", "price", "shoe")
    ]
    write_csv("three.csv", [(text, text.split()[0]) for text in texts])
    run("train", "three.csv", "--out", "m", *SMALL, "--epochs", "8")
    found = HardmaxClassifier.load("m").explain("parcel price price thing1")
    first, second = np.sort(found.logits)[::-1][:2]
    assert float(found.signed(found.bias)) + found.towards.sum() == pytest.approx(
        first - second
    )
    other = {"parcel": "price", "price": "parcel"}[str(found.prediction)]
    assert str(found.second) == other
    assert (
        found.towards[found.words.tolist().index(other)] < 0
    )  # it speaks for the other class
    out = run("explain", "parcel price price thing1", "--model", "m")[1]
    assert f"{found.prediction} rather than {other} with probability" in out
    assert f"+ {found.prediction}, - {other}" in out
