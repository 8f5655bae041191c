"""The integrators: order of accuracy, tolerances, saved times, and failures that the
status reports.
"""

import re

import numpy as np
import pytest

import hardmax as hm
from hardmax.flows.coordinates import Rescaled
from hardmax.flows.integrate import ADAPTIVE
from hardmax.rules.sphere import on_sphere
from tests.problems.self_attention import (
    RULES,
    TIGHT,
    TOKENS,
    at,
    product_problem,
    reference,
    velocity,
    waves,
)

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


NAMES = [
    "identity",
    "rectangular",
    "defective V",
    "complex eigenvalues",
    "waves",
    "all in time",
]
ORDERS = [
    (hm.SelfAttention(**RULES[name]), form)
    for name in NAMES
    for form in ("tokens", "rescaled")
]
ORDERS += [(hm.Sphere(2.0), "tokens"), (hm.Sphere(2.0, normalized=False), "tokens")]


@pytest.mark.parametrize(("rule", "form"), ORDERS, ids=repr)
def test_order_of_euler_is_one_and_of_rk4_four(rule, form):
    tokens = (
        hm.configuration("sphere", n=6, d=3)
        if isinstance(rule, hm.Sphere)
        else TOKENS * 0.7
    )
    exact = getattr(hm.simulate(tokens, rule, times=[0, 1], **TIGHT), form)[-1]
    for method, steps, order, tolerance in (
        ("euler", [160, 240, 320, 480], 1, 0.1),
        ("rk4", [20, 30, 40, 60], 4, 0.25),
    ):
        runs = [
            hm.simulate(tokens, rule, times=[0, 1], method=method, dt=1 / n)
            for n in steps
        ]
        errors = [np.abs(getattr(run, form)[-1] - exact).max() for run in runs]
        assert -np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(
            order, abs=tolerance
        )


@pytest.mark.parametrize("name", RULES)
def test_euler_is_the_residual_network(name):
    dt, layers, weights = 0.125, 6, RULES[name]
    run = hm.simulate(
        TOKENS,
        hm.SelfAttention(**weights),
        times=np.arange(layers + 1) * dt,
        method="euler",
        dt=dt,
    )
    x, growth = TOKENS, np.eye(2)
    for k in range(layers):
        x = x + dt * velocity(x, k * dt, **weights)
        growth = (np.eye(2) + dt * at(weights.get("V"), k * dt)) @ growth
        np.testing.assert_allclose(
            run.tokens[k + 1], x, rtol=0, atol=1e-12 * np.abs(x).max()
        )
        z = np.linalg.solve(growth, x.T).T
        np.testing.assert_allclose(
            run.rescaled[k + 1], z, rtol=0, atol=1e-11 * np.abs(z).max()
        )
    assert run.stats["steps"] == layers


def test_fixed_steps_are_dt_whatever_is_saved():
    runs = [
        hm.simulate(
            TOKENS, hm.SelfAttention(), times=times, method="euler", dt=0.25, save=save
        )
        for times in ([0, 0.5, 3], np.linspace(0, 3, 13), 3)
        for save in ("all", "last")
    ]
    assert {run.stats["steps"] for run in runs} == {12}
    for run in runs:
        np.testing.assert_array_equal(run.tokens[-1], runs[0].tokens[-1])


@pytest.mark.parametrize(
    ("times", "dt", "name", "advised"),
    [
        (1, 0.4, "times", True),
        (0.7, 0.3, "times", True),
        ([0, 0.3, 1], 0.2, "times", True),
        (np.pi, 1, "times", True),
        ([0, 1, np.sqrt(2)], 0.5, "times", False),  # no step fits
        ([0, 1], 1e-9, "dt", False),  # too many steps
        (1, 1e-9, "dt", False),
    ],
)
def test_times_between_fixed_steps_are_refused_with_a_step_that_fits(
    times, dt, name, advised
):
    with pytest.raises(hm.ParameterError) as refused:
        hm.simulate(TOKENS, hm.SelfAttention(), times=times, method="euler", dt=dt)
    assert refused.value.names == (name,)
    found = re.search(r"Use `dt=([\d.e-]+)`, or", refused.value.advice)
    assert bool(found) == advised
    if found:
        assert hm.simulate(
            TOKENS, hm.SelfAttention(), times=times, method="euler", dt=float(found[1])
        ).reached


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6])
def test_the_tolerance_is_relative_to_the_tokens(size):
    """Q and K of the inverse size make the same flow of tokens of any size."""
    one = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1, 4])
    other = hm.simulate(
        TOKENS * size,
        hm.SelfAttention(np.eye(2) / size, np.eye(2) / size),
        times=[0, 1, 4],
    )
    np.testing.assert_allclose(other.rescaled / size, one.rescaled, rtol=0, atol=1e-8)


@pytest.mark.parametrize("rtol", [1e-4, np.float32(1e-4), 1e-8, None])
def test_the_default_method_follows_the_tolerance(rtol):
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 0.1], rtol=rtol)
    assert run.stats["method"] == ("RK45" if rtol and rtol > 1e-7 else "DOP853")


@pytest.mark.parametrize(
    "options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"]
)
def test_which_times_are_saved(options):
    rule = hm.SelfAttention()
    whole = hm.simulate(TOKENS, rule, times=2, **options)
    np.testing.assert_allclose(whole.times, np.linspace(0, 2, 21 if options else 101))
    later = hm.simulate(TOKENS, rule, times=[0.5, 2], **options)
    assert later.tokens.shape == (2, 5, 2)
    np.testing.assert_allclose(
        later.tokens, whole.tokens[[len(whole.times) // 4, -1]], rtol=1e-3
    )
    end = hm.simulate(TOKENS, rule, times=[0, 0.5, 2], save="last", **options)
    assert end.saved.tolist() == [2]
    np.testing.assert_allclose(end.tokens, later.tokens[1:], rtol=1e-3)
    np.testing.assert_allclose(end.attention(), later.attention(1), atol=1e-3)
    assert hm.simulate(TOKENS, rule, times=[0], **options).tokens.tolist() == [
        TOKENS.tolist()
    ]
    assert (
        hm.simulate(TOKENS, rule, times=np.array([1, 2]), **options).saved.dtype
        == np.float64
    )


MOST = (
    r"The integrator stopped at t = \S+ after 3 steps, the most allowed, of mean length"
    r" \S+\. Raise `max_steps`,"
)
STOPPED = r"The integrator stopped at t = [01]\.?\d*: "
NAN = (
    STOPPED
    + "`V` must hold finite real numbers. Got NaN or infinite ones. Clean it first."
)
BAD_VALUES = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 1 else 1))
CHANGING_SHAPE = hm.SelfAttention(V=lambda t: np.eye(3 if t > 1 else 2))
OVERFLOWING = hm.SelfAttention(V=lambda t: 200 * np.eye(2))


@pytest.mark.parametrize(
    ("rule", "options", "reached", "said"),
    [
        (
            hm.Sphere(lambda t: np.float64(1 - t)),
            {"times": [0, 0.1, 3]},
            2,
            r"larger. Got -0\.\d+\.",
        ),
        *(
            (
                hm.SelfAttention(),
                {"times": [0, 20], "method": m, "max_steps": 3},
                1,
                MOST,
            )
            for m in ADAPTIVE
        ),
        (
            hm.SelfAttention(),
            {"times": [50, 100], "max_steps": 3},
            0,
            "^Ran from t = 0 to 0 .* after 3 steps",
        ),
        *((BAD_VALUES, {"times": [0, 0.1, 3], "method": m}, 2, NAN) for m in ADAPTIVE),
        (CHANGING_SHAPE, {"times": [0, 0.1, 3]}, 2, STOPPED),
        *(
            (OVERFLOWING, {"times": [0, 0.5, 30], "method": m}, 2, r"stopped at t = \d")
            for m in ("DOP853", "LSODA")
        ),
    ],
)
def test_the_status_reports_an_integrator_that_stopped(rule, options, reached, said):
    tokens = on_sphere(TOKENS) if isinstance(rule, hm.Sphere) else TOKENS
    run = hm.simulate(tokens, rule, **options)
    assert run.problem
    assert re.search(said, run.status), run.status
    assert run.reached == reached
    assert np.isnan(run.tokens[reached:]).all()
    assert np.isfinite(run.tokens[:reached]).all()
    if isinstance(rule, hm.Sphere):
        assert (run.rescaled, "rescaled" in run.status) == (None, False)
    if not reached:
        assert run.leaders.tolist() == []
        assert (run.clusters == -1).all()
    elif reached == 1:
        assert (
            run.leaders.tolist()
            == np.flatnonzero(np.diag(run.attention(0)) > 0.5).tolist()
        )


def test_values_that_change_their_shape_are_refused_by_fixed_steps():
    with pytest.raises(ValueError, match=r"mismatch|size"):
        hm.simulate(TOKENS, CHANGING_SHAPE, times=[0, 3], method="rk4", dt=0.1)


def test_each_token_set_has_its_own_problem():
    batch = np.stack([TOKENS * 0, TOKENS * 1e3])
    run = hm.simulate(
        batch, hm.SelfAttention(V=-np.eye(2)), times=[0, 0.01, 30], max_steps=50
    )
    assert "Token set 1: The integrator stopped at t = " in run.status
    assert run[0].problem == ""
    assert run[1].problem.startswith("The integrator stopped")
    assert (run.tokens[:, 0] == 0).all()
    assert np.isnan(run.tokens[-1, 1]).all()


# Tokens whose scores overflow give a velocity of NaN at once: SciPy would search for a
# first step for ever.
def test_velocity_that_is_nan_from_the_start_ends():
    calls = []

    def queries(t):
        calls.append(t)
        assert len(calls) < 2000, "the integrator runs for ever"
        return np.eye(2)

    for rule in (hm.SelfAttention(queries), hm.SelfAttention(queries, V=waves)):
        calls.clear()
        run = hm.simulate(TOKENS * 1e200, rule, times=[0, 1])
        assert (
            "The integrator stopped at t = 0" in run.status
            or np.isfinite(run.tokens).all()
        )


# The same V as a callable, whose F is singular after the step: x is well defined, z is
# not, and nothing must crash.
def test_euler_steps_without_an_inverse():
    options = {"times": [0, 1], "method": "euler", "dt": 1.0}
    with pytest.raises(ValueError, match="`dt` must leave"):
        hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), **options)
    run = hm.simulate(TOKENS, hm.SelfAttention(V=lambda t: -np.eye(2)), **options)
    np.testing.assert_allclose(
        run.tokens[1], TOKENS + velocity(TOKENS, 0, V=-np.eye(2)), atol=1e-14
    )
    assert not np.isfinite(run.rescaled[-1]).any()
    assert run.status


# Half precision has no solver in NumPy.
def test_fixed_steps_in_half_precision():
    torch = pytest.importorskip("torch")
    rule, options = (
        hm.SelfAttention(V=[[1, 1], [0, 1.001]]),
        {"times": [0, 1], "method": "euler", "dt": 0.5},
    )
    expected = hm.simulate(TOKENS, rule, **options).tokens
    for tokens in (TOKENS.astype(np.float16), torch.tensor(TOKENS).bfloat16()):
        run = hm.simulate(tokens, rule, **options)
        assert run.tokens.dtype == tokens.dtype
        assert (run.tokens[0] == tokens).all()
        np.testing.assert_allclose(run.array.astype(float), expected, atol=0.05)


def test_the_error_control_is_loosened_where_attention_is_not_boolean(monkeypatch):
    tokens, V, _ = product_problem(47)
    calls, rate = [], Rescaled.rate
    monkeypatch.setattr(
        Rescaled, "terms", lambda *at: None
    )  # compiled code does not call `rate`
    monkeypatch.setattr(Rescaled, "rate", lambda *at: (calls.append(0), rate(*at))[1])
    run = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 8, 15])
    assert run.problem == ""
    assert run.stats["held_from"] is None
    assert run.stats["rtol_reached"] > 1e-8
    assert (
        f"The error control was loosened to {run.stats['rtol_reached']:.0e} for sharp"
        " attention." in run.status
    )
    assert run.stats["evaluations"] == len(calls)  # it began anew when it was loosened
    batch = hm.simulate(
        np.stack([tokens, np.ones_like(tokens)]),
        hm.SelfAttention(V=V),
        times=[0, 8, 15],
    )
    assert (
        batch.stats["rtol_reached"]
        == run.stats["rtol_reached"]
        == batch[0].stats["rtol_reached"]
    )
    assert "loosened" in batch[0].status
    assert batch[1].stats["rtol_reached"] == 1e-8
    assert "loosened" not in batch[-1].status
    heads = hm.MultiHead([hm.SelfAttention(V=-V), hm.SelfAttention(V=V)])
    both = hm.simulate(
        np.concatenate([np.zeros_like(tokens), tokens], axis=1), heads, times=[0, 8, 15]
    )
    assert "Head 0" not in both.status
    assert " Head 1: The error control was loosened to" in both.status


def test_nothing_is_held_or_loosened_where_steps_are_small_for_another_reason():
    def turning(t):
        return np.array(
            [[np.cos(300 * t), -np.sin(300 * t)], [np.sin(300 * t), np.cos(300 * t)]]
        )

    stats = hm.simulate(TOKENS, hm.SelfAttention(Q=turning), times=[0, 1]).stats
    assert stats["steps"] > 300
    assert (stats["held_from"], stats["rtol_reached"]) == (None, 1e-8)
