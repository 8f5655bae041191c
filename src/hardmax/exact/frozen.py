"""A proof that all sets are final although some tokens follow tokens that still move.

Theorems 1 and 4 (`run.py`) decide tokens one by one. The certificate here looks at the
whole frozen picture: assume that every C_i of this layer is final, write all later
positions in closed form,

    z_i(m) = s_i + rho^m sum_r C(m, r) a_{i,r},     rho = 1/(1 + alpha),

and test in exact arithmetic that the products then choose the same sets at every later
layer. If so, the assumption was right, by induction. Two kinds of undecided tokens have
such a form:

T      the centroids of their sets stand still, so s_i = c_i and the sum is the one
       term z_i - c_i;
chain  they follow tokens that have such a form, without a cycle.

All positions are integers over one denominator, which changes no sign. Under a mask
token i is compared with the tokens that it sees alone, and its proof rests on theirs:
it fails where one of them has none.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, comb, lcm
from operator import sub
from typing import TypeAlias

from hardmax._exact import apply, combine, dot
from hardmax._types import IntArray, Row
from hardmax.sets import Sets

Point: TypeAlias = tuple[Fraction, ...]

# Powers of rho, with bounds that the checkers of certificates use, too.
MAX_EXPONENT = 1000  # powers beyond it cost more than a looser bound
UNIT = 2**64  # a power is one of rho rounded up to 64 bits


@dataclass(frozen=True, eq=False)
class Frozen:
    """Exact positions and sets of one layer, from which a certificate follows."""

    positions: list[Row]  # of every class
    sets: Sets
    counts: IntArray
    moving: list[int]  # classes that Theorems 1 and 4, and C1, leave open
    alpha: Fraction
    A: list[Row] | None
    seen: dict[int, set[int]] | None = (
        None  # classes that each moving one sees; None is all
    )

    def mean(self, i: int, rows: list[Point]) -> Point:
        members, weights, total = self.sets.shares(i, self.counts)
        return tuple(x / total for x in combine(weights, [rows[j] for j in members]))  # type: ignore[misc]

    @cached_property
    def points(self) -> list[Point]:
        return [tuple(map(Fraction, row)) for row in self.positions]

    @cached_property
    def centroids(self) -> list[Point]:
        return [self.mean(i, self.points) for i in range(len(self.points))]

    @cached_property
    def chain(self) -> tuple[list[int], set[int]]:
        """Moving classes that T does not cover, each after all that it follows; and
        those that follow a cycle, for which there is no closed form.
        """
        return _chain(self, _standing(self, self.centroids))


def certify(
    frozen: Frozen, undecided: list[int] | None = None, blocked: Set[int] = frozenset()
) -> dict[int, tuple[bool, Point]]:
    """Return whether the proof is a chain, and the limit, of each class that is proved.

    `undecided` lists the classes to prove, under a mask each after those that it sees;
    those `blocked` are not tried. Without a mask all moving classes are proved or none.
    """
    undecided = frozen.moving if undecided is None else undecided
    points = frozen.points
    limits = frozen.centroids.copy()  # right for decided classes, and under T
    order, cyclic = frozen.chain
    if cyclic and frozen.seen is None:
        return {}
    for i in order:
        limits[i] = frozen.mean(i, limits)
    failed = cyclic | blocked
    lists = [limits, *_levels(frozen, points, limits, order)]
    D = lcm(*{x.denominator for rows in lists for row in rows for x in row})
    s, *a = [[tuple(int(x * D) for x in row) for row in rows] for rows in lists]
    proved, chain = dict[int, tuple[bool, Point]](), set(order)
    for i in undecided:
        keys = range(len(points)) if frozen.seen is None else frozen.seen[i]
        if failed.isdisjoint(keys) and _keeps_its_set(frozen, s, a, i, keys):
            proved[i] = bool(order) if frozen.seen is None else i in chain, limits[i]
        elif frozen.seen is None:
            return {}
        else:
            failed.add(i)
    return proved


def _standing(frozen: Frozen, means: list[Point]) -> set[int]:
    """Return moving classes whose centroid stands still: the mean of c_j over C_i is
    c_i, also for members.
    """
    open_rows = set(frozen.moving)
    standing = {i for i in open_rows if frozen.mean(i, means) == means[i]}
    while unsure := {
        i
        for i in standing
        if not (set(frozen.sets[i].tolist()) & open_rows) <= standing
    }:
        standing -= unsure
    return standing


def _chain(frozen: Frozen, standing: set[int]) -> tuple[list[int], set[int]]:
    """Return the other moving classes, each after all that it follows; and those that
    follow a cycle.
    """
    left, order = set(frozen.moving) - standing, list[int]()
    while ready := [
        i for i in sorted(left) if left.isdisjoint(frozen.sets[i].tolist())
    ]:
        order += ready
        left -= set(ready)
    return order, left


def _levels(
    frozen: Frozen, points: list[Point], limits: list[Point], order: list[int]
) -> list[list[Point]]:
    """a_{i,0} = z_i - s_i and a_{i,r+1} = alpha sum_j P_ij a_{j,r}, until all are 0;
    beyond r = 0 only along chains.
    """
    levels = [[tuple(map(sub, z, s)) for z, s in zip(points, limits, strict=True)]]
    zero = tuple(Fraction(0) for _ in points[0])
    while True:
        following = [zero] * len(points)
        for i in order:
            following[i] = tuple(frozen.alpha * x for x in frozen.mean(i, levels[-1]))
        if not any(map(any, following)):
            return levels
        levels.append(following)


def _keeps_its_set(
    frozen: Frozen, s: list[Row], a: list[list[Row]], i: int, keys: Iterable[int]
) -> bool:
    """Return whether members of C_i stay equal and all other keys stay strictly below,
    at every later layer.
    """
    rho = 1 / (1 + frozen.alpha)
    members, level = set(frozen.sets[i].tolist()), frozen.sets[i][0]
    As, Aa = apply(frozen.A, s[i]), [apply(frozen.A, row[i]) for row in a]
    for j in keys:
        gap = _gap(
            As,
            Aa,
            tuple(map(sub, s[level], s[j])),
            [tuple(map(sub, row[level], row[j])) for row in a],
        )
        if (
            any([gap[0], *gap[1], *gap[2]])
            if j in members
            else not _stays_positive(gap, rho)
        ):
            return False
    return True


Gap: TypeAlias = tuple[int, list[int], list[int]]


def _gap(As: Row, Aa: list[Row], S: Row, q: list[Row]) -> Gap:
    """<A z_i(m), z_l(m) - z_j(m)> = F0 + rho^m F1(m) + rho^{2m} F2(m), polynomials in
    the basis C(m, r).
    """
    first = [dot(As, row) + dot(Ai, S) for row, Ai in zip(q, Aa, strict=True)]
    second = [0] * (2 * len(q) - 1)
    for u, Ai in enumerate(Aa):
        for v, row in enumerate(q):
            product = dot(Ai, row)
            if product:
                for r in range(
                    max(u, v), u + v + 1
                ):  # C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
                    second[r] += product * comb(r, u) * comb(u, r - v)
    return dot(As, S), first, second


def _stays_positive(gap: Gap, rho: Fraction) -> bool:
    """Test a sufficient condition for F0 + rho^m F1(m) + rho^{2m} F2(m) > 0 at every m
    >= 0.
    """
    constant, first, second = gap
    if (
        len(first) == 1
    ):  # a parabola in t = rho^m, by its coefficients of t^2, t(1 - t) and (1 - t)^2
        start, middle = constant + first[0] + second[0], 2 * constant + first[0]
        if (
            start > 0
            and constant >= 0
            and (middle >= 0 or middle * middle < 4 * start * constant)
        ):
            return True
    if constant:
        return constant > _worst(first, rho) + _worst(second, rho * rho)
    if any(first):
        return min(first) >= 0 and first[0] > _worst(second, rho)
    return min(second) >= 0 and second[0] > 0


def _worst(coefficients: list[int], rho: Fraction) -> Fraction:
    """Bound how negative rho^m sum_r f_r C(m, r) can be at most."""
    return sum(
        (-f * _peak(r, rho) for r, f in enumerate(coefficients) if f < 0), Fraction(0)
    )


@lru_cache(maxsize=256)
def _peak(r: int, rho: Fraction) -> Fraction:
    """Return an upper bound of C(m, r) rho^m over m.

    The largest value is at m = floor(r / (1 - rho)). It grows with rho, so a longer rho
    is rounded up. Beyond `MAX_EXPONENT` the sum over all m is the bound.
    """
    unit = UNIT << int(1 / rho).bit_length()
    above = Fraction(ceil(rho * unit), unit)
    if r <= MAX_EXPONENT * (1 - above):
        m = int(r / (1 - above)) if r else 0
        return comb(m, r) * above**m
    return rho**r / (1 - rho) ** (r + 1)
