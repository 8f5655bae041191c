"""How often points without clusters are said to have some: the price of finding them where they are."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardmax._types import FloatArray

BEGIN = "<!-- made by python -m benchmarks chance -->"
SIZES = (100, 300, 1000, 3000)
DRAWS = 40
KINDS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "uniform, d = 1": lambda random, n: random.random((n, 1)),
    "half a ring with noise": lambda random, n: _arc(random, n),
    "uniform, d = 2": lambda random, n: random.random((n, 2)),
    "Gaussian, d = 2": lambda random, n: random.standard_normal((n, 2)),
    "Gaussian, d = 5": lambda random, n: random.standard_normal((n, 5)),
    "Gaussian, d = 5, one axis eight times as long": lambda random, n: random.standard_normal((n, 5)) * [8, 1, 1, 1, 1],
    "Gaussian, d = 20": lambda random, n: random.standard_normal((n, 20)),
    "Gaussian, d = 100": lambda random, n: random.standard_normal((n, 100)),
}


def _arc(random: np.random.Generator, n: int) -> FloatArray:
    angle = np.pi * random.random(n)
    return np.asarray(np.c_[np.cos(angle), np.sin(angle)] + 0.05 * random.standard_normal((n, 2)))


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Of every kind and size: how many draws have more than one cluster."""
    from hardmax.cluster import HardmaxClustering

    draws, rows = (2 if quick else DRAWS), []
    for kind, draw in KINDS.items():
        for n in SIZES[: 2 if quick else None]:
            if progress is not None:
                progress(f"chance: {kind}, {n:,} points")
            random = np.random.default_rng([n, list(KINDS).index(kind)])
            several = sum(HardmaxClustering().fit(draw(random, n)).n_clusters_ > 1 for _ in range(draws))
            rows.append({"kind": kind, "n": n, "draws": draws, "several": several})
    return {"rows": rows}


def markdown(values: dict[str, Any]) -> str:
    """A line for each kind, a column for each size."""
    sizes = sorted({row["n"] for row in values["rows"]})
    share = {(row["kind"], row["n"]): f"{row['several'] / row['draws']:.0%}" for row in values["rows"]}
    lines = [f"| points without clusters | {' | '.join(f'n = {n:,}' for n in sizes)} |", "|---|" + "---:|" * len(sizes)]
    kinds = dict.fromkeys(row["kind"] for row in values["rows"])
    return "\n".join(lines + [f"| {kind} | {' | '.join(share[kind, n] for n in sizes)} |" for kind in kinds])
