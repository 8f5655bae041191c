"""Large counts: ten thousand sets against full exact arithmetic, a thousand clouds certified."""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import _validation
from hardmax.exact.run import Run
from tests.problems import clouds

MAKERS = {
    "gaussian": lambda rng: clouds.gaussian(rng, 30, 2),
    "ball": lambda rng: clouds.ball(rng, 30, 3),
    "lattice": lambda rng: clouds.lattice(rng, 30, 3, 3),
    "scaled lattice": lambda rng: clouds.lattice(rng, 30, 2, 3) * 0.1,  # near-ties that are none
    "duplicates": lambda rng: clouds.duplicates(rng, 40),
    "mirrored": lambda rng: clouds.mirrored(rng, 30, 3, 4),
    "sphere": lambda rng: clouds.flattened_sphere(rng, 40, 3, 1.0),
    "needle": lambda rng: clouds.flattened_sphere(rng, 40, 2, 1e-9),
}


def sets_without_shortcuts(tokens, rule, layers):
    """The sets of every layer with every class asked, decided or not, and how many were compared exactly."""
    run = Run(rule, _validation.check_tokens(tokens)[0])
    run.shortcuts = False
    sets = [run.choose()]
    for _ in range(layers):
        run.advance()
        sets.append(run.choose())
    return sets, run.state.exact_rows


def agreement(kind):
    """How many sets were asked, all equal to those of rational arithmetic, and how many by the default exactly."""
    asked = compared = 0
    for seed in range(8):
        tokens = MAKERS[kind](np.random.default_rng(seed))
        A = np.diag(np.arange(1.0, tokens.shape[1] + 1)) if seed % 4 == 3 else None
        alpha = [Fraction(1, 10), 0.5][seed % 2]
        fast, exactly = sets_without_shortcuts(tokens, hm.Hardmax(alpha, A), 12)
        full, _ = sets_without_shortcuts(tokens, hm.Hardmax(alpha, A, exact=True), 12)
        assert all(one == other for one, other in zip(fast, full, strict=True)), (kind, seed)
        asked += sum(map(len, fast))
        compared += exactly
    return asked, compared


def test_adaptive_sets_are_those_of_rational_arithmetic():
    counts = {kind: agreement(kind) for kind in MAKERS}
    assert sum(asked for asked, _ in counts.values()) >= 10_000, counts
    for kind in ("lattice", "scaled lattice", "mirrored"):
        assert counts[kind][1] > 50, counts
    assert counts["gaussian"][1] == counts["ball"][1] == 0, counts


def test_flattened_circles_need_exact_comparisons_and_get_them():
    compared = wrong = 0
    for seed in range(3):
        tokens = clouds.flattened_sphere(np.random.default_rng(seed))
        fast, full = (hm.simulate(tokens, hm.Hardmax(5, exact=exact), layers=24) for exact in (False, True))
        assert all(one == other for one, other in zip(fast.token_sets[0].sets, full.token_sets[0].sets, strict=True)), (
            seed
        )
        assert fast.decided.tolist() == full.decided.tolist()
        compared += fast.stats["sets_compared_exactly"]
        z = tokens.copy()
        for k in range(25):  # the same in plain float64
            plain = (z @ z.T).argmax(axis=1)
            wrong += sum(plain[i] not in members for i, members in enumerate(full.sets(k)))
            z += 5 / 6 * (z[plain] - z)
    assert compared > 100
    assert wrong > 0


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5])
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("kind", ["gaussian", "ball"])
def test_every_cloud_of_a_thousand_is_certified(kind, d, alpha):
    make = {"gaussian": clouds.gaussian, "ball": clouds.ball}[kind]
    clouds_each = 56  # 18 settings, 1008 clouds
    for seed in range(clouds_each):
        limit = hm.limit(make(np.random.default_rng(seed), 1000, d), hm.Hardmax(alpha))
        assert limit.certified, (seed, limit.status)
        assert limit.proofs == {"Theorem 1": 1000}
        assert limit.layer <= 60
        assert limit.stats["queries"] < 1000 * (limit.layer + 1) or limit.layer == 0
