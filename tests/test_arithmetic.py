"""The three arithmetics: sets, errors and gaps."""

import importlib
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.argmax import Metric, Scaled, ScaledBatch, slack_of
from hardmax.exact.argmax import _lead_of_winners as gaps_of
from hardmax.layer import error_after, move
from hardmax.run import Run
from hardmax.sets import Sets
from tests.problems import token_sets
from tests.problems.oracle import choose, dot, fractions
from tests.problems.token_sets import make

pytestmark = [pytest.mark.quick, pytest.mark.portable]


def advanced(tokens, rule, layers, **options):
    """Return the state of the tokens after some layers, and their classes."""
    record = hm.simulate(np.asarray(tokens, float), rule, layers=layers).records[0]
    *_, state = record.replay(layers, **options)
    return state, record.classes


@pytest.mark.parametrize(
    "kind",
    [
        "gaussian",
        "duplicates",
        "mirrored",
        "huge",
        "tiny",
        "denormal",
        "mixed",
        "flattened",
    ],
)
@pytest.mark.parametrize("alpha", [0.1, Fraction(5)])
def test_the_error_bound_of_the_float_state_holds(kind, alpha):
    tokens = token_sets.KINDS[kind](np.random.default_rng(1))
    state, _ = advanced(tokens, hm.Hardmax(alpha), 12)
    exact = state.exact.fractions(12)  # (m, d)
    unit = Fraction(2) ** int(state._exponents[0])
    worst = max(
        abs(Fraction(z) - x / unit)
        for z, x in zip(state._Z.flat, exact.flat, strict=True)
    )
    assert worst <= Fraction(state.error)
    assert state.error < 1e-13
    assert np.abs(state._Z).max() <= 1


@pytest.mark.parametrize("kind", ["gaussian", "lattice", "mirrored", "flattened"])
@pytest.mark.parametrize(
    "A", [None, np.array([[3.0, 1.0], [1.0, 0.5]])], ids=["identity", "matrix"]
)
def test_gaps_are_lower_bounds_of_the_exact_ones(kind, A):
    tokens = np.asarray(token_sets.KINDS[kind](np.random.default_rng(4))[:, :2], float)
    for exact in (False, True):
        rule = hm.Hardmax(0.5, A, exact=exact)
        state, classes = advanced(tokens, rule, 1, gaps=True)
        sets, gaps = state.choose(np.arange(len(classes)))
        points = [tuple(row) for row in state.exact.fractions(1)]
        unit = Fraction(2) ** int(2 * state._exponents[0] + rule.metric.exponent)
        matrix = None if A is None else fractions(A)
        for i, members in enumerate(choose(points, matrix)):
            assert sets[i].tolist() == members
            query = (
                points[i] if A is None else tuple(dot(row, points[i]) for row in matrix)
            )
            products = sorted(dot(query, z) for z in points)
            gap = (products[-1] - products[-2]) / unit
            assert 0 <= gaps[i] <= gap
            assert gaps[i] >= 0.99 * gap - 1e-13


@pytest.mark.parametrize("kind", ["gaussian", "sphere", "lattice", "wide clusters"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_searched_gaps_are_those_of_all_products(kind, d, monkeypatch):
    tokens = make(kind, 400, d)
    plain = hm.limit(tokens, hm.Hardmax(0.5)).radius
    importlib.import_module("hardmax.search.threads")
    monkeypatch.setattr("hardmax.search.dispatch.MIN_GAPS", 0)
    state, classes = advanced(tokens, hm.Hardmax(0.5), 1, gaps=True)
    rows = np.arange(len(classes))
    gaps = state.choose(rows)[1]
    monkeypatch.setattr("hardmax.search.dispatch.MAX_GAPS_D", 0)
    state, _ = advanced(tokens, hm.Hardmax(0.5), 1, gaps=True)
    expected = state.choose(rows)[1]
    np.testing.assert_allclose(gaps, expected, rtol=0, atol=1e-15 * d)
    assert hm.limit(tokens, hm.Hardmax(0.5)).radius == pytest.approx(
        plain, rel=1e-6, abs=1e-15
    )


@pytest.mark.parametrize("n", [2, 3, 16, 17, 100])
def test_every_winner_is_compared_with_every_other(n):
    angles = np.random.default_rng(n).permutation(n) * 2 * np.pi / n + 0.1
    keys = np.column_stack([np.cos(angles), np.sin(angles)])
    queries = keys + 1e-3 * np.random.default_rng(0).normal(size=(n, 2))
    products = np.sort(queries @ keys.T, axis=1)
    gaps = gaps_of(queries, keys, np.full(n, 1e-14), np.arange(n))
    np.testing.assert_allclose(gaps, products[:, -1] - products[:, -2], atol=1e-15)
    assert np.isinf(
        gaps_of(queries, keys[:1], np.zeros(n), np.zeros(n, np.intp))
    ).all()  # a key alone


def test_centroids_have_the_same_sets_in_both_exact_arithmetics():
    tokens = token_sets.mirrored(np.random.default_rng(5), n=14)
    adaptive, rational = (
        advanced(tokens, hm.Hardmax(Fraction(1, 2), exact=exact), 1)[0]
        for exact in (False, True)
    )
    m = len(adaptive.classes)
    pairs = Sets.of([[i, j] for i in range(m) for j in range(i)])
    rows = np.zeros(len(pairs), int)
    seen, _ = adaptive.choose_from_centroids(pairs, rows)
    assert seen == rational.choose_from_centroids(pairs, rows)[0]
    assert {True, False} == {
        set(pairs[r].tolist()) <= set(seen[r].tolist()) for r in range(len(pairs))
    }


def test_only_close_rows_are_compared_exactly():
    for tokens, rows in (
        (make("gaussian", 200, 3), 0),
        ([[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0]], 2),
    ):
        run = hm.simulate(tokens, hm.Hardmax(0.5), layers=0)
        assert (
            run.stats["sets_compared_exactly"] == rows
        )  # the tie, and the centroid of its two corners


def test_scaling_is_exact_or_has_an_error_bound():
    scaled = Scaled.of(np.array([[3e300, -1.0]]))
    assert 0.5 <= np.abs(scaled.values).max() <= 1
    assert np.ldexp(scaled.values, scaled.exponent).tolist() == [[3e300, -1.0]]
    assert scaled.error == 0
    assert Scaled.of(np.array([[1e300, 5e-324]])).error > 0  # the small one is lost
    large, small = 2.0**1000, (1 + 2.0**-52) * 2.0**-60
    scaled = Scaled.of(
        np.array([[large, small]])
    )  # the small one becomes 2^-1061, where its last digit is lost
    lost = (
        abs(Fraction(scaled.values[0, 1]) * 2**scaled.exponent - Fraction(small))
        / 2**scaled.exponent
    )
    assert 0 < lost <= Fraction(scaled.error)
    assert Scaled.of(np.zeros((1, 1))).exponent == 0


def test_batch_elements_are_scaled_as_each_alone():
    rng = np.random.default_rng(0)
    queries, keys = rng.normal(size=(2, 6, 5, 3))
    for batch in (queries, keys):
        batch[1] *= 1e200
        batch[2] *= 1e-200
        batch[3] *= 1e300
        batch[3, 0, 0], batch[4], batch[5, 1] = 5e-324, 0.0, 0.0
    queries[3, 0, 0] = 1.0
    Q, K = ScaledBatch.of(queries), ScaledBatch.of(keys)
    slack = slack_of(Q.values, Q.errors[:, None], K.values, K.errors[:, None])
    for b in range(6):
        one, other = Scaled.of(queries[b]), Scaled.of(keys[b])
        for batch, alone in ((Q, one), (K, other)):
            np.testing.assert_array_equal(batch.values[b], alone.values)
            assert (batch.exponents[b], batch.errors[b]) == (
                alone.exponent,
                alone.error,
            )
        alone = slack_of(one.values, one.error, other.values, other.error)
        np.testing.assert_allclose(slack[b], alone, rtol=1e-14)
    assert K.errors[3] > 0 == K.errors[2]


UNIT = 2.0**-53


def summed(query, key):
    """Return a product summed in floats, one term after the other, and the exact
    product.
    """
    total = 0.0
    for q, z in zip(query.tolist(), key.tolist(), strict=True):
        total += q * z
    return Fraction(total), dot(
        map(Fraction, query.tolist()), map(Fraction, key.tolist())
    )


@pytest.mark.parametrize("d", [8, 64, 1000])
def test_the_slack_holds_the_worst_errors_of_two_products(d):
    query, keys = np.full(d, UNIT), np.full((2, d), 0.5)
    query[0] = (
        # each other term is half of the last digit of the sum: a bit less is lost, a
        # bit more is doubled
        1.0
    )
    keys[:, 1:] *= np.array([[1 - 2.0**-20], [1 + 2.0**-20]])
    slack = Fraction(slack_of(query[None], 0.0, keys, 0.0)[0])
    (low, less), (high, more) = (summed(query, key) for key in keys)
    assert less - low > Fraction(0.49 * (d - 1) * UNIT)
    assert high - more > Fraction(0.49 * (d - 1) * UNIT)
    assert (less - low) + (high - more) <= slack <= Fraction(2.03 * (d + 4) * UNIT)


def test_the_slack_holds_the_errors_of_positions():
    d, error = 16, 2.0**-30
    query, keys = np.full((1, d), 0.25), np.full((2, d), 0.5)
    # Keys may be nearer and farther by `error` in each coordinate while computed
    # products agree.
    assert slack_of(query, 0.0, keys, error)[0] >= 2 * error * np.abs(query).sum()
    query, keys[1, 1:] = np.eye(1, d), -0.5
    keys[:, 0] = 2.0**-10
    # These keys are equal for the query, and differ if it is off by `error` in each
    # coordinate.
    assert (
        slack_of(query, error, keys, 0.0)[0] >= error * np.abs(keys[0] - keys[1]).sum()
    )
    both = slack_of(query, error, keys, error)[0]
    assert (
        both
        >= 2 * error * np.abs(query).sum() + error * np.abs(keys[0] - keys[1]).sum()
    )


def nearly_half(m):
    """Return a number whose sum over m terms is rounded down nearly each time, once it
    is beyond m / 4.
    """
    return 0.5 + m * 2.0**-55 - UNIT


def test_the_error_of_a_mean_of_many_is_counted():
    m = 1024
    tokens = np.full((m + 1, 2), nearly_half(m))
    tokens[0] = 0.0
    sets = Sets.of([list(range(1, m + 1)), *([j] for j in range(1, m + 1))])
    moved = move(tokens, sets.mean(tokens, np.ones(m + 1, int)), 0.5)
    error = error_after(0.0, m)
    off = abs(Fraction(moved[0, 0]) - Fraction(nearly_half(m)) / 2)
    assert Fraction(32 * UNIT) < off <= Fraction(error)


def test_the_set_of_a_centroid_of_many_does_not_depend_on_its_rounding():
    m = 1024
    height = 0.25 + (np.arange(m) - (m - 1) / 2) * 2.0**-20  # the mean is 1/4
    delta = 1.5 * 2.0**-45
    many, pair = (
        np.column_stack([np.full(m, nearly_half(m)), height]),
        [[1.0, -2 * delta], [0.0, 2.0]],
    )
    run = Run(hm.Hardmax(1), np.vstack([many, pair]))
    group = [np.flatnonzero(run.classes.rows[:, 0] == nearly_half(m))]
    centre = (Fraction(nearly_half(m)), Fraction(1, 4))
    products = [dot(centre, map(Fraction, row)) for row in run.classes.rows.tolist()]
    (best,) = np.flatnonzero([product == max(products) for product in products])
    chosen, _ = run.state.choose_from_centroids(Sets.of(group), np.zeros(1, int))
    assert chosen[0].tolist() == [best]


def test_the_error_of_a_query_holds():
    rng = np.random.default_rng(0)
    A, points = rng.normal(size=(5, 5)), rng.uniform(-1, 1, size=(40, 5))
    metric = Metric.of(A)
    queries, error = metric.queries(points, 0.0)
    unit = Fraction(2) ** metric.exponent
    exact = [
        dot(row, point) / unit for point in fractions(points) for row in fractions(A)
    ]
    worst = max(abs(Fraction(q) - x) for q, x in zip(queries.flat, exact, strict=True))
    assert 0 < worst <= Fraction(error)
    assert error < 1e-14
