"""What was cloud by cloud, quadratic or large: batches, the radius of a limit, tokens within rounding of each other."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks import data
from benchmarks.registry import Answer, Case, Method, Target, equal, size
from hardmax._types import FloatArray
from hardmax.exact.argmax import Scaled, exact_rows, slack_of
from hardmax.exact.comparison import compare_exactly
from hardmax.exact.run import Run
from hardmax.search.reference import near_maxima
from hardmax.search.sets import Sets

RULE, LAYERS, N = hm.Hardmax(0.5), 10, 100
TIMES = Target(20.0)
AGREE = 1e-6  # of the radius: rounding of the gaps


def _loaded(make: Callable[[], Any], run: Callable[[Any], Any]) -> Callable[[], Callable[[], Any]]:
    """Draw what is needed, with compiled code loaded, before the clock starts."""

    def prepare() -> Callable[[], Any]:
        given = make()
        run(given[:2])
        return lambda: run(given)

    return prepare


def _batch(clouds: int, d: int, quick: bool) -> FloatArray:
    count = size(clouds, quick)
    return data.tokens("gaussian", count * N, d).reshape(count, N, d)


def _limits(d: int, quick: bool) -> list[Method]:
    make = partial(_batch, 1000, d, quick)
    whole = Method(
        "limit of the batch", _loaded(make, lambda x: hm.limit(x, RULE)), lambda limits: {"tokens": limits.tokens}
    )
    each = Method(
        "limit of each cloud",
        _loaded(make, lambda x: [hm.limit(cloud, RULE) for cloud in x]),
        lambda limits: {"tokens": np.stack([one.tokens for one in limits])},
        target=TIMES,
    )
    return [whole, each]


def _simulations(d: int, quick: bool) -> list[Method]:
    make = partial(_batch, 1000, d, quick)
    whole = Method(
        f"simulate, {LAYERS} layers of the batch",
        _loaded(make, lambda x: hm.simulate(x, RULE, layers=LAYERS)),
        lambda run: {"tokens": run.tokens},
    )
    each = Method(
        f"simulate, {LAYERS} layers of each cloud",
        _loaded(make, lambda x: [hm.simulate(cloud, RULE, layers=LAYERS) for cloud in x]),
        lambda runs: {"tokens": np.stack([run.tokens for run in runs], axis=1)},
        target=TIMES,
    )
    return [whole, each]


def _radius(kernel: str, tokens: FloatArray) -> float:
    """As `Limit.radius` finds it, for tokens that are decided within three layers or are not asked further."""
    run = Run(RULE, tokens, kernel=kernel, gaps=True)
    for _ in range(3):
        run.choose()
        run.advance()
    return run.state.radius(run.smallest_gap)


def _radii(n: int, d: int, quick: bool) -> list[Method]:
    make = partial(data.tokens, "gaussian", size(n, quick), d)
    names = {"auto": "gaps by searches", "numpy": "gaps by all products"}
    return [
        Method(name, _loaded(make, partial(_radius, kernel)), lambda radius: {"radius": np.array(radius)})
        for kernel, name in names.items()
    ]


def _same_radius(ours: Answer, theirs: Answer) -> bool:
    return bool(np.isclose(ours["radius"], theirs["radius"], rtol=AGREE, atol=0))


def _gathered(n: int, d: int, quick: bool) -> FloatArray:
    whole = np.random.default_rng(0).integers(0, 12, size=(size(n, quick), d))
    return np.asarray(1 + 2.0**-52 * np.unique(whole, axis=0))


def _at_once(tokens: FloatArray) -> Sets:
    """All candidates of all rows, then the exact comparison."""
    scaled = Scaled.of(tokens)
    slack = slack_of(scaled.values, scaled.error, scaled.values, scaled.error)
    rows = exact_rows(tokens)
    return compare_exactly(near_maxima(scaled.values, scaled.values, slack)[0], rows(list(range(len(tokens)))), rows)[0]


def _memory(quick: bool) -> list[Method]:
    make = partial(_gathered, 8000, 4, quick)
    ways = {"candidates in parts": hm.argmax_sets, "all candidates at once": _at_once}
    return [
        Method(name, _loaded(make, way), lambda sets: {"starts": sets.starts, "members": sets.members})
        for name, way in ways.items()
    ]


CASES = [
    Case("batch_limit", f"1,000 clouds of {N} Gaussian tokens, d = 2, limits", partial(_limits, 2), equal, "differs"),
    Case(
        "batch_limit_d16",
        f"1,000 clouds of {N} Gaussian tokens, d = 16, limits",
        partial(_limits, 16),
        equal,
        "differs",
    ),
    Case("batch_simulate", f"1,000 clouds of {N} Gaussian tokens, d = 2", partial(_simulations, 2), equal, "differs"),
    Case("radius_plane", "Gaps of 30,000 Gaussian tokens, d = 2", partial(_radii, 30_000, 2), _same_radius, "differs"),
    Case("radius_space", "Gaps of 30,000 Gaussian tokens, d = 3", partial(_radii, 30_000, 3), _same_radius, "differs"),
    Case("gathered", "8,000 uniform tokens within rounding of each other, d = 4", _memory, equal, "differs"),
]
