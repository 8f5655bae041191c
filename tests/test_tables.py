"""Tables that spreadsheets open: no cell of an exported CSV file runs as a formula."""

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("starlette")
pytest.importorskip("sklearn")

from hardmax import HardmaxClassifier
from hardmax.app import texts as app_texts
from hardmax.text.files import escape_formulas, is_number

RISKY = ['=HYPERLINK("http://host")', "+1 great film", "-2+3 cmd", "@SUM(A1)", "\t=1+1"]


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet would run a cell; it does not run numbers."""
    return cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number(cell)


def test_an_explanation_holds_no_formulas(tmp_path: Path) -> None:
    labels = ["=good", "@bad", "odd"]  # names of columns
    texts = [f"film {label} number{i}" for i, label in enumerate(labels * 4)]
    HardmaxClassifier(n_heads=3, groups=1).fit(texts, labels * 4).save(tmp_path)
    model, text = (
        app_texts.load(str(tmp_path)),
        app_texts.Text("=good film, +bad -2 @home"),
    )
    rows = cells_of(
        app_texts.to_file(
            str(tmp_path), model, text, 0, "csv", lambda done, total: None
        ).decode()
    )
    assert {"'=good", "'@bad", "odd"} <= set(rows[0])
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_the_command_line_writes_no_formulas(run) -> None:
    with Path("rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["text", "=id", "score"], *([text, "-7", "-0.5"] for text in RISKY)]
        )
    assert (
        run(
            "predict",
            "--file",
            "rows.csv",
            "--text",
            "text",
            "--keep",
            "--out",
            "answers.csv",
        )[0]
        == 0
    )
    rows = cells_of(Path("answers.csv").read_text())
    assert rows[0][:3] == ["text", "'=id", "score"]
    assert [row[:3] for row in rows[1:]] == [
        [f"'{text}", "-7", "-0.5"] for text in RISKY
    ]
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_escaping_keeps_the_types_of_other_cells():
    frame = pd.DataFrame(
        {"a": pd.Series([9007199254740993, None, "=1"], dtype=object), "b": [1, 2, 3]}
    )
    safe = escape_formulas(frame)
    assert safe["a"].tolist() == [9007199254740993, None, "'=1"]
    assert safe["b"].tolist() == [1, 2, 3]
