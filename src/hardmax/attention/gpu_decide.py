"""Triton kernels that decide pending rows exactly, and list the members of sets."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_keys import COPIED, PLAIN, SHORT

LIMBS: tl.constexpr = tl.constexpr(18)  # of 32 bits from 2^-298 on: every product of two float32 numbers
BLOCK: tl.constexpr = tl.constexpr(128)  # keys compared at a time
CHUNK: tl.constexpr = tl.constexpr(64)  # columns held at a time
LANES: tl.constexpr = tl.constexpr(32)  # in which keys lie in turn; their bits fill an int32


@triton.jit
def _whole(x):
    """Round towards zero."""
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def _limb(x, scale):
    """Bits 0 to 31 of x scale, with the sign of x. All steps are exact: scale is a power of two."""
    return _whole(x * scale) - _whole(x * (scale * 2.0**-32)) * 2.0**32


@triton.jit
def _order(q, k, q_row, k_rows, pivot_row, asked, D):
    """Sign of <q, k_j> - <q, k_pivot> in integer arithmetic: 1, 0 or -1."""
    carry = tl.zeros([BLOCK], tl.int64)
    rest = tl.zeros([BLOCK], tl.int32)
    scale = tl.full([1], 2.0**298, tl.float64)
    for _ in range(LIMBS):
        total = tl.zeros([BLOCK], tl.float64)  # whole numbers below 2^33 each, so exact for D up to 2^19
        for start in range(0, D, CHUNK):
            columns = start + tl.arange(0, CHUNK)
            x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
            z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float64)
            inside = asked[:, None] & (columns < D)[None, :]
            y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float64)
            total += tl.sum(_limb(x[None, :] * y, scale[:, None]) - _limb(x * z, scale)[None, :], 1)
        number = total.to(tl.int64) + carry
        carry = number >> 32
        rest |= (number - (carry << 32) != 0).to(tl.int32)
        scale *= 2.0**-32
    return tl.where(carry < 0, -1, tl.where((carry > 0) | (rest > 0), 1, 0))


@triton.jit
def _score(q, k, q_row, k_rows, real, D):
    """<q, k_j> in float64, and a bound of its error: (D + 8) 2^-53 |q| |k_j|, rounded up."""
    product = tl.zeros([BLOCK], tl.float64)
    k_square = tl.zeros([BLOCK], tl.float64)
    q_square = tl.zeros([CHUNK], tl.float64)
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
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
    for start in range(0, D, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        x = tl.load(q + q_row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        z = tl.load(k + pivot_row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        inside = asked[:, None] & (columns < D)[None, :]
        y = tl.load(k + k_rows[:, None] * D + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        found |= tl.max(((y != z[None, :]) & (x != 0)[None, :] & inside).to(tl.int32), 1)
    return found


@triton.jit
def _compare(q, k, q_row, k_rows, real, score, error, pivot_row, pivot, pivot_error, D):
    """Exact sign of <q, k_j> - <q, k_pivot> for a block of keys; -1 for a key that is not real."""
    close = real & (tl.abs(score - pivot) <= error + pivot_error)
    sign = tl.where(close, 0, tl.where(score > pivot, 1, -1))
    asked = close & (k_rows != pivot_row)
    if tl.max(asked.to(tl.int32), 0) > 0:
        asked &= _differs(q, k, q_row, k_rows, pivot_row, asked, D) > 0
        if tl.max(asked.to(tl.int32), 0) > 0:
            sign = tl.where(asked, _order(q, k, q_row, k_rows, pivot_row, asked, D), sign)
    return tl.where(real, sign, -1)


@triton.jit
def _highest(keys, sign, score, error):
    """The key with the largest float64 score of those above the pivot, that score and its error."""
    best = tl.max(tl.where(sign > 0, score, float("-inf")), 0)
    tl.debug_barrier()
    key = tl.min(tl.where((sign > 0) & (score == best), keys, 2147483647), 0)
    tl.debug_barrier()
    return key, best, tl.sum(tl.where(keys == key, error, 0.0), 0)


@triton.jit
def keys_in_lanes(mask, b, m, limit, bits, start, masked):
    """Keys number `start` on of those in the lanes whose bits are set, and whether the query sees them."""
    each = tl.cdiv(m, LANES)
    until = tl.cumsum((bits >> tl.arange(0, LANES)) & 1, 0)  # (LANES,) how many of these lanes end here
    number = start + tl.arange(0, BLOCK)
    lane = tl.sum((until[None, :] <= (number // each)[:, None]).to(tl.int32), 1)
    keys = lane + LANES * (number % each)
    real = (lane < LANES) & (keys < limit)
    return keys, real & (tl.load(mask + b * m + keys, mask=real & (masked != 0), other=1) != 0)


@triton.jit
def how_many(m, bits):
    """How many keys, seen or not, lie in the lanes whose bits are set."""
    return tl.cdiv(m, LANES) * tl.sum((bits >> tl.arange(0, LANES)) & 1, 0)


@triton.jit
def score_one(q, k, q_row, k_row, D):
    """As `_score`, of one key."""
    alone = tl.arange(0, BLOCK) == 0
    score, error = _score(q, k, q_row, k_row + tl.zeros([BLOCK], tl.int64), alone, D)
    return tl.sum(tl.where(alone, score, 0.0), 0), tl.sum(tl.where(alone, error, 0.0), 0)


@triton.jit
def _ties(q, k, row, k_rows, real, pivot_row, pivot_score, pivot_error, D):
    """Whether keys have the product of the pivot exactly."""
    score, error = _score(q, k, row, k_rows, real, D)
    real &= tl.abs(score) + error < float("inf")
    return _compare(q, k, row, k_rows, real, score, error, pivot_row, pivot_score, pivot_error, D) == 0


@triton.jit
def members_in_lanes(
    q, k, mask, row, b, m, limit, bits, start, pivot, pivot_score, pivot_error, masked, D
):  # fmt: skip
    """Keys number `start` on of these lanes, and whether they are in the set that has `pivot` in it."""
    keys, real = keys_in_lanes(mask, b, m, limit, bits, start, masked)
    return keys, _ties(q, k, row, b * m + keys, real, b * m + pivot, pivot_score, pivot_error, D)


@triton.jit
def _searched(copies, kept, b, m, limit, amount, bits, start, flag, record):
    """As `keys_in_lanes`, for lanes of the keys that the search looked at; and how often each key is there."""
    each = tl.cdiv(amount, LANES)
    until = tl.cumsum((bits >> tl.arange(0, LANES)) & 1, 0)
    number = start + tl.arange(0, BLOCK)
    lane = tl.sum((until[None, :] <= (number // each)[:, None]).to(tl.int32), 1)
    index = lane + LANES * (number % each)
    real = (lane < LANES) & (index < limit)
    keys = tl.where(flag >= SHORT, tl.load(kept + b * m + index, mask=real & (flag >= SHORT), other=0), index)
    weight = tl.load(copies + b * record + keys, mask=real & (flag != PLAIN), other=1)
    return keys, real & (weight > 0), weight


@triton.jit(do_not_specialize=["n", "m", "rows", "units", "DV", "record", "class_record", "causal"])
def decide(
    q, k, v, out, first, sizes, flags, copies, starts, members, kept, used, lanes, pending, n, m, rows, units, DV,
    record, class_record, causal
):  # fmt: skip
    """Find C_i of the pending rows exactly, and write the mean of their values.

    One pass over the lanes that `search` named: a key above the pivot becomes the pivot, and all keys before it are
    then below.
    """
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    for slot in range(tl.program_id(0), tl.load(pending + rows), tl.num_programs(0)):
        row = tl.load(pending + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        flag = tl.load(flags + b * class_record)
        amount = tl.load(used + b, mask=flag >= SHORT, other=m)
        limit = tl.where(causal != 0, i + 1, amount)
        at_row = b * record + i
        bits = tl.load(lanes + row)
        count = how_many(amount, bits)
        pivot = -1
        pivot_score = tl.full([], float("-inf"), tl.float64)
        pivot_error = tl.full([], 0.0, tl.float64)
        lowest = m
        size = 0
        for start in range(0, count, BLOCK):
            keys, real, weight = _searched(copies, kept, b, m, limit, amount, bits, start, flag, class_record)
            k_rows = b * m + keys
            score, error = _score(q, k, row, k_rows, real, D)
            real &= tl.abs(score) + error < float("inf")
            sign = _compare(q, k, row, k_rows, real, score, error, b * m + pivot, pivot_score, pivot_error, D)
            floor = tl.max(tl.where(sign > 0, score - error, float("-inf")), 0)
            contenders = tl.sum(((sign > 0) & (score + error >= floor)).to(tl.int32), 0)
            if contenders > 0:
                lowest, size = m, 0
            for _ in range(contenders):  # one of them becomes the pivot each time, until none is above
                if tl.max(sign, 0) > 0:
                    pivot, pivot_score, pivot_error = _highest(keys, sign, score, error)
                    sign = _compare(q, k, row, k_rows, real, score, error, b * m + pivot,
                                    pivot_score, pivot_error, D)  # fmt: skip
            size += tl.sum(tl.where(sign == 0, weight, 0), 0)
            lowest = tl.minimum(lowest, tl.min(tl.where(sign == 0, keys, m), 0))
        lowest = tl.where(size > 0, lowest, -1)
        tl.store(first + at_row, lowest)
        tl.store(sizes + at_row, size)
        for start_v in range(0, DV, CHUNK):
            columns = start_v + tl.arange(0, CHUNK)
            within = columns < DV
            at = v + (b * m + lowest) * DV + columns
            total = tl.load(at, mask=within & (size == 1), other=0.0).to(tl.float32)
            if size > 1:
                for start in range(0, count, BLOCK):
                    keys, real, weight = _searched(copies, kept, b, m, limit, amount, bits, start, flag, class_record)
                    member = _ties(q, k, row, b * m + keys, real, b * m + lowest, pivot_score, pivot_error, D)
                    inside = member[:, None] & within[None, :]
                    x = tl.load(v + (b * m + keys[:, None]) * DV + columns[None, :], mask=inside, other=0.0)
                    total += tl.sum(x.to(tl.float32), 0)
                    if flag == COPIED:
                        begin = tl.load(starts + b * class_record + keys, mask=member, other=0)
                        for index in range(1, tl.max(tl.where(member, weight, 0), 0)):
                            more = member & (index < weight)
                            copy = tl.load(members + b * class_record + begin + index, mask=more, other=0)
                            at_copies = v + (b * m + copy[:, None]) * DV + columns[None, :]
                            y = tl.load(at_copies, mask=more[:, None] & within[None, :], other=0.0)
                            total += tl.sum(y.to(tl.float32), 0)
                total /= size.to(tl.float32)  # type: ignore[attr-defined]
            tl.store(out + row * DV + columns, total.to(out.dtype.element_ty), mask=within)


@triton.jit(do_not_specialize=["n", "m", "count", "units", "record", "masked", "causal"])
def list_members(
    q, k, mask, tied, begins, first, members, lanes, n, m, count, units, record, masked, causal
):  # fmt: skip
    """Write out the members of each tied row, in no order."""
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    for slot in range(tl.program_id(0), count, tl.num_programs(0)):
        row = tl.load(tied + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        limit = tl.where(causal != 0, i + 1, m)
        bits = tl.load(lanes + b * record + i)
        pivot = tl.load(first + b * record + i)
        pivot_score, pivot_error = score_one(q, k, row, b * m + pivot, D)
        at = tl.load(begins + slot)
        for start in range(0, how_many(m, bits), BLOCK):
            keys, member = members_in_lanes(q, k, mask, row, b, m, limit, bits, start, pivot, pivot_score, pivot_error,
                                            masked, D)  # fmt: skip
            chosen = member.to(tl.int64)
            tl.store(members + at + tl.cumsum(chosen, 0) - chosen, keys, mask=member)
            at += tl.sum(chosen, 0)
