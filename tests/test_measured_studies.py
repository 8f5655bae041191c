"""Measured studies: clusterers are compared at their best, and every study has its record and its place."""

import numpy as np
import pytest
from benchmarks.machine import RESULTS, ROOT
from sklearn.datasets import make_blobs
from studies import clusterers, curves, measure, rules


def silent(text: str) -> None:
    """Ignore progress."""


def test_every_study_has_its_record_and_its_page_or_picture():
    for name, study in measure.STUDIES.items():
        assert (RESULTS / f"{name}.json").is_file()
        assert (study.table is None) == (study.page == "")
        assert (study.draw is None) == (study.picture == "")
        assert (ROOT / (study.page or study.picture)).is_file()


def test_a_row_is_the_best_of_its_grid():
    X, y = make_blobs(200, 16, centers=10, random_state=0)
    tried = clusterers.settings("HDBSCAN", X, 10)
    scores = [clusterers.score(y, clusterers.fit_labels("HDBSCAN", one, X)[0]) for one in tried]
    row = clusterers.best_row("blobs", X, y, "HDBSCAN")
    assert row["ARI"] == round(max(scores), 3) > min(scores)
    assert row["with"] == f"min_cluster_size={clusterers.MIN_CLUSTER_SIZES[int(np.argmax(scores))]}"


@pytest.mark.parametrize("name", clusterers.METHODS)
def test_every_method_finds_blobs(name):
    X, y = make_blobs(150, 16, centers=10, random_state=0)
    assert clusterers.best_row("blobs", X, y, name)["ARI"] > 0.9


def test_draws_are_averaged():
    rows = [{"ARI": 0.5, "seconds": 1.0, "found": 2, "peak": 7.0, "with": "a"}]
    rows.append({"ARI": 1.0, "seconds": 3.0, "found": 3, "peak": None, "with": "b"})
    mean = clusterers.mean_row(rows)
    assert (mean["ARI"], mean["seconds"], mean["found"], mean["peak"], mean["with"]) == (0.75, 2.0, 2.5, 7.0, "a / b")


def test_clusters_of_unequal_size_are_found():
    rows = clusterers.measure_unequal(True, silent)["rows"]
    assert [row["seed"] for row in rows] == [0, 1]
    assert all(row["ARI"]["hardmax"] >= 0.95 for row in rows)


def test_chance_counts_draws_with_several_clusters(monkeypatch):
    two = {"two": lambda random, n: random.random((n, 2)) + 9.0 * (np.arange(n) % 2)[:, None]}
    monkeypatch.setattr(clusterers, "WITHOUT_CLUSTERS", two)
    assert [row["several"] for row in clusterers.measure_chance(True, silent)["rows"]] == [2, 2]


def test_rules_are_compared_only_where_their_formula_agrees(monkeypatch):
    ratios = [row["times as fast"] for row in rules.measure(True, silent)["rows"]]
    assert sum(isinstance(ratio, float) for ratio in ratios) == 4
    monkeypatch.setattr(rules, "MAX_DIFFERENCE", 0.0)
    assert "answers differ" in [row["times as fast"] for row in rules.measure(True, silent)["rows"]]


def test_a_curve_ends_where_a_run_takes_too_long(monkeypatch):
    monkeypatch.setattr(curves, "METHODS", {2: ("numpy",)})
    monkeypatch.setattr(curves, "MAX_SECONDS", 0.0)
    assert [(row["tokens"], row["n"]) for row in curves.scaling_rows(True)] == [("gaussian", 100), ("sphere", 100)]


@pytest.mark.slow
def test_many_points_are_clustered_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(clusterers, "SIZES", {clusterers.NO_NUMBER: (20_000,), "MiniBatchKMeans": (20_000,)})
    rows = clusterers.measure_sizes(True, silent)["rows"]
    assert [(row["found"], row["ARI"]) for row in rows] == [(10, 1.0)] * 2
