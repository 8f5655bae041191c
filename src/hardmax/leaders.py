"""Leaders of a trajectory: who, since when, by what margin, and who follows them."""

from dataclasses import dataclass

import numpy as np

from hardmax._errors import ParameterTypeError
from hardmax._types import FloatArray, IntArray
from hardmax.trajectories.hardmax import HardmaxTrajectory


@dataclass(frozen=True, eq=False)
class Leader:
    """One leader.

    Attributes
    ----------
    index : int
        Which token.
    emerged : int
        The layer from which it stands still.
    margin : float
        By which C_i = {i} held at that layer, in the units of the tokens; NaN if the layer was not kept.
    position : (d,) array
    copies : array
        All tokens equal to it, itself included.
    followers : array
        Who follows it at the last layer.
    """

    index: int
    emerged: int
    margin: float
    position: FloatArray
    copies: IntArray
    followers: IntArray

    def __repr__(self) -> str:
        return (
            f"Leader {self.index}: since layer {self.emerged}, by a margin of {self.margin:.3g}, "
            f"followed by {len(self.followers)} at the last layer"
        )


def leader_table(trajectory: HardmaxTrajectory) -> list[Leader]:
    """Describe every leader of one cloud, in the order of their indices.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate([[1.0, 1.0], [-1.0, -1.0], [0.5, 0.25]], hm.Hardmax(0.5), layers=3)
    >>> for leader in hm.leader_table(trajectory):
    ...     print(leader)
    Leader 0: since layer 0, by a margin of 0.884, followed by 1 at the last layer
    Leader 1: since layer 0, by a margin of 1.94, followed by 0 at the last layer
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        got, advice = type(trajectory).__name__, "A SmoothTrajectory has `leaders` and `clusters`."
        raise ParameterTypeError("leader_table", "get the trajectory of hm.Hardmax", got, advice)
    cloud = trajectory.only_cloud("hm.leader_table(trajectory[b])")
    labels, followers = cloud.spread(np.arange(len(cloud.classes)), trajectory.n), trajectory.followers(-1)
    layers = set(trajectory.emerged[trajectory.leaders].tolist()) & set(trajectory.saved.tolist())
    margins = {k: trajectory.margins(k) for k in layers}
    table = []
    for i in trajectory.leaders.tolist():
        emerged, copies = int(trajectory.emerged[i]), np.flatnonzero(labels == labels[i])
        others = np.setdiff1d(followers.get(i, np.empty(0, np.intp)), copies)
        margin = float(margins[emerged][i]) if emerged in margins else float("nan")
        table.append(Leader(i, emerged, margin, trajectory.array[-1, i], copies, others))
    return table
