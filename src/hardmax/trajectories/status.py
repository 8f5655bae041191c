"""Status of trajectories in sentences, which `repr` prints."""

from typing import TYPE_CHECKING

import numpy as np

from hardmax._types import IntArray
from hardmax.rules.sphere import Sphere

if TYPE_CHECKING:
    from hardmax.trajectories.hardmax import HardmaxTrajectory
    from hardmax.trajectories.smooth import SmoothTrajectory


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def leaders_since(emerged: IntArray) -> str:
    """State how many leaders there are, and since which layer."""
    if len(emerged) < 2:
        return f"1 leader, since layer {emerged[0]}." if len(emerged) else "No leader."
    last = emerged.max()
    return f"{len(emerged)} leaders, {f'the last since layer {last}' if last else 'all since layer 0'}."


def hardmax_status(trajectory: "HardmaxTrajectory") -> str:
    """State layers, tokens, leaders, and how many tokens are decided."""
    known, lost = _decided(trajectory), _first_lost(trajectory)
    if not trajectory.batched:
        known = f"{leaders_since(trajectory.emerged[trajectory.leaders])} {known}"
    if lost is not None:
        kind = trajectory.array.dtype
        known += f" Without normalisation tokens leave the range of {kind} from layer {trajectory.saved[lost]} on."
    return f"Ran {count(trajectory.layers, 'layer')} on {_size(trajectory)} {known}"


def _decided(trajectory: "HardmaxTrajectory") -> str:
    rule = trajectory.rule
    if trajectory.batched and not rule.causal:
        done = ((trajectory.decided >= 0) | ~trajectory.mask).all(axis=1)
        return f"Every token is decided in {int(done.sum())} of them."
    if rule.ties != "exact":
        return f"Products within {rule.ties:g} count as ties, so no limit is proved."
    if rule.causal:
        return "With a causal mask no theorem decides where tokens end."
    settled = trajectory.decided[trajectory.mask]
    if (settled >= 0).all():
        return f"Every token is decided since layer {settled.max()}."
    return f"{(settled >= 0).sum()} of {len(settled)} tokens are decided."


def _size(trajectory: "HardmaxTrajectory | SmoothTrajectory") -> str:
    real, d = trajectory.mask, trajectory.array.shape[-1]
    sets = f"{count(len(real), 'token set')} of up to " if trajectory.batched else ""
    return f"{sets}{count(trajectory.n if trajectory.batched else int(real.sum()), 'token')} of dimension {d}."


def _first_lost(trajectory: "HardmaxTrajectory | SmoothTrajectory") -> int | None:
    """Return the first position in `tokens` with a token that is not finite."""
    finite = np.isfinite(trajectory.array[..., trajectory.mask, :]).all(axis=(-1, -2))
    return None if finite.all() else int(np.argmin(finite))


def smooth_status(trajectory: "SmoothTrajectory") -> str:
    """State layers or times, the number of clusters and leaders at the end, and problems."""
    rule, saved, reached = trajectory.rule, trajectory.saved, trajectory.reached
    far = f"from t = 0 to {saved[reached - 1] if reached else 0:.4g}"
    ran = f"Ran {far if rule.continuous else count(int(saved[-1]), 'layer')} on {_size(trajectory)}"
    if trajectory.batched or not reached:
        return f"{ran}{_problems(trajectory)}"
    which = "rescaled tokens" if trajectory.shows_rescaled else "tokens"
    if trajectory.gathering is not trajectory.drawn:
        which += " in the leading directions of V"
    end = "the end" if rule.continuous else "the last layer"
    clusters = count(int(trajectory.clusters.max()) + 1, "cluster")
    leaders = f" {count(len(trajectory.leaders), 'leader') if len(trajectory.leaders) else 'No leader'}."
    named = rule.attends and not isinstance(rule, Sphere)  # there tokens that have met share their attention
    return f"{ran} {clusters} of {which} at {end}.{leaders if named else ''}{_problems(trajectory)}"


def _problems(trajectory: "SmoothTrajectory") -> str:
    """State problems of the integrator, and where tokens left the range of floats."""
    text = f" {trajectory.problem}" if trajectory.problem else ""
    held = trajectory.stats.get("held_from")
    if trajectory.stats.get("rtol_reached", 0) > trajectory.stats.get("rtol", np.inf):
        text = f" The error control was loosened to {trajectory.stats['rtol_reached']:.0e} for sharp attention.{text}"
    if held is not None:
        text = f" From t = {held:.4g} on attention is Boolean up to rounding, and was held.{text}"
    lost = _first_lost(trajectory)
    if lost is None or trajectory.problem:
        return text
    rest = "; the rescaled ones stay in it" if trajectory.reached == len(trajectory.saved) else ""
    return f"{text} Tokens leave the range of {trajectory.array.dtype} from {trajectory.label(lost)} on{rest}."
