"""Exact positions of one cloud, layer by layer, where someone asks for them.

All tokens of a layer are integers over one denominator. A layer with alpha = p/q is, in those integers,

    N_i+ = q L N_i + (p L / M_i) sum_{j in C_i} w_j N_j,     D+ = (p + q) L D,

with w_j the multiplicities, M_i their sum over C_i, and L the least common multiple of all M_i.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._integers import combine, common_denominator
from hardmax._types import AnyArray, IntArray, Row
from hardmax.kernels.sets import Sets


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

    def centroid(self, layer: int, sets: Sets, r: int) -> Row:
        """Centroid of a set of classes, times its whole-number weight, which changes no argmax."""
        members, weights, _ = sets.shares(r, self._counts)
        return combine(weights, self.at(layer, members))

    def fractions(self, layer: int) -> AnyArray:
        """All classes at a layer as an (m, d) array of Fractions."""
        D = self.denominator(layer)
        rows = [[Fraction(x, D) for x in row] for row in self.at(layer, range(len(self._rows)))]
        exact = np.empty((len(rows), len(rows[0])), object)
        exact[:] = rows
        return exact
