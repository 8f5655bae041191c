"""The default: exact sets at float speed.

Products are computed in float64. Where the best key leads by more than the error bound, its index is the exact answer.
Only the other rows are compared in rational arithmetic, on exact positions computed for them alone.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from hardmax._integers import UNIT
from hardmax._types import FloatArray, IntArray, Row
from hardmax.engine.history import History
from hardmax.engine.state import State
from hardmax.kernels.exact_argmax import argmax
from hardmax.kernels.floating import slack_of
from hardmax.kernels.sets import Sets

ExactPoints: TypeAlias = Callable[[list[int]], list[Row]]


class Adaptive(State):
    """Float64 positions with their error, and exact ones where a comparison is too close to call."""

    history: History

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        """Exact C_i of the given rows."""
        exact_points: ExactPoints = lambda some: self.history.at(self.layer, rows[some].tolist())  # noqa: E731
        return self._maximisers(self._Z[rows], self.error, exact_points, self._limits(rows))

    def from_centroids(self, groups: Sets) -> Sets:
        """Exact maximisers of the centroids."""
        means = groups.mean(self._Z, self.classes.counts)
        error = self.error + 2 * UNIT * int(groups.sizes.max())
        return self._maximisers(
            means, error, lambda some: [self.history.centroid(self.layer, groups, r) for r in some]
        )[0]

    def _maximisers(
        self, points: FloatArray, error: float, exact_points: ExactPoints, limits: IntArray | None = None
    ) -> tuple[Sets, FloatArray | None]:
        queries, query_error = self._metric.queries(points, error)
        slack = slack_of(queries, query_error, self._Z, self.error)
        near, gaps = self._search.near_maxima(queries, self._Z, slack, limits)
        if gaps is not None:
            gaps = np.maximum(gaps - slack, 0.0)
        close = near.tied
        if not len(close):
            return near, gaps
        self.exact_rows += len(close)
        candidates = [near[r] for r in close]
        ids = np.unique(np.concatenate(candidates)).tolist()
        keys = dict(zip(ids, self.history.at(self.layer, ids), strict=True))
        decided, leads = argmax(exact_points(close.tolist()), candidates, keys, self._metric.rows)
        if gaps is not None:
            gaps[close] = np.minimum(gaps[close], [self._scaled_gap(lead) for lead in leads])
        return near.replace(close, Sets.of(decided)), gaps
