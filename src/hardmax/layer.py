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
from typing import NamedTuple, TypeAlias

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

    def part(self, begin: int, end: int) -> "Layer":
        """Return the classes from `begin` to `end`, numbered from 0."""
        first, last = self.rows.searchsorted((begin, end)).tolist()
        inner = self.sets.starts[first : last + 1]
        members = self.sets.members[inner[0] : inner[-1]]
        return Layer(
            self.rows[first:last] - begin, Sets(inner - inner[0], members - begin)
        )


Shares: TypeAlias = tuple[list[int], list[int], int]  # as `Sets.shares` returns them


class Targets(NamedTuple):
    """What some classes move towards at a layer."""

    ids: list[int]
    single: list[int]  # the first member of the set of each
    tied: dict[int, Shares]  # the sets with several, by class


class ExactPositions:
    """Exact positions of classes at every layer, computed from the argmax sets when
    they are used.

    Each token set has a denominator of its own at each layer. Values are only ever
    added, under the number of a layer, so that several threads may read.

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
    emerged : (m,) array
        Layer from which each class leads, and so stands still; -1 for not yet.
    """

    def __init__(
        self,
        classes: Classes,
        step: Callable[[int], Fraction],
        layers: Sequence[Layer],
        last: IntArray,
        emerged: IntArray,
    ) -> None:
        self._classes = classes
        self._step = step
        self._layers = layers
        self._last = last
        self._emerged = emerged
        self._rows: list[dict[int, Row]] = []  # integers by layer and class
        # By token set and layer: D, L, and the least common multiple of M_i over the
        # classes that were last searched before the layer.
        batch = range(len(classes.sizes))
        self._denominators: list[dict[int, int]] = [{} for _ in batch]
        self._multiples: list[dict[int, int]] = [{} for _ in batch]
        self._multiples_before: list[dict[int, int]] = [{0: 1} for _ in batch]

    def at(self, layer: int, ids: Iterable[int]) -> list[Row]:
        """Return the integers of the given classes at a layer, over the `denominator`
        of their token set.
        """
        ids = list(ids)
        while len(self._rows) <= layer:
            self._rows.append({})
        # From this layer back to known rows, then forward.
        needed = {layer: set(ids)}
        steps: list[tuple[int, list[int], Targets]] = []
        while needed:
            k = max(needed)
            known = self._rows[k]
            missing = [i for i in needed.pop(k) if i not in known]
            if not missing:
                continue
            if k == 0:
                self._fill_input(missing)
                continue
            emerged = self._emerged[missing].tolist()
            standing = []
            moving = []
            for i, begin in zip(missing, emerged, strict=True):
                if 0 <= begin < k:
                    standing.append(i)
                    needed.setdefault(begin, set()).add(i)
                else:
                    moving.append(i)
            targets = self._targets(k - 1, moving)
            if moving:
                before = needed.setdefault(k - 1, set())
                before.update(moving)
                before.update(targets.single)
                before.update(
                    j for members, _, _ in targets.tied.values() for j in members
                )
            steps.append((k, standing, targets))
        for k, standing, targets in reversed(steps):
            self._fill_standing(k, standing)
            self._fill_moved(k, targets)
        return [self._rows[layer][i] for i in ids]

    def denominator(self, layer: int, token_set: int = 0) -> int:
        """Return the denominator of the tokens of a token set at a layer."""
        known = self._denominators[token_set]
        if layer in known:
            return known[layer]
        if not known:
            first, end = self._classes.offsets[token_set : token_set + 2]
            known[0] = common_denominator(self._classes.rows[first:end])
        for k in range(len(known) - 1, layer):
            p, q = self._step(k).as_integer_ratio()
            multiple = self._multiple(k, token_set)
            self._multiples[token_set][k] = multiple
            known[k + 1] = known[k] * (p + q) * multiple
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

    def _targets(self, layer: int, ids: list[int]) -> Targets:
        """Return what some classes move towards at a layer."""
        classes = np.array(ids, np.intp)
        searched_at = np.minimum(self._last[classes], layer)
        single = np.empty(len(ids), np.intp)
        tied: dict[int, Shares] = {}
        for k in set(searched_at.tolist()):
            searched = self._layers[k]
            at_k = np.flatnonzero(searched_at == k)
            places = searched.rows.searchsorted(classes[at_k])
            single[at_k] = searched.sets.targets[places]
            for r in np.flatnonzero(searched.sets.sizes[places] > 1).tolist():
                shares = searched.sets.shares(places[r], self._classes.counts)
                tied[ids[at_k[r]]] = shares
        return Targets(ids, single.tolist(), tied)

    def _multiple(self, layer: int, token_set: int) -> int:
        """Return L of a layer: all the weights of its means divide it."""
        before = self._multiples_before[token_set]
        # A class keeps the set of the layer at which it was last searched.
        for k in range(len(before), layer + 1):
            before[k] = lcm(before[k - 1], *self._totals(k - 1, token_set, final=True))
        return lcm(before[layer], *self._totals(layer, token_set))

    def _totals(self, layer: int, token_set: int, *, final: bool = False) -> set[int]:
        """Return M_i of the classes of a token set that were searched at a layer; if
        `final`, at no later one.
        """
        searched = self._layers[layer]
        tied = searched.sets.tied
        rows = searched.rows[tied]
        first, end = rows.searchsorted(self._classes.offsets[token_set : token_set + 2])
        tied = tied[first:end]
        if final:
            tied = tied[self._last[rows[first:end]] == layer]
        counts = self._classes.counts
        return {searched.sets.shares(r, counts)[2] for r in tied.tolist()}

    def _fill_input(self, ids: list[int]) -> None:
        """Write rows of layer 0."""
        owners = self._classes.owners[ids]
        values = self._classes.rows[ids]
        D = {b: self.denominator(0, b) for b in set(owners.tolist())}
        if values.dtype != object:
            shifts = np.zeros(len(self._denominators), np.intp)
            for b, denominator in D.items():
                shifts[b] = denominator.bit_length() - 1  # that of a power of two
            with np.errstate(over="ignore"):
                whole = np.ldexp(values.astype(np.float64), shifts[owners, None])
            if np.isfinite(whole).all():
                rows = [tuple(map(int, row)) for row in whole.tolist()]
                self._rows[0].update(zip(ids, rows, strict=True))
                return
        for i, b, row in zip(ids, owners.tolist(), values.tolist(), strict=True):
            ratios = (x.as_integer_ratio() for x in row)
            self._rows[0][i] = tuple(p * (D[b] // q) for p, q in ratios)

    def _fill_standing(self, layer: int, ids: list[int]) -> None:
        """Write rows of classes that have led since an earlier layer."""
        owners = self._classes.owners[ids].tolist()
        since = self._emerged[ids].tolist()
        factors: dict[tuple[int, int], int] = {}
        for i, b, k in zip(ids, owners, since, strict=True):
            if (b, k) not in factors:
                D = self.denominator(layer, b)
                factors[b, k] = D // self.denominator(k, b)
            factor = factors[b, k]
            self._rows[layer][i] = tuple([factor * x for x in self._rows[k][i]])

    def _fill_moved(self, layer: int, targets: Targets) -> None:
        """Write q L N_i + (p L / M_i) sum w_j N_j, from rows of the layer before."""
        p, q = self._step(layer - 1).as_integer_ratio()
        before = self._rows[layer - 1]
        after = self._rows[layer]
        owners = self._classes.owners[targets.ids].tolist()
        multiples: dict[int, int] = {}
        for b in set(owners):
            self.denominator(layer, b)  # so that the multiple is known
            multiples[b] = self._multiples[b][layer - 1]
        for i, j, b in zip(targets.ids, targets.single, owners, strict=True):
            keep = q * multiples[b]
            pull = p * multiples[b]
            target = before[j]
            if i in targets.tied:
                members, weights, total = targets.tied[i]
                pull //= total
                target = combine(weights, [before[j] for j in members])
            pairs = zip(before[i], target, strict=True)
            after[i] = tuple([keep * x + pull * y for x, y in pairs])
