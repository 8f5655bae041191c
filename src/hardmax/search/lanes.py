"""The inner loop: products of 16 lanes with every sum in a register.

Keys come in panels of 16. The first level of the search computes only the largest product of each panel, for 16 queries
at once, in float32; the second computes all products of the few panels that may hold the maximum, of one query with 16
keys at once, in float64. Both are the same loop, which a compiler does not find from plain Python, so it is written out
for LLVM.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import partial, reduce

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hardmax.search.registers import LANES
from hardmax.search.vectors import (
    DOUBLES,
    SINGLES,
    all_products,
    bits,
    everywhere,
    float32,
    float64,
    for_llvm,
    int64,
    intrinsic,
    larger,
    load,
    store,
    sums,
)

# Error bounds hold for any order of summation, and inputs are finite. A product of scale factors must not be
# reassociated, as a partial product may overflow and meet a zero: compute it in a function without these flags.
FLAGS = {"nnan", "nsz", "reassoc", "contract"}
SMALLEST = 1e-150  # sizes below it are not scaled up to 1, as the product of two scales would overflow


@for_llvm(types.void, None, None, int64, int64, None, int64, None)
def panel_maxima(builder, queries, panels, panel_at, d, out, out_at, best):
    """Write, for 16 queries, the largest float32 product with the 16 keys of a panel, and add it to their best."""
    largest = reduce(partial(larger, builder), all_products(builder, queries, builder.gep(panels, [panel_at]), d))
    store(builder, largest, builder.gep(out, [out_at]), SINGLES)
    store(builder, larger(builder, largest, load(builder, best, SINGLES)), best, SINGLES)


@for_llvm(types.void, None, None, int64, int64, int64, float32, None, None, None)
def panel_winners(builder, queries, panels, panel_at, d, left, number, best, second, at):
    """Add the first `left` keys of a panel to the best and second best float32 products of 16 queries.

    `at` holds where the best is: the number of its panel, times 16, and its place there, as a float.
    """
    first, next_one, place = (load(builder, start, SINGLES) for start in (best, second, at))
    lowest_float = ir.Constant(SINGLES[0], [-3e38] * LANES)
    for t, one in enumerate(all_products(builder, queries, builder.gep(panels, [panel_at]), d)):
        product = builder.select(builder.icmp_signed("<", left.type(t), left), one, lowest_float)
        wins = builder.fcmp_ordered(">", product, first)
        next_one = larger(builder, builder.select(wins, first, product), next_one)
        here = builder.fadd(number, ir.FloatType()(t))
        place = builder.select(wins, everywhere(builder, here), place)
        first = builder.select(wins, product, first)
    for value, start in ((first, best), (next_one, second), (place, at)):
        store(builder, value, start, SINGLES)


@for_llvm(float64, None, int64, None, int64, int64, None, int64, int64)
def panel_products(builder, panels, panel_at, query, query_at, d, out, out_at, seen):
    """Write the float64 products of a query with 16 keys, minus infinity from `seen` on, and return the largest."""
    lanes, others = builder.gep(panels, [panel_at]), builder.gep(query, [query_at])
    products = sums(builder, lanes, others, d, 1, range(1), DOUBLES)[0]
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
    hidden = ir.Constant(DOUBLES[0], [float("-inf")] * LANES)
    products = builder.select(builder.icmp_signed("<", numbers, everywhere(builder, seen)), products, hidden)
    store(builder, products, builder.gep(out, [out_at]), DOUBLES)
    kind, name = ir.FunctionType(ir.DoubleType(), [DOUBLES[0]]), f"llvm.vector.reduce.fmax.v{LANES}f64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [products], fastmath=("nnan",))


@for_llvm(int64, None, int64, None, None, float32)
def above(builder, values, at, cuts, slopes, by):
    """Which of 16 lanes have values[at + l] - cuts[l] >= slopes[l] * by, in float32: bit l of the result."""
    value, cut, slope = (load(builder, start, SINGLES) for start in (builder.gep(values, [at]), cuts, slopes))
    bound = builder.fmul(slope, everywhere(builder, by))
    return bits(builder, builder.fcmp_ordered(">=", builder.fsub(value, cut), bound))


@for_llvm(int64, None, int64, float64)
def near(builder, values, at, cut):
    """Which of 16 lanes have values[at + l] >= cut, in float64: bit l of the result."""
    value = load(builder, builder.gep(values, [at]), DOUBLES)
    return bits(builder, builder.fcmp_ordered(">=", value, everywhere(builder, cut)))


@for_llvm(float64, float64)
def to_one(builder, size):
    """Return the power of two that brings `size` into [1, 4), and at most 2^1001, so that multiples do not overflow."""
    bits = ir.IntType(64)
    exponent = builder.and_(builder.bitcast(size, bits), bits(0x7FE << 52))  # in its lowest bit, [1, 4) is one
    least = bits(22 << 52)
    exponent = builder.select(builder.icmp_unsigned("<", exponent, least), least, exponent)
    return builder.bitcast(builder.sub(bits(0x7FE << 52), exponent), ir.DoubleType())


@for_llvm(int64, int64)
def ones(builder, bits):
    """How many bits are set."""
    return builder.ctpop(bits)


@for_llvm(int64, int64)
def lowest(builder, bits):
    """The lowest bit that is set."""
    return builder.cttz(bits, ir.IntType(1)(1))


@intrinsic
def borrowed(_, arrays):
    """Pass on a tuple of arrays without counting references to them, which takes longer than a search of few keys.

    The caller of the function that borrows holds the arrays until it returns.
    """

    def body(context, builder, signature, args):
        result = args[0]
        for i, array in enumerate(arrays):
            one = context.make_array(array)(context, builder, value=builder.extract_value(result, i))
            one.meminfo = one.meminfo.type(None)
            result = builder.insert_value(result, one._getvalue(), i)
        return result

    return arrays(arrays), body
