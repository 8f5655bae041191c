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
from typing import NamedTuple, TypeAlias

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
    # classes that each moving one sees; None is all
    seen: dict[int, set[int]] | None = None

    def mean(self, i: int, rows: list[Point]) -> Point:
        """Return the mean of the rows of C_i, with multiplicities."""
        members, weights, total = self.sets.shares(i, self.counts)
        sums = combine(weights, [rows[j] for j in members])  # type: ignore[misc]
        return tuple(x / total for x in sums)  # type: ignore[misc]

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
        left = set(self.moving) - _find_standing(self)
        order: list[int] = []
        while True:
            ready = [i for i in sorted(left) if left.isdisjoint(self.sets[i].tolist())]
            if not ready:
                return order, left
            order += ready
            left -= set(ready)


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Integers s_i and a_{i,r} of every class, over one denominator."""

    limits: list[Row]  # s_i
    levels: list[list[Row]]  # a_{i,r}, by r and i


def certify(
    frozen: Frozen, undecided: list[int] | None = None, blocked: Set[int] = frozenset()
) -> dict[int, tuple[bool, Point]]:
    """Return whether the proof is a chain, and the limit, of each class that is proved.

    `undecided` lists the classes to prove, under a mask each after those that it sees;
    those `blocked` are not tried. Without a mask all moving classes are proved or none.
    """
    undecided = frozen.moving if undecided is None else undecided
    is_masked = frozen.seen is not None
    order, cyclic = frozen.chain
    if cyclic and not is_masked:
        return {}
    limits = _find_limits(frozen, order)
    form = _find_closed_form(frozen, limits, order)
    every = range(len(limits))
    unproved = cyclic | blocked
    followers = set(order)
    proved: dict[int, tuple[bool, Point]] = {}
    for i in undecided:
        keys = every if frozen.seen is None else frozen.seen[i]
        if unproved.isdisjoint(keys) and _keeps_its_set(frozen, form, i, keys):
            is_chain = i in followers if is_masked else bool(followers)
            proved[i] = is_chain, limits[i]
        elif is_masked:
            unproved.add(i)
        else:
            return {}
    return proved


def _find_standing(frozen: Frozen) -> set[int]:
    """Return moving classes whose centroid stands still: the mean of c_j over C_i is
    c_i, also for members.
    """
    open_classes = set(frozen.moving)
    centroids = frozen.centroids
    standing = {i for i in open_classes if frozen.mean(i, centroids) == centroids[i]}
    while True:
        unsure = {
            i
            for i in standing
            if not open_classes & set(frozen.sets[i].tolist()) <= standing
        }
        if not unsure:
            return standing
        standing -= unsure


def _find_limits(frozen: Frozen, order: list[int]) -> list[Point]:
    """Return s_i: the centroid for decided classes and under T, along chains the mean
    of the limits of the members.
    """
    limits = frozen.centroids.copy()
    for i in order:
        limits[i] = frozen.mean(i, limits)
    return limits


def _find_closed_form(
    frozen: Frozen, limits: list[Point], order: list[int]
) -> ClosedForm:
    """Return a_{i,0} = z_i - s_i and a_{i,r+1} = alpha sum_j P_ij a_{j,r}, until all
    are 0; beyond r = 0 only along chains.
    """
    pairs = zip(frozen.points, limits, strict=True)
    levels = [[tuple(map(sub, z, s)) for z, s in pairs]]
    zero = tuple(Fraction(0) for _ in limits[0])
    while True:
        level = [zero] * len(limits)
        for i in order:
            mean = frozen.mean(i, levels[-1])
            level[i] = tuple(frozen.alpha * x for x in mean)
        if not any(any(row) for row in level):
            break
        levels.append(level)
    tables = [limits, *levels]
    D = lcm(*{x.denominator for table in tables for row in table for x in row})
    first, *others = [
        [tuple(int(x * D) for x in row) for row in table] for table in tables
    ]
    return ClosedForm(first, others)


def _keeps_its_set(
    frozen: Frozen, form: ClosedForm, i: int, keys: Iterable[int]
) -> bool:
    """Return whether members of C_i stay equal and all other keys stay strictly below,
    at every later layer.
    """
    rho = 1 / (1 + frozen.alpha)
    members = set(frozen.sets[i].tolist())
    member = int(frozen.sets[i][0])
    query = apply(frozen.A, form.limits[i])
    queries = [apply(frozen.A, level[i]) for level in form.levels]
    for j in keys:
        difference = tuple(map(sub, form.limits[member], form.limits[j]))
        differences = [tuple(map(sub, row[member], row[j])) for row in form.levels]
        gap = _find_gap(query, queries, difference, differences)
        if j in members:
            if not gap.vanishes:
                return False
        elif not _stays_positive(gap, rho):
            return False
    return True


class Gap(NamedTuple):
    """F0 + rho^m F1(m) + rho^{2m} F2(m), with polynomials in the basis C(m, r)."""

    constant: int
    first: list[int]
    second: list[int]

    @property
    def vanishes(self) -> bool:
        """Whether all coefficients are 0."""
        return not any([self.constant, *self.first, *self.second])


def _find_gap(
    query: Row, queries: list[Row], difference: Row, differences: list[Row]
) -> Gap:
    """Return <A z_i(m), z_l(m) - z_j(m)> of the closed forms of A z_i and z_l - z_j."""
    levels = len(queries)
    first = [
        dot(query, row) + dot(image, difference)
        for image, row in zip(queries, differences, strict=True)
    ]
    second = [0] * (2 * levels - 1)
    for u, image in enumerate(queries):
        for v, row in enumerate(differences):
            product = dot(image, row)
            if not product:
                continue
            # C(m, u) C(m, v) = sum_r C(r, u) C(u, r - v) C(m, r)
            for r in range(max(u, v), u + v + 1):
                second[r] += product * comb(r, u) * comb(u, r - v)
    return Gap(dot(query, difference), first, second)


def _stays_positive(gap: Gap, rho: Fraction) -> bool:
    """Test a sufficient condition for F0 + rho^m F1(m) + rho^{2m} F2(m) > 0 at every m
    >= 0.
    """
    constant, first, second = gap
    if len(first) == 1 and _parabola_is_positive(constant, first[0], second[0]):
        return True
    if constant:
        return constant > _worst(first, rho) + _worst(second, rho * rho)
    if any(first):
        return min(first) >= 0 and first[0] > _worst(second, rho)
    return min(second) >= 0 and second[0] > 0


def _parabola_is_positive(constant: int, linear: int, quadratic: int) -> bool:
    """Return whether constant + linear t + quadratic t^2 > 0 for t in (0, 1], by its
    coefficients of t^2, t (1 - t) and (1 - t)^2.
    """
    start = constant + linear + quadratic
    middle = 2 * constant + linear
    if start <= 0 or constant < 0:
        return False
    return middle >= 0 or middle * middle < 4 * start * constant


def _worst(coefficients: list[int], rho: Fraction) -> Fraction:
    """Bound how negative rho^m sum_r f_r C(m, r) can be at most."""
    bound = Fraction(0)
    for r, f in enumerate(coefficients):
        if f < 0:
            bound -= f * _peak(r, rho)
    return bound


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
