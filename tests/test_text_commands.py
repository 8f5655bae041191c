"""Predict, explain and evaluate from the command line."""

import csv
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
from hardmax.cli import texts as shared  # noqa: E402
from tests.text_home import CORPUS, SMALL, TINY, find_model, make_home, standard_input, write_csv  # noqa: E402, F401


def test_predictions_are_those_of_the_library(run, model) -> None:
    given = ["a wonderful film", "a dreadful [bold]\n\x1bfilm", ""]
    code, out, err = run("predict", *given, "--model", model)
    sure = HardmaxClassifier.load(model).predict_proba(given).max(axis=1)
    assert code == 0
    assert err.startswith(f"Model {model}. Classes: negative, positive. Trained on 400 texts.")
    assert err.endswith("1 of 3 texts have no known word; the prediction is that of an empty text.\n")
    assert out.splitlines()[:2] == [
        f"positive   {sure[0]:.3f}   a wonderful film",
        f"negative   {sure[1]:.3f}   a dreadful [bold] film",
    ]
    assert out.splitlines()[2].endswith(f"{sure[2]:.3f}   (no known word)")
    _, out, _ = run("predict", *given, "--model", model, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["row"] for row in rows] == [1, 2, 3]
    assert [row["probability"] for row in rows] == sure.tolist()


def test_a_file_of_predictions_has_a_line_for_each_row(run, home, model, monkeypatch) -> None:
    monkeypatch.setattr(shared, "BATCH", 150)
    code, out, _ = run(
        "predict", "--file", home / "reviews.csv", "--model", model, "--out", "p.csv", "--out", "p.jsonl"
    )
    assert (code, out) == (0, "Wrote p.csv\nWrote p.jsonl\n")
    with Path("p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == HardmaxClassifier.load(model).predict(CORPUS.texts).tolist()
    again = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert [[str(value) for value in row.values()] for row in again] == [list(row.values()) for row in rows]
    names = ["row", "prediction", "probability", "probability_negative", "probability_positive", "no_known_word"]
    assert list(rows[0]) == names
    chances = HardmaxClassifier.load(model).predict_proba(CORPUS.texts)
    assert [[row["probability_negative"], row["probability_positive"]] for row in again] == chances.tolist()


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".xlsx"])
def test_answers_stand_beside_the_columns_of_the_file(run, model, ending) -> None:
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    comments = ["=a superb film", "asdf qwer", "awful; \x07a film"]
    write_csv("rows.csv", [(f"00{i}", text, i) for i, text in enumerate(comments)], ("id", "comment", "prediction"))
    file = f"answers{ending}"
    arguments = ("predict", "--file", "rows.csv", "--model", model, "--keep")
    code, _, err = run(*arguments, "--out", file)
    assert code == 0
    assert err == "1 of 3 texts have no known word; the prediction is that of an empty text.\n"
    read = {".csv": pd.read_csv, ".jsonl": lambda f, **_: pd.read_json(f, lines=True, dtype=False)}
    read |= {".parquet": lambda f, **_: pd.read_parquet(f), ".xlsx": pd.read_excel}
    found = read[ending](file, dtype={"id": str})
    assert found["id"].tolist() == ["000", "001", "002"]
    written = {".xlsx": [text.replace("\x07", " ") for text in comments]}  # as text, which is no formula
    written |= {".csv": [f"'{comments[0]}", *comments[1:]]}
    assert found["comment"].tolist() == written.get(ending, comments)
    assert found["prediction"].astype(str).tolist() == ["0", "1", "2"]  # the file's own; ours is beside it
    assert found["hardmax_prediction"].tolist()[::2] == ["positive", "negative"]
    assert found["hardmax_no_known_word"].tolist() == [False, True, False]
    assert [json.loads(line)["id"] for line in run(*arguments, "--json")[1].splitlines()] == ["000", "001", "002"]


@pytest.mark.parametrize(
    ("arguments", "got"), [(["--file", "rows.csv"], "neither"), (["a text", "--json"], "no table")]
)
def test_keeping_needs_columns_and_a_place_for_them(run, model, arguments, got) -> None:
    write_csv("rows.csv", [("a film", "x")])
    code, _, err = run("predict", *arguments, "--model", model, "--keep")
    assert code == 2
    assert f"`--keep` must be used with a table in --file, and with --out or --json. Got {got}" in err


def test_rows_without_text_keep_their_place(run, model) -> None:
    given = ["a superb film", None, "an awful film"]
    Path("rows.jsonl").write_text("".join(json.dumps({"text": text, "id": 7}) + "\n" for text in given))
    parquet.write_table(pyarrow.table({"text": given}), "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        code, out, err = run("predict", "--file", name, "--text", "text", "--model", model, "--json")
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [row["row"] for row in rows] == [1, 2, 3]
        assert [rows[0]["prediction"], rows[2]["prediction"]] == ["positive", "negative"]
        assert rows[1]["probability"] == HardmaxClassifier.load(model).predict_proba([""]).max()
        assert err.startswith("1 of 3 rows have no text; they count as empty texts.\n1 of 3 texts have no known word")


def test_texts_come_from_standard_input(run, model, monkeypatch) -> None:
    standard_input(monkeypatch, "a superb film\nan awful film\n")
    _, out, _ = run("predict", "-", "--model", model)
    assert [line.split()[0] for line in out.splitlines()] == ["positive", "negative"]
    standard_input(monkeypatch, "a superb film,\nbut not superb\n")
    _, out, _ = run("explain", "-", "--model", model, "--json")
    assert json.loads(out)["text"] == "a superb film,\nbut not superb\n"
    standard_input(monkeypatch, "")
    assert "no known word, so the bias alone decides" in run("explain", "-", "--model", model)[1]


def test_an_explanation_is_printed_as_it_is_computed(run, model) -> None:
    text = "The acting is superb but the story is not good."
    found = HardmaxClassifier.load(model).explain(text)
    code, out, _ = run("explain", text, "--model", model)
    assert code == 0
    logit = float(found.signed(found.logit))
    assert out.startswith(f"{found.prediction} with probability {found.probability:.1%} (logit {logit:.4f}")
    assert text in out.splitlines()  # which is coloured on a terminal
    part = found.by_word()[0]
    assert re.search(rf"^{part.named} +{re.escape(f'{float(found.signed(part.value)):+.4f}')} +█+", out, re.MULTILINE)
    leader = found.leading()[0]
    assert re.search(rf"^{found.as_written[leader.word]} +{leader.heads} +{leader.share:.1%} +\d", out, re.MULTILINE)
    assert "Sentences" not in out  # there is one
    out = run("explain", f"{text} Dull!", "--model", model)[1]
    assert re.search(r"^Dull! +[+-]\d\.\d{4}", out, re.MULTILINE)


@pytest.mark.parametrize("text", ["", "   ", "zyxw qqqq", "<br />"])
def test_a_text_without_known_words_is_answered(run, model, text: str) -> None:
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
    names = ("e.png", "e.svg", "e.pdf", "e.json", "e.html", "e.gif")
    wanted = [part for name in names for part in ("--out", name)]
    code, out, _ = run("explain", "a superb film", "--model", model, *wanted)
    assert code == 0
    heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "json": b"{", "html": b"<!doc", "gif": b"GIF8"}
    for ending, head in heads.items():
        assert Path(f"e.{ending}").read_bytes().startswith(head)
        assert f"Wrote e.{ending}" in out
    assert json.loads(Path("e.json").read_text())["text"] == "a superb film"
    code, _, err = run("explain", "a superb film", "--model", model, "--out", "e.npz")
    assert code == 2
    assert "`--out` must end in one of .png, .svg, .pdf, .gif, .mp4, .json, .html. Got 'e.npz'." in err


def test_lines_are_answered_as_they_come(model) -> None:
    command = [sys.executable, "-m", "hardmax.cli.main", "predict", "--stream", "--explain", "--model", str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        found = []
        for line in (
            "a superb film",
            json.dumps({"text": "an awful\nfilm", "id": 7}),
            '{"id": 7}',
            '"café"',
            '{"text": "cut of',
            '"a superb film',
            "",
        ):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline()))  # before the next is asked
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert [each["row"] for each in found] == [1, 2, 3, 4, 5, 6, 7]
    classifier = HardmaxClassifier.load(model)
    assert found[0]["prediction"] == "positive"
    assert found[1]["prediction"] == "negative"
    assert found[1]["probability_positive"] == classifier.predict_proba(["an awful\nfilm"])[0, 1]
    why = classifier.explain("a superb film")
    assert found[0]["words"][0] == [why.by_word()[0].text, float(why.signed(why.by_word()[0].value))]
    assert 'an object with a "text"' in found[2]["error"]
    assert found[3]["no_known_word"]
    for broken in found[4:6]:
        assert set(broken) == {"row", "error"}
        assert "`line` must be JSON where it begins with {" in broken["error"]
    assert found[6]["no_known_word"]


@pytest.mark.parametrize("wrong", [["--explain"], ["--stream", "a text"], ["--stream", "--out", "x.csv"]])
def test_streams_stand_alone(run, model, wrong: list[str]) -> None:
    code, _, err = run("predict", "--model", model, *wrong)
    assert code == 2
    assert f"`{wrong[0]}` must" in err


def test_a_model_that_is_not_sure_says_so(run, home, model) -> None:
    classifier, texts = HardmaxClassifier.load(model), ["a superb film", "a film", "zyxw"]
    sure = classifier.predict_proba(texts).max(axis=1)
    level = float(np.sort(sure)[1] + np.sort(sure)[2]) / 2
    assert classifier.predict_sure(texts, level).tolist() == [
        label if share >= level else None for label, share in zip(classifier.predict(texts), sure, strict=True)
    ]
    _, out, _ = run("predict", "--model", model, "--at-least", level, "--json", *texts)
    assert [json.loads(line)["prediction"] == "not sure" for line in out.splitlines()] == (sure < level).tolist()
    assert run("predict", "--model", model, "--at-least", "1.5", "a text")[0] == 2
    table = classifier.coverage(CORPUS.texts, CORPUS.labels)
    right = classifier.predict(CORPUS.texts) == np.array(CORPUS.labels)
    kept = classifier.predict_proba(CORPUS.texts).max(axis=1) >= 0.9
    row = table[table["at_least"] == 0.9].iloc[0]
    assert (row["coverage"], row["accuracy"]) == (kept.mean(), right[kept].mean())
    out = run("evaluate", home / "reviews.csv", "--model", model)[1]
    assert re.search(rf"^0.9 +{kept.mean():.1%} +{right[kept].mean():.4f}", out, re.MULTILINE)
    with pytest.raises(hm.InputError, match="`at_least` must be a probability"):
        classifier.predict_sure(texts, 2)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("labels", [(0, 1), (1.0, 2.0), (False, True)])
def test_labels_that_are_not_texts_are_written_beside_not_sure(run, labels, ending) -> None:
    truth = [labels[label == "positive"] for label in CORPUS.labels]
    HardmaxClassifier(n_heads=2, groups=1).fit(CORPUS.texts, truth).save("numbers")
    Path("rows.txt").write_text("a superb film\nzyxw\nan awful film\n")
    arguments = ("predict", "--file", "rows.txt", "--model", "numbers", "--out", f"answers{ending}")
    code, _, err = run(*arguments, "--at-least", "0.6")
    assert code == 0, err
    read = {".parquet": pd.read_parquet, ".csv": pd.read_csv, ".jsonl": lambda f: pd.read_json(f, lines=True)}
    found = read[ending](f"answers{ending}")
    assert found["prediction"].tolist() == [str(labels[1]), "not sure", str(labels[0])]
    assert run(*arguments)[0] == 0  # and without it they are what they are
    assert read[ending](f"answers{ending}")["prediction"].tolist()[::2] == [labels[1], labels[0]]


def test_a_model_says_what_it_is(run, home, model) -> None:
    code, out, _ = run("predict", "--card", "--model", model)
    assert code == 0
    assert "Classes: negative, positive." in out
    assert re.search(r"- 400 texts, median length \d+ characters \(negative: 200, positive: 200\)", out)
    assert re.search(r"Accuracy 0\.\d{4}, loss \d\.\d{4}, on held-out texts", out)
    assert Path(model, "README.md").read_text() == out
    found = json.loads(run("predict", "--card", "--model", model, "--json")[1])
    classifier = HardmaxClassifier.load(model)
    assert found["training"] == dataclasses.asdict(classifier.training_)
    again = hm.text.card.Record.of(CORPUS.texts, CORPUS.labels)
    assert found["training"]["sha256"] == again.sha256
    assert again.sha256 != hm.text.card.Record.of(CORPUS.texts[::-1], CORPUS.labels[::-1]).sha256
    path = Path(model, "model.json")
    about = json.loads(path.read_text())
    for bad in (7, None, {"texts": 3}, about["training"] | {"classes": {"x": "many"}}):
        shutil.copytree(model, "other", dirs_exist_ok=True)
        Path("other", "model.json").write_text(json.dumps(about | {"training": bad}))
        code, _, err = run("predict", "--card", "--model", "other")
        assert (code, "`training`" in err) == (2, True)


def test_tokens_and_mistakes_are_written(run, home, model) -> None:
    texts = [*CORPUS.texts[:40], "a superb <script>alert(1)</script> film"]
    labels = [*CORPUS.labels[:40], "negative"]
    write_csv("some.csv", list(zip(texts, labels, strict=True)))
    files = ("--tokens", "t.csv", "--mistakes", "m.html")
    code, out, _ = run("evaluate", "some.csv", "--model", model, *files)
    assert code == 0
    assert "Wrote t.csv" in out
    classifier = HardmaxClassifier.load(model)
    with Path("t.csv").open(newline="") as file:
        rows = {row["token"]: row for row in csv.DictReader(file)}
    all_terms = [
        dict(zip(e.words.tolist(), e.contributions.tolist(), strict=True)) for e in classifier.explain_many(texts)
    ]
    superb = [terms["superb"] for terms in all_terms if "superb" in terms]
    assert int(rows["superb"]["count"]) == len(superb)
    assert float(rows["superb"]["sum"]) == pytest.approx(sum(superb))
    assert float(rows["superb"]["mean_abs"]) == pytest.approx(np.mean(np.abs(superb)))
    in_negative = [
        terms.get("superb", 0.0) for terms, label in zip(all_terms, labels, strict=True) if label == "negative"
    ]
    assert float(rows["superb"]["sum_in_negative"]) == pytest.approx(sum(in_negative))
    wrong = [
        terms.get("superb", 0.0)
        for terms, a, b in zip(all_terms, classifier.predict(texts), labels, strict=True)
        if a != b
    ]
    assert float(rows["superb"]["sum_wrong"]) == pytest.approx(sum(wrong))
    page = Path("m.html").read_text()
    assert "Text 41: label negative, predicted positive" in page
    assert "<script>alert" not in page
    for option, ending in (("--tokens", "t.html"), ("--mistakes", "m.csv")):
        code, _, err = run("evaluate", "some.csv", "--model", model, option, ending)
        assert (code, f"`{option}` must end in" in err) == (2, True)


def test_evaluation_counts(run, home, model) -> None:
    code, out, _ = run("evaluate", home / "reviews.csv", "--model", model)
    found = HardmaxClassifier.load(model).predict(CORPUS.texts)
    right = [(found[i] == label, label) for i, label in enumerate(CORPUS.labels)]
    assert code == 0
    assert f"Accuracy {np.mean([ok for ok, _ in right]):.4f} on 400 texts" in out
    true = sum(ok for ok, label in right if label == "positive")
    false = sum(found == "positive") - true
    f1 = 2 * true / (200 + true + false)
    assert re.search(rf"positive +200 +{true / (true + false):.4f} +{true / 200:.4f} +{f1:.4f}", out)
    assert re.search(rf"positive +{200 - true} +{true} *$", out, re.MULTILINE)
    assert re.search(r"Leaders of a text in a head: \d\.\d ± \d\.\d, from \d to \d+; \d+% of them", out)
    result = json.loads(run("evaluate", home / "reviews.csv", "--model", model, "--json")[1])
    probabilities = HardmaxClassifier.load(model).predict_proba(CORPUS.texts)
    truth = np.searchsorted(["negative", "positive"], CORPUS.labels)
    assert result["loss"] == pytest.approx(-np.log(probabilities[np.arange(400), truth]).mean())
    assert np.sum(result["confusion"]) == 400
    assert result["confusion"][1] == [200 - true, true]
    assert result["f1"][1] == pytest.approx(f1)
    assert result["macro_f1"] == pytest.approx(np.mean(result["f1"]))
    code, out, _ = run("evaluate", home / "reviews.csv", "--model", model, "--out", "e.json", "--out", "e.csv")
    assert (code, out.splitlines()[-2:]) == (0, ["Wrote e.json", "Wrote e.csv"])
    assert json.loads(Path("e.json").read_text()) == result
    table = pd.read_csv("e.csv")
    assert table.columns.tolist()[:5] == ["label", "texts", "precision", "recall", "f1"]
    assert table[["taken_for_negative", "taken_for_positive"]].to_numpy().tolist() == result["confusion"]


def test_an_evaluation_of_nothing_known_is_still_json(run, model) -> None:
    write_csv("odd.csv", [("zyxw", "positive")])
    result = json.loads(run("evaluate", "odd.csv", "--model", model, "--json")[1], parse_constant=pytest.fail)
    assert result["leaders"] is None
    assert None in result["recall"]
    assert run("evaluate", "odd.csv", "--model", model)[0] == 0


def test_a_sample_comes_from_the_whole_file() -> None:
    numbers = [str(i) for i in range(10)]
    assert shared.sample_texts(numbers, 4) == ["0", "3", "6", "9"]
    assert shared.sample_texts(numbers, 10) == shared.sample_texts(numbers, 99) == numbers


def test_labels_that_a_model_does_not_know(run, model) -> None:
    write_csv("odd.csv", [("good", "positive"), ("bad", "great"), ("bad", "poor")])
    code, out, err = run("evaluate", "odd.csv", "--model", model)
    assert (code, out) == (2, "")
    assert (
        "The labels of odd.csv must be those of the model: negative, positive. Got 'great', 'poor' in 2 of 3 rows."
        in err
    )


def test_more_than_two_classes(run) -> None:
    labels = ["mixed" if i % 3 == 0 else label for i, label in enumerate(CORPUS.labels[:90])]
    write_csv("three.csv", zip(CORPUS.texts, labels, strict=False))
    assert run("train", "three.csv", "--out", "m", *TINY)[0] == 0
    code, out, _ = run("explain", CORPUS.texts[0], "--model", "m", "--out", "e.png")
    assert code == 0
    assert re.search(r"for \w+, not \w+", out)
    result = json.loads(run("evaluate", "three.csv", "--model", "m", "--json")[1])
    assert np.shape(result["confusion"]) == (3, 3)
    assert re.search(r"label +mixed +negative +positive", run("evaluate", "three.csv", "--model", "m")[1])
    assert run("predict", "a film", "--model", "m")[0] == 0


def test_predicting_takes_texts_or_a_file(run, home, model) -> None:
    for arguments, got in (((), "neither"), (("a text", "--file", home / "reviews.csv"), "both")):
        code, _, err = run("predict", *arguments, "--model", model)
        assert code == 2
        assert f"Either TEXT or --file must be given. Got {got}." in err
    code, _, err = run("predict", "a text", "--text", "review", "--model", model)
    assert code == 2
    assert "`--text` must be used with --file." in err
    code, _, err = run("predict", "a text", "--model", model, "--out", "p.doc")
    assert code == 2
    assert "`--out` must end in one of .csv, .jsonl, .parquet, .xlsx. Got 'p.doc'." in err


def test_names_of_files_are_no_texts(run, home, model) -> None:
    for name in (home / "reviews.csv", "nowhere.xlsx"):
        code, out, err = run("predict", name, "--model", model)
        assert (code, out) == (2, "")
        assert f"`TEXT` must be texts. Got '{name}', the name of a file. Pass it as --file" in err
    assert run("predict", "I like node.txt", "--model", model)[0] == 0


def test_answers_do_not_replace_the_file_they_are_about(run, home, model) -> None:
    shutil.copy(home / "reviews.csv", "own.csv")
    code, _, err = run("predict", "--file", "own.csv", "--model", model, "--out", "own.csv")
    assert code == 2
    assert "`--out` must differ from the input file. Got 'own.csv'." in err


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_columns_of_every_kind_are_kept(run, model, ending) -> None:
    rows = [{"text": "a superb film", "tags": ["a", "b"], "stars": 4.5, "id": "007"}, {"text": "awful", "stars": 1}]
    Path("typed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parquet.write_table(pyarrow.Table.from_pylist(rows), "typed.parquet")
    Path("twice.csv").write_text("text,x,x\na superb film,007,1\nawful,2,3\n")
    for source in ("typed.jsonl", "typed.parquet", "twice.csv"):
        code, _, err = run("predict", "--file", source, "--model", model, "--keep", "--out", f"{source}.{ending}")
        assert (code, err) == (0, "")
    read = {"csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True)}
    frame = (read | {"parquet": pd.read_parquet, "xlsx": pd.read_excel})[ending](f"twice.csv.{ending}")
    assert frame.columns.tolist()[:3] == ["text", "x", "x_2"]
    assert frame["x_2"].tolist() == [1, 3]


def test_an_unfinished_model_is_called_so(run, home, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HardmaxClassifier, "save", lambda *_, **__: sys.exit(3))
        run("train", home / "reviews.csv", "--out", "m", *TINY)
    code, _, err = run("predict", "a text", "--model", "m")
    assert code == 2
    assert "Got 'm', the folder of an unfinished run." in err


def test_several_classes_are_compared_with_the_next_best(run) -> None:
    texts = [f"{word} thing{i % 7}" for i in range(60) for word in ("parcel", "price", "shoe")]
    write_csv("three.csv", [(text, text.split()[0]) for text in texts])
    run("train", "three.csv", "--out", "m", *SMALL, "--epochs", "8")
    found = HardmaxClassifier.load("m").explain("parcel price price thing1")
    first, second = np.sort(found.logits)[::-1][:2]
    assert float(found.signed(found.bias)) + found.towards.sum() == pytest.approx(first - second)
    other = {"parcel": "price", "price": "parcel"}[str(found.prediction)]
    assert str(found.second) == other
    assert found.towards[found.words.tolist().index(other)] < 0  # it speaks for the other class
    out = run("explain", "parcel price price thing1", "--model", "m")[1]
    assert f"{found.prediction} rather than {other} with probability" in out
    assert f"for {found.prediction}, not {other}" in out


def test_the_sum_of_an_explanation_holds_as_it_is_printed(run, model) -> None:
    out = run("explain", "an awful film", "--model", model)[1]
    logit, bias = (float(number) for number in re.search(r"logit (\S+), bias (\S+);", out).groups())
    parts = [float(number) for number in re.findall(r"^\S.* ([+-]\d\.\d{4})", out, re.MULTILINE)]
    assert logit > 0
    assert sum(parts) + bias == pytest.approx(logit, abs=1e-3)
