"""F1: the hull never grows."""

import numpy as np

from hardmax.theorems.base import PAPER, Statement, Verdict, missing_hypotheses, rounding, token_of, unit_tokens
from hardmax.trajectories.hardmax import HardmaxTrajectory

STATEMENT = Statement(
    "F1 hull",
    "The convex hull of the tokens of a layer lies inside that of the layer before.",
    f"{PAPER}, section 3.3",
)


@STATEMENT.given(missing_hypotheses)
def hull(trajectory: HardmaxTrajectory) -> Verdict:
    """Show each new token as the convex combination (1 - b) z_i + b mean(C_i) of old ones, up to rounding."""
    if trajectory.layers == 0:
        return STATEMENT.verdict(True, "No layer was run.")
    Z, cloud = unit_tokens(trajectory), trajectory.clouds[0]
    worst, where = -1.0, (0, 0)
    for k in range(trajectory.layers):
        alpha = trajectory.rule.step(k)
        b = float(alpha / (1 + alpha))
        expected = (1 - b) * Z[k] + b * cloud.sets[k].mean(Z[k], cloud.classes.counts)  # (m, d)
        residual = np.abs(Z[k + 1] - expected).max(axis=1)
        if residual.max() > worst:
            worst, where = float(residual.max()), (k, int(residual.argmax()))
    allowed = rounding(trajectory)
    return STATEMENT.verdict(
        worst <= allowed,
        f"Every token is a convex combination of tokens a layer before, up to {worst:.2g} of the largest one "
        f"(rounding: {allowed:.2g}).",
        margin=allowed - worst,
        witness={"layer": where[0], "token": token_of(trajectory, where[1])},
    )
