"""Invalid input is refused with the parameter and what was given; unusual numbers are not rounded."""

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

import hardmax as hm
from hardmax import _validation
from hardmax.exact.argmax import argmax_sets

pytestmark = [pytest.mark.quick, pytest.mark.portable]

RULE = hm.Hardmax(0.5)
GOOD = [[1.0, 2.0], [0.5, 1.0]]
TOKENS = {
    "nan": ([[1.0, np.nan]], "nan at index (0, 1)"),
    "infinity": ([[1.0], [-np.inf]], "-inf at index (1, 0)"),
    "nan in a batch": (np.full((2, 1, 1), np.nan), "nan at index (0, 0, 0), 2 such values"),
    "empty": ([], "shape (0,)"),
    "no tokens": (np.empty((0, 3)), "shape (0, 3)"),
    "no dimension": (np.empty((3, 0)), "shape (3, 0)"),
    "number": (3.0, "shape ()"),
    "one axis": ([1.0, 2.0], "shape (2,)"),
    "four axes": (np.ones((1, 1, 1, 1)), "shape (1, 1, 1, 1)"),
    "ragged": ([[1.0, 2.0], [3.0]], "rows of different lengths"),
    "strings": ([["good", "film"]], "<U4"),
    "complex": ([[1j]], "complex128"),
    "dates": (np.zeros((1, 1), "M8[s]"), "datetime64[s]"),
    "mixed words": (np.array([[1, "a"]], object), "'a' at index (0, 1)"),
    "nothing": ([[1.0, None]], "None at index (0, 1)"),
    "nan object": (np.array([[np.nan]], object), "nan at index (0, 0)"),
    "long double nan": (np.array([[np.nan]], np.longdouble), ""),
    "masked": (np.ma.masked_array([[1.0, 2.0]], [[False, True]]), "masked array with 1 masked"),
    "sparse": (csr_array([[1.0, 2.0]]), "csr_array"),
    "too large": ([[10**400]], "larger number at index (0, 0)"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_invalid_tokens_are_named_with_what_was_given(name):
    tokens, given = TOKENS[name]
    kind = TypeError if name in ("strings", "complex", "dates", "sparse") else ValueError
    for call in (lambda: hm.simulate(tokens, RULE, layers=1), lambda: hm.limit(tokens, RULE)):
        with pytest.raises(kind, match="^`tokens` must .*" + re.escape(given)):
            call()


def test_a_masked_array_that_hides_nothing_is_an_array():
    assert hm.limit(np.ma.masked_array(GOOD, False), RULE).leaders.tolist() == hm.limit(GOOD, RULE).leaders.tolist()


@pytest.mark.parametrize("value", [np.ma.masked_equal(np.eye(2), 0), csr_array(np.eye(2))], ids=["masked", "sparse"])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("A", lambda value: hm.Hardmax(1, value)),
        ("V", lambda value: hm.SelfAttention(V=value)),
        ("W1", lambda value: hm.FeedForward(value, np.eye(2))),
        ("mask", lambda value: hm.simulate(GOOD, RULE, layers=1, mask=value)),
        ("queries", hm.argmax_sets),
        ("times", lambda value: hm.simulate(GOOD, hm.SelfAttention(), times=value)),
    ],
)
def test_masked_and_sparse_arrays_are_refused_by_every_parameter(value, name, call):
    with pytest.raises(ValueError, match=f"^`{name}`"):
        call(value)


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, "0.5", None, True, 1j, [0.5, -1], [[0.5]], []], ids=repr)
def test_invalid_alpha_is_named(alpha):
    with pytest.raises(ValueError, match=r"^`alpha`"):
        hm.Hardmax(alpha)


MATRICES = {
    "words": ([["a", "b"], ["c", "d"]], "<U1"),
    "ragged": ([[1.0], [1.0, 2.0]], "different lengths"),
    "oblong": (np.ones((2, 3)), "shape (2, 3)"),
    "vector": ([1.0, 2.0], "shape (2,)"),
    "empty": (np.ones((0, 0)), "shape (0, 0)"),
    "nan": ([[np.nan]], "nan at index (0, 0)"),
    "skew": ([[1, 2], [0, 1]], "differs from its transpose by 2"),
    "indefinite": ([[1, 2], [2, 1]], "smallest eigenvalue is -1"),
    "singular": ([[1, 1], [1, 1]], "not above 4.4e-16"),
    "zero": ([[0.0]], "not above 2.2e-16"),
    "spread": (np.diag([1e200, 1e-200]), "not above 4.4e-16"),
    "large Fractions": ([[2**53 + 1, 2**53], [2**53, 2**53 + 3]], "not above 4.4e-16"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_an_invalid_matrix_is_named_with_what_was_given(name):
    A, given = MATRICES[name]
    with pytest.raises(TypeError if name == "words" else ValueError, match="^`A` must .*" + re.escape(given)):
        hm.Hardmax(1, A)
    if name in ("skew", "indefinite", "singular", "zero"):
        assert not hm.Hardmax(1, A, any_A=True).positive_definite


LARGE_INTEGERS = [[2**53, 0.5], [2**53 + 1, 0.5]]  # NumPy makes both rows equal


@pytest.mark.parametrize("convert", [list, tuple, lambda rows: [np.array(row, object) for row in rows]])
def test_large_integers_in_lists_are_not_rounded(convert):
    assert hm.limit(convert(LARGE_INTEGERS), hm.Hardmax(1)).leaders.tolist() == [1]
    assert hm.simulate([convert(LARGE_INTEGERS)], hm.Hardmax(1), layers=1)[0].leaders.tolist() == [1]


def test_large_integers_in_a_table_are_not_rounded():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": [2**53, 2**53 + 1], "y": [0.5, 0.5]})
    assert hm.limit(table, hm.Hardmax(1)).leaders.tolist() == [1]


def test_large_integers_in_matrices_and_queries():
    A = [[2**54 + 2, 0.5], [0.5, 2**54 + 6]]
    assert hm.Hardmax(1, A).matrix[0, 0] == 2**54 + 2
    assert hm.Hardmax(1, [[2**53 + 1, 0.5], [0.5, 2**53]]).matrix[0, 0] == 2**53 + 1
    with pytest.raises(ValueError, match="`queries`"):
        argmax_sets(LARGE_INTEGERS)
    with pytest.raises(ValueError, match="`keys`"):
        argmax_sets([[1.0, 0.5]], LARGE_INTEGERS)
    assert argmax_sets([[2**60, 0.5]])[0].tolist() == [0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: hm.Hardmax(1, [[1j]]).matrix.tolist() == [[1j]], "A"),
        (lambda: hm.Hardmax(1, [[Fraction(10**400)]]).matrix.tolist() == [[Fraction(10**400)]], "A"),
        (lambda: hm.Hardmax(1, [[1.7e308]]).matrix.tolist() == [[1.7e308]], "A"),
        (lambda: hm.Hardmax(Fraction(10**400)).steps == (Fraction(10**400),), "alpha"),
        (lambda: hm.Hardmax(np.array(0.5)).steps == (Fraction(1, 2),), "alpha"),
    ],
)
def test_unusual_numbers_are_kept_exactly_or_refused(call, name):
    try:
        assert call()
    except (TypeError, ValueError) as error:
        assert str(error).startswith(f"`{name}`")  # noqa: PT017  either is a defined answer


def test_matrix_symmetric_up_to_rounding_is_taken_as_symmetric():
    rule = hm.Hardmax(1, [[2.0, 1.0], [1.0 + 1e-15, 2.0]])
    assert rule.positive_definite
    assert (rule.matrix == rule.matrix.T).all()
    with pytest.raises(ValueError, match=r"read-only"):
        rule.matrix[0, 0] = 5


SMOOTH = hm.simulate(GOOD, hm.Softmax(1), layers=1)
CALLS = {
    "ties": [lambda ties=ties: hm.Hardmax(1, ties=ties) for ties in ("near", -0.1, 1.0, None, True, np.nan)],
    "exact=True": [lambda: hm.Hardmax(1, ties=0.1, exact=True)],
    "layers": [lambda n=n: hm.simulate(GOOD, RULE, layers=n) for n in (-1, 2.0, "3", True, None)],
    "max_layers": [lambda n=n: hm.limit(GOOD, RULE, max_layers=n) for n in (-1, 2.0, "3", True, None)],
    "mask": [
        *(lambda m=m: hm.simulate(GOOD, RULE, layers=1, mask=m) for m in ([1, 0], [True], [[True], [True]])),
        lambda: hm.simulate([GOOD, GOOD], RULE, layers=1, mask=[[True, True], [False, False]]),
    ],
    "tokens": [lambda: hm.limit(GOOD, hm.Hardmax(1, np.eye(3))), lambda: hm.limit([[GOOD]], RULE)],
    "rule": [
        lambda: hm.simulate(GOOD, 0.5, layers=1),
        lambda: hm.simulate(GOOD, hm.Softmax, layers=1),
        lambda: hm.limit(GOOD, 0.5),
        lambda: hm.limit(GOOD, hm.Softmax(1)),
        lambda: hm.limit(GOOD, hm.Hardmax(1, normalize=False)),
    ],
    "leader_table": [lambda: hm.leader_table(SMOOTH)],
    "V": [lambda: hm.SelfAttention(V="paper-2d")],
    "save": [lambda: hm.simulate(GOOD, RULE, layers=1, save="first")],
    "normalize": [lambda kind=kind: hm.Hardmax(1, normalize=kind) for kind in ("rms", "layer", "batch")],
}


@pytest.mark.parametrize("name", CALLS)
def test_an_invalid_argument_is_named(name):
    for call in CALLS[name]:
        with pytest.raises((ValueError, TypeError), match=f"`{name}`"):
            call()


def test_valid_tokens_and_steps():
    assert _validation.check_tokens([[True, 2]])[0].tolist() == [[1.0, 2.0]]
    assert _validation.check_tokens(np.ones((1, 1), np.float16))[0].dtype == np.float16
    assert _validation.check_tokens([[2**53 + 1]])[0].dtype == object
    assert _validation.check_tokens([[Fraction(1, 2)]])[0].dtype == np.float64  # a float holds it
    assert _validation.check_tokens([[Fraction(1, 3)]])[0][0, 0] == Fraction(1, 3)
    assert _validation.check_alpha(np.float32(0.5)) == _validation.check_alpha(Fraction(1, 2)) == (Fraction(1, 2),)
    assert hm.Hardmax(0.1).steps[0] == Fraction(0.1) != Fraction(1, 10)


@pytest.mark.parametrize("value", [7.0, 0.0, -1e300, 1e-300, 5e-324])
def test_one_token_in_one_dimension_leads_at_once(value):
    run = hm.simulate([[value]], RULE, layers=2)
    limit = hm.limit([[value]], RULE)
    assert run.tokens.ravel().tolist() == [value] * 3
    assert run.leaders.tolist() == limit.leaders.tolist() == [0]
    assert (limit.certified, limit.layer, limit.tokens.tolist(), limit.radius) == (True, 0, [[value]], np.inf)


def test_names_of_normalisations_of_hardmax():
    assert hm.Hardmax(1, normalize="rescaling") == hm.Hardmax(1)
    assert hm.Hardmax(1, normalize="none") == hm.Hardmax(1, normalize=False)
