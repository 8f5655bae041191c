"""What exact ties cost: a kernel with the slack that finds every tie against the same one told to keep its argmax."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks import data
from benchmarks.agreement import choice, same_sets
from benchmarks.peers import search_arguments
from benchmarks.registry import Case, Method, Target, size
from hardmax._types import FloatArray
from hardmax.exact.argmax import slack_of
from hardmax.search.dispatch import Search

WHY = "chooses other tokens"
SHARE = Target(0.95)  # of our seconds: exactness costs at most 5 %


def _exact(make: Callable[[], FloatArray], kernel: str) -> Method:
    """Scaled tokens in, every key within the slack of the largest out: one for each token, without ties."""

    def prepare() -> Callable[[], Any]:
        queries, keys, _ = search_arguments(make())
        hm.argmax_sets(queries[:64], kernel=kernel)

        def run() -> Any:
            sets, _ = Search(kernel).near_maxima(queries, keys, slack_of(queries, 0.0, keys, 0.0))
            assert not len(sets.tied), "these tokens have ties"
            return sets

        return run

    return Method(f'kernel="{kernel}"', prepare, lambda sets: {"starts": sets.starts, "members": sets.members})


def _plain(make: Callable[[], FloatArray], kernel: str) -> Method:
    """Scaled tokens in, a float argmax out: no slack, nothing to compare again."""

    def prepare() -> Callable[[], Any]:
        queries, keys, _ = search_arguments(make())
        nothing = np.zeros(len(queries))
        hm.argmax_sets(queries[:64], kernel=kernel)
        return lambda: Search(kernel).near_maxima(queries, keys, nothing)[0]

    name = f'kernel="{kernel}" without slack'
    return Method(name, prepare, lambda sets: choice(sets.starts, sets.members), target=SHARE)


def _methods(kind: str, n: int, d: int, kernel: str, quick: bool) -> list[Method]:
    make = partial(data.tokens, kind, size(n, quick), d)
    return [_exact(make, kernel), _plain(make, kernel)]


def _case(kernel: str, n: int, d: int) -> Case:
    title = f"{data.words('gaussian', n, d)}, one layer: exact ties against a plain argmax"
    return Case(f"ties_{kernel}", title, partial(_methods, "gaussian", n, d, kernel), same_sets, WHY)


CASES = [_case("hull", 100_000, 2), _case("scan", 10_000, 16), _case("symmetric", 10_000, 256)]
