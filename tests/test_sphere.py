"""Self-attention on the sphere: tokens stay on it, the energy grows as the gradient
flow says, clusters form.
"""

import numpy as np
import pytest

import hardmax as hm

TOKENS = hm.configuration("sphere", n=8, d=3, seed=3)
BETAS = [0, 1, 9, 50]


def velocity(x, beta, normalized=True, causal=False):
    """p_i(sum_j w_ij x_j) by loops."""
    moved = []
    for i in range(len(x)):
        seen = range(i + 1 if causal else len(x))
        powers = [np.exp(beta * (x[i] @ x[j])) for j in seen]
        total = sum(powers) if normalized else len(powers)
        pull = sum(power / total * x[j] for power, j in zip(powers, seen, strict=True))
        moved.append(pull - (x[i] @ pull) * x[i])
    return np.array(moved)


def energy(x, beta):
    products = [x[i] @ x[j] for i in range(len(x)) for j in range(len(x))]
    return (
        np.mean(products) / 2
        if beta == 0
        else np.mean(np.exp(np.multiply(beta, products))) / (2 * beta)
    )


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_velocity_is_the_sum_of_the_definition(beta, normalized, causal):
    rule, expected = (
        hm.Sphere(beta, normalized=normalized, causal=causal),
        velocity(TOKENS, beta, normalized, causal),
    )
    got = rule.velocity(TOKENS, 0.0)
    np.testing.assert_allclose(
        got, expected, rtol=0, atol=1e-13 * max(1, np.abs(expected).max())
    )
    np.testing.assert_allclose(
        (got * TOKENS).sum(axis=1), 0, atol=1e-13 * np.exp(0 if normalized else beta)
    )


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize(
    "options",
    [{}, {"method": "euler", "dt": 0.2}, {"method": "rk4", "dt": 0.2}],
    ids=str,
)
def test_tokens_stay_on_the_sphere(beta, options):
    run = hm.simulate(TOKENS, hm.Sphere(beta), times=[0, 1, 10, 50], **options)
    np.testing.assert_allclose(
        np.linalg.norm(run.tokens, axis=-1), 1, rtol=0, atol=1e-12
    )
    assert run.rescaled is None
    assert run.drawn is run.array


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("normalized", [True, False])
def test_the_energy_never_decreases(beta, normalized):
    end = (
        20.0 if normalized else 160 * np.exp(-beta)
    )  # without the division by row sums time runs as e^beta / n
    run = hm.simulate(
        TOKENS, hm.Sphere(beta, normalized=normalized), times=np.linspace(0, end, 60)
    )
    np.testing.assert_allclose(
        run.energy, [energy(x, beta) for x in run.tokens], rtol=1e-12
    )
    assert np.diff(run.energy).min() >= -1e-9 * run.energy[-1]
    assert run.energy[-1] > run.energy[0]


@pytest.mark.parametrize("beta", [0, 1, 4])
@pytest.mark.parametrize("normalized", [True, False])
def test_the_energy_grows_by_the_squared_gradient(beta, normalized):
    """The gradient of E at x_i is 1/n of the velocity u_i of the flow without row sums:
    dE/dt = 1/n sum_i <u_i, x_i'>.

    With row sums Z_i, x_i' = u_i n / Z_i. Without them dE/dt is the mean of |x_i'|^2.
    """
    h, t = 1e-3, 0.5
    rule = hm.Sphere(beta, normalized=normalized)
    run = hm.simulate(TOKENS, rule, times=[t - h, t, t + h], rtol=1e-12, atol=1e-14)
    x = run.tokens[1]
    expected = (velocity(x, beta, False) * velocity(x, beta, normalized)).sum() / len(x)
    assert (run.energy[2] - run.energy[0]) / (2 * h) == pytest.approx(
        expected, rel=1e-4
    )


@pytest.mark.parametrize("beta", [0, 1])
def test_all_tokens_end_in_one_point(beta):
    run = hm.simulate(TOKENS, hm.Sphere(beta), times=[0, 1, 5, 60])
    assert (np.diff(run.similarity) > 0).all()
    assert run.similarity[-1] == pytest.approx(1, abs=1e-6)
    assert run.clusters.tolist() == [0] * 8
    assert "1 cluster of tokens at the end." in run.status


def test_large_beta_keeps_clusters_for_long():
    run = hm.simulate(TOKENS, hm.Sphere(50), times=[0, 10])
    assert run.similarity[-1] < 0.9
    assert len(run.leaders) > 0


@pytest.mark.parametrize(
    "pair", [[[0.6, 0.8], [-0.6, -0.8]], [[1.0], [-1.0]]], ids=["plane", "line"]
)
@pytest.mark.parametrize("normalized", [True, False])
def test_antipodal_tokens_stay(pair, normalized):
    for options in ({}, {"method": "rk4", "dt": 0.5}):
        run = hm.simulate(
            pair, hm.Sphere(2, normalized=normalized), times=[0, 5], **options
        )
        np.testing.assert_allclose(run.tokens[-1], pair, rtol=0, atol=1e-12)
        assert run.clusters.tolist() == [0, 1]


def test_two_tokens_meet_as_the_formula_says():
    """For two tokens at an angle 2 a and beta = 0, a' = -sin(2 a)/2, so tan a falls as
    e^{-t}.
    """
    a = 0.9
    pair = [[np.cos(a), np.sin(a)], [np.cos(a), -np.sin(a)]]
    times = np.array([0, 0.5, 2])
    run = hm.simulate(pair, hm.Sphere(0), times=times, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        run.tokens[:, 0, 1] / run.tokens[:, 0, 0], np.tan(a) * np.exp(-times), rtol=1e-8
    )


def test_attention_is_softmax_of_the_products_of_seen_tokens():
    run = hm.simulate(TOKENS, hm.Sphere(5), times=[0, 1])
    powers = np.exp(5 * run.tokens[1] @ run.tokens[1].T)
    np.testing.assert_allclose(
        run.attention(1), powers / powers.sum(axis=1, keepdims=True), rtol=1e-12
    )
    causal = hm.Sphere(0, causal=True).attention(TOKENS, 0.0)
    np.testing.assert_allclose(causal[2], [1 / 3] * 3 + [0] * 5)
    masked = hm.Sphere(0).attention(TOKENS, 0.0, np.array([[True] * 7 + [False]]))
    np.testing.assert_allclose(masked[2], [1 / 7] * 7 + [0])


def test_valid_arguments():
    run = hm.simulate(TOKENS * (1 + 5e-7), hm.Sphere(1), times=[0.5, 1])
    np.testing.assert_allclose(np.linalg.norm(run.tokens, axis=-1), 1, atol=1e-12)
    assert np.isfinite(hm.simulate(TOKENS, hm.Sphere(1e6), times=[0, 1]).tokens).all()
    assert np.isfinite(hm.Sphere(700, normalized=False).velocity(TOKENS, 0.0)).all()


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA"])
def test_beta_may_depend_on_time(method):
    def beta(t):
        return 1 + t**2

    times = np.linspace(0, 3, 7)
    run = hm.simulate(TOKENS, hm.Sphere(beta), times=times, method=method, rtol=1e-10)
    np.testing.assert_allclose(
        run.attention(2), hm.Sphere(beta(1.0)).attention(run.array[2], 0), rtol=1e-12
    )
    fine = hm.simulate(TOKENS, hm.Sphere(beta), times=times, method="rk4", dt=0.0125)
    np.testing.assert_allclose(run.array, fine.array, rtol=0, atol=1e-7)
    constant = hm.simulate(
        TOKENS, hm.Sphere(lambda t: 4.0), times=times, method=method, rtol=1e-10
    )
    np.testing.assert_allclose(
        constant.array,
        hm.simulate(TOKENS, hm.Sphere(4.0), times=times).array,
        atol=1e-6,
    )
    (verdict,) = (found for found in hm.theorems.check(run) if found.name == "energy")
    assert verdict.holds is None
    with pytest.raises(hm.ParameterError, match="beta"):
        _ = run.energy
