"""Studies run at small sizes, and pages, tables and pictures agree with the recorded
files.
"""

import json
import re
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from itertools import product

import numpy as np
import pandas as pd
import pytest
from benchmarks import CASES, gpu, report
from benchmarks.machine import RESULTS, ROOT
from sklearn.datasets import make_blobs
from studies import (
    causal,
    classifier_rivals,
    clusterers,
    curves,
    hull_cache,
    mean_field,
    measure,
    pages,
    rules,
)
from studies.__main__ import STUDIES, filled
from studies.endings import CONSENSUS, smallest_cycle
from studies.flow_accuracy import problems, relative_error, solve
from studies.leaders import expected

import hardmax as hm
from hardmax.scale.cells import CELLS

NAMED = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
TABLES = pages.tables()
FACTS = re.compile(r"<!-- made by python -m studies (\w+) -->")  # sentences from sweeps


# Recorded files


@pytest.mark.parametrize("page", TABLES)
def test_tables_of_a_page_equal_the_recorded_files(page):
    assert pages.fill_page(page, TABLES[page]) == (ROOT / page).read_text(
        encoding="utf-8"
    )


def test_every_mark_has_a_writer():
    for path in [
        ROOT / "benchmarks" / "README.md",
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]:
        marks = set(
            re.findall(r"<!-- made by .*? -->", path.read_text(encoding="utf-8"))
        )
        marks = {mark for mark in marks if not FACTS.fullmatch(mark)}
        assert marks == set(TABLES.get(str(path.relative_to(ROOT)), {})), path
    with pytest.raises(ValueError, match="`markdown`"):
        report.fill("a page without marks", "table")


def test_measurements_that_are_named_in_the_docs_and_in_the_code_exist():
    folders = (
        "README.md",
        "docs/**/*.md",
        "benchmarks/*.md",
        "src/**/*.py",
        "studies/*.py",
        "examples/**/*.py",
    )
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in ROOT.glob(folder)
    )
    text = re.sub(r"<!--.*?-->", "", text)
    assert set(re.findall(r"python -m benchmarks ([a-z]\w+)", text)) <= {
        *CASES,
        "flows",
    }
    assert (
        set(re.findall(r"python -m studies\.measure ([a-z]\w+)", text))
        <= measure.STUDIES.keys()
    )
    assert all(
        map(
            find_spec,
            set(re.findall(r"python -m ((?:benchmarks|studies)\.[a-z]\w+)", text)),
        )
    )


def test_recorded_cases_and_studies_are_registered():
    for document in report.documents(RESULTS / "cpu.json"):
        assert report.cases_by_name(document).keys() <= CASES.keys()
    for name, study in measure.STUDIES.items():
        assert (RESULTS / f"{name}.json").is_file()
        assert (study.table is None, study.draw is None) == (
            study.page == "",
            study.picture == "",
        )
        assert (ROOT / (study.page or study.picture)).is_file()


def test_gpu_ratios_follow_from_the_recorded_times():
    for row in pages.record("gpu")["rows"]:
        again = gpu.row(
            row["case"],
            row["how"],
            row["ours ms"],
            row["other ms"],
            (0, 0),
            row["target"] or None,
        )
        assert (again["times as fast"], again["reached?"]) == (
            row["times as fast"],
            row["reached?"],
        )


def test_ratios_against_peers_show_both_kinds_of_machine(monkeypatch):
    rows = [
        {"method": "ours", "seconds": 0.001},
        {"method": "peer", "seconds": 0.1, "ratio": 100.0},
    ]
    case = {"name": "toy", "title": "Toy tokens", "date": "2026-01-01", "rows": rows}
    native = {"machine": {"instructions": "AVX-512"}, "cases": [case]}
    other = {
        "machine": {"instructions": "AVX2 (kept from AVX-512)"},
        "cases": [case | {"rows": rows[:1]}],
    }
    monkeypatch.setattr(report, "documents", lambda path: [native, other])
    last = pages.against(("peer",), ("toy",)).splitlines()[-1]
    assert last == "| Toy tokens | peer | 1 | 100 | 100 | 1 |  |  |"


# Sweeps of the dynamics


@NAMED
def test_a_page_states_the_facts_of_its_table(study):
    table, page = pd.read_csv(study.table), study.page.read_text(encoding="utf-8")
    assert filled(page, study, table) == page
    assert table["runs"].sum() >= (3_000 if study.cell == "flows" else 100_000)
    assert f"../images/{study.picture.name}" in page
    assert study.picture.stat().st_size > 10_000
    assert len(table) == np.prod(
        [len(values) for name, values in study.grid.items() if name != "seed"]
    )
    assert all(ax.has_data() for ax in study.draw(table).axes)


@NAMED
def test_a_sweep_gives_the_columns_of_the_table(study):
    if not study.cell:
        pytest.skip("this study takes the token sets of a cell in two batches")
    first = {name: list(values)[:1] for name, values in study.grid.items()} | {
        "seed": [0, 1, 2]
    }
    rows = []
    for index, values in enumerate(product(*first.values())):
        params = dict(zip(first, values, strict=True))
        rows.append(
            {
                "cell": index,
                **params,
                **CELLS[study.cell](params, np.random.default_rng(index)),
            }
        )
    kept = study.keep(pd.DataFrame(rows))
    assert list(kept.columns) == list(pd.read_csv(study.table).columns)
    assert kept["runs"].tolist() == [3]


def test_the_comparison_with_causal_attention_equals_single_limits():
    row, table = causal.compare(0.5, 8, 2, draws=20), pd.read_csv(causal.STUDY.table)
    assert list(causal.keep(pd.DataFrame([row])).columns) == list(table.columns)
    rules = [hm.Hardmax(Fraction(1, 2), causal=masked) for masked in (False, True)]
    batch, same, leaders = (
        np.random.default_rng([8, 2]).normal(size=(20, 8, 2)),
        0,
        [0, 0],
    )
    for tokens in batch:
        limits = [hm.limit(tokens, rule) for rule in rules]
        leaders = [
            number + len(limit.leaders)
            for number, limit in zip(leaders, limits, strict=True)
        ]
        ends = [limit.exact().tolist() for limit in limits]
        same += sum(one == other for one, other in zip(*ends, strict=True))
    assert (row["certified_full"], row["certified_causal"]) == (20, 20)
    assert [row["leaders_full"], row["leaders_causal"]] == pytest.approx(
        [number / 20 for number in leaders]
    )
    assert row["same_limit"] == pytest.approx(same / 160)


@pytest.mark.parametrize("tokens", ["gaussian", "ball"])
@pytest.mark.parametrize("n", [1, 5])
def test_on_a_line_both_ends_lead_unless_all_are_on_one_side(tokens, n):
    assert expected(tokens, n, 1) == pytest.approx(2 - 2 * 0.5**n)


def test_the_smallest_cycle_returns():
    n, A, tokens, length = smallest_cycle()
    run = hm.simulate(
        np.array(tokens, float),
        hm.Hardmax(1.0, np.array(A, float), any_A=True),
        layers=3 * length,
    )
    doubled = [
        run.array[k] * 2.0**k for k in range(3 * length + 1)
    ]  # powers of two: without rounding
    assert (n, length) == (3, 6)
    for k in range(2 * length):
        assert np.array_equal(doubled[k], doubled[k + length])
        assert not np.array_equal(doubled[k], doubled[k + 1])


@pytest.mark.parametrize(("A", "tokens"), CONSENSUS)
def test_two_tokens_that_would_both_lead_meet(A, tokens):
    start, A = np.array(tokens, float), np.array(A, float)
    assert hm.limit(start, hm.Hardmax(1.0)).leaders.tolist() == [0, 1]
    ends = hm.simulate(start, hm.Hardmax(1.0, A, any_A=True), layers=60).array[-1]
    assert np.allclose(ends, start.mean(axis=0) if (A < 0).all() else start[1])


# Clusterers and rules


@pytest.mark.parametrize("name", clusterers.METHODS)
def test_every_clusterer_finds_blobs(name):
    X, y = make_blobs(150, 16, centers=10, random_state=0)
    assert clusterers.best_row("blobs", X, y, name)["ARI"] > 0.9


def test_a_row_is_the_best_of_its_grid_and_the_mean_of_its_draws():
    X, y = make_blobs(200, 16, centers=10, random_state=0)
    tried = clusterers.settings("HDBSCAN", X, 10)
    scores = [
        clusterers.score(y, clusterers.fit_labels("HDBSCAN", one, X)[0])
        for one in tried
    ]
    row = clusterers.best_row("blobs", X, y, "HDBSCAN")
    assert row["ARI"] == round(max(scores), 3) > min(scores)
    assert (
        row["with"]
        == f"min_cluster_size={clusterers.MIN_CLUSTER_SIZES[int(np.argmax(scores))]}"
    )
    rows = [{"ARI": 0.5, "seconds": 1.0, "found": 2, "peak": 7.0, "with": "a"}]
    rows.append({"ARI": 1.0, "seconds": 3.0, "found": 3, "peak": None, "with": "b"})
    mean = clusterers.mean_row(rows)
    assert (
        mean["ARI"],
        mean["seconds"],
        mean["found"],
        mean["peak"],
        mean["with"],
    ) == (0.75, 2.0, 2.5, 7.0, "a / b")


def test_unequal_clusters_and_chance_are_measured(monkeypatch):
    rows = clusterers.measure_unequal(True, print)["rows"]
    assert [row["seed"] for row in rows] == [0, 1]
    assert all(row["ARI"]["hardmax"] >= 0.95 for row in rows)
    two = {
        "two": lambda random, n: (
            random.random((n, 2)) + 9.0 * (np.arange(n) % 2)[:, None]
        )
    }
    monkeypatch.setattr(clusterers, "WITHOUT_CLUSTERS", two)
    assert [
        row["several"] for row in clusterers.measure_chance(True, print)["rows"]
    ] == [2, 2]


@pytest.mark.slow
def test_many_points_are_clustered_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(
        clusterers,
        "SIZES",
        {clusterers.NO_NUMBER: (20_000,), "MiniBatchKMeans": (20_000,)},
    )
    rows = clusterers.measure_sizes(True, print)["rows"]
    assert [(row["found"], row["ARI"]) for row in rows] == [(10, 1.0)] * 2


def test_rules_are_compared_only_where_their_formula_agrees(monkeypatch):
    ratios = [row["times as fast"] for row in rules.measure(True, print)["rows"]]
    assert sum(isinstance(ratio, float) for ratio in ratios) == 4
    monkeypatch.setattr(rules, "MAX_DIFFERENCE", 0.0)
    assert "answers differ" in [
        row["times as fast"] for row in rules.measure(True, print)["rows"]
    ]


def test_rates_of_the_hull_cache_are_measured_for_every_order_of_keys():
    found = hull_cache.measure(True, print)
    assert "100 Gaussian keys" in hull_cache.markdown(found)
    for name, row in zip(
        hull_cache.kinds(8, np.random.default_rng(0)), found["rows"], strict=True
    ):
        assert row.pop("keys") == name
        assert min(row.values()) > 0


def test_a_curve_ends_where_a_run_takes_too_long(monkeypatch):
    monkeypatch.setattr(curves, "METHODS", {2: ("numpy",)})
    monkeypatch.setattr(curves, "MAX_SECONDS", 0.0)
    assert [(row["tokens"], row["n"]) for row in curves.scaling_rows(True)] == [
        ("gaussian", 100),
        ("sphere", 100),
    ]


# The classifier


def draw_texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts of six words, one of which gives the label in four texts of five,
    and their labels.
    """
    words = {"neg": ("dull", "awful", "weak"), "pos": ("superb", "moving", "funny")}
    random = np.random.default_rng(seed)
    labels = np.resize(["neg", "pos"], count).tolist()
    signs = [label if random.random() < 0.8 else "pos" for label in labels]
    others = [[f"w{i}" for i in random.integers(50, size=5)] for _ in labels]
    return [
        " ".join([*more, random.choice(words[sign])])
        for sign, more in zip(signs, others, strict=True)
    ], labels


def test_rivals_are_written_into_the_file_of_the_study(tmp_path, monkeypatch, capsys):
    for split, seed in (("train", 1), ("test", 2)):
        texts, labels = draw_texts(300, seed)
        positive = np.array(labels) == "pos"
        table = {
            "text": texts,
            "label": positive.astype(int),
            "rating": np.where(positive, 10, 1),
        }
        pd.DataFrame(table).to_parquet(tmp_path / f"{split}.parquet")
    name = "reviews, 2 classes, 90:10, 100 rows"
    known = {
        "hardmax": {"accuracy": [0.9, 0.0]},
        "TF-IDF": {"accuracy": [0.1, 0.0]},
        "NB-SVM": {"accuracy": [0.8, 0]},
    }
    rows = [
        {"variant": variant, "seed": 0, "methods": known}
        for variant in (name, "another row")
    ]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.setenv("IMDB", str(tmp_path))
    classifier_rivals.add_to_study(str(file), name)
    measured, untouched = json.loads(file.read_text(encoding="utf-8"))
    assert untouched == rows[1]
    assert list(measured["methods"]) == [
        "hardmax",
        "TF-IDF",
        "TF-IDF, balanced",
        "NB-SVM",
    ]
    assert measured["methods"]["hardmax"] == known["hardmax"]
    for method in ("TF-IDF", "TF-IDF, balanced"):
        found = measured["methods"][method]
        assert found["accuracy"][0] > 0.8
        assert 0.1 <= found["C"][0] <= 1000
    assert (
        measured["methods"]["TF-IDF, balanced"]["f1"][0]
        > measured["methods"]["TF-IDF"]["f1"][0]
    )
    assert capsys.readouterr().out.startswith(
        f"{name}: accuracy hardmax 0.900, TF-IDF 0."
    )


def test_the_rival_chooses_the_C_that_a_grid_search_chooses():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline

    texts, labels = draw_texts(120, 1)
    folds = StratifiedKFold(classifier_rivals.FOLDS, shuffle=True, random_state=0)
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(max_iter=1000),
    )
    grid = GridSearchCV(
        pipeline,
        {"logisticregression__C": classifier_rivals.CS},
        scoring="neg_log_loss",
        cv=folds,
    )
    ours = classifier_rivals.tf_idf().fit(texts, np.array(labels))
    assert ours.C_ not in classifier_rivals.CS[[0, -1]]  # the grid is wide enough here
    assert grid.fit(texts, labels).best_params_ == {"logisticregression__C": ours.C_}


# The mean-field limit


def sliced_distance(few: np.ndarray, many: np.ndarray) -> float:
    """Return the distance of tokens (n, d) and (N, d)."""
    blocks = mean_field.average_blocks(mean_field.project(many[None]), len(few))
    return float(mean_field.sliced_distances(few[None], blocks)[0])


def test_the_sliced_distance_of_known_measures():
    few = np.random.default_rng(1).normal(size=(40, 1))
    many = np.repeat(few, 3, axis=0)
    assert sliced_distance(few, many) == pytest.approx(0, abs=1e-7)
    assert sliced_distance(few, many + 2) == pytest.approx(2)
    assert sliced_distance(
        np.array([[0.0], [1]]), np.array([[0.0], [0], [0], [1]])
    ) == pytest.approx(0.5)


def test_distances_to_the_largest_sample_fall_with_n():
    found = mean_field.measure(1000)
    assert [(row["n"], row["runs"]) for row in found["rows"]] == [
        (100, 5),
        (200, 4),
        (500, 4),
    ] * 2
    assert mean_field.fit_exponents(found, "V = -I") == pytest.approx(-0.5, abs=0.15)
    start = mean_field.run("V = -I", 1000, 0, "cpu")[0]
    distances = [
        sliced_distance(mean_field.draw_tokens("V = -I", 200, k), start)
        for k in range(4)
    ]
    assert found["rows"][1]["distances"][0] == pytest.approx(
        np.mean(distances), abs=1e-6
    )
    exact = (
        {"flow": "V = -I", "n": 100, "distances": [1.0]},
        {"flow": "V = -I", "n": 300, "distances": [0.5**0.5]},
    )
    assert mean_field.fit_exponents(
        {"largest": 300, "rows": exact}, "V = -I"
    ) == pytest.approx(-0.5)
    assert len(mean_field.draw(found).axes) == 2


# The error of a flow is of the size of the `rtol` that was requested

PROBLEMS = problems()
UNIFORM, SPHERE = "uniform (300, 3), V = I", "sphere (100, 3), beta = 9"


@cache
def reference(name):
    return solve(PROBLEMS[name], rtol=1e-12, atol=1e-15)[0]


@pytest.mark.parametrize(
    ("name", "method", "rtol"),
    [
        *((UNIFORM, "DOP853", rtol) for rtol in (1e-4, 1e-6, 1e-8)),
        *((UNIFORM, "RK45", rtol) for rtol in (1e-4, 1e-6)),
        (UNIFORM, "LSODA", 1e-6),
        (SPHERE, "DOP853", 1e-6),
        ("uniform (40, 2), V(t) = I", "DOP853", 1e-6),
    ],
)
def test_the_error_of_a_trajectory_is_at_most_a_hundred_times_rtol(name, method, rtol):
    found, _ = solve(PROBLEMS[name], method=method, rtol=rtol)
    assert relative_error(found, reference(name)) < 100 * rtol


def test_the_smallest_rtol_gives_no_warning():
    tokens = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    run = hm.simulate(tokens, hm.SelfAttention(), times=[0, 0.5], rtol=1e-13)
    assert run.stats["rtol_reached"] == 1e-13
