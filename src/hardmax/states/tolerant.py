"""A tolerance as a modelling choice: products within it count as equal. No theorem covers this dynamics."""

from fractions import Fraction

import numpy as np

from hardmax._types import AnyArray, FloatArray, IntArray
from hardmax.classes import Classes
from hardmax.kernels import near_maxima
from hardmax.sets import Sets
from hardmax.states.base import State
from hardmax.states.floating import Metric, Scaled, next_layer


class Tolerant(State):
    """Float64 positions; C_i = {j : <A z_i, z_j> >= max - tolerance |A z_i| max_j |z_j|}."""

    history = None

    def __init__(self, classes: Classes, A: AnyArray | None, tolerance: float) -> None:
        self.classes = classes
        self.layer = 0
        self.exact_rows = 0
        self._tolerance = tolerance
        start = Scaled.of(classes.rows)
        self._Z, self._exponent = start.values, start.exponent
        self._metric = Metric.of(A)

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d)."""
        return np.ldexp(self._Z, self._exponent)

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        """C_i of the given rows, near-ties included."""
        queries, _ = self._metric.queries(self._Z[rows], 0.0)
        longest = np.linalg.norm(self._Z, axis=1).max()
        return near_maxima(queries, self._Z, self._tolerance * longest * np.linalg.norm(queries, axis=1))

    def sees(self, groups: list[IntArray]) -> list[bool]:
        """No: what a centroid would see proves nothing here."""
        return [False] * len(groups)

    def radius(self, gap: float) -> float:
        """No neighbourhood is proved."""
        return 0.0

    def advance(self, sets: Sets, alpha: Fraction) -> None:
        """Take a layer."""
        self._Z, _ = next_layer(self._Z, 0.0, sets, self.classes.counts, float(alpha / (1 + alpha)))
        self.layer += 1
