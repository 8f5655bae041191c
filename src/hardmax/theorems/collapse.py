"""V = -I in arXiv 2305.05465: tokens collapse to the origin."""

import numpy as np
from scipy import linalg

from hardmax._types import FloatArray
from hardmax.theorems.base import Statement, Verdict, nothing, verdict
from hardmax.theorems.flow import HORIZONS, PAPER, Beginning, given_kind

LEAST_PACE = 0.5  # of 1/c, in units of 2t, where 1 is expected: see docs/theorems.md
MEAN_GONE = 1e-3  # of the largest norm at the start


@Statement(
    "collapse",
    "For V = -I (or a negative multiple) and Q^T K symmetric positive definite, every token tends to 0.",
    f"{PAPER}, on V = -I",
)
@given_kind("collapse")
def collapse(began: Beginning) -> Verdict:
    """How fast 1/c grows, with c the largest eigenvalue of the covariance of B^{1/2} x, and how the mean vanishes.

    c falls as 1/(2t), too slowly to wait for 0; for small tokens it hardly falls at first, but 1/c always grows by 2t.
    """
    first = float(np.linalg.norm(began.start, axis=1).max())
    if first == 0:
        return nothing("All tokens are at 0.")
    root = np.real(linalg.sqrtm(began.B))
    for horizon in HORIZONS:
        trajectory = began.at(2 * horizon)
        if trajectory.problem:
            return verdict(None, trajectory.problem)
        middle, end = (trajectory.array[k] @ root.T for k in (len(trajectory.saved) // 2, -1))
        mean = float(np.linalg.norm(trajectory.array[-1].mean(axis=0))) / first
        pace = (1 / _largest(end) - 1 / _largest(middle)) / (2 * horizon) if _largest(end) > 0 else np.inf
        if _largest(end) > 0 and np.finfo(np.float64).eps / _largest(end) > 0.1 * horizon:
            return verdict(None, "The tokens are so small that floats cannot see how 1/c grows.")
        found = (
            f"1/c grew by {pace:.3g} of 2t from lambda t = {horizon:g} to {2 * horizon:g} (at least {LEAST_PACE:g}), "
            f"and the mean is {mean:.2g} of the first norm."
        )
        if pace > LEAST_PACE and mean < MEAN_GONE:
            return verdict(True, found, margin=min(pace, 1e300) - LEAST_PACE)
    return verdict(False, found, margin=pace - LEAST_PACE)


def _largest(tokens: FloatArray) -> float:
    """c; 0 where all tokens are equal up to rounding."""
    centred = tokens - tokens.mean(axis=0)
    c = float(np.linalg.norm(centred, 2)) ** 2 / len(tokens)
    return c if c > (1e-12 * float(np.abs(tokens).max())) ** 2 else 0.0
