"""Theorem 2.1 of arXiv 2305.05465: on the line, attention becomes Boolean."""

import numpy as np

from hardmax._types import FloatArray
from hardmax.theorems.base import Statement, Verdict, not_met, nothing
from hardmax.theorems.flow import PAPER, Beginning, given_kind, settle
from hardmax.trajectories.smooth import SmoothTrajectory

TOLERANCE = 1e-6


@Statement(
    "Boolean limit",
    "For d = 1, V > 0 and QK > 0, P tends to a Boolean matrix: all rows but at most one tend to the unit vector of the "
    "smallest or of the largest token.",
    f"{PAPER}, Theorem 2.1",
)
@given_kind("boolean")
def boolean(began: Beginning) -> Verdict:
    """The second largest distance of a row from the unit vectors of the extreme tokens: the rows, not the rank."""
    if len(np.unique(began.start)) < len(began.start):
        return not_met("two tokens are equal")
    if len(began.start) == 1:
        return nothing("There is one token, which attends to itself.")
    return settle(began, _distance, TOLERANCE)


def _distance(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
    P, z = trajectory.attention(trajectory.reached - 1), tokens[:, 0]
    off = 1 - np.maximum(P[:, z.argmin()], P[:, z.argmax()])
    order = np.argsort(off)
    return float(off[order[-2]]), "The distance of the second farthest row from Boolean", {"token": int(order[-2])}
