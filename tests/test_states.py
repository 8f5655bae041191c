"""The three arithmetics: what each promises about sets, errors and gaps."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.states.floating import Scaled, robustness
from tests.problems import clouds
from tests.problems.oracle import choose, dot, fractions, sets_of


def advanced(tokens, rule, layers, **options):
    run = rule.start(np.asarray(tokens, float), **options)
    for _ in range(layers):
        run.choose()
        run.advance()
    return run


@pytest.mark.parametrize(
    "kind", ["gaussian", "duplicates", "mirrored", "huge", "tiny", "denormal", "mixed", "flattened"]
)
@pytest.mark.parametrize("alpha", [0.1, Fraction(5)])
def test_the_error_bound_of_the_float_state_holds(kind, alpha):
    tokens = clouds.KINDS[kind](np.random.default_rng(1))
    run = advanced(tokens, hm.Hardmax(alpha), 12)
    state, history = run.state, run.state.history
    exact = history.fractions(12)  # (m, d)
    unit = Fraction(2) ** state._exponent
    worst = max(abs(Fraction(z) - x / unit) for z, x in zip(state._Z.flat, exact.flat, strict=True))
    assert worst <= Fraction(state.error)
    assert state.error < 1e-13
    assert np.abs(state._Z).max() <= 1


@pytest.mark.parametrize("kind", ["gaussian", "lattice", "mirrored", "flattened"])
@pytest.mark.parametrize("A", [None, np.array([[3.0, 1.0], [1.0, 0.5]])], ids=["identity", "matrix"])
def test_gaps_are_lower_bounds_of_the_exact_ones(kind, A):
    tokens = np.asarray(clouds.KINDS[kind](np.random.default_rng(4))[:, :2], float)
    for exact in (False, True):
        run = advanced(tokens, hm.Hardmax(0.5, A, exact=exact), 1, gaps=True)
        sets, gaps = run.state.choose(np.arange(len(run.classes)))
        points = [tuple(row) for row in run.state.history.fractions(1)]
        unit = Fraction(2) ** (2 * run.state._exponent + run.state._metric.exponent)
        matrix = None if A is None else fractions(A)
        for i, members in enumerate(choose(points, matrix)):
            assert sets[i].tolist() == members
            query = points[i] if A is None else tuple(dot(row, points[i]) for row in matrix)
            products = sorted(dot(query, z) for z in points)
            gap = (products[-1] - products[-2]) / unit
            assert 0 <= gaps[i] <= gap
            assert gaps[i] >= 0.99 * gap - 1e-13


def test_adaptive_and_rational_see_the_same_from_centroids():
    tokens = clouds.mirrored(np.random.default_rng(5), n=14)
    adaptive, rational = (advanced(tokens, hm.Hardmax(Fraction(1, 2), exact=exact), 1).state for exact in (False, True))
    m = len(adaptive.classes)
    groups = [np.array([i, j]) for i in range(m) for j in range(i)]
    answers = adaptive.sees(groups)
    assert answers == rational.sees(groups)
    assert {True, False} == set(answers)


def test_only_close_rows_are_compared_exactly():
    gaussian = hm.simulate(clouds.gaussian(np.random.default_rng(0), 200), hm.Hardmax(0.5), layers=5)
    square = hm.simulate([[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]], hm.Hardmax(0.5), layers=0)
    assert gaussian.stats["sets_compared_exactly"] == 0
    assert square.stats["sets_compared_exactly"] == 2  # the tie, and the centroid of its two corners


def test_tolerance_takes_near_ties_for_ties():
    tokens = [[1.0, 0.1], [1.0, -0.1], [0.5, 0.001]]
    near = hm.simulate(tokens, hm.Hardmax(1, ties=0.01), layers=1)
    assert sets_of(near, 0) == [[0], [1], [0, 1]]
    assert near.tokens[1, 2].tolist() == [0.75, 0.0005]
    assert sets_of(hm.simulate(tokens, hm.Hardmax(1, ties=0.0), layers=0), 0) == [[0], [1], [0]]
    assert near.stats["arithmetic"] == "tolerant"
    assert "Products within 0.01 count as ties, so no limit is proved." in near.status
    assert (near.decided == -1).all()


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_tolerance_is_relative(scale):
    tokens = np.array([[1.0, 0.1], [1.0, -0.1], [0.5, 0.001]]) * scale
    for A in (None, np.eye(2) * 1e-200, np.eye(2) * 1e100):
        assert sets_of(hm.simulate(tokens, hm.Hardmax(1, A, ties=0.01), layers=0), 0) == [[0], [1], [0, 1]]


def test_scaling_is_exact_or_says_by_how_much_not():
    scaled = Scaled.of(np.array([[3e300, -1.0]]))
    assert 0.5 <= np.abs(scaled.values).max() <= 1
    assert np.ldexp(scaled.values, scaled.exponent).tolist() == [[3e300, -1.0]]
    assert scaled.error == 0
    assert Scaled.of(np.array([[1e300, 5e-324]])).error > 0  # the small one is lost, and that is said
    assert Scaled.of(np.zeros((1, 1))).exponent == 0


def test_robustness_solves_its_equation():
    eps = robustness(0.25, 0.8, 1.5)
    assert 1.5 * (4 * 0.8 * eps + 2 * eps**2) == pytest.approx(0.25, rel=1e-14)
    assert robustness(0.0, 0.8, 1.5) == 0
    assert robustness(np.inf, 0.8, 1.5) == np.inf
