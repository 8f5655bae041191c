"""Triton functions that compare products without any error: in float64 if that is enough, else as whole numbers."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

BELOW: tl.constexpr = tl.constexpr(298)  # limbs of 32 bits from 2^-298 on hold every product of two float32 numbers
BLOCK: tl.constexpr = tl.constexpr(32)  # keys compared at a time
PART: tl.constexpr = tl.constexpr(32)  # columns of queries and keys held at a time
NONE: tl.constexpr = tl.constexpr(1024)  # the exponent of a bit that is not there


@triton.jit
def _some(q, k, q_row, k_rows, pivot_row, asked, start, D):
    """Columns of a query, of keys and of the pivot, and whether they are there."""
    columns = start + tl.arange(0, PART)
    x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
    z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
    inside = asked[:, None] & (columns < D)[None, :]
    y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
    return x, y, z, inside


@triton.jit
def _whole(x):
    """Round towards zero."""
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def _limb(x, scale):
    """Bits 0 to 31 of x scale, with the sign of x. All steps are exact: scale is a power of two."""
    return _whole(x * scale) - _whole(x * (scale * 2.0**-32)) * 2.0**32


@triton.jit
def _exponent(x):
    return ((x.to(tl.int64, bitcast=True) >> 52) & 2047).to(tl.int32) - 1023


@triton.jit
def _limbs(q, k, q_row, k_rows, pivot_row, asked, D):
    """The first and the last limb in which a product may have bits."""
    lowest = tl.full([BLOCK], NONE, tl.int32)
    highest = tl.full([BLOCK], -NONE, tl.int32)
    for start in range(0, D, PART):
        x, y, z, inside = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
        for product in tl.static_range(2):
            exponent = _exponent(x[None, :] * (y if product == 0 else z[None, :]))
            there = inside & (exponent > -1023)
            lowest = tl.minimum(lowest, tl.min(tl.where(there, exponent, NONE), 1))
            highest = tl.maximum(highest, tl.max(tl.where(there, exponent, -NONE), 1))
    lowest = tl.maximum(tl.min(lowest, 0) - 47, -BELOW)  # products have 48 bits
    return (lowest + BELOW) // 32, (tl.max(highest, 0) + BELOW) // 32


@triton.jit
def _order(q, k, q_row, k_rows, pivot_row, asked, D):
    """Sign of <q, k_j> - <q, k_pivot> in integer arithmetic, limb after limb, so without any error: 1, 0 or -1."""
    first, last = _limbs(q, k, q_row, k_rows, pivot_row, asked, D)
    carry = tl.zeros([BLOCK], tl.int64)
    rest = tl.zeros([BLOCK], tl.int32)
    scale = ((tl.zeros([1], tl.int32) + (BELOW + 1023) - 32 * first).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    for _ in range(first, last + 1):
        total = tl.zeros([BLOCK], tl.float64)  # whole numbers below 2^33 each, so exact for D up to 2^19
        for start in range(0, D, PART):
            x, y, z, _there = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
            total += tl.sum(_limb(x[None, :] * y, scale[:, None]) - _limb(x * z, scale)[None, :], 1)
        number = total.to(tl.int64) + carry
        carry = number >> 32
        rest |= (number - (carry << 32) != 0).to(tl.int32)
        scale *= 2.0**-32
    return tl.where(carry < 0, -1, tl.where((carry > 0) | (rest > 0), 1, 0))


@triton.jit
def _last_bit(x):
    """The exponent of the last bit of float32 numbers; NONE for 0, and -NONE for numbers below their range."""
    bits = x.to(tl.int32, bitcast=True)
    whole = bits & 0x7FFFFF | 0x800000  # |x| = whole 2^(exponent - 150)
    exponent = (bits >> 23) & 255
    zeros = ((whole & -whole).to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
    return tl.where(x == 0, NONE, tl.where(exponent == 0, -NONE, exponent - 150 + zeros))


@triton.jit
def scores_of(q, k, q_row, k_rows, real, D, N: tl.constexpr):
    """<q, k_j> of N keys in float64, and a bound of its error: (D + 8) 2^-53 |q| |k_j|, rounded up."""
    product = tl.zeros([N], tl.float64)
    k_square = tl.zeros([N], tl.float64)
    q_square = tl.zeros([PART], tl.float64)
    for start in range(0, D, PART):
        columns = start + tl.arange(0, PART)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
        inside = real[:, None] & (columns < D)[None, :]
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
        product += tl.sum(x[None, :] * y, 1)
        k_square += tl.sum(y * y, 1)
        q_square += x * x
    return product, (D + 8) * 2.0**-53 * 1.001 * tl.sqrt(tl.sum(q_square, 0) * k_square)


@triton.jit
def _look(q, k, q_row, k_rows, pivot_row, asked, error, pivot_error, D):
    """Whether a key differs from the pivot in a column where the query is not 0; and whether float64 makes no error.

    All products are whole numbers of a unit, what the last bits of query and key are worth together. No sum of some of
    them exceeds |q| |k_j|, to which the bound of the error is in proportion: below 2^53 units, float64 holds it.
    """
    differs = tl.zeros([BLOCK], tl.int32)
    q_last = tl.full([PART], NONE, tl.int32)
    k_last = tl.full([BLOCK], NONE, tl.int32)
    for start in range(0, D, PART):
        x, y, z, inside = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
        differs |= tl.max(((y != z[None, :]) & (x != 0)[None, :] & inside).to(tl.int32), 1)
        q_last = tl.minimum(q_last, _last_bit(x.to(tl.float32)))
        k_last = tl.minimum(k_last, tl.min(_last_bit(y.to(tl.float32)), 1))
        k_last = tl.minimum(k_last, tl.min(_last_bit(z.to(tl.float32)), 0))
    room = tl.minimum(tl.maximum(53 + tl.min(q_last, 0) + k_last, -1022), 1023)
    most = ((room + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    return differs > 0, tl.maximum(error, pivot_error) < (D + 8) * 2.0**-53 * most


@triton.jit
def compare(q, k, q_row, k_rows, real, score, error, pivot_row, pivot, pivot_error, D):
    """Exact sign of <q, k_j> - <q, k_pivot> for a block of keys; -1 for a key that is not real."""
    close = real & (tl.abs(score - pivot) <= error + pivot_error)
    told = tl.where(score > pivot, 1, tl.where(score < pivot, -1, 0))
    sign = tl.where(close, 0, told)
    asked = close & (k_rows != pivot_row)
    if tl.max(asked.to(tl.int32), 0) > 0:
        differs, exact = _look(q, k, q_row, k_rows, pivot_row, asked, error, pivot_error, D)
        sign = tl.where(asked & differs, told, sign)
        asked &= differs & (exact == 0)
        if tl.max(asked.to(tl.int32), 0) > 0:
            sign = tl.where(asked, _order(q, k, q_row, k_rows, pivot_row, asked, D), sign)
    return tl.where(real, sign, -1)


@triton.jit
def highest_of(keys, sign, score, error):
    """The key with the largest float64 score of those above the pivot, that score and its error."""
    best = tl.max(tl.where(sign > 0, score, float("-inf")), 0)
    tl.debug_barrier()
    key = tl.min(tl.where((sign > 0) & (score == best), keys, 2147483647), 0)
    tl.debug_barrier()
    return key, best, tl.sum(tl.where(keys == key, error, 0.0), 0)


@triton.jit
def score_one(q, k, q_row, k_row, D):
    """What `scores_of` gives, of one key."""
    alone = tl.arange(0, 2) == 0
    score, error = scores_of(q, k, q_row, k_row + tl.zeros([2], tl.int64), alone, D, 2)
    return tl.sum(tl.where(alone, score, 0.0), 0), tl.sum(tl.where(alone, error, 0.0), 0)


@triton.jit
def ties(q, k, row, k_rows, real, pivot_row, pivot_score, pivot_error, D):
    """Whether keys have the product of the pivot exactly."""
    score, error = scores_of(q, k, row, k_rows, real, D, BLOCK)
    real &= tl.abs(score) + error < float("inf")
    return compare(q, k, row, k_rows, real, score, error, pivot_row, pivot_score, pivot_error, D) == 0
