"""Tables that spreadsheets open: no cell of an exported CSV file runs as a formula."""

import csv
import io
from pathlib import Path

import pytest

pytest.importorskip("panel")
pytest.importorskip("sklearn")

from hardmax import HardmaxClassifier, pretrained
from hardmax.app import cluster_exports, review_exports, review_files
from hardmax.app.cluster_points import read
from hardmax.app.clusters import ClusterStore
from hardmax.text.files import escape_formulas

RISKY = ['=HYPERLINK("http://host")', "+1 great film", "-2+3 cmd", "@SUM(A1)", "\t=1+1"]


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def is_formula(cell: str) -> bool:
    """Tell whether a spreadsheet would run a cell; a number is none."""
    try:
        float(cell)
    except ValueError:
        return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


def test_answers_of_the_app_hold_no_formulas() -> None:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([["text"], *([text] for text in RISKY), ["a - good film"]])
    table = review_files.texts_of("t.csv", buffer.getvalue().encode())
    rows = cells_of(review_files.answered(pretrained("imdb").model_, "t.csv", table).to_csv())
    assert [row[1] for row in rows[1:]] == [*(f"'{text}" for text in RISKY), "a - good film"]
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_an_explanation_holds_no_formulas(tmp_path: Path) -> None:
    labels = ["=good", "@bad", "odd"]  # names of columns
    texts = [f"film {label} number{i}" for i, label in enumerate(labels * 4)]
    HardmaxClassifier(n_heads=3, groups=1).fit(texts, labels * 4).save(tmp_path)
    rows = cells_of(review_exports.as_file(str(tmp_path), "=good film, +bad -2 @home", 0, "csv").decode())
    assert {"'=good", "'@bad", "odd"} <= set(rows[0])
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_exported_clusters_hold_no_formulas() -> None:
    names = ["=one", "+two", "-three", "@four", "five"]
    body = "".join(f"{name},{i % 2 * 9 + i / 10},{-i}\n" for i, name in enumerate(names))
    points = read(f"name,=x,@y\n{body}", "points.csv")
    rows = cells_of(cluster_exports.as_file(ClusterStore(points).clusters(), "csv").decode())
    assert [row[0] for row in rows] == ["point", "'=one", "'+two", "'-three", "'@four", "five"]
    assert rows[0][1:3] == ["'=x", "'@y"]
    assert [row[2] for row in rows[1:]] == [str(float(-i)) for i in range(5)]  # numbers are as they were
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_the_command_line_writes_no_formulas(run) -> None:
    with Path("rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "=id", "score"], *([text, "-7", "-0.5"] for text in RISKY)])
    assert run("predict", "--file", "rows.csv", "--text", "text", "--keep", "--out", "answers.csv")[0] == 0
    rows = cells_of(Path("answers.csv").read_text())
    assert rows[0][:3] == ["text", "'=id", "score"]
    assert [row[:3] for row in rows[1:]] == [[f"'{text}", "-7", "-0.5"] for text in RISKY]
    assert not any(is_formula(cell) for row in rows for cell in row)


def test_escaping_keeps_the_types_of_other_cells():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.Series([9007199254740993, None, "=1"], dtype=object), "b": [1, 2, 3]})
    safe = escape_formulas(frame)
    assert safe["a"].tolist() == [9007199254740993, None, "'=1"]
    assert safe["b"].tolist() == [1, 2, 3]
