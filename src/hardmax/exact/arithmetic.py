"""The tokens of one layer, in one of two arithmetics, and the argmax sets they choose.

Adaptive  the default: floats with an error bound, and exact positions where a
          comparison is closer than the bound.
Rational  no float decides anything. Slower, and independent of the error bounds: each
          of the two tests the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import needed_for
from hardmax._exact import UNIT, apply, as_floats
from hardmax._types import BoolArray, FloatArray, IntArray, Row, Seen
from hardmax.exact.argmax import Points, ScaledSets, exact_sets, times_power_of_two
from hardmax.layer import ExactPositions, Layer, error_after, move, step_share
from hardmax.search.dispatch import BatchSearch, Search
from hardmax.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


class State(ABC):
    """Tokens of a layer: scaled floats within `error` of the exact positions, and those.

    Parameters
    ----------
    rule : Hardmax
    classes : Classes
        The tokens at layer 0, of one token set or of a batch.
    search : Search
        How near-maximal products are found.
    layers : sequence of Layer
        Sets of the layers so far, from which exact positions follow.
    last, emerged : (m,) arrays
        Layer at which each class was last searched, and from which it leads.
    mask : (m, m) array, optional
        Which classes a class sees, for one token set.
    """

    def __init__(
        self,
        rule: "Hardmax",
        classes: Classes,
        search: Search,
        layers: Sequence[Layer],
        last: IntArray,
        emerged: IntArray,
        mask: BoolArray | None = None,
    ) -> None:
        self.rule = rule
        self.classes = classes
        self.search = search
        self.layer = 0
        self.exact = ExactPositions(classes, rule.step, layers, last, emerged)
        self.exact_rows = 0  # sets compared in exact arithmetic
        self._mask = mask
        start = ScaledSets.of(classes.rows, classes.offsets)
        self.error = start.error
        self._Z = start.values  # (m, d)
        self._exponents = start.exponents  # (batch,)
        self._reach = 1.01 * float(np.linalg.norm(start.values, axis=1).max())

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), in the units of the input."""
        exponents = self._exponents[:, None]
        if len(exponents) > 1:
            exponents = exponents[self.classes.owners]
        return times_power_of_two(self._Z, exponents)

    def seen(self, rows: IntArray) -> Seen:
        """Return what the search needs to know about the classes that each row sees."""
        if len(self.classes.sizes) > 1:
            return rows  # a `BatchSearch` knows the token set of each row
        if self._mask is not None:
            return np.asarray(self._mask[rows])
        return rows + 1 if self.rule.causal else None

    @abstractmethod
    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        """Return C_i for the given rows, and, if the search has gaps, a lower bound of
        each one's, for `radius`.
        """

    @abstractmethod
    def choose_from_centroids(
        self, sets: Sets, rows: IntArray
    ) -> tuple[Sets, FloatArray | None]:
        """Return the sets of points at the centroids of `sets` that see what `rows`
        see, and gaps as `choose` does.
        """

    def advance(self, sets: Sets, rows: IntArray | None = None) -> None:
        """Move every class, or some: z_i <- z_i + b (c_i - z_i).

        `sets` are those of all classes.
        """
        b = step_share(self.rule.step(self.layer))
        counts = self.classes.counts
        if rows is None:
            self._Z = move(self._Z, sets.mean(self._Z, counts), b)
        else:
            means = sets.take(rows).mean(self._Z, counts)
            self._Z = self._Z.copy()
            self._Z[rows] = move(self._Z[rows], means, b)
        largest_set = 1 if sets.single else int(sets.sizes.max())
        self.error = error_after(self.error, largest_set)
        self.layer += 1

    def bound_step(self, sets: Sets) -> float:
        """Return an upper bound of |z_i+ - z_i| = b |c_i - z_i| over all classes, in the
        units of the input; for one token set.
        """
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
        # the quotient, its square, d - 1 sums, the root, b and products.
        roundings = offsets.shape[1] + 16
        b = step_share(self.rule.step(self.layer))
        step = b * norm * size * (1 + roundings * UNIT)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(np.ldexp(step, self._exponents[0]), np.inf))

    def radius(self, gap: float) -> float:
        """Return how far each input row may move, in the units of the input, such that
        gaps of `gap` stay positive; for one token set.
        """
        radius = robustness(gap, self._reach, self.rule.metric.norm)
        return float(np.ldexp(radius, self._exponents[0]))

    def _scaled_gap(self, gap: int) -> float:
        """Return a gap between integer products of this layer in the units of scaled
        tokens and A, rounded down; for one token set.
        """
        metric = self.rule.metric
        D = self.exact.denominator(self.layer)
        scale = Fraction(2) ** int(2 * self._exponents[0] + metric.exponent)
        return float(gap / (scale * D**2 * metric.denominator)) * (1 - 1e-15)


class Adaptive(State):
    """Use floats, and exact positions of the rows that they do not decide."""

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        points = Points(
            self._Z[rows],
            self.error,
            lambda some: self.exact.at(self.layer, rows[some].tolist()),
        )
        return self._maximisers(points, self.seen(rows))

    def choose_from_centroids(
        self, sets: Sets, rows: IntArray
    ) -> tuple[Sets, FloatArray | None]:
        means = sets.mean(self._Z, self.classes.counts)
        error = self.error + 2 * UNIT * int(sets.sizes.max())
        centroids = Points(
            means,
            error,
            lambda some: [self.exact.centroid(self.layer, sets, r) for r in some],
        )
        return self._maximisers(centroids, self.seen(rows))

    def _maximisers(self, points: Points, seen: Seen) -> tuple[Sets, FloatArray | None]:
        keys = Points(self._Z, self.error, lambda ids: self.exact.at(self.layer, ids))
        metric = self.rule.metric
        sets, gaps, leads = exact_sets(points, keys, metric, self.search, seen)
        self.exact_rows += len(leads)
        if gaps is not None:
            close = list(leads)
            exact_gaps = [self._scaled_gap(lead) for lead in leads.values()]
            gaps[close] = np.minimum(gaps[close], exact_gaps)
        return sets, gaps


class Rational(State):
    """Use integer rows over one denominator, and all products as one matrix product of
    python-flint.
    """

    @property
    def tokens(self) -> FloatArray:
        rows = self.exact.at(self.layer, range(len(self.classes)))
        return as_floats(rows, self.exact.denominator(self.layer))

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        self.search.record("flint", len(rows), "`exact=True` multiplies integers.")
        self.exact_rows += len(rows)
        points = self.exact.at(self.layer, rows.tolist())
        return self._maximisers(points, self.seen(rows))

    def choose_from_centroids(
        self, sets: Sets, rows: IntArray
    ) -> tuple[Sets, FloatArray]:
        every = range(len(sets))
        centroids = [self.exact.centroid(self.layer, sets, r) for r in every]
        return self._maximisers(centroids, self.seen(rows))

    def _maximisers(self, points: list[Row], seen: Seen) -> tuple[Sets, FloatArray]:
        with needed_for("`exact=True`", "python-flint", "exact"):
            from flint import fmpz_mat
        A = self.rule.metric.rows
        every = range(len(self.classes))
        queries = fmpz_mat([list(apply(A, x)) for x in points])  # (rows, d)
        keys = fmpz_mat([list(x) for x in self.exact.at(self.layer, every)])  # (m, d)
        members = []
        gaps = np.zeros(len(points))  # 0 where tied
        for r, products in enumerate((queries * keys.transpose()).tolist()):
            if seen is None:
                visible: Sequence[int] = every
            elif seen.ndim == 1:
                visible = every[: seen[r]]
            else:
                visible = np.flatnonzero(seen[r]).tolist()
            best = max(products[j] for j in visible)
            members.append([j for j in visible if products[j] == best])
            if len(members[r]) == 1:
                others = [products[j] for j in visible if products[j] != best]
                second = max(others, default=None)
                gaps[r] = np.inf
                if second is not None:
                    gaps[r] = self._scaled_gap(int(best - second))
        return Sets.of(members), gaps


def make_state(
    rule: "Hardmax",
    classes: Classes,
    kernel: str,
    layers: Sequence[Layer],
    last: IntArray,
    emerged: IntArray,
    *,
    gaps: bool = False,
    mask: BoolArray | None = None,
) -> Adaptive | Rational:
    """Return the state at layer 0, in the arithmetic of the rule."""
    if len(classes.sizes) > 1:
        search: Search = BatchSearch(kernel, classes.offsets, rule.causal)
    else:
        search = Search(kernel, gaps=gaps)
    arithmetic = Rational if rule.exact else Adaptive
    return arithmetic(rule, classes, search, layers, last, emerged, mask)


def robustness(gap: float, reach: float, norm: float) -> float:
    """Return the largest eps with |A| (4 R eps + 2 eps^2) <= gap: moving each input row
    by less changes no set.
    """
    if np.isinf(gap) or norm == 0:
        return np.inf
    ratio = gap / (2 * norm)
    return float(ratio / (reach + np.sqrt(reach**2 + ratio))) if ratio else 0.0
