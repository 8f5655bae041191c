"""From a finished run to the set S: which point each class tends to, exactly, and with which weights on the leaders."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from hardmax import exact
from hardmax._types import FloatArray, IntArray, Row
from hardmax.certificates import Point
from hardmax.run import Run


@dataclass(frozen=True, eq=False)
class Ends:
    """Where the classes of a run tend."""

    leaders: IntArray  # (n_leaders,) classes, in the order of their tokens
    column: IntArray  # (m,) number of a class among the leaders, or -1
    place: IntArray  # (m,) number of its limit among the points, leaders first; -1 where undecided
    points: FloatArray  # (n_points, d), each coordinate rounded once
    rows: list[Row]  # the leaders exactly, over one denominator
    denominator: int
    others: list[Point]  # the other points exactly

    @classmethod
    def of(cls, run: Run, found: dict[int, Point]) -> "Ends":
        """Collect the limits of all decided classes; `found` holds those that T or chain proved."""
        assert run.sets is not None
        leaders = np.flatnonzero(run.emerged >= 0)
        leaders = leaders[np.argsort(run.classes.first[leaders])]
        column = np.full(len(run.classes), -1)
        history = run.state.history
        if history is None:  # a tolerance: nothing is decided, leaders are where the floats are
            column[leaders] = np.arange(len(leaders))
            return cls(leaders, column, np.full(len(run.classes), -1), run.state.tokens[leaders], [], 1, [])

        D = history.denominator(run.layer)
        numbered: dict[Row, int] = {}  # leaders at one place, which only an A outside the hypotheses allows, count once
        for i, row in zip(leaders.tolist(), history.at(run.layer, leaders.tolist()), strict=True):
            column[i] = numbered.setdefault(row, len(numbered))
        leaders = leaders[np.unique(column[leaders], return_index=True)[1]]
        rows = list(numbered)

        place = np.full(len(run.classes), -1)
        simple = run.theorem == 1
        place[simple] = column[run.sets.targets[simple]]
        others: dict[Point, int] = {}
        deep = np.flatnonzero(run.theorem > 1).tolist()
        known = {_point(row, D): number for row, number in numbered.items()} if deep else {}
        for i in deep:
            point = found.get(i) or _centroid(run, i, D)
            place[i] = known[point] if point in known else len(rows) + others.setdefault(point, len(others))
        floats = [exact.as_floats(rows, D), np.array([list(map(float, point)) for point in others])]
        points = np.vstack([part for part in floats if part.size] or [np.empty((0, run.classes.rows.shape[1]))])
        return cls(leaders, column, place, points, rows, D, list(others))

    def exact_points(self) -> list[Point]:
        """All points as Fractions."""
        return [_point(row, self.denominator) for row in self.rows] + self.others

    def weights(self, run: Run) -> sparse.csr_array:
        """Convex weights of the limits on the leaders, (m, n_leaders): absorption probabilities of the frozen matrix P.

        One step suffices under Theorems 1 and 4, whose members all lead; else (I - P_NN) W = P_NL.
        """
        assert run.sets is not None
        m, P = len(run.classes), run.sets.matrix(run.classes.counts)
        leads = np.flatnonzero(self.column >= 0)
        onto = sparse.csr_array((np.ones(len(leads)), (leads, self.column[leads])), shape=(m, len(self.leaders)))
        known = sparse.diags_array((run.decided & (run.theorem <= 4)).astype(np.float64))
        W = sparse.csr_array(known @ (P @ onto))
        deep = np.flatnonzero(run.theorem > 4)
        if len(deep):
            inside = np.eye(len(deep)) - P[deep][:, deep].toarray()
            solved = np.linalg.lstsq(inside, (P[deep] @ W).toarray(), rcond=None)[0]
            spread = sparse.csr_array((np.ones(len(deep)), (deep, np.arange(len(deep)))), shape=(m, len(deep)))
            W = sparse.csr_array(W + spread @ sparse.csr_array(solved))
        return W


def _point(row: Row, denominator: int) -> Point:
    return tuple(Fraction(x, denominator) for x in row)


def _centroid(run: Run, i: int, D: int) -> Point:
    assert run.sets is not None
    assert run.state.history is not None
    members, weights, total = run.sets.shares(i, run.classes.counts)
    return _point(exact.combine(weights, run.state.history.at(run.layer, members)), D * total)
