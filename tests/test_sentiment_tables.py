"""Labelled texts from files: every format gives the same table, and every broken file a sentence."""

import csv
import gzip
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from hardmax.sentiment.tables import ENDINGS, Table, class_counts, imbalance_note, read_texts

TEXTS = ["a warm film, twice", "", 'he said "no"\nand left', "caf\u00e9 \u2028 \U0001f3ac", "plain"]
LABELS = ["pos", "neg", "neg", "pos", "pos"]
ROWS = [{"id": str(i), "text": text, "label": label} for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format of the ending."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path)
        return path
    text = io.StringIO(newline="")
    if kind in ("csv", "tsv"):
        writer = csv.DictWriter(text, list(rows[0]), delimiter="," if kind == "csv" else "\t")
        writer.writeheader()
        writer.writerows(rows)
    else:
        text.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def raises(path: Path, sentence: str, *, error: type[Exception] = ValueError, **options: Any) -> None:
    with pytest.raises(error, match=sentence):
        read_texts(path, **options)


@pytest.mark.parametrize("ending", [ending for ending in (*ENDINGS, ".CSV") if ending != ".txt"])
def test_every_format_gives_the_same_table(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"reviews.v1{ending}", ROWS) if ending != ".CSV" else tmp_path / "reviews.CSV"
    if ending == ".CSV":
        write(tmp_path / "reviews.csv", ROWS).rename(path)
    assert read_texts(path) == Table(TEXTS, LABELS, "text", "label", 0)
    assert read_texts(str(path), labelled=False) == Table(TEXTS, None, "text", None, 0)
    assert read_texts(path, text="label", label="id") == Table(LABELS, list("01234"), "label", "id", 0)
    assert read_texts(path).note == ""


def test_one_text_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reviews.txt"
    path.write_bytes("one\r\n\r\ntwo \u2028 three\nlast".encode())
    table = Table(["one", "", "two \u2028 three", "last"], None)
    assert read_texts(path, labelled=False) == table
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes()), "ascii"))
    assert read_texts("-", labelled=False) == table
    raises(
        path,
        "`path` must be a table with a column of labels, .* one text a line. Make one. Or pass `labelled=False`",
    )
    raises(path, "`text` and `label` must name columns of a table. Got .* Leave them out", labelled=False, text="text")


def test_a_long_field_and_the_limit_stays(tmp_path: Path) -> None:
    csv.field_size_limit(131_072)  # as Python sets it
    path = write(tmp_path / "long.csv", [{"text": "word " * 100_000, "label": "a"}])
    assert len(read_texts(path).texts[0]) == 500_000
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (["Review", "Sentiment", "stars"], {}, ("Review", "Sentiment")),
        (["id", "BODY", "y"], {}, ("BODY", "y")),
        (["words", "mood"], {"text": "words"}, ("words", "mood")),
        (["words", "mood"], {"label": "mood"}, ("words", "mood")),
        (["text", "mood"], {}, ("text", "mood")),
        (["text", "review", "label"], {"text": "review"}, ("review", "label")),
        (["class", "text"], {"text": "class", "label": "text"}, ("class", "text")),
        (["words"], {"labelled": False}, ("words", None)),
        ([" text ", " label"], {}, ("text", "label")),
    ],
)
def test_columns_found(tmp_path: Path, columns: list[str], options: dict[str, Any], expected: tuple[str, str]) -> None:
    path = write(tmp_path / "t.csv", [{name: f"{name.strip()} {i}" for name in columns} for i in range(2)])
    table = read_texts(path, **options)
    assert (table.text_column, table.label_column) == expected
    assert table.texts == [f"{expected[0]} 0", f"{expected[0]} 1"]


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (
            "text,label",
            {"text": "txt"},
            "`text` must name one column of .*. Got 'txt'. Did you mean 'text'? The columns",
        ),
        (
            "text,label",
            {"label": "Label"},
            "`label` must name one .* Did you mean 'label'? The columns are: text, label.",
        ),
        ("text,label", {"text": "zz"}, "Got 'zz'. Check the spelling. The columns are: text, label."),
        ("text,review,label", {}, "Got no name. Name one, or add a header line with a column called text. The columns"),
        ("text,a,b", {}, "`label` must name one column of .*. Got no name. Name one, .* called label"),
        ("text", {}, "`label` must name one column of .* The columns are: text."),
        ("text,text,label", {"text": "text"}, "Got 'text', which names 2. Rename them."),
        (
            "text,label",
            {"text": "text", "label": "text"},
            "`text` and `label` must name two columns. Got 'text' for both",
        ),
        (",".join(f"c{i}" for i in range(30)), {}, "c18, c19 and 10 more."),
        (f"{'very long ' * 9},b,c", {}, "The columns are: very long very long very long very lo..., b, c."),
    ],
)
def test_columns_not_found(tmp_path: Path, columns: str, options: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{columns}\n{','.join('x' for _ in columns.split(','))}\n")
    raises(path, re.escape(sentence).replace(r"\.\*", ".*"), **options)


def test_numbers_are_labels_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,1\nb,1.0\nc,True\nd, x \n")
    assert read_texts(tmp_path / "a.csv").labels == ["1", "1.0", "True", "x"]
    (tmp_path / "a.jsonl").write_text(
        '{"text": 7, "label": 1}\n{"text": 0.10, "label": 1.0}\n{"text": "", "label": true}\n'
    )
    assert read_texts(tmp_path / "a.jsonl").labels == ["1", "1.0", "True"]
    assert read_texts(tmp_path / "a.jsonl").texts == ["7", "0.10", ""]
    path = write(tmp_path / "a.parquet", [{"text": 3, "label": 1.0}, {"text": 4, "label": 0.0}])
    assert read_texts(path) == Table(["3", "4"], ["1.0", "0.0"], "text", "label")
    path = write(tmp_path / "b.parquet", [{"text": "x", "label": False}])
    assert read_texts(path).labels == ["False"]


def test_rows_without_text_or_label_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a", "label": "x"}\n\n{"text": null, "label": "x"}\n{"label": "x"}\n{"text": "b"}\n'
        '{"text": "c", "label": NaN}\n{"text": "d", "label": " "}\n{"text": NaN, "label": "x"}\n'
    )
    assert read_texts(path) == Table(["a"], ["x"], "text", "label", 6)
    assert read_texts(path).note == "Skipped 6 of 7 rows without text or label."
    unlabelled = read_texts(path, labelled=False)
    assert unlabelled.texts == ["a", "", "", "b", "c", "d", ""]  # rows keep their numbers
    assert unlabelled.note == "3 of 7 rows have no text; they count as empty texts."
    rows = [{"text": "a", "label": 1.0}, {"text": "b", "label": float("nan")}, {"text": None, "label": 0.0}]
    assert read_texts(write(tmp_path / "a.parquet", rows)).skipped == 2
    (tmp_path / "a.csv").write_text("text,label\n\n,x\nb,\nc,nan\n")
    assert read_texts(tmp_path / "a.csv") == Table([""], ["x"], "text", "label", 2)
    (tmp_path / "none.csv").write_text("text,label\na,\nb,\n")
    raises(tmp_path / "none.csv", "must hold at least one row with a text and a label. Got 2, all without. Check the")


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    content = "text,label\nok,x\ncaf\u00e9,y\n"
    path.write_bytes(content.encode("utf-8-sig"))
    assert read_texts(path, encoding="UTF-8").text_column == "text"
    path.write_bytes(content.encode("latin-1"))
    raises(path, r"must be text in utf-8. Got a byte .* offset 19 in line 3. .* such as `encoding='latin-1'`.")
    assert read_texts(path, encoding="latin-1").texts == ["ok", "caf\u00e9"]
    path.write_bytes(content.encode("utf-16"))
    raises(path, "at offset 0 in line 1. Pass its encoding, such as `encoding='utf-16'`")
    assert read_texts(path, encoding="utf-16").texts == ["ok", "caf\u00e9"]
    raises(path, "`encoding` must name a text encoding. Got 'klingon'. Try utf-8, latin-1", encoding="klingon")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "", "must hold texts. Got an empty file. Check how it was written."),
        ("a.jsonl", "\n\n", "must hold texts. Got an empty file"),
        ("a.csv", "text,label\n", "must hold rows. Got a header alone. Add a row for each text."),
        ("a.csv", 'text,label\n"a\nb",x\n\nc,x,y\n', "must have 2 fields in each row, .* Got 3 in line 5. Put quotes"),
        ("a.tsv", "text\tlabel\na\n", "must have 2 fields in each row, as in its header. Got 1 in line 2"),
        ("a.csv", 'text,label\na,x\n"b,x\nc,y\n', "must be CSV. Got the row that starts in line 3: unexpected end"),
        ("a.csv", 'text,label\n"b" c,x\n', "must be CSV. Got the row that starts in line 2: .* quoted text twice"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": \n', "must hold one JSON object a line. Got line 3: Expecting value"),
        ("a.jsonl", '{"text": "a"}\n[1, 2]\n', r"one JSON object a line. Got \[1, 2\] in line 2. Write"),
        ("a.jsonl", "7\n", "one JSON object a line. Got 7 in line 1"),
        ("a.jsonl", "[" * 100_000, "one JSON object a line. Got line 1: maximum recursion"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": ["b"], "label": 1}\n',
            "The text column .* Got a list in row 2",
        ),
        ("a.jsonl", '{"text": "a", "label": {}}\n', "label column .* texts or numbers. Got a dict in row 1. .*`label`"),
        ("a.csv.gz", "text,label\n", "must be a whole gzip file. Got: Not a gzipped file .* write it again"),
        ("a.parquet", "text,label\n", "must be a Parquet file. Got: .* Download or write it again."),
        ("a.xlsx", "x", r"`path` must be a file that ends in .csv, .tsv, .* Got '.*a.xlsx'. Rename or convert it"),
        ("a.gz", "x", "`path` must be a file that ends in"),
        ("a", "x", "`path` must be a file that ends in"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    raises(tmp_path / name, sentence)


def test_files_that_are_cut_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raises(tmp_path / "no.csv", "no.csv` must be a file. Got nothing at that path", error=FileNotFoundError)
    (tmp_path / "folder.csv").mkdir()
    raises(tmp_path / "folder.csv", "must be a file that can be read. Got: It is a folder", error=OSError)
    path = write(tmp_path / "a.jsonl.gz", ROWS)
    path.write_bytes(path.read_bytes()[:-9])
    raises(path, "must be a whole gzip file. Got: Compressed file ended")
    path = write(tmp_path / "a.parquet", ROWS)
    raises(write(tmp_path / "b.parquet", ROWS), "Did you mean 'text'", text="texts")
    data = path.read_bytes()
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")  # the directory behind them stays whole
    path.write_bytes(data[:4] + b"\xff" * (pages - 4) + data[pages:])
    raises(path, "must be a Parquet file. Got: ")
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": arrow.array([], "string"), "label": arrow.array([], "string")}), path)
    raises(path, "must hold rows. Got columns without any.")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    raises(path, r"Reading Parquet needs pyarrow: pip install 'hardmax\[text\]'.", error=ImportError)


def test_labels_worth_learning() -> None:
    assert list(class_counts(["b", "a", "b"]).items()) == [("a", 1), ("b", 2)]
    assert len(class_counts([str(i) for i in range(20)])) == 20
    assert len(class_counts([str(i // 2) for i in range(42)])) == 21
    with pytest.raises(ValueError, match=r"`label` must hold at least two classes. Got only 'pos' in 120 rows. Check"):
        class_counts(["pos"] * 120)
    with pytest.raises(ValueError, match=r"`label` must hold at least two classes. Got no rows"):
        class_counts([])
    with pytest.raises(ValueError, match=r"Got 21 classes in 21 rows, so it is probably the wrong column. Name the"):
        class_counts([str(i) for i in range(21)])


def test_uneven_classes_are_told() -> None:
    assert imbalance_note({"a": 50, "b": 950}) == ""
    told = imbalance_note({"a": 49, "b": 951})
    assert told.startswith("The classes are uneven: b 95.1 %, a 4.9 %. Always answering 'b' would be right in 95.1 %")
    assert imbalance_note({"a": 1, "b": 1, "c": 1}) == ""
    assert imbalance_note({}) == ""
    assert "and 5 more" in imbalance_note({str(i): 1 if i else 9999 for i in range(25)})
