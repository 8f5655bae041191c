"""Granularity: radii to the power tau, and the value of tau at which each token stops to lead.

Features f_i = r_i u_i become tokens y_i = r_i^tau u_i. At layer 0 token i leads iff r_i^tau > r_j^tau cos(u_i, u_j) for
every other j, that is iff tau < tau_i, with tau_i = min over {j : r_j > r_i, cos > 0} of -log cos / log(r_j / r_i).
"""

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.engine.run import Run
from hardmax.rules.hardmax import Hardmax

BLOCK = 1 << 22  # numbers that are held at a time
SHORTEST = 1e-140  # in units of the longest token: the squares of shorter ones would be 0
ABOVE = 1.01  # "just above" a threshold, beyond the rounding of powers


def tau_of(granularity: float) -> float:
    """tau = (1 - g) / g: infinite for 0, 1 for a half, 0 for 1."""
    return np.inf if granularity == 0 else (1 - granularity) / granularity


def tokens_at(features: FloatArray, tau: float, fitted: FloatArray | None = None) -> FloatArray:
    """(n, m) tokens f_i (r_i / r_max)^(tau - 1), r_max that of fitted features if these are others.

    For tau = 1 they are the features themselves, to the last bit.
    """
    r, all_r = (np.linalg.norm(f, axis=1) for f in (features, features if fitted is None else fitted))
    return features * ((r / all_r.max()) ** (tau - 1))[:, None]


def capped(features: FloatArray, tau: float) -> float:
    """tau, or the largest one for which the shortest token is not lost to rounding."""
    r = np.linalg.norm(features, axis=1)
    spread = float(np.log(r.min() / r.max()))
    return min(tau, np.log(SHORTEST) / spread) if spread < 0 else tau


def first_leaders(features: FloatArray, tau: float) -> IntArray:
    """Which tokens lead at layer 0: the first of each set of equal ones."""
    run = Run(Hardmax(1.0), tokens_at(features, tau))
    run.choose()
    return np.sort(run.classes.first[run.emerged == 0])


def thresholds(features: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """tau_i of these rows, or of all: infinite where nothing longer lies on the same side."""
    r = np.linalg.norm(features, axis=1)
    u, log_r = features / r[:, None], np.log(r)
    rows = np.arange(len(r)) if rows is None else rows
    found = np.empty(len(rows))
    step = max(1, BLOCK // len(r))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        cosines = u[part] @ u.T  # (step, n)
        longer = log_r - log_r[part, None]
        valid = (longer > 0) & (cosines > 0)
        np.log(np.minimum(cosines, 1.0, out=cosines), out=cosines, where=valid)
        ratio = np.divide(-cosines, longer, out=np.full(cosines.shape, np.inf), where=valid)
        found[start : start + step] = ratio.min(axis=1)
    return found


def largest_thresholds(features: FloatArray, at_least: int) -> FloatArray:
    """The largest thresholds in falling order, at least so many if there are: those above some tau of 1 or less.

    The tokens that lead at that tau are those with larger thresholds, so one pass of the kernel finds whom to ask.
    """
    tau = 1.0
    while len(rows := first_leaders(features, tau)) < min(at_least, len(features)) and tau > 0:
        tau = tau / 4 if tau > 1e-3 else 0.0
    return np.sort(thresholds(features, rows))[::-1]


def finite_tau(features: FloatArray, tau: float) -> float:
    """The tau itself, or where it is infinite one just above all finite thresholds."""
    if np.isfinite(tau):
        return tau
    found = largest_thresholds(features, 1)
    return ABOVE * float(max(found[np.isfinite(found)], default=1.0))
