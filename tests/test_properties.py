"""Properties of every token set: symmetries of the model, facts F1 to F4 of the paper,
and exactness.
"""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hardmax as hm
from tests.problems.oracle import sets_of

settings.register_profile("hardmax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("hardmax")

shapes = st.tuples(st.integers(1, 9), st.integers(1, 3))
lattices = shapes.flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-4, 4))
)
floats = (
    st.floats(-1e300, 1e300)
    | st.floats(-2, 2)
    | st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1.0, 0.1])
)
token_sets = lattices | shapes.flatmap(
    lambda shape: arrays(np.float64, shape, elements=floats)
)
alphas = st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(5)])
LAYERS = 4


def run(tokens, alpha, **options):
    return hm.simulate(tokens, hm.Hardmax(alpha, **options), layers=LAYERS)


def same_sets(one, other, order=None):
    for k in range(LAYERS + 1):
        expected = sets_of(one, k)
        if order is not None:  # token i of `other` is token order[i] of `one`
            place = np.argsort(order)
            expected = [sorted(place[expected[i]].tolist()) for i in order]
        assert sets_of(other, k) == expected


@given(
    lattices.filter(lambda z: z.shape[1] > 1),
    alphas,
    st.sampled_from([(3, 4, 5), (5, 12, 13), (8, -15, 17)]),
)
def test_pythagorean_rotation(tokens, alpha, triple):
    a, b, c = triple
    R = np.full((tokens.shape[1],) * 2, Fraction(0), object)
    np.fill_diagonal(R, Fraction(1))
    R[:2, :2] = [[Fraction(a, c), Fraction(-b, c)], [Fraction(b, c), Fraction(a, c)]]
    plain, turned = run(tokens, alpha), run(tokens @ R, alpha)
    same_sets(plain, turned)
    assert (turned.exact(-1) == plain.exact(-1) @ R).all()


@given(token_sets, alphas, st.integers(-60, 20))
def test_scaling_by_a_power_of_two_is_exact(tokens, alpha, power):
    tokens = np.where(
        np.abs(tokens) < 1e-200, 0, tokens
    )  # no rounding among the denormals
    plain, scaled = (
        run(tokens, alpha),
        run(np.ldexp(tokens.astype(float), power), alpha),
    )
    same_sets(plain, scaled)
    assert np.array_equal(scaled.tokens, np.ldexp(plain.tokens, power))


@given(lattices, alphas, st.fractions(min_value=Fraction(1, 50), max_value=50))
def test_scaling_by_a_fraction_is_exact(tokens, alpha, factor):
    plain, scaled = run(tokens, alpha), run(tokens * factor, alpha)
    same_sets(plain, scaled)
    assert (scaled.exact(-1) == plain.exact(-1) * factor).all()
    one, other = (hm.limit(z, hm.Hardmax(alpha)) for z in (tokens, tokens * factor))
    assert one.leaders.tolist() == other.leaders.tolist()
    assert (other.exact() == one.exact() * factor).all()


@given(token_sets, alphas, st.data())
def test_order_of_tokens_changes_nothing_bit_by_bit(tokens, alpha, data):
    order = np.array(data.draw(st.permutations(range(len(tokens)))))
    plain, shuffled = run(tokens, alpha), run(tokens[order], alpha)
    same_sets(plain, shuffled, order)
    assert np.array_equal(shuffled.tokens, plain.tokens[:, order])
    one, other = (hm.limit(z, hm.Hardmax(alpha)) for z in (tokens, tokens[order]))
    assert np.array_equal(other.tokens, one.tokens[order])
    assert (other.certified, other.layer, other.radius) == (
        one.certified,
        one.layer,
        one.radius,
    )


@given(token_sets, alphas)
def test_f4_leaders_exist_and_never_move(tokens, alpha):
    result = run(tokens, alpha)
    assert len(result.leaders)
    for i in np.flatnonzero(result.emerged >= 0):
        since = result.emerged[i]
        assert all(
            (result.exact(k)[i] == result.exact(since)[i]).all()
            for k in range(since, LAYERS + 1)
        )
        assert all(
            result.sets(k)[i].tolist() == result.sets(since)[i].tolist()
            for k in range(since, LAYERS + 1)
        )
        size = np.abs(result.tokens[since, i]).max()
        moved = np.abs(result.tokens[since:, i] - result.tokens[since, i]).max()
        assert moved == 0 or (
            since == 0 and moved < 1e-300 * size
        )  # scaling may lose a coordinate far below others


def of_numpy_integers(value):
    """The same Fractions with NumPy integers as their parts, which overflow."""
    if isinstance(value, list):
        return [of_numpy_integers(one) for one in value]
    value = Fraction(value)
    return Fraction(np.int64(value.numerator), np.int64(value.denominator))


# Denominators of floats: their products leave int64 within a few layers.
fine = st.sampled_from([-0.30000000000000004, -0.2, 0.1, 0.7, 1.0]).map(Fraction)
fine_sets = st.lists(st.lists(fine, min_size=2, max_size=2), min_size=3, max_size=5)
small = st.fractions(min_value=Fraction(1, 9), max_value=1, max_denominator=9)
CHOSEN_A = [[Fraction(7, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(5, 3)]]
RULES = {
    "hardmax": lambda step, of: hm.Hardmax(of(step)),
    "one step per layer": lambda step, of: hm.Hardmax(of([step, Fraction(1, 3)])),
    "hardmax with A": lambda step, of: hm.Hardmax(of(step), of(CHOSEN_A)),
    "growing": lambda step, of: hm.Hardmax(of(step), normalize=False),
    "Frank-Wolfe": lambda step, of: hm.FrankWolfe(of(CHOSEN_A), steps=of(step)),
    "softmax": lambda step, of: hm.Softmax(of(step), temperature=of(step)),
    "composed": lambda step, of: hm.Compose([hm.FrankWolfe(steps=of(step))]),
    "heads": lambda step, of: hm.MultiHead([hm.Hardmax(of(step))] * 2),
}


@given(fine_sets, small, st.sampled_from(sorted(RULES)))
def test_fractions_of_numpy_integers_are_the_same_numbers(tokens, step, name):
    plain, numpy_integers = (
        hm.simulate(of(tokens), RULES[name](step, of), layers=LAYERS)
        for of in (list_or_value, of_numpy_integers)
    )
    assert (plain.array == numpy_integers.array).all()
    if name in ("hardmax", "one step per layer", "hardmax with A"):
        limits = [
            hm.limit(of(tokens), RULES[name](step, of), max_layers=60)
            for of in (list_or_value, of_numpy_integers)
        ]
        assert str(limits[0]) == str(limits[1])
        assert (limits[0].tokens == limits[1].tokens).all()


def list_or_value(value):
    return value


@given(fine_sets, fine_sets)
def test_cells_take_fractions_of_numpy_integers(tokens, points):
    expected = hm.cells(tokens, CHOSEN_A).contain(points)
    found = hm.cells(of_numpy_integers(tokens), of_numpy_integers(CHOSEN_A))
    assert (found.contain(of_numpy_integers(points)) == expected).all()


def test_a_step_of_numpy_integers_gives_no_false_proof():
    tokens = [[0, -0.30000000000000004], [-0.1, -0.2], [0.2, -0.30000000000000004]]
    limit = hm.limit(tokens, hm.Hardmax(Fraction(np.int64(1), np.int64(3))))
    assert (limit.tokens == tokens[2]).all()
