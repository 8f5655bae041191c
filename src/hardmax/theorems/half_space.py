"""F3: what attracts a token lies ahead of it."""

import numpy as np

from hardmax._integers import apply, dot
from hardmax.theorems.base import PAPER, Statement, Verdict, images, missing_hypotheses, token_of, unit_tokens
from hardmax.trajectories.hardmax import HardmaxTrajectory

STATEMENT = Statement(
    "F3 half-space",
    "Tokens that attract z_i lie in the closed half-space {z : <A z_i, z - z_i> >= 0}.",
    f"{PAPER}, Figure 1",
)


@STATEMENT.given(missing_hypotheses)
def half_space(trajectory: HardmaxTrajectory) -> Verdict:
    """Compute <A z_i, z_j - z_i> for every j in C_i at every layer; exactly where it is too close to 0 for floats."""
    Z = unit_tokens(trajectory)
    AZ, sure = images(trajectory, Z)
    smallest, witness = np.inf, None
    for k, sets in enumerate(trajectory.clouds[0].sets):
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        ahead = (AZ[k, owner] * (Z[k, sets.members] - Z[k, owner])).sum(axis=1)
        ahead[owner == sets.members] = np.inf  # z_i itself lies on the boundary, whatever A is
        for p in np.flatnonzero(np.abs(ahead) <= sure):
            ahead[p] = _exact_sign(trajectory, k, int(owner[p]), int(sets.members[p]))
        if ahead.min() < smallest:
            least = int(ahead.argmin())
            smallest = float(ahead[least])
            i, j = token_of(trajectory, int(owner[least])), token_of(trajectory, int(sets.members[least]))
            witness = {"layer": k, "token": i, "attracted by": j}
    if witness is None:
        return STATEMENT.verdict(True, "Every token leads, so none attracts another.")
    return STATEMENT.verdict(
        smallest >= 0,
        f"The smallest <A z_i, z_j - z_i> over j in C_i, relative to the largest token, is {smallest:.2g}.",
        margin=smallest,
        witness=witness,
    )


def _exact_sign(trajectory: HardmaxTrajectory, layer: int, i: int, j: int) -> float:
    """The sign of <A z_i, z_j - z_i> from integers, as a tiny number."""
    here, there = trajectory.history.at(layer, [i, j])
    Az = apply(trajectory.rule.metric.rows, here)
    product = dot(Az, there) - dot(Az, here)
    return 1e-300 * ((product > 0) - (product < 0))
