"""The limits of clouds that one pass certifies: every limit is the place of a leader, exactly known."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax._types import BoolArray, FloatArray, IntArray
from hardmax.exact.batch import Batch, taken
from hardmax.exact.certificates import Point
from hardmax.exact.positions import History
from hardmax.search.sets import Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax

LONGEST = 200  # layers that are kept for all clouds at once; who is not decided then goes on alone


class BatchLimit:
    """Where the clouds of a pass end.

    A cloud that is not decided in time has left: `sure` is False, and what else is said of it has no meaning.
    """

    def __init__(self, rule: "Hardmax", batch: Batch, max_layers: int, progress: Callable[[int], None]) -> None:
        self._ways: list[tuple[IntArray, IntArray]] = []  # clouds that moved, and whom their tokens followed
        while True:
            batch.choose()
            undecided = batch.undecided.any(axis=1)
            if batch.sure.any():
                progress(int((batch.settled[batch.sure] >= 0).sum()))
            if not undecided.any() or batch.layer == min(max_layers, LONGEST):
                break
            moving = np.flatnonzero(undecided)
            self._ways.append((moving, batch.follows[moving]))
            batch.advance(moving)
        batch.sure &= ~undecided
        self.sure, self.start, self.real, self._rule = batch.sure, batch.start, batch.real, rule
        self.queries, self.stats, self.emerged = batch.queries, batch.stats, batch.emerged
        self.layer: IntArray = batch.settled.max(axis=1)  # (batch,) at which the last token was decided
        self.leads: BoolArray = self.emerged >= 0  # (batch, n)
        column = np.cumsum(self.leads, axis=1) - 1  # number of a leader among those of its cloud
        self.clusters: IntArray = np.take_along_axis(column, batch.follows, axis=1)  # (batch, n)
        self.late: dict[tuple[int, int], Point] = {}  # where leaders are who moved before they led
        for b in np.flatnonzero(self.sure & (self.emerged > 0).any(axis=1)).tolist():
            self._find_late(b)
        self.places: FloatArray = batch.start.copy()  # (batch, n, d), right for leaders
        for who, point in self.late.items():
            self.places[who] = list(map(float, point))
        self.tokens: FloatArray = taken(self.places, batch.follows)  # (batch, n, d)

    def _find_late(self, b: int) -> None:
        """Follow the late leaders of a cloud in exact arithmetic."""
        n = self.real.shape[1]
        history = History(self.start[b], np.ones(n, np.intp), self._rule.step)
        for clouds, follows in self._ways[: self.emerged[b].max()]:  # in which this cloud moved, as it was undecided
            history.record(Sets(np.arange(n + 1), follows[np.searchsorted(clouds, b)]))
        for i in np.flatnonzero(self.emerged[b] > 0).tolist():
            layer = int(self.emerged[b, i])
            row, D = history.at(layer, [i])[0], history.denominator(layer)
            self.late[b, i] = tuple(Fraction(x, D) for x in row)

    def exact_points(self, b: int, leaders: IntArray) -> list[Point]:
        """Where some leaders of a cloud are."""
        rows = zip(leaders.tolist(), self.start[b, leaders].tolist(), strict=True)
        return [self.late.get((b, i)) or tuple(map(Fraction, row)) for i, row in rows]
