"""Theorems 1 and 4: tokens that are decided stay so. Tested against sets found without using either theorem."""

import numpy as np

from hardmax._types import IntArray
from hardmax.engine.run import Proof
from hardmax.theorems.base import (
    PROJECT,
    Statement,
    Verdict,
    computed_otherwise,
    evidence,
    given,
    nothing,
    rounding,
    token_of,
    unit_tokens,
    verdict,
)
from hardmax.trajectories.hardmax import HardmaxTrajectory


@Statement(
    "Theorem 1",
    "If C_i = {l} and C_l = {l} at one layer, then C_i = {l} at every later layer, and the distance from z_i to z_l "
    "shrinks by exactly 1/(1 + alpha) a layer. For any A.",
    f"{PROJECT}, Theorem 1",
)
@given(computed_otherwise)
def theorem1(trajectory: HardmaxTrajectory) -> Verdict:
    """Follow each token that follows one leader."""
    return _check(trajectory, Proof.THEOREM_1, "No token follows a single leader.")


@Statement(
    "Theorem 4",
    "If C_i holds leaders alone and a token at their centroid c_i would still see all of them, then C_i is final and "
    "z_i tends to c_i. For any A.",
    f"{PROJECT}, Theorem 4",
)
@given(computed_otherwise)
def theorem4(trajectory: HardmaxTrajectory) -> Verdict:
    """Follow each token that follows several leaders at once."""
    none = "No token follows several leaders that it still sees from their centroid."
    return _check(trajectory, Proof.THEOREM_4, none)


def _check(trajectory: HardmaxTrajectory, proof: Proof, none: str) -> Verdict:
    seen = evidence(trajectory)
    rows = np.flatnonzero(seen.run.proof == proof)
    if not len(rows):
        return nothing(none)
    for i in rows:
        since = seen.run.settled[i]
        for k in range(since, trajectory.layers + 1):
            others = seen.sets[since][i], trajectory.clouds[0].sets[k][i]  # when it was decided, and as recorded
            if not all(np.array_equal(seen.sets[k][i], other) for other in others):
                where = {"layer": k, "token": token_of(trajectory, int(i))}
                return verdict(False, f"C_i of token {where['token']} changes at layer {k}.", witness=where)
    worst, where = _contraction_error(trajectory, rows)
    allowed = rounding(trajectory)
    reason = (
        f"{len(rows)} tokens, sets asked again at every layer and constant; distances shrink as claimed up to "
        f"{worst:.2g} of the largest token (rounding: {allowed:.2g})."
    )
    return verdict(worst <= allowed, reason, margin=allowed - worst, witness=where)


def _contraction_error(trajectory: HardmaxTrajectory, rows: IntArray) -> tuple[float, dict[str, int]]:
    """Largest deviation of z_i^{k+1} - c from (z_i^k - c)/(1 + alpha), c the centroid of C_i, after the decision."""
    Z, seen, cloud = unit_tokens(trajectory), evidence(trajectory), trajectory.clouds[0]
    worst, where = 0.0, {}
    for k in range(trajectory.layers):
        active = rows[seen.run.settled[rows] <= k]
        if not len(active):
            continue
        centres = seen.sets[k].mean(Z[k], cloud.classes.counts)[active]
        rate = float(1 / (1 + trajectory.rule.step(k)))
        off = np.abs(Z[k + 1, active] - centres - rate * (Z[k, active] - centres)).max(axis=1)
        if off.max() >= worst:
            worst, where = float(off.max()), {"layer": k, "token": token_of(trajectory, int(active[off.argmax()]))}
    return worst, where
