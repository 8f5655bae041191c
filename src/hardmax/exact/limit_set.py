"""The set S of limits of a finished run: the point of each class, its weights on the leaders, and the radius.

A `LimitSet` holds the last layer alone, not the layers before it, and can be pickled.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._exact import as_floats
from hardmax._types import FloatArray, IntArray, Row
from hardmax.exact.certificates import Point
from hardmax.exact.run import Proof, Run
from hardmax.search.sets import Classes, Sets

if TYPE_CHECKING:
    from hardmax.rules.hardmax import Hardmax


@dataclass(frozen=True, eq=False)
class LimitSet:
    """Limits of the m classes of a token set."""

    rule: "Hardmax"
    classes: Classes
    layer: int  # the last one run
    sets: Sets  # of that layer
    proof: IntArray  # (m,) what decided a class, as a `Proof`
    leaders: IntArray  # (n_leaders,) classes, in the order of their tokens
    column: IntArray  # (m,) index of a class among the leaders, or -1
    place: IntArray  # (m,) index of its limit among the points, leaders first; -1 where undecided
    points: FloatArray  # (n_points, d), each coordinate rounded once
    others: list[Point]  # the points after those in `rows`, exactly
    rows: tuple[Row, ...] = ()  # the first points, exactly, over one denominator
    denominator: int = 1

    @classmethod
    def of(cls, run: Run, found: dict[int, Point]) -> "LimitSet":
        """Collect the limits of all decided classes; `found` holds those that T or chain proved."""
        last = run.rule, run.classes, run.layer, run.sets, run.proof
        leaders = np.flatnonzero(run.emerged >= 0)
        leaders = leaders[np.argsort(run.classes.first[leaders])]
        column = np.full(len(run.classes), -1)
        history = run.state.history
        if history is None:  # a tolerance: nothing is decided, leaders are where the floats are
            column[leaders] = np.arange(len(leaders))
            return cls(*last, leaders, column, np.full(len(run.classes), -1), run.state.tokens[leaders], [])

        D = history.denominator(run.layer)
        numbered: dict[Row, int] = {}  # leaders at one place, which only an A outside the hypotheses allows, count once
        for i, row in zip(leaders.tolist(), history.at(run.layer, leaders.tolist()), strict=True):
            column[i] = numbered.setdefault(row, len(numbered))
        leaders = leaders[np.unique(column[leaders], return_index=True)[1]]
        rows = tuple(numbered)

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
        floats = [as_floats(list(rows), D), np.array([list(map(float, point)) for point in others])]
        points = np.vstack([part for part in floats if part.size] or [np.empty((0, run.classes.rows.shape[1]))])
        return cls(*last, leaders, column, place, points, others, rows, D)

    def exact_points(self) -> list[Point]:
        """Return all points; none where a tolerance decides ties."""
        return [_point(row, self.denominator) for row in self.rows] + self.others

    def weights(self) -> "scipy.sparse.csr_array":
        """Return convex weights of the limit of each token on the leaders, (n, n_leaders); a row may be empty.

        Absorption probabilities of the frozen matrix P, W_i = sum_{j != i} P_ij W_j / (1 - P_ii), substituted from the
        leaders on. Exact fractions, so that no weight is negative by rounding.
        """
        leads, shape = np.flatnonzero(self.column >= 0), (len(self.classes), len(self.leaders))
        onto = scipy.sparse.csr_array((np.ones(len(leads)), (leads, self.column[leads])), shape=shape)
        one_step = (self.proof > Proof.NONE) & (self.proof <= Proof.THEOREM_4)  # all their members lead
        W = scipy.sparse.diags_array(one_step.astype(np.float64)) @ (self.sets.matrix(self.classes.counts) @ onto)
        entries = [(i, c, float(w)) for i, row in self._absorbed().items() for c, w in row.items()]
        if entries:
            rows, columns, values = zip(*entries, strict=True)
            W = W + scipy.sparse.csr_array((values, (rows, columns)), shape=shape)
        return scipy.sparse.csr_array(W)[self.classes.labels]

    def _absorbed(self) -> dict[int, dict[int, Fraction]]:
        """Return the weights by leader of classes that T or chain decided; those that reach no leader are left out."""
        deep = np.flatnonzero(self.proof > Proof.THEOREM_4).tolist()
        leads = np.flatnonzero(self.column >= 0).tolist()
        known = {i: {int(self.column[i]): Fraction(1)} for i in leads} if deep else {}
        waiting = {j for i in deep for j in [i, *self.sets[i].tolist()]} - known.keys()
        while ready := [i for i in waiting if set(self.sets[i].tolist()) - {i} <= known.keys()]:
            for i in ready:
                members, shares, total = self.sets.shares(i, self.classes.counts)
                others = total - sum(w for j, w in zip(members, shares, strict=True) if j == i)
                row: dict[int, Fraction] = {}
                for j, w in zip(members, shares, strict=True):
                    for c, weight in known[j].items() if j != i else ():
                        row[c] = row.get(c, Fraction(0)) + Fraction(w, others) * weight
                known[i] = row
            waiting.difference_update(ready)
        return {i: known[i] for i in deep if i in known}

    def radius(self) -> float:
        """Run the layers again, with gaps; 0 unless all tokens are distinct and Theorems 1 and 4 decide them."""
        by_theorem = (self.proof > Proof.NONE) & (self.proof <= Proof.THEOREM_4)
        if not (self.classes.distinct and by_theorem.all()):
            return 0.0
        run = Run(self.rule, self.classes.rows, gaps=True)
        run.choose()
        while run.layer < self.layer:
            run.advance()
            run.choose()
        return run.state.radius(run.smallest_gap)


def _point(row: Row, denominator: int) -> Point:
    return tuple(Fraction(x, denominator) for x in row)
