"""The engine: many layers, limits and batches against plain loops, and choosing A row
by row against all rows.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.registry import Answer, Case, Method, Row, Target, equal, growth, size
from benchmarks.search import (
    choice,
    describe,
    draw_tokens,
    search_arguments,
    triple_loop,
)
from hardmax._types import FloatArray, IntArray
from hardmax.control.programme import Programme
from hardmax.control.request import check_request
from hardmax.exact.argmax import exact_rows
from hardmax.exact.comparison import compare_exactly
from hardmax.run import Run
from hardmax.search.reference import near_maxima
from hardmax.sets import Sets
from hardmax.trajectories.hardmax import HardmaxTrajectory

Make = Callable[[], FloatArray]
RULE = hm.Hardmax(0.5)
LIMIT_SIZES = (1_000_000, 10_000, 30_000, 100_000, 300_000)  # the first has the target
BATCH, BATCH_TOKENS, BATCH_LAYERS = 1000, 100, 10


def history(layers: list[list[list[int]]]) -> Answer:
    """Return the sets of all layers, one after the other."""
    sets = Sets.of([row for layer in layers for row in layer])
    return choice(sets.starts, sets.members)


def trajectory_history(trajectory: HardmaxTrajectory) -> Answer:
    """Return the sets of all layers of a trajectory."""
    return history(
        [
            [members.tolist() for members in trajectory.sets(int(k))]
            for k in trajectory.saved
        ]
    )


def _run_without_shortcuts(
    tokens: FloatArray, alpha: float, layers: int
) -> list[list[list[int]]]:
    """Search at every layer for every token, also for those that Theorem 1 has decided.
    Tokens must be distinct.
    """
    record = hm.simulate(tokens, hm.Hardmax(alpha), layers=layers).records[0]
    token_of = record.classes.first  # class c is token token_of[c]
    found = []
    for chosen in record.independent_sets:
        sets = [[0]] * len(tokens)
        targets = token_of[chosen.targets].tolist()
        for c, target in zip(token_of.tolist(), targets, strict=True):
            sets[c] = [target]
        found.append(sets)
    return found


def _layers(
    name: str,
    title: str,
    kind: str,
    n: int,
    d: int,
    alpha: float,
    layers: int,
    more: str = "",
) -> Case:
    """Return a case: `simulate` against the triple loop."""

    def methods(quick: bool) -> list[Method]:
        make = partial(hm.configuration, kind, n=size(n, quick), d=d)

        def simulate(label: str, rule: hm.Hardmax) -> Method:
            prepare = lambda: partial(hm.simulate, make(), rule, layers=layers)  # noqa: E731
            return Method(
                label,
                prepare,
                trajectory_history,
                facts=lambda run: {"kernel": run.stats["kernel"]},
            )

        found = [
            simulate("simulate", hm.Hardmax(alpha)),
            Method(
                "triple loop in Python",
                lambda: partial(triple_loop, make().tolist(), alpha, layers),
                history,
            ),
        ]
        if more == "shortcuts":
            plain = lambda: partial(_run_without_shortcuts, make(), alpha, layers)  # noqa: E731
            found.append(Method("every token asked at every layer", plain, history))
        if more == "exact":
            found.append(
                simulate("simulate, exact=True", hm.Hardmax(alpha, exact=True))
            )
        return found

    title = f"{title}, n = {n}, d = {d}, {layers} layers, alpha = {alpha}"
    return Case(name, title, methods, equal, "chooses other sets than the definition")


def limit_growth(rows: list[Row]) -> list[Row]:
    """Return a row with the exponent p of the fit: seconds per layer ~ n**p."""
    sizes = [int(row.method.split("=")[1].replace(",", "")) for row in rows]
    p = growth(
        sizes,
        [row.seconds / row.facts["layers"] for row in rows if row.seconds is not None],
    )
    name = "growth of seconds per layer"
    return [
        Row(
            name,
            measured=f"n^{p:.2f}",
            target="at most n^1.1",
            reached=Target(1.1, "").is_reached(p),
        )
    ]


def _limit(name: str, kind: str, alpha: float) -> Case:
    """Return a case: the certified limit of up to a million tokens in the plane."""

    def method(n: int, quick: bool) -> Method:
        def prepare() -> Callable[[], Any]:
            tokens, rule = draw_tokens(kind, size(n, quick), 2), hm.Hardmax(alpha)
            hm.limit(draw_tokens(kind, 1000, 2), rule)  # loads compiled code
            return lambda: hm.limit(tokens, rule)

        return Method(
            f"limit, n = {n:,}",
            prepare,
            lambda limit: {"certified": np.array(limit.certified)},
            target=Target(10.0, "s") if n == LIMIT_SIZES[0] else None,
            alone=True,
            facts=lambda limit: {
                "kernel": limit.stats["kernel"],
                "layers": limit.layer + 1,
            },
        )

    def are_certified(ours: Answer, theirs: Answer) -> bool:
        return bool(ours["certified"] and theirs["certified"])

    title = (
        f"{describe(kind, LIMIT_SIZES[0], 2)}, alpha = {alpha}, to the certified limit"
    )
    methods = lambda quick: [method(n, quick) for n in LIMIT_SIZES]  # noqa: E731
    return Case(name, title, methods, are_certified, "is not certified", limit_growth)


def _after_a_small_run(
    make: Callable[[], Any], run: Callable[[Any], Any]
) -> Callable[[], Callable[[], Any]]:
    """Return a `prepare` that draws the data and loads compiled code."""

    def prepare() -> Callable[[], Any]:
        drawn = make()
        run(drawn[:2])
        return lambda: run(drawn)

    return prepare


def _tokens_of_batch(found: Any) -> FloatArray:
    """Return the tokens of a trajectory, or of a list of limits."""
    if isinstance(found, list):
        return np.stack([limit.tokens for limit in found])
    return found.tokens


def _batch(name: str, d: int, what: str) -> Case:
    """Return a case: a batch in one call against its token sets one by one."""

    def make(quick: bool) -> FloatArray:
        count = size(BATCH, quick)
        return draw_tokens("gaussian", count * BATCH_TOKENS, d).reshape(
            count, BATCH_TOKENS, d
        )

    def limit(x: FloatArray) -> Any:
        return hm.limit(x, RULE)

    def simulate(x: FloatArray) -> Any:
        return hm.simulate(x, RULE, layers=BATCH_LAYERS)

    run, axis, words = (
        (limit, 0, what)
        if what == "limit"
        else (simulate, 1, f"simulate, {BATCH_LAYERS} layers")
    )

    def methods(quick: bool) -> list[Method]:
        draw = partial(make, quick)
        one_by_one = _after_a_small_run(draw, lambda x: [run(tokens) for tokens in x])
        return [
            Method(
                f"{words} of the batch",
                _after_a_small_run(draw, run),
                lambda found: {"tokens": _tokens_of_batch(found)},
            ),
            Method(
                f"{words} of each cloud",
                one_by_one,
                lambda found: {
                    "tokens": np.stack([one.tokens for one in found], axis=axis)
                },
                target=Target(20.0),
            ),
        ]

    title = (
        f"{BATCH:,} clouds of {BATCH_TOKENS} Gaussian tokens, d ="
        f" {d}{', limits' if what == 'limit' else ''}"
    )
    return Case(name, title, methods, equal, "differs")


def _radius(kernel: str, tokens: FloatArray) -> float:
    """Return the radius as `Limit.radius` finds it, of tokens that are decided within
    three layers.
    """
    run = Run(RULE, tokens, kernel=kernel)
    run.find_limits(max_layers=3)
    return run.records()[0].radius()


def _radii(name: str, d: int) -> Case:
    """Return a case: gaps by searches against gaps by all products."""
    n = 30_000

    def methods(quick: bool) -> list[Method]:
        make = partial(draw_tokens, "gaussian", size(n, quick), d)
        kernels = {"gaps by searches": "auto", "gaps by all products": "numpy"}
        return [
            Method(
                label,
                _after_a_small_run(make, partial(_radius, kernel)),
                lambda r: {"radius": np.array(r)},
            )
            for label, kernel in kernels.items()
        ]

    def agrees(ours: Answer, theirs: Answer) -> bool:
        return bool(np.isclose(ours["radius"], theirs["radius"], rtol=1e-6, atol=0))

    return Case(
        name, f"Gaps of {n:,} Gaussian tokens, d = {d}", methods, agrees, "differs"
    )


def _gathered(quick: bool) -> list[Method]:
    """Return methods for tokens within rounding of each other: candidates in parts
    against all at once.
    """

    def make() -> FloatArray:
        integers = np.random.default_rng(0).integers(0, 12, size=(size(8000, quick), 4))
        return np.asarray(1 + 2.0**-52 * np.unique(integers, axis=0))

    def at_once(tokens: FloatArray) -> Sets:
        queries, keys, slack = search_arguments(tokens)
        rows = exact_rows(tokens)
        return compare_exactly(
            near_maxima(queries, keys, slack)[0], rows(list(range(len(tokens)))), rows
        )[0]

    ways = {"candidates in parts": hm.argmax_sets, "all candidates at once": at_once}
    return [
        Method(
            name,
            _after_a_small_run(make, way),
            lambda sets: choice(sets.starts, sets.members),
        )
        for name, way in ways.items()
    ]


CONTROL_N, CONTROL_D, LEADERS, CONDITION = 500, 16, 30, 1e4
CONTROL_SIZES = (
    (20_000, 16, 5),
    (500, 32, 5),
)  # n, d and leaders of rows without a ratio


def feasible_leaders(
    quick: bool, n: int = CONTROL_N, d: int = CONTROL_D, count: int = LEADERS
) -> tuple[FloatArray, IntArray]:
    """Return Gaussian tokens, and some that lead for a hidden A, so that an A exists."""
    random = np.random.default_rng(0)
    tokens, B = random.normal(size=(size(n, quick), d)), random.normal(size=(d, d))
    products = tokens[:1000] @ (B @ B.T + 0.1 * np.eye(d)) @ tokens.T
    return (
        tokens,
        np.flatnonzero(products.argmax(axis=1) == np.arange(len(products)))[:count],
    )


def control_methods(quick: bool) -> list[Method]:
    """Return `choose_A` with rows added as needed, with all rows at once, and at other
    sizes.
    """

    def prepare(*shape: int) -> Callable[[], Any]:
        small, few = feasible_leaders(True)
        hm.control.choose_A(small, leaders=few, condition=CONDITION)  # loads the solver
        tokens, leaders = feasible_leaders(quick, *shape)
        return lambda: hm.control.choose_A(tokens, leaders=leaders, condition=CONDITION)

    def prepare_all_rows() -> Callable[[], Any]:
        prepare()
        demands = check_request(*feasible_leaders(quick), None).demands()
        n = len(demands.tokens)
        rows = np.array(
            [(r, j) for r, i in enumerate(demands.target) for j in range(n) if j != i]
        )

        def solve() -> SimpleNamespace:
            A = Programme(CONDITION).optimise(demands, None, rows).A
            stats = {"rows": len(rows), "rounds": 1}
            return SimpleNamespace(
                found=A is not None, margin=demands.margin(np.asarray(A)), stats=stats
            )

        return solve

    def method(
        name: str, prepare: Callable[[], Callable[[], Any]], **more: Any
    ) -> Method:
        return Method(
            name,
            prepare,
            lambda result: {
                "found": np.array(result.found),
                "margin": np.array(result.margin),
            },
            package="cvxpy",
            facts=lambda result: {
                "rows": result.stats["rows"],
                "rounds": result.stats["rounds"],
            },
            **more,
        )

    return [
        method("choose_A", prepare),
        method("all rows at once", prepare_all_rows, target=Target(10.0)),
        *(
            method(
                f"n = {n:,}, d = {d}, {count} leaders",
                partial(prepare, n, d, count),
                alone=True,
                compared=False,
            )
            for n, d, count in CONTROL_SIZES
        ),
    ]


def same_optimum(ours: Answer, theirs: Answer) -> bool:
    """Return True if both found an A of the same margin: about 0.45, and solvers leave
    1e-7.
    """
    return bool(
        ours["found"]
        and theirs["found"]
        and abs(ours["margin"] - theirs["margin"]) < 1e-5
    )


CONTROL = (
    f"Choosing A for {LEADERS} leaders of {CONTROL_N} Gaussian tokens, d = {CONTROL_D},"
    " condition number at most"
)
CASES = [
    _layers(
        "gaussian",
        "Gaussian tokens, all decided at layer 3",
        "gaussian",
        1000,
        2,
        0.5,
        30,
        "shortcuts",
    ),
    _layers("slow_ball", "Tokens in a ball, decided slowly", "ball", 1000, 2, 0.02, 30),
    _layers(
        "all_leaders",
        "Gaussian tokens, every token leads",
        "gaussian",
        1000,
        64,
        0.5,
        10,
    ),
    _layers(
        "rational",
        "Gaussian tokens, and in rational arithmetic",
        "gaussian",
        200,
        8,
        0.5,
        10,
        "exact",
    ),
    _limit("limit_gaussian", "gaussian", 0.5),
    _limit("limit_ball", "ball", 0.5),
    _limit("limit_small_alpha", "gaussian", 0.02),
    _batch("batch_limit", 2, "limit"),
    _batch("batch_limit_d16", 16, "limit"),
    _batch("batch_simulate", 2, "simulate"),
    _radii("radius_plane", 2),
    _radii("radius_space", 3),
    Case(
        "gathered",
        "8,000 uniform tokens within rounding of each other, d = 4",
        _gathered,
        equal,
        "differs",
    ),
    Case(
        "control",
        f"{CONTROL} {CONDITION:g}",
        control_methods,
        same_optimum,
        "has another optimum",
    ),
]
