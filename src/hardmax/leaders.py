"""Leaders of a trajectory: index, layer of emergence, margin and followers."""

from dataclasses import dataclass

import numpy as np

from hardmax._errors import ParameterTypeError
from hardmax._exact import format_down
from hardmax._types import FloatArray, IntArray
from hardmax._validation import check_count
from hardmax.trajectories.hardmax import HardmaxTrajectory


@dataclass(frozen=True, eq=False)
class Leader:
    """A leader of a token set. It prints as a sentence.

    Attributes
    ----------
    index : int
        Index of the token.
    emerged : int
        The layer from which it stands still.
    margin : float
        Margin by which C_i = {i} held, in the units of the tokens.
    measured : int
        The layer of the margin: `emerged`, or the last if no other was kept.
    position : (d,) array
        Its position.
    copies : (n_copies,) array of int
        All tokens equal to it, itself included.
    followers : (n_followers,) array of int
        Its followers at the last layer.

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate(hm.configuration("triangle"), hm.Hardmax(0.5), layers=10)
    >>> leader = hm.leader_table(trajectory)[0]
    >>> leader.index, leader.emerged, leader.position
    (0, 0, array([1., 1.]))
    >>> leader.followers
    array([3, 4, 5, 6, 7])
    """

    index: int
    emerged: int
    margin: float
    measured: int
    position: FloatArray
    copies: IntArray
    followers: IntArray

    def __repr__(self) -> str:
        late = f" at layer {self.measured}" if self.measured != self.emerged else ""
        margin = f"by a margin of {format_down(self.margin, 3)}{late}"
        followed = f"followed by {len(self.followers)} at the last layer"
        return f"Leader {self.index}: since layer {self.emerged}, {margin}, {followed}"


def leader_table(
    trajectory: HardmaxTrajectory, *, most: int | None = None
) -> list[Leader]:
    """Describe the leaders of one token set, in the order of their indices.

    Parameters
    ----------
    trajectory : HardmaxTrajectory
        Trajectory of one token set. Margins are those of the layer at which a leader
        emerged, if every layer was kept.
    most : int, optional
        Maximal number of leaders; by default all.

    Returns
    -------
    list of Leader

    Examples
    --------
    >>> import hardmax as hm
    >>> trajectory = hm.simulate([[1.0, 1.0], [-1.0, -1.0], [0.5, 0.25]], hm.Hardmax(0.5), layers=3)
    >>> for leader in hm.leader_table(trajectory):
    ...     print(leader)
    Leader 0: since layer 0, by a margin of 0.883, followed by 1 at the last layer
    Leader 1: since layer 0, by a margin of 1.94, followed by 0 at the last layer
    """
    if not isinstance(trajectory, HardmaxTrajectory):
        got, advice = (
            type(trajectory).__name__,
            "A SmoothTrajectory has `leaders` and `clusters`.",
        )
        raise ParameterTypeError(
            "leader_table", "get the trajectory of hm.Hardmax", got, advice
        )
    if most is not None:
        most = check_count(most, "most", least=0)
    own = trajectory.only_record("hm.leader_table(trajectory[b])")
    labels, followers = (
        trajectory.spread(np.arange(len(own.classes))),
        trajectory.followers(-1),
    )
    order = np.argsort(labels, kind="stable")  # tokens by class, padding first
    starts = np.searchsorted(labels[order], np.arange(len(own.classes) + 1))
    leaders = trajectory.leaders[:most]
    emerged = trajectory.emerged[leaders]
    measured = (
        emerged
        if len(trajectory.saved) > 1
        else np.full_like(emerged, trajectory.layers)
    )
    margins = np.empty(len(leaders))
    for k in np.unique(measured):
        margins[measured == k] = trajectory.margins(int(k), leaders[measured == k])
    table = []
    for p, i in enumerate(leaders.tolist()):
        copies = order[starts[labels[i]] : starts[labels[i] + 1]]
        others = np.setdiff1d(followers.get(i, np.empty(0, np.intp)), copies)
        found = int(emerged[p]), float(margins[p]), int(measured[p])
        table.append(Leader(i, *found, trajectory.array[-1, i], copies, others))
    return table
