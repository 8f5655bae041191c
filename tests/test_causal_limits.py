"""Limits under causal masks and other partial orders, against exact loops, and their
extension token by token.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.exact.frozen import Frozen, certify
from hardmax.search.dispatch import Search
from tests.problems.oracle import definition

pytestmark = [pytest.mark.quick, pytest.mark.portable]

EXHAUSTIVE = (pytest.mark.slow, pytest.mark.exhaustive)
HALF = Fraction(1, 2)
ALPHAS = (Fraction(1, 10), HALF, Fraction(1), Fraction(5))
WAITING = [
    (1, 0),
    (1, 1),
    (Fraction(11, 10), HALF),
    (HALF, Fraction(-2, 5)),
]  # C1 never decides the last token


def draw_problem(rng, lattice):
    """Return tokens, alpha and A of a random problem with n <= 12: small integers, or
    floats.
    """
    n, d = rng.integers(1, 13), rng.integers(2, 4)
    tokens = (
        rng.integers(-3, 4, (n, d))
        if lattice
        else rng.integers(-(2**20), 2**20, (n, d))
    )
    root = rng.integers(-2, 3, (d, d))
    A = None if rng.random() < 0.5 else root @ root.T + np.eye(d, dtype=int)
    return tokens, ALPHAS[rng.integers(4)], A


def draw_order(rng, n):
    """Return a random partial order: the ancestors in a tree, or earlier tokens of the
    same block.
    """
    if rng.random() < 0.5:
        blocks = rng.integers(0, 3, n)
        return np.tri(n, dtype=bool) & (blocks[:, None] == blocks)
    seen = np.eye(n, dtype=bool)
    for i in range(1, n):
        seen[i] |= seen[rng.integers(i)]
    order = rng.permutation(n)  # a token may come before those it sees
    return seen[np.ix_(order, order)]


def frozen_limits(positions, sets):
    """Return the limit of each token if its set stays as it is: the mean of the limits
    of the other members.
    """
    limits, left = {}, set(range(len(sets)))
    while left:
        for i in sorted(left):
            others = [j for j in sets[i] if j != i]
            if all(positions[j] == positions[i] for j in others):
                limits[i] = positions[i]
            elif all(j in limits for j in others):
                limits[i] = tuple(
                    sum(column) / len(others)
                    for column in zip(*(limits[j] for j in others), strict=True)
                )
        assert left & limits.keys()
        left -= limits.keys()
    return [limits[i] for i in range(len(sets))]


def compare(tokens, alpha, A, mask):
    """Compare a limit with the definition, at its layer and at 12 later ones; return
    it.
    """
    causal = {} if mask is None else {"attention_mask": mask}
    limit = hm.limit(
        tokens, hm.Hardmax(alpha, A, causal=mask is None), max_layers=60, **causal
    )
    truth = definition(
        tokens, alpha, A=A, layers=limit.layer + 12, causal=mask is None, mask=mask
    )
    emerged = dict(zip(limit.leaders.tolist(), limit.emerged.tolist(), strict=True))
    first = {}
    for i, layer in enumerate(truth.emerged):
        if 0 <= layer <= limit.layer:
            first.setdefault(truth.positions[layer][i], (i, layer))
    assert emerged == dict(sorted(first.values()))
    if limit.certified:
        assert all(
            sets == truth.sets[limit.layer] for sets in truth.sets[limit.layer :]
        )
        assert [tuple(row) for row in limit.exact()] == frozen_limits(
            truth.positions[limit.layer], truth.sets[-1]
        )
        np.testing.assert_allclose(
            limit.weights @ limit.points[: len(limit.leaders)],
            limit.tokens,
            rtol=0,
            atol=1e-9 * np.abs(tokens).max(),
        )
    return limit


@pytest.mark.parametrize("number", [60, pytest.param(1500, marks=EXHAUSTIVE)])
@pytest.mark.parametrize("lattice", [False, True])
def test_limits_are_those_of_the_definition(lattice, number):
    rng, certified, layers, other = np.random.default_rng(int(lattice)), 0, [], 0
    for _ in range(number):
        limit = compare(*draw_problem(rng, lattice), None)
        certified += limit.certified
        layers.append(limit.layer)
        other += "T" in limit.proofs or "chain" in limit.proofs
    print(
        f"{certified} of {number} certified, latest layer {max(layers)}, {other} with T"
        " or chain"
    )
    assert certified == number


@pytest.mark.parametrize("number", [40, pytest.param(1000, marks=EXHAUSTIVE)])
def test_limits_under_partial_orders(number):
    rng = np.random.default_rng(2)
    for _ in range(number):
        tokens, alpha, A = draw_problem(rng, lattice=rng.random() < 0.5)
        assert compare(tokens, alpha, A, draw_order(rng, len(tokens))).certified


def test_a_stream_gives_the_limit_of_all_tokens_so_far():
    rng = np.random.default_rng(3)
    for number in range(40):
        tokens, alpha, A = draw_problem(rng, lattice=number % 2 == 0)
        rule, cuts = (
            hm.Hardmax(alpha, A, causal=True),
            [0, *sorted(rng.integers(0, len(tokens), 3)), len(tokens)],
        )
        stream = hm.CausalLimit(rule, max_layers=60)
        for start, stop in pairwise(cuts):
            if stop > start:
                stream.append(
                    tokens[start] if stop == start + 1 else tokens[start:stop]
                )
                limit = stream.limit()
                assert limit == hm.limit(tokens[:stop], rule, max_layers=60)
                assert (
                    limit.exact().tolist()
                    == hm.limit(tokens[:stop], rule, max_layers=60).exact().tolist()
                )
    assert stream.limit() is limit


def test_a_stream_copies_tokens():
    stream, row, tokens = (
        hm.CausalLimit(hm.Hardmax(HALF, causal=True)),
        np.zeros(2),
        np.eye(2),
    )
    for row[:] in tokens:
        stream.append(row)
    assert stream.limit() == hm.limit(tokens, stream.rule)


@pytest.mark.parametrize("tokens", [[[1.0]] * 7 + [[0.5]], [[-2.0]] * 6 + [[-1.0]]])
def test_weights_are_rounded_once(tokens):
    """Seven weights of 1/7 on equal leaders are 1."""
    limit = hm.limit(tokens, hm.Hardmax(HALF, causal=True))
    assert limit.weights.tolist() == [[1.0]] * 7 + [[1.0]] * (len(tokens) - 7)


def test_the_token_that_c1_never_decides():
    """Two leaders have equal products, and the position of a follower of one decides at
    no finite layer.
    """
    limit = hm.limit(WAITING, hm.Hardmax(HALF, causal=True))
    assert limit.proofs == {"C1": 3, "T": 1}
    assert limit.exact()[3].tolist() == [1, 0]
    verdict = hm.theorems.c2(
        hm.simulate(WAITING, hm.Hardmax(HALF, causal=True), layers=5)
    )
    assert verdict.outcome == "hypotheses not met"
    assert "leaders 0 and 1" in verdict.reason.lower()


def test_a_proof_rests_on_those_of_the_tokens_that_are_seen():
    rule = hm.Hardmax(HALF, causal=True)
    record = hm.simulate(np.array(WAITING, object), rule, layers=3).records[0]
    frozen = Frozen(
        record.exact.at(3, range(4)),
        record.sets(3),
        record.classes.counts,
        [2, 3],
        HALF,
        None,
        {2: {0, 1, 2}, 3: {0, 1, 2, 3}},
    )
    assert certify(frozen, [2, 3]).keys() == {2, 3}
    assert certify(frozen, [2, 3], {3}).keys() == {2}
    assert not certify(frozen, [2, 3], {2})


def test_arithmetics_batches_and_padding_agree():
    rng = np.random.default_rng(4)
    batch = np.concatenate(
        [rng.normal(size=(6, 12, 2)), rng.integers(-2, 3, (6, 12, 2))]
    )
    mask = rng.random((12, 12)) < 0.8
    mask[:, 5] = True
    rule, order = hm.Hardmax(HALF, causal=True), draw_order(rng, 12)
    limits, masked = (
        hm.limit(batch, rule, mask=mask),
        hm.limit(batch, hm.Hardmax(HALF), mask=mask, attention_mask=order),
    )
    many = rng.normal(size=(20, 80, 2))
    assert [one.layer for one in hm.limit(many, rule)] == [
        hm.limit(tokens, rule).layer for tokens in many
    ]
    for b, real in enumerate(mask):
        alone = hm.limit(batch[b, real], rule)
        assert limits[b] == alone
        assert limits[b].exact().tolist() == alone.exact().tolist()
        assert masked[b] == hm.limit(
            batch[b, real], hm.Hardmax(HALF), attention_mask=order[np.ix_(real, real)]
        )
        rational = hm.limit(batch[b, real], hm.Hardmax(HALF, causal=True, exact=True))
        assert (rational.layer, rational.proofs) == (alone.layer, alone.proofs)
        assert rational.exact().tolist() == alone.exact().tolist()
        assert rational.radius == pytest.approx(alone.radius, rel=1e-6)


def smallest_gap(run):
    """Return the smallest lead of any set up to the layer that decides it, and of its
    leader at that layer.
    """
    smallest = np.inf
    for i, layer in enumerate(run.decided.tolist()):
        for k in range(layer + 1):
            Z = run.tokens[k, : i + 1]
            target = run.sets(k)[i][0]
            for query in [Z[i], Z[target]] if k == layer else [Z[i]]:
                leads = query @ (Z[target] - Z).T
                smallest = min(smallest, np.delete(leads, target).min(initial=np.inf))
    return smallest


def test_the_radius_counts_the_comparisons_of_leaders():
    rule = hm.Hardmax(HALF, causal=True)
    for seed in (
        96,
        *range(20),
        # 96: a leader is compared with a token that it does not see, and that is
        # closest
    ):
        tokens = np.random.default_rng(seed).normal(size=(5, 2))
        limit, run = hm.limit(tokens, rule), hm.simulate(tokens, rule, layers=30)
        gap, reach = smallest_gap(run), np.linalg.norm(tokens, axis=1).max()
        assert limit.radius == pytest.approx(
            gap / (2 * reach + np.sqrt(4 * reach**2 + 2 * gap)), rel=0.02
        )
        assert limit.radius <= gap / (2 * reach + np.sqrt(4 * reach**2 + 2 * gap))


def test_equal_tokens_lead_together():
    limit = hm.limit(
        [[1, 0], [1, 0], [2, 0], [1, 0], [1, 0.5]], hm.Hardmax(1, causal=True)
    )
    assert limit.leaders.tolist() == [0, 2]
    assert limit.clusters.tolist() == [0, 0, 1, 1, 1]
    assert limit.radius == 0


def test_decided_tokens_are_not_searched_again():
    tokens = np.random.default_rng(6).normal(size=(200, 2))
    run = hm.simulate(tokens, hm.Hardmax(HALF, causal=True), layers=30)
    assert run.stats["queries"] < 3 * len(tokens)
    assert "Every token is decided" in run.status
    assert run.decided.max() == hm.limit(tokens, run.rule).layer


@pytest.mark.parametrize("n", [5000, 20_000])
def test_prefixes_in_the_plane_are_searched_on_a_hull_that_grows(n):
    pytest.importorskip("numba")
    from hardmax.search import growing, scan

    rng = np.random.default_rng(n)
    turns, along = (
        np.exp(1j * np.arange(n))[:, None].view(float),
        np.arange(n)[:, None] / n,
    )
    kinds = (
        rng.normal(size=(n, 2)),
        rng.integers(-40, 41, (n, 2)) / 64,
        turns,
        along * [2, 1],
        np.zeros((n, 2)),
    )
    for keys in (*kinds, np.c_[along, -(along**2)], np.c_[along, -(along**2)][::-1]):
        keys = keys / max(np.abs(keys).max(), 1)
        rows = np.sort(rng.choice(n, n // 4, replace=False))
        queries, slack = (
            rng.permutation(keys)[rows],
            rng.random(len(rows)) * 10.0 ** rng.integers(-16, -8, len(rows)),
        )
        if not keys.any():
            rows, queries, slack = rows[:200], queries[:200], slack[:200]
        found, expected = (
            f.near_maxima(queries, keys, slack, rows + 1) for f in (growing, scan)
        )
        left = (
            found.sizes == 0
        )  # queries that are nearly zero, or all keys nearly on a line
        assert not left.all() or not keys.any()
        assert (
            found.replace(np.flatnonzero(left), expected.take(np.flatnonzero(left)))
            == expected
        )


def test_a_query_of_zero_ties_with_every_prefix_without_any_slack():
    keys = np.array([[1.0, 0.0], [0.5, 0.1], [-1.0, 0.0], [0.0, 0.5]])
    found, _ = Search("hull").near_maxima(
        np.zeros((2, 2)), keys, np.zeros(2), np.array([2, 4])
    )
    assert [members.tolist() for members in found] == [[0, 1], [0, 1, 2, 3]]


WINDOW = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]], bool
)  # token 2 does not see what pulls 1, and may follow 1 later


@pytest.mark.parametrize(
    ("mask", "named"),
    [
        (WINDOW, "token 2 sees 1, token 1 sees 0, but token 2 does not see 0"),
        (np.ones((3, 3), bool), "tokens 0 and 1 that see each other"),
        (~np.eye(3, dtype=bool), "token 0 does not"),
        (np.ones((3, 3)), "float64"),
        (np.eye(2, dtype=bool), r"shape \(2, 2\)"),
    ],
    ids=["window", "cycle", "blind", "floats", "shape"],
)
def test_other_masks_are_refused(mask, named):
    with pytest.raises(hm.ParameterError, match=f"^`attention_mask` must .*{named}"):
        hm.limit([[10], [1], [2]], hm.Hardmax(HALF), attention_mask=mask)


def test_errors_of_streams_name_the_parameter():
    with pytest.raises(hm.ParameterTypeError, match=r"^`rule` must"):
        hm.CausalLimit(hm.Softmax(1, causal=True))
    stream = hm.CausalLimit(hm.Hardmax(1, causal=True))
    with pytest.raises(hm.InputError, match="at least one token"):
        stream.limit()
    stream.append([1, 2])
    for tokens in ([1, 2, 3], [[np.nan, 1]], [[[1, 2]]], []):
        with pytest.raises(hm.ParameterError, match=r"^`tokens` must"):
            stream.append(tokens)
    stream.append([[Fraction(1, 3), 0]])  # beside floats
    assert len(stream) == 2
    assert repr(stream).endswith("2 tokens, 2 new since the last limit")
    assert stream.limit().exact().tolist() == [[1, 2], [1, 2]]
