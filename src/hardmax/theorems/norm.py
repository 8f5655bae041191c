"""F2: norms never decrease."""

import numpy as np

from hardmax._integers import apply, dot
from hardmax.theorems.base import PAPER, Statement, Verdict, images, missing_hypotheses, token_of, unit_tokens
from hardmax.trajectories.hardmax import HardmaxTrajectory

STATEMENT = Statement(
    "F2 norm",
    "|z_i|_A never decreases, and grows strictly unless the token stands still: unless z_i is the mean of C_i.",
    f"{PAPER}, section 3; a leader stands still, and so does a token in the middle of those it follows",
)


@STATEMENT.given(missing_hypotheses)
def norm(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare squared norms of neighbouring layers; where floats cannot tell, exact positions do."""
    Z = unit_tokens(trajectory)
    AZ, sure = images(trajectory, Z)
    squares = (AZ * Z).sum(axis=-1)  # (layers + 1, m)
    smallest, witness = np.inf, None
    for k, sets in enumerate(trajectory.clouds[0].sets[:-1]):
        growth = squares[k + 1] - squares[k]
        stays = (sets.sizes == 1) & (sets.targets == np.arange(len(sets)))
        for i in np.flatnonzero(~stays & (np.abs(growth) <= sure)):
            growth[i] = _exact_growth(trajectory, k, int(i))
        growth[stays] = np.inf  # F4 tests that leaders stand still
        if growth.min() < smallest:
            smallest = float(growth.min())
            witness = {"layer": k, "token": token_of(trajectory, int(growth.argmin()))}
    if witness is None:
        return STATEMENT.verdict(True, "No token moves.")
    return STATEMENT.verdict(
        smallest > 0,
        f"The smallest growth of a squared norm, relative to the largest token, is {smallest:.2g}.",
        margin=smallest,
        witness=witness,
    )


def _exact_growth(trajectory: HardmaxTrajectory, layer: int, i: int) -> float:
    """Sign of |z_i^{k+1}|_A^2 - |z_i^k|_A^2 from integers, as a tiny number; infinite if z_i does not move at all."""
    history, A = trajectory.history, trajectory.rule.metric.rows
    (old,), (new,) = history.at(layer, [i]), history.at(layer + 1, [i])
    scale = history.denominator(layer + 1) // history.denominator(layer)
    if new == tuple(scale * x for x in old):
        return np.inf
    before = dot(apply(A, old), old) * scale**2
    after = dot(apply(A, new), new)
    return 1e-300 * ((after > before) - (after < before))
