"""The k-d tree returns the near-maxima of the definition, whatever the shape, scale and order of the keys."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.argmax import argmax_sets, slack_of
from hardmax.search import kdtree, scan
from hardmax.search.dispatch import Search
from hardmax.search.sets import TooMany
from tests.test_scan import GENERATORS, dense, near

SIZES = [1, 2, 15, 16, 17, 63, 257, 2000]
MORE = GENERATORS | {
    "cube": lambda rng, n, d: rng.choice([-1.0, 1.0], size=(n, d)),
    "line": lambda rng, n, d: rng.standard_normal((n, 1)) * np.linspace(1, 1 / 3, d),
    "narrow clusters": lambda rng, n, d: (
        rng.standard_normal((4, d))[rng.integers(4, size=n)] + 1e-16 * rng.standard_normal((n, d))
    ),
    "shell": lambda rng, n, d: GENERATORS["sphere"](rng, n, d) * (1 + 1e-7 * rng.standard_normal((n, 1))),
    "ellipsoid": lambda rng, n, d: GENERATORS["sphere"](rng, n, d) * 10.0 ** -np.arange(d),
    "shrinking": lambda rng, n, d: rng.standard_normal((n, d)) * 0.5 ** np.arange(n)[:, None],
}


def check(queries, keys, slack):
    """Between the definition with a slightly smaller and a slightly larger slack, whose products round differently."""
    found = kdtree.near_maxima(queries, keys, slack)
    left = np.flatnonzero(found.sizes == 0)  # rows that the dispatcher passes on
    found = found.replace(left, scan.near_maxima(queries[left], keys, slack[left]))
    rounding = 4 * len(keys.T) * (2.0**-53 * np.abs(queries).sum(axis=1) * np.abs(keys).max() + 5e-324)
    ours = dense(found, len(keys))
    assert all(np.all(np.diff(found[i]) > 0) for i in found.tied)
    assert not np.any(dense(near(queries, keys, np.maximum(slack - rounding, 0)), len(keys)) & ~ours)
    assert not np.any(ours & ~dense(near(queries, keys, slack + rounding), len(keys)))


@pytest.mark.parametrize(
    "d", [3, *(pytest.param(d, marks=(pytest.mark.slow, pytest.mark.exhaustive)) for d in (1, 2, 6))]
)
@pytest.mark.parametrize("kind", MORE)
def test_keys_of_every_kind(kind, d):
    rng = np.random.default_rng(d)
    for m in SIZES:
        with np.errstate(over="ignore", under="ignore"):
            keys = MORE[kind](rng, m, d)
        for queries in (keys, keys @ rng.standard_normal((d, d)), rng.standard_normal((100, d))):
            if np.abs(queries).max() * np.abs(keys).max() < 1e300:
                check(queries, keys, slack_of(queries, 0.0, keys, 0.0))


@pytest.mark.parametrize("slack", [0.0, 1e-9, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("kind", ["sphere", "gaussian", "lattice", "clusters"])
def test_any_slack(kind, slack):
    rng = np.random.default_rng(0)
    keys = MORE[kind](rng, 700, 3)
    queries = np.concatenate([rng.standard_normal((99, 3)), np.zeros((1, 3)), 1e-200 * rng.standard_normal((30, 3))])
    check(queries, keys, np.full(len(queries), slack))


@pytest.mark.parametrize("d", [3, pytest.param(4, marks=(pytest.mark.slow, pytest.mark.exhaustive)), 6])
def test_several_levels_and_parts(d):
    rng = np.random.default_rng(d)
    for kind in ("sphere", "ellipsoid", "clusters", "gaussian"):
        keys = MORE[kind](rng, 70_000, d)
        queries = np.concatenate([keys[:40], rng.standard_normal((40, d))])
        check(queries, keys, slack_of(queries, 0.0, keys, 0.0))


@pytest.mark.parametrize("d", [3, pytest.param(5, marks=(pytest.mark.slow, pytest.mark.exhaustive))])
@pytest.mark.parametrize("kind", ["sphere", "shell", "rounded", "half", "away"])
def test_tokens_of_several_thousands_with_ties(kind, d):
    tokens = MORE["shell" if kind == "shell" else "sphere"](np.random.default_rng(d), 9000, d)
    changed = {
        "rounded": lambda: np.round(32 * tokens) / 32,
        "half": lambda: tokens[tokens[:, 0] > 0],
        "away": lambda: tokens + 4,
    }
    tokens = changed.get(kind, lambda: tokens)()
    tokens = np.concatenate([tokens, tokens[:500]])
    assert argmax_sets(tokens, kernel="kdtree") == argmax_sets(tokens, kernel="scan")


def test_auto_takes_the_tree_on_a_sphere():
    rng = np.random.default_rng(0)
    for kind, expected in (("sphere", "kdtree"), ("gaussian", "scan")):
        keys, search = MORE[kind](rng, 20_000, 3), Search()
        search.near_maxima(keys, keys, slack_of(keys, 0.0, keys, 0.0))
        assert str(search) == expected
    assert not kdtree.pays(keys[:100], keys[:100])
    assert not kdtree.pays(np.ones((20_000, 7)), np.ones((20_000, 7)))


def test_layers_are_those_of_the_definition():
    tokens = hm.configuration("sphere", n=600, d=3)
    rule = hm.Hardmax(0.5, A=[[3, 1, 0], [1, 2, 0], [0, 0, 1]])
    one, other = (hm.simulate(tokens, rule, layers=4, kernel=kernel) for kernel in ("numpy", "kdtree"))
    assert other.stats["kernel"] == "kdtree"
    for k in range(5):
        assert [row.tolist() for row in one.sets(k)] == [row.tolist() for row in other.sets(k)]


def test_queries_near_zero_are_left_to_the_scan():
    keys = MORE["sphere"](np.random.default_rng(0), 300, 3)
    queries = np.concatenate([keys[:5], np.zeros((2, 3)), 1e-200 * keys[:3]])
    assert kdtree.near_maxima(queries, keys, np.zeros(10)).sizes.tolist() == [1] * 5 + [0] * 5
    assert kdtree.near_maxima(queries, np.ones((300, 3)), np.zeros(10)).sizes.tolist() == [0] * 10


def test_more_members_than_memory_allows_are_refused(monkeypatch):
    monkeypatch.setattr(kdtree, "MAX_MEMBERS", 1000)
    keys = np.repeat(MORE["sphere"](np.random.default_rng(0), 20, 3), 20, axis=0)
    with pytest.raises(TooMany):
        kdtree.near_maxima(keys, keys, np.full(400, 1e-12))
    assert argmax_sets(keys, kernel="kdtree") == argmax_sets(keys, kernel="numpy")


def test_clustered_tokens_and_far_queries_go_to_the_scan():
    rng = np.random.default_rng(0)
    clusters = rng.standard_normal((8, 3))[rng.integers(8, size=20_000)] + 1e-3 * rng.standard_normal((20_000, 3))
    cap = MORE["sphere"](rng, 20_000, 3)
    cap[:, 0] = np.abs(cap[:, 0]) * 1e-3  # all keys are near a circle, and queries look away from it
    for keys, queries in ((clusters, clusters), (cap, np.tile([1.0, 0.0, 0.0], (20_000, 1)))):
        assert not kdtree.pays(queries, keys)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`kernel=\"kdtree\"`"):
        hm.simulate(np.ones((2, 3)), hm.Hardmax(1, causal=True), layers=1, kernel="kdtree")
