"""Layers until every token is decided, against the number of tokens: how deep a limit is."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import hardmax as hm

ALPHAS = (0.1, 0.5, 2)
SIZES = {
    2: (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
    3: (10, 30, 100, 300, 1000, 3000, 10_000, 30_000),
    16: (10, 30, 100, 300, 1000, 3000, 10_000),
}
SEEDS = 10


def measure(quick: bool, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Median, least and most layers over ten Gaussian clouds of each kind."""
    rows = []
    for (d, sizes), alpha in product(SIZES.items(), ALPHAS):
        for n in sizes[:2] if quick else sizes:
            if progress is not None:
                progress(f"decided: d = {d}, alpha = {alpha:g}, n = {n:,}")
            clouds = (hm.configuration("gaussian", n=n, d=d, seed=seed) for seed in range(SEEDS))
            limits = [hm.limit(tokens, hm.Hardmax(alpha)) for tokens in clouds]
            layers = [limit.layer for limit in limits if limit.certified]
            rows.append(
                {
                    "d": d,
                    "alpha": alpha,
                    "n": n,
                    "median": float(np.median(layers)),
                    "least": min(layers),
                    "most": max(layers),
                    "certified": len(layers),
                }
            )
    return {"rows": rows}
