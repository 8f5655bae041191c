"""Choosing A: what is found is simulated, what is impossible has exact reasons, and what is wrong gets its sentence."""

import itertools
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.control import steering
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
from hardmax.control.request import Vertices, check_request

pytestmark = pytest.mark.portable

PROFILE = {"deadline": None, "derandomize": True}
TRIANGLE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.9, 0.0]])


def cloud(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def planted(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and those that lead for some hidden A: a request that can be met."""
    rng = np.random.default_rng(seed)
    tokens, B = rng.normal(size=(n, d)), rng.normal(size=(d, d))
    products = tokens @ (B @ B.T) @ tokens.T
    return tokens, np.flatnonzero(products.argmax(axis=1) == np.arange(n))


def sees(tokens: np.ndarray, A: np.ndarray) -> list[list[int]]:
    """C_i by the definition, in rational arithmetic."""
    Z = [[Fraction(x) for x in row] for row in np.asarray(tokens).tolist()]
    M = [[Fraction(x) for x in row] for row in A.tolist()]
    queries = [[sum(z[a] * M[a][b] for a in range(len(z))) for b in range(len(z))] for z in Z]
    products = [[sum(x * y for x, y in zip(q, z, strict=True)) for z in Z] for q in queries]
    return [[j for j, x in enumerate(row) if x == max(row)] for row in products]


@settings(max_examples=40, **PROFILE)
@given(n=st.integers(2, 14), d=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_leaders_of_some_A_are_found_again(n: int, d: int, seed: int) -> None:
    tokens, leaders = planted(n, d, seed)
    result = hm.control.choose_A(tokens, leaders=leaders)
    assert result.found, result.status
    chosen = sees(tokens, result.A)
    assert all(chosen[i] == [i] for i in leaders)
    assert (result.A == result.A.T).all()
    assert np.linalg.eigvalsh(result.A)[0] > 0
    assert np.trace(result.A) == pytest.approx(d)


@settings(max_examples=30, **PROFILE)
@given(n=st.integers(4, 12), d=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_followers_follow(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, leaders = planted(n, d, seed)
    others = np.setdiff1d(np.arange(n), leaders)
    B = rng.normal(size=(d, d))
    followers = {int(i): int(leaders[(tokens[i] @ B @ B.T @ tokens[leaders].T).argmax()]) for i in others[:2]}
    result = hm.control.choose_A(tokens, leaders=leaders, followers=followers)
    assert result.found or result.proved, result.status
    if result.found:
        chosen = sees(tokens, result.A)
        assert all(chosen[i] == [t] for i, t in followers.items())
    else:
        assert result.conflict
        assert not any(_meets(tokens, leaders, followers, rng.normal(size=(d, d))) for _ in range(200))


def _meets(tokens: np.ndarray, leaders: np.ndarray, followers: dict[int, int], B: np.ndarray) -> bool:
    chosen = (tokens @ (B @ B.T) @ tokens.T).argmax(axis=1)
    return all(chosen[i] == i for i in leaders) and all(chosen[i] == t for i, t in followers.items())


def test_margin_is_the_smallest_scaled_gap() -> None:
    tokens, leaders = planted(30, 4, 1)
    result = hm.control.choose_A(tokens, leaders=leaders[:3])
    gaps = [
        tokens[i] @ result.A @ (tokens[i] - z) / (np.linalg.norm(tokens[i]) * np.linalg.norm(tokens[i] - z))
        for i in leaders[:3]
        for j, z in enumerate(tokens)
        if j != i
    ]
    assert result.margin == pytest.approx(min(gaps))
    assert result.margin <= result.stats["bound"] + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_cuts_and_all_rows_have_one_optimum(seed: int) -> None:
    tokens, leaders = planted(40, 5, seed)
    request = {"leaders": leaders[:6], "condition": 1e3}
    cuts, full = (hm.control.choose_A(tokens, **request, method=method) for method in ("cuts", "full"))
    assert cuts.found
    assert cuts.margin == pytest.approx(full.margin, abs=1e-5)
    assert cuts.stats["rows"] < full.stats["rows"] == full.stats["rows_in_all"] == len(leaders[:6]) * 39


def test_no_A_has_a_larger_margin() -> None:
    """Random changes of the optimum never gain, so it is one."""
    tokens, leaders = planted(25, 3, 2)
    demands = check_request(tokens, leaders, None).demands()
    solved = Programme(100.0).maximise_margin(demands)
    rng = np.random.default_rng(0)
    for _ in range(300):
        B = np.linalg.cholesky(solved.A) @ (np.eye(3) + 0.05 * rng.normal(size=(3, 3)))
        A = B @ B.T
        values = np.linalg.eigvalsh(A)
        if values[-1] <= 100 * values[0]:
            assert demands.tightest(A * 3 / np.trace(A), 1, 1)[0][0] <= solved.margin + 1e-6


@pytest.mark.parametrize("condition", [1.5, 5.0, 100.0])
def test_condition_number_is_bounded(condition: float) -> None:
    tokens, leaders = planted(20, 4, 3)
    result = hm.control.choose_A(tokens, leaders=leaders[:1], condition=condition)
    if result.found:
        assert result.condition <= condition * (1 + 1e-6)
    else:
        assert "Raise `condition`" in result.status


def test_identity_is_kept_where_it_does() -> None:
    result = hm.control.choose_A(TRIANGLE, leaders=[0, 1, 2], prefer="identity", margin=0.01)
    assert result.found
    assert np.allclose(result.A, np.eye(2))
    assert "distance to the identity" in result.status


def test_preferring_the_identity_keeps_the_margin_and_comes_closer() -> None:
    tokens, leaders = planted(30, 4, 5)
    far = hm.control.choose_A(tokens, leaders=leaders)
    near = hm.control.choose_A(tokens, leaders=leaders, prefer="identity")
    assert near.margin == pytest.approx(far.margin / 2, rel=1e-4)
    assert np.linalg.norm(near.A - np.eye(4)) < np.linalg.norm(far.A - np.eye(4))


def test_can_lead_are_the_vertices_of_the_hull_with_zero() -> None:
    from scipy.spatial import ConvexHull

    for seed in range(6):
        tokens = cloud(30, 2 + seed % 3, seed) + (seed % 2)
        hull = ConvexHull(np.vstack([tokens, np.zeros(tokens.shape[1])]))
        expected = np.isin(np.arange(30), hull.vertices)
        assert (hm.control.can_lead(tokens) == expected).all()


def test_a_token_between_zero_and_others_cannot_lead() -> None:
    assert hm.control.can_lead([[1, 0], [3, 1], [3, -1], [2, 0]]).tolist() == [False, True, True, False]


def test_can_lead_on_lattices_with_ties_duplicates_and_zero() -> None:
    tokens = np.array([[1, 1], [1, 1], [0, 0], [1, -1], [1, 0], [-2, 0], [-1, 0], [2, 2]], float)
    assert hm.control.can_lead(tokens).tolist() == [False, False, False, True, False, True, False, True]
    assert hm.control.can_lead([[0.0]]).tolist() == [True]  # alone, it follows itself
    assert hm.control.can_lead([[0.0], [0.0], [1.0]]).tolist() == [False, False, True]
    assert hm.control.can_lead([[3.0], [-1.0], [2.0]]).tolist() == [True, True, False]


def test_the_farthest_token_is_a_vertex_of_its_face() -> None:
    tokens = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [1.0, 0.5]])
    assert Vertices(tokens)._farthest(np.array([1.0, 0.0])) in (1, 2)


def test_who_can_lead_leads_for_the_A_of_theorem_5() -> None:
    tokens = cloud(12, 3, 7)
    for i in np.flatnonzero(hm.control.can_lead(tokens)):
        assert hm.control.choose_A(tokens, leaders=[i]).found


def test_a_token_inside_is_impossible_and_named() -> None:
    result = hm.control.choose_A(TRIANGLE, leaders=[0, 3])
    assert (result.found, result.proved, result.A, result.cannot_lead) == (False, True, None, (3,))
    assert result.status == (
        "Impossible: tokens 0 and 3 lead. Token 3 leads for no A: it is no vertex of the hull of all tokens and 0 "
        "(Theorem 5)."
    )


def test_conflicts_are_proved_by_weights() -> None:
    """Token 5 = -token 4 sees the opposite of what 4 sees, so both cannot prefer 0 to 3 = -0."""
    tokens = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.5, 0.1], [-0.5, -0.1]])
    result = hm.control.choose_A(tokens, leaders=[0, 3], followers={4: 0, 5: 0})
    assert result.proved
    assert not result.cannot_lead
    assert "conflicts for every A, by Farkas weights." in result.status
    assert 5 in {clash.token for clash in result.conflict}
    assert sum(clash.weight for clash in result.conflict) == pytest.approx(1, abs=0.01)
    assert str(result.conflict[0]).startswith("token 5 would follow 0, not follow ")


@pytest.mark.parametrize("seed", range(8))
def test_farkas_weights_make_S_negative_semidefinite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(12, 2))
    leaders = np.flatnonzero(hm.control.can_lead(tokens))[:2]
    others = np.setdiff1d(np.arange(12), leaders)[:3]
    result = hm.control.choose_A(tokens, leaders=leaders, followers={int(i): int(leaders[0]) for i in others})
    if result.found:
        return
    assert result.proved
    S = np.zeros((2, 2))
    for clash in result.conflict:
        z, ahead = tokens[clash.token], tokens[clash.target] - tokens[clash.rival]
        S += clash.weight * np.outer(z, ahead) / (np.linalg.norm(z) * np.linalg.norm(ahead))
    assert np.linalg.eigvalsh(S + S.T)[-1] < 1e-2  # the weights shown; those left out are below a thousandth


SHAPES = [(10, 3, 2, 2), (10, 3, 3, 0), (12, 4, 2, 3), (30, 3, 1, 3), (15, 2, 2, 2), (12, 6, 3, 3), (30, 6, 3, 2)]


@pytest.mark.parametrize(("n", "d", "n_leaders", "n_followers"), SHAPES)
def test_random_requests_are_decided(n: int, d: int, n_leaders: int, n_followers: int) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(n, d))
        leaders = rng.choice(np.flatnonzero(hm.control.can_lead(tokens)), n_leaders, replace=False)
        others = rng.choice(np.setdiff1d(np.arange(n), leaders), n_followers, replace=False)
        followers = {int(i): int(rng.choice(leaders)) for i in others}
        result = hm.control.choose_A(tokens, leaders=leaders, followers=followers)
        assert result.found != result.proved, result.status
        if result.proved:
            assert not any(_meets(tokens, leaders, followers, rng.normal(size=(d, d))) for _ in range(100))


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 40), marks=pytest.mark.slow)], ids=str)
def test_what_can_be_met_is_never_proved_impossible(seeds: range) -> None:
    """Feasible demands that need a large condition number once looked like a proof."""
    for seed in seeds:
        tokens, leaders = planted(14, 6, seed)
        demands = check_request(tokens, leaders, None).demands()
        assert not Existence.decide(demands).is_refuted
        assert not Existence.decide(demands.subset(np.array([0]))).is_refuted


def test_a_bound_on_the_condition_number_is_named() -> None:
    tokens = np.array([[0.3, 0.0], [0.8, 1.0], [-0.3, -1.1], [-1.3, -3.0]])
    tight = hm.control.choose_A(tokens, leaders=[0], condition=1.01)
    assert not tight.found
    assert not tight.proved
    assert tight.status.endswith("There is such an A without that bound. Raise `condition`.")
    assert hm.control.choose_A(tokens, leaders=[0]).found


@pytest.mark.parametrize(
    ("z", "g", "weights", "expected"),
    [
        ([[1, 0]], [[-1, 0]], [1], True),  # S = -1 along z
        ([[1, 0]], [[1, 0]], [1], False),
        ([[1, 0]], [[-1, 1]], [1], False),  # a product with what is beside z: A can make it as large as it likes
        ([[1, 0], [1, 0]], [[-1, 1], [-1, -1]], [1, 1], True),  # which another row takes back
        ([[1, 0], [1, 0]], [[-1, 1], [-1, -1]], [1, 0.999], True),  # by weights near the given ones
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
    assert _solve_exactly(as_fractions([[1, -1]]), as_fractions([1, 3])).tolist() == [1, 1]
    assert _solve_exactly(as_fractions([[1, 0], [0, 1]]), as_fractions([1, 3])) is None  # all 0


def test_negative_semidefinite_by_elimination() -> None:
    for S in ([[-1, 0], [0, -1]], [[-1, 0], [0, 0]], [[-1, 1], [1, -1]], [[0, 0, 0], [0, -2, 1], [0, 1, -1]]):
        assert _is_negative_semidefinite(as_fractions(S))
    for S in ([[-1, 2], [2, -1]], [[0, 0, 1], [0, -1, 0], [1, 0, -1]], [[-1, 0], [0, 1]]):
        assert not _is_negative_semidefinite(as_fractions(S))


@settings(max_examples=40, **PROFILE)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=5))
def test_row_echelon_form_with_and_without_flint(rows: list[list[int]]) -> None:
    with_flint, without = rref(as_fractions(rows)), _rref(as_fractions(rows))
    assert with_flint[0].tolist() == without[0].tolist()
    assert with_flint[1] == without[1]


def test_a_token_that_hardly_stands_out_is_not_called_impossible() -> None:
    """Beyond a facet by 1e-9: the solver does not see it, and that is no proof. An A for it is known (Theorem 5)."""
    tokens = np.array([[2.0, 1.0], [1.0, -3.0], [1.5 + 4e-9, -1 - 1e-9]])
    p, z = np.array([4.0, -1.0]), tokens[2]
    A = np.outer(p, p) / (p @ z) + np.eye(2) - np.outer(z, z) / (z @ z)
    assert sees(tokens, (A + A.T) / 2)[2] == [2]
    assert not hm.control.choose_A(tokens, leaders=[2]).proved


def test_short_followers_count_as_much_as_long_ones() -> None:
    tokens = [[1.05, 1.78], [-2.55e-11, -1.4e-12], [1e-11, 1.35e-11], [0.65, 1.5], [0.29, 0.55], [0.18, -1.07]]
    request = {"leaders": [0], "followers": {1: 0, 2: 0}}
    tight = hm.control.choose_A([*tokens, [-0.85, 0.38]], **request, condition=1.0001)
    assert not tight.found
    assert not tight.proved
    assert hm.control.choose_A([*tokens, [-0.85, 0.38]], **request).found


def test_proofs_are_about_the_tokens_that_came() -> None:
    """Token 2 stands out by 1e-30, which no float sees: A = I does it."""
    tokens = [[1, 1], [1, -1], [1 + Fraction(1, 10**30), 0], [-1, 0]]
    assert not hm.control.choose_A(tokens, leaders=[2]).proved
    assert hm.control.choose_A([[1, 1], [1, -1], [1, 0], [-1, 0]], leaders=[2]).proved


@pytest.mark.parametrize("seed", range(12))
def test_thin_requests_are_never_proved_impossible(seed: int) -> None:
    """Leaders of a hidden A of condition number 1e8 and more: the solver may miss it, but may not refute it."""
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(10, 3))
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = (Q * [1.0, 1e-4, 1e-8]) @ Q.T
    chosen = sees(tokens, (A + A.T) / 2)
    leaders = [i for i in range(10) if chosen[i] == [i]]
    followers = {
        i: chosen[i][0] for i in range(10) if len(chosen[i]) == 1 and chosen[i][0] in leaders and i not in leaders
    }
    for condition in (1.01, 100.0):
        assert not hm.control.choose_A(tokens, leaders=leaders, followers=followers, condition=condition).proved


@pytest.mark.parametrize("seed", range(30))
def test_lattices_are_decided(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens = np.unique(rng.integers(-2, 3, size=(8, 2 + seed % 2)), axis=0).astype(float)
    tokens = tokens[tokens.any(axis=1)]
    leaders = rng.choice(np.flatnonzero(hm.control.can_lead(tokens)), 2, replace=False)
    free = np.setdiff1d(np.arange(len(tokens)), leaders)
    followers = {int(i): int(rng.choice(leaders)) for i in free[:2]}
    try:
        result = hm.control.choose_A(tokens, leaders=leaders, followers=followers)
    except ValueError:  # a token and its multiple with different targets
        return
    assert result.found != result.proved, result.status
    if result.proved:
        assert not any(_meets(tokens, leaders, followers, rng.normal(size=(tokens.shape[1],) * 2)) for _ in range(50))


def test_tokens_inside_the_hull_are_proved_to_be_there() -> None:
    for d in (2, 3, 5):
        tokens = cloud(30, d, d) * 3.0 ** np.arange(d)
        for i in np.flatnonzero(~hm.control.can_lead(tokens))[:3]:
            result = hm.control.choose_A(tokens, leaders=[i])
            assert result.proved
            assert result.cannot_lead == (i,)


def test_a_token_behind_zero_cannot_follow() -> None:
    assert hm.control.choose_A([[1, 0], [-2, 0]], leaders=[0], followers={1: 0}).proved


def test_only_decides_every_token_at_layer_0() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(20, 16))
        leaders = rng.choice(20, 3, replace=False)
        result = hm.control.choose_A(tokens, leaders=leaders, only=True)
        assert result.found, result.status
        limit = hm.limit(tokens, hm.Hardmax(0.3, result.A))
        assert set(limit.leaders) == set(leaders)
        assert limit.layer == 0


def test_independent_tokens_allow_any_wish() -> None:
    """Theorem 6."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(6, 7))
        leaders = rng.choice(6, 2, replace=False)
        followers = {int(i): int(rng.choice(leaders)) for i in np.setdiff1d(np.arange(6), leaders)}
        assert hm.control.choose_A(tokens, leaders=leaders, followers=followers).found
        assert hm.control.choose_A(tokens, leaders=leaders, only=True).found


def test_one_leader_for_all_where_zero_is_outside() -> None:
    """Theorem 7: in a half-space one leader decides everything at layer 0; around 0 that is impossible."""
    tokens = cloud(15, 3) + np.array([4.0, 0.0, 0.0])
    lead = int(tokens[:, 0].argmax())
    result = hm.control.choose_A(tokens, leaders=[lead], only=True)
    assert result.found
    assert hm.limit(tokens, hm.Hardmax(1, result.A)).leaders.tolist() == [lead]
    around = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.1]])
    never = hm.control.choose_A(around, leaders=[0], only=True)
    assert never.proved
    assert never.status.startswith("Impossible at layer 0: token 0 leads, and no others.")


def test_only_that_fails_is_not_called_impossible() -> None:
    tokens = np.random.default_rng(0).normal(size=(12, 4))
    result = hm.control.choose_A(tokens, leaders=[1, 0], only=True, attempts=0)
    assert not result.found
    assert not result.proved
    assert result.status.startswith("Not found: tokens 1 and 0 lead, and no others.")
    assert "that is no proof" in result.status


def test_only_refuses_a_zero_token() -> None:
    """Where it goes from layer 0 depends on alpha, so nothing could be promised for all of them."""
    with pytest.raises(ValueError, match=r"`tokens` must not be zero with `only=True`\. Got token 2"):
        hm.control.choose_A([[10, 0], [-10, 1], [0, 0], [1, 1]], leaders=[0, 1], only=True)


def test_what_does_not_work_is_not_found() -> None:
    from hardmax.control.choose import _meets_demands

    request = check_request(TRIANGLE, [0, 1], {3: 0})
    good = hm.control.choose_A(TRIANGLE, leaders=[0, 1], followers={3: 0}).A
    assert _meets_demands(request, request.demands(), good)
    assert not _meets_demands(request, request.demands(), np.eye(2))  # token 3 is tied
    assert not _meets_demands(request, request.demands(), good @ [[1.0, 0.0], [0.0, -1.0]])
    assert not _meets_demands(request, request.demands(), np.diag([1.0, 0.0]))


def test_exact_sets_have_the_last_word() -> None:
    """Token 0 is tied between 1 and 2 under A; rounding of the gap may be of either sign."""
    from hardmax.control.choose import _meets_demands

    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    for a, b in itertools.product(range(1, 20), repeat=2):
        level = np.array([a + 3 * b, -2 * a - b])  # at right angles to A (a, b)
        top = 3 * np.array([a, b]) - level
        request = check_request([[a, b], top, top + level], [1], {0: 1})
        assert not _meets_demands(request, request.demands(), A)


def test_who_follows_by_request_is_not_free() -> None:
    request = check_request([[2.0, 0.0], [0.0, 2.0], [1.0, 0.5], [0.5, 1.0], [0.0, 0.0]], [0, 1], {2: 1})
    assert request.classes.first[request.free].tolist() == [3]


def test_an_answer_is_brought_within_the_bound() -> None:
    A = clip_condition(np.diag([4.0, 0.0, -1e-9]), 100.0)
    values = np.linalg.eigvalsh(A)
    assert np.trace(A) == pytest.approx(3, rel=1e-12)
    assert values[-1] / values[0] == pytest.approx(100, rel=1e-9)


def test_steering_reaches_one_leader_though_zero_is_inside() -> None:
    tokens = [[-1.0, 10.0], [-0.5, -5.0], [100.0, 30.0], [50.0, -20.0]]
    result = hm.control.steer(tokens, leaders=[2])
    assert result.found
    assert hm.limit(tokens, hm.Hardmax(result.alpha, result.A)).leaders.tolist() == [2]


@pytest.mark.parametrize("seed", [1015, 1089, 1191, 1395])
def test_steering_finds_leaders_that_emerge_late(seed: int) -> None:
    """Tokens on a circle, and the leaders of a hidden A, not all of which lead at layer 0."""
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(12, 2))
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    B = rng.normal(size=(2, 2))
    wanted = hm.limit(tokens, hm.Hardmax(0.5, B @ B.T))
    assert wanted.emerged.max() > 0
    assert not hm.control.choose_A(tokens, leaders=wanted.leaders, only=True).found
    result = hm.control.steer(tokens, leaders=wanted.leaders, evaluations=300)
    assert result.found
    assert result.stats["limits"] <= 300
    again = hm.limit(tokens, hm.Hardmax(result.alpha, result.A))
    assert again.certified
    assert set(again.leaders) == set(wanted.leaders)


def test_steering_minds_the_followers() -> None:
    """The follower is sent to each of the two leaders in turn, one of which it would not take by itself."""
    tokens = np.random.default_rng(2).normal(size=(6, 5))
    for target in (0, 1):
        result = hm.control.steer(tokens, leaders=[0, 1], followers={4: target}, evaluations=300)
        assert result.found, result.status
        limit = hm.limit(tokens, hm.Hardmax(result.alpha, result.A))
        assert limit.leaders[limit.clusters[4]] == target


def test_a_limit_is_judged_by_leaders_followers_and_proof(monkeypatch) -> None:
    tokens = [[2.0, 0.0], [-2.0, 0.0], [1.0, 0.5], [-1.0, 0.2]]  # with A = I, 2 follows 0 and 3 follows 1
    costs = [
        steering.Evaluator(check_request(tokens, leaders, followers), 10, None)(np.eye(2), 0.5).cost[0]
        for leaders, followers in (([0, 1], {2: 0}), ([0, 1], {2: 1}), ([0], None), ([0, 1, 2], {3: 0}))
    ]
    assert costs == [0, 1, 1, 2]
    tokens = cloud(8, 2, 4)  # its leaders lead at layer 0, and a token is decided later
    evaluate = steering.Evaluator(check_request(tokens, hm.limit(tokens, hm.Hardmax(0.5)).leaders, None), 10, None)
    assert evaluate(np.eye(2), 0.5).cost[0] == 0
    monkeypatch.setattr(steering, "MAX_LAYERS", 0)
    assert evaluate(np.eye(2), 0.5).cost[0] == 1  # the same leaders, without a proof


def test_steering_says_when_it_fails() -> None:
    """Of opposite tokens both lead or none does, for every A."""
    result = hm.control.steer([[1, 0], [-1, 0], [0, 1], [0, -1]], leaders=[0], evaluations=20)
    assert result.A is None
    assert result.status.startswith(
        "Not found in 20 limits: token 0 leads at the limit, and no others. The closest had 2 "
    )
    assert result.stats["wrong"] > 0


def test_steering_may_choose_alpha() -> None:
    """The cloud of the theory whose token 0 leads for alpha = 1/2 and A = I, and never for 1/10 or 5."""
    tokens = [[0.51, 0.19], [-0.29, -2.5], [0.8, -0.32], [0, 1.35], [0.68, -0.86]]
    tokens += [[-1.31, -0.79], [0.38, 0.19], [-1.88, -2.22], [-0.97, -0.99], [-0.63, 0.17]]
    wanted = hm.limit(tokens, hm.Hardmax(0.5)).leaders
    assert 0 in wanted
    result = hm.control.steer(tokens, leaders=wanted, alpha=[0.1, 0.5, 5])
    assert result.found
    assert result.alpha == 0.5
    assert result.stats["limits"] <= 3


def test_the_same_seed_gives_the_same_A() -> None:
    tokens = cloud(12, 4, 9)
    leaders = np.flatnonzero(hm.control.can_lead(tokens))[:2]
    one, two = (hm.control.steer(tokens, leaders=leaders, evaluations=50, seed=3) for _ in range(2))
    assert one.status == two.status
    assert one.margin == two.margin


def test_scale_of_the_tokens_does_not_matter() -> None:
    tokens, leaders = planted(15, 3, 8)
    plain = hm.control.choose_A(tokens, leaders=leaders)
    for factor in (2.0**-500, 2.0**400):
        scaled = hm.control.choose_A(tokens * factor, leaders=leaders)
        assert scaled.found
        assert scaled.margin == pytest.approx(plain.margin, rel=1e-6)


def test_equal_tokens_lead_as_one() -> None:
    tokens = np.vstack([TRIANGLE, TRIANGLE[:1]])
    result = hm.control.choose_A(tokens, leaders=[4], followers={3: 4})
    assert result.found
    assert "token 4 leads; token 3 follows 4" in result.status
    assert sees(tokens, result.A)[4] == [0, 4]


def test_one_token_and_one_dimension() -> None:
    assert hm.control.choose_A([[2.0, 1.0]], leaders=[0]).found
    assert hm.control.choose_A([[2.0, 1.0]], leaders=[0], only=True, prefer="identity").found
    line = [[3.0], [1.0], [-2.0]]
    assert hm.control.choose_A(line, leaders=[0, 2], followers={1: 0}, only=True).found
    assert hm.control.choose_A(line, leaders=[1]).proved


def test_fractions_and_lists_are_tokens() -> None:
    tokens = [[Fraction(1, 3), Fraction(1)], [Fraction(-1), Fraction(0)], [Fraction(1, 10), Fraction(1, 7)]]
    assert hm.control.choose_A(tokens, leaders=[0, 1], followers={2: 0}).found


def test_result_as_json() -> None:
    result = hm.control.choose_A(TRIANGLE, leaders=[0, 1], followers={3: 0})
    read = json.loads(result.to_json())
    assert read["found"] is True
    assert read["followers"] == {"3": 0}
    assert np.allclose(read["A"], result.A)
    failed = json.loads(hm.control.choose_A(TRIANGLE, leaders=[3]).to_json())
    assert failed["A"] is None
    assert failed["cannot_lead"] == [3]
    assert set(failed["conflict"][0]) == {"token", "target", "rival", "weight"}


def test_a_solver_that_fails_says_so() -> None:
    tokens, leaders = planted(30, 4, 0)
    result = hm.control.choose_A(tokens, leaders=leaders, solver_options={"max_iter": 1})
    assert not result.found
    assert not result.proved
    assert "The solver gave up" in result.status


def test_too_large_for_the_memory() -> None:
    tokens = cloud(60_000, 24)
    with pytest.raises(MemoryError, match=r'`method="full"` must hold all 17,999,700 rows .* Use `method="cuts"`'):
        hm.control.choose_A(tokens, leaders=range(300), method="full")


WRONG = [
    ({"leaders": []}, "`leaders` must name at least one token. Got none."),
    ({"leaders": [4]}, "`leaders` must be tokens between 0 and 3. Got 4. The first token is 0."),
    ({"leaders": [-1]}, "`leaders` must be tokens between 0 and 3. Got -1."),
    ({"leaders": [0, 0]}, "`leaders` must name each token once. Got token 0 twice. Drop one."),
    ({"leaders": [0.5]}, "`leaders` must hold whole numbers, counted from 0. Got 0.5."),
    ({"leaders": "0,1"}, "`leaders` must be token numbers, such as [0, 3]. Got '0,1'."),
    (
        {"leaders": [0], "followers": {0: 0}},
        "`leaders` and `followers` must name different tokens, as a token leads or follows. Got token 0 in both.",
    ),
    (
        {"leaders": [0], "followers": {3: 1}},
        "`followers` must follow tokens in `leaders`. Got 3: 1, and 1 does not lead.",
    ),
    ({"leaders": [0], "followers": {9: 0}}, "`followers` must be tokens between 0 and 3. Got 9."),
    ({"leaders": [0], "followers": [3]}, "`followers` must map a token to the leader it shall follow"),
    ({"leaders": [0], "prefer": "best"}, "`prefer` must be 'margin' or 'identity'. Got 'best'."),
    ({"leaders": [0], "method": "all"}, "`method` must be 'cuts' or 'full'. Got 'all'."),
    (
        {"leaders": [0], "condition": 0.5},
        "`condition` must be a number from 1, the condition number of the identity, to",
    ),
    ({"leaders": [0], "condition": 1e17}, "`condition` must be a number from 1"),
    ({"leaders": [0], "condition": np.inf}, "`condition` must be a number from 1"),
    ({"leaders": [0], "seed": -1}, "`seed` must be"),
    ({"leaders": None}, "`leaders` must be token numbers, such as [0, 3]. Got None."),
    (
        {"leaders": [0, 1], "solver_options": {"foo": 1}},
        "`solver_options` must be settings of Clarabel. Got {'foo': 1}",
    ),
    (
        {"leaders": [0], "margin": 0.1},
        '`margin` must go with `prefer="identity"`. Got `prefer="margin"`, which finds the largest one.',
    ),
    ({"leaders": [0], "prefer": "identity", "margin": 9.0}, "`margin` must be at most the largest that there is"),
    ({"leaders": [0], "attempts": -1}, "`attempts` must be"),
]


@pytest.mark.parametrize(("asked", "sentence"), WRONG, ids=lambda value: str(value)[:40])
def test_bad_requests_get_a_sentence(asked: dict, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        hm.control.choose_A(TRIANGLE, **asked)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("tokens", "asked", "sentence"),
    [
        ([[1, 0], [0, 0]], {"leaders": [1]}, "Token 1 must not be zero to lead: all its products are 0"),
        ([[1, 0], [0, 0]], {"leaders": [0], "followers": {1: 0}}, "Token 1 must not be zero to follow one token"),
        (
            [[1, 0], [0, 1], [1, 0]],
            {"leaders": [0, 2]},
            "`leaders` must be distinct tokens. Got tokens 0 and 2, which are",
        ),
        ([[1, 0], [3, 0]], {"leaders": [0, 1]}, "Tokens 0 and 1 must have one target: one is a positive multiple"),
        (
            [[1, 0], [0, 1], [0.1, 0.1], [0.3, 0.3]],
            {"leaders": [0, 1], "followers": {2: 0, 3: 1}},
            None,  # 0.3 is not three times 0.1 in floats, but both points lie on the diagonal
        ),
        ([[[1, 0], [0, 1]]], {"leaders": [0]}, "`tokens` must be one token set of shape (n, d). Got a batch"),
        ([[1, np.nan]], {"leaders": [0]}, "`tokens` must"),
    ],
)
def test_tokens_that_cannot(tokens: list, asked: dict, sentence: str | None) -> None:
    sentence = sentence or (
        "Tokens 2 and 3 must have one target: one is a positive multiple of the other, so for every A they see the "
        "same token. Got the targets 0 and 1. Make them equal."
    )
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        hm.control.choose_A(tokens, **asked)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "tokens",
    [
        [[Fraction(1, 3), 1], [Fraction(1, 3) + Fraction(1, 10**30), 1], [-1, 0]],
        [[1e300, 0], [0, 1e-300]],
    ],
)
def test_tokens_that_floats_cannot_tell_apart(tokens: list) -> None:
    for ask in (hm.control.can_lead, lambda Z: hm.control.choose_A(Z, leaders=[1])):
        with pytest.raises(
            ValueError, match="`tokens` must differ from each other and from 0 when they are divided by"
        ):
            ask(tokens)


def test_tokens_of_very_different_size() -> None:
    for small in (1e-70, 1e-150):
        result = hm.control.choose_A([[1e100, 0.0], [0.0, small]], leaders=[0, 1])
        assert result.found
        assert result.margin > 0.1


def test_opposite_tokens_are_no_contradiction() -> None:
    assert hm.control.choose_A([[1, 0], [-1, 0], [0.5, 0], [-0.5, 0]], leaders=[0, 1], followers={2: 0, 3: 1}).found


def test_steer_checks_its_input() -> None:
    with pytest.raises(ValueError, match="`alpha` must be a positive finite number"):
        hm.control.steer(TRIANGLE, leaders=[0], alpha=[0.5, -1])
    with pytest.raises(ValueError, match="`evaluations` must"):
        hm.control.steer(TRIANGLE, leaders=[0], evaluations=0)
    with pytest.raises(ValueError, match="`alpha` must hold at least one value"):
        hm.control.steer(TRIANGLE, leaders=[0], alpha=[])


def test_without_cvxpy_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['cvxpy'] = None; import hardmax as hm;"
    code += "print(hm.control.can_lead([[1.0]])); hm.control.choose_A([[1.0], [-1.0]], leaders=[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[ True]"
    assert "hardmax.MissingExtra: `hardmax.control` needs CVXPY: pip install 'hardmax[control]'." in done.stderr


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_pictures_before_and_after(d: int) -> None:
    import matplotlib.pyplot as plt

    from hardmax.draw.control import plot_control

    tokens, leaders = planted(15, d, 6)
    result = hm.control.choose_A(tokens, leaders=leaders)
    figure = plot_control(result)
    figure.canvas.draw()
    before, after = figure.axes[:2]
    assert before.get_title().startswith("before: A = I")
    assert f"{len(hm.simulate(tokens, hm.Hardmax(1, result.A), layers=60).leaders)} in the end" in after.get_title()
    plt.close(figure)
    with pytest.raises(ValueError, match=r"`result` must have an A to be drawn\. Got: Impossible"):
        plot_control(hm.control.choose_A(TRIANGLE, leaders=[3]))
