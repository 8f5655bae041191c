"""Self-attention in time against the published method, at an accuracy that is no worse."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks.definition import euler_loop
from benchmarks.registry import Answer, Case, Method
from hardmax._types import FloatArray

TIME, STEP = 15.0, 0.01
OURS: dict[str, dict[str, Any]] = {
    "simulate, as it is": {},
    "simulate, rtol=1e-3": {"rtol": 1e-3, "atol": 1e-4},
    "simulate, the same Euler steps": {"method": "euler", "dt": STEP},
}


def no_worse(ours: Answer, theirs: Answer) -> bool:
    """Whether a method that is said to be slower is at least not more accurate."""
    return bool(ours["error"] <= theirs["error"])


def _methods(V: FloatArray, quick: bool) -> list[Method]:
    tokens = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    time, rule = TIME / 10 if quick else TIME, hm.SelfAttention(V=V)

    @cache
    def exact() -> FloatArray:
        return np.asarray(hm.simulate(tokens, rule, times=time, save="last", rtol=1e-12, atol=1e-14).rescaled[-1])

    def error(rescaled: Any) -> Answer:
        return {"error": np.abs(np.asarray(rescaled) - exact()).max()}

    def method(name: str, run: Callable[[], Any], read: Callable[[Any], Any], alone: bool = False) -> Method:
        return Method(
            name,
            lambda: run,
            lambda result: error(read(result)),
            alone=alone,
            compared=not alone,
            facts=lambda result: {"error": f"error {error(read(result))['error']:.0e}"},
        )

    first, *others = (
        method(
            name, partial(hm.simulate, tokens, rule, times=time, **options), lambda run: run.rescaled[-1], bool(options)
        )
        for name, options in OURS.items()
    )
    loops = method(f"loops, steps of {STEP:g}", lambda: euler_loop(tokens.tolist(), V.tolist(), time, STEP), np.asarray)
    return [first, loops, *others]


def _case(name: str, words: str, V: FloatArray) -> Case:
    title = f"Self-attention, {words}, uniform tokens, n = 40, d = 3, T = 15"
    return Case(name, title, partial(_methods, V), no_worse, "is more accurate than ours")


CASES = [
    _case("polytope_flow", "V = I", np.eye(3)),
    _case("hyperplane_flow", "V with positive entries", hm.matrix("paper-3d")),
]
