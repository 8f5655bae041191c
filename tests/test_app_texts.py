"""The explorer of texts without a server: edits, pieces, sums, files."""

import base64
import csv
import io

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette")
pytest.importorskip("sklearn")

import hardmax as hm
from hardmax.app import playground, texts
from hardmax.app.api import Context, handle
from hardmax.app.texts import Text
from hardmax.draw import text_page

CONTEXT = Context()
EXAMPLES = [*text_page.EXAMPLES.values()]


def ask(path, **body):
    return handle(path, body, CONTEXT)


@pytest.mark.parametrize("model", ["imdb", "imdb-2d"])
@pytest.mark.parametrize("text", EXAMPLES)
def test_words_and_sentences_sum_to_the_logit(model, text):
    found = ask("explain", text=text, model=model).header
    why = hm.pretrained(model).explain(text)
    assert found["logit"] == pytest.approx(why.logit)
    assert sum(step["value"] for step in found["waterfall"]) == pytest.approx(
        why.logit, abs=0.01
    )
    assert why.bias + sum(
        part["value"] for part in found["sentences"]
    ) == pytest.approx(why.logit, abs=0.01)
    assert sum(piece.get("value", 0) for piece in found["pieces"]) == pytest.approx(
        why.logit - why.bias, abs=0.01
    )
    assert "".join(piece["text"] for piece in found["pieces"]) == text
    assert found["classes"][found["prediction"]]["name"].startswith(
        why.prediction
    )  # pos is positive


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_do_not_depend_on_one_word(text):
    found = ask("explain", text=text).header
    strongest = max(
        abs(step["value"]) for step in found["waterfall"] if "other" not in step["name"]
    )
    assert strongest < 0.3 * abs(found["logit"])


def test_a_class_has_one_colour_whatever_the_prediction():
    good, bad = (
        ask("explain", text=text).header
        for text in ("a wonderful film", "a dreadful film")
    )
    assert good["classes"] == bad["classes"]
    colours = [
        {p["text"]: p["class"] for p in found["pieces"] if "class" in p}
        for found in (good, bad)
    ]
    assert colours[0]["wonderful"] == 1
    assert colours[1]["dreadful"] == 0


def test_models_of_other_columns_are_refused(tmp_path):
    frame = pd.DataFrame(
        {"text": ["a good film", "a bad film"] * 6, "stars": [5, 1] * 6}
    )
    classifier = hm.HardmaxClassifier(n_heads=2, groups=1, columns=["stars"])
    with pytest.warns(UserWarning, match="duplicates|held out"):
        classifier.fit(frame, ["pos", "neg"] * 6)
    classifier.save(tmp_path)
    with pytest.raises(hm.ParameterError, match="reads the columns stars"):
        texts.load(str(tmp_path))
    with pytest.raises(hm.InputError, match="of a text alone"):
        classifier.explain(frame[:1]).show()


def test_three_classes(corpus):
    three = hm.HardmaxClassifier(n_heads=2, groups=1, epochs=1, max_features=500)
    three.fit(corpus.texts[:300], ["good", "bad", "odd"] * 100)
    context = Context(models=("own",), loaded={"own": three.model_})
    found = handle("explain", {"text": EXAMPLES[0], "model": "own"}, context).header
    assert len(found["classes"]) == 3
    assert len({one["colour"] for one in found["classes"]}) == 3
    assert found["head"]["plane"] is None
    assert sum(step["value"] for step in found["waterfall"]) == pytest.approx(
        found["logit"], abs=0.01
    )


def test_edits_change_what_is_read_and_keep_what_was_typed():
    typed = "What a wonderful, wonderful film."
    edits = [[7, 16, ""], [18, 27, "truly dreadful"]]
    text = Text.from_data({"text": typed, "edits": edits})
    assert text.read == "What a   ,  truly dreadful  film."
    start = text.read.index("film")
    assert text.find_typed(start, start + 4) == (28, 32)
    assert text.find_typed(
        text.read.index("dreadful"), text.read.index("dreadful") + 8
    ) == (18, 27)
    found = ask("explain", text=typed, edits=edits).header
    assert (
        "".join(piece.get("was", piece["text"]) for piece in found["pieces"]) == typed
    )
    assert found["change"].startswith("2 words removed or replaced")
    assert found["logit"] == pytest.approx(
        hm.pretrained("imdb").explain(text.read).logit
    )


def test_removing_the_found_words_changes_the_prediction():
    found = ask("flip", text=EXAMPLES[1]).header
    assert found["flips"]
    assert "the prediction is positive." in found["sentence"]
    before = ask("explain", text=EXAMPLES[1]).header["prediction"]
    edits = sorted([start, end, ""] for start, end in found["places"])
    assert ask("explain", text=EXAMPLES[1], edits=edits).header["prediction"] != before


def test_two_texts_are_compared():
    found = ask(
        "compare", first={"text": "a good film"}, second={"text": "a bad film"}
    ).header
    change = (
        hm.pretrained("imdb").explain("a bad film").logit
        - hm.pretrained("imdb").explain("a good film").logit
    )
    assert sum(row["change"] for row in found["rows"]) == pytest.approx(
        change
    )  # towards positive, the first one
    assert found["sentence"].startswith(
        "The first text is positive, the second negative. "
    )
    long = ask(
        "compare", first={"text": EXAMPLES[0]}, second={"text": EXAMPLES[1]}
    ).header
    change = (
        hm.pretrained("imdb").explain(EXAMPLES[1]).logit
        - hm.pretrained("imdb").explain(EXAMPLES[0]).logit
    )
    assert long["rows"][-1]["token"].endswith("others")
    assert sum(row["change"] for row in long["rows"]) == pytest.approx(change)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("flip", {"text": EXAMPLES[0]}),
        ("export-text", {"text": EXAMPLES[0], "kind": "gif"}),
        ("export-table", {"rows": [{"text": "good"}]}),
        ("table", {"name": "x.txt", "data": base64.b64encode(b"good").decode()}),
    ],
)
def test_requests_about_texts_can_be_stopped(path, body, monkeypatch):
    asked = iter([False] + [True] * 9)  # the client leaves after the work has begun
    with pytest.raises(playground.Cancelled):
        handle(path, body, Context(stopped=lambda: next(asked)))
    monkeypatch.setattr(playground, "MAX_SECONDS", 0.0)
    with pytest.raises(hm.InputError, match="seconds"):
        handle(path, body, CONTEXT)


def test_words_of_a_head_move_to_their_leaders():
    plane = ask("explain", text=EXAMPLES[0], model="imdb-2d").header["head"]["plane"]
    positions = np.array(plane["positions"])
    assert positions.shape[1:] == (len(plane["words"]), 2)
    logit = np.array(plane["means"])[-1] @ plane["normal"] + plane["offset"]
    assert logit == pytest.approx(
        hm.pretrained("imdb-2d").explain(EXAMPLES[0]).logit, abs=0.01
    )


def upload(name, data, **more):
    return ask("table", name=name, data=base64.b64encode(data).decode(), **more)


def test_a_table_is_classified_and_downloaded_without_formulas():
    data = "text,label\ngood film,1\n=1+1 bad film,0\n,1\n"
    found = upload("<script>.csv", data.encode()).header
    assert [row["class"] for row in found["rows"]][:2] == [1, 0]
    assert found["name"] == "<script>.csv"
    rows = ask("export-table", rows=found["rows"])
    lines = list(csv.reader(io.StringIO(rows.file.decode())))
    assert lines[2][1] == "'=1+1 bad film"
    assert [line[2] for line in lines[1:3]] == ["positive", "negative"]


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("explain", {"text": 1}, "text"),
        ("values", {"first": "a", "second": 1, "degrees": 0}, "first"),
        ("configuration", {"name": "ball", "n": 2.7}, "n"),
        ("explain", {"text": "x" * 20_001}, "text"),
        ("explain", {"text": "good", "edits": [[2, 1, ""]]}, "edits"),
        ("explain", {"text": "good", "edits": [[0, 2, ""], [1, 3, ""]]}, "edits"),
        ("explain", {"text": "good", "edits": [[0, 2, "x" * 201]]}, "edits"),
        ("explain", {"text": "good", "model": "../models"}, "model"),
        ("explain", {"text": "good", "head": True}, "head"),
        ("export-text", {"text": "good", "kind": "exe"}, "kind"),
        ("table", {"name": "x.exe", "data": ""}, "file"),
        ("table", {"name": "x.csv", "data": "%"}, "data"),
        ("export-table", {"rows": [1]}, "rows"),
    ],
)
def test_forged_requests_are_refused(path, body, name):
    with pytest.raises(hm.ParameterError, match=f"`{name}`"):
        handle(path, body, CONTEXT)


def test_an_excel_file_that_unpacks_to_much_is_refused(monkeypatch):
    pandas, out = pytest.importorskip("pandas"), io.BytesIO()
    pytest.importorskip("openpyxl")
    pandas.DataFrame({"text": ["good", "bad"]}).to_excel(out, index=False)
    assert len(upload("x.xlsx", out.getvalue()).header["rows"]) == 2
    monkeypatch.setattr(texts, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(hm.ParameterError, match="unpacked"):
        upload("x.xlsx", out.getvalue())
    with pytest.raises(hm.InputError, match="Excel"):
        upload("x.xlsx", b"PK")


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("png", b"\x89PNG"),
        ("html", b"<!doctype"),
        ("json", b"{"),
        ("csv", b"word"),
        ("py", b"import hardmax"),
    ],
)
def test_exports(kind, start):
    file = ask("export-text", text=EXAMPLES[0], kind=kind).file
    assert file.startswith(start)
    assert kind not in ("html", "json") or b"positive" in file  # the names of the page
