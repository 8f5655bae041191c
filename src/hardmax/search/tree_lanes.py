"""Bounds of the products of queries with the keys of nodes, every number in a register.

A node has a middle c, sides e, a direction m, numbers g and h, and a square s: for all its keys k, |k_r - c_r| <= e_r,
|<m, k - c> - g| <= h and |k|^2 <= s. Each test is made for 16 neighbouring queries as one and 16 nodes at once, then
for each of the queries and one node.

By distance: of queries u that are made as long as their best key, about, the best is about the nearest key, as

    2 <u, k> = |u|^2 + |k|^2 - |u - k|^2 <= |u|^2 + s - (distance of u from the box)^2.

On a sphere about zero that leaves little more than the boxes which touch that of the queries.

By slices: queries are at most f_r away from p in each coordinate. For any key o, and any t,

    <q, k - o> = <p, c - o> + <p, k - c> + <q - p, k - o>
              <= <p, c - o> + t g + |t| h + sum_r |p_r - t m_r| e_r + sum_r f_r (|c_r - o_r| + e_r),

as <p, k - c> = t <m, k - c> + <p - t m, k - c>. With t = <p, m> this is as good as a box that is turned: keys on a
curved surface lie in thin slices of it. With o close to the best key, the last sum is of the second order. For one
query,

    <q, k> <= <q, c> + t g + |t| h + sum_r |q_r - t m_r| e_r.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from hardmax.search.registers import LANES
from hardmax.search.vectors import SINGLES, bits, everywhere, float32, for_llvm, int64, larger, load, size, store

ROUNDED = 1.0011  # see `tree_walk._aim`


def _row(builder, array, at):
    return load(builder, builder.gep(array, [at]), SINGLES)


def _everywhere(builder, array, at):
    return everywhere(builder, builder.load(builder.gep(array, [at])))


def _of_nodes(builder, nodes, at):
    """A function that loads the same number of 16 nodes, by its place in a node."""
    return lambda place: _row(builder, nodes, builder.add(at, builder.mul(place, place.type(LANES))))


def _of_node(builder, nodes, at):
    """A function that loads a number of one node, 16 times."""
    return lambda place: _everywhere(builder, nodes, builder.add(at, builder.mul(place, place.type(LANES))))


def _add(builder, total, one, other):
    product = builder.fmul(one, other, flags=("contract",))
    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)


@for_llvm(int64, None, int64, int64, None, None, None, float32, None)
def within_reach(builder, nodes, at, d, p, f, o, least, bounds):
    """Write the bounds of 16 nodes; which are not below `least` is returned as bits.

    From nodes[at] on there are 16 numbers for each coordinate of c, of m and of e, then of g, of h and of s.
    """
    bound, slope = (cgutils.alloca_once_value(builder, ir.Constant(SINGLES[0], None)) for _ in range(2))
    twice, add = builder.add(d, d), partial(_add, builder)

    lanes, number = _of_nodes(builder, nodes, at), partial(_everywhere, builder)
    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        away, ahead = builder.fsub(lanes(r), number(o, r)), number(p, r)
        add(bound, away, ahead)
        add(bound, size(builder, away), number(f, r))
        add(slope, lanes(builder.add(r, d)), ahead)
    t, slab = builder.load(slope), builder.add(twice, d)
    add(bound, t, lanes(slab))
    add(bound, size(builder, t), lanes(builder.add(slab, slab.type(1))))
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

    number = _of_node(builder, nodes, at)

    def query(r):
        return _row(builder, queries, builder.mul(r, r.type(LANES)))

    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        add(bound, query(r), number(r))
        add(slope, query(r), number(builder.add(r, d)))
    t, slab = builder.load(slope), builder.add(twice, d)
    add(bound, t, number(slab))
    add(bound, size(builder, t), number(builder.add(slab, slab.type(1))))
    with cgutils.for_range(builder, d) as loop:
        r = loop.index
        turned = builder.fmul(t, number(builder.add(r, d)), flags=("contract",))
        rest = size(builder, builder.fsub(query(r), turned, flags=("contract",)))
        add(bound, rest, number(builder.add(r, twice)))
    cut = builder.fsub(load(builder, best, SINGLES), load(builder, margin, SINGLES))
    return bits(builder, builder.fcmp_ordered(">=", builder.load(bound), cut))


def _outside(builder, d, middle, half, u):
    """Squares of the distances of 16 boxes from points u, or of one box from 16 points: sums over r."""
    square, none = cgutils.alloca_once_value(builder, ir.Constant(SINGLES[0], None)), ir.Constant(SINGLES[0], None)
    with cgutils.for_range(builder, d) as loop:
        away = size(builder, builder.fsub(middle(loop.index), u(loop.index)))
        beyond = larger(builder, builder.fsub(away, half(loop.index)), none)
        _add(builder, square, beyond, beyond)
    return builder.load(square)


@for_llvm(int64, None, int64, int64, None, None, float32)
def close(builder, nodes, at, d, u, f, reach):
    """Which of 16 nodes have squares of at most s + reach of the distance of their box from that with sides f about u.

    As bits; see `tree_walk._aim` for what is rounded.
    """

    lanes, number = _of_nodes(builder, nodes, at), partial(_everywhere, builder)
    twice = builder.add(d, d)
    square = _outside(
        builder,
        d,
        lanes,
        lambda r: builder.fadd(lanes(builder.add(r, twice)), number(f, r)),
        lambda r: number(u, r),
    )
    most = builder.fadd(lanes(builder.add(builder.add(twice, d), d.type(2))), everywhere(builder, reach))
    return _at_most(builder, square, most)


@for_llvm(int64, None, None, int64, int64, None, None, None)
def closest(builder, queries, nodes, at, d, best, slopes, bases):
    """For which of 16 queries u the square of their distance from a box is at most s + base - slope * best, as bits."""

    number = _of_node(builder, nodes, at)
    twice = builder.add(d, d)
    square = _outside(
        builder,
        d,
        number,
        lambda r: number(builder.add(r, twice)),
        lambda r: _row(builder, queries, builder.mul(r, r.type(LANES))),
    )
    gain = builder.fmul(load(builder, best, SINGLES), load(builder, slopes, SINGLES))
    reach = builder.fsub(load(builder, bases, SINGLES), gain)
    return _at_most(builder, square, builder.fadd(number(builder.add(builder.add(twice, d), d.type(2))), reach))


def _at_most(builder, square, most):
    """Whether squares, of which the thousandth part may be rounded, are at most so large."""
    most = builder.fmul(most, ir.Constant(SINGLES[0], [ROUNDED] * LANES))
    return bits(builder, builder.fcmp_ordered("<=", square, most))
