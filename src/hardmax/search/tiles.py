"""Symmetric products: a tile of 16 by 16 has the largest ones of its queries and, with roles exchanged, of its keys.

Lane l of vector t is the product of query l with key t. For the queries the largest of 16 vectors is taken, lane by
lane; for the keys the largest lane of every vector. For that, two vectors are folded into one that has the larger ones
of half of the lanes of each, until one is left: it takes as long as the products of a few coordinates.

Panels are of float32, or of pairs of whole numbers of 16 bits as one of 32: processors add up twice as many products of
these in a time, and none is rounded.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# What is not annotated is a value of LLVM, or the builder of its instructions.

from functools import partial
from typing import Any

from llvmlite import ir

from hardmax.search.registers import LANES
from hardmax.search.vectors import (
    all_products,
    bits,
    compared,
    everywhere,
    for_llvm,
    int64,
    larger,
    load,
    store,
    sums,
    vectors_at,
)


def _halves(width):
    """Which lanes of two vectors, 0 to 15 and 16 to 31, are folded onto which: halves of every `width` lanes.

    The instructions for these stay within 4 lanes where they can.
    """
    half = width // 2
    if width > 2:
        low = [v + g + i for g in range(0, LANES, width) for v in (0, LANES) for i in range(half)]
    else:
        low = [v + g + i for g in range(0, LANES, 4) for v in (0, LANES) for i in (0, 2)]
    return low, [lane + half for lane in low]


def _folded(vectors, fold):
    """Fold 16 vectors to one, each pair as soon as there are two of a width, so that few are waiting."""
    waiting: list[Any] = []
    for vector in vectors:
        width = LANES
        while waiting and waiting[-1][0] == width:
            vector, width = fold(waiting.pop()[1], vector, width), width // 2
        waiting.append((width, vector))
    return waiting[0][1]


def _order():
    """The keys in the order in which they must be folded for their maxima to end in their own lanes."""
    ends = _folded([[t] * LANES for t in range(LANES)], lambda u, v, width: [(u + v)[i] for i in _halves(width)[0]])
    return [ends.index(t) for t in range(LANES)]


def _fold(builder, one, other, width):
    low, high = (
        builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes))
        for lanes in _halves(width)
    )
    return larger(builder, low, high)


@for_llvm(int64, None, int64, int64, int64, None, int64, int64, None)
def tile_maxima(builder, panels, rows_at, columns_at, d, cuts, rows, columns, out):
    """Write the largest products of 16 tokens of a panel with those of another, then of these with the former.

    A panel has d rows of 16 numbers, or of 16 pairs. Which maxima are above the cuts of these tokens is returned as
    bits, first those of the one panel, then of the other.
    """
    largest = None

    def seen():
        nonlocal largest
        one, other = (builder.gep(panels, [at]) for at in (rows_at, columns_at))
        for vector in all_products(builder, one, other, d, _order()):
            largest = vector if largest is None else larger(builder, vector, largest)
            yield vector

    folded, found, kind = _folded(seen(), partial(_fold, builder)), [], vectors_at(panels)
    for at, value, to in ((rows, largest, 0), (columns, folded, LANES)):
        store(builder, value, builder.gep(out, [ir.IntType(64)(to)]), kind)
        found.append(bits(builder, compared(builder, ">", value, load(builder, builder.gep(cuts, [at]), kind))))
    return builder.or_(found[0], builder.shl(found[1], ir.IntType(64)(LANES)))


@for_llvm(int64, None, int64, int64, int64, None, int64)
def products_above(builder, panels, panel_at, token_at, d, cuts, at):
    """Which of 16 tokens of a panel have a product with one token of another that is not below cuts[at], as bits."""
    one, other = (builder.gep(panels, [start]) for start in (panel_at, token_at))
    products = sums(builder, one, other, d, LANES, range(1), vectors_at(panels))[0]
    cut = everywhere(builder, builder.load(builder.gep(cuts, [at])))
    return bits(builder, compared(builder, ">=", products, cut))
