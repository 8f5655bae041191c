"""Labelled texts from files: every format gives the same table, and errors name the
file, the row or the parameter.
"""

import csv
import io
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardmax import InputError, ParameterError
from hardmax.text import files
from hardmax.text.files import ENDINGS
from hardmax.text.tables import TextTable, class_counts, imbalance_note, read_texts

TEXTS = [
    "a warm film, twice",
    "",
    'he said "no"\nand left',
    "caf\u00e9 \u2028 \U0001f3ac",
    "plain",
]
LABELS = ["pos", "neg", "neg", "pos", "pos"]
ROWS = [
    {"id": str(i), "text": text, "label": label}
    for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format of the ending."""
    frame, kind = pd.DataFrame(rows), path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        frame.to_parquet(path, index=False)
    elif kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    elif kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    else:
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    return path


def raises(path: Path, name: str | Path, match: str = "", **options: Any) -> None:
    """Check that reading is refused with an error that names a parameter or the file."""
    with pytest.raises(ParameterError, match=match or None) as problem:
        read_texts(path, **options)
    assert str(name) in problem.value.names


@pytest.mark.parametrize(
    "ending", [ending for ending in (*ENDINGS, ".CSV") if ending != ".txt"]
)
def test_every_format_gives_the_same_table(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"reviews.v1{ending.lower()}", ROWS).rename(
        tmp_path / f"reviews.v1{ending}"
    )
    texts, labels = ([column[i] for i in (0, 2, 3, 4)] for column in (TEXTS, LABELS))
    assert read_texts(path) == TextTable(
        texts, labels, "text", "label", 1
    )  # the row without text is left out
    assert read_texts(str(path), labelled=False) == TextTable(
        TEXTS, None, "text", None, 0, blank=1
    )
    assert read_texts(path, text="label", label="id") == TextTable(
        LABELS, list("01234"), "label", "id", 0
    )
    assert read_texts(path, text="label", label="id").note == ""


def test_text_files_hold_one_text_per_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reviews.txt"
    path.write_bytes("one\r\n\r\ntwo \u2028 three\nlast".encode())
    table = TextTable(["one", "", "two \u2028 three", "last"], None, "text", blank=1)
    assert read_texts(path, labelled=False) == table
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes()), "ascii")
    )
    assert read_texts("-", labelled=False) == table
    raises(path, "path", "labelled=False")
    raises(path, "text", labelled=False, text="words")


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
def test_columns_found(
    tmp_path: Path,
    columns: list[str],
    options: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    path = write(
        tmp_path / "t.csv",
        [{name: f"{name.strip()} {i}" for name in columns} for i in range(2)],
    )
    table = read_texts(path, **options)
    assert (table.text_column, table.label_column) == expected
    assert table.texts == [f"{expected[0]} 0", f"{expected[0]} 1"]


@pytest.mark.parametrize(
    ("columns", "options", "name", "match"),
    [
        ("text,label", {"text": "txt"}, "text", "Did you mean 'text'"),
        ("text,label", {"label": "Label"}, "label", "Did you mean 'label'"),
        ("text,label", {"text": "zz"}, "text", "The columns are: text, label"),
        ("text,review,label", {}, "text", ""),
        ("text,a,b", {}, "label", ""),
        ("text", {}, "label", ""),
        ("text,text,label", {"text": "text"}, "text", "names 2"),
        ("text,label", {"text": "text", "label": "text"}, "label", ""),
        (",".join(f"c{i}" for i in range(30)), {}, "text", "c18, c19 and 10 more"),
        (
            f"{'very long ' * 9},b,c",
            {},
            "text",
            "very long very long very long very lo..., b, c",
        ),
    ],
)
def test_columns_not_found(
    tmp_path: Path, columns: str, options: dict[str, Any], name: str, match: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{columns}\n{','.join('x' * len(columns.split(',')))}\n")
    raises(path, name, re.escape(match), **options)


def test_numbers_are_labels_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,1\nb,1.0\nc,True\nd, x \n")
    assert read_texts(tmp_path / "a.csv").labels == ["1", "1.0", "True", "x"]
    (tmp_path / "a.jsonl").write_text(
        '{"text": 7, "label": 1}\n{"text": 0.10, "label": 1.0}\n'
    )
    assert read_texts(tmp_path / "a.jsonl").labels == ["1", "1.0"]
    assert read_texts(tmp_path / "a.jsonl").texts == ["7", "0.10"]
    path = write(
        tmp_path / "a.parquet", [{"text": 3, "label": 1.0}, {"text": 4, "label": 0.0}]
    )
    assert read_texts(path) == TextTable(["3", "4"], ["1.0", "0.0"], "text", "label")
    assert read_texts(
        write(tmp_path / "b.parquet", [{"text": "x", "label": False}])
    ).labels == ["False"]
    (tmp_path / "b.csv").write_text("text,label\na,1.0\nb,0.0\nc,\n")
    assert read_texts(tmp_path / "b.csv").labels == [
        "1",
        "0",
    ]  # programs write integers beside gaps as floats
    (tmp_path / "c.csv").write_text("text,label\na,1.0\nb,0.5\nc,\n")
    assert read_texts(tmp_path / "c.csv").labels == ["1.0", "0.5"]


def test_rows_without_text_or_label_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a", "label": "x"}\n\n{"text": null, "label": "x"}\n{"label":'
        ' "x"}\n{"text": "b"}\n{"text": "c", "label": NaN}\n{"text": "d", "label": "'
        ' "}\n{"text": NaN, "label": "x"}\n'
    )
    assert read_texts(path) == TextTable(["a"], ["x"], "text", "label", 6)
    assert read_texts(path).note == "Left out 6 of 7 rows without text or label."
    unlabelled = read_texts(path, labelled=False)
    assert unlabelled.texts == [
        "a",
        "",
        "",
        "b",
        "c",
        "d",
        "",
    ]  # rows keep their numbers
    assert unlabelled.note == "3 of 7 rows have no text; they count as empty texts."
    rows = [
        {"text": "a", "label": 1.0},
        {"text": "b", "label": float("nan")},
        {"text": None, "label": 0.0},
    ]
    assert read_texts(write(tmp_path / "a.parquet", rows)).skipped == 2
    (tmp_path / "a.csv").write_text("text,label\n\n,x\nb,\nc,nan\n  ,x\nd,y\n")
    assert read_texts(tmp_path / "a.csv") == TextTable(["d"], ["y"], "text", "label", 4)
    (tmp_path / "none.csv").write_text("text,label\na,\nb,\n")
    raises(tmp_path / "none.csv", tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("a.csv", ";"),
        ("a.csv", "\t"),
        ("a.csv", "|"),
        ("a.tsv", ","),
        ("a.tsv", ";"),
        ("a.csv", ","),
    ],
)
def test_delimiters_are_detected(tmp_path: Path, name: str, mark: str) -> None:
    path = tmp_path / name
    rows = [
        [],
        ["id", "text", "label"],
        ["1", f"warm{mark} twice; or, more", "pos"],
        ["2", "cold", "neg"],
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=mark).writerows(rows)
    assert read_texts(path) == TextTable(
        [rows[2][1], "cold"], ["pos", "neg"], "text", "label"
    )
    assert read_texts(path, delimiter="tab" if mark == "\t" else mark) == read_texts(
        path
    )


def test_delimiters_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sep=;\r\ntext;label\r\na, b;x\r\n")  # as Excel writes it
    assert read_texts(path) == TextTable(["a, b"], ["x"], "text", "label")
    path.write_text("text~label\na, b~x\n")
    assert read_texts(path, delimiter="~") == TextTable(
        ["a, b"], ["x"], "text", "label"
    )
    raises(path, "delimiter", delimiter=";;")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "x"}\n')
    raises(tmp_path / "a.jsonl", "delimiter", delimiter=";")
    raises(path, "sheet", sheet="a")


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    content = "text,label\nok,x\ncaf\u00e9,y\n"
    path.write_bytes(content.encode("utf-8-sig"))
    assert (
        read_texts(path, encoding="UTF-8").text_column
        == read_texts(path).text_column
        == "text"
    )
    path.write_bytes(content.encode("latin-1"))
    raises(path, path, r"19 in line 3. .* `encoding='latin-1'`", encoding="utf-8")
    assert read_texts(path, encoding="latin-1").texts == ["ok", "caf\u00e9"]
    path.write_bytes(content.encode("utf-16"))
    raises(path, path, "`encoding='utf-16'`", encoding="utf-8")
    assert (
        read_texts(path).texts
        == read_texts(path, encoding="utf-16").texts
        == ["ok", "caf\u00e9"]
    )
    raises(path, "encoding", encoding="klingon")
    for text in (
        content,
        "text,label\na,x\n",
    ):  # without its mark half of the bytes are 0, which is not Latin-1
        path.write_bytes(text.encode("utf-16-le"))
        raises(path, path, "`encoding='")
        assert len(read_texts(path, encoding="utf-16-le").texts) == text.count("\n") - 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9", "caf\u00e9"),
        (b"\x93ok\x94 \x80 5", "\u201cok\u201d \u20ac 5"),
        (b"\x81\xe9", "\x81\u00e9"),
    ],
)
def test_latin_1_is_guessed_and_noted(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\nok,x\n" + data + b",y\n")
    assert read_texts(path).texts == ["ok", text]
    note = read_texts(path, labelled=False).note
    assert re.search(
        r"a.csv is not UTF-8 \(a byte at offset \d+ in line 3\), and was read as"
        r" Latin-1. If .* `encoding`",
        note,
    )
    assert read_texts(path, encoding="latin-1").note == ""


def test_sheets_of_excel(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "May"
    for row in (
        [None, None],
        ["Comment ", "Label"],
        ["warm", 1],
        [None, None],
        ["cold", 0],
        ["", 1],
    ):
        book["May"].append(row)
    path = tmp_path / "a.xlsx"
    book.save(path)
    assert read_texts(path) == TextTable(
        ["warm", "cold"], ["1", "0"], "Comment", "Label", 1
    )
    for row in (["text", "label"], ["other", "x"]):
        (book["June"] if "June" in book else book.create_sheet("June")).append(row)
    book.save(path)
    assert re.fullmatch(
        "Read sheet 'May' of .*a.xlsx; for June pass `sheet`. Left out 1 of 3 rows.*",
        read_texts(path).note,
    )
    assert read_texts(path, sheet="June") == TextTable(
        ["other"], ["x"], "text", "label"
    )
    raises(path, "sheet", "Did you mean 'June'", sheet="Jun")
    raises(path, "encoding", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.csv", "", "an empty file"),
        ("a.jsonl", "\n\n", "an empty file"),
        ("a.csv", "text,label\n", "a header alone"),
        (
            "a.csv",
            'text,label\n"a\nb",x\n\nc,x,y\n',
            "2 fields in each row, .* Got 3 in row 2",
        ),
        (
            "a.tsv",
            "text\tlabel\na\n",
            "2 fields in each row, as in its header. Got 1 in row 1",
        ),
        ("a.csv", 'text,label\na,x\n"b,x\nc,y\n', "a quote that is not closed"),
        ("a.csv", 'text,label\na,"b\nc,d\n', "a quote that is not closed"),
        ("a.csv", 'text,"label\na,b\n', "a quote that is not closed"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": \n', "Got line 3"),
        ("a.jsonl", '{"text": "a"}\n[1, 2]\n', "in line 2"),
        ("a.jsonl", "7\n", "in line 1"),
        ("a.jsonl", "[" * 100_000, "Got line 1: maximum recursion"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "b", "label": 1}',
            "a text in row 1 and a number in row 2",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": true}\n{"text": "b", "label": "x"}',
            "a boolean in row 1 and a text in row 2",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": ["b"], "label": 1}\n',
            "text column .* a list in row 2",
        ),
        ("a.jsonl", '{"text": "a", "label": {}}\n', "label column .* a dict in row 1"),
        ("a.csv.gz", "text,label\n", "must be a whole gzip file"),
        ("a.parquet", "text,label\n", "must be a Parquet file"),
        ("a.xlsx", "x", "must be an Excel file"),
        ("a.ods", "x", "`path` must be a file that ends in"),
        ("a.gz", "x", "`path` must be a file that ends in"),
        ("a", "x", "`path` must be a file that ends in"),
    ],
)
def test_invalid_files(tmp_path: Path, name: str, content: str, match: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=match) as problem:
        read_texts(tmp_path / name)
    assert str(tmp_path / name) in str(problem.value)


def test_long_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"text": "a", "label": "x"}, {"text": "word " * 60_000, "label": "a"}]
    for name in ("a.csv", "a.jsonl"):
        path = write(tmp_path / name, rows)
        assert len(read_texts(path).texts[1]) == 300_000
        with monkeypatch.context() as patch:
            patch.setattr(files, "MAX_LINE_CHARACTERS", 100_000)
            raises(path, path, "at most 100,000")


def test_damaged_and_missing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.csv"):
        read_texts(tmp_path / "no.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match="It is a folder"):
        read_texts(tmp_path / "folder.csv")
    packed, path = (
        write(tmp_path / "a.jsonl.gz", ROWS),
        write(tmp_path / "a.parquet", ROWS),
    )
    packed.write_bytes(packed.read_bytes()[:-9])
    data = path.read_bytes()
    pages = (
        len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    )  # the footer stays intact
    path.write_bytes(data[:4] + b"\xff" * (pages - 4) + data[pages:])
    for damaged, match in (
        (packed, "must be a whole gzip file"),
        (path, "must be a Parquet file"),
    ):
        with pytest.raises(InputError, match=match):
            read_texts(damaged)
    pq.write_table(
        pa.table({"text": pa.array([], "string"), "label": pa.array([], "string")}),
        path,
    )
    raises(path, path, "a header alone")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install .*\[text\]"):
        read_texts(path)


def test_classes_are_counted() -> None:
    assert list(class_counts(["b", "a", "b"]).items()) == [("a", 1), ("b", 2)]
    assert len(class_counts([str(i) for i in range(20)])) == 20
    assert len(class_counts([str(i // 2) for i in range(42)])) == 21
    for labels in (["pos"] * 120, [], [str(i) for i in range(21)]):
        with pytest.raises(ParameterError) as problem:
            class_counts(labels)
        assert problem.value.names == ("label",)


def test_uneven_classes_are_noted() -> None:
    note = imbalance_note({"a": 49, "b": 951})
    assert note.startswith(
        "The classes are uneven: b 95.1 %, a 4.9 %. Always answering 'b' would be right"
        " in 95.1 %"
    )
    for even in ({"a": 50, "b": 950}, {"a": 1, "b": 1, "c": 1}, {}):
        assert imbalance_note(even) == ""
    assert "and 5 more" in imbalance_note({str(i): 1 if i else 9999 for i in range(25)})
