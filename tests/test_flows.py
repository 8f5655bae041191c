"""Self-attention in continuous time: against loops, against SciPy on the raw equation, and in its order of accuracy."""

import json
import math
import re
import tracemalloc

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import hardmax as hm
from hardmax.flows.coordinates import Rescaled, choose_coordinates
from hardmax.flows.integrate import ADAPTIVE

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(11)
TOKENS = RNG.normal(size=(5, 2))
Q, K, V = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2)) * 0.8
TIGHT = {"rtol": 1e-12, "atol": 1e-14}
JORDAN = np.array([[0.5, 1.0], [0.0, 0.5]])
TURN = np.array([[0.3, -1.0], [1.0, 0.3]])


def at(weight, t, d=2):
    return np.eye(d) if weight is None else np.asarray(weight(t) if callable(weight) else weight)


def velocity(x, t, Q=None, K=None, V=None, causal=False):
    """sum_j P_ij V x_j by loops."""
    q, k, v, n = at(Q, t), at(K, t), at(V, t), len(x)
    moved = np.zeros_like(x)
    for i in range(n):
        seen = range(i + 1) if causal else range(n)
        scores = [float(np.dot(q @ x[i], k @ x[j])) for j in seen]
        powers = [math.exp(score - max(scores)) for score in scores]
        for j in seen:
            moved[i] += powers[j] / sum(powers) * (v @ x[j])
    return moved


def reference(tokens, times, **weights):
    """The raw equation, by an integrator that knows nothing of rescaling."""
    found = solve_ivp(
        lambda t, y: velocity(y.reshape(tokens.shape), t, **weights).ravel(),
        (0, times[-1]),
        tokens.ravel(),
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-13,
    )
    return found.y.T.reshape(-1, *tokens.shape)


def waves(t):
    return np.cos(t) * np.eye(2)


RULES = {
    "identity": {},
    "rectangular": {"Q": Q, "K": K, "V": V},
    "only Q": {"Q": RNG.normal(size=(2, 2))},
    "only K": {"K": RNG.normal(size=(2, 2))},
    "only V": {"V": V},
    "defective V": {"V": JORDAN},
    "complex eigenvalues": {"V": TURN},
    "minus identity": {"V": -np.eye(2)},
    "singular V": {"V": np.diag([1.0, 0.0])},
    "zero V": {"V": np.zeros((2, 2))},
    "causal": {"Q": Q, "K": K, "V": V, "causal": True},
    "waves": {"V": waves},
    "all in time": {
        "Q": lambda t: Q * (1 + t / 2),
        "K": lambda t: K * np.exp(-t),
        "V": lambda t: V + np.sin(3 * t) * JORDAN,
    },
    "queries in time": {"Q": lambda t: Q * np.cos(t), "K": K, "V": V},
}


@pytest.mark.parametrize("name", RULES)
def test_velocity_is_the_sum_of_the_definition(name):
    rule = hm.SelfAttention(**RULES[name])
    for t in (0.0, 0.7):
        np.testing.assert_allclose(rule.velocity(TOKENS, t), velocity(TOKENS, t, **RULES[name]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", RULES)
def test_simulation_solves_the_raw_equation(name):
    times = np.array([0.0, 0.3, 0.8, 1.5])
    run = hm.simulate(TOKENS, hm.SelfAttention(**RULES[name]), times=times, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run.tokens, reference(TOKENS, times, **RULES[name]), rtol=1e-7, atol=1e-8)
    assert run.reached == 4
    assert run.problem == ""


@pytest.mark.parametrize("name", [name for name in RULES if not callable(RULES[name].get("V"))])
def test_raw_and_rescaled_tokens_belong_together(name):
    times, weights = np.array([0.0, 1.0, 4.0]), RULES[name]
    rule = hm.SelfAttention(**weights)
    run = hm.simulate(TOKENS, rule, times=times)
    for k, t in enumerate(times):
        grown = run.rescaled[k] @ expm(t * at(weights.get("V"), 0)).T
        np.testing.assert_allclose(run.tokens[k], grown, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(run.attention(k), rule.attention(run.tokens[k], t), rtol=0, atol=1e-6)
        np.testing.assert_allclose(run.attention(k).sum(axis=1), 1, rtol=1e-12)
    grows = np.linalg.eigvals(at(weights.get("V"), 0)).real.max() > 0
    assert (run.drawn is not run.array) == run.shows_rescaled == grows  # else it is x that has a limit
    assert run.letter == ("z" if grows else "x")


def test_rescaled_tokens_follow_their_own_equation():
    rule, h = hm.SelfAttention(Q, K, V), 1e-4
    run = hm.simulate(TOKENS, rule, times=[1 - h, 1, 1 + h], **TIGHT)
    P, z = run.attention(1), run.rescaled[1]
    expected = np.array([sum(P[i, j] * (V @ (z[j] - z[i])) for j in range(5)) for i in range(5)])
    np.testing.assert_allclose((run.rescaled[2] - run.rescaled[0]) / (2 * h), expected, rtol=0, atol=1e-6)


def test_constant_callables_are_constants():
    times = [0, 0.5, 2]
    plain = hm.simulate(TOKENS, hm.SelfAttention(Q, K, V), times=times, **TIGHT)
    called = hm.simulate(TOKENS, hm.SelfAttention(lambda t: Q, lambda t: K, lambda t: V), times=times, **TIGHT)
    np.testing.assert_allclose(called.tokens, plain.tokens, rtol=0, atol=1e-9)
    np.testing.assert_allclose(called.rescaled, plain.rescaled, rtol=0, atol=1e-9)
    np.testing.assert_allclose(called.attention(-1), plain.attention(-1), rtol=0, atol=1e-9)


def test_rescaling_by_a_value_matrix_in_time():
    """For V = cos(t) I, z = e^{-sin t} x, whose hull shrinks as long as cos t > 0."""
    run = hm.simulate(TOKENS, hm.SelfAttention(V=waves), times=[0, 0.4, 1.2], **TIGHT)
    for k, t in enumerate([0, 0.4, 1.2]):
        np.testing.assert_allclose(run.rescaled[k], run.tokens[k] * np.exp(-np.sin(t)), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("method", "terms"), [("euler", 1), ("rk4", 4)])
def test_fixed_steps_rescale_by_their_own_polynomial(method, terms):
    """z_k = R^{-k} x_k, with R the exponential series of dt V up to the order of the method."""
    run = hm.simulate(TOKENS, hm.SelfAttention(Q, K, V), times=[0, 0.3, 1.2], method=method, dt=0.1)
    R = sum(np.linalg.matrix_power(0.1 * V, k) / math.factorial(k) for k in range(terms + 1))
    for k, steps in enumerate((0, 3, 12)):
        np.testing.assert_allclose(run.tokens[k], run.rescaled[k] @ np.linalg.matrix_power(R, steps).T, atol=1e-13)


def test_fixed_steps_rescale_by_a_value_matrix_in_time():
    """z = F^{-1} x with F' = V(t) F, F(0) = I."""

    def values(t):
        return np.array([[np.cos(t), 1.0], [0.0, 0.5]])

    times, rule = [0, 0.4, 1.2], hm.SelfAttention(V=values)
    steps = hm.simulate(TOKENS, rule, times=times, method="rk4", dt=0.01)
    tight = hm.simulate(TOKENS, rule, times=times, **TIGHT)
    np.testing.assert_allclose(steps.tokens, tight.tokens, rtol=0, atol=1e-7)
    np.testing.assert_allclose(steps.rescaled, tight.rescaled, rtol=0, atol=1e-7)
    flow = solve_ivp(
        lambda t, F: (values(t) @ F.reshape(2, 2)).ravel(), (0, 1.2), np.eye(2).ravel(), t_eval=times, **TIGHT
    )
    for k, F in enumerate(flow.y.T.reshape(-1, 2, 2)):
        np.testing.assert_allclose(tight.rescaled[k], np.linalg.solve(F, tight.tokens[k].T).T, rtol=0, atol=1e-6)


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
    with pytest.raises(ValueError, match=r"`times` must be multiples of `dt`.* Got 1 with `dt=0.3`. Use `dt=0.25`, or"):
        hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.3)
    with pytest.raises(ValueError, match=r"`times` must be multiples of `dt`.* Got 1 with `dt=0.3`. Use `dt=0.25`, or"):
        hm.simulate(TOKENS, rule, times=1, method="euler", dt=0.3)
    for times, dt in ((1, 0.4), (0.7, 0.3), ([0, 0.3, 1], 0.2), (np.pi, 1)):  # the step that is advised works
        with pytest.raises(ValueError, match="must be multiples") as refused:
            hm.simulate(TOKENS, rule, times=times, method="euler", dt=dt)
        advised = re.search(r"Use `dt=([\d.e-]+)`, or", str(refused.value))
        assert hm.simulate(TOKENS, rule, times=times, method="euler", dt=float(advised[1])).reached
    with pytest.raises(ValueError, match=r"Got .* Use multiples of `dt` for `times`\.$"):  # there is none
        hm.simulate(TOKENS, rule, times=[0, 1, np.sqrt(2)], method="euler", dt=0.5)
    for times in ([0, 1], 1):
        with pytest.raises(
            ValueError, match=r"`dt` must need at most `max_steps=1000000` steps. Got 1e\+09 steps of 1e-09"
        ):
            hm.simulate(TOKENS, rule, times=times, method="rk4", dt=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weak_directions_do_not_blur_the_leading_ones(seed, dtype):
    """z grows where x shrinks; rounding errors of its large components must not reach the leading ones."""
    rng = np.random.default_rng(seed)
    S, tokens = rng.normal(size=(3, 3)), rng.normal(size=(10, 3))
    V = S @ np.diag([1, -0.9, -0.9]) @ np.linalg.inv(S)
    end = 30 if dtype is np.float64 else 10
    x = tokens.astype(np.longdouble)
    for _ in range(16 * end):
        scores = x @ x.T
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        x = x + (P / P.sum(axis=1, keepdims=True)) @ x @ V.T / 16
    run = hm.simulate(tokens.astype(dtype), hm.SelfAttention(V=V), times=[0, end], method="euler", dt=1 / 16)
    tolerance = 1e-11 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(run.array[-1], x.astype(np.float64), rtol=0, atol=tolerance * float(np.abs(x).max()))
    flow = hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 25])
    other = hm.simulate(tokens, hm.SelfAttention(V=lambda t: V), times=[0, 25], rtol=1e-10, atol=1e-12)  # in x itself
    assert (flow.problem, flow.stats["held_from"]) == ("", None)
    np.testing.assert_allclose(flow.array[-1], other.array[-1], rtol=0, atol=1e-7 * np.abs(other.array[-1]).max())


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6])
def test_the_tolerance_is_relative_to_the_tokens(size):
    """Q and K of the inverse size make the same flow of tokens of any size."""
    one = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1, 4])
    other = hm.simulate(TOKENS * size, hm.SelfAttention(np.eye(2) / size, np.eye(2) / size), times=[0, 1, 4])
    np.testing.assert_allclose(other.rescaled / size, one.rescaled, rtol=0, atol=1e-8)


# Large times


@pytest.mark.parametrize("end", [400, 1000])
def test_rescaled_tokens_and_attention_stay_finite_for_ever(end):
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 10, end])
    assert np.isfinite(run.rescaled).all()
    assert np.isfinite(run.attention(-1)).all()
    assert run.reached == 3
    assert len(run.leaders) >= 1
    np.testing.assert_allclose(run.attention(-1).max(axis=1), 1, atol=1e-9)
    products = run.rescaled[-1] @ run.rescaled[-1].T
    assert (products - np.diag(products)[:, None]).max() < 1e-3 * products.max()  # each is self-maximal
    raw = "Tokens leave the range of float64 from t = 1e+03 on; the rescaled ones stay in it."
    assert run.status.endswith(raw) == (end == 1000)
    assert np.isfinite(run.tokens[-1]).all() == (end == 400)


@pytest.mark.parametrize("name", ["defective V", "complex eigenvalues", "singular V", "zero V"])
def test_other_value_matrices_at_large_times(name):
    run = hm.simulate(TOKENS, hm.SelfAttention(**RULES[name]), times=[0, 50, 200])
    assert np.isfinite(run.rescaled).all()
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-12)
    assert run.problem == ""


def test_minus_identity_collapses_to_zero():
    """Once the mean is gone, P x is nearly the covariance times x, so that |x| falls as t^(-1/2)."""
    run = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 50, 150, 300])
    sizes = np.linalg.norm(run.tokens, axis=(1, 2))
    assert (np.diff(sizes) < 0).all()
    assert sizes[3] / sizes[2] == pytest.approx(2**-0.5, rel=0.02)
    np.testing.assert_allclose(run.attention(-1), 0.2, atol=0.01)


# For V = -I the tokens tend to 0, and z = e^t x grows: the integrator must not give up on a collapsed cloud.
def test_minus_identity_at_very_large_times():
    run = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 400, 1000])
    sizes = np.linalg.norm(run.tokens, axis=(1, 2))
    assert sizes[2] / sizes[1] == pytest.approx(0.4**0.5, rel=0.02)
    assert run.problem == ""
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-12)


# Fixed steps keep the rescaled tokens finite; attention and leaders must be read off them.
def test_attention_of_fixed_steps_at_large_times():
    run = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1000], method="euler", dt=0.5)
    assert np.isfinite(run.rescaled).all()
    np.testing.assert_allclose(run.attention(-1).sum(axis=1), 1, rtol=1e-12)
    other = hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1000])
    # Rounding decides which of the tokens that have come to one place leads there.
    assert set(run.clusters[run.leaders]) == set(run.clusters[other.leaders])


# e^600 is no single-precision number.
def test_fixed_steps_at_large_times_in_single_precision():
    run = hm.simulate(TOKENS.astype(np.float32), hm.SelfAttention(), times=[0, 20, 150], method="euler", dt=0.5)
    assert run.rescaled.dtype == np.float32
    assert np.isfinite(run.rescaled).all()
    assert "the rescaled ones stay in it" in run.status


def test_similarity_where_raw_tokens_overflow():
    run = hm.simulate([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], hm.SelfAttention(), times=[0, 10, 1000])
    assert np.isfinite(run.similarity[:2]).all()
    assert len(run.similarity) == 3


def test_zero_coordinates_stay_zero_where_others_overflow():
    for options in ({}, {"method": "euler", "dt": 0.25}):
        run = hm.simulate([[1.0, 0.0], [2.0, 0.0]], hm.SelfAttention(), times=[0, 1000], **options)
        assert run.tokens[-1].tolist() == [[np.inf, 0.0]] * 2


# Batches, masks, saved times


def test_batches_are_their_clouds_bit_by_bit():
    batch = np.stack([TOKENS, 3 * TOKENS[::-1], TOKENS**2])
    for name in ("rectangular", "waves"):
        rule = hm.SelfAttention(**RULES[name])
        together = hm.simulate(batch, rule, times=[0, 1, 2])
        for b, cloud in enumerate(batch):
            alone = hm.simulate(cloud, rule, times=[0, 1, 2])
            np.testing.assert_array_equal(together.tokens[:, b], alone.tokens)
            np.testing.assert_array_equal(together[b].rescaled, alone.rescaled)
            assert together.leaders[b].tolist() == alone.leaders.tolist()
            np.testing.assert_allclose(together.attention(1)[b], alone.attention(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
@pytest.mark.parametrize("name", ["rectangular", "waves", "causal"])
def test_padding_may_hold_anything(name, options):
    rule = hm.SelfAttention(**RULES[name])
    padded = np.vstack([TOKENS, [[np.nan, np.inf], [7.0, 7.0]]])
    run = hm.simulate(padded, rule, times=[0, 1], mask=[True] * 5 + [False] * 2, **options)
    alone = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    np.testing.assert_allclose(run.tokens[:, :5], alone.tokens, rtol=1e-12)
    np.testing.assert_allclose(run.rescaled[:, :5], alone.rescaled, rtol=1e-12)
    np.testing.assert_array_equal(run.tokens[:, 5:], np.stack([padded[5:]] * 2))
    np.testing.assert_allclose(run.attention(1)[:5, :5], alone.attention(1), rtol=1e-9, atol=1e-12)
    assert (run.attention(1)[5:] == 0).all()
    assert run.clusters.tolist() == [*alone.clusters.tolist(), -1, -1]
    assert run.leaders.tolist() == alone.leaders.tolist()
    assert run.status.startswith("Ran from t = 0 to 1 on 5 tokens of dimension 2.")


# A causal token that has nothing but padding before it sees no key at all, and must not spoil the others.
@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_padding_on_the_left_of_causal_tokens(options):
    rule = hm.SelfAttention(**RULES["causal"])
    padded, mask = np.vstack([[[np.nan, 1.0]], TOKENS]), [False] + [True] * 5
    run = hm.simulate(padded, rule, times=[0, 1], mask=mask, **options)
    alone = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    np.testing.assert_allclose(run.tokens[:, 1:], alone.tokens, rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"method": "rk4", "dt": 0.1}], ids=["adaptive", "fixed"])
def test_order_of_tokens(options):
    order, rule = RNG.permutation(5), hm.SelfAttention(Q, K, V)
    plain = hm.simulate(TOKENS, rule, times=[0, 1], **options)
    shuffled = hm.simulate(TOKENS[order], rule, times=[0, 1], **options)
    np.testing.assert_allclose(shuffled.tokens, plain.tokens[:, order], rtol=0, atol=1e-12)


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
def test_progress_is_told_of_each_time(name, options):
    calls, rule = [], hm.SelfAttention(**RULES[name])
    hm.simulate(TOKENS, rule, times=[0, 0.5, 1, 3], progress=lambda *call: calls.append(call), **options)
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_one_token_and_one_dimension():
    run = hm.simulate([[2.0]], hm.SelfAttention(V=[[0.5]]), times=[0, 2])
    np.testing.assert_allclose(run.tokens[-1], [[2 * np.e]], rtol=1e-7)
    assert run.rescaled[-1].tolist() == [[2.0]]
    assert run.leaders.tolist() == [0]
    assert run.clusters.tolist() == [0]


def test_equal_tokens_grow_as_one():
    run = hm.simulate(np.ones((3, 2)), hm.SelfAttention(V=V), times=[0, 2])
    np.testing.assert_allclose(run.tokens[-1], np.ones((3, 2)) @ expm(2 * V).T, rtol=1e-7)
    assert run.clusters.tolist() == [0, 0, 0]
    np.testing.assert_allclose(run.attention(-1), 1 / 3)


# Failures end with a sentence


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
def test_the_sentence_of_a_failed_callable_is_as_written():
    rule = hm.SelfAttention(V=lambda t: np.eye(2) * (np.nan if t > 1 else 1))
    run = hm.simulate(TOKENS, rule, times=[0, 0.1, 3])
    assert "`V` must hold finite real numbers. Got NaN or infinite ones. Clean it first." in run.status


def test_values_that_change_their_shape():
    rule = hm.SelfAttention(V=lambda t: np.eye(3 if t > 1 else 2))
    stopped(hm.simulate(TOKENS, rule, times=[0, 0.1, 3]), r"The integrator stopped at t = [01]\.?\d*: ")
    with pytest.raises(ValueError, match=r"mismatch|size"):
        hm.simulate(TOKENS, rule, times=[0, 3], method="rk4", dt=0.1)


def test_one_bad_cloud_of_a_batch_is_named():
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


SINGULAR = re.escape(
    "`dt` must leave R(dt V) invertible, I + dt V for Euler. Got a step of 1, for which it is singular"
)


def test_euler_steps_without_an_inverse():
    with pytest.raises(ValueError, match=SINGULAR):
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


# Sentences

FLOW = hm.SelfAttention()
PAIR = r"`Q` and `K` must have one shape (k, d), and `V` the shape (d, d). Got "
TIMES = "`times` must be a positive number, or numbers that start at 0 or later and increase. Got "


def run(**options):
    return hm.simulate(TOKENS, FLOW, **options)


BAD = {
    "heights": (
        lambda: hm.SelfAttention(np.ones((3, 2)), np.ones((4, 2))),
        PAIR + "Q of shape (3, 2), K of shape (4, 2).",
    ),
    "widths": (
        lambda: hm.SelfAttention(np.ones((3, 2)), np.ones((3, 4))),
        PAIR + "Q of shape (3, 2), K of shape (3, 4).",
    ),
    "lone Q": (lambda: hm.SelfAttention(np.ones((3, 2))), PAIR + "Q of shape (3, 2). A head of width k"),
    "Q and V": (lambda: hm.SelfAttention(np.ones((2, 2)), V=np.eye(3)), PAIR + "Q of shape (2, 2), V of shape (3, 3)."),
    "V not square": (lambda: hm.SelfAttention(V=np.ones((2, 3))), "`V` must be a square matrix. Got shape (2, 3)."),
    "V number": (lambda: hm.SelfAttention(V=2.0), "`V` must be a square matrix. Got shape ()."),
    "V ragged": (lambda: hm.SelfAttention(V=[[1, 2], [3]]), "`V` must be a matrix. Got rows of different lengths."),
    "Q nan": (lambda: hm.SelfAttention([[np.nan, 1]], [[1, 1]]), "`Q` must hold finite real numbers. Got NaN"),
    "K infinite": (lambda: hm.SelfAttention([[1, 1]], [[1, np.inf]]), "`K` must hold finite real numbers. Got NaN"),
    "Q text": (lambda: hm.SelfAttention([["x"]]), "`Q` must hold finite real numbers. Got <U1. Convert it to floats."),
    "callable": (lambda: hm.SelfAttention(V=lambda t: [1.0, 2.0]), "`V` must be a square matrix. Got shape (2,)."),
    "callable shapes": (
        lambda: hm.SelfAttention(lambda t: np.ones((3, 2)), np.ones((4, 2))),
        PAIR + "Q of shape (3, 2)",
    ),
    "tokens": (
        lambda: hm.simulate(TOKENS, hm.SelfAttention(V=np.eye(3)), times=1),
        "with d = 3, the size of the rule's matrices. Got (5, 2). Use tokens of dimension 3, or other matrices.",
    ),
    "layers": (
        lambda: run(layers=3),
        "`times` must be given: SelfAttention moves tokens in continuous time. Got `layers`. Pass `times=np.linspace",
    ),
    "no times": (lambda: run(), "`times` must be given: SelfAttention moves tokens in continuous time. Got no times."),
    "both": (lambda: run(layers=3, times=[1]), "moves tokens in continuous time. Got `layers`. Pass `times="),
    "not increasing": (lambda: run(times=[0, 2, 1]), TIMES + "[0, 2, 1]. Try `times=np.linspace(0, 15, 101)`."),
    "equal times": (lambda: run(times=[0, 1, 1]), TIMES + "[0, 1, 1]."),
    "negative times": (lambda: run(times=[-1, 1]), TIMES + "[-1, 1]."),
    "negative end": (lambda: run(times=-3), TIMES + "-3."),
    "zero end": (lambda: run(times=0), TIMES + "0."),
    "no time": (lambda: run(times=[]), TIMES + "[]."),
    "text": (lambda: run(times="long"), TIMES + "'long'."),
    "texts": (lambda: run(times=["0", "1"]), TIMES + "['0', '1']."),
    "nan": (lambda: run(times=[0, np.nan]), TIMES + "[0, nan]."),
    "infinite": (lambda: run(times=np.inf), TIMES + "inf."),
    "two axes": (lambda: run(times=[[0, 1]]), TIMES + "[[0, 1]]."),
    "true": (lambda: run(times=True), TIMES + "True."),
    "complex": (lambda: run(times=[0, 1j]), TIMES + "[0, 1j]."),
    "long": (lambda: run(times=list(range(50, 0, -1))), "..."),
    "method": (
        lambda: run(times=1, method="rk45"),
        "`method` must be one of DOP853, RK45, RK23, Radau, BDF, LSODA, euler, rk4. Got 'rk45'. DOP853 suits nearly",
    ),
    "no dt": (
        lambda: run(times=1, method="euler"),
        '`dt` must go with the methods euler and rk4. Got none: "euler" needs `dt`, the length of its steps.',
    ),
    "dt": (
        lambda: run(times=1, dt=0.1),
        '`dt` must go with the methods euler and rk4. Got 0.1: "DOP853" chooses its own steps.',
    ),
    "dt zero": (
        lambda: run(times=1, method="rk4", dt=0.0),
        "`dt` must be a positive finite number. Got 0.0. 0.1 is usual.",
    ),
    "dt negative": (lambda: run(times=1, method="rk4", dt=-1), "`dt` must be a positive finite number. Got -1."),
    "rtol": (lambda: run(times=1, rtol=0), "`rtol` must be a positive finite number. Got 0. 1e-8 is usual."),
    "rtol above 0.1": (lambda: run(times=1, rtol=2), "`rtol` must lie between 1e-13 and 0.1. Got 2.0. 1e-8 is usual."),
    "rtol below rounding": (lambda: run(times=1, rtol=1e-15), "`rtol` must lie between 1e-13 and 0.1. Got 1e-15."),
    "atol above 0.1": (
        lambda: run(times=1, atol=0.5),
        "`atol` must be at most 0.1 of the largest coordinate. Got 0.5. 1e-13 is usual.",
    ),
    "atol": (lambda: run(times=1, atol=np.nan), "`atol` must be a positive finite number. Got nan. 1e-13 is usual."),
    "max_steps": (lambda: run(times=1, max_steps=0), "`max_steps` must be an integer of at least 1. Got 0."),
    "times of layers": (
        lambda: hm.simulate(TOKENS, hm.Softmax(1), layers=1).times,
        "`times` must belong to a rule in continuous time. Got a rule with layers. Use `saved`.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


# These come with the words of NumPy.
UNSAID = {
    "ragged times": (lambda: run(times=[[0], [1, 2]]), TIMES),
    "complex V": (
        lambda: hm.SelfAttention(V=np.eye(2) * 1j),
        "`V` must hold finite real numbers. Got complex128. Convert it to floats.",
    ),
}


@pytest.mark.parametrize("name", UNSAID)
def test_stranger_input_gets_a_sentence_too(name):
    call, sentence = UNSAID[name]
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


def test_flows_print_what_they_are():
    assert repr(hm.SelfAttention()) == "SelfAttention()"
    assert repr(hm.SelfAttention(V=waves, causal=True)) == "SelfAttention(V=waves(t), causal=True)"


def product_problem(seed):
    rng = np.random.default_rng(seed)
    tokens, S = rng.uniform(-1, 1, (20, 4)), rng.normal(size=(4, 4))
    return tokens, S @ np.diag([1, 1, 0.3, -0.5]) @ np.linalg.inv(S), np.linalg.inv(S)[:2].T


@pytest.mark.parametrize("seed", [29, 96])
def test_attention_is_held_where_it_is_boolean_and_no_step_is_small_enough(seed):
    tokens, V, dual = product_problem(seed)
    run = hm.simulate(tokens, hm.SelfAttention(V=V), times=np.linspace(0, 30, 31))
    held = run.stats["held_from"]
    assert run.problem == ""
    assert held > 9
    assert f"From t = {held:.4g} on attention is Boolean up to rounding, and was held." in run.status
    after = [k for k in range(31) if run.times[k] >= held]
    for k in after:  # what is shown is what moved the tokens
        np.testing.assert_array_equal(run.attention(k), run.attention(after[0]))
    assert run.attention(-1).max(axis=1).min() > 0.999
    settled = run.rescaled[after] @ dual
    assert np.abs(settled[-1] - settled[-5]).max() < 1e-6 * np.abs(settled).max()


def test_attention_is_held_once_and_where_every_row_is_boolean():
    mixed, sharp = np.array([[100.0, 0], [0.01, 0], [0, 0.01]]), np.array([[100.0, 0], [-90, 0], [0, 80]])
    coordinates = choose_coordinates(hm.SelfAttention(), mixed)
    assert coordinates.hold_attention(coordinates.start(mixed), 0.0) is None
    assert coordinates.held is None
    np.testing.assert_array_equal(coordinates.hold_attention(coordinates.start(sharp), 0.0), np.eye(3))
    np.testing.assert_array_equal(coordinates.held, np.eye(3))
    assert coordinates.hold_attention(coordinates.start(-sharp), 0.0) is None


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


def test_one_matrix_of_attention_is_in_memory_at_a_time():
    n = 1000
    tokens = np.random.default_rng(0).normal(size=(n, 16))
    coordinates = choose_coordinates(hm.SelfAttention(), tokens)
    state = coordinates.start(tokens)
    coordinates.rate(state, 0.5)
    tracemalloc.start()
    coordinates.rate(state, 0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * 8 * n**2


def test_leaders_keep_their_names_when_tokens_have_met():
    tokens = hm.configuration("gaussian", n=30)
    named = [hm.simulate(tokens, hm.SelfAttention(), times=[0, end]).leaders.tolist() for end in (15, 30, 60, 500)]
    assert named == [named[0]] * 4
    twice = hm.simulate(np.vstack([tokens, tokens]), hm.SelfAttention(), times=[0, 15])
    assert [i % 30 for i in twice.leaders] == hm.simulate(tokens, hm.SelfAttention(), times=[0, 15]).leaders.tolist()


def test_queries_that_do_not_see_the_leading_direction_stay_sharp():
    """⟨Q x_i, K x_j⟩ = x_i2 x_j2 grows as e^{0.2 t} while x grows as e^t."""
    tokens = np.random.default_rng(0).normal(size=(4, 2))
    rule = hm.SelfAttention([[0.0, 1.0]], [[0.0, 1.0]], np.diag([1.0, 0.1]))
    runs = [hm.simulate(tokens, rule, times=[0, end]) for end in (100, 350, 400)]
    assert runs[0].attention(-1).max(axis=1).min() > 0.999
    for run in runs[1:]:
        np.testing.assert_allclose(run.rescaled[-1, :, 1], runs[0].rescaled[-1, :, 1], rtol=1e-3)
        assert np.ptp(run.rescaled[-1, :, 1]) < 1e-9  # met, and not dispersed again


def test_a_tensor_that_changes_in_place_is_seen():
    torch = pytest.importorskip("torch")
    values = torch.eye(2, dtype=torch.float64)
    rule = hm.SelfAttention(V=values)
    before = hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.1).tokens
    values *= -1
    after = hm.simulate(TOKENS, rule, times=[0, 1], method="euler", dt=0.1).tokens
    turned = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 1], method="euler", dt=0.1).tokens
    np.testing.assert_allclose(after, turned)
    assert not np.allclose(before, after)


def test_half_precision_keeps_the_input():
    torch = pytest.importorskip("torch")
    tokens = torch.tensor(TOKENS).bfloat16()
    run = hm.simulate(tokens, hm.SelfAttention(V=[[1, 1], [0, 1.001]]), times=[0, 1], method="euler", dt=0.1)
    assert run.tokens.dtype == torch.bfloat16
    assert torch.equal(run.tokens[0], tokens)


def test_each_cloud_has_its_own_trouble():
    batch = np.stack([TOKENS, TOKENS * 1e3])
    run = hm.simulate(batch, hm.SelfAttention(V=-np.eye(2)), times=[0, 0.01, 30], max_steps=50)
    assert "Token set 1: The integrator stopped" in run.problem
    assert run[0].problem == ""
    assert run[1].problem.startswith("The integrator stopped")


def test_files_hold_z_also_where_it_is_not_drawn(tmp_path):
    run = hm.simulate(TOKENS, hm.SelfAttention(V=-np.eye(2)), times=[0, 1, 2])
    run.to_npz(tmp_path / "run.npz")
    np.testing.assert_array_equal(hm.Trajectory.from_npz(tmp_path / "run.npz").rescaled, run.rescaled)
    np.testing.assert_array_equal(json.loads(run.to_json())["rescaled"], run.rescaled)
