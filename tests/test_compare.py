"""The pages that compare show recorded numbers, and what they say in words follows from these."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks import corpora, imdb, pages, report
from benchmarks.clustering import UNTOLD

from hardmax.figures.shared import read_results
from hardmax.text.datasets import reviews

ROOT = Path(__file__).parents[1]
SMALL = read_results("small")


def text(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", pages.PAGES)
def test_tables_are_those_of_the_recorded_runs(name: str) -> None:
    assert pages.filled(name, text(name)) == text(name)
    with pytest.raises(ValueError, match=r"must be a file with the marks <!-- made by python -m benchmarks.pages: "):
        pages.filled(name, "no marks")


def test_every_page_says_the_same_things() -> None:
    for name in pages.PAGES:
        if name.startswith("compare/"):
            for heading in ("for\n", "better\n", "side by side\n", "## Numbers\n", "## Which should I use?\n"):
                assert heading in text(name), (name, heading)
            assert f"({name.removeprefix('compare/')}.md)" in text("compare/index")


def test_the_page_of_the_classifier_shows_what_was_measured_on_imdb() -> None:
    page = text("classifier")
    assert report.fill(page, imdb.markdown(pages.recorded("imdb")), imdb.BEGIN) == page


def test_imdb_is_measured_and_the_best_is_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    made = reviews(1200, seed=3)
    frame = pandas.DataFrame({"text": made.texts, "label": [int(label == "positive") for label in made.labels]})
    for part in ("train", "test"):
        frame.to_parquet(tmp_path / f"{part}.parquet")
    monkeypatch.setenv("IMDB", str(tmp_path))
    found = imdb.measure(quick=True)
    assert [row["tokens"] for row in found["rows"]][1:] == [100_000, 30_488]
    assert all(row["accuracy"] > 0.4 for row in found["rows"])
    assert found["rows"][0]["training seconds"] > 0
    assert found["rows"][1]["training peak"] is None  # trained already
    if sys.platform == "linux":
        assert found["rows"][0]["training peak"] > 0
        assert all(row["test peak"] >= 0 for row in found["rows"])
    assert [line.count("|") for line in imdb.markdown(found).splitlines()] == [8] * 6
    accuracies = [float(line.split(" | ")[2]) for line in imdb.markdown(found).splitlines()[2:]]
    assert accuracies == sorted(accuracies)


def test_files_of_rows_are_kept_by_their_number(tmp_path: Path) -> None:
    record = tmp_path / "rows.json"
    for rows, size in ((20, 1.0), (10, 2.0), (20, 3.0)):
        corpora.keep({"rows": rows, "answers MB": size}, record)
    kept = json.loads(record.read_text(encoding="utf-8"))["rows"]
    assert kept == [{"rows": 10, "answers MB": 2.0}, {"rows": 20, "answers MB": 3.0}]


def test_what_is_said_of_tfidf_is_so() -> None:
    for row in SMALL:
        ours, linear = row["methods"]["hardmax"], row["methods"]["TF-IDF"]
        long = "reviews" in row["variant"]
        if (row["variant"], row["rows"]) != ("reviews, 2 classes, even, 10000 rows", 10_000):
            assert linear["seconds"][0] < ours["seconds"][0], row["variant"]
        if "even" in row["variant"] and long:
            assert ours["accuracy"][0] > linear["accuracy"][0] + 0.01, row["variant"]
        if "90:10" in row["variant"] and not long:
            assert linear["accuracy"][0] > ours["accuracy"][0], row["variant"]
        if "90:10" in row["variant"] and long:
            assert ours["f1"][0] > row["methods"]["TF-IDF, balanced"]["f1"][0], row["variant"]
    labelled = {row.method: row.seconds or 0 for row in pages.cases()["classifier_explain"].rows}
    assert labelled["TF-IDF and logistic regression, labels alone"] < labelled["explain_many, labels"]
    people = {row["method"]: row for row in pages.recorded("people")["rows"]}
    for score in ("auprc", "f1"):  # level
        assert abs(people["hardmax-even"][score] - people["linear"][score]) < 0.01


def test_what_is_said_of_lime_and_shap_is_so() -> None:
    found = read_results("explanations")
    rows = {row["method"]: row for row in found["rows"]}
    others = [rows[name] for name in ("lime", "shap-partition", "shap-permutation")]
    assert all(rows["hardmax"]["comprehensiveness"] > other["comprehensiveness"] for other in others)
    assert all(other["seconds"] > 50 * rows["hardmax"]["seconds"] for other in others)
    assert rows["lime"]["sufficiency"] < min(rows["hardmax"]["sufficiency"], rows["hardmax-even"]["sufficiency"])
    assert rows["lime"]["same_again"] < 1 > rows["shap-permutation"]["same_again"]
    people = {row["method"]: row["auprc"] for row in found["agreement"]}
    assert max(people, key=lambda name: people[name]) == "shap-partition"


def test_what_is_said_of_clusterers_is_so() -> None:
    ari = {(row["data"], row["method"]): row["ARI"] for row in pages.recorded("clustering")["rows"]}
    for data in ("digits", "phrases", "sentences"):
        assert ari[data, "hardmax"] > max(ari[data, "HDBSCAN"], ari[data, "AffinityPropagation"])
    for data in ("moons", "circles"):
        assert ari[data, UNTOLD] == 1.0
        assert max(ari[data, "KMeans"], ari[data, "AffinityPropagation"]) < 0.5
    assert ari["no structure", UNTOLD] == 1.0
    assert ari["no structure", "AffinityPropagation"] == 0.0
    assert ari["blobs", "KMeans"] > ari["blobs", "hardmax"]
    for case in pages.cases("clustering_speed").values():
        assert {row.method: row.ratio or 1 for row in case.rows}["KMeans"] < 0.2


def test_what_is_said_of_faiss_and_attention_is_so() -> None:
    found = pages.cases()
    for name in pages.SEARCHES:
        assert all((row.ratio or 2) > 1 for row in found[name].rows if row.method.startswith("FAISS"))
    rows = [row for row in pages.recorded("scaling")["rows"] if row["n"] == 100]
    fastest = {(row["d"], row["tokens"]): min(rows, key=lambda each: each["seconds"]) for row in rows}
    assert {row["method"] for row in fastest.values()} == {"FAISS"}
    gpu = {(row["case"], row["how"]): row["times as fast"] for row in pages.recorded("gpu")["rows"]}
    graphs = {case: times for (case, how), times in gpu.items() if how == "CUDA graph"}
    assert all(any(case.startswith(name) for case, _ in gpu) for name in pages.GPU)
    lost = [name for name in pages.GPU if any(times < 1 for case, times in graphs.items() if case.startswith(name))]
    assert lost == ["forward, bfloat16, batch 512, n = 512, d = 64, against SDPA"]  # short rows without a gradient
