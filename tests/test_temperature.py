"""Certified temperature: the bound against runs of softmax, its recursion in plain
Python, and ties.
"""

from math import exp

import numpy as np
import pytest

import hardmax as hm


def define_bounds(tokens, beta, b, layers):
    """Return the bounds by (1) in plain Python, with A = I."""
    z, bounds = np.array(tokens, float), [0.0]
    R = max(np.linalg.norm(z, axis=1))
    for _ in range(layers):
        e, scores = bounds[-1], z @ z.T
        targets, eta, worst = scores.argmax(axis=1), 1.01 * (2 * R * e + e * e), 0.0
        for i, target in enumerate(targets):
            own = [j for j in range(len(z)) if j != target]
            leads = {
                j: max(0.0, scores[i, target] - scores[i, j] - 2 * eta) for j in own
            }
            worst = max(
                worst,
                sum(
                    (np.linalg.norm(z[target] - z[j]) + 2 * e) * exp(-beta * leads[j])
                    for j in own
                ),
            )
        bounds.append(min(e + b * worst, 2 * R))
        z = z + b * (z[targets] - z)
    return bounds


@pytest.mark.parametrize("seed", range(6))
def test_softmax_follows_hardmax_from_beta_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, A = rng.normal(size=(12, 3)), None if seed % 2 else np.diag([1.0, 2.0, 0.5])
    rule = hm.Hardmax(0.5, A)
    certificate = hm.temperature.certify(tokens, rule, layers=5)
    assert np.isfinite(certificate.beta)
    betas = [certificate.beta, 2 * certificate.beta, 0.1 * certificate.beta]
    measured, bounds = hm.temperature.compare(tokens, rule, 5, betas)
    assert (measured <= bounds).all()
    np.testing.assert_array_equal(bounds[0], certificate.distances)
    assert (bounds[1] <= bounds[0]).all()
    hard = hm.simulate(tokens, rule, layers=5)
    for beta in betas[:2]:
        soft = hm.simulate(tokens, hm.Softmax(0.5, A, temperature=1 / beta), layers=5)
        for k in range(5):
            assert (
                soft.attention(k).argmax(axis=1) == hard.attention(k).argmax(axis=1)
            ).all()


def test_the_bound_is_the_recursion() -> None:
    tokens = np.random.default_rng(3).normal(size=(8, 2))
    _, found = hm.temperature.compare(tokens, hm.Hardmax(1), 4, [10.0, 300.0])
    for beta, bounds in zip([10.0, 300.0], found, strict=True):
        np.testing.assert_allclose(
            bounds, define_bounds(tokens, beta, 0.5, 4), rtol=1e-6, atol=1e-12
        )


def test_two_tokens_have_a_closed_form() -> None:
    measured, bounds = hm.temperature.compare([[1.0], [-1.0]], hm.Hardmax(1), 1, [3.0])
    assert measured[0, 1] == pytest.approx(0.5 * 2 / (1 + np.exp(6)))
    assert bounds[0, 1] == pytest.approx(0.5 * 2 * np.exp(-6))


def test_bounds_at_a_large_beta_cover_the_rounding_of_both_runs() -> None:
    tokens = np.random.default_rng(0).normal(size=(20, 3))
    measured, bounds = hm.temperature.compare(tokens, hm.Hardmax(1.3), 6, [1e6, 1e12])
    assert (measured <= bounds).all()
    assert 0 < measured.max() < 1e-14
    assert bounds.max() < 1e-11


@pytest.mark.parametrize("exponent", [-600, -100, 300, 530])
def test_scaled_tokens_have_the_scaled_certificate(exponent: int) -> None:
    tokens, scale, rule = (
        np.random.default_rng(1).normal(size=(9, 2)),
        2.0**exponent,
        hm.Hardmax(0.5),
    )
    one, other = (hm.temperature.certify(z, rule, 4) for z in (tokens, tokens * scale))
    np.testing.assert_array_equal(other.distances, one.distances * scale)
    if exponent == -600:  # beta is 4^600 times larger
        assert other.beta == np.inf
        assert "precision of floats" in repr(other)
    else:
        assert other.beta == max(one.beta * 2.0**-exponent * 2.0**-exponent, 1e-300)


def test_ties_and_batches() -> None:
    tied = hm.temperature.certify([[1, 1], [1, -1], [0.5, 0]], hm.Hardmax(1), layers=2)
    assert tied.beta == np.inf
    assert "several targets" in repr(tied)
    with pytest.raises(hm.InputError, match="batch"):
        hm.temperature.certify([[[1.0], [2.0]]], hm.Hardmax(1), 2)
