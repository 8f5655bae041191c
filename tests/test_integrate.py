"""The integrators: order of accuracy, tolerances, saved times, and failures that the status reports."""

import re

import numpy as np
import pytest

import hardmax as hm
from hardmax.flows.coordinates import Rescaled
from hardmax.flows.integrate import ADAPTIVE
from tests.problems.self_attention import RULES, TIGHT, TOKENS, K, Q, V, at, product_problem, reference, velocity, waves

pytestmark = pytest.mark.portable


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("name", ["rectangular", "waves"])
def test_every_method_keeps_its_tolerance(method, name):
    times = [0, 0.5, 1]
    exact = reference(TOKENS, times, **RULES[name])
    rule = hm.SelfAttention(**RULES[name])
    run = hm.simulate(TOKENS, rule, times=times, method=method, rtol=1e-6, atol=1e-8)
    assert np.abs(run.tokens - exact).max() < 1e-4
    assert run.stats["method"] == method
    assert run.stats["steps"] > 0
    assert run.stats["evaluations"] >= run.stats["steps"]
    loose = hm.simulate(TOKENS, rule, times=times, method=method, rtol=1e-3, atol=1e-5)
    assert loose.stats["steps"] < run.stats["steps"]


def slope(tokens, rule, method, steps, of):
    exact = of(hm.simulate(tokens, rule, times=[0, 1], **TIGHT))
    errors = []
    for dt in steps:
        run = hm.simulate(tokens, rule, times=[0, 1], method=method, dt=dt)
        errors.append(np.abs(of(run)[-1] - exact[-1]).max())
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


FORMS = {"x": lambda run: run.tokens, "z": lambda run: run.rescaled}


EULER_STEPS, RK4_STEPS = 1 / np.array([160, 240, 320, 480]), 1 / np.array([20, 30, 40, 60])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["identity", "rectangular", "defective V", "complex eigenvalues", "waves", "all in time"]
)
def test_order_of_euler_is_one_and_of_rk4_four(name, form):
    rule, tokens = hm.SelfAttention(**RULES[name]), TOKENS * 0.7
    assert slope(tokens, rule, "euler", EULER_STEPS, FORMS[form]) == pytest.approx(1, abs=0.1)
    assert slope(tokens, rule, "rk4", RK4_STEPS, FORMS[form]) == pytest.approx(4, abs=0.25)


@pytest.mark.parametrize("normalized", [True, False])
def test_orders_on_the_sphere(normalized):
    tokens, rule = hm.configuration("sphere", n=6, d=3), hm.Sphere(2.0, normalized=normalized)
    assert slope(tokens, rule, "euler", EULER_STEPS, FORMS["x"]) == pytest.approx(1, abs=0.1)
    assert slope(tokens, rule, "rk4", RK4_STEPS, FORMS["x"]) == pytest.approx(4, abs=0.25)


@pytest.mark.parametrize("name", RULES)
def test_euler_is_the_residual_network(name):
    dt, layers, weights = 0.125, 6, RULES[name]
    run = hm.simulate(TOKENS, hm.SelfAttention(**weights), times=np.arange(layers + 1) * dt, method="euler", dt=dt)
    x, growth = TOKENS, np.eye(2)
    for k in range(layers):
        x = x + dt * velocity(x, k * dt, **weights)
        growth = (np.eye(2) + dt * at(weights.get("V"), k * dt)) @ growth
        np.testing.assert_allclose(run.tokens[k + 1], x, rtol=0, atol=1e-12 * np.abs(x).max())
        z = np.linalg.solve(growth, x.T).T
        np.testing.assert_allclose(run.rescaled[k + 1], z, rtol=0, atol=1e-11 * np.abs(z).max())
    assert run.stats["steps"] == layers


def test_rk4_stages_see_their_own_attention():
    h, f = 0.5, lambda x: velocity(x, 0.0, Q, K, V)
    k1 = f(TOKENS)
    k2 = f(TOKENS + h / 2 * k1)
    k3 = f(TOKENS + h / 2 * k2)
    k4 = f(TOKENS + h * k3)
    run = hm.simulate(TOKENS, hm.SelfAttention(Q, K, V), times=[0, h], method="rk4", dt=h)
    np.testing.assert_allclose(run.tokens[1], TOKENS + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), rtol=0, atol=1e-12)


def test_fixed_steps_are_dt_whatever_is_saved():
    rule = hm.SelfAttention(V=V)
    runs = [
        hm.simulate(TOKENS, rule, times=times, method="euler", dt=0.25, save=save)
        for times in ([0, 0.5, 3], np.linspace(0, 3, 13), 3)
        for save in ("all", "last")
    ]
    assert {run.stats["steps"] for run in runs} == {12}
    for run in runs:
        np.testing.assert_array_equal(run.tokens[-1], runs[0].tokens[-1])
    with pytest.raises(ValueError, match="`times`"):
        hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.3)
    with pytest.raises(ValueError, match="`times`"):
        hm.simulate(TOKENS, rule, times=1, method="euler", dt=0.3)
    for times, dt in ((1, 0.4), (0.7, 0.3), ([0, 0.3, 1], 0.2), (np.pi, 1)):  # the step that is advised works
        with pytest.raises(ValueError, match="must be multiples") as refused:
            hm.simulate(TOKENS, rule, times=times, method="euler", dt=dt)
        advised = re.search(r"Use `dt=([\d.e-]+)`, or", str(refused.value))
        assert hm.simulate(TOKENS, rule, times=times, method="euler", dt=float(advised[1])).reached
    with pytest.raises(ValueError, match=r"Got .* Use multiples of `dt` for `times`\.$"):  # there is none
        hm.simulate(TOKENS, rule, times=[0, 1, np.sqrt(2)], method="euler", dt=0.5)
    for times in ([0, 1], 1):
        with pytest.raises(ValueError, match="`dt`"):
            hm.simulate(TOKENS, rule, times=times, method="rk4", dt=1e-9)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6])
def test_the_tolerance_is_relative_to_the_tokens(size):
    """Q and K of the inverse size make the same flow of tokens of any size."""
    one = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1, 4])
    other = hm.simulate(TOKENS * size, hm.SelfAttention(np.eye(2) / size, np.eye(2) / size), times=[0, 1, 4])
    np.testing.assert_allclose(other.rescaled / size, one.rescaled, rtol=0, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_which_times_are_saved(options):
    rule = hm.SelfAttention()
    whole = hm.simulate(TOKENS, rule, times=2, **options)
    np.testing.assert_allclose(whole.times, np.linspace(0, 2, 21 if options else 101))
    later = hm.simulate(TOKENS, rule, times=[0.5, 2], **options)
    assert later.tokens.shape == (2, 5, 2)
    np.testing.assert_allclose(later.tokens, whole.tokens[[len(whole.times) // 4, -1]], rtol=1e-3)
    end = hm.simulate(TOKENS, rule, times=[0, 0.5, 2], save="last", **options)
    assert end.saved.tolist() == [2]
    np.testing.assert_allclose(end.tokens, later.tokens[1:], rtol=1e-3)
    np.testing.assert_allclose(end.attention(), later.attention(1), atol=1e-3)
    assert hm.simulate(TOKENS, rule, times=[0], **options).tokens.tolist() == [TOKENS.tolist()]
    assert hm.simulate(TOKENS, rule, times=np.array([1, 2]), **options).saved.dtype == np.float64


@pytest.mark.parametrize("name", ["identity", "waves"])
@pytest.mark.parametrize("options", [{}, {"method": "euler", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_progress_is_called_for_each_time(name, options):
    calls, rule = [], hm.SelfAttention(**RULES[name])
    hm.simulate(TOKENS, rule, times=[0, 0.5, 1, 3], progress=lambda *call: calls.append(call), **options)
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def stopped(run, said):
    assert re.search(said, run.status), run.status
    assert run.reached < len(run.saved)
    assert np.isnan(run.tokens[run.reached :]).all()
    assert np.isfinite(run.tokens[: run.reached]).all()
    assert run.problem
    return run


@pytest.mark.parametrize("method", ADAPTIVE)
def test_too_many_steps(method):
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 20], method=method, max_steps=3)
    stopped(
        run, r"The integrator stopped at t = \S+ after 3 steps, the most allowed. Raise `max_steps`, loosen `rtol`, or"
    )
    assert run.reached == 1
    assert run.leaders.tolist() == np.flatnonzero(np.diag(run.attention(0)) > 0.5).tolist()


@pytest.mark.parametrize("method", ["DOP853", "LSODA"])
def test_overflow_in_time(method):
    rule = hm.SelfAttention(V=lambda t: 50 * np.eye(2))
    run = stopped(hm.simulate(TOKENS, rule, times=[0, 1, 30], method=method), r"The integrator stopped at t = \d")
    assert run.reached == 2
    np.testing.assert_allclose(
        run.rescaled[1], hm.simulate(TOKENS, hm.SelfAttention(V=50 * np.eye(2)), times=[1]).rescaled[0], atol=1e-6
    )


@pytest.mark.parametrize("method", ADAPTIVE)
def test_values_that_turn_into_nan(method):
    rule = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 1 else 1))
    run = hm.simulate(TOKENS, rule, times=[0, 0.1, 3], method=method)
    stopped(run, r"The integrator stopped at t = [01]\.?\d*: .* must hold finite real numbers.")


# The matrix keeps its name in the sentence.
def test_the_status_names_a_callable_that_failed():
    rule = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 1 else 1))
    run = hm.simulate(TOKENS, rule, times=[0, 0.1, 3])
    assert "`V` must hold finite real numbers. Got NaN or infinite ones. Clean it first." in run.status


def test_values_that_change_their_shape():
    rule = hm.SelfAttention(V=lambda t: np.eye(3 if t > 1 else 2))
    stopped(hm.simulate(TOKENS, rule, times=[0, 0.1, 3]), r"The integrator stopped at t = [01]\.?\d*: ")
    with pytest.raises(ValueError, match=r"mismatch|size"):
        hm.simulate(TOKENS, rule, times=[0, 3], method="rk4", dt=0.1)


def test_the_status_names_the_token_set_that_failed():
    run = hm.simulate(np.stack([0 * TOKENS, 5 * TOKENS]), hm.SelfAttention(), times=[0, 20], max_steps=12)
    assert "Token set 1: The integrator stopped at t = " in run.status
    assert (run.tokens[1, 0] == 0).all()
    assert np.isnan(run.tokens[1, 1]).all()


# Tokens whose scores overflow give a velocity of NaN at once: SciPy would look for a first step for ever.
def test_velocity_that_is_nan_from_the_start_ends():
    calls = []

    def queries(t):
        calls.append(t)
        assert len(calls) < 2000, "the integrator runs for ever"
        return np.eye(2)

    for rule in (hm.SelfAttention(queries), hm.SelfAttention(queries, V=waves)):
        calls.clear()
        run = hm.simulate(TOKENS * 1e200, rule, times=[0, 1])
        assert "The integrator stopped at t = 0" in run.status or np.isfinite(run.tokens).all()


# Nothing was saved before it stopped, so it did not run to the first saved time.
def test_status_where_no_saved_time_was_reached():
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[50, 100], max_steps=3)
    stopped(run, "after 3 steps, the most allowed")
    assert run.reached == 0
    assert "to 50" not in run.status
    assert run.leaders.tolist() == []
    assert (run.clusters == -1).all()


def test_euler_steps_without_an_inverse():
    with pytest.raises(ValueError, match="`dt` must leave"):
        hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 1], method="euler", dt=1.0)


# The same V as a callable, whose F is singular after the step: x is well defined, z is not, and nothing must crash.
def test_euler_steps_without_an_inverse_in_time():
    run = hm.simulate(TOKENS, hm.SelfAttention(V=lambda t: -np.eye(2)), times=[0, 1], method="euler", dt=1.0)
    np.testing.assert_allclose(run.tokens[1], TOKENS + velocity(TOKENS, 0, V=-np.eye(2)), atol=1e-14)
    assert not np.isfinite(run.rescaled[-1]).any()
    assert run.status


# Half precision has no solver in NumPy.
def test_fixed_steps_in_half_precision():
    run = hm.simulate(TOKENS.astype(np.float16), hm.SelfAttention(), times=[0, 1], method="euler", dt=0.5)
    assert run.tokens.dtype == np.float16
    expected = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1], method="euler", dt=0.5)
    np.testing.assert_allclose(run.tokens, expected.tokens, atol=0.05)


def test_the_error_control_is_loosened_where_attention_is_not_boolean():
    tokens, V, _ = product_problem(47)
    run = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 8, 15])
    assert run.problem == ""
    assert run.stats["held_from"] is None
    assert run.stats["rtol_reached"] > 1e-8
    assert f"The error control was loosened to {run.stats['rtol_reached']:.0e} for sharp attention." in run.status


def test_every_evaluation_is_counted(monkeypatch):
    tokens, V, _ = product_problem(47)
    calls, rate = [], Rescaled.rate
    monkeypatch.setattr(Rescaled, "rate", lambda *at: (calls.append(0), rate(*at))[1])
    run = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 8, 15])  # it begins anew when it is loosened
    assert run.stats["evaluations"] == len(calls)


def test_nothing_is_held_or_loosened_where_steps_are_small_for_another_reason():
    def turning(t):
        return np.array([[np.cos(300 * t), -np.sin(300 * t)], [np.sin(300 * t), np.cos(300 * t)]])

    stats = hm.simulate(TOKENS, hm.SelfAttention(Q=turning), times=[0, 1]).stats
    assert stats["steps"] > 300
    assert (stats["held_from"], stats["rtol_reached"]) == (None, 1e-8)


def test_half_precision_keeps_the_input():
    torch = pytest.importorskip("torch")
    tokens = torch.tensor(TOKENS).bfloat16()
    run = hm.simulate(tokens, hm.SelfAttention(V=[[1, 1], [0, 1.001]]), times=[0, 1], method="euler", dt=0.1)
    assert run.tokens.dtype == torch.bfloat16
    assert torch.equal(run.tokens[0], tokens)


def test_each_token_set_has_its_own_problem():
    batch = np.stack([TOKENS, TOKENS * 1e3])
    run = hm.simulate(batch, hm.SelfAttention(V=-np.eye(2)), times=[0, 0.01, 30], max_steps=50)
    assert "Token set 1: The integrator stopped" in run.problem
    assert run[0].problem == ""
    assert run[1].problem.startswith("The integrator stopped")
