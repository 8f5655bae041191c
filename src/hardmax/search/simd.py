"""Vector instructions of 16 lanes for the compiled searches.

Keys come in panels of 16, coordinate by coordinate. The inner loops multiply 16 lanes
by single numbers with every sum in a register. LLVM does not find that from a loop in
numba, which keeps the sums in memory and is 14 to 22 times as slow (`python -m
benchmarks vectors_128`). Vectors have 16 lanes, which LLVM maps to the registers of any
processor. `scan`, `symmetric` and `small` need no other hand-written instructions;
flows have their own sums.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# Arguments that are not annotated are values of LLVM or the builder of its
# instructions.

from functools import cache, partial, reduce, wraps
from typing import Any

from llvmlite import binding, ir
from numba import extending, types
from numba.core import cgutils
from numba.core import config as numba_config

config: Any = numba_config  # whose attributes are set from the environment
LANES = 16  # numbers per vector: one cache line of float32
FLOAT32 = (ir.VectorType(ir.FloatType(), LANES), 4)  # 16 numbers, and the bytes of one
FLOAT64 = (ir.VectorType(ir.DoubleType(), LANES), 8)
INT32 = (ir.VectorType(ir.IntType(32), LANES), 4)  # 16 sums, or 16 pairs of int16
int64, float32, float64 = types.int64, types.float32, types.float64

# Error bounds hold for any order of summation, and inputs are finite. A product of
# scale factors must not be reassociated, as a partial product may overflow and meet a
# zero: compute it in a function without these flags.
FLAGS = {"nnan", "nsz", "reassoc", "contract"}
# smaller sizes are not scaled up to 1, as the product of two scales would overflow
MIN_SCALED = 1e-150


@cache
def count_accumulators() -> int:
    """Return how many sums of 16 float32 fit into registers, beside 16 numbers, a
    broadcast one and their product.

    The processor that numba compiles for need not be this one. Which registers it has
    is read off what LLVM makes of an addition of 16 lanes.
    """
    name = config.CPU_NAME or binding.get_host_cpu_name()
    features = config.CPU_FEATURES
    if features is None:
        features = "" if config.CPU_NAME else binding.get_host_cpu_features().flatten()
    module, vector = ir.Module(), FLOAT32[0]
    module.triple = binding.get_process_triple()
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [vector.as_pointer()]), "double"
    )
    builder = ir.IRBuilder(function.append_basic_block())
    once = builder.load(function.args[0])
    builder.store(builder.fadd(once, once), function.args[0])
    builder.ret_void()
    target = binding.Target.from_triple(module.triple).create_target_machine(
        cpu=name, features=features
    )
    assembly = target.emit_assembly(binding.parse_assembly(str(module)))
    width = 16 if "%zmm" in assembly else 8 if "%ymm" in assembly else 4
    registers = 16 if width < 16 and module.triple.startswith("x86") else 32
    per_vector = LANES // width
    return min(LANES, (registers - per_vector - 2) // per_vector)


def intrinsic(result, *kinds):
    """Make a numba function of one that builds LLVM instructions.

    An argument of kind None is an array; the function gets the address of its first
    number.
    """

    def decorate(build):
        @wraps(build)
        def typed(_, *given):
            def body(context, builder, signature, args):
                values = list(args)
                for i, kind in enumerate(kinds):
                    if kind is None:
                        values[i] = context.make_array(given[i])(
                            context, builder, value=args[i]
                        ).data
                built = build(builder, *values)
                return context.get_dummy_value() if built is None else built

            return (
                result(*(kind or own for kind, own in zip(kinds, given, strict=True))),
                body,
            )

        return _numba_intrinsic(typed)

    return decorate


_numba_intrinsic: Any = extending.intrinsic  # which adds the first argument itself


def broadcast(builder, value):
    """Repeat a number in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    single = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(
        single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    )


def load(builder, start, kind):
    """Read a vector."""
    return builder.load(builder.bitcast(start, kind[0].as_pointer()), align=kind[1])


def store(builder, value, start, kind):
    """Write a vector."""
    builder.store(value, builder.bitcast(start, kind[0].as_pointer()), align=kind[1])


def _is_integer(value):
    return isinstance(value.type.element, ir.IntType)


def _compare(builder, operator, one, other):
    return (builder.icmp_signed if _is_integer(one) else builder.fcmp_ordered)(
        operator, one, other
    )


def maximum(builder, one, other):
    """Return the larger number of each lane."""
    return builder.select(_compare(builder, ">", one, other), one, other)


def _as_bits(builder, lanes):
    """Return 16 booleans as the bits of one integer."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))


def _sum_products(builder, lanes, others, d, width, columns, kind):
    """Return sums over r < d of lanes[r, :] * others[r, s] for some columns s of
    `width`; int16 come in pairs.
    """

    def address(start, row, width, column):
        return builder.gep(
            start, [builder.add(builder.mul(row, row.type(width)), row.type(column))]
        )

    totals = [
        cgutils.alloca_once(builder, kind[0]) for _ in columns
    ]  # LLVM keeps them in registers
    for total in totals:
        builder.store(ir.Constant(kind[0], None), total)
    with cgutils.for_range(builder, d) as loop:
        left = load(builder, address(lanes, loop.index, LANES, 0), kind)
        for s, total in zip(columns, totals, strict=True):
            right = broadcast(
                builder, builder.load(address(others, loop.index, width, s))
            )
            builder.store(
                _add_product(builder, builder.load(total), left, right), total
            )
    return [builder.load(total) for total in totals]


def _add_product(builder, total, left, right):
    """Add a product to a sum, or the products of a pair of int16; processors have one
    instruction for either.
    """
    if not _is_integer(total):
        product = builder.fmul(left, right, flags=("contract",))
        return builder.fadd(total, product, flags=("contract",))
    pairs, wide = (ir.VectorType(ir.IntType(bits), 2 * LANES) for bits in (16, 32))
    products = builder.mul(
        *(builder.sext(builder.bitcast(side, pairs), wide) for side in (left, right))
    )
    even, odd = (
        builder.shuffle_vector(
            products,
            products,
            ir.Constant(total.type, list(range(first, 2 * LANES, 2))),
        )
        for first in (0, 1)
    )
    return builder.add(total, builder.add(even, odd))


def _all_products(builder, queries, panel, d):
    """Yield products of 16 queries with each key of a panel, as many at a time as
    registers hold.
    """
    step, kind = (
        count_accumulators(),
        FLOAT32 if panel.type.pointee == ir.FloatType() else INT32,
    )
    for first in range(0, LANES, step):
        yield from _sum_products(
            builder, queries, panel, d, LANES, range(LANES)[first : first + step], kind
        )


def _reduce(builder, operation, vector, **flags):
    """Reduce all lanes to one number."""
    number = vector.type.element
    name = f"llvm.vector.reduce.{operation}.v{LANES}{'i32' if _is_integer(vector) else 'f64'}"
    kind = ir.FunctionType(number, [vector.type])
    return builder.call(
        cgutils.get_or_insert_function(builder.module, kind, name), [vector], **flags
    )


@intrinsic(types.void, None, None, int64, int64, None, int64, None)
def panel_maxima(builder, queries, panels, panel_at, d, out, out_at, best):
    """Write, for 16 queries, the largest float32 product with the 16 keys of a panel,
    and raise `best` to it.
    """
    largest = reduce(
        partial(maximum, builder),
        _all_products(builder, queries, builder.gep(panels, [panel_at]), d),
    )
    store(builder, largest, builder.gep(out, [out_at]), FLOAT32)
    store(
        builder, maximum(builder, largest, load(builder, best, FLOAT32)), best, FLOAT32
    )


@intrinsic(types.void, None, None, int64, int64, int64, float32, None, None, None)
def panel_winners(
    builder, queries, panels, panel_at, d, count, offset, best, second, index
):
    """Update the best and second best float32 products of 16 queries with the first
    `count` keys of a panel.

    `index` holds the position of the best key as a float: `offset` of its panel, plus
    its position there.
    """
    first, next_one, place = (
        load(builder, start, FLOAT32) for start in (best, second, index)
    )
    lowest_float = ir.Constant(FLOAT32[0], [-3e38] * LANES)
    for t, one in enumerate(
        _all_products(builder, queries, builder.gep(panels, [panel_at]), d)
    ):
        product = builder.select(
            builder.icmp_signed("<", count.type(t), count), one, lowest_float
        )
        wins = builder.fcmp_ordered(">", product, first)
        next_one = maximum(builder, builder.select(wins, first, product), next_one)
        here = builder.fadd(offset, ir.FloatType()(t))
        place = builder.select(wins, broadcast(builder, here), place)
        first = builder.select(wins, product, first)
    for value, start in ((first, best), (next_one, second), (place, index)):
        store(builder, value, start, FLOAT32)


@intrinsic(float64, None, int64, None, int64, int64, None, int64, int64)
def panel_products(builder, panels, panel_at, query, query_at, d, out, out_at, seen):
    """Write the float64 products of a query with 16 keys, minus infinity from `seen`
    on, and return the largest.
    """
    lanes, others = builder.gep(panels, [panel_at]), builder.gep(query, [query_at])
    products = _sum_products(builder, lanes, others, d, 1, range(1), FLOAT64)[0]
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
    hidden = ir.Constant(FLOAT64[0], [float("-inf")] * LANES)
    products = builder.select(
        builder.icmp_signed("<", numbers, broadcast(builder, seen)), products, hidden
    )
    store(builder, products, builder.gep(out, [out_at]), FLOAT64)
    return _reduce(builder, "fmax", products, fastmath=("nnan",))


@intrinsic(int64, None, int64, None, None, float32)
def float32_above(builder, values, at, cuts, slopes, factor):
    """Return the lanes with values[at + l] - cuts[l] >= slopes[l] * factor as bits."""
    value, cut, slope = (
        load(builder, start, FLOAT32)
        for start in (builder.gep(values, [at]), cuts, slopes)
    )
    bound = builder.fmul(slope, broadcast(builder, factor))
    return _as_bits(
        builder, builder.fcmp_ordered(">=", builder.fsub(value, cut), bound)
    )


@intrinsic(int64, None, int64, float64)
def float64_above(builder, values, at, cut):
    """Return the lanes with values[at + l] >= cut as bits."""
    value = load(builder, builder.gep(values, [at]), FLOAT64)
    return _as_bits(builder, builder.fcmp_ordered(">=", value, broadcast(builder, cut)))


@intrinsic(int64, None, int64, int64, int64, None, int64, int64, None)
def tile_maxima(builder, panels, rows_at, columns_at, pairs, cuts, rows, columns, out):
    """Write the largest products of 16 tokens of one panel with those of another, and
    of these with the former.

    Lane l of vector t is the product of token l of the one panel with token t of the
    other: the former maxima are taken over the vectors, the latter over the lanes of
    each vector. Panels hold int16 in pairs. Returns the maxima that exceed the cuts of
    their tokens as 32 bits.
    """
    one, other = (builder.gep(panels, [at]) for at in (rows_at, columns_at))
    vectors = list(_all_products(builder, one, other, pairs))
    largest, of_columns, found = (
        reduce(partial(maximum, builder), vectors),
        ir.Constant(INT32[0], ir.Undefined),
        [],
    )
    for t, vector in enumerate(vectors):
        of_columns = builder.insert_element(
            of_columns, _reduce(builder, "smax", vector), ir.IntType(32)(t)
        )
    for at, value, to in ((rows, largest, 0), (columns, of_columns, LANES)):
        store(builder, value, builder.gep(out, [ir.IntType(64)(to)]), INT32)
        cut = load(builder, builder.gep(cuts, [at]), INT32)
        found.append(_as_bits(builder, builder.icmp_signed(">", value, cut)))
    return builder.or_(found[0], builder.shl(found[1], ir.IntType(64)(LANES)))


@intrinsic(int64, None, int64, int64, int64, None, int64)
def products_above(builder, panels, panel_at, token_at, pairs, cuts, at):
    """Return which of 16 tokens of a panel have a product of at least cuts[at] with one
    token of another, as bits.
    """
    one, other = (builder.gep(panels, [start]) for start in (panel_at, token_at))
    products = _sum_products(builder, one, other, pairs, LANES, range(1), INT32)[0]
    cut = broadcast(builder, builder.load(builder.gep(cuts, [at])))
    return _as_bits(builder, builder.icmp_signed(">=", products, cut))


@intrinsic(float64, float64)
def scale_to_one(builder, size):
    """Return the power of two that brings `size` into [1, 4), at most 2^1001 so that
    multiples do not overflow.
    """
    bits = ir.IntType(64)
    exponent = builder.and_(
        builder.bitcast(size, bits), bits(0x7FE << 52)
    )  # in its lowest bit, [1, 4) is one
    least = bits(22 << 52)
    exponent = builder.select(
        builder.icmp_unsigned("<", exponent, least), least, exponent
    )
    return builder.bitcast(builder.sub(bits(0x7FE << 52), exponent), ir.DoubleType())


@intrinsic(int64, int64)
def lowest_bit(builder, bits):
    """Return the index of the lowest bit that is set."""
    return builder.cttz(bits, ir.IntType(1)(1))


@_numba_intrinsic
def borrow(_, arrays):
    """Return an array or a tuple of arrays without counting references, which takes
    longer than a search of few keys.

    The caller of the function that borrows holds the arrays until it returns.
    """

    def forget(context, builder, kind, value):
        if isinstance(kind, types.BaseTuple):
            for i, each in enumerate(kind):  # type: ignore[arg-type, var-annotated]
                part = forget(context, builder, each, builder.extract_value(value, i))
                value = builder.insert_value(value, part, i)
            return value
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()

    def body(context, builder, signature, args):
        return forget(context, builder, arrays, args[0])

    return arrays(arrays), body
