"""The layer z <- z + b (c - z) in both arithmetics: floats with an error bound, and
integers over one denominator.

c is the mean of the argmax set C_i, and b = alpha / (1 + alpha). With alpha = p/q the
tokens of a layer, integers N_i over one denominator D, become

    N_i+ = q L N_i + (p L / M_i) sum_{j in C_i} w_j N_j,     D+ = (p + q) L D,

with w_j the multiplicities, M_i their sum over C_i, and L the least common multiple of
all M_i.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from hardmax._exact import TINY, UNIT, combine, common_denominator
from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.sets import Classes, Sets


def step_share(alpha: Fraction) -> float:
    """Return b = alpha / (1 + alpha), the share of the way to the mean."""
    return float(alpha / (1 + alpha))


def move(tokens: FloatArray, means: FloatArray, b: float) -> FloatArray:
    """Return the tokens after one layer, in floats."""
    return tokens + b * (means - tokens)


def error_after(error: float, largest_set: int) -> float:
    """Return the error of a coordinate after `move`, of tokens of size at most 1.

    With given sets a layer is a convex combination, so that it does not enlarge the
    error of its input. Rounding adds a few units, and two more for each member of the
    largest set, whose mean is a sum.
    """
    of_mean = 2 * largest_set * UNIT if largest_set > 1 else 0.0
    return error + 8 * UNIT + of_mean + 4 * TINY


@dataclass(frozen=True, eq=False)
class Layer:
    """What was searched at one layer: some classes, and their argmax sets."""

    rows: IntArray  # (r,) classes, ascending
    sets: Sets  # (r rows)

    def set_of(self, i: int) -> IntArray:
        """Return C_i of a class that was searched."""
        return self.sets[np.searchsorted(self.rows, i)]

    def part(self, begin: int, end: int) -> "Layer":
        """Return the classes from `begin` to `end`, numbered from 0."""
        first, last = np.searchsorted(self.rows, [begin, end]).tolist()
        inner = self.sets.starts[first : last + 1]
        members = self.sets.members[inner[0] : inner[-1]]
        return Layer(
            self.rows[first:last] - begin, Sets(inner - inner[0], members - begin)
        )


class ExactPositions:
    """Exact positions of classes at every layer, computed from the argmax sets when
    they are used.

    Each token set has a denominator of its own at each layer.

    Parameters
    ----------
    classes : Classes
        The tokens at layer 0.
    step : callable
        Returns alpha of a layer.
    layers : sequence of Layer
        What was searched at each layer; it may grow.
    last : (m,) array
        Layer at which each class was last searched; its set is the same from then on.
    """

    def __init__(
        self,
        classes: Classes,
        step: Callable[[int], Fraction],
        layers: Sequence[Layer],
        last: IntArray,
    ) -> None:
        self._classes = classes
        self._step = step
        self._layers = layers
        self._last = last
        self._rows: list[dict[int, Row]] = []  # integers by layer and class
        batch = range(len(classes.sizes))
        self._denominators: list[list[int]] = [[] for _ in batch]
        # L of each layer whose next denominator is known, for each token set
        self._multiples: list[list[int]] = [[] for _ in batch]

    def at(self, layer: int, ids: Iterable[int]) -> list[Row]:
        """Return the integers of the given classes at a layer, over the `denominator`
        of their token set.
        """
        ids = list(ids)
        while len(self._rows) <= layer:
            self._rows.append({})
        missing: list[set[int]] = []  # at this layer and at those before it
        needed = set(ids)
        while todo := needed - self._rows[layer - len(missing)].keys():
            missing.append(todo)
            if len(missing) > layer:
                break
            before = layer - len(missing)
            needed = todo | {j for i in todo for j in self._set_of(before, i).tolist()}
        while missing:
            self._fill(layer + 1 - len(missing), missing.pop())
        return [self._rows[layer][i] for i in ids]

    def denominator(self, layer: int, token_set: int = 0) -> int:
        """Return the denominator of the tokens of a token set at a layer."""
        known = self._denominators[token_set]
        first, end = self._classes.offsets[token_set : token_set + 2]
        if not known:
            known.append(common_denominator(self._classes.rows[first:end]))
        for k in range(len(known) - 1, layer):
            p, q = self._step(k).as_integer_ratio()
            multiple = self._multiple(k, first, end)
            self._multiples[token_set].append(multiple)
            known.append(known[k] * (p + q) * multiple)
        return known[layer]

    def centroid(self, layer: int, sets: Sets, r: int) -> Row:
        """Return the centroid of a set of classes, times its integer weight, which
        changes no argmax.
        """
        members, weights, _ = sets.shares(r, self._classes.counts)
        return combine(weights, self.at(layer, members))

    def fractions(self, layer: int) -> AnyArray:
        """Return all tokens at a layer as Fractions, (m, d); for one token set."""
        D = self.denominator(layer)
        rows = self.at(layer, range(len(self._classes)))
        return np.array([[Fraction(x, D) for x in row] for row in rows], object)

    def _set_of(self, layer: int, i: int) -> IntArray:
        return self._layers[min(layer, int(self._last[i]))].set_of(i)

    def _multiple(self, layer: int, first: int, end: int) -> int:
        """Return L of a layer: all the weights of its means divide it."""
        counts = self._classes.counts
        totals = set[int]()
        # A class keeps the set of the layer at which it was last searched.
        for k, searched in enumerate(self._layers[: layer + 1]):
            tied = searched.sets.tied
            rows = searched.rows[tied]
            is_current = (k == layer) | (self._last[rows] == k)
            is_current &= (rows >= first) & (rows < end)
            for r in tied[is_current].tolist():
                totals.add(searched.sets.shares(r, counts)[2])
        return lcm(*totals)

    def _fill(self, layer: int, ids: set[int]) -> None:
        """Write rows of a layer from those of the one before, or from the input."""
        after = self._rows[layer]
        owners = self._classes.owners
        if layer == 0:
            for i in ids:
                D = self.denominator(0, owners[i])
                ratios = (x.as_integer_ratio() for x in self._classes.rows[i].tolist())
                after[i] = tuple(p * (D // q) for p, q in ratios)
            return
        before = self._rows[layer - 1]
        p, q = self._step(layer - 1).as_integer_ratio()
        for i in ids:
            self.denominator(layer, owners[i])  # so that the multiple is known
            multiple = self._multiples[owners[i]][layer - 1]
            after[i] = self._moved(before, i, layer - 1, q * multiple, p * multiple)

    def _moved(
        self, before: dict[int, Row], i: int, layer: int, keep: int, pull: int
    ) -> Row:
        """Return keep N_i + pull * mean over C_i of N_j."""
        members = self._set_of(layer, i)
        if len(members) == 1:
            target = before[int(members[0])]
        else:
            searched = self._layers[min(layer, int(self._last[i]))]
            place = np.searchsorted(searched.rows, i)
            ids, weights, total = searched.sets.shares(place, self._classes.counts)
            target = combine(weights, [before[j] for j in ids])
            pull //= total
        own = before[i]
        return tuple(keep * x + pull * y for x, y in zip(own, target, strict=True))
