"""Theorems 3.1 and 5.2 of arXiv 2305.05465: tokens end where they follow themselves, the vertices of a polytope."""

import numpy as np

from hardmax._types import FloatArray
from hardmax.theorems.base import Statement, Verdict, nothing
from hardmax.theorems.flow import OUTSIDE, PAPER, Beginning, Measure, given_kind, settle, unit_size
from hardmax.trajectories.smooth import SmoothTrajectory

TOLERANCE = 1e-4


@Statement(
    "polytope",
    "For V = I (or a positive multiple) and Q^T K symmetric positive definite, every rescaled token tends to a point "
    "of the limit's hull that follows itself: max_j ⟨B z_i, z_j - z_i⟩ = 0, with B = Q^T K.",
    f"{PAPER}, Theorem 3.1",
)
@given_kind("polytope")
def polytope(began: Beginning) -> Verdict:
    """max_ij ⟨B z_i, z_j - z_i⟩ / (|B| R^2), with R the largest norm."""
    return settle(began, _gain(began.B, np.eye(len(began.B))), TOLERANCE)


@Statement(
    "polytope times subspace",
    "Where the leading eigenvalue of V is positive and multiple with its whole eigenspace, and all others are smaller, "
    "the components in that eigenspace tend to points that follow themselves; the others are free.",
    f"{PAPER}, Theorem 5.2",
)
@given_kind("product")
def product(began: Beginning) -> Verdict:
    """The same of the components in the leading eigenspace."""
    expected = began.expected
    if began.is_outside(expected.dual):
        return nothing(OUTSIDE)
    return settle(began, _gain(began.B, expected.leading @ expected.dual.T), TOLERANCE, gap=began.gap)


def _gain(B: FloatArray, projector: FloatArray) -> Measure:
    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        points = unit_size(tokens @ projector.T)
        points = points / (float(np.linalg.norm(points, axis=1).max()) or 1.0)
        products = points @ B @ points.T  # ⟨B^T z_i, z_j⟩: B is symmetric
        gains = (products - np.diag(products)[:, None]).max(axis=1) / float(np.linalg.norm(B, 2))
        worst = int(gains.argmax())
        return float(gains[worst]), "The most that a token would gain by following another", {"token": worst}

    return measure
