"""A tolerance as a modelling choice: products within it count as equal. No theorem covers this dynamics."""

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.engine.state import State
from hardmax.kernels import Search
from hardmax.kernels.classes import Classes
from hardmax.kernels.exact_sets import tolerant_sets
from hardmax.kernels.floating import Metric
from hardmax.kernels.sets import Sets


class Tolerant(State):
    """Float64 positions without a history; near-ties count as ties, so no gap is claimed and nothing is proved."""

    def __init__(self, classes: Classes, metric: Metric, tolerance: float, *, causal: bool = False) -> None:
        super().__init__(classes, metric, None, Search("numpy"), causal=causal)
        self._tolerance = tolerance

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        return self._maximisers(self._Z[rows], self._limits(rows)), np.zeros(len(rows))

    def from_centroids(self, sets: Sets) -> Sets:
        return self._maximisers(sets.mean(self._Z, self.classes.counts))

    def _maximisers(self, points: FloatArray, limits: IntArray | None = None) -> Sets:
        return tolerant_sets(points, self._Z, self._metric, self._tolerance, limits)
