"""The flat arrays that hold the sets of a layer, and equal tokens as one class."""

import numpy as np
import pytest

from hardmax.sets import Classes, Sets
from tests.problems import token_sets

pytestmark = [pytest.mark.quick, pytest.mark.portable]


@pytest.fixture
def sets():
    return Sets.of([[1], [0, 2], [2], [0, 1, 3]])


def test_rows_sizes_targets(sets):
    assert len(sets) == 4
    assert [row.tolist() for row in sets] == [[1], [0, 2], [2], [0, 1, 3]]
    assert sets.sizes.tolist() == [1, 2, 1, 3]
    assert sets.targets.tolist() == [1, 0, 2, 0]
    assert sets.tied.tolist() == [1, 3]
    assert len(Sets.of([])) == 0
    with_empty = Sets.of([[], [1, 2]])
    assert (with_empty.single, with_empty.sizes.tolist(), with_empty.tied.tolist()) == (
        False,
        [0, 2],
        [1],
    )


def test_equality_looks_at_rows_not_only_members(sets):
    assert sets == Sets.of([[1], [0, 2], [2], [0, 1, 3]])
    assert sets != Sets.of([[1, 0], [2], [2], [0, 1, 3]])
    assert sets != Sets.of([[1], [0, 2], [2], [0, 1, 2]])
    assert sets != [[1], [0, 2], [2], [0, 1, 3]]


@pytest.mark.parametrize("rows", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_replace_is_replacing_row_by_row(sets, rows):
    new = [[3, 4, 5], [2], [0, 1], [7]][: len(rows)]
    expected = [row.tolist() for row in sets]
    for r, row in zip(rows, new, strict=True):
        expected[r] = row
    replaced = sets.replace(np.array(rows, int), Sets.of(new))
    assert [row.tolist() for row in replaced] == expected
    assert [row.tolist() for row in sets] == [
        [1],
        [0, 2],
        [2],
        [0, 1, 3],
    ]  # the old ones stay


def test_shares_are_in_lowest_terms(sets):
    counts = np.array([4, 6, 2, 2])
    assert sets.shares(0, counts) == ([1], [1], 1)
    assert sets.shares(1, counts) == ([0, 2], [2, 1], 3)
    assert sets.shares(3, counts) == ([0, 1, 3], [2, 3, 1], 6)
    assert sets.denominator(counts) == 6
    assert sets.denominator(np.array([1, 1, 1, 1])) == 6  # of 2 and 3
    assert Sets.of([[0], [1]]).denominator(np.array([5, 7])) == 1


def test_classes_are_sorted_and_point_back():
    classes = Classes.of(np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0], [2.0, 0.0]]))
    assert classes.rows.tolist() == [[0, 5], [2, 0], [2, 1]]
    assert classes.labels.tolist() == [2, 0, 2, 1]
    assert classes.first.tolist() == [1, 3, 0]
    assert classes.counts.tolist() == [1, 1, 2]
    assert len(classes) == 3
    assert not classes.distinct


def test_zero_and_minus_zero_are_equal():
    classes = Classes.of(np.array([[-0.0, 1.0], [0.0, 1.0]]))
    assert classes.counts.tolist() == [2]
    assert not np.signbit(classes.rows).any()


@pytest.mark.parametrize("seed", range(5))
def test_order_of_tokens_changes_labels_alone(seed):
    rng = np.random.default_rng(seed)
    tokens = token_sets.duplicates(rng, 30) + 0.0
    order = rng.permutation(30)
    one, other = Classes.of(tokens), Classes.of(tokens[order])
    assert np.array_equal(one.rows, other.rows)
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.labels[order], other.labels)
    assert np.array_equal(one.rows[one.labels], tokens)
    assert all(
        one.first[c] == np.flatnonzero(one.labels == c)[0] for c in range(len(one))
    )
