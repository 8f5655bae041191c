"""Bad input gets a sentence: what must hold, what came, what to do. Each is tested by its text."""

import re
import subprocess
import sys
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
    "nan": (
        [[1.0, np.nan]],
        ValueError,
        "must be finite. Got nan at index (0, 1). Turn words into vectors first, drop or fill",
    ),
    "infinity": ([[1.0], [-np.inf]], ValueError, "must be finite. Got -inf at index (1, 0)"),
    "nan in a batch": (np.full((2, 1, 1), np.nan), ValueError, "Got nan at index (0, 0, 0), 2 such values in all."),
    "empty": ([], ValueError, "must have shape (n, d) or (batch, n, d). Got shape (0,)"),
    "no tokens": (
        np.empty((0, 3)),
        ValueError,
        "at least one token of at least one dimension. Got shape (0, 3). Check",
    ),
    "no dimension": (np.empty((3, 0)), ValueError, "at least one token of at least one dimension. Got shape (3, 0)"),
    "number": (3.0, ValueError, "must have shape (n, d) or (batch, n, d). Got shape ()."),
    "one axis": (
        [1.0, 2.0],
        ValueError,
        "Got shape (2,). Use one token per row. For tokens on a line, pass `tokens.reshape(-1, 1)`.",
    ),
    "four axes": (
        np.ones((1, 1, 1, 1)),
        ValueError,
        "must have shape (n, d) or (batch, n, d). Got shape (1, 1, 1, 1).",
    ),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "must have rows of equal length. Got rows of different lengths. Pad"),
    "strings": (
        [["good", "film"]],
        TypeError,
        "must hold real numbers. Got values of type <U4. Turn words into vectors",
    ),
    "complex": ([[1j]], TypeError, "must hold real numbers. Got values of type complex128. Turn words"),
    "dates": (np.zeros((1, 1), "M8[s]"), TypeError, "must hold real numbers. Got values of type datetime64[s]."),
    "mixed words": (np.array([[1, "a"]], object), ValueError, "Got 'a' at index (0, 1). Turn words into vectors"),
    "nothing": ([[1.0, None]], ValueError, "must hold finite real numbers. Got None at index (0, 1)."),
    "nan object": (np.array([[np.nan]], object), ValueError, "must hold finite real numbers. Got nan at index (0, 0)."),
    "masked": (
        np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[False, True], [False, False]]),
        ValueError,
        "must have all its values. Got a masked array with 1 masked. Fill them, or leave their rows out. For padding,",
    ),
    "sparse": (
        csr_array([[1.0, 2.0]]),
        TypeError,
        "must be a dense array. Got a sparse one, csr_array. Use its method toarray().",
    ),
    "too large": (
        [[10**400]],
        ValueError,
        "within float64's range, 1.8e308. Got a larger number at index (0, 0). Divide",
    ),
}


@pytest.mark.parametrize("name", TOKENS)
def test_bad_tokens(name):
    tokens, kind, sentence = TOKENS[name]
    for call in (lambda: hm.simulate(tokens, RULE, layers=1), lambda: hm.limit(tokens, RULE)):
        with pytest.raises(kind, match=re.escape(sentence)) as caught:
            call()
        assert str(caught.value).startswith("`tokens` must")


@pytest.mark.parametrize(
    ("tokens", "options"),
    [([[1.0, 2.0], [3.0]], {"mask": [True, True]}), (np.array([[np.nan]], np.longdouble), {})],
    ids=["ragged with a mask", "long double nan"],
)
def test_bad_tokens_by_other_ways(tokens, options):
    with pytest.raises(ValueError, match="`tokens`"):
        hm.simulate(tokens, RULE, layers=1, **options)


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
def test_masked_and_sparse_arrays_are_refused_wherever_they_come(value, name, call):
    with pytest.raises(ValueError, match=f"^`{name}` must (have all its values|be a dense array)"):
        call(value)


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, "0.5", None, True, 1j, [0.5, -1], [[0.5]]], ids=repr)
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="`alpha`"):
        hm.Hardmax(alpha)


def test_empty_alpha():
    with pytest.raises(ValueError, match="`alpha`"):
        hm.Hardmax([])


@pytest.mark.parametrize(
    ("alpha", "value"),
    [(Fraction(10**400), Fraction(10**400)), (np.array(0.5), Fraction(1, 2))],
    ids=["huge", "array of no axis"],
)
def test_unusual_alpha_has_a_defined_answer(alpha, value):
    try:
        assert hm.Hardmax(alpha).steps == (value,)
    except ValueError as error:
        assert str(error).startswith("`alpha` must")  # noqa: PT017  either answer is a defined one


MATRICES = {
    "words": (
        [["a", "b"], ["c", "d"]],
        TypeError,
        "`A` must hold real numbers. Got values of type <U1. Check how it was computed.",
    ),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "`A` must be a square matrix. Got rows of different lengths."),
    "oblong": (np.ones((2, 3)), ValueError, "`A` must be a square matrix. Got shape (2, 3). With queries Q and keys K"),
    "vector": ([1.0, 2.0], ValueError, "`A` must be a square matrix. Got shape (2,)."),
    "empty": (np.ones((0, 0)), ValueError, "`A` must be a square matrix. Got shape (0, 0)."),
    "nan": ([[np.nan]], ValueError, "`A` must be finite. Got nan at index (0, 0). Check how it was computed."),
    "skew": ([[1, 2], [0, 1]], ValueError, "2 by 2 matrix that differs from its transpose by 2. Use (A + A.T) / 2, or"),
    "indefinite": ([[1, 2], [2, 1]], ValueError, "2 by 2 matrix whose smallest eigenvalue is -1. Pass `any_A=True`"),
    "singular": ([[1, 1], [1, 1]], ValueError, "eigenvalue is not above 4.4e-16 times its largest entry. Pass `any_A="),
    "zero": ([[0.0]], ValueError, "eigenvalue is not above 2.2e-16 times its largest entry. Pass `any_A=True`"),
    "spread": (np.diag([1e200, 1e-200]), ValueError, "is not above 4.4e-16 times its largest entry."),
    "large Fractions": ([[2**53 + 1, 2**53], [2**53, 2**53 + 3]], ValueError, "is not above 4.4e-16 times its largest"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_bad_matrix(name):
    A, kind, sentence = MATRICES[name]
    with pytest.raises(kind, match=re.escape(sentence)):
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
    "A", [[[1j]], [[Fraction(10**400)]], [[1.7e308]]], ids=["complex", "too large", "near the end"]
)
def test_unusual_matrix_has_a_defined_answer(A):
    try:
        assert hm.Hardmax(1, A).matrix.tolist() == A
    except (TypeError, ValueError) as error:
        assert str(error).startswith("`A` must")  # noqa: PT017  either answer is a defined one


def test_matrix_symmetric_up_to_rounding_is_taken_as_symmetric():
    rule = hm.Hardmax(1, [[2.0, 1.0], [1.0 + 1e-15, 2.0]])
    assert rule.positive_definite
    assert (rule.matrix == rule.matrix.T).all()
    with pytest.raises(ValueError, match=r"read-only"):
        rule.matrix[0, 0] = 5


def test_matrix_of_another_size_than_the_tokens():
    for call in (lambda r: hm.simulate(GOOD, r, layers=1), lambda r: hm.limit(GOOD, r)):
        with pytest.raises(
            ValueError, match=r"with d = 3, the size of `A`. Got \(2, 2\). Use tokens of dimension 3, or"
        ):
            call(hm.Hardmax(1, np.eye(3)))


@pytest.mark.parametrize("ties", ["near", -0.1, 1.0, None, True, np.nan])
def test_bad_ties(ties):
    with pytest.raises(ValueError, match="`ties`"):
        hm.Hardmax(1, ties=ties)


def test_tolerance_and_rational_arithmetic_exclude_each_other():
    with pytest.raises(ValueError, match="`exact=True`"):
        hm.Hardmax(1, ties=0.1, exact=True)


@pytest.mark.parametrize("count", [-1, 2.0, "3", True, None])
def test_bad_counts(count):
    with pytest.raises(ValueError, match="`layers`"):
        hm.simulate(GOOD, RULE, layers=count)
    with pytest.raises(ValueError, match="`max_layers`"):
        hm.limit(GOOD, RULE, max_layers=count)


def test_bad_mask():
    for mask in ([1, 0], [True], [[True], [True]]):
        with pytest.raises(ValueError, match="`mask`"):
            hm.simulate(GOOD, RULE, layers=1, mask=mask)
    with pytest.raises(
        ValueError, match=r"at least one real token in each token set. Got a token set that is padding alone. Drop"
    ):
        hm.simulate([GOOD, GOOD], RULE, layers=1, mask=[[True, True], [False, False]])


def test_bad_rule_and_options():
    with pytest.raises(TypeError, match="`rule`"):
        hm.simulate(GOOD, 0.5, layers=1)
    with pytest.raises(TypeError, match="`rule`"):
        hm.simulate(GOOD, hm.Softmax, layers=1)
    for rule in (0.5, hm.Softmax(1)):
        with pytest.raises(TypeError, match="`rule`"):
            hm.limit(GOOD, rule)
    smooth = hm.simulate(GOOD, hm.Softmax(1), layers=1)
    with pytest.raises(TypeError, match="`leader_table`"):
        hm.leader_table(smooth)
    with pytest.raises(ValueError, match="`V`"):
        hm.SelfAttention(V="paper-2d")
    with pytest.raises(ValueError, match="`save`"):
        hm.simulate(GOOD, RULE, layers=1, save="first")
    with pytest.raises(ValueError, match="`tokens`"):
        hm.limit([[GOOD]], RULE)
    with pytest.raises(ValueError, match="`rule`"):
        hm.limit(GOOD, hm.Hardmax(1, normalize=False))


def test_missing_extra_names_the_command():
    hidden = "import sys; sys.modules['flint'] = None; import hardmax as hm; "
    script = hidden + "hm.simulate([[1]], hm.Hardmax(1, exact=True), layers=1)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "hardmax.MissingExtra: `exact=True` needs python-flint: pip install 'hardmax[exact]'." in done.stderr


def test_what_is_not_bad():
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


def test_hardmax_knows_rescaling_and_none_alone():
    assert hm.Hardmax(1, normalize="rescaling") == hm.Hardmax(1)
    assert hm.Hardmax(1, normalize="none") == hm.Hardmax(1, normalize=False)
    for kind in ("rms", "layer"):
        with pytest.raises(
            ValueError, match=rf'`normalize` must be "rescaling" or "none" for Hardmax.* Got \'{kind}\''
        ):
            hm.Hardmax(1, normalize=kind)
    with pytest.raises(ValueError, match="`normalize`"):
        hm.Hardmax(1, normalize="batch")
