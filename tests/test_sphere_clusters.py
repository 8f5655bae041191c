"""Predictions on the sphere and Renyi centres, against closed forms and definitions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

import hardmax as hm


def test_the_number_of_clusters_is_that_of_bessel_integrals() -> None:
    for beta in (2.0, 9.0, 30.0):
        weights = []
        for k in range(1, 12):
            integral = quad(
                lambda t, k=k, beta=beta: (
                    np.exp(beta * (np.cos(t) - 1)) * np.cos(k * t)
                ),
                0,
                np.pi,
            )[0]
            weights.append(k**2 * integral)
        assert hm.circle_clusters(beta) == 1 + int(np.argmax(weights))


def test_a_density_grows_as_k_squared_bessel() -> None:
    """With k as predicted, a wave of k on many tokens grows faster than one of k - 1 or
    k + 1.
    """
    n, beta = 120, 9.0
    k = hm.circle_clusters(beta)
    growth = []
    for waves in (k - 1, k, k + 1):
        phi = 2 * np.pi * np.arange(n) / n
        phi = phi + 1e-4 * np.sin(waves * phi)
        run = hm.simulate(
            np.stack([np.cos(phi), np.sin(phi)], axis=-1),
            hm.Sphere(beta),
            times=[0, 1],
            rtol=1e-10,
        )
        modes = np.abs(
            np.exp(1j * waves * np.arctan2(run.array[..., 1], run.array[..., 0])).mean(
                axis=1
            )
        )
        growth.append(modes[1] / modes[0])
    assert np.argmax(growth) == 1


def test_orthogonal_tokens_follow_the_equation_of_angles() -> None:
    times = [0, 0.5, 2, 6]
    run = hm.simulate(np.eye(5), hm.Sphere(2.0), times=times)
    cosines = (run.array[:, 0] * run.array[:, 3]).sum(axis=-1)
    np.testing.assert_allclose(cosines, hm.common_angle(2.0, 5, times), atol=1e-7)


def test_renyi_centres_are_greedy() -> None:
    tokens, delta = hm.configuration("sphere", n=50, d=3, seed=1), 0.6
    for strong in (False, True):
        centres = list[int]()
        for i, x in enumerate(tokens):
            earlier = range(i) if strong else centres
            if all(np.arccos(np.clip(x @ tokens[j], -1, 1)) > delta for j in earlier):
                centres.append(i)
        assert hm.renyi_centres(2 * tokens, delta, strong=strong).tolist() == centres


def test_statements_on_centres() -> None:
    tokens = hm.configuration("sphere", n=30, d=3, seed=2)
    run = hm.simulate(
        tokens, hm.Sphere(100, causal=True), times=np.geomspace(0.1, 120, 15), rtol=1e-6
    )
    energy, displacement = hm.theorems.check(run)
    assert energy.outcome == "hypotheses not met"
    assert displacement.holds
    np.testing.assert_allclose(
        run.array[:, 0], np.broadcast_to(tokens[0], (15, 3)), atol=1e-12
    )  # never moves
    other = hm.simulate(tokens, hm.Sphere(100), times=[1])
    assert hm.theorems.renyi_displacement(other).outcome == "hypotheses not met"


@pytest.mark.parametrize(("beta", "seed"), [(10, 0), (14, 1)])
def test_tokens_stay_in_their_caps_until_the_time_of_the_bound(
    beta: float, seed: int
) -> None:
    eps, n = (
        0.05,
        12,
    )  # arXiv 2410.06833: caps of angle eps, which have 2 eps to stay in
    rng, centres = np.random.default_rng(seed), np.eye(3)[np.arange(n) % 3]
    tangents = rng.normal(size=(n, 3))
    tangents -= (tangents * centres).sum(axis=1, keepdims=True) * centres
    angles = eps * rng.random(n)[:, None]
    start = np.cos(angles) * centres + np.sin(angles) * tangents / np.linalg.norm(
        tangents, axis=1, keepdims=True
    )
    end = (
        eps / n * np.exp((1 - np.sin(4 * eps)) * beta)
    )  # the largest cosine between caps of 2 eps is sin(4 eps)
    times = [*np.linspace(0, end, 50)[1:], 200 * end]
    run = hm.simulate(
        start, hm.Sphere(beta), times=times, rtol=1e-6, max_steps=50_000
    ).array
    away = np.arccos(np.clip((run * centres).sum(axis=-1), -1, 1)).max(axis=1)
    assert away[:-1].max() <= 2 * eps < away[-1]
    spread = np.linalg.norm(run[-2] - run[-2][np.arange(n) % 3], axis=1)
    assert spread.max() < 1e-5  # by then each cap has become one point


def test_under_full_support_paths_are_those_of_a_linear_flow() -> None:
    V, B, beta = (
        np.array([[1.0, 0.5], [-0.3, 0.8]]),
        np.array([[1.2, 0.1], [0.4, 0.7]]),
        4000.0,
    )
    circle = 2 * np.pi * np.arange(4000) / 4000
    keys = np.column_stack(
        [np.cos(circle), np.sin(circle)]
    )  # the density on them matters less than 1/beta

    def mean_field(x):
        P = np.exp(beta * ((B @ x) @ keys.T - np.linalg.norm(B @ x)))
        return V @ (P @ keys / P.sum())

    x = x0 = np.array([np.cos(0.4), np.sin(0.4)])
    s, dt = 0.0, 0.01
    for _ in range(
        150
        # midpoint rule for x' = P_x V sum_j P_j y_j, and the time s' = 1/|B x| of the
        # linear flow
    ):
        v = mean_field(x)
        half = x + dt / 2 * (v - (x @ v) * x)
        v = mean_field(half / np.linalg.norm(half))
        s += dt / np.linalg.norm(B @ half) * np.linalg.norm(half)
        x = x + dt * (v - (half @ v) * half / (half @ half))
        x /= np.linalg.norm(x)
    linear = expm(s * V @ B) @ x0
    assert np.linalg.norm(x - x0) > 0.2
    np.testing.assert_allclose(x, linear / np.linalg.norm(linear), atol=2e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", [5.0, 200.0, 1000.0])
def test_small_angles_and_rounding_are_no_failures(beta: float, dtype: type) -> None:
    for seed in range(3):
        tokens = hm.configuration("sphere", n=6, d=2, seed=seed).astype(dtype)
        times = np.linspace(0, 20, 7)
        run = hm.simulate(tokens, hm.Sphere(beta, causal=True), times=times)
        displacement = hm.theorems.renyi_displacement(run)
        assert displacement.outcome != "fails", displacement


def test_a_centre_that_moves_too_far_fails() -> None:
    tokens = hm.configuration("sphere", n=30, d=3, seed=2)
    times = np.linspace(0, 1, 41)
    run = hm.simulate(tokens, hm.Sphere(100, causal=True), times=times)
    moved = run.tokens.copy()
    moved[10:, 0] = (moved[10:, 0] + 0.1) / np.linalg.norm(
        moved[10:, 0] + 0.1, axis=-1, keepdims=True
    )
    found = hm.theorems.renyi_displacement(replace(run, tokens=moved))
    assert found.outcome == "fails"
    assert found.witness["token"] == 0


def test_a_separation_beyond_pi_is_not_met() -> None:
    tokens = hm.configuration("sphere", n=4, d=2)
    run = hm.simulate(tokens, hm.Sphere(0.1, causal=True), times=1)
    outcomes = {found.outcome for found in hm.theorems.check(run)}
    assert outcomes == {"hypotheses not met"}
