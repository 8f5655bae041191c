"""Exact positions of one token set, layer by layer, computed on access.

All tokens of a layer are integers over one denominator. A layer with alpha = p/q is, in those integers,

    N_i+ = q L N_i + (p L / M_i) sum_{j in C_i} w_j N_j,     D+ = (p + q) L D,

with w_j the multiplicities, M_i their sum over C_i, and L the least common multiple of all M_i.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from hardmax._exact import combine, common_denominator
from hardmax._types import AnyArray, IntArray, Row
from hardmax.search.sets import Sets


class History:
    """Exact positions of every class at every layer so far, computed lazily from the recorded sets."""

    def __init__(self, rows: AnyArray, counts: IntArray, alpha: Callable[[int], Fraction]) -> None:
        self._rows, self._counts, self._alpha = rows, counts, alpha
        self.sets: list[Sets] = []
        self._known: list[dict[int, Row]] = [{}]  # rows by layer and class
        self._denominators: list[int] = []
        self._commons: list[int] = []  # L of each layer whose next denominator is known

    def record(self, sets: Sets) -> None:
        self.sets.append(sets)
        self._known.append({})

    def denominator(self, layer: int) -> int:
        if not self._denominators:
            self._denominators.append(common_denominator(self._rows))
        for k in range(len(self._denominators) - 1, layer):
            p, q = self._alpha(k).as_integer_ratio()
            self._commons.append(self.sets[k].denominator(self._counts))
            self._denominators.append(self._denominators[k] * (p + q) * self._commons[k])
        return self._denominators[layer]

    def at(self, layer: int, ids: Iterable[int]) -> list[Row]:
        """Return integer rows of the given classes at a layer; divide by `denominator(layer)`."""
        ids = list(ids)
        missing: list[set[int]] = []  # at this layer and at those before it
        needed = set(ids)
        while todo := needed - self._known[layer - len(missing)].keys():
            missing.append(todo)
            if len(missing) > layer:
                break
            needed = todo | {j for i in todo for j in self.sets[layer - len(missing)][i].tolist()}
        while missing:
            self._fill(layer + 1 - len(missing), missing.pop())
        return [self._known[layer][i] for i in ids]

    def _fill(self, layer: int, ids: set[int]) -> None:
        """Write rows of a layer from those of the one before, or from the input."""
        after, D = self._known[layer], self.denominator(layer)
        if not layer:
            for i in ids:
                ratios = (x.as_integer_ratio() for x in self._rows[i].tolist())
                after[i] = tuple(p * (D // q) for p, q in ratios)
            return
        before, sets, L = self._known[layer - 1], self.sets[layer - 1], self._commons[layer - 1]
        p, q = self._alpha(layer - 1).as_integer_ratio()
        for i in ids:
            members, weights, total = sets.shares(i, self._counts)
            keep, pull = q * L, p * (L // total)
            moved = before[members[0]] if total == 1 else combine(weights, [before[j] for j in members])
            after[i] = tuple(keep * x + pull * y for x, y in zip(before[i], moved, strict=True))

    def centroid(self, layer: int, sets: Sets, r: int) -> Row:
        """Return the centroid of a set of classes, times its integer weight, which changes no argmax."""
        members, weights, _ = sets.shares(r, self._counts)
        return combine(weights, self.at(layer, members))

    def fractions(self, layer: int) -> AnyArray:
        rows, D = self.at(layer, range(len(self._rows))), self.denominator(layer)
        return np.array([[Fraction(x, D) for x in row] for row in rows], object)
