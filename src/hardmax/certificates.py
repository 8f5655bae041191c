"""Proofs that all sets are final although some tokens follow tokens that still move.

Theorems 1 and 4 (`run.py`) decide tokens one by one. The two certificates here look at the whole frozen picture: assume
that every C_i of this layer goes on for ever, write all later positions in closed form, and test in exact arithmetic
that the products then choose the same sets at every later layer. If so, the assumption was right, by induction.

T      all centroids c_i stand still: z_i(m) = c_i + rho^m (z_i - c_i).
chain  no cycle among tokens that move: z_i(m) = s_i + rho^m q_i(m) with polynomials q_i, s_i the limit.

With b = alpha/(1 + alpha) and rho = 1/(1 + alpha), and all positions as integers over one denominator, which changes no
sign.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import comb, lcm
from operator import sub
from typing import TypeAlias

import numpy as np

from hardmax._types import BoolArray, IntArray, Row
from hardmax.exact import apply, combine, dot
from hardmax.sets import Sets

Point: TypeAlias = tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Frozen:
    """One layer, exactly: what a certificate looks at."""

    positions: list[Row]  # of every class
    sets: Sets
    counts: IntArray
    leads: BoolArray
    undecided: list[int]
    alpha: Fraction
    A: list[Row] | None

    def mean(self, i: int, rows: list[Point]) -> Point:
        """Mean of `rows` over C_i."""
        members, weights, total = self.sets.shares(i, self.counts)
        return tuple(x / total for x in combine(weights, [rows[j] for j in members]))  # type: ignore[misc]


def certify(frozen: Frozen) -> tuple[str, dict[int, Point]] | None:
    """Try T, then chain. Return its name and the limit of each undecided class, or None."""
    for name, proof in (("T", _certificate_t), ("chain", _certificate_chain)):
        limits = proof(frozen)
        if limits is not None:
            return name, limits
    return None


def _certificate_t(frozen: Frozen) -> dict[int, Point] | None:
    points = [tuple(map(Fraction, row)) for row in frozen.positions]
    means = [frozen.mean(i, points) for i in range(len(points))]
    if any(frozen.mean(i, means) != means[i] for i in frozen.undecided):  # (T1)
        return None
    (z, c), _ = _integers(points, means)
    for i in frozen.undecided:
        Az, Ac = apply(frozen.A, z[i]), apply(frozen.A, c[i])
        members = set(frozen.sets[i].tolist())
        for j in range(len(z)):
            to_z, to_c = tuple(map(sub, c[i], z[j])), tuple(map(sub, c[i], c[j]))
            f00, f11 = dot(Az, to_z), dot(Ac, to_c)
            cross = dot(Az, to_c) + dot(Ac, to_z)
            if j in members:
                if f00 or cross or f11:  # (T2): the member stays level with the others
                    return None
            elif f11 < 0 or (cross < 0 and cross * cross >= 4 * f00 * f11):  # (T3): the others stay below
                return None
    return {i: means[i] for i in frozen.undecided}


def _certificate_chain(frozen: Frozen) -> dict[int, Point] | None:
    order = _from_leaders(frozen)
    if order is None:
        return None
    points = [tuple(map(Fraction, row)) for row in frozen.positions]
    limits = list(points)
    for i in order:
        limits[i] = frozen.mean(i, limits)
    if not _plausible(frozen, limits):
        return None
    # q_i(m) = sum_r C(m, r) a_{i,r}:  a_{i,0} = z_i - s_i,  a_{i,r+1} = (b/rho) sum_j P_ij a_{j,r},  b/rho = alpha.
    levels = [[tuple(map(sub, z, s)) for z, s in zip(points, limits, strict=True)]]
    while any(map(any, levels[-1])):
        last = levels[-1]
        zero = tuple(Fraction(0) for _ in last[0])
        following = [zero] * len(last)
        for i in order:
            following[i] = tuple(frozen.alpha * x for x in frozen.mean(i, last))
        levels.append(following)
    (s, *a), _ = _integers(limits, *levels[:-1])
    rho = 1 / (1 + frozen.alpha)
    for i in frozen.undecided:
        members = set(frozen.sets[i].tolist())
        level = frozen.sets[i][0]
        As, Aa = apply(frozen.A, s[i]), [apply(frozen.A, row[i]) for row in a]
        for j in range(len(s)):
            gap = _gap(As, Aa, tuple(map(sub, s[level], s[j])), [tuple(map(sub, row[level], row[j])) for row in a])
            if not (_vanishes(gap) if j in members else _stays_positive(gap, rho)):
                return None
    return {i: limits[i] for i in frozen.undecided}


def _from_leaders(frozen: Frozen) -> list[int] | None:
    """Classes that do not lead, each after all that it follows; None if some follow each other in a circle."""
    order: list[int] = []
    waiting = {i: set(frozen.sets[i].tolist()) for i in range(len(frozen.sets)) if not frozen.leads[i]}
    done = set(np.flatnonzero(frozen.leads).tolist())
    while waiting:
        ready = [i for i, members in waiting.items() if members <= done]
        if not ready:
            return None
        order += ready
        done.update(ready)
        for i in ready:
            del waiting[i]
    return order


def _plausible(frozen: Frozen, limits: list[Point]) -> bool:
    """Cheap float test of a necessary condition: at the limit no other token is clearly ahead of C_i."""
    size = max(abs(x) for row in limits for x in row) or Fraction(1)
    s = np.array([[float(x / size) for x in row] for row in limits])
    A = np.eye(s.shape[1]) if frozen.A is None else _unit(frozen.A)
    rows = np.array(frozen.undecided)
    products = s[rows] @ A.T @ s.T
    chosen = products[np.arange(len(rows)), frozen.sets.targets[rows]]
    return bool((products.max(axis=1) - chosen <= 1e-9 * np.abs(A).sum()).all())


def _unit(A: list[Row]) -> np.ndarray:
    size = max(abs(x) for row in A for x in row) or 1
    return np.array([[x / size for x in row] for row in A])


def _integers(*groups: list[Point]) -> tuple[list[list[Row]], int]:
    """Several lists of points as integers over one denominator."""
    denominator = lcm(*{x.denominator for rows in groups for row in rows for x in row})
    return [[tuple(int(x * denominator) for x in row) for row in rows] for rows in groups], denominator


Gap: TypeAlias = tuple[int, list[int], list[int]]


def _gap(As: Row, Aa: list[Row], S: Row, q: list[Row]) -> Gap:
    """<A z_i(m), z_l(m) - z_j(m)> = F0 + rho^m F1(m) + rho^{2m} F2(m), polynomials in the basis C(m, r)."""
    first = [dot(As, row) + dot(Ai, S) for row, Ai in zip(q, Aa, strict=True)]
    second = [0] * max(0, 2 * len(q) - 1)
    for u, Ai in enumerate(Aa):
        for v, row in enumerate(q):
            product = dot(Ai, row)
            if product:
                for r in range(max(u, v), u + v + 1):  # C(m,u) C(m,v) = sum_r C(r,u) C(u,r-v) C(m,r)
                    second[r] += product * comb(r, u) * comb(u, r - v)
    return dot(As, S), first, second


def _vanishes(gap: Gap) -> bool:
    return gap[0] == 0 and not any(gap[1]) and not any(gap[2])


def _stays_positive(gap: Gap, rho: Fraction) -> bool:
    """Sufficient for F0 + rho^m F1(m) + rho^{2m} F2(m) > 0 at every m >= 0."""
    constant, first, second = gap
    if constant:
        return constant > _worst(first, rho) + _worst(second, rho * rho)
    if any(first):
        return min(first) >= 0 and first[0] > _worst(second, rho)
    return bool(second) and min(second) >= 0 and second[0] > 0


def _worst(coefficients: list[int], rho: Fraction) -> Fraction:
    """How negative rho^m sum_r f_r C(m, r) can be: each C(m, r) rho^m is largest at m = floor(r / (1 - rho))."""
    worst = Fraction(0)
    for r, f in enumerate(coefficients):
        if f < 0:
            m = int(r / (1 - rho))
            worst -= f * comb(m, r) * rho**m
    return worst
