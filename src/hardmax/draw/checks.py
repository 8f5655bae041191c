"""What pictures ask for, in a sentence where something else came."""

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import FloatArray
from hardmax._validation import as_array
from hardmax.limit import Limit
from hardmax.trajectories.base import Trajectory


def check_trajectory(trajectory: object) -> None:
    """Refuse what hm.simulate did not return."""
    if not isinstance(trajectory, Trajectory):
        advice = "A limit is drawn by limit.plot()." if isinstance(trajectory, Limit) else ""
        got = type(trajectory).__name__
        raise ParameterTypeError("trajectory", "be a Trajectory from hm.simulate", got, advice)


def check_start(limit: object, tokens: ArrayLike | None) -> FloatArray:
    """The tokens as floats, if they are those whose limit this may be; those it was found for, if none are given."""
    if not isinstance(limit, Limit):
        advice = "A trajectory is drawn by plot_layers(trajectory)." if isinstance(limit, Trajectory) else ""
        raise ParameterTypeError("limit", "be a Limit from hm.limit", type(limit).__name__, advice)
    if tokens is None:
        return limit.start
    shape, advice = tuple(limit.tokens.shape), "Pass what hm.limit was given."
    start = as_array(tokens, "tokens", f"have shape {shape}, as the limit has", advice)
    if start.shape != shape:
        raise ParameterError("tokens", f"have shape {shape}, as the limit has", f"shape {start.shape}", advice)
    start = start.astype(np.float64)
    stayed = limit.emerged == 0  # who leads from layer 0 on never moves
    moved = ~np.isclose(start[limit.leaders[stayed]], limit.points[: len(stayed)][stayed]).all(axis=1)
    if moved.any():
        leader = limit.leaders[stayed][moved][0]
        got = f"others: token {leader} leads from layer 0 on, and would have moved"
        raise ParameterError("tokens", "be those whose limit it is", got, advice)
    return start
