"""Theorems 3.1 and 5.2 of arXiv 2305.05465: tokens end where they follow themselves, the vertices of a polytope."""

import numpy as np

from hardmax._types import FloatArray
from hardmax.theorems.base import Statement, Verdict
from hardmax.theorems.flow import OUTSIDE, PAPER, Measure, Scene, gap_of, given_kind, is_outside, settle, unit_size
from hardmax.trajectories.smooth import SmoothTrajectory

POLYTOPE = Statement(
    "polytope",
    "For V = I (or a positive multiple) and Q^T K symmetric positive definite, every rescaled token tends to a point "
    "of the limit's hull that follows itself: max_j ⟨B z_i, z_j - z_i⟩ = 0, with B = Q^T K.",
    f"{PAPER}, Theorem 3.1",
)
PRODUCT = Statement(
    "polytope times subspace",
    "Where the leading eigenvalue of V is positive and multiple with its whole eigenspace, and all others are smaller, "
    "the components in that eigenspace tend to points that follow themselves; the others are free.",
    f"{PAPER}, Theorem 5.2",
)
TOLERANCE = 1e-4


@given_kind(POLYTOPE, "polytope")
def polytope(scene: Scene) -> Verdict:
    """max_ij ⟨B z_i, z_j - z_i⟩ / (|B| R^2), with R the largest norm."""
    return settle(POLYTOPE, scene, _gain(scene.B, np.eye(len(scene.B))), TOLERANCE)


@given_kind(PRODUCT, "product")
def product(scene: Scene) -> Verdict:
    """The same of the components in the leading eigenspace."""
    if is_outside(scene, scene.expected.dual):
        return PRODUCT.nothing(OUTSIDE)
    return settle(
        PRODUCT, scene, _gain(scene.B, scene.expected.leading @ scene.expected.dual.T), TOLERANCE, gap=gap_of(scene)
    )


def _gain(B: FloatArray, projector: FloatArray) -> Measure:
    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        points = unit_size(tokens @ projector.T)
        points = points / (float(np.linalg.norm(points, axis=1).max()) or 1.0)
        products = points @ B @ points.T  # ⟨B^T z_i, z_j⟩: B is symmetric
        gains = (products - np.diag(products)[:, None]).max(axis=1) / float(np.linalg.norm(B, 2))
        worst = int(gains.argmax())
        return float(gains[worst]), "The most that a token would gain by following another", {"token": worst}

    return measure
