"""Rational arithmetic against Fractions and the definition."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import _exact
from hardmax._exact import as_floats, common_denominator, dot, over_one_denominator
from hardmax.exact.argmax import argmax_sets
from hardmax.exact.comparison import compare_exactly
from hardmax.layer import ExactPositions, Layer
from hardmax.sets import MAX_MEMBERS, Classes, Sets
from tests.memory import peak_of
from tests.problems import token_sets
from tests.problems.oracle import choose, definition

pytestmark = [pytest.mark.quick, pytest.mark.portable]


def test_one_denominator_for_floats_and_fractions():
    rows, D = over_one_denominator(np.array([[0.5, -0.75], [3.0, 2.0**-20]]))
    assert (rows, D) == ([(2**19, -3 * 2**18), (3 * 2**20, 1)], 2**20)
    rows, D = over_one_denominator(np.array([[Fraction(1, 6), Fraction(3, 4)]], object))
    assert (rows, D) == ([(2, 9)], 12)
    values = np.array([[5e-324, 1.7e308, -1e-300]])
    rows, D = over_one_denominator(values)
    assert [Fraction(x, D) for x in rows[0]] == [Fraction(x) for x in values[0]]
    assert as_floats(rows, D).tolist() == values.tolist()


@pytest.mark.parametrize(
    "kind",
    ["gaussian", "lattice", "duplicates", "huge", "denormal", "mixed", "rational"],
)
def test_the_common_denominator_is_the_least(kind):
    values = np.asarray(token_sets.KINDS[kind](np.random.default_rng(1)))
    values = values if values.dtype == object else values.astype(float)
    assert common_denominator(values) == over_one_denominator(values)[1]


@pytest.mark.parametrize("alpha", [Fraction(1, 2), 0.1, [Fraction(1, 3), 2]], ids=str)
def test_history_is_lazy_and_right(alpha):
    tokens = token_sets.mirrored(np.random.default_rng(2))
    run = hm.simulate(tokens, hm.Hardmax(alpha), layers=6)
    truth = definition(tokens, alpha, layers=6)
    record = run.records[0]
    classes = record.classes
    history = ExactPositions(
        classes, run.rule.step, record.layers, record.last, record.emerged
    )
    last = len(classes) - 1
    for layer, ids in (
        (5, [last]),
        (6, [0, last]),
        (2, [1]),
        (0, [0]),
    ):  # out of order, with what is known in between
        D = history.denominator(layer)
        for i, row in zip(ids, history.at(layer, ids), strict=True):
            assert (
                tuple(Fraction(x, D) for x in row)
                == truth.positions[layer][classes.first[i]]
            )
    assert [
        tuple(row) for row in history.fractions(4)[classes.labels]
    ] == truth.positions[4]


def test_history_computes_no_more_than_it_needs():
    classes = Classes.of(np.array([[1.0], [2.0], [3.0]]))
    layers = [Layer(np.arange(3), Sets.of([[1], [1], [2]]))]
    history = ExactPositions(
        classes, lambda k: Fraction(1), layers, np.zeros(3, int), np.full(3, -1)
    )
    assert history.at(1, [0]) == [(3,)]
    assert list(history._rows[1]) == [0]
    assert history.denominator(1) == 2


def argmax(points, candidates, keys, A):
    """Return the exact maximisers of each query among its candidates."""
    sets, _ = compare_exactly(
        Sets.of(candidates), points, lambda ids: [keys[j] for j in ids], A
    )
    return [row.tolist() for row in sets]


@pytest.mark.parametrize("A", [None, [(2, 1), (-1, 0)]])
@pytest.mark.parametrize("spread", [3, 10**30])
@pytest.mark.parametrize(
    "queries", [2, 60]
)  # below and above the count where the float filter starts
def test_argmax_is_exact_among_near_equal_positions(A, spread, queries):
    rng = np.random.default_rng(queries)
    base = (10**60, -(10**60))  # as floats all keys are equal
    offsets = rng.integers(-9, 9, (40, 2)).tolist()
    keys = {
        j: (base[0] + x * spread // 3, base[1] + y) for j, (x, y) in enumerate(offsets)
    }
    points = [
        tuple(row) for row in rng.integers(-(10**9), 10**9, size=(queries, 2)).tolist()
    ]
    points[0] = (0, 0)
    candidates = [np.arange(40) if r % 2 else np.arange(5, 40) for r in range(queries)]
    for point, options, answer in zip(
        points, candidates, argmax(points, candidates, keys, A), strict=True
    ):
        (best,) = choose([point], A, keys=[keys[j] for j in options.tolist()])
        assert answer == options[best].tolist()


def test_argmax_keeps_ties_that_floats_would_break():
    q = (123456789, 987654321)
    keys = {
        t: (7 * 10**40 + q[1] * t, 10**41 - q[0] * t) for t in range(1, 31)
    }  # all level for every multiple of q
    candidates = [np.arange(1, 31)] * 30
    assert (
        argmax([(q[0] * s, q[1] * s) for s in range(1, 31)], candidates, keys, None)
        == [list(range(1, 31))] * 30
    )
    assert (
        argmax([(1, 2)] * 30, candidates, dict.fromkeys(range(1, 31), (7, 7)), None)
        == [list(range(1, 31))] * 30
    )


def test_argmax_holds_where_every_rounding_of_the_filter_is_against_it():
    d, big = 64, 2**60
    query = (
        2**80,
        *[2**27 + 2**17] * (d - 1),
    )  # as floats 1, and a bit more than half of its last digit
    zero, other = (
        (0,) * d,
        (big - 2**8, *[big] * (d - 1)),
    )  # grows by a whole digit with each term
    best = (big, *[big - 2**52] * (d - 1))  # never grows
    assert dot(query, best) > dot(query, other)
    keys = dict(
        enumerate([zero, other, best] * 10)
    )  # enough that each product is summed from left to right
    assert (
        argmax([query] * 100, [np.arange(30)] * 100, keys, None)
        == [list(range(2, 30, 3))] * 100
    )


@pytest.mark.parametrize("kernel", ["numpy", "scan"])
def test_tokens_within_rounding_take_linear_memory(kernel):
    rng = np.random.default_rng(0)
    tokens = 1 + 2.0**-52 * np.unique(
        rng.integers(0, 12, size=(2600, 4)), axis=0
    )  # every key is near for every query
    peak, sets = peak_of(lambda: argmax_sets(tokens, kernel=kernel))
    assert (
        peak < 8 * MAX_MEMBERS * 4
    )  # all candidates at once, which are copied several times, would take more
    assert len(tokens) ** 2 > MAX_MEMBERS
    some = rng.integers(len(tokens), size=3)
    assert [sets[i].tolist() for i in some] == choose(tokens[some], keys=tokens)


def test_printed_bounds_are_rounded_in_the_safe_direction():
    assert [_exact.format_down(bound, 2) for bound in (0.01058, 1.0, -0.01052)] == [
        "0.01",
        "1",
        "-0.011",
    ]
    assert [_exact.format_up(bound, 2) for bound in (0.01051, 0.1, float("inf"))] == [
        "0.011",
        "0.1",
        "inf",
    ]
