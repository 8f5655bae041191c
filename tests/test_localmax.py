"""Localmax: exact sets, quiescent groups, limits and the statement, against Fractions
and closed forms.
"""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm

NEAR = [[2, 0], [1.75, 0.5], [0, 2]]


def define_sets(Z, eps, A=None):
    Z = [[Fraction(x) for x in row] for row in Z]
    images = (
        Z
        if A is None
        else [
            [sum(Fraction(a) * x for a, x in zip(r, z, strict=True)) for r in A]
            for z in Z
        ]
    )
    scores = [
        [sum(a * b for a, b in zip(image, z, strict=True)) for z in Z]
        for image in images
    ]
    return [[s >= max(row) - eps for s in row] for row in scores]


def test_zero_tolerance_is_hardmax() -> None:
    for seed in range(5):
        tokens = np.random.default_rng(seed).integers(-2, 3, (12, 2))
        run = hm.simulate(tokens, hm.Localmax(0.5, 0), layers=1)
        other = hm.simulate(tokens, hm.Hardmax(0.5), layers=1)
        np.testing.assert_allclose(run.array[1], other.array[1], atol=1e-15)
        np.testing.assert_array_equal(run.attention(0) > 0, other.attention(0) > 0)
        limit, expected = (
            hm.limit(tokens, hm.Localmax(0.5, 0)),
            hm.limit(tokens, hm.Hardmax(0.5)),
        )
        assert (
            limit.certificate() == expected.certificate()
        )  # an edge's middle has no quiescent group


def test_the_threshold_is_rational() -> None:
    tokens = [
        [1, 0],
        [Fraction(9, 10), 0],
    ]  # products 1 and 9/10: 1/10 is inside, the float 0.1 above it too
    for eps, both in (
        (Fraction(1, 10), True),
        (0.1, True),
        (Fraction(1, 10) - Fraction(1, 10**30), False),
    ):
        assert hm.limit(tokens, hm.Localmax(1, eps), max_layers=0).sets[0].all() == both
    near = np.nextafter(0.1, 0)
    assert not hm.limit(tokens, hm.Localmax(1, near), max_layers=0).sets[0].all()


@pytest.mark.parametrize("seed", range(8))
def test_a_certified_limit_goes_on_as_proved(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, alpha, eps = (
        rng.normal(size=(10, 2)).round(2),
        Fraction(1, 2),
        Fraction(3, 10),
    )
    limit = hm.limit(tokens, hm.Localmax(alpha, eps), max_layers=60)
    assert limit.certified
    Z = [[Fraction(x) for x in row] for row in tokens.tolist()]
    for k in range(limit.layer + 6):  # by the definition
        sets = define_sets(Z, eps)
        if k >= limit.layer:
            assert sets == limit.sets.tolist()
            for z, end, first in zip(
                Z, limit.exact().tolist(), limit._state.tolist(), strict=True
            ):
                share = Fraction(2, 3) ** (k - limit.layer)
                assert z == [
                    c + share * (x - c) for c, x in zip(end, first, strict=True)
                ]
        means = [
            [
                sum(z[r] for z, near in zip(Z, row, strict=True) if near) / sum(row)
                for r in (0, 1)
            ]
            for row in sets
        ]
        Z = [
            [x + (c - x) / 3 for x, c in zip(z, mean, strict=True)]
            for z, mean in zip(Z, means, strict=True)
        ]


def test_a_decreasing_tolerance_is_certified_if_it_is_slow() -> None:
    slow = hm.limit(NEAR, hm.Localmax(1, 1, decay=0.75))
    assert slow.certified
    assert slow.exact()[0].tolist() == [Fraction(15, 8), Fraction(1, 4)]
    fast = hm.limit(NEAR, hm.Localmax(1, 1, decay=0.25), max_layers=10)
    assert not fast.certified
    assert "shrinks faster" in fast.status
    relative = hm.limit(NEAR, hm.Localmax(1, 0.2, relative=True), max_layers=3)
    assert "No theorem covers a relative tolerance" in relative.status


def test_the_statement() -> None:
    (verdict,) = hm.theorems.check(hm.simulate(NEAR, hm.Localmax(1, 1), layers=12))
    assert verdict.holds
    assert verdict.witness == {"layer": 0}
    for seed in range(10):
        tokens = np.random.default_rng(seed).normal(size=(15, 3))
        assert (
            hm.theorems.quiescent(
                hm.simulate(tokens, hm.Localmax(0.5, 0.3), layers=40)
            ).holds
            is not False
        )
    early = hm.theorems.quiescent(
        hm.simulate([[1, 0], [0.9, 0], [0.5, 0]], hm.Localmax(1, 0.2), layers=0)
    )
    assert early.outcome == "nothing to check"
    relative = hm.theorems.quiescent(
        hm.simulate(NEAR, hm.Localmax(1, 0.1, relative=True), layers=3)
    )
    assert relative.outcome == "hypotheses not met"


def test_a_relative_tolerance_scales_with_the_tokens() -> None:
    tokens, A = np.array([[1.0, 0], [0.995, 0], [0.5, 0], [-1, 0]]), [[2, 0], [0, 1]]
    for scale in (1, 1e150, 1e-150):
        limit = hm.limit(
            tokens * scale, hm.Localmax(1, 0.01, A, relative=True), max_layers=0
        )
        assert [np.flatnonzero(row).tolist() for row in limit.sets] == [
            [0, 1],
            [0, 1],
            [0, 1],
            [3],
        ]
