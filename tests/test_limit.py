"""Limits: geometry, weights, robustness, cost, files, and the status where nothing is
proved.
"""

import itertools
import json
import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import theory, token_sets
from tests.problems.oracle import definition, dot, sets_of
from tests.problems.theory import outcomes

pytestmark = pytest.mark.portable

HALF, MATRIX = Fraction(1, 2), np.array([[3.0, 1.0], [1.0, 0.5]])


@pytest.mark.parametrize("kind", [k for k in token_sets.KINDS if k != "mixed"])
@pytest.mark.parametrize("exact", [False, True])
def test_every_kind_of_token_set_is_certified_and_adds_up(kind, exact):
    tokens = token_sets.KINDS[kind](np.random.default_rng(7))
    limit = hm.limit(tokens, hm.Hardmax(HALF, exact=exact))
    assert limit.certified
    assert limit.status.startswith(f"Certified at layer {limit.layer}.")
    assert sum(limit.proofs.values()) == len(tokens)
    scale = np.abs(np.asarray(tokens, float)).max()
    assert (limit.weights >= -1e-13).all()
    np.testing.assert_allclose(limit.weights.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(
        limit.weights @ (limit.tokens[limit.leaders] / scale),
        limit.tokens / scale,
        atol=1e-12,
    )
    assert np.array_equal(limit.points[limit.clusters], limit.tokens)
    assert np.array_equal(limit.exact().astype(float), limit.tokens)
    assert limit.clusters[limit.leaders].tolist() == list(range(len(limit.leaders)))
    assert len({tuple(row) for row in limit.exact()}) == len(limit.points)
    run = hm.simulate(tokens, hm.Hardmax(HALF, exact=exact), layers=limit.layer)
    assert limit.leaders.tolist() == run.leaders.tolist()
    assert limit.emerged.tolist() == run.emerged[run.leaders].tolist()


def test_copies_weigh_in_the_centroid_of_theorem_4():
    tokens = [
        (1, 1),
        (1, 1),
        (1, -2),
        (0.5, 0),
    ]  # c = (1, 0) sees both leaders; the plain mean would see (1, -2) alone
    limit = hm.limit(tokens, hm.Hardmax(HALF))
    assert (limit.layer, limit.proofs) == (0, {"Theorem 1": 3, "Theorem 4": 1})
    assert limit.exact()[3].tolist() == [1, 0]
    np.testing.assert_allclose(limit.weights[3], [2 / 3, 1 / 3])


def histories(tokens, rule, layers):
    run = hm.simulate(tokens, rule, layers=layers)
    return [sets_of(run, k) for k in range(layers + 1)]


@pytest.mark.parametrize(
    "A", [None, MATRIX, MATRIX * 1e-100], ids=["identity", "matrix", "tiny matrix"]
)
@pytest.mark.parametrize("seed", range(6))
def test_no_move_within_the_radius_changes_any_set(A, seed):
    rng = np.random.default_rng(seed)
    tokens = token_sets.gaussian(rng, 7, 2) * 10.0 ** rng.integers(-3, 4)
    rule = hm.Hardmax(0.5, A)
    limit = hm.limit(tokens, rule)
    assert 0 < limit.radius < np.abs(tokens).max()
    layers = limit.layer + 5
    expected = histories(tokens, rule, layers)
    changed = 0
    for _ in range(6):
        moves = rng.normal(size=tokens.shape)
        moves /= np.linalg.norm(moves, axis=1, keepdims=True)
        assert (
            histories(tokens + 0.999 * limit.radius * moves, rule, layers) == expected
        )
        changed += (
            histories(tokens + 1000 * limit.radius * moves, rule, layers) != expected
        )
    assert changed


def test_the_radius_of_two_tokens_by_hand():
    limit = hm.limit(
        [[1.0], [0.5]], hm.Hardmax(1)
    )  # gap 1/4 of token 1, R = 1: 4 eps + 2 eps^2 = 1/4
    assert limit.radius == pytest.approx((1 + 1 / 8) ** 0.5 - 1, rel=0.02)
    assert limit.radius <= (1 + 1 / 8) ** 0.5 - 1
    exact = hm.limit([[1.0], [0.5]], hm.Hardmax(1, exact=True))
    assert exact.radius == pytest.approx(limit.radius)
    assert hm.limit([[1e200], [0.5e200]], hm.Hardmax(1)).radius == pytest.approx(
        limit.radius * 1e200
    )


def radius_by_definition(tokens, alpha, layers):
    """Return (layer of the smallest gap, radius) from the gaps of every token up to the
    layer that decides it.
    """
    truth = definition(tokens, alpha, layers=layers)
    gaps, decided = {}, set()
    for k, (positions, sets) in enumerate(
        zip(truth.positions, truth.sets, strict=True)
    ):
        for i in set(range(len(tokens))) - decided:
            products = sorted(
                (dot(positions[i], other) for other in positions), reverse=True
            )
            gaps[k, i] = products[0] - products[1]
        decided |= {i for i, (j,) in enumerate(sets) if sets[j] == [j]}
    (layer, _), gap = min(gaps.items(), key=lambda item: item[1])
    reach = max(
        float(np.linalg.norm(np.array(row, float))) for row in truth.positions[0]
    )
    return layer, (reach**2 + float(gap) / 2) ** 0.5 - reach  # 4 R eps + 2 eps^2 = gap


def test_the_radius_counts_every_layer_up_to_the_deciding_one():
    last = 0
    for seed in range(40):
        tokens = token_sets.gaussian(np.random.default_rng(seed), 9, 2)
        limit = hm.limit(tokens, hm.Hardmax(0.1))
        layer, radius = radius_by_definition(tokens, 0.1, limit.layer)
        assert 0.97 * radius <= limit.radius <= radius * (1 + 1e-9)
        last += layer == limit.layer > 0
    assert last >= 3  # the smallest gap is often that of the deciding layer


def nearly_equal_keys(extra, behind):
    """Return tokens of which three are nearly equal, two of them `behind` by some
    rounding units, and other tokens.

    Differences are 1e-40 times the tokens, and differences of products 1e-55: far below
    the resolution of float64.
    """
    u, c, d, scale = Fraction(1, 2**53), Fraction(1, 2**30), 24, Fraction(1, 10**40)
    point, keys = (
        [Fraction(1), *[c] * (d - 1)],
        ((200, 51), (200 - behind[0], 49), (200 - behind[1], 51)),
    )
    offsets = [
        [Fraction(1), e * u / c, *[f * 2 * u / c / 100] * (d - 2)] for e, f in keys
    ]
    others = [
        [Fraction(1, 4) + Fraction(i, 200), *[Fraction(0)] * (d - 1)]
        for i in range(extra)
    ]
    rows = [[Fraction(0)] * d, *offsets, *others]
    tokens = np.array(
        [[a + scale * b for a, b in zip(point, row, strict=True)] for row in rows],
        object,
    )
    return tokens, np.array(point, object) / (1 + c)


@pytest.mark.parametrize(
    "extra", [0, 4, 16, 40]
)  # compared directly, or after a filter in float64
@pytest.mark.parametrize("behind", [(12, 54), (80, 90), (80, 110)])
def test_the_radius_of_keys_that_floats_cannot_separate(extra, behind):
    tokens, point = nearly_equal_keys(extra, behind)
    rule = hm.Hardmax(HALF)
    limit, exact = (
        hm.limit(tokens, rule),
        hm.limit(tokens, hm.Hardmax(HALF, exact=True)),
    )
    assert 0 < limit.radius <= exact.radius
    moved = tokens.copy()
    moved[1] -= Fraction(limit.radius) * Fraction(9, 10) * point
    moved[2] += Fraction(limit.radius) * Fraction(9, 10) * point
    assert hm.limit(moved, rule).leaders.tolist() == limit.leaders.tolist() == [1]


# a token, the leader it follows, and two more, one within and one outside the error
# bound of float64
NEAR_TIES = [
    [[0.1529686208671855, 0.17641153488597153], [0.6776629660467227, 0.7815169104484453],
     [0.6274663282929217, 0.8250430350543643], [0.6968180484472132, 0.7649073019027529]],
    [[0.18719257334574227, 0.19116808873544316], [0.7745372643633176, 0.790986553773352],
     [0.7238536042915255, 0.8406162007409952], [0.8345125125476853, 0.7322585457729229]],
]  # fmt: skip


@pytest.mark.parametrize("tokens", NEAR_TIES)
def test_the_radius_does_not_depend_on_which_keys_a_filter_keeps(tokens):
    far = np.array([-0.95, -0.1])
    tokens = np.array([*tokens, far])
    exact = hm.limit(tokens, hm.Hardmax(0.5, exact=True)).radius
    many = np.vstack(
        [tokens, np.outer(np.linspace(0.1, 0.9, 3200), far)]
    )  # enough for compiled code
    for some in (tokens, many):
        assert hm.limit(some, hm.Hardmax(0.5)).radius <= exact


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("tokens", "radius"),
    [
        ([[1, 0], [-1, 0.5], [0, 0]], 0),  # a token that sees all others
        *(
            (tokens, 0)
            for tokens in (
                theory.SQUARE,
                theory.MIDDLE,
                [[1.0], [1.0], [0.5]],
                theory.EQUAL_PRODUCTS,
            )
        ),
        ([[1, 0]], np.inf),
        (
            [[2**53 + 1, 1], [2**53, 1], [-5, -5]],
            pytest.approx(0.25, rel=0.1),
        ),  # integers beyond floats
    ],
)
def test_radii_of_special_token_sets(tokens, radius, exact):
    assert hm.limit(tokens, hm.Hardmax(0.5, exact=exact)).radius == radius


def test_too_few_layers():
    limit = hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF), max_layers=7)
    assert (limit.certified, limit.layer, limit.radius) == (False, 7, 0)
    assert limit.status.startswith("Not certified within 7 layers. 6 leaders")
    assert "12 of 13 tokens are decided" in limit.status
    assert limit.status.endswith("Raise `max_layers` to go on.")
    none = hm.limit(theory.DEPENDS_ON_ALPHA, hm.Hardmax(0.5), max_layers=0)
    assert (none.certified, none.layer) == (False, 0)
    assert "within 0 layers" in none.status
    assert "nan" not in none.status
    assert limit.clusters[12] == -1
    assert np.isnan(limit.weights[12]).all()
    assert not np.isnan(limit.weights[:12]).any()
    run = hm.simulate(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF), layers=7)
    np.testing.assert_allclose(limit.tokens[12], run.tokens[7, 12])
    with pytest.raises(hm.InputError, match="Exact limits need a certificate"):
        limit.exact()
    data = json.loads(limit.to_json())
    assert data["certified"] is False
    assert data["weights"][12] == [None] * 6


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-320, 1e-170, 1e300])
def test_no_token_moves_farther_than_the_pace(scale, exact):
    if exact:
        pytest.importorskip("flint")
    rng = np.random.default_rng(5)
    token_sets_of = [[[0, 0], [2, 3], [-3, -2]], [[1, 2], [2, 1], [1, 1], [0, 0]]]
    token_sets_of += [rng.integers(-4, 5, (7, d)) for d in (2, 3, 20)]
    token_sets_of += [rng.normal(size=(9, 3)), np.arange(12).reshape(6, 2) / 7]
    uncertified = 0
    for tokens, sign in itertools.product(token_sets_of, (1, -1)):
        tokens = np.asarray(tokens, np.float64) * scale
        A = sign * np.eye(tokens.shape[1])
        rule = hm.Hardmax(Fraction(2, 3), A, exact=exact, any_A=True)
        run = hm.simulate(tokens, rule, layers=4)
        for k in range(4):
            limit = hm.limit(tokens, rule, max_layers=k)
            if limit.certified:
                break
            uncertified += 1
            moves = run.exact(k + 1) - run.exact(k)
            farthest = max(map(sum, (moves * moves).tolist()))  # squared
            assert farthest <= Fraction(limit.pace) ** 2
            near = Fraction(limit.pace) - Fraction(scale) / 10**13 - Fraction(2e-323)
            assert near < 0 or farthest >= near**2
    assert uncertified > 5


def test_the_pace_is_a_euclidean_distance():
    tokens = [[0, 0], [2, 3], [-3, -2]]
    limit = hm.limit(tokens, hm.Hardmax(1), max_layers=0)
    assert limit.pace == pytest.approx(np.hypot(1, 1) / 6)
    assert "no token by more than 0.24." in limit.status


# Theorems 1 and 4, T and chain prove no limit of the last three: the last token, which
# stays in place, belongs to its own set, and the two before it follow it.
UNPROVED = [[1, 1, 1, 0], [1, 1, -1, 0], [1, -1, 1, 0], [1, -1, -1, 0]]
UNPROVED += [[1, HALF, s, Fraction(s, 4)] for s in (1, -1)]
UNPROVED += [[1, -HALF, s, Fraction(s, 4)] for s in (1, -1)]
UNPROVED += [[1, 0, Fraction(s, 2), Fraction(s, 10)] for s in (1, -1)]
UNPROVED += [[1, 0, 0, 0]]


def test_more_layers_are_not_advised_where_no_rule_covers_the_sets():
    for layers in (1, 40, 100):
        limit = hm.limit(UNPROVED, hm.Hardmax(HALF), max_layers=layers)
        assert (limit.clusters >= 0).sum() == 8
        assert f"have not changed for {layers} layer" in limit.reason
        assert "Raise" not in limit.status
        assert hm.limit([UNPROVED], hm.Hardmax(HALF), max_layers=layers)[0] == limit
        with pytest.raises(hm.InputError, match="have not changed") as refused:
            limit.exact()
        assert "Raise" not in str(refused.value)
    causal = hm.limit(UNPROVED, hm.Hardmax(HALF, causal=True), max_layers=40)
    assert "have not changed for 40 layers" in causal.reason
    # other step sizes change the sets, and more layers do help
    assert hm.limit(UNPROVED, hm.Hardmax(20)).certified


def test_a_rule_without_limits_is_answered_with_those_that_have_them():
    for rule in (hm.SelfAttention(), hm.Softmax(1), hm.FrankWolfe, "hardmax"):
        with pytest.raises(hm.ParameterTypeError) as refused:
            hm.limit([[1.0]], rule)
        assert "Hardmax" in refused.value.must
    with pytest.raises(hm.ParameterTypeError) as refused:
        hm.CausalLimit(hm.FrankWolfe())
    assert "Hardmax" in refused.value.must


def test_outside_the_hypotheses_nothing_is_promised():
    limit = hm.limit(
        [[1.0], [-1.0]], hm.Hardmax(0.5, [[-1.0]], any_A=True), max_layers=10
    )
    assert not limit.certified
    assert (
        "A is not symmetric positive definite. A later layer need not have"
        in limit.status
    )
    skew = hm.limit(
        token_sets.gaussian(np.random.default_rng(0), 10, 2),
        hm.Hardmax(1, [[1, 1], [-1, 1]], any_A=True),
    )
    assert skew.certified  # Theorem 1 holds for any A


def test_leaders_that_met_count_once():
    limit = hm.limit(
        [[1.0], [-1.0]], hm.Hardmax(1, [[-1.0]], any_A=True)
    )  # both jump to 0
    assert limit.certified
    assert limit.tokens.tolist() == [[0], [0]]
    assert (
        limit.leaders.tolist(),
        limit.clusters.tolist(),
        limit.weights.tolist(),
    ) == ([0], [0, 0], [[1], [1]])


def test_decided_tokens_need_no_queries_and_progress_is_called():
    calls = []
    tokens = token_sets.ball(np.random.default_rng(0), 500, 2)
    limit = hm.limit(tokens, hm.Hardmax(0.1), progress=lambda *at: calls.append(at))
    assert limit.layer >= 8
    assert limit.stats["queries"] < 0.5 * 500 * (limit.layer + 1)
    assert [total for _, total in calls] == [500] * (limit.layer + 1)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (500, 500)


def test_t_and_chain_are_not_tried_where_nothing_is_tied(monkeypatch):
    calls = []
    monkeypatch.setattr(
        sys.modules["hardmax.run"],
        "certify",
        lambda *args: calls.append(args) or {},
    )
    limit = hm.limit(
        token_sets.ball(np.random.default_rng(0), 1000, 8), hm.Hardmax(0.1)
    )
    assert limit.certified
    assert not calls  # they cost a hundred times more than the layers themselves


def results():
    rng = np.random.default_rng(4)
    yield "theorem 1", hm.limit(token_sets.gaussian(rng, 30, 3), hm.Hardmax(0.5))
    yield "theorem 4", hm.limit(theory.SQUARE, hm.Hardmax(Fraction(1, 3), np.eye(2)))
    yield "chain", hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF))
    yield (
        "not certified",
        hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF), max_layers=7),
    )
    yield (
        "fractions",
        hm.limit(token_sets.rational(rng), hm.Hardmax(Fraction(1, 3), exact=True)),
    )
    yield "of a batch", hm.limit(rng.normal(size=(3, 8, 2)), hm.Hardmax(0.5))[1]


RESULTS = dict(results())


def assert_same(again, limit):
    assert again == limit
    assert hash(again) == hash(limit)
    assert (again.status, again.radius, again.stats) == (
        limit.status,
        limit.radius,
        limit.stats,
    )
    assert again.to_json() == limit.to_json()
    np.testing.assert_array_equal(again.weights, limit.weights)
    np.testing.assert_array_equal(
        again.sparse_weights.toarray(), limit.sparse_weights.toarray()
    )
    np.testing.assert_array_equal(again.start, limit.start)
    np.testing.assert_array_equal(again.polytope.vertices, limit.polytope.vertices)


@pytest.mark.parametrize("name", RESULTS)
def test_a_limit_can_be_pickled(name):
    limit = RESULTS[name]
    if len(limit.leaders) > 2:
        assert len(limit.polytope.facets)  # Qhull's results cannot be pickled
        assert (
            pickle.loads(pickle.dumps(limit.polytope)).facets.tolist()
            == limit.polytope.facets.tolist()
        )
    again = pickle.loads(pickle.dumps(limit))
    assert_same(again, limit)
    if limit.certified:
        assert (again.exact() == limit.exact()).all()
    assert limit != RESULTS["theorem 1" if name != "theorem 1" else "chain"]


def test_limits_of_a_batch_can_be_pickled():
    batch = np.random.default_rng(0).normal(size=(4, 9, 2))
    batch[2, 1] = batch[2, 0]  # equal tokens leave the pass
    limits = hm.limit(batch, hm.Hardmax(0.5))
    again = pickle.loads(pickle.dumps(limits))
    assert (again, repr(again)) == (limits, repr(limits))
    assert all(
        one == other and (one.exact() == other.exact()).all()
        for one, other in zip(again, limits, strict=True)
    )
    assert again != hm.limit(-2 * batch, hm.Hardmax(0.5))


@pytest.mark.parametrize("name", RESULTS)
def test_a_certificate_is_the_file_of_a_limit(name):
    limit = RESULTS[name]
    if not limit.certified:
        with pytest.raises(hm.InputError, match="certified limit"):
            limit.certificate()
        return
    document = json.loads(json.dumps(limit.certificate()))
    again = hm.Limit.from_certificate(document)
    assert again == limit
    assert (again.radius, again.status) == (limit.radius, limit.status)
    assert again.certificate() == document
    assert pickle.loads(pickle.dumps(again)) == limit


def test_one_run_answers_every_question(monkeypatch):
    """`radius`, the certificate, the statements and the page read what one run found."""
    module = sys.modules["hardmax.run"]
    searched = []
    choose = module.Run.choose

    def note(run):
        searched.append(run.layer)
        return choose(run)

    monkeypatch.setattr(module.Run, "choose", note)
    limit = hm.limit(theory.FOLLOWS_FOLLOWERS, hm.Hardmax(HALF))
    assert searched == list(range(limit.layer + 1))
    _ = repr(limit), limit.radius, limit.certificate(), limit.weights, limit.to_json()
    assert len(searched) == limit.layer + 1


PLATE = [[x, y, -1 + (x != 0) * (y == 0)] for x in (-1, 0, 1) for y in (-1, 0, 1)]


def test_weights_are_never_negative_by_rounding():
    limit = hm.limit(PLATE, hm.Hardmax(HALF))
    assert limit.certified
    assert limit.weights.min() == 0
    assert (
        outcomes(hm.simulate(PLATE, hm.Hardmax(HALF), layers=1))["F5 limit"] == "holds"
    )


def test_a_limit_that_no_leader_makes_has_no_weights():
    tokens = [[-2, 1], [-1, -2], [-1, -2], [2, 2], [1, -1], [2, -1], [0, -2]]
    limit = hm.limit(tokens, hm.Hardmax(HALF, [[2, 1], [0, 0]], any_A=True))
    assert limit.certified
    reached = ~np.isnan(limit.weights).any(axis=1)
    assert not reached[3]
    np.testing.assert_allclose(
        limit.weights[reached] @ limit.points[: len(limit.leaders)],
        limit.tokens[reached],
    )


def test_limits_between_the_smallest_floats():
    tokens = (
        np.array([[8, -7], [9, 9], [-9, 7], [-9, 2], [-6, 3]]) * 5e-324
    )  # one ends halfway between two of these
    A = [[6, 3], [3, 6]]
    assert len(hm.limit(tokens, hm.Hardmax(5, A)).points) == 5
    assert hm.limit(hm.configuration("edge-clusters"), hm.Hardmax(0.5)).clusters[
        4:6
    ].tolist() == [
        4,
        5,
    ]  # in order
    assert (
        outcomes(hm.simulate(tokens, hm.Hardmax(5, A), layers=3))["F5 limit"] == "holds"
    )


def test_a_zero_matrix_ties_everything():
    limit = hm.limit([[1.0, 2.0]], hm.Hardmax(0.5, np.zeros((2, 2)), any_A=True))
    assert limit.certified
    assert limit.radius == np.inf
    trajectory = hm.simulate(
        [[1.0, 2.0], [3.0, 4.0]],
        hm.Hardmax(0.5, np.zeros((2, 2)), any_A=True),
        layers=1,
    )
    assert trajectory.margins(0).tolist() == [np.inf, np.inf]
