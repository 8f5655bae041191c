"""Triton kernel that decides pending rows exactly: in float64 where that is enough,
else in integer arithmetic.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_search import CHUNK, LANES, TILE

MIN_EXPONENT: tl.constexpr = tl.constexpr(
    -298
)  # limbs of 32 bits from 2^-298 on hold every product of two float32
BLOCK: tl.constexpr = tl.constexpr(32)  # keys compared at a time
PART: tl.constexpr = tl.constexpr(32)  # columns of queries and keys held at a time
NONE: tl.constexpr = tl.constexpr(1024)  # exponent of a bit that does not exist


@triton.jit
def _load_columns(q, k, q_row, k_rows, pivot_row, asked, start, D):
    """Return columns of a query, of keys and of the pivot, and where they exist."""
    columns = start + tl.arange(0, PART)
    x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
    z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
    inside = asked[:, None] & (columns < D)[None, :]
    y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(
        tl.float64
    )
    return x, y, z, inside


@triton.jit
def _truncate(x):
    """Round towards zero."""
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def _extract_limb(x, scale):
    """Return bits 0 to 31 of x scale, with the sign of x. All steps are exact: scale is
    a power of two.
    """
    return _truncate(x * scale) - _truncate(x * (scale * 2.0**-32)) * 2.0**32


@triton.jit
def _find_limbs(q, k, q_row, k_rows, pivot_row, asked, D):
    """Return the first and the last limb in which a product may have bits."""
    lowest = tl.full([BLOCK], NONE, tl.int32)
    highest = tl.full([BLOCK], -NONE, tl.int32)
    for start in range(0, D, PART):
        x, y, z, inside = _load_columns(q, k, q_row, k_rows, pivot_row, asked, start, D)
        for product in tl.static_range(2):
            term = x[None, :] * (y if product == 0 else z[None, :])
            exponent = ((term.to(tl.int64, bitcast=True) >> 52) & 2047).to(
                tl.int32
            ) - 1023
            there = inside & (exponent > -1023)
            lowest = tl.minimum(lowest, tl.min(tl.where(there, exponent, NONE), 1))
            highest = tl.maximum(highest, tl.max(tl.where(there, exponent, -NONE), 1))
    lowest = tl.maximum(tl.min(lowest, 0) - 47, MIN_EXPONENT)  # products have 48 bits
    return (lowest - MIN_EXPONENT) // 32, (tl.max(highest, 0) - MIN_EXPONENT) // 32


@triton.jit
def _compare_integers(q, k, q_row, k_rows, pivot_row, asked, D):
    """Return the sign of <q, k_j> - <q, k_pivot> by integer arithmetic, limb after
    limb, without any error.
    """
    first, last = _find_limbs(q, k, q_row, k_rows, pivot_row, asked, D)
    carry = tl.zeros([BLOCK], tl.int64)
    rest = tl.zeros([BLOCK], tl.int32)
    scale = tl.zeros([1], tl.int32) + (1023 - MIN_EXPONENT) - 32 * first
    scale = (scale.to(tl.int64) << 52).to(tl.float64, bitcast=True)
    for _ in range(first, last + 1):
        total = tl.zeros(
            [BLOCK], tl.float64
        )  # integers below 2^33 each, so exact for D up to 2^19
        for start in range(0, D, PART):
            x, y, z, _there = _load_columns(
                q, k, q_row, k_rows, pivot_row, asked, start, D
            )
            total += tl.sum(
                _extract_limb(x[None, :] * y, scale[:, None])
                - _extract_limb(x * z, scale)[None, :],
                1,
            )
        number = total.to(tl.int64) + carry
        carry = number >> 32
        rest |= (number - (carry << 32) != 0).to(tl.int32)
        scale *= 2.0**-32
    return tl.where(carry < 0, -1, tl.where((carry > 0) | (rest > 0), 1, 0))


@triton.jit
def _find_last_bit(x):
    """Return the exponent of the last bit of float32 numbers; NONE for 0, and -NONE for
    subnormal numbers.
    """
    bits = x.to(tl.int32, bitcast=True)
    mantissa = bits & 0x7FFFFF | 0x800000  # |x| = mantissa 2^(exponent - 150)
    exponent = (bits >> 23) & 255
    zeros = (
        (mantissa & -mantissa).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    ) - 127
    return tl.where(
        x == 0, NONE, tl.where(exponent == 0, -NONE, exponent - 150 + zeros)
    )


@triton.jit
def _score(q, k, q_row, k_rows, real, D, N: tl.constexpr):
    """Return <q, k_j> of N keys in float64, and a bound of its error: (D + 8) 2^-53 |q|
    |k_j|, rounded up.
    """
    product = tl.zeros([N], tl.float64)
    k_square = tl.zeros([N], tl.float64)
    q_square = tl.zeros([PART], tl.float64)
    for start in range(0, D, PART):
        columns = start + tl.arange(0, PART)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
        inside = real[:, None] & (columns < D)[None, :]
        y = tl.load(
            k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0
        ).to(tl.float64)
        product += tl.sum(x[None, :] * y, 1)
        k_square += tl.sum(y * y, 1)
        q_square += x * x
    return product, (D + 8) * 2.0**-53 * 1.001 * tl.sqrt(tl.sum(q_square, 0) * k_square)


@triton.jit
def score_one(q, k, q_row, k_row, D):
    """Return the score of one key and the bound of its error."""
    alone = tl.arange(0, 2) == 0
    score, error = _score(q, k, q_row, k_row + tl.zeros([2], tl.int64), alone, D, 2)
    return tl.sum(tl.where(alone, score, 0.0), 0), tl.sum(
        tl.where(alone, error, 0.0), 0
    )


@triton.jit
def _inspect(q, k, q_row, k_rows, pivot_row, asked, error, pivot_error, D):
    """Return which keys differ from the pivot where the query is not 0, and for which
    float64 makes no error.

    All products are integer multiples of a unit, the product of the last bits of query
    and key. No partial sum of them exceeds |q| |k_j|, to which the bound of the error
    is proportional: below 2^53 units, float64 holds it.
    """
    differs = tl.zeros([BLOCK], tl.int32)
    q_last = tl.full([PART], NONE, tl.int32)
    k_last = tl.full([BLOCK], NONE, tl.int32)
    for start in range(0, D, PART):
        x, y, z, inside = _load_columns(q, k, q_row, k_rows, pivot_row, asked, start, D)
        differs |= tl.max(
            ((y != z[None, :]) & (x != 0)[None, :] & inside).to(tl.int32), 1
        )
        q_last = tl.minimum(q_last, _find_last_bit(x.to(tl.float32)))
        k_last = tl.minimum(k_last, tl.min(_find_last_bit(y.to(tl.float32)), 1))
        k_last = tl.minimum(k_last, tl.min(_find_last_bit(z.to(tl.float32)), 0))
    room = tl.minimum(tl.maximum(53 + tl.min(q_last, 0) + k_last, -1022), 1023)
    most = ((room + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    return differs > 0, tl.maximum(error, pivot_error) < (D + 8) * 2.0**-53 * most


@triton.jit
def compare(q, k, q_row, k_rows, real, pivot_row, pivot, pivot_error, D):
    """Return the exact sign of <q, k_j> - <q, k_pivot>, -1 for a key that is not real;
    scores, and bounds of errors.
    """
    score, error = _score(q, k, q_row, k_rows, real, D, BLOCK)
    real &= tl.abs(score) + error < float("inf")
    close = real & (tl.abs(score - pivot) <= error + pivot_error)
    by_score = tl.where(score > pivot, 1, tl.where(score < pivot, -1, 0))
    sign = tl.where(close, 0, by_score)
    asked = close & (k_rows != pivot_row)
    if tl.max(asked.to(tl.int32), 0) > 0:
        differs, exact = _inspect(
            q, k, q_row, k_rows, pivot_row, asked, error, pivot_error, D
        )
        sign = tl.where(asked & differs, by_score, sign)
        asked &= differs & (exact == 0)
        if tl.max(asked.to(tl.int32), 0) > 0:
            sign = tl.where(
                asked, _compare_integers(q, k, q_row, k_rows, pivot_row, asked, D), sign
            )
    return tl.where(real, sign, -1), score, error


@triton.jit
def load_row(found, b, i, n, m, causal, record, HAS_LIST: tl.constexpr):
    """Return what limits the candidates of a row: `bits` of lanes and `pair` of tiles,
    keys searched, keys seen, list.

    `listed` is whether candidates are positions in the list of distinct keys.
    """
    used = tl.load(found + b * record + 4 * n + 2 * m) if HAS_LIST else -1
    amount = tl.where(used >= 0, used, m)
    limit = tl.where(causal != 0, i + 1, amount)
    at = found + b * record + i
    return tl.load(at + 2 * n), tl.load(at + 3 * n), amount, limit, used >= 0


@triton.jit
def _count_in_lane(amount, pair):
    """Return how many of `amount` keys lie in a lane: those of two tiles, or all if
    `pair` is -1.
    """
    return tl.where(pair < 0, tl.cdiv(amount, LANES), 2 * (TILE // LANES))


@triton.jit
def count_candidates(amount, bits, pair):
    """Return how many keys, seen or not, lie in the lanes whose bits are set."""
    return _count_in_lane(amount, pair) * tl.sum((bits >> tl.arange(0, LANES)) & 1, 0)


@triton.jit
def find_candidates(
    found, mask, b, i, n, m, bits, pair, amount, limit, listed, start, mask_rows, record
):
    """Return the keys number `start` on in the lanes and tiles of a row, and which of
    them exist and are seen.
    """
    each = _count_in_lane(amount, pair)
    until = tl.cumsum(
        (bits >> tl.arange(0, LANES)) & 1, 0
    )  # (LANES,) how many of these lanes end here
    number = start + tl.arange(0, BLOCK)
    lane = tl.sum((until[None, :] <= (number // each)[:, None]).to(tl.int32), 1)
    row, low, high = number % each, pair & 0xFFFF, pair >> 16
    again = (pair >= 0) & (row >= TILE // LANES)
    row += tl.where(pair < 0, 0, tl.where(again, high - 1, low) * (TILE // LANES))
    key = lane + LANES * row
    real = (lane < LANES) & (key < limit) & ((again & (low == high)) == 0)
    if mask is not None:
        real &= (
            tl.load(
                mask + (b * mask_rows + tl.minimum(i, mask_rows - 1)) * m + key,
                mask=real,
                other=0,
            )
            != 0
        )
    else:
        key = tl.where(
            listed,
            tl.load(found + b * record + 4 * n + m + key, mask=real & listed, other=0),
            key,
        )
    return key, real


@triton.jit
def _find_best(
    q, k, found, mask, row, b, i, n, m, bits, pair, amount, limit, listed, count, mask_rows, record, D
):  # fmt: skip
    """Return the best key in float64, its score and the bound of its error, and a bound
    of all other scores.
    """
    best = tl.full([BLOCK], float("-inf"), tl.float64)
    best_error = tl.zeros([BLOCK], tl.float64)
    best_key = -1 - tl.arange(0, BLOCK)  # no two the same
    others = tl.full([BLOCK], float("-inf"), tl.float64)
    for start in range(0, count, BLOCK):
        keys, real = find_candidates(found, mask, b, i, n, m, bits, pair, amount, limit, listed, start, mask_rows,
                                     record)  # fmt: skip
        score, error = _score(q, k, row, b * m + keys, real, D, BLOCK)
        score = tl.where(
            real & (tl.abs(score) + error < float("inf")), score, float("-inf")
        )
        higher = score > best
        others = tl.maximum(others, tl.where(higher, best + best_error, score + error))
        best_error = tl.where(higher, error, best_error)
        best_key = tl.where(higher, keys, best_key)
        best = tl.maximum(best, score)
    top = tl.max(best, 0)
    key = tl.min(tl.where(best == top, best_key, 2147483647), 0)
    own = best_key == key
    others = tl.maximum(
        tl.max(others, 0), tl.max(tl.where(own, float("-inf"), best + best_error), 0)
    )
    return key, top, tl.sum(tl.where(own, best_error, 0.0), 0), others


@triton.jit
def _highest(keys, sign, score, error):
    """Return the key with the largest float64 score of those above the pivot, that
    score and its error.
    """
    best = tl.max(tl.where(sign > 0, score, float("-inf")), 0)
    tl.debug_barrier()
    key = tl.min(tl.where((sign > 0) & (score == best), keys, 2147483647), 0)
    tl.debug_barrier()
    return key, best, tl.sum(tl.where(keys == key, error, 0.0), 0)


@triton.jit
def _add_duplicates(
    v, starts, members, keys, member, weight, b, m, columns, within, DV
):
    """Return the sum of the values of all duplicates of keys but the first."""
    total = tl.zeros([CHUNK], tl.float32)
    begin = tl.load(starts + keys, mask=member, other=0)
    for index in range(1, tl.max(tl.where(member, weight, 0), 0)):
        more = member & (index < weight)
        other = tl.load(members + begin + index, mask=more, other=0)
        at = v + (b * m + other[:, None]) * DV + columns[None, :]
        total += tl.sum(
            tl.load(at, mask=more[:, None] & within[None, :], other=0.0).to(tl.float32),
            0,
        )
    return total


@triton.jit(do_not_specialize=[
    "n", "m", "rows", "units", "causal", "mask_rows", "record", "stride", "DV"
])  # fmt: skip
def decide(
    q, k, v, mask, out, found, work, n, m, rows, units, causal, mask_rows, record, stride, DV, HAS_LIST: tl.constexpr
):  # fmt: skip
    """Find C_i of the pending rows exactly, and write the mean of their values.

    In float64 if that is clear. Else all candidates are compared with the pivot
    exactly, and the values of those that tie with it are added, CHUNK columns at a
    time. If a key is above the pivot, it becomes the pivot and the pass is repeated: a
    loop of its own for that would have to be compiled again.
    """
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    for slot in range(tl.program_id(0), tl.load(work), tl.num_programs(0)):
        row = tl.load(work + 1 + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        bits, pair, amount, limit, listed = load_row(
            found, b, i, n, m, causal, record, HAS_LIST
        )
        count = count_candidates(amount, bits, pair)
        weights = work + 1 + rows + b * stride + 2
        pivot, pivot_score, pivot_error, others = _find_best(
            q, k, found, mask, row, b, i, n, m, bits, pair, amount, limit, listed, count, mask_rows, record, D
        )  # fmt: skip
        lowest, kinds = pivot, tl.where(pivot >= 0, 1, 0)
        size = kinds
        if HAS_LIST:
            size = tl.load(weights + pivot, mask=listed & (pivot >= 0), other=kinds)
        unclear = (pivot_score - pivot_error <= others) & (size > 0)
        start_v = 0
        while start_v < DV or unclear:
            columns = start_v + tl.arange(0, CHUNK)
            within = columns < DV
            total = tl.load(
                v + (b * m + lowest) * DV + columns,
                mask=within & (size == 1),
                other=0.0,
            ).to(tl.float32)
            above = 0
            if (size > 1) | unclear:
                total = tl.zeros([CHUNK], tl.float32)
                lowest, size, kinds = m, 0, 0
                for start in range(0, count, BLOCK):
                    keys, real = find_candidates(found, mask, b, i, n, m, bits, pair, amount, limit, listed, start,
                                                 mask_rows, record)  # fmt: skip
                    sign, score, error = compare(
                        q,
                        k,
                        row,
                        b * m + keys,
                        real,
                        b * m + pivot,
                        pivot_score,
                        pivot_error,
                        D,
                    )
                    if tl.max(sign, 0) > 0:
                        pivot, pivot_score, pivot_error = _highest(
                            keys, sign, score, error
                        )
                        above = 1
                    member = sign == 0
                    weight = member.to(tl.int32)
                    kinds += tl.sum(weight, 0)
                    at = v + (b * m + keys[:, None]) * DV + columns[None, :]
                    x = tl.load(at, mask=member[:, None] & within[None, :], other=0.0)
                    total += tl.sum(x.to(tl.float32), 0)
                    if HAS_LIST and listed:
                        weight = tl.load(weights + keys, mask=member, other=0)
                        total += _add_duplicates(v, weights + m, weights + 2 * m, keys, member, weight, b, m, columns,
                                             within, DV)  # fmt: skip
                    size += tl.sum(weight, 0)
                    lowest = tl.minimum(lowest, tl.min(tl.where(member, keys, m), 0))
                total /= tl.maximum(size, 1) * 1.0
                unclear = above > 0
            tl.store(
                out + row * DV + columns, total.to(out.dtype.element_ty), mask=within
            )
            start_v += tl.where(above > 0, 0, CHUNK)
        lowest = tl.where(kinds > 1, -2 - lowest, lowest)
        tl.store(found + b * record + i, tl.where(size > 0, lowest, -1))
        tl.store(found + b * record + n + i, size)
