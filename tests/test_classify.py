"""The limit that the spectrum of V implies, and what rounding leaves open."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import _validation
from hardmax.configurations import MATRICES, PAPER_MATRICES
from hardmax.flows import classify, eigenvalues
from tests import machines

pytestmark = [pytest.mark.quick, pytest.mark.portable]

SHARED_PART = [[1, -2, 0], [2, 1, 0], [0, 0, 1]]  # eigenvalues 1 + 2i, 1 - 2i and 1
GROWING_PAIR = [[1, -1, 0], [1, 1, 0], [0, 0, -0.3]]


@pytest.mark.parametrize(
    ("V", "kind", "proved"),
    [
        ([[2.0]], "boolean", True),
        ([[-1.0]], "collapse", True),
        (np.eye(3), "polytope", True),
        (3 * np.eye(2), "polytope", True),
        (-np.eye(2), "collapse", True),
        (np.diag([1, 1, -0.5]), "product", True),
        (np.diag([1, 1, -1.5]), "product", False),
        (np.diag([2.0, 1.0]), "hyperplanes", True),
        (np.diag([2.0, -3.0]), "hyperplanes", False),
        ([[1, 1], [0, 1]], "product", False),
        (GROWING_PAIR, "complex", False),
        (SHARED_PART, "unknown", False),
        ([[1, -2, 0], [2, 1, 0], [0, 0, 0.5]], "complex", False),
        ([[0, -1], [1, 0]], "unknown", False),
        (np.diag([-1.0, -2.0]), "unknown", False),
        (np.zeros((2, 2)), "still", True),
    ],
)
def test_the_kind_follows_from_the_spectrum(V, kind, proved):
    found = hm.classify(V=V)
    assert (found.kind, found.proved) == (kind, proved)


def test_representations_state_what_is_proved_open_or_conjectured():
    assert repr(hm.classify(V=np.zeros((1, 1)))) == "Tokens do not move. Proved: V = 0."
    assert repr(hm.classify(V=np.diag([-1.0, -2.0]))).startswith("OPEN: no theorem")
    assert repr(hm.classify(V=GROWING_PAIR)).startswith("CONJECTURE: ")
    assert repr(hm.classify(V=np.eye(2), causal=True)).startswith(
        "OPEN: attention is causal. Were it not so: "
    )
    assert "CONJECTURE: " in repr(hm.classify(V=np.diag([3.0, 2.0, 1.0])))


@pytest.mark.parametrize(
    "V",
    [
        [
            [40, -103, 306],
            [53, -138, 410],
            [13, -34, 101],
        ],  # one Jordan block of size 3, hidden by rounding
        [[1, 0, 0], [0, 1, 1e-6], [0, 0, 1]],
        np.diag([1, 1 - 1e-8]),
        [[1, -1e-9], [1e-9, 1]],
    ],
)
def test_what_rounding_could_have_made_is_not_called_proved(V):
    found = hm.classify(V=V)
    assert not found.proved
    assert repr(found).startswith("OPEN: ")


def test_an_eigenvalue_that_rounding_could_bring_to_another_is_not_called_simple():
    near, far = (hm.classify(V=[[1, 1], [0, 1 - gap]]) for gap in (5e-7, 1e-5))
    assert near.kind == far.kind == "hyperplanes"
    assert (near.hypotheses[classify.SEPARATED], near.proved) == (False, False)
    assert (far.hypotheses[classify.SEPARATED], far.proved) == (True, True)


def test_queries_and_keys_matter():
    skew = np.array([[1.0, 2.0], [-2.0, 1.0]])
    assert hm.classify(V=np.eye(2)).proved
    assert hm.classify(V=np.eye(2), Q=skew).missing == [
        "Q^T K is not symmetric positive definite"
    ]
    assert not hm.classify(V=np.diag([2.0, 1.0]), Q=np.diag([-1.0, 1.0])).proved
    assert hm.classify(V=np.diag([2.0, 1.0]), Q=[[1.0, 0.0]], K=[[1.0, 0.0]]).proved


@pytest.mark.parametrize("seed", range(10))
def test_the_dual_basis_is_that_of_the_leading_eigenspace(seed):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(5, 5))
    block = np.diag([1.5, 1.5, 0.5, -0.2, -1.0])
    if seed % 2:  # a complex pair instead
        block[:2, :2] = [[1.5, -0.7], [0.7, 1.5]]
    V = S @ block @ np.linalg.inv(S)
    found = hm.classify(V=V)
    assert found.kind == ("complex" if seed % 2 else "product")
    np.testing.assert_allclose(found.dual.T @ found.leading, np.eye(2), atol=1e-8)
    np.testing.assert_allclose(
        found.dual.T @ S[:, 2:], 0, atol=1e-7
    )  # it vanishes on the other eigenvectors
    np.testing.assert_allclose(
        found.leading @ found.dual.T @ S[:, :2], S[:, :2], atol=1e-7
    )


def test_a_rule_brings_its_own_matrices():
    assert hm.classify(hm.SelfAttention(V=np.eye(2))).proved
    assert hm.classify(hm.SelfAttention(Q=-np.eye(2))).missing == [
        "Q^T K is not symmetric positive definite"
    ]
    assert hm.classify(hm.SelfAttention(V=np.eye(2), causal=True)).missing == [
        "attention is causal"
    ]
    for rule in (hm.SelfAttention(), hm.SelfAttention(V=lambda t: np.eye(2))):
        with pytest.raises(
            ValueError,
            match=(
                "A rule to classify must have at least one matrix, and none that"
                " depends"
            ),
        ):
            hm.classify(rule)


def test_what_a_rule_lets_expect_is_found_once(monkeypatch):
    calls, find_eigenvalues = [], eigenvalues.find_eigenvalues
    monkeypatch.setattr(
        eigenvalues,
        "find_eigenvalues",
        lambda V: (calls.append(V), find_eigenvalues(V))[1],
    )
    run = hm.simulate(np.eye(2), hm.SelfAttention(V=np.diag([2.0, 1.0])), times=[0, 1])
    assert len(hm.theorems.check(run)) == 7
    assert run.status
    assert hm.classify(run.rule) is hm.classify(run.rule)
    assert len(calls) == 1


def test_matrices_that_change_in_place_are_classified_anew():
    torch = pytest.importorskip("torch")
    values = torch.eye(2)
    rule = hm.SelfAttention(V=values)
    assert hm.classify(rule).kind == "polytope"
    values *= -1
    assert hm.classify(rule).kind == "collapse"


def test_named_matrices():
    kinds = {name: hm.classify(V=hm.matrix(name)).kind for name in PAPER_MATRICES}
    assert kinds == {
        "paper-2d": "hyperplanes",
        "paper-3d": "hyperplanes",
        "paper-3d-positive": "hyperplanes",
        "paper-codimension": "hyperplanes",
        "paper-product": "product",
    }
    assert hm.classify(V=hm.matrix("paper-codimension")).positive == 2
    for name in set(MATRICES) - set(PAPER_MATRICES):
        assert hm.matrix(name, d=4, seed=1).shape == (4, 4)
        np.testing.assert_array_equal(
            hm.matrix(name, d=4, seed=1), hm.matrix(name, d=4, seed=1)
        )
    assert np.linalg.eigvalsh(hm.matrix("definite", d=6)).min() > 0
    assert hm.classify(V=hm.matrix("positive", d=5)).proved


def test_answers_are_the_same_under_all_kernels_of_blas():
    assert machines.differences(200, 20) == []


@pytest.mark.parametrize(
    ("V", "proved"),
    [
        (
            np.kron(np.eye(2), [[3, 2], [1, 3]]),
            True,
        ),  # 3 + sqrt 2 twice, an irrational number, and 3 - sqrt 2 twice
        (
            [[3, 2, 1, 0], [1, 3, 0, 1], [0, 0, 3, 2], [0, 0, 1, 3]],
            False,
        ),  # the same in two Jordan blocks
        ([[3, 1, 0], [0, 3, 0], [0, 0, 1]], False),
        ([[2, 0, 0], [0, 2, 0], [5, 7, 1]], True),
    ],
)
def test_multiplicity_and_eigenvectors_are_decided_exactly(V, proved):
    found = hm.classify(V=V)
    assert (found.kind, found.multiplicity, found.proved) == ("product", 2, proved)
    assert found.hypotheses[classify.WHOLE] == proved


def test_a_multiplicity_that_rounding_destroyed_is_open_and_says_so():
    V = np.array([[2, 0, 0], [0, 2, 0], [5, 7, 1]]) / 3
    V[0, 0] = np.nextafter(V[0, 0], 1)  # 2/3 twice no more
    found = hm.classify(V=V)
    assert (found.kind, found.proved, found.missing) == ("product", False, [])
    assert repr(found).startswith(
        "OPEN: rounding may have parted equal eigenvalues of V. Were it not so:"
        " rescaled"
    )
    assert hm.classify(V=np.eye(2) + 1e-16 * np.array([[0, 1], [0, 0]])).rounding == (
        classify.PARTED,
    )
    B = np.array([[2.0, 1.0], [1.0 + 2e-16, 2.0]])
    skewed = hm.classify(V=np.eye(2), Q=B)
    assert (skewed.proved, skewed.missing, skewed.rounding) == (
        False,
        [],
        (classify.SKEWED,),
    )
    assert hm.classify(
        V=np.eye(2), Q=B, K=B
    ).proved  # B^T B is symmetric, however it is rounded


def test_floats_alone_prove_less_and_nothing_else(monkeypatch):
    given = list(machines.matrices(200))
    exact = [hm.classify(V=V) for V in given]
    monkeypatch.setattr(eigenvalues, "has_flint", lambda: False)
    floats = [hm.classify(V=V) for V in given]
    assert all(
        sure.proved for sure, guess in zip(exact, floats, strict=True) if guess.proved
    )
    proved = sum(f.proved for f in floats), sum(e.proved for e in exact)
    assert 0.7 * proved[1] < proved[0] < proved[1]
    assert hm.classify(V=np.diag([1, 1, -0.5])).rounding == (
        classify.PARTED,
        classify.HELP,
    )
    assert (
        repr(hm.classify(V=[[40, -103, 306], [53, -138, 410], [13, -34, 101]]))
        == f"OPEN: floats cannot tell the eigenvalues of V apart; {classify.HELP}."
    )
    assert "Proved: Theorem 4.2" in repr(hm.classify(V=hm.matrix("paper-2d")))
    assert hm.classify(V=SHARED_PART).rounding == (classify.UNDECIDED, classify.HELP)


def test_large_matrices_are_decided_by_the_bound():
    for d in (eigenvalues.MAX_EXACT_DIMENSION + 1, 200):
        assert hm.classify(V=hm.matrix("positive", d=d)).proved
    assert hm.classify(V=np.ones((65, 65))).proved
    assert hm.Hardmax(0.5, np.diag(np.geomspace(1, 1e-10, 300))).positive_definite
    found = hm.classify(V=np.diag([1.0, *[1.0, 0.5] * 33]))
    assert (found.kind, found.rounding) == (
        "product",
        (classify.PARTED,),
    )  # nothing to install would help


def test_the_bound_of_the_error_holds():
    for V in machines.matrices(150):
        exact, bounded = eigenvalues._find_exact(V), eigenvalues.bound_eigenvalues(V)
        distances = np.abs(exact.values[:, None] - bounded.values).min(axis=1)
        assert distances.max() <= bounded.error + exact.error


def test_definiteness_is_decided_exactly_and_beyond_rounding():
    tau = 2 * 2.0**-52  # d eps, for entries up to 1
    for lowest, definite in (
        (2 * tau, True),
        (tau * (1 + 2**-20), True),
        (tau, False),
        (0.0, False),
        (-1e-20, False),
    ):
        A = np.diag([1.0, lowest])
        assert _validation.is_positive_definite(A) == definite
        assert _validation.is_positive_definite(A * 1e200) == definite
    rational = np.array(
        [[Fraction(1), Fraction(1)], [Fraction(1), 1 + Fraction(1, 10**15)]], object
    )
    assert _validation.is_positive_definite(rational)
    rational[1, 1] = 1 + Fraction(1, 10**17)
    assert not _validation.is_positive_definite(rational)


def test_the_form_of_an_eigenvector_is_decided_however_close_others_are():
    V = np.diag(
        [1.0, *[1 - 2.0**-17.5] * 6]
    )  # the eigenvector e_1, and a Jordan block that is closer than it looks
    V[range(1, 6), range(2, 7)] = 1
    Q = np.diag([-1.0, *[1.0] * 6])  # <Q e_1, e_1> = -1
    assert not hm.classify(Q, V=V).hypotheses[classify.FORM]
    assert hm.classify(Q=-Q, V=V).hypotheses[classify.FORM]
    small = np.diag([1e-7, 1.0])
    assert hm.classify(
        Q=small, K=small, V=np.diag([2.0, 1.0])
    ).proved  # 1e-14 is positive


@pytest.mark.parametrize("copies", [1, 400])
def test_the_form_of_many_queries_is_not_decided_by_rounding(copies):
    k = 2100 * copies
    Q, K = np.zeros((k, 2)), np.zeros((k, 2))
    Q[:, 0] = 1
    K[0, 0], K[1:-2, 0], K[-2, 0], K[-1, 0] = (
        1e18,
        -60,
        -1e18,
        1,
    )  # floats have 1 for a negative sum
    assert not hm.classify(Q, K, np.diag([2.0, 1.0])).proved
    assert not hm.classify(Q[:, :1], K[:, :1], [[1.0]]).proved


def test_floats_alone_do_not_trust_an_eigenvector_near_others(monkeypatch):
    V = [
        [1.0, -(2.0**-19), 2.0**-19],
        [2.0, 1 - 2.5 * 2.0**-19, -1 + 2.5 * 2.0**-19],
        [2.0, -(2.0**-18), 2.0**-18],
    ]
    B = [
        [19999999999980.0, 3e13, -4e13],
        [0.0, 3e13, -2e13],
        [-2e13, -2e13, 2e13],
    ]  # <phi, B phi> = -20
    assert not hm.classify(Q=B, V=V).proved
    monkeypatch.setattr(eigenvalues, "has_flint", lambda: False)
    assert not hm.classify(Q=B, V=V).proved
    assert hm.classify(V=np.zeros((2, 2))).proved


def test_exponents_of_any_spread_are_answered_soon():
    rng = np.random.default_rng(0)
    V = 2 * np.eye(32) + rng.standard_normal((32, 32)) * 10.0 ** rng.integers(
        -300, -20, (32, 32)
    )
    assert not eigenvalues.is_exact(V)
    assert repr(hm.classify(V=V)).startswith("OPEN: ")
    assert not _validation.is_positive_definite(np.diag([1.0, *[1e-200] * 63]))
