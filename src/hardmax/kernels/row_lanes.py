"""Rows of numbers as 16 lanes: how they get there, how long they are, and which of them a search has decided."""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hardmax.kernels.lanes import (
    LANES,
    SINGLES,
    bits_of,
    everywhere,
    float32,
    for_llvm,
    int64,
    load_lanes,
    size_of,
    store_lanes,
)

COLUMNS = 4  # that are turned at a time


@for_llvm(types.void, None, None, int64, int64, int64, None, int64)
def turn(builder, rows, ids, first, column, d, out, out_at):
    """Write 4 columns of 16 rows, those of ids[first:], of d numbers each as float32: 16 numbers for each column."""
    kind = ir.VectorType(rows.type.pointee, COLUMNS)
    given = []
    for lane in range(LANES):
        row = builder.load(builder.gep(ids, [builder.add(first, first.type(lane))]))
        start = builder.gep(rows, [builder.add(builder.mul(row, d), column)])
        four = builder.load(builder.bitcast(start, kind.as_pointer()), align=4)
        single = ir.VectorType(ir.FloatType(), COLUMNS)
        given.append(four if kind == single else builder.fptrunc(four, single))
    # Row 4 g + j goes to place g of vector j, and then 4 by 4 numbers are turned in each place.
    turned = [_joined(builder, given[j::COLUMNS]) for j in range(COLUMNS)]
    for half in (1, 2):
        places = [4 * g + i for g in range(4) for i in ((0, 16, 1, 17) if half == 1 else (0, 1, 16, 17))]
        turned = _pairs(builder, turned, half, places)
    for c, numbers in enumerate(turned):
        place = builder.add(out_at, out_at.type(c * LANES))
        store_lanes(builder, numbers, builder.gep(out, [place]), SINGLES)


def _pairs(builder, vectors, apart, places):
    """The lower and upper halves of each place, of vectors that are so far apart, as new vectors."""
    upper = [place + 2 for place in places]
    if apart == 1:
        (a, b, c, d) = vectors
        low, high = ([_shuffled(builder, x, y, some) for x, y in ((a, b), (c, d))] for some in (places, upper))
        return [low[0], high[0], low[1], high[1]]
    (a, b, c, d) = vectors  # columns 0 and 1 of rows 0 and 1, columns 2 and 3 of them, and the same of rows 2 and 3
    return [_shuffled(builder, x, y, some) for x, y in ((a, c), (b, d)) for some in (places, upper)]


def _joined(builder, vectors):
    """Vectors one after another."""
    while len(vectors) > 1:
        count = 2 * vectors[0].type.count
        vectors = [_shuffled(builder, x, y, range(count)) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def _shuffled(builder, one, other, places):
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places)))


@for_llvm(types.void, None, int64, int64, None, None)
def measure(builder, lanes, at, d, squares, largest):
    """Of 16 rows of d numbers: raise `squares` to their sums of squares, and `largest` to their largest |number|."""
    total, most = cgutils.alloca_once(builder, SINGLES[0]), cgutils.alloca_once(builder, SINGLES[0])
    builder.store(ir.Constant(SINGLES[0], None), total)
    builder.store(load_lanes(builder, largest, SINGLES), most)
    with cgutils.for_range(builder, d) as loop:
        place = builder.add(at, builder.mul(loop.index, loop.index.type(LANES)))
        value = load_lanes(builder, builder.gep(lanes, [place]), SINGLES)
        square = builder.fmul(value, value, flags=("contract",))
        builder.store(builder.fadd(builder.load(total), square, flags=("contract",)), total)
        builder.store(_raised(builder, builder.load(most), size_of(builder, value)), most)
    raised = _raised(builder, load_lanes(builder, squares, SINGLES), builder.load(total))
    store_lanes(builder, raised, squares, SINGLES)
    store_lanes(builder, builder.load(most), largest, SINGLES)


def _raised(builder, old, new):
    return builder.select(builder.fcmp_ordered(">", new, old), new, old)


@for_llvm(int64, None, None, None, float32, float32, float32, float32, float32)
def leading(builder, best, second, squares, least, longest, slope, base, most):
    """Which of 16 queries have a best product that leads by more than slope b + base, with b < most: bit l of it.

    b is the square root of squares + least, times `longest`.
    """
    first, next_one, square = (load_lanes(builder, start, SINGLES) for start in (best, second, squares))
    kind = ir.FunctionType(SINGLES[0], [SINGLES[0]])
    root = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32")
    length = builder.call(root, [builder.fadd(square, everywhere(builder, least))])
    bound = builder.fmul(length, everywhere(builder, longest))
    needed = builder.fadd(builder.fmul(bound, everywhere(builder, slope)), everywhere(builder, base))
    leads = builder.fcmp_ordered(">", builder.fsub(first, next_one), needed)
    return bits_of(builder, builder.and_(leads, builder.fcmp_ordered("<", bound, everywhere(builder, most))))


@for_llvm(types.void, None, int64, None, int64, int64)
def copy_row(builder, source, source_at, target, target_at, width):
    """Copy numbers, 16 at a time, as long as there are so many."""
    _by_lanes(builder, builder.gep(source, [source_at]), builder.gep(target, [target_at]), width, lambda old, new: new)


@for_llvm(types.void, None, int64, None, int64, int64)
def add_row(builder, source, source_at, target, target_at, width):
    """Add numbers to others in the same way."""
    _by_lanes(builder, builder.gep(source, [source_at]), builder.gep(target, [target_at]), width, builder.fadd)


def _by_lanes(builder, source, target, width, combined):
    """Make `target` what it and `source` give: a compiler would ask at each row whether the two overlap."""
    kind, done = ir.VectorType(source.type.pointee, LANES), builder.and_(width, width.type(-LANES))
    vectors = kind, 4
    with cgutils.for_range(builder, builder.sdiv(width, width.type(LANES))) as loop:
        at = [builder.mul(loop.index, loop.index.type(LANES))]
        new, place = load_lanes(builder, builder.gep(source, at), vectors), builder.gep(target, at)
        store_lanes(builder, combined(load_lanes(builder, place, vectors), new), place, vectors)
    with cgutils.for_range(builder, builder.sub(width, done)) as loop:
        at = [builder.add(done, loop.index)]
        new, place = builder.load(builder.gep(source, at)), builder.gep(target, at)
        builder.store(combined(builder.load(place), new), place)
