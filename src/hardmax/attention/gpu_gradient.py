"""Triton kernels that send gradients to the members of each set, with the same bits on
every run.

Rows are sorted by their key first. A key adds the gradients of its own rows in their
order. Rows with several distinct keys, the tied rows, come first: they add their share
to 64-bit integers, for which the order does not matter.
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import triton
import triton.language as tl

from hardmax.attention.gpu_exact import (
    BLOCK,
    compare,
    count_candidates,
    find_candidates,
    load_row,
    score_one,
)
from hardmax.attention.gpu_search import CHUNK

FEW: tl.constexpr = tl.constexpr(
    16
)  # rows of a key up to which its block of keys adds one row each at a time
ROWS: tl.constexpr = tl.constexpr(64)  # rows read at a time


@triton.jit
def _load_units(totals, part, m, columns, bits, DV):
    """Return the powers of two that the integers of columns count: the sum of n <
    2^bits gradients is below 2^62 units.

    A unit is infinite in a column with a gradient that is not finite.
    """
    most = tl.load(
        totals + (part * (m + 1) + m) * DV + columns, mask=columns < DV, other=0
    )
    unit = (((most >> 23) - 126 + bits - 61 + 1023) << 52).to(
        tl.float64, bitcast=True
    )  # most < 2^(exponent - 126)
    return tl.where(most < 255 << 23, unit, float("inf"))


@triton.jit
def _load_rows(g, b, n, i, there, columns, DV):
    at = g + (b * n + i)[:, None] * DV + columns[None, :]
    return tl.load(at, mask=there[:, None] & (columns < DV)[None, :], other=0.0).to(
        tl.float32
    )


@triton.jit
def _sum_rows(g, order, count, b, n, columns, DV):
    """Return the sum of the gradients of many rows of a key, in their order."""
    total = tl.zeros([CHUNK], tl.float64)
    for start in range(0, count, ROWS):
        index = start + tl.arange(0, ROWS)
        i = tl.load(order + index, mask=index < count, other=0)
        total += tl.sum(_load_rows(g, b, n, i, index < count, columns, DV), 0).to(
            tl.float64
        )
    return total


@triton.jit(do_not_specialize=["batch", "n", "m", "bits"])
def index_rows(g, totals, keys, begins, batch, n, m, bits, DV, KEYS: tl.constexpr):
    """Write the number of tied rows and where the rows of each key begin in the sorted
    `keys` of rows.

    Where rows are tied, also clear the (m,) rows of totals, and write to the row after
    them the bits of the largest |g| of each column, infinite for NaN. `batch` is the
    first batch element of `totals`; programs have KEYS keys of one.
    """
    blocks = tl.cdiv(m + 2, KEYS)
    block, part = tl.program_id(0) % blocks, (tl.program_id(0) // blocks).to(tl.int64)
    b = batch + part
    keys += b * n
    key = block * KEYS + tl.arange(0, KEYS) - 1
    low = tl.zeros([KEYS], tl.int32)
    high = tl.zeros([KEYS], tl.int32) + n
    for _ in range(bits):  # a binary search
        middle = (low + high) // 2
        less = tl.load(keys + middle, mask=low < high, other=m) < key
        low, high = tl.where(less, middle + 1, low), tl.where(less, high, middle)
    tl.store(begins + b * (m + 2) + key + 1, low, mask=key <= m)
    if tl.load(keys) < -1:
        for start in range(block * CHUNK, DV, blocks * CHUNK):
            columns = start + tl.arange(0, CHUNK)
            most = tl.zeros([ROWS, CHUNK], tl.float32)
            for top in range(0, n, ROWS):
                i = top + tl.arange(0, ROWS)
                x = tl.abs(_load_rows(g, b, n, i, i < n, columns, DV))
                most = tl.maximum(most, tl.where(x < float("inf"), x, float("inf")))
            bits_of_most = tl.max(most, 0).to(tl.int32, bitcast=True).to(tl.int64)
            tl.store(
                totals + (part * (m + 1) + m) * DV + columns,
                bits_of_most,
                mask=columns < DV,
            )
        totals += (part * (m + 1) + block * KEYS) * DV
        end = tl.minimum(m - block * KEYS, KEYS) * DV
        for start in range(0, end, KEYS):
            place = start + tl.arange(0, KEYS)
            tl.store(totals + place, tl.zeros([KEYS], tl.int64), mask=place < end)


@triton.jit(do_not_specialize=[
    "batch", "n", "m", "units", "each", "causal", "mask_rows", "record", "bits"
])  # fmt: skip
def scatter_ties(
    g, totals, q, k, mask, found, begins, order, batch, n, m, units, each, causal, mask_rows, record, bits, DV,
    HAS_LIST: tl.constexpr
):  # fmt: skip
    """Add the gradient of each tied row, divided by the size of its set, to its keys;
    `each` programs per element.
    """
    D = units * (128 // q.dtype.element_ty.primitive_bitwidth)
    part = (tl.program_id(0) // each).to(tl.int64)
    b = batch + part
    for slot in range(tl.program_id(0) % each, tl.load(begins + b * (m + 2)), each):
        i = tl.load(order + b * n + slot).to(tl.int32)
        row = b * n + i
        lanes, pair, amount, limit, listed = load_row(
            found, b, i, n, m, causal, record, HAS_LIST
        )
        pivot = -2 - tl.load(found + b * record + i)
        size = tl.load(found + b * record + n + i).to(tl.float64)
        pivot_score, pivot_error = score_one(q, k, row, b * m + pivot, D)
        for start in range(0, count_candidates(amount, lanes, pair), BLOCK):
            keys, real = find_candidates(found, mask, b, i, n, m, lanes, pair, amount, limit, listed, start, mask_rows,
                                         record)  # fmt: skip
            sign, _score, _error = compare(
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
            for begin in range(0, DV, CHUNK):
                columns = begin + tl.arange(0, CHUNK)
                unit = _load_units(totals, part, m, columns, bits, DV)
                x = tl.load(g + row * DV + columns, mask=columns < DV, other=0.0).to(
                    tl.float64
                )
                number = (x / size * (1.0 / unit)).to(tl.int64)[None, :] + tl.zeros(
                    [BLOCK, 1], tl.int64
                )
                at = totals + (part * (m + 1) + keys[:, None]) * DV + columns[None, :]
                tl.atomic_add(
                    at,
                    number,
                    mask=(sign == 0)[:, None] & (columns < DV)[None, :],
                    sem="relaxed",
                )


@triton.jit(do_not_specialize=["batch", "n", "m", "record", "bits"])
def collect(
    g, out, totals, found, begins, order, batch, n, m, record, bits, DV, KEYS: tl.constexpr
):  # fmt: skip
    """Write the gradients of KEYS keys per program: the sums of their rows, and the
    shares of tied rows.
    """
    blocks = tl.cdiv(m, KEYS)
    part = (tl.program_id(0) // blocks).to(tl.int64)
    b = batch + part
    key = (tl.program_id(0) % blocks) * KEYS + tl.arange(0, KEYS)
    begins += b * (m + 2)
    order += b * n
    begin = tl.load(begins + key + 1, mask=key < m, other=0)
    count = tl.load(begins + key + 2, mask=key < m, other=0) - begin
    few = tl.where(count > FEW, 0, count)
    lowest = tl.load(order + begin, mask=count > 0, other=0)
    size = tl.load(found + b * record + n + lowest, mask=count > 0, other=1).to(
        tl.float32
    )  # of all rows of a key
    for start in range(0, DV, CHUNK):
        columns = start + tl.arange(0, CHUNK)
        total = tl.zeros([KEYS, CHUNK], tl.float32)
        for index in range(0, tl.max(few, 0), 4):
            for step in tl.static_range(4):
                i = tl.load(
                    order + begin + index + step, mask=index + step < few, other=0
                )
                total += _load_rows(g, b, n, i, index + step < few, columns, DV)
        if tl.max(count, 0) > FEW:
            for place in range(KEYS):
                this = tl.arange(0, KEYS) == place
                first, rows = (
                    tl.sum(tl.where(this, begin, 0), 0),
                    tl.sum(tl.where(this, count, 0), 0),
                )
                if rows > FEW:
                    sums = _sum_rows(g, order + first, rows, b, n, columns, DV)
                    total = tl.where(this[:, None], sums.to(tl.float32)[None, :], total)
        total /= size[:, None]
        inside = (key < m)[:, None] & (columns < DV)[None, :]
        if tl.load(begins) > 0:
            unit = _load_units(totals, part, m, columns, bits, DV)[None, :]
            at = totals + (part * (m + 1) + key[:, None]) * DV + columns[None, :]
            share = tl.load(at, mask=inside, other=0).to(tl.float64) * unit
            total = (
                total.to(tl.float64)
                + tl.where(unit < float("inf"), share, float("nan"))
            ).to(tl.float32)
        tl.store(
            out + (b * m + key[:, None]) * DV + columns[None, :],
            total.to(out.dtype.element_ty),
            mask=inside,
        )


@triton.jit(do_not_specialize=["n", "m", "record"])
def copy_to_duplicates(out, found, n, m, record, DV):
    """Copy the gradient of each representative to its duplicates, ROWS keys per
    program.
    """
    blocks = tl.cdiv(m, ROWS)
    b = (tl.program_id(0) // blocks).to(tl.int64)
    reps = found + b * record + 4 * n
    if tl.load(reps + 2 * m) >= 0:
        key = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
        rep = tl.load(reps + key, mask=key < m, other=m)
        for start in range(0, DV, CHUNK):
            columns = start + tl.arange(0, CHUNK)
            inside = ((rep < m) & (rep != key))[:, None] & (columns < DV)[None, :]
            x = tl.load(
                out + (b * m + rep[:, None]) * DV + columns[None, :],
                mask=inside,
                other=0.0,
            )
            tl.store(
                out + (b * m + key[:, None]) * DV + columns[None, :], x, mask=inside
            )
