"""F5: the limit is a finite set on the boundary of the polytope of the leaders."""

from fractions import Fraction

import numpy as np

from hardmax._types import AnyArray
from hardmax.theorems.base import PAPER, Statement, Verdict, limit_of, missing_hypotheses
from hardmax.trajectory import Trajectory

STATEMENT = Statement(
    "F5 limit",
    "Every token converges to a point of a finite set S on the boundary of a polytope K; the vertices of K are the "
    "leaders, and every point of S is a leader or a convex combination of leaders.",
    f"{PAPER}, Theorem 1.1",
)


def limit(trajectory: Trajectory) -> Verdict:
    """Certify the limit, then test that leaders are exposed, that S is on the boundary, and that weights are convex."""
    missing = missing_hypotheses(trajectory)
    if missing:
        return STATEMENT.not_met(missing)
    found = limit_of(trajectory)
    if not found.certified:
        return STATEMENT.verdict(None, found.status)
    points = found.exact_points  # (n_points, d) Fractions, leaders first
    A = trajectory.rule.matrix
    exact_A = None if A is None else np.vectorize(Fraction, otypes=[object])(A)
    vertices = points[: len(found.leaders)]
    exposed = _smallest_lead(vertices, vertices, exact_A, strict=True)
    supported = _smallest_lead(points[len(found.leaders) :], vertices, exact_A, strict=False)
    weights = found.sparse_weights
    size = float(np.abs(found.tokens).max()) or 1.0
    residual = float(np.abs(weights @ (found.points[: len(found.leaders)] / size) - found.tokens / size).max())
    convex = weights.data.min() >= 0 and np.abs(weights.sum(axis=1) - 1).max() < 1e-9 and residual < 1e-9
    holds = exposed > 0 and supported >= 0 and convex
    reason = (
        f"{len(points)} limit points, {len(vertices)} vertices; each leader is ahead of the others by at least "
        f"{exposed:.2g} along A z (relative), and convex weights reproduce the limits to {residual:.2g}."
    )
    return STATEMENT.verdict(bool(holds), reason, margin=min(exposed, supported), witness={"layer": found.layer})


def _smallest_lead(points: AnyArray, vertices: AnyArray, A: AnyArray | None, *, strict: bool) -> float:
    """Smallest <A s, s - v> / <A s, s> over points s and vertices v, s itself left out if `strict`; exact in sign."""
    smallest = np.inf
    for p, s in enumerate(points):
        As = s if A is None else A @ s
        own = As @ s
        if own <= 0:
            return -np.inf
        others = np.delete(vertices, p, axis=0) if strict else vertices
        if len(others):
            lead = own - max(others @ As)
            smallest = min(smallest, float(lead / own) or float(np.sign(lead)) * 5e-324)
    return smallest
