"""To the certified limit: seconds, and how they grow with the number of tokens."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks import data
from benchmarks.registry import Answer, Case, Method, Target, size
from benchmarks.results import Row

SIZES = (1_000_000, 10_000, 30_000, 100_000, 300_000)  # the first is what the case is about
SMALL = 1000  # tokens
GROWTH = Target(1.1, "")


def _method(kind: str, alpha: float, n: int, target: Target | None, quick: bool) -> Method:
    def prepare() -> Callable[[], Any]:
        tokens, rule = data.tokens(kind, size(n, quick), 2), hm.Hardmax(alpha)
        hm.limit(data.tokens(kind, SMALL, 2), rule)  # loads compiled code
        return lambda: hm.limit(tokens, rule)

    return Method(
        f"limit, n = {n:,}",
        prepare,
        lambda limit: {"certified": np.array(limit.certified)},
        target=target,
        alone=True,
        facts=lambda limit: {"kernel": limit.stats["kernel"], "layers": limit.layer + 1},
    )


def _methods(kind: str, alpha: float, seconds: float, quick: bool) -> list[Method]:
    return [_method(kind, alpha, n, Target(seconds, "s") if n == SIZES[0] else None, quick) for n in SIZES]


def _certified(ours: Answer, theirs: Answer) -> bool:
    return bool(ours["certified"] and theirs["certified"])


def growth(rows: list[Row]) -> list[Row]:
    """The exponent p of the fit: seconds per layer ~ n**p."""
    n = np.array(sorted(SIZES))
    by_size = sorted(rows, key=lambda row: int(row.method.split("=")[1].replace(",", "")))
    per_layer = [row.seconds / row.facts["layers"] for row in by_size if row.seconds is not None]
    exponent = float(np.polyfit(np.log(n), np.log(per_layer), 1)[0])
    name = "growth of seconds per layer"
    return [Row(name, measured=f"n^{exponent:.2f}", target="at most n^1.1", reached=GROWTH.reached(exponent))]


def _case(name: str, kind: str, alpha: float, seconds: float) -> Case:
    title = f"{data.words(kind, SIZES[0], 2)}, alpha = {alpha}, to the certified limit"
    return Case(name, title, partial(_methods, kind, alpha, seconds), _certified, "is not certified", growth)


CASES = [
    _case("limit_gaussian", "gaussian", 0.5, 10.0),
    _case("limit_ball", "ball", 0.5, 10.0),
    _case("limit_small_alpha", "gaussian", 0.02, 10.0),
]
