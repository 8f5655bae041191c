"""The compiled search returns the near-maxima of the definition, whatever the size, scale, order and threads."""

import numba
import numpy as np
import pytest

from hardmax.exact import argmax as exact_sets
from hardmax.exact.argmax import slack_of
from hardmax.search import dispatch, reference, scan
from hardmax.search.sets import Sets

pytestmark = pytest.mark.portable

SIZES = [1, 2, 3, 63, 100, 257, 2000]
GENERATORS = {
    "gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "sphere": lambda rng, n, d: (lambda g: g / np.linalg.norm(g, axis=1)[:, None])(rng.standard_normal((n, d))),
    "lattice": lambda rng, n, d: rng.integers(-2, 3, size=(n, d)) * 1.0,
    "mirrored": lambda rng, n, d: (lambda g: np.concatenate([g, -g])[:n])(rng.standard_normal((n, d))),
    "collinear": lambda rng, n, d: rng.integers(-3, 4, size=(n, 1)) * rng.standard_normal((1, d)),
    "all equal": lambda rng, n, d: np.ones((n, 1)) * rng.standard_normal((1, d)),
    "clusters": lambda rng, n, d: rng.integers(0, 2, size=(n, d)) + 1e-9 * rng.standard_normal((n, d)),
    "far from zero": lambda rng, n, d: rng.standard_normal((n, d)) + 1e6,
    "one far key": lambda rng, n, d: rng.standard_normal((n, d)) * np.r_[1e9, np.ones(n - 1)][:, None],
    "mixed scales": lambda rng, n, d: rng.standard_normal((n, d)) * 2.0 ** rng.integers(-300, 300, size=(n, 1)),
    "tiny": lambda rng, n, d: rng.standard_normal((n, d)) * 2.0 ** rng.integers(-1070, -400, size=(n, 1)),
    "denormal": lambda rng, n, d: rng.integers(-3, 4, size=(n, d)) * 5e-324,
    "underflow": lambda rng, n, d: rng.standard_normal((n, d)) * 1e-160,
    "huge": lambda rng, n, d: rng.standard_normal((n, d)) * 1e150,
    "zeros": lambda rng, n, d: np.where(rng.random((n, 1)) < 0.5, 0.0, rng.standard_normal((n, d))),
}


def near(queries, keys, slack, limits=None):
    """The definition, without what else it returns."""
    found = reference.near_maxima(queries, keys, slack, limits)
    return found if isinstance(found, Sets) else found[0]


def dense(sets, m):
    table = np.zeros((len(sets), m), bool)
    table[np.repeat(np.arange(len(sets)), sets.sizes), sets.members] = True
    return table


def check(queries, keys, slack, limits=None):
    """Between the reference and the reference with a slightly larger slack, whose products round differently."""
    found = scan.near_maxima(queries, keys, slack, limits)
    rounding = 4 * len(keys.T) * (2.0**-53 * np.abs(queries).sum(axis=1) * np.abs(keys).max() + 5e-324)
    ours = dense(found, len(keys))
    assert len(found) == len(queries)
    assert all(np.all(np.diff(found[i]) > 0) for i in found.tied)
    assert not np.any(dense(near(queries, keys, np.maximum(slack - rounding, 0), limits), len(keys)) & ~ours)
    assert not np.any(ours & ~dense(near(queries, keys, slack + rounding, limits), len(keys)))
    return found


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 16, 17, 48, 64, 128])
def test_random_keys(d):
    rng = np.random.default_rng(d)
    for rows in SIZES[:-1]:
        for m in SIZES:
            queries, keys = rng.standard_normal((rows, d)), rng.standard_normal((m, d))
            slack = slack_of(queries, 0.0, keys, 0.0)
            assert scan.near_maxima(queries, keys, slack) == near(queries, keys, slack)
            check(queries, keys, rng.uniform(0, 3, size=rows))


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("d", [1, 2, 5, 33])
def test_hard_keys(name, d):
    rng = np.random.default_rng(d)
    for n in (1, 17, 300):
        keys = GENERATORS[name](rng, n, d)
        for queries in (keys, GENERATORS[name](rng, 40, d), rng.standard_normal((20, d))):
            check(queries, keys, slack_of(queries, 0.0, keys, 0.0))
            check(queries, keys, slack_of(queries, 0.0, keys, 0.0), rng.integers(1, n + 1, size=len(queries)))


@pytest.mark.parametrize("d", [2, 6])
def test_powers_of_two_change_nothing(d):
    rng = np.random.default_rng(d)
    queries, keys = rng.standard_normal((32, d)), rng.standard_normal((1000, d))
    slack = slack_of(queries, 0.0, keys, 0.0)
    expected = near(queries, keys, slack)
    for exponent in range(-900, 481, 20):
        scale = 2.0**exponent
        assert scan.near_maxima(queries * scale, keys, slack * scale) == expected
        assert scan.near_maxima(queries, keys * scale, slack * scale) == expected
        assert scan.near_maxima(queries / scale, keys * scale, slack) == expected


@pytest.mark.parametrize("slack", [0.0, 2.0, 1e300])
@pytest.mark.parametrize("d", [1, 2, 9, 100])
def test_integers_have_the_same_sets(slack, d):
    rng = np.random.default_rng(d)
    for rows, m in ((1, 1), (5, 16), (40, 33), (300, 500)):
        queries, keys = rng.integers(-3, 4, size=(rows, d)) * 1.0, rng.integers(-3, 4, size=(m, d)) * 1.0
        limits = rng.integers(1, m + 1, size=rows)
        for seen in (None, limits, np.full(rows, m), np.ones(rows, np.intp)):
            many = np.full(rows, slack)
            assert scan.near_maxima(queries, keys, many, seen) == near(queries, keys, many, seen)


def test_float32_may_err_in_every_term():
    d, unit = 64, 2.0**-24
    query = np.full(
        (1, d), unit * (1 + 2.0**-10)
    )  # each term is half of the last digit of 1 in float32, and a bit more
    query[0, 0] = 1.0
    other, best = np.ones(d), np.full(d, 1 - 2.0**-8)
    other[0], best[0] = 1 - 2 * unit, 1.0  # the sum of the first grows by a whole digit each time, the other never
    keys = np.repeat([other, best, -other, -best], 16, axis=0)  # panels of 16, and their middle is 0
    slack = slack_of(query, 0.0, keys, 0.0)
    assert near(query, keys, slack).members.tolist() == list(range(16, 32))
    assert scan.near_maxima(query, keys, slack).members.tolist() == list(range(16, 32))


def test_a_zero_query_is_near_every_key():
    queries, keys = np.zeros((3, 2)), np.random.default_rng(0).standard_normal((1000, 2))
    assert scan.near_maxima(queries, keys, np.zeros(3)).members.tolist() == list(range(1000)) * 3


def test_any_order_and_number_of_threads():
    rng = np.random.default_rng(0)
    for d, name in ((2, "lattice"), (16, "gaussian"), (3, "mirrored")):
        keys = GENERATORS[name](rng, 900, d)
        slack, order = slack_of(keys, 0.0, keys, 0.0), rng.permutation(900)
        whole = scan.near_maxima(keys, keys, slack)
        shuffled = scan.near_maxima(keys, keys[order], slack)
        assert np.array_equal(dense(shuffled, 900), dense(whole, 900)[:, order])
        threads = numba.get_num_threads()
        try:
            numba.set_num_threads(1)
            assert scan.near_maxima(keys, keys, slack) == whole
        finally:
            numba.set_num_threads(threads)


def test_every_entry_is_written(monkeypatch):
    rng = np.random.default_rng(0)
    queries, keys = rng.integers(-3, 4, size=(2, 70, 3)) * 1.0, rng.integers(-3, 4, size=(2, 45, 3)) * 1.0
    mask = rng.random((2, 45)) < 0.4
    calls = [(queries, keys, None, *more) for more in ((), (mask,), (None, True), (mask, True))]
    expected = [dispatch.search_batch(*call) for call in calls]
    empty = np.empty

    def poisoned(*args, **options):
        array = empty(*args, **options)
        array.view(np.uint8).fill(0xFF)  # not a number, or minus one
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    for call, (sets, same) in zip(calls, expected, strict=True):
        ours, other = dispatch.search_batch(*call)
        assert ours == sets
        assert np.array_equal(other, same)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("numba", [False, True])
def test_batches(dtype, masked, causal, numba, without_numba, monkeypatch):
    if not numba:
        without_numba()
    monkeypatch.setattr(reference, "TILE", 5000)  # few clouds at a time, or few queries of one
    rng = np.random.default_rng(0)
    for clouds, n, d in ((1, 1, 1), (3, 20, 2), (2, 300, 5), (5, 64, 16)):
        queries, keys = (rng.integers(-3, 4, size=(clouds, n, d)).astype(dtype) / 7 for _ in range(2))
        keys[:, ::3] = keys[:, :1] * -1.0  # duplicates
        mask = rng.random((clouds, n)) < 0.3 if masked else None
        found, same = exact_sets.near_maxima_of_batch(queries, keys, None, mask, causal)
        expected = [brute_force(queries, keys, mask, causal, c, i) for c in range(clouds) for i in range(n)]
        assert found.sizes.tolist() == [len(row) for row in expected]
        assert found.targets.tolist() == [row[0] if len(row) else -1 for row in expected]
        assert found.tied.tolist() == [i for i, row in enumerate(expected) if len(row) > 1]
        for row, (members, equal) in enumerate(zip(found, same, strict=True)):
            assert members.tolist() == expected[row].tolist()
            some = keys[row // n][members]
            assert equal == np.all(some == some[:1])


@pytest.mark.parametrize("numba", [False, True])
def test_no_queries_and_no_keys(numba, without_numba):
    if not numba:
        without_numba()
    none, some = np.zeros((2, 0, 3)), np.ones((2, 4, 3))
    assert len(exact_sets.exact_sets_of_batch(none, some)) == 0
    assert exact_sets.exact_sets_of_batch(some, none).sizes.tolist() == [0] * 8


def brute_force(queries, keys, mask, causal, cloud, row):
    """Near-maximal keys of one query among those it sees."""
    seen = np.ones(keys.shape[1], bool) if mask is None else mask[cloud].copy()
    if causal:
        seen[row + 1 :] = False
    q, k, visible = queries[cloud].astype(float), keys[cloud].astype(float), np.flatnonzero(seen)
    if not len(visible):
        return visible
    everything = k if mask is None else k[mask[cloud]]
    return visible[near(q[row : row + 1], k[visible], slack_of(q[row : row + 1], 0.0, everything, 0.0)).members]


def test_zeros_of_both_signs_are_equal():
    keys = np.array([[[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]]])
    found, same = dispatch.search_batch(np.array([[[0.0, 1.0], [3.0, 0.0]]]), keys)
    assert (found.sizes.tolist(), found.targets.tolist(), same.tolist()) == ([2, 3], [0, 0], [True, False])


def test_inputs_may_be_read_only_and_strided():
    rng = np.random.default_rng(0)
    queries, keys = rng.standard_normal((40, 6))[:, ::2], rng.standard_normal((3, 50)).T
    slack = slack_of(queries, 0.0, keys, 0.0)
    for array in (queries, keys, slack):
        array.setflags(write=False)
    assert scan.near_maxima(queries, keys, slack) == near(queries, keys, slack)


def test_no_queries():
    assert len(scan.near_maxima(np.empty((0, 2)), np.ones((3, 2)), np.empty(0))) == 0
    assert len(dispatch.search_batch(np.empty((0, 4, 2)), np.empty((0, 4, 2)))[0]) == 0
