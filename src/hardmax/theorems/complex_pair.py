"""A complex leading pair of eigenvalues: expected to cluster, not proved."""

import numpy as np

from hardmax._types import FloatArray
from hardmax.theorems.base import Statement, Verdict
from hardmax.theorems.flow import PAPER, Scene, given_kind, settle
from hardmax.trajectories.smooth import SmoothTrajectory

STATEMENT = Statement(
    "complex pair",
    "CONJECTURE: where the leading eigenvalues of V are a complex pair with positive real part, the components of z in "
    "their plane settle.",
    f"{PAPER}, open",
    conjecture=True,
)
TOLERANCE = 1e-4  # of the spread, from lambda t to lambda t - 3


@given_kind(STATEMENT, "complex")
def complex_pair(scene: Scene) -> Verdict:
    """How far the components in the leading plane still move."""

    def measure(tokens: FloatArray, trajectory: SmoothTrajectory) -> tuple[float, str, object]:
        back = int(np.searchsorted(trajectory.saved, trajectory.saved[trajectory.reached - 1] - 3 / scene.rate))
        now, then = tokens @ scene.expected.dual, trajectory.drawn[back] @ scene.expected.dual
        size = float(np.abs(now).max()) or 1.0
        moves = np.abs(now - then).max(axis=1) / size
        return float(moves.max()), "The last move in the leading plane", {"token": int(moves.argmax())}

    return settle(STATEMENT, scene, measure, TOLERANCE)
