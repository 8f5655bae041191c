"""The inner loop: products of 16 lanes with every sum in a register.

Keys come in panels of 16. The first level of the search computes only the largest product of each panel, for 16 queries
at once, in float32; the second computes all products of the few panels that may hold the maximum, of one query with 16
keys at once, in float64. Both are the same loop, which a compiler does not find from plain Python, so it is written out
for LLVM, which fits it to the registers of any processor.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import partial, reduce, wraps
from typing import Any

from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils

LANES = 16  # queries at once, and keys of a panel: one cache line of float32
AT_ONCE = LANES if binding.get_host_cpu_features().get("avx512f") else 4  # sums of 16 lanes that registers hold
FLAGS = {"nnan", "nsz", "reassoc", "contract"}  # bounds hold for any order of summing, and inputs are finite
SMALLEST = 1e-150  # sizes below it are not scaled up to 1, as the product of two scales would overflow

SINGLES = (ir.VectorType(ir.FloatType(), LANES), 4)  # 16 numbers, and the bytes of one
DOUBLES = (ir.VectorType(ir.DoubleType(), LANES), 8)
intrinsic: Any = extending.intrinsic  # which adds the first argument itself
int64, float32, float64 = types.int64, types.float32, types.float64


def for_llvm(result, *kinds):
    """Make a function for compiled code of one that builds its instructions.

    Of arguments that are arrays, whose kind is None, it gets the address of the first number.
    """

    def decorate(build):
        @wraps(build)
        def typed(_, *given):
            def body(context, builder, signature, args):
                values = list(args)
                for i, kind in enumerate(kinds):
                    if kind is None:
                        values[i] = context.make_array(given[i])(context, builder, value=args[i]).data
                built = build(builder, *values)
                return context.get_dummy_value() if built is None else built

            return result(*(kind or own for kind, own in zip(kinds, given, strict=True))), body

        return intrinsic(typed)

    return decorate


def everywhere(builder, value):
    """A vector with the same number in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    single = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def load_lanes(builder, start, vectors):
    """16 numbers from an address on."""
    return builder.load(builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def store_lanes(builder, value, start, vectors):
    """Write 16 numbers from an address on."""
    builder.store(value, builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def _larger(builder, one, other):
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def bits_of(builder, lanes):
    """16 answers as the bits of one integer."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))


def _sums(builder, lanes, others, d, width, some, vectors):
    """Sums over r < d of lanes[r, :] * others[r, s], for some columns s of `width`."""

    def entry(start, row, columns, column):
        return builder.gep(start, [builder.add(builder.mul(row, row.type(columns)), row.type(column))])

    totals = [cgutils.alloca_once(builder, vectors[0]) for _ in some]  # which LLVM keeps in registers
    for total in totals:
        builder.store(ir.Constant(vectors[0], None), total)
    with cgutils.for_range(builder, d) as loop:
        left = load_lanes(builder, entry(lanes, loop.index, LANES, 0), vectors)
        for s, total in zip(some, totals, strict=True):
            right = everywhere(builder, builder.load(entry(others, loop.index, width, s)))
            product = builder.fmul(left, right, flags=("contract",))  # one instruction with the sum, if there is one
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
    return [builder.load(total) for total in totals]


def _products(builder, queries, panel, d):
    """Float32 products of 16 queries with each of the 16 keys of a panel, as many at a time as registers hold."""
    for first in range(0, LANES, AT_ONCE):
        yield from _sums(builder, queries, panel, d, LANES, range(first, first + AT_ONCE), SINGLES)


@for_llvm(types.void, None, None, int64, int64, None, int64, None)
def panel_maxima(builder, queries, panels, panel_at, d, out, out_at, best):
    """Write, for 16 queries, the largest float32 product with the 16 keys of a panel, and add it to their best."""
    largest = reduce(partial(_larger, builder), _products(builder, queries, builder.gep(panels, [panel_at]), d))
    store_lanes(builder, largest, builder.gep(out, [out_at]), SINGLES)
    store_lanes(builder, _larger(builder, largest, load_lanes(builder, best, SINGLES)), best, SINGLES)


@for_llvm(types.void, None, None, int64, int64, int64, float32, None, None, None)
def panel_winners(builder, queries, panels, panel_at, d, left, number, best, second, at):
    """Add the first `left` keys of a panel to the best and second best float32 products of 16 queries.

    `at` holds where the best is: the number of its panel, times 16, and its place there, as a float.
    """
    first, next_one, place = (load_lanes(builder, start, SINGLES) for start in (best, second, at))
    lowest_float = ir.Constant(SINGLES[0], [-3e38] * LANES)
    for t, one in enumerate(_products(builder, queries, builder.gep(panels, [panel_at]), d)):
        product = builder.select(builder.icmp_signed("<", left.type(t), left), one, lowest_float)
        wins = builder.fcmp_ordered(">", product, first)
        next_one = _larger(builder, builder.select(wins, first, product), next_one)
        here = builder.fadd(number, ir.FloatType()(t))
        place = builder.select(wins, everywhere(builder, here), place)
        first = builder.select(wins, product, first)
    for value, start in ((first, best), (next_one, second), (place, at)):
        store_lanes(builder, value, start, SINGLES)


@for_llvm(float64, None, int64, None, int64, int64, None, int64, int64)
def panel_products(builder, panels, panel_at, query, query_at, d, out, out_at, seen):
    """Write the float64 products of a query with 16 keys, minus infinity from `seen` on, and return the largest."""
    lanes, others = builder.gep(panels, [panel_at]), builder.gep(query, [query_at])
    products = _sums(builder, lanes, others, d, 1, range(1), DOUBLES)[0]
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
    hidden = ir.Constant(DOUBLES[0], [float("-inf")] * LANES)
    products = builder.select(builder.icmp_signed("<", numbers, everywhere(builder, seen)), products, hidden)
    store_lanes(builder, products, builder.gep(out, [out_at]), DOUBLES)
    kind, name = ir.FunctionType(ir.DoubleType(), [DOUBLES[0]]), f"llvm.vector.reduce.fmax.v{LANES}f64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [products], fastmath=("nnan",))


@for_llvm(int64, None, int64, None, None, float32)
def above(builder, values, at, cuts, slopes, by):
    """Which of 16 lanes have values[at + l] - cuts[l] >= slopes[l] * by, in float32: bit l of the result."""
    value, cut, slope = (load_lanes(builder, start, SINGLES) for start in (builder.gep(values, [at]), cuts, slopes))
    bound = builder.fmul(slope, everywhere(builder, by))
    return bits_of(builder, builder.fcmp_ordered(">=", builder.fsub(value, cut), bound))


@for_llvm(int64, None, int64, float64)
def near(builder, values, at, cut):
    """Which of 16 lanes have values[at + l] >= cut, in float64: bit l of the result."""
    value = load_lanes(builder, builder.gep(values, [at]), DOUBLES)
    return bits_of(builder, builder.fcmp_ordered(">=", value, everywhere(builder, cut)))


@for_llvm(int64, None, None, int64, None, None, int64, float32, float32, float32, None)
def best_in_plane(builder, qx, qy, top, kx, ky, count, slope, base, least, at):
    """Write which of some keys has the largest product with 16 queries of the plane, as int32.

    Which queries are in doubt is returned as bits: those with |q|_1 <= least, and those where the next product is not
    more than slope |q|_1 + base behind.
    """
    x, y = (load_lanes(builder, builder.gep(start, [top]), SINGLES) for start in (qx, qy))
    lowest_float, numbers = ir.Constant(SINGLES[0], [-3e38] * LANES), ir.VectorType(ir.IntType(32), LANES)
    best, second = (cgutils.alloca_once_value(builder, lowest_float) for _ in range(2))
    place = cgutils.alloca_once_value(builder, ir.Constant(numbers, None))
    with cgutils.for_range(builder, count) as loop:
        product = _combined(builder, x, y, *(builder.load(builder.gep(k, [loop.index])) for k in (kx, ky)))
        old = builder.load(best)
        wins = builder.fcmp_ordered(">", product, old)
        here = everywhere(builder, builder.trunc(loop.index, ir.IntType(32)))
        builder.store(_larger(builder, builder.select(wins, old, product), builder.load(second)), second)
        builder.store(builder.select(wins, here, builder.load(place)), place)
        builder.store(builder.select(wins, product, old), best)
    store_lanes(builder, builder.load(place), at, (numbers, 4))
    size = builder.fadd(size_of(builder, x), size_of(builder, y))
    lead = builder.fadd(builder.fmul(size, everywhere(builder, slope)), everywhere(builder, base))
    near = builder.fcmp_ordered(">=", builder.load(second), builder.fsub(builder.load(best), lead))
    return bits_of(builder, builder.or_(near, builder.fcmp_ordered("<=", size, everywhere(builder, least))))


@for_llvm(int64, None, None, int64, None, int64)
def beyond(builder, x, y, at, edges, count):
    """Which of 16 points have a x + b y + c < 0 for some edge (a, b, c) of `count`: bit l of the result."""
    x, y = (load_lanes(builder, builder.gep(start, [at]), SINGLES) for start in (x, y))
    least = cgutils.alloca_once(builder, SINGLES[0])
    builder.store(ir.Constant(SINGLES[0], [3e38] * LANES), least)
    with cgutils.for_range(builder, count) as loop:
        first = builder.mul(loop.index, loop.index.type(3))
        a, b, c = (builder.load(builder.gep(edges, [builder.add(first, first.type(k))])) for k in range(3))
        depth = builder.fadd(_combined(builder, x, y, a, b), everywhere(builder, c))
        old = builder.load(least)
        builder.store(builder.select(builder.fcmp_ordered("<", depth, old), depth, old), least)
    return bits_of(builder, builder.fcmp_ordered("<", builder.load(least), ir.Constant(SINGLES[0], None)))


@for_llvm(types.void, None, None, int64, None)
def ends_of(builder, x, y, panels, ends):
    """Write the largest x, y, x + y and x - y of the points of some panels, and the smallest."""
    highest = [cgutils.alloca_once(builder, SINGLES[0]) for _ in range(8)]  # of the negatives for the smallest
    for state in highest:
        builder.store(ir.Constant(SINGLES[0], [-3e38] * LANES), state)
    with cgutils.for_range(builder, panels) as loop:
        for state, form in zip(
            highest, _forms(builder, x, y, builder.mul(loop.index, loop.index.type(LANES))), strict=True
        ):
            builder.store(_larger(builder, form, builder.load(state)), state)
    kind, name = ir.FunctionType(ir.FloatType(), [SINGLES[0]]), f"llvm.vector.reduce.fmax.v{LANES}f32"
    largest = cgutils.get_or_insert_function(builder.module, kind, name)
    for k, state in enumerate(highest):
        end = builder.call(largest, [builder.load(state)], fastmath=("nnan",))
        builder.store(end, builder.gep(ends, [ir.IntType(64)(k)]))


@for_llvm(int64, None, None, int64, None)
def at_ends(builder, x, y, at, ends):
    """Which of 16 points are at one of the ends that `ends_of` finds: bit l of the result."""
    hits = []
    for k, form in enumerate(_forms(builder, x, y, at)):
        end = builder.load(builder.gep(ends, [ir.IntType(64)(k)]))
        hits.append(builder.fcmp_ordered(">=", form, everywhere(builder, end)))
    return bits_of(builder, reduce(builder.or_, hits))


def _forms(builder, x, y, at):
    """x, y, x + y and x - y of 16 points, and their negatives."""
    x, y = (load_lanes(builder, builder.gep(start, [at]), SINGLES) for start in (x, y))
    forms = [x, y, builder.fadd(x, y), builder.fsub(x, y)]
    return forms + [builder.fneg(form) for form in forms]


def size_of(builder, value):
    """Absolute values."""
    return _larger(builder, value, builder.fneg(value))


def _combined(builder, x, y, a, b):
    """a x + b y for 16 points and two numbers."""
    left, right = (
        builder.fmul(one, everywhere(builder, other), flags=("contract",)) for one, other in ((x, a), (y, b))
    )
    return builder.fadd(left, right, flags=("contract",))


@for_llvm(float64, float64)
def to_one(builder, size):
    """The power of two that brings a positive `size` into [1, 4)."""
    bits = ir.IntType(64)
    exponent = builder.and_(builder.bitcast(size, bits), bits(0x7FE << 52))  # in its lowest bit, [1, 4) is one
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
