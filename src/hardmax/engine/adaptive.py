"""The default: exact sets at float speed. Exact positions are computed where a comparison is too close to call."""

import numpy as np

from hardmax._integers import UNIT
from hardmax._types import FloatArray, IntArray
from hardmax.engine.history import History
from hardmax.engine.state import State
from hardmax.kernels.exact_sets import Points, exact_sets
from hardmax.kernels.sets import Sets


class Adaptive(State):
    """Float64 positions with their error, and exact ones where these are asked for."""

    history: History

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        points = Points(self._Z[rows], self.error, lambda some: self.history.at(self.layer, rows[some].tolist()))
        return self._maximisers(points, self._limits(rows))

    def from_centroids(self, sets: Sets) -> Sets:
        means = sets.mean(self._Z, self.classes.counts)
        error = self.error + 2 * UNIT * int(sets.sizes.max())
        return self._maximisers(
            Points(means, error, lambda some: [self.history.centroid(self.layer, sets, r) for r in some])
        )[0]

    def _maximisers(self, points: Points, limits: IntArray | None = None) -> tuple[Sets, FloatArray | None]:
        keys = Points(self._Z, self.error, lambda some: self.history.at(self.layer, some))
        sets, gaps, leads = exact_sets(points, keys, self._metric, self._search, limits)
        self.exact_rows += len(leads)
        if gaps is not None:
            close = list(leads)
            gaps[close] = np.minimum(gaps[close], [self._scaled_gap(lead) for lead in leads.values()])
        return sets, gaps
