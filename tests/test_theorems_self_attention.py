"""Theorems of arXiv 2305.05465 as verdicts: they hold where they are proved, and can
fail.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm
from hardmax.theorems import self_attention

KINDS = (
    "boolean",
    "polytope",
    "hyperplanes",
    "product",
    "collapse",
    "codimension",
    "complex_pair",
)
FIRST = dict.fromkeys(KINDS, 6) | dict.fromkeys(
    ("product", "codimension", "complex_pair"), 3
)  # seeds of every run


def definite(rng, d):
    W = rng.normal(size=(d, d))
    return W @ W.T / d + 0.1 * np.eye(d)


def problem(kind, seed):
    """Random tokens and a rule that meets the hypotheses of one statement."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 5))
    if kind == "boolean":
        return rng.normal(size=(20, 1)), hm.SelfAttention(
            *rng.uniform(0.5, 2, (3, 1, 1))
        )
    if kind == "polytope":
        return rng.uniform(-1, 1, (20, d)), hm.SelfAttention(
            definite(rng, d), None, rng.uniform(0.5, 2) * np.eye(d)
        )
    if kind == "hyperplanes":
        return rng.uniform(-1, 1, (20, d)), hm.SelfAttention(V=rng.random((d, d)))
    if kind == "product":
        S = rng.normal(size=(4, 4))
        return rng.uniform(-1, 1, (20, 4)), hm.SelfAttention(
            V=S @ np.diag([1, 1, 0.3, -0.5]) @ np.linalg.inv(S)
        )
    if kind == "collapse":
        return rng.uniform(-1, 1, (20, d)), hm.SelfAttention(
            definite(rng, d), None, -np.eye(d)
        )
    if kind == "codimension":
        U = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        return rng.uniform(-5, 5, (20, 3)), hm.SelfAttention(
            V=U @ np.diag([1.5, 0.8, -0.5]) @ U.T
        )
    return rng.uniform(-1, 1, (20, 3)), hm.SelfAttention(
        V=[[1, -1, 0], [1, 1, 0], [0, 0, -0.3]]
    )


def verdict(kind, seed):
    tokens, rule = problem(kind, seed)
    return getattr(hm.theorems, kind)(hm.simulate(tokens, rule, times=[0, 0.1]))


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        *(pytest.param(kind, range(FIRST[kind]), id=kind) for kind in KINDS),
        *(
            pytest.param(
                kind,
                range(n, 100),
                id=f"{kind}-rest",
                marks=(pytest.mark.slow, pytest.mark.exhaustive),
            )
            for kind, n in FIRST.items()
        ),
    ],
)
def test_each_statement_holds_on_a_hundred_seeds(kind, seeds):
    found = [verdict(kind, seed) for seed in seeds]
    assert Counter(v.outcome for v in found) == {"holds": len(seeds)}, [
        v for v in found if not v.holds
    ][:3]
    assert all(v.margin > 0 for v in found)
    assert {v.conjecture for v in found} == {kind in ("codimension", "complex_pair")}


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_statements_of_the_kind_are_answered(kind):
    tokens, rule = problem(kind, 7)
    verdicts = hm.theorems.check(hm.simulate(tokens, rule, times=[0, 0.1]))
    answered = [v.name for v in verdicts if v.outcome in ("holds", "fails")]
    names = {
        "boolean": "Boolean limit",
        "product": "polytope times subspace",
        "complex_pair": "complex pair",
    }
    expected = {"codimension": ["hyperplanes", "codimension k"]}.get(
        kind, [names.get(kind, kind)]
    )
    assert answered == expected
    assert all(v.holds for v in verdicts if v.name in answered)


def test_the_self_maximal_test_fails_for_another_form():
    """Tokens that follow themselves under B need not do so under a form that is turned."""
    tokens = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    turned = np.array([[0.0, -1.0], [1.0, 0.0]])
    given = self_attention.Problem.of(
        hm.simulate(tokens, hm.SelfAttention(V=np.eye(2)), times=[0, 15])
    )
    measure = partial(self_attention._measure_gain, replace(given, B=turned))
    found = self_attention.check_limit(given, measure, 1e-4)
    assert found.outcome == "fails"
    assert found.margin < 0


HALF, UNIFORM = (
    np.random.default_rng(0).normal(size=(6, 2)),
    np.random.default_rng(0).uniform(-1, 1, (20, 3)),
)
BALANCED = np.r_[HALF, -HALF]  # the mean is 0, so nothing moves for long


@pytest.mark.parametrize(
    ("statement", "tokens", "V", "said"),
    [
        ("polytope", 1e-3 * BALANCED, np.eye(2), "Attention is not sharp by then"),
        ("polytope", 0.1 * BALANCED, np.eye(2), "Attention is not sharp by then"),
        (
            "hyperplanes",
            UNIFORM,
            np.diag([1, 0.99, 0.2]),
            "within 0.01 of the leading one",
        ),
        (
            "codimension",
            UNIFORM[:, :2],
            np.diag([1, 0.1]),
            "smallest positive real part is 0.1 of the leading one",
        ),
    ],
)
def test_limits_that_floats_cannot_reach_are_undecided(statement, tokens, V, said):
    found = getattr(hm.theorems, statement)(
        hm.simulate(tokens, hm.SelfAttention(V=V), times=[0, 1])
    )
    assert found.outcome == "undecided"
    assert said in found.reason


def test_an_integrator_that_stops_leaves_the_question_open(monkeypatch):
    monkeypatch.setattr(self_attention, "MAX_STEPS", 3)
    found = verdict("polytope", 0)
    assert found.outcome == "undecided"
    assert "after 3 steps" in found.reason


def test_tokens_without_a_leading_component():
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    V = U @ np.diag([2, 1, 0.5]) @ U.T
    tokens = np.random.default_rng(1).normal(size=(8, 3))
    tokens -= np.outer(tokens @ U[:, 0], U[:, 0])
    found = hm.theorems.hyperplanes(
        hm.simulate(tokens, hm.SelfAttention(V=(V + V.T) / 2), times=[0, 1])
    )
    assert found.outcome == "nothing to check"
    assert not hm.classify(V=(V + V.T) / 2, Q=U[:, 1:].T, K=U[:, 1:].T).proved


def test_verdicts_begin_from_the_input():
    tokens, rule = problem("polytope", 0)
    first, last = (
        hm.theorems.polytope(hm.simulate(tokens, rule, times=[0, 400, 800], save=s))
        for s in ("all", "last")
    )
    assert first == last
    assert first.outcome == "holds"


def test_the_hyperplane_test_fails_in_a_direction_that_is_not_the_leading_one():
    tokens, rule = problem("hyperplanes", 3)
    given = self_attention.Problem.of(hm.simulate(tokens, rule, times=[0, 1]))
    across = np.linalg.svd(given.expected.dual.T)[2][-1:].T  # orthogonal to phi: free
    found = self_attention.check_limit(
        given, partial(self_attention._measure_scatter, given, across), 1e-3
    )
    assert found.outcome == "fails"


def test_all_rows_but_one_must_be_boolean():
    tokens = np.array([[-1.0], [0.1], [0.2], [1.0]])
    one = np.array([[1, 0, 0, 0], [0.4, 0.1, 0.1, 0.4], [0, 0, 0, 1], [0, 0, 0, 1.0]])
    two = one.copy()
    two[2] = [0.3, 0, 0, 0.7]
    found = [
        self_attention._boolean_distance(
            SimpleNamespace(
                trajectory=SimpleNamespace(attention=lambda k, P=P: P),
                last=0,
                tokens=tokens,
            )
        )
        for P in (one, two)
    ]
    assert [distance for distance, *_ in found] == pytest.approx([0, 0.3])


@pytest.mark.parametrize(("name", "bound"), [("MIN_PACE", 1.5), ("MAX_MEAN", 0.0)])
def test_the_collapse_fails_if_norms_do_not_fall_or_the_mean_stays(
    name, bound, monkeypatch
):
    monkeypatch.setattr(self_attention, name, bound)
    assert verdict("collapse", 0).outcome == "fails"


def test_at_most_three_clusters():
    labels = self_attention.label_values(
        np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0], [3.0]])
    )
    assert labels.tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("size", [1e-3, 0.05, 1.0, 10.0])
def test_tokens_of_any_size_collapse(size):
    tokens = size * np.random.default_rng(0).normal(size=(20, 3))
    trajectory = hm.simulate(tokens, hm.SelfAttention(V=-np.eye(3)), times=[0, 1])
    assert hm.theorems.collapse(trajectory).outcome == "holds"
    equal = hm.simulate(
        np.ones((4, 2)) * size, hm.SelfAttention(V=-np.eye(2)), times=[0, 1]
    )
    assert hm.theorems.collapse(equal).outcome == "holds"


def test_huge_tokens_are_judged_without_a_warning():
    trajectory = hm.simulate(
        [[1e200, 0.0], [0.0, 1.0], [0.0, 2.0]], hm.SelfAttention(), times=[0, 1]
    )
    assert hm.theorems.polytope(trajectory).outcome == "holds"


def test_the_covariance_of_a_collapse_tends_to_the_identity_over_2t():
    tokens = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    x = hm.simulate(
        tokens, hm.SelfAttention(V=-np.eye(3)), times=[0, 2000], save="last"
    ).array[-1]
    np.testing.assert_allclose(np.cov(x.T, bias=True) * 2 * 2000, np.eye(3), atol=0.05)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (hm.SelfAttention(causal=True), "Attention is causal."),
        (hm.SelfAttention(V=lambda t: np.eye(2)), "Q, K or V depends on time."),
        (hm.SelfAttention(Q=-np.eye(2)), "Q^T K is not symmetric positive definite."),
        (
            hm.SelfAttention(V=[[1, 1], [0, 1]]),
            "belongs to another statement (product)",
        ),
    ],
)
def test_hypotheses_that_are_not_met_are_named(rule, reason):
    trajectory = hm.simulate([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]], rule, times=[0, 1])
    found = hm.theorems.polytope(trajectory)
    assert found.outcome == "hypotheses not met"
    assert reason in found.reason
    assert found.applies == ("belongs to another statement" not in reason)


def test_more_hypotheses_and_degenerate_tokens():
    line = hm.SelfAttention(V=[[1.0]])
    run = lambda tokens, rule: hm.simulate(tokens, rule, times=[0, 1])  # noqa: E731
    assert (
        "two tokens are equal"
        in hm.theorems.boolean(run([[1.0], [1.0]], line)).reason.lower()
    )
    assert hm.theorems.boolean(run([[1.0]], line)).outcome == "nothing to check"
    assert (
        "QK is not positive"
        in hm.theorems.boolean(
            run([[1.0], [2.0]], hm.SelfAttention(Q=[[-1]], V=[[1]]))
        ).reason
    )
    assert (
        hm.theorems.collapse(run([[0.0, 0.0]], hm.SelfAttention(V=-np.eye(2)))).outcome
        == "nothing to check"
    )
    softmax = hm.simulate([[1.0, 0.0]], hm.Softmax(1), layers=1)
    assert hm.theorems.check(softmax) == []
    assert "Softmax, not SelfAttention" in hm.theorems.polytope(softmax).reason


def test_the_energy_of_the_sphere():
    tokens, (statement,) = (
        hm.configuration("sphere", n=12, d=3),
        hm.theorems.BY_RULE[hm.Sphere],
    )
    runs = [
        hm.simulate(tokens, hm.Sphere(4.0, normalized=normalized), times=10)
        for normalized in (True, False)
    ]
    assert [found.outcome for run in runs for found in hm.theorems.check(run)] == [
        "holds",
        "holds",
    ]
    backwards = replace(runs[0], tokens=runs[0].tokens[::-1].copy())  # the energy falls
    assert statement(backwards).outcome == "fails"
    loose = replace(
        backwards, stats=backwards.stats | {"rtol": 0.1, "rtol_reached": 0.1}
    )
    assert statement(loose).outcome == "undecided"
    causal = hm.simulate(tokens, hm.Sphere(4.0, causal=True), times=1)
    assert statement(causal).outcome == "hypotheses not met"
    assert (
        statement(hm.simulate(tokens, hm.Sphere(4.0), times=[1])).outcome
        == "nothing to check"
    )


def changed(trajectory, factor, k=-1, **stats):
    """The trajectory with its tokens at saved time k multiplied by a factor."""
    tokens, rescaled = trajectory.tokens.copy(), trajectory.rescaled.copy()
    tokens[k], rescaled[k] = factor * tokens[k], factor * rescaled[k]
    return replace(
        trajectory, tokens=tokens, rescaled=rescaled, stats=trajectory.stats | stats
    )


@pytest.mark.parametrize("kind", ["boolean", "polytope", "hyperplanes", "product"])
def test_a_trajectory_that_leaves_the_initial_hull_does_not_hold(kind):
    tokens, rule = problem(kind, 0)
    run = hm.simulate(tokens, rule, times=16 / hm.classify(rule).eigenvalues[0].real)
    assert getattr(hm.theorems, kind)(run).outcome == "holds"
    found = getattr(hm.theorems, kind)(changed(run, 2.0, k=3))
    assert found.outcome == "fails"
    assert found.margin < 0
    assert found.witness["time"] == run.times[3]
    assert "outside the initial hull" in found.reason
    loose = getattr(hm.theorems, kind)(
        changed(run, 2.0, k=3, rtol=0.1, rtol_reached=0.1)
    )
    assert loose.outcome == "undecided"
    assert "use a smaller `rtol`" in loose.reason


@pytest.mark.parametrize("shape", [(30, 6), (30, 2)])
def test_the_hull_is_tested_in_many_dimensions_and_where_it_is_flat(shape):
    tokens = np.random.default_rng(0).normal(size=shape)
    tokens = np.column_stack([tokens, np.ones(len(tokens))])  # all in one hyperplane
    run = hm.simulate(tokens, hm.SelfAttention(), times=15)
    assert hm.theorems.polytope(run).outcome == "holds"
    assert hm.theorems.polytope(changed(run, 1.01, k=50)).outcome == "fails"


def test_long_steps_that_leave_the_hull_leave_the_question_open():
    tokens = np.random.default_rng(0).normal(size=(20, 2))
    run = hm.simulate(
        tokens, hm.SelfAttention(), times=[0, 4, 8, 16], method="rk4", dt=4
    )
    found = hm.theorems.polytope(changed(run, 2.0))
    assert found.outcome == "undecided"
    assert "use a smaller `rtol` or `dt`" in found.reason


NORMAL = np.random.default_rng(0).normal(size=(20, 2)), hm.SelfAttention()
TURNING = hm.configuration("gaussian", n=8), hm.SelfAttention(V=[[1, -1], [1, 1]])
SECOND, END = (
    "lambda t = {} of a second integration",
    "at lambda t = {}, the end of the trajectory",
)


@pytest.mark.parametrize(
    ("statement", "given", "options", "said"),
    [
        ("polytope", NORMAL, {"times": [0, 20]}, [END.format(20)]),
        (
            "polytope",
            NORMAL,
            {"times": [0, 2]},
            [SECOND.format(15), "the trajectory ends at lambda t = 2"],
        ),
        (
            "codimension",
            problem("codimension", 0),
            {"times": 10},
            [SECOND.format(30), "not pass " + END.format(15)],
        ),
        (
            "complex_pair",
            TURNING,
            {"times": [0, 20]},
            ["second integration"],
        ),  # from 0 to 20 they move
        (
            "complex_pair",
            TURNING,
            {"times": [0, 20], "save": "last"},
            ["second integration"],
        ),
        ("collapse", problem("collapse", 0), {"times": [0, 10, 40]}, [END.format(40)]),
        (
            "collapse",
            problem("collapse", 0),
            {"times": [0, 10, 40], "save": "last"},
            [END.format(40)],
        ),
    ],
)
def test_the_verdict_says_where_the_limit_was_tested(statement, given, options, said):
    found = getattr(hm.theorems, statement)(hm.simulate(*given, **options))
    assert found.outcome == "holds"
    assert all(words in found.reason for words in said)
    assert ("second integration" in found.reason) == ("second integration" in said[0])


def test_a_trajectory_that_differs_from_a_second_integration_leaves_the_question_open():
    tokens, rule = problem("polytope", 0)
    run = hm.simulate(tokens, rule, times=[0, 1, 2])
    assert hm.theorems.polytope(run).outcome == "holds"
    found = hm.theorems.polytope(changed(run, 0.9))
    assert found.outcome == "undecided"
    assert "differs from a second integration with rtol 1e-08" in found.reason


def test_padding_does_not_change_a_verdict():
    tokens, rule = problem("polytope", 0)
    padded = np.vstack([tokens, np.full((2, tokens.shape[1]), 100.0)])
    run = hm.simulate(padded, rule, times=40, mask=np.arange(len(padded)) < len(tokens))
    assert hm.theorems.polytope(run) == hm.theorems.polytope(
        hm.simulate(tokens, rule, times=40)
    )


LEADING = [[1, 2], [-1, 1], [0.5, -1]], hm.SelfAttention(V=[[2, 1], [1, -1]])
RISING = np.linspace(0, 100, 11)


@pytest.mark.parametrize(
    ("statement", "tokens", "rule", "times", "dtype", "outcomes"),
    [
        # Components in other directions grow, and products of z with phi cancel
        ("hyperplanes", *LEADING, [0, 30], float, {"holds"}),
        ("hyperplanes", *LEADING, [0, 100], "f4", {"holds"}),
        # The difference of two tokens is smaller than the integrator's absolute error
        (
            "collapse",
            [[1], [1.000001]],
            hm.SelfAttention(V=[[-4]]),
            [0, 40],
            float,
            {"holds", "undecided"},
        ),
        # Tokens that meet are equal in floats at last, and share their attention
        (
            "boolean",
            [[1.5], [0], [-1.5], [0.5], [-1]],
            hm.SelfAttention(V=[[3]]),
            RISING,
            "f4",
            {"holds"},
        ),
        (
            "boolean",
            [[-0.0072], [-0.0038], [0.0062]],
            hm.SelfAttention(V=[[3]]),
            [0, 15, 30],
            "f2",
            {"holds"},
        ),
        # Positions are rounded to a narrow dtype
        (
            "polytope",
            [[1, 1.5, -1], [2, 2, -1.5], [-1.5, 1.5, -2], [1.5, 2, 1.5]],
            hm.SelfAttention(V=0.1 * np.eye(3)),
            [0, 10],
            "f2",
            {"holds", "undecided"},
        ),
    ],
)
def test_errors_of_floats_are_no_failures(
    statement, tokens, rule, times, dtype, outcomes
):
    run = hm.simulate(np.array(tokens, dtype), rule, times=times)
    found = getattr(hm.theorems, statement)(run)
    assert found.outcome in outcomes, found
    if found.outcome == "undecided":
        assert any(word in found.reason for word in ("Rounding", "Errors", "error"))


@pytest.mark.parametrize("seed", range(30))
def test_no_covered_spectrum_fails(seed):
    rng = np.random.default_rng(seed)
    d, n = rng.integers(1, 4), rng.integers(2, 8)
    tokens = rng.integers(-3, 4, (n, d)) / 2
    V = (
        rng.integers(-2, 3, (d, d))
        if seed % 3
        else rng.choice([-4, 0.1, 3]) * np.eye(d)
    )
    dtype = [np.float64, np.float32, np.float16][seed % 5 % 3]
    run = hm.simulate(
        tokens.astype(dtype), hm.SelfAttention(V=V), times=[0, rng.choice([1, 30, 100])]
    )
    failed = [v for v in hm.theorems.check(run) if v.outcome == "fails"]
    assert all(v.conjecture for v in failed), failed
