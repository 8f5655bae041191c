"""Vectors of 16 lanes in compiled code: instructions for LLVM, which fits them to the registers of any processor."""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import wraps
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from hardmax.search.registers import LANES, sums_at_once

SINGLES = (ir.VectorType(ir.FloatType(), LANES), 4)  # 16 numbers, and the bytes of one
DOUBLES = (ir.VectorType(ir.DoubleType(), LANES), 8)
WHOLES = (ir.VectorType(ir.IntType(32), LANES), 4)  # 16 sums, or 16 pairs of whole numbers of 16 bits
int64, float32, float64 = types.int64, types.float32, types.float64
intrinsic: Any = extending.intrinsic  # which adds the first argument itself


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


def load(builder, start, vectors):
    """The vector at an address."""
    return builder.load(builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def store(builder, value, start, vectors):
    """Write a vector to an address."""
    builder.store(value, builder.bitcast(start, vectors[0].as_pointer()), align=vectors[1])


def is_whole(value):
    """Whether lanes are whole numbers."""
    return isinstance(value.type.element, ir.IntType)


def compared(builder, how, one, other):
    """Compare lane by lane."""
    return (builder.icmp_signed if is_whole(one) else builder.fcmp_ordered)(how, one, other)


def larger(builder, one, other):
    """The larger number in every lane."""
    return builder.select(compared(builder, ">", one, other), one, other)


def smaller(builder, one, other):
    """The smaller number in every lane."""
    return builder.select(compared(builder, "<", one, other), one, other)


def root(builder, value):
    """Square roots of float32."""
    return _of_each(builder, "sqrt", value)


def size(builder, value):
    """Absolute values of float32."""
    return _of_each(builder, "fabs", value)


def _of_each(builder, name, value):
    kind = ir.FunctionType(SINGLES[0], [SINGLES[0]])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f32"), [value])


def bits(builder, lanes):
    """16 answers as the bits of one integer."""
    return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), ir.IntType(64))


def sums(builder, lanes, others, d, width, some, vectors):
    """Sums over r < d of lanes[r, :] * others[r, s], for some columns s of `width`; of pairs, if numbers are whole."""

    def entry(start, row, columns, column):
        return builder.gep(start, [builder.add(builder.mul(row, row.type(columns)), row.type(column))])

    totals = [cgutils.alloca_once(builder, vectors[0]) for _ in some]  # which LLVM keeps in registers
    for total in totals:
        builder.store(ir.Constant(vectors[0], None), total)
    with cgutils.for_range(builder, d) as loop:
        left = load(builder, entry(lanes, loop.index, LANES, 0), vectors)
        for s, total in zip(some, totals, strict=True):
            right = everywhere(builder, builder.load(entry(others, loop.index, width, s)))
            builder.store(_with_product(builder, builder.load(total), left, right), total)
    return [builder.load(total) for total in totals]


def _with_product(builder, total, left, right):
    """Add a product to a sum, or the products of two whole numbers: where there is one, by one instruction."""
    if not is_whole(total):
        product = builder.fmul(left, right, flags=("contract",))
        return builder.fadd(total, product, flags=("contract",))
    pairs, wide = (ir.VectorType(ir.IntType(bits), 2 * LANES) for bits in (16, 32))
    products = builder.mul(*(builder.sext(builder.bitcast(side, pairs), wide) for side in (left, right)))
    even, odd = (
        builder.shuffle_vector(products, products, ir.Constant(total.type, list(range(first, 2 * LANES, 2))))
        for first in (0, 1)
    )
    return builder.add(total, builder.add(even, odd))


def vectors_at(start):
    """What 16 numbers at an address are."""
    return SINGLES if start.type.pointee == ir.FloatType() else WHOLES


def all_products(builder, queries, panel, d, keys=range(LANES)):
    """Products of 16 queries with each key of a panel, in some order, as many at a time as registers hold."""
    step = sums_at_once()
    for first in range(0, LANES, step):
        yield from sums(builder, queries, panel, d, LANES, keys[first : first + step], vectors_at(panel))
