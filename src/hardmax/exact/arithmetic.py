"""Distinct tokens at one layer, in one of two arithmetics.

Adaptive  the default: floats with an error bound, and exact positions where a
          comparison is closer than the bound.
Rational  no float decides anything. Slower, and independent of the error bounds: each
          of the two tests the other.

`History` holds exact positions, computed on access. All tokens of a layer are integers
over one denominator; a layer with alpha = p/q is, in those integers,

    N_i+ = q L N_i + (p L / M_i) sum_{j in C_i} w_j N_j,     D+ = (p + q) L D,

with w_j the multiplicities, M_i their sum over C_i, and L the least common multiple of
all M_i.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import needed_for
from hardmax._exact import TINY, UNIT, apply, as_floats, combine, common_denominator
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray, Row, Seen
from hardmax.exact.argmax import Points, Scaled, exact_sets
from hardmax.search.dispatch import Search
from hardmax.search.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


class History:
    """Exact positions of every class at every layer so far, computed lazily from the
    recorded sets.
    """

    def __init__(
        self, rows: AnyArray, counts: IntArray, alpha: Callable[[int], Fraction]
    ) -> None:
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
            self._denominators.append(
                self._denominators[k] * (p + q) * self._commons[k]
            )
        return self._denominators[layer]

    def at(self, layer: int, ids: Iterable[int]) -> list[Row]:
        """Return integer rows of the given classes at a layer; divide by
        `denominator(layer)`.
        """
        missing: list[set[int]] = []  # at this layer and at those before it
        needed = set(ids := list(ids))
        while todo := needed - self._known[layer - len(missing)].keys():
            missing.append(todo)
            if len(missing) > layer:
                break
            needed = todo | {
                j for i in todo for j in self.sets[layer - len(missing)][i].tolist()
            }
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
        before, sets, L = (
            self._known[layer - 1],
            self.sets[layer - 1],
            self._commons[layer - 1],
        )
        p, q = self._alpha(layer - 1).as_integer_ratio()
        for i in ids:
            members, weights, total = sets.shares(i, self._counts)
            keep, pull = q * L, p * (L // total)
            moved = (
                before[members[0]]
                if total == 1
                else combine(weights, [before[j] for j in members])
            )
            after[i] = tuple(
                keep * x + pull * y for x, y in zip(before[i], moved, strict=True)
            )

    def centroid(self, layer: int, sets: Sets, r: int) -> Row:
        """Return the centroid of a set of classes, times its integer weight, which
        changes no argmax.
        """
        members, weights, _ = sets.shares(r, self._counts)
        return combine(weights, self.at(layer, members))

    def fractions(self, layer: int) -> AnyArray:
        rows, D = self.at(layer, range(len(self._rows))), self.denominator(layer)
        return np.array([[Fraction(x, D) for x in row] for row in rows], object)


def next_layer(
    tokens: FloatArray, error: float, sets: Sets, counts: IntArray, b: float
) -> tuple[FloatArray, float]:
    """Return the tokens after one layer in float64, z + b (c - z), and their error."""
    moved = tokens + b * (sets.mean(tokens, counts) - tokens)
    largest = 1 if sets.single else int(sets.sizes.max())
    return moved, error + 8 * UNIT + (
        2 * largest * UNIT if largest > 1 else 0.0
    ) + 4 * TINY


def robustness(gap: float, reach: float, norm: float) -> float:
    """Return the largest eps with |A| (4 R eps + 2 eps^2) <= gap: moving each input row
    by less changes no set.
    """
    if np.isinf(gap) or norm == 0:
        return np.inf
    ratio = gap / (2 * norm)
    return float(ratio / (reach + np.sqrt(reach**2 + ratio))) if ratio else 0.0


class State(ABC):
    """Hold scaled floats within `error` of the exact tokens, and a history."""

    def __init__(
        self,
        rule: "Hardmax",
        tokens: AnyArray,
        search: Search,
        mask: BoolArray | None = None,
    ) -> None:
        self._causal, self._mask = (
            rule.causal,
            mask,
        )  # (m, m) which rows a row sees; causal: those up to itself
        self.masked = rule.causal or mask is not None
        self.classes = Classes.singly(tokens) if self.masked else Classes.of(tokens)
        self.history = History(self.classes.rows, self.classes.counts, rule.step)
        self.layer = 0
        self.exact_rows = 0  # sets compared in exact arithmetic
        start = Scaled.of(self.classes.rows)
        self.error = start.error
        self._Z, self._exponent = start.values, start.exponent
        self._rule, self._metric, self.search = rule, rule.metric, search
        self._reach = 1.01 * float(np.linalg.norm(start.values, axis=1).max())

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), in the units of the input."""
        return np.ldexp(self._Z, self._exponent)

    def seen(self, rows: IntArray) -> Seen:
        """Return the number of classes that each row sees, or a mask of them; None is
        all.
        """
        if self._mask is not None:
            return np.asarray(self._mask[rows])
        return rows + 1 if self._causal else None

    @abstractmethod
    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        """Return C_i for the given rows, and, if the search has gaps, a lower bound of
        each one's, for `radius`.
        """

    def radius(self, gap: float) -> float:
        """Return how far each input row may move, in the units of the input, such that
        gaps of `gap` stay positive.
        """
        return float(
            np.ldexp(robustness(gap, self._reach, self._metric.norm), self._exponent)
        )

    def _scaled_gap(self, gap: int) -> float:
        """Return a gap between integer products of this layer in the units of scaled
        tokens and A, rounded down.
        """
        scale = Fraction(2) ** (2 * self._exponent + self._metric.exponent)
        unit = (
            scale * self.history.denominator(self.layer) ** 2 * self._metric.denominator
        )
        return float(gap / unit) * (1 - 1e-15)

    def bound_step(self, sets: Sets) -> float:
        """Return an upper bound of |z_i+ - z_i| = alpha/(1 + alpha) |c_i - z_i| over all
        classes, in the units of the input.
        """
        alpha = self._rule.step(self.layer)
        largest = 1 if sets.single else int(sets.sizes.max())
        error = 2 * self.error  # of z and c, and the rounding of a mean
        if largest > 1:
            error += 2 * largest * UNIT
        means = sets.mean(self._Z, self.classes.counts)
        offsets = np.abs(means - self._Z) + error  # (m, d)
        size = float(offsets.max())
        if size == 0:
            return 0.0
        norm = float(np.linalg.norm(offsets / size, axis=1).max())  # at least 1
        # At most d + 9 roundings of UNIT each, relative: of the difference, the sum,
        # the quotient, its square, d - 1 sums, the root, alpha/(1 + alpha) and products
        roundings = offsets.shape[1] + 16
        step = float(alpha / (1 + alpha)) * norm * size * (1 + roundings * UNIT)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(np.ldexp(step, self._exponent), np.inf))

    def advance(self, sets: Sets) -> None:
        """Move every class: z_i <- z_i + alpha/(1 + alpha) (c_i - z_i)."""
        alpha = self._rule.step(self.layer)
        b = float(alpha / (1 + alpha))
        self._Z, self.error = next_layer(
            self._Z, self.error, sets, self.classes.counts, b
        )
        self.history.record(sets)
        self.layer += 1


class Adaptive(State):
    """Use floats, and exact positions of the rows that they do not decide."""

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        points = Points(
            self._Z[rows],
            self.error,
            lambda some: self.history.at(self.layer, rows[some].tolist()),
        )
        return self._maximisers(points, self.seen(rows))

    def from_centroids(
        self, sets: Sets, rows: IntArray
    ) -> tuple[Sets, FloatArray | None]:
        """Return the sets of points at the centroids of `sets` that see what `rows`
        see, and gaps as `choose` does.
        """
        means = sets.mean(self._Z, self.classes.counts)
        error = self.error + 2 * UNIT * int(sets.sizes.max())
        centroids = Points(
            means,
            error,
            lambda some: [self.history.centroid(self.layer, sets, r) for r in some],
        )
        return self._maximisers(centroids, self.seen(rows))

    def _maximisers(
        self, points: Points, seen: Seen = None
    ) -> tuple[Sets, FloatArray | None]:
        keys = Points(
            self._Z, self.error, lambda some: self.history.at(self.layer, some)
        )
        sets, gaps, leads = exact_sets(points, keys, self._metric, self.search, seen)
        self.exact_rows += len(leads)
        if gaps is not None:
            close = list(leads)
            gaps[close] = np.minimum(
                gaps[close], [self._scaled_gap(lead) for lead in leads.values()]
            )
        return sets, gaps


class Rational(State):
    """Use integer rows over one denominator, and all products as one matrix product of
    python-flint.
    """

    @property
    def tokens(self) -> FloatArray:
        rows = self.history.at(self.layer, range(len(self.classes)))
        return as_floats(rows, self.history.denominator(self.layer))

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        self.search.record("flint", len(rows), "`exact=True` multiplies integers.")
        self.exact_rows += len(rows)
        return self._maximisers(
            self.history.at(self.layer, rows.tolist()), self.seen(rows)
        )

    def from_centroids(self, sets: Sets, rows: IntArray) -> tuple[Sets, FloatArray]:
        centroids = [
            self.history.centroid(self.layer, sets, r) for r in range(len(sets))
        ]
        return self._maximisers(centroids, self.seen(rows))

    def _maximisers(
        self, points: list[Row], seen: Seen = None
    ) -> tuple[Sets, FloatArray]:
        with needed_for("`exact=True`", "python-flint", "exact"):
            from flint import fmpz_mat
        queries = fmpz_mat(
            [list(apply(self._metric.rows, x)) for x in points]
        )  # (rows, d)
        keys = fmpz_mat(
            [list(x) for x in self.history.at(self.layer, range(len(self.classes)))]
        ).transpose()  # (d, m)
        every, members, gaps = (
            range(len(self.classes)),
            [],
            np.zeros(len(points)),
        )  # a gap is 0 where tied
        for r, products in enumerate((queries * keys).tolist()):
            visible = (
                every
                if seen is None
                else every[: seen[r]]
                if seen.ndim == 1
                else np.flatnonzero(seen[r]).tolist()
            )
            best = max(products[j] for j in visible)
            members.append([j for j in visible if products[j] == best])
            if len(members[r]) == 1:
                second = max(
                    (products[j] for j in visible if products[j] != best), default=None
                )
                gaps[r] = (
                    np.inf if second is None else self._scaled_gap(int(best - second))
                )
        return Sets.of(members), gaps
