"""Train, predict, explain and evaluate from the command line, as a practitioner meets them."""

import csv
import dataclasses
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stdout
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
from hardmax.cli.main import main  # noqa: E402
from hardmax.cli.removed import REMOVED  # noqa: E402
from hardmax.cli.train import train  # noqa: E402
from hardmax.text import storage, training  # noqa: E402
from hardmax.text.datasets import reviews  # noqa: E402

CORPUS = reviews(400, seed=1, negation=0.1, contrast=0, length=(6, 15))
SMALL = (
    "--n-heads",
    "4",
    "--groups",
    "1",
    "--ngram-range",
    "1,2",
    "--dropout",
    "0.2",
    "--learning-rate",
    "1",
    "--device",
    "cpu",
)
COUNTS = (
    "n-heads",
    "d",
    "min-df",
    "max-features",
    "max-words",
    "epochs",
    "batch-size",
    "groups",
    "patience",
)
TINY = ("--n-heads", "2", "--groups", "1", "--epochs", "1", "--device", "cpu")


def write_csv(path: Path | str, rows, header=("review", "sentiment"), **options) -> None:
    with Path(path).open("w", newline="", **options) as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A folder with a file of reviews, a model of it in `model`, and what training it has said."""
    folder = tmp_path_factory.mktemp("texts")
    write_csv(folder / "reviews.csv", zip(CORPUS.texts, CORPUS.labels, strict=True))
    with redirect_stdout(io.StringIO()) as said:
        code = main(
            ["train", str(folder / "reviews.csv"), "--out", str(folder / "model"), *SMALL, "--epochs", "15"],
        )
    assert code == 0
    (folder / "said.txt").write_text(said.getvalue())
    return folder


@pytest.fixture
def model(home) -> Path:
    return home / "model"


def standard_input(monkeypatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def test_training_says_what_it_read_learned_and_wrote(home) -> None:
    said = (home / "said.txt").read_text()
    assert "texts from column review, labels from column sentiment: negative: 200, positive: 200." in said
    assert re.search(r"Trained 15 epochs\. Validation accuracy 0\.\d{3} in epoch \d+, which is kept\.", said)
    assert "The model is in " in said
    assert (home / "model" / "README.md").read_text() in said  # the card
    assert 'Next: hardmax explain "a text" --model ' in said
    assert sorted(path.suffix for path in (home / "model").iterdir()) == [".json", ".md", ".safetensors"]


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


def test_warnings_of_training_are_notes(run) -> None:
    good, bad = ("这部电影非常好看", "这部电影实在太差")
    rows = [(f"{bad if i % 2 else good}{i}", "Good" if i < 4 else "bad" if i % 2 else "good") for i in range(40)]
    write_csv("rows.csv", rows, encoding="utf-8")
    code, _, err = run("train", "rows.csv", "--out", "model")
    assert code == 0, err
    assert "different classes: 'Good' and 'good'." in err
    assert "Many texts are in a script without spaces between words" in err
    assert "UserWarning" not in err


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without a GPU")
def test_a_gpu_that_is_not_there_is_refused(run, home) -> None:
    code, _, err = run("train", home / "reviews.csv", "--out", "model", "--device", "cuda")
    assert code == 2
    assert "`--device` must be a GPU that torch can use. Got 'cuda'" in err


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


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_command_or_option_names_its_replacement(run, name) -> None:
    code, out, err = run(*name.split())
    assert (code, out) == (2, "")
    assert f"hardmax {name} was removed. {REMOVED[name]}" in err


def test_every_kind_of_table_trains_the_same_model(run) -> None:
    pairs = list(zip(CORPUS.texts[:60], ["negative", "positive"] * 30, strict=True))
    write_csv("a.csv", pairs, ("text", "label"))
    rows = [{"text": text, "label": label} for text, label in pairs]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": "lost"}, {"label": "lost"}]))
    columns = {"label": [label for _, label in pairs], "text": [text for text, _ in pairs]}
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        code, out, err = run("train", name, "--out", Path(name).suffix[1:], *TINY, "--json")
        assert code == 0
        assert json.loads(out)["classes"] == {"negative": 30, "positive": 30}
        assert err == ("Left out 2 of 62 rows without text or label.\n" if name == "a.jsonl" else "")
    hashes = {json.loads(Path(kind, "model.json").read_text())["sha256"] for kind in ("csv", "jsonl", "parquet")}
    assert len(hashes) == 1


def test_json_and_quiet(run, home) -> None:
    code, out, err = run("train", home / "reviews.csv", "--out", "quiet", *TINY, "--quiet")
    assert (code, out, err) == (0, "", "")
    result = json.loads(run("train", home / "reviews.csv", "--out", "loud", *TINY, "--validation", "0", "--json")[1])
    assert result["validation_accuracy"] is None
    assert result["epochs"] == result["kept_epoch"] == 1
    assert result["vocabulary"] == len(HardmaxClassifier.load("loud").model_.vocabulary)
    said = run("train", home / "reviews.csv", "--out", "loud", *TINY, "--validation", "0", "--force")[1]
    assert "Trained 1 epoch. No texts were held out." in said


def test_defaults_are_those_of_the_classifier() -> None:
    defaults = HardmaxClassifier().get_params()
    flags = {name: parameter.default for name, parameter in inspect.signature(train).parameters.items()}
    assert (flags.pop("class_weight"), defaults.pop("class_weight")) == (False, None)
    shared = defaults.keys() & flags.keys()
    assert {name: flags[name] for name in shared} == {name: defaults[name] for name in shared}
    assert defaults.keys() - flags.keys() == {"checkpoint", "verbose", "tokenizer", "text_column"}


def test_every_option_reaches_the_classifier(run, home) -> None:
    given = {
        "n_heads": 4,
        "groups": 2,
        "d": 3,
        "layers": 1,
        "alpha": 0.7,
        "scale": 3.0,
        "select": "frequent",
        "start": "random",
        "min_df": 3,
        "max_features": 400,
    }
    given |= {"max_words": 9, "stop_words": "english", "lemmas": "en", "training": "softmax", "temperature": 0.1}
    given |= {"epochs": 2, "batch_size": 50, "learning_rate": 0.02, "weight_decay": 0.1, "dropout": 0.1}
    given |= {"label_smoothing": 0.1, "embedding_dropout": 0.2, "alpha_rate": 0.02, "validation": 0.2, "patience": 1}
    flags = [str(part) for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]
    switches = ("--seed", "5", "--trained-a", "--balanced", "--all-occurrences", "--no-punctuation", "--device", "cpu")
    flags += ["--ngram-range", "2,2"]
    code, _, err = run("train", home / "reviews.csv", "--out", "m", *flags, *switches)
    assert (code, err) == (0, "")
    given |= {"random_state": 5, "trained_A": True, "class_weight": "balanced", "distinct": False, "punctuation": False}
    given |= {"ngram_range": (2, 2)}
    params = HardmaxClassifier.load("m").get_params()
    assert {name: params[name] for name in given} == given
    assert json.loads(run("evaluate", home / "reviews.csv", "--model", "m", "--json")[1])["texts"] == 400
    code, _, err = run("explain", "a superb film", "--model", "m", "--out", "x.gif")
    assert code == 2
    assert "Got d = 3 and 2 classes. Use the model imdb-2d, or train one with d = 2." in err


def test_the_paper_is_a_start_that_flags_change(run, home) -> None:
    assert (
        run("train", home / "reviews.csv", "--out", "m", "--paper", "--d", "3", "--epochs", "1", "--layers", "4")[0]
        == 0
    )
    params = HardmaxClassifier.load("m").get_params()
    paper = HardmaxClassifier.paper(d=3, layers=4, epochs=1).get_params()
    assert {name: params[name] for name in paper if name != "device"} == {
        n: v for n, v in paper.items() if n != "device"
    }


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


def imdb_copy(folder: Path) -> Path:
    for split, shift in (("train", 0), ("test", 60)):
        for i in range(60):
            label = {"positive": "pos", "negative": "neg"}[CORPUS.labels[shift + i]]
            path = folder / split / label / f"{i}_7.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CORPUS.texts[shift + i])
    return folder


def test_film_reviews_by_name(run, monkeypatch) -> None:
    copy = imdb_copy(Path("copy"))
    code, out, _ = run("train", "--data", "imdb", "--data-source", copy, "--out", "models/imdb", *TINY)
    assert code == 0
    assert "Read 60 rows of imdb" in out
    monkeypatch.setattr(storage, "MODELS", Path("models").resolve())
    code, out, _ = run("evaluate", "--data", "imdb", "--data-source", copy)
    assert code == 0
    assert "on 60 texts of imdb." in out
    assert run("predict", "a superb film")[1].split()[0] in ("neg", "pos")
    assert run("explain", "a superb film", "--model", "imdb")[0] == 0
    code, _, err = run("predict", "a superb film", "--model", "imbd")
    assert code == 2
    assert "or one of imdb. Got 'imbd'." in err
    Path("folder").mkdir()
    assert run("evaluate", "--data", "imdb", "--data-source", copy, "--model", "folder")[0] == 2


def test_downloads_are_checked(run, monkeypatch) -> None:
    monkeypatch.setenv("HARDMAX_CACHE", str(Path("cache").resolve()))
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody is there
    Path("cache").mkdir()
    Path("cache/aclImdb_v1.tar.gz").write_bytes(b"cut")
    code, _, err = run("train", "--data", "imdb", "--out", "m")
    assert code == 2
    assert "The Large Movie Review Dataset must be downloaded once. Got from https://ai.stanford.edu/" in err
    assert "or pass the path of a copy as `--data-source`." in err
    code, _, err = run("train", "--data", "imdb", "--data-source", "nowhere", "--out", "m")
    assert code == 2
    assert "`--data-source` must be an archive or a folder. Got nothing at 'nowhere'." in err
    assert not Path("m").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Either FILE or --data must be given. Got neither. Pass a .csv file, or --data imdb."),
        (["good.csv", "--data", "imdb"], "Either FILE or --data must be given. Got both, good.csv and imdb."),
        (["--data", "yelp"], "`--data` must be imdb. Got 'yelp'. Pass other data as FILE."),
        (["--data", "imdb", "--label", "x"], "`--label` must be used with FILE."),
        (["good.csv", "--data-source", "x"], "`--data-source` must be used with --data."),
        (["missing.csv"], "`missing.csv` must be a file. Got nothing at that path. Check the spelling."),
        (["good.xls"], "`FILE` must be a file that ends in .csv"),
        (["lines.txt"], "`FILE` must be a table with a column of labels, such as a .csv file."),
        (["good.csv", "--text", "revue"], "Did you mean 'review'? The columns are: review, sentiment."),
        (["good.csv", "--text", "revue"], "`--text` must name one column of good.csv. Got 'revue'."),
        (["good.csv", "--label", "x"], "`--label` must name one column of good.csv. Got 'x'."),
        (["good.csv", "--text", "review", "--label", "review"], "`--text` and `--label` must name two columns."),
        (
            ["unlabelled.csv"],
            "`--label` must name one column of unlabelled.csv. Got no name. Name one, or add",
        ),
        (["one.csv"], "`--label` must hold at least two classes. Got only 'positive' in 3 rows."),
        (["ids.csv"], "probably the wrong column. Name the column of classes with `--label`."),
        (["latin.csv", "--encoding", "utf-8"], "must be text in utf-8. Got a byte that is not, at offset"),
        (["latin.csv", "--encoding", "utf-8"], "Pass its encoding, such as `--encoding latin-1`."),
        (["good.csv", "--encoding", "klingon"], "`--encoding` must name a text encoding. Got 'klingon'."),
        (["good.csv", "--out", "good.csv"], "`good.csv` must be a folder that can be written. Got: It is a file."),
        (["good.csv", "--min-df", "99"], "or lower `--min-df`."),
        (
            ["good.csv", "--trained-a"],
            "`--trained-a` must be used with `--training softmax`. Got `--training hardmax`",
        ),
        (["good.csv", "--training", "soft"], "`--training` must be one of hardmax, softmax. Got 'soft'."),
        (
            ["good.csv", "--n-heads", "6"],
            "`--groups` must divide `--n-heads`. Got 4 groups and 6 heads. Use `--groups 1`,",
        ),
        (["good.csv", "--ngram-range", "0,2"], "`--ngram-range` must be two integers"),
        (["good.csv", "--ngram-range", "three"], "`--ngram-range` must be two integers"),
        (["good.csv", "--select", "rare"], "`--select` must be one of discriminative, frequent. Got 'rare'."),
        (["good.csv", "--device", "tpu"], '`--device` must be "auto", "cpu" or "cuda". Got \'tpu\'.'),
        (["good.csv", "--scale", "0"], "`--scale` must be a positive"),
        (["good.csv", "--alpha-rate", "0"], "`--alpha-rate` must be a positive"),
        (
            ["good.csv", "--stop-words", "german"],
            "`--stop-words` must be \"english\" or a list of words. Got 'german'.",
        ),
        (["good.csv", "--lemmas", "xx"], "`--lemmas` must be a language that simplemma knows"),
        (["good.csv", "--seed", "-1"], "`--seed` must be an integer of at least 0. Got -1."),
        (["good.csv", "--layers", "-1"], "`--layers` must be an integer of at least 0. Got -1."),
        (["good.csv", "--alpha", "0"], "`--alpha` must be a positive finite number"),
        (["good.csv", "--temperature", "0"], "`--temperature` must be a positive"),
        (["good.csv", "--learning-rate", "nan"], "`--learning-rate` must be a positive"),
        (["good.csv", "--weight-decay", "-1"], "`--weight-decay` must be"),
        *[(["good.csv", f"--{name}", "0"], f"`--{name}` must be an integer of at least 1. Got 0.") for name in COUNTS],
        *[
            (["good.csv", f"--{name}", "1.5"], f"`--{name}` must be at least 0 and below 1. Got 1.5.")
            for name in ("dropout", "embedding-dropout", "validation", "label-smoothing")
        ],
    ],
)
def test_bad_training_gets_a_sentence_in_flags(run, arguments: list[str], sentence: str) -> None:
    pairs = list(zip(CORPUS.texts[:40], CORPUS.labels[:40], strict=True))
    write_csv("good.csv", pairs)
    write_csv("unlabelled.csv", [(text,) for text, _ in pairs], ["review"])
    write_csv("one.csv", [("good", "positive")] * 3)
    write_csv("ids.csv", [(text, i) for i, (text, _) in enumerate(pairs)])
    write_csv("latin.csv", [("très bon", "positive"), ("mal", "negative")], encoding="latin-1")
    Path("lines.txt").write_text("a film\n")
    before = sorted(Path().iterdir())
    code, _, err = run("train", "--out", "m", *arguments)
    assert code == 2
    assert err.startswith("Error: ")
    assert sentence in err
    assert not re.search(r"`\w*_\w*`|random_state|None", err)
    assert sorted(Path().iterdir()) == before


def test_other_encodings_are_read(run) -> None:
    write_csv("latin.csv", [("très bon", "oui"), ("très mal", "non")] * 5, encoding="latin-1")
    assert run("train", "latin.csv", "--out", "m", *TINY, "--encoding", "latin-1")[0] == 0
    assert "très" in HardmaxClassifier.load("m").model_.vocabulary.words
    assert run("predict", "--file", "latin.csv", "--model", "m", "--encoding", "latin-1")[0] == 0


def test_uneven_classes_get_a_note(run) -> None:
    write_csv("uneven.csv", [("good film", "good")] * 97 + [("bad film", "bad")] * 3)
    code, _, err = run("train", "uneven.csv", "--out", "m", *TINY)
    assert code == 0
    assert "The classes are uneven: good 97.0 %, bad 3.0 %." in err
    assert "Pass --balanced" in err
    assert "--balanced" not in run("train", "uneven.csv", "--out", "m", *TINY, "--balanced")[2]


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


def test_broken_models_get_a_sentence(run, model) -> None:
    shutil.copytree(model, "cut")
    weights = next(Path("cut").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])
    code, _, err = run("predict", "a text", "--model", "cut")
    assert code == 2
    assert "It is truncated or changed" in err
    Path("cut/model.json").write_text('{"format": "hardm')
    code, _, err = run("explain", "a text", "--model", "cut")
    assert code == 2
    assert "must be JSON. It is truncated" in err


def saved_hash(folder: Path | str) -> str:
    return str(json.loads(Path(folder, "model.json").read_text())["sha256"])


def settings(home: Path, out: Path | str, *more: str) -> list[str]:
    return ["train", str(home / "reviews.csv"), "--out", str(out), *SMALL, "--epochs", "8", *more]


def test_a_killed_run_goes_on_and_ends_with_the_same_model(run, home, monkeypatch) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen([sys.executable, "-m", "hardmax.cli.main", *settings(home, "killed")], env=environment)
    seen, checkpoint = set(), Path("killed/checkpoint")
    while len(seen) < 2 and process.poll() is None:
        time.sleep(0.002)
        if checkpoint.exists():
            seen.add(checkpoint.stat().st_mtime_ns)
    process.kill()
    process.wait()
    assert checkpoint.exists()
    assert not Path("killed/model.json").exists()
    shutil.copytree("killed", "anew")
    passes, original = [], training.batches
    monkeypatch.setattr(
        training, "batches", lambda settings, epoch, sizes: passes.append(epoch) or original(settings, epoch, sizes)
    )
    code, _, err = run(*settings(home, "killed", "--resume"))
    assert (code, err) == (0, "")
    assert 0 < len(passes) <= 6
    passes.clear()
    code, _, err = run(*settings(home, "anew"))
    assert (code, passes) == (2, [])
    assert "Got anew, which holds an unfinished run. Pass --resume" in err
    assert run(*settings(home, "anew", "--force"))[0] == 0
    assert len(passes) == 8
    assert saved_hash("killed") == saved_hash("anew")
    assert [path for path in Path("killed").iterdir() if "checkpoint" in path.name] == []
    code, _, err = run("train", home / "reviews.csv", "--out", "new", *TINY, "--resume")
    assert (code, err) == (0, "new holds no unfinished run. Training starts from the beginning.\n")


def test_a_model_is_not_overwritten_unasked(run, home) -> None:
    arguments = ("train", home / "reviews.csv", "--out", "m", *TINY)
    assert run(*arguments)[0] == 0
    before = saved_hash("m")
    for more in ((), ("--resume",)):
        code, out, err = run(*arguments, "--seed", "1", *more)
        assert (code, out) == (2, "")
        assert "`--out` must be a folder without a model. Got m, which holds a model. Choose another name, or" in err
    assert saved_hash("m") == before
    assert run(*arguments, "--seed", "1", "--force")[0] == 0
    assert saved_hash("m") != before


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_interrupted_run_says_what_is_kept(run, home, monkeypatch, epoch) -> None:
    original = training.batches

    def interrupted(settings, number, sizes):
        if number == epoch:
            raise KeyboardInterrupt
        return original(settings, number, sizes)

    with monkeypatch.context() as patch:
        patch.setattr(training, "batches", interrupted)
        code, _, err = run(*settings(home, "m"))
    kept = "Stopped. m/checkpoint holds the last complete epoch. Add --resume to the same command to continue.\n"
    assert (code, err) == (130, kept if epoch else "Stopped before the end of the first epoch. Nothing is saved.\n")
    assert run(*settings(home, "m", *(["--resume"] if epoch else [])))[0] == 0


def test_a_checkpoint_of_other_settings_is_refused(run, home, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HardmaxClassifier, "save", lambda *_, **__: sys.exit(3))
        assert run("train", home / "reviews.csv", "--out", "m", *TINY)[0] == 3
    code, _, err = run("train", home / "reviews.csv", "--out", "m", *TINY, "--seed", "1", "--resume")
    assert code == 2
    assert "must come from a run with the same data and parameters." in err
    assert "or train with no `--resume`." in err


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(run, home) -> None:
    few = (*settings(home, "two"), "--epochs", "2")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "-m", "hardmax.cli.main", *few],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Trained 2 epochs.") == done.stdout.count("Read 400 rows") == 1
    assert run(*settings(home, "one"), "--epochs", "2")[0] == 0
    one, two = (HardmaxClassifier.load(name).decision_function(CORPUS.texts) for name in ("one", "two"))
    assert np.ptp(one) > 0.01
    np.testing.assert_allclose(two, one, atol=1e-4)


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


def test_a_large_class_stands_beside_the_accuracy(run, home) -> None:
    write_csv("uneven.csv", [(text, "x" if i % 5 else "y") for i, text in enumerate(CORPUS.texts)])
    assert "(The largest class has 0.800 of the rows.)" in run("train", "uneven.csv", "--out", "m", *TINY)[1]


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
