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
    ids = np.unique(candidates.members)
    positions = dict(zip(ids.tolist(), keys(ids.tolist()), strict=True))
    directions = [apply(A, x) for x in queries]
    answers: list[IntArray] = [np.empty(0, np.intp)] * len(queries)
    leads: list[int] = [0] * len(queries)
    filtered: dict[
        int, int
        # query -> lower bound of the distance to every candidate removed by the filter
    ] = {}
    work = [(np.arange(len(queries)), candidates)]
    while work:
        rows, options = work.pop()
        alike: dict[bytes, list[int]] = {}
        for r, row in enumerate(rows.tolist()):
            alike.setdefault(options[r].tobytes(), []).append(row)
        for key, members in alike.items():
            option = np.frombuffer(key, np.intp)
            narrowed = None
            if len(members) * len(option) > MIN_FILTERED:
                differences = _differences([positions[j] for j in option.tolist()])
                narrowed = (
                    None
                    if differences is None
                    else _narrow([directions[r] for r in members], *differences)
                )
            if narrowed is None:
                for r in members:
                    answers[r], leads[r] = _largest(
                        directions[r], option, positions, filtered.get(r)
                    )
            else:
                near, bounds = narrowed
                for r, size, bound in zip(
                    members, near.sizes.tolist(), bounds, strict=True
                ):
                    if size < len(option):
                        filtered[r] = min(bound, filtered.get(r, bound))
                work.append(
                    (np.array(members), Sets(near.starts, option[near.members]))
                )
    return Sets.of(answers), leads


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
    best, *rest = sorted(products.values(), reverse=True)
    winners = np.array(
        [j for j in option.tolist() if products[positions[j]] == best], np.intp
    )
    behind = [best - x for x in rest[:1]] + [x for x in (filtered,) if x is not None]
    return winners, min(behind) if behind and len(winners) == 1 else 0


def _differences(rows: list[Row]) -> tuple[FloatArray, int] | None:
    """Return rows minus the first one, divided by their largest entry, and that entry;
    None if all rows are equal.
    """
    differences = [tuple(map(sub, row, rows[0])) for row in rows]
    spread = max(max(map(abs, row)) for row in differences)
    return (as_floats(differences, spread), spread) if spread else None


def _narrow(
    directions: list[Row], keys: FloatArray, spread: int
) -> tuple[Sets, list[int]] | None:
    """Return the keys (|keys| <= 1) that may have the largest product with each
    direction; None if all may.

    Also return, for each direction, a lower bound of how far the others are behind, in
    products of integers.
    """
    sizes = [max(map(abs, x)) or 1 for x in directions]
    Q = np.array(
        [[x / size for x in row] for row, size in zip(directions, sizes, strict=True)]
    )  # |Q| <= 1
    d = keys.shape[1]
    # Keys are rounded once, directions and products once, sums d times: an error of at
    # most (d + 5) units.
    error = 1.01 * ((d + 5) * UNIT * np.abs(Q).sum(axis=1) + d * TINY)  # (directions,)
    slack = (
        4 * error
    )  # a key outside it is behind by more than slack - 2 error = 2 error
    step = max(1, MAX_MEMBERS // len(keys))
    near, *more = (
        Search().near_maxima(Q[k : k + step], keys, slack[k : k + step])[0]
        for k in range(0, len(Q), step)
    )
    for part in more:
        near = near.concatenate(part)
    if (near.sizes == len(keys)).all():
        return None
    return near, [
        int(2 * Fraction(e) * size * spread)
        for e, size in zip(error.tolist(), sizes, strict=True)
    ]
