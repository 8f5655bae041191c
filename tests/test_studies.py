"""Studies: what pages state is what their tables say, and tables are what sweeps give."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from studies.__main__ import STUDIES, filled
from studies.endings import CONSENSUS, smallest_cycle
from studies.leaders import expected

import hardmax as hm
from hardmax.scale.cells import CELLS

NAMED = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


@NAMED
def test_a_page_states_what_its_table_says(study):
    table, page = pd.read_csv(study.table), study.page.read_text(encoding="utf-8")
    assert filled(page, study, table) == page
    assert table["runs"].sum() >= 100_000
    assert f"../images/{study.picture.name}" in page
    assert study.picture.stat().st_size > 10_000
    assert len(table) == np.prod([len(values) for name, values in study.grid.items() if name != "seed"])


@NAMED
def test_a_table_is_kept_of_a_sweep(study):
    first = {name: list(values)[:1] for name, values in study.grid.items()} | {"seed": [0, 1, 2]}
    cell, rows = CELLS[study.cell], []
    for index, values in enumerate(product(*first.values())):
        params = dict(zip(first, values, strict=True))
        rows.append({"cell": index, **params, **cell(params, np.random.default_rng(index))})
    kept, table = study.keep(pd.DataFrame(rows)), pd.read_csv(study.table)
    assert list(kept.columns) == list(table.columns)
    assert kept["runs"].tolist() == [3]


@NAMED
def test_a_table_is_drawn(study):
    figure = study.draw(pd.read_csv(study.table))
    assert all(ax.has_data() for ax in figure.axes)


def test_distances_are_drawn_without_a_line_that_looks_like_a_bound():
    table = pd.read_csv(STUDIES["temperature"].table)
    distances = STUDIES["temperature"].draw(table).axes[1]
    values = set(table["high"])
    assert all(set(line.get_ydata()) <= values for line in distances.get_lines())


def test_the_temperature_page_says_that_distances_grow_with_depth():
    table = pd.read_csv(STUDIES["temperature"].table).query("temperature == 0.01 and n == 30 and d == 2")
    high = table.set_index("layers")["high"]
    assert high[16] > 8 * high[1]
    (line,) = [fact for fact in _facts("temperature") if fact.startswith("Depth")]
    assert f"{high[1]:.2f}" in line
    assert f"{high[16]:.2f}" in line


def test_the_sphere_page_says_that_clusters_go_on_merging():
    table = pd.read_csv(STUDIES["sphere"].table).query("d == 10 and beta == 8")
    mean = table.set_index("t")["clusters"]
    (line,) = [fact for fact in _facts("sphere") if fact.startswith("After t = 10")]
    assert f"d = 10 and beta = 8, until t = 300 to {100 * mean[300] / mean[10]:.0f} %" in line


def test_leaders_of_the_input_are_a_strict_lower_bound_where_a_leader_emerges():
    tokens, rule = hm.configuration("emerging-leader"), hm.Hardmax(0.5)
    at_first = hm.simulate(tokens, rule, layers=0).leaders
    assert set(at_first) < set(hm.limit(tokens, rule).leaders)
    assert any("a lower bound, and a strict one wherever leaders emerge" in fact for fact in _facts("leaders"))


def _facts(name):
    study = STUDIES[name]
    return study.facts(pd.read_csv(study.table))


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_on_a_line_both_ends_lead_unless_all_are_on_one_side(n):
    assert expected("gaussian", n, 1) == pytest.approx(2 - 2 * 0.5**n)
    assert expected("ball", n, 1) == pytest.approx(2 - 2 * 0.5**n)


def test_the_smallest_cycle_comes_back_again_and_again():
    n, A, tokens, length = smallest_cycle()
    run = hm.simulate(np.array(tokens, float), hm.Hardmax(1.0, np.array(A, float), any_A=True), layers=3 * length)
    doubled = [run.array[k] * 2.0**k for k in range(3 * length + 1)]  # powers of two: without rounding
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
