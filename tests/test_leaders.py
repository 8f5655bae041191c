"""Leaders: index, layer of emergence, margin, copies and followers."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.trajectories import hardmax as module
from tests.problems import theory, token_sets

pytestmark = pytest.mark.quick


def test_table_of_the_square():
    table = hm.leader_table(hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=2))
    assert [leader.index for leader in table] == [0, 1, 2, 3]
    assert [leader.emerged for leader in table] == [0] * 4
    assert [leader.followers.tolist() for leader in table] == [[4], [4], [5], [5]]
    assert [leader.position.tolist() for leader in table] == [
        [1, 1],
        [1, -1],
        [-1, 1],
        [-1, -1],
    ]
    assert table[0].margin == pytest.approx(
        1.5 / 2**0.5
    )  # (1, 1) before (1/2, 0): (2 - 1/2) / |(1, 1)|
    assert (
        repr(table[0])
        == "Leader 0: since layer 0, by a margin of 1.06, followed by 1 at the last"
        " layer"
    )


def test_copies_lead_together_under_the_first_index():
    tokens = [[0.5, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, -0.0]]
    run = hm.simulate(tokens, hm.Hardmax(1), layers=1)
    first, second = hm.leader_table(run)
    assert (first.index, first.copies.tolist(), first.followers.tolist()) == (
        1,
        [1, 3, 4],
        [0],
    )
    assert (second.index, second.copies.tolist(), second.followers.tolist()) == (
        2,
        [2],
        [],
    )
    assert run.leaders.tolist() == [1, 2]
    assert run.emerged.tolist() == [-1, 0, 0, 0, 0]
    padded = hm.simulate(
        [[np.nan, 0.0], *tokens], hm.Hardmax(1), layers=1, mask=np.arange(6) > 0
    )
    first, second = hm.leader_table(padded)
    assert (first.index, first.copies.tolist(), first.followers.tolist()) == (
        2,
        [2, 4, 5],
        [1],
    )
    assert second.index == 3


def test_margin_is_that_of_the_last_layer_where_no_other_was_kept():
    run = hm.simulate(theory.SQUARE, hm.Hardmax(1), layers=2, save="last")
    for i, leader in enumerate(hm.leader_table(run)):
        assert leader.margin == pytest.approx(run.margins(2)[i])
        assert (
            leader.margin < 1.5 / 2**0.5 - 0.1
        )  # that of layer 0: followers have come nearer
        assert (
            f"since layer 0, by a margin of {leader.margin:.3g} at layer 2, followed"
            in repr(leader)
        )


def test_the_margin_of_a_late_leader_is_that_of_its_first_layer():
    run = hm.simulate(theory.DEPENDS_ON_ALPHA, hm.Hardmax(0.5), layers=60)
    leader = hm.leader_table(run)[0]
    assert (leader.index, leader.emerged) == (0, 2)
    assert leader.margin == pytest.approx(run.margins(2)[0])


def test_margins_of_many_tokens_are_found_in_parts(monkeypatch):
    tokens = token_sets.gaussian(np.random.default_rng(3), 60)
    run = hm.simulate(np.vstack([tokens, tokens[:9]]), hm.Hardmax(0.5), layers=3)
    wanted = run.margins(3)
    monkeypatch.setattr(module, "MAX_PRODUCTS", 100)
    gaps, held = module._float_gaps, []
    monkeypatch.setattr(
        module, "_float_gaps", lambda *given: held.append(given[2]) or gaps(*given)
    )
    np.testing.assert_allclose(run.margins(3), wanted, rtol=1e-12)
    assert [len(rows) for rows in held] == [1] * 60
    np.testing.assert_allclose(
        run.margins(3, [5, 2, 60, 5]), wanted[[5, 2, 60, 5]], rtol=1e-12
    )
    held.clear()
    table = hm.leader_table(run)
    assert (
        sum(map(len, held)) == len(table) < 20
    )  # margins of leaders alone are computed
    assert [leader.index for leader in hm.leader_table(run, most=2)] == run.leaders[
        :2
    ].tolist()
