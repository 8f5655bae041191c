"""V = -I in arXiv 2305.05465: tokens collapse to the origin."""

import numpy as np

from hardmax.theorems.base import Statement, Verdict
from hardmax.theorems.flow import HORIZONS, PAPER, Scene, given_kind

STATEMENT = Statement(
    "collapse",
    "For V = -I (or a negative multiple) and Q^T K symmetric positive definite, every token tends to 0.",
    f"{PAPER}, on V = -I",
)
SHRINKS = 0.8  # the largest norm falls as 1/sqrt(t): to 0.71 of itself when t doubles
TINY = 1e-6


@given_kind(STATEMENT, "collapse")
def collapse(scene: Scene) -> Verdict:
    """How the largest norm shrinks when time doubles; it falls as a power of t, too slowly to wait for 0."""
    first = float(np.linalg.norm(scene.start, axis=1).max())
    if first == 0:
        return STATEMENT.nothing("All tokens are at 0.")
    before = first
    for horizon in HORIZONS:
        trajectory = scene.at(2 * horizon)
        if trajectory.problem:
            return STATEMENT.verdict(None, trajectory.problem)
        norms = np.linalg.norm(trajectory.array, axis=-1).max(axis=1)  # (times,)
        half, end = float(norms[len(norms) // 2]), float(norms[-1])
        ratio = end / half if end > TINY * first else 0.0
        found = (
            f"The largest norm is {end / first:.2g} of the first, and shrank to {ratio:.2g} of itself while t doubled."
        )
        if ratio < SHRINKS and end < before:
            return STATEMENT.verdict(True, found, margin=SHRINKS - ratio)
        before = end
    return STATEMENT.verdict(False, found, margin=SHRINKS - ratio)
