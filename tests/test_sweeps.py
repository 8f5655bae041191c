"""Large counts: ten thousand argmax sets against exact arithmetic, hundreds of limits
of 1000 tokens certified.
"""

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import token_sets
from tests.test_certificates import unaided

MAKERS = {
    "gaussian": lambda rng: token_sets.gaussian(rng, 30, 2),
    "ball": lambda rng: token_sets.ball(rng, 30, 3),
    "lattice": lambda rng: token_sets.lattice(rng, 30, 3, 3),
    "scaled lattice": lambda rng: (
        token_sets.lattice(rng, 30, 2, 3) * 0.1
    ),  # near-ties that are none
    "duplicates": lambda rng: token_sets.duplicates(rng, 40),
    "mirrored": lambda rng: token_sets.mirrored(rng, 30, 3, 4),
    "sphere": lambda rng: token_sets.flattened_sphere(rng, 40, 3, 1.0),
    "needle": lambda rng: token_sets.flattened_sphere(rng, 40, 2, 1e-9),
}


def compare_sets(kind):
    """Check that adaptive sets equal those of rational arithmetic; return their number,
    and that compared exactly.
    """
    total = compared = 0
    for seed in range(8):
        tokens = MAKERS[kind](np.random.default_rng(seed))
        A = np.diag(np.arange(1.0, tokens.shape[1] + 1)) if seed % 4 == 3 else None
        alpha = [Fraction(1, 10), 0.5][seed % 2]
        (fast, run), (full, _) = (
            unaided(tokens, hm.Hardmax(alpha, A, exact=exact), 12)
            for exact in (False, True)
        )
        assert fast == full, (kind, seed)
        total += sum(map(len, fast))
        compared += run.stats["sets_compared_exactly"]
    return total, compared


def test_adaptive_sets_are_those_of_rational_arithmetic():
    counts = {kind: compare_sets(kind) for kind in MAKERS}
    assert sum(total for total, _ in counts.values()) >= 10_000, counts
    for kind in ("lattice", "scaled lattice", "mirrored"):
        assert counts[kind][1] > 50, counts
    assert counts["gaussian"][1] == counts["ball"][1] == 0, counts


def test_flattened_circles_need_exact_comparisons_and_get_them():
    compared = wrong = 0
    for seed in range(3):
        tokens = token_sets.flattened_sphere(np.random.default_rng(seed))
        fast, full = (
            hm.simulate(tokens, hm.Hardmax(5, exact=exact), layers=24)
            for exact in (False, True)
        )
        for k in range(25):
            assert fast.records[0].sets(k) == full.records[0].sets(k), seed
        assert fast.decided.tolist() == full.decided.tolist()
        compared += fast.stats["sets_compared_exactly"]
        z = tokens.copy()
        for k in range(25):  # the same in plain float64
            plain = (z @ z.T).argmax(axis=1)
            wrong += sum(
                plain[i] not in members for i, members in enumerate(full.sets(k))
            )
            z += 5 / 6 * (z[plain] - z)
    assert compared > 100
    assert wrong > 0


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5])
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("make", [token_sets.gaussian, token_sets.ball])
def test_limits_of_a_thousand_tokens_are_certified(make, d, alpha):
    for seed in range(20):
        limit = hm.limit(make(np.random.default_rng(seed), 1000, d), hm.Hardmax(alpha))
        assert limit.certified, (seed, limit.status)
        assert limit.proofs == {"Theorem 1": 1000}
        assert limit.layer <= 60
        assert limit.stats["queries"] < 1000 * (limit.layer + 1) or limit.layer == 0
