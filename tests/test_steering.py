"""Steering: leaders that emerge after layer 0."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.control import steering
from hardmax.control.request import check_request
from tests.problems import theory
from tests.problems.requests import normal

pytestmark = pytest.mark.portable


def test_steering_reaches_one_leader_though_zero_is_inside() -> None:
    tokens = [[-1.0, 10.0], [-0.5, -5.0], [100.0, 30.0], [50.0, -20.0]]
    result = hm.control.steer(tokens, leaders=[2])
    assert result.found
    assert hm.limit(tokens, hm.Hardmax(result.alpha, result.A)).leaders.tolist() == [2]


@pytest.mark.parametrize("seed", [1015, 1089, 1191, 1395])
def test_steering_finds_leaders_that_emerge_late(seed: int) -> None:
    """Tokens on a circle, and the leaders of a hidden A, not all of which lead at layer
    0.
    """
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
    """The follower is sent to each of the two leaders in turn, one of which it would
    not take by itself.
    """
    tokens = np.random.default_rng(2).normal(size=(6, 5))
    for target in (0, 1):
        result = hm.control.steer(
            tokens, leaders=[0, 1], followers={4: target}, evaluations=300
        )
        assert result.found, result.status
        limit = hm.limit(tokens, hm.Hardmax(result.alpha, result.A))
        assert limit.leaders[limit.clusters[4]] == target


def test_a_limit_is_judged_by_leaders_followers_and_proof(monkeypatch) -> None:
    tokens = [
        [2.0, 0.0],
        [-2.0, 0.0],
        [1.0, 0.5],
        [-1.0, 0.2],
    ]  # with A = I, 2 follows 0 and 3 follows 1
    costs = [
        steering.Evaluator(check_request(tokens, leaders, followers), 10, None)(
            np.eye(2), 0.5
        ).cost[0]
        for leaders, followers in (
            ([0, 1], {2: 0}),
            ([0, 1], {2: 1}),
            ([0], None),
            ([0, 1, 2], {3: 0}),
        )
    ]
    assert costs == [0, 1, 1, 2]
    tokens = normal(
        8, 2, 4
    )  # its leaders lead at layer 0, and a token is decided later
    evaluate = steering.Evaluator(
        check_request(tokens, hm.limit(tokens, hm.Hardmax(0.5)).leaders, None), 10, None
    )
    assert evaluate(np.eye(2), 0.5).cost[0] == 0
    monkeypatch.setattr(steering, "MAX_LAYERS", 0)
    assert evaluate(np.eye(2), 0.5).cost[0] == 1  # the same leaders, without a proof


def test_the_status_reports_steering_that_failed() -> None:
    """Of opposite tokens both lead or none does, for every A."""
    result = hm.control.steer(
        [[1, 0], [-1, 0], [0, 1], [0, -1]], leaders=[0], evaluations=20
    )
    assert result.A is None
    assert result.status.startswith(
        "Not found in 20 limits: token 0 leads at the limit, and no others. The closest"
        " had 2 "
    )
    assert result.stats["wrong"] > 0


def test_steering_may_choose_alpha() -> None:
    """Token 0 leads for alpha = 1/2 and A = I, and never for 1/10 or 5."""
    tokens = theory.DEPENDS_ON_ALPHA
    wanted = hm.limit(tokens, hm.Hardmax(0.5)).leaders
    assert 0 in wanted
    result = hm.control.steer(tokens, leaders=wanted, alpha=[0.1, 0.5, 5])
    assert result.found
    assert result.alpha == 0.5
    assert result.stats["limits"] <= 3
