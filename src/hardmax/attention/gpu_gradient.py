"""Triton kernels that send gradients to the members of each set, with the same bits on every run.

Rows whose set is one key, or one key and its copies, are sorted by that key, and a key adds up the gradients of its own
rows: a few in the order of the rows, more as whole numbers of a unit, which have no order. Rows with several different
keys, the tied ones, add their share to 64-bit integers in memory.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_decide import BLOCK, CHUNK, how_many, members_in_lanes, score_one
from hardmax.attention.gpu_keys import COPIED

FEW: tl.constexpr = tl.constexpr(8)  # rows of a key that are added up in their order, in float32
LAST: tl.constexpr = tl.constexpr(2147483647)


@triton.jit
def _unit(most, unit_bits):
    """The power of two that whole numbers of a column count: the sum of n gradients stays below 2^62 units.

    Infinite in a column with a gradient that is not finite.
    """
    exponent = (most.to(tl.int32, bitcast=True) >> 23).to(tl.int64)  # most < 2^(exponent - 126)
    unit = ((exponent - 126 + unit_bits + 1023) << 52).to(tl.float64, bitcast=True)
    return tl.where(most < float("inf"), unit, float("inf"))


@triton.jit
def _size(x):
    return tl.where(tl.abs(x) < float("inf"), tl.abs(x), float("inf"))  # infinite for NaN


@triton.jit
def _prepare_ties(g, largest, totals, b, n, m, DV, ROWS: tl.constexpr):
    """Write the largest |g| of every column of a cloud, infinite where one is not finite, and clear its totals."""
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        most = tl.zeros([ROWS, CHUNK], tl.float32)
        for top in range(0, n, ROWS):
            i = top + tl.arange(0, ROWS)
            inside = (i < n)[:, None] & (columns < DV)[None, :]
            x = tl.load(g + (b * n + i[:, None]) * DV + columns[None, :], mask=inside, other=0.0).to(tl.float32)
            most = tl.maximum(most, _size(x))
        tl.store(largest + b * DV + columns, tl.max(most, 0), mask=columns < DV)
        for top in range(0, m, ROWS):
            key = top + tl.arange(0, ROWS)
            inside = (key < m)[:, None] & (columns < DV)[None, :]
            zero = tl.zeros([ROWS, CHUNK], tl.int64)
            tl.store(totals + (b * m + key[:, None]) * DV + columns[None, :], zero, mask=inside)


@triton.jit(do_not_specialize=["n", "m", "record", "listed"])
def sort_rows(
    g, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied, tied_counts, busy, busy_counts,
    n, m, record, listed, DV, ROWS: tl.constexpr
):  # fmt: skip
    """Sort the rows of a cloud by their key; list the tied ones. One program a cloud.

    `listed` says whether there are flags and copies.
    """
    b = tl.program_id(0).to(tl.int64)
    flag = tl.load(flags + b * record, mask=listed != 0, other=0)
    for start in range(0, m, ROWS):
        keys = start + tl.arange(0, ROWS)
        tl.store(counts + b * m + keys, 0, mask=keys < m)
    tl.debug_barrier()
    several = 0
    for start in range(0, n, ROWS):
        i = start + tl.arange(0, ROWS)
        key = tl.load(first + b * record + i, mask=i < n, other=-1)
        size = tl.load(sizes + b * record + i, mask=i < n, other=0)
        own = tl.load(copies + b * record + key, mask=(key >= 0) & (flag == COPIED), other=1)
        alone = (size > 0) & (size == own)
        rank = tl.atomic_add(counts + b * m + key, 1, mask=alone, sem="relaxed")
        tl.store(ranks + b * n + i, tl.where(alone, rank, -1), mask=i < n)
        others = ((size > 0) & (size != own)).to(tl.int32)
        tl.store(tied + b * n + several + tl.cumsum(others, 0) - others, i, mask=others > 0)
        several += tl.sum(others, 0)
    tl.store(tied_counts + b, several)
    tl.debug_barrier()
    placed = 0
    n_busy = 0
    for start in range(0, m, ROWS):
        keys = start + tl.arange(0, ROWS)
        many = tl.load(counts + b * m + keys, mask=keys < m, other=0)
        crowded = (many > FEW).to(tl.int32)
        tl.store(busy + b * n + n_busy + tl.cumsum(crowded, 0) - crowded, keys, mask=crowded > 0)
        n_busy += tl.sum(crowded, 0)
        tl.store(begins + b * m + keys, placed + tl.cumsum(many, 0) - many, mask=keys < m)
        placed += tl.sum(many, 0)
    tl.store(busy_counts + b, n_busy)
    tl.debug_barrier()
    for start in range(0, n, ROWS):
        i = start + tl.arange(0, ROWS)
        rank = tl.load(ranks + b * n + i, mask=i < n, other=-1)
        key = tl.load(first + b * record + i, mask=rank >= 0, other=0)
        begin = tl.load(begins + b * m + key, mask=rank >= 0, other=0)
        tl.store(order + b * n + begin + rank, i, mask=rank >= 0)
    if several > 0:
        _prepare_ties(g, largest, totals, b, n, m, DV, 32)


@triton.jit(do_not_specialize=["n", "m", "record", "units", "unit_bits", "masked", "causal", "each"])
def scatter_tied(
    g, largest, totals, q, k, mask, first, sizes, lanes, tied, tied_counts, n, m, record, units, unit_bits, masked,
    causal, each, DV
):  # fmt: skip
    """Add the gradient of each tied row, divided by the number of members, to all of them; `each` programs a cloud."""
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    b = (tl.program_id(0) // each).to(tl.int64)
    for slot in range(tl.program_id(0) % each, tl.load(tied_counts + b), each):
        i = tl.load(tied + b * n + slot)
        row = b * n + i
        limit = tl.where(causal != 0, i + 1, m)
        size = tl.load(sizes + b * record + i).to(tl.float64)
        bits = tl.load(lanes + b * record + i)
        pivot = tl.load(first + b * record + i)
        pivot_score, pivot_error = score_one(q, k, row, b * m + pivot, D)
        for start in range(0, how_many(m, bits), BLOCK):
            keys, member = members_in_lanes(q, k, mask, row, b, m, limit, bits, start, pivot, pivot_score, pivot_error,
                                            masked, D)  # fmt: skip
            for start_v in range(0, DV, CHUNK):
                columns = start_v + tl.arange(0, CHUNK)
                unit = _unit(tl.load(largest + b * DV + columns, mask=columns < DV, other=0.0), unit_bits)
                x = tl.load(g + row * DV + columns, mask=columns < DV, other=0.0).to(tl.float64)
                number = (x / size * (1.0 / unit)).to(tl.int64)[None, :] + tl.zeros([BLOCK, 1], tl.int64)
                at = totals + (b * m + keys[:, None]) * DV + columns[None, :]
                tl.atomic_add(at, number, mask=member[:, None] & (columns < DV)[None, :], sem="relaxed")


@triton.jit
def _of_ties(totals, largest, b, key, inside, columns, unit_bits, several, m, DV):
    """What tied rows gave to keys, in float64."""
    within = (columns < DV) & (several > 0)
    unit = _unit(tl.load(largest + b * DV + columns, mask=within, other=0.0), unit_bits)[None, :]
    at = totals + (b * m + key[:, None]) * DV + columns[None, :]
    total = tl.load(at, mask=inside & (several > 0), other=0).to(tl.float64) * unit
    return tl.where(unit < float("inf"), total, float("nan"))


@triton.jit
def _rows(g, order, b, n, begin, count, start, columns, DV, ROWS: tl.constexpr):
    """Gradients of the rows of a key from number `start` on."""
    index = start + tl.arange(0, ROWS)
    i = tl.load(order + b * n + begin + index, mask=index < count, other=0)
    inside = (index < count)[:, None] & (columns < DV)[None, :]
    return tl.load(g + (b * n + i)[:, None] * DV + columns[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _of_many(g, order, b, n, begin, count, columns, unit_bits, DV, ROWS: tl.constexpr):
    """Sum of the gradients of many rows, as whole numbers."""
    x = _rows(g, order, b, n, begin, count, 0, columns, DV, ROWS)
    most = tl.max(_size(x), 0)
    for start in range(ROWS, count, ROWS):
        most = tl.maximum(most, tl.max(_size(_rows(g, order, b, n, begin, count, start, columns, DV, ROWS)), 0))
    unit = _unit(most, unit_bits)
    total = tl.sum((x.to(tl.float64) * (1.0 / unit)[None, :]).to(tl.int64), 0)
    for start in range(ROWS, count, ROWS):
        x = _rows(g, order, b, n, begin, count, start, columns, DV, ROWS)
        total += tl.sum((x.to(tl.float64) * (1.0 / unit)[None, :]).to(tl.int64), 0)
    return tl.where(unit < float("inf"), total.to(tl.float64) * unit, float("nan"))


@triton.jit
def _sorted(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def _four(order, at, count, first):
    """Rows number `first` to `first + 3` of each key, sorted; LAST where there are fewer."""
    a = tl.load(order + at + first, mask=count > first, other=LAST)
    b = tl.load(order + at + first + 1, mask=count > first + 1, other=LAST)
    c = tl.load(order + at + first + 2, mask=count > first + 2, other=LAST)
    d = tl.load(order + at + first + 3, mask=count > first + 3, other=LAST)
    a, b = _sorted(a, b)
    c, d = _sorted(c, d)
    a, c = _sorted(a, c)
    b, d = _sorted(b, d)
    b, c = _sorted(b, c)
    return a, b, c, d


@triton.jit
def _merged(a, b, c, d, e, f, g, h):
    """Two sorted lists of four as one of eight."""
    a, e = _sorted(a, e)
    b, f = _sorted(b, f)
    c, g = _sorted(c, g)
    d, h = _sorted(d, h)
    c, e = _sorted(c, e)
    d, f = _sorted(d, f)
    b, c = _sorted(b, c)
    d, e = _sorted(d, e)
    f, g = _sorted(f, g)
    return a, b, c, d, e, f, g, h


@triton.jit
def _row(g, b, n, i, columns, DV):
    inside = (i < n)[:, None] & (columns < DV)[None, :]
    return tl.load(g + (b * n + i)[:, None] * DV + columns[None, :], mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _busy(
    g, out, largest, totals, copies, starts, members, counts, begins, order, busy, n_busy, part, parts, flag, several,
    b, n, m, record, unit_bits, DV, ROWS: tl.constexpr
):  # fmt: skip
    """Some of the keys with more than FEW rows."""
    for slot in range(part, n_busy, parts):
        j = tl.load(busy + b * n + slot)
        count = tl.load(counts + b * m + j)
        begin = tl.load(begins + b * m + j)
        times = tl.load(copies + b * record + j, mask=flag == COPIED, other=1)
        place = tl.load(starts + b * record + j, mask=flag == COPIED, other=0)
        for start in range(0, DV, CHUNK):
            columns = start + tl.arange(0, CHUNK)
            total = (_of_many(g, order, b, n, begin, count, columns, unit_bits, DV, ROWS) / times)[None, :]
            this = j + tl.zeros([1], tl.int32)
            inside = (columns < DV)[None, :]
            if several > 0:
                total += _of_ties(totals, largest, b, this, inside, columns, unit_bits, several, m, DV)
            number = total.to(tl.float32).to(out.dtype.element_ty)
            tl.store(out + (b * m + this[:, None]) * DV + columns[None, :], number, mask=inside)
            for index in range(1, times):
                other = tl.load(members + b * record + place + index) + tl.zeros([1, 1], tl.int32)
                tl.store(out + (b * m + other) * DV + columns[None, :], number, mask=inside)


@triton.jit
def _quiet(
    g, out, largest, totals, copies, starts, members, counts, begins, order, block, flag, several,
    b, n, m, record, unit_bits, DV, KEYS: tl.constexpr
):  # fmt: skip
    """A block of keys, but for those with more than FEW rows."""
    key = block * KEYS + tl.arange(0, KEYS)
    count = tl.load(counts + b * m + key, mask=key < m, other=0)
    begin = tl.load(begins + b * m + key, mask=key < m, other=0)
    weight = tl.load(copies + b * record + key, mask=(key < m) & (flag == COPIED), other=1)
    place = tl.load(starts + b * record + key, mask=(key < m) & (flag == COPIED), other=0)
    few = tl.where(count > FEW, 0, count)
    a0, a1, a2, a3 = _four(order, b * n + begin, few, 0)
    a4, a5, a6, a7 = _four(order, b * n + begin, few, 4)
    a0, a1, a2, a3, a4, a5, a6, a7 = _merged(a0, a1, a2, a3, a4, a5, a6, a7)
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        inside = ((key < m) & (count <= FEW) & ((weight > 0) | (place < 0)))[:, None]
        inside = inside & (columns < DV)[None, :]
        total = _row(g, b, n, a0, columns, DV) + _row(g, b, n, a1, columns, DV)
        if tl.max(few, 0) > 2:
            total += _row(g, b, n, a2, columns, DV)
            total += _row(g, b, n, a3, columns, DV)
        if tl.max(few, 0) > 4:
            total += _row(g, b, n, a4, columns, DV)
            total += _row(g, b, n, a5, columns, DV)
            total += _row(g, b, n, a6, columns, DV)
            total += _row(g, b, n, a7, columns, DV)
        if flag == COPIED:
            total /= tl.maximum(weight, 1).to(tl.float32)[:, None]
        if several > 0:
            gift = _of_ties(totals, largest, b, key, inside, columns, unit_bits, several, m, DV)
            total = (total.to(tl.float64) + gift).to(tl.float32)
        at = out + (b * m + key[:, None]) * DV + columns[None, :]
        tl.store(at, total.to(out.dtype.element_ty), mask=inside)
        if flag == COPIED:
            for index in range(1, tl.max(weight, 0)):
                copied = (index < weight) & (count <= FEW)
                other = tl.load(members + b * record + place + index, mask=copied, other=0)
                also = copied[:, None] & (columns < DV)[None, :]
                tl.store(out + (b * m + other[:, None]) * DV + columns[None, :],
                         total.to(out.dtype.element_ty), mask=also)  # fmt: skip


@triton.jit(do_not_specialize=["n", "m", "blocks", "parts", "record", "listed", "unit_bits"])
def collect(
    g, out, largest, totals, flags, copies, starts, members, counts, begins, order, tied_counts, busy, busy_counts,
    n, m, blocks, parts, record, listed, unit_bits, DV, KEYS: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Write the gradient of each key: that of its rows, and what tied rows gave. Copies get the same.

    The first programs of a cloud share the keys with many rows, the others have a block of keys each.
    """
    at, b = tl.program_id(0) % (blocks + parts), (tl.program_id(0) // (blocks + parts)).to(tl.int64)
    flag = tl.load(flags + b * record, mask=listed != 0, other=0)
    several = tl.load(tied_counts + b)
    if at < parts:
        n_busy = tl.load(busy_counts + b)
        _busy(g, out, largest, totals, copies, starts, members, counts, begins, order, busy, n_busy, at, parts, flag,
              several, b, n, m, record, unit_bits, DV, ROWS)  # fmt: skip
    else:
        _quiet(g, out, largest, totals, copies, starts, members, counts, begins, order, at - parts, flag, several, b,
               n, m, record, unit_bits, DV, KEYS)  # fmt: skip
