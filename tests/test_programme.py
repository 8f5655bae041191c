"""The semidefinite programme: optima, proofs of impossibility, and their exact checks."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.control.programme import (
    Existence,
    Programme,
    _is_negative_semidefinite,
    _rref,
    _solve_exactly,
    as_fractions,
    clip_condition,
    refutes,
    rref,
)
from hardmax.control.request import check_request
from tests.problems.requests import PROFILE, check_decision, planted, sees

pytestmark = pytest.mark.portable


def test_margin_is_the_smallest_scaled_gap() -> None:
    tokens, leaders = planted(30, 4, 1)
    result = hm.control.choose_A(tokens, leaders=leaders[:3])
    gaps = [
        tokens[i]
        @ result.A
        @ (tokens[i] - z)
        / (np.linalg.norm(tokens[i]) * np.linalg.norm(tokens[i] - z))
        for i in leaders[:3]
        for j, z in enumerate(tokens)
        if j != i
    ]
    assert result.margin == pytest.approx(min(gaps))
    assert result.margin <= result.stats["bound"] + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_cuts_and_all_rows_have_one_optimum(seed: int) -> None:
    tokens, leaders = planted(40, 5, seed)
    found = hm.control.choose_A(tokens, leaders=leaders[:6], condition=1e3)
    demands = check_request(tokens, leaders[:6], None).demands()
    rows = [(r, j) for r, i in enumerate(demands.chooser) for j in range(40) if j != i]
    whole = Programme(1e3).optimise(demands, None, np.array(rows))
    assert found.found
    assert found.margin == pytest.approx(demands.margin(whole.A), abs=1e-5)
    assert found.stats["rows"] < len(rows) == found.stats["rows_in_all"]


def test_no_A_has_a_larger_margin() -> None:
    """Random changes of the optimum never gain, so it is one."""
    tokens, leaders = planted(25, 3, 2)
    demands = check_request(tokens, leaders, None).demands()
    solved = Programme(100.0).find_A(demands)
    rng = np.random.default_rng(0)
    for _ in range(300):
        B = np.linalg.cholesky(solved.A) @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3)))
        A = B @ B.T
        values = np.linalg.eigvalsh(A)
        if values[-1] <= 100 * values[0]:
            assert (
                demands.tightest(A * 3 / np.trace(A), 1, 1)[0][0]
                <= solved.margin + 1e-6
            )


@pytest.mark.parametrize("condition", [1.5, 5.0, 100.0])
def test_condition_number_is_bounded(condition: float) -> None:
    tokens, leaders = planted(20, 4, 3)
    result = hm.control.choose_A(tokens, leaders=leaders[:1], condition=condition)
    if result.found:
        assert result.condition <= condition * (1 + 1e-6)
    else:
        assert "Raise `condition`" in result.status


def test_conflicts_are_proved_by_weights() -> None:
    """Token 5 = -token 4 sees the opposite of what 4 sees, so both cannot prefer 0 to 3
    = -0.
    """
    tokens = np.array(
        [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.1], [-0.5, -0.1]]
    )
    result = hm.control.choose_A(tokens, leaders=[0, 3], followers={4: 0, 5: 0})
    assert result.proved
    assert not result.cannot_lead
    assert "conflict for every A, by Farkas weights." in result.status
    assert 5 in {clash.token for clash in result.conflict}
    assert sum(clash.weight for clash in result.conflict) == pytest.approx(1, abs=0.01)
    assert str(result.conflict[0]).startswith("token 5 would follow 0, not follow ")


SHAPES = [
    (12, 2, 2, 3),
    (10, 3, 2, 2),
    (10, 3, 3, 0),
    (12, 4, 2, 3),
    (30, 3, 1, 3),
    (15, 2, 2, 2),
    (12, 6, 3, 3),
    (30, 6, 3, 2),
]


@pytest.mark.parametrize(("n", "d", "n_leaders", "n_followers"), SHAPES)
def test_random_requests_are_decided(
    n: int, d: int, n_leaders: int, n_followers: int
) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(n, d))
        leaders = rng.choice(
            np.flatnonzero(hm.control.can_lead(tokens)), n_leaders, replace=False
        )
        others = rng.choice(
            np.setdiff1d(np.arange(n), leaders), n_followers, replace=False
        )
        check_decision(
            tokens, leaders, {int(i): int(rng.choice(leaders)) for i in others}
        )


@pytest.mark.parametrize(
    "seeds",
    [
        range(12),
        pytest.param(range(12, 40), marks=(pytest.mark.slow, pytest.mark.exhaustive)),
    ],
    ids=str,
)
def test_what_can_be_met_is_never_proved_impossible(seeds: range) -> None:
    """Feasible demands that need a large condition number once looked like a proof."""
    for seed in seeds:
        tokens, leaders = planted(14, 6, seed)
        demands = check_request(tokens, leaders, None).demands()
        assert not Existence.decide(demands).is_refuted
        assert not Existence.decide(demands.subset(np.array([0]))).is_refuted


@pytest.mark.parametrize(
    ("z", "g", "weights", "expected"),
    [
        ([[1, 0]], [[-1, 0]], [1], True),  # S = -1 along z
        ([[1, 0]], [[1, 0]], [1], False),
        (
            [[1, 0]],
            [[-1, 1]],
            [1],
            False,
        ),  # a product with what is beside z: A can make it as large as it likes
        (
            [[1, 0], [1, 0]],
            [[-1, 1], [-1, -1]],
            [1, 1],
            True,
        ),  # which another row takes back
        (
            [[1, 0], [1, 0]],
            [[-1, 1], [-1, -1]],
            [1, 0.999],
            True,
        ),  # by weights near the given ones
        ([[1, 0], [-1, 0]], [[0, 1], [0, 1]], [1, 1], True),  # S = 0
        ([[1, 0], [0, 1]], [[0, 1], [-1, 0]], [1, 1], True),
        ([[1, 0], [0, 1]], [[0, 1], [1, 0]], [1, 1], False),
        ([[1, 0], [0, 1]], [[-1, 0], [0, -1]], [1, 1], True),
    ],
)
def test_refutations(z: list, g: list, weights: list, expected: bool) -> None:
    assert refutes(as_fractions(z), as_fractions(g), as_fractions(weights)) is expected


def test_weights_of_a_proof_are_not_negative() -> None:
    assert _solve_exactly(as_fractions([[1, 1]]), as_fractions([1, 1])) is None
    assert _solve_exactly(as_fractions([[1, -1]]), as_fractions([1, 3])).tolist() == [
        1,
        1,
    ]
    assert (
        _solve_exactly(as_fractions([[1, 0], [0, 1]]), as_fractions([1, 3])) is None
    )  # all 0


def test_negative_semidefinite_by_elimination() -> None:
    for S in (
        [[-1, 0], [0, -1]],
        [[-1, 0], [0, 0]],
        [[-1, 1], [1, -1]],
        [[0, 0, 0], [0, -2, 1], [0, 1, -1]],
    ):
        assert _is_negative_semidefinite(as_fractions(S))
    for S in (
        [[-1, 2], [2, -1]],
        [[0, 0, 1], [0, -1, 0], [1, 0, -1]],
        [[-1, 0], [0, 1]],
    ):
        assert not _is_negative_semidefinite(as_fractions(S))


@settings(max_examples=40, **PROFILE)
@given(
    st.lists(
        st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=5
    )
)
def test_row_echelon_form_with_and_without_flint(rows: list[list[int]]) -> None:
    with_flint, without = rref(as_fractions(rows)), _rref(as_fractions(rows))
    assert with_flint[0].tolist() == without[0].tolist()
    assert with_flint[1] == without[1]


def test_a_token_that_hardly_stands_out_is_not_called_impossible() -> None:
    """Beyond a facet by 1e-9: the solver does not see it, and that is no proof. An A
    for it is known (Theorem 5).
    """
    tokens = np.array([[2.0, 1.0], [1.0, -3.0], [1.5 + 4e-9, -1 - 1e-9]])
    p, z = np.array([4.0, -1.0]), tokens[2]
    A = np.outer(p, p) / (p @ z) + np.eye(2) - np.outer(z, z) / (z @ z)
    assert sees(tokens, (A + A.T) / 2)[2] == [2]
    assert not hm.control.choose_A(tokens, leaders=[2]).proved


def test_proofs_are_about_the_tokens_that_came() -> None:
    """Token 2 stands out by 1e-30, which no float sees: A = I does it."""
    tokens = [[1, 1], [1, -1], [1 + Fraction(1, 10**30), 0], [-1, 0]]
    assert not hm.control.choose_A(tokens, leaders=[2]).proved
    assert hm.control.choose_A([[1, 1], [1, -1], [1, 0], [-1, 0]], leaders=[2]).proved


@pytest.mark.parametrize("seed", range(12))
def test_thin_requests_are_never_proved_impossible(seed: int) -> None:
    """Leaders of a hidden A of condition number 1e8 and more: the solver may miss it,
    but may not refute it.
    """
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(10, 3))
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = (Q * [1.0, 1e-4, 1e-8]) @ Q.T
    chosen = sees(tokens, (A + A.T) / 2)
    leaders = [i for i in range(10) if chosen[i] == [i]]
    others = [
        i
        for i in range(10)
        if i not in leaders and len(chosen[i]) == 1 and chosen[i][0] in leaders
    ]
    followers = {i: chosen[i][0] for i in others}
    for condition in (1.01, 100.0):
        assert not hm.control.choose_A(
            tokens, leaders=leaders, followers=followers, condition=condition
        ).proved


@pytest.mark.parametrize("seed", range(20))
def test_lattices_are_decided(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens = np.unique(rng.integers(-2, 3, size=(8, 2 + seed % 2)), axis=0).astype(
        float
    )
    tokens = tokens[tokens.any(axis=1)]
    leaders = rng.choice(np.flatnonzero(hm.control.can_lead(tokens)), 2, replace=False)
    free = np.setdiff1d(np.arange(len(tokens)), leaders)
    followers = {int(i): int(rng.choice(leaders)) for i in free[:2]}
    try:
        check_decision(tokens, leaders, followers, tries=50)
    except hm.InputError as error:  # a token and its multiple with different targets
        assert "must have one target" in str(error)  # noqa: PT017


def test_an_answer_is_brought_within_the_bound() -> None:
    A = clip_condition(np.diag([4.0, 0.0, -1e-9]), 100.0)
    values = np.linalg.eigvalsh(A)
    assert np.trace(A) == pytest.approx(3, rel=1e-12)
    assert values[-1] / values[0] == pytest.approx(100, rel=1e-9)


def test_the_status_reports_a_solver_that_failed() -> None:
    tokens, leaders = planted(30, 4, 0)
    result = hm.control.choose_A(
        tokens, leaders=leaders, solver_options={"max_iter": 1}
    )
    assert (result.found, result.proved) == (False, False)
    assert "The solver gave up" in result.status
