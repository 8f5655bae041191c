"""Triton kernels that decide pending rows exactly, and list the members of sets."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_exact import BLOCK, compare, highest_of, score_one, scores_of, ties
from hardmax.attention.gpu_keys import COPIED, PLAIN, SHORT, TILE

CHUNK: tl.constexpr = tl.constexpr(64)  # columns of values held at a time
LANES: tl.constexpr = tl.constexpr(32)  # in which keys lie in turn; their bits fill an int32


@triton.jit
def _each(amount, pair):
    """How many of so many keys lie in a lane, if two tiles count, or all."""
    return tl.where(pair < 0, tl.cdiv(amount, LANES), 2 * (TILE // LANES))


@triton.jit
def how_many(amount, bits, pair):
    """How many keys, seen or not, lie in the lanes whose bits are set."""
    return _each(amount, pair) * tl.sum((bits >> tl.arange(0, LANES)) & 1, 0)


@triton.jit
def places(amount, limit, bits, pair, start):
    """Places number `start` on of those in these lanes, of all tiles or of two, and whether they are below a limit."""
    each = _each(amount, pair)
    until = tl.cumsum((bits >> tl.arange(0, LANES)) & 1, 0)  # (LANES,) how many of these lanes end here
    number = start + tl.arange(0, BLOCK)
    lane = tl.sum((until[None, :] <= (number // each)[:, None]).to(tl.int32), 1)
    row, low, high = number % each, pair & 0xFFFF, pair >> 16
    again = (pair >= 0) & (row >= TILE // LANES)
    row += tl.where(pair < 0, 0, tl.where(again, high - 1, low) * (TILE // LANES))
    place = lane + LANES * row
    return place, (lane < LANES) & (place < limit) & ((again & (low == high)) == 0)


@triton.jit
def members_in_lanes(
    q, k, mask, row, b, m, limit, bits, pair, start, pivot, pivot_score, pivot_error, masked, D
):  # fmt: skip
    """Keys number `start` on of these lanes and tiles, and whether they are in the set that has `pivot` in it."""
    keys, real = places(m, limit, bits, pair, start)
    real &= tl.load(mask + b * m + keys, mask=real & (masked != 0), other=1) != 0
    return keys, ties(q, k, row, b * m + keys, real, b * m + pivot, pivot_score, pivot_error, D)


@triton.jit
def _searched(copies, kept, b, m, limit, amount, bits, pair, start, flag, record):
    """The same of the keys that were searched, whether they are seen, and how often each is there."""
    index, real = places(amount, limit, bits, pair, start)
    keys = tl.where(flag >= SHORT, tl.load(kept + b * m + index, mask=real & (flag >= SHORT), other=0), index)
    weight = tl.load(copies + b * record + keys, mask=real & (flag != PLAIN), other=1)
    return keys, real & (weight > 0), weight


@triton.jit
def _take(score, error, keys, real, weight, best, best_error, key, size, others):
    """Take a block of keys into account, each place for itself: the best, how often it is there, a bound of others."""
    score = tl.where(real, score, float("-inf"))
    higher = score > best
    others = tl.maximum(others, tl.where(higher, best + best_error, score + error))
    best_error, size = tl.where(higher, error, best_error), tl.where(higher, weight, size)
    return tl.maximum(best, score), best_error, tl.where(higher, keys, key), size, others


@triton.jit
def _best(best, best_error, key, size, others):
    """The best of all places."""
    top = tl.max(best, 0)
    this = tl.min(tl.where(best == top, key, 2147483647), 0)
    own = key == this
    others = tl.maximum(tl.max(others, 0), tl.max(tl.where(own, float("-inf"), best + best_error), 0))
    return top, tl.sum(tl.where(own, best_error, 0.0), 0), this, tl.sum(tl.where(own, size, 0), 0), others


@triton.jit
def _first(
    q, k, copies, kept, row, b, m, limit, amount, bits, pair, count, flag, record, D
):  # fmt: skip
    """The best key in float64, its score and a bound of the error, how often it is there, and a bound of all others."""
    best = tl.full([BLOCK], float("-inf"), tl.float64)
    best_error = tl.zeros([BLOCK], tl.float64)
    key = -1 - tl.arange(0, BLOCK)  # no two the same
    size = tl.zeros([BLOCK], tl.int32)
    others = tl.full([BLOCK], float("-inf"), tl.float64)
    for start in range(0, count, BLOCK):
        keys, real, weight = _searched(copies, kept, b, m, limit, amount, bits, pair, start, flag, record)
        score, error = scores_of(q, k, row, b * m + keys, real, D, BLOCK)
        real &= tl.abs(score) + error < float("inf")
        best, best_error, key, size, others = _take(
            score, error, keys, real, weight, best, best_error, key, size, others
        )
    return _best(best, best_error, key, size, others)


@triton.jit
def _of_copies(v, starts, members, keys, member, weight, b, m, columns, within, DV, record):
    """Sum of the values of all copies of keys but the first."""
    total = tl.zeros([CHUNK], tl.float32)
    begin = tl.load(starts + b * record + keys, mask=member, other=0)
    for index in range(1, tl.max(tl.where(member, weight, 0), 0)):
        more = member & (index < weight)
        copy = tl.load(members + b * record + begin + index, mask=more, other=0)
        at = v + (b * m + copy[:, None]) * DV + columns[None, :]
        total += tl.sum(tl.load(at, mask=more[:, None] & within[None, :], other=0.0).to(tl.float32), 0)
    return total


@triton.jit(do_not_specialize=["n", "m", "rows", "units", "DV", "record", "class_record", "causal"])
def decide(
    q, k, v, out, first, sizes, flags, copies, starts, members, kept, used, lanes, tiles, pending, n, m, rows, units,
    DV, record, class_record, causal
):  # fmt: skip
    """Find C_i of the pending rows exactly, and write the mean of their values.

    In float64 if that is clear. Else all keys that `search` named are compared with the pivot exactly, and the values
    of those that tie with it are added, CHUNK columns at a time. If a key is above, it becomes the pivot, and the pass
    is made again: another loop for it would take as long to compile again.
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
        pair = tl.load(tiles + row)
        count = how_many(amount, bits, pair)
        pivot_score, pivot_error, pivot, size, others = _first(
            q, k, copies, kept, row, b, m, limit, amount, bits, pair, count, flag, class_record, D
        )
        lowest = pivot
        unclear = (pivot_score - pivot_error <= others) & (size > 0)
        start_v = 0
        while start_v < DV or unclear:
            columns = start_v + tl.arange(0, CHUNK)
            within = columns < DV
            total = tl.load(v + (b * m + lowest) * DV + columns, mask=within & (size == 1), other=0.0).to(tl.float32)
            above = 0
            if (size > 1) | unclear:
                total = tl.zeros([CHUNK], tl.float32)
                next_lowest, next_size = m, 0
                for start in range(0, count, BLOCK):
                    keys, real, weight = _searched(
                        copies, kept, b, m, limit, amount, bits, pair, start, flag, class_record
                    )
                    score, error = scores_of(q, k, row, b * m + keys, real, D, BLOCK)
                    real &= tl.abs(score) + error < float("inf")
                    sign = compare(
                        q, k, row, b * m + keys, real, score, error, b * m + pivot, pivot_score, pivot_error, D
                    )
                    if tl.max(sign, 0) > 0:
                        pivot, pivot_score, pivot_error = highest_of(keys, sign, score, error)
                        above = 1
                    member = sign == 0
                    next_size += tl.sum(tl.where(member, weight, 0), 0)
                    next_lowest = tl.minimum(next_lowest, tl.min(tl.where(member, keys, m), 0))
                    at = v + (b * m + keys[:, None]) * DV + columns[None, :]
                    x = tl.load(at, mask=member[:, None] & within[None, :], other=0.0)
                    total += tl.sum(x.to(tl.float32), 0)
                    if flag == COPIED:
                        total += _of_copies(v, starts, members, keys, member, weight, b, m, columns, within, DV,
                                            class_record)  # fmt: skip
                lowest, size = next_lowest, next_size
                total /= tl.maximum(size, 1) * 1.0
                unclear = above > 0
            tl.store(out + row * DV + columns, total.to(out.dtype.element_ty), mask=within)
            start_v += tl.where(above > 0, 0, CHUNK)
        tl.store(first + at_row, tl.where(size > 0, lowest, -1))
        tl.store(sizes + at_row, size)


@triton.jit(do_not_specialize=["n", "m", "count", "units", "record", "masked", "causal"])
def list_members(
    q, k, mask, tied, begins, first, members, lanes, tiles, n, m, count, units, record, masked, causal
):  # fmt: skip
    """Write out the members of each tied row, in no order."""
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    for slot in range(tl.program_id(0), count, tl.num_programs(0)):
        row = tl.load(tied + slot).to(tl.int64)
        b = row // n
        i = (row % n).to(tl.int32)
        limit = tl.where(causal != 0, i + 1, m)
        bits = tl.load(lanes + b * record + i)
        pair = tl.load(tiles + b * record + i)
        pivot = tl.load(first + b * record + i)
        pivot_score, pivot_error = score_one(q, k, row, b * m + pivot, D)
        at = tl.load(begins + slot)
        for start in range(0, how_many(m, bits, pair), BLOCK):
            keys, member = members_in_lanes(q, k, mask, row, b, m, limit, bits, pair, start, pivot, pivot_score,
                                            pivot_error, masked, D)  # fmt: skip
            chosen = member.to(tl.int64)
            tl.store(members + at + tl.cumsum(chosen, 0) - chosen, keys, mask=member)
            at += tl.sum(chosen, 0)
