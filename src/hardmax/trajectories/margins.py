"""By how much the chosen tokens are ahead, in floats where these can tell and from exact differences where not."""

from operator import sub

import numpy as np

from hardmax._integers import apply, as_floats
from hardmax._tensors import unit_rows
from hardmax._types import FloatArray, IntArray
from hardmax.engine.history import History
from hardmax.kernels.sets import Sets
from hardmax.rules.hardmax import Hardmax

CLOSE = 1e-9  # relative gaps below this are computed from exact differences


def margins_of(Z: FloatArray, sets: Sets, rule: Hardmax, layer: int, history: History | None) -> FloatArray:
    """Margin of each class at a layer, shape (m,), from its positions Z and, where these are kept, its exact ones."""
    size = np.abs(Z).max() or 1.0
    if not np.isfinite(size):
        return np.full(len(Z), np.nan)  # tokens that left the range of floats
    unit, A, rows = Z / size, rule.metric.A, np.arange(len(Z))
    products = unit_rows(unit if A is None else unit @ A.T) @ unit.T  # (m, m)
    if rule.causal:
        products[~np.tri(len(Z), dtype=bool)] = -np.inf
    best = products[rows, sets.targets]
    products[np.repeat(rows, sets.sizes), sets.members] = -np.inf
    gaps = np.maximum(best - products.max(axis=1), 0) * size
    close = np.flatnonzero(gaps < CLOSE * size)
    if len(close) and history is not None:
        gaps[close] = rule.grown(_from_differences(close, sets, rule, layer, history), layer)
    return np.asarray(gaps)


def _from_differences(rows: IntArray, sets: Sets, rule: Hardmax, layer: int, history: History) -> FloatArray:
    """⟨A z_i, z_C - z_j⟩ / |A z_i| with exact differences rounded last; rows with one target share them."""
    positions, D = history.at(layer, range(len(sets))), history.denominator(layer)
    gaps = np.empty(len(rows))
    for target in np.unique(sets.targets[rows]):
        differences = [tuple(map(sub, positions[target], x)) for x in positions]
        spread = max(max(map(abs, x)) for x in differences) or 1
        steps = as_floats(differences, spread)  # (m, d), at most 1
        for p in np.flatnonzero(sets.targets[rows] == target):
            direction = apply(rule.metric.rows, positions[rows[p]])
            leads = steps @ unit_rows(as_floats([direction], max(map(abs, direction)) or 1))[0]
            leads[sets[rows[p]]] = np.inf
            if rule.causal:
                leads[rows[p] + 1 :] = np.inf
            gaps[p] = max(leads.min(), 0.0) * (spread / D)
    return gaps
