"""Lanes in the plane: 16 points at once, of two coordinates."""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import reduce

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hardmax.search.registers import LANES
from hardmax.search.vectors import SINGLES, bits, everywhere, float32, for_llvm, int64, larger, load, size, store


@for_llvm(int64, None, None, int64, None, None, int64, float32, float32, float32, None)
def best_in_plane(builder, qx, qy, top, kx, ky, count, slope, base, least, at):
    """Write which of some keys has the largest product with 16 queries of the plane, as int32.

    Which queries are in doubt is returned as bits: those with |q|_1 <= least, and those where the next product is not
    more than slope |q|_1 + base behind.
    """
    x, y = (load(builder, builder.gep(start, [top]), SINGLES) for start in (qx, qy))
    lowest_float, numbers = ir.Constant(SINGLES[0], [-3e38] * LANES), ir.VectorType(ir.IntType(32), LANES)
    best, second = (cgutils.alloca_once_value(builder, lowest_float) for _ in range(2))
    place = cgutils.alloca_once_value(builder, ir.Constant(numbers, None))
    with cgutils.for_range(builder, count) as loop:
        product = _combined(builder, x, y, *(builder.load(builder.gep(k, [loop.index])) for k in (kx, ky)))
        old = builder.load(best)
        wins = builder.fcmp_ordered(">", product, old)
        here = everywhere(builder, builder.trunc(loop.index, ir.IntType(32)))
        builder.store(larger(builder, builder.select(wins, old, product), builder.load(second)), second)
        builder.store(builder.select(wins, here, builder.load(place)), place)
        builder.store(builder.select(wins, product, old), best)
    store(builder, builder.load(place), at, (numbers, 4))
    length = builder.fadd(size(builder, x), size(builder, y))
    lead = builder.fadd(builder.fmul(length, everywhere(builder, slope)), everywhere(builder, base))
    near = builder.fcmp_ordered(">=", builder.load(second), builder.fsub(builder.load(best), lead))
    return bits(builder, builder.or_(near, builder.fcmp_ordered("<=", length, everywhere(builder, least))))


@for_llvm(int64, None, None, int64, None, int64)
def beyond(builder, x, y, at, edges, count):
    """Which of 16 points have a x + b y + c < 0 for some edge (a, b, c) of `count`: bit l of the result."""
    x, y = (load(builder, builder.gep(start, [at]), SINGLES) for start in (x, y))
    least = cgutils.alloca_once(builder, SINGLES[0])
    builder.store(ir.Constant(SINGLES[0], [3e38] * LANES), least)
    with cgutils.for_range(builder, count) as loop:
        first = builder.mul(loop.index, loop.index.type(3))
        a, b, c = (builder.load(builder.gep(edges, [builder.add(first, first.type(k))])) for k in range(3))
        depth = builder.fadd(_combined(builder, x, y, a, b), everywhere(builder, c))
        old = builder.load(least)
        builder.store(builder.select(builder.fcmp_ordered("<", depth, old), depth, old), least)
    return bits(builder, builder.fcmp_ordered("<", builder.load(least), ir.Constant(SINGLES[0], None)))


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
            builder.store(larger(builder, form, builder.load(state)), state)
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
    return bits(builder, reduce(builder.or_, hits))


def _forms(builder, x, y, at):
    """x, y, x + y and x - y of 16 points, and their negatives."""
    x, y = (load(builder, builder.gep(start, [at]), SINGLES) for start in (x, y))
    forms = [x, y, builder.fadd(x, y), builder.fsub(x, y)]
    return forms + [builder.fneg(form) for form in forms]


def _combined(builder, x, y, a, b):
    """a x + b y for 16 points and two numbers."""
    left, right = (
        builder.fmul(one, everywhere(builder, other), flags=("contract",)) for one, other in ((x, a), (y, b))
    )
    return builder.fadd(left, right, flags=("contract",))
