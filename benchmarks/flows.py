"""Self-attention in time against the loops that were published, at an accuracy that is no worse."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.linalg import expm

import hardmax as hm
from benchmarks.registry import Answer, Case, Method
from hardmax._types import FloatArray

END_TIME, STEP = 15.0, 0.01
OURS: dict[str, dict[str, Any]] = {
    "simulate, as it is": {},
    "simulate, rtol=1e-3": {"rtol": 1e-3, "atol": 1e-4},
    "simulate, the same Euler steps": {"method": "euler", "dt": STEP},
}


def euler_loop(tokens: list[list[float]], V: list[list[float]], end: float, dt: float) -> list[list[float]]:
    """Integrate rescaled self-attention with Q^T K = I as the script of the paper does: loops, and steps of order 1.

    The script computes e^{tV} for every pair of tokens and each entry of P in O(n); here once per step and in O(1).
    """
    n, d = len(tokens), len(tokens[0])
    z = [list(row) for row in tokens]
    for step in range(round(end / dt)):
        E = expm(step * dt * np.array(V)).tolist()
        x = [[sum(E[r][s] * row[s] for s in range(d)) for r in range(d)] for row in z]
        moved = []
        for i in range(n):
            scores = [sum(x[i][r] * x[j][r] for r in range(d)) for j in range(n)]
            largest = max(scores)
            weights = [math.exp(score - largest) for score in scores]
            total = sum(weights)
            mean = [sum(weights[j] * z[j][r] for j in range(n)) / total - z[i][r] for r in range(d)]
            moved.append([z[i][r] + dt * sum(V[r][s] * mean[s] for s in range(d)) for r in range(d)])
        z = moved
    return z


def is_no_worse(ours: Answer, theirs: Answer) -> bool:
    """Return True if our error is at most theirs."""
    return bool(ours["error"] <= theirs["error"])


def _methods(V: FloatArray, quick: bool) -> list[Method]:
    tokens = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    end, rule = END_TIME / 10 if quick else END_TIME, hm.SelfAttention(V=V)

    @cache
    def exact() -> FloatArray:
        return np.asarray(hm.simulate(tokens, rule, times=end, save="last", rtol=1e-12, atol=1e-14).rescaled[-1])

    def method(name: str, run: Callable[[], Any], read: Callable[[Any], Any], alone: bool = False) -> Method:
        def error(result: Any) -> Answer:
            return {"error": np.abs(np.asarray(read(result)) - exact()).max()}

        facts = lambda result: {"error": f"error {error(result)['error']:.0e}"}  # noqa: E731
        return Method(name, lambda: run, error, alone=alone, compared=not alone, facts=facts)

    first, *others = (
        method(name, partial(hm.simulate, tokens, rule, times=end, **options), lambda run: run.rescaled[-1], alone)
        for name, options in OURS.items()
        for alone in [bool(options)]
    )
    loops = method(f"loops, steps of {STEP:g}", lambda: euler_loop(tokens.tolist(), V.tolist(), end, STEP), np.asarray)
    return [first, loops, *others]


def _case(name: str, words: str, V: FloatArray) -> Case:
    title = f"Self-attention, {words}, uniform tokens, n = 40, d = 3, T = 15"
    return Case(name, title, partial(_methods, V), is_no_worse, "is more accurate than ours")


CASES = [
    _case("polytope_flow", "V = I", np.eye(3)),
    _case("hyperplane_flow", "V with positive entries", hm.matrix("paper-3d")),
]
