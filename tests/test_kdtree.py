"""The k-d tree returns the near-maxima of the definition for every shape, scale and
order of the keys.
"""

import numpy as np
import pytest

from hardmax.exact.argmax import argmax_sets, slack_of
from hardmax.search import kdtree, scan
from hardmax.search.dispatch import Search
from hardmax.search.sets import TooMany
from tests.problems.token_sets import SHAPES, make
from tests.test_scan import check

EXHAUSTIVE = (pytest.mark.slow, pytest.mark.exhaustive)


def check_tree(queries, keys, slack):
    found = kdtree.near_maxima(queries, keys, slack)
    left = np.flatnonzero(
        found.sizes == 0
    )  # rows that the dispatcher leaves to the scan
    check(
        found.replace(left, scan.near_maxima(queries[left], keys, slack[left])),
        queries,
        keys,
        slack,
    )


@pytest.mark.parametrize(
    "d", [3, *(pytest.param(d, marks=EXHAUSTIVE) for d in (1, 2, 6))]
)
@pytest.mark.parametrize(
    "kind", [kind for kind in SHAPES if kind != "mixed"]
)  # whose products overflow
def test_keys_of_every_kind(kind, d):
    rng = np.random.default_rng(d)
    for m in (1, 2, 15, 16, 17, 63, 257, 1000):
        keys = make(kind, m, d, seed=d)
        for queries in (
            keys,
            keys @ rng.standard_normal((d, d)),
            rng.standard_normal((100, d)),
        ):
            if np.abs(queries).max() * np.abs(keys).max() < 1e300:
                check_tree(queries, keys, slack_of(queries, 0.0, keys, 0.0))


@pytest.mark.parametrize("slack", [0.0, 1e-9, 1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("kind", ["sphere", "gaussian", "lattice", "wide clusters"])
def test_any_slack(kind, slack):
    rng = np.random.default_rng(0)
    queries = np.concatenate(
        [
            rng.standard_normal((99, 3)),
            np.zeros((1, 3)),
            1e-200 * rng.standard_normal((30, 3)),
        ]
    )
    check_tree(queries, make(kind, 700, 3), np.full(len(queries), slack))


@pytest.mark.parametrize("d", [3, pytest.param(4, marks=EXHAUSTIVE), 6])
def test_several_levels_and_parts(d):
    for kind in ("sphere", "ellipsoid", "clusters", "gaussian"):
        keys = make(kind, 70_000, d)
        queries = np.concatenate(
            [keys[:40], np.random.default_rng(d).standard_normal((40, d))]
        )
        check_tree(queries, keys, slack_of(queries, 0.0, keys, 0.0))


@pytest.mark.parametrize("d", [3, pytest.param(5, marks=EXHAUSTIVE)])
@pytest.mark.parametrize("kind", ["sphere", "shell", "rounded", "half", "away"])
def test_tokens_of_several_thousands_with_ties(kind, d):
    tokens = make("shell" if kind == "shell" else "sphere", 9000, d)
    changed = {
        "rounded": np.round(32 * tokens) / 32,
        "half": tokens[tokens[:, 0] > 0],
        "away": tokens + 4,
    }
    tokens = changed.get(kind, tokens)
    tokens = np.concatenate([tokens, tokens[:500]])
    assert argmax_sets(tokens, kernel="kdtree") == argmax_sets(tokens, kernel="scan")


def test_auto_takes_the_tree_on_a_sphere():
    for kind, expected in (("sphere", "kdtree"), ("gaussian", "scan")):
        keys, search = make(kind, 20_000, 3), Search()
        search.near_maxima(keys, keys, slack_of(keys, 0.0, keys, 0.0))
        assert str(search) == expected
    assert not kdtree.pays(keys[:100], keys[:100])
    assert not kdtree.pays(np.ones((20_000, 7)), np.ones((20_000, 7)))


def test_queries_near_zero_are_left_to_the_scan():
    keys = make("sphere", 300, 3)
    queries = np.concatenate([keys[:5], np.zeros((2, 3)), 1e-200 * keys[:3]])
    assert (
        kdtree.near_maxima(queries, keys, np.zeros(10)).sizes.tolist()
        == [1] * 5 + [0] * 5
    )
    assert (
        kdtree.near_maxima(queries, np.ones((300, 3)), np.zeros(10)).sizes.tolist()
        == [0] * 10
    )


def test_more_members_than_memory_allows_are_refused(monkeypatch):
    monkeypatch.setattr(kdtree, "MAX_MEMBERS", 1000)
    keys = np.repeat(make("sphere", 20, 3), 20, axis=0)
    with pytest.raises(TooMany):
        kdtree.near_maxima(keys, keys, np.full(400, 1e-12))
    assert argmax_sets(keys, kernel="kdtree") == argmax_sets(keys, kernel="numpy")


def test_clustered_tokens_and_far_queries_go_to_the_scan():
    cap = make("sphere", 20_000, 3)
    cap[:, 0] = (
        np.abs(cap[:, 0]) * 1e-3
    )  # all keys are near a circle, and queries point away from it
    clusters = make("clusters", 20_000, 3)
    for keys, queries in (
        (clusters, clusters),
        (cap, np.tile([1.0, 0.0, 0.0], (20_000, 1))),
    ):
        assert not kdtree.pays(queries, keys)
