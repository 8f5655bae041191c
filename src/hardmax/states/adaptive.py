"""The default: exact sets at float speed.

Products are computed in float64. Where the best key leads by more than the error bound, its index is the exact answer.
Only the other rows are compared in rational arithmetic, on exact positions computed for them alone.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from hardmax import exact
from hardmax._types import AnyArray, FloatArray, IntArray, Row
from hardmax.classes import Classes
from hardmax.exact import UNIT, History
from hardmax.kernels import near_maxima
from hardmax.sets import Sets
from hardmax.states.base import State
from hardmax.states.floating import Metric, Scaled, next_layer, robustness, slack_of

ExactPoints: TypeAlias = Callable[[IntArray], list[Row]]


class Adaptive(State):
    """Float64 positions with their error, and exact ones where a comparison is too close to call."""

    history: History

    def __init__(self, classes: Classes, A: AnyArray | None, history: History) -> None:
        self.classes = classes
        self.history = history
        self.layer = 0
        self.exact_rows = 0
        start = Scaled.of(classes.rows)
        self._Z, self._exponent, self.error = start.values, start.exponent, start.error
        self._metric = Metric.of(A)
        self._A = None if A is None else exact.over_one_denominator(A)[0]
        self._reach = 1.01 * float(np.sqrt((self._Z * self._Z).sum(axis=1).max()))

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d)."""
        return np.ldexp(self._Z, self._exponent)

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        """Exact C_i of the given rows."""
        return self._maximisers(
            self._Z[rows], self.error, lambda some: self.history.at(self.layer, rows[some].tolist())
        )

    def sees(self, groups: list[IntArray]) -> list[bool]:
        """Exact test that a token at the centroid of a group would see all of it."""
        counts = self.classes.counts
        sets = Sets.of(groups)
        error = self.error + 2 * UNIT * int(sets.sizes.max())

        def centroid(r: int) -> Row:  # times the size of the group, which changes no argmax
            members, weights, _ = sets.shares(r, counts)
            return exact.combine(weights, self.history.at(self.layer, members))

        seen, _ = self._maximisers(sets.mean(self._Z, counts), error, lambda some: [centroid(r) for r in some.tolist()])
        return [set(group.tolist()) <= set(seen[r].tolist()) for r, group in enumerate(groups)]

    def _maximisers(self, points: FloatArray, error: float, exact_points: ExactPoints) -> tuple[Sets, FloatArray]:
        queries, query_error = self._metric.queries(points, error)
        slack = slack_of(queries, query_error, self._Z, self.error)
        near, gaps = near_maxima(queries, self._Z, slack)
        gaps = np.maximum(gaps - slack, 0.0)
        close = near.tied
        if not len(close):
            return near, gaps
        self.exact_rows += len(close)
        gaps[close] = 0.0
        candidates = [near[r] for r in close]
        ids = np.unique(np.concatenate(candidates)).tolist()
        keys = dict(zip(ids, self.history.at(self.layer, ids), strict=True))
        decided = exact.argmax(exact_points(close), candidates, keys, self._A)
        return near.replace(close, Sets.of(decided)), gaps

    def radius(self, gap: float) -> float:
        """How far each input row may move while every gap of at least `gap` stays open."""
        return float(np.ldexp(robustness(gap, self._reach, self._metric.norm), self._exponent))

    def advance(self, sets: Sets, alpha: Fraction) -> None:
        """Take a layer, and record its sets for the exact positions."""
        b = float(alpha / (1 + alpha))
        self._Z, self.error = next_layer(self._Z, self.error, sets, self.classes.counts, b)
        self.history.record(sets)
        self.layer += 1
