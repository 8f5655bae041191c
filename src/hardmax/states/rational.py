"""Full rational arithmetic: no float decides anything.

Every product is an exact integer, computed as one matrix product of python-flint. Slower than the adaptive state, and
independent of its error bounds: each is the other's test.
"""

from fractions import Fraction

import numpy as np

from hardmax import exact
from hardmax._checks import missing_extra
from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.classes import Classes
from hardmax.exact import History
from hardmax.sets import Sets
from hardmax.states.base import State
from hardmax.states.floating import Metric, Scaled, robustness


class Rational(State):
    """Integer rows over one denominator."""

    history: History

    def __init__(self, classes: Classes, A: AnyArray | None, history: History) -> None:
        try:
            from flint import fmpz_mat
        except ImportError:
            raise missing_extra("`exact=True`", "python-flint", "exact") from None
        self._matrix = fmpz_mat
        self.classes = classes
        self.history = history
        self.layer = 0
        self.exact_rows = 0
        self._A: list[Row] | None
        self._A, self._A_denominator = (None, 1) if A is None else exact.over_one_denominator(A)
        self._metric = Metric.of(A)
        start = Scaled.of(classes.rows)
        self._exponent = start.exponent
        self._reach = 1.01 * float(np.linalg.norm(start.values, axis=1).max())

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), each coordinate rounded once."""
        return exact.as_floats(self._rows, self.history.denominator(self.layer))

    @property
    def _rows(self) -> list[Row]:
        return self.history.at(self.layer, range(len(self.classes)))

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        """Exact C_i of the given rows."""
        self.exact_rows += len(rows)
        return self._maximisers(self.history.at(self.layer, rows.tolist()))

    def sees(self, groups: list[IntArray]) -> list[bool]:
        """Exact test that a token at the centroid of a group would see all of it."""
        sets = Sets.of(groups)
        points = []
        for r in range(len(groups)):
            members, weights, _ = sets.shares(r, self.classes.counts)
            points.append(exact.combine(weights, self.history.at(self.layer, members)))
        seen, _ = self._maximisers(points)
        return [set(group.tolist()) <= set(seen[r].tolist()) for r, group in enumerate(groups)]

    def _maximisers(self, points: list[Row]) -> tuple[Sets, FloatArray]:
        queries = self._matrix([list(exact.apply(self._A, x)) for x in points])  # (rows, d)
        keys = self._matrix([list(x) for x in self._rows]).transpose()  # (d, m)
        scale = Fraction(2) ** (2 * self._exponent + self._metric.exponent)  # gaps in the units of scaled tokens and A
        unit = scale * self.history.denominator(self.layer) ** 2 * self._A_denominator
        members, gaps = [], np.full(len(points), np.inf)
        for r, products in enumerate((queries * keys).tolist()):
            best = max(products)
            members.append([j for j, x in enumerate(products) if x == best])
            if len(members[r]) < len(products):
                second = max(x for x in products if x != best)
                gaps[r] = float(int(best - second) / unit) * (1 - 1e-15) if len(members[r]) == 1 else 0.0
        return Sets.of(members), gaps

    def radius(self, gap: float) -> float:
        """How far each input row may move while every gap of at least `gap` stays open."""
        return float(np.ldexp(robustness(gap, self._reach, self._metric.norm), self._exponent))

    def advance(self, sets: Sets, alpha: Fraction) -> None:
        """Record the sets; the exact positions follow from them."""
        self.history.record(sets)
        self.layer += 1
