"""Our Runge-Kutta pairs: compiled steps against NumPy's, the order of the pairs,
batches, and the error control.
"""

import re
from functools import partial

import numpy as np
import pytest

import hardmax as hm
from hardmax.flows import runge_kutta
from hardmax.flows.coordinates import choose_coordinates
from hardmax.flows.steps import PAIRS
from hardmax.search import dispatch
from tests.problems.self_attention import waves

RNG = np.random.default_rng(5)
JORDAN = [[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]
TURNING = [[1.0, -2, 0], [2, 1, 0], [0, 0, 0.5]]
WEIGHTS = RNG.normal(size=(3, 9, 9)) / 3


def gaussian(n, d):
    return np.random.default_rng(n).normal(size=(n, d))


def on_sphere(n, d):
    return hm.configuration("sphere", n=n, d=d)


CASES = {
    "identity": (gaussian(6, 2), hm.SelfAttention()),
    "one dimension": (gaussian(40, 1), hm.SelfAttention()),
    "more than a panel": (gaussian(530, 3), hm.SelfAttention()),
    "rows among threads": (gaussian(1100, 2), hm.SelfAttention()),
    "Jordan block": (gaussian(33, 3), hm.SelfAttention(V=JORDAN)),
    "complex pair": (gaussian(64, 3), hm.SelfAttention(V=TURNING)),
    "general": (gaussian(20, 9), hm.SelfAttention(*WEIGHTS)),
    "narrow": (
        gaussian(20, 9),
        hm.SelfAttention(WEIGHTS[0, :2], WEIGHTS[1, :2], WEIGHTS[2]),
    ),
    "minus identity": (gaussian(12, 5), hm.SelfAttention(V=-np.eye(5))),
    "causal": (gaussian(50, 3), hm.SelfAttention(causal=True)),
    "queries in time": (gaussian(9, 2), hm.SelfAttention(waves)),
    "values in time": (gaussian(9, 2), hm.SelfAttention(V=waves)),
    "small": (
        gaussian(9, 2) * 1e-150,
        hm.SelfAttention(np.eye(2) * 1e150, np.eye(2) * 1e150),
    ),
    "large": (
        gaussian(9, 2) * 1e150,
        hm.SelfAttention(np.eye(2) * 1e-150, np.eye(2) * 1e-150),
    ),
    "sphere": (on_sphere(30, 3), hm.Sphere(4.0)),
    "not normalized": (on_sphere(30, 4), hm.Sphere(2.0, normalized=False)),
    "causal sphere": (on_sphere(30, 2), hm.Sphere(2.0, causal=True, normalized=False)),
}


def run_without_compiled_code(monkeypatch, *given, **options):
    with monkeypatch.context() as patch:
        patch.setattr(runge_kutta, "use_compiled", lambda *at: False)
        return hm.simulate(*given, **options)


@pytest.mark.parametrize("method", PAIRS)
@pytest.mark.parametrize("name", CASES)
def test_compiled_steps_are_those_of_numpy(name, method, monkeypatch):
    tokens, rule = CASES[name]
    options = {"times": [0, 0.3, 1], "method": method, "rtol": 1e-6}
    ours, theirs = (
        hm.simulate(tokens, rule, **options),
        run_without_compiled_code(monkeypatch, tokens, rule, **options),
    )
    size = np.abs(theirs.tokens).max()
    np.testing.assert_allclose(
        ours.tokens / size, theirs.tokens / size, rtol=0, atol=1e-10
    )
    assert ours.stats == theirs.stats


@pytest.mark.parametrize("t", [0, 0.1, 3, -2, 40])
def test_compiled_matrix_exponentials(t):
    from hardmax.flows.compiled import find_form

    for V in (
        JORDAN,
        TURNING,
        np.diag([1.0, -1, 0]),
        np.eye(3),
        WEIGHTS[2],
        [[2.0, 1], [0, 2 + 1e-9]],
    ):
        Q = np.random.default_rng(0).normal(size=np.shape(V))
        coordinates = choose_coordinates(
            hm.SelfAttention(Q=Q, V=V), np.ones((2, len(V)))
        )
        B = coordinates._growth.basis_at(float(t))
        exact = B.T @ Q.T @ B
        found = find_form(coordinates.terms(len(V)), 0, 0, float(t)).T
        np.testing.assert_allclose(
            found, exact, rtol=0, atol=1e-12 * np.abs(exact).max()
        )


def test_matrices_that_are_read_only_compile_nothing_again():
    from hardmax.flows import compiled

    fixed = np.eye(2)
    fixed.flags.writeable = False
    tokens = np.random.default_rng(0).normal(size=(200, 2))
    counts = []
    for V in (
        np.eye(2),
        fixed,
        -np.eye(2),
        np.array([[1.0, 0.3], [0.1, 0.5]]).T,
        [[1.0, 1], [0, 1]],
    ):
        hm.simulate(tokens, hm.SelfAttention(Q=V, V=V), times=[0, 0.1])
        counts.append(len(compiled.advance.signatures))
    assert counts == [1] * 5


def test_compiled_code_of_large_flows_is_found_again():
    tokens = gaussian(2200, 2)  # enough to compile
    hm.simulate(tokens, hm.SelfAttention(), times=[1e-6], method="RK45", rtol=0.1)
    assert dispatch.is_loaded("flow_rows")
    assert dispatch.is_stored("flow_rows")


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_of_a_flow_is_the_one_that_runs(name, monkeypatch):
    kernels = []
    monkeypatch.setattr(
        runge_kutta, "use_compiled", lambda kernel, pairs: kernels.append(kernel)
    )
    hm.simulate(*CASES[name], times=[1e-6])
    assert kernels == [
        "flow_rows"
        if name in ("rows among threads", "queries in time", "values in time")
        else "flows"
    ]


@pytest.mark.parametrize(("name", "order"), [("RK45", 5), ("DOP853", 8)])
def test_order_of_the_steps_and_of_dense_output(name, order):
    tokens, rule = on_sphere(6, 2), hm.Sphere(2.0)
    inner, ends = [], []
    exact = hm.simulate(
        tokens, rule, times=[1.5, 1.625, 2], method="DOP853", rtol=1e-13, atol=1e-15
    ).tokens
    lengths = [1 / 2, 1 / 4, 1 / 8] if name == "DOP853" else [1 / 8, 1 / 16, 1 / 32]
    for h in lengths:
        run = runge_kutta.RungeKutta(
            [choose_coordinates(rule, tokens)], [tokens], name, 2.0, 1000
        )
        run.allow(0, 1e6, 1e6)  # every step is accepted
        run.begin(0)
        while run.state.t[0] < 2:
            run.state.h[0] = h
            run._try(0)
            if run.state.old_t[0] <= 1.625 < run.state.t[0]:
                inner.append(
                    np.abs(run.interpolate(0, np.array([1.625]))[0] - exact[1]).max()
                )
        ends.append(np.abs(run.state.y[0] - exact[2]).max())
        assert run.state.rejected[0] == 0
    assert -np.polyfit(np.log2(1 / np.array(lengths)), np.log2(ends), 1)[
        0
    ] == pytest.approx(order, abs=0.7)
    assert max(inner) < 100 * max(ends)


@pytest.mark.parametrize("method", PAIRS)
def test_a_token_set_does_not_depend_on_its_batch(method):
    batch, mask = np.full((30, 20, 3), np.nan), np.zeros((30, 20), bool)
    for b in range(30):
        n = 6 + b // 3  # fewer tokens are left to NumPy where they are alone
        batch[b, :n], mask[b, :n] = gaussian(n, 3) / (1 + b), True
    varying = (
        hm.SelfAttention(V=lambda t: np.eye(3) * np.cos(t)),
        hm.Sphere(lambda t: 1 + t),
    )
    for rule in (hm.SelfAttention(V=JORDAN), *varying):
        if isinstance(rule, hm.Sphere):
            batch /= np.linalg.norm(batch, axis=-1, keepdims=True)
        options = {"times": [0, 0.5, 1], "method": method, "rtol": 1e-6}
        run = hm.simulate(batch, rule, mask=mask, **options)
        steps = 0
        for b in range(30):
            alone = hm.simulate(batch[b, mask[b]], rule, **options)
            np.testing.assert_array_equal(run.tokens[:, b, mask[b]], alone.tokens)
            steps += alone.stats["steps"]
        assert run.stats["steps"] == steps


def test_rejected_steps_are_counted_and_errors_follow_rtol():
    tokens, rule = CASES["complex pair"]
    exact = hm.simulate(
        tokens, rule, times=[0, 3], rtol=1e-12, atol=1e-16, method="DOP853"
    ).rescaled[-1]
    for method in PAIRS:
        found = []
        for rtol in (1e-4, 1e-6, 1e-8):
            run = hm.simulate(tokens, rule, times=[0, 3], rtol=rtol, method=method)
            error = np.abs(run.rescaled[-1] - exact).max() / np.abs(exact).max()
            assert error < 100 * rtol
            evaluations = (6 if method == "RK45" else 12) * (
                run.stats["steps"] + run.stats["rejected"]
            ) + 1
            assert run.stats["evaluations"] == evaluations
            found.append(run.stats["steps"])
        assert found == sorted(found)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("method", PAIRS)
def test_tolerances_and_errors_may_underflow(method, compiled, monkeypatch):
    run = hm.simulate if compiled else partial(run_without_compiled_code, monkeypatch)
    tokens = gaussian(40, 2)
    tokens[:, 1] = 0
    for size, sign in ((1e-300, 1), (1e-312, -1)):  # attention is uniform
        ended = run(
            tokens * size,
            hm.SelfAttention(V=sign * np.eye(2)),
            times=[1],
            method=method,
            atol=1e-300,
        )
        exact = tokens + (np.exp(sign) - 1) * tokens.mean(0)
        np.testing.assert_allclose(ended.tokens[0] / size, exact, rtol=0, atol=1e-6)
    assert (
        run(tokens, hm.SelfAttention(), times=[0, 1e-300], method=method).problem == ""
    )


LARGE, SMALL = 5e307 * gaussian(6, 2), 1e-310 * gaussian(6, 2)
EXTREME = {
    "growing, large": (LARGE, hm.SelfAttention()),
    "decaying, large": (LARGE, hm.SelfAttention(V=-np.eye(2))),
    "nilpotent, large": (LARGE, hm.SelfAttention(V=[[0, 1], [0, 0]])),
    "defective, large": (LARGE, hm.SelfAttention(V=[[1, 1], [0, 1]])),
    "in time, large": (LARGE, hm.SelfAttention(V=lambda t: np.eye(2))),
    "in time": (gaussian(6, 2), hm.SelfAttention(V=lambda t: 100 * np.eye(2))),
    "mixed": ([[1e308, 1e-308], [-1e308, 1e-308], [1e200, 0]], hm.SelfAttention()),
    "growing, small": (SMALL, hm.SelfAttention()),
    "decaying, small": (SMALL, hm.SelfAttention(V=-np.eye(2))),
    "in time, small": (SMALL, hm.SelfAttention(V=lambda t: np.eye(2))),
}


def split_problem(run):
    """The words of a problem, and the time at which the integrator stopped."""
    numbers = re.findall(r"t = (\S+?):? ", run.problem)
    return re.sub(r"(t =|length) \S+", "", run.problem), float(*numbers)


@pytest.mark.parametrize("method", PAIRS)
@pytest.mark.parametrize("name", EXTREME)
def test_flows_that_overflow_or_underflow_end_alike(name, method, monkeypatch):
    tokens, rule = EXTREME[name]
    options = {"times": [0, 1, 8], "method": method}
    ours = hm.simulate(tokens, rule, **options)
    theirs = run_without_compiled_code(monkeypatch, tokens, rule, **options)
    words, end = zip(*map(split_problem, (ours, theirs)), strict=True)
    assert words[0] == words[1]
    assert end[0] == pytest.approx(end[1], rel=1e-2)
    assert ours.reached == theirs.reached
    size = np.abs(theirs.rescaled[0]).max()
    np.testing.assert_allclose(ours.rescaled / size, theirs.rescaled / size, atol=1e-6)
    if name.endswith("small") or name == "growing, large":
        assert ours.problem == ""
    if name in ("nilpotent, large", "in time, large", "in time"):
        assert "left the range of floats" in ours.problem


@pytest.mark.parametrize("method", ["DOP853", "RK45", "LSODA"])
def test_a_stiff_matrix_of_values_is_integrated(method):
    rule = hm.SelfAttention(V=np.diag([1.0, -80, -80]))
    run = hm.simulate(gaussian(10, 3), rule, times=[0, 3], method=method)
    assert run.problem == ""


@pytest.mark.parametrize("method", ["Radau", "BDF", "RK23"])
def test_methods_that_fail_on_stiff_values_are_refused(method):
    with pytest.raises(hm.ParameterError) as refused:
        hm.simulate([[1.0]], hm.SelfAttention(), times=1, method=method)
    assert refused.value.names == ("method",)


def test_the_advice_after_too_many_steps_helps():
    tokens = on_sphere(8, 3)
    options = {"times": [0, 15_000], "rtol": 1e-6, "max_steps": 1000}
    stopped = hm.simulate(tokens, hm.Sphere(50.0), **options)
    assert "1000 steps, the most allowed, of mean length" in stopped.problem
    assert 'use `method="LSODA"`' in stopped.problem
    advised = hm.simulate(tokens, hm.Sphere(50.0), method="LSODA", **options)
    assert advised.problem == ""
