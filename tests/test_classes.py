"""Equal tokens as one class."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax.search.sets import Classes
from tests.problems import token_sets


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


def test_numbers_one_rounding_apart_are_distinct():
    assert Classes.of(np.array([[1.0], [np.nextafter(1.0, 2.0)]])).distinct
    assert Classes.of(np.array([[0.0], [5e-324]])).distinct


def test_fractions_beyond_floats_are_told_apart():
    third = Fraction(1, 3)
    tokens = np.array([[third], [third + Fraction(1, 10**40)], [third]], object)
    classes = Classes.of(tokens)
    assert classes.labels.tolist() == [0, 1, 0]
    assert classes.rows[0, 0] == third


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
    assert all(one.first[c] == np.flatnonzero(one.labels == c)[0] for c in range(len(one)))
