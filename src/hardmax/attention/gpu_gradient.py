"""Triton kernels that send gradients to the members of each set, with the same bits on every run.

Rows whose set is one key, or one key and its copies, are sorted by that key, and a key adds up the gradients of its own
rows: a few in the order of the rows, more as whole numbers of a unit, which have no order. Rows with several different
keys, the tied ones, add their share to 64-bit integers in memory.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_decide import CHUNK
from hardmax.attention.gpu_keys import COPIED
from hardmax.attention.gpu_rows import FEW, scatter_cloud, size_of, sort_cloud, unit_of

LAST: tl.constexpr = tl.constexpr(2147483647)


@triton.jit
def _of_ties(totals, largest, b, key, inside, columns, unit_bits, several, m, DV):
    """What tied rows gave to keys, in float64."""
    within = (columns < DV) & (several > 0)
    unit = unit_of(tl.load(largest + b * DV + columns, mask=within, other=0.0), unit_bits)[None, :]
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
    most = tl.max(size_of(x), 0)
    for start in range(ROWS, count, ROWS):
        most = tl.maximum(most, tl.max(size_of(_rows(g, order, b, n, begin, count, start, columns, DV, ROWS)), 0))
    unit = unit_of(most, unit_bits)
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


@triton.jit(do_not_specialize=["n", "m", "record", "listed"])
def sort_rows(
    g, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied, tied_counts, busy, busy_counts,
    n, m, record, listed, DV, ROWS: tl.constexpr
):  # fmt: skip
    """A cloud for each program."""
    sort_cloud(g, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied, tied_counts, busy,
               busy_counts, tl.program_id(0).to(tl.int64), n, m, record, listed, DV, ROWS)  # fmt: skip


@triton.jit(do_not_specialize=["n", "m", "record", "units", "unit_bits", "masked", "causal", "each"])
def scatter_tied(
    g, largest, totals, q, k, mask, first, sizes, lanes, tiles, tied, tied_counts, n, m, record, units, unit_bits,
    masked, causal, each, DV
):  # fmt: skip
    """`each` programs a cloud."""
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    scatter_cloud(g, largest, totals, q, k, mask, first, sizes, lanes, tiles, tied, tied_counts,
                  (tl.program_id(0) // each).to(tl.int64), tl.program_id(0) % each, each, n, m, record, D, unit_bits,
                  masked, causal, DV)  # fmt: skip


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


@triton.jit(do_not_specialize=["n", "m", "record", "listed", "units", "unit_bits", "masked", "causal"])
def gradient_of_cloud(
    g, out, largest, totals, q, k, mask, first, sizes, lanes, tiles, flags, copies, starts, members, counts, begins,
    ranks, order, tied, tied_counts, busy, busy_counts, n, m, record, listed, units, unit_bits, masked, causal, DV,
    ROWS: tl.constexpr, KEYS: tl.constexpr
):  # fmt: skip
    """All of this for a small cloud, in one program."""
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    b = tl.program_id(0).to(tl.int64)
    sort_cloud(g, largest, totals, first, sizes, flags, copies, counts, begins, ranks, order, tied, tied_counts, busy,
               busy_counts, b, n, m, record, listed, DV, ROWS)  # fmt: skip
    tl.debug_barrier()
    scatter_cloud(g, largest, totals, q, k, mask, first, sizes, lanes, tiles, tied, tied_counts, b, 0, 1, n, m, record,
                  D, unit_bits, masked, causal, DV)  # fmt: skip
    tl.debug_barrier()
    flag = tl.load(flags + b * record, mask=listed != 0, other=0)
    several = tl.load(tied_counts + b)
    _busy(g, out, largest, totals, copies, starts, members, counts, begins, order, busy, tl.load(busy_counts + b), 0, 1,
          flag, several, b, n, m, record, unit_bits, DV, KEYS)  # fmt: skip
    for block in range(tl.cdiv(m, KEYS)):
        _quiet(g, out, largest, totals, copies, starts, members, counts, begins, order, block, flag, several, b, n, m,
               record, unit_bits, DV, KEYS)  # fmt: skip
