"""Limits under causal masks and other partial orders, against exact loops, and their extension token by token."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems.oracle import definition

pytestmark = [pytest.mark.quick, pytest.mark.portable]

HALF = Fraction(1, 2)
ALPHAS = (Fraction(1, 10), HALF, Fraction(1), Fraction(5))
WAITING = [(1, 0), (1, 1), (Fraction(11, 10), HALF), (HALF, Fraction(-2, 5))]  # C1 never decides the last token


def draw_problem(rng, lattice):
    """Return tokens, alpha and A of a random problem with n <= 12: small integers, or floats."""
    n, d = rng.integers(1, 13), rng.integers(2, 4)
    tokens = rng.integers(-3, 4, (n, d)) if lattice else rng.integers(-(2**20), 2**20, (n, d))
    root = rng.integers(-2, 3, (d, d))
    A = None if rng.random() < 0.5 else root @ root.T + np.eye(d, dtype=int)
    return tokens, ALPHAS[rng.integers(4)], A


def draw_order(rng, n):
    """Return a random partial order: the ancestors in a tree, or earlier tokens of the same block."""
    if rng.random() < 0.5:
        blocks = rng.integers(0, 3, n)
        return np.tri(n, dtype=bool) & (blocks[:, None] == blocks)
    seen = np.eye(n, dtype=bool)
    for i in range(1, n):
        seen[i] |= seen[rng.integers(i)]
    order = rng.permutation(n)  # a token may come before those it sees
    return seen[np.ix_(order, order)]


def frozen_limits(positions, sets):
    """Return the limit of each token if its set stays as it is: the mean of the limits of the other members."""
    limits, left = {}, set(range(len(sets)))
    while left:
        for i in sorted(left):
            others = [j for j in sets[i] if j != i]
            if all(positions[j] == positions[i] for j in others):
                limits[i] = positions[i]
            elif all(j in limits for j in others):
                limits[i] = tuple(
                    sum(column) / len(others) for column in zip(*(limits[j] for j in others), strict=True)
                )
        assert left & limits.keys()
        left -= limits.keys()
    return [limits[i] for i in range(len(sets))]


def compare(tokens, alpha, A, mask):
    """Compare a limit with the definition, at its layer and at 12 later ones; return it."""
    causal = {} if mask is None else {"attention_mask": mask}
    limit = hm.limit(tokens, hm.Hardmax(alpha, A, causal=mask is None), max_layers=60, **causal)
    truth = definition(tokens, alpha, A=A, layers=limit.layer + 12, causal=mask is None, mask=mask)
    emerged = dict(zip(limit.leaders.tolist(), limit.emerged.tolist(), strict=True))
    first = {}
    for i, layer in enumerate(truth.emerged):
        if 0 <= layer <= limit.layer:
            first.setdefault(truth.positions[layer][i], (i, layer))
    assert emerged == dict(sorted(first.values()))
    if limit.certified:
        assert all(sets == truth.sets[limit.layer] for sets in truth.sets[limit.layer :])
        assert [tuple(row) for row in limit.exact()] == frozen_limits(truth.positions[limit.layer], truth.sets[-1])
        np.testing.assert_allclose(
            limit.weights @ limit.points[: len(limit.leaders)], limit.tokens, rtol=0, atol=1e-9 * np.abs(tokens).max()
        )
    return limit


@pytest.mark.parametrize("number", [60, pytest.param(1500, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("lattice", [False, True])
def test_limits_are_those_of_the_definition(lattice, number):
    rng, certified, layers, other = np.random.default_rng(int(lattice)), 0, [], 0
    for _ in range(number):
        limit = compare(*draw_problem(rng, lattice), None)
        certified += limit.certified
        layers.append(limit.layer)
        other += "T" in limit.proofs or "chain" in limit.proofs
    print(f"{certified} of {number} certified, latest layer {max(layers)}, {other} with T or chain")
    assert certified == number


@pytest.mark.parametrize("number", [40, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_limits_under_partial_orders(number):
    rng = np.random.default_rng(2)
    for _ in range(number):
        tokens, alpha, A = draw_problem(rng, lattice=rng.random() < 0.5)
        assert compare(tokens, alpha, A, draw_order(rng, len(tokens))).certified


def test_a_stream_gives_the_limit_of_all_tokens_so_far():
    rng = np.random.default_rng(3)
    for number in range(40):
        tokens, alpha, A = draw_problem(rng, lattice=number % 2 == 0)
        rule, cuts = hm.Hardmax(alpha, A, causal=True), [0, *sorted(rng.integers(0, len(tokens), 3)), len(tokens)]
        stream = hm.CausalLimit(rule, max_layers=60)
        for start, stop in zip(cuts, cuts[1:], strict=False):
            if stop > start:
                stream.append(tokens[start] if stop == start + 1 else tokens[start:stop])
                limit = stream.limit()
                assert limit == hm.limit(tokens[:stop], rule, max_layers=60)
                assert limit.exact().tolist() == hm.limit(tokens[:stop], rule, max_layers=60).exact().tolist()
    assert stream.limit() is limit
