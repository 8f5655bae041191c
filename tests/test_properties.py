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
