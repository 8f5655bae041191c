"""What every state is and can do. To add an arithmetic: say how sets are chosen, and what is seen from a centroid."""

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from hardmax._types import FloatArray, IntArray
from hardmax.engine.history import History
from hardmax.kernels import Search
from hardmax.kernels.classes import Classes
from hardmax.kernels.floating import Metric, Scaled, next_layer, robustness
from hardmax.kernels.sets import Sets


class State(ABC):
    """Distinct tokens at one layer: scaled floats within `error` of the exact ones, and, if kept, an exact history."""

    def __init__(
        self, classes: Classes, metric: Metric, history: History | None, search: Search, *, causal: bool = False
    ) -> None:
        start = Scaled.of(classes.rows)
        self.classes = classes
        self.history = history
        self.causal = causal  # whether a row sees the rows up to itself alone
        self.layer = 0
        self.exact_rows = 0  # how many sets had to be compared in exact arithmetic
        self.error = start.error
        self._Z, self._exponent = start.values, start.exponent
        self._metric = metric
        self._search = search
        self._reach = 1.01 * float(np.linalg.norm(start.values, axis=1).max())

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), in the units of the input."""
        return np.ldexp(self._Z, self._exponent)

    @property
    def kernel(self) -> str:
        """Which methods found the sets, the busiest first."""
        return str(self._search)

    def _limits(self, rows: IntArray) -> IntArray | None:
        """How many classes each row sees; None is all."""
        return rows + 1 if self.causal else None

    @abstractmethod
    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray | None]:
        """Return C_i for the given rows, and, if the search has gaps, a lower bound of each one's, for `radius`."""

    @abstractmethod
    def from_centroids(self, sets: Sets) -> Sets:
        """Return the maximisers that a token at the centroid of each set of classes would have."""

    def sees(self, sets: Sets) -> list[bool]:
        """For each set of classes: would a token at its centroid have all of them among its maximisers?"""
        seen = self.from_centroids(sets)
        return [set(sets[r].tolist()) <= set(seen[r].tolist()) for r in range(len(sets))]

    def radius(self, gap: float) -> float:
        """How far each input row may move, in the units of the input, while all gaps of at least `gap` stay open."""
        return float(np.ldexp(robustness(gap, self._reach, self._metric.norm), self._exponent))

    def _scaled_gap(self, gap: int) -> float:
        """A gap between integer products of this layer in the units of scaled tokens and A, rounded down."""
        assert self.history is not None
        scale = Fraction(2) ** (2 * self._exponent + self._metric.exponent)
        unit = scale * self.history.denominator(self.layer) ** 2 * self._metric.denominator
        return float(gap / unit) * (1 - 1e-15)

    def advance(self, sets: Sets, alpha: Fraction) -> None:
        """Move every class: z_i <- z_i + alpha/(1 + alpha) (c_i - z_i)."""
        b = float(alpha / (1 + alpha))
        self._Z, self.error = next_layer(self._Z, self.error, sets, self.classes.counts, b)
        if self.history is not None:
            self.history.record(sets)
        self.layer += 1
