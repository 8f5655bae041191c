"""`simulate` against the definition, for every kind of token set, and the effect of its
options.
"""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from tests.problems import theory, token_sets
from tests.problems.oracle import definition, positions_of, sets_of

pytestmark = pytest.mark.portable

ALPHAS = [0.1, Fraction(1, 10), Fraction(1, 2), 5, [Fraction(1, 2), 3, Fraction(1, 10)]]


def assert_follows_definition(tokens, alpha, A=None, layers=5):
    truth = definition(tokens, alpha, layers=layers, A=A)
    for exact in (False, True):
        run = hm.simulate(
            tokens, hm.Hardmax(alpha, A, exact=exact, any_A=True), layers=layers
        )
        assert run.stats["arithmetic"] == ("rational" if exact else "adaptive")
        for k in range(layers + 1):
            assert sets_of(run, k) == truth.sets[k]
            assert positions_of(run, k) == truth.positions[k]
            size = float(max(abs(x) for row in truth.positions[0] for x in row)) or 1.0
            np.testing.assert_allclose(
                run.tokens[k] / size,
                run.exact(k).astype(float) / size,
                rtol=0,
                atol=1e-14,
            )
        assert run.emerged.tolist() == truth.emerged
        assert run.leaders.tolist() == truth.leaders


@pytest.mark.parametrize("alpha", ALPHAS, ids=str)
@pytest.mark.parametrize("kind", token_sets.KINDS)
def test_every_kind_of_token_set_follows_the_definition(kind, alpha):
    for seed in range(3):
        assert_follows_definition(
            token_sets.KINDS[kind](np.random.default_rng(seed)), alpha, layers=4
        )


@pytest.mark.parametrize("kind", ["gaussian", "lattice", "zeros", "mirrored", "mixed"])
@pytest.mark.parametrize("seed", range(3))
def test_any_matrix_follows_the_definition(kind, seed):
    rng = np.random.default_rng(seed)
    tokens = token_sets.KINDS[kind](rng)
    for A in token_sets.matrices(rng, tokens.shape[1]).values():
        assert_follows_definition(tokens, [Fraction(1, 2), 1], A, layers=4)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 2.0**-1074, Fraction(1, 21)])
def test_matrix_of_any_size(scale):
    tokens = token_sets.lattice(np.random.default_rng(0))
    assert_follows_definition(
        tokens, Fraction(1, 2), np.array([[2, 1], [1, 3]]) * scale
    )


def test_numbers_that_floats_cannot_hold():
    big, tiny = 2**53, Fraction(1, 10 * 2**1074)
    assert_follows_definition(
        [[big, 1], [big + 1, 1], [-big, 0]], 1
    )  # the first two are equal as floats
    assert_follows_definition(
        [[14 * tiny] * 2, [24 * tiny] * 2, [16 * tiny, 26 * tiny]], 1
    )
    assert_follows_definition(
        [[1, -1], [2, 0]], 1, np.array([[big + 1, big], [0, 0]])
    )  # A (1, -1) = (1, 0)
    assert_follows_definition([[10**30, 1], [10**30 + 1, 1]], 1)


def test_merged_tokens_lead_as_one_and_their_followers_do_not_lead():
    assert_follows_definition([[1.0], [-1.0]], 1, [[-1.0]])  # both go to 0 at once
    assert_follows_definition(
        [(1, 1), (-1, 1), (0, 0.5)], 1, [[-1, 0], [0, 1]]
    )  # the first two meet at (0, 1)


def test_leaders_depend_on_alpha():
    for alpha, layer in theory.DEPENDS_ON_ALPHA_ANSWERS.items():
        assert definition(theory.DEPENDS_ON_ALPHA, alpha, layers=8).emerged[0] == layer
        assert_follows_definition(theory.DEPENDS_ON_ALPHA, alpha, layers=6)
        assert (
            hm.simulate(theory.DEPENDS_ON_ALPHA, hm.Hardmax(alpha), layers=60).decided
            >= 0
        ).all()


@pytest.mark.parametrize("alpha", [Fraction(1, 2), [Fraction(1, 2), 3]], ids=str)
def test_without_normalisation_growth_is_exact(alpha):
    tokens = token_sets.lattice(np.random.default_rng(1))
    plain = hm.simulate(tokens, hm.Hardmax(alpha), layers=6)
    grown = hm.simulate(tokens, hm.Hardmax(alpha, normalize=False), layers=6)
    factor = Fraction(1)
    for k in range(7):
        assert (grown.exact(k) == plain.exact(k) * factor).all()
        assert sets_of(grown, k) == sets_of(plain, k)
        np.testing.assert_allclose(
            grown.tokens[k], plain.tokens[k] * float(factor), rtol=1e-15
        )
        factor *= 1 + (alpha if not isinstance(alpha, list) else alpha[min(k, 1)])


def test_the_status_reports_growth_beyond_the_range_of_floats():
    run = hm.simulate(
        [[1.0, 0.0], [-2.0, 1.0]], hm.Hardmax(1, normalize=False), layers=1100
    )
    assert "tokens leave the range of float64 from layer 1023 on" in run.status
    assert run.tokens[-1, 0].tolist() == [np.inf, 0.0]
    assert run.exact(-1)[0, 0] == 2**1100
    assert run.norms[-1].tolist() == [np.inf, np.inf]
    assert len(run.margins(-1)) == 2
    run = hm.simulate([[1e-300, 0.0]], hm.Hardmax(1e10, normalize=False), layers=31)
    assert run.tokens[31, 0].tolist() == [pytest.approx(1e10, rel=1e-8), 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_keep_their_dtype_and_get_exact_sets(dtype):
    tokens = token_sets.gaussian(np.random.default_rng(0), n=40).astype(dtype)
    narrow = hm.simulate(tokens, hm.Hardmax(0.5), layers=8)
    wide = hm.simulate(tokens.astype(np.float64), hm.Hardmax(0.5), layers=8)
    assert (narrow.tokens.dtype, narrow.stats["dtype"]) == (dtype, np.dtype(dtype).name)
    for k in range(9):
        assert sets_of(narrow, k) == sets_of(wide, k)
        assert np.array_equal(narrow.tokens[k], wide.tokens[k].astype(dtype))
    grown = hm.simulate(
        np.array([[1, 2], [-3, 1]], dtype), hm.Hardmax(1, normalize=False), layers=200
    )
    assert np.isinf(grown.tokens[-1]).all()  # beyond the range of the dtype


def test_save_last_keeps_the_same_last_layer():
    tokens = token_sets.mirrored(np.random.default_rng(3))
    every, last = (
        hm.simulate(tokens, hm.Hardmax(0.5), layers=7, save=save)
        for save in ("all", "last")
    )
    assert (last.tokens.shape, last.saved.tolist(), last.layers) == (
        (1, *tokens.shape),
        [7],
        7,
    )
    assert np.array_equal(last.tokens[0], every.tokens[-1])
    assert sets_of(last, -1) == sets_of(every, 7)
    assert last.emerged.tolist() == every.emerged.tolist()


def test_decided_tokens_cost_no_queries():
    run = hm.simulate(
        token_sets.gaussian(np.random.default_rng(0), 300, 2),
        hm.Hardmax(0.5),
        layers=50,
    )
    assert 300 <= run.stats["queries"] < 300 * 4
    assert (run.decided >= 0).all()


def test_sets_do_not_depend_on_the_number_of_threads():
    script = """
import hashlib, numpy as np, hardmax as hm
from tests.problems import theory, token_sets
rng = np.random.default_rng(0)
tokens = np.vstack([token_sets.flattened_sphere(rng, 300), token_sets.lattice(rng, 300)])
run = hm.simulate(tokens, hm.Hardmax(0.1), layers=6)
print(hashlib.sha256(b"".join(s.tobytes() + b"|" for k in range(7) for s in run.sets(k))).hexdigest())
"""
    answers = set()
    for threads in ("1", "2"):
        environment = os.environ | {
            "OPENBLAS_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
        }
        command = [sys.executable, "-c", script]
        answers.add(
            subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
    assert len(answers) == 1


@pytest.mark.parametrize(
    "setting",
    [
        {"rtol": 1e-8},
        {"atol": 1e-13},
        {"dt": 0.1},
        {"method": "RK45"},
        {"max_steps": 5},
    ],
)
@pytest.mark.parametrize(
    "rule", [hm.Hardmax(1), hm.Softmax(1), hm.MultiHead([hm.Hardmax(1)] * 2)]
)
def test_settings_of_flows_are_refused_for_layers(rule, setting):
    with pytest.raises(hm.ParameterError) as raised:
        hm.simulate(np.eye(2), rule, layers=1, **setting)
    assert raised.value.names == tuple(setting)


def test_heads_use_the_kernel_and_report_progress():
    tokens, rule = (
        np.random.default_rng(0).normal(size=(2, 6, 4)),
        hm.MultiHead([hm.Hardmax(1), hm.Softmax(1)]),
    )
    seen = []
    run = hm.simulate(
        tokens,
        rule,
        layers=3,
        kernel="scan",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert run.heads[0].stats["kernel"] == "scan"
    assert seen == sorted(set(seen))
    assert len(seen) == 4 + 4  # all token sets at once for both
    assert seen[-1][0] == seen[-1][1]
    assert len({total for _, total in seen}) == 1
