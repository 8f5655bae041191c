"""Every method returns the near-maxima of the definition, whatever the size."""

import numpy as np
import pytest

from hardmax.search import reference
from hardmax.search.reference import near_maxima

pytestmark = pytest.mark.portable


def naive(queries, keys, slack):
    sets, gaps = [], []
    for q, s in zip(queries, slack, strict=True):
        products = [sum(a * b for a, b in zip(q, k, strict=True)) for k in keys]
        best = max(products)
        sets.append([j for j, p in enumerate(products) if p >= best - s])
        gaps.append(best - max([p for j, p in enumerate(products) if j not in sets[-1]], default=-np.inf))
    return sets, gaps


@pytest.mark.parametrize(
    ("rows", "m", "d"), [(1, 1, 1), (1, 63, 2), (63, 1, 3), (100, 7, 5), (7, 100, 1), (3, 2000, 2)]
)
@pytest.mark.parametrize("slack", [0.0, 2.0])
def test_near_maxima_on_integers(rows, m, d, slack):
    rng = np.random.default_rng(rows + m + d)
    queries = rng.integers(-4, 5, size=(rows, d)).astype(float)  # integers: products are exact in any order of summing
    keys = rng.integers(-4, 5, size=(m, d)).astype(float)
    sets, gaps = near_maxima(queries, keys, np.full(rows, slack))
    expected, expected_gaps = naive(queries, keys, np.full(rows, slack))
    assert [row.tolist() for row in sets] == expected
    assert gaps.tolist() == expected_gaps


@pytest.mark.parametrize("tile", [1, 9, 10, 64])
def test_tiles_change_nothing(tile, monkeypatch):
    rng = np.random.default_rng(0)
    queries, keys = rng.integers(-3, 4, size=(23, 2)) * 1.0, rng.integers(-3, 4, size=(9, 2)) * 1.0
    slack = rng.integers(0, 3, size=23) * 1.0
    whole, whole_gaps = near_maxima(queries, keys, slack)
    monkeypatch.setattr(reference, "TILE", tile)
    tiled, tiled_gaps = reference.near_maxima(queries, keys, slack)
    assert tiled == whole
    assert np.array_equal(tiled_gaps, whole_gaps)


def test_inputs_are_not_written_to():
    queries = np.array([[1.0, 0.0]])
    keys = np.array([[1.0, 0.0], [0.5, 0.0]])
    queries.setflags(write=False)
    keys.setflags(write=False)
    sets, gaps = near_maxima(queries, keys, np.zeros(1))
    assert (sets[0].tolist(), gaps.tolist()) == ([0], [0.5])


def test_no_queries():
    sets, gaps = near_maxima(np.empty((0, 2)), np.ones((3, 2)), np.empty(0))
    assert (len(sets), gaps.shape) == (0, (0,))
