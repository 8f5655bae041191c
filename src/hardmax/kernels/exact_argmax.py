"""The largest of several products, compared as whole numbers."""

from operator import sub

import numpy as np

from hardmax._integers import TINY, UNIT, apply, as_floats, dot
from hardmax._types import IntArray, Row
from hardmax.kernels.search import Search

DIRECT = 256  # comparisons below which the float filter costs more than it saves


def argmax(
    queries: list[Row], candidates: list[IntArray], keys: dict[int, Row], A: list[Row] | None
) -> tuple[list[IntArray], list[int]]:
    """For each query x, the candidates j with the largest <A x, N_j>, exactly, and by how much that leads the others.

    The lead is 0 where candidates are tied, and where floats were enough to tell them apart.

    Queries with the same candidates are treated together. Where there are many, a float filter on the differences of
    the candidates goes first: once tokens have gathered, their differences are far below their size, so a filter on
    positions no longer separates them while one on exact differences, rounded last, does.
    """
    answers: list[IntArray] = [np.empty(0, np.intp)] * len(queries)
    leads = [0] * len(queries)
    directions = [apply(A, x) for x in queries]
    work = [(np.arange(len(queries)), candidates)]
    while work:
        rows, options = work.pop()
        groups: dict[bytes, list[int]] = {}
        for row, option in zip(rows.tolist(), options, strict=True):
            groups.setdefault(option.tobytes(), []).append(row)
        for key, members in groups.items():
            option = np.frombuffer(key, np.intp)
            narrowed = _narrow([directions[r] for r in members], [keys[j] for j in option.tolist()])
            if narrowed is None:
                for r in members:
                    answers[r], leads[r] = _largest(directions[r], option, keys)
            else:
                work.append((np.array(members), [option[near] for near in narrowed]))
    return answers, leads


def _largest(direction: Row, option: IntArray, keys: dict[int, Row]) -> tuple[IntArray, int]:
    """Compare directly; equal positions are compared once."""
    products: dict[Row, int] = {}
    for j in option.tolist():
        if keys[j] not in products:
            products[keys[j]] = dot(direction, keys[j])
    best, *rest = sorted(products.values(), reverse=True)
    winners = np.array([j for j in option.tolist() if products[keys[j]] == best], np.intp)
    return winners, best - rest[0] if rest and len(winners) == 1 else 0


def _narrow(directions: list[Row], positions: list[Row]) -> list[IntArray] | None:
    """Indices of the positions that may still be the largest for each direction; None if that narrows nothing."""
    if len(directions) * len(positions) <= DIRECT:
        return None
    differences = [tuple(map(sub, x, positions[0])) for x in positions]
    spread = max(max(map(abs, x)) for x in differences)
    if spread == 0:
        return None
    sizes = [max(map(abs, x)) or 1 for x in directions]
    Q = np.array([[x / size for x in row] for row, size in zip(directions, sizes, strict=True)])  # |Q| <= 1
    keys = as_floats(differences, spread)  # (positions, d), |keys| <= 1
    d = keys.shape[1]
    # Each product of two once-rounded numbers, and their sum of d terms, is off by at most (d + 3) units in all.
    slack = 2.02 * ((d + 3) * UNIT * np.abs(Q).sum(axis=1) + d * TINY)  # (directions,)
    near, _ = Search().near_maxima(Q, keys, slack)
    return None if (near.sizes == len(positions)).all() else [near[r] for r in range(len(near))]
