"""A tolerance as a modelling choice: products within it count as equal. No theorem covers this dynamics."""

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.engine.state import State
from hardmax.kernels import Search
from hardmax.kernels.classes import Classes
from hardmax.kernels.floating import Metric
from hardmax.kernels.reference import near_maxima
from hardmax.kernels.sets import Sets


class Tolerant(State):
    """Float64 positions; C_i = {j : <A z_i, z_j> >= max - tolerance |A z_i| max_j |z_j|}."""

    def __init__(self, classes: Classes, metric: Metric, tolerance: float, *, causal: bool = False) -> None:
        super().__init__(classes, metric, None, Search("numpy"), causal=causal)
        self._tolerance = tolerance

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        """C_i of the given rows, near-ties included; no gap is claimed."""
        sets = self._maximisers(self._Z[rows], self._limits(rows))
        return sets, np.zeros(len(sets))

    def from_centroids(self, groups: Sets) -> Sets:
        """What a token at the centroid would follow. It proves nothing here."""
        return self._maximisers(groups.mean(self._Z, self.classes.counts))

    def _maximisers(self, points: FloatArray, limits: IntArray | None = None) -> Sets:
        queries, _ = self._metric.queries(points, 0.0)
        norms = np.linalg.norm(self._Z, axis=1)
        longest = norms.max() if limits is None else np.maximum.accumulate(norms)[limits - 1]
        slack = self._tolerance * longest * np.linalg.norm(queries, axis=1)
        return near_maxima(queries, self._Z, slack, limits)[0]
