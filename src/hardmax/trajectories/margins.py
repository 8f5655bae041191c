"""By how much the chosen tokens are ahead, in floats where these can tell and from exact differences where not."""

from operator import sub

import numpy as np

from hardmax._arrays import unit_rows
from hardmax._exact import apply, as_floats
from hardmax._types import FloatArray, IntArray
from hardmax.exact.positions import History
from hardmax.rules.hardmax import Hardmax
from hardmax.search.sets import Sets

CLOSE = 1e-9  # relative gaps below this are computed from exact differences
AT_ONCE = 1 << 22  # products that are held at a time


def margins_of(
    Z: FloatArray, sets: Sets, rows: IntArray, rule: Hardmax, layer: int, history: History | None
) -> FloatArray:
    """Margins of some classes at a layer, from the positions Z of all (m, d) and, where these are kept, exact ones."""
    size = np.abs(Z).max() or 1.0
    if not np.isfinite(size):
        return np.full(len(rows), np.nan)  # tokens that left the range of floats
    each = max(1, AT_ONCE // len(Z))
    parts = [_gaps(Z / size, sets, rows[k : k + each], rule) for k in range(0, len(rows), each)]
    gaps = np.maximum(np.concatenate([np.empty(0), *parts]), 0) * size
    close = np.flatnonzero(gaps < CLOSE * size)
    if len(close) and history is not None:
        gaps[close] = rule.grown(_from_differences(rows[close], sets, rule, layer, history), layer)
    return gaps


def _gaps(unit: FloatArray, sets: Sets, rows: IntArray, rule: Hardmax) -> FloatArray:
    """The same for a few rows, in floats, as all their products fit in memory."""
    A, own, some = rule.metric.A, sets.take(rows), np.arange(len(rows))
    products = unit_rows(unit[rows] if A is None else unit[rows] @ A.T) @ unit.T  # (rows, m)
    if rule.causal:
        products[rows[:, None] < np.arange(len(unit))] = -np.inf
    best = products[some, own.targets]
    products[np.repeat(some, own.sizes), own.members] = -np.inf
    return np.asarray(best - products.max(axis=1))


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
