"""Frank-Wolfe attention: steps and statements, against definitions in Fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import hardmax as hm

SQUARE = [[1, 1], [1, -1], [-1, 1], [-1, -1]]


def define_step(Z, B, gamma):
    """Return one step by the definition in the plane: vertices from Qhull, products in
    Fractions.
    """
    points = sorted({tuple(map(Fraction, row)) for row in Z})
    vertices = [points[i] for i in ConvexHull(np.array(points, float)).vertices]
    new = []
    for z in ([Fraction(x) for x in row] for row in Z):
        image = [sum(Fraction(b) * x for b, x in zip(row, z, strict=True)) for row in B]
        scores = [sum(a * b for a, b in zip(image, v, strict=True)) for v in vertices]
        best = [
            v for v, score in zip(vertices, scores, strict=True) if score == max(scores)
        ]
        mean = [sum(v[r] for v in best) / len(best) for r in range(2)]
        new.append([(1 - gamma) * x + gamma * c for x, c in zip(z, mean, strict=True)])
    return new


@pytest.mark.parametrize("seed", range(20))
def test_layers_are_those_of_the_definition_on_lattices_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, B = rng.integers(-2, 3, (9, 2)).tolist(), rng.integers(-2, 3, (2, 2)).tolist()
    if (
        len(np.unique(Z, axis=0)) < 3
        or np.linalg.matrix_rank(np.array(Z)[1:] - Z[0]) < 2
    ):
        Z += [[2, 2], [2, -2], [-2, 1]]
    rule = hm.FrankWolfe(B, [Fraction(1, 2), Fraction(1, 4)])
    run = hm.simulate(Z, rule, layers=2).array
    exact = define_step(Z, B, Fraction(1, 2))
    np.testing.assert_allclose(run[1], np.array(exact, float), atol=1e-14)


# float64 moves the first token at layer 55, as rounding lets the two others cross
CLOSE = [
    [-0.9876017034717594, -0.1569804933731549],
    [-0.8577142868863746, -0.9741331925581896],
    [-0.44616538023857877, 0.2949382119151093],
]


def test_a_token_that_follows_itself_never_moves() -> None:
    rule = hm.FrankWolfe(steps=0.5)
    run = hm.simulate(CLOSE, rule, layers=80)
    assert (run.array[:, 0] == CLOSE[0]).all()
    full = hm.simulate(CLOSE, hm.FrankWolfe(steps=[0.1, 1, 0.5]), layers=5)
    assert (full.array[2:] == full.array[2]).all()  # at their targets, which stay


@pytest.mark.parametrize("seed", range(12))
def test_tokens_are_those_of_rational_arithmetic_rounded_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lattice = rng.integers(-2, 3, (8, 2)) * [[1.0, 0.3]]
    Z = np.vstack([lattice, [[2, 2], [2, -2], [-2, 1]], rng.normal(size=(3, 2))])
    B = rng.integers(-2, 3, (2, 2))
    steps = [Fraction(1, 3), 0.3, (Fraction(3, 4), 0.25)[seed % 2], 0.1]
    rule = hm.FrankWolfe(B, steps)
    layers = 9
    exact = [[list(map(Fraction, row)) for row in Z.tolist()]]
    for k in range(layers):
        exact.append(define_step(exact[-1], B.tolist(), Fraction(steps[min(k, 3)])))
    expected = np.array(exact, object).astype(np.float64)
    assert (hm.simulate(Z, rule, layers=layers).array == expected).all()
    last = hm.simulate(Z, rule, layers=layers, save="last")
    assert (last.array == expected[-1:]).all()
    padded = np.stack([np.vstack([Z, [[9, 9]]]), np.vstack([[[9, 9]], Z])])
    mask = np.ones((2, len(Z) + 1), bool)
    mask[0, -1] = mask[1, 0] = False
    batch = hm.simulate(padded, rule, layers=layers, mask=mask)
    assert (batch.tokens[:, mask] == np.concatenate([expected] * 2, axis=1)).all()
    assert (batch.tokens[:, ~mask] == 9).all()
    heads = hm.MultiHead([rule, rule])
    run = hm.simulate(np.hstack([Z, Z]), heads, layers=layers)
    assert (run.array == np.concatenate([expected] * 2, axis=2)).all()


def test_gradients_pass_through_the_layers() -> None:
    torch = pytest.importorskip("torch")
    tokens = torch.tensor(CLOSE, dtype=torch.float64, requires_grad=True)
    run = hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=2)
    run.tokens[-1].sum().backward()
    assert tokens.grad.sum() == pytest.approx(6)
    assert hm.simulate(tokens.detach(), hm.FrankWolfe(), layers=2).tokens.dtype == (
        torch.float64
    )


def attended(tokens, token):
    """Return the tokens that a token moves towards at layer 0."""
    run = hm.simulate(tokens, hm.FrankWolfe(), layers=0)
    return np.flatnonzero(run.attention(0)[token]).tolist()


def test_a_token_at_0_attends_to_all_vertices() -> None:
    rng = np.random.default_rng(1)
    for d in (2, 3, 4):
        points = rng.normal(size=(25, d))
        points -= points.mean(axis=0)
        assert attended([*points, [0] * d], 25) == sorted(ConvexHull(points).vertices)
    edge = [[1, 1], [1, 0.5], [1, -1], [1, 0]]
    assert attended(edge, 3) == [0, 2]
    assert attended([[1, 1], [0, 0], [-1, -1]], 1) == [0, 2]


def test_the_hypothesis_that_0_is_in_the_hull_is_decided_exactly() -> None:
    rule = hm.FrankWolfe([[-1, 0], [0, -1]])
    for start, met in (
        ([[1, 1], [-1, -1]], True),
        ([[1, 1], [-1, -1 + 2**-53]], False),
        ([[0, 0]], True),
        ([[1, 1]], False),
    ):
        run = hm.simulate(np.array(start, float), rule, layers=1)
        outcome = hm.theorems.frank_wolfe_rate(run).outcome
        assert (outcome != "hypotheses not met") == met


@pytest.mark.parametrize("seed", range(10))
def test_without_ties_tokens_move_as_under_hardmax(seed: int) -> None:
    tokens = np.random.default_rng(seed).normal(size=(25, 3))
    run = hm.simulate(tokens, hm.FrankWolfe(steps=Fraction(1, 3)), layers=100)
    limit = hm.limit(tokens, hm.Hardmax(Fraction(1, 2)))
    assert limit.certified
    np.testing.assert_allclose(run.array[-1], limit.tokens, atol=1e-12)


def test_ends_differ_where_a_tie_has_equal_tokens_or_a_token_inside_a_face() -> None:
    copies = [[1, 1], [1, 1], [1, -1], [-1, 0], [0.5, 0]]
    inside = [[1, 1], [1, 0.5], [1, -1], [-1, 0], [0.5, 0]]
    for tokens in (copies, inside):
        run = hm.simulate(tokens, hm.FrankWolfe(steps=0.5), layers=60)
        assert run.array[-1, 4].tolist() == [1, 0]
        assert hm.limit(tokens, hm.Hardmax(1)).exact()[4].tolist() == [1, 1]


@pytest.mark.parametrize("steps", ["2/(t+2)", 1, [0.5, 1, 0.5], 0.5])
def test_after_a_step_of_1_another_vertex_may_be_maximal(steps) -> None:
    tokens = [
        [1, 1, 0],
        [1, -1, 0],
        [1, 0, 1],
        [0.5, 0, -0.25],
    ]  # at (1, 0, 0) token 2 is maximal, too
    run = hm.simulate(tokens, hm.FrankWolfe(steps=steps), layers=2000)
    expected = [1, 0, 0] if steps == 0.5 else [1, 0, 1]
    np.testing.assert_allclose(run.array[-1, 3], expected, atol=1e-5)


def test_statements() -> None:
    tokens = [*SQUARE, [0.5, 0.25]]
    for steps in (0.5, "2/(t+2)", [0.25, 0.5]):
        for verdict in hm.theorems.check(
            hm.simulate(tokens, hm.FrankWolfe(steps=steps), layers=30)
        )[:2]:
            assert verdict.holds, verdict
    tied = hm.theorems.frank_wolfe_targets(
        hm.simulate([*SQUARE, [0.5, 0]], hm.FrankWolfe(steps=0.5), layers=2)
    )
    assert tied.outcome == "nothing to check"
    singular = hm.simulate(tokens, hm.FrankWolfe([[1, 0], [0, 0]], 0.5), layers=2)
    assert hm.theorems.frank_wolfe_targets(singular).outcome == "hypotheses not met"


def test_the_printed_rate_fails_and_the_repaired_one_holds() -> None:
    printed, repaired = hm.theorems.check(
        hm.simulate([[1.0], [2.0]], hm.FrankWolfe([[-1]]), layers=10)
    )[2:]
    assert printed.outcome == "fails"
    assert printed.conjecture
    assert repaired.outcome == "hypotheses not met"
    met = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        M = rng.normal(size=(2, 2))
        rule = hm.FrankWolfe(-M @ M.T - 0.1 * np.eye(2))
        start = rng.normal(size=(3, 2))
        start = (
            np.vstack([start, -start])
            if seed % 2
            else np.vstack([start, -start + 0.01])
        )  # symmetric stays so
        verdict = hm.theorems.frank_wolfe_rate(hm.simulate(start, rule, layers=12))
        assert verdict.holds in (True, None), verdict
        met += verdict.holds is True
    assert met >= 30


def test_padding_batches_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    batch, mask = np.zeros((2, 5, 2)), np.array([[True] * 5, [True] * 4 + [False]])
    batch[0], batch[1, :4] = [*SQUARE, [0.5, 0.25]], SQUARE
    batch[1, 4] = 100
    run = hm.simulate(
        torch.tensor(batch), hm.FrankWolfe(steps=0.5), layers=2, mask=mask
    )
    assert run.tokens[2, 0, 4].tolist() == [0.875, 0.8125]
    assert run.tokens[2, 1, 4].tolist() == [100, 100]
    assert run.attention(0)[0, 4].tolist() == [1, 0, 0, 0, 0]


def test_definiteness_and_rank_are_decided_exactly() -> None:
    singular = hm.FrankWolfe([[-1, 3], [3, -9]])
    run = hm.simulate([[1, 1], [-1, -1]], singular, layers=3)
    targets, _, printed, repaired = hm.theorems.check(run)
    assert targets.outcome == "hypotheses not met"
    assert printed.outcome == repaired.outcome == "hypotheses not met"
    definite = hm.FrankWolfe([[-1, 3], [3, -9.000000000000002]])
    run = hm.simulate([[1, 1], [-1, -1]], definite, layers=3)
    assert hm.theorems.frank_wolfe_rate_printed(run).outcome != "hypotheses not met"


def test_rounding_of_a_narrow_dtype_is_no_failure() -> None:
    torch = pytest.importorskip("torch")
    for seed in range(30):
        tokens = torch.tensor(np.random.default_rng(seed).normal(size=(5, 2)))
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            run = hm.simulate(tokens.to(dtype), hm.FrankWolfe(steps=0.5), layers=12)
            found = hm.theorems.frank_wolfe_closed_form(run)
            assert found.outcome != "fails", found


def test_positions_that_no_layer_gives_fail() -> None:
    run = hm.simulate([*SQUARE, [0.5, 0.25]], hm.FrankWolfe(steps=0.5), layers=6)
    tokens = run.tokens.copy()
    tokens[3, 4] += 0.01
    forged = replace(run, tokens=tokens)
    assert hm.theorems.frank_wolfe_closed_form(forged).outcome == "fails"


def test_the_rate_of_huge_tokens_is_decided() -> None:
    for size in (1e200, 1e-200):
        tokens = size * np.array([[1.0, 1], [-1, -1], [2, -1], [-2, 1]])
        run = hm.simulate(tokens, hm.FrankWolfe([[-1, 0], [0, -2]]), layers=10)
        assert hm.theorems.frank_wolfe_rate(run).outcome == "holds"
