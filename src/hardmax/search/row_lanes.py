"""Rows of numbers as 16 lanes: how they get there, how long they are, and which of them a search has decided."""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from llvmlite import ir
from numba import types
from numba.core import cgutils

from hardmax.search.registers import LANES
from hardmax.search.vectors import (
    DOUBLES,
    SINGLES,
    bits,
    everywhere,
    float32,
    float64,
    for_llvm,
    int64,
    load,
    root,
    size,
    store,
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
        given.append(_single(builder, builder.load(builder.bitcast(start, kind.as_pointer()), align=4)))
    # Row 4 g + j goes to place g of vector j, and then 4 by 4 numbers are turned in each place.
    turned = [_joined(builder, given[j::COLUMNS]) for j in range(COLUMNS)]
    for half in (1, 2):
        places = [4 * g + i for g in range(4) for i in ((0, 16, 1, 17) if half == 1 else (0, 1, 16, 17))]
        turned = _pairs(builder, turned, half, places)
    for c, numbers in enumerate(turned):
        place = builder.add(out_at, out_at.type(c * LANES))
        store(builder, numbers, builder.gep(out, [place]), SINGLES)


def _single(builder, value):
    """A number, or a vector of them, as float32."""
    kind = ir.VectorType(ir.FloatType(), value.type.count) if isinstance(value.type, ir.VectorType) else ir.FloatType()
    return value if value.type == kind else builder.fptrunc(value, kind)


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
    builder.store(load(builder, largest, SINGLES), most)
    with cgutils.for_range(builder, d) as loop:
        place = builder.add(at, builder.mul(loop.index, loop.index.type(LANES)))
        value = load(builder, builder.gep(lanes, [place]), SINGLES)
        square = builder.fmul(value, value, flags=("contract",))
        builder.store(builder.fadd(builder.load(total), square, flags=("contract",)), total)
        builder.store(_raised(builder, builder.load(most), size(builder, value)), most)
    raised = _raised(builder, load(builder, squares, SINGLES), builder.load(total))
    store(builder, raised, squares, SINGLES)
    store(builder, builder.load(most), largest, SINGLES)


def _raised(builder, old, new):
    return builder.select(builder.fcmp_ordered(">", new, old), new, old)


@for_llvm(types.void, None, None, int64, int64, None)
def times_four(builder, lanes, form, column, d, out):
    """Write 4 columns of the product of 16 rows of d numbers, given as lanes, with a (d, d) matrix."""
    _times(builder, lanes, form, column, d, out, COLUMNS)


@for_llvm(types.void, None, None, int64, int64, None)
def times_one(builder, lanes, form, column, d, out):
    """The same for one column."""
    _times(builder, lanes, form, column, d, out, 1)


def _times(builder, lanes, form, column, d, out, columns):
    totals = [cgutils.alloca_once(builder, SINGLES[0]) for _ in range(columns)]
    for total in totals:
        builder.store(ir.Constant(SINGLES[0], None), total)
    with cgutils.for_range(builder, d) as loop:
        left = load(builder, builder.gep(lanes, [builder.mul(loop.index, loop.index.type(LANES))]), SINGLES)
        first = builder.add(builder.mul(loop.index, d), column)
        for c, total in enumerate(totals):
            right = _single(builder, builder.load(builder.gep(form, [builder.add(first, first.type(c))])))
            product = builder.fmul(left, everywhere(builder, right), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
    for c, total in enumerate(totals):
        place = builder.mul(builder.add(column, column.type(c)), column.type(LANES))
        store(builder, builder.load(total), builder.gep(out, [place]), SINGLES)


@for_llvm(int64, None, None, None, float32, float32, float32, float32, float32)
def leading(builder, best, second, squares, least, longest, slope, base, most):
    """Which of 16 queries have a best product that leads by more than slope b + base, with b < most: bit l of it.

    b is the square root of squares + least, times `longest`.
    """
    first, next_one, square = (load(builder, start, SINGLES) for start in (best, second, squares))
    length = root(builder, builder.fadd(square, everywhere(builder, least)))
    bound = builder.fmul(length, everywhere(builder, longest))
    needed = builder.fadd(builder.fmul(bound, everywhere(builder, slope)), everywhere(builder, base))
    leads = builder.fcmp_ordered(">", builder.fsub(first, next_one), needed)
    return bits(builder, builder.and_(leads, builder.fcmp_ordered("<", bound, everywhere(builder, most))))


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
    vectors, done = (ir.VectorType(source.type.pointee, LANES), 4), builder.and_(width, width.type(-LANES))
    with cgutils.for_range(builder, builder.sdiv(width, width.type(LANES))) as loop:
        at = [builder.mul(loop.index, loop.index.type(LANES))]
        new, place = load(builder, builder.gep(source, at), vectors), builder.gep(target, at)
        store(builder, combined(load(builder, place, vectors), new), place, vectors)
    with cgutils.for_range(builder, builder.sub(width, done)) as loop:
        at = [builder.add(done, loop.index)]
        new, place = builder.load(builder.gep(source, at)), builder.gep(target, at)
        builder.store(combined(builder.load(place), new), place)


@for_llvm(types.void, None, int64, None, int64, int64, float64)
def hand_on(builder, source, source_at, target, target_at, width, share):
    """Take a share of some numbers from them, and add it to others in float64."""
    source, target = builder.gep(source, [source_at]), builder.gep(target, [target_at])
    number, done = source.type.pointee, builder.and_(width, width.type(-LANES))
    part = share if number == ir.DoubleType() else builder.fptrunc(share, number)

    def moved(at, load, store, share, wide):
        places = builder.gep(source, [at]), builder.gep(target, [at])
        given, old = load(places[0], number), load(places[1], ir.DoubleType())
        taken = builder.fmul(given, share)
        store(builder.fsub(given, taken), places[0], number)
        more = taken if number == ir.DoubleType() else builder.fpext(taken, wide)
        store(builder.fadd(old, more), places[1], ir.DoubleType())

    def vectors(kind):
        return ir.VectorType(kind, LANES), 4

    with cgutils.for_range(builder, builder.sdiv(width, width.type(LANES))) as loop:
        moved(
            builder.mul(loop.index, loop.index.type(LANES)),
            lambda place, kind: load(builder, place, vectors(kind)),
            lambda value, place, kind: store(builder, value, place, vectors(kind)),
            everywhere(builder, part),
            DOUBLES[0],
        )
    with cgutils.for_range(builder, builder.sub(width, done)) as loop:
        moved(
            builder.add(done, loop.index),
            lambda place, kind: builder.load(place),
            lambda value, place, kind: builder.store(value, place),
            part,
            ir.DoubleType(),
        )
