"""The tree returns the near-maxima of the definition, whatever the shape, scale and order of the keys."""

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.argmax import argmax_sets
from hardmax.search import tree, tree_choice
from hardmax.search.dispatch import Search
from hardmax.search.lanes import LANES
from hardmax.search.rounding import slack_of
from hardmax.search.tree_nodes import empty_tree, fill, measure
from hardmax.search.tree_order import arrange
from tests.test_fused import GENERATORS, dense, near

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
    found = tree.near_maxima(queries, keys, slack)
    rounding = 4 * len(keys.T) * (2.0**-53 * np.abs(queries).sum(axis=1) * np.abs(keys).max() + 5e-324)
    ours = dense(found, len(keys))
    assert all(np.all(np.diff(found[i]) > 0) for i in found.tied)
    assert not np.any(dense(near(queries, keys, np.maximum(slack - rounding, 0)), len(keys)) & ~ours)
    assert not np.any(ours & ~dense(near(queries, keys, slack + rounding), len(keys)))


@pytest.mark.parametrize("d", [3, 6, *(pytest.param(d, marks=pytest.mark.slow) for d in (1, 2, 4, 5))])
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


@pytest.mark.parametrize("d", [3, pytest.param(4, marks=pytest.mark.slow), 6])
def test_several_levels_and_parts(d):
    rng = np.random.default_rng(d)
    for kind in ("sphere", "ellipsoid", "clusters", "gaussian"):
        keys = MORE[kind](rng, 70_000, d)
        queries = np.concatenate([keys[:40], rng.standard_normal((40, d))])
        check(queries, keys, slack_of(queries, 0.0, keys, 0.0))


@pytest.mark.parametrize("d", [3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["sphere", "shell", "rounded", "half", "away"])
def test_tokens_that_start_in_their_own_panels(kind, d):
    """Of several levels, with equal ones and ties, about zero and about other points."""
    tokens = MORE["shell" if kind == "shell" else "sphere"](np.random.default_rng(d), 9000, d)
    changed = {
        "rounded": lambda: np.round(32 * tokens) / 32,
        "half": lambda: tokens[tokens[:, 0] > 0],
        "away": lambda: tokens + 4,
    }
    tokens = changed.get(kind, lambda: tokens)()
    tokens = np.concatenate([tokens, tokens[:500]])
    assert argmax_sets(tokens, kernel="tree") == argmax_sets(tokens, kernel="scan")


@pytest.mark.parametrize("kind", ["sphere", "ellipsoid", "line", "all equal", "clusters", "shrinking", "one far key"])
def test_nodes_hold_their_keys(kind):
    d, m = 3, 5000
    points = MORE[kind](np.random.default_rng(0), m, d)
    points = (points / np.abs(points).max()).astype(np.float32)
    keys, made, ids = points.astype(np.float64), empty_tree(m, d), np.zeros(2 * m, np.int32)
    ids[:m] = np.arange(m)
    panels = made.counts[0]
    arrange(points, ids, 0, panels, 1)
    assert sorted(ids[:m]) == list(range(m))
    fill(made, keys, points, ids, 0, panels)
    measure(made, d, 0, panels, 0, 1 << 40)
    with np.errstate(invalid="ignore"):  # of nodes that are not there
        groups = made.nodes.reshape(-1, 3 * d + 3, LANES).astype(np.float64)
    ordered = keys[made.order]
    for level, count in enumerate(made.counts):
        for number in range(count):
            node = groups[made.groups[level] + number // LANES, :, number % LANES]
            c, m_, e, (g, h, s) = node[:d], node[d : 2 * d], node[2 * d : 3 * d], node[3 * d :]
            own = ordered[number * LANES ** (level + 1) : (number + 1) * LANES ** (level + 1)]
            away = own - c
            assert (np.abs(away) <= e).all()
            assert (np.abs(away @ m_ - g) <= h).all()
            assert (np.square(own).sum(axis=1) <= s).all()


def test_auto_takes_the_tree_on_a_sphere():
    rng = np.random.default_rng(0)
    for kind, expected in (("sphere", "tree"), ("gaussian", "scan")):
        keys, search = MORE[kind](rng, 20_000, 3), Search()
        search.near_maxima(keys, keys, slack_of(keys, 0.0, keys, 0.0))
        assert str(search) == expected
    assert not tree_choice.pays(keys[:100], keys[:100])
    assert not tree_choice.pays(np.ones((20_000, 7)), np.ones((20_000, 7)))


def test_layers_are_those_of_the_definition():
    tokens = hm.configuration("sphere", n=600, d=3)
    rule = hm.Hardmax(0.5, A=[[3, 1, 0], [1, 2, 0], [0, 0, 1]])
    one, other = (hm.simulate(tokens, rule, layers=4, kernel=kernel) for kernel in ("numpy", "tree"))
    assert other.stats["kernel"] == "tree"
    for k in range(5):
        assert [row.tolist() for row in one.sets(k)] == [row.tolist() for row in other.sets(k)]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"`kernel=\"tree\"` must have tokens in 6 dimensions at most\. Got d = 7\."):
        argmax_sets(np.ones((2, 7)), kernel="tree")
    with pytest.raises(ValueError, match=r"`kernel=\"tree\"` must have `causal=False`"):
        hm.simulate(np.ones((2, 3)), hm.Hardmax(1, causal=True), layers=1, kernel="tree")
