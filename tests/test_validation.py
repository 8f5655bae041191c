"""Invalid input is refused with the parameter and what was given; unusual numbers are
not rounded.
"""

import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

import hardmax as hm
from tests.problems.requests import TRIANGLE

pytestmark = [pytest.mark.quick, pytest.mark.portable]

RULE = hm.Hardmax(0.5)
ONES = np.ones((2, 3))
GROWING = hm.Hardmax(1, normalize=False)
GOOD = [[1.0, 2.0], [0.5, 1.0]]
TOKENS = {
    "nan": ([[1.0, np.nan]], "nan at index (0, 1)"),
    "infinity": ([[1.0], [-np.inf]], "-inf at index (1, 0)"),
    "nan in a batch": (
        np.full((2, 1, 1), np.nan),
        "nan at index (0, 0, 0), 2 such values",
    ),
    "empty": ([], "shape (0,)"),
    "no tokens": (np.empty((0, 3)), "shape (0, 3)"),
    "no dimension": (np.empty((3, 0)), "shape (3, 0)"),
    "number": (3.0, "shape ()"),
    "one axis": ([1.0, 2.0], "shape (2,)"),
    "four axes": (np.ones((1, 1, 1, 1)), "shape (1, 1, 1, 1)"),
    "ragged": ([[1.0, 2.0], [3.0]], "rows of different lengths"),
    "strings": ([["good", "film"]], "<U4"),
    "complex": ([[1j]], "complex128"),
    "dates": (np.zeros((1, 1), "M8[s]"), "datetime64[s]"),
    "mixed words": (np.array([[1, "a"]], object), "'a' at index (0, 1)"),
    "nothing": ([[1.0, None]], "None at index (0, 1)"),
    "nan object": (np.array([[np.nan]], object), "nan at index (0, 0)"),
    "long double nan": (np.array([[np.nan]], np.longdouble), ""),
    "masked": (
        np.ma.masked_array([[1.0, 2.0]], [[False, True]]),
        "masked array with 1 masked",
    ),
    "sparse": (csr_array([[1.0, 2.0]]), "csr_array"),
    "too large": ([[10**400]], "larger number at index (0, 0)"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_invalid_tokens_are_named_with_what_was_given(name):
    tokens, given = TOKENS[name]
    kind = (
        TypeError if name in ("strings", "complex", "dates", "sparse") else ValueError
    )
    for call in (
        lambda: hm.simulate(tokens, RULE, layers=1),
        lambda: hm.limit(tokens, RULE),
    ):
        with pytest.raises(kind, match="^`tokens` must .*" + re.escape(given)):
            call()


def test_booleans_are_numbers_and_a_masked_array_that_hides_nothing_is_an_array():
    assert hm.simulate([[True, 2]], RULE, layers=0).tokens.tolist() == [[[1.0, 2.0]]]
    assert (
        hm.limit(np.ma.masked_array(GOOD, False), RULE).leaders.tolist()
        == hm.limit(GOOD, RULE).leaders.tolist()
    )


MATRICES = {
    "words": ([["a", "b"], ["c", "d"]], "<U1"),
    "ragged": ([[1.0], [1.0, 2.0]], "different lengths"),
    "oblong": (np.ones((2, 3)), "shape (2, 3)"),
    "vector": ([1.0, 2.0], "shape (2,)"),
    "empty": (np.ones((0, 0)), "shape (0, 0)"),
    "nan": ([[np.nan]], "nan at index (0, 0)"),
    "skew": ([[1, 2], [0, 1]], "differs from its transpose by 2"),
    "indefinite": ([[1, 2], [2, 1]], "smallest eigenvalue is -1"),
    "singular": ([[1, 1], [1, 1]], "0 up to rounding"),
    "zero": ([[0.0]], "0 up to rounding"),
    "spread": (np.diag([1e200, 1e-200]), "0 up to rounding"),
    "large Fractions": ([[2**53 + 1, 2**53], [2**53, 2**53 + 3]], "0 up to rounding"),
}


@pytest.mark.parametrize("name", MATRICES)
def test_an_invalid_matrix_is_named_with_what_was_given(name):
    A, given = MATRICES[name]
    with pytest.raises(
        TypeError if name == "words" else ValueError,
        match="^`A` must .*" + re.escape(given),
    ):
        hm.Hardmax(1, A)
    if name in ("skew", "indefinite", "singular", "zero"):
        assert not hm.Hardmax(1, A, any_A=True).positive_definite


EYE, THREE, MASKED, SPARSE = (
    np.eye(2),
    np.eye(3),
    np.ma.masked_equal(np.eye(2), 0),
    csr_array(np.eye(2)),
)
RAGGED, NO_NUMBERS = (
    [[1, 2], [3]],
    (np.nan, np.inf, "cold", None, [1, 2], 1j, True, len, [1, [2, 3]]),
)
SOFTMAX, FEED, HEADS, FLOW = (
    partial(hm.Softmax, 1),
    partial(hm.FeedForward, EYE, EYE),
    hm.MultiHead,
    hm.SelfAttention,
)
SMOOTH = hm.simulate(GOOD, hm.Softmax(1), layers=1)
simulate, layers, limit = (
    partial(hm.simulate, GOOD),
    partial(hm.simulate, GOOD, RULE),
    partial(hm.limit, GOOD),
)
run, choose = (
    partial(hm.simulate, GOOD, hm.SelfAttention()),
    partial(hm.control.choose_A, TRIANGLE),
)
lead, steer = (
    partial(choose, leaders=[0]),
    partial(hm.control.steer, TRIANGLE, leaders=[0]),
)


def each(call, name, *values):
    """One call for each invalid value of an argument."""
    return [partial(call, **{name: value}) for value in values]


INVALID = {
    "alpha": [
        *each(
            hm.Hardmax,
            "alpha",
            0,
            -1.0,
            np.nan,
            np.inf,
            "0.5",
            None,
            True,
            1j,
            [0.5, -1],
            [[0.5]],
            [],
        ),
        *each(hm.Softmax, "alpha", -1, []),
        *each(steer, "alpha", [0.5, -1], []),
    ],
    "A": [
        *each(
            SOFTMAX,
            "A",
            np.ones((2, 3)),
            [[np.nan]],
            RAGGED,
            [["a"]],
            np.empty((0, 0)),
            [[1j]],
        ),
        *each(partial(hm.Hardmax, 1), "A", MASKED, SPARSE, [[1, 1], [1, 1]]),
        lambda: hm.cells([[1, 2]], THREE).rays,
        lambda: hm.cells([[1, 2], [2, 1]], np.ones((2, 2))).rays,
    ],
    "temperature": each(SOFTMAX, "temperature", 0, -1.0, 1e-310, *NO_NUMBERS),
    "normalize": [
        *each(SOFTMAX, "normalize", "batch", []),
        *each(partial(hm.Hardmax, 1), "normalize", "rms", "layer", "batch"),
    ],
    "beta": [
        *each(
            hm.Sphere,
            "beta",
            -1,
            lambda t: t - 1,
            *(value for value in NO_NUMBERS if value is not len),
        ),
        lambda: hm.Sphere(701, normalized=False),
        lambda: hm.circle_clusters(0),
    ],
    "betas": each(partial(hm.temperature.compare, GOOD, RULE, 2), "betas", [0], 5),
    "points": each(
        hm.cells(GOOD).contain, "points", [1, 2], [[np.nan, 1]], [["a"] * 2]
    ),
    "steps": each(hm.FrankWolfe, "steps", 1.5, "1/t"),
    "B": each(hm.FrankWolfe, "B", [[1, 2, 3]]),
    "delta": [lambda: hm.renyi_centres([[1, 0]], delta=4)],
    "kernel": [
        lambda: hm.argmax_sets(ONES[None], kernel="scan"),
    ],
    'kernel="hull"': [lambda: hm.argmax_sets(ONES, kernel="hull")],
    'kernel="symmetric"': [lambda: hm.argmax_sets(ONES, ONES + 1, kernel="symmetric")],
    "kind": each(hm.Normalize, "kind", "rescaling"),
    "W1": [
        *each(partial(hm.FeedForward, W2=EYE), "W1", [1.0], MASKED, SPARSE),
        lambda: hm.FeedForward(np.ones((3, 2)), np.ones((3, 2))),
    ],
    "W2": each(partial(hm.FeedForward, EYE), "W2", np.full((2, 2), np.inf)),
    "b1": each(FEED, "b1", [1, 2, 3], [1, np.nan], [[1], [1, 2]]),
    "b2": each(FEED, "b2", [1]),
    "activation": each(FEED, "activation", "swish", []),
    "gain": each(FEED, "gain", np.nan, "much"),
    "parts": [
        *each(hm.Compose, "parts", [], [hm.Softmax(1), 3], hm.Softmax(1)),
        lambda: hm.Compose([hm.Softmax(1, EYE), hm.FeedForward.random(3)]),
    ],
    "heads": [
        *each(
            HEADS,
            "heads",
            [],
            [0.5],
            [hm.Softmax(1), FLOW()],
            [hm.Softmax(1), hm.Normalize()],
        ),
        lambda: HEADS([hm.Softmax(1, EYE), hm.Softmax(1, THREE)], shared=True),
    ],
    "shares": [
        *each(partial(HEADS, [RULE]), "shares", [1]),
        lambda: HEADS([RULE], shared=True, shares=[1, 2]),
    ],
    "Q": [
        *each(FLOW, "Q", np.ones((3, 2)), [["x"]]),
        *each(partial(FLOW, np.ones((3, 2))), "K", np.ones((4, 2)), np.ones((3, 4))),
        *each(partial(FLOW, K=[[1, 1]]), "Q", [[np.nan, 1]]),
        lambda: FLOW(EYE, V=THREE),
        lambda: FLOW(lambda t: np.ones((3, 2)), np.ones((4, 2))),
        lambda: hm.classify(V=EYE, Q=THREE),
    ],
    "K": each(partial(FLOW, [[1, 1]]), "K", [[1, np.inf]]),
    "V": [
        *each(
            FLOW,
            "V",
            np.ones((2, 3)),
            2.0,
            RAGGED,
            EYE * 1j,
            lambda t: [1.0, 2.0],
            "paper-2d",
            MASKED,
            SPARSE,
        ),
        *each(hm.classify, "V", np.ones((2, 3))),
    ],
    "times": [
        *each(
            run,
            "times",
            [0, 2, 1],
            [0, 1, 1],
            [-1, 1],
            -3,
            0,
            [],
            "long",
            ["0", "1"],
            [0, np.nan],
            np.inf,
            [[0, 1]],
        ),
        *each(run, "times", True, [0, 1j], [[0], [1, 2]], MASKED, SPARSE),
        run,
        partial(run, layers=3),
        partial(run, layers=3, times=[1]),
        partial(hm.simulate, [[1.0]], hm.Sphere(1), layers=3),
        lambda: SMOOTH.times,
        lambda: hm.common_angle(1, 3, [2, 1]),
    ],
    "method": [partial(run, times=1, method="rk45")],
    "dt": [
        partial(run, times=1, dt=0.1),
        partial(run, times=1, method="euler"),
        *each(partial(run, times=1, method="rk4"), "dt", 0.0, -1),
        *each(partial(hm.Compose, [hm.Softmax(1)]), "dt", 0),
    ],
    "rtol": [
        *each(partial(run, times=1), "rtol", 0, 2, 1e-15),
        partial(run, times=1, method="rk4", dt=0.5, rtol=1e-6),
    ],
    "atol": each(partial(run, times=1), "atol", 0.5, np.nan),
    "max_steps": each(partial(run, times=1), "max_steps", 0),
    "layers": [
        *each(layers, "layers", -1, 2.0, "3", True, None),
        partial(simulate, hm.Softmax(1)),
        partial(simulate, hm.Softmax(1), times=[0, 1]),
        partial(layers, layers=1, times=3),
        *each(partial(hm.temperature.certify, GOOD, RULE), "layers", 0),
    ],
    "max_layers": each(partial(limit, RULE), "max_layers", -1, 2.0, "3", True, None),
    "mask": [
        *each(
            partial(layers, layers=1),
            "mask",
            [1, 0],
            [True],
            [[True], [True]],
            MASKED,
            SPARSE,
        ),
        lambda: hm.simulate(
            [GOOD, GOOD], RULE, layers=1, mask=[[True, True], [False, False]]
        ),
    ],
    "tokens": [
        partial(limit, hm.Hardmax(1, THREE)),
        partial(simulate, hm.Softmax(1, THREE), layers=1),
        partial(simulate, FLOW(V=THREE), times=1),
        partial(simulate, HEADS([hm.Softmax(1, EYE), hm.Softmax(2, EYE)]), layers=1),
        lambda: hm.limit([[GOOD]], RULE),
        lambda: hm.cells(np.zeros((2, 3, 2))),
        lambda: hm.cells([[1, 2, 3]]).rays,
        lambda: hm.renyi_centres([[0, 0]], delta=1),
        lambda: hm.simulate([[1.0, 0.0], [0.6, 0.9]], hm.Sphere(1), times=1),
        lambda: hm.control.choose_A([TRIANGLE], leaders=[0]),
        lambda: hm.control.choose_A([[1, np.nan]], leaders=[0]),
        lambda: hm.control.choose_A(
            [[10, 0], [-10, 1], [0, 0], [1, 1]], leaders=[0, 1], only=True
        ),
    ],
    "rule": [
        *each(partial(simulate, layers=1), "rule", 0.5, hm.Softmax),
        *each(limit, "rule", 0.5, hm.Softmax(1), hm.FrankWolfe(), GROWING),
        *each(
            hm.CausalLimit, "rule", RULE, hm.Hardmax(1, causal=True, normalize=False)
        ),
        *each(
            partial(hm.temperature.certify, GOOD, layers=2),
            "rule",
            FLOW(),
            hm.Hardmax(1, causal=True),
            GROWING,
        ),
    ],
    "save": [partial(layers, layers=1, save="first")],
    "energy": [lambda: SMOOTH.energy],
    "leader_table": [lambda: hm.leader_table(SMOOTH)],
    "queries": [
        *each(
            hm.argmax_sets, "queries", MASKED, SPARSE, np.ones(3), np.ones((2, 2, 2, 2))
        ),
        lambda: hm.argmax_sets(ONES, np.ones((2, 4))),
    ],
    "keys": [
        lambda: hm.argmax_sets(ONES, np.ones((0, 3))),
        lambda: hm.argmax_sets(ONES[:, :2], [[np.nan, 1]]),
        lambda: hm.argmax_sets(
            [[1.0]], np.array([[2**53], [2**53 + 1]])
        ),  # float64 cannot hold the last two
        lambda: hm.argmax_sets([[1.0]], np.array([[Fraction(1, 3)], [1]])),
    ],
    "name": [
        *each(hm.configuration, "name", "circle", ["ball"]),
        *each(hm.matrix, "name", "eye", {}),
    ],
    "n": [
        lambda: hm.configuration("square", n=5),
        lambda: hm.configuration("ball", n=0),
        lambda: hm.common_angle(1, 1, [1]),
    ],
    "d": [
        lambda: hm.configuration("ball", d=1.5),
        lambda: hm.matrix("paper-3d", d=2),
        lambda: hm.FeedForward.random(0),
    ],
    "seed": [lambda: hm.configuration("ball", seed=-1), partial(lead, seed=-1)],
    "leaders": [
        *each(choose, "leaders", [], [4], [-1], [0, 0], [0.5], "0,1", None),
        *each(lead, "followers", {0: 0}),
    ],
    "followers": each(lead, "followers", {3: 1}, {9: 0}, [3]),
    "prefer": each(lead, "prefer", "best"),
    "margin": [
        *each(lead, "margin", 0.1),
        partial(lead, prefer="identity", margin=9.0),
    ],
    "solver_options": [partial(choose, leaders=[0, 1], solver_options={"foo": 1})],
    "condition": [
        *each(lead, "condition", 0.5, 1e17, np.inf),
        *each(steer, "condition", 0.5),
    ],
    "attempts": each(lead, "attempts", -1),
    "evaluations": each(steer, "evaluations", 0),
}


HUGE = Fraction(10**400)
DATES = np.array([["2020-01-01", "2020-01-02"]], "M8[D]")
DURATIONS = np.array([[1, 2]], "m8[D]")  # which NumPy counts among the integers
CELLS = hm.cells(GOOD)
CAUSAL = partial(hm.CausalLimit, hm.Hardmax(1, causal=True))
NO_TEXTS = ("wrong", ["auto"], 1, 10**5000, np.array(["auto", "auto"]), DATES, len)
NO_FLAGS = ("yes", "", None, 0, 1.0, [True], np.array([True, False]), DURATIONS)
NO_COUNTS = (-1, 1.5, "2", True, None, np.nan, [2], np.timedelta64(2, "D"), 1j, DATES)
NO_ARRAYS = (
    RAGGED,
    [["a", "b"]],
    [["1", "2"]],
    [[1j, 2]],
    [[None, 1]],
    [[np.nan, 1.0]],
    [[1.0, -np.inf]],
    [[HUGE, Fraction(1)]],
    [[10**400, 1]],
    np.array([[np.timedelta64(1, "D"), 1]], object),
    np.array([["1e4000", "1"]], np.longdouble),
    DATES,
    DURATIONS,
    MASKED,
    SPARSE,
)
FURTHER = {
    "alpha": [
        *each(hm.Hardmax, "alpha", b"1", 10j, DATES, np.timedelta64(1)),
        *each(hm.Softmax, "alpha", HUGE, 10**400, [1, HUGE]),
        *each(steer, "alpha", HUGE, [0.5, 10**400], b"1"),
        partial(hm.temperature.compare, GOOD, hm.Hardmax(HUGE), 2, [1.0]),
    ],
    "steps": each(hm.FrankWolfe, "steps", HUGE, 10**400, -1, np.nan, b"1", DATES),
    "temperature": each(SOFTMAX, "temperature", HUGE, 10**5000, np.timedelta64(1)),
    "beta": [
        *each(hm.circle_clusters, "beta", 2e9, np.inf, np.nan, HUGE, "5", [5], -1),
        *each(partial(hm.common_angle, n=3, times=[0]), "beta", HUGE, -1, "1", DATES),
    ],
    "exact": each(partial(hm.Hardmax, 1), "exact", "no", *NO_FLAGS),
    "any_A": each(partial(hm.Hardmax, 1), "any_A", *NO_FLAGS),
    "causal": [
        *each(partial(hm.Hardmax, 1), "causal", *NO_FLAGS),
        *each(SOFTMAX, "causal", *NO_FLAGS),
        *each(FLOW, "causal", *NO_FLAGS),
        *each(partial(hm.Sphere, 1), "causal", *NO_FLAGS),
        *each(partial(hm.classify, V=EYE), "causal", *NO_FLAGS),
    ],
    "normalized": each(partial(hm.Sphere, 1), "normalized", *NO_FLAGS),
    "shared": each(partial(HEADS, [RULE]), "shared", *NO_FLAGS),
    "margins": each(partial(hm.argmax_sets, ONES), "margins", *NO_FLAGS),
    "strong": each(partial(hm.renyi_centres, GOOD, 1), "strong", *NO_FLAGS),
    "only": each(lead, "only", *NO_FLAGS),
    "kernel": [
        *each(partial(limit, RULE), "kernel", *NO_TEXTS),
        *each(layers, "kernel", *NO_TEXTS),
        *each(partial(hm.argmax_sets, ONES), "kernel", *NO_TEXTS),
        *each(CAUSAL, "kernel", *NO_TEXTS),
    ],
    "save": each(partial(layers, layers=1), "save", *NO_TEXTS),
    "method": each(partial(run, times=1), "method", *NO_TEXTS),
    "kind": each(hm.Normalize, "kind", *NO_TEXTS),
    "normalize": each(SOFTMAX, "normalize", 10**5000, ["rms"], DATES),
    "prefer": each(lead, "prefer", *NO_TEXTS),
    "name": [
        *each(hm.configuration, "name", *NO_TEXTS),
        *each(hm.matrix, "name", *NO_TEXTS),
    ],
    "layers": each(layers, "layers", 10**400, *NO_COUNTS),
    "max_layers": each(partial(limit, RULE), "max_layers", *NO_COUNTS),
    "most": each(
        partial(hm.leader_table, hm.simulate(GOOD, RULE, layers=1)),
        "most",
        *(value for value in NO_COUNTS if value is not None),
    ),
    "n": [
        *each(partial(hm.configuration, "ball"), "n", 10**400, 0, "5", DATES),
        *each(partial(hm.common_angle, 1, times=[0]), "n", 10**400, *NO_COUNTS),
    ],
    "d": [
        *each(partial(hm.configuration, "ball"), "d", 10**400, 0, "5", DATES),
        *each(partial(hm.matrix, "random"), "d", 10**400, 2.0, np.array([2, 2])),
        *each(partial(hm.matrix, "paper-2d"), "d", 3, "2", np.array([2, 2])),
        *each(hm.FeedForward.random, "d", 10**400, *NO_COUNTS),
    ],
    "width": each(partial(hm.FeedForward.random, 2), "width", 10**400, 0, "4"),
    "max_steps": each(partial(run, times=1), "max_steps", 10**400, "5", DATES),
    "gain": each(FEED, "gain", HUGE, 10**400, np.timedelta64(1), DATES),
    "dt": each(partial(run, times=1, method="rk4"), "dt", HUGE, "1", [1], np.nan),
    "times": [
        *each(
            partial(hm.common_angle, 1, 3),
            "times",
            [0, np.nan],
            [0, np.inf],
            [np.nan],
            [-1, 1],
            [1, 1],
            [],
            5,
            None,
            "long",
            ["0", "1"],
            [[0, 1]],
            [[0], [1, 2]],
            [0, 1j],
            [0, 10**400],
            DATES[0],
            DURATIONS[0],
            MASKED,
            SPARSE,
        ),
        *each(run, "times", np.longdouble("1e4000"), DATES[0], DURATIONS[0]),
    ],
    "queries": each(hm.argmax_sets, "queries", *NO_ARRAYS),
    "keys": each(partial(hm.argmax_sets, [[1.0, 2.0]]), "keys", *NO_ARRAYS),
    "points": each(CELLS.contain, "points", *NO_ARRAYS, 5, [1, 2], [[1, 2, 3]], None),
    "token": [
        *each(partial(CELLS.polygon, radius=1), "token", 2, 10**5000, *NO_COUNTS),
    ],
    "radius": each(
        partial(CELLS.polygon, 0), "radius", 0, np.inf, HUGE, EYE, *NO_NUMBERS, -1
    ),
    "attention_mask": each(
        partial(limit, RULE),
        "attention_mask",
        [[True], [True, False]],
        [["a", "b"], ["c", "d"]],
        np.ones((2, 2)),
        5,
        MASKED,
        SPARSE,
    ),
    "progress": [
        *each(partial(limit, RULE), "progress", "bar", 0, True, [print]),
        *each(partial(layers, layers=1), "progress", "bar", 0, True, [print]),
        *each(lead, "progress", "bar", 0, True),
        *each(partial(hm.control.can_lead, TRIANGLE), "progress", "bar", 0),
    ],
    "betas": each(
        partial(hm.temperature.compare, GOOD, RULE, 2),
        "betas",
        "",
        b"12",
        [],
        {},
        {1: 2},
        [HUGE],
        ["1"],
        [np.nan],
        [[1], [1, 2]],
        DATES,
        SPARSE,
    ),
    "leaders": [
        *each(choose, "leaders", RAGGED, [[0], [1, 2]], [10**400], ["0"], {0: 1}, {0}),
        *each(choose, "leaders", [np.timedelta64(1)], [True], np.nan, DATES, SPARSE),
    ],
    "followers": each(lead, "followers", {1.5: 0}, {"1": 0}, [[1], [1, 2]], DATES),
    "margin": each(partial(lead, prefer="identity"), "margin", HUGE, 0, -1, "1", [1]),
    "condition": each(lead, "condition", HUGE, "1", [10, 20], DATES),
    "solver_options": each(lead, "solver_options", "fast", 0, [("max_iter", 5)]),
    "attempts": each(partial(lead, only=True), "attempts", *NO_COUNTS),
    "seed": each(partial(hm.configuration, "ball"), "seed", *NO_COUNTS),
    "parts": each(hm.Compose, "parts", np.array(1.0), 10**5000, [10**5000], DATES),
    "heads": each(HEADS, "heads", np.array(1.0), 10**5000, [10**5000], DATES),
    "rule": [
        *each(partial(hm.temperature.certify, GOOD, layers=2), "rule", 10**5000),
        *each(limit, "rule", hm.SelfAttention(), hm.Hardmax, None, 10**5000),
    ],
    "A": each(partial(hm.Hardmax, 1), "A", *NO_ARRAYS),
    "B": each(hm.FrankWolfe, "B", *NO_ARRAYS),
    "V": each(FLOW, "V", *NO_ARRAYS),
    "k": each(
        hm.simulate(GOOD, RULE, layers=1).attention,
        "k",
        10**5000,
        np.timedelta64(1),
        1.0,
        "0",
        None,
        True,
        DATES,
    ),
}
for _name, _calls in FURTHER.items():
    INVALID[_name] = [*INVALID.get(_name, ()), *_calls]


@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name, calls in INVALID.items() for call in calls],
)
def test_an_invalid_argument_is_named(name, call):
    with pytest.raises(hm.ParameterError) as refused:
        call()
    assert name in refused.value.names
    assert "\n" not in str(refused.value)


def test_unusual_values_that_are_right():
    # near the ends of the range of floats
    assert hm.classify(V=1.7e308 * EYE).kind == "polytope"
    assert hm.renyi_centres(1.7e308 * EYE, 1).tolist() == [0, 1]
    assert hm.renyi_centres(1e-320 * EYE, 1).tolist() == [0, 1]
    tiny = [[1e-320, 0], [1, 0]]
    assert hm.control.can_lead(tiny).tolist() == [False, True]
    assert hm.control.choose_A(tiny, leaders=[1]).found
    assert not hm.control.choose_A(tiny, leaders=[0]).found
    steps = [hm.Hardmax(HUGE), hm.Hardmax(1e300)]
    one, other = (hm.temperature.certify(GOOD, step, layers=2) for step in steps)
    assert one.beta == pytest.approx(other.beta)
    moved = hm.simulate(GOOD, hm.Compose([hm.Hardmax(HUGE)]), layers=1).array[1]
    assert moved[1].tolist() == GOOD[0]
    # long times, and the largest beta of SciPy's Bessel functions
    angles = hm.common_angle(1, 3, [0, 1, 1e9, 1e300])
    assert angles[2:] == pytest.approx(1)
    assert angles[1] == pytest.approx(hm.common_angle(1, 3, [1])[0])
    assert hm.circle_clusters(1e9) == 44721
    # booleans of NumPy, and any iterable of betas
    assert hm.Hardmax(1, causal=np.True_) == hm.Hardmax(1, causal=True)
    betas = hm.temperature.compare(GOOD, RULE, 2, (beta for beta in (10, 20)))
    assert betas[0].shape == (2, 3)


def test_other_errors_say_what_was_given():
    with pytest.raises(
        hm.InputError, match=r"^Tokens of dimension 3 must split into 2 heads"
    ):
        hm.simulate(np.eye(3), HEADS([hm.Softmax(1), hm.Softmax(2)]), layers=1)
    with pytest.raises(
        hm.ParameterError, match=r"Got norm 2 for token 2 of token set 1."
    ):
        hm.simulate(
            [[[1.0, 0.0]] * 3, [[1.0, 0.0], [0, 1], [0, 2]]], hm.Sphere(1), times=1
        )
    with pytest.raises(hm.ParameterError, match=r"Got .{57}[.]{3}"):
        run(times=list(range(50, 0, -1)))


LARGE_INTEGERS = [[2**53, 0.5], [2**53 + 1, 0.5]]  # NumPy makes both rows equal


@pytest.mark.parametrize(
    "convert", [list, tuple, lambda rows: [np.array(row, object) for row in rows]]
)
def test_large_integers_in_lists_are_not_rounded(convert):
    assert hm.limit(convert(LARGE_INTEGERS), hm.Hardmax(1)).leaders.tolist() == [1]
    assert hm.simulate([convert(LARGE_INTEGERS)], hm.Hardmax(1), layers=1)[
        0
    ].leaders.tolist() == [1]


def test_large_integers_in_a_table_are_not_rounded():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"x": [2**53, 2**53 + 1], "y": [0.5, 0.5]})
    assert hm.limit(table, hm.Hardmax(1)).leaders.tolist() == [1]


@pytest.mark.parametrize("index", [[9, 4, 7, 2], list("abcd"), [3, 3, 3, 3]])
def test_tables_and_columns_of_pandas_are_read_by_position(index):
    pd = pytest.importorskip("pandas")
    tokens = np.array([[2.0, 1.0], [1.0, -1.0], [-1.0, 0.5], [0.25, 0.0]])
    steps = np.array([0.5, 0.25, 1.0, 0.75])
    table = pd.DataFrame(tokens, index=index)
    column = pd.Series(steps, index=index)
    limit = hm.limit(tokens, hm.Hardmax(steps))
    assert np.array_equal(hm.limit(table, hm.Hardmax(column)).points, limit.points)
    assert hm.argmax_sets(table)[0].tolist() == hm.argmax_sets(tokens)[0].tolist()
    for rule in (hm.Hardmax, hm.Softmax, lambda steps: hm.FrankWolfe(steps=steps)):
        plain = hm.simulate(tokens, rule(steps), layers=4).tokens
        assert np.array_equal(hm.simulate(table, rule(column), layers=4).tokens, plain)
    mask = steps < 1
    masked = hm.limit(table, hm.Hardmax(0.5), mask=pd.Series(mask, index=index))
    expected = hm.limit(tokens, hm.Hardmax(0.5), mask=mask)
    assert masked.leaders.tolist() == expected.leaders.tolist()
    assert hm.Polytope(table).dimension == 2
    times = column.cumsum()
    flow = hm.SelfAttention(V=np.eye(2))
    plain = hm.simulate(tokens, flow, times=times.to_numpy()).tokens
    assert np.array_equal(hm.simulate(table, flow, times=times).tokens, plain)


def test_large_integers_in_matrices_and_queries():
    A = [[2**54 + 2, 0.5], [0.5, 2**54 + 6]]
    assert hm.Hardmax(1, A).matrix[0, 0] == 2**54 + 2
    assert hm.Hardmax(1, [[2**53 + 1, 0.5], [0.5, 2**53]]).matrix[0, 0] == 2**53 + 1
    for arguments, name in (
        ((LARGE_INTEGERS,), "queries"),
        (([[1.0, 0.5]], LARGE_INTEGERS), "keys"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            hm.argmax_sets(*arguments)
    assert hm.argmax_sets([[2**60, 0.5]])[0].tolist() == [0]


def test_unusual_numbers_are_kept_exactly_or_refused():
    for A in ([[1j]], [[Fraction(10**400)]]):
        with pytest.raises(ValueError, match=r"^`A`"):
            hm.Hardmax(1, A)
    assert hm.Hardmax(1, [[1.7e308]]).matrix.tolist() == [[1.7e308]]
    assert hm.Hardmax(Fraction(10**400)).steps == (Fraction(10**400),)
    assert (
        hm.Hardmax(np.array(0.5)).steps
        == hm.Hardmax(np.float32(0.5)).steps
        == (Fraction(1, 2),)
    )
    assert hm.Hardmax(0.1).steps[0] == Fraction(0.1) != Fraction(1, 10)


def test_matrix_symmetric_up_to_rounding_is_taken_as_symmetric():
    rule = hm.Hardmax(1, [[2.0, 1.0], [1.0 + 1e-15, 2.0]])
    assert rule.positive_definite
    assert (rule.matrix == rule.matrix.T).all()
    with pytest.raises(ValueError, match=r"read-only"):
        rule.matrix[0, 0] = 5


@pytest.mark.parametrize("value", [7.0, 0.0, -1e300, 1e-300, 5e-324])
def test_one_token_in_one_dimension_leads_at_once(value):
    run = hm.simulate([[value]], RULE, layers=2)
    limit = hm.limit([[value]], RULE)
    assert run.tokens.ravel().tolist() == [value] * 3
    assert run.leaders.tolist() == limit.leaders.tolist() == [0]
    assert (limit.certified, limit.layer, limit.tokens.tolist(), limit.radius) == (
        True,
        0,
        [[value]],
        np.inf,
    )
