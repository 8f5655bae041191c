"""Certificates of limits: examples with exact answers, and hundreds of tied token sets
run on as a check.
"""

import itertools
from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact import frozen as certificates
from hardmax.exact.frozen import Frozen, certify
from hardmax.sets import Sets
from tests.problems import theory, token_sets

HALF = Fraction(1, 2)
CHAIN_AND_T = [  # at right angles: neither part sees the other
    *((*row, 0, 0) for row in theory.FOLLOWS_FOLLOWERS),
    *((0, 0, 0, *row) for row in theory.MIDDLE),
]
EXAMPLES = {  # tokens, numbers of proofs, leaders, exact limits by token
    "theorem 4": (
        theory.SQUARE,
        {"Theorem 1": 4, "Theorem 4": 2},
        [0, 1, 2, 3],
        dict(enumerate(theory.SQUARE_LIMITS)),
    ),
    "T": (
        theory.MIDDLE,
        {"Theorem 1": 4, "T": 2},
        [0, 1, 2, 3],
        dict(enumerate(theory.MIDDLE_LIMITS)),
    ),
    "one leader": (
        theory.ONE_LEADER,
        {"Theorem 1": 4},
        [2],
        dict.fromkeys(range(4), (100, 30)),
    ),
    "equal products": (
        theory.EQUAL_PRODUCTS,
        {"Theorem 1": 5},
        None,
        {4: (Fraction(3, 2), 0, -HALF)},
    ),
    "chain and T": (
        CHAIN_AND_T,
        None,
        None,
        {12: (0, 3, -3, 0, 0), 17: (0, 0, 0, 1, 0)},
    ),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_with_known_limits(name, exact):
    tokens, proofs, leaders, limits = EXAMPLES[name]
    limit = hm.limit(tokens, hm.Hardmax(HALF, exact=exact), max_layers=60)
    assert limit.certified
    assert {i: tuple(limit.exact()[i]) for i in limits} == limits
    assert proofs in (None, limit.proofs)
    assert leaders in (None, limit.leaders.tolist())


@pytest.mark.parametrize("alpha", [Fraction(1, 10), HALF, 5], ids=str)
def test_weights_of_the_square_at_layer_0(alpha):
    limit = hm.limit(theory.SQUARE, hm.Hardmax(alpha))
    assert (limit.layer, limit.weights.tolist()) == (0, theory.SQUARE_WEIGHTS)
    middle = hm.limit(theory.MIDDLE, hm.Hardmax(alpha))
    np.testing.assert_allclose(middle.weights[4:], [[0.5, 0.5, 0, 0]] * 2, atol=1e-15)


@pytest.mark.parametrize("exact", [False, True])
def test_token_that_follows_followers_by_chain(exact):
    rule = hm.Hardmax(HALF, exact=exact)
    run = hm.simulate(theory.FOLLOWS_FOLLOWERS, rule, layers=30)
    assert run.sets(6)[12].tolist() != theory.FOLLOWS_FOLLOWERS_MEMBERS
    for k in range(7, 31):
        assert run.sets(k)[12].tolist() == theory.FOLLOWS_FOLLOWERS_MEMBERS
    assert not set(theory.FOLLOWS_FOLLOWERS_MEMBERS) & set(run.leaders.tolist())
    limit = hm.limit(theory.FOLLOWS_FOLLOWERS, rule)
    assert limit.certified
    assert 7 < limit.layer <= 10
    assert limit.proofs == {"Theorem 1": 12, "chain": 1}
    assert tuple(limit.exact()[12]) == theory.FOLLOWS_FOLLOWERS_LIMIT
    assert limit.tokens[12].tolist() == list(theory.FOLLOWS_FOLLOWERS_LIMIT)


def tied_tokens(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 4))
    tokens = token_sets.mirrored(
        rng, int(rng.integers(6, 15)), d, int(rng.integers(2, 6))
    )
    A = rng.integers(1, 4, size=d)  # a diagonal A keeps the mirror
    return (
        tokens,
        [Fraction(1, 10), HALF, Fraction(1), Fraction(5)][seed % 4],
        np.diag(A) if seed % 3 == 0 else None,
    )


CHAIN_SEEDS = [
    354,
    2773,
    3553,
    5120,
    5300,
    5752,
    7165,
    7465,
    9025,
    9046,
    9114,
    10831,
    11121,
]  # by a search


def unaided(tokens, rule, layers):
    """Return the sets of every layer, found for every token, decided or not, and the
    tokens at the last one.
    """
    run = hm.simulate(np.asarray(tokens, float), rule, layers=layers)
    record = run.records[0]
    sets = record.independent_sets
    # So the positions are those of sets that no theorem has found.
    assert sets == [record.sets(k) for k in range(layers + 1)]
    return sets, run


@pytest.mark.parametrize(
    "seeds",
    [
        range(50),
        pytest.param(range(50, 400), marks=(pytest.mark.slow, pytest.mark.exhaustive)),
        CHAIN_SEEDS,
    ],
    ids=str,
)
def test_tied_tokens_end_at_their_certified_limits(seeds):
    proofs = Counter()
    for seed in seeds:
        tokens, alpha, A = tied_tokens(seed)
        rule = hm.Hardmax(alpha, A)
        limit = hm.limit(tokens, rule, max_layers=300)
        assert limit.certified, (seed, limit.status)
        proofs.update(limit.proofs.keys())
        more = 60 if alpha >= HALF else 250  # (1 + alpha)^-more < 1e-10
        sets, run = unaided(tokens, rule, limit.layer + more)
        assert all(later == sets[limit.layer] for later in sets[limit.layer :]), seed
        assert np.abs(run.array[-1] - limit.tokens).max() < 1e-6, seed
        leaders = limit.tokens[limit.leaders]
        assert np.abs(limit.weights @ leaders - limit.tokens).max() < 1e-12
        assert limit.weights.min() > -1e-12
        np.testing.assert_allclose(limit.weights.sum(axis=1), 1, rtol=1e-12)
    assert {
        "Theorem 1",
        "Theorem 4",
        "chain" if seeds is CHAIN_SEEDS else "T",
    } <= proofs.keys()
    assert seeds is not CHAIN_SEEDS or proofs["chain"] == len(seeds)


@pytest.mark.parametrize("seed", [354, 2773, 5300, 7165])
def test_no_chain_before_alpha_is_constant(seed):
    tokens, alpha, A = tied_tokens(seed)
    for small in range(
        3, 8
    ):  # layers with a step under which a chain would hold, then one that breaks it
        rule = hm.Hardmax([alpha] * small + [Fraction(100)], A)
        limit = hm.limit(tokens, rule)
        sets, run = unaided(tokens, rule, limit.layer + 12)
        assert limit.certified
        assert all(later == sets[limit.layer] for later in sets[limit.layer :]), small
        assert np.abs(run.array[-1] - limit.tokens).max() < 1e-6
        assert limit.layer >= small or "chain" not in limit.proofs


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 354, 2773])
def test_exact_positions_approach_the_exact_limit_at_the_rate_of_the_theorem(seed):
    tokens, alpha, A = tied_tokens(seed)
    rule = hm.Hardmax(alpha, A)
    limit = hm.limit(tokens, rule)
    run = hm.simulate(tokens, rule, layers=limit.layer + 20)
    start, end = (
        abs(run.exact(k) - limit.exact()) for k in (limit.layer, limit.layer + 20)
    )
    rate = (1 + alpha) ** -20
    if "chain" in limit.proofs:  # a polynomial in the number of layers comes on top
        assert end.max() <= 400 * rate * start.max()
    else:
        assert (end == rate * start).all()


def frozen_at(layer, tokens, alpha, A=None):
    """Return the frozen sets of a layer with all followers undecided."""
    sets, run = unaided(tokens, hm.Hardmax(alpha, A), layer)
    record = run.records[0]
    rows = record.exact.at(layer, range(len(record.classes)))
    matrix = None if A is None else [tuple(map(int, row)) for row in A]
    undecided = np.flatnonzero(record.emerged < 0).tolist()
    return Frozen(
        rows, sets[-1], record.classes.counts, undecided, Fraction(alpha), matrix
    )


@pytest.mark.parametrize(
    "seeds",
    [
        range(150),
        pytest.param(
            range(150, 1000), marks=(pytest.mark.slow, pytest.mark.exhaustive)
        ),
    ],
    ids=str,
)
def test_a_certificate_at_any_layer_is_never_wrong(seeds):
    proofs = Counter()
    for seed in [*seeds, *CHAIN_SEEDS]:
        layer = 0 if seed % 2 and seed < 1000 else 4
        tokens, alpha, A = tied_tokens(seed)
        frozen = frozen_at(layer, tokens, alpha, A)
        proved = certify(frozen) if frozen.moving else {}
        proofs[
            None
            if not proved
            else "chain"
            if any(chain for chain, _ in proved.values())
            else "T"
        ] += 1
        if proved:
            later, _ = unaided(tokens, hm.Hardmax(alpha, A), layer + 20)
            assert all(sets == frozen.sets for sets in later[layer:]), (seed, proved)
    assert min(proofs["T"], proofs["chain"], proofs[None]) > 3, proofs


@pytest.mark.parametrize(
    "tokens",
    [
        [
            (10 * x, 10 * y, 10 * z) for x, y, z in theory.EQUAL_PRODUCTS
        ],  # another token overtakes: T3
        [(1, 2), (1, -1), (HALF, 0)],  # the two members do not stay level: T2
    ],
    ids=["overtaken", "not level"],
)
def test_ties_that_will_break_are_not_certified(tokens):
    frozen = frozen_at(0, tokens, HALF)
    assert frozen.sets.sizes.max() == 2
    assert not certify(frozen)


def binomials(coefficients, m):
    return sum(f * comb(m, r) for r, f in enumerate(coefficients))


@pytest.mark.parametrize("seed", range(20))
def test_gap_in_closed_form_is_the_product_of_the_moving_tokens(seed):
    rng = np.random.default_rng(seed)
    As, S = (tuple(map(int, row)) for row in rng.integers(-5, 6, size=(2, 3)))
    Aa, q = (
        [tuple(map(int, row)) for row in rng.integers(-5, 6, size=(4, 3))]
        for _ in range(2)
    )
    constant, first, second = certificates._find_gap(As, Aa, S, q)
    rho = Fraction(2, 3)
    for m in range(8):
        left = [
            s + rho**m * binomials([row[r] for row in Aa], m) for r, s in enumerate(As)
        ]
        right = [
            s + rho**m * binomials([row[r] for row in q], m) for r, s in enumerate(S)
        ]
        product = sum(x * y for x, y in zip(left, right, strict=True))
        assert (
            constant
            + rho**m * binomials(first, m)
            + rho ** (2 * m) * binomials(second, m)
            == product
        )


@pytest.mark.parametrize("rho", [Fraction(1, 6), Fraction(2, 3), Fraction(10, 11)])
def test_the_sign_test_is_never_wrong(rho):
    rng = np.random.default_rng(0)
    positive = 0
    for _ in range(300):
        constant = int(rng.integers(0, 9)) * int(rng.integers(0, 9))
        first, second = rng.integers(-3, 6, size=(2, 3)).tolist()
        values = [
            constant
            + rho**m * binomials(first, m)
            + rho ** (2 * m) * binomials(second, m)
            for m in range(60)
        ]
        if certificates._stays_positive((constant, first, second), rho):
            positive += 1
            assert min(values) > 0
        assert certificates._worst(first, rho) >= max(
            -(rho**m) * binomials(first, m) for m in range(60)
        )
    assert positive > 20


def test_signs_by_hand():
    assert certificates._stays_positive((0, [1, 1], [0, 0, 0]), HALF)
    slow = Fraction(10, 11)
    assert certificates._stays_positive((0, [4, 0], [0, -1, 0]), slow)
    assert not certificates._stays_positive(
        (0, [3, 0], [0, -1, 0]), slow
    )  # 3 - m rho^m, which is negative at m = 11


def test_a_parabola_is_positive_where_its_values_are():
    answers = Counter()
    for f0, f1, f2 in itertools.product(range(-3, 6), range(-12, 6), range(-3, 13)):
        lowest = Fraction(-f1, 2 * f2) if f2 else Fraction(1)  # where the slope is 0
        least = [f0 + f1 * t + f2 * t * t for t in (Fraction(1), lowest) if 0 < t <= 1]
        positive = min(least) > 0 and (
            f0 > 0 or (f0 == 0 and (f1 > 0 or (f1 == 0 and f2 > 0)))
        )
        assert certificates._stays_positive((f0, [f1], [f2]), HALF) == positive, (
            f0,
            f1,
            f2,
        )
        answers[positive] += 1
    assert min(answers.values()) > 300
    assert not certificates._stays_positive((2, [-9], [9]), HALF)  # -1/4 at m = 1


def test_standing_is_a_fixed_point():
    """Token 6 rests on 5, which rests on 3 and 4. These two balance now, and move
    differently soon.
    """
    positions = [(3,), (-4,), (2,), (-2,), (1,), (-1,), (0,), (5,), (2,)]
    leads, follows = [[0], [1]], [[0], [1], [2], [3], [4, 5], [7], [6, 7]]
    frozen = Frozen(
        positions, Sets.of(leads + follows), np.ones(9, int), [4, 5, 6, 8], HALF, None
    )
    means = [
        frozen.mean(i, [tuple(map(Fraction, z)) for z in positions]) for i in range(9)
    ]
    still = [i for i in frozen.moving if frozen.mean(i, means) == means[i]]
    assert still == [6, 8]  # at this layer alone
    assert certificates._find_standing(frozen) == set()


LATTICE = [
    [-2, -1],
    [-2, 2],
    [-1, -3],
    [-1, 0],
    [-1, 3],
    [0, -3],
    [1, -3],
    [1, 0],
    [1, 3],
    [2, -1],
    [2, 2],
]


@pytest.mark.parametrize("alpha", [1e-5, 1e-12, Fraction(1, 10**9)])
def test_small_steps_do_not_hang_the_certificate(alpha: float):
    assert not hm.limit(LATTICE, hm.Hardmax(alpha), max_layers=3).certified
    rho = 1 / (1 + Fraction(alpha))
    assert (
        certificates._peak(2, rho) == rho**2 / (1 - rho) ** 3
    )  # and not a power of rho with millions of digits
