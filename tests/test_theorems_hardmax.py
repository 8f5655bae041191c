"""Verdicts hold where the theory says so, fail on forged trajectories, and say when
hypotheses are not met.
"""

import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import hardmax as hm
from hardmax.sets import Sets
from hardmax.theorems import hardmax as statements
from tests.problems.theory import outcomes

pytestmark = [pytest.mark.quick, pytest.mark.portable]

NAMES = ["F1 hull", "F2 norm", "F3 half-space", "F4 leaders", "F5 limit"] + [
    f"Theorem {k}" for k in (1, 2, 3, 4)
]
RULE = hm.Hardmax(Fraction(1, 2))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
@pytest.mark.parametrize(
    ("name", "d"), [("gaussian", 1), ("gaussian", 2), ("ball", 3), ("ball", 8)]
)
def test_everything_holds_on_random_tokens(name: str, d: int, alpha: float) -> None:
    trajectory = hm.simulate(
        hm.configuration(name, n=60, d=d, seed=3), hm.Hardmax(alpha), layers=40
    )
    found = outcomes(trajectory)
    assert list(found) == NAMES
    assert found.pop("Theorem 4") == "nothing to check"
    assert set(found.values()) == {"holds"}


@pytest.mark.parametrize("seed", range(5))
def test_everything_holds_for_any_positive_definite_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(3, 3))
    rule = hm.Hardmax(0.3, B @ B.T + 0.01 * np.eye(3))
    found = outcomes(hm.simulate(rng.normal(size=(40, 3)), rule, layers=30))
    assert set(found.values()) <= {"holds", "nothing to check"}
    assert all(found[name] == "holds" for name in NAMES[:-1])


def test_a_tie_between_leaders_is_theorem_4_and_an_exception_to_theorem_3() -> None:
    trajectory = hm.simulate(hm.configuration("edge-clusters"), RULE, layers=120)
    found = outcomes(trajectory)
    assert found["Theorem 4"] == found["Theorem 2"] == found["F2 norm"] == "holds"
    assert found["Theorem 3"] == "hypotheses not met"


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_low_precision_tokens_are_judged_by_their_own_rounding(dtype: type) -> None:
    tokens = np.random.default_rng(0).normal(size=(30, 3)).astype(dtype)
    found = outcomes(hm.simulate(tokens, RULE, layers=30))
    assert all(found[name] == "holds" for name in NAMES[:-1])


@pytest.mark.parametrize(
    ("tokens", "rule", "why"),
    [
        ([[1, 0], [0, 0], [-1, 1]], RULE, "Token 1 is zero"),
        ([[1, 0], [2, 1], [1, 0]], RULE, "Tokens 0 and 2 are equal"),
        (
            [[1, 0], [2, 1]],
            hm.Hardmax(0.5, -np.eye(2), any_A=True),
            "A is not symmetric positive definite",
        ),
        (
            [[1, 0], [2, 1]],
            hm.Hardmax(0.5, [[1, 2], [0, 1]], any_A=True),
            "A is not symmetric positive definite",
        ),
        (
            [[1, 0], [2, 1]],
            hm.Hardmax(0.5, normalize=False),
            "Tokens are not normalised",
        ),
    ],
)
def test_hypotheses_not_met_says_which(
    tokens: list, rule: hm.Hardmax, why: str
) -> None:
    verdicts = hm.theorems.check(hm.simulate(tokens, rule, layers=3))
    for verdict in verdicts[:5]:
        assert verdict.outcome == "hypotheses not met"
        assert verdict.holds is None
        assert why in verdict.reason


def test_only_the_last_layer_is_too_little() -> None:
    verdicts = hm.theorems.check(
        hm.simulate(hm.configuration("triangle"), RULE, layers=5, save="last")
    )
    assert all(verdict.outcome == "undecided" for verdict in verdicts)
    assert all('simulate with `save="all"`' in verdict.reason for verdict in verdicts)
    with pytest.raises(TypeError, match="`check`"):
        hm.theorems.check(hm.limit([[1.0]], RULE))


def test_a_statement_about_another_rule_is_not_met() -> None:
    verdict = hm.theorems.hull(
        hm.simulate(hm.configuration("triangle"), hm.Softmax(0.5), layers=1)
    )
    assert (verdict.outcome, verdict.reason) == (
        "hypotheses not met",
        "The rule is Softmax, not Hardmax.",
    )


def test_theorem_1_needs_no_positive_definite_matrix() -> None:
    rng = np.random.default_rng(4)
    skew = hm.Hardmax(0.5, np.array([[1.0, 3, 0], [-3, 1, 0], [0, 0, 1]]), any_A=True)
    found = outcomes(hm.simulate(rng.normal(size=(20, 3)), skew, layers=60))
    assert found["Theorem 1"] == "holds"
    assert found["F2 norm"] == "hypotheses not met"


def forged(**changes: object) -> hm.Trajectory:
    trajectory = hm.simulate(hm.configuration("square"), RULE, layers=10)
    return replace(trajectory, **changes)


def with_sets(trajectory: hm.Trajectory, token: int, follows: int) -> hm.Trajectory:
    """The trajectory with a token that follows another one at layer 0."""
    record = trajectory.records[0]
    first, *later = record.layers
    wrong = list(first.sets)
    wrong[record.classes.labels[token]] = record.classes.labels[[follows]]
    forged_layer = replace(first, sets=Sets.of(wrong))
    return replace(
        trajectory, records=(replace(record, layers=[forged_layer, *later]),)
    )


def test_forged_tokens_fail() -> None:
    outside, shrinking, falling, restless = (forged().tokens.copy() for _ in range(4))
    outside[4, 6] += 1e-3
    found = outcomes(forged(tokens=outside))
    assert found["F1 hull"] == found["Theorem 1"] == "fails"
    shrinking[7, 6] *= 0.5
    assert outcomes(forged(tokens=shrinking))["F2 norm"] == "fails"
    falling[7, 6] = falling[6, 6] * (1 - 1e-10)
    assert outcomes(forged(tokens=falling))["F2 norm"] == "fails"
    restless[3, 0] += 1e-15
    verdict = hm.theorems.leaders(forged(tokens=restless))
    assert (verdict.outcome, verdict.witness) == ("fails", {"token": 0})
    assert verdict.margin < 0


def test_forged_sets_fail() -> None:
    liar = with_sets(forged(), 0, 2)  # the corner (1, 1) follows (-1, -1)
    verdict = hm.theorems.half_space(liar)
    assert (verdict.outcome, verdict.witness) == (
        "fails",
        {"layer": 0, "token": 0, "attracted by": 2},
    )
    assert outcomes(liar)["F1 hull"] == outcomes(liar)["Theorem 1"] == "fails"
    behind = [1 - Fraction(1, 10**25), Fraction(1)]  # <z_0, z_1 - z_0> = -1e-25
    trajectory = hm.simulate([[1, 0], behind, [-1, -1]], RULE, layers=0)
    assert trajectory.sets(0)[0].tolist() == [0]
    assert hm.theorems.half_space(trajectory).outcome == "holds"
    assert hm.theorems.half_space(with_sets(trajectory, 0, 1)).outcome == "fails"


def test_a_false_leader_fails_f4() -> None:
    trajectory = hm.simulate(hm.configuration("square"), RULE, layers=0)
    record = trajectory.records[0]
    emerged = record.emerged.copy()
    emerged[(emerged < 0).argmax()] = 0
    verdict = hm.theorems.leaders(
        replace(trajectory, records=(replace(record, emerged=emerged),))
    )
    assert verdict.outcome == "fails"
    assert "stops leading at layer 0" in verdict.reason


def test_a_limit_inside_the_polytope_fails_f5(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.array(
        [[2.0, 2.0], [-2.0, 2.0], [0.0, -2.0], [0.0, 1.0]]
    )  # the last is a mean of leaders, and inside
    weights = sparse.csr_array(np.vstack([np.eye(3), [3 / 8, 3 / 8, 1 / 4]]))
    exact = np.vectorize(Fraction, otypes=[object])(points)
    found = {
        "certified": True,
        "layer": 0,
        "leaders": np.arange(3),
        "clusters": np.arange(4),
        "points": points,
    }
    limit = SimpleNamespace(**found, exact_points=exact, sparse_weights=weights)
    monkeypatch.setattr(hm.HardmaxTrajectory, "limit", lambda trajectory: limit)
    verdict = hm.theorems.limit(hm.simulate(points, RULE, layers=1))
    assert verdict.outcome == "fails"
    assert verdict.margin < 0


def test_f5_needs_exposed_vertices_and_supported_points() -> None:
    triangle, middle, edge = [(2, 2), (-2, 2), (0, -2)], (0, 1), (0, 2)
    assert statements._smallest_lead(
        triangle, triangle, None, strict=True
    ) == pytest.approx(1)
    assert (
        statements._smallest_lead(
            [*triangle, middle], [*triangle, middle], None, strict=True
        )
        < 0
    )
    assert statements._smallest_lead([edge], triangle, None, strict=False) == 0
    assert statements._smallest_lead([middle], triangle, None, strict=False) < 0
    huge = 10**400
    assert (
        0
        < statements._smallest_lead(
            [(huge, 1), (huge, -1)], [(huge, 1), (huge, -1)], None, strict=True
        )
        <= 1e-300
    )


def test_an_uncertified_limit_leaves_f5_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        hm.HardmaxTrajectory,
        "limit",
        lambda trajectory: hm.limit(
            trajectory.tokens[0], trajectory.rule, max_layers=0
        ),
    )
    verdict = hm.theorems.limit(
        hm.simulate(hm.configuration("emerging-leader"), RULE, layers=3)
    )
    assert verdict.outcome == "undecided"
    assert verdict.holds is None
    assert "7 of 8 tokens are decided" in verdict.reason


def test_verdicts_are_plain_data() -> None:
    verdicts = hm.theorems.check(
        hm.simulate(hm.configuration("triangle"), RULE, layers=4)
    )
    text = json.dumps([verdict.to_dict() for verdict in verdicts], allow_nan=False)
    assert [item["name"] for item in json.loads(text)] == NAMES
    assert repr(verdicts[0]).startswith(
        "F1 hull: holds. Every token is a convex combination"
    )


def test_a_batch_is_refused() -> None:
    batch = hm.simulate(np.random.default_rng(0).normal(size=(2, 9, 2)), RULE, layers=4)
    with pytest.raises(
        ValueError,
        match=r"one token set. Got a batch. Use hm.theorems.check\(trajectory\[b\]\).",
    ):
        hm.theorems.check(batch)
    assert outcomes(batch[1])["F1 hull"] == "holds"


@pytest.mark.parametrize("scale", [1e300, 1.0, 1e-300, 1e-308, 1e-315, 1e-320])
def test_verdicts_at_every_scale(scale: float) -> None:
    tokens = np.random.default_rng(1).integers(-9, 10, (12, 3)) * scale
    found = outcomes(
        hm.simulate(
            np.unique(tokens[tokens.any(axis=1)], axis=0), hm.Hardmax(0.5), layers=12
        )
    )
    assert set(found.values()) <= {"holds", "hypotheses not met", "nothing to check"}
    assert found["F1 hull"] == found["Theorem 1"] == "holds"


TRIPLE = [[1.0, 1], [-1, -1], [0.5, 0.25]]
NEAR_SINGULAR = [
    [0.668875908015357, 0.4706110546150983],
    [0.4706110546150983, 0.3311427042396938],
]
NEAR_KERNEL = [
    [141.47608947904504, -198.87965568200798],
    [92.43594770873511, -130.0453635066387],
]


@pytest.mark.parametrize(
    ("tokens", "rule", "layers", "names"),
    [
        (
            [[1, 1], [1, -1], [1, 0]],
            RULE,
            3,
            ["F2 norm"],
        ),  # the last stands still without leading
        (
            TRIPLE,
            hm.Hardmax(1e12),
            40,
            ["F2 norm"],
        ),  # norms grow by less than floats show
        (TRIPLE, hm.Hardmax(0.5), 1800, ["F2 norm"]),
        ([[1.0], [1e-200]], hm.Hardmax(1e-12), 3, ["F2 norm"]),
        (NEAR_KERNEL, hm.Hardmax([0.1, 0.5, 2], NEAR_SINGULAR), 60, ["F2 norm"]),
        (
            [[Fraction(1, 2**1200), 0], [1, 1], [-1, 2]],
            RULE,
            3,
            ["F1 hull", "F5 limit"],
        ),  # below all floats, not zero
        (
            [[1e308, 5e-324], [-1e308, 1.0]],
            RULE,
            3,
            ["F4 leaders"],
        ),  # the last bit beside huge numbers
    ],
)
def test_verdicts_beyond_the_precision_of_floats(
    tokens: list, rule: hm.Hardmax, layers: int, names: list
) -> None:
    found = outcomes(hm.simulate(tokens, rule, layers=layers))
    assert all(found[name] == "holds" for name in names)


@pytest.mark.parametrize("seed", range(20))
def test_bfloat16_tokens_are_judged_by_their_own_rounding(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    tokens = torch.tensor(rng.normal(size=(9, 2))).to(torch.bfloat16)
    causal = seed % 3 == 0
    rule = hm.Hardmax([Fraction(1, 2), 5.0, 0.001][seed % 2], causal=causal)
    found = outcomes(hm.simulate(tokens, rule, layers=12))
    assert "fails" not in found.values(), found
    assert found["C1" if causal else "Theorem 1"] == "holds"
