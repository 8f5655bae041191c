"""F4: leaders exist and stand still."""

import numpy as np

from hardmax.theorems.base import PAPER, Statement, Verdict, evidence, missing_hypotheses, token_of, unit_tokens
from hardmax.trajectories.hardmax import HardmaxTrajectory

STATEMENT = Statement(
    "F4 leaders",
    "A token with C_i = {i} at some layer never moves again, and at least one token leads.",
    f"{PAPER}, Lemma 5.1",
)


@STATEMENT.given(missing_hypotheses)
def leaders(trajectory: HardmaxTrajectory) -> Verdict:
    """Measure how far each leader moves after it emerged, and ask at every later layer whether C_i = {i} still."""
    Z, emerged = unit_tokens(trajectory), trajectory.clouds[0].emerged
    found = np.flatnonzero(emerged >= 0)
    if not len(found):
        return STATEMENT.verdict(False, "No token leads.")
    worst, witness = 0.0, {"token": token_of(trajectory, int(found[0]))}
    for i in found:
        moved = float(np.abs(Z[emerged[i] :, i] - Z[emerged[i], i]).max())
        lost = [k for k in range(emerged[i], trajectory.layers + 1) if evidence(trajectory).sets[k][i].tolist() != [i]]
        if lost:
            where = {"layer": lost[0], "token": token_of(trajectory, int(i))}
            return STATEMENT.verdict(False, f"Token {where['token']} stops leading at layer {lost[0]}.", witness=where)
        if moved > worst:
            worst, witness = moved, {"token": token_of(trajectory, int(i))}
    reason = f"{len(found)} of {len(emerged)} tokens lead; after that they move by {worst:.2g} of the largest token."
    return STATEMENT.verdict(worst == 0, reason, margin=-worst if worst else 0.0, witness=witness)
