"""Small clouds by whole numbers of 16 bits: half the time of float32, and a coarser grid.

Queries and keys are scaled to a length of at most L = 32,000 and rounded: v = s q + x and w = t k + y, where x and y
have coordinates of at most 0.502, 1/2 for the rounding and the rest for that of s q and t k. Lengths are off by less
than 1 %, so that |s q| and |t k| are at most 1.01 L, and |v| and |w| that and 0.502 sqrt(d). Up to d = `DEEPEST`,
coordinates are then below 2^15, and sums of products, of some coordinates or of all, below 2^30. They are not rounded,
and as <v, w> - s t <q, k> = <v, y> + <x, t k>, they are off by at most

    e = 0.502 sqrt(d) (2.02 L + 0.502 sqrt(d)).

A key that leads by more than 2 e and the slack of float64, which is less than 1 here, has won. The last 9 bits of a sum
make room for the place of its key: that moves it by 511 at most.

Where a lead is too small to tell, 16 queries are asked again in float32, and the next 16, or 5, 21, ... times as many,
are not asked here at all, until whole numbers tell again: tokens that have gathered take as long as in float32. That
decides about time alone.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from typing import TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from hardmax._types import AnyArray, IntArray
from hardmax.search.lanes import FLAGS
from hardmax.search.registers import LANES
from hardmax.search.vectors import (
    SINGLES,
    WHOLES,
    all_products,
    bits,
    everywhere,
    float32,
    for_llvm,
    int64,
    larger,
    load,
    root,
    smaller,
    store,
)

LONGEST = 32_000.0
DEEPEST = 4096  # coordinates
PLACES = 512  # that keys may have in their cloud
MISSING = -(2**31)  # a sum that never wins
ROUNDED = 1.5 * 2.0**23  # added to a number it leaves whole ones, in the last bits of a float32
LONGEST_WAIT = 255  # times 16 queries

# 16 queries, and panels, in pairs; places of keys; best and second best; how long to wait, and how long it was before
WholeSpace: TypeAlias = tuple[AnyArray, AnyArray, AnyArray, AnyArray, AnyArray, IntArray]


@njit
def whole_space(m: int, d: int) -> WholeSpace:
    """For one cloud of m keys at most."""
    pairs, size = (d + 1) // 2, (m + LANES - 1) // LANES * LANES
    lanes, panels, places = (
        np.empty(pairs * LANES, np.int32),
        np.empty(pairs * size, np.int32),
        np.empty(size, np.int32),
    )
    return lanes, panels, places, np.empty(LANES, np.int32), np.empty(LANES, np.int32), np.zeros(2, np.intp)


@njit(fastmath=FLAGS)
def pack_wholes(
    panels: AnyArray, ids: IntArray, n: int, d: int, squares: AnyArray, least: np.float32, space: WholeSpace
) -> bool:
    """Round the keys `ids`, given as panels of float32, if any of n queries is to be asked here; whether that is so.

    `squares` holds the largest square of their lengths, 16 times.
    """
    _, out, places, _, _, waits = space
    groups = (n + LANES - 1) // LANES
    if d > DEEPEST or ids[-1] >= PLACES or waits[0] >= groups:
        waits[0] = max(0, waits[0] - groups)
        return False
    for start in range(0, len(ids), LANES):
        _round(panels, start * d, d, squares, least, out, start * ((d + 1) // 2))
        for at in range(start, start + LANES):
            places[at] = ids[at] if at < len(ids) else MISSING
    return True


@njit(fastmath=FLAGS)
def told_by_wholes(
    given: AnyArray,
    d: int,
    squares: AnyArray,
    least: np.float32,
    count: int,
    space: WholeSpace,
    follows: AnyArray,
    top: int,
    some: int,
) -> bool:
    """Write who wins for the queries from `top` on, 16 or less, if it is sure for all; whether it is.

    They are given as lanes of float32, with the squares of their lengths. There are `count` keys.
    """
    lanes, panels, places, best, second, waits = space
    if waits[0] > 0:
        waits[0] -= 1
        return False
    _round(given, 0, d, squares, least, lanes, 0)
    for lane in range(LANES):
        best[lane] = second[lane] = MISSING
    for start in range(0, count, LANES):
        _panel_winners(lanes, panels, start * ((d + 1) // 2), (d + 1) // 2, places, start, best, second)
    everybody = (1 << some) - 1
    told = _leading(best, second, _lead(d)) & everybody == everybody
    waits[1] = 0 if told else min(4 * waits[1] + 1, LONGEST_WAIT)
    waits[0] = waits[1]
    for lane in range(some):
        follows[top + lane] = best[lane] & PLACES - 1
    return told


@njit
def _lead(d: int) -> int:
    """By how much the best sum has to lead: 2 e, and what places change in two sums, and the slack of float64."""
    off = 0.502 * np.sqrt(d)
    return int(2 * off * (2.02 * LONGEST + off)) + 2 * PLACES


@for_llvm(types.void, None, int64, int64, None, float32, None, int64)
def _round(builder, lanes, at, d, squares, least, out, out_at):
    """Write 16 rows of d numbers as pairs of whole ones, scaled by L over the square root of squares + least."""
    length = root(builder, builder.fadd(load(builder, squares, SINGLES), everywhere(builder, least)))
    scale = builder.fdiv(ir.Constant(SINGLES[0], [LONGEST] * LANES), length)
    magic, low = ir.Constant(SINGLES[0], [ROUNDED] * LANES), ir.Constant(WHOLES[0], [0xFFFF] * LANES)

    def whole(row):
        value = load(builder, builder.gep(lanes, [builder.add(at, builder.mul(row, row.type(LANES)))]), SINGLES)
        scaled = builder.fmul(value, scale, flags=("contract",))
        return builder.bitcast(builder.fadd(scaled, magic, flags=("contract",)), WHOLES[0])

    def write(pair, first, second):
        place = builder.gep(out, [builder.add(out_at, builder.mul(pair, pair.type(LANES)))])
        upper = builder.shl(second, ir.Constant(WHOLES[0], [16] * LANES))
        store(builder, builder.or_(builder.and_(first, low), upper), place, WHOLES)

    pairs = builder.lshr(d, d.type(1))
    with cgutils.for_range(builder, pairs) as loop:
        row = builder.shl(loop.index, loop.index.type(1))
        write(loop.index, whole(row), whole(builder.add(row, row.type(1))))
    with builder.if_then(builder.trunc(d, ir.IntType(1))):
        write(pairs, whole(builder.sub(d, d.type(1))), ir.Constant(WHOLES[0], None))


@for_llvm(types.void, None, None, int64, int64, None, int64, None, None)
def _panel_winners(builder, queries, panels, panel_at, pairs, places, place_at, best, second):
    """Add the keys of a panel to the best and second best sums of 16 queries, each with its place in the last bits."""
    first, next_one = (load(builder, start, WHOLES) for start in (best, second))
    upper = ir.Constant(WHOLES[0], [-PLACES] * LANES)
    for t, one in enumerate(all_products(builder, queries, builder.gep(panels, [panel_at]), pairs)):
        place = builder.load(builder.gep(places, [builder.add(place_at, place_at.type(t))]))
        placed = builder.or_(builder.and_(one, upper), everywhere(builder, place))
        next_one = larger(builder, next_one, smaller(builder, placed, first))
        first = larger(builder, placed, first)
    store(builder, first, best, WHOLES)
    store(builder, next_one, second, WHOLES)


@for_llvm(int64, None, None, int64)
def _leading(builder, best, second, lead):
    """Which of 16 queries have a best sum that leads by more than `lead`: bit l of the result."""
    first, next_one = (load(builder, start, WHOLES) for start in (best, second))
    needed = builder.sub(first, everywhere(builder, builder.trunc(lead, ir.IntType(32))))
    return bits(builder, builder.icmp_signed(">", needed, next_one))
