"""Self-attention in continuous time: the raw equation, rescaled coordinates, and large
times.
"""

import math

import numpy as np
import pytest
from scipy.linalg import expm

import hardmax as hm
from hardmax.flows.coordinates import choose_coordinates
from tests.memory import peak_of
from tests.problems.self_attention import (
    RULES,
    TOKENS,
    K,
    Q,
    V,
    at,
    product_problem,
    reference,
    velocity,
)

pytestmark = pytest.mark.portable


@pytest.mark.parametrize("name", RULES)
def test_velocity_is_the_sum_of_the_definition(name):
    rule = hm.SelfAttention(**RULES[name])
    for t in (0.0, 0.7):
        np.testing.assert_allclose(
            rule.velocity(TOKENS, t),
            velocity(TOKENS, t, **RULES[name]),
            rtol=0,
            atol=1e-13,
        )


@pytest.mark.parametrize("name", RULES)
def test_simulation_solves_the_raw_equation(name):
    times = np.array([0.0, 0.3, 0.8, 1.5])
    run = hm.simulate(
        TOKENS, hm.SelfAttention(**RULES[name]), times=times, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        run.tokens, reference(TOKENS, times, **RULES[name]), rtol=1e-7, atol=1e-8
    )
    assert run.reached == 4
    assert run.problem == ""


def test_one_token_and_equal_tokens_grow_as_one():
    run = hm.simulate([[2.0]], hm.SelfAttention(V=[[0.5]]), times=[0, 2])
    np.testing.assert_allclose(run.tokens[-1], [[2 * np.e]], rtol=1e-7)
    assert run.rescaled[-1].tolist() == [[2.0]]
    assert run.leaders.tolist() == run.clusters.tolist() == [0]
    run = hm.simulate(np.ones((3, 2)), hm.SelfAttention(V=V), times=[0, 2])
    np.testing.assert_allclose(
        run.tokens[-1], np.ones((3, 2)) @ expm(2 * V).T, rtol=1e-7
    )
    assert run.clusters.tolist() == [0, 0, 0]
    np.testing.assert_allclose(run.attention(-1), 1 / 3)


def test_a_tensor_that_changes_in_place_is_seen():
    torch = pytest.importorskip("torch")
    values = torch.eye(2, dtype=torch.float64)
    rule, options = (
        hm.SelfAttention(V=values),
        {"times": [0, 1], "method": "euler", "dt": 0.1},
    )
    before = hm.simulate(TOKENS, rule, **options).tokens
    values *= -1
    after = hm.simulate(TOKENS, rule, **options).tokens
    np.testing.assert_allclose(
        after, hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), **options).tokens
    )
    assert not np.allclose(before, after)


# Rescaled coordinates


@pytest.mark.parametrize(
    "name", [name for name in RULES if not callable(RULES[name].get("V"))]
)
def test_raw_and_rescaled_tokens_belong_together(name):
    times, weights = np.array([0.0, 1.0, 4.0]), RULES[name]
    rule = hm.SelfAttention(**weights)
    run = hm.simulate(TOKENS, rule, times=times)
    for k, t in enumerate(times):
        grown = run.rescaled[k] @ expm(t * at(weights.get("V"), 0)).T
        np.testing.assert_allclose(run.tokens[k], grown, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            run.attention(k), rule.attention(run.tokens[k], t), rtol=0, atol=1e-6
        )
        np.testing.assert_allclose(run.attention(k).sum(axis=1), 1, rtol=1e-12)
    grows = np.linalg.eigvals(at(weights.get("V"), 0)).real.max() > 0
    assert (
        (run.drawn is not run.array) == run.shows_rescaled == grows
    )  # else it is x that has a limit
    assert run.letter == ("z" if grows else "x")


def test_rk4_rescales_by_its_own_polynomial():
    """z_k = R^{-k} x_k, with R the exponential series of dt V up to the order of the
    method.
    """
    run = hm.simulate(
        TOKENS, hm.SelfAttention(Q, K, V), times=[0, 0.3, 1.2], method="rk4", dt=0.1
    )
    R = sum(np.linalg.matrix_power(0.1 * V, k) / math.factorial(k) for k in range(5))
    for k, steps in enumerate((0, 3, 12)):
        np.testing.assert_allclose(
            run.tokens[k],
            run.rescaled[k] @ np.linalg.matrix_power(R, steps).T,
            atol=1e-13,
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weak_directions_do_not_blur_the_leading_ones(seed, dtype):
    """z grows where x shrinks; rounding errors of its large components must not reach
    the leading ones.
    """
    rng = np.random.default_rng(seed)
    S, tokens = rng.normal(size=(3, 3)), rng.normal(size=(10, 3))
    V = S @ np.diag([1, -0.9, -0.9]) @ np.linalg.inv(S)
    end = 30 if dtype is np.float64 else 10
    x = tokens.astype(np.longdouble)
    for _ in range(16 * end):
        scores = x @ x.T
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        x = x + (P / P.sum(axis=1, keepdims=True)) @ x @ V.T / 16
    run = hm.simulate(
        tokens.astype(dtype),
        hm.SelfAttention(V=V),
        times=[0, end],
        method="euler",
        dt=1 / 16,
    )
    tolerance = 1e-11 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(
        run.array[-1],
        x.astype(np.float64),
        rtol=0,
        atol=tolerance * float(np.abs(x).max()),
    )
    flow = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 25])
    other = hm.simulate(
        tokens, hm.SelfAttention(V=lambda t: V), times=[0, 25], rtol=1e-10, atol=1e-12
    )  # in x itself
    assert (flow.problem, flow.stats["held_from"]) == ("", None)
    np.testing.assert_allclose(
        flow.array[-1],
        other.array[-1],
        rtol=0,
        atol=1e-7 * np.abs(other.array[-1]).max(),
    )


@pytest.mark.parametrize("end", [400, 1000])
def test_rescaled_tokens_and_attention_stay_finite_for_ever(end):
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 10, end])
    assert run.reached == 3
    assert len(run.leaders) >= 1
    assert np.isfinite(run.similarity[:2]).all()
    assert len(run.similarity) == 3
    np.testing.assert_allclose(run.attention(-1).max(axis=1), 1, atol=1e-9)
    products = run.rescaled[-1] @ run.rescaled[-1].T
    assert (
        products - np.diag(products)[:, None]
    ).max() < 1e-3 * products.max()  # each is self-maximal
    raw = (
        "Tokens leave the range of float64 from t = 1e+03 on; the rescaled ones stay"
        " in it."
    )
    assert run.status.endswith(raw) == (end == 1000)
    assert np.isfinite(run.tokens[-1]).all() == (end == 400)


FIXED = {"method": "euler", "dt": 0.5}


@pytest.mark.parametrize(
    ("name", "end", "options"),
    [
        *(
            (name, 100, {})
            for name in ("defective V", "complex eigenvalues", "singular V", "zero V")
        ),
        ("minus identity", 1000, {}),  # x tends to 0 and z = e^t x grows
        ("identity", 1000, FIXED),
    ],
)
def test_attention_at_large_times(name, end, options):
    run = hm.simulate(
        TOKENS, hm.SelfAttention(**RULES[name]), times=[0, end], **options
    )
    assert run.problem == ""
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-12)
    assert np.isfinite(run.rescaled).all() == (name != "minus identity")
    if options:  # rounding decides which of the tokens that have met leads there
        other = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, end])
        assert set(run.clusters[run.leaders]) == set(run.clusters[other.leaders])


# e^150 is no single-precision number.
def test_fixed_steps_at_large_times_in_single_precision():
    run = hm.simulate(
        TOKENS.astype(np.float32), hm.SelfAttention(), times=[0, 20, 150], **FIXED
    )
    assert run.rescaled.dtype == np.float32
    assert np.isfinite(run.rescaled).all()
    assert "the rescaled ones stay in it" in run.status


@pytest.mark.parametrize("options", [{}, FIXED], ids=["adaptive", "fixed"])
def test_zero_coordinates_stay_zero_where_others_overflow(options):
    run = hm.simulate(
        [[1.0, 0.0], [2.0, 0.0]], hm.SelfAttention(), times=[0, 1000], **options
    )
    assert run.tokens[-1].tolist() == [[np.inf, 0.0]] * 2


@pytest.mark.parametrize("seed", [29, 96])
def test_attention_is_held_where_it_is_boolean_and_no_step_is_small_enough(seed):
    tokens, V, dual = product_problem(seed)
    run = hm.simulate(tokens, hm.SelfAttention(V=V), times=np.linspace(0, 30, 31))
    held = run.stats["held_from"]
    assert run.problem == ""
    assert held > 9
    assert (
        f"From t = {held:.4g} on attention is Boolean up to rounding, and was held."
        in run.status
    )
    after = [k for k in range(31) if run.times[k] >= held]
    for k in after:  # what is shown is what moved the tokens
        np.testing.assert_array_equal(run.attention(k), run.attention(after[0]))
    assert run.attention(-1).max(axis=1).min() > 0.999
    settled = run.rescaled[after] @ dual
    assert np.abs(settled[-1] - settled[-5]).max() < 1e-6 * np.abs(settled).max()


def test_attention_is_held_once_and_where_every_row_is_boolean():
    mixed, sharp = (
        np.array([[100.0, 0], [0.01, 0], [0, 0.01]]),
        np.array([[100.0, 0], [-90, 0], [0, 80]]),
    )
    coordinates = choose_coordinates(hm.SelfAttention(), mixed)
    assert coordinates.hold_attention(coordinates.start(mixed), 0.0) is None
    assert coordinates.held is None
    np.testing.assert_array_equal(
        coordinates.hold_attention(coordinates.start(sharp), 0.0), np.eye(3)
    )
    np.testing.assert_array_equal(coordinates.held, np.eye(3))
    assert coordinates.hold_attention(coordinates.start(-sharp), 0.0) is None


def test_one_matrix_of_attention_is_in_memory_at_a_time():
    n = 1000
    tokens = np.random.default_rng(0).normal(size=(n, 16))
    coordinates = choose_coordinates(hm.SelfAttention(), tokens)
    state = coordinates.start(tokens)
    coordinates.rate(state, 0.5)
    assert peak_of(lambda: coordinates.rate(state, 0.5))[0] < 1.2 * 8 * n**2


def test_leaders_keep_their_names_when_tokens_have_met():
    tokens = hm.configuration("gaussian", n=30)
    named = [
        hm.simulate(tokens, hm.SelfAttention(), times=[0, end]).leaders.tolist()
        for end in (15, 30, 60, 500)
    ]
    assert named == [named[0]] * 4
    twice = hm.simulate(np.vstack([tokens, tokens]), hm.SelfAttention(), times=[0, 15])
    assert [i % 30 for i in twice.leaders] == hm.simulate(
        tokens, hm.SelfAttention(), times=[0, 15]
    ).leaders.tolist()


def test_queries_that_do_not_see_the_leading_direction_stay_sharp():
    """⟨Q x_i, K x_j⟩ = x_i2 x_j2 grows as e^{0.2 t} while x grows as e^t."""
    tokens = np.random.default_rng(0).normal(size=(4, 2))
    rule = hm.SelfAttention([[0.0, 1.0]], [[0.0, 1.0]], np.diag([1.0, 0.1]))
    runs = [hm.simulate(tokens, rule, times=[0, end]) for end in (100, 350, 400)]
    assert runs[0].attention(-1).max(axis=1).min() > 0.999
    for run in runs[1:]:
        np.testing.assert_allclose(
            run.rescaled[-1, :, 1], runs[0].rescaled[-1, :, 1], rtol=1e-3
        )
        assert np.ptp(run.rescaled[-1, :, 1]) < 1e-9  # met, and not dispersed again
