"""Comparisons in whole numbers, of the few products that floats could not tell apart."""

from collections.abc import Callable
from operator import sub
from typing import TypeAlias

import numpy as np

from hardmax._integers import TINY, UNIT, apply, as_floats, dot
from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.kernels.search import Search
from hardmax.kernels.sets import MOST, Sets

DIRECT = 256  # comparisons below which the float filter costs more than it saves
WHOLE = 1 << 52  # differences of two numbers up to which are floats without rounding

ExactRows: TypeAlias = Callable[[list[int]], list[Row]]


def compared(
    candidates: Sets, queries: list[Row], keys: ExactRows, A: list[Row] | None = None
) -> tuple[Sets, list[int]]:
    """The candidates j of each query x with the largest <A x, N_j>, exactly, and by how much that leads the others.

    The lead is 0 where candidates are tied, and where floats were enough to tell them apart.

    Queries with the same candidates are treated together. Where there are many, a float filter on the differences of
    the candidates goes first: once tokens have gathered, their differences are far below their size, so a filter on
    positions no longer separates them while one on exact differences, rounded last, does.
    """
    ids = np.unique(candidates.members)
    rows_of_ids = keys(ids.tolist())
    positions, whole = dict(zip(ids.tolist(), rows_of_ids, strict=True)), _near_the_first(rows_of_ids)
    directions = [apply(A, x) for x in queries]
    answers: list[IntArray] = [np.empty(0, np.intp)] * len(queries)
    leads = [0] * len(queries)
    work = [(np.arange(len(queries)), candidates)]
    while work:
        rows, options = work.pop()
        alike: dict[bytes, list[int]] = {}
        for r, row in enumerate(rows.tolist()):
            alike.setdefault(options[r].tobytes(), []).append(row)
        for key, members in alike.items():
            option = np.frombuffer(key, np.intp)
            narrowed = None
            if len(members) * len(option) > DIRECT:
                floats = _differences(option, ids, whole, positions)
                narrowed = None if floats is None else _narrow([directions[r] for r in members], floats)
            if narrowed is None:
                for r in members:
                    answers[r], leads[r] = _largest(directions[r], option, positions)
            else:
                work.append((np.array(members), Sets(narrowed.starts, option[narrowed.members])))
    return Sets.of(answers), leads


def _largest(direction: Row, option: IntArray, positions: dict[int, Row]) -> tuple[IntArray, int]:
    """Compare directly; equal positions are compared once."""
    products: dict[Row, int] = {}
    for j in option.tolist():
        if positions[j] not in products:
            products[positions[j]] = dot(direction, positions[j])
    best, *rest = sorted(products.values(), reverse=True)
    winners = np.array([j for j in option.tolist() if products[positions[j]] == best], np.intp)
    return winners, best - rest[0] if rest and len(winners) == 1 else 0


def _near_the_first(rows: list[Row]) -> AnyArray | None:
    """Whole numbers less those of the first row, if 64 bits hold them: (rows, d)."""
    differences = [tuple(map(sub, row, rows[0])) for row in rows]
    return np.array(differences) if max(max(map(abs, row)) for row in differences) < WHOLE else None


def _differences(option: IntArray, ids: IntArray, whole: AnyArray | None, positions: dict[int, Row]) -> AnyArray | None:
    """The positions less the first of them, over the largest of these numbers, rounded once; None if all are equal."""
    if whole is not None:
        some = whole[np.searchsorted(ids, option)]
        some = some - some[0]
        spread = int(np.abs(some).max())
        return some / spread if spread else None  # both are floats without rounding
    first = positions[int(option[0])]
    differences = [tuple(map(sub, positions[j], first)) for j in option.tolist()]
    spread = max(max(map(abs, row)) for row in differences)
    return as_floats(differences, spread) if spread else None


def _narrow(directions: list[Row], keys: FloatArray) -> Sets | None:
    """Which of the keys, |keys| <= 1, may still be the largest for each direction; None if that narrows nothing."""
    sizes = [max(map(abs, x)) or 1 for x in directions]
    Q = np.array([[x / size for x in row] for row, size in zip(directions, sizes, strict=True)])  # |Q| <= 1
    d = keys.shape[1]
    # Each product of two once-rounded numbers, and their sum of d terms, is off by at most (d + 3) units in all.
    slack = 2.02 * ((d + 3) * UNIT * np.abs(Q).sum(axis=1) + d * TINY)  # (directions,)
    step = max(1, MOST // len(keys))
    near, *more = (Search().near_maxima(Q[k : k + step], keys, slack[k : k + step])[0] for k in range(0, len(Q), step))
    for part in more:
        near = near.followed_by(part)
    return None if (near.sizes == len(keys)).all() else near
