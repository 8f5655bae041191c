"""Triton functions that compare products without any error: in float64 if that is enough, else as whole numbers."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

BELOW: tl.constexpr = tl.constexpr(298)  # limbs of 32 bits from 2^-298 on hold every product of two float32 numbers
BLOCK: tl.constexpr = tl.constexpr(64)  # keys compared at a time
PART: tl.constexpr = tl.constexpr(32)  # columns of queries and keys held at a time
FEW: tl.constexpr = tl.constexpr(16)  # the same where it is seldom done: more would take longer to compile


@triton.jit
def _some(q, k, q_row, k_rows, pivot_row, asked, start, D):
    """Columns of a query, of keys and of the pivot, and whether they are there."""
    columns = start + tl.arange(0, FEW)
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
def _bits(x, found, last, first):
    """The exponents of the last and of the first bit of numbers that are not 0, with those found before."""
    there = found & (x != 0)
    whole = x.to(tl.int64, bitcast=True) & 0xFFFFFFFFFFFFF | 0x10000000000000  # |x| = whole 2^(exponent - 52)
    lowest = _exponent(x) - 52 + _exponent((whole & -whole).to(tl.float64))
    return (
        tl.minimum(last, tl.min(tl.where(there, lowest, 1024), 1)),
        tl.maximum(first, tl.max(tl.where(there, _exponent(x), -1024), 1)),
    )


@triton.jit
def _limbs(q, k, q_row, k_rows, pivot_row, asked, D):
    """The first and the last limb in which a product has bits, and whether float64 holds all sums exactly."""
    last = tl.full([BLOCK], 1024, tl.int32)
    first = tl.full([BLOCK], -1024, tl.int32)
    for start in range(0, D, FEW):
        x, y, z, inside = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
        last, first = _bits(x[None, :] * y, inside, last, first)
        last, first = _bits((x * z)[None, :], inside, last, first)
    lowest, highest = tl.min(last, 0), tl.max(first, 0)
    terms = tl.max(_exponent((tl.zeros([1], tl.int32) + D).to(tl.float64)), 0) + 1  # D < 2^terms
    return (lowest + BELOW) // 32, (highest + BELOW) // 32, highest + 1 + terms - lowest <= 53


@triton.jit
def _order(q, k, q_row, k_rows, pivot_row, asked, score, pivot, D):
    """Sign of <q, k_j> - <q, k_pivot> without any error: 1, 0 or -1. In integer arithmetic, if float64 has errors."""
    first, last, exact = _limbs(q, k, q_row, k_rows, pivot_row, asked, D)
    sign = tl.where(score > pivot, 1, tl.where(score < pivot, -1, 0))
    if exact == 0:
        sign = _sign(q, k, q_row, k_rows, pivot_row, asked, first, last, D)
    return sign


@triton.jit
def _sign(q, k, q_row, k_rows, pivot_row, asked, first, last, D):
    """The same in integer arithmetic, limb after limb."""
    carry = tl.zeros([BLOCK], tl.int64)
    rest = tl.zeros([BLOCK], tl.int32)
    scale = ((tl.zeros([1], tl.int32) + (BELOW + 1023) - 32 * first).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    for _ in range(first, last + 1):
        total = tl.zeros([BLOCK], tl.float64)  # whole numbers below 2^33 each, so exact for D up to 2^19
        for start in range(0, D, FEW):
            x, y, z, _there = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
            total += tl.sum(_limb(x[None, :] * y, scale[:, None]) - _limb(x * z, scale)[None, :], 1)
        number = total.to(tl.int64) + carry
        carry = number >> 32
        rest |= (number - (carry << 32) != 0).to(tl.int32)
        scale *= 2.0**-32
    return tl.where(carry < 0, -1, tl.where((carry > 0) | (rest > 0), 1, 0))


@triton.jit
def scores_of(q, k, q_row, k_rows, real, D, N: tl.constexpr):
    """<q, k_j> of N keys in float64, and a bound of its error: (D + 8) 2^-53 |q| |k_j|, rounded up."""
    product = tl.zeros([N], tl.float64)
    k_square = tl.zeros([N], tl.float64)
    q_square = tl.zeros([FEW], tl.float64)
    for start in range(0, D, FEW):
        columns = start + tl.arange(0, FEW)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
        inside = real[:, None] & (columns < D)[None, :]
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
        product += tl.sum(x[None, :] * y, 1)
        k_square += tl.sum(y * y, 1)
        q_square += x * x
    return product, (D + 8) * 2.0**-53 * 1.001 * tl.sqrt(tl.sum(q_square, 0) * k_square)


@triton.jit
def _differs(q, k, q_row, k_rows, pivot_row, asked, D):
    """Whether a key differs from the pivot in a column where the query is not 0."""
    found = tl.zeros([BLOCK], tl.int32)
    for start in range(0, D, FEW):
        x, y, z, inside = _some(q, k, q_row, k_rows, pivot_row, asked, start, D)
        found |= tl.max(((y != z[None, :]) & (x != 0)[None, :] & inside).to(tl.int32), 1)
    return found


@triton.jit
def compare(q, k, q_row, k_rows, real, score, error, pivot_row, pivot, pivot_error, D):
    """Exact sign of <q, k_j> - <q, k_pivot> for a block of keys; -1 for a key that is not real."""
    close = real & (tl.abs(score - pivot) <= error + pivot_error)
    sign = tl.where(close, 0, tl.where(score > pivot, 1, -1))
    asked = close & (k_rows != pivot_row)
    if tl.max(asked.to(tl.int32), 0) > 0:
        asked &= _differs(q, k, q_row, k_rows, pivot_row, asked, D) > 0
        if tl.max(asked.to(tl.int32), 0) > 0:
            sign = tl.where(asked, _order(q, k, q_row, k_rows, pivot_row, asked, score, pivot, D), sign)
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
    """The same of one key."""
    alone = tl.arange(0, 2) == 0
    score, error = scores_of(q, k, q_row, k_row + tl.zeros([2], tl.int64), alone, D, 2)
    return tl.sum(tl.where(alone, score, 0.0), 0), tl.sum(tl.where(alone, error, 0.0), 0)


@triton.jit
def ties(q, k, row, k_rows, real, pivot_row, pivot_score, pivot_error, D):
    """Whether keys have the product of the pivot exactly."""
    score, error = scores_of(q, k, row, k_rows, real, D, BLOCK)
    real &= tl.abs(score) + error < float("inf")
    return compare(q, k, row, k_rows, real, score, error, pivot_row, pivot_score, pivot_error, D) == 0
