"""From a finished run to the set S: which point each class tends to, exactly, and with which weights on the leaders."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._exact import as_floats
from hardmax._types import FloatArray, IntArray, Row
from hardmax.exact.certificates import Point
from hardmax.exact.run import Proof, Run


@dataclass(frozen=True, eq=False)
class LimitSet:
    """Where the classes of a run tend."""

    leaders: IntArray  # (n_leaders,) classes, in the order of their tokens
    column: IntArray  # (m,) number of a class among the leaders, or -1
    place: IntArray  # (m,) number of its limit among the points, leaders first; -1 where undecided
    points: FloatArray  # (n_points, d), each coordinate rounded once
    rows: list[Row]  # the leaders exactly, over one denominator
    denominator: int
    others: list[Point]  # the other points exactly

    @classmethod
    def of(cls, run: Run, found: dict[int, Point]) -> "LimitSet":
        """Collect the limits of all decided classes; `found` holds those that T or chain proved."""
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
        simple = run.proof == Proof.THEOREM_1
        place[simple] = column[run.sets.targets[simple]]
        deep = np.flatnonzero(run.proof > Proof.THEOREM_1)
        deep = deep[np.argsort(run.classes.first[deep])].tolist()
        known = {_point(row, D): number for row, number in numbered.items()} if deep else {}
        for i in deep:
            total = run.sets.shares(i, run.classes.counts)[2]
            point = found.get(i) or _point(history.centroid(run.layer, run.sets, i), D * total)
            place[i] = known.setdefault(point, len(known))
        others = list(known)[len(rows) :]
        floats = [as_floats(rows, D), np.array([list(map(float, point)) for point in others])]
        points = np.vstack([part for part in floats if part.size] or [np.empty((0, run.classes.rows.shape[1]))])
        return cls(leaders, column, place, points, rows, D, others)

    def exact_points(self) -> list[Point]:
        return [_point(row, self.denominator) for row in self.rows] + self.others

    def weights(self, run: Run) -> "scipy.sparse.csr_array":
        """Convex weights of the limits on the leaders, (m, n_leaders); an empty row where there are none.

        Absorption probabilities of the frozen matrix P, W_i = sum_{j != i} P_ij W_j / (1 - P_ii), substituted from the
        leaders on. Exact fractions, so that no weight is negative by rounding.
        """
        m = len(run.classes)
        leads = np.flatnonzero(self.column >= 0)
        onto = scipy.sparse.csr_array((np.ones(len(leads)), (leads, self.column[leads])), shape=(m, len(self.leaders)))
        one_step = run.decided & (run.proof <= Proof.THEOREM_4)  # all their members lead
        W = scipy.sparse.diags_array(one_step.astype(np.float64)) @ (run.sets.matrix(run.classes.counts) @ onto)
        deep = np.flatnonzero(run.proof > Proof.THEOREM_4).tolist()
        entries = [(i, c, float(w)) for i, row in self._absorbed(run, deep).items() for c, w in row.items()]
        if entries:
            rows, columns, values = zip(*entries, strict=True)
            W = W + scipy.sparse.csr_array((values, (rows, columns)), shape=W.shape)
        return scipy.sparse.csr_array(W)

    def _absorbed(self, run: Run, deep: list[int]) -> dict[int, dict[int, Fraction]]:
        """Weights of the classes in `deep` by leader; a class that reaches no leader is left out."""
        leads = np.flatnonzero(self.column >= 0).tolist()
        known = {i: {int(self.column[i]): Fraction(1)} for i in leads} if deep else {}
        waiting = {j for i in deep for j in [i, *run.sets[i].tolist()]} - known.keys()
        while ready := [i for i in waiting if set(run.sets[i].tolist()) - {i} <= known.keys()]:
            for i in ready:
                members, shares, total = run.sets.shares(i, run.classes.counts)
                others = total - sum(w for j, w in zip(members, shares, strict=True) if j == i)
                row: dict[int, Fraction] = {}
                for j, w in zip(members, shares, strict=True):
                    for c, weight in known[j].items() if j != i else ():
                        row[c] = row.get(c, Fraction(0)) + Fraction(w, others) * weight
                known[i] = row
            waiting.difference_update(ready)
        return {i: known[i] for i in deep if i in known}


def one_each(columns: IntArray, width: int) -> "scipy.sparse.csr_array":
    """The matrix (rows, width) with a 1 in a column of each row."""
    rows = np.arange(len(columns) + 1)
    return scipy.sparse.csr_array((np.ones(len(columns)), columns, rows), shape=(len(columns), width))


def _point(row: Row, denominator: int) -> Point:
    return tuple(Fraction(x, denominator) for x in row)
