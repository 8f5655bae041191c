"""Where the classes of a record end: exact limits, and their weights on the leaders."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._exact import as_floats
from hardmax._types import FloatArray, IntArray, Row
from hardmax.exact.frozen import Point
from hardmax.run import Proof, Record


@dataclass(frozen=True, eq=False)
class Endpoints:
    """The limits of the m classes of a record, exactly."""

    leaders: IntArray  # (n_leaders,) classes, in the order of their tokens
    column: IntArray  # (m,) index of a class among the leaders, or -1
    # (m,) index of its limit among the points, leaders first; -1 where undecided
    place: IntArray
    points: FloatArray  # (n_points, d), each coordinate rounded once
    rows: tuple[Row, ...]  # the points of the leaders, exactly, over
    denominator: int
    others: tuple[Point, ...]  # the points after those

    @classmethod
    def of(cls, record: Record) -> "Endpoints":
        """Collect the limits of all decided classes."""
        classes = record.classes
        sets = record.sets(record.layer)
        # Leaders stand still, so where the last one emerged they are at their limits.
        layer = max(int(record.emerged.max()), 0)
        D = record.exact.denominator(layer)
        leaders = np.flatnonzero(record.emerged >= 0)
        leaders = leaders[np.argsort(classes.first[leaders])]
        # Leaders at one place, which only an A outside the hypotheses allows, count
        # once.
        column = np.full(len(classes), -1)
        numbered: dict[Row, int] = {}
        positions = record.exact.at(layer, leaders.tolist())
        for i, row in zip(leaders.tolist(), positions, strict=True):
            column[i] = numbered.setdefault(row, len(numbered))
        leaders = leaders[np.unique(column[leaders], return_index=True)[1]]

        place = np.full(len(classes), -1)
        decided = record.proof > Proof.NONE
        follows_one = decided & (record.proof <= Proof.SEEN_LEADERS)
        follows_one &= sets.sizes == 1
        place[follows_one] = column[sets.targets[follows_one]]
        deep = np.flatnonzero(decided & ~follows_one)
        deep = deep[np.argsort(classes.first[deep])].tolist()
        known: dict[Point, int] = {}
        if deep:
            known = {to_point(row, D): number for row, number in numbered.items()}
        for i in deep:
            point = record.limits.get(i)
            if point is None:
                total = sets.shares(i, classes.counts)[2]
                centroid = record.exact.centroid(layer, sets, i)
                point = to_point(centroid, D * total)
            place[i] = known.setdefault(point, len(known))
        rows = tuple(numbered)
        others = tuple(known)[len(rows) :]
        floats = [tuple(map(float, point)) for point in others]
        points = np.array(
            [*as_floats(list(rows), D).tolist(), *floats], np.float64
        ).reshape(-1, classes.rows.shape[1])
        return cls(leaders, column, place, points, rows, D, others)

    def exact_points(self) -> list[Point]:
        """Return `points` as Fractions."""
        return [to_point(row, self.denominator) for row in self.rows] + [*self.others]


def weigh_leaders(record: Record, ends: Endpoints) -> "scipy.sparse.csr_array":
    """Return convex weights of the limit of each class on the leaders, (m, n_leaders);
    a row may be empty.

    Absorption probabilities of the frozen matrix P, W_i = sum_{j != i} P_ij W_j / (1 -
    P_ii), substituted from the leaders on. Exact fractions, so that no weight is
    negative by rounding.
    """
    m = len(record.classes)
    shape = m, len(ends.leaders)
    sets = record.sets(record.layer)
    leads = np.flatnonzero(ends.column >= 0)
    onto = scipy.sparse.csr_array(
        (np.ones(len(leads)), (leads, ends.column[leads])), shape=shape
    )
    # All members of these sets lead.
    is_simple = (record.proof > Proof.NONE) & (record.proof <= Proof.SEEN_LEADERS)
    counts = np.where(
        np.repeat(is_simple, sets.sizes), record.classes.counts[sets.members], 0
    ).astype(float)
    W = scipy.sparse.csr_array((counts, sets.members, sets.starts), (m, m)) @ onto
    # Integers until here, so rounded once.
    W.data /= np.repeat(np.maximum(W.sum(axis=1), 1), np.diff(W.indptr))
    entries = [
        (i, column, float(weight))
        for i, row in absorbed_weights(record, ends).items()
        for column, weight in row.items()
    ]
    if entries:
        rows, columns, values = zip(*entries, strict=True)
        W = W + scipy.sparse.csr_array((values, (rows, columns)), shape=shape)
    return scipy.sparse.csr_array(W)


def absorbed_weights(record: Record, ends: Endpoints) -> dict[int, dict[int, Fraction]]:
    """Return the weights by leader of classes with a proof in closed form; those that
    reach no leader are left out.
    """
    deep = np.flatnonzero(record.proof > Proof.SEEN_LEADERS).tolist()
    if not deep:
        return {}
    sets = record.sets(record.layer)
    counts = record.classes.counts
    leads = np.flatnonzero(ends.column >= 0).tolist()
    known: dict[int, Mapping[int, Fraction]] = {
        i: {int(ends.column[i]): Fraction(1)} for i in leads
    }
    waiting = {j for i in deep for j in [i, *sets[i].tolist()]} - known.keys()
    while ready := [i for i in waiting if set(sets[i].tolist()) - {i} <= known.keys()]:
        for i in ready:
            members, weights, total = sets.shares(i, counts)
            pairs = list(zip(members, weights, strict=True))
            others = total - sum(w for j, w in pairs if j == i)
            row: dict[int, Fraction] = {}
            for j, w in pairs:
                if j == i:
                    continue
                for column, weight in known[j].items():
                    share = Fraction(w, others) * weight
                    row[column] = row.get(column, Fraction(0)) + share
            known[i] = row
        waiting.difference_update(ready)
    return {i: dict(known[i]) for i in deep if i in known}


def to_point(row: Row, denominator: int) -> Point:
    """Return integers over one denominator as Fractions."""
    return tuple(Fraction(x, denominator) for x in row)
