"""Bounds of the products of queries with the keys of nodes, every number in a register.

A node has a middle c, sides e, a direction m, and a thickness h: |k_r - c_r| <= e_r and |<m, k - c>| <= h for all its
keys k. Queries are at most f_r away from p in each coordinate. For any key o, and any t,

    <q, k - o> = <p, c - o> + <p, k - c> + <q - p, k - o>
              <= <p, c - o> + |t| h + sum_r |p_r - t m_r| e_r + sum_r f_r (|c_r - o_r| + e_r),

as <p, k - c> = t <m, k - c> + <p - t m, k - c>. With t = <p, m> this is as good as a box that is turned: keys on a
curved surface lie in thin slices of it. With o close to the best key, the last sum is of the second order. The first
test is this, for 16 neighbouring queries as one and 16 nodes at once; the second is for each of them and one node:

    <q, k> <= <q, c> + |t| h + sum_r |q_r - t m_r| e_r.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from hardmax.kernels.registers import LANES
from hardmax.kernels.vectors import SINGLES, bits, everywhere, float32, for_llvm, int64, load, size, store


def _row(builder, array, at):
    return load(builder, builder.gep(array, [at]), SINGLES)


def _add(builder, total, one, other):
    product = builder.fmul(one, other, flags=("contract",))
    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)


@for_llvm(int64, None, int64, int64, None, None, None, float32, None)
def within_reach(builder, nodes, at, d, p, f, o, least, bounds):
    """Write the bounds of 16 nodes; which are not below `least` is returned as bits.

    From nodes[at] on there are 16 numbers for each coordinate of c, of m and of e, and of h.
    """
    bound, slope = (cgutils.alloca_once_value(builder, ir.Constant(SINGLES[0], None)) for _ in range(2))
    twice, add = builder.add(d, d), partial(_add, builder)

    def lanes(place):
        return _row(builder, nodes, builder.add(at, builder.mul(place, place.type(LANES))))

    def number(array, r):
        return everywhere(builder, builder.load(builder.gep(array, [r])))

    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        away, ahead = builder.fsub(lanes(r), number(o, r)), number(p, r)
        add(bound, away, ahead)
        add(bound, size(builder, away), number(f, r))
        add(slope, lanes(builder.add(r, d)), ahead)
    t = builder.load(slope)
    add(bound, size(builder, t), lanes(builder.add(twice, d)))
    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        turned = builder.fmul(t, lanes(builder.add(r, d)), flags=("contract",))
        rest = size(builder, builder.fsub(number(p, r), turned, flags=("contract",)))
        add(bound, builder.fadd(rest, number(f, r)), lanes(builder.add(r, twice)))
    value = builder.load(bound)
    store(builder, value, bounds, SINGLES)
    return bits(builder, builder.fcmp_ordered(">=", value, everywhere(builder, least)))


@for_llvm(int64, None, None, int64, int64, None, None)
def promises(builder, queries, nodes, at, d, best, margin):
    """For which of 16 queries the bound of a node, whose numbers are 16 apart, is at least best - margin, as bits."""
    bound, slope = (cgutils.alloca_once_value(builder, ir.Constant(SINGLES[0], None)) for _ in range(2))
    twice, add = builder.add(d, d), partial(_add, builder)

    def number(place):
        there = builder.add(at, builder.mul(place, place.type(LANES)))
        return everywhere(builder, builder.load(builder.gep(nodes, [there])))

    def query(r):
        return _row(builder, queries, builder.mul(r, r.type(LANES)))

    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        add(bound, query(r), number(r))
        add(slope, query(r), number(builder.add(r, d)))
    t = builder.load(slope)
    add(bound, size(builder, t), number(builder.add(twice, d)))
    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        turned = builder.fmul(t, number(builder.add(r, d)), flags=("contract",))
        rest = size(builder, builder.fsub(query(r), turned, flags=("contract",)))
        add(bound, rest, number(builder.add(r, twice)))
    cut = builder.fsub(load(builder, best, SINGLES), load(builder, margin, SINGLES))
    return bits(builder, builder.fcmp_ordered(">=", builder.load(bound), cut))
