"""Full rational arithmetic: no float decides anything.

Every product is an exact integer, computed as one matrix product of python-flint. Slower than the adaptive state, and
independent of its error bounds: each is the other's test.
"""

import numpy as np

from hardmax._errors import MissingExtra
from hardmax._integers import apply, as_floats
from hardmax._types import FloatArray, IntArray, Row
from hardmax.engine.history import History
from hardmax.engine.state import State
from hardmax.kernels import Search
from hardmax.kernels.classes import Classes
from hardmax.kernels.floating import Metric
from hardmax.kernels.sets import Sets


class Rational(State):
    """Integer rows over one denominator."""

    history: History

    def __init__(
        self, classes: Classes, metric: Metric, history: History, search: Search, *, causal: bool = False
    ) -> None:
        try:
            from flint import fmpz_mat
        except ImportError:
            raise MissingExtra("`exact=True`", "python-flint", "exact") from None
        super().__init__(classes, metric, history, search, causal=causal)
        self._matrix = fmpz_mat

    @property
    def tokens(self) -> FloatArray:
        """Positions, shape (m, d), each coordinate rounded once."""
        return as_floats(self._rows(), self.history.denominator(self.layer))

    def _rows(self) -> list[Row]:
        return self.history.at(self.layer, range(len(self.classes)))

    @property
    def kernel(self) -> str:
        return "flint"

    def choose(self, rows: IntArray) -> tuple[Sets, FloatArray]:
        self.exact_rows += len(rows)
        return self._maximisers(self.history.at(self.layer, rows.tolist()), self._limits(rows))

    def from_centroids(self, sets: Sets) -> Sets:
        return self._maximisers([self.history.centroid(self.layer, sets, r) for r in range(len(sets))])[0]

    def _maximisers(self, points: list[Row], limits: IntArray | None = None) -> tuple[Sets, FloatArray]:
        queries = self._matrix([list(apply(self._metric.rows, x)) for x in points])  # (rows, d)
        keys = self._matrix([list(x) for x in self._rows()]).transpose()  # (d, m)
        members, gaps = [], np.zeros(len(points))  # 0 where tied
        for r, products in enumerate((queries * keys).tolist()):
            products = products if limits is None else products[: limits[r]]
            best = max(products)
            members.append([j for j, x in enumerate(products) if x == best])
            if len(members[r]) == 1:
                second = max((x for x in products if x != best), default=None)
                gaps[r] = np.inf if second is None else self._scaled_gap(int(best - second))
        return Sets.of(members), gaps
