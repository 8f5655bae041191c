"""Exact comparison, in integers, of the few inner products that float64 leaves
undecided.
"""

from collections.abc import Callable
from fractions import Fraction
from operator import sub
from typing import TypeAlias

import numpy as np

from hardmax._exact import TINY, UNIT, apply, as_floats, dot
from hardmax._types import FloatArray, IntArray, Row
from hardmax.search.dispatch import Search
from hardmax.sets import MAX_MEMBERS, Sets

MIN_FILTERED = 256  # comparisons below which the float filter costs more than it saves

ExactRows: TypeAlias = Callable[[list[int]], list[Row]]


def compare_exactly(
    candidates: Sets, queries: list[Row], keys: ExactRows, A: list[Row] | None = None
) -> tuple[Sets, list[int]]:
    """Return the candidates j of each query x with the largest <A x, N_j>, and a lower
    bound of their lead.

    The lead is the distance from the largest product to the next smaller one among the
    candidates: 0 for a tie.

    Queries with equal candidates are processed together. Where there are many, a float
    filter on differences of candidates comes first: after clustering, differences of
    tokens are far smaller than the tokens, so float64 separates them only if the exact
    differences are formed first and rounded last.
    """
    ids = np.unique(candidates.members).tolist()
    positions = dict(zip(ids, keys(ids), strict=True))
    directions = [apply(A, x) for x in queries]
    answers: list[IntArray] = [np.empty(0, np.intp)] * len(queries)
    leads = [0] * len(queries)
    # For each query a lower bound of the distance to all candidates that are filtered.
    filtered: dict[int, int] = {}
    work = [(np.arange(len(queries)), candidates)]
    while work:
        rows, options = work.pop()
        for option, alike in _group_by_candidates(rows, options):
            narrowed = None
            if len(alike) * len(option) > MIN_FILTERED:
                rows_of_keys = [positions[j] for j in option.tolist()]
                narrowed = _narrow([directions[r] for r in alike], rows_of_keys)
            if narrowed is None:
                for r in alike:
                    found = _largest(directions[r], option, positions, filtered.get(r))
                    answers[r], leads[r] = found
                continue
            near, bounds = narrowed
            for r, size, bound in zip(alike, near.sizes.tolist(), bounds, strict=True):
                if size < len(option):
                    filtered[r] = min(bound, filtered.get(r, bound))
            work.append((np.array(alike), Sets(near.starts, option[near.members])))
    return Sets.of(answers), leads


def _group_by_candidates(
    rows: IntArray, options: Sets
) -> list[tuple[IntArray, list[int]]]:
    """Return each distinct set of candidates, and the rows that have it."""
    groups: dict[bytes, list[int]] = {}
    for option, row in zip(options, rows.tolist(), strict=True):
        groups.setdefault(option.tobytes(), []).append(row)
    return [(np.frombuffer(key, np.intp), alike) for key, alike in groups.items()]


def _largest(
    direction: Row, option: IntArray, positions: dict[int, Row], filtered: int | None
) -> tuple[IntArray, int]:
    """Compare exactly, equal positions once; `filtered` bounds the distance to
    candidates that are no longer here.
    """
    products: dict[Row, int] = {}
    for j in option.tolist():
        if positions[j] not in products:
            products[positions[j]] = dot(direction, positions[j])
    best = max(products.values())
    winners = [j for j in option.tolist() if products[positions[j]] == best]
    if len(winners) > 1:
        return np.array(winners, np.intp), 0
    behind = [best - product for product in products.values() if product < best]
    if filtered is not None:
        behind.append(filtered)
    return np.array(winners, np.intp), min(behind, default=0)


def _differences(rows: list[Row]) -> tuple[FloatArray, int] | None:
    """Return rows minus the first one, divided by their largest entry, and that entry;
    None if all rows are equal.
    """
    differences = [tuple(map(sub, row, rows[0])) for row in rows]
    spread = max(max(map(abs, row)) for row in differences)
    return (as_floats(differences, spread), spread) if spread else None


def _narrow(
    directions: list[Row], positions: list[Row]
) -> tuple[Sets, list[int]] | None:
    """Return the positions that may have the largest product with each direction; None
    if all may.

    Also return, for each direction, a lower bound of how far the others are behind, in
    products of integers.
    """
    differences = _differences(positions)
    if differences is None:
        return None
    keys, spread = differences  # |keys| <= 1
    sizes = [max(map(abs, x)) or 1 for x in directions]
    pairs = zip(directions, sizes, strict=True)
    Q = np.array([[x / size for x in row] for row, size in pairs])  # |Q| <= 1
    d = keys.shape[1]
    # Keys are rounded once, directions and products once, sums d times: an error of at
    # most (d + 5) units.
    error = 1.01 * ((d + 5) * UNIT * np.abs(Q).sum(axis=1) + d * TINY)  # (directions,)
    # A key outside of it is behind by more than slack - 2 error = 2 error.
    slack = 4 * error
    step = max(1, MAX_MEMBERS // len(keys))
    near = Sets.of([])
    for k in range(0, len(Q), step):
        part = slice(k, k + step)
        near = near.concatenate(Search().near_maxima(Q[part], keys, slack[part])[0])
    if (near.sizes == len(keys)).all():
        return None
    bounds = [
        int(2 * Fraction(e) * size * spread)
        for e, size in zip(error.tolist(), sizes, strict=True)
    ]
    return near, bounds
