"""The inner loop: products of 16 lanes with every sum in a register.

Keys come in panels of 16. The first level of the search computes only the largest product of each panel, for 16 queries
at once, in float32; the second computes all products of the few panels that may hold the maximum, of one query with 16
keys at once, in float64. Both are the same loop, which a compiler does not find from plain Python, so it is written out
for LLVM, which fits it to the registers of any processor.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils

LANES = 16  # queries of a group, and keys of a panel: one cache line of float32
AT_ONCE = LANES if binding.get_host_cpu_features().get("avx512f") else 4  # sums of 16 lanes that registers hold
FLAGS = {"nnan", "nsz", "reassoc", "contract"}  # bounds hold for any order of summing, and inputs are finite
SMALLEST = 1e-150  # sizes below it are not scaled up to 1, as the product of two scales would overflow

intrinsic: Any = extending.intrinsic  # which adds the first argument itself

Body = Callable[[Any, ir.IRBuilder, Any, list[ir.Value]], ir.Value]
Vectors = tuple[ir.Type, int]  # 16 numbers, and the bytes of one
SINGLES: Vectors = (ir.VectorType(ir.FloatType(), LANES), 4)
DOUBLES: Vectors = (ir.VectorType(ir.DoubleType(), LANES), 8)


def _start(context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value, at: ir.Value | None = None) -> ir.Value:
    """Where an array starts, or one of its entries."""
    data = context.make_array(kind)(context, builder, value=array).data
    return data if at is None else builder.gep(data, [at])


def _everywhere(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A vector with the same number in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    single = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def _load(builder: ir.IRBuilder, start: ir.Value, vectors: Vectors) -> ir.Value:
    """16 numbers from anywhere in an array."""
    return builder.load(builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def _store(builder: ir.IRBuilder, value: ir.Value, start: ir.Value, vectors: Vectors) -> None:
    """16 numbers to anywhere in an array."""
    builder.store(value, builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def _larger(builder: ir.IRBuilder, one: ir.Value, other: ir.Value) -> ir.Value:
    """The larger of two, lane by lane."""
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _bits(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """16 answers as the bits of one integer."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))


def _sums(
    builder: ir.IRBuilder, lanes: ir.Value, others: ir.Value, d: ir.Value, width: int, some: range, vectors: Vectors
) -> list[ir.Value]:
    """Sums over r < d of lanes[r, :] * others[r, s], for some columns s of `width`."""

    def entry(start: ir.Value, row: ir.Value, columns: int, column: int) -> ir.Value:
        return builder.gep(start, [builder.add(builder.mul(row, row.type(columns)), row.type(column))])

    totals = [cgutils.alloca_once(builder, vectors[0]) for _ in some]  # which LLVM keeps in registers
    for total in totals:
        builder.store(ir.Constant(vectors[0], None), total)
    with cgutils.for_range(builder, d) as loop:
        left = _load(builder, entry(lanes, loop.index, LANES, 0), vectors)
        for s, total in zip(some, totals, strict=True):
            right = _everywhere(builder, builder.load(entry(others, loop.index, width, s)))
            product = builder.fmul(left, right, flags=("contract",))  # one instruction with the sum, if there is one
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
    return [builder.load(total) for total in totals]


@intrinsic
def panel_maxima(
    typing: Any, queries: Any, panels: Any, panel_at: Any, d: Any, out: Any, out_at: Any, best: Any
) -> tuple[Any, Body]:
    """Write, for 16 queries, the largest float32 product with the 16 keys of a panel, and add it to their best."""

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        lanes = _start(context, builder, queries, args[0])
        others = _start(context, builder, panels, args[1], args[2])
        to = _start(context, builder, out, args[4], args[5])
        top = _start(context, builder, best, args[6])
        largest: list[ir.Value] = []
        for first in range(0, LANES, AT_ONCE):
            some = range(first, first + AT_ONCE)
            for one in _sums(builder, lanes, others, args[3], LANES, some, SINGLES):
                largest = [_larger(builder, one, largest[0]) if largest else one]
        _store(builder, largest[0], to, SINGLES)
        _store(builder, _larger(builder, largest[0], _load(builder, top, SINGLES)), top, SINGLES)
        return context.get_dummy_value()

    return types.void(queries, panels, types.int64, types.int64, out, types.int64, best), body


@intrinsic
def panel_winners(
    typing: Any,
    queries: Any,
    panels: Any,
    panel_at: Any,
    d: Any,
    left: Any,
    number: Any,
    best: Any,
    second: Any,
    at: Any,
) -> tuple[Any, Body]:
    """Add the first `left` keys of a panel to the best and second best float32 products of 16 queries.

    `at` holds where the best is: the number of its panel, times 16, and its place there, as a float.
    """

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        lanes = _start(context, builder, queries, args[0])
        others = _start(context, builder, panels, args[1], args[2])
        places = [_start(context, builder, kind, args[i]) for i, kind in ((6, best), (7, second), (8, at))]
        first, next_one, place = (_load(builder, start, SINGLES) for start in places)
        lowest_float = ir.Constant(SINGLES[0], [-3e38] * LANES)
        for start in range(0, LANES, AT_ONCE):
            some = range(start, start + AT_ONCE)
            for t, one in zip(some, _sums(builder, lanes, others, args[3], LANES, some, SINGLES), strict=True):
                product = builder.select(builder.icmp_signed("<", args[4].type(t), args[4]), one, lowest_float)
                here = builder.fadd(args[5], ir.FloatType()(t))
                wins = builder.fcmp_ordered(">", product, first)
                smaller = builder.select(wins, first, product)
                next_one = _larger(builder, smaller, next_one)
                place = builder.select(wins, _everywhere(builder, here), place)
                first = builder.select(wins, product, first)
        for value, start in zip((first, next_one, place), places, strict=True):
            _store(builder, value, start, SINGLES)
        return context.get_dummy_value()

    number_at = types.int64
    return types.void(queries, panels, number_at, number_at, number_at, types.float32, best, second, at), body


@intrinsic
def panel_products(
    typing: Any, panels: Any, panel_at: Any, query: Any, query_at: Any, d: Any, out: Any, out_at: Any, seen: Any
) -> tuple[Any, Body]:
    """Write the float64 products of a query with 16 keys, minus infinity from `seen` on, and return the largest."""

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        lanes = _start(context, builder, panels, args[0], args[1])
        others = _start(context, builder, query, args[2], args[3])
        to = _start(context, builder, out, args[5], args[6])
        products = _sums(builder, lanes, others, args[4], 1, range(1), DOUBLES)[0]
        numbers = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
        hidden = ir.Constant(DOUBLES[0], [float("-inf")] * LANES)
        there = builder.icmp_signed("<", numbers, _everywhere(builder, args[7]))
        products = builder.select(there, products, hidden)
        _store(builder, products, to, DOUBLES)
        kind = ir.FunctionType(ir.DoubleType(), [DOUBLES[0]])
        name = f"llvm.vector.reduce.fmax.v{LANES}f64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [products], fastmath=("nnan",))

    at = types.int64
    return types.float64(panels, at, query, at, at, out, at, at), body


@intrinsic
def above(typing: Any, values: Any, at: Any, cuts: Any, slopes: Any, by: Any) -> tuple[Any, Body]:
    """Which of 16 lanes have values[at + l] - cuts[l] >= slopes[l] * by, in float32: bit l of the result."""

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        value = _load(builder, _start(context, builder, values, args[0], args[1]), SINGLES)
        cut = _load(builder, _start(context, builder, cuts, args[2]), SINGLES)
        slope = _load(builder, _start(context, builder, slopes, args[3]), SINGLES)
        bound = builder.fmul(slope, _everywhere(builder, args[4]))
        return _bits(builder, builder.fcmp_ordered(">=", builder.fsub(value, cut), bound))

    return types.int64(values, types.int64, cuts, slopes, types.float32), body


@intrinsic
def near(typing: Any, values: Any, at: Any, cut: Any) -> tuple[Any, Body]:
    """Which of 16 lanes have values[at + l] >= cut, in float64: bit l of the result."""

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        value = _load(builder, _start(context, builder, values, args[0], args[1]), DOUBLES)
        return _bits(builder, builder.fcmp_ordered(">=", value, _everywhere(builder, args[2])))

    return types.int64(values, types.int64, types.float64), body


@intrinsic
def to_one(typing: Any, size: Any) -> tuple[Any, Body]:
    """The power of two that brings a positive `size` into [1, 4)."""

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        bits = ir.IntType(64)
        exponent = builder.and_(builder.bitcast(args[0], bits), bits(0x7FE << 52))  # in its lowest bit, [1, 4) is one
        return builder.bitcast(builder.sub(bits(0x7FE << 52), exponent), ir.DoubleType())

    return types.float64(types.float64), body


@intrinsic
def ones(typing: Any, bits: Any) -> tuple[Any, Body]:
    """How many bits are set."""
    return types.int64(types.int64), lambda context, builder, signature, args: builder.ctpop(args[0])


@intrinsic
def lowest(typing: Any, bits: Any) -> tuple[Any, Body]:
    """The lowest bit that is set."""
    return types.int64(types.int64), lambda context, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(1))


@intrinsic
def borrowed(typing: Any, arrays: Any) -> tuple[Any, Body]:
    """Pass on a tuple of arrays without counting references to them, which takes longer than a search of few keys.

    The caller of the function that borrows holds the arrays until it returns.
    """

    def body(context: Any, builder: ir.IRBuilder, signature: Any, args: list[ir.Value]) -> ir.Value:
        result = args[0]
        for i, array in enumerate(arrays):
            one = context.make_array(array)(context, builder, value=builder.extract_value(result, i))
            one.meminfo = one.meminfo.type(None)
            result = builder.insert_value(result, one._getvalue(), i)
        return result

    return arrays(arrays), body
