"""F5: the limit is a finite set on the boundary of the polytope of the leaders."""

import numpy as np

from hardmax._integers import apply, as_floats, dot, over_one_denominator
from hardmax._types import Row
from hardmax.theorems.base import PAPER, Statement, Verdict, limit_of, missing_hypotheses
from hardmax.trajectories.hardmax import HardmaxTrajectory

CLOSE = 1e-9  # leads below this are computed exactly; weights must reproduce the limits this well

STATEMENT = Statement(
    "F5 limit",
    "Every token converges to a point of a finite set S on the boundary of a polytope K; the vertices of K are the "
    "leaders, and every point of S is a leader or a convex combination of leaders.",
    f"{PAPER}, Theorem 1.1",
)


@STATEMENT.given(missing_hypotheses)
def limit(trajectory: HardmaxTrajectory) -> Verdict:
    """Certify the limit, then test that leaders are exposed, that S is on the boundary, and that weights are convex."""
    found = limit_of(trajectory)
    if not found.certified:
        return STATEMENT.verdict(None, found.status)
    leads = len(found.leaders)
    rows, _ = over_one_denominator(found.exact_points)  # leaders first
    exposed = _smallest_lead(rows[:leads], rows[:leads], trajectory.rule.metric.rows, strict=True)
    supported = _smallest_lead(rows[leads:], rows[:leads], trajectory.rule.metric.rows, strict=False)
    weights = found.sparse_weights
    size = float(np.abs(found.tokens).max()) or 1.0
    residual = float(np.abs(weights @ (found.points[: len(found.leaders)] / size) - found.tokens / size).max())
    allowed = CLOSE + 4 * float(np.finfo(np.float64).smallest_subnormal) / size  # floats near zero lie on a coarse grid
    convex = weights.data.min() >= 0 and np.abs(weights.sum(axis=1) - 1).max() < CLOSE and residual < allowed
    holds = exposed > 0 and supported >= 0 and convex
    reason = (
        f"{len(rows)} limit points, {leads} vertices; each leader is ahead of the others by at least "
        f"{exposed:.2g} along A z (relative), and convex weights reproduce the limits to {residual:.2g}."
    )
    return STATEMENT.verdict(bool(holds), reason, margin=min(exposed, supported), witness={"layer": found.layer})


def _smallest_lead(points: list[Row], vertices: list[Row], A: list[Row] | None, *, strict: bool) -> float:
    """Smallest <A s, s - v> / <A s, s> over points s and vertices v, s itself left out if `strict`; exact in sign.

    Floats show which vertices come close; only those are compared exactly.
    """
    size = max((abs(x) for row in vertices for x in row), default=1)
    V = as_floats(vertices, size)
    smallest = np.inf
    for p, s in enumerate(points):
        direction = apply(A, s)
        own = dot(direction, s)
        if own <= 0:
            return -np.inf
        length = max(map(abs, direction))
        level = own / (length * size)
        leads = level - V @ as_floats([direction], length)[0]  # (vertices,), in units of length * size
        close = np.flatnonzero(leads < CLOSE * (level + len(s)))
        leads /= level or 1.0
        for v in close:
            lead = own - dot(direction, vertices[v])
            leads[v] = lead / own if abs(lead) < own else np.sign(float(lead > 0) - 0.5)
            if lead and not leads[v]:
                leads[v] = 1e-300 if lead > 0 else -1e-300
        if strict:
            leads[p] = np.inf
        smallest = min(smallest, float(leads.min()))
    return smallest
