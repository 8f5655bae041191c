"""By how much the chosen tokens are ahead, in floats where these can tell and from exact differences where not."""

from operator import sub
from typing import TYPE_CHECKING

import numpy as np

from hardmax._integers import apply, as_floats
from hardmax._types import FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.trajectories.hardmax import HardmaxTrajectory

CLOSE = 1e-9  # relative gaps below this are computed from exact differences


def margins_of(trajectory: "HardmaxTrajectory", at: int) -> FloatArray:
    """Margin of each class at a saved layer, shape (m,)."""
    cloud = trajectory.clouds[0]
    Z = trajectory.array[at][cloud.real[cloud.classes.first]].astype(np.float64)  # (m, d)
    size = np.abs(Z).max() or 1.0
    if not np.isfinite(size):
        return np.full(len(Z), np.nan)  # tokens that left the range of floats
    sets, rows = cloud.sets[at], np.arange(len(Z))
    Q = _unit(trajectory.images(Z / size))
    products = Q @ (Z / size).T  # (m, m)
    if trajectory.rule.causal:
        products[~np.tri(len(Z), dtype=bool)] = -np.inf
    best = products[rows, sets.targets]
    products[np.repeat(rows, sets.sizes), sets.members] = -np.inf
    gaps = np.maximum(best - products.max(axis=1), 0) * size
    close = np.flatnonzero(gaps < CLOSE * size)
    if len(close) and trajectory.keeps_exact_positions:
        layer = int(trajectory.saved[at])
        gaps[close] = trajectory.rule.grown(_from_differences(trajectory, layer, close), layer)
    return np.asarray(gaps)


def _unit(Q: FloatArray) -> FloatArray:
    """Rows of length 1; zero rows stay. Divided by the largest entry first, whose square cannot underflow."""
    widths = np.abs(Q).max(axis=1, keepdims=True)
    Q = Q / np.where(widths > 0, widths, 1)
    lengths = np.linalg.norm(Q, axis=1, keepdims=True)
    return np.asarray(Q / np.where(lengths > 0, lengths, 1))


def _from_differences(trajectory: "HardmaxTrajectory", layer: int, rows: IntArray) -> FloatArray:
    """⟨A z_i, z_C - z_j⟩ / |A z_i| with exact differences rounded last; rows with one target share them."""
    sets, history, A = trajectory.clouds[0].sets[layer], trajectory.history, trajectory.rule.metric.rows
    positions, D = history.at(layer, range(len(sets))), history.denominator(layer)
    gaps = np.empty(len(rows))
    for target in np.unique(sets.targets[rows]):
        differences = [tuple(map(sub, positions[target], x)) for x in positions]
        spread = max(max(map(abs, x)) for x in differences) or 1
        steps = as_floats(differences, spread)  # (m, d), at most 1
        for p in np.flatnonzero(sets.targets[rows] == target):
            direction = apply(A, positions[rows[p]])
            leads = steps @ _unit(as_floats([direction], max(map(abs, direction)) or 1))[0]
            leads[sets[rows[p]]] = np.inf
            if trajectory.rule.causal:
                leads[rows[p] + 1 :] = np.inf
            gaps[p] = max(leads.min(), 0.0) * (spread / D)
    return gaps
