"""Theorems 2 and 3: when Theorem 1 alone decides everything, and that it nearly always does."""

import numpy as np

from hardmax.engine.run import Proof, Run
from hardmax.theorems.base import PROJECT, Statement, Verdict, limit_of, missing_hypotheses
from hardmax.trajectories.hardmax import HardmaxTrajectory

PATIENCE = 1000  # layers within which Theorem 1 must have decided what the limit says it will

THEOREM_2 = Statement(
    "Theorem 2",
    "Theorem 1 decides every token at a finite layer if and only if every limit is a leader.",
    f"{PROJECT}, Theorem 2",
)
THEOREM_3 = Statement(
    "Theorem 3",
    "For almost every input every limit is a leader.",
    f"{PROJECT}, Theorem 3",
)


@THEOREM_2.given(missing_hypotheses)
def theorem2(trajectory: HardmaxTrajectory) -> Verdict:
    """Compare where the limit says tokens end with which tokens Theorem 1 decides."""
    found = limit_of(trajectory)
    if not found.certified:
        return THEOREM_2.verdict(None, found.status)
    all_leaders = bool((found.clusters < len(found.leaders)).all())
    run = Run.of(trajectory.rule, trajectory.clouds[0].classes.rows)
    run.choose()
    while run.layer < (PATIENCE if all_leaders else found.layer) and not run.decided.all():
        run.advance()
        run.choose()
    by_theorem_1 = bool((run.proof == Proof.THEOREM_1).all())
    if all_leaders and not by_theorem_1 and run.layer == PATIENCE:
        return THEOREM_2.verdict(None, f"Every limit is a leader; Theorem 1 has not decided all in {PATIENCE} layers.")
    reason = (
        f"Every limit is a leader, and Theorem 1 has decided every token at layer {run.layer}."
        if all_leaders
        else f"{len(found.points) - len(found.leaders)} limit(s) are no leader, and Theorem 1 leaves "
        f"{int((run.proof != Proof.THEOREM_1).sum())} token(s) open."
    )
    return THEOREM_2.verdict(by_theorem_1 == all_leaders, reason, witness={"layer": run.layer})


@THEOREM_3.given(missing_hypotheses)
def theorem3(trajectory: HardmaxTrajectory) -> Verdict:
    """Look for a tie: an input whose limits are not all leaders must have one."""
    found = limit_of(trajectory)
    if not found.certified:
        return THEOREM_3.verdict(None, found.status)
    others = np.flatnonzero(found.clusters >= len(found.leaders))
    if not len(others):
        return THEOREM_3.verdict(True, "Every limit is a leader here, as it is almost always.", margin=found.radius)
    tied = any(len(sets.tied) for sets in trajectory.clouds[0].sets)
    if tied:
        return THEOREM_3.not_met([f"token {others[0]} ends between leaders, by a tie: one of the exceptional inputs"])
    if trajectory.layers < found.layer:
        return THEOREM_3.verdict(None, f"Token {others[0]} ends at no leader; its tie comes after the last layer kept.")
    return THEOREM_3.verdict(False, f"Token {others[0]} ends at no leader although no tie was met.")
