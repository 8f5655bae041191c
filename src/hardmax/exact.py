"""Rational arithmetic: exact positions where someone asks for them, and exact comparisons.

All tokens of a layer are integers over one denominator. A layer with alpha = p/q is, in those integers,

    N_i+ = q L N_i + (p L / M_i) sum_{j in C_i} w_j N_j,     D+ = (p + q) L D,

with w_j the multiplicities, M_i their sum over C_i, and L the least common multiple of all M_i.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from math import lcm
from operator import mul, sub

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.kernels import Search
from hardmax.sets import Sets

UNIT = 2.0**-53  # rounding of one float64 operation, relative
TINY = 2.0**-1022  # and absolute, below the smallest normal number
DIRECT = 256  # comparisons below which the float filter costs more than it saves


def over_one_denominator(values: AnyArray) -> tuple[list[Row], int]:
    """Write the rows of an array of floats or Fractions as integers over one denominator."""
    ratios = [[x.as_integer_ratio() for x in row] for row in values.tolist()]
    denominator = lcm(*{q for row in ratios for _, q in row})
    return [tuple(p * (denominator // q) for p, q in row) for row in ratios], denominator


def common_denominator(values: AnyArray) -> int:
    """The least common denominator of an array of floats or Fractions."""
    if values.dtype == object:
        return lcm(*{x.denominator for x in values.flat})
    mantissas, exponents = np.frexp(values.astype(np.float64))
    whole = np.ldexp(mantissas, 53).astype(np.int64)  # x = whole * 2^(exponent - 53)
    zeros = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # at the end of `whole`; -1 for 0
    return 1 << max(0, int(np.where(whole == 0, 0, 53 - exponents - zeros).max()))


def dot(x: Iterable[int], y: Iterable[int]) -> int:
    """Inner product of two integer rows."""
    return sum(map(mul, x, y))


def apply(A: list[Row] | None, x: Row) -> Row:
    """A x for an integer matrix given by its rows; None is the identity."""
    return x if A is None else tuple(dot(row, x) for row in A)


def combine(weights: Iterable[int], rows: Iterable[Row]) -> Row:
    """sum_j w_j N_j."""
    return tuple(dot(weights, column) for column in zip(*rows, strict=True))


def as_floats(rows: list[Row], denominator: int) -> FloatArray:
    """Each entry divided by the denominator and rounded once."""
    return np.array([[x / denominator for x in row] for row in rows], np.float64)


class History:
    """Exact positions of every class at every layer so far, computed lazily from the recorded sets."""

    def __init__(self, rows: AnyArray, counts: IntArray, alpha: Callable[[int], Fraction]) -> None:
        self._rows = rows
        self._counts = counts
        self._alpha = alpha
        self.sets: list[Sets] = []
        self._known: list[dict[int, Row]] = []
        self._denominators: list[int] = []
        self._commons: dict[int, int] = {}

    @cached_property
    def _first_denominator(self) -> int:
        return common_denominator(self._rows)

    def record(self, sets: Sets) -> None:
        """Append the sets by which the last layer moves."""
        self.sets.append(sets)

    def denominator(self, layer: int) -> int:
        """D of a layer."""
        if not self._denominators:
            self._denominators.append(self._first_denominator)
        for k in range(len(self._denominators) - 1, layer):
            p, q = self._alpha(k).as_integer_ratio()
            self._denominators.append(self._denominators[k] * (p + q) * self._common(k))
        return self._denominators[layer]

    def _common(self, layer: int) -> int:
        """L of a layer."""
        if layer not in self._commons:
            self._commons[layer] = self.sets[layer].denominator(self._counts)
        return self._commons[layer]

    def at(self, layer: int, ids: Iterable[int]) -> list[Row]:
        """Integer rows of the given classes at a layer; divide by `denominator(layer)`."""
        ids = list(ids)
        while len(self._known) <= layer:
            self._known.append({})
        missing = {}
        needed = set(ids)
        k = layer
        while k > 0 and (todo := needed - self._known[k].keys()):
            missing[k] = todo
            needed = todo | {j for i in todo for j in self.sets[k - 1][i].tolist()}
            k -= 1
        self._begin(needed - self._known[0].keys() if k == 0 else set())
        for k in sorted(missing):
            self._advance(k, missing[k])
        return [self._known[layer][i] for i in ids]

    def _begin(self, ids: set[int]) -> None:
        """Write rows of the input as integers."""
        D = self._first_denominator
        for i in ids:
            ratios = (x.as_integer_ratio() for x in self._rows[i].tolist())
            self._known[0][i] = tuple(p * (D // q) for p, q in ratios)

    def _advance(self, layer: int, ids: set[int]) -> None:
        before, after, sets = self._known[layer - 1], self._known[layer], self.sets[layer - 1]
        p, q = self._alpha(layer - 1).as_integer_ratio()
        L = self._common(layer - 1)
        for i in ids:
            members, weights, total = sets.shares(i, self._counts)
            keep, pull = q * L, p * (L // total)
            moved = before[members[0]] if total == 1 else combine(weights, [before[j] for j in members])
            after[i] = tuple(keep * x + pull * y for x, y in zip(before[i], moved, strict=True))

    def centroid(self, layer: int, groups: Sets, r: int) -> Row:
        """Centroid of a group of classes, times its whole-number weight, which changes no argmax."""
        members, weights, _ = groups.shares(r, self._counts)
        return combine(weights, self.at(layer, members))

    def fractions(self, layer: int) -> AnyArray:
        """All classes at a layer as an (m, d) array of Fractions."""
        D = self.denominator(layer)
        rows = [[Fraction(x, D) for x in row] for row in self.at(layer, range(len(self._rows)))]
        exact = np.empty((len(rows), len(rows[0])), object)
        exact[:] = rows
        return exact


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
