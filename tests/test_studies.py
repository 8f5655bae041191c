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
