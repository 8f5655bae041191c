"""Choosing A: rows of the semidefinite programme as they are needed, against all of them at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.registry import Answer, Case, Method, Target, size
from hardmax._types import FloatArray, IntArray

N, D, LEADERS = 500, 16, 30
LOOKED_AT = 1000  # tokens among which leaders are sought
SIZES = ((20_000, 16, 5), (500, 32, 5))  # n, d and leaders of what is measured alone
CONDITION = 1e4
CLOSE = 1e-5  # margins are about 0.45, and interior-point solvers leave 1e-7


def wish(quick: bool, n: int = N, d: int = D, n_leaders: int = LEADERS) -> tuple[FloatArray, IntArray]:
    """Gaussian tokens, and the first of those that lead for a hidden A, so that the wish can be met."""
    random = np.random.default_rng(0)
    tokens, B = random.normal(size=(size(n, quick), d)), random.normal(size=(d, d))
    products = tokens[:LOOKED_AT] @ (B @ B.T + 0.1 * np.eye(d)) @ tokens.T
    return tokens, np.flatnonzero(products.argmax(axis=1) == np.arange(len(products)))[:n_leaders]


def choosing(method: str, quick: bool, *shape: int) -> Callable[[], Any]:
    """One call, after a small one that loads the solver."""
    tokens, leaders = wish(quick, *shape)
    small, few = wish(True)
    hm.control.choose_A(small, leaders=few, condition=CONDITION)
    return lambda: hm.control.choose_A(tokens, leaders=leaders, condition=CONDITION, method=method)


def _methods(quick: bool) -> list[Method]:
    def answer(result: Any) -> Answer:
        return {"found": np.array(result.found), "margin": np.array(result.margin)}

    def facts(result: Any) -> dict[str, Any]:
        return {"rows": result.stats["rows"], "rounds": result.stats["rounds"]}

    return [
        Method('choose_A, method="cuts"', partial(choosing, "cuts", quick), answer, package="cvxpy", facts=facts),
        Method(
            'all rows at once, method="full"',
            partial(choosing, "full", quick),
            answer,
            target=Target(10.0),
            package="cvxpy",
            facts=facts,
        ),
        *(
            Method(
                f"n = {n:,}, d = {d}, {n_leaders} leaders",
                partial(choosing, "cuts", quick, n, d, n_leaders),
                answer,
                package="cvxpy",
                alone=True,
                compared=False,
                facts=facts,
            )
            for n, d, n_leaders in SIZES
        ),
    ]


def one_optimum(ours: Answer, theirs: Answer) -> bool:
    """Whether both found an A, of the same margin."""
    return bool(ours["found"] and theirs["found"] and abs(ours["margin"] - theirs["margin"]) < CLOSE)


TITLE = f"Choosing A for {LEADERS} leaders of {N} Gaussian tokens, d = {D}, condition number at most {CONDITION:g}"
CASES = [Case("control", TITLE, _methods, one_optimum, "has another optimum")]
