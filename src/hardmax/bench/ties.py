"""What exact ties cost: the sets of `maximisers` against the same kernel told to keep its float argmax."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hardmax import kernels
from hardmax._types import FloatArray
from hardmax.bench import data
from hardmax.bench.agreement import choice, same_sets
from hardmax.bench.peers import ours, search_arguments
from hardmax.bench.registry import Case, Method, Target, size

WHY = "chooses other tokens"
SHARE = Target(0.95)  # of our seconds: exactness costs at most 5 %


def _plain(make: Callable[[], FloatArray], kernel: str) -> Method:
    """Scaled tokens in, a float argmax out: no check, no slack, nothing compared again."""

    def prepare() -> Callable[[], Any]:
        queries, keys, slack = search_arguments(make())
        nothing = np.zeros_like(slack)
        kernels.maximisers(queries[:64], kernel=kernel)
        return lambda: kernels.Search(kernel).near_maxima(queries, keys, nothing)[0]

    name = f'kernel="{kernel}" without slack'
    return Method(name, prepare, lambda sets: choice(sets.starts, sets.members), target=SHARE)


def _methods(kind: str, n: int, d: int, kernel: str, quick: bool) -> list[Method]:
    make = partial(data.tokens, kind, size(n, quick), d)
    return [ours(make, kernel), _plain(make, kernel)]


def _case(kernel: str, n: int, d: int) -> Case:
    title = f"{data.words('gaussian', n, d)}, one layer: exact ties against a plain argmax"
    return Case(f"ties_{kernel}", title, partial(_methods, "gaussian", n, d, kernel), same_sets, WHY)


CASES = [_case("hull", 100_000, 2), _case("fused", 10_000, 16), _case("gemm", 10_000, 256)]
