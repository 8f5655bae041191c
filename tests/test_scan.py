"""The reference search against plain Python, and the compiled scan against the
reference.
"""

import numpy as np
import pytest

from hardmax.exact import argmax as exact_sets
from hardmax.exact.argmax import slack_of
from hardmax.search import dispatch, reference, scan
from tests.problems.token_sets import SHAPES, make

pytestmark = pytest.mark.portable

SIZES = [1, 2, 3, 63, 100, 257, 2000]


def near(queries, keys, slack, limits=None):
    return reference.near_maxima(queries, keys, slack, limits)[0]


def dense(sets, m):
    table = np.zeros((len(sets), m), bool)
    table[np.repeat(np.arange(len(sets)), sets.sizes), sets.members] = True
    return table


def check(found, queries, keys, slack, limits=None):
    """Compare with the definition for a slightly smaller and a slightly larger slack,
    as products round differently.
    """
    rounding = (
        4
        * len(keys.T)
        * (2.0**-53 * np.abs(queries).sum(axis=1) * np.abs(keys).max() + 5e-324)
    )
    ours = dense(found, len(keys))
    assert len(found) == len(queries)
    assert all(np.all(np.diff(found[i]) > 0) for i in found.tied)
    assert not np.any(
        dense(near(queries, keys, np.maximum(slack - rounding, 0), limits), len(keys))
        & ~ours
    )
    assert not np.any(
        ours & ~dense(near(queries, keys, slack + rounding, limits), len(keys))
    )


def naive(queries, keys, slack):
    sets, gaps = [], []
    for q, s in zip(queries, slack, strict=True):
        products = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
        best = max(products)
        sets.append([j for j, p in enumerate(products) if p >= best - s])
        gaps.append(
            best
            - max(
                [p for j, p in enumerate(products) if j not in sets[-1]],
                default=-np.inf,
            )
        )
    return sets, gaps


@pytest.mark.parametrize(
    ("rows", "m", "d"),
    [
        (0, 3, 2),
        (1, 1, 1),
        (1, 63, 2),
        (63, 1, 3),
        (100, 7, 5),
        (7, 100, 1),
        (3, 2000, 2),
    ],
)
@pytest.mark.parametrize("slack", [0.0, 2.0])
@pytest.mark.parametrize("tile", [1, 64, reference.TILE])
def test_near_maxima_on_integers(rows, m, d, slack, tile, monkeypatch):
    monkeypatch.setattr(reference, "TILE", tile)
    rng = np.random.default_rng(rows + m + d)
    queries = rng.integers(-4, 5, size=(rows, d)).astype(
        float
    )  # integers: products are exact in any order of summing
    keys = rng.integers(-4, 5, size=(m, d)).astype(float)
    queries.setflags(write=False)
    keys.setflags(write=False)
    sets, gaps = reference.near_maxima(queries, keys, np.full(rows, slack))
    expected, expected_gaps = naive(queries, keys, np.full(rows, slack))
    assert [row.tolist() for row in sets] == expected
    assert gaps.tolist() == expected_gaps


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 16, 17, 48, 64, 128])
def test_random_keys(d):
    rng = np.random.default_rng(d)
    for rows in SIZES[:-1]:
        for m in SIZES:
            queries, keys = rng.standard_normal((rows, d)), rng.standard_normal((m, d))
            slack = slack_of(queries, 0.0, keys, 0.0)
            assert scan.near_maxima(queries, keys, slack) == near(queries, keys, slack)
            slack = rng.uniform(0, 3, size=rows)
            check(scan.near_maxima(queries, keys, slack), queries, keys, slack)


@pytest.mark.parametrize(
    "kind", [kind for kind in SHAPES if kind != "mixed"]
)  # whose products overflow
@pytest.mark.parametrize("d", [1, 2, 5, 33])
def test_hard_keys(kind, d):
    rng = np.random.default_rng(d)
    for n in (1, 17, 300):
        keys = make(kind, n, d, seed=d)
        for queries in (
            keys,
            make(kind, 40, d, seed=d + 1),
            rng.standard_normal((20, d)),
        ):
            slack = slack_of(queries, 0.0, keys, 0.0)
            for limits in (None, rng.integers(1, n + 1, size=len(queries))):
                check(
                    scan.near_maxima(queries, keys, slack, limits),
                    queries,
                    keys,
                    slack,
                    limits,
                )


@pytest.mark.parametrize("slack", [0.0, 2.0, 1e300])
@pytest.mark.parametrize("d", [1, 2, 9, 100])
def test_integers_have_the_same_sets(slack, d):
    rng = np.random.default_rng(d)
    for rows, m in ((1, 1), (5, 16), (40, 33), (300, 500)):
        queries, keys = (
            rng.integers(-3, 4, size=(rows, d)) * 1.0,
            rng.integers(-3, 4, size=(m, d)) * 1.0,
        )
        for limits in (
            None,
            rng.integers(1, m + 1, size=rows),
            np.full(rows, m),
            np.ones(rows, np.intp),
        ):
            many = np.full(rows, slack)
            assert scan.near_maxima(queries, keys, many, limits) == near(
                queries, keys, many, limits
            )


def test_float32_may_err_in_every_term():
    d, unit = 64, 2.0**-24
    query = np.full(
        (1, d), unit * (1 + 2.0**-10)
    )  # each term is a bit more than half of the last digit of 1 in float32
    query[0, 0] = 1.0
    other, best = np.ones(d), np.full(d, 1 - 2.0**-8)
    other[0], best[0] = (
        1 - 2 * unit,
        1.0,
    )  # the sum of the first grows by a whole digit each time, the other never
    keys = np.repeat(
        [other, best, -other, -best], 16, axis=0
    )  # panels of 16, and their middle is 0
    slack = slack_of(query, 0.0, keys, 0.0)
    assert near(query, keys, slack).members.tolist() == list(range(16, 32))
    assert scan.near_maxima(query, keys, slack).members.tolist() == list(range(16, 32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_batches(dtype, masked, causal, numba, monkeypatch):
    monkeypatch.setattr(
        reference, "TILE", 5000
    )  # few batch elements at a time, or few queries of one
    rng = np.random.default_rng(0)
    for batch, n, d in ((1, 1, 1), (3, 20, 2), (2, 300, 5), (5, 64, 16)):
        queries, keys = (
            rng.integers(-3, 4, size=(batch, n, d)).astype(dtype) / 7 for _ in range(2)
        )
        keys[:, ::3] = keys[:, :1] * -1.0  # duplicates
        mask = rng.random((batch, n)) < 0.3 if masked else None
        found, same = exact_sets.near_maxima_of_batch(queries, keys, None, mask, causal)
        expected = [
            search_one(queries[b], keys[b], mask, causal, b, i)
            for b in range(batch)
            for i in range(n)
        ]
        assert found.sizes.tolist() == [len(row) for row in expected]
        assert found.targets.tolist() == [
            row[0] if len(row) else -1 for row in expected
        ]
        assert found.tied.tolist() == [
            i for i, row in enumerate(expected) if len(row) > 1
        ]
        for row, (members, equal) in enumerate(zip(found, same, strict=True)):
            assert members.tolist() == expected[row].tolist()
            some = keys[row // n][members]
            assert equal == np.all(some == some[:1])


def search_one(queries, keys, mask, causal, b, row):
    """Return the near-maximal keys of one query among those it sees."""
    real = np.ones(len(keys), bool) if mask is None else mask[b]
    seen = np.flatnonzero(real & (np.arange(len(keys)) <= row) if causal else real)
    query, k = queries[row : row + 1].astype(float), keys.astype(float)
    return (
        seen[near(query, k[seen], slack_of(query, 0.0, k[real], 0.0)).members]
        if len(seen)
        else seen
    )


def test_no_queries_and_no_keys(numba):
    none, some = np.zeros((2, 0, 3)), np.ones((2, 4, 3))
    assert len(exact_sets.exact_sets_of_batch(none, some)) == 0
    assert len(exact_sets.exact_sets_of_batch(some[:0], some[:0])) == 0
    assert exact_sets.exact_sets_of_batch(some, none).sizes.tolist() == [0] * 8
    assert len(scan.near_maxima(np.empty((0, 2)), np.ones((3, 2)), np.empty(0))) == 0


def test_zeros_of_both_signs_are_equal():
    keys = np.array([[[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]]])
    found, same = dispatch.search_batch(
        np.array([[[0.0, 1.0], [3.0, 0.0]]]), keys, None
    )
    assert (found.sizes.tolist(), found.targets.tolist(), same.tolist()) == (
        [2, 3],
        [0, 0],
        [True, False],
    )


def test_inputs_may_be_read_only_and_strided():
    rng = np.random.default_rng(0)
    queries, keys = rng.standard_normal((40, 6))[:, ::2], rng.standard_normal((3, 50)).T
    slack = slack_of(queries, 0.0, keys, 0.0)
    for array in (queries, keys, slack):
        array.setflags(write=False)
    assert scan.near_maxima(queries, keys, slack) == near(queries, keys, slack)
