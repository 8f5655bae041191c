"""Choosing A: what is found is simulated, and invalid requests are named."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

import hardmax as hm
from hardmax.control.choose import _meets_demands
from hardmax.control.request import Vertices, check_request
from tests.problems.requests import PROFILE, TRIANGLE, normal, planted, sees

pytestmark = pytest.mark.portable


@settings(max_examples=25, **PROFILE)
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


def test_preferring_the_identity_keeps_the_margin_and_comes_closer() -> None:
    result = hm.control.choose_A(
        TRIANGLE, leaders=[0, 1, 2], prefer="identity", margin=0.01
    )
    assert np.allclose(result.A, np.eye(2))
    assert "distance to the identity" in result.status
    tokens, leaders = planted(30, 4, 5)
    far, near = (
        hm.control.choose_A(tokens, leaders=leaders, prefer=prefer)
        for prefer in ("margin", "identity")
    )
    assert near.margin == pytest.approx(far.margin / 2, rel=1e-4)
    assert np.linalg.norm(near.A - np.eye(4)) < np.linalg.norm(far.A - np.eye(4))


@pytest.mark.parametrize("seed", range(6))
def test_the_vertices_of_the_hull_with_zero_can_lead(seed: int) -> None:
    """Theorem 5: they lead for some A, and of the others it is proved that they do not."""
    tokens = (normal(30, 2 + seed % 3, seed) + seed % 2) * 3.0 ** np.arange(
        2 + seed % 3
    )
    hull = ConvexHull(np.vstack([tokens, np.zeros(tokens.shape[1])]))
    expected = np.isin(np.arange(30), hull.vertices)
    assert (hm.control.can_lead(tokens) == expected).all()
    for i in (*np.flatnonzero(expected)[:3], *np.flatnonzero(~expected)[:2]):
        result = hm.control.choose_A(tokens, leaders=[i])
        assert (result.found, result.proved) == (expected[i], not expected[i])
        assert result.cannot_lead == (() if expected[i] else (i,))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([[1, 0], [3, 1], [3, -1], [2, 0]], [1, 2]),  # between 0 and others
        (
            [[1, 1], [1, 1], [0, 0], [1, -1], [1, 0], [-2, 0], [-1, 0], [2, 2]],
            [3, 5, 7],
        ),  # ties, duplicates and zero
        ([[0.0]], [0]),  # alone, it follows itself
        ([[0.0], [0.0], [1.0]], [2]),
        ([[3.0], [-1.0], [2.0]], [0, 1]),
    ],
)
def test_can_lead_with_ties_duplicates_and_zero(tokens: list, expected: list) -> None:
    assert np.flatnonzero(hm.control.can_lead(tokens)).tolist() == expected


def test_the_farthest_token_is_a_vertex_of_its_face() -> None:
    tokens = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0], [1.0, 0.5]])
    assert Vertices(tokens)._farthest(np.array([1.0, 0.0])) in (1, 2)


def test_a_token_inside_is_impossible_and_named() -> None:
    result = hm.control.choose_A(TRIANGLE, leaders=[0, 3])
    assert (result.found, result.proved, result.A, result.cannot_lead) == (
        False,
        True,
        None,
        (3,),
    )
    assert (
        result.status
        == "Impossible: tokens 0 and 3 lead. Token 3 leads for no A: it is no vertex of"
        " the hull of all tokens and 0 (Theorem 5)."
    )


LEANING = [[0.3, 0.0], [0.8, 1.0], [-0.3, -1.1], [-1.3, -3.0]]
SHORT = [[1.05, 1.78], [-2.55e-11, -1.4e-12], [1e-11, 1.35e-11], [0.65, 1.5]]
SHORT += [[0.29, 0.55], [0.18, -1.07], [-0.85, 0.38]]


# A short follower counts as much as a long one.
@pytest.mark.parametrize(
    ("tokens", "asked", "tight"),
    [
        (LEANING, {"leaders": [0]}, 1.01),
        (SHORT, {"leaders": [0], "followers": {1: 0, 2: 0}}, 1.0001),
    ],
    ids=["leader", "short followers"],
)
def test_a_bound_on_the_condition_number_is_named(
    tokens: list, asked: dict, tight: float
) -> None:
    bounded = hm.control.choose_A(tokens, **asked, condition=tight)
    assert (bounded.found, bounded.proved) == (False, False)
    assert bounded.status.endswith(
        "There is such an A without that bound. Raise `condition`."
    )
    assert hm.control.choose_A(tokens, **asked).found


def test_only_decides_every_token_at_layer_0() -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        tokens = rng.normal(size=(14, 10))
        leaders = rng.choice(14, 3, replace=False)
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
        followers = {
            int(i): int(rng.choice(leaders))
            for i in np.setdiff1d(np.arange(6), leaders)
        }
        assert hm.control.choose_A(tokens, leaders=leaders, followers=followers).found
        assert hm.control.choose_A(tokens, leaders=leaders, only=True).found


def test_one_leader_for_all_where_zero_is_outside() -> None:
    """Theorem 7: in a half-space one leader decides everything at layer 0; around 0
    that is impossible.
    """
    tokens = normal(15, 3) + np.array([4.0, 0.0, 0.0])
    lead = int(tokens[:, 0].argmax())
    result = hm.control.choose_A(tokens, leaders=[lead], only=True)
    assert result.found
    assert hm.limit(tokens, hm.Hardmax(1, result.A)).leaders.tolist() == [lead]
    around = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.1]])
    never = hm.control.choose_A(around, leaders=[0], only=True)
    assert never.proved
    assert never.status.startswith(
        "Impossible at layer 0: token 0 leads, and no others."
    )


def test_only_that_fails_is_not_called_impossible() -> None:
    tokens = np.random.default_rng(0).normal(size=(12, 4))
    result = hm.control.choose_A(tokens, leaders=[1, 0], only=True, attempts=0)
    assert (result.found, result.proved) == (False, False)
    assert result.status.startswith("Not found: tokens 1 and 0 lead, and no others.")
    assert "that is no proof" in result.status


def test_what_does_not_work_is_not_found() -> None:
    request = check_request(TRIANGLE, [0, 1], {3: 0})
    good = hm.control.choose_A(TRIANGLE, leaders=[0, 1], followers={3: 0}).A
    assert _meets_demands(request, request.demands(), good)
    for A in (
        np.eye(2),
        good @ [[1.0, 0.0], [0.0, -1.0]],
        np.diag([1.0, 0.0]),
    ):  # with the identity token 3 is tied
        assert not _meets_demands(request, request.demands(), A)


def test_exact_sets_have_the_last_word() -> None:
    """Token 0 is tied between 1 and 2 under A; rounding of the gap may be of either
    sign.
    """
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    for a, b in itertools.product(range(1, 12), repeat=2):
        level = np.array([a + 3 * b, -2 * a - b])  # at right angles to A (a, b)
        top = 3 * np.array([a, b]) - level
        request = check_request([[a, b], top, top + level], [1], {0: 1})
        assert not _meets_demands(request, request.demands(), A)


def test_a_requested_follower_is_not_free() -> None:
    request = check_request(
        [[2.0, 0.0], [0.0, 2.0], [1.0, 0.5], [0.5, 1.0], [0.0, 0.0]], [0, 1], {2: 1}
    )
    assert request.classes.first[request.free].tolist() == [3]


def test_the_same_seed_gives_the_same_A() -> None:
    tokens = normal(12, 4, 9)
    leaders = np.flatnonzero(hm.control.can_lead(tokens))[:2]
    one, two = (
        hm.control.steer(tokens, leaders=leaders, evaluations=50, seed=3)
        for _ in range(2)
    )
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


LINE, THIRD = [[3.0], [1.0], [-2.0]], Fraction(1, 3)
DIAGONAL = [
    [1, 0],
    [0, 1],
    [0.1, 0.1],
    [0.3, 0.3],
]  # 0.3 is not three times 0.1 in floats


@pytest.mark.parametrize(
    ("tokens", "asked", "found"),
    [
        ([[2.0, 1.0]], {"leaders": [0]}, True),
        ([[2.0, 1.0]], {"leaders": [0], "only": True, "prefer": "identity"}, True),
        (LINE, {"leaders": [0, 2], "followers": {1: 0}, "only": True}, True),
        (LINE, {"leaders": [1]}, False),
        (
            [[1, 0], [-2, 0]],
            {"leaders": [0], "followers": {1: 0}},
            False,
        ),  # 0 is between them
        (
            [[1, 0], [-1, 0], [0.5, 0], [-0.5, 0]],
            {"leaders": [0, 1], "followers": {2: 0, 3: 1}},
            True,
        ),
        (
            [[THIRD, 1], [-1, 0], [Fraction(1, 10), Fraction(1, 7)]],
            {"leaders": [0, 1], "followers": {2: 0}},
            True,
        ),
        (
            [[1e100, 0.0], [0.0, 1e-70]],
            {"leaders": [0, 1]},
            True,
        ),  # of very different size
        ([[1e100, 0.0], [0.0, 1e-150]], {"leaders": [0, 1]}, True),
    ],
)
def test_small_requests_are_decided(tokens: list, asked: dict, found: bool) -> None:
    result = hm.control.choose_A(tokens, **asked)
    assert (result.found, result.proved) == (found, not found), result.status
    assert not found or result.margin > 0.1


@pytest.mark.parametrize(
    ("tokens", "asked", "named"),
    [
        ([[1, 0], [0, 0]], {"leaders": [1]}, "Token 1 must not be zero to lead"),
        (
            [[1, 0], [0, 0]],
            {"leaders": [0], "followers": {1: 0}},
            "Token 1 must not be zero to follow",
        ),
        ([[1, 0], [0, 1], [1, 0]], {"leaders": [0, 2]}, "`leaders`.* 0 and 2"),
        ([[1, 0], [3, 0]], {"leaders": [0, 1]}, "Tokens 0 and 1 must have one target"),
        (
            DIAGONAL,
            {"leaders": [0, 1], "followers": {2: 0, 3: 1}},
            "Tokens 2 and 3 must have one target",
        ),
        # floats cannot tell these tokens apart, or from 0
        (
            [[THIRD, 1], [THIRD + Fraction(1, 10**30), 1], [-1, 0]],
            {"leaders": [1]},
            "`tokens`",
        ),
        ([[1e300, 0], [0, 1e-300]], {"leaders": [1]}, "`tokens`"),
    ],
)
def test_tokens_that_cannot_meet_a_request_are_named(
    tokens: list, asked: dict, named: str
) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        hm.control.choose_A(tokens, **asked)
    if named == "`tokens`":
        with pytest.raises(hm.ParameterError, match=named):
            hm.control.can_lead(tokens)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_pictures_before_and_after(d: int) -> None:
    import matplotlib.pyplot as plt

    from hardmax.draw.control import plot_control

    tokens, leaders = planted(15, d, 6)
    result = hm.control.choose_A(tokens, leaders=leaders)
    figure = plot_control(result, names=[f"word {i}" for i in range(len(tokens))])
    figure.canvas.draw()
    written = {text.get_text().strip() for text in figure.axes[1].texts}
    assert written >= {f"word {i}" for i in leaders}
    before, after = figure.axes[:2]
    assert before.get_title().startswith("before: A = I")
    assert (
        f"{len(hm.simulate(tokens, hm.Hardmax(1, result.A), layers=60).leaders)} at"
        " layer 60" in after.get_title()
    )
    plt.close(figure)
    with pytest.raises(ValueError, match="`result`"):
        plot_control(hm.control.choose_A(TRIANGLE, leaders=[3]))
